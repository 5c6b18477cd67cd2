//! Pi: one JSONL session of entries, a list in version 1 and a tree by parent since version 3
//! (spec/formats.md section 5).
//!
//! One assistant entry is one request, with its usage; input counts exclude what was read from the cache or
//! written to it. Where the parent of an entry is not the entry before it, the user went back: requests on
//! the branch that was left stay counted. A compaction names the first entry that it keeps; what it keeps is
//! sent again behind the summary.
//!
//! # Divergence from the real API
//!
//! System prompt and tool definitions are not recorded, nor is the request that writes a summary or what
//! triggered it: each compaction counts as automatic. What a compaction keeps is put in as plain text. Going
//! back to a branch that was left before is not followed.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::conversation::At;
use super::tree::{self, Tree};
use super::value::{self, Counts, chars, flag, items, text, time_ms};
use super::{json_lines, money};
use crate::transcript::{Content, EventKind, Notice, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format.
pub const NAME: &str = "pi";

/// Whether an object, parsed from one of the first lines, is a line of this format.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let kind = object.get("type").and_then(Value::as_str);
    let is_text = |name: &str| object.get(name).is_some_and(Value::is_string);
    kind == Some("session") && is_text("id") && is_text("timestamp") && is_text("cwd")
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
    /// Hashes of lines without an id, as version 1 has them: their times make them their own.
    seen: BTreeSet<u64>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: time_ms(line.get("timestamp")) };
        if text(line, "type") == "session" {
            self.session(line);
            return;
        }
        let is_copy = text(line, "id").is_empty()
            && at.ms.is_some()
            && !self.seen.insert(xxh3_64(line.to_string().as_bytes()));
        if is_copy {
            return;
        }
        if let Some(open) = self.tree.open(at, line) {
            self.entry(at, line, open.parent, notices);
            self.tree.close(line, open);
        }
    }

    fn session(&mut self, header: &Value) {
        let head = &mut self.tree.conversation.transcript;
        if head.session_id.is_empty() {
            text(header, "id").clone_into(&mut head.session_id);
        }
    }

    fn entry(&mut self, at: At, entry: &Value, parent: Option<usize>, notices: &mut Vec<Notice>) {
        match text(entry, "type") {
            "message" => self.message(at, entry.get("message").unwrap_or(&Value::Null), notices),
            "custom_message" => {
                let content = entry.get("content").unwrap_or(&Value::Null);
                self.tree.conversation.input(at, value::user_content(content), true);
            }
            "branch_summary" => {
                let summary = vec![Content::Text(text(entry, "summary").to_owned())];
                self.tree.conversation.input(at, summary, true);
            }
            "compaction" => self.compaction(at, entry, parent),
            _ => {}
        }
    }

    fn message(&mut self, at: At, message: &Value, notices: &mut Vec<Notice>) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role") {
            "user" => self.tree.conversation.input(at, value::user_content(content), false),
            "assistant" => self.response(at, message, notices),
            "toolResult" => {
                let result = Content::ToolResult {
                    call_id: text(message, "toolCallId").to_owned(),
                    parts: value::result_parts(content),
                    is_error: flag(message, "isError"),
                };
                self.tree.conversation.input(at, vec![result], false);
            }
            // A command that the user ran: sent along with the next prompt.
            "bashExecution" if !flag(message, "excludeFromContext") => {
                let ran = format!("Ran `{}`\n{}", text(message, "command"), text(message, "output"));
                self.tree.conversation.input(at, vec![Content::Text(ran)], true);
            }
            "custom" | "hookMessage" => self.tree.conversation.input(at, value::user_content(content), true),
            _ => {}
        }
    }

    fn response(&mut self, at: At, message: &Value, notices: &mut Vec<Notice>) {
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
        let id = match text(message, "responseId") {
            "" => begun.map_or(String::new(), |ms| format!("{}-{ms}", text(message, "model"))),
            id => id.to_owned(),
        };
        self.tree.conversation.open_response(at, &id, text(message, "model"));
        if let Some(response) = self.tree.conversation.last_response() {
            response.first_at_ms = begun.or(at.ms);
            response.last_at_ms = at.ms.max(begun);
            response.content = content;
            response.usage = usage;
            let stop = text(message, "stopReason");
            response.output_is_final = usage.is_some() && !matches!(stop, "" | "aborted" | "error");
            response.recorded_cost_pusd = money::pusd(message.pointer("/usage/cost/total"));
        }
    }

    fn compaction(&mut self, at: At, entry: &Value, parent: Option<usize>) {
        let pre_tokens = Counts::default().field(entry, "tokensBefore");
        let pre_tokens = Some(pre_tokens).filter(|t| *t > 0);
        let first_kept = self.tree.find(text(entry, "firstKeptEntryId")).or_else(|| {
            // In version 1 by number, of all lines; the header is the first.
            let index = entry.get("firstKeptEntryIndex").and_then(Value::as_u64)?;
            usize::try_from(index).ok()?.checked_sub(1)
        });
        let path = self.tree.path(parent);
        // An earlier compaction is no message: what it summarized is in the new summary.
        let is_kept = |n: &usize| first_kept.is_some_and(|first| *n >= first) && !self.tree.is_compaction(*n);
        let kept: Vec<Content> =
            path.into_iter().filter(is_kept).flat_map(|n| self.tree.contents(n)).collect();
        self.tree
            .conversation
            .event(at, EventKind::Compaction { automatic: true, pre_tokens, post_tokens: None });
        self.tree.conversation.input(at, vec![Content::Text(text(entry, "summary").to_owned())], true);
        self.tree.conversation.input(at, kept, true);
    }
}

fn usage(usage: &Value, counts: &mut Counts) -> Usage {
    let written = counts.field(usage, "cacheWrite");
    let written_1h = counts.field(usage, "cacheWrite1h");
    Usage {
        uncached_tokens: counts.field(usage, "input"),
        cache_read_tokens: counts.field(usage, "cacheRead"),
        cache_write_5m_tokens: counts.without(written, written_1h),
        cache_write_1h_tokens: written_1h,
        output_tokens: counts.field(usage, "output"),
    }
}

/// A block of a response; `None` for types that the client does not send.
fn block(block: &Value) -> Option<Content> {
    tree::block(block, signature_chars(text(block, "thinkingSignature")))
}

/// Length of a signature. Where it is a whole reasoning item, its ciphertext is the signature.
fn signature_chars(signature: &str) -> u32 {
    let item = serde_json::from_str::<Map<String, Value>>(signature).ok();
    let encrypted = item.as_ref().and_then(|item| item.get("encrypted_content")).and_then(Value::as_str);
    match (item.is_some(), encrypted) {
        (true, encrypted) => chars(encrypted.unwrap_or_default()).max(1),
        (false, _) => chars(signature),
    }
}
