//! Codex CLI: one JSONL rollout per session (spec/formats.md section 2).
//!
//! A request is a run of items that the model put out, up to the `token_count` that bills it. Older clients
//! write that count before the results of the calls and newer ones behind them, so results always belong to
//! the next request. A count is a request of its own only if the session's totals changed.
//!
//! Input counts include what was read from the cache, output counts the reasoning.
//!
//! # Divergence from the real API
//!
//! Of the tools only those that an application added are recorded; they are left out, as a part would be
//! taken for the whole. Remote compactions are requests whose usage is not recorded. What triggered a
//! compaction is not recorded either: each counts as automatic. Reasoning is signed whether or not its
//! ciphertext is still in the file; without it, it counts as one character (docs/decisions.md 35).

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::value::{self, Counts, chars, flag, items, text};
use super::{conversation, inclusive, json_lines};
use crate::transcript::{Content, EventKind, Notice, Transcript};
use crate::{Error, Result};
use conversation::{At, Conversation};

/// Name of the format.
pub const NAME: &str = "codex";

/// Line types of this format.
const LINE_TYPES: &[&str] =
    &["session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"];

/// Totals of a session by which a repeated count is known.
const TOTALS: &[&str] = &["input_tokens", "cached_input_tokens", "output_tokens", "total_tokens"];

/// Whether an object, parsed from one of the first lines, is a line of this format.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
    object.get("payload").is_some_and(Value::is_object) && LINE_TYPES.contains(&kind)
}

/// Reads a rollout.
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
    reader.conversation.finish(NAME, notices, label)
}

/// What the open response waits for.
#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is no open response.
    #[default]
    Closed,
    /// More items of it may come.
    Output,
    /// Its results came already, its count did not.
    Results,
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    stage: Stage,
    model: String,
    /// `total_token_usage` of the last count.
    totals: Option<Value>,
    /// Responses before each human turn.
    turns: Vec<usize>,
    /// Types and ids of the items so far.
    seen: BTreeSet<(String, String)>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: value::time_ms(line.get("timestamp")) };
        let Some(payload) = line.get("payload") else { return };
        match text(line, "type") {
            "session_meta" => self.session(at, payload),
            "turn_context" if !text(payload, "model").is_empty() => {
                text(payload, "model").clone_into(&mut self.model);
            }
            "response_item" => self.item(at, payload),
            "compacted" => self.compacted(at, payload),
            "event_msg" => match text(payload, "type") {
                "token_count" => self.count(at, payload, notices),
                "thread_rolled_back" => self.rolled_back(at, payload),
                _ => {}
            },
            _ => {}
        }
    }

    /// The first one heads the file. One more of the same session is a resume; others came with history
    /// that was copied from a parent.
    fn session(&mut self, at: At, meta: &Value) {
        let head = &mut self.conversation.transcript;
        if head.session_id.is_empty() {
            text(meta, "id").clone_into(&mut head.session_id);
            text(meta, "cli_version").clone_into(&mut head.agent_version);
            let instructions = meta.get("base_instructions").map(|i| text(i, "text")).unwrap_or_default();
            head.system = Some(instructions.to_owned()).filter(|s| !s.is_empty());
            let spawn =
                meta.pointer("/source/subagent/thread_spawn/parent_thread_id").and_then(Value::as_str);
            let parent = spawn.unwrap_or_else(|| text(meta, "parent_thread_id"));
            head.parent_session_id = Some(parent.to_owned()).filter(|p| !p.is_empty());
        } else if head.session_id == text(meta, "id") {
            self.conversation.event_once(at, EventKind::Resumed);
        }
    }

    fn item(&mut self, at: At, item: &Value) {
        let kind = text(item, "type");
        let id = [text(item, "call_id"), text(item, "id")].into_iter().find(|id| !id.is_empty());
        // An item that is there twice.
        if id.is_some_and(|id| !self.seen.insert((kind.to_owned(), id.to_owned()))) {
            return;
        }
        if kind == "message" && text(item, "role") != "assistant" {
            self.message(at, item);
        } else if kind.ends_with("_output") {
            let call_id = text(item, "call_id").to_owned();
            self.conversation.input(at, vec![result(call_id, item)], false);
            if self.stage == Stage::Output {
                self.stage = Stage::Results;
            }
        } else if kind == "agent_message" {
            self.conversation.input(at, content_of(item), true);
        } else {
            self.output(at, item);
        }
    }

    fn message(&mut self, at: At, item: &Value) {
        let content = content_of(item);
        let injected = text(item, "role") != "user" || content.iter().all(is_by_client);
        if !injected {
            self.turns.push(self.conversation.responses());
        }
        self.conversation.input(at, content, injected);
        if self.stage == Stage::Output {
            self.stage = Stage::Results;
        }
    }

    fn output(&mut self, at: At, item: &Value) {
        let content = output_of(item);
        if content.is_empty() && text(item, "type") != "message" {
            return;
        }
        if self.stage != Stage::Output {
            self.conversation.open_response(at, "", &self.model);
            self.stage = Stage::Output;
        }
        if let Some(response) = self.conversation.last_response() {
            if response.id.is_empty() {
                let ids = [text(item, "id"), text(item, "call_id")];
                ids.into_iter().find(|id| !id.is_empty()).unwrap_or_default().clone_into(&mut response.id);
            }
            response.content.extend(content);
            response.last_at_ms = response.last_at_ms.max(at.ms);
        }
    }

    fn count(&mut self, at: At, payload: &Value, notices: &mut Vec<Notice>) {
        let Some(info) = payload.get("info").filter(|info| info.is_object()) else { return };
        let (last, totals) = (&info["last_token_usage"], &info["total_token_usage"]);
        if totals.is_object() && self.totals.as_ref() == Some(totals) {
            return;
        }
        self.totals = Some(totals.clone());
        if self.stage == Stage::Closed {
            // Nothing of its answer was recorded: the request of a compaction, or of a review.
            self.conversation.open_response(at, "", &self.model);
        }
        self.stage = Stage::Closed;
        let mut counts = Counts::default();
        let usage = inclusive::usage(&inclusive::CODEX, last, &mut counts);
        // Without totals that can be, nobody knows whether this is the count of a new request.
        counts.reject_unless(TOTALS.iter().all(|name| value::is_total(totals.get(name))));
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        if let Some(response) = self.conversation.last_response() {
            response.usage = counts.finish(usage);
            response.output_is_final = response.usage.is_some();
            if response.id.is_empty() {
                // Items of older clients have no ids. Totals and content survive the copying of a fork.
                let what = format!("{totals} {:?}", response.content);
                response.id = format!("count-{:016x}", xxh3_64(what.as_bytes()));
            }
        }
    }

    /// The history becomes what is listed: messages that are kept, and a summary, often encrypted.
    fn compacted(&mut self, at: At, payload: &Value) {
        self.stage = Stage::Closed;
        let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
        self.conversation.event(at, kind);
        let history = items(payload, "replacement_history");
        let (summaries, kept): (Vec<&Value>, Vec<&Value>) =
            history.iter().partition(|item| text(item, "type").starts_with("compaction"));
        let mut summary = vec![Content::Text(text(payload, "message").to_owned())];
        summary.extend(summaries.iter().map(|s| Content::Text(text(s, "encrypted_content").to_owned())));
        self.conversation.input(at, summary, true);
        for item in kept {
            let content = match text(item, "type") {
                "message" => content_of(item),
                kind if kind.ends_with("_output") => vec![result(String::new(), item)],
                _ => output_of(item),
            };
            self.conversation.input(at, content.iter().map(value::as_text).collect(), true);
        }
    }

    fn rolled_back(&mut self, at: At, payload: &Value) {
        let turns = payload.get("num_turns").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let Some(left) = turns.filter(|n| *n > 0).map(|n| self.turns.len().saturating_sub(n)) else { return };
        let Some(responses) = self.turns.get(left).copied() else { return };
        self.turns.truncate(left);
        self.stage = Stage::Closed;
        let keep_responses = u32::try_from(responses).unwrap_or(u32::MAX);
        self.conversation.event(at, EventKind::Rewound { keep_responses });
    }
}

