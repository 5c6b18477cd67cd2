//! One cell: what a strategy does to a session, with the numbers worked out by hand.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::{Account, Models};
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::session::{Event, EventKind, PrefixBlock, Session};
use ctxsim::sim::summary::StopReason;
use ctxsim::sim::{FullRecorder, OnBindingError, RunOptions, Scratch, SimEventKind, Summary, run};

const MODEL: &str = "claude-opus-5-5";

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
    on(MODEL, session, policy, &RunOptions::default())
}

fn fixtures() -> Vec<Session> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .filter(|p| p.to_string_lossy().ends_with(".trace.jsonl"))
        .map(|p| {
            let session = ctxsim::session::trace::read(BufReader::new(File::open(p).unwrap()), p).unwrap();
            session.view(RecordedCompactions::Undo).into_owned()
        })
        .collect()
}

/// Twenty requests whose results have 10,000 characters each.
fn growing() -> Session {
    ConstantGrowth { requests: 20, result_utf16: 10_000, result_tokens: 4_000, ..ConstantGrowth::default() }
        .session()
}

fn with_event(mut session: Session, before_step: u32, kinds: &[EventKind]) -> Session {
    session.events = kinds.iter().map(|kind| Event { before_step, kind: kind.clone() }).collect();
    session
}

#[test]
fn a_resume_before_every_request_changes_nothing() {
    let policies = [
        "none",
        "arcturn",
        "arcturn:minCharsPerPass=20000,keepRecentTurns=1",
        "arcturn:compaction.reserveTokens=900000",
        "arcturn:compaction.reserveTokens=900000,compaction.shape=keep-tail",
        "arcturn:contextEditing.mode=server",
        "arcturn:compaction.reserveTokens=900000,compaction.shape=server",
        "arcturn-0.6:compaction.reserveTokens=900000",
        "octo:compact_threshold=60000",
        "octo-doc:compact_threshold=60000",
    ];
    let resuming = RunOptions { resume_before_each_request: true, ..RunOptions::default() };
    let mut edited = 0;
    for session in fixtures().iter().filter(|s| s.steps.len() < 200) {
        for policy in policies {
            let live = simulate(session, policy);
            let resumed = on(MODEL, session, policy, &resuming);
            assert_eq!(live.0, resumed.0, "{} under {policy}", session.id);
            assert_eq!(live.1.requests, resumed.1.requests, "{} under {policy}", session.id);
            edited += live.0.passes + live.0.compactions;
        }
    }
    assert!(edited > 50, "only {edited} edits were resumed over");
}

#[test]
fn every_cell_keeps_its_books() {
    for session in &fixtures() {
        for policy in ["none", "arcturn", "arcturn-0.6", "arcturn:compaction.reserveTokens=900000"] {
            let (summary, record) = simulate(session, policy);
            let usage = summary.usage;
            let missed: u64 = summary.misses.iter().map(|m| m.tokens).sum();
            assert_eq!(missed, usage.uncached_tokens + usage.cache_write_tokens());
            let paid: u128 = summary.misses.iter().map(|m| m.cost_pusd).sum();
            assert_eq!(paid, summary.cost.uncached + summary.cost.cache_write);
            let rows: u128 = record.requests.iter().map(|r| r.cost_pusd).sum();
            assert_eq!(rows + summary.cost.summarizer, summary.cost.total());
            assert_eq!(record.requests.len() as u64, summary.requests);
            assert_eq!(summary.violations, 0);
        }
    }
}

