//! Sessions of one organisation on one cache, on every kind of cache.

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{PolicySpec, Strategy};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::session::Session;
use ctxsim::sim::shared::run_shared;
use ctxsim::sim::{FullRecorder, NoRecorder, RunOptions, Scratch, Summary, run};

/// One model of each kind of cache, chance left out.
const MODELS: [&str; 6] = ["claude-opus-5", "gpt-6-sol", "gpt-5.4", "gpt-5.5", "deepseek-v4-pro", "vllm"];

const POLICIES: [&str; 2] = ["none", "arcturn:compaction.enabled=false"];

fn growth(requests: u32, id: &str, shift_ms: i64) -> Session {
    let growth =
        ConstantGrowth { requests, result_utf16: 6_000, result_tokens: 1_800, ..ConstantGrowth::default() };
    let mut session = growth.session();
    id.clone_into(&mut session.id);
    session.steps.iter_mut().for_each(|step| step.start_ms = step.start_ms.map(|at| at + shift_ms));
    session
}

/// The same sizes, nothing in common.
fn other(mut session: Session) -> Session {
    session.blocks.hash.iter_mut().for_each(|hash| *hash ^= 0xabcd);
    let prefix = &mut session.prefix;
    for block in prefix.tools.iter_mut().chain(&mut prefix.system).chain(&mut prefix.injected) {
        block.hash ^= 0xabcd;
    }
    session
}

fn cases() -> Vec<(ModelSpec, Strategy)> {
    let models = Models::builtin().unwrap();
    let mut cases = Vec::new();
    for id in MODELS {
        let model = models.get(id).unwrap();
        for policy in POLICIES {
            let config = policy.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
            cases.push((model.clone(), config.strategy(model, &models).unwrap()));
        }
    }
    cases
}

fn alone(session: &Session, strategy: &Strategy, model: &ModelSpec) -> (Summary, FullRecorder) {
    let mut record = FullRecorder::default();
    let options = RunOptions::default();
    let summary = run(session, strategy, model, &options, &mut Scratch::default(), &mut record);
    (summary, record)
}

fn together(sessions: &[&Session], strategy: &Strategy, model: &ModelSpec) -> Vec<(Summary, FullRecorder)> {
    let mut records = vec![FullRecorder::default(); sessions.len()];
    let options = RunOptions { shared_cache: true, ..RunOptions::default() };
    let summaries = run_shared(sessions, strategy, model, &options, &mut records, || true).unwrap();
    summaries.into_iter().zip(records).collect()
}

#[test]
fn sessions_that_have_nothing_in_common_run_as_they_do_alone() {
    let sessions = [growth(60, "a", 0), other(growth(50, "b", 3_000))];
    for (model, strategy) in cases() {
        let shared = together(&[&sessions[0], &sessions[1]], &strategy, &model);
        for (session, (summary, record)) in sessions.iter().zip(shared) {
            let (expected, rows) = alone(session, &strategy, &model);
            assert_eq!(record.requests, rows.requests, "{} {}", model.id, session.id);
            assert_eq!(summary, expected, "{} {}", model.id, session.id);
        }
    }
}

#[test]
fn what_one_session_wrote_another_reads() {
    let (first, second) = (growth(40, "a", 0), growth(40, "b", 1_000));
    for (model, strategy) in cases() {
        let (expected, _) = alone(&first, &strategy, &model);
        let shared = together(&[&second, &first], &strategy, &model);
        assert_eq!(shared[1].0, expected, "{}: the first in time is not touched", model.id);
        let usage = &shared[0].0.usage;
        assert_eq!(usage.cache_write_tokens(), 0, "{}: all was written by the first", model.id);
        assert!(usage.cache_read_tokens > expected.usage.cache_read_tokens, "{}", model.id);
        assert_eq!(usage.prompt_tokens(), expected.usage.prompt_tokens(), "{}", model.id);
    }
}

#[test]
fn a_prefix_that_all_share_is_written_once() {
    // Tools and system are the same, conversations are not; the second starts when the first is long over.
    let first = growth(5, "a", 0);
    let mut second = other(growth(5, "b", 200_000));
    second.prefix = first.prefix.clone();
    for (model, strategy) in cases() {
        let rows = |sessions: &[&Session]| together(sessions, &strategy, &model).swap_remove(0).1.requests;
        let (alone, shared) = (rows(&[&second]), rows(&[&second, &first]));
        assert_eq!(alone[0].usage.cache_read_tokens, 0);
        let read = shared[0].usage.cache_read_tokens;
        let expected = match model.id.as_str() {
            // Written at the end of the whole prompt only; the developer's block is looked at but was no entry.
            "gpt-6-sol" => 0,
            // Two prompts parted there, but the second one is the first to show it.
            "deepseek-v4-pro" => 0,
            "gpt-5.4" => 14_976,
            "gpt-5.5" => 14_336,
            "vllm" => 14_992,
            _ => 15_000,
        };
        assert_eq!(read, expected, "{}", model.id);
    }
}

#[test]
fn a_stop_leaves_nothing_behind() {
    let session = growth(5, "a", 0);
    let (model, strategy) = cases().swap_remove(0);
    let mut asked = 0;
    let goes_on = || {
        asked += 1;
        asked < 3
    };
    let options = RunOptions { shared_cache: true, ..RunOptions::default() };
    let none = run_shared(&[&session], &strategy, &model, &options, &mut [NoRecorder], goes_on);
    assert!(none.is_none() && asked == 3);
}
