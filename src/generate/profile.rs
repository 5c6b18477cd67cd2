//! Profiles: what kind of session to make, as data.
//!
//! A file gives each parameter a default ([`Dist`]), unit, range and one line of documentation. One that `extends` another
//! states only what differs. The list of parameters is that of `interactive-coding`, which all others go back to.

use std::path::Path;

use serde::Deserialize;

use super::Dist;
use crate::error::{Error, Result};

/// Newest version of the format that is read.
const FORMAT_VERSION: u32 = 1;

/// Longest chain of profiles that extend each other.
const MAX_DEPTH: usize = 8;

/// Profiles in the binary.
const PROFILES: &[(&str, &str)] = &[
    ("interactive-coding", include_str!("profiles/interactive-coding.toml")),
    ("swe-bench-like", include_str!("profiles/swe-bench-like.toml")),
    ("terminal-bench-like", include_str!("profiles/terminal-bench-like.toml")),
    ("research-agent", include_str!("profiles/research-agent.toml")),
    ("chat", include_str!("profiles/chat.toml")),
    ("parallel-tools", include_str!("profiles/parallel-tools.toml")),
    ("thinking-heavy", include_str!("profiles/thinking-heavy.toml")),
    ("image-heavy", include_str!("profiles/image-heavy.toml")),
    ("long-idle", include_str!("profiles/long-idle.toml")),
    ("adversarial-thresholds", include_str!("profiles/adversarial-thresholds.toml")),
    ("adversarial-giant-result", include_str!("profiles/adversarial-giant-result.toml")),
    ("adversarial-tiny-results", include_str!("profiles/adversarial-tiny-results.toml")),
    ("adversarial-parallel-calls", include_str!("profiles/adversarial-parallel-calls.toml")),
    ("adversarial-expiry", include_str!("profiles/adversarial-expiry.toml")),
    ("adversarial-window", include_str!("profiles/adversarial-window.toml")),
];

/// Names of the profiles in the binary.
pub fn profile_names() -> Vec<&'static str> {
    PROFILES.iter().map(|(name, _)| *name).collect()
}

/// A kind of session.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name; part of the ids of its sessions.
    pub name: String,
    /// One line for lists.
    pub summary: String,
    /// Where its numbers come from.
    pub sources: Vec<String>,
    /// Model the sessions count as recorded on.
    pub model: String,
    /// Tools by name, with how often they are called relative to each other.
    pub tools: Vec<(String, f64)>,
    /// In the order of the file that introduced them.
    pub params: Vec<Parameter>,
}

/// A parameter of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// What its values are drawn from.
    pub value: Dist,
    /// `tokens`, `s`, `utf16`, …; empty for shares and chances.
    pub unit: String,
    /// Values outside become the nearest one inside.
    pub range: (f64, f64),
    /// One line.
    pub doc: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    #[serde(default = "newest")]
    format_version: u32,
    name: String,
    summary: String,
    #[serde(default)]
    extends: Option<String>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    tools: toml::map::Map<String, toml::Value>,
    #[serde(default)]
    params: toml::map::Map<String, toml::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterToml {
    default: toml::Value,
    #[serde(default)]
    unit: Option<String>,
    #[serde(default)]
    range: Option<[f64; 2]>,
    #[serde(default)]
    doc: Option<String>,
}

fn newest() -> u32 {
    FORMAT_VERSION
}

impl Profile {
    /// The profile of a name, or of a TOML file.
    ///
    /// # Errors
    /// Unknown names, with the nearest one; files that cannot be read or are wrong.
    pub fn load(source: &str) -> Result<Profile> {
        Profile::load_at(source, 0)
    }

