//! Rows and events of a run.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::usage::Usage;

/// One served request (a row of requests.csv).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRow {
    /// Number, from 1.
    pub request: u32,
    /// Start, Unix epoch in milliseconds, where known.
    pub at_ms: Option<i64>,
    /// From the previous request's start.
    pub gap_ms: Option<i64>,
    /// What it used.
    pub usage: Usage,
    /// Its cost, summarizer calls left out.
    pub cost_pusd: u128,
    /// Cause of what was missed, apart from new content.
    pub miss_cause: Option<Cause>,
    /// Tokens missed for that cause.
    pub missed_tokens: u64,
    /// The strategy's own estimate of the prompt.
    pub estimate_tokens: u64,
    /// Passes right before this request.
    pub passes: u32,
    /// Compactions right before this request.
    pub compactions: u32,
    /// Refused attempts before it was served.
    pub rejections: u32,
}

/// Something a strategy or the provider did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimEvent {
    /// Number of the request it happened before, from 1; of what a rule does to an answer, the request that
    /// was answered.
    pub request: u32,
    /// Time, where known.
    pub at_ms: Option<i64>,
    /// What happened.
    #[serde(flatten)]
    pub kind: SimEventKind,
}

/// Kinds of events, with the numbers that the agent itself would report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SimEventKind {
    /// A result went to a file; a stub stands for it.
    Offload { rule: String, call: u32, tool: String, chars: u64, stub_chars: u64 },
    /// A recorded edit of history.
    Pass {
        rule: String,
        elided_count: u64,
        chars_saved: u64,
        elided_calls: Vec<u32>,
        withheld_thinking_blocks: u64,
    },
    /// The provider changed what it leaves out of its own copy of the prompt: the numbers of
    /// `context_management.applied_edits` of this response and of all that follow until the next such event. All that
    /// is cleared counts, not only what is new; all 0: nothing is any more.
    AppliedEdits {
        rule: String,
        cleared_tool_uses: u64,
        /// Tokens that left, less those of the placeholders.
        cleared_input_tokens: u64,
        /// Answers whose thinking was left out.
        cleared_thinking_turns: u64,
    },
    /// A fresh result was cut.
    Truncate { rule: String, call: u32, tool: String, chars: u64, kept_chars: u64 },
    /// An edit made a summary unnecessary: the strategy's own numbers before and after.
    Reclaimed { rule: String, tokens_before: u64, tokens_after: u64, reclaimed_tokens: u64 },
    /// Messages left without a summary.
    Dropped { rule: String, messages: u64, tokens_before: u64, tokens_after: u64 },
    /// A request carries the stubs of an agent that keeps no ledger and reports them each time.
    SameStubs { rule: String, elided_count: u64, chars_saved: u64 },
    /// A summarizer call begins. `tokens_before` is the strategy's own estimate.
    CompactionStart {
        rule: String,
        tokens_before: u64,
        folded_messages: u64,
        kept_turns: u64,
        max_output_tokens: u64,
    },
    /// The summary comes in.
    CompactionProgress { rule: String, summary_tokens: u64, max_output_tokens: u64 },
    /// There was no summary, or it was thrown away: nothing changed.
    CompactionFailed { rule: String, tokens_before: u64, reason: String },
    /// The summary is in place. `tokens_after` is in the strategy's own unit.
    CompactionDone {
        rule: String,
        tokens_before: u64,
        tokens_after: u64,
        summary_chars: u64,
        summarizer_prompt_tokens: u64,
        summarizer_output_tokens: u64,
        folded_messages: u64,
        /// File that the folded messages went to.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        archive: Option<String>,
    },
    /// A rule could do nothing and says so.
    Notice { rule: String, text: String },
    /// Earlier thinking is no longer replayed because the tools or the system prompt changed.
    PrefixChangeNoticed { withheld_thinking_blocks: u64 },
    /// A request was refused.
    Rejection { reason: String, message: String, path: Option<String> },
    /// A refused request was made to fit.
    Recovery { action: String },
    /// A plan broke a rule and was not applied.
    Violation { rule: String, reason: String },
}
