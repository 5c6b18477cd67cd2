//! Crush: a SQLite database with all sessions of a project (spec/formats.md section 11).
//!
//! One assistant message is one request; a sub-agent's session names its parent. A message that is marked as
//! a summary replaces everything before it.
//!
//! # Divergence from the real API
//!
//! A session states only what its last request used, so requests are without usage. System prompt, tool
//! definitions and the model's reasoning about titles are not recorded. Summaries and images were not checked
//! against a recording; each summary counts as automatic.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::image;
use super::sqlite::{self, Database, Row, column};
use super::value::{self, chars, flag, text};
use crate::transcript::{Content, EventKind, ResultPart, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "crush";

/// Whether tables of a database are those of this format.
pub fn recognise(outline: &Map<String, Value>) -> bool {
    sqlite::has(outline, "messages", &["session_id", "role", "parts"])
        && sqlite::has(outline, "sessions", &["id"])
}

/// Reads a database: all sessions that hold a response.
///
/// # Errors
///
/// If the source fails, is no such database, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut database =
        Database::read(source, label).map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let sessions = database.rows("sessions");
    let mut messages = database.rows("messages");
    let notices = database.notices();
    // Rows stand in the order of writing, which settles the order within a second.
    messages.sort_by_key(|row| whole(row, "created_at"));
    let mut by_session = sqlite::grouped(messages, "session_id");
    let conversations = sessions.iter().map(|session| {
        let messages = by_session.remove(column(session, "id")).unwrap_or_default();
        read_session(session, &messages)
    });
    Conversation::finish_all(conversations, NAME, notices, label)
}

fn whole(row: &Row, name: &str) -> i64 {
    row.get(name).and_then(Value::as_i64).unwrap_or(0)
}

fn read_session(session: &Row, messages: &[Row]) -> Conversation {
    let mut conversation = Conversation::default();
    let head = &mut conversation.transcript;
    column(session, "id").clone_into(&mut head.session_id);
    head.parent_session_id = Some(column(session, "parent_session_id").to_owned()).filter(|p| !p.is_empty());
    for message in messages {
        let at = At {
            line: u64::try_from(whole(message, "rowid")).unwrap_or(0),
            ms: value::seconds_or_ms(message.get("created_at")),
        };
        let parts: Vec<Value> = serde_json::from_str(column(message, "parts")).unwrap_or_default();
        let id = column(message, "id");
        let is_summary = whole(message, "is_summary_message") != 0
            || (!id.is_empty() && column(session, "summary_message_id") == id);
        match column(message, "role") {
            "assistant" if is_summary => {
                let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
                conversation.event(at, kind);
                let texts = parts.iter().filter_map(block).filter(|c| matches!(c, Content::Text(_)));
                conversation.input(at, texts.collect(), true);
            }
            "assistant" => response(&mut conversation, at, message, &parts),
            _ => {
                let (results, others): (Vec<Content>, Vec<Content>) = parts
                    .iter()
                    .filter_map(input)
                    .partition(|content| matches!(content, Content::ToolResult { .. }));
                conversation.input(at, results, false);
                conversation.input(at, others, false);
            }
        }
    }
    conversation
}

fn response(conversation: &mut Conversation, at: At, message: &Row, parts: &[Value]) {
    let content: Vec<Content> = parts.iter().filter_map(block).collect();
    // Cancelled before anything came.
    if content.is_empty() {
        return;
    }
    conversation.open_response(at, column(message, "id"), column(message, "model"));
    if let Some(response) = conversation.last_response() {
        response.content = content;
        response.last_at_ms = value::seconds_or_ms(message.get("finished_at")).max(at.ms);
    }
}

/// A part of a message of the user or of a tool.
fn input(part: &Value) -> Option<Content> {
    let data = part.get("data").unwrap_or(&Value::Null);
    match text(part, "type") {
        "text" => Some(Content::Text(text(data, "text").to_owned())),
        "binary" if text(data, "MIMEType").starts_with("image/") => {
            Some(Content::Image(image::describe(text(data, "Data"))))
        }
        "tool_result" => Some(Content::ToolResult {
            call_id: text(data, "tool_call_id").to_owned(),
            parts: vec![ResultPart::Text(text(data, "content").to_owned())],
            is_error: flag(data, "is_error"),
        }),
        _ => None,
    }
}

/// A part of a response.
fn block(part: &Value) -> Option<Content> {
    let data = part.get("data").unwrap_or(&Value::Null);
    match text(part, "type") {
        "text" if !text(data, "text").is_empty() => Some(Content::Text(text(data, "text").to_owned())),
        "reasoning" => Some(Content::Thinking {
            text: text(data, "thinking").to_owned(),
            signature_chars: chars(text(data, "signature")),
            redacted: false,
        }),
        "tool_call" => Some(Content::ToolUse {
            id: text(data, "id").to_owned(),
            name: text(data, "name").to_owned(),
            input: text(data, "input").to_owned(),
        }),
        _ => None,
    }
}
