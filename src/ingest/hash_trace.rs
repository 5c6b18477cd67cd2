//! Traces of requests without text, whose prompts are lists of block hashes (spec/formats.md section 13):
//! Mooncake's, one request a line and of nobody knows which conversation, and those of kv-cache-tester, one
//! document per conversation.
//!
//! A Mooncake request belongs to the conversation all of whose whole blocks it begins with, blocks that are in
//! every request left out; what shares less is a session of its own. [`crate::session::hash_trace`] makes sessions of both.
//!
//! # Divergence from the real API
//!
//! Of answers only the number of tokens is known, and nothing of what was read from a cache. What is behind the
//! last whole block of a prompt is sent anew with each: in Mooncake its hash is that of a part, which nobody has
//! again when the block is full, so only a prompt that ends in the same part can read it; in kv-cache-tester it
//! has none.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::value::{Counts, items, text};
use super::{Recording, document, json_lines};
use crate::session::hash_trace::{HashedRequest, HashedSession, HashedTrace};
use crate::transcript::Notice;
use crate::{Error, Result};

/// Name of Mooncake's format.
pub const MOONCAKE: &str = "mooncake";

/// Name of kv-cache-tester's format.
pub const KV_CACHE_TESTER: &str = "kv-cache-tester";

/// Tokens of a block in Mooncake's traces.
const MOONCAKE_BLOCK_TOKENS: u64 = 512;

/// Longest list of hashes that is read: a prompt of the largest window in the smallest blocks.
const MAX_IDS: usize = 1 << 20;

/// Whether a line is a request of a Mooncake trace.
pub fn recognise_mooncake(object: &Map<String, Value>) -> bool {
    object.contains_key("input_length") && object.get("hash_ids").is_some_and(Value::is_array)
}

/// Whether the first fields of a document are those of kv-cache-tester.
pub fn recognise_kv_cache_tester(object: &Map<String, Value>) -> bool {
    object.contains_key("block_size")
        && (object.contains_key("hash_id_scope") || object.contains_key("tool_tokens"))
}

/// Reads a Mooncake trace.
///
/// # Errors
///
/// If the source fails, or holds no request.
pub fn read_mooncake(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Recording>> {
    let mut requests: Vec<HashedRequest> = Vec::new();
    let mut notices = Vec::new();
    json_lines::for_each_value(source, &mut notices, |number, line, notices| {
        let mut counts = Counts::default();
        let request = HashedRequest {
            start_ms: line.get("timestamp").and_then(Value::as_i64).filter(|ms| (0..1 << 53).contains(ms)),
            ids: ids(line),
            input_tokens: counts.field(line, "input_length"),
            output_tokens: counts.field(line, "output_length"),
            is_human: true,
            duration_ms: 0,
        };
        accept(request, counts.is_bad(), number, &mut requests, notices);
    })
    .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let stem = label.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sessions = conversations(requests, &stem);
    let trace = HashedTrace {
        format: MOONCAKE.to_owned(),
        scope: MOONCAKE.to_owned(),
        block_tokens: MOONCAKE_BLOCK_TOKENS,
        sessions,
    };
    finish(&[trace], notices, label)
}

/// Puts each request to the conversation that it goes on with.
fn conversations(requests: Vec<HashedRequest>, stem: &str) -> Vec<HashedSession> {
    // What all begin with tells nothing of where one belongs.
    let mut lists = requests.iter().map(whole_blocks).filter(|ids| !ids.is_empty());
    let first = lists.next().unwrap_or_default();
    let common = lists.map(|ids| ids.iter().zip(first).take_while(|(a, b)| a == b).count());
    let common = common.min().unwrap_or(0);
    let mut sessions: Vec<HashedSession> = Vec::new();
    // Of each last block, the session that ends there; and of each session, that block.
    let mut by_end: BTreeMap<u64, usize> = BTreeMap::new();
    let mut end_of: Vec<Option<u64>> = Vec::new();
    for request in requests {
        let ids = whole_blocks(&request);
        let known = ids.iter().rev().find_map(|id| by_end.get(id).copied());
        let index = known.unwrap_or(sessions.len());
        if known.is_none() {
            sessions.push(HashedSession { id: format!("{stem}-{}", index + 1), ..HashedSession::default() });
            end_of.push(None);
        }
        if let Some(old) = end_of[index] {
            by_end.remove(&old);
        }
        end_of[index] = ids.get(common..).and_then(<[u64]>::last).copied();
        if let Some(last) = end_of[index] {
            by_end.insert(last, index);
        }
        sessions[index].requests.push(request);
    }
    sessions
}

/// Hashes that stand for whole blocks of a Mooncake prompt; the one behind them is that of a part.
fn whole_blocks(request: &HashedRequest) -> &[u64] {
    let whole = usize::try_from(request.input_tokens / MOONCAKE_BLOCK_TOKENS).unwrap_or(usize::MAX);
    &request.ids[..whole.min(request.ids.len())]
}

/// Reads a conversation of kv-cache-tester, with its sub-agents.
///
/// # Errors
///
/// If the source fails, or holds no request.
pub fn read_kv_cache_tester(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Recording>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let mut found = Vec::new();
    for document in &documents {
        let stem = label.file_stem().unwrap_or_default().to_string_lossy();
        let id = Some(text(document, "id")).filter(|id| !id.is_empty()).unwrap_or(&stem);
        let mut counts = Counts::default();
        let mut reader = Reader {
            notices: &mut notices,
            head_tokens: (counts.field(document, "tool_tokens"), counts.field(document, "system_tokens")),
            sessions: Vec::new(),
            number: 0,
        };
        let main =
            HashedSession { id: id.to_owned(), head_tokens: reader.head_tokens, ..HashedSession::default() };
        reader.conversation(document, main);
        let is_local = text(document, "hash_id_scope") == "local";
        let trace = HashedTrace {
            format: KV_CACHE_TESTER.to_owned(),
            scope: if is_local { format!("{KV_CACHE_TESTER} {id}") } else { KV_CACHE_TESTER.to_owned() },
            block_tokens: counts.field(document, "block_size").max(1),
            sessions: reader.sessions,
        };
        found.push(trace);
    }
    finish(&found, notices, label)
}

struct Reader<'n> {
    notices: &'n mut Vec<Notice>,
    head_tokens: (u64, u64),
    sessions: Vec<HashedSession>,
    number: u64,
}

