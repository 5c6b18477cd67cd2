//! A strategy with every parameter and every model-dependent value worked out: what a run reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::sync::Arc;

pub use super::action::{
    Action, EditView, Ends, Errors, Items, KeepRecent, Level, OffloadRule, Repeated, Savings, StubRule,
    StubSize, TruncateRule, Until,
};
use super::estimate::EstimateLaw;
pub use super::fold::{Keep, Snap, SummarizeRule, SummaryInput, Tail, Toward};
use super::keep_alive::KeepAlive;
use super::recovery::Recovery;
use super::sent::MeasuredState;
use crate::provider::{PrefixMismatch, Ttl};

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
    /// What it does when the prompt does not fit; `None`: the run ends there.
    pub recovery: Option<Recovery>,
    /// Life that it buys for the cache of messages.
    pub cache_life_ms: i64,
    /// What it believes tokens cost: plain or written, and read; in pico-dollars.
    pub token_price: TokenPrice,
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
    /// Pings between requests.
    pub keep_alive: Option<KeepAlive>,
    /// `truncation: "auto"` is sent with each request.
    pub truncates: bool,
    /// UTF-16 units of the model's id, for clients that store it in each message.
    pub model_id_utf16: u64,
    /// What the user should know about how the strategy was resolved.
    pub warnings: Vec<String>,
}

/// Price of an input token, in pico-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenPrice {
    /// Written to the cache (or plain, where nothing is cached).
    pub write_pusd: u64,
    /// Read from the cache.
    pub read_pusd: u64,
}

impl Strategy {
    /// Whether any rule looks at the client's own estimate, or measures messages to place a cut.
    pub fn uses_estimate(&self) -> bool {
        self.rules.iter().any(|rule| {
            matches!(rule.action, Action::Summarize(_))
                || rule.when.iter().any(|t| matches!(t.measure, Measure::Messages(_)))
        })
    }

    /// Hooks at which any rule may run.
    pub fn hooks(&self) -> Hooks {
        self.rules.iter().fold(Hooks::default(), |all, rule| all.with_all(rule.at))
    }

    /// The law of estimation that `rule` goes by.
    pub fn law_of<'a>(&'a self, rule: &'a Rule) -> Option<&'a EstimateLaw> {
        rule.scope.estimate.as_deref().or(self.estimate.as_ref())
    }
}

/// A place for a breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkerSpec {
    /// Which block it stands on.
    pub place: MarkerPlace,
    /// The life that is bought for what ends there.
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
    /// A human turn begins, before its input enters the conversation.
    TurnStart,
    /// A batch of tool results has entered the conversation.
    AfterTools,
    /// Before each request.
    Request,
    /// An answer has entered the conversation.
    Response,
    /// An answer without calls has entered the conversation.
    TurnEnd,
    /// Between an answer and the next input.
    Idle,
    /// The prompt did not fit; run by the recovery ladder only.
    Overflow,
    /// The provider refused bound thinking.
    Binding,
    /// The user asked for a compaction.
    Manual,
}

/// A set of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks(u16);

impl Hooks {
    /// The set of these.
    pub fn of(hooks: &[Hook]) -> Hooks {
        hooks.iter().fold(Hooks(0), |set, hook| set.with(*hook))
    }

    /// With `hook`.
    pub fn with(self, hook: Hook) -> Hooks {
        Hooks(self.0 | 1 << hook as u16)
    }

    /// With all of `other`.
    pub fn with_all(self, other: Hooks) -> Hooks {
        Hooks(self.0 | other.0)
    }

    /// Whether `hook` is in it.
    pub fn has(self, hook: Hook) -> bool {
        self.0 & (1 << hook as u16) != 0
    }
}

/// What `keep_recent.turns` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// One assistant message.
    #[default]
    Assistant,
    /// A plain user message to the next.
    User,
    /// One request: its input and its answer.
    Boundary,
    /// One human prompt to the next.
    Invocation,
    /// A user message and an assistant message on the wire: what a request adds.
    Pair,
}

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name in events.
    pub id: String,
    /// When it may run.
    pub at: Hooks,
    /// Any of these makes it run; none: always.
    pub when: Vec<Threshold>,
    /// All of them must hold.
    pub all: bool,
    /// The rule (by index) whose trigger must have fired at the same occasion.
    pub follows: Option<usize>,
    /// After acting: below this the rules that follow it do not run.
    pub stop_if_under: Option<StopRule>,
    /// After acting: if so much of the history left, in millionths, they do not either.
    pub stop_if_saved: Option<i64>,
    /// The rule (by index) whose breaker must be open.
    pub if_broken: Option<usize>,
    /// What it measures with.
    pub scope: RuleScope,
    /// When it holds back although it fires.
    pub cadence: Cadence,
    /// What it does.
    pub action: Action,
}

