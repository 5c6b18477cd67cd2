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
    Offload {
        /// Id of the rule in its policy file.
        rule: String,
        /// The call whose result it is: an index into [`Session::calls`](crate::session::Session::calls).
        call: u32,
        /// The tool's name as recorded; empty where the recording does not name it.
        tool: String,
        /// UTF-16 units of the result as it came.
        chars: u64,
        /// UTF-16 units of what stands for it, the two ends that are kept included.
        stub_chars: u64,
    },
    /// A recorded edit of history.
    Pass {
        /// Id of the rule in its policy file.
        rule: String,
        /// Items that were replaced, shortened or left out; of a rule that works everything out anew, all that stand in
        /// the request, not only the new ones.
        elided_count: u64,
        /// UTF-16 units by which that makes the history shorter, counted like `elided_count`.
        chars_saved: u64,
        /// The calls of the items that are new in this pass: indexes into
        /// [`Session::calls`](crate::session::Session::calls).
        elided_calls: Vec<u32>,
        /// Thinking blocks that are no longer replayed since this pass.
        withheld_thinking_blocks: u64,
    },
    /// The provider changed what it leaves out of its own copy of the prompt: the numbers of
    /// `context_management.applied_edits` of this response and of all that follow until the next such event. All that
    /// is cleared counts, not only what is new, whichever rule asked for it; all 0: nothing is any more. Results and
    /// arguments have one such event, thinking another.
    AppliedEdits {
        /// Id of the rule that changed it, in its policy file; where cleared blocks left the history, or came back, that
        /// of the event before. The numbers are not those of this rule alone.
        rule: String,
        /// Calls whose result, or arguments, or both, the provider left out.
        cleared_tool_uses: u64,
        /// Tokens that left, less those of the placeholders.
        cleared_input_tokens: u64,
        /// Answers whose thinking was left out.
        cleared_thinking_turns: u64,
    },
    /// A fresh result was cut.
    Truncate {
        /// Id of the rule in its policy file.
        rule: String,
        /// The call whose result it is: an index into [`Session::calls`](crate::session::Session::calls).
        call: u32,
        /// The tool's name as recorded; empty where the recording does not name it.
        tool: String,
        /// UTF-16 units of the result as it came.
        chars: u64,
        /// UTF-16 units of what is left, the marker between the two ends included.
        kept_chars: u64,
    },
    /// An edit made a summary unnecessary: the strategy's own numbers before and after.
    Reclaimed {
        /// Id of the rule that made the edit.
        rule: String,
        /// The client's estimate of the prompt before the edit, in tokens.
        tokens_before: u64,
        /// The same after it.
        tokens_after: u64,
        /// What the agent reports as reclaimed, in tokens of its estimate.
        reclaimed_tokens: u64,
    },
    /// Messages left without a summary.
    Dropped {
        /// Id of the rule in its policy file.
        rule: String,
        /// Client messages that left.
        messages: u64,
        /// The client's estimate of the prompt before, in tokens.
        tokens_before: u64,
        /// The same after.
        tokens_after: u64,
    },
    /// A request carries the stubs of an agent that keeps no ledger and reports them each time.
    SameStubs {
        /// Id of the rule in its policy file.
        rule: String,
        /// Results for which a stub stands in the request.
        elided_count: u64,
        /// UTF-16 units by which the stubs make it shorter.
        chars_saved: u64,
    },
    /// A summarizer call begins.
    CompactionStart {
        /// Id of the rule in its policy file.
        rule: String,
        /// The client's estimate of the prompt, in tokens.
        tokens_before: u64,
        /// Client messages that the summary is to stand for.
        folded_messages: u64,
        /// Turns, as the strategy counts them, that stay behind the summary.
        kept_turns: u64,
        /// Output limit sent with the call, in tokens.
        max_output_tokens: u64,
    },
    /// The summary comes in; once for each compaction of an agent that reports it.
    CompactionProgress {
        /// Id of the rule in its policy file.
        rule: String,
        /// Tokens of the summary so far: all of them, as a simulated answer comes at once.
        summary_tokens: u64,
        /// Output limit sent with the call, in tokens.
        max_output_tokens: u64,
    },
    /// There was no summary, or it was thrown away: nothing changed.
    CompactionFailed {
        /// Id of the rule in its policy file.
        rule: String,
        /// The client's estimate of the prompt, in tokens.
        tokens_before: u64,
        /// Why, in words for people.
        reason: String,
    },
    /// The summary is in place.
    CompactionDone {
        /// Id of the rule in its policy file.
        rule: String,
        /// The client's estimate of the prompt before, in tokens.
        tokens_before: u64,
        /// The same after, in the strategy's own unit.
        tokens_after: u64,
        /// UTF-16 units of the summary, what the client wraps it in left out.
        summary_chars: u64,
        /// Prompt tokens of the summarizer call, as billed.
        summarizer_prompt_tokens: u64,
        /// Tokens that it generated, as billed.
        summarizer_output_tokens: u64,
        /// Client messages that the summary stands for.
        folded_messages: u64,
        /// File that the folded messages went to; `None`: the strategy keeps none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        archive: Option<String>,
    },
    /// A rule could do nothing and says so.
    Notice {
        /// Id of the rule in its policy file.
        rule: String,
        /// What it says, in words for people.
        text: String,
    },
    /// Earlier thinking is no longer replayed because the tools or the system prompt changed.
    PrefixChangeNoticed {
        /// Thinking blocks that are no longer replayed since then.
        withheld_thinking_blocks: u64,
    },
    /// A request was refused.
    Rejection {
        /// `binding`, `overflow` or `invalid_request`.
        reason: String,
        /// The provider's own error text.
        message: String,
        /// The first offending block on the wire, as `messages.{i}.content.{j}`; `None`: the whole prompt is meant.
        path: Option<String>,
    },
    /// A refused request was made to fit.
    Recovery {
        /// Ids of the rules that were run, separated by commas; or `strip` or `drop_block`, what was done about thinking.
        action: String,
    },
    /// A plan broke a rule of conversations and was not applied (docs/decisions.md 21).
    Violation {
        /// Id of the rule whose plan it was.
        rule: String,
        /// What the plan would have broken.
        reason: String,
    },
}
