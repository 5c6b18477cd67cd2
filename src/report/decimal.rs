//! Decimals in JSON: as exact as they are in memory.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

use crate::metrics::{self, parse_decimal};

/// A decimal number in units of `10^-D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decimal<const D: usize>(pub u128);

impl<const D: usize> Serialize for Decimal<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        metrics::write_decimal(&mut text, self.0, D as u32).map_err(ser::Error::custom)?;
        raw(&text, serializer)
    }
}

impl<'de, const D: usize> Deserialize<'de> for Decimal<D> {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        parse_decimal(raw.get(), D).map(Decimal).map_err(de::Error::custom)
    }
}

impl<const D: usize> JsonSchema for Decimal<D> {
    fn schema_name() -> Cow<'static, str> {
        format!("Decimal{D}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "description": format!("exact, up to {D} decimals")})
    }
}

/// A number by its digits.
///
/// # Errors
/// Text that is no JSON.
pub(super) fn raw<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(text.to_owned()).map_err(ser::Error::custom)?.serialize(serializer)
}
