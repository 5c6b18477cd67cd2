//! Goose: a JSONL session with a head and a message a line, or the newer SQLite database with all sessions
//! (spec/formats.md section 11).
//!
//! One assistant message is one request. Messages are as the client last had them: those that a compaction
//! hid from the model are marked so, and what it put in is hidden from the user.
//!
//! # Divergence from the real API
//!
//! Checked against one small recording in JSONL, and against none in SQLite. Usage is stated for a session as
//! a whole, so requests are without; the model is not recorded in JSONL. System prompt and, but for the
//! names, tool definitions are missing. Each compaction counts as automatic.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::conversation::{At, Conversation};
use super::json_lines;
use super::sqlite::{self, Database, Row, column};
use super::value::{self, chars, items, text};
use crate::transcript::{Content, EventKind, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "goose";

/// Whether a line is of this format, or the tables of a database are.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let is = |name: &str, is: fn(&Value) -> bool| object.get(name).is_some_and(is);
    let is_head = is("working_dir", Value::is_string) && is("description", Value::is_string);
    let is_message =
        is("role", Value::is_string) && is("created", Value::is_number) && is("content", Value::is_array);
    is_head || is_message || sqlite::has(object, "messages", &["session_id", "role", "content_json"])
}

/// Reads a session, or all of a database that hold a response.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let fail = |source| Error::Io { path: label.to_owned(), source };
    if source.fill_buf().map_err(fail)?.starts_with(sqlite::MAGIC) {
        return read_database(source, label);
    }
    let mut reader = Reader::default();
    let stem = label.file_stem().unwrap_or_default();
    reader.conversation.transcript.session_id = stem.to_string_lossy().into_owned();
    let mut notices = Vec::new();
    json_lines::for_each_value(source, &mut notices, |number, line, _| {
        if line.get("role").is_some() {
            let at = At { line: number, ms: value::seconds_or_ms(line.get("created")) };
            reader.message(at, text(line, "id"), line, line.get("metadata").unwrap_or(&Value::Null));
        }
    })
    .map_err(fail)?;
    reader.conversation.finish(NAME, notices, label)
}

fn read_database(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut database =
        Database::read(source, label).map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let sessions = database.rows("sessions");
    let mut by_session = sqlite::grouped(database.rows("messages"), "session_id");
    let notices = database.notices();
    let conversations = sessions
        .iter()
        .map(|session| read_session(session, &by_session.remove(column(session, "id")).unwrap_or_default()));
    Conversation::finish_all(conversations, NAME, notices, label)
}

fn read_session(session: &Row, messages: &[Row]) -> Conversation {
    let mut reader = Reader::default();
    let config: Value = serde_json::from_str(column(session, "model_config_json")).unwrap_or_default();
    text(&config, "model_name").clone_into(&mut reader.model);
    column(session, "id").clone_into(&mut reader.conversation.transcript.session_id);
    for row in messages {
        let number = row.get("rowid").and_then(Value::as_u64).unwrap_or(0);
        let at = At { line: number, ms: value::seconds_or_ms(row.get("created_timestamp")) };
        let parsed = |name: &str| serde_json::from_str::<Value>(column(row, name)).unwrap_or_default();
        let metadata = parsed("metadata_json");
        let mut message = Value::Object(row.clone());
        message["content"] = parsed("content_json");
        reader.message(at, column(row, "message_id"), &message, &metadata);
    }
    reader.conversation
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    model: String,
    /// The message before was put in by a compaction.
    in_compaction: bool,
    /// Hashes of the ids of the messages so far, or of the messages.
    seen: BTreeSet<u64>,
}

impl Reader {
    fn message(&mut self, at: At, id: &str, message: &Value, metadata: &Value) {
        // A message that is there twice.
        let known = if id.is_empty() { format!("{:?} {message}", at.ms) } else { id.to_owned() };
        if !self.seen.insert(xxh3_64(known.as_bytes())) {
            return;
        }
        let seen_by = |name: &str| metadata.get(name).and_then(Value::as_bool).unwrap_or(true);
        let content = items(message, "content");
        let by_compaction = seen_by("agentVisible") && !seen_by("userVisible");
        if by_compaction {
            if !self.in_compaction {
                let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
                self.conversation.event(at, kind);
            }
            let content = content.iter().filter_map(any_block).map(|c| value::as_text(&c));
            self.conversation.input(at, content.collect(), true);
        } else if text(message, "role") == "assistant" {
            self.response(at, id, content);
        } else {
            let (results, others): (Vec<Content>, Vec<Content>) =
                content.iter().filter_map(input).partition(|c| matches!(c, Content::ToolResult { .. }));
            self.conversation.input(at, results, false);
            self.conversation.input(at, others, false);
        }
        self.in_compaction = by_compaction;
    }

    fn response(&mut self, at: At, id: &str, content: &[Value]) {
        let blocks: Vec<Content> = content.iter().filter_map(block).collect();
        // A notice of the client's, not of the model's.
        if blocks.is_empty() {
            return;
        }
        let hash = || format!("{:016x}", xxh3_64(format!("{:?} {blocks:?}", at.ms).as_bytes()));
        let id = if id.is_empty() { hash() } else { id.to_owned() };
        self.conversation.open_response(at, &id, &self.model);
        if let Some(response) = self.conversation.last_response() {
            response.content = blocks;
        }
    }
}

/// A block of a message, whoever wrote it.
fn any_block(part: &Value) -> Option<Content> {
    block(part).or_else(|| input(part))
}

/// A block of a message of the user.
fn input(part: &Value) -> Option<Content> {
    match text(part, "type") {
        "text" | "image" => value::user_content(part).pop(),
        "toolResponse" => {
            let result = part.get("toolResult").unwrap_or(&Value::Null);
            // Newer results hold their list in an object.
            let value = result.get("value").unwrap_or(&Value::Null);
            let list = value.get("content").unwrap_or(value);
            let error = result.get("error").filter(|e| !e.is_null());
            let failed = value.get("isError").and_then(Value::as_bool).unwrap_or(false);
            Some(Content::ToolResult {
                call_id: text(part, "id").to_owned(),
                parts: value::result_parts(error.unwrap_or(list)),
                is_error: error.is_some() || failed || text(result, "status") == "error",
            })
        }
        _ => None,
    }
}

/// A block of a response.
fn block(part: &Value) -> Option<Content> {
    match text(part, "type") {
        "text" if !text(part, "text").is_empty() => Some(Content::Text(text(part, "text").to_owned())),
        "thinking" => Some(Content::Thinking {
            text: text(part, "thinking").to_owned(),
            signature_chars: chars(text(part, "signature")),
            redacted: false,
        }),
        "redactedThinking" => Some(Content::Thinking {
            text: String::new(),
            signature_chars: chars(text(part, "data")),
            redacted: true,
        }),
        "toolRequest" | "frontendToolRequest" => {
            let call = part.pointer("/toolCall/value").unwrap_or(&Value::Null);
            Some(Content::ToolUse {
                id: text(part, "id").to_owned(),
                name: text(call, "name").to_owned(),
                input: call.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string),
            })
        }
        _ => None,
    }
}
