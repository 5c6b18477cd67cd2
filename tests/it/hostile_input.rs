//! What a hostile, or merely unlucky, user gives: a sentence and an exit code, never a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ctxsim::session::trace;
use serde_json::{Value, json};

use crate::support::{code, ctxsim, json, one_session, run, stderr, stdout};

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/ingest").join(name);
    path.display().to_string()
}

#[test]
fn timestamp_overflow() {
    let dir = one_session();
    let output = run(dir.path(), ["simulate", &fixture("timestamp-overflow.jsonl"), "--format", "json"]);
    let results = json(&output, 0);
    let reasons: Vec<&str> =
        results["skipped"].as_array().expect("a list").iter().filter_map(|s| s["reason"].as_str()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().all(|r| r.contains("field `timestamp`")), "{reasons:?}");
}

/// A small trace, with one field of one line replaced.
fn changed(line: usize, pointer: &str, value: &Value) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces");
    let text = fs::read_to_string(folder.join("9bdf5c9b-da28-495b-a231-e23973d577bd.trace.jsonl"));
    let mut lines: Vec<String> = text.expect("a fixture").lines().map(str::to_owned).collect();
    let mut object: Value = serde_json::from_str(&lines[line]).expect("JSON");
    *object.pointer_mut(pointer).expect("the field is there") = value.clone();
    lines[line] = object.to_string();
    lines.join("\n")
}

#[test]
fn traces_with_impossible_numbers_name_line_and_field() {
    for (line, pointer, value, expected) in [
        (0, "/ctxsim_trace/warm_prefix_tokens", json!(u64::MAX), "line 1: field `warm_prefix_tokens`"),
        (0, "/ctxsim_trace/coefficients/text_milli", json!(u32::MAX), "line 1: field `text_milli`"),
        (0, "/ctxsim_trace/calls/0/0", json!(u32::MAX), "line 1: field `calls`"),
        (7, "/s/t", json!(i64::MAX), "line 8: field `t` is no time"),
        (7, "/s/t", json!(i64::MIN), "line 8: field `t` is no time"),
        (7, "/s/u/3", json!(1_000_000_001), "line 8: field `u`"),
        (6, "/b/m", json!(0), "line 7: field `m` goes back"),
        (6, "/b/t", json!(null), "line 7: field `t` is missing"),
        (7, "/s/t", json!(null), "field `t` is in some steps and not in others"),
    ] {
        let read = trace::read(changed(line, pointer, &value).as_bytes(), Path::new("t"));
        let error = read.expect_err(pointer).to_string();
        assert!(error.contains(expected), "{pointer}: {error}");
    }
}

#[test]
fn a_header_that_promises_billions_takes_no_memory() {
    let text = changed(0, "/ctxsim_trace/calls/0/0", &json!(4_000_000_000_u32))
        .replace("\"blocks\":366", "\"blocks\":4000000000");
    let error = trace::read(text.as_bytes(), Path::new("t")).expect_err("blocks are missing").to_string();
    assert!(error.contains("the header promises 4000000000 blocks, the file has 366"), "{error}");
}

#[test]
fn nobody_at_stderr_is_no_reason_to_abort() {
    let dir = one_session();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = ctxsim(dir.path());
    let status = command.args(["models", "gone"]).stdout(Stdio::null()).stderr(writer).status();
    assert_eq!(status.expect("it starts").code(), Some(2));
}

#[cfg(unix)]
#[test]
fn a_link_to_itself_is_skipped_and_named() {
    let dir = one_session();
    std::os::unix::fs::symlink("self.jsonl", dir.path().join("self.jsonl")).expect("a link");
    let output = run(dir.path(), ["simulate", ".", "--format", "json"]);
    assert_eq!(json(&output, 5)["skipped"][0]["path"], "./self.jsonl");
}

#[test]
fn names_in_recordings_do_not_steer_the_terminal() {
    let dir = one_session();
    let text = fs::read_to_string(dir.path().join("s.jsonl")).expect("there");
    let evil = text.replace("claude-opus-5-5", r"x\u001b[2Jy").replace("\"Read\"", r#""R\u001b[31m""#);
    fs::write(dir.path().join("s.jsonl"), evil).expect("writable");
    for command in ["simulate", "inspect"] {
        let output = run(dir.path(), [command, "s.jsonl"]);
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains("\u{1b}[2J") && !said.contains("\u{1b}[31m"), "{said}");
    }
}

#[test]
fn wrong_settings_end_with_2_and_one_sentence() {
    let dir = one_session();
    fs::write(dir.path().join("p.toml"), "bogus = 1\n").expect("writable");
    fs::write(dir.path().join("s.toml"), "[corpus]\ninputs = []\n").expect("writable");
    for (args, expected) in [
        (vec!["simulate", "s.jsonl", "--jobs", "100000"], "from 0 to 1024"),
        (
            vec!["simulate", "s.jsonl", "-p", "p.toml"],
            "ctxsim: p.toml, line 1: column 1: unknown field `bogus`",
        ),
        (vec!["run", "s.toml"], "ctxsim: s.toml: field `inputs` of [corpus] is empty"),
    ] {
        let output = run(dir.path(), &args);
        assert_eq!(code(&output), 2, "{args:?}");
        let said = stderr(&output);
        assert!(said.contains(expected), "{said}");
        assert!(!said.starts_with("ctxsim:") || said.lines().count() == 1, "{said}");
    }
    let gone = stderr(&run(dir.path(), ["simulate", "s.jsonl", "-p", "gone.toml"]));
    assert_eq!(gone.matches("No such file").count(), 1, "{gone}");
}
