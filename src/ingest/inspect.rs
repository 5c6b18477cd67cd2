//! Inspect AI: evaluation logs, one JSON document or a zip archive (`.eval`) of one document a sample
//! (spec/formats.md section 9).
//!
//! Each `model` event of a sample is a request with all that was sent; which of them form a session is found by
//! that (`exchange`), so solvers, graders and sub-agents are sessions of their own. A sample is
//! never the continuation of another. Long texts stand apart as attachments and are put back. Newer logs keep each
//! message once, in a pool of the sample, and say of a request which ranges of the pool were sent.
//!
//! What input counts include is the provider's own: they include what was read from the cache where input and
//! output add up to the total, and exclude it otherwise.
//!
//! # Divergence from the real API
//!
//! Answers from Inspect's own cache were not billed and are left out. A log without events has the messages
//! of each sample only, so its requests are without usage. Archives that spread one sample over several entries (log
//! version 3, which Inspect itself does not write unless asked) are not read.

use std::borrow::Cow;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::document;
use super::exchange::{By, Exchange, Threads};
use super::value::{self, Counts, chars, flag, items, text, time_ms};
use crate::transcript::{Content, Notice, ToolText, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "inspect";

/// How a text that stands apart is referred to.
const ATTACHMENT: &str = "attachment://";

/// Why a prompt is shorter here than it was.
const NOT_IN_POOL: &str = "this request refers to messages that its sample does not have: they are left out";

/// Why requests are missing.
const TOO_LARGE: &str = "the prompts of this file refer to more messages, or longer texts, than are read: this request \
                         and those behind it are left out";

/// What prompts of one file may come to: a few bytes can refer to a long message.
#[derive(Clone, Copy)]
struct Budget {
    messages: usize,
    text_bytes: usize,
}

/// A thousand samples of a hundred requests, or one of three thousand.
const BUDGET: Budget = Budget { messages: 10_000_000, text_bytes: 4 << 30 };

/// Whether the first fields of a document are those of a log, its header, or a sample.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let has = |names: &[&str]| names.iter().all(|name| object.contains_key(*name));
    has(&["version", "eval"]) || has(&["id", "epoch", "input", "target"])
}

/// Reads a log.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut log = Log { budget: Some(BUDGET), ..Log::default() };
    for document in &documents {
        log.head(document);
        if document.get("epoch").is_some() {
            log.sample(document, &mut notices);
        }
        items(document, "samples").iter().for_each(|sample| log.sample(sample, &mut notices));
    }
    log.finish(notices, label)
}

#[derive(Default)]
struct Log {
    threads: Threads,
    /// `None` once it is used up.
    budget: Option<Budget>,
    /// Samples without events.
    plain: Vec<Conversation>,
    task: String,
    version: String,
    /// Number of the event or message.
    number: u64,
}

impl Log {
    fn head(&mut self, document: &Value) {
        let Some(eval) = document.get("eval") else { return };
        text(eval, "task_id").clone_into(&mut self.task);
        let version = eval.pointer("/packages/inspect_ai").and_then(Value::as_str);
        version.unwrap_or_default().clone_into(&mut self.version);
    }

    fn finish(self, notices: Vec<Notice>, label: &Path) -> Result<Vec<Transcript>> {
        let mut transcripts = Vec::new();
        if !self.threads.is_empty() || self.plain.is_empty() {
            transcripts = self.threads.finish(NAME, notices, label)?;
        }
        for conversation in self.plain {
            transcripts.extend(conversation.finish(NAME, Vec::new(), label)?);
        }
        for transcript in &mut transcripts {
            transcript.agent_version.clone_from(&self.version);
        }
        Ok(transcripts)
    }

