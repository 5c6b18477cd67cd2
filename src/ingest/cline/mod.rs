//! Cline and Roo: a folder per task, of which `api_conversation_history.json` has the messages and
//! `ui_messages.json` beside it the times and the usage (spec/formats.md section 10). Both are one recording.
//!
//! One assistant message is one request. Its usage is that of the last `api_req_started` before it; earlier
//! ones with usage were billed too and are requests without an answer. Input counts exclude what was read
//! from the cache or written to it; newer Roo, which names its `apiProtocol`, counts all of it. Older
//! versions have the model write its calls as XML in the text: the last one is a call, and what the client
//! says of it in the next message the result (docs/decisions.md 38).
//!
//! A truncation is known by a changed `conversationHistoryDeletedRange`, a condensed history by its summary.
//!
//! # Divergence from the real API
//!
//! Not checked against a recording. System prompt and tool definitions are not recorded, nor is what
//! triggered a compaction: each counts as automatic. What a compaction keeps is put in as plain text.

mod content;
mod ui;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::document;
use super::value::{self, text, time_ms};
use crate::transcript::{Content, EventKind, Notice, Transcript};
use crate::{Error, Result};
use ui::{Request, Ui};

/// Name of the format.
pub const NAME: &str = "cline";

/// What the first message of a task has in it: the task, or what is around it.
const OF_FIRST_MESSAGE: &[&str] = &["<task>", "<user_message>", "<environment_details>"];

/// Whether the first fields of a document, those of its first message, are of this format.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let role = object.get("role").and_then(Value::as_str);
    let texts = content::texts(object.get("content").unwrap_or(&Value::Null));
    role == Some("user") && texts.iter().any(|text| OF_FIRST_MESSAGE.iter().any(|mark| text.contains(mark)))
}

/// Reads a task.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let fail = |source| Error::Io { path: label.to_owned(), source };
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices).map_err(fail)?;
    let messages: Vec<Value> = documents
        .into_iter()
        .filter_map(|d| if let Value::Array(list) = d { Some(list) } else { None })
        .flatten()
        .collect();
    let folder = label.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut beside = |name: &str| match folder {
        Some(folder) => sibling(&folder.join(name), &mut notices),
        None => Vec::new(),
    };
    let ui = Ui::of(&beside("ui_messages.json"), &beside("task_metadata.json"));
    let history = beside("history_item.json");
    let name = folder.and_then(Path::file_name).or(label.file_stem()).unwrap_or_default();
    let mut reader = Reader::new(&messages, ui);
    let head = &mut reader.conversation.transcript;
    head.session_id = name.to_string_lossy().into_owned();
    head.parent_session_id =
        history.first().map(|item| text(item, "parentTaskId").to_owned()).filter(|id| !id.is_empty());
    reader.run();
    notices.append(&mut reader.notices);
    reader.conversation.finish(NAME, notices, label)
}

/// The documents in a file beside the recording; none where there is no such file.
fn sibling(path: &Path, notices: &mut Vec<Notice>) -> Vec<Value> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    document::read(&mut BufReader::new(file), notices).unwrap_or_default()
}

/// A point at which the history is replaced.
#[derive(Debug)]
struct Cut {
    /// Index of the message before which it happens.
    before: usize,
    at: At,
    tokens: (Option<u64>, Option<u64>),
    summary: Vec<Content>,
    /// Indexes of the messages that stay.
    kept: Vec<usize>,
}

struct Reader<'m> {
    messages: &'m [Value],
    ui: Ui,
    conversation: Conversation,
    notices: Vec<Notice>,
    /// Of a call that was written as XML: its id and its tool.
    open_xml: Option<(String, String)>,
}

