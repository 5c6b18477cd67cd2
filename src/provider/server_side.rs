//! What the provider does to a prompt on its side, and how it reports that (docs/sources.md C; context-editing
//! and compaction pages, August and September 2026).
//!
//! Which results, inputs and thinking are cleared, and when a prompt is compacted, is what the client asks for with
//! each request: rules of a policy with `view = "server"` (`clear_tool_uses_20250919`,
//! `clear_thinking_20251015`) and `native_compact` (`compact_20260112`, with and without a pause, on demand, and
//! OpenAI's `POST /responses/compact`), evaluated on the raw prompt. The client goes
//! on sending the raw history; what the provider cleared of its own copy reaches the engine with
//! [`super::SentBlock::placeholder`] set, so the cache sees the placeholder and the binding check the client's content,
//! and nothing here can break thinking binding. A compaction pass is a request of the conversation itself, billed
//! beside the one that follows it.
//!
//! # Divergence from the real API
//!
//! * Text and size of the placeholder are not published: 12 tokens, a parameter.
//! * Each request is judged on its raw prompt, without hysteresis (docs/decisions.md 10); the pages imply
//!   it and do not say it.
//! * Thinking that was cleared keeps its position among those that a marker looks back over.
//! * A compaction on demand cannot be combined with `context_management` in one request; a policy that has both sends
//!   what is summarized as the provider's edits left it.
//! * The built-in instructions of a compaction have no published size and count as none; those of one's own do
//!   (`instructions_tokens`).
//! * What a vendor refuses of a compaction block (that it is misplaced, altered or missing) is not modelled: clients here
//!   send it as they got it. Nor does a client ask where there is nothing besides an earlier summary
//!   (`compaction_nothing_to_summarize`).

use crate::usage::Usage;

/// Tokens of the placeholder of a cleared result.
pub const PLACEHOLDER_TOKENS: u64 = 12;

/// Value of the beta header that switches clearing on.
pub const EDITING_BETA: &str = "context-management-2025-06-27";

/// Value of the beta header that switches compaction on.
pub const COMPACTION_BETA: &str = "compact-2026-01-12";

/// Smallest trigger of a compaction that the API accepts.
pub const MIN_COMPACTION_TRIGGER_TOKENS: u64 = 50_000;

/// Usage of a response with a compaction pass: the top level leaves the pass out, the bill does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionUsage {
    /// What the response reports at its top level.
    pub top_level: Usage,
    /// What is billed: the sum over its iterations, class by class.
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

    /// BerriAI/litellm#27065: cache tokens of an iteration are billed like all others.
    #[test]
    fn every_class_of_every_iteration_is_billed() {
        let pass = Usage {
            uncached_tokens: 1,
            cache_read_tokens: 20,
            cache_write_5m_tokens: 300,
            cache_write_1h_tokens: 4_000,
            output_tokens: 50_000,
        };
        let message =
            Usage { uncached_tokens: 5, cache_read_tokens: 50, output_tokens: 7, ..Usage::default() };
        let usage = compaction_usage(&pass, Some(&message));
        assert_eq!((usage.top_level, usage.stop_reason), (message, None));
        assert_eq!((usage.billed.prompt_tokens(), usage.billed.output_tokens), (4_376, 50_007));
        assert_eq!(usage.billed.cache_read_tokens, 70);
        assert_eq!(compaction_usage(&pass, None).stop_reason, Some("compaction"));
    }
}
