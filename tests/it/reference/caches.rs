//! The reference's caches without Anthropic's breakpoints: ends of messages, prefixes on a grid, persisted units.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ctxsim::provider::{Marker, Request, SentBlock, SentKind, Ttl};
use ctxsim::usage::Usage;

use super::naive::{Cache, Entry, Fault, Key, Naive, Prompt, Rules, life_ms};

/// One position of a prompt that was served.
#[derive(Debug, Clone, Copy)]
struct State {
    expires_ms: i64,
    readable_ms: i64,
    unit: bool,
}

/// Every position of every prompt that was served, by everything up to it.
#[derive(Default)]
pub struct Held {
    states: BTreeMap<u64, State>,
    /// The request served last: its keys and its number of blocks.
    pub served: Option<(Vec<Key>, usize)>,
}

/// Name of each position: a hash of all keys up to it.
fn names(keys: &[Key]) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    let name = |key: &Key| {
        key.hash(&mut hasher);
        hasher.clone().finish()
    };
    keys.iter().map(name).collect()
}

impl Naive {
    /// The blocks of the model behind the request served last are held like its end.
    pub fn hold_answer(&mut self, rules: &Rules, request: &Request<'_>, prompt: &Prompt) {
        let covers = match rules.cache {
            Cache::Prefix { answers, .. } => answers,
            Cache::Units { .. } => true,
            Cache::Breakpoints | Cache::MessageEnds { .. } => false,
        };
        let Some((keys, end)) = self.held.served.clone() else { return };
        if !covers || self.is(Fault::AnswersNotCovered) || request.blocks.len() <= end {
            return;
        }
        let before = prompt.at.iter().filter(|&&i| i < end).count();
        if prompt.keys[..before] != keys[..] {
            return;
        }
        let answer = request.blocks[end..].iter().take_while(|b| b.kind.is_assistant()).count();
        let names = names(&prompt.keys);
        let Some(base) = before.checked_sub(1).and_then(|p| self.held.states.get(&names[p]).copied()) else {
            return;
        };
        if request.at_ms >= base.expires_ms {
            return;
        }
        let answered = prompt.at.iter().filter(|&&i| i < end + answer).count();
        for (p, name) in names.iter().enumerate().take(answered).skip(before) {
            let state = self.held.states.entry(*name).or_insert(State { unit: false, ..base });
            if request.at_ms >= state.expires_ms {
                *state = State { unit: false, ..base };
            }
            state.unit |= p + 1 == answered;
        }
    }

    pub fn prefixes(&mut self, rules: &Rules, request: &Request<'_>, prompt: &Prompt, total: u64) -> Usage {
        let at = request.at_ms;
        let names = names(&prompt.keys);
        let state = |p: usize| self.held.states.get(&names[p]).filter(|s| at < s.expires_ms);
        let known = (0..names.len()).take_while(|&p| state(p).is_some()).count();
        let shared = (0..known).take_while(|&p| state(p).is_some_and(|s| at >= s.readable_ms)).count();
        let tokens = |count: usize| if count == 0 { 0 } else { prompt.tokens[count - 1] };
        let floor = |n: u64, step: u64, offset: u64| {
            let points = (0..).map(|k: u64| (k * step).saturating_sub(offset)).take_while(|x| *x <= n);
            let down = points.last().unwrap_or(0);
            if self.is(Fault::GridRoundsUp) && down < n { down + step } else { down }
        };
        let mut read = match rules.cache {
            Cache::Prefix { step, offset, recomputes_last, most: limit, .. } => {
                let limit = if self.is(Fault::LimitIgnored) { u64::MAX } else { limit };
                let read = floor(tokens(shared).min(limit), step, offset);
                let most = floor(total.saturating_sub(1), step, offset);
                if recomputes_last { read.min(most) } else { read }
            }
            Cache::Units { interval } => {
                let is_unit =
                    |p: &usize| self.is(Fault::AnyPrefixIsAUnit) || state(*p).is_some_and(|s| s.unit);
                let unit = (0..shared).rev().find(is_unit).map_or(0, |p| tokens(p + 1));
                let steps = tokens(shared).checked_div(interval).unwrap_or(0);
                unit.max(steps * interval)
            }
            Cache::Breakpoints | Cache::MessageEnds { .. } => 0,
        };
        read = read.min(total);
        if read < rules.minimum_tokens {
            read = 0;
        }
        let new = State {
            expires_ms: at + life_ms(Ttl::Short),
            readable_ms: at + i64::from(request.ttft_ms),
            unit: false,
        };
        let refreshes = !self.is(Fault::PrefixNotRefreshed);
        for name in &names {
            let state = self.held.states.entry(*name).or_insert(new);
            if at >= state.expires_ms {
                *state = new;
            }
            if refreshes {
                state.expires_ms = new.expires_ms;
            }
            state.readable_ms = state.readable_ms.min(new.readable_ms);
        }
        if matches!(rules.cache, Cache::Units { .. }) {
            let persisted = if self.is(Fault::SharedPrefixNotPersisted) { 0 } else { known };
            for count in [persisted, names.len()].into_iter().filter(|&count| count > 0) {
                if let Some(state) = self.held.states.get_mut(&names[count - 1]) {
                    state.unit = true;
                }
            }
        }
        Usage { cache_read_tokens: read, uncached_tokens: total - read, ..Usage::default() }
    }

