//! What a rule does, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::MeasureUnit;
use crate::policy::laws::{StubLaw, TranscriptLaw};
use crate::policy::value::{Decimal, ListValue, Value};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct OffloadToml {
    pub(in crate::policy) head: Value,
    pub(in crate::policy) tail: Value,
    /// Unit of the two ends: `utf16` without it.
    #[serde(default)]
    pub(in crate::policy) unit: Option<MeasureUnit>,
    pub(in crate::policy) limit: Value,
    pub(in crate::policy) stub: StubLaw,
    pub(in crate::policy) path: PathToml,
}

/// `<home><folder><session>/<tool>-<call>.txt`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct PathToml {
    /// A parameter with the folder all files live under.
    pub(in crate::policy) home: String,
    pub(in crate::policy) folder: String,
    /// UTF-16 units of the session id in it.
    pub(in crate::policy) session_id: u64,
}

/// A placeholder of the provider's.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ClearToml {
    pub(in crate::policy) placeholder_tokens: u64,
}

/// Another stub for some tools; with `head` and `tail`, their ends stay in it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct StubByToolToml {
    pub(in crate::policy) only: ListValue,
    pub(in crate::policy) stub: StubLaw,
    #[serde(default)]
    pub(in crate::policy) head: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) tail: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) unit: Option<MeasureUnit>,
}

/// The two ends stay, a marker between: by `head` and `tail`, or by a `budget` for ends and marker.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct TruncateToml {
    #[serde(default)]
    pub(in crate::policy) head: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) tail: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) budget: Option<Value>,
    /// Share of the budget at the head, in hundredths; half without it.
    #[serde(default)]
    pub(in crate::policy) head_percent: Option<u64>,
    /// Unit of the sizes: `utf16` without it.
    #[serde(default)]
    pub(in crate::policy) unit: Option<MeasureUnit>,
    #[serde(default)]
    pub(in crate::policy) marker: StubLaw,
}

/// Arguments become a text of so many characters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ClearInputsToml {
    pub(in crate::policy) chars: u64,
}

/// Items or messages leave; a marker of so many characters stands in the hole.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct DropToml {
    #[serde(default)]
    pub(in crate::policy) marker_chars: u64,
}

/// Thinking is no longer replayed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct StripToml {}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct SummarizeToml {
    /// A summary of everything that is selected, unless it says `pair`: one of each call and its result.
    #[serde(default)]
    pub(in crate::policy) per: Per,
    #[serde(default)]
    pub(in crate::policy) input: Option<InputForm>,
    /// Labels and caps of a rendered transcript.
    #[serde(default)]
    pub(in crate::policy) transcript: Option<TranscriptLaw>,
    #[serde(default)]
    pub(in crate::policy) system_chars: u64,
    pub(in crate::policy) prompt_chars: u64,
    #[serde(default)]
    pub(in crate::policy) wrap_chars: u64,
    #[serde(default)]
    pub(in crate::policy) wrap_json_escapes: u64,
    pub(in crate::policy) max_output_tokens: Value,
    /// `same`, `lite`, a model id, or `"$parameter"` with one of them.
    pub(in crate::policy) model: String,
    /// Once more there if the first is refused.
    #[serde(default)]
    pub(in crate::policy) fallback_model: Option<String>,
    /// The call is made so many times; once without it.
    #[serde(default)]
    pub(in crate::policy) calls: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) output: Option<OutputToml>,
    #[serde(default)]
    pub(in crate::policy) place: Place,
    /// The summaries before it stay in front of it, and are not folded again.
    #[serde(default)]
    pub(in crate::policy) accumulate: bool,
    #[serde(default)]
    pub(in crate::policy) reinject: ReinjectToml,
    /// A summary that does not make the history smaller is thrown away; it is billed all the same.
    #[serde(default)]
    pub(in crate::policy) reject_if_larger: bool,
    #[serde(default)]
    pub(in crate::policy) on_overflow: OnSummaryOverflow,
    /// Of `middle_out`: hundredths of the results that are left out, a try each.
    #[serde(default)]
    pub(in crate::policy) leave_out_percent: Vec<u64>,
    /// Of a transcript: the newest so many estimated tokens of what is folded are all that it shows.
    #[serde(default)]
    pub(in crate::policy) input_last: Option<Value>,
    /// Of a transcript: it begins at a user message; where there is none, no call is made.
    #[serde(default)]
    pub(in crate::policy) input_starts_at_user: bool,
    /// Characters of what stands for a summary where there is nothing to read.
    #[serde(default)]
    pub(in crate::policy) empty_chars: u64,
    /// Of a transcript: so many turns that earlier summaries stand for are read once more.
    #[serde(default)]
    pub(in crate::policy) overlap_turns: Option<Value>,
    /// Whether the call writes to the cache; it does without this.
    #[serde(default)]
    pub(in crate::policy) cache_writes: Option<bool>,
    /// Of a transcript: where the tail begins inside a turn, the head of that turn has a call of its own.
    #[serde(default)]
    pub(in crate::policy) split_turn: Option<SplitTurnToml>,
    /// Old results are cut in the same action, if the summary is accepted.
    #[serde(default)]
    pub(in crate::policy) truncate_results: Option<TruncateResultsToml>,
    /// Requests until the summary is there; the session goes on meanwhile.
    #[serde(default)]
    pub(in crate::policy) latency_steps: Option<Value>,
    /// With `latency_steps`: once it is there it waits until the rule's first measure is above this.
    #[serde(default)]
    pub(in crate::policy) place_over: Option<Value>,
    /// The same, at or above.
    #[serde(default)]
    pub(in crate::policy) place_at_least: Option<Value>,
    /// With `latency_steps`: thrown away if what it stands for was changed meanwhile; it is billed all the same.
    #[serde(default)]
    pub(in crate::policy) discard_if_stale: bool,
    /// Messages that stay whatever `drop_oldest` leaves out.
    #[serde(default)]
    pub(in crate::policy) min_messages: u64,
    /// Folded messages go to a file; the summary gains a note.
    #[serde(default)]
    pub(in crate::policy) archive: Option<ArchiveToml>,
    /// The agent reports the summary as it streams.
    #[serde(default)]
    pub(in crate::policy) progress: bool,
}