#[test]
fn an_offloaded_result_counts_its_stub_and_its_share() {
    let session = ConstantGrowth {
        requests: 3,
        result_utf16: 40_000,
        result_tokens: 18_000,
        ..ConstantGrowth::default()
    }
    .session();
    let (summary, record) = simulate(&session, "arcturn");
    assert_eq!(summary.offloads, 2);
    // Path: /home/me/.arcturn (17) + /offload/ (9) + session id (36) + / + Bash + - + call id (30) + .txt.
    let path = 17 + 9 + 36 + 1 + 4 + 1 + 30 + 4;
    // 515 + tool 4 + digits of 40000, 40000, 501, 16000, 35000, 439 (lines in proportion, rounded up).
    let envelope = 515 + 4 + (5 + 5 + 3 + 5 + 5 + 3) + 3 * path;
    let offload = record.events.iter().find_map(|e| match &e.kind {
        SimEventKind::Offload { chars, stub_chars, .. } => Some((*chars, *stub_chars)),
        _ => None,
    });
    assert_eq!(offload, Some((40_000, envelope + 5_000)));
    // Tokens: envelope × 0.45 half up, and 5,000 of 40,000 characters of an 18,000-token result.
    let stub_tokens = (envelope * 450 + 500) / 1_000 + 18_000 * 5_000 / 40_000;
    let grown = record.requests[2].usage.prompt_tokens() - record.requests[1].usage.prompt_tokens();
    assert_eq!(grown, 40 + 20 + stub_tokens);
}

#[test]
fn a_pass_rewrites_once_and_then_only_appends() {
    let (summary, record) = simulate(&growing(), "arcturn");
    let passes: Vec<(u32, u64, u64)> = record
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            SimEventKind::Pass { elided_count, chars_saved, .. } => {
                Some((e.request, *elided_count, *chars_saved))
            }
            _ => None,
        })
        .collect();
    // 10,000 characters a result: over 100,000 with the eleventh, which request 12 sends; three turns stay.
    let stub = 118 + "\"Bash\"".len() as u64 + 5;
    assert_eq!(passes, [(12, 8, 8 * (10_000 - stub)), (18, 6, 6 * (10_000 - stub))]);
    assert_eq!(summary.passes, 2);
    assert_eq!(summary.binding_rejections, 0);
    let causes: Vec<u32> = record
        .requests
        .iter()
        .filter(|r| r.miss_cause == Some(Cause::PrefixRule))
        .map(|r| r.request)
        .collect();
    assert_eq!(causes, [12, 18]);
    // Thinking of requests 1 to 11 was produced over results from the first on: the answers to requests 2
    // to 11 saw one that is now a stub.
    assert_eq!(summary.withheld_thinking_blocks, 10 + 6);
}

#[test]
fn sliding_edits_are_refused_where_thinking_is_bound_and_pass_elsewhere() {
    let (enforced, _) = simulate(&growing(), "arcturn-0.6");
    assert!(enforced.passes >= 5 && enforced.binding_rejections >= 1, "{enforced:?}");
    let unenforced = RunOptions { account: Account::Unenforced, ..RunOptions::default() };
    let (allowed, _) = on(MODEL, &growing(), "arcturn-0.6", &unenforced);
    assert_eq!(allowed.binding_rejections, 0);
    assert!(allowed.allowed_mismatches > 0);
    let (unbound, _) = on("claude-opus-5", &growing(), "arcturn-0.6", &RunOptions::default());
    assert_eq!((unbound.binding_rejections, unbound.allowed_mismatches), (0, 0));
    let (always, _) = on("claude-fable-5-2", &growing(), "arcturn-0.6", &unenforced);
    assert!(always.binding_rejections >= 1, "5.2 ignores the age of the account");
}

#[test]
fn answers_to_a_rejection() {
    let with = |answer| RunOptions { on_binding_error: Some(answer), ..RunOptions::default() };
    let (failed, record) = on(MODEL, &growing(), "arcturn-0.6", &with(OnBindingError::Fail));
    // The eleventh result crosses the trigger; request 12 is the first that is edited.
    assert_eq!(failed.stopped_at_request, Some(12));
    assert_eq!(failed.stop_reason, Some(StopReason::BindingRejection));
    assert_eq!(record.requests.len(), 11);
    let (dropping, record) = on(MODEL, &growing(), "arcturn-0.6", &with(OnBindingError::DropBlock));
    assert_eq!(dropping.binding_rejections, 1, "the setting stays");
    assert!(dropping.dropped_thinking_blocks > 0 && dropping.requests == 20);
    assert_eq!(record.requests[11].rejections, 1);
    let (stripping, _) = on(MODEL, &growing(), "arcturn-0.6", &with(OnBindingError::Strip));
    assert_eq!(stripping.recoveries, stripping.binding_rejections);
}

