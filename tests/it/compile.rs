//! `compile` on hand-made transcripts, rule by rule.

use ctxsim::session::compile::{
    CompileOptions, RecordedCompactions, SYNTHETIC_RESULT_UTF16, TokenMode, compile,
};
use ctxsim::session::{BlockKind, DropReason, EventKind, Flags, NONE, Session};
use ctxsim::tokens::Tokenizer;
use ctxsim::transcript::{Content, Entry, EventKind as Recorded, Image, Input, Response, ResultPart};

use crate::prompt_totals::prompt_totals;
use crate::transcripts::*;

fn session(entries: Vec<Entry>) -> Session {
    compile(&transcript(entries), &CompileOptions::default())
}

fn kinds(session: &Session) -> Vec<BlockKind> {
    session.blocks.kind.clone()
}

use BlockKind::{AssistantText, Thinking, ToolResult, ToolUse, UserText};

#[test]
fn a_step_sends_results_before_text_and_counts_messages_one_per_result() {
    let s = session(vec![
        input(vec![text(10)]),
        response(vec![thinking(0, 40), text(3), call("a"), call("b")]),
        injected(vec![text(5)]),
        input(vec![result("b", 7)]),
        input(vec![result("a", 9)]),
        input(vec![text(2)]),
        response(vec![text(1)]),
    ]);
    let expected =
        [UserText, Thinking, AssistantText, ToolUse, ToolUse, ToolResult, ToolResult, UserText, UserText];
    assert_eq!(kinds(&s)[..9], expected);
    assert_eq!(s.blocks.message, [0, 1, 1, 1, 1, 2, 3, 4, 4, 5]);
    // The results point at their calls, in recorded order.
    assert_eq!(s.blocks.call[3..7], [0, 1, 1, 0]);
    assert_eq!(s.blocks.tool, [NONE, NONE, NONE, 0, 0, 0, 0, NONE, NONE, NONE]);
    assert_eq!(s.blocks.utf16[7..9], [5, 2]);
    assert!(s.blocks.flags[7].has(Flags::INJECTED) && !s.blocks.flags[8].has(Flags::INJECTED));
    assert_eq!((s.steps[0].input.clone(), s.steps[0].output.clone()), (0..1, 1..5));
    assert_eq!((s.steps[1].input.clone(), s.steps[1].output.clone()), (5..9, 9..10));
    assert!(s.steps.iter().all(|step| step.human_turn));
}