/// What happens if the input does not fit the window that the client believes the summarizer has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum OnSummaryOverflow {
    /// It is sent all the same.
    #[default]
    Fail,
    /// Its oldest messages are left out.
    DropOldest,
    /// Results are left out, from the middle on, when the provider refuses it.
    MiddleOut,
}

/// A call about the head of a turn that the tail cuts in two.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct SplitTurnToml {
    pub(in crate::policy) prompt_chars: u64,
    pub(in crate::policy) max_output_tokens: Value,
    /// Characters between the two summaries.
    #[serde(default)]
    pub(in crate::policy) wrap_chars: u64,
}

/// Results older than the newest so many estimated tokens of them are cut.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct TruncateResultsToml {
    pub(in crate::policy) beyond: Value,
    /// The summarizer is given them whole where what is folded is below so many estimated tokens.
    #[serde(default)]
    pub(in crate::policy) whole_under: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) head: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) tail: Option<Value>,
    /// Unit of the two ends: `utf16` without it.
    #[serde(default)]
    pub(in crate::policy) unit: Option<MeasureUnit>,
    #[serde(default)]
    pub(in crate::policy) marker: StubLaw,
}

/// What a summary is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SummaryPer")]
pub(in crate::policy) enum Per {
    /// All that is selected.
    #[default]
    Range,
    /// A call and its result: a text takes their place.
    Pair,
}

/// What a summarizer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum InputForm {
    /// A rendered transcript under a system prompt of its own.
    Transcript,
    /// The folded messages as they are, then one instruction; no system prompt, no tools.
    Messages,
    /// The request as it stands, then one instruction: it reads the warm cache.
    Fork,
}

/// How long a summary is; never above `max_output_tokens`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct OutputToml {
    /// Share of the summarizer's prompt.
    #[serde(default)]
    pub(in crate::policy) share: Option<Decimal>,
    #[serde(default)]
    pub(in crate::policy) tokens: Option<Value>,
}

/// Where a summary stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In front of the conversation.
    #[default]
    Head,
    /// Where the folded messages were.
    InPlace,
    /// Behind everything that is kept.
    Last,
}

/// What is sent again besides the summary.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ReinjectToml {
    /// The last user message stays word for word.
    #[serde(default)]
    pub(in crate::policy) last_user: bool,
    /// User messages stay, newest first, up to so many tokens of the client's estimate.
    #[serde(default)]
    pub(in crate::policy) user_messages: Option<Value>,
    /// A text of so many tokens comes with the summary.
    #[serde(default)]
    pub(in crate::policy) tokens: Option<Value>,
}

/// Where folded messages go: `<folder>/chunk-NNN.md`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ArchiveToml {
    /// Characters of the folder's path.
    pub(in crate::policy) folder_chars: u64,
    /// Characters of the note, the path left out.
    pub(in crate::policy) note_chars: u64,
}

/// How a provider is asked to summarize what it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NativeForm {
    /// In passing: the provider goes on with the message at once, and nothing but the summary is left.
    #[default]
    Inline,
    /// The response stops with the summary, and the client sends what `select` keeps again, behind it.
    Paused,
    /// By a request of its own with what is to be summarized; what `select` keeps is no part of it and stands behind
    /// the summary.
    OnDemand,
    /// By an endpoint whose output is all user messages, and the summary behind them.
    Endpoint,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct NativeCompactToml {
    pub(in crate::policy) max_output_tokens: Value,
    #[serde(default)]
    pub(in crate::policy) form: NativeForm,
    /// Tokens of instructions in place of the provider's own, whose size is not known and which count as none.
    #[serde(default)]
    pub(in crate::policy) instructions_tokens: Option<Value>,
}
