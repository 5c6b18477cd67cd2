//! The provider on public bug reports about caching and bound thinking, with the numbers they give.

use ctxsim::provider::{
    Account, Answer, ChangedPart, Params, PrefixMismatch, Rejection, RejectionKind, Request, SentBlock,
    SentKind, Ttl, wire_path,
};

use super::provider_support::{Talk, block, classes, model, numbered, thinking};

/// Long writes of 18 requests that each re-serialised everything behind message 0.
const REWRITTEN: [u64; 18] = [
    16_463, 3_423, 10_668, 19_973, 23_460, 33_442, 39_108, 39_922, 41_404, 52_261, 55_873, 57_332, 59_219,
    61_190, 64_037, 66_871, 67_746, 69_290,
];
/// Cached before the session: tools and system.
const WARM: u32 = 26_354;
/// Prompt up to and including message 0.
const FLOOR: u32 = 42_272;

fn long_writes(volatile: bool) -> Vec<[u64; 4]> {
    let mut talk = Talk::new(model("claude-opus-4-8"), Account::Enforced);
    talk.tail_tokens = 2;
    let head = [block(SentKind::System, WARM, 1), block(SentKind::Text, FLOOR - WARM, 2)];
    talk.provider.warm(&head[..1], Params::default(), Ttl::Long, -60_000);
    let behind = |request: usize| match request {
        0 => REWRITTEN[0] - u64::from(FLOOR - WARM),
        n => REWRITTEN[n],
    };
    let mut stable: Vec<SentBlock> = head.to_vec();
    let mut series = Vec::new();
    for request in 0..REWRITTEN.len() {
        let before = if request == 0 { 0 } else { behind(request - 1) };
        let new = (behind(request) - before) as u32;
        stable.push(block(SentKind::Text, new, 100 + request as u64));
        let mut blocks = stable.clone();
        if volatile {
            blocks.truncate(2);
            blocks.push(block(SentKind::Text, behind(request) as u32, 100 + request as u64));
        }
        let last = blocks.len() - 1;
        match talk.send(request as i64 * 20_000, &blocks, &[1, last], Ttl::Long) {
            Answer::Done(done) => series.push(classes(&done)),
            Answer::Rejected(rejection) => panic!("{}", rejection.message),
        }
    }
    series
}

#[test]
fn a_volatile_tail_rewrites_the_transcript_and_a_moving_marker_does_not() {
    let volatile = long_writes(true);
    let expected: Vec<[u64; 4]> = REWRITTEN
        .iter()
        .enumerate()
        .map(|(i, &write)| [u64::from(if i == 0 { WARM } else { FLOOR }), 0, write, 2])
        .collect();
    assert_eq!(volatile, expected);
    let sum = |series: &[[u64; 4]], class: usize| series.iter().map(|row| row[class]).sum::<u64>();
    assert_eq!((sum(&volatile, 0), sum(&volatile, 2)), (744_978, 781_682));
    let stable = long_writes(false);
    assert_eq!((sum(&stable, 0), sum(&stable, 2)), (1_441_452, 85_208));
}

/// One turn of `new` blocks behind a cached conversation; what of its 5,000 tokens is read.
fn read_after_fan_out(new: usize, markers_behind: &[usize]) -> u64 {
    let mut talk = Talk::new(model("claude-opus-5-5"), Account::Enforced);
    let mut blocks = vec![block(SentKind::Tool, 1_000, 1), block(SentKind::System, 1_000, 2)];
    blocks.extend((0..30).map(|i| block(SentKind::Text, 100, 10 + i)));
    let markers = |len: usize| -> Vec<usize> {
        [0, 1].into_iter().chain(markers_behind.iter().map(|behind| len - 1 - behind)).collect()
    };
    talk.served(0, &blocks, &markers(blocks.len()));
    blocks.extend((0..new as u64).map(|i| block(SentKind::Text, 50, 1_000 + i)));
    talk.served(10_000, &blocks, &markers(blocks.len())).usage.cache_read_tokens
}

#[test]
fn a_wide_fan_out_leaves_the_look_back_and_a_lagging_marker_doubles_it() {
    // N parallel calls, their N results, and the text before them.
    for (calls, single, lagging) in [
        (9, true, true),
        (10, false, true),
        (11, false, true),
        (19, false, true),
        (20, false, false),
        (21, false, false),
    ] {
        let read = |hit: bool| if hit { 5_000 } else { 2_000 };
        assert_eq!(read_after_fan_out(2 * calls + 1, &[0]), read(single), "{calls} calls, one marker");
        assert_eq!(read_after_fan_out(2 * calls + 1, &[20, 0]), read(lagging), "{calls} calls, two markers");
    }
    for new in 1..=45 {
        assert_eq!(read_after_fan_out(new, &[0]) == 5_000, new <= 19, "{new} blocks");
        assert_eq!(read_after_fan_out(new, &[20, 0]) == 5_000, new <= 39, "{new} blocks");
    }
}

