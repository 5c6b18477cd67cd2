//! OpenCode: what `opencode export` prints, one document with a session's messages and their parts
//! (spec/formats.md section 4).
//!
//! A request ends with a `step-finish` part, or with its message. Results stand inside of their calls. Input
//! counts exclude what was read from the cache or written to it; output counts exclude the reasoning, unless
//! the total says otherwise.
//!
//! # Divergence from the real API
//!
//! System prompt, tool definitions and sub-agents' sessions are not in the export. The request that writes the
//! summary of a compaction has a system prompt of its own and shares no cache with the others: it becomes a
//! session by itself, of which only the usage is known (docs/decisions.md 36). Files that a prompt names are the text that the client
//! put in for them.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::document;
use super::image;
use super::money;
use super::value::{self, Counts, chars, flag, items, text, time_ms};
use crate::transcript::{Content, EventKind, Notice, ResultPart, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "opencode";

/// Fields of a part's metadata, under any provider's name, that make its reasoning a signed one.
const SIGNATURES: &[&str] =
    &["signature", "reasoningEncryptedContent", "reasoningOpaque", "redactedData", "thoughtSignature"];

/// Whether the first fields of a document are those of an export.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let info = object.get("info");
    object.contains_key("messages") && info.is_some_and(|info| text(info, "id").starts_with("ses"))
}

/// Reads an export.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut reader = Reader::default();
    for document in &documents {
        reader.head(document.get("info").unwrap_or(&Value::Null));
        for message in items(document, "messages") {
            reader.message(message, &mut notices);
        }
    }
    let mut transcripts = reader.conversation.finish(NAME, notices, label)?;
    for summarizer in reader.summarizers {
        transcripts.extend(summarizer.finish(NAME, Vec::new(), label)?);
    }
    Ok(transcripts)
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    /// Number of the message.
    number: u64,
    /// Ids of the messages so far.
    seen: BTreeSet<String>,
    /// Results that were cleared at a time.
    cleared: Vec<(i64, String)>,
    /// Requests for the summary of a compaction.
    summarizers: Vec<Conversation>,
    /// A compaction was asked for: whether by the client.
    compaction: Option<bool>,
}

impl Reader {
    fn head(&mut self, info: &Value) {
        let head = &mut self.conversation.transcript;
        if head.session_id.is_empty() {
            text(info, "id").clone_into(&mut head.session_id);
            text(info, "version").clone_into(&mut head.agent_version);
            head.parent_session_id = Some(text(info, "parentID").to_owned()).filter(|p| !p.is_empty());
        }
    }

    fn message(&mut self, message: &Value, notices: &mut Vec<Notice>) {
        self.number += 1;
        let info = message.get("info").unwrap_or(&Value::Null);
        let id = text(info, "id");
        // A message that is there twice.
        if !id.is_empty() && !self.seen.insert(id.to_owned()) {
            return;
        }
        let created = info.pointer("/time/created");
        let at = At { line: self.number, ms: time_ms(created) };
        let parts = items(message, "parts");
        match text(info, "role") {
            "user" => self.user(at, parts),
            "assistant" => self.assistant(at, info, parts, notices),
            _ => {}
        }
    }

    fn user(&mut self, at: At, parts: &[Value]) {
        if let Some(part) = parts.iter().find(|part| text(part, "type") == "compaction") {
            self.compaction = Some(flag(part, "auto"));
        }
        let sent = |part: &&Value| !flag(part, "ignored");
        let is_typed = |part: &&Value| !flag(part, "synthetic");
        let (typed, put_in): (Vec<&Value>, Vec<&Value>) = parts.iter().filter(sent).partition(is_typed);
        let content = |parts: Vec<&Value>| parts.into_iter().filter_map(user_part).collect();
        self.conversation.input(at, content(typed), false);
        self.conversation.input(at, content(put_in), true);
    }

    fn assistant(&mut self, at: At, info: &Value, parts: &[Value], notices: &mut Vec<Notice>) {
        self.clear_results(at);
        let is_finish = |part: &Value| text(part, "type") == "step-finish";
        if parts.iter().filter(|part| is_finish(part)).count() <= 1 {
            self.step(at, info, info, parts, text(info, "id"), notices);
            return;
        }
        for (index, step) in parts.split_inclusive(is_finish).enumerate() {
            // What follows the last step was broken off, or is no part of an answer.
            let billed = step.last().filter(|part| is_finish(part)).unwrap_or(&Value::Null);
            let id = text(info, "id");
            let id = if index == 0 { id.to_owned() } else { format!("{id}-{index}") };
            self.step(at, info, billed, step, &id, notices);
        }
    }

