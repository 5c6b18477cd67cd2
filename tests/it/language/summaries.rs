//! Summaries that come later, rules that wait for another to break, and what is done about refused thinking.

use ctxsim::generate::ConstantGrowth;
use ctxsim::provider::Account;
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, SimEventKind, Summary};

use super::{HEAD, file, on};

/// Results of 1,000 tokens at 3.5 characters.
fn growing(requests: u32) -> Session {
    let growth = ConstantGrowth { requests, result_tokens: 1_000, result_utf16: 3_500, ..Default::default() };
    growth.session()
}

fn of_rules(rules: &str, session: &Session, options: &RunOptions, model: &str) -> (Summary, FullRecorder) {
    let dir = tempfile::tempdir().unwrap();
    let policy = file(dir.path(), "p", &format!("{HEAD}{rules}"));
    let (summary, record) = on(model, session, &policy, options);
    assert_eq!(summary.violations, 0, "{:?}", record.events);
    (summary, record)
}

fn run(rules: &str) -> (Summary, FullRecorder) {
    of_rules(rules, &growing(40), &RunOptions::default(), "claude-opus-5")
}

/// Requests before which a summary was put in place, and those before which one was thrown away.
fn placed_and_lost(record: &FullRecorder) -> (Vec<u32>, Vec<u32>) {
    let of = |wanted: fn(&SimEventKind) -> bool| {
        record.events.iter().filter(|e| wanted(&e.kind)).map(|e| e.request).collect()
    };
    (
        of(|kind| matches!(kind, SimEventKind::CompactionDone { .. })),
        of(|kind| matches!(kind, SimEventKind::CompactionFailed { .. })),
    )
}

/// A summary of all but the newest two answers, from eleven results on.
fn later(keys: &str) -> String {
    format!(
        r#"
        [[rule]]
        id = "fold"
        at = "request"
        when = [{{ of = "tool_results", unit = "count", at_least = 11 }}]
        select = {{ messages = {{ keep_recent = {{ turns = 2 }}, snap = "assistant" }} }}
        summarize = {{ input = "messages", prompt_chars = 100, max_output_tokens = 100, model = "same"{keys} }}
        "#
    )
}

#[test]
fn a_summary_that_takes_time_stands_for_what_it_was_asked_about() {
    let (at_once, record) = run(&later(""));
    let (placed, _) = placed_and_lost(&record);
    // Request 12 sees eleven results; two stay, and nine more come until 21.
    assert_eq!(placed, [12, 21, 30, 39]);
    let (summary, record) = run(&later(", latency_steps = 3"));
    let (placed, lost) = placed_and_lost(&record);
    // Asked for at 12, there at 15 with three new results behind the two that stay: 5, six more until 21.
    assert_eq!((placed, lost), (vec![15, 24, 33], vec![]));
    assert_eq!(summary.summarizer_calls, 4, "the last, asked for at 39, never arrives, and is billed");
    assert_eq!(at_once.summarizer_calls, 4);
    let starts: Vec<u32> = record
        .events
        .iter()
        .filter(|e| matches!(e.kind, SimEventKind::CompactionStart { .. }))
        .map(|e| e.request)
        .collect();
    assert_eq!(starts, [12, 21, 30, 39]);
}

#[test]
fn one_that_is_stale_when_it_comes_is_thrown_away_if_the_rule_says_so() {
    let edit = r#"
        [[rule]]
        id = "edit"
        at = "request"
        when = [{ of = "tool_results", unit = "count", at_least = 13 }]
        select = { tool_results = { keep_recent = { results = 2 } } }
        stub = { fixed = 10 }
        cadence = { min_interval = 100 }
        "#;
    // The edit comes before request 14, between the question at 12 and the answer at 15.
    let (kept, record) = run(&format!("{}{edit}", later(", latency_steps = 3")));
    assert_eq!(placed_and_lost(&record).0.first(), Some(&15));
    let (lost, record) = run(&format!("{}{edit}", later(", latency_steps = 3, discard_if_stale = true")));
    let (placed, thrown_away) = placed_and_lost(&record);
    assert_eq!(thrown_away, [15]);
    // It is asked for again at once, at 15, where nothing is edited any more.
    assert_eq!(placed.first(), Some(&18));
    assert!(lost.summarizer_calls >= kept.summarizer_calls, "what is thrown away is billed");
}

#[test]
fn one_that_is_written_waits_for_its_level() {
    let (_, record) = run(&later(", latency_steps = 1, place_at_least = 20"));
    // Asked for at 12; twenty results are there at 21. The eleven behind it are asked about at once.
    assert_eq!(placed_and_lost(&record).0, [21, 30, 39]);
}

#[test]
fn a_rule_may_wait_until_another_is_broken() {
    let rules = r#"
        [[rule]]
        id = "fold"
        at = "request"
        when = [{ of = "tool_results", unit = "count", at_least = 10 }]
        select = { messages = { keep_recent = { turns = 2 }, snap = "assistant" } }
        summarize = { input = "messages", prompt_chars = 100, max_output_tokens = 900000, model = "same", output = { tokens = 900000 }, reject_if_larger = true }
        cadence = { breaker = { failures = 2 } }
        [[rule]]
        id = "cut"
        at = "request"
        if_broken = "fold"
        select = { tool_results = { keep_recent = { results = 2 } } }
        stub = { fixed = 10 }
        cadence = { min_interval = 1000 }
        "#;
    let (summary, record) = run(rules);
    assert_eq!(placed_and_lost(&record), (vec![], vec![11, 12]));
    let cuts: Vec<u32> = record
        .events
        .iter()
        .filter(|e| matches!(e.kind, SimEventKind::Pass { .. }))
        .map(|e| e.request)
        .collect();
    assert_eq!((cuts, summary.summarizer_calls), (vec![13], 2));
}

#[test]
fn refused_thinking_may_be_answered_by_a_rule() {
    let edit = r#"
        [[rule]]
        id = "edit"
        at = "request"
        when = [{ of = "tool_results", unit = "count", at_least = 10 }]
        select = { tool_results = { keep_recent = { results = 2 } } }
        stub = { fixed = 10 }
        cadence = { min_interval = 1000 }
        "#;
    let strip = r#"
        [[rule]]
        id = "strip-behind"
        at = "binding"
        select = { thinking = { keep_recent = { turns = 1 } } }
        strip_thinking = {}
        "#;
    let enforced = RunOptions { account: Account::Enforced, ..RunOptions::default() };
    let recoveries = |record: &FullRecorder| -> Vec<String> {
        let events = record.events.iter();
        let action = |e: &ctxsim::sim::SimEvent| match &e.kind {
            SimEventKind::Recovery { action } => Some(action.clone()),
            _ => None,
        };
        events.filter_map(action).collect()
    };
    let session = growing(40);
    let (plain, record) = of_rules(edit, &session, &enforced, "claude-opus-5-5");
    assert_eq!((plain.binding_rejections, recoveries(&record)), (1, vec!["strip".to_owned()]));
    // What the rule keeps is refused again, and then everything goes.
    let (_, record) = of_rules(&format!("{edit}{strip}"), &session, &enforced, "claude-opus-5-5");
    assert_eq!(recoveries(&record), ["strip-behind", "strip"]);
    let all = strip.replace("keep_recent = { turns = 1 }", "");
    let (summary, record) = of_rules(&format!("{edit}{all}"), &session, &enforced, "claude-opus-5-5");
    assert_eq!((summary.binding_rejections, recoveries(&record)), (1, vec!["strip-behind".to_owned()]));
    assert_eq!(summary.stop_reason, None);
}