#[test]
fn only_typed_text_starts_a_human_turn() {
    let s = session(vec![
        input(vec![text(1)]),
        response(vec![call("a")]),
        input(vec![result("a", 1)]),
        injected(vec![text(1)]),
        response(vec![text(1)]),
        input(vec![Content::Image(Image::default())]),
        response(vec![text(1)]),
    ]);
    assert_eq!(s.steps.iter().map(|step| step.human_turn).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn empty_text_and_unsigned_thinking_are_no_blocks() {
    let s = session(vec![
        input(vec![text(0), text(4)]),
        response(vec![thinking(9, 0), text(0), thinking(0, 100), text(1)]),
    ]);
    assert_eq!(kinds(&s), [UserText, Thinking, AssistantText]);
    assert!(s.blocks.flags[1].has(Flags::SIGNED));
    assert_eq!((s.blocks.utf16[1], s.blocks.json_utf16[1]), (0, 100));
}

#[test]
fn an_unanswered_call_gets_a_synthetic_error_result() {
    let s = session(vec![
        input(vec![text(4)]),
        response(vec![call("a"), call("b")]),
        input(vec![result("b", 3), text(6)]),
        response(vec![text(1)]),
    ]);
    assert_eq!(kinds(&s)[3..6], [ToolResult, ToolResult, UserText]);
    assert_eq!(s.blocks.call[3..5], [1, 0]);
    assert!(s.blocks.flags[4].has(Flags::SYNTHETIC.with(Flags::ERROR)));
    assert_eq!(s.blocks.utf16[4], SYNTHETIC_RESULT_UTF16);
    // 20 × 0.34
    assert_eq!(s.blocks.tokens[4], 7);
}

#[test]
fn a_result_without_a_call_becomes_injected_text() {
    let s = session(vec![
        input(vec![text(4)]),
        response(vec![call("a")]),
        input(vec![result("a", 3), result("a", 5), result("z", 6)]),
        response(vec![text(1)]),
    ]);
    assert_eq!(kinds(&s)[2..5], [ToolResult, UserText, UserText]);
    assert!(s.blocks.flags[3].has(Flags::INJECTED));
    assert_eq!(s.blocks.call[3..5], [NONE, NONE]);
    assert!(!s.steps[1].human_turn);
}

#[test]
fn requests_that_would_add_nothing_get_an_empty_text() {
    let s = session(vec![response(vec![thinking(5, 0)]), response(vec![text(1)]), response(vec![text(1)])]);
    // The third request has the answer of the second to add.
    assert_eq!(kinds(&s), [UserText, UserText, AssistantText, AssistantText]);
    assert!(s.blocks.flags[1].has(Flags::SYNTHETIC.with(Flags::INJECTED)));
    assert_eq!(s.steps[2].input, 3..3);
}

#[test]
fn tokens_are_characters_times_the_class_coefficient() {
    let image = Image { base64_chars: 9_999, size_px: Some((100, 75)), hash: 1 };
    let parts = vec![ResultPart::Text("r".repeat(100)), ResultPart::Image(image)];
    let both = Content::ToolResult { call_id: "a".into(), parts, is_error: false };
    let reference = vec![ResultPart::ToolReference("WebFetch".into())];
    let deferred = Content::ToolResult { call_id: "b".into(), parts: reference, is_error: false };
    let s = session(vec![
        input(vec![text(15)]),
        response(vec![thinking(100, 8), thinking(0, 100), text(100), call("a"), call("b")]),
        input(vec![both, deferred]),
        response(vec![text(5)]),
    ]);
    // 0.27, 0.28, 0.275 a signature character, 0.30, 0.34; images and tool references besides.
    assert_eq!(s.blocks.tokens, [4, 28, 28, 27, 1, 1, 34 + 10, 700, 1]);
    assert_eq!(s.result_parts.len(), 2);
    assert_eq!((s.result_parts[0].image_tokens, s.result_parts[0].image_base64_chars), (10, 9_999));
    assert!(!s.prefix_is_measured);
    assert_eq!(s.prefix.tokens(), 0);
    // Without usage the output is what its blocks come to.
    assert_eq!(s.steps[0].output_tokens, 28 + 28 + 27 + 1 + 1);
}

#[test]
fn one_token_per_n_characters_on_demand() {
    let options = CompileOptions { tokens: TokenMode::CharsMilli(4_000), hash_key: 0 };
    let entries = vec![
        input(vec![text(10)]),
        billed(vec![text(100)], [3, 0, 1_000]),
        input(vec![text(6)]),
        billed(vec![text(2)], [3, 1_000, 500]),
    ];
    let s = compile(&transcript(entries), &options);
    assert_eq!(s.blocks.tokens, [3, 25, 2, 1]);
    assert_eq!((s.prefix.tokens(), s.coefficients.tool_result_milli), (1_000 - 3, 250));
}

#[test]
fn the_hidden_prefix_is_split_at_the_floor() {
    let split = |s: &Session| {
        let sum = |blocks: &[ctxsim::session::PrefixBlock]| blocks.iter().map(|b| b.tokens).sum::<u32>();
        (sum(&s.prefix.tools), sum(&s.prefix.system), sum(&s.prefix.injected))
    };
    let turn = |usage| [input(vec![text(100)]), billed(vec![text(100)], usage)];
    // Requests 2 and 4 read 10,000 where more was expected, request 3 reads 9,000.
    let usages =
        [[0, 5_000, 15_027], [0, 10_000, 10_100], [0, 9_000, 11_200], [0, 10_000, 10_300], [0, 0, 20_400]];
    let s = session(usages.into_iter().flat_map(turn).collect());
    assert_eq!(split(&s), (8_000, 2_000, 10_000));
    assert_eq!(s.warm_prefix_tokens, 5_000);
    // No such request: the first read.
    let s = session([[0, 5_000, 15_027], [0, 20_027, 50]].into_iter().flat_map(turn).collect());
    assert_eq!(split(&s), (4_000, 1_000, 15_000));
    // None at all: half.
    let s = session([[0, 0, 20_027], [0, 20_027, 50]].into_iter().flat_map(turn).collect());
    assert_eq!(split(&s), (8_000, 2_000, 10_000));
    // The visible text alone is more than the total: no prefix, smaller text.
    let s = session(turn([0, 0, 20]).into_iter().collect());
    assert_eq!((s.prefix.tokens(), s.blocks.tokens[0], s.prefix_is_measured), (0, 20, true));
}

#[test]
fn thinking_of_earlier_turns_is_stripped_where_the_model_keeps_the_current_turn() {
    let entries = |model: &str| {
        vec![
            input(vec![text(100)]),
            billed_by(model, vec![thinking(1_000, 50), call("a")], [3, 0, 10_000]),
            input(vec![result("a", 100)]),
            billed_by(model, vec![thinking(100, 50), text(100)], [3, 10_000, 314]),
            input(vec![text(100)]),
            billed_by(model, vec![text(1)], [3, 9_000, 1_089]),
        ]
    };
    let s = session(entries("claude-sonnet-4-5-20250929"));
    // Thinking 280, call 0.6 and result 34 share 314; then 279 go and 54 come.
    assert_eq!(s.blocks.tokens[1..4], [279, 1, 34]);
    assert_eq!(s.blocks.tokens[5..7], [27, 27]);
    assert_eq!(prompt_totals(&s), [10_003, 10_317, 10_092]);
    assert!(s.events.is_empty());
    // A model that keeps all of it must have lost something else: the oldest thinking.
    let s = session(entries("claude-opus-4-6"));
    assert_eq!(prompt_totals(&s), [10_003, 10_317, 10_092]);
    let dropped = EventKind::BlocksDropped { from: 1, to: 2, reason: DropReason::Unexplained };
    assert_eq!(s.events.iter().map(|e| (e.before_step, &e.kind)).collect::<Vec<_>>(), [(2, &dropped)]);
}

#[test]
fn a_clear_starts_anew_and_totals_are_still_met() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![call("a")], [3, 0, 10_000]),
        input(vec![text(9)]),
        event(Recorded::Cleared),
        input(vec![text(1_000)]),
        billed(vec![text(10)], [3, 9_000, 1_243]),
    ]);
    // The pending text went with the clear, and the call needs no result any more.
    assert_eq!(kinds(&s), [UserText, ToolUse, UserText, AssistantText]);
    assert_eq!(s.events[0].kind, EventKind::BlocksDropped { from: 0, to: 2, reason: DropReason::Clear });
    assert_eq!(prompt_totals(&s), [10_003, 10_246]);
}

