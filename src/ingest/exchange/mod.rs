//! Requests that were recorded with all that was sent, and what was sent for the first time in each.
//!
//! Logs of requests hold the whole history with every request. [`Threads`] finds the conversation that each
//! one continues by comparing hashes of its blocks ([`align`]): what the history does not have is new input; a
//! history that lost its end was rewound, one that lost a part in its middle or begins with a summary of
//! another was compacted, results whose content changed were cleared. A request that continues nothing begins
//! a session of its own: a sub-agent, a title, a summary.
//!
//! # Divergence from the real API
//!
//! A text of the client that is missing in a later request was left out of it, and the history is taken to go
//! on. Answers of the model that are in a history and not in the log are plain text there. Whether the
//! system prompt and the tools are those of the conversation is judged loosely, as both may change within
//! one: at least half of the tools in common, or of the system prompt where there are no tools. A sub-agent is
//! linked to its parent by its prompt, which is an argument of a call.

mod align;
mod threads;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub use threads::Threads;

use super::conversation::At;
use super::value;
use crate::transcript::{Content, Notice, ToolText};
use crate::usage::Usage;

/// One request and its answer.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Where it stands, and when it was sent.
    pub at: At,
    /// When the answer was there.
    pub answered_ms: Option<i64>,
    /// The provider's id of the answer, empty if none.
    pub id: String,
    /// Model that answered, or was asked.
    pub model: String,
    /// Id of the conversation, where the log has it.
    pub conversation: Option<String>,
    /// Id of the answer whose conversation goes on, where the provider keeps the history.
    pub previous_id: Option<String>,
    /// System prompt, empty if there is none.
    pub system: String,
    /// Tool definitions.
    pub tools: Vec<ToolText>,
    /// All that was sent, in order.
    pub prompt: Vec<Sent>,
    /// What came back.
    pub answer: Vec<Content>,
    /// What was billed.
    pub usage: Option<Usage>,
    /// The count of output tokens is a final one.
    pub output_is_final: bool,
    /// What the log says that it cost.
    pub cost_pusd: Option<u64>,
}

impl Exchange {
    /// Adds a message to the prompt.
    pub fn send(&mut self, by: By, content: Vec<Content>) {
        self.prompt.extend(content.into_iter().filter(is_sent).map(|content| {
            let by = if by == By::User && is_by_client(&content) { By::Client } else { by };
            Sent { by, content }
        }));
    }

    /// Adds a message of a system role: the system prompt, if it stands at the beginning.
    pub fn instruct(&mut self, content: &Value) {
        let content = value::user_content(content);
        if !self.prompt.is_empty() {
            self.send(By::Client, content);
            return;
        }
        for block in content {
            if let Content::Text(text) = block {
                self.system.push_str(if self.system.is_empty() { "" } else { "\n" });
                self.system.push_str(&text);
            }
        }
    }

    /// Takes over counts, and notes those that cannot be.
    pub fn bill(&mut self, usage: Usage, counts: &value::Counts, notices: &mut Vec<Notice>) {
        if counts.is_bad() {
            notices.push(Notice { line: self.at.line, reason: value::BAD_USAGE.to_owned() });
        }
        self.usage = counts.finish(usage);
        self.output_is_final &= self.usage.is_some();
    }
}

/// Who wrote a block of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The model, in an earlier answer.
    Model,
    /// The user, or a tool.
    User,
    /// The client, by itself.
    Client,
}

/// One block of a prompt.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Who wrote it.
    pub by: By,
    /// What it is.
    pub content: Content,
}

impl Sent {
    fn is_result(&self) -> bool {
        matches!(self.content, Content::ToolResult { .. })
    }
}

/// Reasoning comes and goes between requests, by rules of the provider; it tells nothing about a history.
fn is_sent(content: &Content) -> bool {
    match content {
        Content::Text(text) => !text.trim().is_empty(),
        Content::Thinking { .. } => false,
        _ => true,
    }
}

/// Whether a text of the user's role was put there by the client: it is an element of its own, such as
/// `<system-reminder>`.
fn is_by_client(content: &Content) -> bool {
    let Content::Text(text) = content else { return false };
    let tag = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    tag.is_some_and(|tag| !tag.is_empty() && tag.chars().all(|c| c.is_ascii_lowercase() || "_-".contains(c)))
}

/// What a block is recognised by, and what may change in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    identity: u64,
    body: u64,
}

impl Mark {
    /// Calls and results are known by the id of the call, everything else by its content.
    fn of(by: By, content: &Content) -> Mark {
        let hash = |tag: &str, text: &str| xxh3_64(format!("{tag}\0{text}").as_bytes());
        match content {
            Content::Text(text) => {
                let tag = if by == By::Model { "answer" } else { "text" };
                Mark { identity: hash(tag, text.trim()), body: 0 }
            }
            Content::Thinking { text, .. } => Mark { identity: hash("thinking", text), body: 0 },
            Content::ToolUse { id, name, input } if id.is_empty() => {
                Mark { identity: hash("call", &format!("{name}\0{input}")), body: 0 }
            }
            Content::ToolUse { id, .. } => Mark { identity: hash("call", id), body: 0 },
            Content::ToolResult { call_id, parts, .. } => {
                let body = hash("result", &format!("{parts:?}"));
                let identity = if call_id.is_empty() { body } else { hash("result of", call_id) };
                Mark { identity, body }
            }
            Content::Image(image) => Mark { identity: image.hash, body: 0 },
        }
    }
}
