//! The list of models: built from the embedded files, extended by the user's, searched by id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::litellm;
use super::model::{Binding, ModelSpec, OverflowStyle, Parts, Source, ThinkingRetention, normalise_id};
use super::models_toml::{ModelFile, RawModel};
use super::price::{Date, PeakHours, PriceTable};
use super::price_file::{self, Multiples};
use super::reasoning::Replay;
use super::service::{Factors, Service};
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;

/// The model that stands in for one that is not known (docs/decisions.md 13).
pub const SUBSTITUTE: &str = "claude-opus-5-5";

/// One file per vendor: name and text.
const VENDOR_FILES: &[(&str, &str)] = &[
    ("anthropic.toml (built in)", include_str!("models/anthropic.toml")),
    ("openai.toml (built in)", include_str!("models/openai.toml")),
    ("google.toml (built in)", include_str!("models/google.toml")),
    ("deepseek.toml (built in)", include_str!("models/deepseek.toml")),
    ("xai.toml (built in)", include_str!("models/xai.toml")),
    ("moonshotai.toml (built in)", include_str!("models/moonshotai.toml")),
    ("zai.toml (built in)", include_str!("models/zai.toml")),
    ("qwen.toml (built in)", include_str!("models/qwen.toml")),
    ("minimax.toml (built in)", include_str!("models/minimax.toml")),
    ("mistral.toml (built in)", include_str!("models/mistral.toml")),
    ("self_hosted.toml (built in)", include_str!("models/self_hosted.toml")),
];

/// Every known model, in a fixed order: those with rules of their own, then the rest of the price table.
#[derive(Debug, Clone)]
pub struct Models {
    models: Vec<ModelSpec>,
    /// What models of a vendor are without an entry of their own.
    vendors: Vec<ModelSpec>,
}

/// A model found for an id.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The model.
    pub model: &'a ModelSpec,
    /// It stands in for an unknown one, or for one whose cache is not simulated.
    pub substituted: bool,
}

impl Models {
    /// The models in the binary.
    ///
    /// # Errors
    ///
    /// Only if the embedded files are broken, which a test excludes.
    pub fn builtin() -> Result<Models> {
        let mut models = Models { models: Vec::new(), vendors: Vec::new() };
        let mut alike = Vec::new();
        for (origin, text) in VENDOR_FILES {
            let file: ModelFile = parse(text, origin)?;
            models.add_file(&file, origin)?;
            let like = |raw: &RawModel| raw.like.clone().map(|like| (raw.id.clone(), like));
            alike.extend(file.model.iter().filter_map(like));
            let mut vendor = blank();
            file.defaults.apply(&mut vendor, origin)?;
            models.vendors.push(vendor);
        }
        let peak: BTreeMap<String, Arc<PeakHours>> =
            price_file::peak_hours()?.into_iter().map(|(vendor, hours)| (vendor, Arc::new(hours))).collect();
        for vendor in &mut models.vendors {
            vendor.prices = PriceTable::default().with_peak(peak.get(&vendor.vendor).cloned());
        }
        for (row, price) in price_file::read_table(price_file::BUILTIN_CSV, price_file::BUILTIN_ORIGIN)? {
            let at = match models.position(&row.model_id) {
                Some(at) => at,
                None => {
                    let vendor =
                        models.vendors.iter().find(|v| v.vendor == row.provider).ok_or_else(|| {
                            Error::unknown(
                                "vendor",
                                &row.provider,
                                models.vendors.iter().map(|v| v.vendor.as_str()),
                            )
                        })?;
                    let model = named(vendor, &row.model_id);
                    models.models.push(model);
                    models.models.len() - 1
                }
            };
            let model = &mut models.models[at];
            if model.window_tokens == 0 {
                model.window_tokens = row.input_limit_tokens().unwrap_or(0);
            }
            if model.max_output_tokens == 0 {
                model.max_output_tokens = row.max_output_tokens().unwrap_or(0);
            }
            let source =
                Source { what: "price".into(), url: price.source.clone(), date: price.as_of.clone() };
            if !model.sources.contains(&source) {
                model.sources.push(source);
            }
            model.read_multiple_millionths =
                row.read_multiple_millionths().or(model.read_multiple_millionths);
            model.prices.push(price);
            if model.prices.peak().is_none() {
                let peak = peak.get(&row.provider).cloned();
                model.prices = std::mem::take(&mut model.prices).with_peak(peak);
            }
        }
        for (id, like) in alike {
            models.price_like(&id, &like)?;
        }
        Ok(models)
    }

