//! `--explain`: the story of one session, by every command that replays.

use std::fs;
use std::path::Path;

use crate::support::{code, json, one_session, recording, run, stderr, stdout};

/// Two sessions, so that one of them is meant.
fn two_sessions() -> tempfile::TempDir {
    let dir = one_session();
    let other = recording("other-session", "claude-opus-5-5", 12, 9_000);
    fs::write(dir.path().join("t.jsonl"), other).expect("writable");
    dir
}

/// Heads of the stories in a text: session and policy.
fn told(text: &str) -> Vec<(&str, &str)> {
    let heads =
        text.lines().filter_map(|line| line.split_once(" on claude-opus-5-5: ")?.0.split_once(" under "));
    heads.collect()
}

/// Asserts that a slip in the id ends `args` before anything is printed, and that the nearest id is named.
fn is_refused(dir: &Path, args: &[&str]) {
    let wrong = run(dir, args.iter().chain(&["--explain", "sesion-one"]));
    assert_eq!(code(&wrong), 4);
    assert!(stderr(&wrong).contains("did you mean `session-one`?"), "{}", stderr(&wrong));
    assert_eq!(stdout(&wrong), "");
}

#[test]
fn one_session_is_explained_request_by_request() {
    let dir = two_sessions();
    let args = ["simulate", "s.jsonl", "t.jsonl", "-p", "none", "-p", "arcturn"];
    let text = stdout(&run(dir.path(), args.iter().chain(&["--explain", "session"])));
    assert_eq!(told(&text), [("session-one", "none"), ("session-one", "arcturn")]);
    assert!(text.contains("ttl_expired") && text.contains("pass of `"), "{text}");
    is_refused(dir.path(), &args);
}

#[test]
fn a_format_for_programs_has_no_story_and_says_so() {
    let dir = one_session();
    let args = ["simulate", "s.jsonl", "-p", "none", "--explain", "session", "--format", "json"];
    let output = run(dir.path(), args);
    assert_eq!(json(&output, 0)["cells"][0]["session"], "session-one");
    assert!(stderr(&output).contains("--explain is left out"), "{}", stderr(&output));
}

#[test]
fn a_grid_tells_of_its_baseline_and_the_best_of_its_points() {
    let dir = two_sessions();
    let args =
        ["sweep", "s.jsonl", "t.jsonl", "-p", "none", "-p", "arcturn", "--grid", "keepRecentTurns=1,3,5"];
    let text = stdout(&run(dir.path(), args.iter().chain(&["--explain", "session-one"])));
    let rows = text.lines().filter(|line| line.starts_with("arcturn:"));
    let cost = |row: &&str| row.split('$').nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let cheapest = rows.min_by_key(cost).expect("a grid of three");
    let best = cheapest.split_whitespace().next().expect("a policy");
    assert_eq!(told(&text), [("session-one", "none"), ("session-one", best)]);
    // The story is that of the policy when it runs alone.
    let alone = ["simulate", "s.jsonl", "-p", "none", "-p", best, "--explain", "session-one"];
    let alone = stdout(&run(dir.path(), alone));
    let story = |text: &str| text.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n");
    assert_eq!(story(&text), story(&alone));
    is_refused(dir.path(), &args);
}

#[test]
fn sessions_that_share_a_cache_are_explained_as_they_ran() {
    let dir = two_sessions();
    let shared = ["s.jsonl", "t.jsonl", "-p", "none", "--shared-cache", "--explain", "session-one"];
    let swept = ["sweep"].iter().chain(&shared).chain(&["-p", "arcturn", "--grid", "keepRecentTurns=3"]);
    let swept = stdout(&run(dir.path(), swept));
    let simulated = stdout(&run(dir.path(), ["simulate"].iter().chain(&shared)));
    let first = |text: &str| text.split("\n\n").next().map(str::to_owned);
    assert_eq!(first(&swept), first(&simulated));
}

#[test]
fn a_scenario_tells_of_one_of_its_sessions() {
    let dir = two_sessions();
    let scenario =
        "description = \"d\"\npolicies = [\"none\", \"arcturn\"]\n[corpus]\ninputs = [\"*.jsonl\"]\n";
    for name in ["one.toml", "two.toml"] {
        fs::write(dir.path().join(name), scenario).expect("writable");
    }
    let output = run(dir.path(), ["run", "one.toml", "--explain", "session"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(told(&stdout(&output)), [("session-one", "none"), ("session-one", "arcturn")]);
    assert!(dir.path().join("reports/one/report.md").is_file());
    is_refused(dir.path(), &["run", "two.toml"]);
    let many = run(dir.path(), ["run", "one.toml", "two.toml", "--explain", "session"]);
    assert_eq!((code(&many), stdout(&many).as_str()), (2, ""));
    assert!(stderr(&many).contains("one scenario"), "{}", stderr(&many));
}
