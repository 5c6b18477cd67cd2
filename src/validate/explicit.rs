//! Closed loop where the client chose what is cached.
//!
//! Without any rule a request reads what the one before it read and wrote: its last breakpoint lies at the end
//! of that prompt. The [`rules`](super::rules) say when that is not so. A rule that has cost this recording
//! more pairs than it won is silent until it would have won them back, so that a habit of one client does little
//! harm to the recordings of another.
//!
//! # Divergence from the real API
//!
//! An entry is taken to be readable by the next request. Providers make it so a moment later, and agents that
//! answer within a second or two find the one before instead.

use super::Guess;
use super::account::{Request, SHORT_LIFE_MS, Turn};
use super::causes;
use super::rules::{Case, Client, Rule};
use crate::audit::Signs;
use crate::session::Marks;
use crate::usage::Usage;

/// A read below this share of what was left, in percent, fell back to what conversations share.
const FALL_PERCENT: u64 = 70;
/// More than this is no tail of an answer.
const SIDE_TAIL_MAX: u64 = 20;

/// What a recording has shown so far.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Read of the first request.
    pub first_read_tokens: u64,
    /// Last read that fell back.
    pub floor_tokens: Option<u64>,
    /// Last read at a compaction.
    pub compaction_floor_tokens: Option<u64>,
    /// At the last turn without a summary for an absent user, more was read than had been left: by kind of
    /// turn.
    side_request_seen: [bool; 2],
    /// Tokens of an answer that a side request left uncached, as last seen.
    pub side_tail_tokens: Option<u64>,
    /// Life that was bought last.
    pub life_ms: Option<i64>,
}

impl Past {
    /// Whether the last turn of this kind showed a side request.
    pub fn side_request_seen(&self, turn: Turn) -> bool {
        self.side_request_seen[turn as usize]
    }

    fn start(first: &Request<'_>) -> Past {
        Past {
            first_read_tokens: first.usage.cache_read_tokens,
            life_ms: first.bought_ms(),
            ..Past::default()
        }
    }

    /// Takes in what the later request of a pair was billed.
    fn see(&mut self, before: &Request<'_>, now: &Request<'_>) {
        let (read, left) = (now.usage.cache_read_tokens, before.left_tokens());
        if let Some(turn) = now.turn.filter(|_| !now.signs.any(Signs::COMPACTION)) {
            let seen = causes::is_side_request(before, now);
            if !now.facts.marks.has(Marks::AWAY_SUMMARY) {
                self.side_request_seen[turn as usize] = seen;
            }
            if seen && before.output_is_whole {
                let whole = before.usage.prompt_tokens() + before.usage.output_tokens;
                self.side_tail_tokens = whole.checked_sub(read).filter(|tail| *tail <= SIDE_TAIL_MAX);
            }
        }
        if read * 100 < left * FALL_PERCENT {
            self.floor_tokens = Some(read);
            if now.signs.any(Signs::COMPACTION) {
                self.compaction_floor_tokens = Some(read);
            }
        }
        self.life_ms = now.bought_ms().or(self.life_ms);
    }
}

/// Predicts every request but the first.
pub(super) fn predict(requests: &[Request<'_>], client: &Client, rules: &[&'static Rule]) -> Vec<Guess> {
    let Some(first) = requests.first() else { return Vec::new() };
    let mut past = Past::start(first);
    let mut balance = vec![0_i64; rules.len()];
    let pairs = requests.windows(2).map(|two| {
        let (before, now) = (&two[0], &two[1]);
        let (read, plain) = (now.usage.cache_read_tokens, before.left_tokens());
        let most = now.usage.prompt_tokens() - now.usage.uncached_tokens;
        let case = Case { before, now, past: &past, client };
        let spoken =
            rules.iter().enumerate().find_map(|(i, rule)| Some((i, (rule.predict)(&case)?.min(most))));
        let heard = spoken.filter(|(i, _)| balance[*i] >= 0);
        let predicted = heard.map_or(plain, |(_, tokens)| tokens).min(most);
        if let Some((i, tokens)) = spoken {
            balance[i] += i64::from(tokens == read) - i64::from(plain == read);
        }
        let usage = usage_of(now, predicted, &past);
        past.see(before, now);
        Guess { usage, rule: heard.map(|(i, _)| rules[i].id) }
    });
    pairs.collect()
}

/// The usage of a request that reads so much: the rest of what is not plain input is written, for the lives
/// that it bought in the proportion it bought them.
fn usage_of(now: &Request<'_>, read_tokens: u64, past: &Past) -> Usage {
    let recorded = &now.usage;
    let written = recorded.prompt_tokens() - recorded.uncached_tokens - read_tokens;
    let is_long = now.bought_ms().or(past.life_ms) > Some(SHORT_LIFE_MS);
    let short = recorded.cache_write_5m_tokens.min(written);
    let short = match (recorded.cache_write_5m_tokens, recorded.cache_write_1h_tokens) {
        (_, 0) if is_long => 0,
        (_, 0) => written,
        _ => short,
    };
    Usage {
        uncached_tokens: recorded.uncached_tokens,
        cache_read_tokens: read_tokens,
        cache_write_5m_tokens: short,
        cache_write_1h_tokens: written - short,
        output_tokens: recorded.output_tokens,
    }
}
