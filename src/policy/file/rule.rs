//! A rule as written: when it runs, how often, and what happens when a prompt does not fit.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::action::{
    ClearInputsToml, ClearToml, DropToml, NativeCompactToml, OffloadToml, StripToml, StubByToolToml,
    SummarizeToml, TruncateToml,
};
use super::{Belief, EstimateToml, MessagesForm, OneOrMany, SelectToml};
use crate::policy::laws::StubLaw;
use crate::policy::params::{Ability, ParamValue};
use crate::policy::recovery::{Newest, OnRetryFailure, Reset};
use crate::policy::sent::MeasuredState;
use crate::policy::strategy::{EditView, Hook, Turn, WhenCache};
use crate::policy::value::{Share, Value};

/// A condition on a parameter: exactly one of its forms.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct If {
    /// The parameter; a condition on the window has none.
    #[serde(default)]
    pub(in crate::policy) param: Option<String>,
    /// The window the client believes in is larger.
    #[serde(default)]
    pub(in crate::policy) window_over: Option<i64>,
    /// It is not.
    #[serde(default)]
    pub(in crate::policy) window_at_most: Option<i64>,
    /// Any of these.
    #[serde(default)]
    #[schemars(with = "Vec<ParamValue>")]
    pub(in crate::policy) is: Vec<toml::Value>,
    /// None of these.
    #[serde(default)]
    #[schemars(with = "Vec<ParamValue>")]
    pub(in crate::policy) is_not: Vec<toml::Value>,
    /// The number is not smaller.
    #[serde(default)]
    pub(in crate::policy) at_least: Option<i64>,
    /// The number is smaller.
    #[serde(default)]
    pub(in crate::policy) below: Option<i64>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RuleToml {
    pub(in crate::policy) id: String,
    /// When it may run: a hook or a list of hooks.
    pub(in crate::policy) at: OneOrMany<Hook>,
    /// All must hold.
    #[serde(default, rename = "if")]
    pub(in crate::policy) conditions: Vec<If>,
    /// Holds for models with this ability.
    #[serde(default)]
    pub(in crate::policy) if_model: Option<Ability>,
    /// Any of these makes it run; none: always.
    #[serde(default)]
    pub(in crate::policy) when: Vec<MeasureToml>,
    /// All of `when` must hold, instead of any.
    #[serde(default)]
    pub(in crate::policy) all: bool,
    /// Runs iff that rule's trigger fired at the same occasion and did not stop the sequence.
    #[serde(default)]
    pub(in crate::policy) follows: Option<String>,
    /// A recorded manual request runs it too: the older way to write the hook `manual`.
    #[serde(default)]
    pub(in crate::policy) manual: bool,
    #[serde(default)]
    pub(in crate::policy) select: Option<SelectToml>,
    #[serde(default)]
    pub(in crate::policy) offload: Option<OffloadToml>,
    #[serde(default)]
    pub(in crate::policy) stub: Option<StubLaw>,
    /// Other stubs for some tools, under the same gate.
    #[serde(default)]
    pub(in crate::policy) stub_by_tool: Vec<StubByToolToml>,
    #[serde(default)]
    pub(in crate::policy) clear: Option<ClearToml>,
    #[serde(default)]
    pub(in crate::policy) truncate: Option<TruncateToml>,
    #[serde(default)]
    pub(in crate::policy) clear_inputs: Option<ClearInputsToml>,
    #[serde(default)]
    pub(in crate::policy) drop: Option<DropToml>,
    #[serde(default)]
    pub(in crate::policy) strip_thinking: Option<StripToml>,
    #[serde(default)]
    pub(in crate::policy) summarize: Option<SummarizeToml>,
    #[serde(default)]
    pub(in crate::policy) native_compact: Option<NativeCompactToml>,
    #[serde(default)]
    pub(in crate::policy) cadence: CadenceToml,
    #[serde(default)]
    pub(in crate::policy) stop_if_under: Option<StopToml>,
    /// After acting: if at least this share of the history (plain estimate) left, the rules that follow it do not run.
    #[serde(default)]
    pub(in crate::policy) stop_if_saved: Option<Share>,
    /// Runs only once the breaker of that rule is open.
    #[serde(default)]
    pub(in crate::policy) if_broken: Option<String>,
    #[serde(default)]
    pub(in crate::policy) view: EditView,
    /// Stop replaying the thinking that the rule's edit makes stale.
    #[serde(default)]
    pub(in crate::policy) withhold_thinking: Option<Withhold>,
    #[serde(default)]
    pub(in crate::policy) scope: ScopeToml,
}

