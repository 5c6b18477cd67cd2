//! From a preset, its parameters and a model to a [`Strategy`].

mod action;
mod fold;
mod recovery;
mod rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::estimate::{EstimateLaw, TextLaw, TextUnit};
use super::file::{Belief, EstimateToml, EstimateUnit, If, MessagesForm, Withhold};
use super::fold::Summarizer;
use super::params::{Ability, Param, ParamValue};
use super::preset::Preset;
use super::strategy::{MarkerPlace, MarkerSpec, Strategy, TokenPrice};
use super::value::{Decimal, ListValue, Scope, Value, param_name};
use crate::error::{Error, Result};
use crate::provider::{ModelSpec, Models, Ttl};

/// A preset with parameters set, not yet bound to a model.
#[derive(Debug, Clone)]
pub struct PolicyConfig {
    /// Name in results.
    pub label: String,
    /// The policy file it comes from, parsed.
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
    /// Of the rule at hand: its own window, and the smallest limit of its trigger.
    window: Option<i64>,
    trigger: Option<i64>,
}

impl Scope for Bound<'_> {
    fn number(&self, name: &str) -> std::result::Result<i64, String> {
        match self.value(name)? {
            ParamValue::Int(n) => Ok(*n),
            other => Err(format!("parameter `{name}` is `{other}`, where a number is needed")),
        }
    }

    fn window_tokens(&self) -> i64 {
        let typed = match self.config.common.get(super::BELIEVED_WINDOW) {
            Some(ParamValue::Int(n)) if *n > 0 => Some(*n),
            _ => None,
        };
        typed
            .or(self.window)
            .or_else(|| self.belief.and_then(|b| b.window_tokens))
            .unwrap_or_else(|| i64::try_from(self.model.window_tokens).unwrap_or(i64::MAX))
    }

    fn max_output_tokens(&self) -> i64 {
        self.belief
            .and_then(|b| b.max_output_tokens)
            .unwrap_or_else(|| i64::try_from(self.model.max_output_tokens).unwrap_or(i64::MAX))
    }

    fn share(&self, name: &str) -> std::result::Result<i64, String> {
        match self.value(name)? {
            ParamValue::Decimal(d) => Ok(d.0),
            ParamValue::Int(n) => Ok(n.saturating_mul(1_000_000)),
            other => Err(format!("parameter `{name}` is `{other}`, where a share is needed")),
        }
    }

    fn trigger(&self) -> std::result::Result<i64, String> {
        self.trigger.ok_or_else(|| "`trigger` needs a rule with a limit in its `when`".to_owned())
    }
}

type Resolved<T> = std::result::Result<T, String>;

