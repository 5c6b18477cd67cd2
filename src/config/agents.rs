//! Configuration files of agents, read as they are.
//!
//! A key of the file is a parameter of the preset under the same dotted name, so the reader needs no list
//! of parameters: it hands over what it finds in the sections it knows, and the preset checks it.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::policy::ParamValue;

/// Sections of Arcturn's configuration that concern the context; a plain value is a parameter of its own.
const ARCTURN_KEYS: &[&str] =
    &["offload", "offloadLimits", "contextEditing", "compaction", "thinkingBinding", "home", "cache"];

/// Keys of octo's `config.yml` that concern the context.
const OCTO_KEYS: &[&str] = &["compact_threshold", "compact_auto_pct", "lite_model"];

/// Reads an agent's configuration file: (parameter, value) pairs in file order.
///
/// # Errors
/// An unreadable file, text that is no JSON (comments and trailing commas are fine), an object without any
/// known section.
pub fn read(path: &Path) -> Result<Vec<(String, ParamValue)>> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    parse(&text, &path.display().to_string())
}

/// Parses the text of an agent's configuration; `origin` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, origin: &str) -> Result<Vec<(String, ParamValue)>> {
    let config = |reason: String| Error::Config { origin: origin.to_owned(), reason };
    if origin.ends_with(".yml") || origin.ends_with(".yaml") {
        return parse_yaml(text).map_err(config);
    }
    let value: Option<Value> =
        jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default())
            .map_err(|e| config(e.to_string()))?;
    let Some(Value::Object(sections)) = value else {
        return Err(config("an agent configuration is a JSON object".to_owned()));
    };
    let mut pairs = Vec::new();
    for key in ARCTURN_KEYS {
        match sections.get(*key) {
            None => {}
            Some(Value::Object(section)) => {
                pairs.extend(
                    section.iter().map(|(name, value)| (format!("{key}.{name}"), param_value(value))),
                );
            }
            Some(value) => pairs.push(((*key).to_owned(), param_value(value))),
        }
    }
    if pairs.is_empty() {
        return Err(config(format!(
            "none of {} is in it; this is no configuration ctxsim reads",
            ARCTURN_KEYS.join(", ")
        )));
    }
    Ok(pairs)
}

/// The plain `key: value` lines at the top level of a YAML file; all that is needed of it.
fn parse_yaml(text: &str) -> std::result::Result<Vec<(String, ParamValue)>, String> {
    let mut pairs = Vec::new();
    let mut knows_any = false;
    for line in text.lines().filter(|l| !l.starts_with([' ', '\t', '#', '-'])) {
        let Some((key, rest)) = line.split_once(':') else { continue };
        let key = key.trim().trim_matches(['"', '\'']);
        if !OCTO_KEYS.contains(&key) {
            continue;
        }
        knows_any = true;
        let value = match rest.trim() {
            quoted if quoted.starts_with(['"', '\'']) => {
                let quote = quoted.chars().next().unwrap_or('"');
                quoted[1..].split(quote).next().unwrap_or("").to_owned()
            }
            plain => plain.split(" #").next().unwrap_or("").trim().to_owned(),
        };
        // Nothing, or an alias of it, leaves the default.
        if value.is_empty() || value == "null" || value == "~" || value.starts_with('#') {
            continue;
        }
        let number = value.parse::<i64>().ok().filter(|_| key != "lite_model");
        pairs.push((key.to_owned(), number.map_or(ParamValue::Text(value), ParamValue::Int)));
    }
    if knows_any {
        Ok(pairs)
    } else {
        Err(format!("none of {} is in it; this is no configuration ctxsim reads", OCTO_KEYS.join(", ")))
    }
}

/// Numbers are floored, as the agent does; what fits no parameter stays text, for the preset to refuse or
/// to replace by its default.
#[expect(clippy::cast_possible_truncation, reason = "floored and bounded right above")]
fn param_value(value: &Value) -> ParamValue {
    match value {
        Value::Bool(b) => ParamValue::Bool(*b),
        Value::String(s) => ParamValue::Text(s.clone()),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => ParamValue::Int(n),
            (None, Some(f)) if f.abs() < 9e15 => ParamValue::Int(f.floor() as i64),
            _ => ParamValue::Text(n.to_string()),
        },
        Value::Array(list) if list.iter().all(Value::is_string) => {
            ParamValue::List(list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
        }
        other => ParamValue::Text(other.to_string()),
    }
}

/// How an agent writes its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Objects within an object, a dot in a name for each level.
    NestedJson,
    /// One `name: value` a line.
    Yaml,
}