#[test]
fn keep_tail_is_refused_with_its_thinking_and_accepted_without() {
    let session = two_prompts();
    let shape = "arcturn:contextEditing.enabled=false,offload=off,compaction.shape=keep-tail,\
                 compaction.reserveTokens=960000,compaction.keepRecentTokens=5000";
    let (stripped, _) = simulate(&session, shape);
    assert!(stripped.compactions >= 1, "{stripped:?}");
    assert_eq!(stripped.binding_rejections, 0);
    assert!(stripped.withheld_thinking_blocks > 0);
    let (kept, record) = simulate(&session, &format!("{shape},thinkingBinding=off"));
    assert!(kept.binding_rejections >= 1);
    let first_compaction =
        record.events.iter().find(|e| matches!(e.kind, SimEventKind::CompactionDone { .. })).unwrap();
    let first_rejection =
        record.events.iter().find(|e| matches!(e.kind, SimEventKind::Rejection { .. })).unwrap();
    assert_eq!(first_rejection.request, first_compaction.request, "where it compacts");
}

#[test]
fn real_sessions_are_refused_where_a_tail_keeps_its_thinking() {
    let shape =
        "arcturn:contextEditing.enabled=false,compaction.shape=keep-tail,compaction.reserveTokens=900000";
    let mut compacting = 0;
    for session in &fixtures() {
        let (stripped, _) = simulate(session, shape);
        let (kept, record) = simulate(session, &format!("{shape},thinkingBinding=off"));
        assert_eq!(stripped.binding_rejections, 0, "{}", session.id);
        if kept.compactions > 0 {
            compacting += 1;
            let compacted =
                |e: &&ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::CompactionDone { .. });
            let first = record.events.iter().find(compacted).unwrap().request;
            let refused = record.events.iter().find(|e| matches!(e.kind, SimEventKind::Rejection { .. }));
            assert_eq!(refused.map(|e| e.request), Some(first), "{}", session.id);
        }
    }
    assert!(compacting >= 3, "only {compacting} sessions compact");
}

#[test]
fn a_gap_the_recording_does_not_explain_is_not_held_against_thinking() {
    let gap = |reason| EventKind::BlocksDropped { from: 0, to: 1, reason };
    let unexplained = with_event(growing(), 5, &[gap(ctxsim::session::DropReason::Unexplained)]);
    assert_eq!(simulate(&unexplained, "none").0.binding_rejections, 0);
    let rewound = with_event(growing(), 5, &[gap(ctxsim::session::DropReason::Rewind)]);
    assert_eq!(simulate(&rewound, "none").0.binding_rejections, 1);
}

/// The user went back to behind the results of answer `to_answer`, and goes on with a prompt.
fn rewound(session: &Session, before_step: u32, to_answer: usize) -> Session {
    let from = session.steps[to_answer + 1].input.end;
    let to = session.steps[before_step as usize].input.start;
    let reason = ctxsim::session::DropReason::Rewind;
    let mut session =
        with_event(session.clone(), before_step, &[EventKind::BlocksDropped { from, to, reason }]);
    for block in session.steps[before_step as usize].input.clone() {
        session.blocks.kind[block as usize] = ctxsim::session::BlockKind::UserText;
    }
    session
}

