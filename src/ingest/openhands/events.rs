//! Event lists of OpenHands before its SDK.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Kept, Metrics};
use crate::ingest::conversation::{At, Conversation};
use crate::ingest::value::{self, Counts, chars, items, text, time_ms};
use crate::ingest::{chat, inclusive, money};
use crate::transcript::{Content, EventKind, Notice, ToolText};

/// Observations that are no part of the conversation.
const UNSENT: &[&str] = &["null", "agent_state_changed", "condense", "user_rejected_state"];

/// Reads the events of one conversation; `document` has the metrics, if anything has.
pub(super) fn read(
    events: &[&Value],
    document: &Value,
    session_id: &str,
    notices: &mut Vec<Notice>,
) -> Vec<Conversation> {
    let metrics = document.get("metrics").unwrap_or(&Value::Null);
    let mut reader = Reader::default();
    reader.metrics.add(metrics, notices);
    let model = document.pointer("/metadata/llm_config/model").and_then(Value::as_str);
    model.unwrap_or_default().clone_into(&mut reader.model);
    let mut main = Conversation::default();
    session_id.clone_into(&mut main.transcript.session_id);
    main.transcript.recorded_cost_pusd = money::pusd(metrics.get("accumulated_cost"));
    reader.open.push(Open { conversation: main, ..Open::default() });
    for (number, event) in (1..).zip(events) {
        reader.event(At { line: number, ms: time_ms(event.get("timestamp")) }, event, notices);
    }
    reader.finish()
}

/// A conversation that goes on: the main one, or one of an agent it delegated to.
#[derive(Default)]
struct Open {
    conversation: Conversation,
    kept: Kept,
    /// Model of the last response.
    model: String,
    seen: BTreeSet<String>,
    responses: BTreeSet<String>,
}

#[derive(Default)]
struct Reader {
    /// The innermost last.
    open: Vec<Open>,
    done: Vec<Conversation>,
    metrics: Metrics,
    model: String,
    /// Cost of all requests so far, as events state it.
    cost_pusd: u64,
}

impl Reader {
    fn event(&mut self, at: At, event: &Value, notices: &mut Vec<Notice>) {
        let Some(open) = self.open.last_mut() else { return };
        let id = event.get("id").map(Value::to_string).unwrap_or_default();
        // An event that is there twice.
        if !id.is_empty() && !open.seen.insert(id.clone()) {
            return;
        }
        let answer = event.pointer("/tool_call_metadata/model_response").filter(|answer| answer.is_object());
        if let Some(answer) = answer {
            self.response(at, &id, answer, event, notices);
        }
        match (text(event, "action"), text(event, "observation")) {
            ("", "") => {}
            ("", "delegate") => self.delegate_ends(at, &id, event),
            ("", observation) => self.observation(at, &id, observation, event),
            (action, _) => self.action(at, &id, action, event, answer.is_some()),
        }
    }

