//! Logs of requests as they went over the wire: pairs of a request and its answer (spec/formats.md section 8).
//!
//! Four kinds of files hold them: what claude-trace writes, logs of `LiteLLM` (one file a request), cassettes
//! of HTTP recorders (go-vcr, VCR, vcrpy, nock; YAML or JSON), and plain pairs `{request, response}`. The
//! bodies are of Anthropic Messages, `OpenAI` Chat Completions or Responses, streamed or not; usage means what
//! it means there. Which requests form a session is found by what they sent (`exchange`).
//!
//! # Divergence from the real API
//!
//! Requests that failed were not billed and are left out. Where the log has no request bodies (nock), nothing
//! tells which requests belong together: each is a session of its own. Bodies that are packed are not read.

mod messages;
mod responses;
mod sse;
mod yaml;

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::chat;
use super::conversation::At;
use super::exchange::{By, Exchange, Threads};
use super::value::{self, Counts, items, text, time_ms};
use super::{document, inclusive, json_lines, money};
use crate::transcript::{Content, Notice, ToolText, Transcript};
use crate::{Error, Result};

/// Name of the format of claude-trace.
pub const CLAUDE_TRACE: &str = "claude-trace";

/// Name of the format of `LiteLLM`'s logs.
pub const LITELLM: &str = "litellm";

/// Name of the format of cassettes.
pub const CASSETTE: &str = "cassette";

/// Name of the format of plain pairs.
pub const PAIRS: &str = "request-log";

/// Whether a line is one of claude-trace.
pub fn recognise_claude_trace(object: &Map<String, Value>) -> bool {
    let request = object.get("request");
    request.is_some_and(|r| r.get("url").is_some() && r.get("body").is_some())
        && object.contains_key("response")
}

/// Whether a document begins like a log of `LiteLLM`.
pub fn recognise_litellm(object: &Map<String, Value>) -> bool {
    let has_prompt = object.contains_key("messages") || object.contains_key("input");
    has_prompt && ["kwargs", "context_window", "llm_path"].iter().any(|name| object.contains_key(*name))
}

/// Whether a document begins like a cassette.
pub fn recognise_cassette(object: &Map<String, Value>) -> bool {
    let is_nock = ["scope", "path", "status"].iter().all(|name| object.contains_key(*name));
    is_nock || object.contains_key("interactions") || object.contains_key("http_interactions")
}

/// Whether an object is a pair of bodies. Of a document only the beginning may be there, whose last field is
/// null then.
pub fn recognise_pair(object: &Map<String, Value>) -> bool {
    let is_body = |body: &Value| body.is_object() || body.is_string() || body.is_null();
    let (request, response) = (object.get("request"), object.get("response"));
    request.is_some_and(is_body) && response.map_or(request.is_some_and(Value::is_null), is_body)
}

/// Reads a log of claude-trace, a line at a time.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_claude_trace(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let (mut threads, mut notices) = (Threads::default(), Vec::new());
    json_lines::for_each_value(source, &mut notices, |number, pair, notices| {
        add_pair(number, pair, &mut threads, notices);
    })
    .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    threads.finish(CLAUDE_TRACE, notices, label)
}

/// Reads logs of `LiteLLM`.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_litellm(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    read_documents(LITELLM, source, label, |number, log, threads, notices| {
        let mut body = log.clone();
        if log.get("tools").is_none_or(Value::is_null)
            && let Some(tools) = log.pointer("/kwargs/tools").cloned()
            && let Some(body) = body.as_object_mut()
        {
            body.insert("tools".to_owned(), tools);
        }
        let answered_ms = seconds(log.get("timestamp"));
        let latency_ms = seconds(log.get("latency_sec")).unwrap_or(0);
        let at = At { line: number, ms: answered_ms.map(|ms| ms.saturating_sub(latency_ms)) };
        let response = log.get("response").unwrap_or(&Value::Null);
        if let Some(mut exchange) = exchange(at, &body, response, notices) {
            exchange.answered_ms = answered_ms;
            exchange.cost_pusd = money::pusd(log.get("cost")).or(exchange.cost_pusd);
            threads.add(exchange);
        }
    })
}

/// Reads plain pairs.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_pairs(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    read_documents(PAIRS, source, label, |number, document, threads, notices| {
        for pair in document.as_array().map_or(std::slice::from_ref(document), Vec::as_slice) {
            add_pair(number, pair, threads, notices);
        }
    })
}

