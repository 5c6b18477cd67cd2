//! Parameters of a preset, under the agent's own names: one table that `--set`, sweeps, the list, the
//! schema and the documentation read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::Decimal;
use crate::error::{Error, Result};

/// A parameter value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, in the parameter's unit.
    Int(i64),
    /// A number of up to six decimals, for shares and factors.
    Decimal(Decimal),
    /// One of the parameter's choices, or a name.
    Text(String),
    /// Words in the order given, such as names of tools.
    List(Vec<String>),
}

impl std::fmt::Display for ParamValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParamValue::Bool(b) => write!(f, "{b}"),
            ParamValue::Int(n) => write!(f, "{n}"),
            ParamValue::Decimal(d) => write!(f, "{d}"),
            ParamValue::Text(t) => f.write_str(t),
            ParamValue::List(words) => write!(f, "[{}]", words.join(",")),
        }
    }
}

impl ParamValue {
    fn type_name(&self) -> &'static str {
        match self {
            ParamValue::Bool(_) => "true or false",
            ParamValue::Int(_) => "a whole number",
            ParamValue::Decimal(_) => "a number",
            ParamValue::Text(_) => "a word",
            ParamValue::List(_) => "a list such as [a,b]",
        }
    }

    fn from_toml(value: &toml::Value) -> Option<ParamValue> {
        match value {
            toml::Value::Boolean(b) => Some(ParamValue::Bool(*b)),
            toml::Value::Integer(n) => Some(ParamValue::Int(*n)),
            toml::Value::Float(f) => Decimal::of(*f).map(ParamValue::Decimal),
            toml::Value::String(s) => Some(ParamValue::Text(s.clone())),
            toml::Value::Array(list) => {
                let words: Option<Vec<String>> = list.iter().map(|v| v.as_str().map(str::to_owned)).collect();
                words.map(ParamValue::List)
            }
            _ => None,
        }
    }
}

/// How a sweep or a search spaces a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Values lie the same distance apart.
    #[default]
    Linear,
    /// Each value is the same factor above the one before.
    Log,
}

/// What the client believes a model can do: what defaults and values may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// Its thinking is adaptive.
    AdaptiveThinking,
    /// The provider can clear tool results on its side.
    ServerEditing,
    /// The provider can compact on its side.
    ServerCompaction,
}

/// A word that means another one, depending on the model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meaning {
    /// The ability asked for.
    pub ability: Ability,
    /// The word it means where the model has it.
    pub then: String,
    /// The word it means elsewhere.
    #[serde(rename = "else")]
    pub otherwise: String,
    /// Said when `else` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<String>,
}

/// A parameter of a preset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Param {
    /// Dotted name (`contextEditing.minCharsPerPass`); a unique last part is accepted.
    pub name: String,
    /// Default; see `default_if` for models on which it differs.
    pub default: ParamValue,
    /// Another default for models with an ability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_if: Option<(Ability, ParamValue)>,
    /// Unit (`utf16`, `turns`, `tokens`), empty for switches and words.
    pub unit: String,
    /// Smallest and largest allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(i64, i64)>,
    /// Allowed words; of a list: of its elements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Spacing.
    pub scale: Scale,
    /// One line.
    pub doc: String,
    /// The agent takes its default where its own configuration has a value out of range.
    pub invalid_is_default: bool,
    /// Words that mean another one, depending on the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub means: Vec<(String, Meaning)>,
}

/// A parameter as written in a policy file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParamToml {
    #[schemars(with = "ParamValue")]
    default: toml::Value,
    #[serde(default)]
    default_if: Option<DefaultIf>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    range: Option<[i64; 2]>,
    #[serde(default)]
    choices: Vec<String>,
    #[serde(default)]
    scale: Scale,
    doc: String,
    #[serde(default)]
    invalid_is_default: bool,
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Meaning>")]
    means: toml::map::Map<String, toml::Value>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DefaultIf {
    ability: Ability,
    #[schemars(with = "ParamValue")]
    value: toml::Value,
}

