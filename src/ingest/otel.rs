//! OpenTelemetry: spans of requests to models, as OTLP JSON, a document or one a line (spec/formats.md
//! section 8).
//!
//! A span with a count of prompt tokens that is no sum over an agent's run is a request. Three conventions of
//! naming are known: OpenTelemetry's own (`gen_ai.*`, messages as JSON texts or as values), OpenInference
//! (`llm.*`, messages spread over numbered attributes) and OpenLLMetry (`gen_ai.prompt.N.*`). Each span
//! holds all that was sent, and sessions are found by that (`exchange`), within a conversation
//! where the spans name one.
//!
//! The prompt count includes what was read from the cache or written to it, unless it is smaller than that.
//!
//! # Divergence from the real API
//!
//! Messages in span events or log records are not read; such requests are answers only. Spans that repeat an
//! id count once.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::conversation::At;
use super::document;
use super::exchange::{By, Exchange, Threads};
use super::value::{self, Counts, items, text};
use crate::transcript::{Content, Notice, ToolText, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "otel";

/// Whether the first fields of a document or of a line are those of an export.
pub fn recognise(object: &Map<String, Value>) -> bool {
    object.contains_key("resourceSpans")
}

/// Attributes of a span with a count, in the order in which they are looked for.
const PROMPT_TOKENS: &[&str] =
    &["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"];
const OUTPUT_TOKENS: &[&str] =
    &["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"];
const READ_TOKENS: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
];
const WRITTEN_TOKENS: &[&str] = &[
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
];

/// Attributes with an id or a name.
const MODEL: &[&str] = &["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"];
const CONVERSATION: &[&str] = &["gen_ai.conversation.id", "session.id"];

/// Operations that are sums over requests, or none of a model.
const NOT_REQUESTS: &[&str] =
    &["invoke_agent", "create_agent", "execute_tool", "invoke_workflow", "embeddings"];

/// Reads an export.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let resources = documents.iter().flat_map(|document| items(document, "resourceSpans"));
    let scopes = resources.flat_map(|resource| items(resource, "scopeSpans"));
    let spans = scopes.flat_map(|scope| items(scope, "spans"));
    let mut exchanges: Vec<Exchange> =
        (1..).zip(spans).filter_map(|(number, span)| request(number, span, &mut notices)).collect();
    // An export is in no order. Spans without a time stay where they are, at its end.
    exchanges.sort_by_key(|exchange| exchange.at.ms.unwrap_or(i64::MAX));
    let mut threads = Threads::default();
    exchanges.into_iter().for_each(|exchange| threads.add(exchange));
    threads.finish(NAME, notices, label)
}

/// A span as a request, if it is one.
fn request(number: u64, span: &Value, notices: &mut Vec<Notice>) -> Option<Exchange> {
    let attributes = attributes(span);
    let is_request = PROMPT_TOKENS.iter().any(|name| attributes.get(*name).is_some());
    let operation = attributes.get("gen_ai.operation.name").and_then(Value::as_str).unwrap_or("chat");
    if !is_request || NOT_REQUESTS.contains(&operation) {
        return None;
    }
    let first = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| attributes.get(*name)?.as_str());
        texts.into_iter().find(|text| !text.is_empty()).map(str::to_owned)
    };
    let at = At { line: number, ms: nanoseconds(span.get("startTimeUnixNano")) };
    let mut exchange = Exchange { at, output_is_final: true, ..Exchange::default() };
    exchange.answered_ms = nanoseconds(span.get("endTimeUnixNano"));
    exchange.id = first(&["gen_ai.response.id"]).unwrap_or_else(|| text(span, "spanId").to_owned());
    exchange.model = first(MODEL).unwrap_or_default();
    exchange.conversation = first(CONVERSATION);
    let listed = |names: &[&str]| names.iter().find_map(|name| attributes.get(*name).map(list));
    if let Some(instructions) = listed(&["gen_ai.system_instructions"]) {
        exchange.instruct(&Value::Array(instructions.iter().map(plain).collect()));
    }
    let spread = |name: &str| numbered(&attributes, name);
    let sent = listed(&["gen_ai.input.messages"])
        .unwrap_or_else(|| [spread("llm.input_messages"), spread("gen_ai.prompt")].concat());
    let received = listed(&["gen_ai.output.messages"])
        .unwrap_or_else(|| [spread("llm.output_messages"), spread("gen_ai.completion")].concat());
    sent.iter().for_each(|message| send(&mut exchange, message.get("message").unwrap_or(message)));
    let answers = received.iter().map(|message| message.get("message").unwrap_or(message));
    exchange.answer = answers.flat_map(parts).collect();
    exchange.tools = listed(&["gen_ai.tool.definitions"])
        .unwrap_or_else(|| spread("llm.tools"))
        .iter()
        .map(tool)
        .collect();
    let mut counts = Counts::default();
    let usage = usage(&attributes, &mut counts);
    exchange.bill(usage, &counts, notices);
    Some(exchange)
}