    /// The first event of a response brings all of it.
    fn response(&mut self, at: At, id: &str, answer: &Value, event: &Value, notices: &mut Vec<Notice>) {
        let Some(open) = self.open.last_mut() else { return };
        let response_id = text(answer, "id");
        if !response_id.is_empty() && !open.responses.insert(response_id.to_owned()) {
            return;
        }
        let billed = self.metrics.take(response_id);
        let mut counts = Counts::default();
        let listed = answer.get("usage").unwrap_or(&Value::Null);
        let usage = inclusive::usage(&inclusive::CHAT, listed, &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let models = [text(answer, "model"), &*billed.model, &*self.model];
        let model = models.into_iter().find(|model| !model.is_empty()).unwrap_or_default();
        model.clone_into(&mut open.model);
        let message = items(answer, "choices").first().and_then(|choice| choice.get("message"));
        let content = content_of(message.unwrap_or(&Value::Null));
        let total = money::pusd(event.pointer("/llm_metrics/accumulated_cost"));
        let cost = total.map(|total| total.saturating_sub(self.cost_pusd));
        self.cost_pusd = total.unwrap_or(self.cost_pusd);
        open.kept.add(id.to_owned(), &content);
        open.conversation.open_response(at, response_id, model);
        if let Some(response) = open.conversation.last_response() {
            response.content = content;
            response.usage = counts.finish(usage).or(billed.usage);
            response.output_is_final = response.usage.is_some();
            response.recorded_cost_pusd = billed.cost_pusd.or(cost);
        }
    }

    fn action(&mut self, at: At, id: &str, action: &str, event: &Value, has_response: bool) {
        let Some(open) = self.open.last_mut() else { return };
        let arguments = event.get("args").unwrap_or(&Value::Null);
        match (action, text(event, "source")) {
            ("system", _) => {
                let head = &mut open.conversation.transcript;
                head.system = Some(text(arguments, "content").to_owned()).filter(|s| !s.is_empty());
                let tool = |tool: &Value| ToolText {
                    name: tool.get("function").map_or("", |function| text(function, "name")).to_owned(),
                    json: tool.to_string(),
                };
                head.tools = items(arguments, "tools").iter().map(tool).collect();
                text(arguments, "openhands_version").clone_into(&mut head.agent_version);
            }
            ("condensation", _) => self.condensation(at, arguments),
            ("delegate", _) => {
                let task = arguments.pointer("/inputs/task").and_then(Value::as_str).unwrap_or_default();
                self.delegate(at, task);
            }
            // Nothing but a wish; its answer is an event of its own.
            ("message", "user") => {
                let mut content = vec![Content::Text(text(arguments, "content").to_owned())];
                let images = items(arguments, "image_urls").iter();
                content.extend(images.map(|url| value::user_block(&serde_json::json!({"image_url": url}))));
                open.kept.add(id.to_owned(), &content);
                open.conversation.input(at, content, false);
            }
            // An answer without calls: nothing is recorded of it but its text.
            ("message" | "finish", "agent") if !has_response => {
                let content = match action {
                    "message" => text(arguments, "content"),
                    _ => text(event, "message"),
                };
                let content = vec![Content::Text(content.to_owned())];
                open.kept.add(id.to_owned(), &content);
                let model = if self.model.is_empty() { &open.model } else { &self.model };
                open.conversation.open_response(at, &format!("event-{id}"), model);
                if let Some(response) = open.conversation.last_response() {
                    response.content = content;
                }
            }
            _ => {}
        }
    }

    fn observation(&mut self, at: At, id: &str, observation: &str, event: &Value) {
        let Some(open) = self.open.last_mut() else { return };
        let call_id = event.pointer("/tool_call_metadata/tool_call_id").and_then(Value::as_str);
        let content = event.get("content").unwrap_or(&Value::Null);
        let content = match (call_id, observation) {
            (Some(call_id), _) => vec![Content::ToolResult {
                call_id: call_id.to_owned(),
                parts: value::result_parts(content),
                is_error: observation == "error",
            }],
            (None, "recall") => recalled(event.get("extras").unwrap_or(&Value::Null)),
            (None, observation) if UNSENT.contains(&observation) => return,
            (None, _) => value::user_content(content),
        };
        open.kept.add(id.to_owned(), &content);
        open.conversation.input(at, content, call_id.is_none());
    }

    /// Events are forgotten by a list of ids, or by the first and last of them.
    fn condensation(&mut self, at: At, arguments: &Value) {
        let Some(open) = self.open.last_mut() else { return };
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
        let listed: BTreeSet<String> =
            items(arguments, "forgotten_event_ids").iter().map(Value::to_string).collect();
        let range = number("forgotten_events_start_id").zip(number("forgotten_events_end_id"));
        let kept = open.kept.forget(|id| {
            let in_range = |(from, to): (u64, u64)| id.parse().is_ok_and(|id: u64| (from..=to).contains(&id));
            range.is_some_and(in_range) || listed.contains(id)
        });
        let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
        open.conversation.event(at, kind);
        let summary = vec![Content::Text(text(arguments, "summary").to_owned())];
        open.conversation.input(at, summary, true);
        open.conversation.input(at, kept, true);
    }

    fn delegate(&mut self, at: At, task: &str) {
        let Some(parent) = self.open.first().map(|open| &open.conversation.transcript) else { return };
        let mut conversation = Conversation::default();
        let number = self.done.len() + self.open.len();
        conversation.transcript.session_id = format!("{}-delegate-{number}", parent.session_id);
        conversation.transcript.parent_session_id = Some(parent.session_id.clone());
        conversation.transcript.agent_version.clone_from(&parent.agent_version);
        conversation.input(at, vec![Content::Text(task.to_owned())], false);
        self.open.push(Open { conversation, ..Open::default() });
    }

    fn delegate_ends(&mut self, at: At, id: &str, event: &Value) {
        if self.open.len() > 1
            && let Some(open) = self.open.pop()
        {
            self.done.push(open.conversation);
        }
        self.observation(at, id, "delegate", event);
    }

    fn finish(mut self) -> Vec<Conversation> {
        let mut conversations: Vec<Conversation> =
            self.open.drain(..).map(|open| open.conversation).collect();
        conversations.append(&mut self.done);
        let others = conversations.first().map(|main| self.metrics.others(&main.transcript));
        let others: Vec<Conversation> = others.into_iter().flatten().collect();
        conversations.extend(others);
        conversations
    }
}

/// Content of an answer.
fn content_of(message: &Value) -> Vec<Content> {
    let thinking = items(message, "thinking_blocks").iter().map(|block| Content::Thinking {
        text: text(block, "thinking").to_owned(),
        signature_chars: chars(text(block, "signature")),
        redacted: text(block, "type") == "redacted_thinking",
    });
    let mut content: Vec<Content> = thinking.collect();
    let reasoning = text(message, "reasoning_content");
    if content.is_empty() && !reasoning.is_empty() {
        let text = reasoning.to_owned();
        content.push(Content::Thinking { text, signature_chars: 0, redacted: false });
    }
    content.extend(chat::content(message));
    content.extend(chat::calls(message));
    content
}

/// What was recalled for a prompt: instructions of the repository, and knowledge that a word triggered.
fn recalled(extras: &Value) -> Vec<Content> {
    let texts = ["repo_instructions", "additional_agent_instructions"].map(|name| text(extras, name));
    let knowledge = items(extras, "microagent_knowledge").iter().map(|item| text(item, "content"));
    texts.into_iter().chain(knowledge).map(|text| Content::Text(text.to_owned())).collect()
}
