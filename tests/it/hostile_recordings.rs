//! Every format's hand-made recordings, damaged in every way that recordings are: never a panic, and never
//! another total without a word about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ctxsim::ingest::{self, FORMATS, ReadOptions, Recording};
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::usage::Usage;
use serde_json::Value;

use crate::ingest_sketch::fixture;

/// Recordings with an object a line, and whether each line says who it is, so that a doubled one is known.
const LINES: &[(&str, bool)] = &[
    ("cleared.jsonl", true),
    ("rewound.jsonl", true),
    ("blocks.jsonl", true),
    ("compaction.jsonl", true),
    ("interleaved.jsonl", true),
    ("sub-agents.jsonl", true),
    ("codex/newer.jsonl", true),
    ("codex/older.jsonl", false),
    ("codex/compacted.jsonl", false),
    ("gemini-cli/log.jsonl", true),
    ("pi/version-1.jsonl", true),
    ("pi/version-3.jsonl", true),
    ("arcturn/session.jsonl", true),
    ("arcturn/edited.jsonl", true),
    ("octo/session.jsonl", true),
    ("copilot-cli/events.jsonl", true),
    ("goose/session.jsonl", true),
    ("hash-trace/mooncake.jsonl", false),
    ("http/chat.jsonl", true),
    ("http/claude-trace.jsonl", true),
    ("openhands/output.jsonl", false),
    ("otel/openinference.jsonl", true),
];

/// Recordings that are one JSON document.
const DOCUMENTS: &[&str] = &[
    "gemini-cli/chat.json",
    "opencode/session.json",
    "opencode/steps.json",
    "opencode/compaction.json",
    "swe-agent/mini.traj.json",
    "swe-agent/task.traj",
    "swe-agent/query.traj",
    "swe-agent/attempts.traj",
    "cline/task-1/api_conversation_history.json",
    "cline/roo-2/api_conversation_history.json",
    "cline/condensed-3/api_conversation_history.json",
    "hash-trace/kv-cache-tester.json",
    "atif/claude-code.json",
    "atif/trajectory.json",
    "atif/continued.cont-1.json",
    "http/nock.json",
    "http/responses.json",
    "http/vcr.json",
    "inspect/log.json",
    "inspect/pool.json",
    "litellm/model-1772359205.25.json",
    "openhands/delegate.json",
    "openhands/events.json",
    "otel/gen-ai.json",
];

/// Others.
const OTHERS: &[&str] = &[
    "aider/a.aider.chat.history.md",
    "crush/crush.db",
    "goose/sessions.db",
    "http/go-vcr.yaml",
    "inspect/log.eval",
];

/// Fixtures that hold no text as such.
fn is_binary(name: &str) -> bool {
    name.ends_with(".db") || name.ends_with(".eval")
}

/// What is billed for a request, by the names that formats have for it.
const COUNTS: &[&str] = &[
    "input_tokens",
    "cached_input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "prompt_tokens",
    "completion_tokens",
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "input",
    "cacheRead",
    "cacheWrite",
    "cached",
    "output",
    "input_length",
    "in",
];

fn all() -> impl Iterator<Item = &'static str> {
    let lines = LINES.iter().map(|(name, _)| *name);
    lines.chain(DOCUMENTS.iter().copied()).chain(OTHERS.iter().copied())
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).expect("a fixture")
}

fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).expect("UTF-8")
}

/// What is in a recording: requests and calls, billed tokens, and whether something was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Found {
    requests: usize,
    calls: u64,
    billed: Usage,
    notices: BTreeSet<(u64, String)>,
}

impl Found {
    fn totals(&self) -> Found {
        Found { notices: BTreeSet::new(), ..self.clone() }
    }

    /// Whether something is said that is not said of `whole`.
    fn says_more_than(&self, whole: &Found) -> bool {
        !self.notices.is_subset(&whole.notices)
    }
}

