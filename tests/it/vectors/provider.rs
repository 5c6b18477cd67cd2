//! Mechanisms of the provider: prices, break-even, overflow texts.

use std::sync::LazyLock;

use ctxsim::provider::price::{Price, TierName};
use ctxsim::provider::{ModelSpec, Models, Ttl, break_even, overflow};
use ctxsim::usage::Usage;
use serde_json::{Map, Value, json};

use super::{Case, Run, grammar, requests};

pub const MECHANISMS: &[(&str, Run)] = &[
    ("requests", requests::run),
    ("price", price),
    ("break_even.turns", break_even_turns),
    ("break_even.requests", break_even_requests),
    ("overflow.parse", overflow_parse),
    ("overflow.render", overflow_render),
    ("overflow.classify", overflow_classify),
];

/// The models in the binary.
pub fn models() -> &'static Models {
    static MODELS: LazyLock<Models> = LazyLock::new(|| Models::builtin().unwrap());
    &MODELS
}

fn model(case: &Case<'_>) -> &'static ModelSpec {
    let id = case.input.get("model").and_then(Value::as_str).unwrap_or(case.preset);
    models().get(id).unwrap()
}

fn price_of(case: &Case<'_>) -> &'static Price {
    model(case).price(None).unwrap()
}

fn number(input: &Map<String, Value>, field: &str) -> Option<u64> {
    input.get(field).and_then(Value::as_u64)
}

fn usage(value: &Value) -> Usage {
    let field = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        uncached_tokens: field("uncached"),
        cache_read_tokens: field("cache_read"),
        cache_write_5m_tokens: field("cache_write_5m"),
        cache_write_1h_tokens: field("cache_write_1h"),
        output_tokens: field("output"),
    }
}

fn price(case: &Case<'_>) -> Option<Value> {
    let cost = price_of(case).cost(&usage(&case.input["usage"]));
    let tier = if cost.tier == TierName::Long { "long" } else { "base" };
    Some(json!({ "cost_pusd": cost.total() as u64, "tier": tier }))
}

fn break_even_turns(case: &Case<'_>) -> Option<Value> {
    let saved_tokens = number(case.input, "saved_tokens").unwrap();
    let even = break_even::of_edit(
        price_of(case),
        &usage(&case.input["edit"]),
        &usage(&case.input["keep"]),
        saved_tokens,
    );
    Some(json!({ "extra_cost_pusd": even.extra_cost_pusd as i64, "turns": even.turns }))
}

fn break_even_requests(case: &Case<'_>) -> Option<Value> {
    let ttl: Ttl = serde_json::from_value(case.input["ttl"].clone()).unwrap();
    Some(json!({ "requests": break_even::of_caching(price_of(case), ttl) }))
}

fn overflow_parse(case: &Case<'_>) -> Option<Value> {
    let numbers = overflow::parse(&grammar::text(&case.input["text"]));
    Some(json!({ "used": numbers.used, "limit": numbers.limit, "deficit": numbers.deficit }))
}

fn overflow_classify(case: &Case<'_>) -> Option<Value> {
    Some(json!({ "overflow": overflow::is_overflow(&grammar::text(&case.input["text"])) }))
}

fn overflow_render(case: &Case<'_>) -> Option<Value> {
    let field = |name| number(case.input, name);
    let text = overflow::render(
        model(case),
        field("input_tokens").unwrap(),
        field("max_output_tokens").unwrap_or(0),
        field("limit").unwrap(),
    );
    Some(json!({ "text": text, "exact": true }))
}
