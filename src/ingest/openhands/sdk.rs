//! Events of OpenHands' SDK, one JSON document each, and the state beside them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{Kept, Metrics};
use crate::ingest::conversation::{At, Conversation};
use crate::ingest::money;
use crate::ingest::value::{self, chars, items, text, time_ms};
use crate::transcript::{Content, EventKind, Notice, ToolText};

/// What events are called.
pub(super) const KINDS: &[&str] = &[
    "SystemPromptEvent",
    "MessageEvent",
    "ActionEvent",
    "ObservationEvent",
    "UserRejectObservation",
    "AgentErrorEvent",
    "Condensation",
    "CondensationRequest",
    "CondensationSummaryEvent",
    "ConversationStateUpdateEvent",
    "ConversationErrorEvent",
    "PauseEvent",
    "TokenEvent",
];

/// Reads the events of one conversation, in the order of `documents`; a document without a kind is its state.
pub(super) fn read(documents: &[Value], label: &Path, notices: &mut Vec<Notice>) -> Vec<Conversation> {
    let mut reader = Reader::default();
    let events = documents
        .iter()
        .flat_map(|document| document.as_array().map_or(std::slice::from_ref(document), Vec::as_slice));
    let events: Vec<&Value> = events.collect();
    for event in &events {
        match text(event, "kind") {
            "" => reader.state(event, notices),
            "ConversationStateUpdateEvent" if text(event, "key") == "stats" => {
                reader.stats(event.get("value").unwrap_or(&Value::Null), notices);
            }
            "ConversationStateUpdateEvent" if text(event, "key") == "full_state" => {
                reader.state(event.get("value").unwrap_or(&Value::Null), notices);
            }
            _ => {}
        }
    }
    for (number, event) in (1..).zip(events) {
        reader.event(At { line: number, ms: time_ms(event.get("timestamp")) }, event);
    }
    let head = &mut reader.conversation.transcript;
    if head.session_id.is_empty() {
        head.session_id = super::name_of(label);
    }
    let others: Vec<Conversation> = reader.metrics.others(&reader.conversation.transcript).collect();
    std::iter::once(reader.conversation).chain(others).collect()
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    metrics: Metrics,
    kept: Kept,
    model: String,
    response_id: String,
    seen: BTreeSet<String>,
}

impl Reader {
    fn state(&mut self, state: &Value, notices: &mut Vec<Notice>) {
        let head = &mut self.conversation.transcript;
        text(state, "id").clone_into(&mut head.session_id);
        let model = state.pointer("/agent/llm/model").and_then(Value::as_str);
        model.unwrap_or_default().clone_into(&mut self.model);
        self.stats(state.get("stats").unwrap_or(&Value::Null), notices);
    }

    /// Metrics by what the model was used for; later ones hold all of the earlier.
    fn stats(&mut self, stats: &Value, notices: &mut Vec<Notice>) {
        let by_use = ["usage_to_metrics", "service_to_metrics"].iter().find_map(|name| stats.get(*name));
        let mut cost = None;
        for metrics in by_use.and_then(Value::as_object).into_iter().flat_map(|by_use| by_use.values()) {
            self.metrics.add(metrics, notices);
            money::add(&mut cost, money::pusd(metrics.get("accumulated_cost")));
        }
        let head = &mut self.conversation.transcript;
        head.recorded_cost_pusd = cost.or(head.recorded_cost_pusd);
    }

    fn event(&mut self, at: At, event: &Value) {
        let id = text(event, "id");
        // An event that is there twice.
        if !id.is_empty() && !self.seen.insert(id.to_owned()) {
            return;
        }
        match text(event, "kind") {
            "SystemPromptEvent" => self.system(event),
            "MessageEvent" => self.message(at, event),
            "ActionEvent" => {
                let mut content = thoughts(event);
                content.extend(value::user_content(event.get("thought").unwrap_or(&Value::Null)));
                content.push(call(event));
                self.output(at, event, content);
            }
            "ObservationEvent" => {
                let observation = event.get("observation").unwrap_or(&Value::Null);
                let content = ["content", "output", "text"].iter().find_map(|name| observation.get(*name));
                let is_error = value::flag(observation, "is_error")
                    || observation.get("error").is_some_and(Value::is_string);
                self.result(at, event, content.unwrap_or(observation), is_error);
            }
            "AgentErrorEvent" => self.result(at, event, event.get("error").unwrap_or(&Value::Null), true),
            "UserRejectObservation" => {
                self.result(at, event, event.get("rejection_reason").unwrap_or(&Value::Null), true);
            }
            "Condensation" => self.condensation(at, event),
            _ => {}
        }
    }

