//! What `validate` reaches on committed traces of real recordings, and its command line.

use std::collections::BTreeMap;
use std::fs;

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::provider::cache_spec::CacheKind;
use ctxsim::provider::model::Models;
use ctxsim::session::Session;
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::validate::{Fits, Options, SessionReport, is_comparable, validate};
use serde_json::Value;

use crate::compile_recordings::{recordings, sessions};
use crate::support::{code, json, one_session, run, stderr, stdout};
use crate::tidy::root;

const FIXTURES: &str = "fixtures/validate";

fn figures() -> Value {
    json(&run(root(), ["validate", FIXTURES, "--rules", "--format", "json"]), 0)
}

fn format<'v>(all: &'v Value, name: &str) -> &'v Value {
    let formats = all["formats"].as_array().expect("formats");
    formats.iter().find(|row| row["format"] == name).expect("a row of the format")
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
fn the_document_is_what_the_program_says() {
    let written = stdout(&run(root(), ["validate", FIXTURES, "--format", "markdown"]));
    let path = root().join("docs/fidelity.md");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &written).expect("writable");
    }
    let committed = fs::read_to_string(&path).expect("docs/fidelity.md");
    assert!(
        written == committed,
        "run this test with UPDATE_SCHEMAS=1, and judge each changed number of docs/fidelity.md"
    );
}

/// What the README repeats of the document: figures, how they are made, and what each rule buys.
fn excerpt(document: &str) -> String {
    let table = |from: &str| {
        let lines = document.split(from).nth(1).expect("there").lines();
        let rows = lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        rows.collect::<Vec<_>>().join("\n")
    };
    let list = |from: &str| {
        let lines = document.split(from).nth(1).expect("there").lines();
        let rows = lines.skip_while(|line| !line.starts_with("- ")).take_while(|line| line.starts_with("- "));
        rows.collect::<Vec<_>>().join("\n")
    };
    let folded = |title: &str, inside: &str| {
        format!("<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>\n")
    };
    [
        table("# Simulated against recorded usage"),
        folded("How each figure is made", &list("## How each figure is made")),
        folded(
            "What each rule gains (+) and loses (−), per recording",
            &format!("{}\n\n{}", table("## What each rule buys"), list("## What each rule buys")),
        ),
    ]
    .join("\n\n")
}

#[test]
fn the_readme_repeats_the_document() {
    const MARKS: [&str; 2] = ["<!-- docs/fidelity.md -->\n", "<!-- end of docs/fidelity.md -->\n"];
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).expect("README.md");
    let (before, rest) = readme.split_once(MARKS[0]).expect("a mark");
    let (_, behind) = rest.split_once(MARKS[1]).expect("a mark");
    let document = fs::read_to_string(root().join("docs/fidelity.md")).expect("docs/fidelity.md");
    let wanted = format!("{before}{}\n{}\n{}{behind}", MARKS[0], excerpt(&document), MARKS[1]);
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &wanted).expect("writable");
    } else {
        assert!(readme == wanted, "run this test with UPDATE_SCHEMAS=1");
    }
}

#[test]
fn explicit_caches_are_predicted_as_well_as_is_claimed() {
    let all = figures();
    let claude = format(&all, "claude-code");
    assert_eq!((number(claude, "/sessions"), number(claude, "/pairs")), (20.0, 3_856.0));
    assert!(number(claude, "/exact_read_share") >= 0.964, "{claude}");
    assert!(number(claude, "/unexplained_share") <= 0.005, "{claude}");
    assert!(number(claude, "/cost_error_abs_p50") <= 0.02, "{claude}");
    assert!(number(claude, "/open_loop/final_prompt_error_p50") <= 0.025, "{claude}");
    assert!(number(claude, "/open_loop/final_prompt_error_p90") <= 0.09, "{claude}");
}

#[test]
fn automatic_caches_are_predicted_as_well_as_is_claimed() {
    let all = figures();
    let codex = format(&all, "codex");
    assert_eq!(number(codex, "/pairs"), 934.0);
    assert!(number(codex, "/exact_read_share") >= 0.91, "{codex}");
}

#[test]
fn no_recording_is_predicted_worse_than_by_what_was_left() {
    let all = figures();
    for row in all["sessions"].as_array().expect("sessions") {
        let explicit =
            row["cost_error"].is_number() && row["rules"].as_object().is_some_and(|r| !r.is_empty());
        if explicit {
            assert!(number(row, "/exact_read_share") >= number(row, "/plain_read_share"), "{row}");
        }
    }
    let held = &all["held_out"];
    assert!(number(held, "/exact_read_share") >= number(held, "/plain_read_share"), "{held}");
    assert_eq!(number(held, "/sessions_below_plain"), 0.0);
}

