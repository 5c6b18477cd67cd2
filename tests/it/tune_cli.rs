//! `tune` on the command line: formats, files, and when it says nothing.

use std::fs;

use crate::support::{code, json, recording, run, stderr, stdout};

/// Twenty recordings with large results.
fn corpus(usage_factor: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 0..20_u64 {
        let text = recording(&format!("s{i}"), "claude-opus-5-5", 10 + i % 4, 30_000);
        let text = match usage_factor {
            1 => text,
            0 => text.lines().map(without_usage).collect::<Vec<_>>().join("\n"),
            _ => text.replace("\"cache_read_input_tokens\":", "\"cache_read_input_tokens\":9"),
        };
        fs::write(dir.path().join(format!("s{i}.jsonl")), text).expect("writable");
    }
    dir
}

fn without_usage(line: &str) -> String {
    match (line.find(",\"usage\":{"), line.rfind("}}}")) {
        (Some(from), Some(to)) => format!("{}{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    }
}

const SEARCH: [&str; 8] = [
    "tune",
    ".",
    "-p",
    "arcturn:offload=off,maxTotalToolResultChars=0,minCharsToElide=500,minCharsPerPass=0,keepRecentTurns=1",
    "--param",
    "minCharsPerPass=0,20000,60000,100000",
    "--holdout",
    "0.3",
];

fn tune(usage_factor: u64, args: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let dir = corpus(usage_factor);
    let output = run(dir.path(), SEARCH.iter().chain(args));
    (dir, output)
}