#[test]
fn a_rewind_keeps_the_results_that_kept_calls_need() {
    let s = session(vec![
        input(vec![text(100)]),
        response(vec![call("a"), call("b")]),
        input(vec![result("a", 10)]),
        input(vec![text(7)]),
        response(vec![text(10)]),
        input(vec![text(8)]),
        event(Recorded::Rewound { keep_responses: 1 }),
        input(vec![text(9)]),
        response(vec![text(10)]),
    ]);
    // Blocks 0..=4: prompt, two calls, result, synthetic result; 5 and 6 go.
    assert_eq!(s.events[0].kind, EventKind::BlocksDropped { from: 5, to: 7, reason: DropReason::Rewind });
    assert_eq!(s.events[0].before_step, 2);
    assert_eq!(s.blocks.utf16[7], 9);
    // Nothing was answered yet: the calls of the last response stay open until the next request.
    let s = session(vec![
        input(vec![text(100)]),
        response(vec![call("a")]),
        input(vec![text(7)]),
        event(Recorded::Rewound { keep_responses: 1 }),
        response(vec![text(10)]),
    ]);
    assert_eq!(kinds(&s), [UserText, ToolUse, ToolResult, AssistantText]);
    assert!(s.blocks.flags[2].has(Flags::SYNTHETIC) && s.events.is_empty());
}

