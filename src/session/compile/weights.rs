//! Where calibration starts from: the tail of each request and the relative size of each block.
//!
//! **Tail.** A few uncached tokens in each request lie behind the last content block and are never
//! cached: the usual count of the recording (at most [`TAIL_MAX`]). More than that is content which the
//! client put behind its last breakpoint (attachments, a parallel result): in every recording at hand it
//! is written to the cache by the next request, so it belongs to the blocks, not to the tail.

use crate::session::{BlockKind, Step};
use crate::tokens::{Coefficients, Tokenizer, apportion};
use crate::usage::Usage;

use super::TokenMode;
use super::build::Draft;
use super::fit::milli_tokens;
use super::measure::clamp;

/// Largest uncached count that can be the provider's own tokens: 1 to 14 in the recordings at hand.
const TAIL_MAX: u64 = 20;
/// Uncached tokens behind the last block, of vendors whose breakpoints are explicit.
pub(super) fn set_tails(steps: &mut [Step], tokenizer: Tokenizer) {
    if tokenizer == Tokenizer::Openai {
        return;
    }
    let uses_cache = |u: &Usage| u.cache_read_tokens + u.cache_write_tokens() > 0;
    let mut seen = [0_u64; TAIL_MAX as usize + 1];
    for usage in steps.iter().filter_map(|s| s.recorded).filter(uses_cache) {
        if let Some(count) = usize::try_from(usage.uncached_tokens).ok().and_then(|u| seen.get_mut(u)) {
            *count += 1;
        }
    }
    let usual = (0..seen.len()).rev().max_by_key(|tail| seen[*tail]).filter(|tail| seen[*tail] > 0);
    let usual = clamp(usual.unwrap_or(0) as u64);
    for step in steps {
        step.tail_tokens = match step.recorded {
            Some(usage) if !uses_cache(&usage) => 0,
            Some(usage) if usage.uncached_tokens <= TAIL_MAX => clamp(usage.uncached_tokens),
            _ => usual,
        };
    }
}

/// Weights by coefficients; a response with a final count of output tokens is scaled to it, its hidden
/// thinking taking what its visible blocks leave.
pub(super) fn weights(draft: &Draft, coefficients: &Coefficients, mode: TokenMode) -> Vec<u64> {
    let blocks = &draft.blocks;
    let mut weight: Vec<u64> = blocks
        .kind
        .iter()
        .zip(&draft.raw)
        .map(|(kind, raw)| milli_tokens(*kind, raw, coefficients))
        .collect();
    if mode != TokenMode::Auto {
        return weight;
    }
    for (step, raw) in draft.steps.iter().zip(&draft.raw_steps) {
        let is_of_blocks = raw.output_is_final && !raw.unsent_output;
        let Some(usage) = step.recorded.filter(|u| is_of_blocks && u.output_tokens > 0) else {
            continue;
        };
        let output = step.output.start as usize..step.output.end as usize;
        let is_hidden = |i: &usize| blocks.kind[*i] == BlockKind::Thinking && draft.raw[*i].units == 0;
        let hidden: Vec<usize> = output.clone().filter(is_hidden).collect();
        let visible_milli: u64 = output.clone().filter(|i| !is_hidden(i)).map(|i| weight[i]).sum();
        let total_milli = usage.output_tokens * 1_000;
        let (scaled, milli) = match total_milli.checked_sub(visible_milli) {
            Some(rest) if rest > 0 && !hidden.is_empty() => (hidden, rest),
            _ => (output.collect(), total_milli),
        };
        let old: Vec<u64> = scaled.iter().map(|i| weight[*i]).collect();
        for (i, milli) in scaled.into_iter().zip(apportion(milli, &old)) {
            weight[i] = milli;
        }
    }
    weight
}