/// Reads a cassette.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_cassette(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let bytes = document::bytes(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let is_json = matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['));
    let documents = match is_json {
        true => document::values(bytes, &mut notices),
        false => yaml::parse(&String::from_utf8_lossy(bytes), &mut notices),
    };
    let mut threads = Threads::default();
    for (number, interaction) in (1..).zip(documents.iter().flat_map(interactions)) {
        add_interaction(number, interaction, &mut threads, &mut notices);
    }
    threads.finish(CASSETTE, notices, label)
}

fn read_documents(
    format: &'static str,
    source: &mut dyn BufRead,
    label: &Path,
    mut add: impl FnMut(u64, &Value, &mut Threads, &mut Vec<Notice>),
) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut threads = Threads::default();
    for (number, document) in (1..).zip(&documents) {
        add(number, document, &mut threads, &mut notices);
    }
    threads.finish(format, notices, label)
}

/// The recorded requests of a cassette.
fn interactions(document: &Value) -> &[Value] {
    match (document, items(document, "interactions")) {
        (Value::Array(list), _) => list,
        (_, []) => items(document, "http_interactions"),
        (_, list) => list,
    }
}

/// A pair of claude-trace, or a plain one: `request` is the body itself, or holds it.
fn add_pair(number: u64, pair: &Value, threads: &mut Threads, notices: &mut Vec<Notice>) {
    let (Some(request), Some(response)) = (pair.get("request"), pair.get("response")) else { return };
    let status = response.get("status_code").or_else(|| response.get("status")).and_then(Value::as_u64);
    if status.is_some_and(|status| status >= 400) {
        return;
    }
    let own = |value: &Value| value.get("timestamp").or_else(|| value.get("created_at")).cloned();
    let at = At { line: number, ms: own(request).or_else(|| own(pair)).and_then(|t| moment(&t)) };
    let answer = ["body", "body_raw"].iter().find_map(|name| response.get(*name).filter(|b| !b.is_null()));
    let answer = body(answer.unwrap_or(response));
    if let Some(mut exchange) = exchange(at, &body(request.get("body").unwrap_or(request)), &answer, notices)
    {
        exchange.answered_ms = own(response).and_then(|t| moment(&t)).or(exchange.answered_ms);
        exchange.cost_pusd = money::pusd(pair.get("cost")).or(exchange.cost_pusd);
        threads.add(exchange);
    }
}

/// An interaction of a recorder: the bodies are texts, in a field of their own or not.
fn add_interaction(number: u64, interaction: &Value, threads: &mut Threads, notices: &mut Vec<Notice>) {
    let is_nock = interaction.get("scope").is_some();
    let (request, response) = (interaction.get("request"), interaction.get("response"));
    let field = |side: Option<&Value>| side.and_then(|side| side.get("body")).map(body).unwrap_or_default();
    let (sent, answer) = match is_nock {
        true => {
            (interaction.get("body").map(body).unwrap_or_default(), response.map(body).unwrap_or_default())
        }
        false => (field(request), field(response)),
    };
    // A number, or an object or a text with one beside it.
    let status = if is_nock { Some(interaction) } else { response };
    let codes = ["/status", "/status/code", "/code"].map(|path| status?.pointer(path)?.as_u64());
    if codes.into_iter().flatten().any(|code| code >= 400) {
        return;
    }
    let at = At { line: number, ms: time_ms(interaction.get("recorded_at")) };
    if let Some(exchange) = exchange(at, &sent, &answer, notices) {
        threads.add(exchange);
    }
}

/// A body: JSON, or a text that holds it; an answer that was streamed is put together. A text that is none of
/// these stays one.
fn body(value: &Value) -> Value {
    let inside = match value {
        Value::String(inside) => inside,
        Value::Object(object) if object.get("string").is_some_and(Value::is_string) => text(value, "string"),
        other => return other.clone(),
    };
    sse::parse(inside).or_else(|| sse::answer(inside)).unwrap_or_else(|| Value::String(inside.to_owned()))
}

