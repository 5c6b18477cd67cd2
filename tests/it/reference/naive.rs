//! The naive reference provider: recomputes every prefix of every request from scratch and scans a plain
//! list of entries. It shares nothing with the engine but the types that go in and come out.

use ctxsim::provider::{
    ChangedPart, Marker, NO_LINK, PrefixMismatch, RejectionKind, Request, SentBlock, SentKind, Ttl,
};
use ctxsim::usage::Usage;

use super::caches::Held;

/// A deliberate mistake, to show that the generated sessions would find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    LookbackOneLess,
    LookbackOneMore,
    ExpiryOneEarly,
    ExpiryOneLate,
    RefreshOff,
    RefreshMatchedOnly,
    RefreshAll,
    WriteBelowMinimum,
    MinimumExclusive,
    PredecessorIgnored,
    ModelDropsAreNoPredecessors,
    ThinkingInPrefix,
    ToolsOrdered,
    MixedTtlOrder,
    DroppedLosesPosition,
    DroppedIsBilled,
    DroppedHashedAsKept,
    LifeFromResponseEnd,
    ReadableAtOnce,
    RejectedStillWrites,
    ParametersIgnored,
    PlaceholderBreaksBinding,
    DeferredToolsCount,
    StrippedKeepsPosition,
    FiveMarkers,
    EndingsOneLess,
    EndingsOneMore,
    LengthenedMessageHits,
    ImplicitNotWritten,
    GridRoundsUp,
    AnswersNotCovered,
    SharedPrefixNotPersisted,
    PrefixNotRefreshed,
    AnyPrefixIsAUnit,
    LimitIgnored,
}

/// The numbers of a model.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Tells models apart: the other one of a session cannot read thinking of model 0.
    pub model: u64,
    pub minimum_tokens: u64,
    pub window_tokens: u64,
    pub checks_prefix: bool,
    pub unset_is_error: bool,
    pub strips_old_thinking: bool,
    pub cache: Cache,
}

/// Kind of cache of a model.
#[derive(Debug, Clone, Copy)]
pub enum Cache {
    Breakpoints,
    MessageEnds { writes: usize, endings: usize, first: usize, last: usize },
    Prefix { step: u64, offset: u64, answers: bool, recomputes_last: bool, most: u64 },
    Units { interval: u64 },
}

/// What came of a request: usage, dropped blocks and allowed mismatches, or why not and where.
pub type Outcome = Result<(Usage, Vec<u32>, u32), (RejectionKind, Option<u32>)>;

pub type Key = (u64, u64, u64);

pub struct Entry {
    pub prefix: Vec<Key>,
    pub ttl: Ttl,
    pub expires_ms: i64,
    pub readable_ms: i64,
}

#[derive(Clone, PartialEq)]
struct Place {
    system: Vec<u64>,
    tools: Vec<u64>,
    content: Vec<(SentKind, u64)>,
    predecessor: u32,
}

pub struct Naive {
    pub fault: Fault,
    pub entries: Vec<Entry>,
    /// What caches of prefixes hold.
    pub held: Held,
    thinking: Vec<(u32, u64, Place)>,
    served: Option<Place>,
}

/// A request as evaluated: per position its block, key and running tokens.
#[derive(Default)]
pub struct Prompt {
    pub at: Vec<usize>,
    pub keys: Vec<Key>,
    pub tokens: Vec<u64>,
    dropped: Vec<u32>,
    mismatches: u32,
    first_seen: Vec<(u32, u64, Place)>,
}

impl Naive {
    pub fn new(fault: Fault) -> Naive {
        Naive { fault, entries: Vec::new(), held: Held::default(), thinking: Vec::new(), served: None }
    }