    /// Adds the models of a file, or changes known ones, whatever its shape; returns their ids.
    ///
    /// # Errors
    ///
    /// Names `origin`, and line or model and field.
    pub fn add_text(&mut self, text: &str, origin: &str) -> Result<Vec<String>> {
        if litellm::recognise(text) { self.add_litellm(text, origin) } else { self.add_toml(text, origin) }
    }

    /// Adds the prices of LiteLLM's list. Of several names for one model, its plain id counts, else the first.
    fn add_litellm(&mut self, text: &str, origin: &str) -> Result<Vec<String>> {
        let mut at: BTreeMap<String, usize> =
            self.models.iter().enumerate().map(|(at, model)| (model.id.to_lowercase(), at)).collect();
        let mut seen = BTreeSet::new();
        for listed in litellm::read(text, origin)? {
            let plain = normalise_id(&listed.name);
            let known = at.get(&plain).copied().or_else(|| self.position(&plain));
            let (id, like) = match listed.vendor {
                Some(vendor) => (plain.clone(), self.vendors.iter().find(|v| v.vendor == vendor)),
                None => (listed.name.to_lowercase(), known.map(|at| &self.models[at])),
            };
            let own = at.get(&id).copied().or(known.filter(|_| listed.vendor.is_some()));
            let id = own.map_or(id, |at| self.models[at].id.clone());
            if !seen.insert(id.clone()) && listed.name != plain {
                continue;
            }
            let index = match own {
                Some(index) => index,
                None => {
                    let mut model = like.map_or_else(|| named(&blank(), &id), |like| named(like, &id));
                    model.vendor = listed.vendor.map_or_else(|| listed.provider.clone(), str::to_owned);
                    model.window_tokens = listed.input_limit_tokens.unwrap_or(model.window_tokens);
                    model.max_output_tokens = listed.max_output_tokens.unwrap_or(model.max_output_tokens);
                    self.models.push(model);
                    at.insert(id.to_lowercase(), self.models.len() - 1);
                    self.models.len() - 1
                }
            };
            let model = &mut self.models[index];
            let peak = model.prices.peak().cloned();
            model.prices = PriceTable::new(listed.prices).with_peak(peak);
            model.price_factors = listed.factors.or(model.price_factors);
        }
        Ok(seen.into_iter().collect())
    }

    /// A built-in model made from another one before the price table was read has what stands there, too.
    fn price_like(&mut self, id: &str, like: &str) -> Result<()> {
        let base = self.get(like)?;
        let (prices, window_tokens, max_output_tokens) =
            (base.prices.clone(), base.window_tokens, base.max_output_tokens);
        let Some(model) = self.position(id).map(|at| &mut self.models[at]) else { return Ok(()) };
        if model.prices.rows().is_empty() {
            model.prices = prices;
        }
        if model.window_tokens == 0 {
            model.window_tokens = window_tokens;
        }
        if model.max_output_tokens == 0 {
            model.max_output_tokens = max_output_tokens;
        }
        Ok(())
    }

    /// Adds the models of a TOML text, or changes fields of known ones; returns their ids.
    ///
    /// # Errors
    ///
    /// Names `origin`, line and field.
    pub fn add_toml(&mut self, text: &str, origin: &str) -> Result<Vec<String>> {
        self.add_file(&parse(text, origin)?, origin)
    }

