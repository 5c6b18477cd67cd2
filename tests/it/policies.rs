//! `ctxsim policies`: what a preset says of itself, and what is odd about a file.

use std::path::Path;

use crate::support::{code, json, one_session, run, stderr, stdout};

/// What a preset says of itself is generated, so it is golden: a changed number is a changed claim.
#[test]
fn presets_in_words() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["arcturn", "goose", "yoagent", "anthropic-editing", "strands-sliding"] {
        let output = run(here, ["policies", name]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        insta::assert_snapshot!(name, stdout(&output));
    }
}

#[test]
fn every_preset_has_words_for_every_rule() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ctxsim::policy::preset_names() {
        let value = json(&run(here, ["policies", name, "--format", "json"]), 0);
        for rule in value["rules"].as_array().unwrap() {
            assert!(!rule["at"].as_str().unwrap().is_empty(), "{name}: {rule}");
            assert!(!rule["lines"].as_array().unwrap().is_empty(), "{name}: {rule}");
        }
    }
}

#[test]
fn a_compaction_at_openai_that_is_off_but_for_the_user_s_wish_says_so() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let value = json(&run(here, ["policies", "openai-compaction", "--format", "json"]), 0);
    assert!(!value.to_string().contains("never: it has no trigger"), "{value}");
    let rules = value["rules"].as_array().unwrap();
    let ids: Vec<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["compact_when_asked"]);
}

/// A policy with an offload whose limit is under its own stub, and one without.
fn offload(limit: u64) -> String {
    format!(
        r#"
        name = "mine"
        version = "1"
        summary = "an offload"
        extends = "none"
        [[rule]]
        id = "offload"
        at = "tool_result"
        when = [{{ of = "block", unit = "utf16", over = {limit} }}]
        select = {{ tool_results = {{ except = ["read"] }} }}
        offload = {{ head = 4000, tail = 1000, limit = {limit}, stub = {{ fixed = 500 }}, path = {{ home = "/h", folder = "/f", session_id = 36 }} }}
        "#
    )
}

#[test]
fn a_check_warns_on_stderr_and_still_says_that_the_file_is_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("odd.toml"), offload(5_000)).unwrap();
    std::fs::write(dir.path().join("fine.toml"), offload(16_000)).unwrap();
    let odd = run(dir.path(), ["policies", "--check", "odd.toml"]);
    assert_eq!(code(&odd), 0);
    assert!(stdout(&odd).contains("policy mine is right"), "{}", stdout(&odd));
    assert!(
        stderr(&odd).contains("limit of 5000 characters is under its own stub of 5500"),
        "{}",
        stderr(&odd)
    );
    let fine = run(dir.path(), ["policies", "--check", "fine.toml"]);
    assert_eq!((code(&fine), stderr(&fine).as_str()), (0, ""));
}

#[test]
fn a_run_checks_against_what_the_recordings_hold() {
    let dir = one_session();
    // Its Read results have 12,001 characters and more; nothing exempts them.
    let text = offload(9_000).replace("except = [\"read\"]", "");
    std::fs::write(dir.path().join("odd.toml"), text).unwrap();
    std::fs::write(dir.path().join("fine.toml"), offload(9_000)).unwrap();
    let odd = run(dir.path(), ["simulate", "s.jsonl", "-p", "odd.toml"]);
    let said = stderr(&odd);
    assert_eq!(code(&odd), 0, "{said}");
    assert!(said.contains("its limit of 9000 characters is below the 12002 that `Read` returns"), "{said}");
    assert_eq!(said.matches("its limit").count(), 1, "once");
    let fine = run(dir.path(), ["simulate", "s.jsonl", "-p", "fine.toml"]);
    assert!(!stderr(&fine).contains("its limit"), "{}", stderr(&fine));
}

#[test]
fn other_stubs_of_some_tools_are_named_too() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let said = stdout(&run(here, ["policies", "gemini-cli"]));
    assert!(said.contains("of shell: cuts them: 10 lines from the start and 10 from the end stay"), "{said}");
}
