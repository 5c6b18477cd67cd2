//! What the recordings of a corpus have in common is counted once.
//!
//! A resumed or forked session copies the lines of its parent into a new file, and checkpoints keep
//! growing prefixes of one session. Message ids survive the copying; session ids, line ids and times
//! may not. So a response belongs to one transcript: of two with the same session id to the longer
//! one, else to the one that began first. Totals over a corpus are then those of the parent plus each
//! fork's own tail (bug-reports.md item 11).
//!
//! # Divergence from the real API
//!
//! A fork loses its copied history as content: what its first own request had in front of it becomes
//! part of the hidden prefix, which no strategy can edit.

#![expect(clippy::disallowed_types, reason = "looked up by id and never walked through")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

use super::Recording;
use crate::session::Session;
use crate::transcript::{Content, Entry, Event, EventKind, Transcript};

/// A recording and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The file, or `-`.
    pub path: PathBuf,
    /// What it holds.
    pub recording: Recording,
}

/// Something that was left out because another recording has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The file it was left out of.
    pub path: PathBuf,
    /// The session it was left out of.
    pub session_id: String,
    /// Number of responses left out.
    pub responses: usize,
    /// Whether that was the whole session.
    pub whole: bool,
}

/// Leaves out of every recording what another one has, and makes session ids unique. The result does
/// not depend on the order of `corpus`, but for recordings that are equal.
pub fn dedupe(corpus: &mut Vec<Loaded>) -> Vec<Copied> {
    let mut order: Vec<usize> = (0..corpus.len()).filter(|i| transcript(&corpus[*i]).is_some()).collect();
    let ids: Vec<Vec<u64>> =
        corpus.iter().map(|l| transcript(l).map(response_ids).unwrap_or_default()).collect();
    let rank = ranks(corpus, &ids);
    order.sort_by_key(|i| rank[*i].clone());
    let mut taken: HashSet<u64> = HashSet::new();
    let mut copied = Vec::new();
    let mut whole = HashSet::new();
    for index in order {
        let is_copy: Vec<bool> = ids[index].iter().map(|id| *id != 0 && taken.contains(id)).collect();
        taken.extend(&ids[index]);
        let responses = is_copy.iter().filter(|c| **c).count();
        if responses == 0 {
            continue;
        }
        let path = corpus[index].path.clone();
        if let Recording::Transcript(transcript) = &mut corpus[index].recording {
            let is_whole = responses == is_copy.len();
            copied.push(Copied {
                path,
                session_id: transcript.session_id.clone(),
                responses,
                whole: is_whole,
            });
            if is_whole {
                whole.insert(index);
            } else {
                leave_out(transcript, &is_copy);
            }
        }
    }
    for index in equal_sessions(corpus) {
        if let Loaded { path, recording: Recording::Session(session) } = &corpus[index] {
            let (path, session_id) = (path.clone(), session.id.clone());
            copied.push(Copied { path, session_id, responses: session.steps.len(), whole: true });
            whole.insert(index);
        }
    }
    let mut index = 0;
    corpus.retain(|_| {
        index += 1;
        !whole.contains(&(index - 1))
    });
    make_ids_unique(corpus);
    copied.sort_by(|a, b| (&a.path, &a.session_id).cmp(&(&b.path, &b.session_id)));
    copied
}

fn transcript(loaded: &Loaded) -> Option<&Transcript> {
    match &loaded.recording {
        Recording::Transcript(transcript) => Some(transcript),
        Recording::Session(_) => None,
    }
}

/// Sessions without text that are equal to one before them.
fn equal_sessions(corpus: &[Loaded]) -> Vec<usize> {
    let mut by_id: HashMap<&str, Vec<&Session>> = HashMap::new();
    let mut equal = Vec::new();
    for (index, loaded) in corpus.iter().enumerate() {
        if let Recording::Session(session) = &loaded.recording {
            let before = by_id.entry(&session.id).or_default();
            if before.contains(&&**session) {
                equal.push(index);
            } else {
                before.push(session);
            }
        }
    }
    equal
}