/// Reads, compiles and looks at it both ways; `None` where it was refused with a reason.
fn read_as(bytes: &[u8], label: &Path, options: &ReadOptions) -> Option<Found> {
    // Archives are packed.
    let Ok(source) = ingest::input::unpack(bytes) else { return None };
    let recordings = match ingest::read(source, label, options) {
        Ok(recordings) => recordings,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let mut found = Found::default();
    for recording in recordings {
        let session = match recording {
            Recording::Transcript(transcript) => {
                let totals = transcript.totals();
                found.calls += totals.tool_calls;
                found.billed.add(&totals.usage);
                found.notices.extend(transcript.notices.iter().map(|n| (n.line, n.reason.clone())));
                compile(&transcript, &CompileOptions::default())
            }
            Recording::Hashed { session, notices } => {
                found.notices.extend(notices.into_iter().map(|n| (n.line, n.reason)));
                *session
            }
            Recording::Session(session) => *session,
        };
        found.requests += session.steps.len();
        let starts: Vec<i64> = session.steps.iter().filter_map(|step| step.start_ms).collect();
        assert!(starts.is_sorted(), "{}: requests start in order", label.display());
        for how in [RecordedCompactions::Undo, RecordedCompactions::Keep] {
            let _ = session.view(how);
        }
    }
    Some(found)
}

fn read(name: &str, bytes: &[u8]) -> Option<Found> {
    read_as(bytes, &fixture(name), &ReadOptions::default())
}

/// What is in each recording as it is.
static WHOLE: LazyLock<BTreeMap<&str, Found>> = LazyLock::new(|| {
    let one = |name| (name, read(name, &bytes(name)).unwrap_or_else(|| panic!("{name} is read")));
    all().map(one).collect()
});

fn whole(name: &str) -> Found {
    WHOLE[name].clone()
}

/// The same totals, or something is said about it.
fn never_in_silence(name: &str, what: &str, changed: &[u8]) {
    let whole = whole(name);
    if let Some(found) = read(name, changed) {
        let is_said = found.says_more_than(&whole);
        assert!(is_said || found.totals() == whole.totals(), "{name}, {what}: {found:?}, whole {whole:?}");
    }
}

fn same(name: &str, what: &str, changed: &[u8]) {
    let found = read(name, changed).map(|found| found.totals());
    assert_eq!(found, Some(whole(name).totals()), "{name}: {what}");
}

#[test]
fn every_format_has_a_recording_here() {
    let mut seen: Vec<&str> = Vec::new();
    for name in all() {
        let source = ingest::input::open(&fixture(name)).expect("there");
        for recording in ingest::read(source, &fixture(name), &ReadOptions::default()).expect(name) {
            match recording {
                Recording::Transcript(transcript) => seen.push(transcript.format),
                Recording::Hashed { session, .. } | Recording::Session(session) => {
                    seen.extend(FORMATS.iter().map(|f| f.name).filter(|n| *n == session.origin.format));
                }
            }
        }
    }
    let missing: Vec<&str> = FORMATS.iter().map(|f| f.name).filter(|name| !seen.contains(name)).collect();
    // Damaged traces are in `hostile_traces`, folders of events in `ingest_openhands`.
    assert_eq!(missing, ["ctxsim-trace", "openhands-sdk"], "a format without a hand-made recording");
}

#[test]
fn what_editors_and_other_systems_leave_changes_no_total() {
    for name in all().filter(|name| !is_binary(name)) {
        let text = text(name);
        let with = |start: &str, text: &str, end: &str| format!("{start}{text}{end}").into_bytes();
        same(name, "carriage returns", &with("", &text.replace('\n', "\r\n"), ""));
        same(name, "byte order mark", &with("\u{feff}", &text, ""));
        same(name, "NUL at the end", &with("", &text, "\0\0\0\n"));
        same(name, "blank lines", &with("\n\n", &text, "\n\n"));
        same(name, "no final newline", text.trim_end().as_bytes());
    }
}

#[test]
fn invalid_utf_8_changes_no_total() {
    for name in all().filter(|name| !is_binary(name)) {
        let mut damaged = bytes(name);
        // Amid a text: behind the first letter of words that are long enough to be one.
        let text = text(name);
        for word in ["first", "look", "done", "hello", "listing", "found"] {
            if let Some(at) = text.find(&format!("\"{word}")) {
                damaged[at + 2] = 0xff;
            }
        }
        same(name, "invalid UTF-8", &damaged);
    }
}

#[test]
fn a_recording_that_ends_early_says_so() {
    for name in all() {
        let whole = bytes(name);
        // Every byte of what comes last, and some of the rest.
        let last = whole.len().saturating_sub(400);
        for cut in (0..last).step_by(29).chain(last..whole.len()) {
            // Between two lines, or two objects on one, nothing tells that there were more.
            let is_between =
                |before: u8, at: u8| before == b'\n' || at == b'\n' || (before, at) == (b'}', b'{');
            let is_line_end = cut == 0 || is_between(whole[cut - 1], whole[cut]);
            if name.ends_with(".jsonl") && is_line_end || name.ends_with(".md") {
                read(name, &whole[..cut]);
            } else if is_binary(name) || name.ends_with(".yaml") {
                if cut % 97 == 0 {
                    read(name, &whole[..cut]);
                }
            } else {
                never_in_silence(name, &format!("cut at {cut}"), &whole[..cut]);
            }
        }
    }
}

#[test]
fn lines_that_are_there_twice_count_once() {
    for (name, _) in LINES.iter().filter(|(_, is_named)| *is_named) {
        let text = text(name);
        let twice: Vec<&str> = text.lines().flat_map(|line| [line, line]).collect();
        same(name, "doubled lines", twice.join("\n").as_bytes());
    }
}

#[test]
fn a_missing_line_or_message_costs_no_more_than_itself() {
    for (name, _) in LINES {
        let text = text(name);
        let lines: Vec<&str> = text.lines().collect();
        for gone in 0..lines.len() {
            let left: Vec<&str> =
                lines.iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, l)| *l).collect();
            // Results whose call is gone, calls whose result is, children of no parent.
            if let Some(found) = read(name, left.join("\n").as_bytes()) {
                assert!(found.requests <= whole(name).requests + 1, "{name} without line {}", gone + 1);
            }
            let mut reversed = lines.clone();
            reversed.swap(gone, 0);
            read(name, reversed.join("\n").as_bytes());
        }
    }
    for name in DOCUMENTS {
        // One holds NaN, as its writer allows.
        let Ok(document) = serde_json::from_str::<Value>(&text(name)) else { continue };
        let mut lists = Vec::new();
        find_lists(&document, String::new(), &mut lists);
        for (path, length) in lists {
            for gone in 0..length {
                let mut damaged = document.clone();
                let list = damaged.pointer_mut(&path).and_then(Value::as_array_mut).expect("a list");
                list.remove(gone);
                read(name, damaged.to_string().as_bytes());
            }
        }
    }
}