    pub fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    pub fn send(&mut self, rules: &Rules, request: &Request<'_>, aside: bool) -> Outcome {
        let markers = match rules.cache {
            Cache::Breakpoints => self.markers(request),
            Cache::MessageEnds { .. } => marked_thinking(request).map_or(Ok(Vec::new()), Err),
            Cache::Prefix { .. } | Cache::Units { .. } => Ok(Vec::new()),
        };
        let markers = markers.map_err(|at| (RejectionKind::InvalidRequest, at))?;
        unpaired(request.blocks).map_err(|at| (RejectionKind::InvalidRequest, Some(at)))?;
        let (prompt, end) = self.evaluate(rules, request)?;
        let total = prompt.tokens.last().copied().unwrap_or(0) + u64::from(request.tail_tokens);
        let too_long = total > rules.window_tokens;
        if !aside {
            self.hold_answer(rules, request, &prompt);
        }
        if too_long && !self.is(Fault::RejectedStillWrites) {
            return Err(overflow(total, rules.window_tokens));
        }
        let usage = match rules.cache {
            Cache::Breakpoints => self.cache(rules, request, &prompt, &markers, total),
            Cache::MessageEnds { .. } => self.message_ends(rules, request, &prompt, total),
            Cache::Prefix { .. } | Cache::Units { .. } => self.prefixes(rules, request, &prompt, total),
        };
        if too_long {
            return Err(overflow(total, rules.window_tokens));
        }
        if !aside {
            self.held.served = Some((prompt.keys.clone(), request.blocks.len()));
            self.thinking.extend(prompt.first_seen);
            self.served = Some(end);
        }
        Ok((usage, prompt.dropped, prompt.mismatches))
    }

    /// The answer to the request just served.
    pub fn answered(&mut self, rules: &Rules, response: &[SentBlock]) {
        let Some(mut place) = self.served.clone() else { return };
        for block in response {
            if block.kind == SentKind::Thinking {
                self.thinking.retain(|(id, ..)| *id != block.link);
                self.thinking.push((block.link, rules.model, place.clone()));
                place.predecessor = block.link;
            } else {
                place.content.push((block.kind, block.hash));
            }
        }
    }

    fn markers(&self, request: &Request<'_>) -> Result<Vec<Marker>, Option<u32>> {
        let blocks = request.blocks;
        let mut markers = request.markers.to_vec();
        let most = if self.is(Fault::FiveMarkers) { 5 } else { 4 };
        if markers.len() + usize::from(request.automatic.is_some()) > most {
            return Err(markers.get(4).or(markers.last()).map(|m| m.after));
        }
        if let Some(wrong) = marked_thinking(request) {
            return Err(wrong);
        }
        if let Some(ttl) = request.automatic
            && let Some(last) = blocks.iter().rposition(|b| b.kind != SentKind::Thinking && !b.deferred)
        {
            match markers.iter().find(|m| m.after as usize == last) {
                Some(same) if same.ttl == ttl => {}
                Some(other) => return Err(Some(other.after)),
                None => markers.push(Marker { after: last as u32, ttl }),
            }
        }
        match markers.windows(2).find(|w| w[0].ttl == Ttl::Short && w[1].ttl == Ttl::Long) {
            Some(pair) => Err(Some(pair[1].after)),
            None => Ok(markers),
        }
    }

    fn evaluate(
        &self,
        rules: &Rules,
        request: &Request<'_>,
    ) -> Result<(Prompt, Place), (RejectionKind, Option<u32>)> {
        let blocks = request.blocks;
        let counted = |b: &&SentBlock| !b.deferred || self.is(Fault::DeferredToolsCount);
        let hashes = |kind| -> Vec<u64> {
            blocks.iter().filter(counted).filter(|b| b.kind == kind).map(|b| b.hash).collect()
        };
        let mut tools = hashes(SentKind::Tool);
        if !self.is(Fault::ToolsOrdered) {
            tools.sort_unstable();
        }
        let mut here =
            Place { system: hashes(SentKind::System), tools, content: Vec::new(), predecessor: NO_LINK };
        let turn =
            blocks.iter().rposition(|b| matches!(b.kind, SentKind::Text | SentKind::Image)).unwrap_or(0);
        let params = if self.is(Fault::ParametersIgnored) { 0 } else { request.params.messages_key };
        let mut prompt = Prompt::default();
        let mut tokens = 0;
        for (i, block) in blocks.iter().enumerate() {
            let thinking = block.kind == SentKind::Thinking;
            if block.deferred && !self.is(Fault::DeferredToolsCount) {
                continue;
            }
            let stripped = thinking && rules.strips_old_thinking && i < turn;
            if stripped && !self.is(Fault::StrippedKeepsPosition) {
                continue;
            }
            let mut dropped = false;
            if thinking && !stripped {
                dropped = self.check(rules, request, i, &mut here, &mut prompt)?;
                if self.is(Fault::ThinkingInPrefix) {
                    here.content.push((block.kind, block.hash));
                }
            } else if !thinking && !block.kind.is_prefix() {
                let seen = block.placeholder && self.is(Fault::PlaceholderBreaksBinding);
                here.content.push((block.kind, if seen { 0 } else { block.hash }));
            }
            if dropped {
                prompt.dropped.push(i as u32);
                if self.is(Fault::DroppedLosesPosition) {
                    continue;
                }
            }
            if !stripped && (!dropped || self.is(Fault::DroppedIsBilled)) {
                tokens += u64::from(block.tokens);
            }
            let content = if block.placeholder { u64::from(block.tokens) } else { block.hash };
            let mark =
                u64::from(dropped && !self.is(Fault::DroppedHashedAsKept)) + 2 * u64::from(block.placeholder);
            let scope = if block.kind.is_prefix() { rules.model } else { rules.model + 1_000 * (params + 1) };
            prompt.at.push(i);
            prompt.keys.push((scope, content, mark * 100 + block.kind as u64));
            prompt.tokens.push(tokens);
        }
        Ok((prompt, here))
    }