#[test]
fn sums_agree_with_their_parts() {
    let all = figures();
    let rows = all["sessions"].as_array().expect("sessions");
    for field in ["/pairs", "/requests", "/open_loop/runs"] {
        let sum: f64 = rows.iter().map(|row| number(row, field)).sum();
        assert_eq!(sum, number(&all["total"], field), "{field}");
    }
    for row in rows.iter().chain([&all["total"]]) {
        assert_eq!(number(row, "/requests") - number(row, "/pairs"), number(row, "/sessions"), "{row}");
        let unexplained =
            ["unknown", "provider_side"].map(|cause| row["causes"][cause].as_f64().unwrap_or(0.0));
        // Of other names some are told by the read alone too.
        let least = (unexplained[0] + unexplained[1]) / number(row, "/pairs");
        let named: f64 = row["causes"].as_object().expect("causes").values().filter_map(Value::as_f64).sum();
        let share = number(row, "/unexplained_share");
        assert!(share > least - 1e-6 && share < named / number(row, "/pairs") + 1e-6, "{row}");
    }
}

#[test]
fn leaving_every_rule_out_leaves_read_plus_write() {
    let rules = ["compaction", "ttl_expired", "resume", "task_tools", "skill", "side_away", "side_repeat"];
    let without = rules.iter().flat_map(|rule| ["--without", rule]);
    let args = ["validate", FIXTURES, "--format", "json"].into_iter().chain(without);
    let all = json(&run(root(), args), 0);
    let claude = format(&all, "claude-code");
    assert_eq!(claude["exact_read_share"], claude["plain_read_share"]);
    assert_eq!(claude["rules"], Value::Object(serde_json::Map::new()));
}

#[test]
fn threads_change_nothing() {
    let bytes = |jobs| run(root(), ["validate", FIXTURES, "--format", "json", "--jobs", jobs]).stdout;
    assert_eq!(bytes("1"), bytes("4"));
}

/// The sessions of the committed traces.
fn traces() -> Vec<Session> {
    let folder = root().join(FIXTURES).display().to_string();
    let mut found = Vec::new();
    for path in ingest::input::resolve(&[folder]).expect("traces") {
        let source = ingest::input::open(&path).expect("a trace");
        for recording in ingest::read(source, &path, &ReadOptions::default()).expect("a trace") {
            let Recording::Session(session) = recording else { panic!("not a trace") };
            found.push(session.view(RecordedCompactions::Keep).into_owned());
        }
    }
    found
}

/// The session with the read of its last request turned into a write of the life it bought, or into plain input
/// where the provider caches by itself: prompt, life and, with explicit breakpoints, plain input stay.
fn without_its_read(session: &Session, is_explicit: bool) -> Option<Session> {
    let mut session = session.clone();
    let usage = session.steps.last_mut()?.recorded.as_mut()?;
    let read = std::mem::take(&mut usage.cache_read_tokens);
    match (is_explicit, usage.cache_write_1h_tokens, usage.cache_write_5m_tokens) {
        (false, 0, 0) => usage.uncached_tokens += read,
        (true, 1.., _) => usage.cache_write_1h_tokens += read,
        (true, 0, 1..) => usage.cache_write_5m_tokens += read,
        _ => return None,
    }
    (read > 0).then_some(session)
}

#[test]
fn no_prediction_knows_what_it_predicts() {
    let models = Models::builtin().expect("the built-in models");
    let report = |session: &Session| validate(session, &models, &Fits::default(), &Options::default());
    let mut checked = 0;
    for session in traces() {
        let is_explicit = report(&session).is_explicit;
        for requests in (2..session.steps.len()).step_by(17) {
            let mut cut = session.clone();
            cut.steps.truncate(requests);
            cut.events.retain(|event| (event.before_step as usize) < requests);
            let Some(changed) = without_its_read(&cut, is_explicit) else { continue };
            let (known, unknown) = (report(&cut), report(&changed));
            if known.is_explicit == is_explicit && unknown.is_explicit == is_explicit {
                let predicted =
                    |report: &SessionReport| report.pairs.last().map(|pair| pair.predicted_read_tokens);
                assert_eq!(predicted(&known), predicted(&unknown), "{} request {requests}", session.id);
                checked += 1;
            }
        }
    }
    assert!(checked > 250, "{checked}");
}

/// Every recording that a trace was made of gives, pair by pair, what its trace gives.
#[test]
fn recordings_give_what_their_traces_give() {
    let models = Models::builtin().expect("the built-in models");
    let report = |session: &Session| -> Option<SessionReport> {
        let kept = session.view(RecordedCompactions::Keep).into_owned();
        is_comparable(&kept).then(|| validate(&kept, &models, &Fits::default(), &Options::default()))
    };
    let of_traces: BTreeMap<String, SessionReport> =
        traces().iter().filter_map(report).map(|report| (report.session.clone(), report)).collect();
    assert_eq!(of_traces.len(), 35);
    let mut compared = 0;
    for path in recordings() {
        for found in sessions(&path).iter().filter_map(report) {
            let Some(of_trace) = of_traces.get(&found.session) else { continue };
            assert_eq!(found, *of_trace, "{}", path.display());
            compared += 1;
        }
    }
    println!("{compared} recordings compared");
}

