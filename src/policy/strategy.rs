//! A strategy with every parameter and every model-dependent value worked out: what a run reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::estimate::EstimateLaw;
use super::laws::{PathLaw, StubLaw, TranscriptLaw};
use crate::provider::{ModelSpec, PrefixMismatch, Ttl};

/// What a client does when the provider refuses bound thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBindingError {
    /// Remove all thinking now in the history for good, and retry once.
    #[default]
    Strip,
    /// Retry with `drop_block`, and keep it to the end.
    DropBlock,
    /// End the run.
    Fail,
}

/// A strategy, ready to run on one model.
#[derive(Debug, Clone)]
pub struct Strategy {
    /// Name in results.
    pub label: String,
    /// Rules, in file order.
    pub rules: Vec<Rule>,
    /// How the client estimates its prompt; `None`: it does not.
    pub estimate: Option<EstimateLaw>,
    /// Where breakpoints go, in wire order.
    pub markers: Vec<MarkerSpec>,
    /// `prefix_mismatch_behavior` sent with each request.
    pub prefix_mismatch: Option<PrefixMismatch>,
    /// Answer to a binding rejection.
    pub on_binding_error: OnBindingError,
    /// A change of tools or system prompt that the process sees makes it withhold earlier thinking.
    pub withhold_on_prefix_change: bool,
    /// Fixed size of summaries, instead of the law.
    pub summary_tokens: Option<u64>,
    /// The prefix floor is already cached when the session begins.
    pub warm_prefix: bool,
    /// UTF-16 units of the model's id, for clients that store it in each message.
    pub model_id_utf16: u64,
    /// What the user should know about how the strategy was resolved.
    pub warnings: Vec<String>,
}

impl Strategy {
    /// Whether any rule looks at the client's own estimate, or measures messages to place a cut.
    pub fn uses_estimate(&self) -> bool {
        self.rules.iter().any(|rule| {
            matches!(rule.action, Action::Summarize(_))
                || rule.when.iter().any(|t| t.measure == Measure::MessagesEstimate)
        })
    }
}

/// A place for a breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkerSpec {
    pub place: MarkerPlace,
    pub ttl: Ttl,
}

/// Where a breakpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkerPlace {
    /// On the last tool definition.
    Tools,
    /// On the last system block.
    System,
    /// On the last block of the message before the last.
    PreviousMessage,
    /// On the last block of the last user message.
    LastUser,
    /// On the last block of the last message.
    LastMessage,
}

impl MarkerPlace {
    /// Names as written in `cache.markers`.
    pub const NAMES: [(&'static str, MarkerPlace); 5] = [
        ("tools", MarkerPlace::Tools),
        ("system", MarkerPlace::System),
        ("previous_message", MarkerPlace::PreviousMessage),
        ("last_user", MarkerPlace::LastUser),
        ("last_message", MarkerPlace::LastMessage),
    ];
}

/// When a rule may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// A tool result comes back, before it enters the conversation.
    ToolResult,
    /// Before each request.
    Request,
}

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name in events.
    pub id: String,
    /// When it may run.
    pub hook: Hook,
    /// Any of these makes it run; none: always.
    pub when: Vec<Threshold>,
    /// A recorded manual request makes it run, whatever `when` says.
    pub manual: bool,
    /// What it does.
    pub action: Action,
}

/// A measure above a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    pub measure: Measure,
    pub limit: i64,
    /// `>=` instead of `>`.
    pub inclusive: bool,
}

impl Threshold {
    /// Whether `value` crosses it.
    pub fn crossed(&self, value: u64) -> bool {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        if self.inclusive { value >= self.limit } else { value > self.limit }
    }
}

/// What a threshold looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// UTF-16 units of the result's text, its parts joined by a line feed; images not counted.
    BlockUtf16,
    /// UTF-16 units of all results in the stored history, base64 of images included.
    ToolResultsUtf16,
    /// The client's own estimate of the stored history.
    MessagesEstimate,
    /// Prompt tokens of the raw request, as the provider counts them (server-side rules only).
    RequestTokens,
}

/// What a rule does.
#[derive(Debug, Clone)]
pub enum Action {
    Offload(OffloadRule),
    Stub(StubRule),
    Summarize(SummarizeRule),
}

/// Write an oversized result to a file and keep its two ends.
#[derive(Debug, Clone)]
pub struct OffloadRule {
    /// Tools it never touches.
    pub except: Vec<String>,
    pub keep_head: u64,
    pub keep_tail: u64,
    /// The limit that the stub prints.
    pub limit: u64,
    pub stub: StubLaw,
    pub path: PathLaw,
}

/// Whose copy of the history a rule edits, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EditView {
    /// Edits are recorded and replayed byte for byte.
    #[default]
    Ledger,
    /// Worked out anew for each request from the raw history.
    Stateless,
    /// The provider edits its own copy; the client sends the raw history.
    Server,
}

/// Replace old results by a stub.
#[derive(Debug, Clone)]
pub struct StubRule {
    pub except: Vec<String>,
    /// Results smaller than this stay.
    pub min_utf16: u64,
    /// Results of this many trailing turns stay; 0 or less: none does.
    pub keep_recent_turns: i64,
    pub stub: StubSize,
    /// All that is eligible together must save at least this: of a ledger, what is new; else all.
    pub min_savings: u64,
    pub view: EditView,
    /// Stop replaying the thinking of assistant messages after the first result touched.
    pub withhold_thinking: bool,
}

/// Size of a stub.
#[derive(Debug, Clone)]
pub enum StubSize {
    /// By law; savings are in UTF-16 units, and a stub that is not shorter is not used.
    Law(StubLaw),
    /// A provider's placeholder; savings are in tokens.
    Tokens(u64),
}

/// Replace history by a summary.
#[derive(Debug, Clone)]
pub struct SummarizeRule {
    pub keep: Keep,
    /// The summarizer, where it is not the session's model.
    pub model: Option<Box<ModelSpec>>,
    pub input: SummaryInput,
    /// Characters around the summary in its message, and how many of them JSON escapes.
    pub wrap_utf16: u64,
    pub wrap_json_escapes: u64,
    pub max_output_tokens: u64,
    /// Stop replaying the thinking of the turns that are kept.
    pub withhold_kept_thinking: bool,
}

/// What a summary leaves in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The user messages at the end that no assistant message has answered.
    UnansweredUser,
    /// The shortest tail of at least so many estimated tokens, lengthened back to the user message
    /// before it.
    RecentTokens(u64),
    /// Nothing.
    Nothing,
}

/// What a summarizer reads.
#[derive(Debug, Clone)]
pub enum SummaryInput {
    /// A rendered transcript under a system prompt of its own: shares no cache with the conversation.
    Transcript { law: TranscriptLaw, system_utf16: u64, prompt_utf16: u64 },
    /// The conversation itself: the provider summarizes what it was sent.
    PrefixFork,
}
