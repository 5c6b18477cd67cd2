//! One conversation, built from its lines in file order.
//!
//! Inputs are placed where their line is. A response is placed where its first line is, and later
//! lines with its id are merged into it, wherever they are: so results that were written between
//! them (tools start while the message still streams) come to lie behind it, in the next request.

#![expect(clippy::disallowed_types, reason = "looked up by id and never walked through")]

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::content;
use super::usage::Reported;
use super::wire::Message;
use crate::ingest::Detail;
use crate::transcript::{Content, Entry, Event, EventKind, Input, Marker, Notice, Response, Transcript};

/// Identity of an id; ids are compared, never looked at.
pub type Key = u64;

/// The identity of `id`.
pub fn key(id: &str) -> Key {
    xxh3_64(id.as_bytes())
}

/// Where a line is and when it was written.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// Line number, from 1.
    pub line: u64,
    /// Its time.
    pub ms: Option<i64>,
}

/// A response that may still get lines.
#[derive(Debug)]
struct Open {
    /// Its place in the entries.
    entry: usize,
    /// Request id of its first line, to tell apart providers that reuse message ids.
    request: Key,
    usage: Reported,
}

/// A conversation in the making.
#[derive(Debug, Default)]
pub struct Chain {
    transcript: Transcript,
    detail: Detail,
    responses: Vec<Open>,
    by_id: HashMap<Key, usize>,
    /// Calls whose result is here already: copied history repeats results.
    answered: HashSet<Key>,
    /// Entries that a compaction boundary left open for its summary.
    awaits_summary: bool,
    /// Clears and resumes since the last response, each once.
    recent_events: Vec<EventKind>,
    /// Content of responses so far: (response, identity) → place.
    known_content: HashMap<(usize, Key), usize>,
}

impl Chain {
    /// An empty conversation with the given head.
    pub fn new(head: Transcript, detail: Detail) -> Chain {
        Chain { transcript: head, detail, ..Chain::default() }
    }

    /// How much of it is kept.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// The head, to be completed while reading.
    pub fn head(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// Whether nothing was put in yet.
    pub fn is_empty(&self) -> bool {
        self.transcript.entries.is_empty()
    }

    /// Adds content on its way to the model.
    pub fn input(&mut self, at: At, mut content: Vec<Content>, injected: bool) {
        content.retain(|c| match c {
            Content::ToolResult { call_id, .. } => self.answered.insert(key(call_id)),
            _ => true,
        });
        if !content.is_empty() {
            self.transcript.entries.push(Entry::Input(Input {
                line: at.line,
                at_ms: at.ms,
                content,
                injected,
            }));
        }
    }

    /// Adds one line of a response, and gives the response's index. `request_id` and `uuid` stand in
    /// where the message has no id.
    pub fn response(&mut self, at: At, message: Message<'_>, request_id: &str, uuid: &str) -> usize {
        let index = self.find_or_open(at, &message, request_id, uuid);
        let open = &mut self.responses[index];
        let Entry::Response(response) = &mut self.transcript.entries[open.entry] else {
            unreachable!("an open response points at a response");
        };
        response.first_at_ms = [response.first_at_ms, at.ms].into_iter().flatten().min();
        response.last_at_ms = response.last_at_ms.max(at.ms);
        response.output_is_final |= !message.stop_reason.is_empty();
        if let Some(usage) = &message.usage.0 {
            let was_bad = open.usage.is_bad();
            open.usage = open.usage.max(Reported::of_line(usage));
            if open.usage.is_bad() && !was_bad {
                let reason = "a token count is negative, no number, or over 1e9: this request counts as one without usage";
                self.transcript.notices.push(Notice { line: at.line, reason: reason.to_owned() });
            }
        }
        for (identity, block) in content::of_assistant(message.content, self.detail) {
            if let Content::ToolUse { id, .. } = &block {
                self.answered.remove(&key(id));
            }
            let known = match self.known_content.entry((index, identity)) {
                Occupied(known) => Some(*known.get()),
                Vacant(free) => {
                    free.insert(response.content.len());
                    None
                }
            };
            merge(&mut response.content, block, known);
        }
        index
    }

    fn find_or_open(&mut self, at: At, message: &Message<'_>, request_id: &str, uuid: &str) -> usize {
        let id = [&*message.id, request_id, uuid].into_iter().find(|id| !id.is_empty()).unwrap_or_default();
        let request = if request_id.is_empty() { 0 } else { key(request_id) };
        let known = self.by_id.get(&key(id)).copied().filter(|_| !id.is_empty());
        let mut id = id;
        if let Some(index) = known {
            let first = self.responses[index].request;
            if first == request || first == 0 || request == 0 {
                return index;
            }
            // The same message id under another request id: the provider reuses message ids.
            if let Some(index) = self.by_id.get(&request) {
                return *index;
            }
            id = request_id;
        }
        let index = self.responses.len();
        if !id.is_empty() {
            self.by_id.insert(key(id), index);
        }
        self.responses.push(Open {
            entry: self.transcript.entries.len(),
            request,
            usage: Reported::default(),
        });
        self.transcript.entries.push(Entry::Response(Response {
            line: at.line,
            id: id.to_owned(),
            model: message.model.0.to_string(),
            ..Response::default()
        }));
        self.awaits_summary = false;
        self.recent_events.clear();
        index
    }

    /// Adds an event.
    pub fn event(&mut self, at: At, kind: EventKind) {
        self.awaits_summary = matches!(kind, EventKind::Compaction { .. });
        if matches!(kind, EventKind::Cleared | EventKind::Resumed) && !self.recent_events.contains(&kind) {
            self.recent_events.push(kind.clone());
        }
        self.transcript.entries.push(Entry::Event(Event { line: at.line, at_ms: at.ms, kind }));
    }

    /// Adds an event unless one like it happened since the last response; nothing can be cleared or
    /// resumed before the first.
    pub fn event_once(&mut self, at: At, kind: EventKind) {
        if !self.responses.is_empty() && !self.recent_events.contains(&kind) {
            self.event(at, kind);
        }
    }

    /// Notes something about the next request; what a compaction waits for may still come.
    pub fn marker(&mut self, at: At, marker: Marker) {
        let kind = EventKind::Marker(marker);
        self.transcript.entries.push(Entry::Event(Event { line: at.line, at_ms: at.ms, kind }));
    }

    /// Adds the text that a compaction left in place of the history. It is the first input after its
    /// boundary; one without a boundary stands for it.
    pub fn summary(&mut self, at: At, content: Vec<Content>) {
        if !self.awaits_summary {
            self.event(at, EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None });
        }
        self.awaits_summary = false;
        let boundary =
            |e: &Entry| matches!(e, Entry::Event(Event { kind: EventKind::Compaction { .. }, .. }));
        let place = self
            .transcript
            .entries
            .iter()
            .rposition(boundary)
            .map_or(self.transcript.entries.len(), |i| i + 1);
        let input = Input { line: at.line, at_ms: at.ms, content, injected: true };
        // Only inputs can lie between: responses close the wait for a summary.
        self.transcript.entries.insert(place, Entry::Input(input));
    }

