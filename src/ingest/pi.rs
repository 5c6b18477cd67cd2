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

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::value::{self, Counts, chars, flag, items, text, time_ms};
use super::{json_lines, money};
use crate::transcript::{Content, Entry, EventKind, Notice, Transcript};
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
    reader.conversation.finish(NAME, notices, label)
}

/// An entry of the file.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Index of its parent.
    parent: Option<usize>,
    /// What of the transcript it became: from, and up to.
    from: usize,
    to: usize,
    /// Responses of the transcript up to and with it.
    responses: usize,
    is_response: bool,
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    nodes: Vec<Node>,
    /// Places of entries with an id.
    by_id: BTreeMap<String, usize>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &Value, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: time_ms(line.get("timestamp")) };
        if text(line, "type") == "session" {
            self.session(line);
            return;
        }
        // A line that is there twice.
        if self.by_id.contains_key(text(line, "id")) {
            return;
        }
        let last = self.nodes.len().checked_sub(1);
        let named = self.by_id.get(text(line, "parentId")).copied();
        // An unknown parent tells nothing; an explicit none is the root.
        let is_root = line.get("parentId").is_some_and(Value::is_null);
        let parent = if is_root { None } else { named.or(last) };
        if parent != last {
            self.go_back(at, parent);
        }
        let (from, before) = (self.conversation.transcript.entries.len(), self.conversation.responses());
        self.entry(at, line, parent, notices);
        let responses = self.conversation.responses();
        let to = self.conversation.transcript.entries.len();
        self.nodes.push(Node { parent, from, to, responses, is_response: responses > before });
        if !text(line, "id").is_empty() {
            self.by_id.insert(text(line, "id").to_owned(), self.nodes.len() - 1);
        }
    }

    fn session(&mut self, header: &Value) {
        let head = &mut self.conversation.transcript;
        if head.session_id.is_empty() {
            text(header, "id").clone_into(&mut head.session_id);
        }
    }

    fn entry(&mut self, at: At, entry: &Value, parent: Option<usize>, notices: &mut Vec<Notice>) {
        match text(entry, "type") {
            "message" => self.message(at, entry.get("message").unwrap_or(&Value::Null), notices),
            "custom_message" => {
                let content = entry.get("content").unwrap_or(&Value::Null);
                self.conversation.input(at, value::user_content(content), true);
            }
            "branch_summary" => {
                let summary = vec![Content::Text(text(entry, "summary").to_owned())];
                self.conversation.input(at, summary, true);
            }
            "compaction" => self.compaction(at, entry, parent),
            _ => {}
        }
    }

    fn message(&mut self, at: At, message: &Value, notices: &mut Vec<Notice>) {
        let content = message.get("content").unwrap_or(&Value::Null);
        match text(message, "role") {
            "user" => self.conversation.input(at, value::user_content(content), false),
            "assistant" => self.response(at, message, notices),
            "toolResult" => {
                let result = Content::ToolResult {
                    call_id: text(message, "toolCallId").to_owned(),
                    parts: value::result_parts(content),
                    is_error: flag(message, "isError"),
                };
                self.conversation.input(at, vec![result], false);
            }
            // A command that the user ran: sent along with the next prompt.
            "bashExecution" if !flag(message, "excludeFromContext") => {
                let ran = format!("Ran `{}`\n{}", text(message, "command"), text(message, "output"));
                self.conversation.input(at, vec![Content::Text(ran)], true);
            }
            "custom" | "hookMessage" => self.conversation.input(at, value::user_content(content), true),
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
        self.conversation.open_response(at, &id, text(message, "model"));
        if let Some(response) = self.conversation.last_response() {
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
        let first_kept = self.by_id.get(text(entry, "firstKeptEntryId")).copied().or_else(|| {
            // In version 1 by number, of all lines; the header is the first.
            let index = entry.get("firstKeptEntryIndex").and_then(Value::as_u64)?;
            usize::try_from(index).ok()?.checked_sub(1)
        });
        let path = self.path(parent);
        let kept = path.iter().filter(|n| first_kept.is_some_and(|first| **n >= first));
        let kept: Vec<Content> = kept.flat_map(|n| self.contents(*n)).collect();
        self.conversation.event(at, EventKind::Compaction { automatic: true, pre_tokens, post_tokens: None });
        self.conversation.input(at, vec![Content::Text(text(entry, "summary").to_owned())], true);
        self.conversation.input(at, kept, true);
    }

    /// What entry `node` put into the conversation, as text.
    fn contents(&self, node: usize) -> Vec<Content> {
        let Node { from, to, .. } = self.nodes[node];
        let entries = &self.conversation.transcript.entries[from..to];
        let contents = entries.iter().flat_map(|entry| match entry {
            Entry::Input(input) => input.content.as_slice(),
            Entry::Response(response) => response.content.as_slice(),
            Entry::Event(_) => &[],
        });
        contents.map(value::as_text).collect()
    }

    /// The entries from the root to `leaf`, by index. Parents always come before their children.
    fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut path = Vec::new();
        let mut next = leaf;
        while let Some(node) = next {
            path.push(node);
            next = self.nodes[node].parent;
        }
        path.reverse();
        path
    }

    /// The conversation goes on behind `parent`: what lies behind the last response before it is sent anew.
    fn go_back(&mut self, at: At, parent: Option<usize>) {
        let path = self.path(parent);
        let last = path.iter().rposition(|n| self.nodes[*n].is_response);
        let responses = last.map_or(0, |place| self.nodes[path[place]].responses);
        let again = &path[last.map_or(0, |place| place + 1)..];
        let entries = &self.conversation.transcript.entries;
        let again: Vec<Entry> = again
            .iter()
            .flat_map(|n| &entries[self.nodes[*n].from..self.nodes[*n].to])
            .filter(|entry| matches!(entry, Entry::Input(_)))
            .cloned()
            .collect();
        if self.conversation.responses() > responses || !again.is_empty() {
            let keep_responses = u32::try_from(responses).unwrap_or(u32::MAX);
            self.conversation.event(at, EventKind::Rewound { keep_responses });
            self.conversation.transcript.entries.extend(again);
        }
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
    match text(block, "type") {
        "text" => Some(Content::Text(text(block, "text").to_owned())),
        "thinking" => Some(Content::Thinking {
            text: text(block, "thinking").to_owned(),
            signature_chars: signature_chars(text(block, "thinkingSignature")),
            redacted: flag(block, "redacted"),
        }),
        "toolCall" => Some(Content::ToolUse {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            input: block.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string),
        }),
        _ => None,
    }
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