#[test]
fn what_is_gone_is_not_dropped_again() {
    let turn = || [input(vec![text(10)]), response(vec![text(10)])];
    let mut entries: Vec<Entry> = (0..3).flat_map(|_| turn()).collect();
    // Blocks 4 and 5, then the new 6 and 7 with the older 2 and 3, then everything.
    entries.push(event(Recorded::Rewound { keep_responses: 2 }));
    entries.extend(turn());
    entries.push(event(Recorded::Rewound { keep_responses: 1 }));
    entries.extend(turn());
    entries.push(event(Recorded::Cleared));
    entries.push(event(Recorded::Cleared));
    let s = session(entries);
    let drops = s.events.iter().map(|event| match event.kind {
        EventKind::BlocksDropped { from, to, .. } => (event.before_step, from, to),
        _ => unreachable!("there is nothing else"),
    });
    assert_eq!(drops.collect::<Vec<_>>(), [(3, 4, 6), (4, 2, 4), (4, 6, 8), (5, 0, 2), (5, 8, 10)]);
}

fn compacted() -> Session {
    session(vec![
        input(vec![text(100)]),
        billed(vec![call("a"), call("b")], [3, 9_000, 1_000]),
        input(vec![result("a", 100)]),
        event(Recorded::ResultsCleared { call_ids: vec!["z".into()], tokens_saved: Some(5) }),
        compaction(),
        injected(vec![text(400)]),
        injected(vec![text(40)]),
        input(vec![text(200)]),
        billed(vec![text(10)], [3, 9_000, 2_027]),
        input(vec![text(100)]),
        billed(vec![text(10)], [3, 11_027, 59]),
    ])
}

#[test]
fn an_undone_compaction_keeps_prompts_and_results_only() {
    let base = compacted();
    let s = base.view(RecordedCompactions::Undo);
    assert_eq!(
        kinds(&s),
        [
            UserText,
            ToolUse,
            ToolUse,
            ToolResult,
            ToolResult,
            UserText,
            AssistantText,
            UserText,
            AssistantText
        ]
    );
    assert_eq!(s.blocks.utf16[5], 200);
    assert_eq!((s.recorded_compactions_undone(), base.recorded_compactions_undone()), (1, 1));
    // Sized by coefficients across the boundary (0.6, 0.6, 34, 6.8, 54), by the increment after it.
    assert_eq!(s.blocks.tokens[1..6], [1, 1, 34, 7, 54]);
    assert_eq!(s.blocks.tokens[6] + s.blocks.tokens[7], 59);
    assert!(s.view(RecordedCompactions::Undo).blocks == s.blocks);
}

#[test]
fn a_kept_compaction_drops_what_it_folded_and_meets_the_next_total() {
    let base = compacted();
    let s = base.view(RecordedCompactions::Keep);
    let expected =
        [UserText, ToolUse, ToolUse, UserText, UserText, UserText, AssistantText, UserText, AssistantText];
    assert_eq!(kinds(&s), expected);
    assert_eq!(s.blocks.message, [0, 1, 1, 2, 2, 3, 4, 5, 6]);
    let dropped = EventKind::BlocksDropped { from: 0, to: 3, reason: DropReason::Compaction };
    assert_eq!(s.events.last().map(|e| (e.before_step, e.kind.clone())), Some((1, dropped)));
    assert!(s.events.contains(&ctxsim::session::Event {
        before_step: 1,
        kind: EventKind::RecordedClearing { blocks: vec![], applied: true }
    }));
    assert_eq!(prompt_totals(&s), [10_003, 11_030, 11_089]);
    assert_eq!(s.recorded_compactions_undone(), 0);
    assert!(s.view(RecordedCompactions::Keep).events == s.events);
}

