//! Coefficients of one recording (docs/decisions.md 11).
//!
//! Kept simple and in integers: for each class, over the steps in which the class makes up most of what
//! is new, the coefficient of the tokenizer generation is multiplied by recorded ÷ estimated tokens.
//! A class with too few such steps takes the ratio over all steps, and a recording with too few steps
//! keeps the coefficients of the generation.

use crate::session::{BlockKind, EventKind, Flags};
use crate::tokens::{Coefficients, SIGNATURE_MILLI, Tokenizer, scale_ratio};

use super::build::{Draft, Raw};

/// Fewest steps that a ratio is taken from.
const MIN_STEPS: usize = 20;
/// Share of a step's estimate, in percent, from which a class makes up most of it.
const DOMINANT_PERCENT: u64 = 70;
/// A ratio outside 1/2 to 2 means that something else than the tokenizer is at work.
const RATIO_BOUND: u64 = 2;

/// Coefficients for one token per `milli` thousandths of a character.
pub(super) fn per_character(milli: u32) -> Coefficients {
    let per_char = u32::try_from(scale_ratio(1_000_000, 1, u64::from(milli.max(1)))).unwrap_or(u32::MAX);
    Coefficients {
        text_milli: per_char,
        tool_use_milli: per_char,
        thinking_milli: per_char,
        tool_result_milli: per_char,
        request_tokens: 0,
    }
}

/// Milli-tokens of a block by coefficients alone.
pub(super) fn milli_tokens(kind: BlockKind, raw: &Raw, coefficients: &Coefficients) -> u64 {
    let milli = match kind {
        // Pixels count; its units are the length of its base64 text, which only clients look at.
        BlockKind::Image => return 1_000 * u64::from(raw.fixed_tokens),
        BlockKind::UserText | BlockKind::AssistantText => coefficients.text_milli,
        BlockKind::ToolUse => coefficients.tool_use_milli,
        BlockKind::ToolResult => coefficients.tool_result_milli,
        BlockKind::Thinking if raw.units == 0 => {
            return u64::from(raw.signature_chars) * u64::from(SIGNATURE_MILLI);
        }
        BlockKind::Thinking => coefficients.thinking_milli,
    };
    u64::from(raw.units) * u64::from(milli) + 1_000 * u64::from(raw.fixed_tokens)
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    steps: usize,
    recorded_tokens: u64,
    estimated_milli: u64,
}

impl Sums {
    fn add(&mut self, recorded_tokens: u64, estimated_milli: u64) {
        self.steps += 1;
        self.recorded_tokens += recorded_tokens;
        self.estimated_milli += estimated_milli;
    }

    /// `milli` × recorded ÷ estimated, if there is enough to go by.
    fn apply(&self, milli: u32) -> Option<u32> {
        if self.steps < MIN_STEPS || self.estimated_milli == 0 {
            return None;
        }
        let milli = u64::from(milli);
        let fitted = scale_ratio(self.recorded_tokens * 1_000, milli, self.estimated_milli);
        let bounded = fitted.clamp(milli.div_ceil(RATIO_BOUND), milli * RATIO_BOUND);
        u32::try_from(bounded).ok()
    }
}

/// Fits on every step between two recorded totals with nothing but new blocks between them.
pub(super) fn fit(draft: &Draft, tokenizer: Tokenizer) -> Coefficients {
    let base = tokenizer.coefficients();
    let mut all = Sums::default();
    let mut by_class = [Sums::default(); CLASSES];
    let mut events = draft.events.iter().peekable();
    for k in 1..draft.steps.len() {
        let mut disturbed = draft.raw_steps[k].compacted_before;
        while let Some(event) = events.next_if(|e| e.before_step as usize <= k) {
            disturbed |= matches!(
                event.kind,
                EventKind::BlocksDropped { .. } | EventKind::ModelChanged { .. } | EventKind::Resumed
            );
        }
        let (before, now) = (&draft.steps[k - 1], &draft.steps[k]);
        let (Some(before_usage), Some(now_usage)) = (before.recorded, now.recorded) else { continue };
        let grown = now_usage.prompt_tokens().saturating_sub(before_usage.prompt_tokens());
        // Human turns bring what is not shown (reminders) and may strip thinking.
        if disturbed || now.human_turn || grown <= u64::from(base.request_tokens) {
            continue;
        }
        let mut estimate = [0_u64; CLASSES];
        for i in before.output.clone().chain(now.input.clone()) {
            let i = i as usize;
            if !draft.blocks.flags[i].has(Flags::SYNTHETIC) {
                let kind = draft.blocks.kind[i];
                estimate[class(kind)] += milli_tokens(kind, &draft.raw[i], &base);
            }
        }
        let sum: u64 = estimate.iter().sum();
        let recorded = grown - u64::from(base.request_tokens);
        if sum == 0 {
            continue;
        }
        all.add(recorded, sum);
        if let Some(c) = (0..CLASSES).find(|c| estimate[*c] * 100 >= sum * DOMINANT_PERCENT) {
            by_class[c].add(recorded, sum);
        }
    }
    let of = |c: usize, milli: u32| by_class[c].apply(milli).or_else(|| all.apply(milli)).unwrap_or(milli);
    Coefficients {
        text_milli: of(0, base.text_milli),
        tool_use_milli: of(1, base.tool_use_milli),
        thinking_milli: of(2, base.thinking_milli),
        tool_result_milli: of(3, base.tool_result_milli),
        request_tokens: base.request_tokens,
    }
}

const CLASSES: usize = 4;

fn class(kind: BlockKind) -> usize {
    match kind {
        BlockKind::UserText | BlockKind::AssistantText | BlockKind::Image => 0,
        BlockKind::ToolUse => 1,
        BlockKind::Thinking => 2,
        BlockKind::ToolResult => 3,
    }
}
