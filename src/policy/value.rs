//! Values of the policy language: a number, `"$parameter"`, or a small table over the model's window.
//!
//! This is the one hand-written "untagged" type of the configuration: a
//! visitor tells the forms apart, so errors keep their place in the file.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

pub use super::list_value::ListValue;

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
    /// A share of the client's window that a parameter holds, in millionths.
    WindowParam(String),
    /// A share of the longest answer the client believes in, in millionths, rounded down.
    MaxOutput(i64),
    /// A share of the rule's own trigger, in millionths, rounded down.
    Trigger(i64),
    /// A share of the limit that fired, in millionths: known in the run only.
    Fired(i64),
    /// All of them together.
    Sum(Vec<Value>),
    /// The first less the second.
    Sub(Vec<Value>),
    /// So many hundredths of the first, rounded down.
    Percent(Vec<Value>),
    /// A share of any value: a decimal, or a parameter that holds one.
    Share(Box<Value>, Share),
    /// Half, rounded down.
    Half(Box<Value>),
    /// The first that is not 0.
    FirstNonzero(Vec<Value>),
    /// The smallest of those above 0.
    MinPositive(Vec<Value>),
    /// The first, but not below the second and not above the third.
    Clamp(Vec<Value>),
}

/// What a value may refer to.
pub trait Scope {
    /// Parameter `name` as a whole number.
    fn number(&self, name: &str) -> Result<i64, String>;
    /// The window the client believes in, tokens.
    fn window_tokens(&self) -> i64;
    /// The longest answer the client believes in, tokens.
    fn max_output_tokens(&self) -> i64;
    /// Parameter `name` as a share, in millionths.
    fn share(&self, name: &str) -> Result<i64, String>;
    /// The smallest limit of the rule at hand.
    fn trigger(&self) -> Result<i64, String>;
}

/// A share of `whole`, rounded down.
fn share_of(whole: i64, millionths: i64) -> Result<i64, String> {
    i64::try_from(i128::from(whole) * i128::from(millionths) / 1_000_000)
        .map_err(|_| "a share is too large".to_owned())
}