impl<'a> Bound<'a> {
    fn new(config: &'a PolicyConfig, model: &'a ModelSpec) -> Bound<'a> {
        let belief = belief_of(&config.preset.file.belief, &model.id);
        Bound { config, model, belief, warnings: config.warnings.clone(), window: None, trigger: None }
    }

    fn has(&self, ability: Ability) -> bool {
        match ability {
            Ability::AdaptiveThinking => {
                self.belief.and_then(|b| b.adaptive_thinking).unwrap_or(self.model.adaptive_thinking)
            }
            Ability::ServerEditing => {
                self.belief.and_then(|b| b.server_editing).unwrap_or(self.model.server_editing)
            }
            Ability::ServerCompaction => {
                self.belief.and_then(|b| b.server_compaction).unwrap_or(self.model.server_compaction)
            }
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
        let window = self.window_tokens();
        let fits = condition.window_over.is_none_or(|low| window > low)
            && condition.window_at_most.is_none_or(|high| window <= high);
        let Some(name) = &condition.param else {
            let asks = condition.window_over.is_some() || condition.window_at_most.is_some();
            let nothing = || "a condition names a `param`, or the window it needs".to_owned();
            return if asks { Ok(fits) } else { Err(nothing()) };
        };
        let param = self.param(name)?;
        let actual = match self.configured(param) {
            ParamValue::Text(_) => ParamValue::Text(self.word(name)?),
            other => other.clone(),
        };
        let equal = |v: &toml::Value| match (v, &actual) {
            (toml::Value::String(s), ParamValue::Text(t)) => s == t,
            (toml::Value::Boolean(a), ParamValue::Bool(b)) => a == b,
            (toml::Value::Integer(a), ParamValue::Int(b)) => a == b,
            _ => false,
        };
        let number = match actual {
            ParamValue::Int(n) => Some(n),
            _ => None,
        };
        if (condition.at_least.is_some() || condition.below.is_some()) && number.is_none() {
            return Err(format!("parameter `{name}` is no whole number"));
        }
        Ok(fits
            && (condition.is.is_empty() || condition.is.iter().any(equal))
            && !condition.is_not.iter().any(equal)
            && condition.at_least.is_none_or(|low| number >= Some(low))
            && condition.below.is_none_or(|high| number < Some(high)))
    }

    fn withholds(&mut self, form: Option<&Withhold>) -> Resolved<bool> {
        match form {
            None => Ok(false),
            Some(Withhold::Always(always)) => Ok(*always),
            Some(Withhold::If(condition)) => self.holds(condition),
        }
    }

    fn hold(&mut self, conditions: &[If]) -> Resolved<bool> {
        for condition in conditions {
            if !self.holds(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds_if_given(&mut self, condition: Option<&If>) -> Resolved<bool> {
        condition.map_or(Ok(false), |c| self.holds(c))
    }

    fn strategy(&mut self, models: &Models) -> Resolved<Strategy> {
        let file = &self.config.preset.file;
        let mut rules = Vec::new();
        for rule in &file.rule {
            let resolved = self.rule(rule, models, &rules).map_err(|e| format!("rule `{}`: {e}", rule.id))?;
            rules.extend(resolved);
        }
        (self.window, self.trigger) = (None, None);
        let recovery = file.recovery.as_ref().map(|r| self.recovery(r, &rules)).transpose()?;
        let merged = file.messages == Some(MessagesForm::Merged);
        let estimate = file.estimate.as_ref().map(|e| estimate_law(e, merged)).transpose()?;
        let markers = self.markers()?;
        let thinking = file.thinking.clone().unwrap_or_default();
        let send_mismatch = thinking.prefix_mismatch_if.is_none()
            || self.holds_if_given(thinking.prefix_mismatch_if.as_ref())?;
        Ok(Strategy {
            label: self.config.label.clone(),
            rules,
            estimate,
            recovery,
            cache_life_ms: self.cache_life_ms(&markers),
            token_price: self.token_price(),
            markers,
            prefix_mismatch: thinking.prefix_mismatch.filter(|_| send_mismatch),
            on_binding_error: thinking.on_rejection,
            withhold_on_prefix_change: self.holds_if_given(thinking.withhold_on_prefix_change.as_ref())?,
            summary_tokens: match self.config.common.get(super::SUMMARY_TOKENS) {
                Some(ParamValue::Int(n)) if *n > 0 => u64::try_from(*n).ok(),
                _ => None,
            },
            warm_prefix: self.config.common.get(super::WARM_PREFIX) == Some(&ParamValue::Bool(true)),
            keep_alive: super::common::keep_alive(&self.config.common),
            truncates: super::common::truncates(&self.config.common),
            model_id_utf16: self.model.id.encode_utf16().count() as u64,
            warnings: self.warnings.clone(),
        })
    }

    /// The life of what the client marks last: that of its messages.
    fn cache_life_ms(&self, markers: &[MarkerSpec]) -> i64 {
        match (&self.model.cache, markers.last()) {
            (Some(cache), Some(last)) if last.ttl == Ttl::Long => cache.long_ttl_ms,
            (Some(cache), Some(_)) => cache.short_ttl_ms,
            (Some(cache), None) if !cache.kind.needs_markers() => cache.short_ttl_ms,
            _ => 0,
        }
    }

    fn token_price(&self) -> TokenPrice {
        let Some(price) = self.model.price(None) else { return TokenPrice::default() };
        let bills_writes = self.model.cache.is_some_and(|cache| cache.kind.bills_writes());
        let write_pusd = if bills_writes { price.rates.write_short } else { price.rates.input };
        TokenPrice { write_pusd, read_pusd: price.rates.read }
    }

    /// A summarizer by name: `same`, `lite`, or an id.
    fn summarizer(&mut self, name: &str, models: &Models) -> Resolved<Summarizer> {
        let lite = self.belief.and_then(|b| b.lite_model.clone()).unwrap_or_else(|| "same".to_owned());
        let word = match self.text(name)?.as_str() {
            "lite" => lite,
            other => other.to_owned(),
        };
        if word == "same" || word == self.model.id {
            let window_tokens = u64::try_from(self.window_tokens()).unwrap_or(0);
            return Ok(Summarizer { model: None, window_tokens });
        }
        let model = models.get(&word).map_err(|e| e.to_string())?;
        let believed = belief_of(&self.config.preset.file.belief, &model.id).and_then(|b| b.window_tokens);
        let window_tokens = believed.and_then(|w| u64::try_from(w).ok()).unwrap_or(model.window_tokens);
        Ok(Summarizer { model: Some(Box::new(model.clone())), window_tokens })
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
}

/// The law of a table `estimate`.
fn estimate_law(toml: &EstimateToml, merged: bool) -> Resolved<EstimateLaw> {
    let per_token = toml.chars_per_token.unwrap_or(Decimal(4_000_000));
    if per_token.0 <= 0 {
        return Err("`chars_per_token` is above 0".to_owned());
    }
    let whole = u64::try_from(per_token.0 / 1_000_000).unwrap_or(4);
    let unit = match toml.unit {
        EstimateUnit::JsonUtf16 => None,
        EstimateUnit::Utf16 => Some(TextUnit::Utf16(per_token)),
        EstimateUnit::Bytes => Some(TextUnit::Bytes(per_token)),
        EstimateUnit::Runes => Some(TextUnit::Runes),
        EstimateUnit::Tokens => Some(TextUnit::Tokens),
    };
    let shapes = match (&toml.shapes, unit) {
        (Some(shapes), None) => shapes.clone(),
        (None, Some(_)) => super::estimate::Shapes::default(),
        (None, None) => return Err("an estimate of JSON text needs `shapes`".to_owned()),
        (Some(_), Some(_)) => return Err("`shapes` belong to `unit = \"json_utf16\"`".to_owned()),
    };
    let text = unit.map(|unit| TextLaw {
        unit,
        round: toml.round,
        per: if unit == TextUnit::Runes { super::estimate::Per::Block } else { toml.per },
        message_tokens: toml.message_tokens,
        image_tokens: toml.image_tokens,
        thinking: toml.thinking.unwrap_or(true),
        args: toml.args.unwrap_or(true),
        factor_percent: toml.factor_percent.unwrap_or(100),
    });
    let mut law = EstimateLaw::new(whole, &shapes);
    law.anchor = toml.anchor;
    law.until_edit = toml.anchor_until_edit;
    law.merged = merged;
    law.texts = text;
    Ok(law)
}

/// What a client believes of the model with this id.
fn belief_of<'b>(beliefs: &'b [Belief], id: &str) -> Option<&'b Belief> {
    beliefs.iter().find(|b| b.models.iter().any(|p| matches_glob(p, id)))
}

impl Preset {
    /// The window that the client believes the model with this id has, known to the model table or not;
    /// `None`: what the table says.
    pub fn believed_window_tokens(&self, id: &str) -> Option<i64> {
        belief_of(&self.file.belief, id).and_then(|b| b.window_tokens)
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