/// A limit that ends a sequence of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRule {
    /// Measured without the estimate's anchor.
    pub plain: bool,
    /// The sequence ends below so many tokens of the client's estimate.
    pub under: u64,
}

/// What a rule measures with.
#[derive(Debug, Clone, Default)]
pub struct RuleScope {
    /// What it counts as a turn.
    pub turn: Turn,
    /// All results of a batch are one message.
    pub merged: bool,
    /// Its own law of estimation, where it is not the strategy's.
    pub estimate: Option<Arc<EstimateLaw>>,
}

/// A measure above a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// What is measured.
    pub measure: Measure,
    /// The limit, in the unit of the measure; below 0 everything is above it.
    pub limit: i64,
    /// `>=` instead of `>`.
    pub inclusive: bool,
    /// Counts at this hook only.
    pub at: Option<Hook>,
    /// Passes over the cadence.
    pub hard: bool,
    /// Of which history.
    pub state: MeasuredState,
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
    /// The result at hand. In UTF-16 units: its text, parts joined by a line feed; images not counted.
    Block(Unit),
    /// All results in the stored history. In UTF-16 units: base64 of images included.
    ToolResults(Unit),
    /// The stored history.
    Messages(MessageUnit),
    /// Prompt tokens of the raw request, as the provider counts them (server-side rules only).
    RequestTokens,
    /// The prompt that the last answer reports.
    LastPrompt,
    /// Prompt and output that the last answer reports.
    LastUsage,
    /// What the rule's selector would take now.
    Eligible(Unit),
    /// Requests since the rule acted last.
    SinceRequests,
    /// Human turns since the rule acted last.
    SinceTurns,
    /// Seconds since the last request.
    IdleSeconds,
}

/// Unit of an item's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// UTF-16 code units of its text.
    #[default]
    Utf16,
    /// UTF-8 bytes of its text.
    Bytes,
    /// Lines of its text: one more than it has line feeds.
    Lines,
    /// The client's own estimate.
    Estimate,
    /// Prompt tokens, by the session's own count.
    Tokens,
    /// Items, not their sizes.
    Count,
}

/// Unit of the size of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageUnit {
    /// The client's own estimate.
    Estimate,
    /// The same without its anchor.
    PlainEstimate,
    /// Client messages.
    Count,
    /// Turns, as the rule counts them.
    Turns,
    /// Blocks of messages, and so many more that the conversation does not show.
    Events(u64),
}

/// When a rule that fires holds back.
#[derive(Debug, Clone, Default)]
pub struct Cadence {
    /// So many requests (or human turns) between two actions.
    pub min_interval: u64,
    /// `min_interval` counts human turns instead of requests.
    pub interval_in_turns: bool,
    /// Not again before a new answer came.
    pub not_after_self: bool,
    /// Where what its last action left was above the trigger already, it waits until the measure is a tenth above
    /// that (meerkat).
    pub no_refire_above_floor: bool,
    /// Its target follows the growth of the measure.
    pub knows_growth: bool,
    /// Off for good after so many failures in a row; 0: never.
    pub breaker_failures: u64,
    /// Off for good after so many actions in a row, each less than three requests after the one before.
    pub breaker_refills: u64,
    /// Whether it waits for a cold cache.
    pub when_cache: WhenCache,
    /// Of `prefer_cold`: the measure from which it waits no longer.
    pub prefer_cold_until: Option<u64>,
    /// Expected remaining steps; `None`: no economic gate.
    pub break_even_steps: Option<u64>,
}

/// Whether the state of the cache, as the client's clock knows it, matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenCache {
    /// It does not matter.
    #[default]
    Any,
    /// Only where what was cached has expired, so that a rewrite costs nothing extra.
    Cold,
    /// At the trigger where it is cold; else only at a higher one.
    PreferCold,
}
