//! Traces that somebody changed: whatever the reader lets through must replay without a panic under any
//! strategy and parameters, and its numbers must still add up. What it refuses, it refuses with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use ctxsim::policy::{OnBindingError, PolicySpec};
use ctxsim::provider::{Account, Models};
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::session::{Session, trace};
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};
use rand::{Rng, RngExt};
use serde_json::{Value, json};

/// Cases of an ordinary test run; `CTXSIM_FUZZ_CASES` asks for more.
const CASES: u64 = 150;

const MODELS: [&str; 4] = ["claude-opus-5-5", "claude-opus-4-6", "claude-haiku-4-5", "claude-sonnet-4-5"];

/// Numbers that break sums, indexes and signs.
const ODD: [i64; 12] =
    [0, 1, 2, -1, 3, 1_000, 1_000_000_000, 1_000_000_001, u32::MAX as i64, 1 << 33, i64::MAX, i64::MIN];

fn traces() -> Vec<Vec<String>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("a name").path()).collect();
    paths.sort();
    let lines = |path: &PathBuf| fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect();
    paths.iter().map(lines).collect()
}

/// The first `steps` steps of a trace, so that a case is quick; the header says so.
fn head(lines: &[String], steps: usize) -> Vec<String> {
    let mut header: Value = serde_json::from_str(&lines[0]).expect("a header");
    let is = |line: &String, key: &str| line.starts_with(&format!("{{\"{key}\""));
    let mut kept: Vec<String> = Vec::new();
    let mut seen = 0;
    for line in &lines[1..] {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let is_late = event["e"]["s"].as_u64().is_some_and(|s| s > steps as u64);
        if (is(line, "e") && !is_late) || (!is(line, "e") && seen < steps) {
            kept.push(line.clone());
        }
        seen += usize::from(is(line, "s"));
    }
    for (field, key) in [("blocks", "b"), ("steps", "s"), ("events", "e")] {
        header["ctxsim_trace"][field] = json!(kept.iter().filter(|line| is(line, key)).count());
    }
    let call = |line: &String| serde_json::from_str::<Value>(line).ok()?["b"]["c"].as_u64();
    let calls = kept.iter().filter_map(call).max().map_or(0, |last| last + 1);
    header["ctxsim_trace"]["calls"] = json!([[calls, 30, 30]]);
    kept.insert(0, header.to_string());
    kept
}

/// One random change to one line.
fn mutate(lines: &mut Vec<String>, rng: &mut impl Rng) {
    let at = if rng.random_ratio(1, 6) { 0 } else { rng.random_range(0..lines.len()) };
    match rng.random_range(0..20) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = rng.random_range(0..lines.len());
            lines.swap(at, other);
        }
        3 => {
            let s = rng.random_range(0..8_u32);
            lines.push(json!({ "e": { "s": s, "k": event(rng) } }).to_string());
        }
        _ => {
            let Ok(mut value) = serde_json::from_str::<Value>(&lines[at]) else { return };
            change(&mut value, rng);
            lines[at] = value.to_string();
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
}

fn event(rng: &mut impl Rng) -> Value {
    let (a, b) = (rng.random_range(0..12_u32), rng.random_range(0..40_u32));
    let blocks = json!([{ "hash": "00000000000000aa", "tokens": ODD[rng.random_range(0..ODD.len())] }]);
    match rng.random_range(0..9) {
        0 => json!({ "blocks_dropped": { "from": a, "to": b, "reason": "rewind" } }),
        1 => json!({ "blocks_dropped": { "from": a, "to": b, "reason": "compaction" } }),
        2 => json!({ "recorded_clearing": { "blocks": [a, b], "applied": true } }),
        3 => json!({ "recorded_clearing": { "blocks": [b, a, a], "applied": false } }),
        4 => json!({ "tools_changed": { "tools": blocks } }),
        5 => json!({ "system_changed": { "system": blocks } }),
        6 => json!("manual_compaction"),
        7 => json!("resumed"),
        _ => json!({ "recorded_compaction": { "automatic": true, "pre_tokens": null, "post_tokens": null } }),
    }
}

/// Replaces, or takes out, a value somewhere below.
fn change(value: &mut Value, rng: &mut impl Rng) {
    let descends = rng.random_ratio(5, 6);
    match value {
        Value::Object(fields) if !fields.is_empty() && descends => {
            let key = fields.keys().nth(rng.random_range(0..fields.len())).expect("in range").clone();
            if rng.random_ratio(1, 12) {
                fields.remove(&key);
            } else {
                change(&mut fields[&key], rng);
            }
        }
        Value::Array(list) if !list.is_empty() && descends => {
            let at = rng.random_range(0..list.len());
            if rng.random_ratio(1, 12) {
                list.remove(at);
            } else {
                change(&mut list[at], rng);
            }
        }
        Value::Number(_) => {
            let near = value.as_i64().unwrap_or(0).saturating_add(rng.random_range(-3..4));
            *value =
                if rng.random_ratio(1, 2) { json!(near) } else { json!(ODD[rng.random_range(0..ODD.len())]) };
        }
        Value::String(text) => {
            let kinds = ["user_text", "assistant_text", "thinking", "tool_use", "tool_result", "image"];
            let words = ["", "ffffffffffffffff", "openai", "claude_older", "compaction", "other", "read"];
            let all = if kinds.contains(&text.as_str()) { &kinds[..] } else { &words[..] };
            *text = all[rng.random_range(0..all.len())].to_owned();
        }
        other => {
            *other =
                [json!(null), json!(true), json!(-1), json!("x"), json!([])][rng.random_range(0..5)].clone()
        }
    }
}

