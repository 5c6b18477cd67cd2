//! A trace tells nothing of what was said, and of nobody who said it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use ctxsim::ingest::{self, FORMATS, Recording};
use ctxsim::session::roles::Role;
use rand::RngExt;
use serde_json::{Map, Value};

use crate::ingest_sketch::fixture;
use crate::support::{run, stderr, stdout};

/// Recordings of every format that is not a trace already.
const RECORDINGS: &[&str] = &[
    "blocks.jsonl",
    "compaction.jsonl",
    "injected.jsonl",
    "cleared.jsonl",
    "sub-agents.jsonl",
    "resumed.jsonl",
    "rewound.jsonl",
    "codex/newer.jsonl",
    "codex/compacted.jsonl",
    "codex/sub-agent.jsonl",
    "gemini-cli/chat.json",
    "gemini-cli/log.jsonl",
    "opencode/session.json",
    "opencode/compaction.json",
    "opencode/steps.json",
    "pi/version-1.jsonl",
    "pi/version-3.jsonl",
    "pi/compaction.jsonl",
    "swe-agent/mini.traj.json",
    "swe-agent/task.traj",
    "swe-agent/query.traj",
    "swe-agent/attempts.traj",
    "arcturn/session.jsonl",
    "arcturn/edited.jsonl",
    "octo/session.jsonl",
    "copilot-cli/events.jsonl",
    "cline/task-1/api_conversation_history.json",
    "cline/roo-2/api_conversation_history.json",
    "crush/crush.db",
    "goose/session.jsonl",
    "goose/sessions.db",
    "aider/a.aider.chat.history.md",
    "hash-trace/mooncake.jsonl",
    "hash-trace/kv-cache-tester.json",
    "atif/trajectory.json",
    "atif/claude-code.json",
    "atif/continued.cont-1.json",
    "http/chat.jsonl",
    "http/claude-trace.jsonl",
    "http/go-vcr.yaml",
    "http/responses.json",
    "inspect/log.json",
    "inspect/pool.json",
    "inspect/log.eval",
    "openhands/events.json",
    "openhands/output.jsonl",
    "otel/gen-ai.json",
    "otel/openinference.jsonl",
];

/// Texts of all traces of `files`, with the names of their files.
fn traces(dir: &Path, files: &[&Path], arguments: &[&str]) -> Vec<String> {
    let out = dir.join(format!("traces-{}", arguments.len()));
    let mut args = vec!["trace".to_owned(), "-o".to_owned(), out.display().to_string()];
    args.extend(files.iter().map(|f| f.display().to_string()));
    args.extend(arguments.iter().map(|a| (*a).to_owned()));
    let output = run(dir, &args);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 5)), "{code:?} {}{}", stdout(&output), stderr(&output));
    let entries = fs::read_dir(out).expect("written").map(|entry| entry.expect("readable"));
    let text = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        format!("{name}\n{}", fs::read_to_string(entry.path()).expect("UTF-8"))
    };
    entries.map(text).collect()
}

/// Words that a schema allows.
fn enum_values(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                if matches!(name.as_str(), "enum" | "const" | "required") {
                    let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                    words.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                enum_values(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| enum_values(item, words)),
        _ => {}
    }
}

