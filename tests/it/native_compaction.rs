//! Summaries that a provider writes itself: what may stay behind them, and what a response reports of what the provider
//! left out (docs/sources.md C1 to C3). Numbers are by hand.

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{PolicySpec, Strategy};
use ctxsim::provider::{Account, ModelSpec, Models};
use ctxsim::session::{BlockKind, DropReason, Event, EventKind, PrefixBlock, Session};
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

use crate::policy_support::{strategy_on, with_human_turns, with_prompt};

fn models() -> Models {
    Models::builtin().unwrap()
}

fn preset(model: &ModelSpec, typed: &str) -> Strategy {
    let config = typed.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
    config.strategy(model, &models()).unwrap()
}

fn run_on(session: &Session, model: &ModelSpec, strategy: &Strategy) -> (Summary, FullRecorder) {
    let (mut record, options) = (FullRecorder::default(), RunOptions::default());
    let summary = run(session, strategy, model, &options, &mut Scratch::default(), &mut record);
    assert_eq!(summary.violations, 0, "{:?}", record.events);
    (summary, record)
}

/// Forty requests with thinking, 146,000 tokens at first; somebody speaks at every tenth.
fn session() -> Session {
    let growth =
        ConstantGrowth { requests: 40, tools_tokens: 9_000, system_tokens: 1_000, ..Default::default() };
    with_human_turns(with_prompt(growth.session(), 136_000), 10)
}

/// Twenty requests behind 20,000 tokens, each with a result of 5,000.
fn results_of_5_000() -> ConstantGrowth {
    ConstantGrowth {
        requests: 20,
        tools_tokens: 15_000,
        system_tokens: 4_800,
        prompt_tokens: 200,
        result_tokens: 5_000,
        result_utf16: 15_000,
        ..ConstantGrowth::default()
    }
}

/// Keeps two turns behind a summary of the provider's own, once 150,000 tokens are reached: before request 26, with 25 × 160
/// more than at first.
fn keeping(form: &str, more: &str) -> String {
    format!(
        r#"
        [[rule]]
        id = "compact"
        at = "request"
        when = [{{ of = "request", unit = "tokens", at_least = 150000 }}]
        select = {{ messages = {{ keep_recent = {{ turns = 2, turn = "user" }} }} }}
        native_compact = {{ form = "{form}", max_output_tokens = 4000 }}
        scope = {{ estimate = {{ unit = "tokens" }} }}
        {more}
        "#
    )
}

const SHORT: &[(&str, i64)] = &[("summary_tokens", 300)];

#[test]
fn kept_turns_keep_their_thinking_behind_a_summary_of_the_provider_s_own() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    for form in ["paused", "on_demand"] {
        let (summary, record) = run_on(&session(), &opus, &strategy_on(&opus, &keeping(form, ""), SHORT));
        assert_eq!((summary.compactions, summary.binding_rejections), (1, 0), "{form}: {:?}", record.events);
        let done = record.events.iter().find(|e| matches!(e.kind, SimEventKind::CompactionDone { .. }));
        assert_eq!(done.map(|e| e.request), Some(26));
        // Turns begin at requests 11 and 21: answers 11 to 25 and inputs 11 to 26 stay.
        assert_eq!(record.requests[25].usage.prompt_tokens(), 10_000 + 300 + 15 * 60 + 16 * 100, "{form}");
        // What is summarized on demand ends with the tenth answer.
        let sent = if form == "paused" { 150_000 } else { 146_000 + 9 * 160 + 60 };
        assert_eq!(summary.summarizer.prompt_tokens(), sent, "{form}");
    }
    // The client's own summary in the same place: the check fails, and thinking is given up once.
    let own = keeping("paused", "").replace(
        "native_compact = { form = \"paused\", max_output_tokens = 4000 }",
        "summarize = { input = \"fork\", system_chars = 0, prompt_chars = 100, wrap_chars = 0, wrap_json_escapes = 0, \
         max_output_tokens = 4000, model = \"same\" }",
    );
    let (summary, _) = run_on(&session(), &opus, &strategy_on(&opus, &own, SHORT));
    assert_eq!((summary.compactions, summary.binding_rejections), (1, 1));
}

