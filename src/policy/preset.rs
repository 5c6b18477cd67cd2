//! Policy files: the presets in the binary, and how files build on each other.

use std::sync::Arc;

use super::file::{MessagesForm, PolicyFile, RuleToml, Withhold};
use super::params::{Param, ParamToml};
use crate::error::{Error, Result};

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

/// JSON Schema of a policy file.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(PolicyFile).to_value()
}

/// The presets in the binary, by name.
const BUILTIN: &[(&str, &str)] = &[
    ("aider", include_str!("presets/aider.toml")),
    ("anthropic-compaction", include_str!("presets/anthropic-compaction.toml")),
    ("anthropic-editing", include_str!("presets/anthropic-editing.toml")),
    ("arcturn", include_str!("presets/arcturn.toml")),
    ("arcturn-0.6", include_str!("presets/arcturn-0.6.toml")),
    ("claude-code", include_str!("presets/claude-code.toml")),
    ("claude-code-older", include_str!("presets/claude-code-older.toml")),
    ("cline", include_str!("presets/cline.toml")),
    ("cline-legacy", include_str!("presets/cline-legacy.toml")),
    ("codex", include_str!("presets/codex.toml")),
    ("crush", include_str!("presets/crush.toml")),
    ("deepagents", include_str!("presets/deepagents.toml")),
    ("gemini-cli", include_str!("presets/gemini-cli.toml")),
    ("google-adk", include_str!("presets/google-adk.toml")),
    ("goose", include_str!("presets/goose.toml")),
    ("langchain-edit", include_str!("presets/langchain-edit.toml")),
    ("langchain-summarization", include_str!("presets/langchain-summarization.toml")),
    ("letta", include_str!("presets/letta.toml")),
    ("mini-swe-agent", include_str!("presets/mini-swe-agent.toml")),
    ("ms-agent-framework", include_str!("presets/ms-agent-framework.toml")),
    ("none", include_str!("presets/none.toml")),
    ("octo", include_str!("presets/octo.toml")),
    ("octo-doc", include_str!("presets/octo-doc.toml")),
    ("openai-compaction", include_str!("presets/openai-compaction.toml")),
    ("opencode-v1", include_str!("presets/opencode-v1.toml")),
    ("opencode-v2", include_str!("presets/opencode-v2.toml")),
    ("openhands", include_str!("presets/openhands.toml")),
    ("openhands-amortized", include_str!("presets/openhands-amortized.toml")),
    ("openhands-masking", include_str!("presets/openhands-masking.toml")),
    ("openhands-recent", include_str!("presets/openhands-recent.toml")),
    ("pi", include_str!("presets/pi.toml")),
    ("roo", include_str!("presets/roo.toml")),
    ("strands-sliding", include_str!("presets/strands-sliding.toml")),
    ("strands-summarizing", include_str!("presets/strands-summarizing.toml")),
    ("swe-agent", include_str!("presets/swe-agent.toml")),
    ("vercel-prune", include_str!("presets/vercel-prune.toml")),
    ("yoagent", include_str!("presets/yoagent.toml")),
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
    for include in std::mem::take(&mut file.include).into_iter().rev() {
        if depth >= MAX_EXTENDS {
            return Err(config(format!("including `{}` leads in a ring", include.from)));
        }
        let base = load_at(&include.from, depth + 1)?.file;
        file = file
            .with(&base, &include.rules)
            .map_err(|e| config(format!("include `{}`: {e}", include.from)))?;
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
        self.turn = self.turn.or(base.turn);
        self.messages = self.messages.or(base.messages);
        self.recovery = self.recovery.or_else(|| base.recovery.clone());
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

    /// This file with rules of another in front of its own, each with the scope of the other.
    fn with(mut self, other: &PolicyFile, ids: &[String]) -> std::result::Result<PolicyFile, String> {
        if let Some(unknown) = ids.iter().find(|id| !other.rule.iter().any(|r| r.id == **id)) {
            let near = crate::error::nearest(unknown, other.rule.iter().map(|r| r.id.as_str()));
            let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            return Err(format!("there is no rule `{unknown}`{hint}"));
        }
        let all: Vec<String> = other.rule.iter().map(|r| r.id.clone()).collect();
        let mut order: Vec<&String> =
            if ids.is_empty() { all.iter().collect() } else { ids.iter().collect() };
        order.dedup();
        let own = std::mem::take(&mut self.rule);
        for id in order {
            let replaced: Vec<RuleToml> = own.iter().filter(|r| r.id == *id).cloned().collect();
            if replaced.is_empty() {
                self.rule.extend(other.rule.iter().filter(|r| r.id == *id).map(|r| r.in_scope_of(other)));
            } else {
                self.rule.extend(replaced);
            }
        }
        let placed: Vec<String> = self.rule.iter().map(|r| r.id.clone()).collect();
        self.rule.extend(own.into_iter().filter(|r| !placed.contains(&r.id)));
        for (name, table) in &other.params {
            if !self.params.contains_key(name) {
                self.params.insert(name.clone(), table.clone());
            }
        }
        Ok(self)
    }
}

impl RuleToml {
    /// The rule as it is in its own file, wherever it stands.
    fn in_scope_of(&self, file: &PolicyFile) -> RuleToml {
        let mut rule = self.clone();
        rule.scope.turn = rule.scope.turn.or(file.turn);
        rule.scope.messages = rule.scope.messages.or(file.messages).or(Some(MessagesForm::PerResult));
        rule.scope.estimate = rule.scope.estimate.or_else(|| file.estimate.clone());
        rule.scope.belief = rule.scope.belief.or_else(|| Some(file.belief.clone()));
        rule
    }
}

impl Preset {
    /// Every parameter a condition names must exist, so that a slip fails when the file is read and not
    /// when a model happens to need it.
    fn check_references(&self) -> std::result::Result<(), String> {
        let rules = self.file.rule.iter();
        let conditions = rules.flat_map(|r| {
            let withhold = match &r.withhold_thinking {
                Some(Withhold::If(condition)) => Some(condition),
                _ => None,
            };
            r.conditions.iter().chain(withhold)
        });
        let thinking = self.file.thinking.clone().unwrap_or_default();
        let all = conditions.chain(&thinking.withhold_on_prefix_change).chain(&thinking.prefix_mismatch_if);
        for param in all.filter_map(|condition| condition.param.as_ref()) {
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