/// Every text in a value, with the names of the fields that lead to it.
fn strings(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        Value::Array(items) => items.iter().for_each(|item| strings(item, path, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| strings(item, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

fn is_hash(text: &str) -> bool {
    text.len() >= 16 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Versions may name a preview: `0.119.0-alpha.28`.
fn is_number_or_version(text: &str) -> bool {
    const PREVIEWS: [&str; 5] = ["alpha", "beta", "rc", "preview", "nightly"];
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let parts = |text: &str| text.split(['.', '-']).all(|part| is_number(part) || PREVIEWS.contains(&part));
    text.is_empty() || (text.starts_with(|c: char| c.is_ascii_digit()) && parts(text))
}

/// Every text of a trace is of a known kind; gives how many there are.
fn assert_kinds<'t>(
    lines: impl Iterator<Item = &'t str>,
    words: &BTreeSet<String>,
    are_tools_named: bool,
) -> usize {
    let mut seen = 0;
    for line in lines {
        let mut found = Vec::new();
        strings(&serde_json::from_str(line).expect("JSON"), "", &mut found);
        seen += found.len();
        for (path, text) in found {
            // A tool's or a model's name is one; hashed if that was asked for.
            let is_tool = path.ends_with("/tools/name") && are_tools_named;
            let is_model = path.ends_with("/model");
            let is_known = words.contains(&text) || is_hash(&text) || is_number_or_version(&text);
            assert!(is_tool || is_model || is_known, "{path}: {text:?}");
        }
    }
    seen
}

/// Texts that a trace may hold besides names, hashes and numbers.
fn schema_words(dir: &Path) -> BTreeSet<String> {
    let schema: Value = serde_json::from_slice(&run(dir, ["schema", "trace"]).stdout).expect("JSON");
    let mut words = BTreeSet::new();
    enum_values(&schema, &mut words);
    words.extend(FORMATS.iter().map(|f| f.name.to_owned()));
    words.extend(Role::ALL.iter().map(|(_, word)| (*word).to_owned()));
    words
}

#[test]
fn the_committed_traces_hold_nothing_else_either() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = schema_words(dir.path());
    let mut seen = 0;
    for folder in ["fixtures/validate", "fixtures/traces"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).display().to_string();
        for path in ingest::input::resolve(&[folder]).expect("traces") {
            let mut text = String::new();
            ingest::input::open(&path).expect("there").read_to_string(&mut text).expect("UTF-8");
            seen += assert_kinds(text.lines(), &words, true);
        }
    }
    assert!(seen > 10_000, "{seen} texts");
}

#[test]
fn every_text_in_a_trace_is_of_a_kind_that_the_schema_knows() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = schema_words(dir.path());
    let files: Vec<_> = RECORDINGS.iter().map(|name| fixture(name)).collect();
    let files: Vec<&Path> = files.iter().map(|f| &**f).collect();
    let mut seen = 0;
    for arguments in [&[][..], &["--anonymise"]] {
        for trace in traces(dir.path(), &files, arguments) {
            if trace.lines().next().is_some_and(|name| name.ends_with(".trace.jsonl")) {
                seen += assert_kinds(trace.lines().skip(1), &words, arguments.is_empty());
            }
        }
    }
    assert!(seen > 500, "{seen} texts");
}

/// Fields whose text is part of a format, or is allowed in a trace: names of kinds, tools and models, versions,
/// and times.
const OF_FORMAT: &[&str] = &[
    "type",
    "kind",
    "role",
    "subtype",
    "status",
    "stop_reason",
    "stopReason",
    "model",
    "modelID",
    "modelId",
    "model_id",
    "model_name",
    "newModel",
    "name",
    "namespace",
    "toolName",
    "tool",
    "tool_name",
    "version",
    "cli_version",
    "copilotVersion",
    "agent_version",
    "mini_version",
    "trajectory_format",
    "timestamp",
    "startTime",
    "lastUpdated",
    "created_at",
    "createdAt",
    "say",
    "ask",
    "mime",
    "mimeType",
    "media_type",
    "phase",
    "reason",
    "api",
    "provider",
    "hash_id_scope",
    "output_types",
    "input_types",
    "stop",
    "trigger",
    "schema_version",
    "function_name",
    "function",
    "event",
    "completed",
    "source",
    "action",
    "observation",
];

/// Fields of counts; where they are texts they stay numbers.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'e'))
}

/// Puts a canary into every text, and into every name of an argument; the same text gets the same one, so that
/// what belongs together still does. Gives the canaries.
struct Canaries {
    of: std::collections::BTreeMap<String, String>,
    rng: Box<dyn rand::Rng>,
}

impl Canaries {
    fn new() -> Canaries {
        Canaries {
            of: std::collections::BTreeMap::new(),
            rng: Box::new(ctxsim::seed::stream(1, "canaries", &[])),
        }
    }

    fn canary(&mut self, text: &str) -> String {
        if let Some(canary) = self.of.get(text) {
            return canary.clone();
        }
        let canary: String = (0..12).map(|_| char::from(self.rng.random_range(b'a'..=b'z'))).collect();
        self.of.insert(text.to_owned(), canary.clone());
        canary
    }

