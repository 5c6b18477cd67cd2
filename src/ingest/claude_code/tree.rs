//! The tree of lines: where the user went back, or began anew without saying so.
//!
//! Every line names its parent. Forks are normal (parallel calls, progress lines), so file order is
//! the main chain; the tree only tells whether a request has the response before it among its
//! ancestors. If not, the user went back to the last response that is (docs/sources.md).

#![expect(clippy::disallowed_types, reason = "looked up by id; walked through only to count")]

use std::collections::{BTreeSet, HashMap};

use super::chain::Key;
use crate::transcript::{Content, Entry, Event, EventKind, Transcript};

/// What the tree knows of a line.
#[derive(Debug, Clone, Copy)]
struct Node {
    line: u64,
    parent: Option<Key>,
    /// Index of the response it is a line of.
    response: Option<u32>,
}

/// Lines of the main chain, by identity.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: HashMap<Key, Node>,
    /// First line of each response.
    first: Vec<Option<Key>>,
}

/// Where the ancestors of a request lead.
enum Origin {
    /// To the response before it, to a compaction, or out of the file.
    Continues,
    /// To an earlier response, or to none of those that came before; by the number of responses kept.
    Back { kept: usize },
    /// To a line without parent, behind the response before it.
    Root { line: u64 },
}

impl Tree {
    /// Adds a line. `response` is the index of the response that it is a line of.
    pub fn add(&mut self, line: u64, uuid: Key, parent: Option<Key>, response: Option<usize>) {
        let response = response.and_then(|r| u32::try_from(r).ok());
        self.nodes.entry(uuid).or_insert(Node { line, parent, response });
        if let Some(index) = response.map(|r| r as usize) {
            if self.first.len() <= index {
                self.first.resize(index + 1, None);
            }
            self.first[index].get_or_insert(uuid);
        }
    }

    /// Whether lines are linked at all: other writers of this format leave the parents out, and then
    /// every line looks like a beginning.
    fn is_linked(&self) -> bool {
        self.nodes.values().filter(|node| node.parent.is_some()).count() * 2 > self.nodes.len()
    }

    /// Puts the events into the transcript that only the tree knows of.
    pub fn mark(&self, transcript: &mut Transcript) {
        if !self.is_linked() {
            return;
        }
        let places: Vec<usize> =
            (0..transcript.entries.len()).filter(|i| is_response(&transcript.entries[*i])).collect();
        let mut inserts: Vec<(usize, Vec<Entry>)> = Vec::new();
        for index in 1..places.len() {
            let between = places[index - 1] + 1..places[index];
            let entries = &transcript.entries;
            // Both are marked already, and cut the tree.
            if entries[between.clone()].iter().any(is_cut) {
                continue;
            }
            let mut ancestors = BTreeSet::new();
            match self.origin(index, line_of(&entries[places[index - 1]]), &places, entries, &mut ancestors) {
                Origin::Continues => {}
                Origin::Root { line } => {
                    if shrank(&entries[places[index - 1]], &entries[places[index]]) {
                        let at =
                            between.clone().find(|i| line_of(&entries[*i]) >= line).unwrap_or(between.end);
                        inserts.push((at, vec![event(&entries[at], EventKind::Cleared)]));
                    }
                }
                Origin::Back { kept } => {
                    let is_new = |i: &usize| ancestors.contains(&line_of(&entries[*i]));
                    let at = between.clone().find(is_new).unwrap_or(between.end);
                    let keep_responses = u32::try_from(kept).unwrap_or(u32::MAX);
                    let mut inserted = vec![event(&entries[at], EventKind::Rewound { keep_responses })];
                    let from = kept.checked_sub(1).map_or(0, |last| places[last] + 1);
                    inserted.extend(still_there(entries, from..places[kept], &ancestors));
                    inserts.push((at, inserted));
                }
            }
        }
        for (at, inserted) in inserts.into_iter().rev() {
            transcript.entries.splice(at..at, inserted);
        }
    }

    /// Follows the ancestors of response `index`, and collects their lines.
    fn origin(
        &self,
        index: usize,
        line_before: u64,
        places: &[usize],
        entries: &[Entry],
        ancestors: &mut BTreeSet<u64>,
    ) -> Origin {
        let mut next = self.first.get(index).copied().flatten();
        while let Some(node) = next.and_then(|key| self.nodes.get(&key)) {
            // A line seen before closes a circle, which tells nothing.
            if !ancestors.insert(node.line) {
                return Origin::Continues;
            }
            match node.response.map(|r| r as usize) {
                Some(response) if response + 1 == index => return Origin::Continues,
                Some(response) if response < index => return Origin::Back { kept: response + 1 },
                _ => {}
            }
            if node.parent.is_none() {
                if node.line > line_before {
                    return Origin::Root { line: node.line };
                }
                let kept = places.iter().take_while(|place| line_of(&entries[**place]) < node.line).count();
                return Origin::Back { kept };
            }
            next = node.parent;
        }
        // A parent outside of the file.
        Origin::Continues
    }
}

/// Entries that lie behind the last kept response and are still there after going back: the request
/// has their line among its ancestors. All results of that response are, if one is: parallel results
/// fork the tree.
fn still_there(entries: &[Entry], range: std::ops::Range<usize>, ancestors: &BTreeSet<u64>) -> Vec<Entry> {
    let entries = &entries[range];
    let holds_result = |entry: &Entry| matches!(entry, Entry::Input(input) if input.content.iter().any(|c| matches!(c, Content::ToolResult { .. })));
    let is_ancestor = |entry: &Entry| ancestors.contains(&line_of(entry));
    let keeps_results = entries.iter().any(|e| holds_result(e) && is_ancestor(e));
    entries.iter().filter(|e| is_ancestor(e) || (keeps_results && holds_result(e))).cloned().collect()
}

/// Whether the second of two responses had a smaller prompt; true where the recording does not say.
fn shrank(before: &Entry, after: &Entry) -> bool {
    match (before, after) {
        (Entry::Response(before), Entry::Response(after)) => match (&before.usage, &after.usage) {
            (Some(before), Some(after)) => after.prompt_tokens() < before.prompt_tokens(),
            _ => true,
        },
        _ => false,
    }
}

fn is_response(entry: &Entry) -> bool {
    matches!(entry, Entry::Response(_))
}

fn is_cut(entry: &Entry) -> bool {
    matches!(entry, Entry::Event(Event { kind: EventKind::Compaction { .. } | EventKind::Cleared, .. }))
}

fn line_of(entry: &Entry) -> u64 {
    match entry {
        Entry::Input(input) => input.line,
        Entry::Response(response) => response.line,
        Entry::Event(event) => event.line,
    }
}

/// An event right before `entry`.
fn event(entry: &Entry, kind: EventKind) -> Entry {
    let (line, at_ms) = match entry {
        Entry::Input(input) => (input.line, input.at_ms),
        Entry::Response(response) => (response.line, response.first_at_ms),
        Entry::Event(event) => (event.line, event.at_ms),
    };
    Entry::Event(Event { line, at_ms, kind })
}
