//! Gemini CLI: one recording per chat, an older JSON document or a newer log in JSONL (spec/formats.md
//! section 3).
//!
//! A message of the model is one request; the results of its calls stand inside of it. Input counts include
//! what was read from the cache, output counts exclude the thoughts. In the log a message is written again
//! whenever it changes, `$rewindTo` takes back a message and what follows it, and `$set` with messages
//! replaces the context.
//!
//! # Divergence from the real API
//!
//! System prompt, tool definitions and signatures of thoughts are not recorded, so thoughts count as unsigned
//! and are not sent again. Contexts that were replaced count as compacted by the client.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::value::{self, Counts, items, text, time_ms};
use super::{document, inclusive};
use crate::transcript::{Content, EventKind, Notice, ResultPart, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "gemini-cli";

/// Whether the first fields of a document or of a line are those of a recording.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let is_text = |name: &str| object.get(name).is_some_and(Value::is_string);
    is_text("sessionId") && is_text("startTime")
}

/// Reads a recording.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let records = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut log = Log::default();
    for record in records {
        log.record(record);
    }
    let mut reader = Reader::default();
    reader.conversation.transcript.session_id = log.session_id;
    for (number, item) in (1..).zip(&log.items) {
        reader.item(number, item, &mut notices);
    }
    reader.conversation.finish(NAME, notices, label)
}

/// What the records amount to, in order.
enum Item {
    Message(Value),
    RewoundTo(String),
    Replaced(Vec<Value>),
}

#[derive(Default)]
struct Log {
    session_id: String,
    items: Vec<Item>,
    /// Places of messages, by id.
    by_id: BTreeMap<String, usize>,
}

impl Log {
    fn record(&mut self, mut record: Value) {
        if let Some(id) = record.get("$rewindTo").and_then(Value::as_str) {
            self.items.push(Item::RewoundTo(id.to_owned()));
        } else if record.get("id").is_some() {
            self.message(record);
        } else {
            let patch = record.get_mut("$set").map(Value::take).unwrap_or(record);
            if self.session_id.is_empty() {
                text(&patch, "sessionId").clone_into(&mut self.session_id);
            }
            let messages = items(&patch, "messages").to_vec();
            if self.items.is_empty() {
                messages.into_iter().for_each(|message| self.message(message));
            } else if !messages.is_empty() {
                self.items.push(Item::Replaced(messages));
            }
        }
    }

    /// Adds a message, or a newer version of it in its place.
    fn message(&mut self, message: Value) {
        let id = text(&message, "id").to_owned();
        match self.by_id.get(&id) {
            Some(place) if !id.is_empty() => self.items[*place] = Item::Message(message),
            _ => {
                self.by_id.insert(id, self.items.len());
                self.items.push(Item::Message(message));
            }
        }
    }
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    /// Responses before each message, by its id.
    responses_before: BTreeMap<String, usize>,
    /// The last message was one of the model.
    is_behind_response: bool,
}

impl Reader {
    fn item(&mut self, number: u64, item: &Item, notices: &mut Vec<Notice>) {
        match item {
            Item::Message(message) => self.message(number, message, notices),
            Item::RewoundTo(id) => {
                let kept = self.responses_before.get(id).copied().unwrap_or(0);
                self.rewind(number, kept);
            }
            Item::Replaced(messages) => self.replaced(number, messages),
        }
    }