impl Reader<'_> {
    /// One conversation, and those that it started.
    fn conversation(&mut self, holder: &Value, mut session: HashedSession) {
        let mut children = Vec::new();
        for request in items(holder, "requests") {
            self.number += 1;
            if request.get("requests").is_some() {
                children.push(request);
                continue;
            }
            if session.model.is_empty() {
                text(request, "model").clone_into(&mut session.model);
            }
            let mut counts = Counts::default();
            let hashed = HashedRequest {
                start_ms: milliseconds(request.get("t")),
                duration_ms: milliseconds(request.get("api_time"))
                    .and_then(|ms| ms.try_into().ok())
                    .unwrap_or(0),
                ids: ids(request),
                input_tokens: counts.field(request, "in"),
                output_tokens: counts.field(request, "out"),
                is_human: items(request, "input_types").iter().any(|t| t == "text"),
            };
            accept(hashed, counts.is_bad(), self.number, &mut session.requests, self.notices);
        }
        let id = session.id.clone();
        self.sessions.push(session);
        // Documents nest no deeper than a parser allows.
        for (n, child) in (1..).zip(children) {
            let session = HashedSession {
                id: format!("{id}-agent-{n}"),
                parent: Some(id.clone()),
                ..HashedSession::default()
            };
            self.conversation(child, session);
        }
    }
}

fn ids(request: &Value) -> Vec<u64> {
    items(request, "hash_ids").iter().take(MAX_IDS).filter_map(Value::as_u64).collect()
}

/// Takes a request whose counts can be.
fn accept(
    request: HashedRequest,
    is_bad: bool,
    number: u64,
    requests: &mut Vec<HashedRequest>,
    notices: &mut Vec<Notice>,
) {
    if is_bad || request.input_tokens == 0 {
        let reason = "a token count is missing, negative, no number or over 1e9: this request is left out";
        notices.push(Notice { line: number, reason: reason.to_owned() });
    } else {
        requests.push(request);
    }
}

/// Seconds, with any number of decimals, as milliseconds.
fn milliseconds(value: Option<&Value>) -> Option<i64> {
    let text = value.filter(|v| v.is_number())?.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let whole: i64 = whole.parse().ok().filter(|s| (0..1 << 40).contains(s))?;
    let mut digits = decimals.bytes().chain(std::iter::repeat(b'0')).take(3);
    let ms = digits.try_fold(0, |ms, b| b.is_ascii_digit().then(|| ms * 10 + i64::from(b - b'0')))?;
    Some(whole * 1000 + ms)
}

fn finish(traces: &[HashedTrace], notices: Vec<Notice>, label: &Path) -> Result<Vec<Recording>> {
    let sessions = traces.iter().flat_map(HashedTrace::sessions).filter(|s| !s.steps.is_empty());
    let hashed = |session| Recording::Hashed { session: Box::new(session), notices: Vec::new() };
    let mut recordings: Vec<Recording> = sessions.map(hashed).collect();
    match recordings.first_mut() {
        Some(Recording::Hashed { notices: first, .. }) => *first = notices,
        _ => {
            let first = notices.first();
            let because = first.map_or(String::new(), |notice| format!("; {}", notice.reason));
            let reason = format!("this recording holds no request{because}");
            return Err(Error::Input { path: label.to_owned(), line: first.map_or(0, |n| n.line), reason });
        }
    }
    Ok(recordings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::milliseconds;

    #[test]
    fn seconds_become_milliseconds() {
        for (seconds, ms) in
            [(json!(0.0), 0), (json!(12), 12_000), (json!(4.19), 4_190), (json!(1.23456), 1_234)]
        {
            assert_eq!(milliseconds(Some(&seconds)), Some(ms), "{seconds}");
        }
        for none in [json!(-1.0), json!("3"), json!(1e300), json!(null)] {
            assert_eq!(milliseconds(Some(&none)), None, "{none}");
        }
    }
}
