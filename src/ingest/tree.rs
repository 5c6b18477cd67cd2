//! Entries that form a tree by their parents, in the order in which they were written.
//!
//! Where the parent of an entry is not the entry before it, the user went back: what lies between the last
//! response on the new branch and the entry is sent anew, and requests on the branch that was left stay
//! counted. Going back to a branch that was left before is not followed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conversation::{At, Conversation};
use super::value::{self, flag, text};
use crate::transcript::{Content, Entry, EventKind};

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

/// An entry that was begun.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    /// Its index.
    pub index: usize,
    /// Index of the entry before it on its branch.
    pub parent: Option<usize>,
    from: usize,
    responses: usize,
}

/// The conversation that a tree becomes, and its entries so far.
#[derive(Debug, Default)]
pub struct Tree {
    /// What was gathered so far.
    pub conversation: Conversation,
    nodes: Vec<Node>,
    /// Places of entries with an id.
    by_id: BTreeMap<String, usize>,
}

impl Tree {
    /// Begins the entry on `line`, which names itself in `id` and its parent in `parentId`; `None` if it is
    /// there already. An unknown parent tells nothing; an explicit none is the root.
    pub fn open(&mut self, at: At, line: &Value) -> Option<Open> {
        if self.by_id.contains_key(text(line, "id")) {
            return None;
        }
        let last = self.nodes.len().checked_sub(1);
        let named = self.find(text(line, "parentId"));
        let is_root = line.get("parentId").is_some_and(Value::is_null);
        let parent = if is_root { None } else { named.or(last) };
        if parent != last {
            self.go_back(at, parent);
        }
        let from = self.conversation.transcript.entries.len();
        let responses = self.conversation.responses();
        Some(Open { index: self.nodes.len(), parent, from, responses })
    }

    /// Ends an entry: what was added to the conversation meanwhile is its own.
    pub fn close(&mut self, line: &Value, open: Open) {
        let responses = self.conversation.responses();
        self.nodes.push(Node {
            parent: open.parent,
            from: open.from,
            to: self.conversation.transcript.entries.len(),
            responses,
            is_response: responses > open.responses,
        });
        if !text(line, "id").is_empty() {
            self.by_id.insert(text(line, "id").to_owned(), self.nodes.len() - 1);
        }
    }

    /// Index of the entry with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// The entries from the root to `leaf`, by index. Parents always come before their children.
    pub fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut path = Vec::new();
        let mut next = leaf;
        while let Some(node) = next {
            path.push(node);
            next = self.nodes[node].parent;
        }
        path.reverse();
        path
    }

    /// Whether an entry is a compaction.
    pub fn is_compaction(&self, node: usize) -> bool {
        let is = |entry: &Entry| matches!(entry, Entry::Event(e) if matches!(e.kind, EventKind::Compaction { .. }));
        self.entries(node).iter().any(is)
    }

    /// What entry `node` put into the conversation, as text. Of a compaction its summary only: what it kept
    /// belongs to other entries.
    pub fn contents(&self, node: usize) -> Vec<Content> {
        let inputs = if self.is_compaction(node) { 1 } else { usize::MAX };
        let contents = self.entries(node).iter().filter_map(|entry| match entry {
            Entry::Input(input) => Some(input.content.as_slice()),
            Entry::Response(response) => Some(response.content.as_slice()),
            Entry::Event(_) => None,
        });
        contents.take(inputs).flatten().map(value::as_text).collect()
    }

    fn entries(&self, node: usize) -> &[Entry] {
        let Node { from, to, .. } = self.nodes[node];
        &self.conversation.transcript.entries[from..to]
    }

    /// The conversation goes on behind `parent`: what lies behind the last response before it is sent anew.
    fn go_back(&mut self, at: At, parent: Option<usize>) {
        let path = self.path(parent);
        let last = path.iter().rposition(|n| self.nodes[*n].is_response);
        let responses = last.map_or(0, |place| self.nodes[path[place]].responses);
        let again = &path[last.map_or(0, |place| place + 1)..];
        let again: Vec<Entry> = again
            .iter()
            .flat_map(|n| self.entries(*n))
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

/// A block of a response, whose signature comes to so many characters; `None` for types that the client does
/// not send.
pub fn block(block: &Value, signature_chars: u32) -> Option<Content> {
    match text(block, "type") {
        "text" => Some(Content::Text(text(block, "text").to_owned())),
        "thinking" => Some(Content::Thinking {
            text: text(block, "thinking").to_owned(),
            signature_chars,
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
