//! The first command of a newcomer, on the traces in `fixtures/traces`.

use std::path::Path;

use serde_json::Value;

use crate::support::{code, run, stderr, stdout};

fn results(args: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = run(root, ["simulate", "fixtures/traces", "--format", "json"].iter().chain(args));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn cells<'a>(results: &'a Value, policy: &str) -> Vec<&'a Value> {
    results["cells"].as_array().expect("cells").iter().filter(|c| c["policy"] == policy).collect()
}

fn number(cell: &Value, name: &str) -> u64 {
    cell[name].as_u64().expect("a number")
}

/// Set INSTA_UPDATE=always to rewrite the table after an intended change.
#[test]
fn the_table_is_the_golden_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().expect("a temporary folder");
    let reports = out.path().join("quickstart");
    let args = ["run", "scenarios/quickstart.toml", "--out", &reports.to_string_lossy()].map(str::to_owned);
    let output = run(root, args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    insta::assert_snapshot!("quickstart_table", stdout(&output));
    for name in
        ["results.json", "requests.csv", "events.jsonl", "plots/token-curve.svg", "plots/token-curve.png"]
    {
        assert!(reports.join(name).exists(), "{name}");
    }
}

#[test]
fn recorded_passes_keep_thinking_valid_and_the_sliding_editor_does_not() {
    let results = results(&["-p", "none", "-p", "arcturn", "-p", "arcturn-0.6", "-m", "claude-opus-5-5"]);
    let quiet = |c: &&&Value| number(c, "passes") > 0 && number(c, "binding_rejections") == 0;
    assert!(cells(&results, "arcturn").iter().filter(quiet).count() >= 4);
    let sliding = cells(&results, "arcturn-0.6");
    assert!(sliding.len() >= 8);
    for cell in sliding.iter().filter(|c| number(c, "passes") > 0) {
        assert!(number(cell, "binding_rejections") > 0, "{}", cell["session"]);
    }
}