/// The request and its answer in whatever dialect they are; `None` if they are of none.
fn exchange(at: At, request: &Value, response: &Value, notices: &mut Vec<Notice>) -> Option<Exchange> {
    let mut exchange = Exchange { at, output_is_final: true, ..Exchange::default() };
    let billed = response.get("usage").unwrap_or(&Value::Null);
    let mut counts = Counts::default();
    let usage = if response.get("choices").is_some() {
        chat_request(&mut exchange, request);
        let choice = items(response, "choices").first().unwrap_or(&Value::Null);
        exchange.answer = chat_answer(choice.get("message").unwrap_or(&Value::Null));
        exchange.output_is_final = choice.get("finish_reason").is_some_and(Value::is_string);
        inclusive::usage(&inclusive::CHAT, billed, &mut counts)
    } else if response.get("output").is_some() {
        responses::request(&mut exchange, request);
        exchange.answer = responses::answer(response);
        exchange.output_is_final = matches!(text(response, "status"), "completed" | "incomplete");
        inclusive::usage(&inclusive::RESPONSES, billed, &mut counts)
    } else if text(response, "role") == "assistant" || billed.get("input_tokens").is_some() {
        messages::request(&mut exchange, request);
        exchange.answer = messages::answer(response.get("content").unwrap_or(&Value::Null));
        exchange.output_is_final = response.get("stop_reason").is_some_and(Value::is_string);
        messages::usage(billed, &mut counts)
    } else {
        let is_asked = request.get("model").is_some();
        if is_asked && response.as_str().is_some_and(|text| !text.trim().is_empty()) {
            let reason = "the answer to this request is no JSON and no stream of it; it is left out";
            notices.push(Notice { line: at.line, reason: reason.to_owned() });
        }
        return None;
    };
    exchange.bill(usage, &counts, notices);
    text(response, "id").clone_into(&mut exchange.id);
    let models = [text(response, "model"), text(request, "model")];
    models.into_iter().find(|model| !model.is_empty()).unwrap_or_default().clone_into(&mut exchange.model);
    let created = response.get("created").or_else(|| response.get("created_at"));
    exchange.answered_ms = created.and_then(moment);
    exchange.cost_pusd = money::pusd(billed.get("cost"));
    Some(exchange)
}

/// Takes over what was sent to Chat Completions.
fn chat_request(exchange: &mut Exchange, body: &Value) {
    exchange.tools = tools(body);
    for message in items(body, "messages") {
        let content = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role") {
            "system" | "developer" => exchange.instruct(content),
            "assistant" => exchange.send(By::Model, chat_answer(message)),
            "tool" | "function" => {
                let result = chat::result(message, text(message, "tool_call_id").to_owned());
                exchange.send(By::User, vec![result]);
            }
            _ => exchange.send(By::User, value::user_content(content)),
        }
    }
}

fn chat_answer(message: &Value) -> Vec<Content> {
    let reasoning = ["reasoning", "reasoning_content"].map(|name| text(message, name));
    let reasoning = reasoning.into_iter().find(|text| !text.is_empty());
    let thinking =
        |text: &str| Content::Thinking { text: text.to_owned(), signature_chars: 0, redacted: false };
    reasoning.map(thinking).into_iter().chain(chat::content(message)).chain(chat::calls(message)).collect()
}

/// Tool definitions of any dialect.
fn tools(body: &Value) -> Vec<ToolText> {
    let name = |tool: &Value| match text(tool, "name") {
        "" => tool.get("function").map_or(text(tool, "type"), |function| text(function, "name")).to_owned(),
        name => name.to_owned(),
    };
    items(body, "tools").iter().map(|tool| ToolText { name: name(tool), json: tool.to_string() }).collect()
}

/// A moment as text, in milliseconds, or in seconds, which fractions and small numbers are.
fn moment(value: &Value) -> Option<i64> {
    const LAST_SECOND: u64 = 1 << 36;
    match value {
        Value::Number(number) if number.as_u64().is_none_or(|n| n < LAST_SECOND) => seconds(Some(value)),
        value => time_ms(Some(value)),
    }
}

/// Seconds with a fraction as milliseconds, read through their digits.
fn seconds(value: Option<&Value>) -> Option<i64> {
    let text = value.filter(|value| value.is_number())?.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole: i64 = whole.parse().ok().filter(|s| (0..1 << 36).contains(s))?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).chain(std::iter::repeat(b'0')).take(3);
    Some(digits.fold(whole, |ms, digit| ms * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::moment;

    #[test]
    fn moments_are_read_in_every_unit() {
        for (value, expected) in [
            (json!(1748554704.293292), Some(1_748_554_704_293)),
            (json!(1748554704), Some(1_748_554_704_000)),
            (json!(1_748_554_704_293_u64), Some(1_748_554_704_293)),
            (json!("1970-01-01T00:00:01Z"), Some(1_000)),
            (json!(0.5), Some(500)),
            (json!(-1.5), None),
            (json!(1e300), None),
            (json!([]), None),
        ] {
            assert_eq!(moment(&value), expected, "{value}");
        }
    }
}
