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
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::Recording;
use crate::session::{Session, trace};
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

/// What is compared of a recording: what must be remembered of it once it is compiled and gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    path: PathBuf,
    session_id: String,
    /// Time of the first response; of a session without text, or without times, the largest number.
    begin_ms: i64,
    /// Of a transcript: one for each response.
    responses: Vec<u64>,
    /// Of a session without text: hash of all of it, and its number of steps.
    whole: Option<(u64, usize)>,
}

impl Fingerprint {
    /// The fingerprint of what was read from `path`.
    pub fn of(path: &Path, recording: &Recording) -> Fingerprint {
        match recording {
            Recording::Transcript(transcript) => Fingerprint {
                path: path.to_owned(),
                session_id: transcript.session_id.clone(),
                begin_ms: begin_ms(transcript),
                responses: response_ids(transcript),
                whole: None,
            },
            Recording::Session(session) | Recording::Hashed { session, .. } => Fingerprint {
                path: path.to_owned(),
                session_id: session.id.clone(),
                begin_ms: i64::MAX,
                responses: Vec::new(),
                whole: Some((hash_of(session), session.steps.len())),
            },
        }
    }
}

/// What of a recording counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    All,
    /// What is left when copied responses are left out, under a session id of its own.
    Part {
        /// The session id.
        session_id: String,
        /// For each response whether it is left out; empty if none is.
        is_copy: Vec<bool>,
    },
    /// Nothing.
    Nothing,
}

impl Share {
    /// Leaves out what does not count. A recording of which nothing counts stays as it is.
    pub fn apply(&self, recording: &mut Recording) {
        let Share::Part { session_id, is_copy } = self else { return };
        match recording {
            Recording::Transcript(transcript) => {
                transcript.session_id.clone_from(session_id);
                if is_copy.contains(&true) {
                    leave_out(transcript, is_copy);
                }
            }
            Recording::Session(session) | Recording::Hashed { session, .. } => {
                session.id.clone_from(session_id);
            }
        }
    }
}

/// Leaves out of every recording what another one has, and makes session ids unique. The result does
/// not depend on the order of `corpus`, but for recordings that are equal.
pub fn dedupe(corpus: &mut Vec<Loaded>) -> Vec<Copied> {
    let prints: Vec<Fingerprint> = corpus.iter().map(|l| Fingerprint::of(&l.path, &l.recording)).collect();
    let (shares, copied) = compare(&prints);
    let mut shares = shares.into_iter();
    corpus.retain_mut(|loaded| {
        let share = shares.next().unwrap_or(Share::All);
        share.apply(&mut loaded.recording);
        share != Share::Nothing
    });
    copied
}

/// What of each recording counts, in the order of `corpus`, and what was found twice. [`dedupe`] for
/// recordings that are not in memory.
pub fn compare(corpus: &[Fingerprint]) -> (Vec<Share>, Vec<Copied>) {
    let mut shares = vec![Share::All; corpus.len()];
    let mut copied = Vec::new();
    let rank = ranks(corpus);
    let mut order: Vec<usize> = (0..corpus.len()).filter(|i| corpus[*i].whole.is_none()).collect();
    order.sort_by(|a, b| rank[*a].cmp(&rank[*b]));
    let mut taken: HashSet<u64> = HashSet::new();
    for index in order {
        let ids = &corpus[index].responses;
        let is_copy: Vec<bool> = ids.iter().map(|id| *id != 0 && taken.contains(id)).collect();
        taken.extend(ids);
        let responses = is_copy.iter().filter(|c| **c).count();
        if responses > 0 {
            let whole = responses == is_copy.len();
            copied.push(corpus[index].copied(responses, whole));
            let session_id = corpus[index].session_id.clone();
            shares[index] = if whole { Share::Nothing } else { Share::Part { session_id, is_copy } };
        }
    }
    for (index, steps) in equal_sessions(corpus) {
        copied.push(corpus[index].copied(steps, true));
        shares[index] = Share::Nothing;
    }
    make_ids_unique(corpus, &mut shares);
    copied.sort_by(|a, b| (&a.path, &a.session_id).cmp(&(&b.path, &b.session_id)));
    (shares, copied)
}

impl Fingerprint {
    fn copied(&self, responses: usize, whole: bool) -> Copied {
        Copied { path: self.path.clone(), session_id: self.session_id.clone(), responses, whole }
    }
}

/// Sessions without text that are equal to one before them, with their numbers of steps.
fn equal_sessions(corpus: &[Fingerprint]) -> Vec<(usize, usize)> {
    let mut seen: HashSet<(&str, u64)> = HashSet::new();
    let mut equal = Vec::new();
    for (index, print) in corpus.iter().enumerate() {
        if let Some((hash, steps)) = print.whole
            && !seen.insert((&print.session_id, hash))
        {
            equal.push((index, steps));
        }
    }
    equal
}

fn hash_of(session: &Session) -> u64 {
    let mut bytes = Vec::new();
    trace::write(session, &mut bytes).expect("a write to memory never fails");
    xxh3_64(&bytes)
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

fn ranks(corpus: &[Fingerprint]) -> Vec<Rank> {
    let mut sessions: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for print in corpus.iter().filter(|p| p.whole.is_none()) {
        let (begin, len) = sessions.entry(&print.session_id).or_insert((i64::MAX, 0));
        *begin = (*begin).min(print.begin_ms);
        *len = (*len).max(print.responses.len());
    }
    let rank = |p: &Fingerprint| {
        let (begin, len) = sessions.get(p.session_id.as_str()).copied().unwrap_or((i64::MAX, 0));
        (begin, len, p.session_id.clone(), std::cmp::Reverse(p.responses.len()), p.path.clone())
    };
    corpus.iter().map(rank).collect()
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
fn make_ids_unique(corpus: &[Fingerprint], shares: &mut [Share]) {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (print, share) in corpus.iter().zip(shares).filter(|(_, share)| **share != Share::Nothing) {
        let count = uses.entry(&print.session_id).or_insert(0);
        *count += 1;
        if *count > 1 {
            let unique = format!("{}#{count}", print.session_id);
            match share {
                Share::Part { session_id, .. } => *session_id = unique,
                _ => *share = Share::Part { session_id: unique, is_copy: Vec::new() },
            }
        }
    }
}
