//! `gate`: exit codes and files, on results, folders and scenarios.

use std::fs;
use std::path::Path;
use std::process::Output;

use ctxsim::session::{Event, EventKind, PrefixBlock, Session, trace};

use crate::support::{code, ctxsim, one_session, run, stderr, stdout};

/// Simulates `policy` under the label `mine` into folder `out`.
fn simulate(dir: &Path, policy: &str) {
    let mine = format!("mine={policy}");
    let output = run(dir, ["simulate", "s.jsonl", "-p", "none", "-p", &mine, "-o", "out"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

fn gate(dir: &Path, args: &[&str]) -> Output {
    run(dir, ["gate", "out", "--baseline", "ci/base.json"].iter().chain(args))
}

/// A folder with results and their baseline.
fn with_baseline() -> tempfile::TempDir {
    let dir = one_session();
    simulate(dir.path(), "arcturn");
    let written = gate(dir.path(), &["--update"]);
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    dir
}

/// The first row of requests.csv that differs, and its cause.
fn first_difference(before: &str, after: &str) -> (String, String) {
    let rows = |text: &str| -> Vec<csv::StringRecord> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.records().map(|r| r.expect("even rows")).filter(|r| &r[1] == "mine").collect()
    };
    let (before, after) = (rows(before), rows(after));
    let differs = |i: &usize| (7..=11).any(|c| before[*i][c] != after[*i][c]);
    let i = (0..before.len()).find(differs).expect("a difference");
    (after[i][3].to_owned(), after[i][13].to_owned())
}

#[test]
fn the_same_results_pass() {
    let dir = with_baseline();
    let output = gate(dir.path(), &[]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(stdout(&output).starts_with("Passed:"), "{}", stdout(&output));
    let file = run(dir.path(), ["gate", "out/results.json", "--baseline", "ci/base.json"]);
    assert_eq!(code(&file), 0);
    let size = fs::metadata(dir.path().join("ci/base.json")).expect("written").len();
    assert!(size < 16_000, "{size} bytes for two cells of 30 requests");
}

#[test]
fn a_sliding_editor_fails_and_the_first_request_is_named_with_its_cause() {
    let dir = with_baseline();
    let requests = || fs::read_to_string(dir.path().join("out/requests.csv")).expect("written");
    let before = requests();
    simulate(dir.path(), "arcturn-0.6");
    let (request, cause) = first_difference(&before, &requests());
    assert!(cause.starts_with("prefix_"), "{cause}");
    let outputs = ["--junit", "o/j.xml", "--sarif", "o/s.json", "--markdown", "o/m.md"];
    let output = gate(dir.path(), &outputs);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let first = format!("{request}: {cause}");
    assert!(stdout(&output).contains(&first), "{first}: {}", stdout(&output));
    assert!(stdout(&output).contains("Failed:"), "{}", stdout(&output));
    for name in ["j.xml", "s.json", "m.md"] {
        let text = fs::read_to_string(dir.path().join("o").join(name)).expect(name);
        assert!(
            text.contains(&first)
                && text.contains("cost_usd rise &lt;= 1%") | text.contains("cost_usd rise <= 1%"),
            "{name}: {text}"
        );
    }
}

#[test]
fn annotations_and_the_summary_of_a_job() {
    let dir = with_baseline();
    simulate(dir.path(), "arcturn-0.6");
    let summary = dir.path().join("summary.md");
    fs::write(&summary, "before\n").expect("writable");
    let mut command = ctxsim(dir.path());
    command
        .args(["gate", "out", "--baseline", "ci/base.json", "--github"])
        .env("GITHUB_STEP_SUMMARY", &summary);
    let output = command.output().expect("the program starts");
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).lines().any(|l| l.starts_with("::error file=ci/base.json,title=")));
    let text = fs::read_to_string(&summary).expect("there");
    assert!(text.starts_with("before\n## ❌ ctxsim gate"), "{text}");
}

#[test]
fn rules_typed_replace_the_default_ones() {
    let dir = with_baseline();
    simulate(dir.path(), "arcturn-0.6");
    for (rule, expected) in [
        ("cost_usd rise <= 1000%", 0),
        ("hit_rate >= 0.99", 1),
        ("requests == 30", 0),
        ("hitrate >= 0.9", 2),
        ("cost_usd rise <= 1pp", 2),
    ] {
        let output = gate(dir.path(), &["--rule", rule]);
        assert_eq!(code(&output), expected, "{rule}: {}{}", stdout(&output), stderr(&output));
    }
    assert!(stderr(&gate(dir.path(), &["--rule", "hitrate >= 0.9"])).contains("did you mean `hit_rate`?"));
}

#[test]
fn a_renamed_label_passes_and_a_missing_policy_fails() {
    let dir = with_baseline();
    let simulate = |policies: &[&str]| {
        let args = ["simulate", "s.jsonl", "-o", "out"].iter().chain(policies);
        assert_eq!(code(&run(dir.path(), args)), 0);
    };
    simulate(&["-p", "none", "-p", "yours=arcturn"]);
    let renamed = gate(dir.path(), &[]);
    assert_eq!(code(&renamed), 0, "{}", stdout(&renamed));
    assert!(stdout(&renamed).contains("mine is called yours now"), "{}", stdout(&renamed));
    simulate(&["-p", "none"]);
    let missing = gate(dir.path(), &[]);
    assert_eq!(code(&missing), 1);
    assert!(stdout(&missing).contains("no cell is missing"), "{}", stdout(&missing));
}

#[test]
fn a_scenario_is_run_and_brings_its_rules() {
    let dir = one_session();
    let scenario = |rule: &str| {
        let text =
            format!("policies = ['none']\n[corpus]\ninputs = ['s.jsonl']\n[gate]\nrules = ['{rule}']\n");
        fs::write(dir.path().join("s.toml"), text).expect("writable");
    };
    let gate = |args: &[&str]| run(dir.path(), ["gate", "s.toml", "--baseline", "b.json"].iter().chain(args));
    scenario("requests == 30");
    let without = gate(&[]);
    assert_eq!(code(&without), 2);
    assert!(stderr(&without).contains("--update"), "{}", stderr(&without));
    assert_eq!(code(&gate(&["--update"])), 0);
    assert_eq!(code(&gate(&[])), 0);
    scenario("requests == 31");
    assert_eq!(code(&gate(&[])), 1);
    assert_eq!(code(&gate(&["--rule", "requests < 31"])), 0);
    assert!(!dir.path().join("reports").exists());
    fs::write(dir.path().join("b.json"), "{}").expect("writable");
    assert_eq!(code(&gate(&[])), 2);
}

/// A session of 30 requests with three tools, and `break_it` done to it.
fn trace_with(dir: &Path, break_it: fn(&mut Session)) {
    let output = run(dir, ["trace", "s.jsonl", "-o", "traces"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut written = fs::read_dir(dir.join("traces")).expect("written");
    let path = written.next().expect("a trace").expect("readable").path();
    let bytes = fs::read(&path).expect("written");
    let mut session = trace::read(bytes.as_slice(), &path).expect("own output");
    let tokens = u32::try_from(session.prefix.tokens() / 6).expect("small");
    session.prefix.tools = (1..=3).map(|hash| PrefixBlock { hash, tokens }).collect();
    break_it(&mut session);
    let mut out = Vec::new();
    trace::write(&session, &mut out).expect("memory");
    fs::write(&path, out).expect("writable");
}

/// From this request on, the broken sessions differ.
const BROKEN_AT: u32 = 12;

fn before(request: u32, kind: EventKind) -> Event {
    Event { before_step: request - 1, kind }
}

/// The system prompt has the time in it.
fn clock_in_the_system_prompt(session: &mut Session) {
    let requests = u32::try_from(session.steps.len()).expect("few");
    session.events = (BROKEN_AT..=requests)
        .map(|request| {
            let mut system = session.prefix.system.clone();
            system[0].hash = u64::from(request) + 1_000;
            before(request, EventKind::SystemChanged { system })
        })
        .collect();
}

/// The tools come in the order of a hash table of the process.
fn tools_in_another_order(session: &mut Session) {
    let mut tools = session.prefix.tools.clone();
    tools.rotate_left(1);
    session.events = vec![before(BROKEN_AT, EventKind::ToolsChanged { tools })];
}

#[test]
fn clients_that_break_the_prefix_fail_with_the_request_and_the_cause() {
    for (break_it, cause) in [
        (clock_in_the_system_prompt as fn(&mut Session), "prefix_system"),
        (tools_in_another_order, "prefix_tool_order"),
    ] {
        let dir = one_session();
        let gate = |args: &[&str]| {
            let study = ["simulate", "traces", "-p", "none", "-o", "out"];
            assert_eq!(code(&run(dir.path(), study)), 0);
            gate(dir.path(), args)
        };
        trace_with(dir.path(), |_| {});
        assert_eq!(code(&gate(&["--update"])), 0);
        assert_eq!(code(&gate(&[])), 0);
        trace_with(dir.path(), break_it);
        let output = gate(&[]);
        assert_eq!(code(&output), 1, "{cause}: {}", stdout(&output));
        let first = format!(" {BROKEN_AT}: {cause}, ");
        assert!(stdout(&output).contains(&first), "{first}: {}", stdout(&output));
    }
}
