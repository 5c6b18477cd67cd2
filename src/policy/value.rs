//! Values of the policy language: a number, `"$parameter"`, or a small table over the model's window.
//!
//! This is the one hand-written "untagged" type of the configuration: a
//! visitor tells the forms apart, so errors keep their place in the file.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

/// A whole number, by the time a strategy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A literal.
    Number(i64),
    /// The value of a parameter.
    Param(String),
    /// A share of the client's window, in millionths, rounded down.
    Window(i64),
    /// The window less this.
    Reserve(Box<Value>),
    /// The smallest.
    Min(Vec<Value>),
    /// The largest.
    Max(Vec<Value>),
    /// The first divided by the second, rounded down.
    Div(Vec<Value>),
}

/// What a value may refer to.
pub trait Scope {
    /// Parameter `name` as a whole number.
    fn number(&self, name: &str) -> Result<i64, String>;
    /// The window the client believes in, tokens.
    fn window_tokens(&self) -> i64;
}

impl Value {
    /// Works the value out.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<i64, String> {
        let all = |list: &[Value]| list.iter().map(|v| v.resolve(scope)).collect::<Result<Vec<_>, _>>();
        match self {
            Value::Number(n) => Ok(*n),
            Value::Param(name) => scope.number(name),
            Value::Window(millionths) => {
                let product = i128::from(scope.window_tokens()) * i128::from(*millionths) / 1_000_000;
                i64::try_from(product).map_err(|_| "a share of the window is too large".to_owned())
            }
            Value::Reserve(v) => Ok(scope.window_tokens().saturating_sub(v.resolve(scope)?)),
            Value::Min(list) => all(list)?.into_iter().min().ok_or_else(|| "`min` of nothing".to_owned()),
            Value::Max(list) => all(list)?.into_iter().max().ok_or_else(|| "`max` of nothing".to_owned()),
            Value::Div(list) => match all(list)?.as_slice() {
                [a, b] if *b > 0 => Ok(a.div_euclid(*b)),
                _ => Err("`div` takes two numbers, the second above 0".to_owned()),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

impl JsonSchema for Value {
    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Value>();
        let table = |key: &str, of: Schema, what: &str| {
            json_schema!({
                "type": "object", "description": what, "properties": {key: of},
                "required": [key], "additionalProperties": false,
            })
        };
        let values = json_schema!({"type": "array", "items": value, "minItems": 1});
        let two = json_schema!({"type": "array", "items": value, "minItems": 2, "maxItems": 2});
        let share = json_schema!({"type": "number", "minimum": 0, "maximum": 1});
        json_schema!({
            "description": "a whole number, or what it is worked out from",
            "anyOf": [
                {"type": "integer"},
                parameter_schema(),
                table("window", share, "this share of the client's window, rounded down"),
                table("reserve", value, "the client's window less this"),
                table("min", values.clone(), "the smallest"),
                table("max", values, "the largest"),
                table("div", two, "the first divided by the second, rounded down"),
            ],
        })
    }
}

fn parameter_schema() -> Schema {
    json_schema!({"type": "string", "pattern": r"^\$.+", "description": "$ and the name of a parameter"})
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a whole number, \"$parameter\", or one of { window }, { reserve }, { min }, { max }, { div }",
        )
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n))
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Value, E> {
        i64::try_from(n).map(Value::Number).map_err(|_| E::custom("number too large"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        param_name(text).map(|name| Value::Param(name.to_owned())).ok_or_else(|| {
            E::custom(format!(
                "`{text}` is neither a number nor a parameter; a parameter is written \"$name\""
            ))
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let key: String = map.next_key()?.ok_or_else(|| de::Error::custom("empty table"))?;
        let value = match key.as_str() {
            "window" => Value::Window(millionths(map.next_value::<f64>()?).map_err(de::Error::custom)?),
            "reserve" => Value::Reserve(Box::new(map.next_value()?)),
            "min" => Value::Min(map.next_value()?),
            "max" => Value::Max(map.next_value()?),
            "div" => Value::Div(map.next_value()?),
            other => {
                return Err(de::Error::unknown_field(other, &["window", "reserve", "min", "max", "div"]));
            }
        };
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(extra) => Err(de::Error::custom(format!("one key only; `{extra}` is the second"))),
        }
    }
}

/// A share as written (0.8) in millionths: from here on it is an integer.
#[expect(clippy::cast_possible_truncation, reason = "bounded to 0..=1 right above")]
fn millionths(share: f64) -> Result<i64, String> {
    if (0.0..=1.0).contains(&share) {
        Ok((share * 1e6).round() as i64)
    } else {
        Err(format!("{share} is no share of a window: use 0 to 1"))
    }
}

/// `"$name"` → `name`.
pub fn param_name(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| !name.is_empty())
}

/// A list of words, or the value of a list parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListValue {
    /// A literal list.
    Words(Vec<String>),
    /// The value of a parameter.
    Param(String),
}

impl Default for ListValue {
    fn default() -> Self {
        ListValue::Words(Vec::new())
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ListValue, D::Error> {
        deserializer.deserialize_any(ListVisitor)
    }
}

impl JsonSchema for ListValue {
    fn schema_name() -> Cow<'static, str> {
        "ListValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = json_schema!({"type": "array", "items": {"type": "string"}});
        json_schema!({"description": "a list of words", "anyOf": [words, parameter_schema()]})
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = ListValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of words or \"$parameter\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ListValue, E> {
        param_name(text)
            .map(|name| ListValue::Param(name.to_owned()))
            .ok_or_else(|| E::custom(format!("`{text}` is no parameter; write \"$name\" or a list")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ListValue, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = seq.next_element::<String>()? {
            words.push(word);
        }
        Ok(ListValue::Words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Scope for Fixed {
        fn number(&self, name: &str) -> Result<i64, String> {
            if name == "reserveTokens" { Ok(16_384) } else { Err(format!("no {name}")) }
        }

        fn window_tokens(&self) -> i64 {
            200_000
        }
    }

    #[derive(Deserialize)]
    struct Holder {
        v: Value,
    }

    fn value(text: &str) -> Result<i64, String> {
        let holder: Holder = toml::from_str(&format!("v = {text}")).map_err(|e| e.to_string())?;
        holder.v.resolve(&Fixed)
    }

    #[test]
    fn every_form_resolves() {
        assert_eq!(value("7"), Ok(7));
        assert_eq!(value("\"$reserveTokens\""), Ok(16_384));
        assert_eq!(value("{ window = 0.8 }"), Ok(160_000));
        assert_eq!(value("{ reserve = \"$reserveTokens\" }"), Ok(183_616));
        assert_eq!(value("{ min = [{ window = 0.3 }, 50] }"), Ok(50));
        assert_eq!(value("{ max = [{ window = 0.3 }, 50] }"), Ok(60_000));
        assert_eq!(value("{ div = [100001, 4] }"), Ok(25_000));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(value("\"reserveTokens\"").unwrap_err().contains("\"$name\""));
        assert!(value("{ windows = 0.8 }").unwrap_err().contains("window"));
        assert!(value("{ window = 80.0 }").unwrap_err().contains("0 to 1"));
        assert!(value("{ div = [1, 0] }").unwrap_err().contains("above 0"));
    }
}