impl Value {
    /// Works the value out.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<i64, String> {
        let all = |list: &[Value]| list.iter().map(|v| v.resolve(scope)).collect::<Result<Vec<_>, _>>();
        match self {
            Value::Number(n) => Ok(*n),
            Value::Param(name) => scope.number(name),
            Value::Window(millionths) => share_of(scope.window_tokens(), *millionths),
            Value::WindowParam(name) => share_of(scope.window_tokens(), scope.share(name)?),
            Value::MaxOutput(millionths) => share_of(scope.max_output_tokens(), *millionths),
            Value::Trigger(millionths) => share_of(scope.trigger()?, *millionths),
            Value::Fired(_) => Err("`fired` stands in `until.total` and `cadence.target` only".to_owned()),
            Value::Reserve(v) => Ok(scope.window_tokens().saturating_sub(v.resolve(scope)?)),
            Value::Min(list) => all(list)?.into_iter().min().ok_or_else(|| "`min` of nothing".to_owned()),
            Value::Max(list) => all(list)?.into_iter().max().ok_or_else(|| "`max` of nothing".to_owned()),
            Value::Div(list) => match all(list)?.as_slice() {
                [a, b] if *b > 0 => Ok(a.div_euclid(*b)),
                _ => Err("`div` takes two numbers, the second above 0".to_owned()),
            },
            Value::Sum(list) => all(list)?
                .into_iter()
                .try_fold(0_i64, i64::checked_add)
                .ok_or_else(|| "`sum` is too large".to_owned()),
            Value::Sub(list) => match all(list)?.as_slice() {
                [a, b] => Ok(a.saturating_sub(*b)),
                _ => Err("`sub` takes two numbers".to_owned()),
            },
            Value::Percent(list) => match all(list)?.as_slice() {
                [whole, percent] => share_of(*whole, percent.saturating_mul(10_000)),
                _ => Err("`percent` takes two numbers".to_owned()),
            },
            Value::Share(whole, share) => share_of(whole.resolve(scope)?, share.millionths(scope)?),
            Value::Half(v) => Ok(v.resolve(scope)?.div_euclid(2)),
            Value::FirstNonzero(list) => Ok(all(list)?.into_iter().find(|n| *n != 0).unwrap_or(0)),
            Value::MinPositive(list) => {
                let positive = all(list)?.into_iter().filter(|n| *n > 0).min();
                positive.ok_or_else(|| "`min_positive` of nothing above 0".to_owned())
            }
            Value::Clamp(list) => match all(list)?.as_slice() {
                [v, low, high] if low <= high => Ok(*v.clamp(low, high)),
                _ => Err("`clamp` takes three numbers, the second at most the third".to_owned()),
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
        let three = json_schema!({"type": "array", "items": value, "minItems": 3, "maxItems": 3});
        let share =
            json_schema!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, parameter_schema()]});
        let literal = json_schema!({"type": "number", "minimum": 0});
        json_schema!({
            "description": "a whole number, or what it is worked out from",
            "anyOf": [
                {"type": "integer"},
                parameter_schema(),
                table("window", share, "this share of the client's window, rounded down"),
                table("reserve", value, "the client's window less this"),
                table("min", values.clone(), "the smallest"),
                table("max", values.clone(), "the largest"),
                table("div", two.clone(), "the first divided by the second, rounded down"),
                table("max_output", literal.clone(), "this share of the longest answer, rounded down"),
                table("trigger", literal.clone(), "this share of the rule's own trigger, rounded down"),
                table("fired", literal, "this share of the limit that fired (`until.total`, `cadence.target`)"),
                table("sum", values.clone(), "all of them together"),
                table("sub", two.clone(), "the first less the second"),
                table("percent", two, "so many hundredths of the first, rounded down"),
                table("share", json_schema!({"type": "array", "minItems": 2, "maxItems": 2}), "a share of any value"),
                table("half", generator.subschema_for::<Value>(), "half of it, rounded down"),
                table("first_nonzero", values.clone(), "the first that is not 0"),
                table("min_positive", values, "the smallest of those above 0"),
                table("clamp", three, "the first, not below the second and not above the third"),
            ],
        })
    }
}

pub(super) fn parameter_schema() -> Schema {
    json_schema!({"type": "string", "pattern": r"^\$.+", "description": "$ and the name of a parameter"})
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, \"$parameter\", or a table with one of {}", FORMS.join(", "))
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
            "window" => match map.next_value::<Share>()? {
                Share::Millionths(n) if n <= 1_000_000 => Value::Window(n),
                Share::Millionths(n) => {
                    return Err(de::Error::custom(format!(
                        "{} is no share of a window: use 0 to 1",
                        Decimal(n)
                    )));
                }
                Share::Param(name) => Value::WindowParam(name),
            },
            "max_output" => Value::MaxOutput(map.next_value::<Decimal>()?.0),
            "trigger" => Value::Trigger(map.next_value::<Decimal>()?.0),
            "fired" => Value::Fired(map.next_value::<Decimal>()?.0),
            "sum" => Value::Sum(map.next_value()?),
            "sub" => Value::Sub(map.next_value()?),
            "percent" => Value::Percent(map.next_value()?),
            "share" => {
                let ShareOf(whole, share) = map.next_value()?;
                Value::Share(Box::new(whole), share)
            }
            "half" => Value::Half(Box::new(map.next_value()?)),
            "first_nonzero" => Value::FirstNonzero(map.next_value()?),
            "min_positive" => Value::MinPositive(map.next_value()?),
            "clamp" => Value::Clamp(map.next_value()?),
            "reserve" => Value::Reserve(Box::new(map.next_value()?)),
            "min" => Value::Min(map.next_value()?),
            "max" => Value::Max(map.next_value()?),
            "div" => Value::Div(map.next_value()?),
            other => return Err(de::Error::unknown_field(other, FORMS)),
        };
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(extra) => Err(de::Error::custom(format!("one key only; `{extra}` is the second"))),
        }
    }
}

/// Keys of the table form.
const FORMS: &[&str] = &[
    "window",
    "reserve",
    "min",
    "max",
    "div",
    "max_output",
    "trigger",
    "fired",
    "sum",
    "sub",
    "percent",
    "share",
    "half",
    "first_nonzero",
    "min_positive",
    "clamp",
];

