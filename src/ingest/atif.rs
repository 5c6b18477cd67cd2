//! ATIF: trajectories in Harbor's interchange format, one JSON document (spec/formats.md section 12).
//!
//! An agent step with metrics is a request; its prompt count includes what was read from the cache. Results
//! stand in the step whose calls they answer. What a continuation copied from its forerunner is its first
//! input and no request of its own. A continuation in a file of its own (`continued_trajectory_ref` of its forerunner,
//! `continuation_index` of its agent) is a session too, and what it cost is the sum of its own steps, since its final
//! metrics count its forerunners and their summaries once more. Embedded trajectories of sub-agents are sessions that
//! name their parent.
//!
//! Converters may spread one answer over several steps that repeat its metrics. Steps with the same metrics
//! are one request if their times are equal too, or if the later one has no words of its own; and where such
//! a converter (of Claude Code, up to version 1.2) leaves what was written to the cache out of the prompt
//! count, it is added.
//!
//! # Divergence from the real API
//!
//! Requests of the client's own (summaries) are counted in the final metrics only, which are not read but for
//! their cost. Trajectories in other files are read on their own, without a link: a continuation begins with a cold
//! cache, though its first request may read the head of its forerunner's.

use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::conversation::{At, Conversation};
use super::value::{self, Counts, flag, items, text, time_ms};
use super::{document, inclusive, money};
use crate::transcript::{Content, EventKind, Notice, ToolText, Transcript};
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "atif";

/// Whether the first fields of a document are those of a trajectory.
pub fn recognise(object: &Map<String, Value>) -> bool {
    object.get("schema_version").and_then(Value::as_str).is_some_and(|version| version.starts_with("ATIF"))
}

/// Reads a trajectory, and those embedded in it.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut readers = Vec::new();
    // The parent of each that is still to be read.
    let mut open: Vec<(&Value, Option<String>)> = documents.iter().rev().map(|d| (d, None)).collect();
    while let Some((document, parent)) = open.pop() {
        let mut reader = Reader::of(document, parent, label);
        let id = reader.conversation.transcript.session_id.clone();
        for step in items(document, "steps") {
            reader.step(step, &mut notices);
        }
        readers.push(reader);
        open.extend(items(document, "subagent_trajectories").iter().rev().map(|sub| (sub, Some(id.clone()))));
    }
    let any = readers.iter().any(|reader| reader.conversation.responses() > 0);
    readers.retain(|reader| !any || reader.conversation.responses() > 0);
    let mut transcripts = Vec::new();
    for reader in readers {
        transcripts.extend(reader.conversation.finish(NAME, std::mem::take(&mut notices), label)?);
    }
    if transcripts.is_empty() {
        return Conversation::default().finish(NAME, notices, label);
    }
    Ok(transcripts)
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    model: String,
    /// Writes to the cache are not in the prompt count.
    leaves_out_written: bool,
    number: u64,
    /// Metrics and time of the last agent step.
    last: Option<(Value, Value)>,
}

impl Reader {
    fn of(document: &Value, parent: Option<String>, label: &Path) -> Reader {
        let agent = document.get("agent").unwrap_or(&Value::Null);
        let mut reader = Reader::default();
        let head = &mut reader.conversation.transcript;
        let stem = label.file_stem().unwrap_or_default().to_string_lossy();
        let ids = [text(document, "trajectory_id"), text(document, "session_id"), &*stem];
        ids.into_iter().find(|id| !id.is_empty()).unwrap_or_default().clone_into(&mut head.session_id);
        head.parent_session_id = parent;
        text(agent, "version").clone_into(&mut head.agent_version);
        let name = |tool: &Value| tool.pointer("/function/name").or_else(|| tool.get("name")).cloned();
        let tool = |tool: &Value| ToolText {
            name: name(tool).and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default(),
            json: tool.to_string(),
        };
        head.tools = items(agent, "tool_definitions").iter().map(tool).collect();
        let total = document.pointer("/final_metrics/total_cost_usd");
        let goes_on = agent.pointer("/extra/continuation_index").is_some();
        head.recorded_cost_pusd = money::pusd(total.filter(|_| !goes_on));
        text(agent, "model_name").clone_into(&mut reader.model);
        let is_old = ["ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2"].contains(&text(document, "schema_version"));
        reader.leaves_out_written = is_old && text(agent, "name").starts_with("claude");
        reader
    }

