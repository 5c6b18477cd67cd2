//! Mechanisms of the provider: prices, break-even, server-side edits, overflow texts.

use std::sync::LazyLock;

use ctxsim::provider::price::{Price, TierName};
use ctxsim::provider::server_side::{self, ClearToolUses, Compact, ToolResultSize};
use ctxsim::provider::{ModelSpec, Models, Ttl, break_even, overflow};
use ctxsim::usage::Usage;
use serde_json::{Map, Value, json};

use super::{Case, Run, grammar, requests};

pub const MECHANISMS: &[(&str, Run)] = &[
    ("requests", requests::run),
    ("implicit_cache", requests::implicit_cache),
    ("block_cache", requests::block_cache),
    ("defaults", defaults),
    ("price", price),
    ("break_even.turns", break_even_turns),
    ("break_even.requests", break_even_requests),
    ("count_tokens", count_tokens),
    ("server_clear", server_clear),
    ("server_compaction", server_compaction),
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

fn count_tokens(case: &Case<'_>) -> Option<Value> {
    let field = |name| number(case.input, name).unwrap();
    let tokens = server_side::count_tokens(field("original_input_tokens"), field("cleared_input_tokens"));
    Some(json!({ "input_tokens": tokens }))
}

fn server_clear(case: &Case<'_>) -> Option<Value> {
    let field = |name| number(case.input, name);
    let mut edit = ClearToolUses::default();
    edit.trigger_input_tokens = field("trigger_input_tokens").unwrap_or(edit.trigger_input_tokens);
    edit.keep_tool_uses = field("keep_tool_uses").unwrap_or(edit.keep_tool_uses);
    edit.clear_at_least = field("clear_at_least");
    let sizes: Vec<ToolResultSize> = case.input["tool_result_tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tokens| ToolResultSize { tokens: tokens.as_u64().unwrap(), excluded: false })
        .collect();
    let placeholder_tokens = field("placeholder_tokens").unwrap_or(server_side::PLACEHOLDER_TOKENS);
    let cleared = edit.plan(field("input_tokens").unwrap(), &sizes, placeholder_tokens);
    Some(json!({
        "fires": cleared.fires,
        "cleared_tool_uses": cleared.results.len(),
        "cleared_input_tokens": cleared.cleared_input_tokens,
    }))
}

fn server_compaction(case: &Case<'_>) -> Option<Value> {
    let pass = Usage {
        uncached_tokens: number(case.input, "prompt_tokens").unwrap(),
        output_tokens: number(case.input, "summary_tokens").unwrap(),
        ..Usage::default()
    };
    let message = case.input.get("message").map(|m| Usage {
        uncached_tokens: m["input"].as_u64().unwrap(),
        output_tokens: m["output"].as_u64().unwrap(),
        ..Usage::default()
    });
    let sum = server_side::compaction_usage(&pass, message.as_ref());
    Some(json!({
        "input": sum.top_level.uncached_tokens,
        "output": sum.top_level.output_tokens,
        "billed_input": sum.billed.uncached_tokens,
        "billed_output": sum.billed.output_tokens,
        "stop_reason": sum.stop_reason,
    }))
}

fn defaults(case: &Case<'_>) -> Option<Value> {
    match (case.system, case.input["of"].as_str()?) {
        ("anthropic-api", "clear_tool_uses_20250919") => {
            let edit = ClearToolUses::default();
            Some(json!({
                "trigger_input_tokens": edit.trigger_input_tokens,
                "keep_tool_uses": edit.keep_tool_uses,
                "clear_at_least": edit.clear_at_least,
                "exclude_tools": edit.exclude_tools,
                "clear_tool_inputs": edit.clear_tool_inputs,
                "beta": ClearToolUses::BETA,
            }))
        }
        ("anthropic-api", "compact_20260112") => {
            let edit = Compact::default();
            Some(json!({
                "trigger_input_tokens": edit.trigger_input_tokens,
                "min_trigger_input_tokens": edit.min_trigger_input_tokens,
                "pause_after_compaction": edit.pause_after_compaction,
                "instructions": edit.instructions,
                "beta": Compact::BETA,
                "top_level_usage_excludes_it": edit.top_level_usage_excludes_it,
                "summarizer_is_request_model": edit.summarizer_is_request_model,
            }))
        }
        _ => None,
    }
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
