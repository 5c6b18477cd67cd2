//! Policies and sessions of known sizes, for tests of what a strategy does.

use std::collections::BTreeMap;
use std::sync::Arc;

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{PolicyConfig, Strategy, parse_preset};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::session::{BlockKind, Session};
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

/// The policy of `rules`, on `model`, with parameters of the simulation set.
pub fn strategy_on(model: &ModelSpec, rules: &str, common: &[(&str, i64)]) -> Strategy {
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
pub fn model(window_tokens: u64) -> ModelSpec {
    let mut model = Models::builtin().unwrap().get("claude-opus-5").unwrap().clone();
    model.window_tokens = window_tokens;
    model
}

/// Runs `rules` over `session` on a window of so many tokens.
pub fn run_in(window_tokens: u64, session: &Session, rules: &str) -> (Summary, FullRecorder) {
    run_with(window_tokens, session, rules, &[])
}

/// The same, with parameters of the simulation set.
pub fn run_with(
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
pub fn simulate(session: &Session, rules: &str) -> (Summary, FullRecorder) {
    run_in(10_000_000, session, rules)
}

/// Requests before which there was a pass.
pub fn passes(record: &FullRecorder) -> Vec<u32> {
    let pass = |e: &&ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::Pass { .. });
    record.events.iter().filter(pass).map(|e| e.request).collect()
}

/// Requests before which there was a compaction.
pub fn compactions(record: &FullRecorder) -> Vec<u32> {
    let done = |e: &&ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::CompactionDone { .. });
    record.events.iter().filter(done).map(|e| e.request).collect()
}

/// Requests that lost cached prefix to an edit.
pub fn breaks(record: &FullRecorder) -> Vec<u32> {
    let edited = [Cause::PrefixRule, Cause::PrefixCompaction, Cause::PrefixThinking];
    let rows = record.requests.iter();
    rows.filter(|r| r.miss_cause.is_some_and(|c| edited.contains(&c))).map(|r| r.request).collect()
}

/// Share of prompt tokens that were read from the cache.
pub fn hit_rate(summary: &Summary) -> f64 {
    let usage = &summary.usage;
    usage.cache_read_tokens as f64 / usage.prompt_tokens() as f64
}

/// Summarizes everything but what `select` keeps, when `when` holds; `more` are further keys of the rule.
pub fn summarize(at: &str, when: &str, select: &str, more: &str) -> String {
    format!(
        r#"
        [[rule]]
        id = "summarize"
        at = {at}
        when = [{when}]
        select = {{ messages = {{ {select} }} }}
        {more}
        [rule.summarize]
        input = "messages"
        system_chars = 100
        prompt_chars = 100
        wrap_chars = 0
        wrap_json_escapes = 0
        max_output_tokens = 4000
        model = "same"
        "#
    )
}

/// Summaries of 300 tokens.
pub const SHORT: &[(&str, i64)] = &[("summary_tokens", 300)];

/// Growth of a session on a model that binds no thinking.
pub fn base() -> ConstantGrowth {
    ConstantGrowth { model: "claude-opus-5".to_owned(), ..ConstantGrowth::default() }
}

/// The first user message of `session` gets so many tokens, at four characters each.
pub fn with_prompt(mut session: Session, tokens: u32) -> Session {
    let blocks = &mut session.blocks;
    blocks.tokens[0] = tokens;
    for column in [&mut blocks.utf16, &mut blocks.bytes, &mut blocks.json_utf16, &mut blocks.ascii] {
        column[0] = tokens * 4;
    }
    session
}

/// `session` with a pause of so many milliseconds before the request at index `at`.
pub fn with_gap(mut session: Session, at: usize, gap_ms: i64) -> Session {
    for step in &mut session.steps[at..] {
        step.start_ms = step.start_ms.map(|ms| ms + gap_ms);
    }
    session
}

/// `session` with something said by a person at every so many requests, where there were results: the calls in
/// front of it become text.
pub fn with_human_turns(mut session: Session, every: usize) -> Session {
    let blocks = &mut session.blocks;
    for step in (every..session.steps.len()).step_by(every) {
        for block in session.steps[step - 1].output.clone() {
            let kind = &mut blocks.kind[block as usize];
            if *kind == BlockKind::ToolUse {
                *kind = BlockKind::AssistantText;
            }
        }
        for block in session.steps[step].input.clone() {
            blocks.kind[block as usize] = BlockKind::UserText;
        }
        session.steps[step].human_turn = true;
    }
    session
}