#[test]
fn going_back_to_before_a_compaction_undoes_it() {
    let compacting = "arcturn:contextEditing.enabled=false,offload=off,compaction.reserveTokens=950000";
    let (_, record) = simulate(&growing(), compacting);
    let first =
        record.events.iter().find(|e| matches!(e.kind, SimEventKind::CompactionDone { .. })).unwrap().request;
    let session = rewound(&growing(), first + 1, 4);
    let (_, with) = simulate(&session, compacting);
    let (_, without) = simulate(&session, "none");
    let at = first as usize + 1;
    assert_eq!(with.requests[at].usage.prompt_tokens(), without.requests[at].usage.prompt_tokens());
}

#[test]
fn a_sliding_editor_takes_back_stubs_of_what_is_recent_again() {
    let session = rewound(&growing(), 18, 13);
    let (_, record) = simulate(&session, "arcturn-0.6");
    let (_, fresh) = simulate(&session, "none");
    // 14 answers are left, so the results of calls 12 and 13 are within three turns: all in full but ten.
    let stub_tokens = ((118 + 6 + 5) * 450 + 500) / 1_000;
    let saved = fresh.requests[18].usage.prompt_tokens() - record.requests[18].usage.prompt_tokens();
    let thinking = saved % (4_000 - stub_tokens);
    assert_eq!(saved / (4_000 - stub_tokens), 11, "{thinking} tokens of thinking besides");
}

#[test]
fn a_pass_goes_on_without_a_result_that_was_cleared_meanwhile() {
    let blocks = vec![3];
    let cleared = with_event(growing(), 10, &[EventKind::RecordedClearing { blocks, applied: true }]);
    let (summary, _) = simulate(&cleared, "arcturn");
    assert_eq!(summary.violations, 0);
    assert_eq!(summary.passes, 2);
    assert_eq!(summary.elided_results, 13, "14 without the one that was cleared");
}

#[test]
fn a_manual_compaction_of_the_recording_is_asked_of_the_strategy() {
    let recorded =
        EventKind::RecordedCompaction { automatic: false, pre_tokens: Some(50_000), post_tokens: None };
    let mut session = with_event(growing(), 10, &[recorded]);
    // The turn had ended: the answer before made no call.
    for block in session.steps[9].output.clone() {
        if session.blocks.kind[block as usize] == ctxsim::session::BlockKind::ToolUse {
            session.blocks.kind[block as usize] = ctxsim::session::BlockKind::AssistantText;
        }
    }
    for block in session.steps[10].input.clone() {
        session.blocks.kind[block as usize] = ctxsim::session::BlockKind::UserText;
    }
    let (summary, record) = simulate(&session, "arcturn");
    assert_eq!((summary.compactions, summary.recorded_compactions_undone), (1, 1));
    assert!(record.requests[10].usage.prompt_tokens() < record.requests[9].usage.prompt_tokens());
}

/// A second human prompt in the middle, so that a tail has somewhere to begin.
fn two_prompts() -> Session {
    let mut session = growing();
    // The results of the fourteenth round are followed by a new prompt.
    let mut block = session.blocks.get(0);
    block.hash = 77;
    insert_after_input(&mut session, 14, block);
    session
}

/// Appends a block to the input of `step` and moves everything behind it.
fn insert_after_input(session: &mut Session, step: usize, mut block: ctxsim::session::Block) {
    let at = session.steps[step].input.end;
    let rows: Vec<_> = (0..session.blocks.len()).map(|i| session.blocks.get(i)).collect();
    session.blocks = ctxsim::session::Blocks::default();
    block.message = rows[at as usize].message;
    for (i, mut row) in rows.into_iter().enumerate() {
        if i == at as usize {
            session.blocks.push(block);
        }
        if i >= at as usize {
            row.message += 1;
        }
        session.blocks.push(row);
    }
    session.steps[step].input.end += 1;
    for later in &mut session.steps[step..] {
        later.output = later.output.start + 1..later.output.end + 1;
    }
    for later in &mut session.steps[step + 1..] {
        later.input = later.input.start + 1..later.input.end + 1;
    }
    session.steps[step].human_turn = true;
}