#[test]
fn a_kept_turn_loses_its_thinking_if_a_condition_does_not_hold() {
    let models = models();
    let opus = models.get("claude-opus-5-5").unwrap();
    let strategy = strategy_on(opus, &keeping("paused", ""), SHORT);
    let rejections =
        |session: &Session, strategy: &Strategy| run_on(session, opus, strategy).0.binding_rejections;
    assert_eq!(rejections(&session(), &strategy), 0);
    // The first kept message follows one of the same role.
    let mut same_role = session();
    let answer = same_role.steps[9].output.clone();
    for block in answer {
        same_role.blocks.kind[block as usize] = BlockKind::UserText;
    }
    assert_eq!(rejections(&same_role, &strategy), 1);
    // Another rule changes a kept result before it is sent.
    let edited = keeping("paused", "")
        + r#"
        [[rule]]
        id = "clear"
        at = "request"
        follows = "compact"
        view = "ledger"
        stub = { fixed = 1 }
        select = { tool_results = { keep_recent = { results = 3 } } }
        "#;
    assert_eq!(rejections(&session(), &strategy_on(opus, &edited, SHORT)), 1);
    // Tools or system prompt are others on the request behind it than they were at the compaction: it comes with an answer,
    // and they change before the next request.
    let at_answer = keeping("on_demand", "").replace("at = \"request\"", "at = \"response\"");
    let at_answer = strategy_on(opus, &at_answer.replace("150000", "149990"), SHORT);
    let mut session = session();
    let unchanged = run_on(&session, opus, &at_answer);
    assert_eq!((unchanged.0.compactions, unchanged.0.binding_rejections), (1, 0), "{:?}", unchanged.1.events);
    let before_step = unchanged.1.events.iter().find_map(|event| match event.kind {
        SimEventKind::CompactionDone { .. } => Some(event.request),
        _ => None,
    });
    let system = vec![PrefixBlock { hash: 77, tokens: 1_000 }];
    let before_step = before_step.unwrap();
    session.events.push(Event { before_step, kind: EventKind::SystemChanged { system } });
    assert_eq!(rejections(&session, &at_answer), 1);
}

#[test]
fn a_second_compaction_in_a_turn_folds_the_first_summary_and_leaves_thinking_valid() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    // Turns begin at requests 11 and 21 and have 50,000 tokens each: two kept ones are over the trigger again at once.
    let growth = ConstantGrowth {
        requests: 25,
        tools_tokens: 9_000,
        system_tokens: 1_000,
        prompt_tokens: ConstantGrowth::default().prompt_tokens,
        ..results_of_5_000()
    };
    let session = with_human_turns(growth.session(), 10);
    let typed = "anthropic-compaction:pause_after_compaction=true,keep_turns=2,trigger=50000";
    let (summary, record) = run_on(&session, &opus, &preset(&opus, typed));
    let done = record.events.iter().filter(|e| matches!(e.kind, SimEventKind::CompactionDone { .. }));
    let done: Vec<u32> = done.map(|e| e.request).collect();
    assert_eq!((done.as_slice(), summary.binding_rejections), (&[21, 22, 23, 24, 25][..], 0));
    // On demand there is nothing to summarize any more.
    let rules = keeping("on_demand", "").replace("150000", "50000");
    let (summary, _) = run_on(&session, &opus, &strategy_on(&opus, &rules, SHORT));
    assert_eq!((summary.compactions, summary.summarizer_calls, summary.binding_rejections), (1, 1, 0));
}

/// One turn less than [`keeping`] folds at first, at request 33 of four turns; then all but one in the same place.
fn twice(second: &str) -> String {
    let first = keeping("on_demand", "").replace("150000", "151000").replace("turns = 2", "turns = 3");
    let again = keeping("paused", "").replace("id = \"compact\"", "id = \"again\"\nfollows = \"compact\"");
    let again = again.replace("turns = 2", "turns = 1");
    let is_trigger = |line: &&str| !line.trim_start().starts_with("when = ");
    let again: Vec<&str> = again.lines().filter(is_trigger).collect();
    let native = "native_compact = { form = \"paused\", max_output_tokens = 4000 }";
    first + &again.join("\n").replace(native, second)
}