#[test]
fn a_fifth_marker_is_refused() {
    let blocks: Vec<SentBlock> = (0..8).map(|i| block(SentKind::Text, 1_000, i)).collect();
    let mut talk = Talk::new(model("claude-opus-5-5"), Account::Enforced);
    let Answer::Rejected(rejection) = talk.send(0, &blocks, &[0, 1, 2, 3, 7], Ttl::Short) else {
        panic!("served")
    };
    assert_eq!((rejection.kind, rejection.block), (RejectionKind::InvalidRequest, Some(7)));
    assert!(rejection.message.contains("maximum of 4 blocks with cache_control"), "{}", rejection.message);
    let retry = talk.served(0, &blocks, &[0, 1, 2, 7]);
    assert_eq!(classes(&retry), [0, 8_000, 0, 0], "the refused one wrote nothing");
}

#[test]
fn a_read_keeps_the_entry_and_life_runs_from_the_start() {
    let prefix = [block(SentKind::System, 5_861, 1)];
    for (pings, read) in [(true, 5_861), (false, 0)] {
        let mut talk = Talk::new(model("claude-sonnet-4-6"), Account::Enforced);
        // The answers take 20 s each: counted from their end, the entry would live to 482 s without a ping.
        talk.ttft_ms = 20_000;
        talk.served(0, &prefix, &[0]);
        if pings {
            talk.served(240_000, &prefix, &[0]);
        }
        let late = talk.served(482_000, &prefix, &[0]);
        assert_eq!(classes(&late), [read, 5_861 - read, 0, 0]);
        assert_eq!(talk.served(781_999, &prefix, &[0]).usage.cache_read_tokens, 5_861);
        let mut other = Talk::new(model("claude-sonnet-4-6"), Account::Enforced);
        other.ttft_ms = 20_000;
        other.served(0, &prefix, &[0]);
        assert_eq!(other.served(310_000, &prefix, &[0]).usage.cache_read_tokens, 0);
    }
}

#[test]
fn altered_thinking_of_the_latest_assistant_message_is_named_by_its_path() {
    for (message, content) in [(1, 82), (3, 63), (5, 49), (1, 171), (15, 5), (1, 135)] {
        let mut blocks = vec![block(SentKind::System, 600, 1)];
        for turn in 0..message {
            let kind = if turn % 2 == 0 { SentKind::Text } else { SentKind::AssistantText };
            blocks.push(block(kind, 5, 10 + turn));
        }
        let mut talk = Talk::new(model("claude-opus-5"), Account::Enforced);
        talk.served(0, &blocks, &[0]);
        blocks.extend((0..content).map(|i| block(SentKind::AssistantText, 5, 100 + i)));
        blocks.extend([thinking(9, 7), thinking(9, 8), block(SentKind::Text, 5, 2)]);
        talk.provider.answered(&[7, 8]);
        talk.served(1_000, &blocks, &[0]);
        let at = blocks.len() - 3;
        let path = format!("messages.{message}.content.{content}");
        let mut altered = blocks.clone();
        altered[at].hash = 999;
        let rejection = talk.refused(2_000, &altered);
        assert_eq!(rejection.path.as_deref(), Some(path.as_str()));
        assert!(
            rejection.message.contains("in the latest assistant message cannot be modified"),
            "{}",
            rejection.message
        );
        let mut swapped = blocks.clone();
        swapped.swap(at, at + 1);
        let rejection = talk.refused(2_000, &swapped);
        assert_eq!((rejection.kind, rejection.block), (RejectionKind::InvalidRequest, Some(at as u32 + 1)));
        let mut gone = blocks.clone();
        gone.drain(at..at + 2);
        talk.served(2_000, &gone, &[0]);
        // In an earlier message it is a bad signature.
        altered.extend([block(SentKind::AssistantText, 5, 3), block(SentKind::Text, 5, 4)]);
        let rejection = talk.refused(3_000, &altered);
        assert!(
            rejection.message.ends_with("Invalid `signature` in `thinking` block"),
            "{}",
            rejection.message
        );
    }
}

