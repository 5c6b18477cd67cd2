//! From a preset, its parameters and a model to a [`Strategy`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::estimate::EstimateLaw;
use super::laws::PathLaw;
use super::params::{Ability, Param, ParamValue};
use super::preset::{
    Anchor, Belief, If, MeasureOf, MeasureToml, MeasureUnit, Preset, RuleToml, SelectToml, ToolResultsToml,
};
use super::strategy::{
    Action, EditView, Hook, Keep, MarkerPlace, MarkerSpec, Measure, OffloadRule, Rule, Strategy, StubRule,
    StubSize, SummarizeRule, SummaryInput, Threshold,
};
use super::value::{ListValue, Scope, Value, param_name};
use crate::error::{Error, Result};
use crate::provider::{ModelSpec, Models, Ttl};

/// A preset with parameters set, not yet bound to a model.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// Name in results.
    pub label: String,
    pub preset: Arc<Preset>,
    /// Parameters that were set; the others have their default, which may depend on the model.
    pub set: BTreeMap<String, ParamValue>,
    /// Parameters of the simulation itself ([`super::common_params`]) that were set.
    pub common: BTreeMap<String, ParamValue>,
    /// What was odd about the configuration, for the user.
    pub warnings: Vec<String>,
}

impl PolicyConfig {
    /// Every parameter with its value on `model`, in file order: what a recipe records.
    pub fn resolved_params(&self, model: &ModelSpec) -> Vec<(String, ParamValue)> {
        let bound = Bound::new(self, model);
        self.preset.params.iter().map(|p| (p.name.clone(), bound.configured(p).clone())).collect()
    }

    /// Works out everything that depends on the model.
    ///
    /// # Errors
    /// A rule that cannot be resolved, an unknown summarizer model.
    pub fn strategy(&self, model: &ModelSpec, models: &Models) -> Result<Strategy> {
        let mut bound = Bound::new(self, model);
        bound
            .strategy(models)
            .map_err(|reason| Error::Config { origin: format!("policy {}", self.label), reason })
    }
}

/// Parameters bound to a model.
struct Bound<'a> {
    config: &'a PolicyConfig,
    model: &'a ModelSpec,
    belief: Option<&'a Belief>,
    warnings: Vec<String>,
}

impl Scope for Bound<'_> {
    fn number(&self, name: &str) -> std::result::Result<i64, String> {
        match self.value(name)? {
            ParamValue::Int(n) => Ok(*n),
            other => Err(format!("parameter `{name}` is `{other}`, where a number is needed")),
        }
    }

    fn window_tokens(&self) -> i64 {
        self.belief
            .and_then(|b| b.window_tokens)
            .unwrap_or_else(|| i64::try_from(self.model.window_tokens).unwrap_or(i64::MAX))
    }
}

type Resolved<T> = std::result::Result<T, String>;