/// Whether a text of the user's role was put there by the client: it is an element of its own, such as
/// `<environment_context>`, or the project's instructions.
fn is_by_client(content: &Content) -> bool {
    let Content::Text(text) = content else { return false };
    let tag = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    let is_tag = |tag: &str| !tag.is_empty() && tag.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    tag.is_some_and(is_tag) || text.starts_with("# AGENTS.md instructions")
}

fn content_of(item: &Value) -> Vec<Content> {
    value::user_content(item.get("content").unwrap_or(&Value::Null))
}

/// Content of an item that the model put out.
pub(super) fn output_of(item: &Value) -> Vec<Content> {
    let kind = text(item, "type");
    let call = |name: String, input: String| {
        let id = [text(item, "call_id"), text(item, "id")].into_iter().find(|id| !id.is_empty());
        vec![Content::ToolUse { id: id.unwrap_or_default().to_owned(), name, input }]
    };
    let field = |name: &str| item.get(name).map(plain).unwrap_or_default();
    match kind {
        "message" => content_of(item),
        "reasoning" => {
            let texts = items(item, "summary").iter().chain(items(item, "content")).map(|p| text(p, "text"));
            vec![Content::Thinking {
                text: texts.collect::<Vec<_>>().join("\n"),
                signature_chars: chars(text(item, "encrypted_content")).max(1),
                redacted: false,
            }]
        }
        "function_call" => {
            let name = match text(item, "namespace") {
                "" => text(item, "name").to_owned(),
                space => format!("{space}.{}", text(item, "name")),
            };
            call(name, field("arguments"))
        }
        "custom_tool_call" => call(text(item, "name").to_owned(), field("input")),
        // Run by the provider: there is no result, and the item is part of the prompt.
        "web_search_call" | "image_generation_call" => {
            item.get("action").map(|action| Content::Text(action.to_string())).into_iter().collect()
        }
        kind if kind.ends_with("_call") => {
            let input = if item.get("action").is_some() { field("action") } else { field("arguments") };
            call(kind.trim_end_matches("_call").to_owned(), input)
        }
        _ => Vec::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The output of a call: a text, a list of blocks, or an object that says whether it went well.
pub(super) fn result(call_id: String, item: &Value) -> Content {
    let output = item.get("output").or_else(|| item.get("tools")).unwrap_or(&Value::Null);
    let failed = output.get("success").and_then(Value::as_bool) == Some(false);
    let content = if output.is_object() { output.get("content").unwrap_or(output) } else { output };
    let is_error = failed || flag(item, "is_error");
    Content::ToolResult { call_id, parts: value::result_parts(content), is_error }
}