/// A value of a parameter: usual, at an end of what is allowed, or not allowed.
fn policy(rng: &mut impl Rng) -> String {
    let pick = |rng: &mut _, list: &[&str]| list[Rng::next_u32(rng) as usize % list.len()].to_owned();
    let name = pick(rng, &["none", "arcturn", "arcturn-0.6"]);
    if name == "none" {
        return name;
    }
    let numbers = ["0", "1", "2", "40", "1000", "100000"];
    let mut params = Vec::new();
    for key in [
        "minCharsPerPass",
        "minCharsToElide",
        "maxTotalToolResultChars",
        "reserveTokens",
        "keepRecentTokens",
        "keepRecentTurns",
        "keepHead",
        "keepTail",
        "maxChars",
        "summary_tokens",
        "maxOutputTokens",
    ] {
        if rng.random_ratio(1, 2) {
            params.push(format!("{key}={}", pick(rng, &numbers)));
        }
    }
    let words: [(&str, &[&str]); 5] = [
        ("shape", &["simple", "keep-tail", "server"]),
        ("mode", &["local", "server", "auto"]),
        ("ttl", &["5m", "1h"]),
        ("offload", &["on", "off"]),
        ("keepRecentTurns", &["-1", "0", "100000"]),
    ];
    for (key, values) in words {
        if rng.random_ratio(1, 3) {
            params.push(format!("{key}={}", pick(rng, values)));
        }
    }
    format!("{name}:{}", params.join(","))
}

fn adds_up(summary: &Summary, session: &Session) {
    let usage = summary.usage;
    let missed: u64 = summary.misses.iter().map(|miss| miss.tokens).sum();
    assert_eq!(missed, usage.uncached_tokens + usage.cache_write_tokens(), "misses are a partition");
    assert_eq!(
        usage.prompt_tokens(),
        usage.uncached_tokens + usage.cache_read_tokens + usage.cache_write_tokens()
    );
    let served = summary.requests as usize;
    match summary.stopped_at_request {
        None => assert_eq!(served, session.steps.len(), "every request is served"),
        Some(at) => assert!(served < session.steps.len() && at as usize <= session.steps.len()),
    }
}

fn replay(session: &Session, models: &Models, scratch: &mut Scratch, rng: &mut impl Rng) -> u32 {
    let text = policy(rng);
    let Ok(config) = text.parse::<PolicySpec>().and_then(|spec| spec.load(&[], &[])) else { return 0 };
    let model = models.get(MODELS[rng.random_range(0..MODELS.len())]).expect("built in");
    let Ok(strategy) = config.strategy(model, models) else { return 0 };
    let errors =
        [None, Some(OnBindingError::Strip), Some(OnBindingError::DropBlock), Some(OnBindingError::Fail)];
    let options = RunOptions {
        account: if rng.random_ratio(1, 2) { Account::Enforced } else { Account::Unenforced },
        on_binding_error: errors[rng.random_range(0..4)],
        ..RunOptions::default()
    };
    for how in [RecordedCompactions::Undo, RecordedCompactions::Keep] {
        let viewed = session.view(how);
        let scaled = viewed.scaled_to(model.tokenizer);
        let mut record = FullRecorder::default();
        let summary = run(&scaled, &strategy, model, &options, scratch, &mut record);
        adds_up(&summary, &scaled);
        assert_eq!(record.requests.len() as u64, summary.requests);
    }
    1
}

#[test]
fn a_trace_that_reads_never_panics_in_a_run() {
    let cases = std::env::var("CTXSIM_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let first = std::env::var("CTXSIM_FUZZ_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let models = Models::builtin().expect("built in");
    let traces = traces();
    let (mut read, mut ran, mut failed) = (0, 0, Vec::new());
    for case in first..first + cases {
        let mut rng = ctxsim::seed::stream(case, "hostile traces", &[]);
        let whole = &traces[rng.random_range(0..traces.len())];
        let mut lines = head(whole, rng.random_range(1..60));
        for _ in 0..rng.random_range(0..4) {
            mutate(&mut lines, &mut rng);
        }
        let text = lines.join("\n");
        let run_case = std::panic::AssertUnwindSafe(|| {
            let session = match trace::read(text.as_bytes(), Path::new("t")) {
                Ok(session) => session,
                Err(error) => {
                    assert!(error.to_string().len() > 10, "{error}");
                    return (0, 0);
                }
            };
            // A worker's memory goes from cell to cell.
            let mut scratch = Scratch::default();
            (1, (0..3).map(|_| replay(&session, &models, &mut scratch, &mut rng)).sum())
        });
        match std::panic::catch_unwind(run_case) {
            Ok((reads, runs)) => (read, ran) = (read + reads, ran + runs),
            Err(_) => failed.push(case),
        }
    }
    assert_eq!(failed, [] as [u64; 0], "cases that panicked; CTXSIM_FUZZ_FIRST picks one");
    assert!(read > cases / 4 && u64::from(ran) > cases / 3, "{read} of {cases} traces read, {ran} runs");
}
