//! SWE-agent and mini-SWE-agent: trajectories, one JSON document per task (spec/formats.md section 6).
//!
//! Both keep the whole linear history with its system prompt. mini-SWE-agent stores the provider's response
//! with each answer, usage included; SWE-agent only totals, so its requests are without usage. Its newer versions keep
//! with each step what was sent, and then that is read (`queries`): it has the answers that could not be used, and
//! shows what history processors left out. Where the model writes its command as a fenced block, the block is a call
//! and the next message its result (docs/decisions.md 38). Of a task that was tried several times each attempt is a
//! session.
//!
//! # Divergence from the real API
//!
//! Fences and the words around a command are not counted. What history processors left out of a prompt is not known
//! where the prompts are not recorded. Reasoning that a provider of mini-SWE-agent returned is not sent again. What
//! the requests that judge attempts cost is in no session.

mod queries;

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use self::queries::Queries;

use super::conversation::{At, Conversation};
use super::value::{self, Counts, flag, items, text};
use super::{chat, document, inclusive, money};
use crate::transcript::{Content, Notice, Transcript};
use crate::{Error, Result};

/// Name of the format of SWE-agent.
pub const NAME: &str = "swe-agent";

/// Name of the format of mini-SWE-agent.
pub const MINI_NAME: &str = "mini-swe-agent";

/// Tool that commands in fenced blocks are calls of.
const SHELL: &str = "bash";

/// Whether the first fields of a document are those of SWE-agent. Newer versions begin with the list of steps, or of
/// attempts, which may be longer than what is looked at.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let is_cut_off = |list: &Value| list.is_null() && object.len() == 1;
    let is_list = |name: &str, field: &str| {
        let first = |list: &Value| list.as_array().and_then(|list| list.first()?.get(field)).is_some();
        object.get(name).is_some_and(|list| is_cut_off(list) || first(list))
    };
    let has_either = object.contains_key("environment") || object.contains_key("history");
    (object.contains_key("trajectory") && has_either)
        || is_list("trajectory", "observation")
        || is_list("attempts", "trajectory")
}

/// Whether the first fields of a document are those of mini-SWE-agent.
pub fn recognise_mini(object: &Map<String, Value>) -> bool {
    let info = object.get("info").is_some_and(|info| info.get("mini_version").is_some());
    let format = object.get("trajectory_format").and_then(Value::as_str);
    // Before version 1 there is nothing around the messages: the first one is the agent's own instruction.
    let is_system = object.get("role").and_then(Value::as_str) == Some("system");
    let content = object.get("content").and_then(Value::as_str).filter(|_| is_system);
    let is_bare = content.is_some_and(|text| text.contains("exactly ONE bash code block"));
    info || is_bare || format.is_some_and(|format| format.starts_with("mini-swe-agent"))
}

/// Reads a trajectory of SWE-agent.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = documents(source, &mut notices, label)?;
    let (mut queries, mut histories) = (Queries::default(), Vec::new());
    for document in &documents {
        // The attempt that was chosen stands beside the others once more.
        let attempts = items(document, "attempts");
        let attempts = if attempts.is_empty() { std::slice::from_ref(document) } else { attempts };
        for (number, attempt) in (1..).zip(attempts) {
            let mut reader = Reader::of(attempt, label);
            if attempts.len() > 1 {
                reader.conversation.transcript.session_id += &format!("-attempt-{number}");
            }
            if !queries.add(&reader, attempt) {
                reader.messages(asked_for(attempt), &mut notices);
                histories.push(reader.conversation);
            }
        }
    }
    histories.retain(|conversation| conversation.responses() > 0);
    let mut transcripts = Vec::new();
    if !queries.is_empty() {
        transcripts = queries.finish(std::mem::take(&mut notices), label)?;
    }
    if !histories.is_empty() || transcripts.is_empty() {
        transcripts.extend(Conversation::finish_all(histories, NAME, notices, label)?);
    }
    Ok(transcripts)
}

/// Reads a trajectory of mini-SWE-agent; before version 1 it is the bare list of messages.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_mini(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = documents(source, &mut notices, label)?;
    let read = |document: &Value| {
        let mut reader = Reader::of(document, label);
        let messages = document.as_array().map_or_else(|| items(document, "messages"), Vec::as_slice);
        reader.messages(messages, &mut notices);
        reader.conversation
    };
    let conversations: Vec<Conversation> = documents.iter().map(read).collect();
    Conversation::finish_all(conversations, MINI_NAME, notices, label)
}

/// The history without the words of the client's own that end it when it gives up.
fn asked_for(attempt: &Value) -> &[Value] {
    let history = items(attempt, "history");
    let gave_up = attempt.pointer("/info/exit_status").and_then(Value::as_str);
    let is_end = |message: &Value| {
        text(message, "role") == "assistant" && text(message, "content").starts_with("Exit due to")
    };
    match history.iter().rposition(is_end) {
        Some(end) if gave_up.is_some_and(|status| status.contains("exit_")) => &history[..end],
        _ => history,
    }
}

fn documents(source: &mut dyn BufRead, notices: &mut Vec<Notice>, label: &Path) -> Result<Vec<Value>> {
    document::read(source, notices).map_err(|source| Error::Io { path: label.to_owned(), source })
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    model: String,
    /// The command that the next message answers.
    open_command: Option<String>,
}

