//! What a recording was billed, request by request, and what it tells of each.

use crate::audit::{Account, Signs};
use crate::session::{Facts, Marks, Session, Step};
use crate::usage::Usage;

/// Short life of a cache entry, in milliseconds (docs/sources.md A4).
pub(super) const SHORT_LIFE_MS: i64 = 5 * 60 * 1_000;
/// Long life.
const LONG_LIFE_MS: i64 = 60 * 60 * 1_000;
/// UTF-16 units per output token above which a count cannot be that of all that was said.
const UNITS_PER_TOKEN_MAX: u64 = 5;

/// Who opened the turn that a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The user typed.
    Typed,
    /// A background task reported.
    Notified,
}

/// One request with usage.
#[derive(Debug, Clone)]
pub(super) struct Request<'s> {
    /// Number of its step, from 1.
    pub number: u32,
    /// What was billed.
    pub usage: Usage,
    /// Start, Unix epoch in milliseconds.
    pub start_ms: Option<i64>,
    /// Model, as recorded.
    pub model: &'s str,
    /// What the recording tells of it and of requests without usage right before it.
    pub facts: Facts,
    /// Who opened the turn, if one begins.
    pub turn: Option<Turn>,
    /// What the recording shows since the request before.
    pub signs: Signs,
    /// Its output tokens count all that was said.
    pub output_is_whole: bool,
}

impl Request<'_> {
    /// Tokens of its prompt that are in the cache once it is answered.
    pub fn left_tokens(&self) -> u64 {
        self.usage.cache_read_tokens + self.usage.cache_write_tokens()
    }

    /// Longest life that it bought; `None` if it wrote nothing.
    pub fn bought_ms(&self) -> Option<i64> {
        match (self.usage.cache_write_1h_tokens, self.usage.cache_write_5m_tokens) {
            (0, 0) => None,
            (0, _) => Some(SHORT_LIFE_MS),
            _ => Some(LONG_LIFE_MS),
        }
    }
}

/// Requests with a prompt, in order: the rows of [`crate::audit::series`] of the same `account`. What is told of
/// a request without usage is told of the next one with it.
pub(super) fn requests<'s>(session: &'s Session, account: &'s Account) -> Vec<Request<'s>> {
    let mut found: Vec<Request<'_>> = Vec::new();
    let mut pending = Pending::default();
    for ((number, step), recorded) in (1_u32..).zip(&session.steps).zip(&account.requests) {
        pending.step(step, recorded.signs);
        let Some(usage) = step.recorded.filter(|usage| usage.prompt_tokens() > 0) else { continue };
        let Pending { signs, facts, turn } = std::mem::take(&mut pending);
        found.push(Request {
            number,
            usage,
            start_ms: step.start_ms,
            model: account.models.get(recorded.model as usize).map_or("", String::as_str),
            facts,
            turn,
            signs,
            output_is_whole: output_is_whole(session, step, &usage),
        });
    }
    found
}

#[derive(Default)]
struct Pending {
    signs: Signs,
    facts: Facts,
    turn: Option<Turn>,
}

impl Pending {
    fn step(&mut self, step: &Step, signs: Signs) {
        self.signs = self.signs.with(signs);
        self.facts = Facts {
            marks: self.facts.marks.with(step.facts.marks),
            loaded_tools: self.facts.loaded_tools.saturating_add(step.facts.loaded_tools),
            away_at_ms: self.facts.away_at_ms.max(step.facts.away_at_ms),
        };
        if step.facts.marks.has(Marks::NOTIFICATION) {
            self.turn = Some(Turn::Notified);
        } else if step.human_turn {
            self.turn = self.turn.or(Some(Turn::Typed));
        }
    }
}

/// A final count is; a count of the stream's start is too small for what was said.
fn output_is_whole(session: &Session, step: &Step, usage: &Usage) -> bool {
    let said = step.output.clone().map(|i| u64::from(session.blocks.utf16[i as usize]));
    step.facts.marks.has(Marks::FINAL_OUTPUT)
        || usage.output_tokens.saturating_mul(UNITS_PER_TOKEN_MAX) >= said.sum::<u64>().max(1)
}
