//! What becomes of a summary when blocks leave that it stands for.

use std::path::Path;

use crate::support::{json, one_session, run};

/// The cell of `arcturn` with a compaction about every ten requests.
fn simulate(dir: &Path, trace: &Path) -> serde_json::Value {
    let policy = "arcturn:compaction.reserveTokens=940000,contextEditing.enabled=false";
    let trace = trace.to_str().expect("UTF-8");
    json(&run(dir, ["simulate", trace, "-p", policy, "--format", "json"]), 0)["cells"][0].clone()
}

#[test]
fn a_block_that_is_folded_already_leaves_without_the_summary() {
    let dir = one_session();
    assert!(run(dir.path(), ["trace", "s.jsonl", "-o", "t"]).status.success());
    let file = std::fs::read_dir(dir.path().join("t"))
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with(".trace.jsonl"))
        .expect("a trace");
    let before = simulate(dir.path(), &file);
    assert!(before["compactions"].as_u64() > Some(0));

    let event = r#"{"e":{"s":18,"k":{"blocks_dropped":{"from":1,"to":2,"reason":"unexplained"}}}}"#;
    let text = std::fs::read_to_string(&file).expect("readable");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[0] = lines[0].replace(r#""events":0"#, r#""events":1"#);
    let steps = lines.iter().enumerate().filter(|(_, line)| line.starts_with(r#"{"s":"#));
    let (after, _) = steps.take(18).last().expect("18 steps");
    lines.insert(after + 1, event.to_owned());
    let edited = dir.path().join("edited.trace.jsonl");
    std::fs::write(&edited, lines.join("\n")).expect("writable");

    assert_eq!(simulate(dir.path(), &edited), before);
}
