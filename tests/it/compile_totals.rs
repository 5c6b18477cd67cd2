//! Recorded totals: how `compile` shares them among blocks.

use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{DropReason, EventKind, Session};
use ctxsim::transcript::{Entry, EventKind as Recorded};

use crate::prompt_totals::prompt_totals;
use crate::transcripts::*;

fn session(entries: Vec<Entry>) -> Session {
    compile(&transcript(entries), &CompileOptions::default())
}

#[test]
fn new_blocks_are_scaled_to_the_recorded_increment() {
    let s = session(vec![
        input(vec![text(1_000)]),
        billed(vec![text(100), call("a")], [3, 0, 20_000]),
        input(vec![result("a", 1_000)]),
        billed(vec![text(10)], [3, 20_000, 735]),
        input(vec![text(50)]),
        billed(vec![text(10)], [2, 20_735, 9]),
    ]);
    // Estimates 27, 0.6 and 340 in milli-tokens share 735 by largest remainder.
    assert_eq!(s.blocks.tokens[1..4], [54, 1, 680]);
    assert_eq!(prompt_totals(&s), [20_003, 20_738, 20_746]);
    assert_eq!(s.prefix.tokens(), 20_000 - 270);
    assert_eq!(s.steps.iter().map(|step| step.tail_tokens).collect::<Vec<_>>(), [3, 3, 2]);
    assert!(s.prefix_is_measured);
    assert!(s.events.is_empty());
}

#[test]
fn requests_without_usage_share_what_the_next_total_adds() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![text(10)], [3, 0, 10_000]),
        input(vec![text(500)]),
        response(vec![text(100)]),
        input(vec![text(1_000)]),
        billed(vec![text(10)], [3, 10_000, 435]),
        input(vec![text(700)]),
        response(vec![text(10)]),
        billed(vec![text(10)], [3, 10_435, 0]),
    ]);
    // 10, 500, 100 and 1,000 characters share 435.
    assert_eq!(s.blocks.tokens[1..5], [3, 135, 27, 270]);
    assert_eq!([prompt_totals(&s)[2], prompt_totals(&s)[4]], [10_438, 10_438]);
    // The last total adds nothing: the oldest answer makes room for the least that three blocks can have.
    assert_eq!(s.blocks.tokens[5..8], [0, 3, 0]);
}

#[test]
fn a_total_behind_a_compaction_and_a_request_without_usage_is_no_unmarked_shrink() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![text(10)], [3, 9_000, 1_000]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        response(vec![text(10)]),
        input(vec![text(100)]),
        billed(vec![text(10)], [3, 2_000, 100]),
        input(vec![text(100)]),
        billed(vec![text(10)], [3, 2_100, 59]),
    ]);
    let is_unexplained =
        |kind: &EventKind| matches!(kind, EventKind::BlocksDropped { reason: DropReason::Unexplained, .. });
    assert!(s.events.iter().all(|event| !is_unexplained(&event.kind)));
    let totals = prompt_totals(&s.view(RecordedCompactions::Undo));
    assert_eq!(totals[3] - totals[2], 59);
}

#[test]
fn a_final_output_count_leaves_the_rest_to_hidden_thinking() {
    let s = session(vec![
        input(vec![text(10)]),
        finished(vec![thinking(0, 4_000), text(100)], [3, 0, 1_000], 527),
        input(vec![text(10)]),
        finished(vec![text(100)], [3, 1_000, 530], 50),
        input(vec![text(10)]),
        finished(vec![text(10)], [3, 1_530, 53], 9),
    ]);
    // 27 visible, 500 hidden, 2.7 of the prompt: 529.7 scaled to 530.
    assert_eq!(s.blocks.tokens[1..4], [500, 27, 3]);
    // 50 and 2.7 to 53.
    assert_eq!(s.blocks.tokens[4..6], [50, 3]);
    assert_eq!(s.steps.iter().map(|step| step.output_tokens).collect::<Vec<_>>(), [527, 50, 9]);
    assert_eq!(s.blocks.tokens[6], 9);
}

