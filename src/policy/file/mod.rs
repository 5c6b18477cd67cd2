//! A policy file as written: the TOML form of a strategy, before parameters and model are known.

mod action;
mod one_or_many;
mod rule;
mod select;

pub(super) use action::{
    InputForm, NativeCompactToml, OffloadToml, OnSummaryOverflow, Per as SummaryPer, SplitTurnToml,
    SummarizeToml, TruncateResultsToml, TruncateToml,
};
pub use action::{NativeForm, Place};
pub(super) use one_or_many::OneOrMany;
pub(super) use rule::{
    CadenceToml, FreedForm, If, MeasureOf, MeasureToml, MeasureUnit, RecoveryToml, RuleToml, SavingsForm,
    ScopeToml, StopToml, Withhold,
};
pub(super) use select::{
    CopyForm, CrossingForm, ItemsToml, KeepRecentToml, MessagesToml, SelectToml, StopAtForm, UntilToml,
};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::estimate::Shapes;
use super::params::ParamToml;
use super::strategy::{OnBindingError, Turn};
use super::value::{Decimal, ListValue};
use crate::provider::PrefixMismatch;

/// The top level of a policy file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ctxsim policy")]
pub(super) struct PolicyFile {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) summary: String,
    #[serde(default)]
    pub(super) sources: Vec<String>,
    /// Preset or file that this one starts from: its parameters are kept or replaced one by one, its rules
    /// by id, everything else as a whole.
    #[serde(default)]
    pub(super) extends: Option<String>,
    /// Rules of other presets or files, each with the scope and the parameters of its own file.
    #[serde(default)]
    pub(super) include: Vec<Include>,
    /// What `keep_recent.turns` counts; one assistant message, unless the file says otherwise.
    #[serde(default)]
    pub(super) turn: Option<Turn>,
    /// What a message of the client's list is; one per tool result, unless the file says otherwise.
    #[serde(default)]
    pub(super) messages: Option<MessagesForm>,
    /// Its parameters by name, dotted where the agent's are.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ParamToml>")]
    pub(super) params: toml::map::Map<String, toml::Value>,
    #[serde(default)]
    pub(super) belief: Vec<Belief>,
    #[serde(default)]
    pub(super) estimate: Option<EstimateToml>,
    /// Needed unless the file extends another.
    #[serde(default)]
    pub(super) cache: Option<CacheToml>,
    #[serde(default)]
    pub(super) thinking: Option<ThinkingToml>,
    #[serde(default)]
    pub(super) rule: Vec<RuleToml>,
    /// What to do when the provider says that the prompt does not fit; without it the run ends there.
    #[serde(default)]
    pub(super) recovery: Option<RecoveryToml>,
}

/// Rules taken from another file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Include {
    /// Preset or file.
    pub(super) from: String,
    /// Their ids, in the order in which they are to run; all of the file's without it.
    #[serde(default)]
    pub(super) rules: Vec<String>,
}

/// What a message of the client's list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MessagesForm {
    /// Each tool result is one.
    PerResult,
    /// All results of a batch are one.
    Merged,
}

/// What the client believes of models whose id matches: it may differ from the model table.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Belief {
    /// Ids with `*` for any run of characters; the first match counts.
    pub(super) models: Vec<String>,
    #[serde(default)]
    pub(super) window_tokens: Option<i64>,
    #[serde(default)]
    pub(super) max_output_tokens: Option<i64>,
    #[serde(default)]
    pub(super) adaptive_thinking: Option<bool>,
    #[serde(default)]
    pub(super) server_editing: Option<bool>,
    #[serde(default)]
    pub(super) server_compaction: Option<bool>,
    /// The model that `lite` stands for.
    #[serde(default)]
    pub(super) lite_model: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EstimateToml {
    pub(super) unit: EstimateUnit,
    /// Characters (or bytes) of a token; 4 without it.
    #[serde(default)]
    pub(super) chars_per_token: Option<Decimal>,
    #[serde(default)]
    pub(super) anchor: Anchor,
    /// Any edit of the stored history makes the client forget the last usage until the next answer.
    #[serde(default)]
    pub(super) anchor_until_edit: bool,
    /// Of `json_utf16`.
    #[serde(default)]
    pub(super) shapes: Option<Shapes>,
    /// How a part of a token counts.
    #[serde(default)]
    pub(super) round: Round,
    /// Where it is rounded.
    #[serde(default)]
    pub(super) per: Per,
    /// Tokens of every message besides its text.
    #[serde(default)]
    pub(super) message_tokens: u64,
    /// Tokens of every image.
    #[serde(default)]
    pub(super) image_tokens: u64,
    /// Whether thinking counts; it does without this.
    #[serde(default)]
    pub(super) thinking: Option<bool>,
    /// Whether names and arguments of calls count; they do without this.
    #[serde(default)]
    pub(super) args: Option<bool>,
    /// What the sum is multiplied by, in hundredths; 100 without it.
    #[serde(default)]
    pub(super) factor_percent: Option<u64>,
}

/// What an estimate looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EstimateUnit {
    /// UTF-16 units of each message's JSON text.
    JsonUtf16,
    /// UTF-16 units of the texts.
    Utf16,
    /// UTF-8 bytes of the texts.
    Bytes,
    /// Of each text: ASCII characters / 4, down, and the other characters' bytes / 1.5, half up.
    Runes,
    /// The session's own token counts.
    Tokens,
}

/// How a part of a token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Round {
    /// Any part counts as a whole token.
    #[default]
    Up,
    /// No part counts.
    Down,
    /// Half a token and more counts as a whole one.
    HalfUp,
}

/// Where an estimate is rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Each text by itself.
    Block,
    /// Each message by itself.
    #[default]
    Message,
    /// The sum over all messages.
    All,
}

/// Where an estimate starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// From nothing.
    #[default]
    None,
    /// The last answer's prompt and output together; what came after it is estimated.
    LastUsageTotal,
    /// The last answer's prompt and output together, and no more.
    LastUsage,
    /// The last answer's prompt, and no more.
    LastPrompt,
    /// The last answer's prompt; the answer and what came after it are estimated.
    LastPromptAndTail,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheToml {
    /// A parameter with `5m` or `1h`.
    pub(super) ttl: String,
    /// Names of places, each with an optional life of its own (`system@1h`).
    pub(super) markers: ListValue,
}

/// What the client does about bound thinking.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingToml {
    /// Tools or system prompt change in-process: earlier thinking is no longer replayed.
    #[serde(default)]
    pub(super) withhold_on_prefix_change: Option<If>,
    /// The setting sent with each request.
    #[serde(default)]
    pub(super) prefix_mismatch: Option<PrefixMismatch>,
    /// When it is sent.
    #[serde(default)]
    pub(super) prefix_mismatch_if: Option<If>,
    #[serde(default)]
    pub(super) on_rejection: OnBindingError,
}