    fn step(&mut self, step: &Value, notices: &mut Vec<Notice>) {
        self.number += 1;
        let at = At { line: self.number, ms: time_ms(step.get("timestamp")) };
        let is_copied = flag(step, "is_copied_context");
        let content = value::user_content(step.get("message").unwrap_or(&Value::Null));
        match text(step, "source") {
            "agent" if is_copied => self.copied(at, content, step),
            "agent" => {
                self.agent(at, content, step, notices);
                self.results(at, step);
                return;
            }
            "system" => self.system(at, content, step, is_copied),
            _ => self.conversation.input(at, content, is_copied),
        }
        self.last = None;
    }

    /// An answer of the forerunner.
    fn copied(&mut self, at: At, mut content: Vec<Content>, step: &Value) {
        content.extend(calls(step).iter().map(value::as_text));
        content.extend(results(step).iter().map(value::as_text));
        self.conversation.input(at, content, true);
    }

    /// The first one is the system prompt; behind the first answer they are notes of the client.
    fn system(&mut self, at: At, content: Vec<Content>, step: &Value, is_copied: bool) {
        if step.pointer("/extra/context_management/type").and_then(Value::as_str) == Some("compaction") {
            let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
            self.conversation.event(at, kind);
        }
        let is_first = self.conversation.responses() == 0 && self.conversation.transcript.entries.is_empty();
        match content.first() {
            Some(Content::Text(text))
                if is_first && self.conversation.transcript.system.is_none() && !is_copied =>
            {
                self.conversation.transcript.system = Some(text.clone());
            }
            _ => self.conversation.input(at, content, true),
        }
    }

    fn agent(&mut self, at: At, content: Vec<Content>, step: &Value, notices: &mut Vec<Notice>) {
        let metrics = step.get("metrics").cloned().unwrap_or_default();
        let time = step.get("timestamp").cloned().unwrap_or_default();
        let calls = calls(step);
        if self.is_rest(&metrics, &time, step) {
            if let Some(response) = self.conversation.last_response() {
                // The converter's words for a call are not the model's.
                response.content.extend(calls);
                response.last_at_ms = response.last_at_ms.max(at.ms);
            }
            return;
        }
        let mut counts = Counts::default();
        let names = inclusive::ATIF.leaving_out_written(self.leaves_out_written);
        let usage = inclusive::usage(&names, &metrics, &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let model = Some(text(step, "model_name")).filter(|m| !m.is_empty()).unwrap_or(&self.model);
        let what = format!("{} {} {step}", self.conversation.transcript.session_id, at.line);
        self.conversation.open_response(at, &format!("step-{:016x}", xxh3_64(what.as_bytes())), model);
        if let Some(response) = self.conversation.last_response() {
            let reasoning = text(step, "reasoning_content");
            if !reasoning.is_empty() {
                let text = reasoning.to_owned();
                response.content.push(Content::Thinking { text, signature_chars: 0, redacted: false });
            }
            response.content.extend(content);
            response.content.extend(calls);
            response.usage = counts.finish(usage);
            response.output_is_final = response.usage.is_some();
            response.recorded_cost_pusd = money::pusd(metrics.get("cost_usd"));
        }
        self.last = Some((metrics, time));
    }

    /// Whether a step is one more part of the answer before it.
    fn is_rest(&self, metrics: &Value, time: &Value, step: &Value) -> bool {
        let Some((last_metrics, last_time)) = &self.last else { return false };
        let is_same_time = !time.is_null() && time == last_time;
        let has_no_words = !calls(step).is_empty()
            && (text(step, "message").is_empty() || text(step, "message").starts_with("Executed "));
        metrics.is_object() && metrics == last_metrics && (is_same_time || has_no_words)
    }

    fn results(&mut self, at: At, step: &Value) {
        for result in results(step) {
            // What answers no call is a note of the client.
            let injected = !matches!(result, Content::ToolResult { .. });
            self.conversation.input(at, vec![result], injected);
        }
    }
}

fn calls(step: &Value) -> Vec<Content> {
    let call = |call: &Value| Content::ToolUse {
        id: text(call, "tool_call_id").to_owned(),
        name: text(call, "function_name").to_owned(),
        input: call.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string),
    };
    items(step, "tool_calls").iter().map(call).collect()
}

/// What a step observed: results of its calls, or texts.
fn results(step: &Value) -> Vec<Content> {
    let results = step.get("observation").map_or(&[][..], |observation| items(observation, "results"));
    let result = |result: &Value| {
        let content = result.get("content").unwrap_or(&Value::Null);
        match text(result, "source_call_id") {
            "" => value::user_content(content),
            call_id => vec![Content::ToolResult {
                call_id: call_id.to_owned(),
                parts: value::result_parts(content),
                is_error: false,
            }],
        }
    };
    results.iter().flat_map(result).collect()
}