#[test]
fn uncached_content_belongs_to_its_blocks_and_not_to_the_tail() {
    let s = session(vec![
        input(vec![text(1_000)]),
        billed(vec![call("a")], [8_000, 18_000, 2_000]),
        input(vec![result("a", 1_000)]),
        billed(vec![text(10)], [2, 20_000, 8_340]),
        input(vec![text(100)]),
        billed(vec![text(10)], [2, 28_340, 30]),
    ]);
    assert_eq!(s.steps.iter().map(|step| step.tail_tokens).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(prompt_totals(&s), [28_000, 28_342, 28_372]);
    assert_eq!(s.prefix.tokens(), 28_000 - 2 - 270);
}

#[test]
fn without_a_cache_there_is_no_tail() {
    let s = session(vec![
        input(vec![text(1_000)]),
        billed(vec![text(10)], [5_000, 0, 0]),
        input(vec![text(100)]),
        billed(vec![text(10)], [5_030, 0, 0]),
    ]);
    assert_eq!(prompt_totals(&s), [5_000, 5_030]);
    assert_eq!((s.steps[0].tail_tokens, s.steps[1].tail_tokens), (0, 0));
}

#[test]
fn a_prompt_that_shrinks_unmarked_loses_its_oldest_rounds_last() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![call("a")], [3, 0, 10_000]),
        input(vec![result("a", 1_000)]),
        billed(vec![text(100)], [3, 10_000, 340]),
        input(vec![text(100)]),
        billed(vec![text(1)], [3, 9_000, 1_054]),
    ]);
    assert_eq!(prompt_totals(&s), [10_003, 10_343, 10_057]);
    let dropped = EventKind::BlocksDropped { from: 1, to: 3, reason: DropReason::Unexplained };
    assert_eq!(s.events[0].kind, dropped);
    assert_eq!(s.blocks.tokens[3..5], [27, 27]);
}

#[test]
fn what_a_compaction_injected_is_no_part_of_the_replayed_prompt_that_a_clear_empties() {
    let base = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 10_000]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 12_000]),
        event(Recorded::Cleared),
        input(vec![text(100)]),
        billed(vec![text(10)], [0, 0, 9_990]),
    ]);
    // The summary keeps the size that makes its request 12,000; the prompt after the clear has its 17.
    assert_eq!(base.blocks.tokens[2], 12_000 - (10_000 - 27) - 54);
    assert_eq!(base.blocks.tokens[5], 17);
    assert_eq!(prompt_totals(&base.view(RecordedCompactions::Undo))[2], 9_990);
    assert_eq!(prompt_totals(&base.view(RecordedCompactions::Keep)), [10_000, 12_000, 9_990]);
}

#[test]
fn totals_of_a_cleared_conversation_are_met_whatever_was_undone_before() {
    let cleared = |undone: Vec<Entry>| {
        let mut entries = vec![
            input(vec![text(100)]),
            billed(vec![call("a")], [0, 0, 10_000]),
            input(vec![result("a", 100)]),
            response(vec![text(100)]),
        ];
        entries.extend(undone);
        entries.extend([
            input(vec![text(200)]),
            response(vec![text(100)]),
            event(Recorded::Cleared),
            input(vec![text(100)]),
            billed(vec![text(10)], [0, 0, 9_990]),
            input(vec![text(100)]),
            billed(vec![text(10)], [0, 0, 10_020]),
        ]);
        let base = session(entries);
        let of = |how| prompt_totals(&base.view(how))[3..].to_vec();
        (of(RecordedCompactions::Undo), of(RecordedCompactions::Keep))
    };
    let met = vec![9_990, 10_020];
    assert_eq!(cleared(vec![compaction(), injected(vec![text(400)])]), (met.clone(), met.clone()));
    let clearing = event(Recorded::ResultsCleared { call_ids: vec!["a".into()], tokens_saved: None });
    assert_eq!(cleared(vec![clearing]), (met.clone(), met));
}

