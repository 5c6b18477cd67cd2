//! Anthropic Messages.

use serde_json::Value;

use crate::ingest::exchange::{By, Exchange};
use crate::ingest::value::{self, Counts, chars, flag, items, text};
use crate::transcript::Content;
use crate::usage::Usage;

/// Takes over what was sent.
pub fn request(exchange: &mut Exchange, body: &Value) {
    exchange.instruct(body.get("system").unwrap_or(&Value::Null));
    exchange.tools = super::tools(body);
    for message in items(body, "messages") {
        let content = message.get("content").unwrap_or(&Value::Null);
        if text(message, "role") == "assistant" {
            exchange.send(By::Model, answer(content));
        } else {
            exchange.send(By::User, of_user(content));
        }
    }
}

/// Content of a message of the user's role.
fn of_user(content: &Value) -> Vec<Content> {
    let Value::Array(blocks) = content else { return value::user_content(content) };
    let block = |block: &Value| match text(block, "type") {
        "tool_result" => Content::ToolResult {
            call_id: text(block, "tool_use_id").to_owned(),
            parts: value::result_parts(block.get("content").unwrap_or(&Value::Null)),
            is_error: flag(block, "is_error"),
        },
        _ => value::user_block(block),
    };
    blocks.iter().map(block).collect()
}

/// Content of a message of the model.
pub fn answer(content: &Value) -> Vec<Content> {
    let Value::Array(blocks) = content else { return value::user_content(content) };
    let block = |block: &Value| match text(block, "type") {
        "thinking" => Content::Thinking {
            text: text(block, "thinking").to_owned(),
            signature_chars: chars(text(block, "signature")),
            redacted: false,
        },
        "redacted_thinking" => Content::Thinking {
            text: String::new(),
            signature_chars: chars(text(block, "data")),
            redacted: true,
        },
        "tool_use" => Content::ToolUse {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            input: block.get("input").map_or_else(|| "{}".to_owned(), Value::to_string),
        },
        // Calls that the provider runs, and their results.
        _ => value::user_block(block),
    };
    blocks.iter().map(block).collect()
}

/// Usage: input counts exclude what was read from the cache or written to it.
pub fn usage(usage: &Value, counts: &mut Counts) -> Usage {
    let split = usage.get("cache_creation").unwrap_or(&Value::Null);
    let written_1h = counts.field(split, "ephemeral_1h_input_tokens");
    let written_5m = counts.field(split, "ephemeral_5m_input_tokens");
    let written = counts.field(usage, "cache_creation_input_tokens").max(written_5m + written_1h);
    Usage {
        uncached_tokens: counts.field(usage, "input_tokens"),
        cache_read_tokens: counts.field(usage, "cache_read_input_tokens"),
        cache_write_5m_tokens: counts.without(written, written_1h),
        cache_write_1h_tokens: written_1h,
        output_tokens: counts.field(usage, "output_tokens"),
    }
}
