//! What a client reclaims and folds at its own limit, and what it does when a prompt does not fit.

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::session::{BlockKind, Event, EventKind, Session};
use ctxsim::sim::summary::StopReason;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

fn on(model: &str, session: &Session, policy: &str, options: &RunOptions) -> (Summary, FullRecorder) {
    let models = Models::builtin().unwrap();
    let model = models.get(model).unwrap();
    let spec: PolicySpec = policy.parse().unwrap();
    let strategy = spec.load(&[], &[]).unwrap().strategy(model, &models).unwrap();
    let mut record = FullRecorder::default();
    let session = session.scaled_to(model.tokenizer);
    let summary = run(&session, &strategy, model, options, &mut Scratch::default(), &mut record);
    (summary, record)
}

fn simulate(session: &Session, policy: &str) -> (Summary, FullRecorder) {
    on("claude-opus-5-5", session, policy, &RunOptions::default())
}

/// Each request adds 4,060 tokens to a prompt that begins with 15,200.
fn growing(requests: u32) -> Session {
    ConstantGrowth { requests, result_utf16: 10_000, result_tokens: 4_000, ..ConstantGrowth::default() }
        .session()
}

fn prompt(request: u64) -> u64 {
    15_200 + (request - 1) * 4_060
}

/// Every `turn` requests the user says something instead of a tool.
fn in_turns(mut session: Session, turn: usize) -> Session {
    for step in (turn..session.steps.len()).step_by(turn) {
        for block in session.steps[step - 1].output.clone() {
            if session.blocks.kind[block as usize] == BlockKind::ToolUse {
                session.blocks.kind[block as usize] = BlockKind::AssistantText;
            }
        }
        for block in session.steps[step].input.clone() {
            session.blocks.kind[block as usize] = BlockKind::UserText;
        }
        session.steps[step].human_turn = true;
    }
    session
}

#[test]
fn a_batch_is_checked_by_the_usage_of_the_call_before() {
    // 75 % of 100,000: the first prompt above it is that of request 16, so the batch before 17 is the first
    // that finds it.
    let (summary, record) = simulate(&growing(20), "octo:believed_window_tokens=100000");
    let first = (1..).find(|n| prompt(*n) > 75_000).unwrap();
    let reclaimed = record.events.iter().find_map(|e| match &e.kind {
        SimEventKind::Reclaimed { tokens_before, tokens_after, reclaimed_tokens, .. } => {
            Some((u64::from(e.request), *tokens_before, *tokens_after, *reclaimed_tokens))
        }
        _ => None,
    });
    // Of `first` results all but six, each 10,000 ASCII characters for 98 and three bytes: the name has four.
    let elided = first - 6;
    let saved_each = 10_000 / 4 - (98 / 4 + 2);
    let (request, before, after, reclaimed_tokens) = reclaimed.expect("it reclaims");
    assert_eq!((request, before), (first + 1, prompt(first)));
    assert_eq!(reclaimed_tokens, elided * saved_each);
    assert!(after < 75_000 && after < before);
    assert_eq!((summary.elided_results, summary.summarizer_calls, summary.violations), (elided, 0, 0));
}

#[test]
fn a_turn_is_checked_before_its_input_and_at_the_limit_itself() {
    let session = in_turns(growing(30), 5);
    let small = Session { blocks: session.blocks.clone(), ..session };
    // The prompt of request 15 is the last one reported when the turn of request 16 begins.
    let at = prompt(15);
    let folds = |threshold: u64| {
        let (_, record) = simulate(&small, &format!("octo:compact_threshold={threshold}"));
        let started = |e: &&ctxsim::sim::SimEvent| {
            matches!(e.kind, SimEventKind::CompactionStart { .. } | SimEventKind::Reclaimed { .. })
        };
        record.events.iter().find(started).map(|e| e.request)
    };
    assert_eq!(folds(at), Some(16), "at the limit");
    assert_eq!(folds(at + 1), Some(17), "not below: the next check is after the batch that request 17 sends");
}

#[test]
fn whole_turns_are_folded_and_the_tail_stays() {
    let session = in_turns(
        ConstantGrowth {
            requests: 60,
            result_utf16: 3_000,
            result_tokens: 1_300,
            ..ConstantGrowth::default()
        }
        .session(),
        5,
    );
    let (summary, record) = simulate(&session, "octo:compact_threshold=40000");
    assert_eq!(
        (summary.violations, summary.binding_rejections > 0),
        (0, true),
        "it keeps thinking that is bound"
    );
    let done: Vec<_> = record
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            SimEventKind::CompactionDone {
                tokens_before, tokens_after, folded_messages, archive, ..
            } => Some((*tokens_before, *tokens_after, *folded_messages, archive.clone())),
            _ => None,
        })
        .collect();
    assert!(done.len() >= 2, "{done:?}");
    assert_eq!(done[0].3.as_deref(), Some("chunk-001.md"));
    assert_eq!(done[1].3.as_deref(), Some("chunk-002.md"));
    for (before, after, folded, _) in &done {
        assert!(*before >= 40_000 && *after <= 20_000 + 1_024 && *folded > 0, "{done:?}");
    }
    let kinds: Vec<&str> = record
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            SimEventKind::CompactionStart { .. } => Some("start"),
            SimEventKind::CompactionProgress { .. } => Some("progress"),
            SimEventKind::CompactionDone { .. } => Some("done"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds[..3], ["start", "progress", "done"]);
}