#[test]
fn another_tokenizer_makes_the_next_total_incomparable_also_behind_a_clear() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 10_000]),
        event(Recorded::Cleared),
        input(vec![text(100)]),
        billed_by("claude-fable-5", vec![text(10)], [0, 0, 13_035]),
        input(vec![text(100)]),
        billed_by("claude-fable-5", vec![text(10)], [0, 0, 13_073]),
        event(Recorded::Cleared),
        input(vec![text(100)]),
        billed_by("claude-fable-5", vec![text(10)], [0, 0, 13_035]),
    ]);
    // By coefficient; then the answer and the prompt share the increment.
    assert_eq!(s.blocks.tokens[2], 27);
    assert_eq!(s.blocks.tokens[3] + s.blocks.tokens[4], 38);
    // What the prefix has grown by is not the next conversation's either.
    assert_eq!(s.blocks.tokens[6], 27);
}

#[test]
fn a_rewind_over_a_cleared_result_takes_what_the_recorded_prompt_still_held_of_it() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_000]),
        input(vec![text(100)]),
        billed(vec![call("a")], [0, 0, 20_054]),
        input(vec![result("a", 40_000)]),
        billed(vec![text(100)], [0, 0, 33_600]),
        event(Recorded::ResultsCleared { call_ids: vec!["a".into()], tokens_saved: None }),
        input(vec![text(100)]),
        // 27 and 27 new; 20 of the result's 13,545 are left.
        billed(vec![text(100)], [0, 0, 20_129]),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_200]),
        event(Recorded::Rewound { keep_responses: 1 }),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_054]),
    ]);
    assert_eq!(s.blocks.tokens[4], 13_545);
    // Between clearing and rewind increments are met, behind it totals.
    let totals = prompt_totals(&s);
    assert_eq!((totals[4] - totals[3], totals[5]), (71, 20_054));
    assert_eq!(s.blocks.tokens[10], 27);
}

#[test]
fn a_prompt_that_shrinks_does_so_by_what_the_recorded_prompt_holds() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![call("a")], [0, 0, 10_000]),
        input(vec![result("a", 10_000)]),
        billed(vec![call("b")], [0, 0, 13_400]),
        event(Recorded::ResultsCleared { call_ids: vec!["a".into()], tokens_saved: None }),
        input(vec![result("b", 1_000)]),
        billed(vec![text(100)], [0, 0, 10_361]),
        input(vec![text(1_000)]),
        billed(vec![text(10)], [0, 0, 10_297]),
    ]);
    // 19 tokens were left of the first result: its round alone makes no room for 27 and 270.
    let dropped = EventKind::BlocksDropped { from: 1, to: 5, reason: DropReason::Unexplained };
    assert!(s.events.iter().any(|event| event.kind == dropped), "{:?}", s.events);
    assert_eq!(s.blocks.tokens[5..7], [27, 270]);
    assert_eq!(prompt_totals(&s)[3], 10_297);
}

#[test]
fn a_rewind_to_before_a_compaction_is_not_charged_to_the_next_message() {
    let s = session(vec![
        input(vec![text(10_000)]),
        billed(vec![text(100)], [0, 0, 20_000]),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_054]),
        compaction(),
        injected(vec![text(1_000)]),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 17_597]),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 17_651]),
        // Back to the first answer: the history before it is there again, 2,727 tokens.
        event(Recorded::Rewound { keep_responses: 1 }),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_055]),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_115]),
        event(Recorded::Rewound { keep_responses: 5 }),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 20_135]),
    ]);
    let s = s.view(RecordedCompactions::Undo);
    let sizes: Vec<u32> = s.steps.iter().map(|step| s.blocks.tokens[step.input.start as usize]).collect();
    // 27 by coefficient; 60 for an answer and a prompt; what 80 leave to the longer prompt.
    assert_eq!(sizes, [2_700, 27, 27, 27, 27, 30, 50]);
    let totals = prompt_totals(&s);
    assert_eq!((totals[5] - totals[4], totals[6] - totals[4]), (60, 80));
}