#[test]
fn a_session_without_compactions_has_one_view() {
    let s = session(vec![input(vec![text(1)]), response(vec![text(1)])]);
    for how in [RecordedCompactions::Undo, RecordedCompactions::Keep] {
        assert!(matches!(s.view(how), std::borrow::Cow::Borrowed(_)));
    }
}

#[test]
fn requests_start_at_the_last_input_and_never_go_back() {
    let at = |at_ms, injected| {
        Entry::Input(Input { at_ms: Some(at_ms), content: vec![text(1)], injected, ..Input::default() })
    };
    let answer = |first, last| {
        Entry::Response(Response {
            first_at_ms: Some(first),
            last_at_ms: Some(last),
            content: vec![text(1)],
            ..Response::default()
        })
    };
    let s = session(vec![
        at(1_000, false),
        at(900, true),
        answer(1_500, 3_000),
        // Typed while the model was writing: not before the previous start, nothing to say of its end.
        at(500, false),
        answer(3_500, 4_000),
        answer(4_200, 3_900),
        response(vec![text(1)]),
    ]);
    let times: Vec<_> = s.steps.iter().map(|step| (step.start_ms, step.duration_ms)).collect();
    assert_eq!(times, [(Some(1_000), 2_000), (Some(1_000), 3_000), (Some(4_200), 0), (Some(4_200), 0)]);
    assert_eq!(session(vec![response(vec![text(1)])]).steps[0].start_ms, None);
}

#[test]
fn another_tokenizer_scales_every_count_half_up() {
    let s = session(vec![
        input(vec![text(1_000)]),
        finished(vec![text(100)], [3, 5_000, 15_000], 35),
        input(vec![text(10)]),
        finished(vec![text(10)], [3, 20_000, 38], 5),
    ]);
    assert_eq!(s.tokenizer, Tokenizer::ClaudeOlder);
    let newer = s.scaled_to(Tokenizer::ClaudeNewer);
    // 35 and 3 × 1.3 = 45.5 and 3.9; tail 3.9; warm prefix 6,500; text 0.351.
    assert_eq!(newer.blocks.tokens[1..3], [46, 4]);
    assert_eq!((newer.steps[0].tail_tokens, newer.steps[0].output_tokens), (4, 46));
    assert_eq!((newer.warm_prefix_tokens, newer.coefficients.text_milli), (6_500, 351));
    assert_eq!(newer.steps[0].recorded, s.steps[0].recorded);
    assert_eq!(newer.blocks.hash, s.blocks.hash);
    // 46 × 10/13 = 35.4
    assert_eq!(newer.scaled_to(Tokenizer::ClaudeOlder).blocks.tokens[1], 35);
    assert!(matches!(s.scaled_to(Tokenizer::ClaudeOlder), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn coefficients_are_fitted_where_there_are_enough_requests() {
    // Each result of 1,000 characters costs 500 tokens and the request its 120.
    let rounds = |n: u64| {
        let mut entries = vec![input(vec![text(10)]), billed(vec![call("0")], [0, 0, 10_000])];
        for k in 0..n {
            entries.push(input(vec![result(&k.to_string(), 1_000)]));
            entries.push(billed(vec![call(&(k + 1).to_string())], [0, 10_000 + k * 620, 620]));
        }
        session(entries).coefficients
    };
    assert_eq!(rounds(10).tool_result_milli, 340);
    // 500 tokens against 340.6 estimated, call included.
    assert_eq!(rounds(30).tool_result_milli, 499);
    assert_eq!(rounds(30).request_tokens, 120);
}