/// Always (or never), or where a condition holds. A visitor tells them apart.
#[derive(Debug, Clone)]
pub(in crate::policy) enum Withhold {
    Always(bool),
    If(If),
}

impl<'de> Deserialize<'de> for Withhold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Withhold, D::Error> {
        deserializer.deserialize_any(WithholdVisitor)
    }
}

impl JsonSchema for Withhold {
    fn schema_name() -> Cow<'static, str> {
        "Withhold".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "boolean"}, generator.subschema_for::<If>()]})
    }
}

struct WithholdVisitor;

impl<'de> Visitor<'de> for WithholdVisitor {
    type Value = Withhold;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a condition")
    }

    fn visit_bool<E: de::Error>(self, always: bool) -> Result<Withhold, E> {
        Ok(Withhold::Always(always))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Withhold, A::Error> {
        If::deserialize(MapAccessDeserializer::new(map)).map(Withhold::If)
    }
}

/// After acting, measure again: below the limit the rules that follow it do not run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct StopToml {
    /// `estimate`, or `plain_estimate` without its anchor.
    pub(in crate::policy) unit: MeasureUnit,
    pub(in crate::policy) under: Value,
}

/// What a rule measures with, where it is not the file's.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ScopeToml {
    #[serde(default)]
    pub(in crate::policy) turn: Option<Turn>,
    #[serde(default)]
    pub(in crate::policy) messages: Option<MessagesForm>,
    #[serde(default)]
    pub(in crate::policy) window: Option<i64>,
    #[serde(default)]
    pub(in crate::policy) estimate: Option<EstimateToml>,
    /// Of an included rule: what its own file believes of models.
    #[serde(skip)]
    pub(in crate::policy) belief: Option<Vec<Belief>>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct MeasureToml {
    pub(in crate::policy) of: MeasureOf,
    pub(in crate::policy) unit: MeasureUnit,
    /// Strictly above.
    #[serde(default)]
    pub(in crate::policy) over: Option<Value>,
    /// At or above.
    #[serde(default)]
    pub(in crate::policy) at_least: Option<Value>,
    /// Counts at this hook only.
    #[serde(default)]
    pub(in crate::policy) at: Option<Hook>,
    /// A limit below 0 turns the measure off.
    #[serde(default)]
    pub(in crate::policy) off_if_negative: bool,
    /// Passes over `cadence`.
    #[serde(default)]
    pub(in crate::policy) hard: bool,
    /// Which state of the history: as it is stored, without this.
    #[serde(default)]
    pub(in crate::policy) state: MeasuredState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum MeasureOf {
    /// The result at hand.
    Block,
    /// All stored results.
    ToolResults,
    /// The stored history.
    Messages,
    /// The request as the provider would count it.
    Request,
    /// The prompt that the last answer reports.
    LastPrompt,
    /// Prompt and output that the last answer reports.
    LastUsage,
    /// What the rule's selector would take now.
    Eligible,
    /// Since the rule acted last.
    SincePass,
    /// Since the last request.
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum MeasureUnit {
    Utf16,
    Bytes,
    Lines,
    Estimate,
    /// The estimate without its anchor.
    PlainEstimate,
    Tokens,
    Count,
    Turns,
    Events,
    Requests,
    Seconds,
}

/// When a rule that fires holds back.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct CadenceToml {
    /// What must be saved for the rule to act at all.
    #[serde(default)]
    pub(in crate::policy) min_savings: Option<Value>,
    /// More than this must be saved.
    #[serde(default)]
    pub(in crate::policy) savings_over: Option<Value>,
    /// Unit of savings; the stub's own without it.
    #[serde(default)]
    pub(in crate::policy) savings_unit: Option<MeasureUnit>,
    #[serde(default)]
    pub(in crate::policy) savings: SavingsForm,
    /// A fold of a smaller share of the history is left out, unless the user asked for it.
    #[serde(default)]
    pub(in crate::policy) min_fold_percent: Option<Value>,
    /// A fold of less than the newest summary holds is left out, unless the user asked for it.
    #[serde(default)]
    pub(in crate::policy) larger_than_last_summary: bool,
    /// So many requests between two actions of this rule.
    #[serde(default)]
    pub(in crate::policy) min_interval: Option<Value>,
    /// What `min_interval` counts: `requests` or `turns`.
    #[serde(default)]
    pub(in crate::policy) interval_unit: Option<MeasureUnit>,
    /// Not again before a new answer came.
    #[serde(default)]
    pub(in crate::policy) not_after_self: bool,
    /// If what the last action left is above the trigger, wait until a tenth of it has come.
    #[serde(default)]
    pub(in crate::policy) no_refire_above_floor: bool,
    #[serde(default)]
    pub(in crate::policy) breaker: Option<BreakerToml>,
    /// Edits go on, oldest first, until the rule's measure is at or under this.
    #[serde(default)]
    pub(in crate::policy) target: Option<Value>,
    /// In place of `target`: room for the growth to come. Of messages: they leave until it is there.
    #[serde(default)]
    pub(in crate::policy) headroom: Option<HeadroomToml>,
    /// Nothing happens where the target cannot be reached.
    #[serde(default)]
    pub(in crate::policy) target_required: bool,
    /// Whether the state of the cache, as the client's clock knows it, matters.
    #[serde(default)]
    pub(in crate::policy) when_cache: WhenCache,
    /// Of `prefer_cold`: the measure from which it does not wait any longer.
    #[serde(default)]
    pub(in crate::policy) prefer_cold_until: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) break_even: Option<BreakEvenToml>,
}