/// Paths and lengths of all lists in a document.
fn find_lists(value: &Value, path: String, found: &mut Vec<(String, usize)>) {
    match value {
        Value::Array(items) => {
            found.push((path.clone(), items.len()));
            items.iter().enumerate().for_each(|(i, item)| find_lists(item, format!("{path}/{i}"), found));
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                find_lists(item, format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// Counts of a recording: where a number begins and ends, and how texts around it are quoted.
fn counts(text: &str) -> Vec<(usize, usize, &'static str)> {
    let mut places = Vec::new();
    for name in COUNTS {
        // Some are in a document that is a text.
        for quote in ["\"", "\\\""] {
            let key = format!("{quote}{name}{quote}:");
            for (at, _) in text.match_indices(&key) {
                let rest = &text[at + key.len()..];
                let start = text.len() - rest.trim_start().len();
                let length = text[start..].bytes().take_while(u8::is_ascii_digit).count();
                if length > 0 {
                    places.push((start, start + length, quote));
                }
            }
        }
    }
    places.sort_unstable();
    places
}

#[test]
fn counts_that_are_texts_are_read_and_those_that_cannot_be_are_named() {
    let mut seen = 0;
    for name in all().filter(|name| name.ends_with(".jsonl") || name.ends_with(".json")) {
        let text = text(name);
        let places = counts(&text);
        let mut quoted = text.clone();
        for (start, end, quote) in places.iter().rev() {
            quoted.replace_range(*start..*end, &format!("{quote}{}{quote}", &text[*start..*end]));
        }
        same(name, "counts as texts", quoted.as_bytes());
        for (start, end, quote) in places {
            seen += 1;
            let many = format!("{quote}many{quote}");
            for odd in ["-5", "NaN", "1e12", &many, "[]", "4000000000000000000"] {
                let damaged = format!("{}{odd}{}", &text[..start], &text[end..]);
                never_in_silence(name, &format!("{odd} at {start}"), damaged.as_bytes());
            }
        }
    }
    assert!(seen > 100, "{seen} counts");
}

#[test]
fn clocks_that_run_backwards_change_nothing_that_is_billed() {
    for name in all().filter(|name| name.ends_with(".jsonl") || name.ends_with(".json")) {
        let text = text(name);
        let mut turned = String::new();
        let mut year = 2_099;
        let mut rest = &*text;
        // Each date is a year before the one in front of it; each epoch goes down too.
        while let Some(at) = rest.find("\"20").filter(|_| year > 1_971) {
            let (head, tail) = rest.split_at(at);
            turned.push_str(head);
            if tail.get(5..6) == Some("-") && tail.get(11..12) == Some("T") {
                let _ = write!(turned, "\"{year}");
                year -= 1;
                rest = &tail[5..];
            } else {
                turned.push_str(&tail[..3]);
                rest = &tail[3..];
            }
        }
        turned.push_str(rest);
        let mut epoch = 1_999;
        while let Some(at) = turned.find(":179").filter(|_| epoch > 1_000) {
            turned.replace_range(at..at + 4, &format!(":{epoch}"));
            epoch -= 1;
        }
        let found = read(name, turned.as_bytes()).unwrap_or_else(|| panic!("{name} is read"));
        assert_eq!(found.billed, whole(name).billed, "{name}");
    }
}

#[test]
fn deep_nesting_is_refused_or_named() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let objects = "{\"a\":".repeat(100_000);
    for (name, _) in LINES {
        let inside = format!("{{\"type\":\"message\",\"message\":{deep}}}");
        for line in [&deep, &objects, &inside] {
            let damaged = format!("{}\n{line}\n", text(name));
            let found = read(name, damaged.as_bytes()).unwrap_or_else(|| panic!("{name} is read"));
            assert_eq!(found.totals(), whole(name).totals(), "{name}");
            // A line of a type that the format does not have need not be looked into.
            let is_said = found.says_more_than(&whole(name)) || *line == inside;
            assert!(is_said, "{name}: a line is left out in silence");
        }
    }
    for name in DOCUMENTS {
        let text = text(name);
        let at = text.find('{').expect("an object") + 1;
        let damaged = format!("{}\"deep\":{deep},{}", &text[..at], &text[at..]);
        never_in_silence(name, "a deep field", damaged.as_bytes());
    }
}

#[test]
fn nothing_at_all_is_refused_by_every_format() {
    for format in FORMATS {
        let options = ReadOptions { format: Some(format.name.to_owned()) };
        for nothing in ["", "\n", "\0\0\0", "\u{feff}", "{}", "[]", "null", "x", "{", "[[", "{\"a\":1}\n{}"] {
            let read = read_as(nothing.as_bytes(), Path::new("memory"), &options);
            assert_eq!(read, None, "{} of {nothing:?}", format.name);
        }
    }
    let read = ingest::read(&b""[..], Path::new("memory"), &ReadOptions::default());
    assert_eq!(read.unwrap_err().to_string(), "memory: the file is empty");
}

#[test]
fn any_recording_read_as_any_format_is_no_panic() {
    for name in all() {
        let bytes = bytes(name);
        for format in FORMATS {
            let options = ReadOptions { format: Some(format.name.to_owned()) };
            read_as(&bytes, &fixture(name), &options);
        }
    }
}

#[test]
fn a_file_that_grows_is_read_to_its_length_at_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, _) in LINES {
        let path: PathBuf = folder.path().join("growing.jsonl");
        fs::write(&path, bytes(name)).expect("writable");
        let source = ingest::input::open(&path).expect("there");
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("there");
        std::io::Write::write_all(&mut file, &[&bytes(name)[..], b"{\"broken"].concat()).expect("writable");
        let recordings = ingest::read(source, &path, &ReadOptions::default()).expect("it is read");
        let requests = recordings.iter().map(|recording| match recording {
            Recording::Transcript(transcript) => transcript.totals().responses as usize,
            Recording::Hashed { session, .. } | Recording::Session(session) => session.steps.len(),
        });
        assert_eq!(requests.sum::<usize>(), whole(name).requests, "{name}");
    }
}