#[test]
fn a_compaction_before_the_first_total_takes_its_history_out_of_it() {
    let base = session(vec![
        input(vec![text(40_000)]),
        response(vec![text(100)]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 9_000]),
        input(vec![text(100)]),
        billed(vec![text(10)], [0, 0, 9_100]),
    ]);
    // By coefficient: history, summary (108) and prompt (54); the first total leaves the rest to the prefix.
    assert_eq!(base.blocks.tokens[..4], [10_800, 27, 108, 54]);
    assert_eq!(base.prefix.tokens(), 9_000 - 108 - 54);
    assert_eq!(prompt_totals(&base.view(RecordedCompactions::Keep))[1..], [9_000, 9_100]);
    let totals = prompt_totals(&base.view(RecordedCompactions::Undo));
    assert_eq!((totals[1], totals[2] - totals[1]), (9_000 - 108 + 10_827, 100));
}

#[test]
fn a_first_total_smaller_than_what_a_compaction_left_shrinks_only_that() {
    let base = session(vec![
        input(vec![text(1_000)]),
        response(vec![text(100)]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 81]),
    ]);
    assert_eq!(base.blocks.tokens[..4], [270, 27, 54, 27]);
    assert_eq!(base.prefix.tokens(), 0);
}

#[test]
fn a_clearing_before_the_first_total_takes_its_results_out_of_it() {
    let s = session(vec![
        input(vec![text(100)]),
        response(vec![text(100)]),
        input(vec![text(100)]),
        response(vec![call("a")]),
        input(vec![result("a", 10_000)]),
        response(vec![text(100)]),
        event(Recorded::ResultsCleared { call_ids: vec!["a".into()], tokens_saved: None }),
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 9_136]),
        event(Recorded::Rewound { keep_responses: 1 }),
        input(vec![text(100)]),
        billed(vec![text(10)], [0, 0, 9_081]),
    ]);
    // Five texts and the call are left; the rewind over the result adds nothing to the next prompt.
    assert_eq!((s.prefix.tokens(), s.blocks.tokens[4]), (9_000, 3_400));
    assert_eq!(s.blocks.tokens[8], 27);
}

#[test]
fn a_kept_compaction_meets_the_first_total_behind_it_also_after_a_request_without_usage() {
    let base = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_000]),
        compaction(),
        injected(vec![text(400)]),
        injected(vec![text(200)]),
        input(vec![text(200)]),
        response(vec![text(100)]),
        input(vec![text(200)]),
        billed(vec![text(10)], [0, 0, 21_000]),
        input(vec![text(100)]),
        billed(vec![text(10)], [0, 0, 21_100]),
    ]);
    // 54, 27 and 54 by coefficient; the injected texts share the rest of what is no prefix, two to one.
    let rest = 21_000 - (20_000 - 27) - (54 + 27 + 54);
    assert_eq!(base.blocks.tokens[2..7], [rest * 2 / 3 + 1, rest / 3, 54, 27, 54]);
    let totals = prompt_totals(&base.view(RecordedCompactions::Keep));
    assert_eq!([totals[0], totals[2], totals[3]], [20_000, 21_000, 21_100]);
}

#[test]
fn only_the_last_of_two_compactions_between_totals_is_sized_by_the_second() {
    let base = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_000]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        response(vec![text(100)]),
        compaction(),
        injected(vec![text(400)]),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 21_000]),
    ]);
    let keep = base.view(RecordedCompactions::Keep);
    assert_eq!((keep.blocks.tokens[2], prompt_totals(&keep)[2]), (108, 21_000));
}

#[test]
fn a_rewind_takes_back_a_compaction_that_no_request_saw() {
    let s = session(vec![
        input(vec![text(100)]),
        billed(vec![text(100)], [0, 0, 20_000]),
        input(vec![text(1_000)]),
        billed(vec![text(100)], [0, 0, 20_297]),
        compaction(),
        injected(vec![text(400)]),
        event(Recorded::Rewound { keep_responses: 1 }),
        injected(vec![text(100)]),
        input(vec![text(200)]),
        billed(vec![text(100)], [0, 0, 20_108]),
    ]);
    // The summary was never sent; what is injected behind the rewind is not the compaction's.
    let s = s.view(RecordedCompactions::Undo);
    assert_eq!(s.blocks.utf16[4..6], [100, 200]);
    assert_eq!(prompt_totals(&s)[2], 20_108);
}
