//! Traces: both ways, versions, errors, and what is not in them.

use std::path::Path;

use ctxsim::session::compile::{CompileOptions, compile};
use ctxsim::session::{Session, trace};
use ctxsim::transcript::{Content, EventKind as Recorded, ResultPart};

use crate::transcripts::*;

fn sample() -> Session {
    let parts = vec![ResultPart::Text("é\n".into()), ResultPart::Image(Default::default())];
    compile(
        &transcript(vec![
            input(vec![text(100)]),
            billed(vec![thinking(5, 40), call("toolu/1")], [3, 9_000, 1_000]),
            input(vec![Content::ToolResult { call_id: "toolu/1".into(), parts, is_error: true }]),
            compaction(),
            injected(vec![text(400)]),
            billed(vec![text(10)], [3, 9_000, 2_027]),
            event(Recorded::Cleared),
            input(vec![text(100)]),
            response(vec![text(10)]),
            event(Recorded::Resumed),
        ]),
        &CompileOptions::default(),
    )
}

fn written(session: &Session) -> String {
    let mut out = Vec::new();
    trace::write(session, &mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn read(text: &str) -> Result<Session, String> {
    trace::read(text.as_bytes(), Path::new("a.trace.jsonl")).map_err(|e| e.to_string())
}

#[test]
fn a_session_comes_back_as_it_was() {
    let session = sample();
    let text = written(&session);
    assert_eq!(read(&text).as_ref(), Ok(&session));
    // Header, blocks, steps, events.
    let lines = 1 + session.blocks.len() + session.steps.len() + session.events.len();
    assert_eq!(text.lines().count(), lines);
    assert_eq!(written(&read(&text).expect("it was read before")), text);
}

#[test]
fn an_empty_session_comes_back_too() {
    let session = compile(&transcript(vec![]), &CompileOptions::default());
    assert_eq!(read(&written(&session)), Ok(session));
}

#[test]
fn a_trace_holds_no_text() {
    let secret = Content::Text("the secret plan".into());
    let command = Content::ToolUse {
        id: "toolu_private".into(),
        name: "Bash".into(),
        input: r#"{"command":"cat password.txt"}"#.into(),
    };
    let session =
        compile(&transcript(vec![input(vec![secret]), response(vec![command])]), &CompileOptions::default());
    let text = written(&session);
    for word in ["secret", "password", "command", "toolu"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(text.contains("Bash") && text.contains("\"session\""));
    let text = written(&session.anonymised(77));
    assert!(!text.contains("Bash") && !text.contains("\"session\"") && text.contains("\"shell\""));
}

#[test]
fn anonymised_hashes_depend_on_the_key_and_keep_equality() {
    let session = sample();
    let (a, b) = (session.anonymised(1), session.anonymised(2));
    assert_ne!(a.blocks.hash[0], session.blocks.hash[0]);
    assert_ne!(a.blocks.hash[0], b.blocks.hash[0]);
    let equal = |s: &Session| {
        let hash = &s.blocks.hash;
        hash.iter().map(|h| hash.iter().position(|other| other == h)).collect::<Vec<_>>()
    };
    assert_eq!(equal(&a), equal(&session));
    assert_eq!(a.blocks.tokens, session.blocks.tokens);
}

#[test]
fn unknown_fields_and_lines_of_later_versions_are_ignored() {
    let session = sample();
    let mut lines: Vec<String> = written(&session).lines().map(str::to_owned).collect();
    lines[0] = lines[0].replacen("\"id\":", "\"new_field\":{\"a\":[1]},\"id\":", 1);
    lines[1] = lines[1].replacen("\"k\":", "\"uses\":[0],\"k\":", 1);
    lines.insert(2, r#"{"z":{"n":1}}"#.to_owned());
    lines.push(String::new());
    assert_eq!(read(&lines.join("\n")), Ok(session));
}

#[test]
fn errors_name_line_and_field() {
    let text = written(&sample());
    let lines: Vec<&str> = text.lines().collect();
    let with = |line: usize, from: &str, to: &str| {
        assert!(lines[line].contains(from), "{}", lines[line]);
        let mut changed: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
        changed[line] = changed[line].replacen(from, to, 1);
        read(&changed.join("\n")).expect_err("the change is an error")
    };
    let starts = "a.trace.jsonl, line 1: format_version 2 is newer than 1";
    assert!(with(0, "\"format_version\":1", "\"format_version\":2").starts_with(starts));
    assert!(with(0, "\"format_version\":1", "\"format_version\":null").contains("field `format_version`"));
    assert!(with(0, "ctxsim_trace", "ctxsim_other").contains("field `ctxsim_trace`"));
    let error = with(1, "\"n\":27", "\"n\":\"many\"");
    assert!(error.starts_with("a.trace.jsonl, line 2: field `n`: invalid type"), "{error}");
    let error = with(1, "\"n\":27,", "");
    assert!(error.starts_with("a.trace.jsonl, line 2: ") && error.contains("missing field `n`"), "{error}");
    let error = with(1, "user_text", "user_tex");
    assert!(error.contains("field `k`: unknown variant `user_tex`"), "{error}");
    let call = lines.iter().position(|l| l.contains("\"tool_use\"")).expect("there is a call");
    let error = with(call, "\"t\":0", "\"t\":7");
    assert!(error.contains("field `t` is 7, but the header has 1 tools"), "{error}");
    let step = lines.iter().position(|l| l.starts_with("{\"s\"")).expect("there is a step");
    let error = with(step, "\"i\":1", "\"i\":2");
    assert!(error.contains("fields `i` and `o` count 4 blocks, but 3"), "{error}");
    let error = read(&lines[..lines.len() - 1].join("\n")).expect_err("a line is missing");
    assert!(error.contains("promises 3 events, the file has 2"), "{error}");
    assert!(read("").expect_err("nothing is there").contains("empty"));
    assert!(read("{").expect_err("no JSON").contains("line 1: not JSON"));
}

#[test]
fn the_schema_describes_every_line() {
    let schema = trace::json_schema().to_string();
    for key in ["ctxsim_trace", "\"b\"", "\"s\"", "\"e\"", "format_version", "BlockLine", "uses"] {
        assert!(schema.contains(key), "{key}");
    }
}
