//! `ctxsim audit` as it is typed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::audit_support::{Log, short};
use crate::support::{code, json, run, stdout};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A session with one break, and one on a model without a price.
fn corpus() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let series = || [short(9_000, 40_000), short(49_000, 500), short(9_000, 41_000), short(50_000, 500)];
    fs::write(dir.path().join("known.jsonl"), Log::of(series()).text()).expect("writable");
    let mut other = Log::new(Some(1_790_000_000_000));
    other.model("nobody-knows-1");
    series().into_iter().for_each(|billed| other.request(billed));
    let text = other.text().replace(r#""sessionId":"s""#, r#""sessionId":"t""#).replace("msg_", "msg_t_");
    fs::write(dir.path().join("unknown.jsonl"), text).expect("writable");
    dir
}

#[test]
fn json_has_the_envelope_sessions_and_a_total() {
    let dir = corpus();
    let output = json(&run(dir.path(), ["audit", ".", "--format", "json"]), 0);
    let envelope = ["format_version", "recipe", "digest", "skipped", "skipped_prices", "sessions", "total"];
    assert_eq!(keys(&output), envelope);
    assert_eq!(output["recipe"]["command"], "audit");
    let session = &output["sessions"][0];
    for field in ["requests", "hit_rate", "cost_usd", "wasted_usd", "misses", "breaks", "findings"] {
        assert!(!session[field].is_null(), "session: {field}");
        assert!(!output["total"][field].is_null(), "total: {field}");
    }
    let fields = "request at_ms gap_ms cause cache_read expected_read wasted_tokens wasted_usd";
    assert_eq!(keys(&session["breaks"][0]).join(" "), fields);
    assert_eq!(keys(&session["findings"][0]), ["detector", "requests", "detail"]);
    assert_eq!(keys(&session["misses"]["cold_start"]), ["requests", "tokens", "usd"]);
    assert_eq!(session["breaks"][0]["request"], 3);
    assert_eq!(session["breaks"][0]["wasted_tokens"], 40_500);
    assert_eq!(output["total"]["breaks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_unknown_price_is_null_and_named_and_its_tokens_count() {
    let dir = corpus();
    let output = json(&run(dir.path(), ["audit", ".", "--format", "json"]), 0);
    let (known, unknown) = (&output["sessions"][0], &output["sessions"][1]);
    assert_eq!(output["skipped_prices"], serde_json::json!([{"session": "t", "model": "nobody-knows-1"}]));
    for field in ["cost_usd", "wasted_usd"] {
        assert!(unknown[field].is_null() && unknown["breaks"][0]["wasted_usd"].is_null());
        assert_eq!(output["total"][field], known[field]);
    }
    assert!(unknown["misses"]["cold_start"]["usd"].is_null());
    assert_eq!(unknown["tokens"], known["tokens"]);
    assert_eq!(output["total"]["requests"], 8);
    let text = stdout(&run(dir.path(), ["audit", "."]));
    assert!(text.contains("No price is known of `nobody-knows-1`: 1 session"), "{text}");
}

#[test]
fn people_see_causes_breaks_and_findings() {
    let dir = corpus();
    insta::assert_snapshot!(stdout(&run(dir.path(), ["audit", "known.jsonl"])));
    let markdown = stdout(&run(dir.path(), ["audit", "known.jsonl", "--format", "markdown"]));
    assert!(
        markdown.contains("| prefix_unknown |") && markdown.contains("- read_gap_avoidable in s"),
        "{markdown}"
    );
}

#[test]
fn csv_has_a_row_for_each_break_and_files_hold_everything() {
    let dir = corpus();
    let csv = stdout(&run(dir.path(), ["audit", ".", "--format", "csv"]));
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 3);
    let head = "session,model,request,at_ms,gap_ms,cause,cache_read,expected_read,wasted_tokens,wasted_usd";
    assert_eq!(rows[0], head);
    assert_eq!(code(&run(dir.path(), ["audit", ".", "-o", "out"])), 0);
    let mut written: Vec<String> = fs::read_dir(dir.path().join("out"))
        .expect("written")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    written.sort();
    assert_eq!(written, ["audit.json", "breaks.csv", "misses.csv", "report.md"]);
}

#[test]
fn the_digest_does_not_depend_on_the_number_of_threads_or_the_folder() {
    let digest = |dir: &Path, jobs: &str| {
        json(&run(dir, ["audit", ".", "--format", "json", "--jobs", jobs]), 0)["digest"].clone()
    };
    let (one, other) = (corpus(), corpus());
    assert_eq!(digest(one.path(), "1"), digest(other.path(), "4"));
}

#[test]
fn a_fork_s_copied_requests_count_once() {
    let dir = corpus();
    let known = fs::read_to_string(dir.path().join("known.jsonl")).expect("there");
    let fork = known.replace(r#""sessionId":"s""#, r#""sessionId":"u""#);
    fs::write(dir.path().join("known-fork.jsonl"), fork).expect("writable");
    let output = json(&run(dir.path(), ["audit", ".", "--format", "json"]), 0);
    assert_eq!(output["total"]["requests"], 8);
}

#[test]
fn traces_can_be_audited_too() {
    let dir = corpus();
    assert_eq!(code(&run(dir.path(), ["trace", "known.jsonl", "-o", "traces"])), 0);
    let of = |input: &str| {
        let output = json(&run(dir.path(), ["audit", input, "--format", "json"]), 0);
        let session = &output["sessions"][0];
        (session["breaks"].clone(), session["tokens"].clone(), session["misses"].clone())
    };
    assert_eq!(of("known.jsonl"), of("traces"));
}

#[test]
fn bad_files_are_named_and_the_rest_is_audited() {
    let dir = corpus();
    fs::write(dir.path().join("broken.jsonl"), "{").expect("writable");
    let output = json(&run(dir.path(), ["audit", ".", "--format", "json"]), 5);
    assert_eq!(output["skipped"].as_array().map(Vec::len), Some(1));
    assert_eq!(code(&run(dir.path(), ["audit", "nothing-here"])), 3);
    let list = stdout(&run(dir.path(), ["audit", "--detectors"]));
    assert_eq!(list.lines().count(), 2 + 9, "{list}");
}
