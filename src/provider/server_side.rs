//! Editing and compaction on the provider's side (docs/sources.md C; context-editing and compaction
//! pages, August and September 2026).
//!
//! The client keeps sending the raw history; the provider edits its own copy, so nothing here can break
//! thinking binding. Blocks it cleared reach the engine with [`super::SentBlock::placeholder`] set.
//!
//! # Divergence from the real API
//!
//! * Text and size of the placeholder are not published: 12 tokens, a parameter.
//! * Each request is judged on its raw prompt, without hysteresis (docs/decisions.md 10); the pages imply
//!   it and do not say it.
//! * The trigger in tool uses, `clear_tool_inputs` and `clear_thinking_20251015` are rules of a policy file, not of
//!   [`ClearToolUses`]. Thinking that was cleared keeps its position among those that a marker looks back over.

use crate::usage::Usage;

/// Tokens of the placeholder of a cleared result.
pub const PLACEHOLDER_TOKENS: u64 = 12;

/// The edit `clear_tool_uses_20250919`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClearToolUses {
    /// It fires above this many input tokens.
    pub trigger_input_tokens: u64,
    /// Most recent tool uses whose results stay.
    pub keep_tool_uses: u64,
    /// It is not applied if it would clear fewer tokens.
    pub clear_at_least: Option<u64>,
    /// Tools whose results stay.
    pub exclude_tools: Vec<String>,
    /// Whether inputs of calls are cleared too.
    pub clear_tool_inputs: bool,
}

impl ClearToolUses {
    /// Value of the beta header that switches it on.
    pub const BETA: &'static str = "context-management-2025-06-27";
}

impl Default for ClearToolUses {
    fn default() -> Self {
        ClearToolUses {
            trigger_input_tokens: 100_000,
            keep_tool_uses: 3,
            clear_at_least: None,
            exclude_tools: Vec::new(),
            clear_tool_inputs: false,
        }
    }
}

/// A tool result as the edit sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolResultSize {
    /// Its tokens in the raw prompt.
    pub tokens: u64,
    /// Its tool is in `exclude_tools`.
    pub excluded: bool,
}

/// What the edit does to a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleared {
    /// Whether it is applied.
    pub fires: bool,
    /// Indexes of the cleared results, oldest first.
    pub results: Vec<usize>,
    /// Tokens cleared, placeholders subtracted.
    pub cleared_input_tokens: u64,
}

impl ClearToolUses {
    /// Decides on the raw prompt: above the trigger, the results of all but the most recent tool uses are
    /// cleared, oldest first, unless that frees less than `clear_at_least`.
    pub fn plan(&self, input_tokens: u64, results: &[ToolResultSize], placeholder_tokens: u64) -> Cleared {
        if input_tokens <= self.trigger_input_tokens {
            return Cleared::default();
        }
        let old = results.len().saturating_sub(usize::try_from(self.keep_tool_uses).unwrap_or(usize::MAX));
        let cleared: Vec<usize> = (0..old).filter(|&i| !results[i].excluded).collect();
        let raw_tokens: u64 = cleared.iter().map(|&i| results[i].tokens).sum();
        let cleared_input_tokens = raw_tokens.saturating_sub(cleared.len() as u64 * placeholder_tokens);
        if cleared.is_empty() || self.clear_at_least.is_some_and(|least| cleared_input_tokens < least) {
            return Cleared::default();
        }
        Cleared { fires: true, results: cleared, cleared_input_tokens }
    }
}

/// What `count_tokens` previews: the prompt after the edit.
pub fn count_tokens(original_input_tokens: u64, cleared_input_tokens: u64) -> u64 {
    original_input_tokens.saturating_sub(cleared_input_tokens)
}

/// The edit `compact_20260112`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compact {
    /// It fires at this many input tokens.
    pub trigger_input_tokens: u64,
    /// Smallest trigger the API accepts.
    pub min_trigger_input_tokens: u64,
    /// Whether the response stops after the summary.
    pub pause_after_compaction: bool,
    /// Replaces the built-in prompt.
    pub instructions: Option<String>,
    /// Top-level usage leaves the compaction pass out.
    pub top_level_usage_excludes_it: bool,
    /// The model of the request writes the summary.
    pub summarizer_is_request_model: bool,
}

impl Compact {
    /// Value of the beta header that switches it on.
    pub const BETA: &'static str = "compact-2026-01-12";

    /// Whether a prompt of this size is compacted. A trigger below the minimum counts as the minimum.
    pub fn fires(&self, input_tokens: u64) -> bool {
        input_tokens >= self.trigger_input_tokens.max(self.min_trigger_input_tokens)
    }
}

impl Default for Compact {
    fn default() -> Self {
        Compact {
            trigger_input_tokens: 150_000,
            min_trigger_input_tokens: 50_000,
            pause_after_compaction: false,
            instructions: None,
            top_level_usage_excludes_it: true,
            summarizer_is_request_model: true,
        }
    }
}

/// Usage of a response with a compaction pass: the top level leaves the pass out, the bill does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionUsage {
    /// What the response reports at its top level.
    pub top_level: Usage,
    /// What is billed: the sum over its iterations.
    pub billed: Usage,
    /// `stop_reason` where the response ends with the summary.
    pub stop_reason: Option<&'static str>,
}

/// Sums up a compaction pass and, for a threshold compaction, the message that followed it; an on-demand
/// compaction has none and stops with `compaction`.
pub fn compaction_usage(pass: &Usage, message: Option<&Usage>) -> CompactionUsage {
    let top_level = message.copied().unwrap_or_default();
    let mut billed = *pass;
    billed.add(&top_level);
    CompactionUsage { top_level, billed, stop_reason: message.is_none().then_some("compaction") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(tokens: &[u64]) -> Vec<ToolResultSize> {
        tokens.iter().map(|&tokens| ToolResultSize { tokens, excluded: false }).collect()
    }

    #[test]
    fn clearing_starts_above_the_trigger_and_keeps_the_newest() {
        let edit = ClearToolUses::default();
        let sizes = results(&[5_000, 10, 5_000, 5_000, 5_000, 5_000]);
        assert!(!edit.plan(100_000, &sizes, 12).fires);
        let cleared = edit.plan(100_001, &sizes, 12);
        assert_eq!((cleared.results, cleared.cleared_input_tokens), (vec![0, 1, 2], 10_010 - 3 * 12));
    }

    #[test]
    fn clearing_too_little_or_excluded_tools_does_nothing() {
        let edit = ClearToolUses { clear_at_least: Some(9_977), ..ClearToolUses::default() };
        let mut sizes = results(&[5_000; 5]);
        assert!(!edit.plan(200_000, &sizes, 12).fires);
        let edit = ClearToolUses::default();
        sizes[0].excluded = true;
        assert_eq!(edit.plan(200_000, &sizes, 12).results, [1]);
    }

    #[test]
    fn compaction_has_a_smallest_trigger() {
        let compact = Compact { trigger_input_tokens: 10, ..Compact::default() };
        assert!(!compact.fires(49_999) && compact.fires(50_000));
    }
}
