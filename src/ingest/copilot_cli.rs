//! Copilot CLI: one JSONL log of events per session (spec/formats.md section 14).
//!
//! One `assistant.message` is one request. The system prompt is an event; what the user typed is sent as
//! `transformedContent`. Events of a sub-agent stand among the others and name the call that started it: each
//! becomes a session of its own. A compaction states its summary, and what the request for it used, which
//! becomes a session too (docs/decisions.md 36).
//!
//! # Divergence from the real API
//!
//! Prompts are counted for a session as a whole, when it ends, so requests are without usage: totals of the
//! session's end are not shared out. Tool definitions are not recorded. Compactions, truncations, rewinds and
//! sub-agents were not checked against a recording; what a truncation removed is not named and stays.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::value::{self, Counts, chars, items, text, time_ms};
use super::{inclusive, json_lines};
use crate::transcript::{Content, EventKind, Notice, ResultPart, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "copilot-cli";

/// Types that one of the first events has.
const FIRST_TYPES: &[&str] =
    &["session.start", "session.resume", "system.message", "user.message", "assistant.message"];

/// Whether an object, parsed from one of the first lines, is an event of this format.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
    object.get("data").is_some_and(Value::is_object) && FIRST_TYPES.contains(&kind)
}

/// Reads a log: the session, its sub-agents, and the requests for summaries.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut reader = Reader::default();
    let mut notices = Vec::new();
    json_lines::for_each_value(source, &mut notices, |number, line, notices| {
        reader.line(number, line, notices);
    })
    .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut transcripts = reader.main.finish(NAME, notices, label)?;
    for other in reader.sub_agents.into_iter().map(|(_, c)| c).chain(reader.summarizers) {
        if other.responses() > 0 {
            transcripts.extend(other.finish(NAME, Vec::new(), label)?);
        }
    }
    Ok(transcripts)
}

