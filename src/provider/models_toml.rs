//! Model files: `[defaults]`, then one `[[model]]` each, every field optional over what it is based on.

use std::sync::Arc;

use serde::Deserialize;

use super::cache_toml::CacheFields;
use super::model::{Binding, ModelSpec, OverflowStyle, Parts, Source, ThinkingRetention};
use super::price::PeakHours;
use super::price_file;
use super::price_toml::{self, PriceFields};
use super::reasoning::Replay;
use super::service::Factors;
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
    binding_parts: Parts,
    replay: Replay,
    reads: Vec<String>,
    reads_not: Vec<String>,
    overflow: OverflowStyle,
    cache: CacheFields,
    price: PriceFields,
    prices: Vec<PriceFields>,
    peak_hours: PeakHours,
    price_factors: Factors,
    read_multiple: f64,
    storage_usd_per_mtok_hour: f64,
    source: Vec<Source>,
}

impl<'de> Deserialize<'de> for RawModel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        RawModelFields::deserialize(deserializer).map(RawModel::from)
    }
}

impl Fields {
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
        set(&mut model.binding_parts, &self.binding_parts);
        set(&mut model.replay, &self.replay);
        set(&mut model.reads, &self.reads);
        set(&mut model.reads_not, &self.reads_not);
        set(&mut model.overflow, &self.overflow);
        if let Some(cache) = &self.cache {
            model.cache = Some(cache.over(model.cache, origin)?);
        }
        self.apply_prices(model, origin)?;
        model.sources.extend(self.source.iter().flatten().cloned());
        Ok(())
    }

    /// A price replaces all earlier ones; peak hours stay those of the model until others are given.
    fn apply_prices(&self, model: &mut ModelSpec, origin: &str) -> Result<()> {
        let wrong = |reason: &str| Error::Config { origin: origin.to_owned(), reason: reason.to_owned() };
        let mut peak = model.prices.peak().cloned();
        if let Some(hours) = &self.peak_hours {
            peak = Some(Arc::new(hours.clone()));
        }
        let prices = match (&self.price, &self.prices) {
            (Some(_), Some(_)) => return Err(wrong("price and prices are both given; keep one of them")),
            (Some(price), None) => price_toml::table(std::slice::from_ref(price), origin)?,
            (None, Some(prices)) => price_toml::table(prices, origin)?,
            (None, None) => std::mem::take(&mut model.prices),
        };
        model.prices = prices.with_peak(peak);
        if let Some(factors) = self.price_factors {
            model.price_factors = factors;
        }
        if let Some(multiple) = self.read_multiple {
            let millionths = price_file::parse_usd_per_mtok(&format!("{multiple}"))
                .ok_or_else(|| wrong("read_multiple is a decimal with at most 6 places"))?;
            model.read_multiple_millionths = Some(millionths);
        }
        if let Some(usd) = self.storage_usd_per_mtok_hour {
            let pusd = price_file::parse_usd_per_mtok(&format!("{usd}"))
                .ok_or_else(|| wrong("storage_usd_per_mtok_hour is a USD amount with at most 6 decimals"))?;
            model.storage_pusd_per_token_hour = Some(pusd);
        }
        Ok(())
    }
}