impl<'m> Reader<'m> {
    fn new(messages: &'m [Value], ui: Ui) -> Reader<'m> {
        let (conversation, notices) = (Conversation::default(), Vec::new());
        Reader { messages, ui, conversation, notices, open_xml: None }
    }

    fn run(&mut self) {
        let requests = self.ui.assign(self.messages);
        let mut requests = requests.into_iter().peekable();
        let mut cuts = self.cuts().into_iter().peekable();
        for (index, message) in self.messages.iter().enumerate() {
            let mut own = None;
            while let Some(request) = requests.next_if(|request| request.message <= index) {
                // The last one is answered by the message.
                let is_last = requests.peek().is_none_or(|next| next.message > index);
                if is_last && text(message, "role") == "assistant" {
                    own = Some(request);
                } else {
                    self.unanswered(&request);
                }
            }
            while let Some(cut) = cuts.next_if(|cut| cut.before <= index) {
                self.cut(cut);
            }
            if is_summary(message) {
                continue;
            }
            match text(message, "role") {
                "assistant" => self.response(index, message, own),
                _ => self.user(self.at(index), message),
            }
        }
        for request in requests {
            self.unanswered(&request);
        }
    }

    fn at(&self, index: usize) -> At {
        At { line: index as u64 + 1, ms: time_ms(self.messages.get(index).and_then(|m| m.get("ts"))) }
    }

    /// Truncations, and histories that were condensed, in order.
    fn cuts(&self) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = Vec::new();
        for range in &self.ui.truncations {
            let before = range.message.min(self.messages.len());
            let kept = (0..before).filter(|i| !(range.from..=range.to).contains(i)).collect();
            let at = At { ms: range.at_ms, ..self.at(before) };
            cuts.push(Cut { before, at, tokens: (None, None), summary: Vec::new(), kept });
        }
        let mut condensed = self.ui.condensed.iter();
        let summaries = (0..self.messages.len()).filter(|i| is_summary(&self.messages[*i]));
        for (from, summary) in summaries.map(|i| (i + 1, &self.messages[i])) {
            let event = condensed.next();
            let at_ms = event.and_then(|e| e.at_ms);
            // What is kept stands behind the summary, though it was there before.
            let is_earlier = |i: &usize| self.at(*i).ms.zip(at_ms).is_some_and(|(ms, at)| ms < at);
            let before =
                (from..self.messages.len()).take_while(is_earlier).last().map_or(from, |last| last + 1);
            let marker = ["condenseId", "truncationId"].map(|name| text(summary, name));
            let marker = marker.into_iter().find(|id| !id.is_empty()).unwrap_or_default();
            let is_gone = |i: &usize| {
                let parents =
                    ["condenseParent", "truncationParent"].map(|name| text(&self.messages[*i], name));
                is_summary(&self.messages[*i]) || parents.iter().any(|p| !p.is_empty())
            };
            let kept = (0..before).filter(|i| !marker.is_empty() && !is_gone(i)).collect();
            let at = At { ms: at_ms.or(self.at(from - 1).ms), ..self.at(from - 1) };
            let summary = content::of_user(summary);
            let tokens = event.map_or((None, None), |e| (e.pre_tokens, e.post_tokens));
            cuts.push(Cut { before, at, tokens, summary, kept });
        }
        cuts.sort_by_key(|cut| cut.before);
        cuts
    }

    fn cut(&mut self, cut: Cut) {
        let kind =
            EventKind::Compaction { automatic: true, pre_tokens: cut.tokens.0, post_tokens: cut.tokens.1 };
        self.conversation.event(cut.at, kind);
        self.conversation.input(cut.at, cut.summary.iter().map(value::as_text).collect(), true);
        let kept = cut.kept.iter().map(|i| &self.messages[*i]);
        let kept = kept.flat_map(|message| match text(message, "role") {
            "assistant" => content::of_response(message),
            _ => content::of_user(message),
        });
        self.conversation.input(cut.at, kept.map(|c| value::as_text(&c)).collect(), true);
    }

    fn user(&mut self, at: At, message: &Value) {
        let mut content = content::of_user(message);
        if let Some((id, tool)) = self.open_xml.take() {
            content = content::with_xml_result(content, &id, &tool);
        }
        let (results, others): (Vec<Content>, Vec<Content>) =
            content.into_iter().partition(|c| matches!(c, Content::ToolResult { .. }));
        let answers = !results.is_empty();
        let (put_in, typed): (Vec<Content>, Vec<Content>) =
            others.into_iter().partition(|c| content::is_by_client(c, answers));
        self.conversation.input(at, results, false);
        self.conversation.input(at, typed, false);
        self.conversation.input(at, put_in, true);
    }

    fn response(&mut self, index: usize, message: &Value, request: Option<Request>) {
        let at = self.at(index);
        let started = request.as_ref().and_then(|request| request.at_ms);
        let model = match message.pointer("/modelInfo/modelId").and_then(Value::as_str) {
            Some(model) => model.to_owned(),
            None => self.ui.model_at(started.or(at.ms)),
        };
        let id = self.response_id(&format!("{}", index + 1));
        self.conversation.open_response(At { ms: started.or(at.ms), ..at }, &id, &model);
        let mut content = content::of_response(message);
        let call_id = format!("xml-{}", index + 1);
        self.open_xml = content::take_xml_call(&mut content, &call_id).map(|tool| (call_id, tool));
        let usage = request.as_ref().and_then(|request| self.usage_of(request));
        if let Some(response) = self.conversation.last_response() {
            response.content = content;
            response.last_at_ms = at.ms.max(started);
            response.usage = usage;
            response.output_is_final = usage.is_some();
            response.recorded_cost_pusd = request.and_then(|request| request.cost_pusd);
        }
    }

    /// A request that was billed and has no message of its own: it was retried, or broken off.
    fn unanswered(&mut self, request: &Request) {
        let Some(usage) = self.usage_of(request) else { return };
        let at = At { line: request.message as u64 + 1, ms: request.at_ms };
        let id = self.response_id(&format!("request-{}", request.number));
        let model = self.ui.model_at(request.at_ms);
        self.conversation.open_response(at, &id, &model);
        if let Some(response) = self.conversation.last_response() {
            response.usage = Some(usage);
            response.recorded_cost_pusd = request.cost_pusd;
        }
    }

    fn usage_of(&mut self, request: &Request) -> Option<crate::usage::Usage> {
        if request.is_bad {
            let line = request.message as u64 + 1;
            self.notices.push(Notice { line, reason: value::BAD_USAGE.to_owned() });
        }
        request.usage
    }

    fn response_id(&self, number: &str) -> String {
        format!("{}-{number}", self.conversation.transcript.session_id)
    }
}

/// Whether a message stands for others that were condensed or truncated.
fn is_summary(message: &Value) -> bool {
    ["isSummary", "isTruncationMarker"].iter().any(|name| value::flag(message, name))
}