    fn system(&mut self, event: &Value) {
        let prompt = event.get("system_prompt").unwrap_or(&Value::Null);
        let tool = |tool: &Value| ToolText {
            name: tool
                .pointer("/function/name")
                .and_then(Value::as_str)
                .unwrap_or_else(|| text(tool, "name"))
                .to_owned(),
            json: tool.to_string(),
        };
        let head = &mut self.conversation.transcript;
        head.system = prompt.as_str().or_else(|| prompt.get("text")?.as_str()).map(str::to_owned);
        head.tools = items(event, "tools").iter().map(tool).collect();
    }

    fn message(&mut self, at: At, event: &Value) {
        let message = event.get("llm_message").unwrap_or(&Value::Null);
        let content = value::user_content(message.get("content").unwrap_or(&Value::Null));
        if text(message, "role") == "assistant" {
            let mut answer = thoughts(message);
            answer.extend(content);
            self.output(at, event, answer);
            return;
        }
        let is_typed = text(event, "source") == "user";
        self.input(at, event, content, !is_typed);
        // Knowledge that a word of the prompt triggered.
        let extended = value::user_content(event.get("extended_content").unwrap_or(&Value::Null));
        self.conversation.input(at, extended, true);
    }

    /// One more part of a response, or the first of another.
    fn output(&mut self, at: At, event: &Value, content: Vec<Content>) {
        let response_id = text(event, "llm_response_id");
        if response_id.is_empty() || response_id != self.response_id {
            let billed = self.metrics.take(response_id);
            let model = if billed.model.is_empty() { &self.model } else { &billed.model };
            let id = if response_id.is_empty() { text(event, "id") } else { response_id };
            self.conversation.open_response(at, id, model);
            if let Some(response) = self.conversation.last_response() {
                response.usage = billed.usage;
                response.output_is_final = billed.usage.is_some();
                response.recorded_cost_pusd = billed.cost_pusd;
            }
        }
        response_id.clone_into(&mut self.response_id);
        self.kept.add(text(event, "id").to_owned(), &content);
        if let Some(response) = self.conversation.last_response() {
            // Events of one response may repeat its words.
            let new = content
                .into_iter()
                .filter(|c| matches!(c, Content::ToolUse { .. }) || !response.content.contains(c));
            let new: Vec<Content> = new.collect();
            response.content.extend(new);
            response.last_at_ms = response.last_at_ms.max(at.ms);
        }
    }

    fn result(&mut self, at: At, event: &Value, content: &Value, is_error: bool) {
        let call_id = text(event, "tool_call_id").to_owned();
        let result = Content::ToolResult { call_id, parts: value::result_parts(content), is_error };
        self.input(at, event, vec![result], false);
    }

    fn input(&mut self, at: At, event: &Value, content: Vec<Content>, injected: bool) {
        self.kept.add(text(event, "id").to_owned(), &content);
        self.conversation.input(at, content, injected);
    }

    fn condensation(&mut self, at: At, event: &Value) {
        let forgotten = items(event, "forgotten_event_ids");
        let kept = self.kept.forget(|id| forgotten.iter().any(|forgotten| forgotten.as_str() == Some(id)));
        let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
        self.conversation.event(at, kind);
        self.conversation.input(at, vec![Content::Text(text(event, "summary").to_owned())], true);
        self.conversation.input(at, kept, true);
    }
}

fn thoughts(event: &Value) -> Vec<Content> {
    let blocks = items(event, "thinking_blocks").iter().map(|block| Content::Thinking {
        text: text(block, "thinking").to_owned(),
        signature_chars: chars(text(block, "signature")).max(chars(text(block, "data"))),
        redacted: block.get("data").is_some(),
    });
    let mut blocks: Vec<Content> = blocks.collect();
    let reasoning = text(event, "reasoning_content");
    if blocks.is_empty() && !reasoning.is_empty() {
        let text = reasoning.to_owned();
        blocks.push(Content::Thinking { text, signature_chars: 0, redacted: false });
    }
    blocks
}

fn call(event: &Value) -> Content {
    let call = event.get("tool_call").unwrap_or(&Value::Null);
    let function = call.get("function").unwrap_or(call);
    let names = [text(function, "name"), text(event, "tool_name")];
    let ids = [text(event, "tool_call_id"), text(call, "id")];
    let arguments = function.get("arguments").or_else(|| event.get("action"));
    Content::ToolUse {
        id: ids.into_iter().find(|id| !id.is_empty()).unwrap_or_default().to_owned(),
        name: names.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned(),
        input: arguments
            .map_or_else(|| "{}".to_owned(), |a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)),
    }
}