#[test]
fn a_second_compaction_before_the_next_request_sees_what_the_first_left_valid() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    let fork = "summarize = { input = \"fork\", system_chars = 0, prompt_chars = 100, wrap_chars = 0, \
                wrap_json_escapes = 0, max_output_tokens = 4000, model = \"same\" }";
    // Behind a summary of the client's own thinking is given up once, whatever stood before it.
    let native = |form: &str| format!("native_compact = {{ form = \"{form}\", max_output_tokens = 4000 }}");
    for (second, rejections) in [(native("paused"), 0), (native("on_demand"), 0), (fork.to_owned(), 1)] {
        let strategy = strategy_on(&opus, &twice(&second), SHORT);
        let (summary, record) = run_on(&session(), &opus, &strategy);
        let failed = record.events.iter().find(|e| matches!(e.kind, SimEventKind::CompactionFailed { .. }));
        assert!(failed.is_none(), "{second}: {failed:?}");
        assert_eq!((summary.compactions, summary.binding_rejections), (2, rejections), "{second}");
    }
}

#[test]
fn what_failed_before_a_compaction_fails_behind_it() {
    // Old accounts let a mismatch through, and say so.
    let models = models();
    let opus = models.get("claude-opus-5-5").unwrap();
    let mut session = session();
    let system = vec![PrefixBlock { hash: 77, tokens: 1_000 }];
    session.events.push(Event { before_step: 15, kind: EventKind::SystemChanged { system } });
    let strategy = strategy_on(opus, &keeping("paused", ""), SHORT);
    let options = RunOptions { account: Account::Unenforced, ..RunOptions::default() };
    let mut record = FullRecorder::default();
    let summary = run(&session, &strategy, opus, &options, &mut Scratch::default(), &mut record);
    assert_eq!(summary.compactions, 1);
    // Before the compaction the thinking of fifteen answers fails at each of requests 16 to 25; behind it that of the
    // five that are kept, at each of requests 26 to 40.
    assert_eq!(summary.allowed_mismatches, 15 * 10 + 5 * 15);
}

#[test]
fn a_form_that_keeps_nothing_refuses_to_keep_something() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    for form in ["inline", "endpoint"] {
        let rules = keeping(form, "");
        let refused = std::panic::catch_unwind(|| strategy_on(&opus, &rules, SHORT));
        let reason = refused.err().and_then(|e| e.downcast_ref::<String>().cloned()).expect("it is refused");
        assert!(reason.contains("only the forms `paused` and `on_demand`"), "{reason}");
    }
}

#[test]
fn the_least_trigger_that_the_api_takes_is_named() {
    let loaded = |typed: &str| typed.parse::<PolicySpec>().unwrap().load(&[], &[]);
    assert!(loaded("anthropic-compaction:trigger=50000").is_ok());
    let error = loaded("anthropic-compaction:trigger=49999").unwrap_err().to_string();
    assert!(error.contains("trigger") && error.contains("49999") && error.contains("50000"), "{error}");
}

#[test]
fn a_compaction_in_the_middle_of_a_round_is_not_asked_for() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    let mut session = session();
    // The answer before step 4 has a call; its result comes with the step.
    session.events.push(Event { before_step: 4, kind: EventKind::ManualCompaction });
    let (summary, record) = run_on(&session, &opus, &preset(&opus, "anthropic-compaction:trigger=100000000"));
    assert_eq!((summary.compactions, summary.summarizer_calls), (0, 0));
    let notice = record.events.iter().find_map(|event| match &event.kind {
        SimEventKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert!(notice.is_some_and(|text| text.contains("still waiting on its result")));
    // After an answer without calls it is.
    session.events[0].before_step = 10;
    let (summary, _) = run_on(&session, &opus, &preset(&opus, "anthropic-compaction:trigger=100000000"));
    assert_eq!(summary.compactions, 1);
}

/// Cleared uses, tokens and thinking turns, by request and rule.
fn applied(record: &FullRecorder) -> Vec<(u32, String, [u64; 3])> {
    let edits = record.events.iter().filter_map(|event| match &event.kind {
        SimEventKind::AppliedEdits {
            rule,
            cleared_tool_uses,
            cleared_input_tokens,
            cleared_thinking_turns,
        } => Some((
            event.request,
            rule.clone(),
            [*cleared_tool_uses, *cleared_input_tokens, *cleared_thinking_turns],
        )),
        _ => None,
    });
    edits.collect()
}

#[test]
fn what_the_provider_clears_is_reported_with_the_numbers_of_its_response() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    // Results of 5,000 behind 20,000: request k has 20,000 + (k − 1) × 5,060, over 100,000 from request 17 on, which has
    // sixteen results. All but three are cleared, each to 12 tokens.
    let growth = results_of_5_000();
    let session = growth.session();
    let (summary, record) = run_on(&session, &opus, &preset(&opus, "anthropic-editing"));
    let expected: Vec<_> = (17..=20)
        .map(|request: u32| {
            let uses = u64::from(request) - 4;
            (request, "clear_tool_uses".to_owned(), [uses, uses * (5_000 - 12), 0])
        })
        .collect();
    assert_eq!(applied(&record), expected);
    let prompt = |request: u64| 20_000 + (request - 1) * 5_060;
    assert_eq!(record.requests[19].usage.prompt_tokens(), prompt(20) - 16 * 4_988);
    assert_eq!(summary.binding_rejections, 0);
    // Thinking of all but two answers of 40 tokens: 1 at request 4 …, 17 at request 20.
    let (_, record) =
        run_on(&session, &opus, &preset(&opus, "anthropic-editing:clear_thinking.thinking_turns=2"));
    let thinking: Vec<_> =
        applied(&record).into_iter().filter(|(_, rule, _)| rule == "clear_thinking").collect();
    assert_eq!(thinking.len(), 17);
    assert_eq!((thinking[0].0, thinking[0].2), (4, [0, 40, 1]));
    assert_eq!((thinking[16].0, thinking[16].2), (20, [0, 17 * 40, 17]));
}