fn send(exchange: &mut Exchange, message: &Value) {
    let parts = parts(message);
    match text(message, "role") {
        "system" | "developer" => {
            let texts =
                parts.into_iter().filter_map(|p| if let Content::Text(t) = p { Some(t) } else { None });
            exchange.instruct(&texts.collect());
        }
        "assistant" | "model" => exchange.send(By::Model, parts),
        _ => exchange.send(By::User, parts),
    }
}

/// Content of a message in any of the conventions.
fn parts(message: &Value) -> Vec<Content> {
    let call_id = text(message, "tool_call_id");
    let named = items(message, "parts");
    let spread = items(message, "contents");
    let mut content: Vec<Content> = if !named.is_empty() {
        named.iter().map(part).collect()
    } else if !spread.is_empty() {
        let inner = |part: &Value| plain(part.get("message_content").unwrap_or(part));
        value::user_content(&spread.iter().map(inner).collect())
    } else {
        value::user_content(&list_or_text(message.get("content").unwrap_or(&Value::Null)))
    };
    if !call_id.is_empty() {
        let parts = content.iter().map(|c| match value::as_text(c) {
            Content::Image(image) => crate::transcript::ResultPart::Image(image),
            Content::Text(text) => crate::transcript::ResultPart::Text(text),
            _ => crate::transcript::ResultPart::Text(String::new()),
        });
        content = vec![Content::ToolResult {
            call_id: call_id.to_owned(),
            parts: parts.collect(),
            is_error: false,
        }];
    }
    content.extend(
        items(message, "tool_calls").iter().map(|call| call_of(call.get("tool_call").unwrap_or(call))),
    );
    content
}

/// A part of a message of OpenTelemetry's own convention.
fn part(part: &Value) -> Content {
    match text(part, "type") {
        "tool_call" => call_of(part),
        "tool_call_response" => Content::ToolResult {
            call_id: text(part, "id").to_owned(),
            parts: value::result_parts(
                ["response", "result"].iter().find_map(|name| part.get(*name)).unwrap_or(&Value::Null),
            ),
            is_error: false,
        },
        "reasoning" | "thinking" => {
            Content::Thinking { text: text(part, "content").to_owned(), signature_chars: 0, redacted: false }
        }
        _ => value::user_block(&plain(part)),
    }
}

fn call_of(call: &Value) -> Content {
    let function = call.get("function").unwrap_or(call);
    let arguments = ["arguments", "parameters"].iter().find_map(|name| function.get(*name));
    Content::ToolUse {
        id: text(call, "id").to_owned(),
        name: text(function, "name").to_owned(),
        input: arguments
            .map_or_else(|| "{}".to_owned(), |a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)),
    }
}

/// A part whose text is under `content`, as a block with a text.
fn plain(part: &Value) -> Value {
    match part.get("content").filter(|content| content.is_string()) {
        Some(content) => json!({"type": "text", "text": content}),
        None => part.clone(),
    }
}

