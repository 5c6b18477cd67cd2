//! Running the built program, and recordings to run it on.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// The program, with nothing of the caller's environment that changes its output.
pub fn ctxsim(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctxsim"));
    command.current_dir(dir).env("HOME", dir).env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
    command.env_remove("CLAUDE_CONFIG_DIR").env_remove("CODEX_HOME");
    command
}

/// Runs the program to its end.
pub fn run<S: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = S>) -> Output {
    ctxsim(dir).args(args).output().expect("the program starts")
}

/// Exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

/// What went to stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// What went to stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// stdout as JSON, of a run that ended with `code`.
pub fn json(output: &Output, code: i32) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON on stdout")
}

/// A recording of `requests` requests: each but the last reads a file of `chars` characters. The gap
/// before request 3 is ten minutes, the others are ten seconds.
pub fn recording(session: &str, model: &str, requests: u64, chars: usize) -> String {
    let mut out = String::new();
    let mut at_s = 0;
    let mut parent = "null".to_owned();
    let mut prompt: u64 = 20_000;
    let mut read = 0;
    let _ = writeln!(
        out,
        r#"{{"type":"user","uuid":"u0","parentUuid":null,"sessionId":"{session}","version":"2.1.0","timestamp":"{}","message":{{"role":"user","content":"please look at every file"}}}}"#,
        time(at_s)
    );
    for i in 1..=requests {
        let (uuid, before) = (format!("a{i}"), if i == 1 { "\"u0\"".to_owned() } else { parent.clone() });
        at_s += 2;
        let content = match i == requests {
            true => r#"{"type":"text","text":"done"}"#.to_owned(),
            false => format!(
                r#"{{"type":"tool_use","id":"toolu_{session}_{i}","name":"Read","input":{{"file_path":"/f{i}"}}}}"#
            ),
        };
        let write = prompt - read;
        let usage = format!(
            r#"{{"input_tokens":0,"cache_read_input_tokens":{read},"cache_creation_input_tokens":{write},"cache_creation":{{"ephemeral_5m_input_tokens":{write},"ephemeral_1h_input_tokens":0}},"output_tokens":60}}"#
        );
        let _ = writeln!(
            out,
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":{before},"sessionId":"{session}","version":"2.1.0","requestId":"req_{session}_{i}","timestamp":"{}","message":{{"id":"msg_{session}_{i}","type":"message","role":"assistant","model":"{model}","content":[{content}],"stop_reason":"tool_use","usage":{usage}}}}}"#,
            time(at_s)
        );
        read = prompt;
        prompt += 60 + chars as u64 / 3;
        at_s += if i == 2 { 600 } else { 8 };
        if i < requests {
            let text = "x".repeat(chars);
            let _ = writeln!(
                out,
                r#"{{"type":"user","uuid":"r{i}","parentUuid":"{uuid}","sessionId":"{session}","version":"2.1.0","timestamp":"{}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{session}_{i}","content":"{i}{text}"}}]}}}}"#,
                time(at_s)
            );
            parent = format!("\"r{i}\"");
        }
    }
    out
}

fn time(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("2026-10-01T{:02}:{minutes:02}:{seconds:02}.000Z", 8 + hours)
}

/// A folder with one recording, `s.jsonl`, that is long enough for a pass.
pub fn one_session() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = recording("session-one", "claude-opus-5-5", 30, 12_000);
    std::fs::write(dir.path().join("s.jsonl"), text).expect("writable");
    dir
}
