//! Why a request did not read what the one before it left, named on evidence other than the read itself.

use super::account::{Happening, Request};
use super::explicit::Past;
use crate::cause::Cause;
use crate::session::Marks;
use crate::tokens::{ThinkingRetention, thinking_retention};

/// Name of a read above what was left: a request that the recording does not hold extended the entry.
pub const SIDE_REQUEST: &str = "side_request";

/// A read above this share of what was left, in percent, is no expiry: most of the entry was there.
const ALIVE_PERCENT: u64 = 90;
/// No answer is longer.
const LARGEST_ANSWER_TOKENS: u64 = 64_000;

/// Causes that a marker between two requests names, in order of precedence (docs/decisions.md 27).
const MARKERS: &[(Happening, Cause)] = &[
    (Happening::Compacted, Cause::PrefixCompaction),
    (Happening::ResultsCleared, Cause::PrefixCompaction),
    (Happening::ToolsChanged, Cause::PrefixTools),
    (Happening::SystemChanged, Cause::PrefixSystem),
    (Happening::ModelChanged, Cause::PrefixModel),
    (Happening::ParametersChanged, Cause::PrefixParameters),
    (Happening::ImageAdded, Cause::PrefixImage),
    (Happening::Resumed, Cause::PrefixResume),
    (Happening::Rewound, Cause::PrefixRewind),
];

/// The cause of a read that is not `before.left_tokens()`.
pub(super) fn name(before: &Request<'_>, now: &Request<'_>, past: &Past) -> &'static str {
    let (read, left) = (now.usage.cache_read_tokens, before.left_tokens());
    if read > left {
        return if is_side_request(before, now) { SIDE_REQUEST } else { Cause::Unknown.name() };
    }
    if is_expired(before, now, past) && read * 100 < left * ALIVE_PERCENT {
        return Cause::TtlExpired.name();
    }
    if let Some(cause) = by_marker(now) {
        return cause.name();
    }
    let grew = now.usage.prompt_tokens() > before.usage.prompt_tokens();
    let strips = thinking_retention(now.model) == ThinkingRetention::CurrentTurn;
    let cause = match (now.turn.is_some() && strips, grew) {
        // The prompt shrank although something was said: earlier thinking left it.
        (true, false) => Cause::PrefixThinking,
        (_, true) if is_unread_entry(before, now, past) => Cause::NotYetReadable,
        // Nothing changed that the recording tells of, and the prompt went on: the entry should be there.
        (_, true) => Cause::ProviderSide,
        (_, false) => Cause::Unknown,
    };
    cause.name()
}

/// What a marker says, if there is one.
pub(super) fn by_marker(now: &Request<'_>) -> Option<Cause> {
    let marked = MARKERS.iter().find(|(happening, _)| now.has(*happening)).map(|(_, cause)| *cause);
    let tools = (now.facts.loaded_tools > 0).then_some(Cause::PrefixTools);
    let skill = now.facts.marks.has(Marks::SKILL_LOADED).then_some(Cause::PrefixSkill);
    marked.or(tools).or(skill)
}

/// Whether nothing but the read tells of a cause of this name.
pub(super) fn is_unexplained(name: &str) -> bool {
    [Cause::Unknown, Cause::ProviderSide].iter().any(|cause| cause.name() == name)
}

/// More was read at a turn than had been left, and by no more than what came after it: the rest of the prompt
/// and the answer.
pub(super) fn is_side_request(before: &Request<'_>, now: &Request<'_>) -> bool {
    let answer = match before.output_is_whole {
        true => before.usage.output_tokens,
        // The count of the stream's start; the prompt's growth bounds the answer.
        false => {
            now.usage.prompt_tokens().saturating_sub(before.usage.prompt_tokens()).min(LARGEST_ANSWER_TOKENS)
        }
    };
    let excess = now.usage.cache_read_tokens.saturating_sub(before.left_tokens());
    now.turn.is_some() && excess > 0 && excess <= before.usage.uncached_tokens + answer
}

fn is_expired(before: &Request<'_>, now: &Request<'_>, past: &Past) -> bool {
    let gap = before.start_ms.zip(now.start_ms).map(|(before, now)| now - before);
    gap.zip(past.life_ms).is_some_and(|(gap, life)| gap > life)
}

/// The read is that of the request before, whose write was not there yet, or what an earlier one left.
fn is_unread_entry(before: &Request<'_>, now: &Request<'_>, past: &Past) -> bool {
    let read = now.usage.cache_read_tokens;
    read > 0 && (read == before.usage.cache_read_tokens || past.knows_entry(read, now))
}