#[test]
fn a_simple_compaction_leaves_the_summary_and_what_nobody_answered() {
    let (summary, record) = simulate(
        &growing(),
        "arcturn:contextEditing.enabled=false,offload=off,compaction.reserveTokens=950000",
    );
    assert!(summary.compactions >= 1, "{summary:?}");
    assert_eq!((summary.binding_rejections, summary.violations), (0, 0));
    let done = record.events.iter().find(|e| matches!(e.kind, SimEventKind::CompactionDone { .. })).unwrap();
    let SimEventKind::CompactionDone {
        tokens_before,
        summarizer_prompt_tokens,
        summarizer_output_tokens,
        ..
    } = &done.kind
    else {
        unreachable!()
    };
    assert!(*tokens_before > 50_000, "the trigger is window - 950,000, strictly above");
    assert_eq!(*summarizer_output_tokens, (summarizer_prompt_tokens * 12).div_ceil(100).min(4_096));
    let row = &record.requests[done.request as usize - 1];
    // What is left: tools 12,000, system 3,000 and the summary in its 41 characters.
    let wrap = (41 * 330 + 500) / 1_000;
    assert_eq!(row.usage.prompt_tokens(), 15_000 + summarizer_output_tokens + wrap);
    assert_eq!(row.compactions, 1);
    let outputs: u64 = record
        .events
        .iter()
        .map(|e| match e.kind {
            SimEventKind::CompactionDone { summarizer_output_tokens, .. } => summarizer_output_tokens,
            _ => 0,
        })
        .sum();
    assert_eq!(summary.summarizer.output_tokens, outputs);
    assert!(summary.cost.summarizer > 0);
    assert_eq!(row.usage.cache_read_tokens, 15_000, "tools and system are still cached");
    assert_eq!(row.miss_cause, Some(Cause::PrefixCompaction));
}

#[test]
fn the_provider_may_edit_and_compact_on_its_side() {
    let (edited, _) = simulate(&growing(), "arcturn:contextEditing.mode=server");
    assert!(edited.passes > 0 && edited.chars_saved > 0);
    assert_eq!((edited.binding_rejections, edited.withheld_thinking_blocks), (0, 0));
    let (auto, _) = simulate(&growing(), "arcturn:contextEditing.mode=auto");
    assert_eq!(auto, edited, "auto is the provider where it can");
    let (compacted, record) = simulate(
        &growing(),
        "arcturn:contextEditing.enabled=false,compaction.shape=server,compaction.reserveTokens=950000",
    );
    assert!(compacted.compactions >= 1 && compacted.binding_rejections == 0, "{compacted:?}");
    let before = record.requests.iter().find(|r| r.compactions > 0).unwrap();
    assert!(before.usage.prompt_tokens() < 20_000);
    assert!(compacted.summarizer.cache_read_tokens > 0, "the summary reads the warm conversation");
}

#[test]
fn a_changed_tool_set_is_noticed_in_the_process_and_not_across_a_resume() {
    let changed = EventKind::ToolsChanged { tools: vec![PrefixBlock { hash: 9, tokens: 12_500 }] };
    let live = with_event(growing(), 5, std::slice::from_ref(&changed));
    let (noticed, record) = simulate(&live, "arcturn");
    assert_eq!(noticed.binding_rejections, 0);
    assert!(record.events.iter().any(|e| e.request == 6
        && matches!(e.kind, SimEventKind::PrefixChangeNoticed { withheld_thinking_blocks: 5 })));
    assert_eq!(record.requests[5].miss_cause, Some(Cause::PrefixTools));
    let resumed = with_event(growing(), 5, &[EventKind::Resumed, changed]);
    let (unnoticed, record) = simulate(&resumed, "arcturn");
    assert_eq!(unnoticed.binding_rejections, 1);
    assert!(record.events.iter().any(|e| e.request == 6
        && matches!(&e.kind, SimEventKind::Rejection { message, .. } if message.contains("tools"))));
}

