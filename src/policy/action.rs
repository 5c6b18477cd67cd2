//! What rules do to single items: results, arguments of calls, thinking.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fold::SummarizeRule;
use super::laws::{PathLaw, StubLaw};
use super::strategy::{Turn, Unit};
pub use super::twins::Repeated;
use crate::session::Tool;

/// What a rule does.
#[expect(
    clippy::large_enum_variant,
    reason = "a strategy has a few of them, made once and never moved in a run"
)]
#[derive(Debug, Clone)]
pub enum Action {
    /// Write a result that just came back to a file, and keep its two ends.
    Offload(OffloadRule),
    /// Cut a result that just came back.
    Truncate(TruncateRule),
    /// Replace, shorten, empty or leave out single items.
    Stub(StubRule),
    /// Replace messages by a summary, or leave them out.
    Summarize(SummarizeRule),
}

impl Errors {
    /// Whether a result with this status is of interest.
    pub fn takes(self, is_error: bool) -> bool {
        match self {
            Errors::Any => true,
            Errors::Only => is_error,
            Errors::Never => !is_error,
        }
    }
}

impl Action {
    /// Results that it is about.
    pub fn errors(&self) -> Errors {
        match self {
            Action::Offload(a) => a.errors,
            Action::Truncate(a) => a.errors,
            Action::Stub(a) => a.errors,
            Action::Summarize(_) => Errors::Any,
        }
    }

    /// Tools that it leaves alone, and tools that it is limited to.
    pub fn tools(&self) -> (&[String], &[String]) {
        match self {
            Action::Offload(a) => (&a.except, &a.only),
            Action::Truncate(a) => (&a.except, &a.only),
            Action::Stub(a) => (&a.except, &a.only),
            Action::Summarize(_) => (&[], &[]),
        }
    }
}

/// Write an oversized result to a file and keep its two ends.
#[derive(Debug, Clone)]
pub struct OffloadRule {
    /// Tools it never touches.
    pub except: Vec<String>,
    /// Tools it is limited to; none: any.
    pub only: Vec<String>,
    /// Whether results that report an error go to a file too.
    pub errors: Errors,
    /// How much of the beginning stays, in `unit`; 0: none of it.
    pub keep_head: u64,
    /// How much of the end stays, in `unit`; 0: none of it.
    pub keep_tail: u64,
    /// Unit of the two ends.
    pub unit: Unit,
    /// The limit that the stub prints.
    pub limit: u64,
    /// Length of the stub, its two ends left out.
    pub stub: StubLaw,
    /// Length of the file's path, which the stub names.
    pub path: PathLaw,
}

/// Keep the two ends of a fresh result, and a marker between them.
#[derive(Debug, Clone)]
pub struct TruncateRule {
    /// Tools whose results it never cuts.
    pub except: Vec<String>,
    /// Tools it is limited to; none: any.
    pub only: Vec<String>,
    /// Whether results that report an error are cut too.
    pub errors: Errors,
    /// What stays.
    pub ends: Ends,
}

/// Which ends of a text stay, and the marker between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// How much of the beginning stays, in `unit`; of a `budget`, see there.
    pub head: u64,
    /// How much of the end stays, in `unit`.
    pub tail: u64,
    /// Instead of `head` and `tail`: ends and marker together come to this; `head` is then the share of the
    /// head in hundredths.
    pub budget: Option<u64>,
    /// What the ends and the budget are counted in.
    pub unit: Unit,
    /// Length of the marker that stands for what is left out.
    pub marker: StubLaw,
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
    /// The stored history changes; later measures see the result.
    Destructive,
    /// The provider edits its own copy; the client sends the raw history.
    Server,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Items {
    /// Results of tools.
    #[default]
    Results,
    /// Arguments of calls.
    Inputs,
    /// Calls with their results.
    Pairs,
    /// Thinking blocks of answers.
    Thinking,
}

/// Results that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Errors {
    /// Whether a result reports an error makes no difference.
    #[default]
    Any,
    /// Only results that report an error.
    Only,
    /// Only results that report none.
    Never,
}

