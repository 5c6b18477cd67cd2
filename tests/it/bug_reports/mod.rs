//! What users of real agents reported about context management, with their numbers, as checks of the
//! policy language: a small policy of each faulty design and of its fix, on a session of known sizes.

mod edits;
mod triggers;
mod vendors;

use std::collections::BTreeMap;
use std::sync::Arc;

use ctxsim::cause::Cause;
use ctxsim::policy::{PolicyConfig, Strategy, parse_preset};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

/// The policy of `rules`, on `model`, with parameters of the simulation set.
fn strategy_on(model: &ModelSpec, rules: &str, common: &[(&str, i64)]) -> Strategy {
    let text = format!("name = \"t\"\nversion = \"1\"\nsummary = \"s\"\nextends = \"none\"\n{rules}");
    let preset = Arc::new(parse_preset(&text, "the test's policy").unwrap());
    let common = common.iter().map(|(k, v)| ((*k).to_owned(), ctxsim::policy::ParamValue::Int(*v)));
    let config = PolicyConfig {
        label: "t".to_owned(),
        preset,
        set: BTreeMap::new(),
        common: common.collect(),
        warnings: Vec::new(),
    };
    config.strategy(model, &Models::builtin().unwrap()).unwrap()
}

/// A model that binds no thinking, with this window.
fn model(window_tokens: u64) -> ModelSpec {
    let mut model = Models::builtin().unwrap().get("claude-opus-5").unwrap().clone();
    model.window_tokens = window_tokens;
    model
}

/// Runs `rules` over `session` on a window of so many tokens.
fn run_in(window_tokens: u64, session: &Session, rules: &str) -> (Summary, FullRecorder) {
    run_with(window_tokens, session, rules, &[])
}

fn run_with(
    window_tokens: u64,
    session: &Session,
    rules: &str,
    common: &[(&str, i64)],
) -> (Summary, FullRecorder) {
    let model = model(window_tokens);
    let strategy = strategy_on(&model, rules, common);
    let mut record = FullRecorder::default();
    let options = RunOptions::default();
    let summary = run(session, &strategy, &model, &options, &mut Scratch::default(), &mut record);
    assert_eq!(summary.violations, 0, "{:?}", record.events);
    (summary, record)
}

/// Runs on a window that nothing here fills.
fn simulate(session: &Session, rules: &str) -> (Summary, FullRecorder) {
    run_in(10_000_000, session, rules)
}

/// Requests before which there was a pass.
fn passes(record: &FullRecorder) -> Vec<u32> {
    let pass = |e: &&ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::Pass { .. });
    record.events.iter().filter(pass).map(|e| e.request).collect()
}

/// Requests before which there was a compaction.
fn compactions(record: &FullRecorder) -> Vec<u32> {
    let done = |e: &&ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::CompactionDone { .. });
    record.events.iter().filter(done).map(|e| e.request).collect()
}

/// Requests that lost cached prefix to an edit.
fn breaks(record: &FullRecorder) -> Vec<u32> {
    let edited = [Cause::PrefixRule, Cause::PrefixCompaction, Cause::PrefixThinking];
    let rows = record.requests.iter();
    rows.filter(|r| r.miss_cause.is_some_and(|c| edited.contains(&c))).map(|r| r.request).collect()
}

/// Share of prompt tokens that were read from the cache.
fn hit_rate(summary: &Summary) -> f64 {
    let usage = &summary.usage;
    usage.cache_read_tokens as f64 / usage.prompt_tokens() as f64
}