    /// The finished transcript.
    pub fn finish(self) -> Transcript {
        let mut transcript = self.transcript;
        for open in &self.responses {
            if let Entry::Response(response) = &mut transcript.entries[open.entry] {
                response.usage = open.usage.finish();
                response.doubts = open.usage.doubts();
            }
        }
        place_results(&mut transcript.entries);
        transcript
    }
}

/// Adds `block` to a response unless it is there: lines may be doubled, and may repeat what came
/// before. Calls are told apart by their id; of two versions the longer one is the later one.
fn merge(content: &mut Vec<Content>, block: Content, known: Option<usize>) {
    if let Some(place) = known {
        let length = |c: &Content| if let Content::ToolUse { input, .. } = c { input.len() } else { 0 };
        if length(&content[place]) < length(&block) {
            content[place] = block;
        }
        return;
    }
    // Most lines are a response of their own, with one block.
    content.reserve_exact(usize::from(content.is_empty()));
    content.push(block);
}

/// Moves results whose line was written too early or too late to where they were sent: behind the
/// response that made the call, before the next one.
fn place_results(entries: &mut Vec<Entry>) {
    let calls = calls_by_response(entries);
    // A place is the number of responses before it. Most recordings have nothing to move, and then
    // nothing is copied.
    let mut place = 0;
    let mut is_misplaced = |entry: &Entry| {
        place += u32::from(matches!(entry, Entry::Response(_)));
        wanted_place(entry, &calls, place).filter(|wanted| *wanted != place)
    };
    let wanted: Vec<(usize, u32)> =
        entries.iter().enumerate().filter_map(|(i, entry)| Some((i, is_misplaced(entry)?))).collect();
    if wanted.is_empty() {
        return;
    }
    let mut misplaced: Vec<(u32, Entry)> = Vec::with_capacity(wanted.len());
    let mut in_place: Vec<Entry> = Vec::with_capacity(entries.len());
    let mut wanted = wanted.into_iter().peekable();
    for (index, entry) in std::mem::take(entries).into_iter().enumerate() {
        match wanted.next_if(|(misplaced, _)| *misplaced == index) {
            Some((_, place)) => misplaced.push((place, entry)),
            None => in_place.push(entry),
        }
    }
    misplaced.sort_by_key(|(wanted, _)| *wanted);
    let mut misplaced = misplaced.into_iter().peekable();
    let mut place = 0;
    for entry in in_place {
        let is_response = matches!(entry, Entry::Response(_));
        entries.push(entry);
        place += u32::from(is_response);
        while let Some((_, entry)) = misplaced.next_if(|(wanted, _)| is_response && *wanted == place) {
            entries.push(entry);
        }
    }
}

/// Every call with the index of its response, sorted.
fn calls_by_response(entries: &[Entry]) -> Vec<(Key, u32)> {
    let responses =
        entries.iter().filter_map(|e| if let Entry::Response(response) = e { Some(response) } else { None });
    let mut calls: Vec<(Key, u32)> = Vec::new();
    for (index, response) in (0_u32..).zip(responses) {
        let ids = response
            .content
            .iter()
            .filter_map(|c| if let Content::ToolUse { id, .. } = c { Some(id) } else { None });
        calls.extend(ids.map(|id| (key(id), index)));
    }
    calls.sort_unstable();
    calls
}

/// Where a result belongs, in responses before it; `None` for anything else. An id that is used
/// again belongs to its last call before the result, if there is one.
fn wanted_place(entry: &Entry, calls: &[(Key, u32)], place: u32) -> Option<u32> {
    let Entry::Input(input) = entry else { return None };
    let uses = input.content.iter().find_map(|content| {
        let Content::ToolResult { call_id, .. } = content else { return None };
        let key = key(call_id);
        let from = calls.partition_point(|(k, _)| *k < key);
        let uses = &calls[from..calls.partition_point(|(k, _)| *k <= key)];
        (!uses.is_empty()).then_some(uses)
    })?;
    let before = uses.iter().rev().find(|(_, response)| *response < place);
    before.or_else(|| uses.first()).map(|(_, response)| response + 1)
}
