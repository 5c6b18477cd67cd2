//! Arcturn: one JSONL session of entries that form a tree (spec/formats.md section 5, spec/arcturn-octo.md).
//!
//! One assistant message is one request, with its usage; input counts exclude what was read from the cache or
//! written to it, and everything is bought for five minutes. A `compaction` entry names the last entry that
//! it folds; what it keeps is sent again behind the summary. A `state` entry with `contextEdit` lists the
//! calls whose results are stubs from then on: only those that no entry before it on the branch lists are
//! new.
//!
//! # Divergence from the real API
//!
//! Not checked against a recording. System prompt and tool definitions are not recorded, nor is the request
//! that writes a summary or what triggered it: each compaction counts as automatic. What a compaction keeps
//! is put in as plain text. The thinking that a context edit withholds is recognised by the totals only, as
//! any content that leaves a prompt unmarked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::At;
use super::tree::{self, Open, Tree};
use super::value::{self, Counts, chars, flag, items, text, time_ms};
use super::{json_lines, money};
use crate::transcript::{Content, EventKind, Notice, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "arcturn";

/// Kinds of entries.
const KINDS: &[&str] = &["message", "compaction", "state", "label"];

/// How the client's own message about its turn ceiling begins; the user typed none like it.
const TURN_WARNING: &str = "Turn budget: ";

/// Whether an object, parsed from one of the first lines, is a line of this format.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let is_text = |name: &str| object.get(name).is_some_and(Value::is_string);
    let is_number = |name: &str| object.get(name).is_some_and(Value::is_number);
    let is_header = is_text("sessionId") && is_text("cwd") && is_number("createdAt");
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    is_header || (KINDS.contains(&kind) && is_text("id") && object.contains_key("parentId"))
}

/// Reads a session.
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
    reader.tree.conversation.finish(NAME, notices, label)
}

#[derive(Default)]
struct Reader {
    tree: Tree,
    /// Of each compaction, the entries that it keeps.
    kept: BTreeMap<usize, Vec<usize>>,
    /// Of each entry that edits the context, the calls that it lists.
    elided: BTreeMap<usize, Vec<String>>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: time_ms(line.get("timestamp")) };
        if line.get("kind").is_none() {
            let head = &mut self.tree.conversation.transcript;
            if head.session_id.is_empty() {
                text(line, "sessionId").clone_into(&mut head.session_id);
            }
            return;
        }
        let Some(open) = self.tree.open(at, line) else { return };
        match text(line, "kind") {
            "message" => {
                let message = line.get("message").unwrap_or(&Value::Null);
                self.message(at, text(line, "id"), message, notices);
            }
            "compaction" => self.compaction(at, line, open),
            "state" => self.state(at, line, open),
            _ => {}
        }
        self.tree.close(line, open);
    }

    fn message(&mut self, at: At, id: &str, message: &Value, notices: &mut Vec<Notice>) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role") {
            "user" => {
                let content = value::user_content(content);
                let by_client = |c: &Content| matches!(c, Content::Text(t) if t.starts_with(TURN_WARNING));
                let injected = content.iter().all(by_client);
                self.tree.conversation.input(at, content, injected);
            }
            "assistant" => self.response(at, id, message, notices),
            "toolResult" => {
                let result = Content::ToolResult {
                    call_id: text(message, "toolCallId").to_owned(),
                    parts: value::result_parts(content),
                    is_error: flag(message, "isError"),
                };
                self.tree.conversation.input(at, vec![result], false);
            }
            _ => {}
        }
    }

    fn response(&mut self, at: At, id: &str, message: &Value, notices: &mut Vec<Notice>) {
        let mut counts = Counts::default();
        let usage = usage(message.get("usage").unwrap_or(&Value::Null), &mut counts);
        if counts.is_bad() {
            notices.push(Notice { line: at.line, reason: value::BAD_USAGE.to_owned() });
        }
        let usage = counts.finish(usage);
        let content: Vec<Content> = items(message, "content").iter().filter_map(block).collect();
        // Stopped before anything came: never answered, never billed.
        if content.is_empty() && usage.is_none() && !counts.is_bad() {
            return;
        }
        let begun = time_ms(message.get("timestamp"));
        self.tree.conversation.open_response(at, id, text(message, "model"));
        if let Some(response) = self.tree.conversation.last_response() {
            response.first_at_ms = begun.or(at.ms);
            response.last_at_ms = at.ms.max(begun);
            response.content = content;
            response.usage = usage;
            response.recorded_cost_pusd = money::pusd(message.pointer("/usage/costUsd"));
            let stop = text(message, "stopReason");
            response.output_is_final = usage.is_some() && !matches!(stop, "" | "aborted" | "error");
        }
    }

    fn compaction(&mut self, at: At, entry: &Value, open: Open) {
        let tokens = |name: &str| Some(Counts::default().field(entry, name)).filter(|t| *t > 0);
        let history = self.history(open.parent);
        // An entry that is not there folds everything, as it does for the client.
        let last_folded = self.tree.find(text(entry, "upToId"));
        let place = last_folded.and_then(|folded| history.iter().position(|node| *node == folded));
        let kept = place.map_or_else(Vec::new, |place| history[place + 1..].to_vec());
        let again: Vec<Content> = kept.iter().flat_map(|node| self.tree.contents(*node)).collect();
        self.kept.insert(open.index, kept);
        let (pre_tokens, post_tokens) = (tokens("tokensBefore"), tokens("tokensAfter"));
        let kind = EventKind::Compaction { automatic: true, pre_tokens, post_tokens };
        let summary = format!("<compacted-history>\n{}\n</compacted-history>", text(entry, "summary"));
        self.tree.conversation.event(at, kind);
        self.tree.conversation.input(at, vec![Content::Text(summary)], true);
        self.tree.conversation.input(at, again, true);
    }

    /// The entries that are in front of the model at `leaf`, by index; a compaction stands for its summary.
    fn history(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut history = Vec::new();
        for node in self.tree.path(leaf) {
            match self.kept.get(&node) {
                Some(kept) => history = [&[node], kept.as_slice()].concat(),
                None => history.push(node),
            }
        }
        history
    }

    fn state(&mut self, at: At, entry: &Value, open: Open) {
        let edit = entry.get("contextEdit").unwrap_or(&Value::Null);
        let listed: Vec<String> =
            items(edit, "elided").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let path = self.tree.path(open.parent);
        let before: BTreeSet<&String> =
            path.iter().filter_map(|node| self.elided.get(node)).flatten().collect();
        let call_ids: Vec<String> = listed.iter().filter(|id| !before.contains(id)).cloned().collect();
        if !call_ids.is_empty() {
            self.tree.conversation.event(at, EventKind::ResultsCleared { call_ids, tokens_saved: None });
            self.elided.insert(open.index, listed);
        }
    }
}

fn usage(usage: &Value, counts: &mut Counts) -> Usage {
    Usage {
        uncached_tokens: counts.field(usage, "inputTokens"),
        cache_read_tokens: counts.field(usage, "cacheReadTokens"),
        cache_write_5m_tokens: counts.field(usage, "cacheWriteTokens"),
        cache_write_1h_tokens: 0,
        output_tokens: counts.field(usage, "outputTokens"),
    }
}

/// A block of a response; `None` for types that the client does not send.
fn block(block: &Value) -> Option<Content> {
    tree::block(block, chars(text(block, "signature")))
}