    fn load_at(source: &str, depth: usize) -> Result<Profile> {
        if depth > MAX_DEPTH {
            return Err(config(source, "profiles extend each other in a circle".to_owned()));
        }
        if let Some((name, text)) = PROFILES.iter().find(|(name, _)| *name == source) {
            return Profile::parse_at(text, &format!("{name} (built in)"), depth);
        }
        let path = Path::new(source);
        if path.extension().is_none_or(|e| e != "toml") {
            return Err(Error::unknown("profile", source, profile_names()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Io { path: path.to_owned(), source: error })?;
        Profile::parse_at(&text, source, depth)
    }

    /// Reads a profile; `origin` names it in errors.
    ///
    /// # Errors
    /// Names `origin`, line and parameter.
    pub fn parse(text: &str, origin: &str) -> Result<Profile> {
        Profile::parse_at(text, origin, 0)
    }

    fn parse_at(text: &str, origin: &str, depth: usize) -> Result<Profile> {
        let file: ProfileFile = toml::from_str(text).map_err(|error| Error::toml(origin, text, &error))?;
        if file.format_version > FORMAT_VERSION {
            let version = file.format_version;
            let reason = format!(
                "format_version {version} is newer than {FORMAT_VERSION}, the newest that is read: update ctxsim"
            );
            return Err(config(origin, reason));
        }
        let mut profile = match &file.extends {
            Some(base) => Profile::load_at(base, depth + 1)?,
            None => Profile {
                name: String::new(),
                summary: String::new(),
                sources: Vec::new(),
                model: String::new(),
                tools: Vec::new(),
                params: Vec::new(),
            },
        };
        profile.name = file.name;
        profile.summary = file.summary;
        profile.sources.splice(0..0, file.sources);
        if let Some(model) = file.model {
            profile.model = model;
        }
        if !file.tools.is_empty() {
            let weight = |(name, value): (String, toml::Value)| match as_number(&value) {
                Some(weight) => Ok((name, weight)),
                None => Err(config(origin, format!("tool `{name}`: its weight is a number, not {value}"))),
            };
            profile.tools = file.tools.into_iter().map(weight).collect::<Result<_>>()?;
        }
        for (name, value) in file.params {
            profile.add(&name, value, file.extends.is_none()).map_err(|reason| config(origin, reason))?;
        }
        profile.check().map_err(|reason| config(origin, reason))?;
        Ok(profile)
    }

    /// Adds a parameter of a file that extends none, or changes one.
    fn add(&mut self, name: &str, value: toml::Value, is_base: bool) -> std::result::Result<(), String> {
        let toml: ParameterToml =
            value.try_into().map_err(|e: toml::de::Error| format!("parameter `{name}`: {}", e.message()))?;
        let text = match &toml.default {
            toml::Value::String(text) => text.clone(),
            other => as_number(other)
                .map(|n| n.to_string())
                .ok_or_else(|| format!("parameter `{name}`: its default is a number or a distribution"))?,
        };
        let dist: Dist = text.parse().map_err(|e: Error| format!("parameter `{name}`: {e}"))?;
        if is_base && let (Some(unit), Some([low, high]), Some(doc)) = (&toml.unit, toml.range, &toml.doc) {
            let (unit, doc) = (unit.clone(), doc.clone());
            self.params.push(Parameter { name: name.to_owned(), value: dist, unit, range: (low, high), doc });
            return Ok(());
        }
        if is_base {
            return Err(format!(
                "parameter `{name}` needs unit, range and doc, or the file `extends` another"
            ));
        }
        let param = self.find(name).map_err(|e| e.to_string())?;
        param.value = dist;
        if let Some(unit) = toml.unit {
            param.unit = unit;
        }
        if let Some([low, high]) = toml.range {
            param.range = (low, high);
        }
        if let Some(doc) = toml.doc {
            param.doc = doc;
        }
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut Parameter> {
        match self.params.iter().position(|p| p.name == name) {
            Some(at) => Ok(&mut self.params[at]),
            None => Err(Error::unknown("parameter", name, self.settable())),
        }
    }

    /// What `--set` knows.
    fn settable(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|p| p.name.as_str()).chain(["model", "tools"])
    }

    /// The parameter of a name.
    pub fn param(&self, name: &str) -> Option<&Parameter> {
        self.params.iter().find(|p| p.name == name)
    }

    /// Sets a parameter as typed: a distribution; `model` an id; `tools` a list `NAME:WEIGHT,NAME:WEIGHT`.
    ///
    /// # Errors
    /// Unknown parameters, with the nearest one; malformed values, and values out of range.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        match key {
            "model" => text.clone_into(&mut self.model),
            "tools" => self.tools = parse_tools(text)?,
            _ => {
                let param = self.find(key)?;
                param.value = text.parse()?;
            }
        }
        self.check().map_err(|reason| config(&format!("--set {key}={text}"), reason))
    }

    /// The whole profile as a file that [`Profile::load`] reads, behind the comment `head`; `note` is written beside a
    /// parameter.
    pub fn toml(&self, head: &str, note: impl Fn(&str) -> String) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let sources: Vec<String> = self.sources.iter().map(|source| quoted(source)).collect();
        let tools: Vec<String> =
            self.tools.iter().map(|(name, weight)| format!("{} = {weight}", quoted(name))).collect();
        let mut text = format!(
            "{head}format_version = {FORMAT_VERSION}\nname = {}\nsummary = {}\nsources = [{}]\nmodel = {}\n\
             tools = {{ {} }}\n\n[params]\n",
            quoted(&self.name),
            quoted(&self.summary),
            sources.join(", "),
            quoted(&self.model),
            tools.join(", "),
        );
        for param in &self.params {
            let (low, high) = param.range;
            let value = quoted(&param.value.to_string());
            let (unit, doc) = (quoted(&param.unit), quoted(&param.doc));
            text.push_str(&format!(
                "{} = {{ default = {value}, unit = {unit}, range = [{low}, {high}], doc = {doc} }}{}\n",
                param.name,
                note(&param.name)
            ));
        }
        text
    }

    /// Whether all is there and every value that is certain lies in its range.
    fn check(&self) -> std::result::Result<(), String> {
        if let Some(missing) = super::session::PARAMETERS.iter().find(|name| self.param(name).is_none()) {
            return Err(format!(
                "parameter `{missing}` is missing; extend a profile such as interactive-coding"
            ));
        }
        let known = super::session::PARAMETERS;
        if let Some(param) = self.params.iter().find(|p| !known.contains(&p.name.as_str())) {
            return Err(Error::unknown("parameter", &param.name, known.iter().copied()).to_string());
        }
        for param in &self.params {
            let (low, high) = param.range;
            if !low.is_finite() || !high.is_finite() || low < 0.0 || low > high {
                return Err(format!("`{}`: its range is [LOW, HIGH], from 0 on", param.name));
            }
            let values = param.value.fixed_values().unwrap_or_default();
            if let Some(value) = values.iter().find(|v| !(low..=high).contains(*v)) {
                return Err(format!("`{}` = {value} is out of range: {low} to {high}", param.name));
            }
        }
        if self.model.is_empty() {
            return Err("`model` is missing".to_owned());
        }
        if self.tools.is_empty() || self.tools.iter().any(|(_, weight)| !weight.is_finite() || *weight <= 0.0)
        {
            return Err("`tools` needs at least one tool, each with a weight above 0".to_owned());
        }
        Ok(())
    }
}