/// Twenty requests, each with 5,060 more; somebody speaks at the nineteenth. Results are cleared from request 17 on.
fn cleared_session() -> Session {
    let growth = results_of_5_000();
    with_human_turns(growth.session(), 18)
}

#[test]
fn what_was_cleared_and_then_left_the_history_is_reported_no_more() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    let mut session = cleared_session();
    let to = session.steps[18].input.start;
    let reason = DropReason::Clear;
    session.events.push(Event { before_step: 18, kind: EventKind::BlocksDropped { from: 0, to, reason } });
    let (_, record) = run_on(&session, &opus, &preset(&opus, "anthropic-editing"));
    let cleared = |uses: u64| [uses, uses * 4_988, 0];
    let by_rule = |request: u32, numbers: [u64; 3]| (request, "clear_tool_uses".to_owned(), numbers);
    assert_eq!(
        applied(&record),
        [by_rule(17, cleared(13)), by_rule(18, cleared(14)), by_rule(19, cleared(0))]
    );
    // The same where a summary takes their place, all but the newest turn.
    let compact = r#"
        [[rule]]
        id = "clear"
        at = "request"
        view = "server"
        when = [{ of = "request", unit = "tokens", over = 100000 }]
        select = { tool_results = { keep_recent = { results = 3 } } }
        clear = { placeholder_tokens = 12 }

        [[rule]]
        id = "compact"
        at = "manual"
        native_compact = { max_output_tokens = 4000 }
        "#;
    session.events[0].kind = EventKind::ManualCompaction;
    let (summary, record) = run_on(&session, &opus, &strategy_on(&opus, compact, SHORT));
    let by_rule = |request: u32, numbers: [u64; 3]| (request, "clear".to_owned(), numbers);
    assert_eq!(summary.compactions, 1);
    assert_eq!(
        applied(&record),
        [by_rule(17, cleared(13)), by_rule(18, cleared(14)), by_rule(19, cleared(0))]
    );
}

#[test]
fn a_use_of_which_only_the_arguments_are_cleared_counts_and_one_of_which_both_are_counts_once() {
    let opus = models().get("claude-opus-5-5").unwrap().clone();
    let inputs = r#"
        [[rule]]
        id = "inputs"
        at = "request"
        view = "server"
        when = [{ of = "request", unit = "tokens", over = 100000 }]
        select = { tool_inputs = { keep_recent = { results = 3 } } }
        clear_inputs = { chars = 2 }
        "#;
    let uses = |record: &FullRecorder| {
        let last = applied(record).pop();
        last.map(|(request, rule, [uses, ..])| (request, rule, uses))
    };
    let session = cleared_session();
    let (_, record) = run_on(&session, &opus, &strategy_on(&opus, inputs, SHORT));
    let alone = uses(&record);
    assert_eq!(alone.as_ref().map(|(_, rule, uses)| (rule.as_str(), *uses)), Some(("inputs", 15)));
    let (_, record) = run_on(&session, &opus, &preset(&opus, "anthropic-editing:clear_tool_inputs=true"));
    assert_eq!(uses(&record).map(|(_, _, uses)| uses), Some(15));
}
