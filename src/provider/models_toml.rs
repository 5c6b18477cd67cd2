//! Model files: `[defaults]`, then one `[[model]]` each, every field optional over what it is based on.

use serde::Deserialize;

use super::cache_toml::CacheFields;
use super::model::{Binding, ModelSpec, OverflowStyle, Source, ThinkingRetention};
use super::price::{self, Price, PriceTable, Rates, Tier};
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    #[serde(default)]
    pub(crate) defaults: Fields,
    #[serde(default)]
    pub(crate) model: Vec<RawModel>,
}

/// One `[[model]]`: its id, the model it is like, and the fields in which it differs.
#[derive(Debug)]
pub(crate) struct RawModel {
    pub(crate) id: String,
    pub(crate) like: Option<String>,
    pub(crate) fields: Fields,
}

macro_rules! model_fields {
    ($($(#[$attr:meta])* $name:ident: $type:ty,)*) => {
        /// Fields of a model, each optional: a layer over another.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Fields { $($(#[$attr])* $name: Option<$type>,)* }

        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawModelFields { id: String, like: Option<String>, $($(#[$attr])* $name: Option<$type>,)* }

        impl From<RawModelFields> for RawModel {
            fn from(raw: RawModelFields) -> RawModel {
                RawModel { id: raw.id, like: raw.like, fields: Fields { $($name: raw.$name,)* } }
            }
        }
    };
}

model_fields! {
    aliases: Vec<String>,
    vendor: String,
    tokenizer: Tokenizer,
    window_tokens: u64,
    max_output_tokens: u64,
    adaptive_thinking: bool,
    server_editing: bool,
    server_compaction: bool,
    thinking: ThinkingRetention,
    binding: Binding,
    reads: Vec<String>,
    reads_not: Vec<String>,
    overflow: OverflowStyle,
    cache: CacheFields,
    price: PriceFields,
    source: Vec<Source>,
}

impl<'de> Deserialize<'de> for RawModel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        RawModelFields::deserialize(deserializer).map(RawModel::from)
    }
}

/// A price in USD per million tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFields {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write_short: Option<f64>,
    cache_write_long: Option<f64>,
    long: Option<LongPrice>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPrice {
    above_prompt_tokens: u64,
    #[serde(default)]
    inclusive: bool,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write_short: Option<f64>,
    cache_write_long: Option<f64>,
}

impl Fields {
    /// The vendor this layer names.
    pub(crate) fn vendor(&self) -> Option<&str> {
        self.vendor.as_deref()
    }

    /// Sets what this layer gives.
    pub(crate) fn apply(&self, model: &mut ModelSpec, origin: &str) -> Result<()> {
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *field = value.clone();
            }
        }
        set(&mut model.aliases, &self.aliases);
        set(&mut model.vendor, &self.vendor);
        set(&mut model.tokenizer, &self.tokenizer);
        set(&mut model.window_tokens, &self.window_tokens);
        set(&mut model.max_output_tokens, &self.max_output_tokens);
        set(&mut model.adaptive_thinking, &self.adaptive_thinking);
        set(&mut model.server_editing, &self.server_editing);
        set(&mut model.server_compaction, &self.server_compaction);
        set(&mut model.thinking, &self.thinking);
        set(&mut model.binding, &self.binding);
        set(&mut model.reads, &self.reads);
        set(&mut model.reads_not, &self.reads_not);
        set(&mut model.overflow, &self.overflow);
        if let Some(cache) = &self.cache {
            model.cache = Some(cache.over(model.cache, origin)?);
        }
        if let Some(price) = &self.price {
            model.prices = PriceTable::new(vec![price.price(origin)?]);
        }
        model.sources.extend(self.source.iter().flatten().cloned());
        Ok(())
    }
}

impl PriceFields {
    fn price(&self, origin: &str) -> Result<Price> {
        let rates = |values: [Option<f64>; 5]| -> Result<Rates> {
            let exact = |value: Option<f64>| match value {
                None => Ok(None),
                Some(usd) => exact_pusd(usd).map(Some).ok_or_else(|| Error::Config {
                    origin: origin.to_owned(),
                    reason: format!(
                        "price {usd} is not a USD amount per million tokens with at most 6 decimals"
                    ),
                }),
            };
            let input = exact(values[0])?.unwrap_or(0);
            Ok(Rates {
                input,
                output: exact(values[1])?.unwrap_or(0),
                write_short: exact(values[2])?.unwrap_or(input),
                write_long: exact(values[3])?.unwrap_or(input),
                read: exact(values[4])?.unwrap_or(input),
            })
        };
        let tier = match &self.long {
            None => None,
            Some(l) => Some(Tier {
                above_prompt_tokens: l.above_prompt_tokens,
                inclusive: l.inclusive,
                rates: rates([
                    Some(l.input),
                    Some(l.output),
                    l.cache_write_short,
                    l.cache_write_long,
                    l.cache_read,
                ])?,
            }),
        };
        Ok(Price {
            rates: rates([
                Some(self.input),
                Some(self.output),
                self.cache_write_short,
                self.cache_write_long,
                self.cache_read,
            ])?,
            tier,
            from: None,
            to: None,
            as_of: String::new(),
            source: origin.to_owned(),
            notes: String::new(),
        })
    }
}

/// The float of a TOML file through its shortest decimal form, so that 0.1 is exactly 100,000.
fn exact_pusd(usd: f64) -> Option<u64> {
    price::parse_usd_per_mtok(&format!("{usd}"))
}
