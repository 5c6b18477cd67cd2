//! octo: one JSONL session of records, of which the first is `meta` and each `message` is one of the history
//! as the client last had it (spec/formats.md section 5, spec/arcturn-octo.md part B).
//!
//! One assistant message is one request. Results of a batch stand in one message of the user's role. The file
//! is written anew when the history is folded, so the summary of what is gone is its first message.
//!
//! # Divergence from the real API
//!
//! Not checked against a recording. Usage, tool definitions and the request that wrote a summary are not
//! recorded, and what was folded is in an archive of prose. So a summary at the head is text that was
//! always there, and no compaction that could be undone. Images are files beside the session: their size is
//! unknown.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::conversation::{At, Conversation};
use super::json_lines;
use super::value::{self, chars, flag, items, text, time_ms};
use crate::transcript::{Content, Image, Notice, ResultPart, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "octo";

/// Beginnings of texts that the client puts in under the user's name.
const INJECTED: &[&str] = &["<system-reminder>", "<goal_context>", "[Earlier conversation summary]"];

/// Whether an object, parsed from one of the first lines, is the head of a session.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let is_text = |name: &str| object.get(name).is_some_and(Value::is_string);
    let is_meta = object.get("type").and_then(Value::as_str) == Some("meta");
    is_meta && is_text("id") && is_text("created_at") && is_text("model")
}

/// Reads a session.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut reader = Reader::default();
    let mut notices: Vec<Notice> = Vec::new();
    json_lines::for_each_value(source, &mut notices, |number, line, _| reader.line(number, line))
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    reader.conversation.finish(NAME, notices, label)
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    model: String,
    /// Hashes of the messages so far.
    seen: BTreeSet<u64>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value) {
        match text(line, "type") {
            "meta" => {
                text(line, "id").clone_into(&mut self.conversation.transcript.session_id);
                self.set_model(line);
                self.set_system(text(line, "system"));
            }
            "model_config" => self.set_model(line),
            "composed_system" => {
                let texts = [text(line, "composed_system"), text(line, "system")];
                self.set_system(texts.into_iter().find(|t| !t.is_empty()).unwrap_or_default());
            }
            "message" => {
                let message = line.get("message").unwrap_or(&Value::Null);
                // A message that is there twice: each states its time.
                let hash = xxh3_64(message.to_string().as_bytes());
                if !text(message, "created_at").is_empty() && !self.seen.insert(hash) {
                    return;
                }
                let at = At { line: number, ms: time_ms(message.get("created_at")) };
                match text(message, "role") {
                    "user" => self.user(at, message),
                    "assistant" => self.response(at, message),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn set_model(&mut self, line: &Value) {
        if !text(line, "model").is_empty() {
            text(line, "model").clone_into(&mut self.model);
        }
    }

    fn set_system(&mut self, system: &str) {
        if !system.is_empty() {
            self.conversation.transcript.system = Some(system.to_owned());
        }
    }

    fn user(&mut self, at: At, message: &Value) {
        let blocks = items(message, "blocks");
        let (results, others): (Vec<&Value>, Vec<&Value>) =
            blocks.iter().partition(|block| text(block, "type") == "tool_result");
        let has_results = !results.is_empty();
        self.conversation.input(at, results.into_iter().map(result).collect(), false);
        let mut content = value::user_content(message.get("content").unwrap_or(&Value::Null));
        content.extend(others.into_iter().filter_map(user_block));
        let is_injected = |content: &Content| match content {
            Content::Text(text) => INJECTED.iter().any(|start| text.starts_with(start)),
            // An image next to results came out of a tool.
            _ => has_results,
        };
        let injected = content.iter().all(is_injected);
        self.conversation.input(at, content, injected);
    }

    fn response(&mut self, at: At, message: &Value) {
        // Records have no ids; a history that is written anew keeps its messages.
        let id = format!("{:016x}", xxh3_64(message.to_string().as_bytes()));
        self.conversation.open_response(at, &id, &self.model);
        let mut content = vec![Content::Text(text(message, "content").to_owned())];
        content.retain(|c| *c != Content::Text(String::new()));
        content.extend(items(message, "blocks").iter().filter_map(block));
        if let Some(response) = self.conversation.last_response() {
            response.content = content;
        }
    }
}

fn result(block: &Value) -> Content {
    Content::ToolResult {
        call_id: text(block, "tool_use_id").to_owned(),
        parts: vec![ResultPart::Text(text(block, "result").to_owned())],
        is_error: flag(block, "is_error"),
    }
}

fn user_block(block: &Value) -> Option<Content> {
    match text(block, "type") {
        "text" => Some(Content::Text(text(block, "text").to_owned())),
        // A model that takes no images got the description.
        "image" if !text(block, "image_description").is_empty() => {
            Some(Content::Text(text(block, "image_description").to_owned()))
        }
        "image" => {
            let hash = xxh3_64(text(block, "image_path").as_bytes());
            Some(Content::Image(Image { hash, ..Image::default() }))
        }
        _ => None,
    }
}

/// A block of a response.
fn block(block: &Value) -> Option<Content> {
    match text(block, "type") {
        "text" => Some(Content::Text(text(block, "text").to_owned())),
        "thinking" => Some(Content::Thinking {
            text: text(block, "thinking").to_owned(),
            signature_chars: chars(text(block, "signature")),
            redacted: false,
        }),
        "tool_use" => Some(Content::ToolUse {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            input: block.get("input").map_or_else(|| "{}".to_owned(), Value::to_string),
        }),
        _ => None,
    }
}
