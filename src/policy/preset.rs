//! A policy file as written: the TOML form of a strategy, before parameters and model are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::estimate::Shapes;
use super::laws::{StubLaw, TranscriptLaw};
use super::params::{Ability, Param, ParamToml, ParamValue};
use super::strategy::{EditView, Hook, OnBindingError};
use super::value::{ListValue, Value};
use crate::error::{Error, Result};
use crate::provider::PrefixMismatch;

/// A parsed policy file.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Name of the strategy.
    pub name: String,
    /// The version of the agent it models.
    pub version: String,
    /// One line for lists.
    pub summary: String,
    /// Where its rules come from.
    pub sources: Vec<String>,
    /// Its parameters, in file order.
    pub params: Vec<Param>,
    pub(super) file: PolicyFile,
}

/// The top level of a policy file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ctxsim policy")]
pub(super) struct PolicyFile {
    name: String,
    version: String,
    summary: String,
    #[serde(default)]
    sources: Vec<String>,
    /// Preset or file that this one starts from: its parameters are kept or replaced one by one, its rules
    /// by id, everything else as a whole.
    #[serde(default)]
    extends: Option<String>,
    /// Its parameters by name, dotted where the agent's are.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ParamToml>")]
    params: toml::map::Map<String, toml::Value>,
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
    pub(super) adaptive_thinking: Option<bool>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EstimateToml {
    /// Only `json_utf16`: UTF-16 units of each message's JSON text.
    pub(super) unit: EstimateUnit,
    pub(super) chars_per_token: u64,
    #[serde(default)]
    pub(super) anchor: Anchor,
    pub(super) shapes: Shapes,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EstimateUnit {
    JsonUtf16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Anchor {
    #[default]
    None,
    /// The last answer's prompt and output together.
    LastUsageTotal,
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

/// A condition on a parameter.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct If {
    pub(super) param: String,
    /// Any of these.
    #[schemars(with = "Vec<ParamValue>")]
    pub(super) is: Vec<toml::Value>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleToml {
    pub(super) id: String,
    pub(super) at: Hook,
    /// All must hold.
    #[serde(default, rename = "if")]
    pub(super) conditions: Vec<If>,
    /// Holds for models with this ability.
    #[serde(default)]
    pub(super) if_model: Option<Ability>,
    #[serde(default)]
    pub(super) when: Vec<MeasureToml>,
    /// A recorded manual request runs it too.
    #[serde(default)]
    pub(super) manual: bool,
    #[serde(default)]
    pub(super) select: Option<SelectToml>,
    #[serde(default)]
    pub(super) offload: Option<OffloadToml>,
    #[serde(default)]
    pub(super) stub: Option<StubLaw>,
    #[serde(default)]
    pub(super) clear: Option<ClearToml>,
    #[serde(default)]
    pub(super) summarize: Option<SummarizeToml>,
    #[serde(default)]
    pub(super) native_compact: Option<NativeCompactToml>,
    #[serde(default)]
    pub(super) cadence: CadenceToml,
    #[serde(default)]
    pub(super) view: EditView,
    /// Stop replaying the thinking that the rule's edit makes stale.
    #[serde(default)]
    pub(super) withhold_thinking: Option<If>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasureToml {
    pub(super) of: MeasureOf,
    pub(super) unit: MeasureUnit,
    /// Strictly above.
    #[serde(default)]
    pub(super) over: Option<Value>,
    /// At or above.
    #[serde(default)]
    pub(super) at_least: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MeasureOf {
    Block,
    ToolResults,
    Messages,
    Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MeasureUnit {
    Utf16,
    Estimate,
    Tokens,
}

/// What a rule looks at. Written as a table with one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SelectToml {
    ToolResults(ToolResultsToml),
    Messages(MessagesToml),
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolResultsToml {
    /// UTF-16 units below which a result stays.
    #[serde(default)]
    pub(super) min: Option<Value>,
    #[serde(default)]
    pub(super) keep_recent_turns: Option<Value>,
    #[serde(default)]
    pub(super) except: ListValue,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesToml {
    /// Everything but the user messages at the end that no answer follows.
    #[serde(default)]
    pub(super) keep_unanswered: bool,
    /// Everything before a tail of so many estimated tokens, cut at a user message.
    #[serde(default)]
    pub(super) keep_recent_tokens: Option<Value>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OffloadToml {
    pub(super) head: Value,
    pub(super) tail: Value,
    pub(super) limit: Value,
    pub(super) stub: StubLaw,
    pub(super) path: PathToml,
}

/// `<home><folder><session>/<tool>-<call>.txt`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PathToml {
    /// A parameter with the folder all files live under.
    pub(super) home: String,
    pub(super) folder: String,
    /// UTF-16 units of the session id in it.
    pub(super) session_id: u64,
}

/// A placeholder of the provider's.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClearToml {
    pub(super) placeholder_tokens: u64,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SummarizeToml {
    pub(super) transcript: TranscriptLaw,
    pub(super) system_chars: u64,
    pub(super) prompt_chars: u64,
    pub(super) wrap_chars: u64,
    pub(super) wrap_json_escapes: u64,
    pub(super) max_output_tokens: Value,
    /// `"$parameter"` with a model id, or `same`.
    pub(super) model: String,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NativeCompactToml {
    pub(super) max_output_tokens: Value,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CadenceToml {
    /// What must be saved for the rule to act at all, in the stub's own unit.
    #[serde(default)]
    pub(super) min_savings: Option<Value>,
}

/// JSON Schema of a policy file.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(PolicyFile).to_value()
}

/// The presets in the binary, by name.
const BUILTIN: &[(&str, &str)] = &[
    ("arcturn", include_str!("presets/arcturn.toml")),
    ("arcturn-0.6", include_str!("presets/arcturn-0.6.toml")),
    ("none", include_str!("presets/none.toml")),
];

/// Names of the presets in the binary, in alphabetical order.
pub fn preset_names() -> Vec<&'static str> {
    BUILTIN.iter().map(|(name, _)| *name).collect()
}

/// A preset of the binary by name, or a policy file by path.
///
/// # Errors
/// An unknown name (with the nearest), an unreadable file, a mistake in the file with line and column.
pub fn load_preset(source: &str) -> Result<Arc<Preset>> {
    load_at(source, 0).map(Arc::new)
}

/// Longest chain of files that extend each other; a ring ends here.
const MAX_EXTENDS: u32 = 8;

fn load_at(source: &str, depth: u32) -> Result<Preset> {
    if let Some((name, text)) = BUILTIN.iter().find(|(name, _)| *name == source) {
        return parse_at(text, &format!("preset {name}"), depth);
    }
    if !source.ends_with(".toml") && !source.contains(['/', '\\']) {
        return Err(Error::unknown("policy", source, preset_names()));
    }
    let text = std::fs::read_to_string(source).map_err(|e| Error::Io { path: source.into(), source: e })?;
    parse_at(&text, source, depth)
}

/// Parses the text of a policy file; `origin` names it in errors.
///
/// # Errors
/// A mistake in the file, with line and column.
pub fn parse_preset(text: &str, origin: &str) -> Result<Preset> {
    parse_at(text, origin, 0)
}

fn parse_at(text: &str, origin: &str, depth: u32) -> Result<Preset> {
    let config = |reason: String| Error::Config { origin: origin.to_owned(), reason };
    let mut file: PolicyFile = toml::from_str(text).map_err(|e| Error::toml(origin, text, &e))?;
    if let Some(base) = file.extends.take() {
        if depth >= MAX_EXTENDS {
            return Err(config(format!(
                "extending `{base}` leads in a ring, or through more than {MAX_EXTENDS} files"
            )));
        }
        file = file.over(&load_at(&base, depth + 1)?.file);
    }
    if file.cache.is_none() {
        return Err(config("the table `cache` is missing: it says where cache breakpoints stand".to_owned()));
    }
    let params = file
        .params
        .iter()
        .map(|(name, table)| {
            let param: ParamToml = table
                .clone()
                .try_into()
                .map_err(|e: toml::de::Error| config(format!("parameter `{name}`: {}", e.message())))?;
            param.build(name).map_err(config)
        })
        .collect::<Result<Vec<Param>>>()?;
    let preset = Preset {
        name: file.name.clone(),
        version: file.version.clone(),
        summary: file.summary.clone(),
        sources: file.sources.clone(),
        params,
        file,
    };
    preset.check_references().map_err(config)?;
    Ok(preset)
}

impl PolicyFile {
    /// This file laid over the one it extends.
    fn over(mut self, base: &PolicyFile) -> PolicyFile {
        let mut params = base.params.clone();
        params.extend(std::mem::take(&mut self.params));
        self.params = params;
        if self.belief.is_empty() {
            self.belief.clone_from(&base.belief);
        }
        self.estimate = self.estimate.or_else(|| base.estimate.clone());
        self.cache = self.cache.or_else(|| base.cache.clone());
        self.thinking = self.thinking.or_else(|| base.thinking.clone());
        let own = std::mem::take(&mut self.rule);
        let is_own = |rule: &RuleToml| own.iter().any(|r| r.id == rule.id);
        for rule in &base.rule {
            // Rules of one id replace the base's where its first one stood.
            if !is_own(rule) {
                self.rule.push(rule.clone());
            } else if !self.rule.iter().any(|r| r.id == rule.id) {
                self.rule.extend(own.iter().filter(|r| r.id == rule.id).cloned());
            }
        }
        let new: Vec<RuleToml> =
            own.into_iter().filter(|r| !self.rule.iter().any(|o| o.id == r.id)).collect();
        self.rule.extend(new);
        self
    }
}

impl Preset {
    /// Every parameter a condition names must exist, so that a slip fails when the file is read and not
    /// when a model happens to need it.
    fn check_references(&self) -> std::result::Result<(), String> {
        let rules = self.file.rule.iter();
        let conditions = rules.flat_map(|r| r.conditions.iter().chain(&r.withhold_thinking));
        let thinking = self.file.thinking.clone().unwrap_or_default();
        for If { param, .. } in
            conditions.chain(&thinking.withhold_on_prefix_change).chain(&thinking.prefix_mismatch_if)
        {
            if !self.params.iter().any(|p| p.name == *param) {
                let near = crate::error::nearest(param, self.params.iter().map(|p| p.name.as_str()));
                let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                return Err(format!(
                    "a condition names the parameter `{param}`, which is not declared{hint}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_over_the_one_it_extends() {
        let text = "name = \"mine\"\nversion = \"1\"\nsummary = \"s\"\nextends = \"none\"\n\
                    [params]\n\"cache.ttl\" = { default = \"1h\", choices = [\"5m\", \"1h\"], doc = \"d\" }\n";
        let mine = parse_preset(text, "mine.toml").unwrap();
        let names: Vec<&str> = mine.params.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["cache.ttl", "cache.markers"], "in the base's order");
        assert_eq!(mine.params[0].default.to_string(), "1h");
    }

    #[test]
    fn rings_and_missing_parts_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring.toml");
        let text = format!(
            "name = \"r\"\nversion = \"1\"\nsummary = \"s\"\nextends = {:?}\n",
            path.display().to_string()
        );
        std::fs::write(&path, text).unwrap();
        assert!(load_preset(&path.display().to_string()).unwrap_err().to_string().contains("ring"));
        let bare = "name = \"r\"\nversion = \"1\"\nsummary = \"s\"\n";
        assert!(parse_preset(bare, "x").unwrap_err().to_string().contains("`cache`"));
    }

    #[test]
    fn the_newer_editor_has_the_parameters_of_its_document() {
        let preset = load_preset("arcturn").unwrap();
        let mut names: Vec<&str> = preset.params.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        let mut documented = vec!["offload", "thinkingBinding", "home"];
        let groups = [
            ("offloadLimits", "maxChars keepHead keepTail exclude"),
            (
                "contextEditing",
                "enabled mode keepRecentTurns minCharsToElide maxTotalToolResultChars minCharsPerPass protectToolNames",
            ),
            ("compaction", "enabled shape reserveTokens keepRecentTokens maxOutputTokens model"),
            ("cache", "ttl markers"),
        ];
        let dotted: Vec<String> =
            groups.iter().flat_map(|(g, list)| list.split(' ').map(move |n| format!("{g}.{n}"))).collect();
        documented.extend(dotted.iter().map(String::as_str));
        documented.sort_unstable();
        assert_eq!(names, documented);
    }
}