    /// Checks one thinking block: whether it is dropped, or the request refused.
    fn check(
        &self,
        rules: &Rules,
        request: &Request<'_>,
        i: usize,
        here: &mut Place,
        prompt: &mut Prompt,
    ) -> Result<bool, (RejectionKind, Option<u32>)> {
        let id = request.blocks[i].link;
        let Some((_, producer, made)) = self.thinking.iter().find(|(known, ..)| *known == id) else {
            prompt.first_seen.push((id, rules.model, here.clone()));
            here.predecessor = id;
            return Ok(false);
        };
        if *producer != rules.model && rules.model != 0 {
            if !self.is(Fault::ModelDropsAreNoPredecessors) {
                here.predecessor = id;
            }
            return Ok(true);
        }
        let changed = if !rules.checks_prefix {
            None
        } else if made.system != here.system {
            Some(ChangedPart::System)
        } else if made.tools != here.tools {
            Some(ChangedPart::Tools)
        } else if made.content != here.content {
            Some(ChangedPart::Messages)
        } else if here.predecessor != NO_LINK
            && here.predecessor != made.predecessor
            && !self.is(Fault::PredecessorIgnored)
        {
            Some(ChangedPart::Thinking)
        } else {
            None
        };
        if let Some(changed) = changed {
            match request.params.prefix_mismatch {
                Some(PrefixMismatch::DropBlock) => return Ok(true),
                None if !rules.unset_is_error => prompt.mismatches += 1,
                _ => return Err((RejectionKind::Binding { changed }, Some(i as u32))),
            }
        }
        here.predecessor = id;
        Ok(false)
    }

    fn lookback(&self) -> usize {
        match self.fault {
            Fault::LookbackOneLess => 19,
            Fault::LookbackOneMore => 21,
            _ => 20,
        }
    }