/// System, then `turns` turns of user text, thinking (id = turn) and answer, each really sent and answered.
fn talk_with_thinking(id: &str, account: Account, turns: u32) -> (Talk<'static>, Vec<SentBlock>) {
    let mut talk = Talk::new(model(id), account);
    let mut blocks = vec![block(SentKind::Tool, 500, 2), block(SentKind::System, 1_000, 1)];
    for turn in 1..=turns {
        blocks.push(block(SentKind::Text, 100, 1_000 + u64::from(turn)));
        let last = blocks.len() - 1;
        talk.served(i64::from(turn) * 10_000, &blocks, &[1, last]);
        talk.provider.answered(&[turn]);
        blocks.extend([thinking(40, turn), block(SentKind::AssistantText, 60, 2_000 + u64::from(turn))]);
    }
    blocks.push(block(SentKind::Text, 100, 3_000));
    (talk, blocks)
}

fn changed(rejection: &Rejection) -> ChangedPart {
    match rejection.kind {
        RejectionKind::Binding { changed } => changed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_summarizer_on_the_same_model_fails_on_stored_thinking_and_another_model_drops_it() {
    let (mut talk, mut blocks) = talk_with_thinking("claude-fable-5-2", Account::Unenforced, 3);
    blocks[1] = block(SentKind::System, 200, 77);
    let blocks = numbered(&blocks);
    let request = Request {
        at_ms: 40_000,
        ttft_ms: 0,
        blocks: &blocks,
        changed_from: 0,
        change: None,
        markers: &[],
        automatic: None,
        params: Params::default(),
        tail_tokens: 0,
        max_output_tokens: 4_096,
    };
    match talk.provider.send_aside(model("claude-fable-5-2"), &request) {
        Answer::Rejected(rejection) => assert_eq!(changed(&rejection), ChangedPart::System),
        Answer::Done(done) => panic!("{done:?}"),
    }
    match talk.provider.send_aside(model("claude-sonnet-5"), &request) {
        Answer::Done(done) => {
            assert_eq!(done.dropped_thinking, 3);
            assert_eq!(done.usage.prompt_tokens(), 500 + 200 + 4 * 100 + 3 * 60);
        }
        Answer::Rejected(rejection) => panic!("{}", rejection.message),
    }
}

#[test]
fn stale_thinking_is_dropped_again_at_every_request_until_it_is_no_longer_sent() {
    let (mut talk, mut blocks) = talk_with_thinking("claude-opus-5-5", Account::Enforced, 16);
    // Keep-tail compaction: a summary for the first turn, the other fifteen kept with their thinking.
    blocks.splice(2..5, [block(SentKind::Text, 300, 9_999)]);
    talk.params.prefix_mismatch = Some(PrefixMismatch::DropBlock);
    let mut paths = Vec::new();
    for request in 0..4 {
        blocks.push(block(SentKind::Text, 10, 5_000 + request));
        let last = blocks.len() - 1;
        let done = talk.served(200_000 + request as i64 * 10_000, &blocks, &[1, last]);
        assert_eq!(done.dropped_thinking, 15);
        let sent = numbered(&blocks);
        let dropped: Vec<String> =
            talk.provider.dropped_thinking().iter().map(|&i| wire_path(&sent, i as usize)).collect();
        paths.push(dropped);
        blocks.push(block(SentKind::AssistantText, 10, 6_000 + request));
    }
    assert!(paths.iter().all(|p| p == &paths[0]));
    blocks.retain(|b| b.kind != SentKind::Thinking);
    blocks.push(block(SentKind::Text, 10, 7_000));
    let last = blocks.len() - 1;
    assert_eq!(talk.served(250_000, &blocks, &[1, last]).dropped_thinking, 0);
}

#[test]
fn leaving_dropped_blocks_on_the_wire_keeps_the_cache_and_removing_them_breaks_it_once() {
    for strips in [false, true] {
        let (mut talk, mut blocks) = talk_with_thinking("claude-opus-5-5", Account::Enforced, 6);
        talk.params.prefix_mismatch = Some(PrefixMismatch::DropBlock);
        blocks[2].hash = 8_888;
        let last = blocks.len() - 1;
        assert_eq!(talk.served(100_000, &blocks, &[1, last]).dropped_thinking, 6);
        let mut breaks = Vec::new();
        let mut cached = 0;
        for request in 0..4 {
            if strips {
                blocks.retain(|b| b.kind != SentKind::Thinking);
            }
            blocks.push(block(SentKind::AssistantText, 10, 5_000 + request));
            blocks.push(block(SentKind::Text, 10, 6_000 + request));
            let last = blocks.len() - 1;
            let done = talk.served(110_000 + request as i64 * 10_000, &blocks, &[1, last]);
            breaks.push(done.usage.cache_read_tokens < cached || done.miss.cause.is_some());
            if done.miss.cause.is_some() {
                assert_eq!(
                    done.usage.cache_read_tokens, 1_500,
                    "system survives, the first stripped block does not"
                );
            }
            cached = done.usage.cache_read_tokens + done.usage.cache_write_tokens();
        }
        assert_eq!(breaks, [strips, false, false, false]);
    }
}

#[test]
fn the_changed_part_is_named_and_the_account_decides_what_happens() {
    use ChangedPart::{Messages, System, Thinking, Tools};
    let new_tool = block(SentKind::Tool, 9, 3);
    type Change<'a> = &'a dyn Fn(&mut Vec<SentBlock>);
    let changes: [(ChangedPart, &str, Change<'_>); 5] = [
        (System, "The system prompt differs.", &|b| b[1].hash = 99),
        (Tools, "The set of tools differs.", &|b| b[0].hash = 99),
        (Tools, "The set of tools differs.", &|b| b.insert(0, new_tool)),
        (Messages, "The first changed message is messages.2.", &|b| b[5].hash = 99),
        (Thinking, "The thinking block before it differs.", &|b| b.retain(|b| b.link != 2)),
    ];
    for (part, sentence, change) in changes {
        let (mut talk, mut blocks) = talk_with_thinking("claude-opus-5-5", Account::Enforced, 3);
        change(&mut blocks);
        let rejection = talk.refused(50_000, &blocks);
        assert_eq!(changed(&rejection), part);
        assert!(rejection.message.contains("bound to a different conversation"), "{}", rejection.message);
        assert!(rejection.message.contains("thinking-binding-controls-2026-08-01"), "no header was sent");
        assert!(rejection.message.ends_with(sentence), "{}", rejection.message);
        talk.params.binding_beta = true;
        assert!(!talk.refused(50_000, &blocks).message.contains("anthropic-beta"));
        let (mut talk, mut blocks) = talk_with_thinking("claude-opus-5-5", Account::Unenforced, 3);
        change(&mut blocks);
        let last = blocks.len() - 1;
        let done = talk.served(50_000, &blocks, &[last]);
        assert!(done.allowed_mismatches > 0 && done.dropped_thinking == 0);
        talk.params.prefix_mismatch = Some(PrefixMismatch::DropBlock);
        let done = talk.served(50_000, &blocks, &[last]);
        assert!(done.allowed_mismatches == 0 && done.dropped_thinking > 0);
        talk.params.prefix_mismatch = Some(PrefixMismatch::Error);
        assert_eq!(changed(&talk.refused(50_000, &blocks)), part);
    }
}

#[test]
fn a_compaction_that_changes_nothing_invalidates_nothing() {
    let (mut talk, mut blocks) = talk_with_thinking("claude-opus-5-5", Account::Enforced, 3);
    let last = blocks.len() - 1;
    talk.served(50_000, &blocks, &[1, last]);
    let again = talk.served(51_000, &blocks, &[1, last]);
    assert_eq!((again.usage.cache_read_tokens, again.miss.cause), (again.usage.prompt_tokens(), None));
    // Tools in another order break the cache, but are the same set.
    blocks.insert(0, block(SentKind::Tool, 20, 3));
    talk.params.prefix_mismatch = Some(PrefixMismatch::DropBlock);
    assert_eq!(talk.served(52_000, &blocks, &[2]).dropped_thinking, 3);
}

#[test]
fn a_timestamp_in_a_new_tool_result_is_no_break() {
    let run = |stamp: u64| {
        let mut talk = Talk::new(model("claude-opus-5-5"), Account::Enforced);
        let mut blocks = vec![block(SentKind::System, 2_000, 1), block(SentKind::Text, 100, 2)];
        let mut series = Vec::new();
        for step in 0..20 {
            blocks.push(SentBlock { link: step, ..block(SentKind::ToolUse, 30, 10 + u64::from(step)) });
            blocks
                .push(SentBlock { link: step, ..block(SentKind::ToolResult, 400, stamp + u64::from(step)) });
            let done = talk.served(i64::from(step) * 5_000, &blocks, &[0, blocks.len() - 1]);
            series.push((classes(&done), done.miss));
        }
        series
    };
    let series = run(1_000);
    assert_eq!(series, run(9_000));
    assert!(series[1..].iter().all(|(_, miss)| miss.cause.is_none()));
}