#[test]
fn reordered_tools_cost_the_cache_and_not_the_thinking() {
    let mut session = growing();
    let tools = vec![PrefixBlock { hash: 1, tokens: 6_000 }, PrefixBlock { hash: 3, tokens: 6_000 }];
    session.prefix.tools.clone_from(&tools);
    let swapped = EventKind::ToolsChanged { tools: vec![tools[1], tools[0]] };
    let (summary, record) = simulate(&with_event(session, 5, &[swapped]), "none");
    assert_eq!(summary.binding_rejections, 0, "the check compares a set");
    assert_eq!(record.requests[5].usage.cache_read_tokens, 0);
    assert_eq!(record.requests[5].miss_cause, Some(Cause::PrefixToolOrder));
}

#[test]
fn a_manual_compaction_waits_for_open_calls() {
    let open = with_event(growing(), 5, &[EventKind::ManualCompaction]);
    let (summary, record) = simulate(&open, "arcturn");
    assert_eq!(summary.compactions, 0);
    let notices: Vec<&String> = record
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            SimEventKind::Notice { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(notices, ["Not compacting now: a tool call is still waiting on its result."]);
}

#[test]
fn a_prompt_beyond_the_window_ends_a_run_without_recovery() {
    let session = ConstantGrowth {
        requests: 80,
        result_utf16: 10_000,
        result_tokens: 4_000,
        ..ConstantGrowth::default()
    };
    let (summary, record) = on("claude-sonnet-4-5", &session.session(), "none", &RunOptions::default());
    assert_eq!(summary.stop_reason, Some(StopReason::Overflow));
    assert_eq!(summary.overflows, 1);
    let last = record.requests.last().unwrap();
    assert_eq!(summary.stopped_at_request, Some(u64::from(last.request) + 1));
    let message = record.events.iter().find_map(|e| match &e.kind {
        SimEventKind::Rejection { message, .. } => Some(message.clone()),
        _ => None,
    });
    let message = message.unwrap();
    assert!(
        message.starts_with("prompt is too long: ") && message.ends_with(" tokens > 200000 maximum"),
        "{message}"
    );
}

#[test]
fn a_warm_prefix_is_read_by_the_first_request() {
    let (cold, _) = simulate(&growing(), "none");
    let (warm, record) = simulate(&growing(), "none:warm_prefix=true");
    assert_eq!(record.requests[0].usage.cache_read_tokens, 15_000);
    assert_eq!(warm.usage.cache_read_tokens, cold.usage.cache_read_tokens + 15_000);
}

#[test]
fn a_fixed_summary_size_overrides_the_law() {
    let policy =
        "arcturn:contextEditing.enabled=false,offload=off,compaction.reserveTokens=950000,summary_tokens=777";
    let (summary, _) = simulate(&growing(), policy);
    assert_eq!(summary.summarizer.output_tokens, 777 * summary.compactions);
    assert!(summary.compactions > 0);
}

#[test]
fn the_recordings_own_model_changes_are_replayed_on_request() {
    let session = with_event(growing(), 5, &[EventKind::ModelChanged { model: "claude-opus-5".to_owned() }]);
    let (stays, _) = simulate(&session, "none");
    let models = std::sync::Arc::new(Models::builtin().unwrap());
    let replaying = RunOptions { model_changes: Some(models), ..RunOptions::default() };
    let (changes, record) = on(MODEL, &session, "none", &replaying);
    assert_eq!(stays.miss(Cause::PrefixModel).requests, 0);
    assert_eq!(record.requests[5].miss_cause, Some(Cause::PrefixModel));
    assert_eq!(record.requests[5].usage.cache_read_tokens, 0);
    // Opus 5 does not read Opus 5.5's thinking.
    assert!(changes.dropped_thinking_blocks > 0);
}