fn tool(tool: &Value) -> ToolText {
    let schema = tool.pointer("/tool/json_schema").or_else(|| tool.get("json_schema"));
    let inside = schema.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let tool = inside.as_ref().or(schema).unwrap_or(tool);
    let name = tool.pointer("/function/name").or_else(|| tool.get("name")).and_then(Value::as_str);
    ToolText { name: name.unwrap_or_default().to_owned(), json: tool.to_string() }
}

fn usage(attributes: &Value, counts: &mut Counts) -> Usage {
    let mut first = |names: &[&str]| {
        let name = names.iter().find(|name| attributes.get(**name).is_some());
        name.map_or(0, |name| counts.field(attributes, name))
    };
    let (prompt, output) = (first(PROMPT_TOKENS), first(OUTPUT_TOKENS));
    let (read, written) = (first(READ_TOKENS), first(WRITTEN_TOKENS));
    Usage {
        uncached_tokens: prompt.checked_sub(read + written).unwrap_or(prompt),
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: output,
    }
}

/// Attributes by name.
fn attributes(span: &Value) -> Value {
    let attribute =
        |attribute: &Value| Some((text(attribute, "key").to_owned(), any_value(attribute.get("value")?)));
    Value::Object(items(span, "attributes").iter().filter_map(attribute).collect())
}

/// A value of OTLP, whose type is its only field's name; integers are texts.
fn any_value(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|fields| fields.iter().next()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "arrayValue" => items(inner, "values").iter().map(any_value).collect(),
        "kvlistValue" => {
            let field = |field: &Value| Some((text(field, "key").to_owned(), any_value(field.get("value")?)));
            Value::Object(items(inner, "values").iter().filter_map(field).collect())
        }
        _ => inner.clone(),
    }
}

/// A list, or a text that holds one.
fn list(value: &Value) -> Vec<Value> {
    match list_or_text(value) {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

fn list_or_text(value: &Value) -> Value {
    let inside = value.as_str().filter(|text| text.trim_start().starts_with('['));
    inside.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
}

/// The list that attributes `name.0.a`, `name.0.b.1.c`… spread out.
fn numbered(attributes: &Value, name: &str) -> Vec<Value> {
    let mut root = Value::Object(Map::new());
    for (key, value) in attributes.as_object().into_iter().flatten() {
        let path = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        if let Some(path) = path.filter(|path| path.split('.').count() <= MAX_STEPS) {
            put(&mut root, path, value);
        }
    }
    match listed(root) {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// Deepest path of an attribute's name.
const MAX_STEPS: usize = 16;

fn put(place: &mut Value, path: &str, value: &Value) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    let Value::Object(fields) = place else { return };
    let inner = fields.entry(step).or_insert(Value::Null);
    match rest {
        Some(rest) => put(inner, rest, value),
        None => *inner = value.clone(),
    }
}

/// Objects whose names are all numbers as lists in the order of these.
fn listed(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let numbers: Option<Vec<u64>> = fields.keys().map(|name| name.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
        return Value::Object(fields.into_iter().map(|(name, field)| (name, listed(field))).collect());
    };
    let mut items: Vec<(u64, Value)> =
        numbers.into_iter().zip(fields.into_iter().map(|(_, field)| field)).collect();
    items.sort_by_key(|(number, _)| *number);
    items.into_iter().map(|(_, item)| listed(item)).collect()
}

/// A time in nanoseconds, as text or number.
fn nanoseconds(value: Option<&Value>) -> Option<i64> {
    let nanoseconds: u64 = match value? {
        Value::String(text) => text.parse().ok()?,
        value => value.as_u64()?,
    };
    i64::try_from(nanoseconds / 1_000_000).ok().filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::numbered;

    #[test]
    fn numbered_attributes_are_a_list() {
        let attributes = json!({
            "a.1.calls.1.id": "y", "a.0.role": "user", "a.1.calls.0.id": "x", "ab.0.c": 1, "a.99999999999.d": 1,
        });
        assert_eq!(
            numbered(&attributes, "a"),
            [json!({"role": "user"}), json!({"calls": [{"id": "x"}, {"id": "y"}]}), json!({"d": 1})]
        );
        assert_eq!(numbered(&attributes, "b"), [json!(null); 0]);
    }
}