    fn cache(
        &mut self,
        rules: &Rules,
        request: &Request<'_>,
        prompt: &Prompt,
        markers: &[Marker],
        total: u64,
    ) -> Usage {
        let at = request.at_ms;
        let lookback = self.lookback();
        let slack = match self.fault {
            Fault::ExpiryOneEarly => -1,
            Fault::ExpiryOneLate => 1,
            _ => 0,
        };
        let at_once = self.is(Fault::ReadableAtOnce);
        let usable = |e: &Entry| at < e.expires_ms + slack && (at_once || at >= e.readable_ms);
        let place = |m: &Marker| prompt.at.iter().position(|&i| i == m.after as usize);
        let find = |p: usize| self.entries.iter().position(|e| usable(e) && e.prefix == prompt.keys[..=p]);
        let seen = markers.iter().rev().filter_map(place).flat_map(|p| (0..=p).rev().take(lookback));
        let hit = seen.filter_map(|p| find(p).map(|_| p)).next();
        let read = hit.map_or(0, |p| prompt.tokens[p]);
        let mut refreshed: Vec<usize> = hit.into_iter().collect();
        match self.fault {
            Fault::RefreshAll => refreshed.extend(0..hit.unwrap_or(0)),
            Fault::RefreshMatchedOnly => {}
            Fault::RefreshOff => refreshed.clear(),
            _ => refreshed.extend(markers.iter().filter_map(place).filter(|&p| hit.is_some_and(|h| p < h))),
        }
        for p in refreshed {
            if let Some(found) = find_again(&self.entries, &prompt.keys[..=p], at, slack, at_once) {
                self.entries[found].expires_ms = at + life_ms(self.entries[found].ttl);
            }
        }
        let (mut long_to, mut written_to) = (read, read);
        for marker in markers {
            let Some(p) = place(marker) else { continue };
            let short = match self.fault {
                Fault::WriteBelowMinimum => false,
                Fault::MinimumExclusive => prompt.tokens[p] <= rules.minimum_tokens,
                _ => prompt.tokens[p] < rules.minimum_tokens,
            };
            if short || hit.is_some_and(|h| p <= h) {
                continue;
            }
            let ends = if self.is(Fault::LifeFromResponseEnd) { i64::from(request.ttft_ms) } else { 0 };
            let new = Entry {
                prefix: prompt.keys[..=p].to_vec(),
                ttl: marker.ttl,
                expires_ms: at + ends + life_ms(marker.ttl),
                readable_ms: at + i64::from(request.ttft_ms),
            };
            self.write(new, at);
            written_to = prompt.tokens[p];
            let counts_as_long = if self.is(Fault::MixedTtlOrder) { Ttl::Short } else { Ttl::Long };
            if marker.ttl == counts_as_long {
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

    /// Two writers of one prefix make one entry, with the longer life and readable with the first answer.
    pub fn write(&mut self, mut new: Entry, at_ms: i64) {
        if let Some(old) = self.entries.iter().position(|e| e.prefix == new.prefix) {
            let old = self.entries.remove(old);
            if at_ms < old.expires_ms {
                new.ttl = new.ttl.max(old.ttl);
                new.expires_ms = new.expires_ms.max(old.expires_ms);
                new.readable_ms = new.readable_ms.min(old.readable_ms);
            }
        }
        self.entries.push(new);
    }
}

fn find_again(entries: &[Entry], prefix: &[Key], at_ms: i64, slack: i64, at_once: bool) -> Option<usize> {
    let usable = |e: &Entry| at_ms < e.expires_ms + slack && (at_once || at_ms >= e.readable_ms);
    entries.iter().position(|e| e.prefix == prefix && usable(e))
}

pub fn life_ms(ttl: Ttl) -> i64 {
    if ttl == Ttl::Long { 3_600_000 } else { 300_000 }
}

/// The first marker on thinking.
fn marked_thinking(request: &Request<'_>) -> Option<Option<u32>> {
    let wrong = request.markers.iter().find(|m| request.blocks[m.after as usize].kind == SentKind::Thinking);
    wrong.map(|m| Some(m.after))
}

fn overflow(total: u64, window: u64) -> (RejectionKind, Option<u32>) {
    (RejectionKind::Overflow { input_tokens: Some(total), limit_tokens: Some(window) }, None)
}

/// The first call or result without its partner.
fn unpaired(blocks: &[SentBlock]) -> Result<(), u32> {
    let turns: Vec<&[SentBlock]> =
        blocks.chunk_by(|a, b| a.kind.is_assistant() == b.kind.is_assistant()).collect();
    let mut start = 0;
    let mut calls: Vec<(u32, u32)> = Vec::new();
    for turn in turns {
        let ids = |kind: SentKind| -> Vec<(u32, u32)> {
            let of_kind = turn.iter().enumerate().filter(|(_, b)| b.kind == kind);
            of_kind.map(|(i, b)| (b.link, (start + i) as u32)).collect()
        };
        if turn[0].kind.is_assistant() {
            calls = ids(SentKind::ToolUse);
            if start + turn.len() == blocks.len()
                && let Some((_, at)) = calls.first()
            {
                return Err(*at);
            }
        } else {
            for (id, at) in ids(SentKind::ToolResult) {
                match calls.iter().position(|(call, _)| *call == id) {
                    Some(answered) => drop(calls.remove(answered)),
                    None => return Err(at),
                }
            }
            if let Some((_, at)) = calls.first() {
                return Err(*at);
            }
        }
        start += turn.len();
    }
    Ok(())
}