#[test]
fn the_user_may_fold_what_is_not_worth_it() {
    let mut session = in_turns(growing(12), 4);
    let asked = EventKind::ManualCompaction;
    session.events = vec![Event { before_step: 8, kind: asked }];
    let (summary, record) = simulate(&session, "octo:compact_threshold=-1");
    let reclaimed = record.events.iter().any(|e| matches!(e.kind, SimEventKind::Reclaimed { .. }));
    assert_eq!((summary.compactions, reclaimed), (0, false), "all of it fits 30 % of the window");
    let (summary, _) = simulate(&session, "octo:compact_threshold=-1,believed_window_tokens=20000");
    assert_eq!(summary.compactions, 1, "the limit is off, and the user asked");
}

#[test]
fn a_prompt_that_does_not_fit_ends_a_run_without_a_ladder() {
    let (summary, _) = on("claude-sonnet-4-5", &growing(70), "none", &RunOptions::default());
    let first = (1..).find(|n| prompt(*n) * 10 / 13 > 200_000 - 1_000).unwrap();
    assert_eq!(summary.stop_reason, Some(StopReason::Overflow));
    let stopped = summary.stopped_at_request.unwrap();
    assert!(stopped >= first && stopped <= first + 1, "{stopped}");
}

#[test]
fn a_ladder_reclaims_first_and_sends_again_if_that_frees_the_deficit() {
    let policy = "octo:compact_threshold=10000000";
    let (none, _) = on("claude-sonnet-4-5", &growing(70), "none", &RunOptions::default());
    let (summary, record) = on("claude-sonnet-4-5", &growing(70), policy, &RunOptions::default());
    assert_eq!((summary.stop_reason, summary.requests), (None, 70));
    assert_eq!((summary.overflows, summary.recoveries, summary.summarizer_calls), (1, 1, 0));
    let refused = record.requests.iter().find(|r| r.rejections > 0).unwrap();
    assert_eq!(Some(u64::from(refused.request)), none.stopped_at_request);
    // Nothing to reclaim, and one turn only: no step can do anything.
    let small = ConstantGrowth {
        requests: 2_000,
        thinking_tokens: 0,
        result_utf16: 300,
        result_tokens: 140,
        ..ConstantGrowth::default()
    };
    let (stuck, _) = on("claude-sonnet-4-5", &small.session(), policy, &RunOptions::default());
    assert_eq!(stuck.stop_reason, Some(StopReason::Overflow));
    // In turns, the older ones are folded with the newest message set aside.
    let turns = in_turns(small.session(), 50);
    let (folded, _) = on("claude-sonnet-4-5", &turns, policy, &RunOptions::default());
    assert_eq!((folded.stop_reason, folded.requests, folded.violations), (None, 2_000, 0));
    assert_eq!((folded.compactions, folded.overflows), (folded.recoveries, 1), "{folded:?}");
}

#[test]
fn ladders_and_folds_survive_a_resume_before_every_request() {
    let resuming = RunOptions { resume_before_each_request: true, ..RunOptions::default() };
    let session = in_turns(growing(70), 7);
    for policy in [
        "octo:compact_threshold=10000000",
        "octo:compact_threshold=50000",
        "octo-doc:compact_threshold=50000",
    ] {
        let live = on("claude-sonnet-4-5", &session, policy, &RunOptions::default());
        let resumed = on("claude-sonnet-4-5", &session, policy, &resuming);
        assert_eq!(live.0, resumed.0, "{policy}");
        assert_eq!(live.1.requests, resumed.1.requests, "{policy}");
        assert!(live.0.passes + live.0.compactions > 0, "{policy}");
    }
}

#[test]
fn a_result_is_cut_when_it_is_made() {
    let session = ConstantGrowth {
        requests: 4,
        result_utf16: 80_000,
        result_tokens: 30_000,
        ..ConstantGrowth::default()
    }
    .session();
    let (summary, record) = simulate(&session, "octo");
    let cut = record.events.iter().find_map(|e| match &e.kind {
        SimEventKind::Truncate { chars, kept_chars, .. } => Some((*chars, *kept_chars)),
        _ => None,
    });
    assert_eq!(cut, Some((80_000, 40_000)));
    let (whole, _) = simulate(&session, "none");
    assert!(summary.usage.prompt_tokens() < whole.usage.prompt_tokens());
    assert_eq!(summary.misses[ctxsim::cause::Cause::PrefixRule.index()].requests, 0, "nothing sent changes");
}