    fn sample(&mut self, sample: &Value, notices: &mut Vec<Notice>) {
        let id = sample.get("id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
        let epoch = sample.get("epoch").map_or_else(|| "1".to_owned(), Value::to_string);
        let name = match text(sample, "uuid") {
            "" => [&self.task, &id.unwrap_or_default(), &epoch].map(String::as_str).join("-"),
            uuid => uuid.to_owned(),
        };
        // Older logs keep events and attachments in a transcript.
        let transcript = sample.get("transcript").unwrap_or(&Value::Null);
        let either = |own: &str, old: &str| sample.get(own).or_else(|| transcript.get(old));
        let apart = Apart {
            texts: either("attachments", "content").and_then(Value::as_object),
            messages: pool(sample),
        };
        let events = either("events", "events").and_then(Value::as_array);
        let requests = events.into_iter().flatten().filter(|event| text(event, "event") == "model");
        let mut any = false;
        for event in requests {
            any = true;
            self.number += 1;
            self.request(&name, event, &apart, notices);
        }
        if !any {
            self.messages(&name, sample, &apart);
        }
    }

    fn request(&mut self, name: &str, event: &Value, apart: &Apart<'_>, notices: &mut Vec<Notice>) {
        let output = event.get("output").unwrap_or(&Value::Null);
        let choice = items(output, "choices").first().unwrap_or(&Value::Null);
        let usage = output.get("usage").unwrap_or(&Value::Null);
        let is_answered = choice.is_object() || usage.is_object();
        if !is_answered || text(event, "cache") == "read" {
            return;
        }
        let Some(budget) = self.budget else { return };
        let (sent, is_whole) = apart.input(event, budget.messages);
        let texts = sent.iter().copied().chain(choice.get("message"));
        self.budget = budget.without(sent.len(), texts.map(|message| apart.text_bytes(message)).sum());
        if self.budget.is_none() {
            notices.push(Notice { line: self.number, reason: TOO_LARGE.to_owned() });
            return;
        }
        if !is_whole {
            notices.push(Notice { line: self.number, reason: NOT_IN_POOL.to_owned() });
        }
        let at = At { line: self.number, ms: time_ms(event.get("timestamp")) };
        let mut exchange = Exchange { at, conversation: Some(name.to_owned()), ..Exchange::default() };
        exchange.answered_ms = time_ms(event.get("completed"));
        let ids = [
            event.pointer("/call/response/id").and_then(Value::as_str),
            event.get("uuid").and_then(Value::as_str),
        ];
        ids.into_iter().flatten().next().unwrap_or_default().clone_into(&mut exchange.id);
        let models = [text(output, "model"), text(event, "model")];
        models.into_iter().find(|m| !m.is_empty()).unwrap_or_default().clone_into(&mut exchange.model);
        let tool = |tool: &Value| ToolText { name: text(tool, "name").to_owned(), json: tool.to_string() };
        exchange.tools = items(event, "tools").iter().map(tool).collect();
        for message in sent {
            let content = apart.content(message);
            match text(message, "role") {
                "system" => exchange.instruct(&content),
                "assistant" => exchange.send(By::Model, apart.answer(message)),
                "tool" => exchange.send(By::User, vec![apart.result(message)]),
                _ => exchange.send(By::User, value::user_content(&content)),
            }
        }
        exchange.answer = apart.answer(choice.get("message").unwrap_or(&Value::Null));
        exchange.output_is_final = choice.get("stop_reason").is_some_and(Value::is_string);
        let mut counts = Counts::default();
        let usage = self::usage(usage, &mut counts);
        exchange.bill(usage, &counts, notices);
        self.threads.add(exchange);
    }

    fn messages(&mut self, name: &str, sample: &Value, apart: &Apart<'_>) {
        let mut conversation = Conversation::default();
        name.clone_into(&mut conversation.transcript.session_id);
        let model = sample.pointer("/output/model").and_then(Value::as_str).unwrap_or_default();
        for message in items(sample, "messages") {
            self.number += 1;
            let at = At { line: self.number, ms: None };
            match text(message, "role") {
                "system" if conversation.responses() == 0 => {
                    conversation.transcript.system = apart.content(message).as_str().map(str::to_owned);
                }
                "assistant" => {
                    let model = Some(text(message, "model")).filter(|m| !m.is_empty()).unwrap_or(model);
                    let id = match text(message, "id") {
                        "" => format!("{name}-{}", self.number),
                        id => id.to_owned(),
                    };
                    conversation.open_response(at, &id, model);
                    if let Some(response) = conversation.last_response() {
                        response.content = apart.answer(message);
                    }
                }
                "tool" => conversation.input(at, vec![apart.result(message)], false),
                role => {
                    let content = value::user_content(&apart.content(message));
                    conversation.input(at, content, role != "user");
                }
            }
        }
        if conversation.responses() > 0 {
            self.plain.push(conversation);
        }
    }
}

/// The pool of messages of a sample, which the first logs that had one called otherwise.
fn pool(sample: &Value) -> &[Value] {
    match items(sample.get("events_data").unwrap_or(&Value::Null), "messages") {
        [] => items(sample, "message_pool"),
        messages => messages,
    }
}

impl Budget {
    /// What is left behind a request of this size; `None` if that is too much.
    fn without(self, messages: usize, text_bytes: usize) -> Option<Budget> {
        let messages = self.messages.checked_sub(messages)?;
        Some(Budget { messages, text_bytes: self.text_bytes.checked_sub(text_bytes)? })
    }
}

/// What stands apart from the events that refer to it.
struct Apart<'s> {
    /// Texts by their hash.
    texts: Option<&'s Map<String, Value>>,
    messages: &'s [Value],
}