    fn message(&mut self, number: u64, message: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: time_ms(message.get("timestamp")) };
        self.responses_before.insert(text(message, "id").to_owned(), self.conversation.responses());
        match text(message, "type") {
            "user" => {
                self.conversation.input(at, content_of(message), false);
                self.is_behind_response = false;
            }
            "gemini" => self.response(at, message, notices),
            // Notes to the user.
            _ => {}
        }
    }

    fn response(&mut self, at: At, message: &Value, notices: &mut Vec<Notice>) {
        let mut counts = Counts::default();
        let tokens = message.get("tokens").unwrap_or(&Value::Null);
        let usage = inclusive::usage(&inclusive::GEMINI, tokens, &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let usage = counts.finish(usage);
        let texts = content_of(message);
        // Calls that were cancelled are noted in a message of their own, behind the answer they came with;
        // its thoughts are those of a later one.
        let is_rest = self.is_behind_response && usage.is_none() && texts.is_empty() && !counts.is_bad();
        let thoughts = items(message, "thoughts").iter().filter(|_| !is_rest).map(thought);
        let calls = items(message, "toolCalls");
        let content: Vec<Content> = thoughts.chain(texts).chain(calls.iter().map(call)).collect();
        if content.is_empty() && usage.is_none() && !counts.is_bad() {
            return;
        }
        if !is_rest {
            self.conversation.open_response(at, text(message, "id"), text(message, "model"));
        }
        if let Some(response) = self.conversation.last_response() {
            response.content.extend(content);
            response.last_at_ms = response.last_at_ms.max(at.ms);
            if !is_rest {
                response.usage = usage;
                response.output_is_final = usage.is_some();
            }
        }
        for call in calls {
            let at = At { line: at.line, ms: time_ms(call.get("timestamp")).or(at.ms) };
            self.conversation.input(at, result(call).into_iter().collect(), false);
        }
        self.is_behind_response = true;
    }

    /// A context that is a part of the one before takes back what follows; another one is a compaction.
    fn replaced(&mut self, number: u64, messages: &[Value]) {
        let last = messages.last().map_or("", |message| text(message, "id"));
        if let Some(before) = self.responses_before.get(last).copied() {
            let is_response = messages.last().is_some_and(|message| text(message, "type") == "gemini");
            self.rewind(number, before + usize::from(is_response));
            return;
        }
        let at = At { line: number, ms: messages.last().and_then(|m| time_ms(m.get("timestamp"))) };
        let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
        self.conversation.event(at, kind);
        for message in messages {
            let mut content = content_of(message);
            for tool_call in items(message, "toolCalls") {
                content.push(value::as_text(&call(tool_call)));
                content.extend(result(tool_call).iter().map(value::as_text));
            }
            self.conversation.input(at, content, true);
        }
        self.is_behind_response = false;
    }

    fn rewind(&mut self, number: u64, kept: usize) {
        if kept < self.conversation.responses() {
            let keep_responses = u32::try_from(kept).unwrap_or(u32::MAX);
            let at = At { line: number, ms: None };
            self.conversation.event(at, EventKind::Rewound { keep_responses });
            self.is_behind_response = false;
        }
    }
}

fn content_of(message: &Value) -> Vec<Content> {
    value::user_content(message.get("content").unwrap_or(&Value::Null))
}

fn thought(thought: &Value) -> Content {
    let text = format!("{}\n{}", text(thought, "subject"), text(thought, "description"));
    Content::Thinking { text, signature_chars: 0, redacted: false }
}

fn call(call: &Value) -> Content {
    Content::ToolUse {
        id: text(call, "id").to_owned(),
        name: text(call, "name").to_owned(),
        input: call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string),
    }
}

/// The result inside of a call, if it ended. Its parts are answers of the function, or images.
fn result(call: &Value) -> Option<Content> {
    let answers = items(call, "result");
    if answers.is_empty() {
        return None;
    }
    let part = |answer: &Value| match answer.pointer("/functionResponse/response") {
        Some(response) => {
            let plain = ["output", "error"].iter().find_map(|name| response.get(*name)?.as_str());
            ResultPart::Text(plain.map_or_else(|| response.to_string(), str::to_owned))
        }
        None => value::result_part(answer),
    };
    Some(Content::ToolResult {
        call_id: text(call, "id").to_owned(),
        parts: answers.iter().map(part).collect(),
        is_error: matches!(text(call, "status"), "error" | "cancelled"),
    })
}