impl ParamToml {
    pub(super) fn build(self, name: &str) -> std::result::Result<Param, String> {
        let plain = |v: &toml::Value| {
            ParamValue::from_toml(v).ok_or_else(|| {
                format!(
                    "parameter `{name}`: a default is true, false, a whole number, a word or a list of words"
                )
            })
        };
        let default_if = match &self.default_if {
            Some(d) => Some((d.ability, plain(&d.value)?)),
            None => None,
        };
        let means = self
            .means
            .into_iter()
            .map(|(word, table)| match table.try_into::<Meaning>() {
                Ok(meaning) => Ok((word, meaning)),
                Err(e) => Err(format!("parameter `{name}`, means `{word}`: {}", e.message())),
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let param = Param {
            name: name.to_owned(),
            default: plain(&self.default)?,
            default_if,
            unit: self.unit,
            range: self.range.map(|[low, high]| (low, high)),
            choices: self.choices,
            scale: self.scale,
            doc: self.doc,
            invalid_is_default: self.invalid_is_default,
            means,
        };
        param.check(&param.default)?;
        if let Some((_, value)) = &param.default_if {
            param.check(value)?;
        }
        Ok(param)
    }
}

impl Param {
    /// The default on a model with the given abilities.
    pub fn default_for(&self, has: &dyn Fn(Ability) -> bool) -> &ParamValue {
        match &self.default_if {
            Some((ability, value)) if has(*ability) => value,
            _ => &self.default,
        }
    }

    /// Whether `value` is of the right type, in range and one of the choices.
    pub fn check(&self, value: &ParamValue) -> std::result::Result<(), String> {
        if std::mem::discriminant(value) != std::mem::discriminant(&self.default) {
            return Err(format!("`{}` takes {}, not `{value}`", self.name, self.default.type_name()));
        }
        match value {
            ParamValue::Int(n) => match self.range {
                Some((low, high)) if !(low..=high).contains(n) => {
                    Err(format!("`{}` = {n} is out of range: {low} to {high}", self.name))
                }
                _ => Ok(()),
            },
            ParamValue::Decimal(d) => match self.range {
                Some((low, high)) if d.0 < low * 1_000_000 || d.0 > high * 1_000_000 => {
                    Err(format!("`{}` = {d} is out of range: {low} to {high}", self.name))
                }
                _ => Ok(()),
            },
            ParamValue::Text(word) => self.check_word(word),
            ParamValue::List(words) => words.iter().try_for_each(|w| self.check_word(w)),
            ParamValue::Bool(_) => Ok(()),
        }
    }

    fn check_word(&self, word: &str) -> std::result::Result<(), String> {
        if self.choices.is_empty() || self.choices.iter().any(|c| c == word) {
            return Ok(());
        }
        let near = crate::error::nearest(word, self.choices.iter().map(String::as_str));
        let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        Err(format!("`{}` = `{word}` is none of {}{hint}", self.name, self.choices.join(", ")))
    }

    /// Reads a value as typed on the command line.
    pub fn parse(&self, text: &str) -> Result<ParamValue> {
        let config = |reason: String| Error::Config { origin: "parameter".to_owned(), reason };
        let wrong = || config(format!("`{}` takes {}, not `{text}`", self.name, self.default.type_name()));
        let value = match &self.default {
            ParamValue::Bool(_) => match text {
                "true" | "on" | "yes" => ParamValue::Bool(true),
                "false" | "off" | "no" => ParamValue::Bool(false),
                _ => return Err(wrong()),
            },
            ParamValue::Int(_) => ParamValue::Int(text.replace('_', "").parse().map_err(|_| wrong())?),
            ParamValue::Decimal(_) => ParamValue::Decimal(text.parse().map_err(|()| wrong())?),
            ParamValue::Text(_) => ParamValue::Text(text.to_owned()),
            ParamValue::List(_) => {
                let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                ParamValue::List(
                    inner
                        .split(',')
                        .map(|w| w.trim().trim_matches('"').to_owned())
                        .filter(|w| !w.is_empty())
                        .collect(),
                )
            }
        };
        self.check(&value).map_err(config)?;
        Ok(value)
    }
}

/// Finds a parameter by full name, by name ignoring case, or by a unique last part.
pub fn find<'p>(params: &'p [Param], name: &str) -> Result<&'p Param> {
    if let Some(p) = params.iter().find(|p| p.name == name) {
        return Ok(p);
    }
    let same = |a: &str| a.eq_ignore_ascii_case(name);
    let matches: Vec<&Param> =
        params.iter().filter(|p| same(&p.name) || p.name.rsplit('.').next().is_some_and(same)).collect();
    match matches.as_slice() {
        [one] => Ok(one),
        [] => {
            let known =
                params.iter().flat_map(|p| [p.name.as_str(), p.name.rsplit('.').next().unwrap_or("")]);
            Err(Error::unknown("parameter", name, known))
        }
        several => Err(Error::Config {
            origin: "parameter".to_owned(),
            reason: format!(
                "`{name}` may be {}; write the full name",
                several.iter().map(|p| format!("`{}`", p.name)).collect::<Vec<_>>().join(" or ")
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(name: &str) -> Param {
        let toml: ParamToml = toml::from_str("default = 5\nrange = [0, 10]\ndoc = \"x\"").unwrap();
        toml.build(name).unwrap()
    }

    #[test]
    fn last_part_is_enough_when_unique() {
        let params = [int("a.keep"), int("b.keep"), int("b.most")];
        assert_eq!(find(&params, "most").unwrap().name, "b.most");
        assert_eq!(find(&params, "B.MOST").unwrap().name, "b.most");
        assert!(find(&params, "keep").unwrap_err().to_string().contains("`a.keep` or `b.keep`"));
        assert!(find(&params, "mosst").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn values_are_checked() {
        let p = int("n");
        assert_eq!(p.parse("1_0").unwrap(), ParamValue::Int(10));
        assert!(p.parse("11").unwrap_err().to_string().contains("0 to 10"));
        assert!(p.parse("x").unwrap_err().to_string().contains("whole number"));
    }
}