impl<'a> Bound<'a> {
    fn new(config: &'a PolicyConfig, model: &'a ModelSpec) -> Bound<'a> {
        let belief =
            config.preset.file.belief.iter().find(|b| b.models.iter().any(|p| matches_glob(p, &model.id)));
        Bound { config, model, belief, warnings: config.warnings.clone() }
    }

    fn has(&self, ability: Ability) -> bool {
        match ability {
            Ability::AdaptiveThinking => {
                self.belief.and_then(|b| b.adaptive_thinking).unwrap_or(self.model.adaptive_thinking)
            }
            Ability::ServerEditing => self.model.server_editing,
            Ability::ServerCompaction => self.model.server_compaction,
        }
    }

    fn param(&self, name: &str) -> Resolved<&'a Param> {
        self.config
            .preset
            .params
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| format!("there is no parameter `{name}` in this preset"))
    }

    /// The value as configured.
    fn configured(&self, param: &'a Param) -> &'a ParamValue {
        self.config.set.get(&param.name).unwrap_or_else(|| param.default_for(&|a| self.has(a)))
    }

    fn value(&self, name: &str) -> Resolved<&'a ParamValue> {
        Ok(self.configured(self.param(name)?))
    }

    /// The word a parameter means on this model.
    fn word(&mut self, name: &str) -> Resolved<String> {
        let param = self.param(name)?;
        let ParamValue::Text(word) = self.configured(param) else {
            return Err(format!("parameter `{name}` is no word"));
        };
        let Some((_, meaning)) = param.means.iter().find(|(w, _)| w == word) else { return Ok(word.clone()) };
        if self.has(meaning.ability) {
            return Ok(meaning.then.clone());
        }
        if let Some(warn) = &meaning.warn {
            let text = format!("{} = {word} on {}: {warn}", param.name, self.model.id);
            if !self.warnings.contains(&text) {
                self.warnings.push(text);
            }
        }
        Ok(meaning.otherwise.clone())
    }

    fn list(&self, list: &ListValue) -> Resolved<Vec<String>> {
        match list {
            ListValue::Words(words) => Ok(words.clone()),
            ListValue::Param(name) => match self.value(name)? {
                ParamValue::List(words) => Ok(words.clone()),
                other => Err(format!("parameter `{name}` is `{other}`, where a list is needed")),
            },
        }
    }

    /// A word, or the text of a parameter written `"$name"`.
    fn text(&mut self, text: &str) -> Resolved<String> {
        match param_name(text) {
            Some(name) => self.word(name),
            None => Ok(text.to_owned()),
        }
    }

    fn count(&self, value: &Value) -> Resolved<u64> {
        Ok(u64::try_from(value.resolve(self)?).unwrap_or(0))
    }

    fn holds(&mut self, condition: &If) -> Resolved<bool> {
        let param = self.param(&condition.param)?;
        let actual = match self.configured(param) {
            ParamValue::Text(_) => ParamValue::Text(self.word(&condition.param)?),
            other => other.clone(),
        };
        Ok(condition.is.iter().any(|v| match (v, &actual) {
            (toml::Value::String(s), ParamValue::Text(t)) => s == t,
            (toml::Value::Boolean(a), ParamValue::Bool(b)) => a == b,
            (toml::Value::Integer(a), ParamValue::Int(b)) => a == b,
            _ => false,
        }))
    }

    fn holds_if_given(&mut self, condition: Option<&If>) -> Resolved<bool> {
        condition.map_or(Ok(false), |c| self.holds(c))
    }

    fn strategy(&mut self, models: &Models) -> Resolved<Strategy> {
        let file = &self.config.preset.file;
        let mut rules = Vec::new();
        for rule in &file.rule {
            if let Some(rule) = self.rule(rule, models).map_err(|e| format!("rule `{}`: {e}", rule.id))? {
                rules.push(rule);
            }
        }
        let estimate = file.estimate.as_ref().map(|e| {
            let super::preset::EstimateUnit::JsonUtf16 = e.unit;
            EstimateLaw::new(e.chars_per_token, e.anchor == Anchor::LastUsageTotal, &e.shapes)
        });
        let thinking = file.thinking.clone().unwrap_or_default();
        let send_mismatch = thinking.prefix_mismatch_if.is_none()
            || self.holds_if_given(thinking.prefix_mismatch_if.as_ref())?;
        Ok(Strategy {
            label: self.config.label.clone(),
            rules,
            estimate,
            markers: self.markers()?,
            prefix_mismatch: thinking.prefix_mismatch.filter(|_| send_mismatch),
            on_binding_error: thinking.on_rejection,
            withhold_on_prefix_change: self.holds_if_given(thinking.withhold_on_prefix_change.as_ref())?,
            summary_tokens: match self.config.common.get(super::SUMMARY_TOKENS) {
                Some(ParamValue::Int(n)) if *n > 0 => u64::try_from(*n).ok(),
                _ => None,
            },
            warm_prefix: self.config.common.get(super::WARM_PREFIX) == Some(&ParamValue::Bool(true)),
            model_id_utf16: self.model.id.encode_utf16().count() as u64,
            warnings: self.warnings.clone(),
        })
    }

    fn summarizer_model(&mut self, model: &str, models: &Models) -> Resolved<Option<Box<ModelSpec>>> {
        match self.text(model)?.as_str() {
            "same" => Ok(None),
            id => models.get(id).map(|m| Some(Box::new(m.clone()))).map_err(|e| e.to_string()),
        }
    }

    /// A client marks nothing for a model that caches nothing.
    fn markers(&mut self) -> Resolved<Vec<MarkerSpec>> {
        if self.model.cache.is_none() {
            return Ok(Vec::new());
        }
        let Some(cache) = &self.config.preset.file.cache else { return Ok(Vec::new()) };
        let ttl = parse_ttl(&self.text(&cache.ttl)?)?;
        let mut markers = Vec::new();
        for word in self.list(&cache.markers)? {
            let (name, own) = word.split_once('@').map_or((word.as_str(), None), |(n, t)| (n, Some(t)));
            let Some((_, place)) = MarkerPlace::NAMES.iter().find(|(n, _)| *n == name) else {
                let near = crate::error::nearest(name, MarkerPlace::NAMES.iter().map(|(n, _)| *n));
                let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                return Err(format!("there is no place `{name}` for a cache marker{hint}"));
            };
            let ttl = own.map_or(Ok(ttl), parse_ttl)?;
            markers.push(MarkerSpec { place: *place, ttl });
        }
        markers.sort_by_key(|m| m.place);
        markers.dedup();
        Ok(markers)
    }

    fn rule(&mut self, rule: &RuleToml, models: &Models) -> Resolved<Option<Rule>> {
        for condition in &rule.conditions {
            if !self.holds(condition)? {
                return Ok(None);
            }
        }
        if rule.if_model.is_some_and(|ability| !self.has(ability)) {
            return Ok(None);
        }
        check_shape(rule)?;
        let when = rule.when.iter().map(|m| self.threshold(m)).collect::<Resolved<Vec<_>>>()?;
        let action = self.action(rule, models)?;
        Ok(Some(Rule { id: rule.id.clone(), hook: rule.at, when, manual: rule.manual, action }))
    }

    fn threshold(&self, m: &MeasureToml) -> Resolved<Threshold> {
        let measure = match (m.of, m.unit) {
            (MeasureOf::Block, MeasureUnit::Utf16) => Measure::BlockUtf16,
            (MeasureOf::ToolResults, MeasureUnit::Utf16) => Measure::ToolResultsUtf16,
            (MeasureOf::Messages, MeasureUnit::Estimate) => Measure::MessagesEstimate,
            (MeasureOf::Request, MeasureUnit::Tokens) => Measure::RequestTokens,
            (of, unit) => return Err(format!("{of:?} cannot be measured in {unit:?}")),
        };
        let (value, inclusive) = match (&m.over, &m.at_least) {
            (Some(v), None) => (v, false),
            (None, Some(v)) => (v, true),
            _ => return Err("a measure has exactly one of `over` and `at_least`".to_owned()),
        };
        Ok(Threshold { measure, limit: value.resolve(self)?, inclusive })
    }

    fn action(&mut self, rule: &RuleToml, models: &Models) -> Resolved<Action> {
        let given = [
            rule.offload.is_some(),
            rule.stub.is_some(),
            rule.clear.is_some(),
            rule.summarize.is_some(),
            rule.native_compact.is_some(),
        ];
        if given.iter().filter(|g| **g).count() != 1 {
            return Err("exactly one of `offload`, `stub`, `clear`, `summarize`, `native_compact` is needed"
                .to_owned());
        }
        if let Some(offload) = &rule.offload {
            return self.offload(rule, offload);
        }
        if let Some(law) = &rule.stub {
            return self.stub(rule, StubSize::Law(law.clone()));
        }
        if let Some(clear) = &rule.clear {
            return self.stub(rule, StubSize::Tokens(clear.placeholder_tokens));
        }
        self.summarize(rule, models)
    }

    fn tool_results(rule: &RuleToml) -> Resolved<&ToolResultsToml> {
        match &rule.select {
            Some(SelectToml::ToolResults(select)) => Ok(select),
            _ => Err("this action needs `select = { tool_results = … }`".to_owned()),
        }
    }

    fn offload(&mut self, rule: &RuleToml, offload: &super::preset::OffloadToml) -> Resolved<Action> {
        let select = Self::tool_results(rule)?;
        let home = self.text(&offload.path.home)?;
        let utf16 = |s: &str| s.encode_utf16().count() as u64;
        Ok(Action::Offload(OffloadRule {
            except: self.list(&select.except)?,
            keep_head: self.count(&offload.head)?,
            keep_tail: self.count(&offload.tail)?,
            limit: self.count(&offload.limit)?,
            stub: offload.stub.clone(),
            path: PathLaw {
                folder_utf16: utf16(&home) + utf16(&offload.path.folder),
                session_utf16: offload.path.session_id,
                fixed: utf16("/") + utf16("-") + utf16(".txt"),
            },
        }))
    }

    fn stub(&mut self, rule: &RuleToml, stub: StubSize) -> Resolved<Action> {
        let select = Self::tool_results(rule)?;
        Ok(Action::Stub(StubRule {
            except: self.list(&select.except)?,
            min_utf16: select.min.as_ref().map_or(Ok(0), |v| self.count(v))?,
            keep_recent_turns: select.keep_recent_turns.as_ref().map_or(Ok(0), |v| v.resolve(self))?,
            stub,
            min_savings: rule.cadence.min_savings.as_ref().map_or(Ok(0), |v| self.count(v))?,
            view: rule.view,
            withhold_thinking: self.holds_if_given(rule.withhold_thinking.as_ref())?,
        }))
    }

    fn summarize(&mut self, rule: &RuleToml, models: &Models) -> Resolved<Action> {
        if let Some(native) = &rule.native_compact {
            return Ok(Action::Summarize(SummarizeRule {
                keep: Keep::Nothing,
                model: None,
                input: SummaryInput::PrefixFork,
                wrap_utf16: 0,
                wrap_json_escapes: 0,
                max_output_tokens: self.count(&native.max_output_tokens)?,
                withhold_kept_thinking: false,
            }));
        }
        let Some(summarize) = &rule.summarize else { return Err("no action".to_owned()) };
        let Some(SelectToml::Messages(select)) = &rule.select else {
            return Err("this action needs `select = { messages = … }`".to_owned());
        };
        let keep = match (&select.keep_recent_tokens, select.keep_unanswered) {
            (Some(tokens), false) => Keep::RecentTokens(self.count(tokens)?),
            (None, true) => Keep::UnansweredUser,
            (None, false) => Keep::Nothing,
            (Some(_), true) => {
                return Err("`keep_recent_tokens` and `keep_unanswered` exclude each other".to_owned());
            }
        };
        Ok(Action::Summarize(SummarizeRule {
            keep,
            model: self.summarizer_model(&summarize.model, models)?,
            input: SummaryInput::Transcript {
                law: summarize.transcript.clone(),
                system_utf16: summarize.system_chars,
                prompt_utf16: summarize.prompt_chars,
            },
            wrap_utf16: summarize.wrap_chars,
            wrap_json_escapes: summarize.wrap_json_escapes,
            max_output_tokens: self.count(&summarize.max_output_tokens)?,
            withhold_kept_thinking: self.holds_if_given(rule.withhold_thinking.as_ref())?,
        }))
    }
}

