//! What a rule looks at, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::MeasureUnit;
use crate::policy::strategy::{Errors, Snap, Toward, Turn};
use crate::policy::value::{Decimal, ListValue, Share, Value};

/// What a rule looks at. Written as a table with one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum SelectToml {
    ToolResults(Box<ItemsToml>),
    /// Arguments of calls.
    ToolInputs(Box<ItemsToml>),
    /// Calls with their results.
    Pairs(Box<ItemsToml>),
    Thinking(Box<ItemsToml>),
    Messages(Box<MessagesToml>),
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ItemsToml {
    /// Size below which an item stays.
    #[serde(default)]
    pub(in crate::policy) min: Option<Value>,
    /// Its unit: `utf16` without it.
    #[serde(default)]
    pub(in crate::policy) min_unit: Option<MeasureUnit>,
    /// The older way to write `keep_recent = { turns }`.
    #[serde(default)]
    pub(in crate::policy) keep_recent_turns: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) keep_recent: Option<KeepRecentToml>,
    /// So many of the oldest stay.
    #[serde(default)]
    pub(in crate::policy) keep_first: Option<Value>,
    /// So many items are counted in front that the conversation does not show.
    #[serde(default)]
    pub(in crate::policy) hidden_items: Option<Value>,
    /// The boundary of `keep_recent.results` moves in steps of so many.
    #[serde(default)]
    pub(in crate::policy) quantum: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) except: ListValue,
    /// Only these tools; any without it.
    #[serde(default)]
    pub(in crate::policy) only: Option<ListValue>,
    #[serde(default)]
    pub(in crate::policy) errors: Errors,
    /// Only results whose call, with the same arguments, was made again later; one that stands in full must do.
    #[serde(default)]
    pub(in crate::policy) superseded: bool,
    /// Only results whose content is that of another one that stands in full: which of the copies.
    #[serde(default)]
    pub(in crate::policy) duplicates: Option<CopyForm>,
    /// Nothing older than this is looked at.
    #[serde(default)]
    pub(in crate::policy) stop_at: Option<StopAtForm>,
    #[serde(default)]
    pub(in crate::policy) until: Option<UntilToml>,
}

/// Which of several copies are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum CopyForm {
    /// All but the newest.
    Earlier,
    /// All but the oldest.
    Later,
}

/// Where a selector stops on its way from the newest item to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum StopAtForm {
    /// The newest item that is replaced already.
    Stubbed,
}

/// What is newer than any of these stays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct KeepRecentToml {
    #[serde(default)]
    pub(in crate::policy) turns: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) turn: Option<Turn>,
    #[serde(default)]
    pub(in crate::policy) results: Option<Value>,
    /// Answers that think (single items only).
    #[serde(default)]
    pub(in crate::policy) thinking_turns: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) messages: Option<Value>,
    /// Messages that come to so many estimated tokens (single items only).
    #[serde(default)]
    pub(in crate::policy) history_estimate: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) requests: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) tokens: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) estimate: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) bytes: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) utf16: Option<Value>,
    /// Share of the characters of the history (messages only).
    #[serde(default)]
    pub(in crate::policy) share: Option<Decimal>,
    /// Sizes that count only what is older than the other limits' boundary.
    #[serde(default)]
    pub(in crate::policy) beyond: Option<BeyondToml>,
    /// Whether the item that crosses a size stays: `keep`, unless it says `drop`.
    #[serde(default)]
    pub(in crate::policy) crossing: CrossingForm,
}

/// Sizes of the items right behind those that other limits keep.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct BeyondToml {
    #[serde(default)]
    pub(in crate::policy) tokens: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) estimate: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) bytes: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) utf16: Option<Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum CrossingForm {
    #[default]
    Keep,
    Drop,
}

/// Where a rule stops, oldest first: exactly one of these.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct UntilToml {
    /// So much is saved.
    #[serde(default)]
    pub(in crate::policy) saved: Option<Value>,
    /// The rule's measure is at or under this.
    #[serde(default)]
    pub(in crate::policy) total: Option<Value>,
    /// So many are taken.
    #[serde(default)]
    pub(in crate::policy) count: Option<Value>,
    /// This share of all items is taken, rounded down.
    #[serde(default)]
    pub(in crate::policy) share: Option<Share>,
    /// Of messages, with `share` and `total`: the share grows by this until what stays is under the total.
    #[serde(default)]
    pub(in crate::policy) step: Option<Share>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct MessagesToml {
    /// Everything but the user messages at the end that no answer follows.
    #[serde(default)]
    pub(in crate::policy) keep_unanswered: bool,
    /// Of `drop`: the last user message stays, wherever it is.
    #[serde(default)]
    pub(in crate::policy) keep_last_user: bool,
    /// Everything before a tail of so many estimated tokens, cut at a user message.
    #[serde(default)]
    pub(in crate::policy) keep_recent_tokens: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) keep_recent: Option<KeepRecentToml>,
    /// So many turns stay whatever they weigh.
    #[serde(default)]
    pub(in crate::policy) at_least_turns: Option<Value>,
    /// Nothing happens with fewer turns in the history.
    #[serde(default)]
    pub(in crate::policy) needs_turns: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) snap: Snap,
    #[serde(default)]
    pub(in crate::policy) toward: Toward,
    /// So many messages at the front stay.
    #[serde(default)]
    pub(in crate::policy) keep_first: Option<Value>,
    /// So many events are counted that the conversation does not show.
    #[serde(default)]
    pub(in crate::policy) hidden_events: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) until: Option<UntilToml>,
}