    fn add_file(&mut self, file: &ModelFile, origin: &str) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for raw in &file.model {
            let id = normalise_id(&raw.id);
            let mut model = match (&raw.like, self.position(&id)) {
                (Some(like), _) => self.get(like)?.clone(),
                (None, Some(at)) => self.models[at].clone(),
                (None, None) => blank(),
            };
            if model.id != id {
                model.id = id.clone();
                model.aliases = Vec::new();
                model.seed = seed(&id);
            }
            for layer in [&file.defaults, &raw.fields] {
                layer.apply(&mut model, &format!("{origin}, model `{}`", raw.id))?;
            }
            match self.position(&id) {
                Some(at) => self.models[at] = model,
                None => self.models.push(model),
            }
            ids.push(id);
        }
        Ok(ids)
    }

    /// The model of an id or alias.
    ///
    /// # Errors
    ///
    /// Unknown ids, with the nearest known one.
    pub fn get(&self, id: &str) -> Result<&ModelSpec> {
        match self.position(id).or_else(|| self.position(&normalise_id(id))) {
            Some(at) => Ok(&self.models[at]),
            None => Err(Error::unknown("model", id, self.models.iter().map(|m| m.id.as_str()))),
        }
    }

    /// The model a user asked to simulate.
    ///
    /// # Errors
    ///
    /// Unknown ids, and models whose cache is not simulated.
    pub fn get_simulated(&self, id: &str) -> Result<&ModelSpec> {
        let model = self.get(id)?;
        if model.is_simulated() {
            return Ok(model);
        }
        Err(Error::Config {
            origin: format!("model `{id}`"),
            reason: format!(
                "its price is known but its cache is not simulated; use a Claude model such as {SUBSTITUTE}"
            ),
        })
    }

    /// The model of a recording: itself where it can be simulated, else the substitute.
    ///
    /// # Errors
    ///
    /// Only if a user's file made the substitute unusable.
    pub fn resolve(&self, id: &str) -> Result<Resolved<'_>> {
        match self.get_simulated(id) {
            Ok(model) => Ok(Resolved { model, substituted: false }),
            Err(_) => Ok(Resolved { model: self.get_simulated(SUBSTITUTE)?, substituted: true }),
        }
    }

    /// With the prices of a day, bought in some way; a model of which that price is not known keeps what it has.
    #[must_use]
    pub fn priced(&self, date: Option<Date>, service: &Service) -> Models {
        let models = self.models.iter().map(|m| m.priced(date, service).unwrap_or_else(|_| m.clone()));
        Models { models: models.collect(), vendors: self.vendors.clone() }
    }

    /// Bought in some way; a model of which that price is not known has none.
    ///
    /// # Errors
    ///
    /// A way in which nothing is sold.
    pub fn bought(&self, service: &Service) -> Result<Models> {
        service.check().map_err(|reason| Error::Config { origin: "the price".to_owned(), reason })?;
        let unpriced = |m: &ModelSpec| ModelSpec { prices: PriceTable::default(), ..m.clone() };
        let models = self.models.iter().map(|m| m.priced(None, service).unwrap_or_else(|_| unpriced(m)));
        Ok(Models { models: models.collect(), vendors: self.vendors.clone() })
    }

    /// What is wrong with the prices of a model, in sentences.
    pub fn lint(&self) -> Vec<String> {
        let lint = |model: &ModelSpec| -> Vec<String> {
            let multiples = match model.vendor.as_str() {
                "anthropic" => Multiples::anthropic(model.read_multiple_millionths),
                _ => Multiples { read: model.read_multiple_millionths, ..Multiples::default() },
            };
            let rows = model.prices.rows().iter().flat_map(|price| price_file::lint(price, &multiples));
            rows.map(|found| format!("{}: {found}", model.id)).collect()
        };
        self.models.iter().flat_map(lint).collect()
    }

    /// All models, in order.
    pub fn iter(&self) -> impl Iterator<Item = &ModelSpec> {
        self.models.iter()
    }

    fn position(&self, id: &str) -> Option<usize> {
        let by_id = self.models.iter().position(|m| m.id.eq_ignore_ascii_case(id));
        by_id.or_else(|| self.models.iter().position(|m| m.aliases.iter().any(|a| a == id)))
    }
}

fn seed(id: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(id.as_bytes())
}

fn parse<'de, T: Deserialize<'de>>(text: &'de str, origin: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() as u64 + 1);
        Error::Input { path: origin.into(), line, reason: e.message().to_owned() }
    })
}

fn blank() -> ModelSpec {
    ModelSpec {
        id: String::new(),
        aliases: Vec::new(),
        vendor: String::new(),
        tokenizer: Tokenizer::ClaudeNewer,
        window_tokens: 0,
        max_output_tokens: 0,
        adaptive_thinking: false,
        server_editing: false,
        server_compaction: false,
        cache: None,
        thinking: ThinkingRetention::KeepAll,
        binding: Binding::None,
        binding_parts: Parts::ALL,
        replay: Replay::Free,
        reads: vec!["*".into()],
        reads_not: Vec::new(),
        overflow: OverflowStyle::Anthropic,
        prices: PriceTable::default(),
        price_factors: Factors::default(),
        read_multiple_millionths: None,
        storage_pusd_per_token_hour: None,
        sources: Vec::new(),
        seed: 0,
    }
}