#[derive(Default)]
struct Reader {
    main: Conversation,
    /// By the call that started them, in the order of their first events.
    sub_agents: Vec<(String, Conversation)>,
    summarizers: Vec<Conversation>,
    model: String,
    /// Ids of the events so far.
    seen: BTreeSet<String>,
    /// Responses of the session before each event.
    responses_before: BTreeMap<String, usize>,
    /// What calls told a sub-agent.
    prompts: BTreeMap<String, String>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: time_ms(line.get("timestamp")) };
        let data = line.get("data").unwrap_or(&Value::Null);
        let id = text(line, "id");
        // An event that is there twice.
        if !id.is_empty() && !self.seen.insert(id.to_owned()) {
            return;
        }
        self.responses_before.insert(id.to_owned(), self.main.responses());
        let kind = text(line, "type");
        match kind {
            "session.start" => self.start(data),
            "session.resume" => self.main.event_once(at, EventKind::Resumed),
            "session.model_change" => self.set_model(text(data, "newModel")),
            "session.compaction_complete" => self.compaction(at, data, notices),
            "session.snapshot_rewind" => self.rewind(at, text(data, "upToEventId")),
            "system.message" if self.main.transcript.system.is_none() => {
                self.main.transcript.system = Some(text(data, "content").to_owned());
            }
            _ => self.message(kind, at, data),
        }
    }

    fn start(&mut self, data: &Value) {
        let head = &mut self.main.transcript;
        if head.session_id.is_empty() {
            text(data, "sessionId").clone_into(&mut head.session_id);
            text(data, "copilotVersion").clone_into(&mut head.agent_version);
        }
        self.set_model(text(data, "selectedModel"));
    }

    fn set_model(&mut self, model: &str) {
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
    }

    fn message(&mut self, kind: &str, at: At, data: &Value) {
        if kind == "tool.execution_start" {
            let prompt = data.pointer("/arguments/prompt").and_then(Value::as_str);
            if let Some(prompt) = prompt {
                self.prompts.insert(text(data, "toolCallId").to_owned(), prompt.to_owned());
            }
            return;
        }
        let model =
            [text(data, "model"), &self.model].into_iter().find(|m| !m.is_empty()).unwrap_or_default();
        let model = model.to_owned();
        let conversation = match text(data, "parentToolCallId") {
            "" => &mut self.main,
            call => self.sub_agent(at, call),
        };
        match kind {
            "user.message" => {
                let sent = ["transformedContent", "content"].map(|name| text(data, name));
                let sent = sent.into_iter().find(|t| !t.is_empty()).unwrap_or_default();
                let injected = !matches!(text(data, "source"), "" | "user");
                conversation.input(at, vec![Content::Text(sent.to_owned())], injected);
            }
            "system.notification" => {
                conversation.input(at, vec![Content::Text(text(data, "content").to_owned())], true);
            }
            "tool.execution_complete" => conversation.input(at, vec![result(data)], false),
            "assistant.message" => response(conversation, at, data, &model),
            _ => {}
        }
    }

    /// The conversation of the sub-agent that call `call` started.
    fn sub_agent(&mut self, at: At, call: &str) -> &mut Conversation {
        if let Some(place) = self.sub_agents.iter().position(|(id, _)| id == call) {
            return &mut self.sub_agents[place].1;
        }
        let mut conversation = self.child(&format!("agent-{}", self.sub_agents.len() + 1));
        let prompt = self.prompts.get(call).cloned().unwrap_or_default();
        conversation.input(at, vec![Content::Text(prompt)], false);
        &mut self.sub_agents.push_mut((call.to_owned(), conversation)).1
    }

    /// A session that this one started.
    fn child(&self, name: &str) -> Conversation {
        let main = &self.main.transcript;
        let mut child = Conversation::default();
        child.transcript.session_id = format!("{}-{name}", main.session_id);
        child.transcript.parent_session_id = Some(main.session_id.clone());
        child.transcript.agent_version.clone_from(&main.agent_version);
        child
    }

    fn compaction(&mut self, at: At, data: &Value, notices: &mut Vec<Notice>) {
        if data.get("success").and_then(Value::as_bool) == Some(false) {
            return;
        }
        let used = data.get("compactionTokensUsed").unwrap_or(&Value::Null);
        let mut counts = Counts::default();
        let usage = inclusive::usage(&inclusive::COPILOT, used, &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        if let Some(usage) = counts.finish(usage) {
            let mut summarizer = self.child(&format!("compaction-{}", self.summarizers.len() + 1));
            let id = format!("{}-request", summarizer.transcript.session_id);
            let model = [text(used, "model"), &self.model].into_iter().find(|m| !m.is_empty());
            summarizer.open_response(at, &id, model.unwrap_or_default());
            if let Some(response) = summarizer.last_response() {
                response.usage = Some(usage);
                response.output_is_final = true;
            }
            self.summarizers.push(summarizer);
        }
        let tokens = |name: &str| Some(Counts::default().field(data, name)).filter(|t| *t > 0);
        let (pre_tokens, post_tokens) = (tokens("preCompactionTokens"), tokens("postCompactionTokens"));
        self.main.event(at, EventKind::Compaction { automatic: true, pre_tokens, post_tokens });
        self.main.input(at, vec![Content::Text(text(data, "summaryContent").to_owned())], true);
    }

    /// The event that is named, and all behind it, are gone.
    fn rewind(&mut self, at: At, event: &str) {
        let Some(kept) = self.responses_before.get(event).copied() else { return };
        let keep_responses = u32::try_from(kept).unwrap_or(u32::MAX);
        self.main.event(at, EventKind::Rewound { keep_responses });
    }
}

fn response(conversation: &mut Conversation, at: At, data: &Value, model: &str) {
    let ids = ["apiCallId", "messageId", "requestId"].map(|name| text(data, name));
    let id = ids.into_iter().find(|id| !id.is_empty()).unwrap_or_default();
    // One answer in several messages.
    let goes_on = conversation.last_response().is_some_and(|last| !id.is_empty() && last.id == id);
    if !goes_on {
        conversation.open_response(at, id, model);
    }
    let mut content = Vec::new();
    let (reasoning, signature) = (text(data, "reasoningText"), text(data, "reasoningOpaque"));
    if !reasoning.is_empty() || !signature.is_empty() {
        content.push(Content::Thinking {
            text: reasoning.to_owned(),
            signature_chars: chars(signature),
            redacted: false,
        });
    }
    content.push(Content::Text(text(data, "content").to_owned()));
    content.retain(|c| *c != Content::Text(String::new()));
    content.extend(items(data, "toolRequests").iter().map(|call| Content::ToolUse {
        id: text(call, "toolCallId").to_owned(),
        name: text(call, "name").to_owned(),
        input: call.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string),
    }));
    if let Some(response) = conversation.last_response() {
        response.content.extend(content);
        response.last_at_ms = response.last_at_ms.max(at.ms);
    }
}

fn result(data: &Value) -> Content {
    let failed = data.get("success").and_then(Value::as_bool) == Some(false);
    let texts = ["/result/content", "/error/message"].map(|path| data.pointer(path).and_then(Value::as_str));
    Content::ToolResult {
        call_id: text(data, "toolCallId").to_owned(),
        parts: texts.into_iter().flatten().take(1).map(|t| ResultPart::Text(t.to_owned())).collect(),
        is_error: failed,
    }
}
