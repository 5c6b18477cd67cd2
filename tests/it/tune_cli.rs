//! `tune` on the command line: formats, files, and when it says nothing.

use std::fs;

use crate::support::{code, json, recording, run, stderr, stdout};

/// Twenty recordings with large results.
fn corpus(usage_factor: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 0..20_u64 {
        let text = recording(&format!("s{i}"), "claude-opus-5-5", 10 + i % 4, 30_000);
        // With the long life the pause in them is no miss, as their usage says.
        let text = text
            .replace("\"ephemeral_1h_input_tokens\":0", "\"\":0")
            .replace("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
            .replace("\"\":0", "\"ephemeral_5m_input_tokens\":0");
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

const SEARCH: [&str; 6] = [
    "tune",
    ".",
    "-p",
    "arcturn:offload=off,maxTotalToolResultChars=0,minCharsToElide=500,minCharsPerPass=0,keepRecentTurns=1",
    "--param",
    "minCharsPerPass=0,20000,60000,100000",
];

fn tune(usage_factor: u64, args: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let dir = corpus(usage_factor);
    let output = run(dir.path(), SEARCH.iter().chain(args));
    (dir, output)
}

#[test]
fn what_is_recommended_can_be_pasted_and_is_beyond_doubt() {
    let (dir, output) = tune(1, &["--format", "json", "-o", "out"]);
    let found = json(&output, 0);
    let recommended = &found["recommended"];
    assert!(found["why"].is_null(), "{}", found["why"]);
    let policy = recommended["policy"].as_str().expect("a policy");
    let text = recommended["configuration"]["text"].as_str().expect("known for this agent");
    let pasted: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let value = &recommended["params"]["contextEditing.minCharsPerPass"];
    assert!(value.is_u64() && *value != 0, "{value}");
    assert_eq!(&pasted["contextEditing"]["minCharsPerPass"], value);
    assert_eq!(pasted["contextEditing"]["keepRecentTurns"], 1);
    let candidates = found["candidates"].as_array().expect("candidates");
    let one = |label: &str| candidates.iter().find(|c| c["policy"] == label).expect("listed");
    let chosen = one(policy);
    let interval =
        chosen["training"]["versus_baseline"]["difference_interval"].as_array().expect("enough sessions");
    assert!(interval.iter().all(|end| end.as_f64().expect("a number") < 0.0), "{interval:?}");
    assert!(chosen["held_out"]["sessions"].as_u64() > Some(0) && chosen["flat"] == true, "{chosen}");
    let sessions = &found["sessions"];
    assert_eq!(
        sessions["training"].as_u64().zip(sessions["held_out"].as_u64()).map(|(a, b)| a + b),
        Some(20)
    );
    assert_eq!(found["reproduction"]["reproduced"], true, "{}", found["reproduction"]);
    for metric in ["peak_prompt_tokens", "hit_rate", "summarizer_calls"] {
        assert!(!found["pareto"][metric].as_array().expect("a front").is_empty(), "{metric}");
    }
    // A policy of the search is one of `simulate`, with the same numbers.
    let alone = json(&run(dir.path(), ["simulate", ".", "-p", policy, "--format", "json"]), 0);
    let total = alone["totals"][0]["cost_usd"].as_f64().expect("dollars");
    let halves = ["training", "held_out"].map(|half| chosen[half]["value"].as_f64().expect("dollars"));
    assert!((halves[0] + halves[1] - total).abs() < 1e-6, "{halves:?} {total}");
    for name in ["tune.json", "tune.csv", "report.md"] {
        assert!(dir.path().join("out").join(name).is_file(), "{name}");
    }
}

#[test]
fn every_format_says_what_is_recommended() {
    let (_dir, output) = tune(1, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("Recommended: arcturn:") && table.contains("\"contextEditing\""), "{table}");
    assert!(table.lines().any(|line| line.contains("baseline")), "{table}");
    let (_dir, output) = tune(1, &["--format", "markdown"]);
    assert!(stdout(&output).contains("- Recommended: arcturn:"), "{}", stdout(&output));
    let (_dir, output) = tune(1, &["--format", "csv"]);
    let text = stdout(&output);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let marks = header.iter().position(|h| h == "marks").expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("even rows")).collect();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows.iter().filter(|r| r[marks].contains("recommended")).count(), 1, "{text}");
}

#[test]
fn nothing_is_recommended_without_grounds() {
    let null = |usage_factor: u64, args: &[&str], why: &str| {
        let args: Vec<&str> = ["--format", "json"].iter().chain(args).copied().collect();
        let (_dir, output) = tune(usage_factor, &args);
        let found = json(&output, 0);
        assert!(found["recommended"].is_null(), "{why}");
        assert!(found["why"].as_str().is_some_and(|text| text.contains(why)), "{}: {why}", found["why"]);
        stderr(&output)
    };
    null(1, &["--holdout", "0.9"], "too few");
    null(1, &["--subject-to", "hit_rate >= 2"], "keeps to the constraints");
    null(9, &[], "cannot be reproduced");
    let (_dir, output) = tune(0, &["--format", "json"]);
    let found = json(&output, 0);
    assert!(found["reproduction"].is_null() && found["sessions"]["without_usage"] == 20);
    assert!(stderr(&output).contains("20 of 20 recordings have no usage"), "{}", stderr(&output));
}

#[test]
fn constraints_rule_candidates_out() {
    let (_dir, output) = tune(1, &["--subject-to", "passes <= 50", "--format", "json"]);
    let found = json(&output, 0);
    let candidates = found["candidates"].as_array().expect("candidates");
    let ruled_out = candidates.iter().filter(|c| c["not_allowed"].is_string());
    assert!(ruled_out.clone().count() > 0);
    assert!(ruled_out.clone().all(|c| c["not_allowed"].as_str().is_some_and(|t| t.contains("passes is "))));
    assert!(found["best"].is_string());
    assert!(ruled_out.clone().all(|c| c["policy"] != found["best"] && c["flat"] == false));
}

#[test]
fn slips_are_named_before_any_work() {
    for (args, expected) in [
        (&["--param", "minCharPerPass"][..], "did you mean `minCharsPerPass`?"),
        (&["--param", "keepRecentTurns=5..1"], "--param keepRecentTurns=5..1"),
        (&["--objective", "cost_us"], "cost_usd"),
        (&["--objective", "passes"], "neither better nor worse"),
        (&["--subject-to", "hit_rate drop <= 1pp"], "about a value"),
        (&["-m", "claude-opus-5-5", "-m", "claude-sonnet-4-6"], "one model"),
        (&["--holdout", "1"], "0 to below 1"),
    ] {
        let (_dir, output) = tune(1, args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn threads_change_no_byte() {
    let outputs =
        ["1", "3"].map(|jobs| tune(1, &["--format", "json", "--jobs", jobs, "--param", "keepRecentTurns"]).1);
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert_eq!(stdout(&outputs[0]), stdout(&outputs[1]));
}
