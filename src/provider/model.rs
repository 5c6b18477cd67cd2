//! Models as data: what a model caches, checks, holds and costs.
//!
//! `models/<vendor>.toml` holds the rules of each vendor's models, `models/prices.csv` every price. A file
//! of the user's own adds or overrides.
//!
//! # Divergence from the real API
//!
//! * Minimum and reading list of Fable and Mythos 5.2 are not published: 512 tokens and "reads every
//!   model" are assumed. Mythos 5.1 is modelled as not running the prefix check (the sources disagree).
//! * Platform differences (Bedrock's own minimums, isolation per workspace) are not modelled.
//! * Which model reads whose thinking is the table of the Claude API.

use serde::{Deserialize, Serialize};

use super::price::{Date, Price, PriceTable};
use super::reasoning::Replay;
use super::service::{Factors, Service};
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;

pub use super::cache_spec::{
    BlockSpec, Breakpoints, CacheKind, CacheSpec, Eviction, Grid, ImageToggle, Loss, MessageEnds,
    ParametersLevel, PrefixCache, PrefixUnits, Refresh, Retention,
};
pub use super::models_file::{Models, Resolved, SUBSTITUTE};

/// What becomes of thinking when the user speaks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingRetention {
    /// It stays in the prompt.
    KeepAll,
    /// Thinking before the last user message with other content than tool results is removed before
    /// the prompt is hashed (docs/sources.md A8).
    CurrentTurn,
}

/// When thinking must stand behind the prefix it was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Not checked.
    None,
    /// Checked; a mismatch is an error on newer accounts.
    ByAccount,
    /// Checked; a mismatch is an error on every account.
    Always,
    /// Checked; what fails is removed and reported, and the request succeeds (docs/sources.md D3).
    Removes,
}

/// What the prefix check compares besides the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The system prompt.
    pub system: bool,
    /// The set of tools.
    pub tools: bool,
    /// The thinking block before.
    pub order: bool,
}

impl Parts {
    /// All of them.
    pub const ALL: Parts = Parts { system: true, tools: true, order: true };
}

/// How a vendor words "the prompt does not fit", and what it counts (docs/sources.md I, C6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverflowStyle {
    /// Input alone against the window.
    Anthropic,
    /// Input alone, and input plus `max_tokens`, against the window.
    #[serde(rename = "anthropic_before_4_5")]
    AnthropicBefore45,
    /// Input alone, without numbers (Responses API).
    Openai,
    /// The older chat API, with numbers.
    OpenaiChat,
    /// Input and limit, as a status of Google's APIs.
    Gemini,
    /// Input plus output, in tokens of each.
    Deepseek,
    /// Input and limit, the limit first.
    Xai,
    /// Limit and input, in a sentence of Moonshot's own.
    Kimi,
    /// Without numbers, under code 1261.
    Zai,
    /// The limit alone.
    Qwen,
    /// Input plus output.
    QwenPassed,
    /// Without numbers, as invalid parameters.
    Minimax,
    /// Input and limit.
    Mistral,
    /// Without numbers, as a validation exception of Amazon's.
    Bedrock,
    /// Input plus output; the input is a lower bound.
    Vllm,
    /// An estimate.
    Openrouter,
    /// Input and limit, both in parentheses.
    Together,
    /// The same in SGLang's words.
    Sglang,
    /// Input and limit, in GitHub Copilot's words.
    Copilot,
    /// The deficit itself.
    Ollama,
    /// Without numbers: the server advises a larger context.
    LlamaCpp,
    /// Without numbers, about what the server would have to keep.
    LmStudio,
    /// Without numbers: what to shorten is all that is said.
    Groq,
    /// A status without a body.
    Cerebras,
    /// No error: the oldest messages are left out, and the rest is served (Xiaomi MiMo, Ollama).
    Truncates,
}

/// Where a fact was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Which fact.
    pub what: String,
    /// Page, package or file.
    pub url: String,
    /// When it was read.
    pub date: String,
}