impl Apart<'_> {
    /// What was sent with a request, and whether all of it was found; not much more than `most` messages. References
    /// are ranges: the first, and the one behind the last.
    fn input<'v>(&'v self, event: &'v Value, most: usize) -> (Vec<&'v Value>, bool) {
        let own = items(event, "input");
        if !own.is_empty() {
            return (own.iter().collect(), true);
        }
        let (mut sent, mut is_whole) = (Vec::new(), true);
        for range in items(event, "input_refs") {
            let bound = |at| range.get(at).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
            let (first, behind) = (bound(0).unwrap_or(usize::MAX), bound(1).unwrap_or_default());
            let found = self.messages.get(first..behind.min(self.messages.len())).unwrap_or_default();
            is_whole &= first < behind && found.len() == behind - first;
            sent.extend(found);
            if sent.len() > most {
                break;
            }
        }
        (sent, is_whole)
    }

    /// Length of the texts of a value, with those that stand apart.
    fn text_bytes(&self, value: &Value) -> usize {
        match value {
            Value::String(text) => self.resolve(text).len(),
            Value::Array(items) => items.iter().map(|item| self.text_bytes(item)).sum(),
            Value::Object(fields) => fields.values().map(|field| self.text_bytes(field)).sum(),
            _ => 0,
        }
    }

    fn resolve<'v>(&'v self, text: &'v str) -> &'v str {
        let hash = text.strip_prefix(ATTACHMENT);
        let found = hash.and_then(|hash| self.texts?.get(hash)?.as_str());
        found.unwrap_or(text)
    }

    /// Content of a message, with every text put back.
    fn content(&self, message: &Value) -> Value {
        self.put_back(message.get("content").unwrap_or(&Value::Null)).into_owned()
    }

    fn put_back<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        match value {
            Value::String(text) if text.starts_with(ATTACHMENT) => {
                Cow::Owned(Value::String(self.resolve(text).to_owned()))
            }
            Value::Array(items) => {
                Cow::Owned(items.iter().map(|item| self.put_back(item).into_owned()).collect())
            }
            Value::Object(fields) => {
                let put_back =
                    |(name, field): (&String, &Value)| (name.clone(), self.put_back(field).into_owned());
                Cow::Owned(Value::Object(fields.iter().map(put_back).collect()))
            }
            other => Cow::Borrowed(other),
        }
    }

    fn answer(&self, message: &Value) -> Vec<Content> {
        let content = self.content(message);
        let block = |block: &Value| match text(block, "type") {
            "reasoning" => Content::Thinking {
                text: text(block, "reasoning").to_owned(),
                signature_chars: chars(text(block, "signature")),
                redacted: flag(block, "redacted"),
            },
            _ => value::user_block(block),
        };
        let blocks = match &content {
            Value::Array(blocks) => blocks.iter().map(block).collect(),
            other => value::user_content(other),
        };
        let calls = items(message, "tool_calls").iter().map(|call| Content::ToolUse {
            id: text(call, "id").to_owned(),
            name: text(call, "function").to_owned(),
            input: call
                .get("arguments")
                .map_or_else(|| "{}".to_owned(), |arguments| self.put_back(arguments).to_string()),
        });
        blocks.into_iter().chain(calls).collect()
    }

    fn result(&self, message: &Value) -> Content {
        Content::ToolResult {
            call_id: text(message, "tool_call_id").to_owned(),
            parts: value::result_parts(&self.content(message)),
            is_error: message.get("error").is_some_and(Value::is_object),
        }
    }
}

fn usage(usage: &Value, counts: &mut Counts) -> Usage {
    let (input, output) = (counts.field(usage, "input_tokens"), counts.field(usage, "output_tokens"));
    let read = counts.field(usage, "input_tokens_cache_read");
    let written = counts.field(usage, "input_tokens_cache_write");
    let total = counts.field(usage, "total_tokens");
    let includes_cached = if total == 0 { read + written <= input } else { total == input + output };
    Usage {
        uncached_tokens: if includes_cached { counts.without(input, read + written) } else { input },
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: output,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Budget, Log};

    #[test]
    fn prompts_that_would_grow_without_end_are_left_out_and_named() {
        let event = |refs: &[[u64; 2]]| {
            let output = json!({"choices": [{"message": {"content": "y"}, "stop_reason": "stop"}]});
            json!({"event": "model", "input_refs": refs, "output": output})
        };
        let sample = |events: Vec<serde_json::Value>| {
            let messages = json!([{"role": "user", "content": "attachment://a"}]);
            json!({"epoch": 1, "attachments": {"a": "x".repeat(10)}, "message_pool": messages, "events": events})
        };
        for (budget, read) in [((3, 1_000), 2), ((1_000, 50), 2), ((1_000, 1_000), 3)] {
            let (messages, text_bytes) = budget;
            let mut log = Log { budget: Some(Budget { messages, text_bytes }), ..Log::default() };
            let mut notices = Vec::new();
            let events = [&[[0, 1]][..], &[[0, 1]; 2], &[[0, 1]; 3]].map(event);
            log.sample(&sample(events.to_vec()), &mut notices);
            let found = log.finish(Vec::new(), std::path::Path::new("x")).unwrap();
            let requests: u64 = found.iter().map(|transcript| transcript.totals().responses).sum();
            assert_eq!((requests, notices.len() as u64), (read, 3 - read), "{budget:?}");
        }
    }
}
