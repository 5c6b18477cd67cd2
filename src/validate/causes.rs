//! Why a request did not read what the one before it left: what an audit says of it, and of reads that are larger.

use super::account::Request;
use crate::audit::{Judgement, Series};
use crate::cause::{Cause, SIDE_REQUEST};

/// No answer is longer.
const LARGEST_ANSWER_TOKENS: u64 = 64_000;

/// A difference with its name, and whether something besides the read tells of it.
pub(super) type Named = (&'static str, bool);

/// The cause of a read that is not what was left, or not what was predicted. `two` is the pair, whose later
/// request is row `i` of `series`.
pub(super) fn name(series: &Series<'_>, i: usize, two: &[Request<'_>; 2]) -> Named {
    let [before, now] = two;
    if series.explicit && now.usage.cache_read_tokens > before.left_tokens() {
        return if is_side_request(before, now) {
            (SIDE_REQUEST, true)
        } else {
            (Cause::Unknown.name(), false)
        };
    }
    let Judgement { cause, is_evident } = series.why(i);
    (cause.name(), is_evident)
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