/// One model.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Normalised id.
    pub id: String,
    /// Other ids it goes by, normalised.
    pub aliases: Vec<String>,
    /// Who serves it.
    pub vendor: String,
    /// Tokenizer generation.
    pub tokenizer: Tokenizer,
    /// Context window: the largest prompt.
    pub window_tokens: u64,
    /// Largest output.
    pub max_output_tokens: u64,
    /// Whether its thinking is adaptive.
    pub adaptive_thinking: bool,
    /// Whether the provider can clear tool results on its side.
    pub server_editing: bool,
    /// Whether the provider can compact on its side.
    pub server_compaction: bool,
    /// Its cache; `None` where it is not simulated.
    pub cache: Option<CacheSpec>,
    /// What becomes of earlier thinking.
    pub thinking: ThinkingRetention,
    /// The prefix check.
    pub binding: Binding,
    /// What it compares.
    pub binding_parts: Parts,
    /// What must come back with calls.
    pub replay: Replay,
    /// Ids of the models whose thinking it reads; `*` at the end stands for anything.
    pub reads: Vec<String>,
    /// Exceptions from `reads`.
    pub reads_not: Vec<String>,
    /// Wording and rule of overflow.
    pub overflow: OverflowStyle,
    /// Prices; empty where none is known.
    pub prices: PriceTable,
    /// What batches and regions do to them.
    pub price_factors: Factors,
    /// What its vendor says a read costs, in millionths of the input price.
    pub read_multiple_millionths: Option<u64>,
    /// Rent of an explicit cache, where the vendor has such a price: pico-dollars per token and hour. No strategy rents
    /// one, so it is in no cost.
    pub storage_pusd_per_token_hour: Option<u64>,
    /// Where all this was read.
    pub sources: Vec<Source>,
    /// Hash of the id: where every prefix chain of this model starts.
    pub(crate) seed: u64,
}

impl ModelSpec {
    /// Whether this model can use the thinking of `producer`. Every model reads its own.
    pub fn can_read(&self, producer: &ModelSpec) -> bool {
        let listed = |patterns: &[String]| patterns.iter().any(|p| matches(p, &producer.id));
        self.id == producer.id || (listed(&self.reads) && !listed(&self.reads_not))
    }

    /// Whether runs on this model can be simulated.
    pub fn is_simulated(&self) -> bool {
        self.cache.is_some()
    }

    /// This model with the prices of a day, bought in some way.
    ///
    /// # Errors
    ///
    /// A price that is not known.
    pub fn priced(&self, date: Option<Date>, service: &Service) -> Result<ModelSpec> {
        let wrong = |reason: String| Error::Config { origin: format!("model `{}`", self.id), reason };
        let mut model = self.clone();
        if let Some(date) = date {
            let no_price = || wrong(format!("no price is known for {date}; give one with --models-file"));
            model.prices = self.prices.on(date).ok_or_else(no_price)?;
        }
        model.prices = service.price(&model.prices, &self.price_factors).map_err(wrong)?;
        Ok(model)
    }

    /// Whether nothing is cached but what the client marks.
    pub fn needs_markers(&self) -> bool {
        self.cache.is_none_or(|cache| cache.kind.needs_markers())
    }

    /// The price on `date` (without one: the first of the table).
    pub fn price(&self, date: Option<Date>) -> Option<&Price> {
        self.prices.at(date)
    }
}

fn matches(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => id.starts_with(start),
        None => pattern == id,
    }
}

/// The id without what does not change the model: provider prefix, `[1m]`, `-YYYYMMDD`, `@…`, `-latest`
/// (docs/decisions.md 13), and Bedrock's `-v1:0`. Claude ids with dots become ids with hyphens.
pub fn normalise_id(id: &str) -> String {
    let mut id = id.trim().rsplit('/').next().unwrap_or_default().to_lowercase();
    if let Some(at) = id.find("anthropic.") {
        id.drain(..at + "anthropic.".len());
    }
    for mark in ["@", "["] {
        if let Some(at) = id.find(mark) {
            id.truncate(at);
        }
    }
    if let Some(at) = id.rfind("-v")
        && !id[at + 2..].is_empty()
        && id[at + 2..].bytes().all(|b| b.is_ascii_digit() || b == b':')
        && id.starts_with("claude")
    {
        id.truncate(at);
    }
    if let Some(stem) = id.strip_suffix("-latest") {
        id = stem.to_owned();
    }
    if let Some((stem, date)) = id.rsplit_once('-')
        && date.len() == 8
        && date.bytes().all(|b| b.is_ascii_digit())
    {
        id = stem.to_owned();
    }
    if id.starts_with("claude") { id.replace('.', "-") } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lose_what_does_not_change_the_model() {
        for (raw, id) in [
            ("claude-opus-4-5-20251101", "claude-opus-4-5"),
            ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
            ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
            ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
            ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
            ("openai/gpt-5.4", "gpt-5.4"),
            ("deepseek-v4-pro", "deepseek-v4-pro"),
            ("Claude-Opus-5-5", "claude-opus-5-5"),
        ] {
            assert_eq!(normalise_id(raw), id, "{raw}");
        }
    }
}