/// A target that leaves room for so many requests that grow as those since the last action did, but at least and at
/// most so much of the limit that fired.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct HeadroomToml {
    pub(in crate::policy) requests: Value,
    pub(in crate::policy) floor: Share,
    pub(in crate::policy) ceiling: Share,
}

/// What counts as saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum SavingsForm {
    /// What leaves, less what stands in its place.
    #[default]
    Net,
    /// What leaves.
    Gross,
}

/// Off for the rest of the run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct BreakerToml {
    /// After so many failed actions in a row.
    #[serde(default)]
    pub(in crate::policy) failures: Option<Value>,
    /// After so many actions in a row, each less than three requests after the one before.
    #[serde(default)]
    pub(in crate::policy) refills: Option<Value>,
}

/// Acts only if the reads it saves over the expected remaining steps are worth the rewrite.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct BreakEvenToml {
    /// Steps that are still to come.
    pub(in crate::policy) steps: Value,
}

/// A ladder of attempts after "the prompt does not fit".
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RecoveryToml {
    /// Uses of the ladder until `reset`; one without it.
    #[serde(default)]
    pub(in crate::policy) attempts: Option<Value>,
    #[serde(default)]
    pub(in crate::policy) reset: Reset,
    #[serde(default)]
    pub(in crate::policy) on_retry_failure: OnRetryFailure,
    pub(in crate::policy) step: Vec<RecoveryStepToml>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RecoveryStepToml {
    /// Ids of rules; their triggers and cadences are not asked.
    #[serde(default)]
    pub(in crate::policy) run: Vec<String>,
    /// Messages taken off the end while the rules run.
    #[serde(default)]
    pub(in crate::policy) set_aside: Option<SetAsideToml>,
    /// Skipped with fewer messages in the history.
    #[serde(default)]
    pub(in crate::policy) needs_messages: u64,
    /// When the request is sent again after the step: always, without it.
    #[serde(default)]
    pub(in crate::policy) retry: Option<RetryToml>,
    /// Skipped unless all of this holds.
    #[serde(default, rename = "if")]
    pub(in crate::policy) conditions: Vec<If>,
}

/// Messages taken off the end.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct SetAsideToml {
    /// So many, or `"half"` of all.
    pub(in crate::policy) newest: Newest,
    /// But not fewer.
    #[serde(default)]
    pub(in crate::policy) at_least: u64,
    /// And so many are left, whatever `at_least` says.
    #[serde(default)]
    pub(in crate::policy) leave: u64,
}

/// Only if the step freed what the error text says is missing, and a margin.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct RetryToml {
    pub(in crate::policy) freed: FreedForm,
    #[serde(default)]
    pub(in crate::policy) margin: Option<Value>,
}

/// What must have been freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum FreedForm {
    /// By how many tokens the prompt was too long.
    Deficit,
}