fn config(origin: &str, reason: String) -> Error {
    Error::Config { origin: origin.to_owned(), reason }
}

#[expect(clippy::cast_precision_loss, reason = "weights and parameters are far below 2^53")]
fn as_number(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(n) => Some(*n as f64),
        toml::Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn parse_tools(text: &str) -> Result<Vec<(String, f64)>> {
    let tool = |part: &str| {
        let (name, weight) = part.rsplit_once(':').unwrap_or((part, "1"));
        match weight.trim().parse() {
            Ok(weight) if !name.trim().is_empty() => Ok((name.trim().to_owned(), weight)),
            _ => Err(config(&format!("--set tools={text}"), format!("`{part}` is not NAME:WEIGHT"))),
        }
    };
    text.split(',').map(tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_loads_and_is_named_after_its_file() {
        for name in profile_names() {
            let profile = Profile::load(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(profile.name, name);
            assert!(!profile.sources.is_empty() && !profile.summary.is_empty(), "{name}");
        }
    }

    #[test]
    fn mistakes_name_the_nearest() {
        let error = |text: &str| Profile::parse(text, "mine.toml").expect_err(text).to_string();
        let head = "name = \"x\"\nsummary = \"y\"\nextends = \"interactive-coding\"\n[params]\n";
        assert!(error(&format!("{head}turn = {{ default = 1 }}")).contains("did you mean `turns`?"));
        assert!(
            error(&format!("{head}turns = {{ default = \"ln(1)\" }}"))
                .contains("parameter `turns`: distribution")
        );
        assert!(
            error(&format!("{head}turns = {{ default = 0 }}")).contains("`turns` = 0 is out of range: 1 to")
        );
        assert!(
            error(&format!("{head}turns = {{ defalt = 1 }}")).contains("parameter `turns`: unknown field")
        );
        let range = |range: &str| error(&format!("{head}turns = {{ default = 1, range = {range} }}"));
        assert!(
            ["[nan, 3]", "[1, inf]", "[-1, 1]", "[3, 1]"].iter().all(|r| range(r).contains("its range is"))
        );
        assert!(error("name = \"x\"\nsummary = \"y\"\n").contains("`turns` is missing"));
        assert!(error("format_version = 2\nname = \"x\"\nsummary = \"y\"\n").contains("newer than 1"));
        assert!(error("name = \"x\"\nsumary = \"y\"\n").contains("mine.toml, line 2"));
        let unknown = Profile::load("interactive-codin").expect_err("a slip").to_string();
        assert!(unknown.contains("did you mean `interactive-coding`?"));
    }

    #[test]
    fn each_parameter_can_be_set() {
        let mut profile = Profile::load("chat").expect("built in");
        let names: Vec<String> = profile.params.iter().map(|p| p.name.clone()).collect();
        for name in names {
            let text = profile.param(&name).expect("listed").value.to_string();
            profile.set(&name, &text).expect("its own value");
        }
        profile.set("turns", "7").expect("a number");
        profile.set("tools", "Bash:3,Read").expect("weights");
        profile.set("model", "claude-haiku-5-5").expect("an id");
        assert_eq!(profile.param("turns").map(|p| p.value.to_string()), Some("7".to_owned()));
        assert_eq!(profile.tools, [("Bash".to_owned(), 3.0), ("Read".to_owned(), 1.0)]);
        assert!(profile.set("modl", "x").expect_err("a slip").to_string().contains("`model`"));
        assert!(profile.set("error_chance", "2").expect_err("no chance").to_string().contains("0 to 1"));
        assert!(profile.set("tools", "Bash:0").is_err() && profile.set("tools", ":1").is_err());
    }
}
