//! A policy as typed: `label=source:key=value,key=[a,b]`.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::params::{ParamValue, find};
use super::preset::{load_preset, preset_names};
use super::resolve::PolicyConfig;
use crate::error::{Error, Result};

/// A policy as typed on the command line or in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySpec {
    /// Name in results; the text itself without one.
    pub label: Option<String>,
    /// Preset name or path of a TOML file.
    pub source: String,
    /// Parameters, in order.
    pub overrides: Vec<(String, String)>,
}

impl FromStr for PolicySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<PolicySpec> {
        let wrong = |reason: String| Error::Config { origin: format!("policy `{text}`"), reason };
        let (head, tail) = match text.split_once(':') {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        let (label, source) = match head.split_once('=') {
            Some((label, source)) => (Some(label.to_owned()), source),
            None => (None, head),
        };
        if source.is_empty() || label.as_deref() == Some("") {
            return Err(wrong("write NAME, NAME:key=value,… or label=NAME:key=value,…".to_owned()));
        }
        let mut overrides = Vec::new();
        for part in split_list(tail.unwrap_or("")) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{part}` is no parameter; write key=value")))?;
            overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(PolicySpec { label, source: source.to_owned(), overrides })
    }
}

/// The parts of a list with commas; those inside brackets belong to a part.
pub fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_u32;
    let mut start = 0;
    for (i, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|p| !p.is_empty()).collect()
}

/// A key of an agent's configuration that no preset has, where it looks like a slip of one that exists.
fn misspelt(name: &str) -> Option<String> {
    let presets: Vec<_> = preset_names().into_iter().filter_map(|p| load_preset(p).ok()).collect();
    let known: Vec<&str> = presets.iter().flat_map(|p| &p.params).map(|p| p.name.as_str()).collect();
    let near = crate::error::nearest(name, known.iter().copied()).filter(|_| !known.contains(&name))?;
    Some(format!("`{name}` is no parameter and is not used; did you mean `{near}`?"))
}

impl PolicySpec {
    /// Name in results: the label, or the text as typed in a normal form.
    pub fn name(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let source = self.source.rsplit(['/', '\\']).next().unwrap_or(&self.source);
        let base = source.strip_suffix(".toml").unwrap_or(source);
        if self.overrides.is_empty() {
            return base.to_owned();
        }
        let list: Vec<String> = self.overrides.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!("{base}:{}", list.join(","))
    }

    /// Loads the preset and sets its parameters. `agent` holds an agent's own configuration, `set` the
    /// `--set` pairs: both apply to the parameters the preset has; its own overrides must all exist.
    ///
    /// # Errors
    /// An unknown preset or parameter, a value of the wrong type or out of range.
    pub fn load(&self, agent: &[(String, ParamValue)], set: &[(String, String)]) -> Result<PolicyConfig> {
        let preset = load_preset(&self.source)?;
        let common_params = super::common_params();
        let mut values = BTreeMap::new();
        let mut common = BTreeMap::new();
        let mut warnings = Vec::new();
        for (name, value) in agent {
            let Some(param) = preset.params.iter().find(|p| p.name == *name) else {
                warnings.extend(misspelt(name));
                continue;
            };
            match param.check(value) {
                Ok(()) => {
                    values.insert(param.name.clone(), value.clone());
                }
                Err(reason) if param.invalid_is_default => {
                    warnings
                        .push(format!("{reason}; the default {} is used, as the agent does", param.default));
                }
                Err(reason) => {
                    return Err(Error::Config { origin: "agent configuration".to_owned(), reason });
                }
            }
        }
        for (key, text) in set {
            if let Ok(param) = find(&preset.params, key) {
                values.insert(param.name.clone(), param.parse(text)?);
            } else if let Ok(param) = find(&common_params, key) {
                common.insert(param.name.clone(), param.parse(text)?);
            }
        }
        for (key, text) in &self.overrides {
            if let Ok(param) = find(&common_params, key) {
                common.insert(param.name.clone(), param.parse(text)?);
                continue;
            }
            let param = find(&preset.params, key).map_err(|e| match e {
                Error::Unknown { what, name, nearest } if nearest.is_none() => Error::Config {
                    origin: format!("policy {}", self.source),
                    reason: format!(
                        "there is no {what} `{name}`; `ctxsim policies {}` lists them",
                        self.source
                    ),
                },
                other => other,
            })?;
            values.insert(param.name.clone(), param.parse(text)?);
        }
        Ok(PolicyConfig { label: self.name(), preset, set: values, common, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> PolicySpec {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_parses() {
        assert_eq!(spec("none").name(), "none");
        assert_eq!(spec("candidate=arcturn:minCharsPerPass=0").name(), "candidate");
        let list = spec("arcturn:protectToolNames=[todo,plan],keepRecentTurns=5");
        assert_eq!(list.overrides[0], ("protectToolNames".to_owned(), "[todo,plan]".to_owned()));
        assert_eq!(list.overrides[1].1, "5");
        assert_eq!(spec("dir/mine.toml").name(), "mine");
        assert!("x=".parse::<PolicySpec>().is_err());
        assert!("arcturn:keep".parse::<PolicySpec>().unwrap_err().to_string().contains("key=value"));
    }
}