/// Replace old items.
#[derive(Debug, Clone, Default)]
pub struct StubRule {
    /// What it looks at.
    pub items: Items,
    /// Tools whose items it never touches.
    pub except: Vec<String>,
    /// Tools it is limited to; none: any.
    pub only: Vec<String>,
    /// Whether items whose result reports an error are taken too.
    pub errors: Errors,
    /// Items smaller than this stay, in `min_unit`; 0: none is too small.
    pub min: u64,
    /// What `min` is counted in.
    pub min_unit: Unit,
    /// How much of the newest stays.
    pub keep: KeepRecent,
    /// So many of the oldest stay.
    pub keep_first: u64,
    /// So many are counted in front that the conversation does not show.
    pub hidden_items: u64,
    /// The boundary of `keep.results` moves in steps of so many.
    pub quantum: u64,
    /// Nothing older than the newest item that is replaced already.
    pub stop_at_stubbed: bool,
    /// Where it stops, oldest first; `None`: all that is eligible is taken.
    pub until: Option<Until>,
    /// What stands for an item.
    pub stub: StubSize,
    /// Other stubs for some tools.
    pub by_tool: Vec<(Vec<String>, StubSize)>,
    /// What an edit must save to be made at all.
    pub savings: Savings,
    /// Post level: edits go on until the rule's measure is at or under this.
    pub target: Option<Level>,
    /// Nothing is edited where the target cannot be reached; else all that is eligible is.
    pub target_required: bool,
    /// Whose copy of the history it edits.
    pub view: EditView,
    /// Stop replaying the thinking of assistant messages after the first item touched.
    pub withhold_thinking: bool,
    /// Of pairs: a summary of its own stands for each.
    pub summary: Option<Box<SummarizeRule>>,
    /// Only results that another one repeats.
    pub repeated: Option<Repeated>,
}

impl StubRule {
    /// What stands for an item of this tool.
    pub fn size_for<'t>(&self, tool: impl FnOnce() -> Option<&'t Tool>) -> &StubSize {
        if self.by_tool.is_empty() {
            return &self.stub;
        }
        let tool = tool();
        let own =
            self.by_tool.iter().find(|(only, _)| tool.is_some_and(|t| only.iter().any(|p| t.matches(p))));
        own.map_or(&self.stub, |(_, size)| size)
    }
}

/// What is newer than any of these stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeepRecent {
    /// So many turns; 0 or less keeps nothing.
    pub turns: Option<i64>,
    /// What `turns` counts.
    pub turn: Turn,
    /// So many of the newest results of the rule's tools.
    pub results: Option<u64>,
    /// Answers that think.
    pub thinking_turns: Option<u64>,
    /// So many of the newest client messages.
    pub messages: Option<u64>,
    /// Messages that come to so many estimated tokens.
    pub history_estimate: Option<u64>,
    /// Sizes of the newest items.
    pub sizes: Vec<(Unit, u64)>,
    /// The same, counted from the boundary that the other limits give; replaced items do not count.
    pub beyond: Vec<(Unit, u64)>,
    /// The item that crosses a size is not kept.
    pub drop_crossing: bool,
}

/// All that is eligible together must save so much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Savings {
    /// The least that is worth an edit, in `unit`; 0: anything is.
    pub min: u64,
    /// What savings are counted in.
    pub unit: Unit,
    /// Sizes of what is replaced, without the stubs.
    pub gross: bool,
}

/// What a measure has grown by since the rule acted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// By so much, in the unit of the measure; 0 also where it has shrunk.
    pub by: u64,
    /// Over so many requests; 0: not known.
    pub requests: u64,
}

/// A level: a number, or a share of the limit that fired, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// This number, in the unit of the measure.
    At(i64),
    /// This share of the limit that fired, in millionths.
    OfFired(i64),
    /// What leaves room for so many requests of the growth so far.
    Headroom {
        /// Requests to leave room for.
        requests: u64,
        /// At least this share of the limit that fired, in millionths.
        floor: i64,
        /// At most this share of it, in millionths.
        ceiling: i64,
    },
}

impl Level {
    /// The number, given the limit that fired and the growth so far.
    pub fn value(self, fired: i64, growth: Growth) -> i64 {
        let share = |millionths: i64| {
            i64::try_from(i128::from(fired) * i128::from(millionths) / 1_000_000).unwrap_or(i64::MAX)
        };
        match self {
            Level::At(n) => n,
            Level::OfFired(millionths) => share(millionths),
            Level::Headroom { requests, floor, ceiling } => {
                let expected =
                    u128::from(growth.by) * u128::from(requests) / u128::from(growth.requests.max(1));
                let left = fired.saturating_sub(i64::try_from(expected).unwrap_or(i64::MAX));
                left.max(share(floor)).min(share(ceiling))
            }
        }
    }
}

/// Where a rule stops, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So much is saved, in the unit of savings.
    Saved(u64),
    /// The rule's measure is at or under this.
    Total(Level),
    /// So many are taken.
    Count(u64),
    /// This share of all is taken, in millionths, rounded down.
    Share(i64),
    /// A share that grows until what stays is under a level (messages only; Letta).
    Growing {
        /// Share of the messages that is tried first, in millionths.
        share: i64,
        /// What it grows by each time, in millionths; 0 or less: it is tried once.
        step: i64,
        /// The estimate of what stays must be under this.
        under: Level,
    },
}

/// Size of what stands for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StubSize {
    /// By law; a stub that is not shorter is not used.
    Law(StubLaw),
    /// A provider's placeholder; savings are in tokens.
    Tokens(u64),
    /// Its two ends with a marker.
    Ends(Ends),
    /// Nothing: it is left out.
    Nothing,
}

impl Default for StubSize {
    fn default() -> StubSize {
        StubSize::Law(StubLaw::default())
    }
}