#[test]
fn the_command_line() {
    let dir = one_session();
    let all = json(&run(dir.path(), ["validate", "s.jsonl", "--format", "json"]), 0);
    for key in ["format_version", "recipe", "digest", "skipped", "sessions", "total"] {
        assert!(!all[key].is_null(), "{key}");
    }
    let row = &all["sessions"][0];
    for key in [
        "session",
        "format",
        "agent",
        "model",
        "requests",
        "pairs",
        "exact_read_share",
        "exact_write_share",
        "read_abs_error_mean",
        "read_abs_error_p50",
        "read_abs_error_p90",
        "read_abs_error_p99",
        "unexplained_share",
        "causes",
        "cost_recorded_usd",
        "cost_simulated_usd",
        "cost_error",
        "open_loop",
    ] {
        assert!(!row[key].is_null(), "{key}: {row}");
    }
    assert_eq!((number(row, "/requests"), number(row, "/pairs")), (30.0, 29.0));
    assert!(all["total"]["cost_error_abs_p50"].is_number());
    let csv = stdout(&run(dir.path(), ["validate", "s.jsonl", "--format", "csv"]));
    assert!(csv.starts_with("session,client,model,pairs,"), "{csv}");
    let table = stdout(&run(dir.path(), ["validate", "s.jsonl", "--rules"]));
    assert!(table.contains("ttl_expired"), "{table}");
    let out = run(dir.path(), ["validate", "s.jsonl", "-o", "out", "-q"]);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let written = fs::read(dir.path().join("out/validate.json")).expect("validate.json");
    let pairs = fs::read_to_string(dir.path().join("out/pairs.csv")).expect("pairs.csv");
    assert_eq!(pairs.lines().count(), 30);
    assert_eq!(written, run(dir.path(), ["validate", "s.jsonl", "--format", "json"]).stdout);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let dir = one_session();
    let wrong = run(dir.path(), ["validate", "s.jsonl", "--without", "compactoin"]);
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("did you mean `compaction`?"), "{}", stderr(&wrong));
    let text = fs::read_to_string(dir.path().join("s.jsonl")).expect("the recording");
    fs::write(dir.path().join("without.jsonl"), text.replace("\"usage\"", "\"not\"")).expect("writable");
    let nothing = run(dir.path(), ["validate", "without.jsonl"]);
    assert_eq!(code(&nothing), 4, "{}", stderr(&nothing));
    assert!(stderr(&nothing).contains("nothing to compare"), "{}", stderr(&nothing));
}

/// Why grids are fitted and not those of the models named `-recorded` (docs/decisions.md, Validation): with the model's
/// grid even the best end and number of trailing tokens, chosen for each recording with hindsight, is exact less often.
#[test]
fn grids_of_models_predict_less_than_grids_of_recordings() {
    let models = Models::builtin().expect("the built-in models");
    let (mut by_model, mut fitted, mut pairs) = (0, 0, 0);
    for session in
        traces().iter().filter(|session| session.origin.format == "codex" && is_comparable(session))
    {
        let recorded = format!("{}-recorded", session.model);
        let model = models.get(&recorded).or_else(|_| models.get(&session.model)).expect("a known model");
        let CacheKind::Prefix(cache) = model.cache.expect("a cache").kind else { panic!("{recorded}") };
        let used: Vec<_> = session.steps.iter().filter_map(|step| step.recorded).collect();
        let used: Vec<_> = used.into_iter().filter(|usage| usage.prompt_tokens() > 0).collect();
        let exact = |with_answer: bool, tail: u64| {
            let is_exact = |two: &&[ctxsim::usage::Usage]| {
                let answer = if with_answer { two[0].output_tokens } else { 0 };
                let end = two[0].prompt_tokens() + answer;
                let read = cache.grid.floor(end.saturating_sub(tail)).min(two[1].prompt_tokens());
                read == two[1].cache_read_tokens
            };
            used.windows(2).filter(is_exact).count()
        };
        let ends = [false, true];
        by_model += ends
            .iter()
            .flat_map(|end| (0..=130).map(|tail| exact(*end, tail)))
            .max()
            .expect("ends and tails");
        let report = validate(session, &models, &Fits::default(), &Options::default());
        fitted += report.pairs.iter().filter(|pair| pair.is_exact()).count();
        pairs += report.pairs.len();
    }
    assert_eq!((pairs, by_model), (934, 743));
    assert!(fitted > by_model + 100, "{fitted} and {by_model} of {pairs}");
}