    /// One request: `billed` has its tokens.
    fn step(
        &mut self,
        at: At,
        info: &Value,
        billed: &Value,
        parts: &[Value],
        id: &str,
        notices: &mut Vec<Notice>,
    ) {
        let mut counts = Counts::default();
        let usage = usage(billed.get("tokens").unwrap_or(&Value::Null), &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let usage = counts.finish(usage);
        let content: Vec<Content> = parts.iter().filter_map(assistant_part).collect();
        // Never answered, never billed.
        if content.is_empty() && usage.is_none() && !counts.is_bad() {
            return;
        }
        let ended = time_ms(info.pointer("/time/completed"));
        let answered = At { line: at.line, ms: ended.or(at.ms) };
        let is_summary = flag(info, "summary");
        let conversation = if is_summary { self.summarizer() } else { &mut self.conversation };
        conversation.open_response(at, id, text(info, "modelID"));
        if let Some(response) = conversation.last_response() {
            response.last_at_ms = ended.max(at.ms);
            response.usage = usage;
            response.output_is_final = usage.is_some() && info.get("error").is_none();
            response.recorded_cost_pusd = money::pusd(billed.get("cost"));
            if !is_summary {
                response.content = content;
            } else if !content.is_empty() {
                let automatic = self.compaction.take().unwrap_or(true);
                let kind = EventKind::Compaction { automatic, pre_tokens: None, post_tokens: None };
                self.conversation.event(answered, kind);
                self.conversation.input(answered, content.iter().map(value::as_text).collect(), true);
            }
        }
        for part in parts {
            if let Some((result, ended, cleared)) = result(part) {
                let at = At { line: at.line, ms: ended.or(answered.ms) };
                if let (Content::ToolResult { call_id, .. }, Some(ms)) = (&result, cleared) {
                    self.cleared.push((ms, call_id.clone()));
                }
                self.conversation.input(at, vec![result], false);
            }
        }
    }

    /// A session for one more request for a summary.
    fn summarizer(&mut self) -> &mut Conversation {
        let main = &self.conversation.transcript;
        let id = format!("{}-compaction-{}", main.session_id, self.summarizers.len() + 1);
        let mut summarizer = Conversation::default();
        summarizer.transcript.session_id = id;
        summarizer.transcript.parent_session_id = Some(main.session_id.clone());
        summarizer.transcript.agent_version.clone_from(&main.agent_version);
        self.summarizers.push_mut(summarizer)
    }

    /// Results that were cleared before a request of this time.
    fn clear_results(&mut self, at: At) {
        let Some(now) = at.ms else { return };
        let before = self.cleared.extract_if(.., |(ms, _)| *ms <= now);
        let call_ids: Vec<String> = before.map(|(_, id)| id).collect();
        if !call_ids.is_empty() {
            self.conversation.event(at, EventKind::ResultsCleared { call_ids, tokens_saved: None });
        }
    }
}

fn usage(tokens: &Value, counts: &mut Counts) -> Usage {
    let cache = tokens.get("cache").unwrap_or(&Value::Null);
    let (input, output) = (counts.field(tokens, "input"), counts.field(tokens, "output"));
    let (read, written) = (counts.field(cache, "read"), counts.field(cache, "write"));
    let (reasoning, total) = (counts.field(tokens, "reasoning"), counts.field(tokens, "total"));
    let is_inside = total > 0 && total == input + read + written + output;
    Usage {
        uncached_tokens: input,
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens: if is_inside { output } else { output + reasoning },
    }
}

fn user_part(part: &Value) -> Option<Content> {
    match text(part, "type") {
        "text" => Some(Content::Text(text(part, "text").to_owned())),
        "file" if text(part, "mime").starts_with("image/") => {
            Some(Content::Image(image::describe(text(part, "url"))))
        }
        // A text file's content follows as a part of its own; other kinds stand here whole.
        "file" if text(part, "url").starts_with("data:") && text(part, "mime") != "text/plain" => {
            Some(Content::Text(text(part, "url").to_owned()))
        }
        "subtask" => Some(Content::Text(text(part, "prompt").to_owned())),
        _ => None,
    }
}

fn assistant_part(part: &Value) -> Option<Content> {
    match text(part, "type") {
        "text" => Some(Content::Text(text(part, "text").to_owned())),
        "reasoning" => {
            let by_provider = part.get("metadata").and_then(Value::as_object);
            let fields = by_provider.into_iter().flat_map(Map::values);
            let signature = fields.flat_map(|f| SIGNATURES.iter().map(|name| text(f, name)));
            Some(Content::Thinking {
                text: text(part, "text").to_owned(),
                signature_chars: signature.map(chars).max().unwrap_or(0),
                redacted: false,
            })
        }
        "tool" => Some(Content::ToolUse {
            id: text(part, "callID").to_owned(),
            name: text(part, "tool").to_owned(),
            input: part.pointer("/state/input").map_or_else(|| "{}".to_owned(), Value::to_string),
        }),
        _ => None,
    }
}

/// The result inside of a call that ended: when it did, and when it was cleared.
fn result(part: &Value) -> Option<(Content, Option<i64>, Option<i64>)> {
    let state = part.get("state").filter(|_| text(part, "type") == "tool")?;
    let status = text(state, "status");
    let mut parts = match status {
        "completed" => vec![ResultPart::Text(text(state, "output").to_owned())],
        "error" => vec![ResultPart::Text(text(state, "error").to_owned())],
        _ => return None,
    };
    let images = items(state, "attachments").iter().filter(|file| text(file, "mime").starts_with("image/"));
    parts.extend(images.map(|file| ResultPart::Image(image::describe(text(file, "url")))));
    let call_id = text(part, "callID").to_owned();
    let time = |name: &str| time_ms(state.get("time").and_then(|t| t.get(name)));
    Some((
        Content::ToolResult { call_id, parts, is_error: status == "error" },
        time("end"),
        time("compacted"),
    ))
}