impl Reader {
    fn of(document: &Value, label: &Path) -> Reader {
        let mut reader = Reader::default();
        let head = &mut reader.conversation.transcript;
        let stem = label.file_name().unwrap_or_default().to_string_lossy();
        let stem = stem.split('.').next().unwrap_or_default();
        let id = Some(text(document, "instance_id")).filter(|id| !id.is_empty());
        id.unwrap_or(stem).clone_into(&mut head.session_id);
        let info = document.get("info").unwrap_or(&Value::Null);
        let version = ["mini_version", "swe_agent_version"].map(|name| text(info, name));
        head.agent_version = version.concat();
        head.recorded_cost_pusd = money::pusd(info.pointer("/model_stats/instance_cost"));
        let model = info.pointer("/config/model/model_name").and_then(Value::as_str);
        // A document of its own, as text.
        let replay = serde_json::from_str::<Value>(text(document, "replay_config")).unwrap_or_default();
        let replayed = replay.pointer("/agent/model/name").and_then(Value::as_str);
        model.or(replayed).unwrap_or_default().clone_into(&mut reader.model);
        reader
    }

    fn messages(&mut self, messages: &[Value], notices: &mut Vec<Notice>) {
        for (number, message) in (1..).zip(messages) {
            self.message(number, message, notices);
        }
    }

    fn message(&mut self, number: u64, message: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: None };
        match text(message, "role") {
            _ if flag(message, "is_demo") => self.conversation.input(at, demonstration(message), true),
            "system" if self.conversation.transcript.system.is_none() => {
                self.conversation.transcript.system = Some(text(message, "content").to_owned());
            }
            "assistant" => self.response(at, message, notices),
            "tool" => self.tool_result(at, message),
            "exit" => {}
            _ => self.user(at, message),
        }
    }

    fn user(&mut self, at: At, message: &Value) {
        if let Some(call_id) = self.open_command.take() {
            self.conversation.input(at, vec![chat::result(message, call_id)], false);
            return;
        }
        // Behind the first answer the client speaks, not the user.
        let injected = self.conversation.responses() > 0;
        self.conversation.input(at, chat::content(message), injected);
    }

    fn tool_result(&mut self, at: At, message: &Value) {
        self.conversation.input(at, vec![chat::result(message, call_id(message).to_owned())], false);
    }

    fn response(&mut self, at: At, message: &Value, notices: &mut Vec<Notice>) {
        let response = message.pointer("/extra/response").unwrap_or(&Value::Null);
        let mut counts = Counts::default();
        let usage =
            inclusive::usage(&inclusive::CHAT, response.get("usage").unwrap_or(&Value::Null), &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let usage = counts.finish(usage);
        let cost = message.pointer("/extra/cost").or_else(|| response.pointer("/usage/cost"));
        let cost = money::pusd(cost);
        let model = Some(text(response, "model")).filter(|model| !model.is_empty()).unwrap_or(&self.model);
        // In seconds.
        let ms = response.get("created").and_then(Value::as_u64).filter(|s| *s < 1 << 36);
        let at = At { ms: ms.and_then(|s| i64::try_from(s * 1000).ok()), ..at };
        self.conversation.open_response(at, text(response, "id"), model);
        let content = self.content(message, response);
        if let Some(response) = self.conversation.last_response() {
            response.content = content;
            response.usage = usage;
            response.output_is_final = usage.is_some();
            response.recorded_cost_pusd = cost;
        }
    }

    fn content(&mut self, message: &Value, response: &Value) -> Vec<Content> {
        let mut content = Vec::new();
        let reasoning = response.pointer("/choices/0/message/reasoning").and_then(Value::as_str);
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            content.push(Content::Thinking { text: text.to_owned(), signature_chars: 0, redacted: false });
        }
        let said = said(message, |_| format!("command-{}", self.conversation.responses()));
        self.open_command = said.command_id;
        content.extend(said.content);
        content
    }
}

/// A message of another task, shown as an example.
fn demonstration(message: &Value) -> Vec<Content> {
    chat::content(message).into_iter().chain(chat::calls(message).map(|call| value::as_text(&call))).collect()
}

/// Id of the call that a message answers.
fn call_id(message: &Value) -> &str {
    match text(message, "tool_call_id") {
        "" => items(message, "tool_call_ids").first().and_then(Value::as_str).unwrap_or_default(),
        id => id,
    }
}

/// What an answer says.
struct Said {
    content: Vec<Content>,
    /// Id of the call that a fenced command is; the next message is its result.
    command_id: Option<String>,
}

/// What an assistant message says; a command in it gets the id that `id_of` gives.
fn said(message: &Value, id_of: impl FnOnce(&str) -> String) -> Said {
    let thinking = |block: &Value| Content::Thinking {
        text: text(block, "thinking").to_owned(),
        signature_chars: value::chars(text(block, "signature")),
        redacted: text(block, "type") == "redacted_thinking",
    };
    let mut content: Vec<Content> = items(message, "thinking_blocks").iter().map(thinking).collect();
    let has_calls = !items(message, "tool_calls").is_empty();
    let command = match text(message, "action") {
        "" => chat::fenced(text(message, "content")),
        action => Some((text(message, "thought").to_owned(), action.to_owned())),
    };
    let Some((thought, command)) = command.filter(|_| !has_calls) else {
        content.extend(chat::content(message));
        content.extend(chat::calls(message));
        return Said { content, command_id: None };
    };
    let id = id_of(&command);
    content.push(Content::Text(thought));
    content.push(Content::ToolUse { id: id.clone(), name: SHELL.to_owned(), input: command });
    Said { content, command_id: Some(id) }
}
