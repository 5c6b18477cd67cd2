//! What becomes of a strategy's memory when blocks leave the recording one by one.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{json, one_session, run};

fn cell(dir: &Path, trace: &Path, policy: &str) -> serde_json::Value {
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
    // A compaction about every ten requests.
    let policy = "arcturn:compaction.reserveTokens=940000,contextEditing.enabled=false";
    let before = cell(dir.path(), &file, policy);
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

    assert_eq!(cell(dir.path(), &edited, policy), before);
}

/// A session of ten calls of 12,000 characters each; with `thinking`, every answer begins with some,
/// and all of it has left before the last request.
fn ten_calls(thinking: bool) -> String {
    const CALLS: usize = 10;
    let per_step = if thinking { 3 } else { 2 };
    let events = if thinking { CALLS } else { 0 };
    let coefficients = r#""tokenizer":"claude_newer","coefficients":{"text_milli":330,"tool_use_milli":405,"thinking_milli":330,"tool_result_milli":450,"request_tokens":0},"#;
    let mut out = format!(
        r#"{{"ctxsim_trace":{{"format_version":1,"id":"s","origin":{{"format":"synthetic","agent":"","agent_version":""}},"model":"claude-opus-5-5",{coefficients}"prefix":{{"tools":[],"system":[],"injected":[]}},"warm_prefix_tokens":0,"prefix_is_measured":false,"tools":[{{"name":"Read","role":"read"}}],"calls":[[{CALLS},10,10]],"blocks":{},"steps":{},"events":{events}}}}}"#,
        per_step * CALLS + 2,
        CALLS + 1,
    );
    let mut push = |line: &str| {
        out.push('\n');
        out.push_str(line);
    };
    push(r#"{"b":{"k":"user_text","m":0,"h":"00000000000000aa","n":10,"u":30,"l":1}}"#);
    for i in 0..CALLS {
        let (answer, result) = (2 * i + 1, 2 * i + 2);
        if thinking {
            push(&format!(
                r#"{{"b":{{"k":"thinking","f":4,"m":{answer},"h":"000000000000010{i}","n":9,"u":30,"l":1}}}}"#
            ));
        }
        push(&format!(
            r#"{{"b":{{"k":"tool_use","m":{answer},"t":0,"c":{i},"h":"000000000000020{i}","n":20,"u":50,"l":1,"g":40}}}}"#
        ));
        let outputs = per_step - 1;
        push(&format!(r#"{{"s":{{"i":1,"o":{outputs},"t":{},"d":1000,"g":20}}}}"#, 10_000 * i));
        if thinking && i == CALLS - 1 {
            for k in 0..CALLS {
                let from = 1 + per_step * k;
                let dropped = format!(r#"{{"from":{from},"to":{},"reason":"unexplained"}}"#, from + 1);
                push(&format!(r#"{{"e":{{"s":{CALLS},"k":{{"blocks_dropped":{dropped}}}}}}}"#));
            }
        }
        push(&format!(
            r#"{{"b":{{"k":"tool_result","m":{result},"t":0,"c":{i},"h":"000000000000030{i}","n":5400,"u":12000,"l":1}}}}"#
        ));
    }
    push(r#"{"b":{"k":"assistant_text","m":21,"h":"00000000000000bb","n":10,"u":30,"l":1}}"#);
    push(r#"{"s":{"i":1,"o":1,"t":100000,"d":1000,"g":10}}"#);
    let _ = writeln!(out);
    out
}

#[test]
fn an_answer_that_only_lost_its_thinking_is_still_a_turn() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // The pass is due at the last request only, where the thinking has left.
    let policy = "arcturn:maxTotalToolResultChars=115000";
    let edits = |name: &str, thinking: bool| {
        let file = dir.path().join(name);
        std::fs::write(&file, ten_calls(thinking)).expect("writable");
        let cell = cell(dir.path(), &file, policy);
        (cell["passes"].clone(), cell["elided_results"].clone(), cell["chars_saved"].clone())
    };
    let plain = edits("plain.trace.jsonl", false);
    assert_eq!(plain.1, 7, "all but the last three of ten");
    assert_eq!(edits("thinking.trace.jsonl", true), plain);
}

#[test]
fn what_the_provider_clears_never_breaks_the_binding() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/traces");
    let policies =
        ["-p", "off=arcturn:contextEditing.enabled=false", "-p", "on=arcturn:contextEditing.mode=server"];
    let args = ["simulate", traces, "-m", "claude-opus-5-5", "--format", "json"];
    let results = json(&run(dir.path(), args.into_iter().chain(policies)), 0);
    let cells = results["cells"].as_array().expect("cells");
    let of = |policy: &str| {
        let cells = cells.iter().filter(|c| c["policy"] == policy);
        cells.map(|c| (c["session"].clone(), c["binding_rejections"].clone())).collect::<Vec<_>>()
    };
    let cleared_an_offloaded_result = cells.iter().any(|c| {
        c["policy"] == "on" && c["offloads"].as_u64() > Some(0) && c["elided_results"].as_u64() > Some(0)
    });
    assert!(cleared_an_offloaded_result);
    assert_eq!(of("on"), of("off"));
}

#[test]
fn the_provider_compacts_by_what_it_is_sent_and_not_by_what_the_client_stores() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("s.trace.jsonl");
    std::fs::write(&file, ten_calls(false)).expect("writable");
    // Ten results come to 54,000 tokens, seven of them as stubs to 16,600: below the floor of 50,000.
    let server = "arcturn:compaction.shape=server,compaction.reserveTokens=1000000";
    let compactions =
        |more: &str| cell(dir.path(), &file, &format!("{server},{more}"))["compactions"].clone();
    assert_eq!(compactions("contextEditing.enabled=false"), 1);
    assert_eq!(compactions("contextEditing.enabled=true,minCharsPerPass=20000"), 0);
}