/// Hashes of the response ids; 0 for a response without one, which is like no other.
fn response_ids(transcript: &Transcript) -> Vec<u64> {
    let responses =
        transcript.entries.iter().filter_map(|e| if let Entry::Response(r) = e { Some(r) } else { None });
    responses.map(|r| if r.id.is_empty() { 0 } else { xxh3_64(r.id.as_bytes()).max(1) }).collect()
}

/// Who comes first, comes by its responses. Sessions are ordered by their beginning, then the
/// shorter first: a fork has all of its parent. Files of one session stand together, the longest
/// first: it is the one that goes on.
type Rank = (i64, usize, String, std::cmp::Reverse<usize>, PathBuf);

fn ranks(corpus: &[Loaded], ids: &[Vec<u64>]) -> Vec<Rank> {
    let mut sessions: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for (loaded, ids) in corpus.iter().zip(ids) {
        if let Some(transcript) = transcript(loaded) {
            let (begin, len) = sessions.entry(&transcript.session_id).or_insert((i64::MAX, 0));
            *begin = (*begin).min(begin_ms(transcript));
            *len = (*len).max(ids.len());
        }
    }
    let rank = |(loaded, ids): (&Loaded, &Vec<u64>)| {
        let id = transcript(loaded).map_or("", |t| &t.session_id);
        let (begin, len) = sessions.get(id).copied().unwrap_or((i64::MAX, 0));
        (begin, len, id.to_owned(), std::cmp::Reverse(ids.len()), loaded.path.clone())
    };
    corpus.iter().zip(ids).map(rank).collect()
}

fn begin_ms(transcript: &Transcript) -> i64 {
    let first =
        transcript.entries.iter().find_map(|e| if let Entry::Response(r) = e { r.first_at_ms } else { None });
    first.unwrap_or(i64::MAX)
}

/// Leaves copied responses out, with everything before the last of those that the transcript begins
/// with, and with the results of their calls.
fn leave_out(transcript: &mut Transcript, is_copy: &[bool]) {
    let prefix = is_copy.iter().take_while(|c| **c).count();
    let mut calls: HashSet<String> = HashSet::new();
    let mut seen = 0;
    let mut kept = Vec::new();
    for mut entry in transcript.entries.drain(..) {
        match &mut entry {
            Entry::Response(response) => {
                seen += 1;
                let ids = response.content.iter().filter_map(call_id).map(str::to_owned);
                if is_copy[seen - 1] {
                    calls.extend(ids);
                    continue;
                }
                ids.for_each(|id| {
                    calls.remove(&id);
                });
            }
            Entry::Input(input) => {
                input
                    .content
                    .retain(|c| !matches!(c, Content::ToolResult { call_id, .. } if calls.contains(call_id)));
                if input.content.is_empty() {
                    continue;
                }
            }
            Entry::Event(Event { kind: EventKind::Rewound { keep_responses }, .. }) => {
                let before = is_copy.iter().take(*keep_responses as usize).filter(|c| !**c).count();
                *keep_responses = u32::try_from(before).unwrap_or(u32::MAX);
            }
            Entry::Event(_) => {}
        }
        if seen >= prefix {
            kept.push(entry);
        }
    }
    transcript.entries = kept;
}

fn call_id(content: &Content) -> Option<&str> {
    if let Content::ToolUse { id, .. } = content { Some(id) } else { None }
}

/// Sessions that are different and have the same id get a number behind it, in the order of `corpus`.
fn make_ids_unique(corpus: &mut [Loaded]) {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for loaded in corpus {
        let id = match &mut loaded.recording {
            Recording::Transcript(transcript) => &mut transcript.session_id,
            Recording::Session(session) => &mut session.id,
        };
        let count = uses.entry(id.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            *id = format!("{id}#{count}");
        }
    }
}