/// A decimal of up to six places, in millionths: from here on it is an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Decimal(pub i64);

impl Decimal {
    /// The decimal nearest to `number`.
    #[expect(clippy::cast_possible_truncation, reason = "bounded right above")]
    pub fn of(number: f64) -> Option<Decimal> {
        (number.abs() <= 1e12).then(|| Decimal((number * 1e6).round() as i64))
    }
}

impl FromStr for Decimal {
    type Err = ();

    fn from_str(text: &str) -> Result<Decimal, ()> {
        text.parse::<f64>().ok().and_then(Decimal::of).ok_or(())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let text =
            format!("{sign}{}.{:06}", self.0.unsigned_abs() / 1_000_000, self.0.unsigned_abs() % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Decimal {
    #[expect(clippy::cast_precision_loss, reason = "six places of a number below 10^12 fit")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        match Share::deserialize(deserializer)? {
            Share::Millionths(n) => Ok(Decimal(n)),
            Share::Param(name) => Err(de::Error::custom(format!("a number is needed here, not \"${name}\""))),
        }
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "description": "a decimal of up to six places"})
    }
}

/// A decimal in millionths, or the parameter that holds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// The number itself, in millionths.
    Millionths(i64),
    /// Name of a parameter, without its `$`.
    Param(String),
}

impl Share {
    /// The decimal, in millionths.
    pub fn millionths(&self, scope: &dyn Scope) -> Result<i64, String> {
        match self {
            Share::Millionths(n) => Ok(*n),
            Share::Param(name) => scope.share(name),
        }
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "number", "minimum": 0}, parameter_schema()]})
    }
}

/// `[value, share]`.
#[derive(Deserialize)]
struct ShareOf(Value, Share);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        deserializer.deserialize_any(ShareVisitor)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a decimal of at least 0, or \"$parameter\"")
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Share, E> {
        n.checked_mul(1_000_000)
            .filter(|n| *n >= 0)
            .map(Share::Millionths)
            .ok_or_else(|| E::custom("out of range"))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Share, E> {
        let decimal = Decimal::of(number).filter(|d| d.0 >= 0);
        decimal.map(|d| Share::Millionths(d.0)).ok_or_else(|| E::custom("out of range"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
        param_name(text)
            .map(|name| Share::Param(name.to_owned()))
            .ok_or_else(|| E::custom(format!("`{text}` is no parameter; write \"$name\"")))
    }
}

/// `"$name"` → `name`.
pub fn param_name(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| !name.is_empty())
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

        fn max_output_tokens(&self) -> i64 {
            64_000
        }

        fn share(&self, _: &str) -> Result<i64, String> {
            Ok(500_000)
        }

        fn trigger(&self) -> Result<i64, String> {
            Ok(101)
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
        assert_eq!(value("{ window = \"$threshold\" }"), Ok(100_000));
        assert_eq!(
            value("{ reserve = { sum = [{ min = [{ max_output = 1 }, 20000] }, 13000] } }"),
            Ok(167_000)
        );
        assert_eq!(value("{ trigger = 0.5 }"), Ok(50));
        assert_eq!(value("{ half = { sub = [3, 10] } }"), Ok(-4));
        assert_eq!(value("{ percent = [{ window = 1.0 }, 85] }"), Ok(170_000));
        assert_eq!(value("{ first_nonzero = [0, 75, 3] }"), Ok(75));
        assert_eq!(value("{ min_positive = [-1, 75, 30] }"), Ok(30));
        assert_eq!(value("{ clamp = [5, 10, 20] }"), Ok(10));
    }

    #[test]
    fn decimals_print_as_written() {
        for text in ["0.85", "0.333333", "12", "0"] {
            assert_eq!(text.parse::<Decimal>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(value("\"reserveTokens\"").unwrap_err().contains("\"$name\""));
        assert!(value("{ windows = 0.8 }").unwrap_err().contains("window"));
        assert!(value("{ window = 80.0 }").unwrap_err().contains("0 to 1"));
        assert!(value("{ div = [1, 0] }").unwrap_err().contains("above 0"));
    }
}
