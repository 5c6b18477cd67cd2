//! `OpenAI` Responses.

use serde_json::Value;

use crate::ingest::codex;
use crate::ingest::exchange::{By, Exchange};
use crate::ingest::value::{self, Counts, items, text};
use crate::transcript::Content;
use crate::usage::Usage;

/// Takes over what was sent.
pub fn request(exchange: &mut Exchange, body: &Value) {
    exchange.instruct(body.get("instructions").unwrap_or(&Value::Null));
    exchange.tools = super::tools(body);
    let previous = text(body, "previous_response_id");
    exchange.previous_id = Some(previous.to_owned()).filter(|id| !id.is_empty());
    match body.get("input") {
        Some(Value::Array(sent)) => sent.iter().for_each(|item| input(exchange, item)),
        Some(sent) => exchange.send(By::User, value::user_content(sent)),
        None => {}
    }
}

fn input(exchange: &mut Exchange, item: &Value) {
    let content = item.get("content").unwrap_or(&Value::Null);
    let kind = text(item, "type");
    match text(item, "role") {
        "system" | "developer" => exchange.instruct(content),
        "user" => exchange.send(By::User, value::user_content(content)),
        "assistant" => exchange.send(By::Model, value::user_content(content)),
        _ if kind.ends_with("_output") => {
            let result = codex::result(text(item, "call_id").to_owned(), item);
            exchange.send(By::User, vec![result]);
        }
        _ => exchange.send(By::Model, codex::output_of(item)),
    }
}

/// Content of an answer.
pub fn answer(response: &Value) -> Vec<Content> {
    items(response, "output").iter().flat_map(codex::output_of).collect()
}

/// Usage: input counts include what was read from the cache or written to it, output counts the reasoning.
pub fn usage(usage: &Value, counts: &mut Counts) -> Usage {
    let details = usage.get("input_tokens_details").unwrap_or(&Value::Null);
    let read = counts.field(details, "cached_tokens");
    let written = counts.field(details, "cache_write_tokens");
    let input = counts.field(usage, "input_tokens");
    Usage {
        uncached_tokens: counts.without(input, read + written),
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: counts.field(usage, "output_tokens"),
    }
}