/// Agents whose configuration can be written: how the names of their presets begin, form, and where it goes.
const WRITTEN: [(&str, Form, &str); 2] = [
    ("arcturn", Form::NestedJson, "Arcturn's JSON configuration"),
    ("octo", Form::Yaml, "octo's config.yml"),
];

/// Parameters as the agent's own configuration, ready to be pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Where it goes.
    pub goes_into: &'static str,
    /// The text, with a final line feed.
    pub text: String,
}

/// The configuration of the agent that `preset` models, with these parameters; `None` for one that is not known.
pub fn configuration(preset: &str, params: &[(String, ParamValue)]) -> Option<Configuration> {
    let family = preset.split(['-', '_', '.']).next().unwrap_or(preset);
    let (_, form, goes_into) = WRITTEN.iter().find(|(name, ..)| *name == family)?;
    let text = match form {
        Form::NestedJson => {
            let mut object = serde_json::Map::new();
            params.iter().for_each(|(name, value)| nest(&mut object, name, value));
            format!("{:#}\n", Value::Object(object))
        }
        Form::Yaml => params.iter().map(|(name, value)| format!("{name}: {}\n", json_value(value))).collect(),
    };
    Some(Configuration { goes_into, text })
}

fn nest(object: &mut serde_json::Map<String, Value>, name: &str, value: &ParamValue) {
    match name.split_once('.') {
        None => _ = object.insert(name.to_owned(), json_value(value)),
        Some((section, rest)) => {
            let inner = object.entry(section).or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Value::Object(inner) = inner {
                nest(inner, rest, value);
            }
        }
    }
}

/// JSON is YAML too.
fn json_value(value: &ParamValue) -> Value {
    match value {
        ParamValue::Bool(b) => (*b).into(),
        ParamValue::Int(n) => (*n).into(),
        // A decimal as it was typed; its digits are JSON.
        ParamValue::Decimal(d) => serde_json::from_str(&d.to_string()).unwrap_or(Value::Null),
        ParamValue::Text(text) => text.as_str().into(),
        ParamValue::List(words) => words.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_fine() {
        let text = r#"{
            // arcturn config
            "offload": "off",            // disabled
            "offloadLimits": { "maxChars": 1200.7, "exclude": ["read", "ls"], },
            "contextEditing": { "enabled": true, "keepRecentTurns": "many" },
            "theme": "dark",
        }"#;
        let pairs = parse(text, "x").unwrap();
        let get = |name: &str| pairs.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        assert_eq!(get("offload"), Some(ParamValue::Text("off".into())));
        assert_eq!(get("offloadLimits.maxChars"), Some(ParamValue::Int(1200)));
        assert_eq!(get("offloadLimits.exclude"), Some(ParamValue::List(vec!["read".into(), "ls".into()])));
        assert_eq!(get("contextEditing.keepRecentTurns"), Some(ParamValue::Text("many".into())));
        assert_eq!(get("theme"), None);
    }

    #[test]
    fn plain_keys_of_a_yaml_file_are_read_as_they_are() {
        let text = "# settings\nprovider:\n  lite_model: inner\ncompact_auto_pct: 60 # of the window\n\
                    lite_model: \"claude-haiku-4-5\"\ntheme: dark\n";
        let pairs = parse(text, "config.yml").unwrap();
        let expected = [
            ("compact_auto_pct".to_owned(), ParamValue::Int(60)),
            ("lite_model".to_owned(), ParamValue::Text("claude-haiku-4-5".into())),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(parse("lite_model:\n", "config.yml").unwrap(), []);
        assert!(parse("theme: dark\n", "config.yml").unwrap_err().to_string().contains("compact_auto_pct"));
    }

    #[test]
    fn something_else_is_refused() {
        assert!(parse("{\"model\": 1}", "x").unwrap_err().to_string().contains("offloadLimits"));
        assert!(parse("{", "x").is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let params = [
            ("contextEditing.minCharsPerPass".to_owned(), ParamValue::Int(30_000)),
            (
                "contextEditing.protectToolNames".to_owned(),
                ParamValue::List(vec!["todo".into(), "plan".into()]),
            ),
            ("thinkingBinding".to_owned(), ParamValue::Text("on".into())),
            ("compaction.enabled".to_owned(), ParamValue::Bool(false)),
        ];
        let written = configuration("arcturn-0.6", &params).unwrap();
        let mut read = parse(&written.text, "x").unwrap();
        let mut expected = params.to_vec();
        read.sort_by(|a, b| a.0.cmp(&b.0));
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(read, expected);
        let yaml = configuration("octo", &[("compact_auto_pct".to_owned(), ParamValue::Int(70))]).unwrap();
        assert_eq!(yaml.text, "compact_auto_pct: 70\n");
        assert_eq!(configuration("none", &params), None);
    }
}
