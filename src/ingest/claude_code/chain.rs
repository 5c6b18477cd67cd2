//! One conversation, built from its lines in file order.
//!
//! Inputs are placed where their line is. A response is placed where its first line is, and later
//! lines with its id are merged into it, wherever they are: so results that were written between
//! them (tools start while the message still streams) come to lie behind it, in the next request.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::content;
use super::usage::Reported;
use super::wire::Message;
use crate::transcript::{Content, Entry, Event, EventKind, Input, Notice, Response, Transcript};

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
    responses: Vec<Open>,
    by_id: HashMap<Key, usize>,
    /// Calls whose result is here already: copied history repeats results.
    answered: HashSet<Key>,
    /// Entries that a compaction boundary left open for its summary.
    awaits_summary: bool,
}

impl Chain {
    /// An empty conversation with the given head.
    pub fn new(head: Transcript) -> Chain {
        Chain { transcript: head, ..Chain::default() }
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
        for block in content::of_assistant(message.content) {
            if let Content::ToolUse { id, .. } = &block {
                self.answered.remove(&key(id));
            }
            merge(&mut response.content, block);
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
        index
    }

    /// Adds an event.
    pub fn event(&mut self, at: At, kind: EventKind) {
        self.awaits_summary = matches!(kind, EventKind::Compaction { .. });
        self.transcript.entries.push(Entry::Event(Event { line: at.line, at_ms: at.ms, kind }));
    }

    /// Adds an event unless one like it happened since the last response; nothing can be cleared or
    /// resumed before the first.
    pub fn event_once(&mut self, at: At, kind: EventKind) {
        let since = self.transcript.entries.iter().rev().take_while(|e| !matches!(e, Entry::Response(_)));
        let mut events = since.filter_map(|e| if let Entry::Event(event) = e { Some(event) } else { None });
        if !self.responses.is_empty() && events.all(|event| event.kind != kind) {
            self.event(at, kind);
        }
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
            }
        }
        place_results(&mut transcript.entries);
        transcript
    }
}

/// Adds `block` to a response unless it is there: lines may be doubled, and may repeat what came
/// before. Calls are told apart by their id; of two versions the longer one is the later one.
fn merge(content: &mut Vec<Content>, block: Content) {
    if let Content::ToolUse { id, input, .. } = &block
        && !id.is_empty()
    {
        let known =
            content.iter_mut().find(|c| matches!(c, Content::ToolUse { id: other, .. } if other == id));
        if let Some(known) = known {
            if matches!(known, Content::ToolUse { input: other, .. } if other.len() < input.len()) {
                *known = block;
            }
            return;
        }
    } else if content.contains(&block) {
        return;
    }
    content.push(block);
}

/// Moves results whose line was written too early or too late to where they were sent: behind the
/// response that made the call, before the next one.
fn place_results(entries: &mut Vec<Entry>) {
    let mut calls: HashMap<Key, Vec<usize>> = HashMap::new();
    let mut responses = 0;
    for entry in entries.iter() {
        if let Entry::Response(response) = entry {
            for content in &response.content {
                if let Content::ToolUse { id, .. } = content {
                    calls.entry(key(id)).or_default().push(responses);
                }
            }
            responses += 1;
        }
    }
    // A place is the number of responses before it.
    let mut moved: Vec<(usize, Entry)> = Vec::new();
    let mut place = 0;
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        if matches!(entry, Entry::Response(_)) {
            place += 1;
        }
        match wanted_place(&entry, &calls, place) {
            Some(wanted) if wanted != place => moved.push((wanted, entry)),
            _ => kept.push(entry),
        }
    }
    if moved.is_empty() {
        *entries = kept;
        return;
    }
    moved.sort_by_key(|(wanted, _)| *wanted);
    let mut moved = moved.into_iter().peekable();
    let mut place = 0;
    for entry in kept {
        let is_response = matches!(entry, Entry::Response(_));
        entries.push(entry);
        place += usize::from(is_response);
        while is_response && moved.peek().is_some_and(|(wanted, _)| *wanted == place) {
            entries.extend(moved.next().map(|(_, entry)| entry));
        }
    }
    entries.extend(moved.map(|(_, entry)| entry));
}

/// Where a result belongs, in responses before it; `None` for anything else. An id that is used
/// again belongs to its last call before the result, if there is one.
fn wanted_place(entry: &Entry, calls: &HashMap<Key, Vec<usize>>, place: usize) -> Option<usize> {
    let Entry::Input(input) = entry else { return None };
    let call = input.content.iter().find_map(|c| match c {
        Content::ToolResult { call_id, .. } => calls.get(&key(call_id)),
        _ => None,
    })?;
    let before = call.iter().rev().find(|response| **response < place);
    before.or_else(|| call.first()).map(|response| response + 1)
}
