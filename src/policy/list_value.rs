//! Lists of the policy language: words, or the parameter that holds them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::value::{param_name, parameter_schema};

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