    pub fn message_ends(
        &mut self,
        rules: &Rules,
        request: &Request<'_>,
        prompt: &Prompt,
        total: u64,
    ) -> Usage {
        let Cache::MessageEnds { writes, endings, first, last } = rules.cache else { panic!() };
        let at = request.at_ms;
        let explicit = request.markers;
        let implicit = request.automatic.is_some() || explicit.is_empty();
        let mut ends = endings_of(request.blocks, self.is(Fault::LengthenedMessageHits));
        if !implicit {
            ends.clear();
        }
        let seen = match self.fault {
            Fault::EndingsOneLess => endings,
            Fault::EndingsOneMore => endings + 2,
            _ => endings + 1,
        };
        let mut places: Vec<usize> = ends.iter().rev().take(seen).copied().collect();
        places.extend(explicit.iter().take(first).map(|m| m.after as usize));
        places.extend(explicit.iter().rev().take(last).map(|m| m.after as usize));
        let position = |i: usize| prompt.at.iter().position(|&at| at == i);
        let usable = |p: &usize| {
            let entry = self.entries.iter().find(|e| e.prefix == prompt.keys[..=*p]);
            entry.is_some_and(|e| at < e.expires_ms && at >= e.readable_ms)
        };
        let hit = places.iter().filter_map(|&i| position(i)).filter(usable).max();
        let read = hit.map_or(0, |p| prompt.tokens[p]);
        if let Some(p) = hit
            && let Some(entry) = self.entries.iter_mut().find(|e| e.prefix == prompt.keys[..=p])
        {
            entry.expires_ms = at + life_ms(entry.ttl);
        }
        let own = ends.last().filter(|_| !self.is(Fault::ImplicitNotWritten)).copied();
        let own = own.map(|i| Marker { after: i as u32, ttl: request.automatic.unwrap_or(Ttl::Short) });
        let room = writes - usize::from(own.is_some());
        let mut written: Vec<Marker> = explicit.iter().rev().take(room).copied().collect();
        match (own, written.iter_mut().find(|m| own.is_some_and(|own| own.after == m.after))) {
            (Some(own), Some(same)) => same.ttl = same.ttl.max(own.ttl),
            (Some(own), None) => written.push(own),
            (None, _) => {}
        }
        written.sort_by_key(|m| m.after);
        let (mut long_to, mut written_to) = (read, read);
        for marker in written {
            let Some(p) = position(marker.after as usize) else { continue };
            if prompt.tokens[p] < rules.minimum_tokens || hit.is_some_and(|h| p <= h) {
                continue;
            }
            let (ttl, readable_ms) = (marker.ttl, at + i64::from(request.ttft_ms));
            let prefix = prompt.keys[..=p].to_vec();
            self.write(Entry { prefix, ttl, expires_ms: at + life_ms(ttl), readable_ms }, at);
            written_to = prompt.tokens[p];
            if ttl == Ttl::Long {
                long_to = prompt.tokens[p];
            }
        }
        Usage {
            uncached_tokens: total - written_to,
            cache_read_tokens: read,
            cache_write_5m_tokens: written_to - long_to,
            cache_write_1h_tokens: long_to - read,
            output_tokens: 0,
        }
    }
}

/// Last blocks of the messages that are not the model's: of the developer's block, of each run of results, of each
/// message of the user.
fn endings_of(blocks: &[SentBlock], every_block: bool) -> Vec<usize> {
    let group = |b: &SentBlock| (b.kind.is_prefix(), b.message, b.kind == SentKind::ToolResult);
    let mut ends = Vec::new();
    for (i, block) in blocks.iter().enumerate().filter(|(_, b)| !b.kind.is_assistant()) {
        let next = blocks.get(i + 1).filter(|next| !next.kind.is_assistant());
        // A result behind other content of one message does not end what is before it.
        let goes_on = next.is_some_and(|next| {
            group(next) == group(block)
                || (block.kind != SentKind::ToolResult
                    && (group(next).0, group(next).1) == (group(block).0, group(block).1))
        });
        if !goes_on || every_block {
            ends.push(i);
        }
    }
    ends
}
