//! Recordings of uncommon size.

use std::fs;
use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, Recording};
use serde_json::Value;

use crate::ingest_sketch::fixture;
use crate::support::{json, run};

/// A session of one request.
fn tiny(id: usize, text: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"u{id}","sessionId":"s{id}","message":{{"id":"m{id}","model":"claude-opus-5-5","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":{},"output_tokens":2}}}}}}"#,
        id + 1
    ) + "\n"
}

#[test]
fn a_folder_of_ten_thousand_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for id in 0..10_000 {
        let sub = folder.path().join(format!("{}", id / 500));
        fs::create_dir_all(&sub).expect("writable");
        fs::write(sub.join(format!("{id}.jsonl")), tiny(id, "x")).expect("writable");
    }
    let found = json(&run(folder.path(), ["inspect", ".", "--format", "json"]), 0);
    let sessions = found["sessions"].as_array().expect("a list");
    let tokens = |session: &Value| session["recorded"]["uncached_tokens"].as_u64().expect("a number");
    assert_eq!(sessions.len(), 10_000);
    assert_eq!(sessions.iter().map(tokens).sum::<u64>(), 10_000 * 10_001 / 2);
}

#[test]
fn a_line_of_100_mb() {
    let long = "x".repeat(100 << 20);
    let lines = [tiny(0, "first"), tiny(1, &long), tiny(2, "last")].concat().replace("\"s1\"", "\"s0\"");
    let lines = lines.replace("\"s2\"", "\"s0\"");
    let read = ingest::read(lines.as_bytes(), Path::new("memory"), &ReadOptions::default()).expect("read");
    let Recording::Transcript(transcript) = &read[0] else { panic!("not a conversation") };
    assert_eq!((transcript.totals().responses, transcript.totals().usage.uncached_tokens), (3, 6));
    assert!(transcript.notices.is_empty());
    // In a document it is all the same.
    let plain = fs::read_to_string(fixture("opencode/session.json")).expect("a fixture");
    let document = plain.replace("\"go on\"", &format!("\"{long}\""));
    assert!(document.len() > 100 << 20, "the text is in it");
    let read = ingest::read(document.as_bytes(), Path::new("memory"), &ReadOptions::default()).expect("read");
    let Recording::Transcript(transcript) = &read[0] else { panic!("not a conversation") };
    let plain = ingest::read(plain.as_bytes(), Path::new("memory"), &ReadOptions::default()).expect("read");
    let Recording::Transcript(plain) = &plain[0] else { panic!("not a conversation") };
    assert_eq!(transcript.totals(), plain.totals());
}