    fn plant(&mut self, value: &mut Value, field: &str, in_arguments: bool) {
        match value {
            Value::String(text) => *text = self.planted(text, field, in_arguments),
            Value::Array(items) => items.iter_mut().for_each(|i| self.plant(i, field, in_arguments)),
            // Telemetry says in a value what the field is called, and wraps the other in its type.
            Value::Object(fields) if fields.len() == 2 && fields.get("key").is_some_and(Value::is_string) => {
                let key = fields["key"].as_str().expect("just seen").to_owned();
                let field = key.rsplit('.').next().unwrap_or_default();
                for value in fields.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
                    self.plant(value, field, in_arguments || field == "arguments");
                }
                if in_arguments {
                    fields.insert("key".to_owned(), self.canary(&key).into());
                }
            }
            Value::Object(fields) if is_wrapper(fields) => {
                fields.values_mut().for_each(|item| self.plant(item, field, in_arguments));
            }
            Value::Object(fields) => {
                let is_event = fields.contains_key("action");
                for (name, mut item) in std::mem::take(fields) {
                    let is_call = is_arguments(&name, &item) && !is_event;
                    self.plant(&mut item, &name, in_arguments || is_call);
                    fields.insert(if in_arguments { self.canary(&name) } else { name }, item);
                }
            }
            _ => {}
        }
    }

    fn planted(&mut self, text: &str, field: &str, in_arguments: bool) -> String {
        // Documents in a text, as calls and telemetry have them.
        if text.starts_with(['{', '['])
            && let Ok(mut inner) = serde_json::from_str::<Value>(text)
        {
            let is_call = is_arguments(field, &inner);
            self.plant(&mut inner, field, in_arguments || is_call);
            return inner.to_string();
        }
        // An answer as it came, line by line.
        if text.starts_with("event: ") {
            let line = |line: &str| match line.strip_prefix("data: ") {
                Some(data) => format!("data: {}", self.planted(data, "", false)),
                None => line.to_owned(),
            };
            return text.split('\n').map(line).collect::<Vec<_>>().join("\n");
        }
        // What tells a format, or who wrote something, stays in front.
        let is_part = OF_FORMAT.contains(&field) && !in_arguments;
        if is_part || text.is_empty() || is_number(text) {
            return text.to_owned();
        }
        let marks = ["<task>", "<user_message>", "<environment_details>", "ses", "msg", "data:"];
        let mark = marks.into_iter().find(|mark| text.starts_with(mark)).unwrap_or_default();
        format!("{mark}{}", self.canary(text))
    }
}

/// A value of telemetry with its type around it.
fn is_wrapper(fields: &Map<String, Value>) -> bool {
    const TYPES: [&str; 4] = ["stringValue", "arrayValue", "kvlistValue", "values"];
    fields.len() == 1 && fields.keys().all(|name| TYPES.contains(&name.as_str()))
}

/// A list under `input` is what was said so far.
fn is_arguments(field: &str, value: &Value) -> bool {
    matches!(field, "arguments" | "args") || (field == "input" && value.is_object())
}

fn responses(recordings: &[Recording]) -> u64 {
    let of = |recording: &Recording| match recording {
        Recording::Transcript(transcript) => transcript.totals().responses,
        Recording::Session(_) | Recording::Hashed { .. } => 0,
    };
    recordings.iter().map(of).sum()
}

#[test]
fn a_canary_in_every_text_of_a_recording_is_in_no_trace() {
    let mut planted = 0;
    let is_json = |name: &&&str| ["json", "jsonl", "traj"].iter().any(|end| name.ends_with(end));
    for name in RECORDINGS.iter().filter(is_json) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut canaries = Canaries::new();
        let text = fs::read_to_string(fixture(name)).expect("a fixture").replace("NaN", "null");
        let mut changed = String::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let Ok(mut value) = value else { break };
            canaries.plant(&mut value, "", false);
            changed.push_str(&value.to_string());
            changed.push('\n');
        }
        let folder = dir.path().join(canaries.canary("the project's folder"));
        fs::create_dir(&folder).expect("writable");
        let file = folder.join(format!("{}.jsonl", canaries.canary("the recording's name")));
        fs::write(&file, &changed).expect("writable");
        let options = ingest::ReadOptions::default();
        let read = ingest::read(ingest::input::open(&file).expect("there"), &file, &options);
        let before = ingest::read(text.as_bytes(), &file, &options).expect(name);
        // References into the text may point nowhere now, and what they hold together falls apart.
        let kept = responses(&read.expect(name));
        assert!(kept >= responses(&before), "{name}: the canaries broke it: {kept} responses");
        assert!(canaries.of.len() > 1, "{name}");
        planted += canaries.of.len();
        for arguments in [&[][..], &["--anonymise"]] {
            for trace in traces(dir.path(), &[&file], arguments) {
                for (text, canary) in &canaries.of {
                    assert!(
                        !trace.contains(canary.as_str()),
                        "{name} {arguments:?}: {text:?} is in the trace"
                    );
                }
            }
        }
    }
    assert!(planted > 300, "{planted} canaries");
}

#[test]
fn anonymised_tools_are_hashes_of_a_key_that_is_drawn_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = fixture("blocks.jsonl");
    let names = |traces: Vec<String>| -> Vec<String> {
        let trace = traces.iter().find(|text| text.contains("ctxsim_trace")).expect("a trace");
        let header: Value = serde_json::from_str(trace.lines().nth(1).expect("a header")).expect("JSON");
        let tools = header["ctxsim_trace"]["tools"].as_array().expect("tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let plain = names(traces(dir.path(), &[&file], &[]));
    let once = names(traces(dir.path(), &[&file], &["--anonymise"]));
    let again = names(traces(dir.path(), &[&file], &["--anonymise", "--force"]));
    assert!(!plain.is_empty() && plain.iter().all(|name| !is_hash(name)), "{plain:?}");
    assert!(once.iter().all(|name| is_hash(name)), "{once:?}");
    assert_eq!(once.len(), plain.len());
    assert_ne!(once, again);
}