/// Whether the parts of a rule go together; a part that would never matter is a mistake.
fn check_shape(rule: &RuleToml) -> Resolved<()> {
    let summarizes = rule.summarize.is_some() || rule.native_compact.is_some();
    let hook = if rule.offload.is_some() { Hook::ToolResult } else { Hook::Request };
    if rule.at != hook {
        return Err("`offload` acts at `tool_result`, everything else at `request`".to_owned());
    }
    let of_block = |m: &MeasureToml| m.of == MeasureOf::Block;
    if rule.offload.is_some() && (rule.when.is_empty() || !rule.when.iter().all(of_block)) {
        return Err(
            "`offload` needs `when` with the size of the `block` at hand, and nothing else".to_owned()
        );
    }
    if rule.offload.is_none() && rule.when.iter().any(of_block) {
        return Err("the size of a `block` is known at `tool_result` only".to_owned());
    }
    let edits = rule.stub.is_some() || rule.clear.is_some();
    if !edits && (rule.cadence.min_savings.is_some() || rule.view != EditView::Ledger) {
        return Err("`cadence` and `view` belong to `stub` and `clear`".to_owned());
    }
    if rule.clear.is_some() != (rule.view == EditView::Server) {
        return Err(
            "`clear` is the provider's own edit: it goes with `view = \"server\"`, and only it".to_owned()
        );
    }
    if rule.manual && !summarizes {
        return Err("`manual` belongs to `summarize` and `native_compact`".to_owned());
    }
    match &rule.select {
        Some(SelectToml::ToolResults(s))
            if rule.offload.is_some() && (s.min.is_some() || s.keep_recent_turns.is_some()) =>
        {
            Err("an offload sees one fresh result: `min` and `keep_recent_turns` do not apply to it"
                .to_owned())
        }
        _ => Ok(()),
    }
}

fn parse_ttl(text: &str) -> Resolved<Ttl> {
    match text {
        "5m" => Ok(Ttl::Short),
        "1h" => Ok(Ttl::Long),
        other => Err(format!("`{other}` is no cache life: write 5m or 1h")),
    }
}

/// `*` stands for any run of characters.
fn matches_glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).any(|i| tail.is_char_boundary(i) && matches_glob(rest, &tail[i..]))
        }),
    }
}
