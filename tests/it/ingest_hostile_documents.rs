//! What may be wrong with any recording, tried on the fixtures of formats that hold documents or logs.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, Recording, Totals, input};

use crate::ingest_sketch::{fixture, read_bytes};

const FIXTURES: &[&str] = &[
    "atif/claude-code.json",
    "atif/trajectory.json",
    "atif/continued.cont-1.json",
    "http/chat.jsonl",
    "http/claude-trace.jsonl",
    "http/go-vcr.yaml",
    "http/nock.json",
    "http/responses.json",
    "http/vcr.json",
    "inspect/log.json",
    "inspect/pool.json",
    "openhands/delegate.json",
    "openhands/events.json",
    "openhands/output.jsonl",
    "otel/gen-ai.json",
    "otel/openinference.jsonl",
];

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn totals(bytes: &[u8]) -> Vec<Totals> {
    let mut totals: Vec<Totals> = read_bytes(bytes).unwrap().iter().map(|t| t.totals()).collect();
    totals.sort_by_key(|t| (t.usage.prompt_tokens(), t.responses));
    totals
}

#[test]
fn a_recording_that_is_cut_off_never_panics_and_holds_no_more_than_the_whole_in_silence() {
    for name in FIXTURES {
        let whole = bytes(name);
        let most: u64 = totals(&whole).iter().map(|t| t.usage.output_tokens).sum();
        for cut in (0..whole.len()).step_by(11) {
            if let Ok(transcripts) = read_bytes(&whole[..cut]) {
                let output: u64 = transcripts.iter().map(|t| t.totals().usage.output_tokens).sum();
                let says_so = transcripts.iter().any(|t| !t.notices.is_empty());
                assert!(output <= most || says_so, "{name} cut at {cut}");
            }
        }
    }
}

#[test]
fn every_line_that_is_there_twice_counts_once() {
    for name in FIXTURES.iter().filter(|name| name.ends_with(".jsonl")) {
        let text = String::from_utf8(bytes(name)).unwrap();
        let twice: Vec<&str> = text.lines().flat_map(|line| [line, line]).collect();
        // Sessions without ids, and those told apart by their file alone, would be copies of each other.
        if !name.starts_with("openhands") {
            assert_eq!(totals(twice.join("\n").as_bytes()), totals(text.as_bytes()), "{name}");
        }
    }
}

#[test]
fn carriage_returns_marks_and_zeros_change_nothing() {
    for name in FIXTURES.iter().filter(|name| !name.ends_with(".yaml")) {
        let text = String::from_utf8(bytes(name)).unwrap();
        let noisy = format!("\u{feff}{}\0\0", text.replace('\n', "\r\n"));
        assert_eq!(totals(noisy.as_bytes()), totals(text.as_bytes()), "{name}");
    }
}

#[test]
fn nesting_without_end_is_no_panic() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        for head in [
            r#"{"schema_version":"ATIF-v1.5","steps":"#,
            r#"{"resourceSpans":"#,
            r#"{"version":2,"eval":"#,
            r#"{"request":{"url":"u","body":{}},"response":"#,
            r#"{"kwargs":{},"messages":"#,
            r#"{"interactions":"#,
            "version: 2\ninteractions: ",
        ] {
            let _ = read_bytes(format!("{head}{deep}}}").as_bytes());
        }
    }
}

/// Every value of every fixture is replaced by one of another kind, one at a time.
#[test]
fn a_field_of_another_kind_is_no_panic() {
    for name in FIXTURES.iter().filter(|name| name.ends_with(".json")) {
        let text = String::from_utf8(bytes(name)).unwrap().replace("NaN", "null");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut paths = Vec::new();
        collect(&document, &mut String::new(), &mut paths);
        for path in &paths {
            for odd in ["-1", "\"\"", "[{}]"] {
                let mut changed = document.clone();
                let odd: serde_json::Value = serde_json::from_str(odd).unwrap_or_default();
                *changed.pointer_mut(path).unwrap() = odd;
                let _ = read_bytes(changed.to_string().as_bytes());
            }
        }
    }
}

fn collect(value: &serde_json::Value, path: &mut String, paths: &mut Vec<String>) {
    let mut inner = |name: &str, value: &serde_json::Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        paths.push(path.clone());
        collect(value, path, paths);
        path.truncate(length);
    };
    match value {
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| inner(&i.to_string(), item));
        }
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, field)| inner(name, field)),
        _ => {}
    }
}

#[test]
fn what_is_no_recording_gets_the_list_of_what_is() {
    for text in ["{\"a\":1}", "a: 1\nb: 2\n", "[1,2]", "<html></html>"] {
        let message = read_bytes(text.as_bytes()).unwrap_err().to_string();
        for format in ingest::FORMATS {
            assert!(message.contains(format.name), "{message}");
        }
    }
}

#[test]
fn every_fixture_is_of_the_format_that_its_folder_says() {
    for (folder, formats) in [
        ("atif", &["atif"][..]),
        ("http", &["cassette", "claude-trace", "request-log"]),
        ("inspect", &["inspect"]),
        ("litellm", &["litellm"]),
        ("openhands", &["openhands", "openhands-sdk"]),
        ("otel", &["otel"]),
    ] {
        for path in input::resolve(&[fixture(folder).to_str().unwrap()]).unwrap() {
            let read = read_any(&path);
            assert!(read.iter().all(|format| formats.contains(format)), "{}: {read:?}", path.display());
        }
    }
}

fn read_any(path: &Path) -> Vec<&'static str> {
    let read = ingest::read(input::open(path).unwrap(), path, &ReadOptions::default()).unwrap();
    read.iter().map(|r| if let Recording::Transcript(t) = r { t.format } else { "" }).collect()
}
