//! Answers that were streamed, put together to what the same endpoint answers without streaming.
//!
//! # Divergence from the real API
//!
//! Only what a transcript keeps is put together: blocks, calls, ids, the stop reason and usage.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::value::{items, text};
use crate::ingest::json_lines::repair;

/// The answer that the events of `stream` add up to; `None` if there is none among them.
pub fn answer(stream: &str) -> Option<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Value> = data.filter_map(|data| parse(data.trim())).collect();
    let of_type = |prefix: &str| events.iter().any(|event| text(event, "type").starts_with(prefix));
    if of_type("message_start") {
        Some(messages(&events))
    } else if of_type("response.") {
        Some(responses(&events))
    } else if events.iter().any(|event| event.get("choices").is_some()) {
        Some(chat(&events))
    } else {
        None
    }
}

/// A document, mended if need be: a count that is none must be seen, and not lose its answer.
pub fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&repair(text))).ok()
}

/// Anthropic Messages.
fn messages(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    let mut arguments: BTreeMap<u64, String> = BTreeMap::new();
    for event in events {
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        let delta = event.get("delta").unwrap_or(&Value::Null);
        match text(event, "type") {
            "message_start" => message = event.get("message").cloned().unwrap_or_default(),
            "content_block_start" => {
                blocks.insert(index, event.get("content_block").cloned().unwrap_or_default());
            }
            "content_block_delta" => {
                arguments.entry(index).or_default().push_str(text(delta, "partial_json"));
                let block = blocks.entry(index).or_default();
                for name in ["text", "thinking", "signature"] {
                    append(block, name, text(delta, name));
                }
            }
            "message_delta" => {
                put(&mut message, "stop_reason", delta.get("stop_reason"));
                let usage = event.get("usage").and_then(Value::as_object);
                for (name, count) in usage.into_iter().flatten().filter(|(_, count)| !count.is_null()) {
                    let sums = as_object(&mut message).entry("usage").or_insert_with(|| json!({}));
                    put(sums, name, Some(count));
                }
            }
            _ => {}
        }
    }
    for (index, text) in arguments.into_iter().filter(|(_, text)| !text.is_empty()) {
        let input = serde_json::from_str(&text).unwrap_or(Value::String(text));
        put(blocks.entry(index).or_default(), "input", Some(&input));
    }
    let content = Value::Array(blocks.into_values().collect());
    put(&mut message, "content", Some(&content));
    message
}

/// `OpenAI` Responses: the last event has the whole answer; of a stream that was cut off, the items that were
/// done.
fn responses(events: &[Value]) -> Value {
    let whole = events.iter().rev().find_map(|event| event.get("response"));
    let mut response = whole.cloned().unwrap_or_default();
    if items(&response, "output").is_empty() {
        let done = events.iter().filter(|event| text(event, "type") == "response.output_item.done");
        let output: Vec<Value> = done.filter_map(|event| event.get("item").cloned()).collect();
        put(&mut response, "output", Some(&Value::Array(output)));
    }
    response
}

/// `OpenAI` Chat Completions.
fn chat(events: &[Value]) -> Value {
    let mut answer = json!({});
    let mut message = json!({"role": "assistant"});
    let mut calls: BTreeMap<u64, Value> = BTreeMap::new();
    let mut finish = Value::Null;
    for event in events {
        for name in ["id", "model", "created", "usage"] {
            put(&mut answer, name, event.get(name).filter(|field| !field.is_null()));
        }
        let Some(choice) = items(event, "choices").first() else { continue };
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        for name in ["content", "reasoning", "reasoning_content"] {
            append(&mut message, name, text(delta, name));
        }
        for (place, part) in (0..).zip(items(delta, "tool_calls")) {
            let index = part.get("index").and_then(Value::as_u64).unwrap_or(place);
            let call = calls.entry(index).or_insert_with(|| json!({"type": "function", "function": {}}));
            put(call, "id", part.get("id").filter(|id| id.is_string()));
            if let (Some(function), Some(part)) = (call.get_mut("function"), part.get("function")) {
                append(function, "name", text(part, "name"));
                append(function, "arguments", text(part, "arguments"));
            }
        }
        if let Some(reason) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
            finish = reason.clone();
        }
    }
    if !calls.is_empty() {
        put(&mut message, "tool_calls", Some(&Value::Array(calls.into_values().collect())));
    }
    put(&mut answer, "choices", Some(&json!([{"message": message, "finish_reason": finish}])));
    answer
}

/// `value` as an object, which it becomes if it is none.
fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one above, so it always is")
}

fn put(value: &mut Value, name: &str, field: Option<&Value>) {
    if let Some(field) = field {
        as_object(value).insert(name.to_owned(), field.clone());
    }
}

fn append(value: &mut Value, name: &str, more: &str) {
    if !more.is_empty() {
        let field = as_object(value).entry(name).or_insert_with(|| Value::String(String::new()));
        match field {
            Value::String(text) => text.push_str(more),
            other => *other = Value::String(more.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::answer;

    fn stream(events: &[Value]) -> Option<Value> {
        let text: Vec<String> = events.iter().map(|e| format!("event: x\ndata: {e}\n\n")).collect();
        answer(&text.concat())
    }

    #[test]
    fn deltas_of_messages_add_up() {
        let found = stream(&[
            json!({"type": "message_start", "message": {"id": "m", "model": "c", "content": [],
                "usage": {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "abc"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9, "input_tokens": null}}),
        ]);
        let expected = json!({
            "id": "m", "model": "c", "stop_reason": "tool_use",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "abc"},
                {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}},
            ],
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 9},
        });
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn chunks_of_chat_add_up() {
        let delta = |delta: Value| json!({"id": "g", "choices": [{"delta": delta, "finish_reason": null}]});
        let found = stream(&[
            delta(json!({"content": "a"})),
            delta(
                json!({"content": "b", "tool_calls": [{"index": 0, "id": "t", "function": {"name": "n", "arguments": ""}}]}),
            ),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})),
            json!({"id": "g", "model": "m", "choices": [], "usage": {"prompt_tokens": 4}}),
        ]);
        let calls = json!([{"type": "function", "function": {"name": "n", "arguments": "{}"}, "id": "t"}]);
        let message = json!({"role": "assistant", "content": "ab", "tool_calls": calls});
        let expected = json!({"id": "g", "model": "m", "usage": {"prompt_tokens": 4},
            "choices": [{"message": message, "finish_reason": null}]});
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn responses_are_in_the_last_event_or_in_the_items_that_were_done() {
        let done = json!({"type": "response.output_item.done", "item": {"type": "message"}});
        let created = json!({"type": "response.created", "response": {"id": "r", "output": []}});
        let whole =
            json!({"type": "response.completed", "response": {"id": "r", "output": [{"type": "reasoning"}]}});
        assert_eq!(
            stream(&[created.clone(), done.clone(), whole]),
            Some(json!({"id": "r", "output": [{"type": "reasoning"}]}))
        );
        assert_eq!(stream(&[created, done]), Some(json!({"id": "r", "output": [{"type": "message"}]})));
        assert_eq!(answer("data: [DONE]\n"), None);
        assert_eq!(answer(""), None);
    }
}