/// A model like another, with an id of its own.
fn named(like: &ModelSpec, id: &str) -> ModelSpec {
    ModelSpec { id: id.to_owned(), aliases: Vec::new(), seed: seed(id), ..like.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::cache_spec::{Breakpoints, CacheKind, Refresh};
    use super::*;

    #[test]
    fn the_embedded_files_are_whole() {
        let models = Models::builtin().unwrap();
        for model in models.iter() {
            assert!(model.is_simulated(), "{}", model.id);
            assert!(!model.sources.is_empty(), "{}", model.id);
        }
        for model in models.iter().filter(|m| m.vendor == "anthropic") {
            assert!(model.window_tokens >= 200_000 && model.max_output_tokens > 0, "{}", model.id);
        }
        let recorded = models.get("gpt-5.4-recorded").unwrap();
        assert_eq!(recorded.price(None), models.get("gpt-5.4").unwrap().price(None));
        assert!(recorded.window_tokens > 200_000, "{}", recorded.window_tokens);
        let of_table = models.iter().filter(|m| !m.id.ends_with("-recorded"));
        let rows: usize = of_table.map(|m| m.prices.rows().len()).sum();
        assert_eq!(
            rows,
            price_file::BUILTIN_CSV.lines().count() - 1,
            "a row of the table belongs to no model"
        );
    }

    #[test]
    fn ids_resolve_or_name_the_nearest() {
        let models = Models::builtin().unwrap();
        assert_eq!(models.get("anthropic/claude-3-5-haiku-20241022").unwrap().id, "claude-haiku-3-5");
        let slip = models.get("claude-fabel-5-2").unwrap_err().to_string();
        assert!(slip.contains("did you mean `claude-fable-5-2`"), "{slip}");
        let stand_in = models.resolve("some-model-of-2031").unwrap();
        assert!(stand_in.substituted && stand_in.model.id == SUBSTITUTE);
        assert!(!models.resolve("gpt-5.4").unwrap().substituted);
        assert!(!models.resolve("claude-sonnet-4-6[1m]").unwrap().substituted);
        assert!(models.get_simulated("openai/gpt-5.4").is_ok());
    }

    #[test]
    fn readers_follow_the_published_matrix() {
        let models = Models::builtin().unwrap();
        let reads = |reader: &str, producer: &str| {
            models.get(reader).unwrap().can_read(models.get(producer).unwrap())
        };
        assert!(reads("claude-opus-5-5", "claude-opus-5") && !reads("claude-opus-5", "claude-opus-5-5"));
        assert!(!reads("claude-opus-5-5", "claude-fable-5") && reads("claude-fable-5-1", "claude-opus-5-5"));
        assert!(
            !reads("claude-sonnet-5-5", "claude-opus-5") && reads("claude-sonnet-5-5", "claude-opus-4-8")
        );
        assert!(
            reads("claude-haiku-5-5", "claude-haiku-5-5") && !reads("claude-haiku-5-5", "claude-haiku-4-5")
        );
        assert!(
            !reads("claude-fable-5-1", "claude-fable-5-2") && reads("claude-mythos-5-2", "claude-fable-5-2")
        );
    }

    #[test]
    fn a_users_file_adds_and_overrides() {
        let mut models = Models::builtin().unwrap();
        let text = "[[model]]\nid = \"mine\"\nlike = \"claude-opus-5\"\ncache.minimum_tokens = 64\n\
                    price = { input = 0.1, output = 2, cache_read = 0.01 }\n\
                    [[model]]\nid = \"claude-opus-5-5\"\ncache.refresh = \"matched_only\"\n";
        assert_eq!(models.add_toml(text, "my.toml").unwrap(), ["mine", "claude-opus-5-5"]);
        let mine = models.get("mine").unwrap();
        assert_eq!(mine.cache.unwrap().minimum_tokens, 64);
        assert_eq!(mine.price(None).unwrap().rates.write_short, 100_000);
        assert_ne!(mine.seed, models.get("claude-opus-5").unwrap().seed);
        let changed = models.get("claude-opus-5-5").unwrap();
        let CacheKind::Breakpoints(Breakpoints { refresh, .. }) = changed.cache.unwrap().kind else {
            panic!()
        };
        assert_eq!(refresh, Refresh::MatchedOnly);
        assert_eq!(changed.price(None).unwrap().rates.read, 200_000, "the built-in price stays");
    }

    #[test]
    fn a_wrong_file_is_named_with_its_line() {
        let mut models = Models::builtin().unwrap();
        let error =
            models.add_toml("[[model]]\nid = \"x\"\nwindow = 3\n", "my.toml").unwrap_err().to_string();
        assert!(error.contains("my.toml, line 3") && error.contains("window_tokens"), "{error}");
        let error = models.add_toml("[[model]]\nid = \"x\"\ncache.ttft_ms = 3\n", "my.toml").unwrap_err();
        assert!(error.to_string().contains("cache.minimum_tokens is missing"), "{error}");
        let error =
            models.add_toml("[[model]]\nid = \"x\"\nlike = \"claude-opus-5-6\"\n", "my.toml").unwrap_err();
        assert!(error.to_string().contains("did you mean"), "{error}");
    }
}
