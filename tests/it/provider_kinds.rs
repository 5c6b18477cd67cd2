//! Caches of every kind, each with the vendor's own examples and with what users reported.

use ctxsim::cause::Cause;
use ctxsim::provider::engine::SharedCache;
use ctxsim::provider::{
    Account, Answer, Done, Marker, Models, Params, Provider, Request, SentBlock, SentKind, Ttl,
};
use ctxsim::usage::Usage;

use super::provider_support::{Talk, block, model};

const MINUTE_MS: i64 = 60_000;

/// A block of a message.
fn part(kind: SentKind, tokens: u32, hash: u64, message: u32) -> SentBlock {
    SentBlock { message, ..block(kind, tokens, hash) }
}

/// Sends blocks whose messages are numbered, with nothing marked.
fn send(provider: &mut Provider<'_>, at_ms: i64, blocks: &[SentBlock], changed_from: usize) -> Done {
    send_with(provider, at_ms, blocks, changed_from, &[], None)
}

fn send_with(
    provider: &mut Provider<'_>,
    at_ms: i64,
    blocks: &[SentBlock],
    changed_from: usize,
    markers: &[Marker],
    automatic: Option<Ttl>,
) -> Done {
    let request = Request {
        at_ms,
        ttft_ms: 0,
        blocks,
        changed_from,
        change: None,
        markers,
        automatic,
        params: Params::default(),
        tail_tokens: 0,
        max_output_tokens: 0,
    };
    match provider.send(&request) {
        Answer::Done(done) => done,
        Answer::Rejected(rejection) => panic!("{}", rejection.message),
    }
}

fn read_and_written(done: &Done) -> (u64, u64) {
    (done.usage.cache_read_tokens, done.usage.cache_write_tokens())
}

#[test]
fn an_end_of_a_message_is_read_and_a_lengthened_message_is_not() {
    let (user, more) = (part(SentKind::Text, 6_000, 1, 0), part(SentKind::Text, 500, 2, 1));
    let mut provider = Provider::new(model("gpt-6.2-sol"), Account::Enforced);
    assert_eq!(read_and_written(&send(&mut provider, 0, &[user], 0)), (0, 6_000));
    let appended = send(&mut provider, 1_000, &[user, more], 1);
    assert_eq!(read_and_written(&appended), (6_000, 500));
    assert_eq!(appended.usage.uncached_tokens, 0);

    let mut provider = Provider::new(model("gpt-6.2-sol"), Account::Enforced);
    send(&mut provider, 0, &[user], 0);
    let lengthened = send(&mut provider, 1_000, &[user, SentBlock { message: 0, ..more }], 1);
    assert_eq!(read_and_written(&lengthened), (0, 6_500));
    assert_eq!((lengthened.miss.missed_tokens, lengthened.miss.cause), (6_000, Some(Cause::Lookback)));
}

#[test]
fn lives_of_implicit_breakpoints_are_thirty_minutes_and_twelve_hours() {
    let user = [part(SentKind::Text, 6_000, 1, 0)];
    for (ttl, life_ms) in [(Ttl::Short, 30 * MINUTE_MS), (Ttl::Long, 720 * MINUTE_MS)] {
        for (late_ms, read) in [(-1, 6_000), (0, 0)] {
            let mut provider = Provider::new(model("gpt-6-sol"), Account::Enforced);
            let written = send_with(&mut provider, 0, &user, 0, &[], Some(ttl)).usage;
            let long = if ttl == Ttl::Long { 6_000 } else { 0 };
            assert_eq!(written.cache_write_1h_tokens, long);
            let next = send_with(&mut provider, life_ms + late_ms, &user, 1, &[], Some(ttl));
            assert_eq!(next.usage.cache_read_tokens, read, "{ttl:?} {late_ms}");
        }
    }
}

#[test]
fn explicit_mode_writes_the_latest_four_and_reads_the_first_two_and_the_latest_fifty() {
    let blocks: Vec<SentBlock> = (0..60).map(|i| part(SentKind::Text, 1_500, i, 0)).collect();
    let markers =
        |at: &[u32]| -> Vec<Marker> { at.iter().map(|&after| Marker { after, ttl: Ttl::Short }).collect() };
    let mut provider = Provider::new(model("gpt-5.6-sol"), Account::Enforced);
    let five = markers(&[0, 1, 2, 3, 4]);
    let done = send_with(&mut provider, 0, &blocks[..10], 0, &five, None);
    assert_eq!(read_and_written(&done), (0, 7_500), "nothing is refused, and nothing is implicit");
    let changed = [&blocks[..1], &[part(SentKind::Text, 9, 99, 0)]].concat();
    let done = send_with(&mut provider, 1_000, &changed, 1, &markers(&[0]), None);
    assert_eq!(done.usage.cache_read_tokens, 0, "the first of five was not written");
    let done = send_with(&mut provider, 2_000, &blocks[..2], 1, &markers(&[1]), None);
    assert_eq!(done.usage.cache_read_tokens, 3_000);
    // The first two of a request with 60 breakpoints are looked at, the third is not.
    let all = markers(&(0..60).collect::<Vec<u32>>());
    let done = send_with(&mut provider, 3_000, &blocks, 2, &all, None);
    assert_eq!(done.usage.cache_read_tokens, 3_000);
}

#[test]
fn twenty_earlier_ends_are_looked_at() {
    for (between, read) in [(19, 2_000), (20, 0)] {
        let mut blocks = vec![part(SentKind::Text, 2_000, 1, 0)];
        let mut provider = Provider::new(model("gpt-6-sol"), Account::Enforced);
        send(&mut provider, 0, &blocks, 0);
        blocks.extend((0..=between).map(|i| part(SentKind::Text, 10, 2 + i, 1 + i as u32)));
        let done = send(&mut provider, 1_000, &blocks, 1);
        assert_eq!(done.usage.cache_read_tokens, read, "{between}");
    }
}

#[test]
fn a_prefix_is_read_in_steps_and_rounding_is_no_miss() {
    let (shared, next) = (part(SentKind::Text, 5_000, 1, 0), part(SentKind::Text, 700, 2, 1));
    let mut provider = Provider::new(model("gpt-5.4"), Account::Enforced);
    let first = send(&mut provider, 0, &[shared], 0);
    assert_eq!(
        first.usage,
        Usage { uncached_tokens: 5_000, ..Usage::default() },
        "nothing is billed for writing"
    );
    let second = send(&mut provider, 23 * 60 * MINUTE_MS, &[shared, next], 1);
    assert_eq!(second.usage.cache_read_tokens, 4_992);
    assert_eq!((second.miss.new_tokens, second.miss.cause), (708, None));
    let late = send(&mut provider, 47 * 60 * MINUTE_MS, &[shared, next], 2);
    assert_eq!(late.miss.cause, Some(Cause::TtlExpired));
    // 5.5 is documented with steps of 2,048.
    let mut provider = Provider::new(model("gpt-5.5"), Account::Enforced);
    send(&mut provider, 0, &[shared], 0);
    assert_eq!(send(&mut provider, 1_000, &[shared, next], 1).usage.cache_read_tokens, 4_096);
}

#[test]
fn recorded_grids_differ_from_the_documented_ones() {
    // Largest 512 k - 128 and 1,024 k - 256 up to the previous input.
    for (id, points) in [("gpt-5.5-recorded", [19_840, 20_352]), ("gpt-5.6-sol-recorded", [19_200, 20_224])] {
        let found = (0..200).map(|i| {
            let (shared, next) = (part(SentKind::Text, 20_100 + 3 * i, 1, 0), part(SentKind::Text, 9, 2, 1));
            let mut provider = Provider::new(model(id), Account::Enforced);
            send(&mut provider, 0, &[shared], 0);
            let read = send(&mut provider, 1_000, &[shared, next], 1).usage.cache_read_tokens;
            (20_100 + 3 * u64::from(i), read)
        });
        let (kept, lost): (Vec<_>, Vec<_>) = found.partition(|(_, read)| *read > 0);
        assert!(lost.len() < 20, "{id}: 2 % are lost under a minute, not {} of 200", lost.len());
        for (input, read) in kept {
            let expected = points.into_iter().rfind(|p| *p <= input).unwrap();
            assert_eq!(read, expected, "{id}: {input}");
        }
    }
    // 5.4 covers the answer, too.
    let answered = [
        part(SentKind::Text, 20_000, 1, 0),
        part(SentKind::AssistantText, 1_000, 2, 1),
        part(SentKind::Text, 50, 3, 2),
    ];
    let mut reads = [0, 0];
    for (read, id) in reads.iter_mut().zip(["gpt-5.4", "gpt-5.4-recorded"]) {
        let mut provider = Provider::new(model(id), Account::Enforced);
        send(&mut provider, 0, &answered[..1], 0);
        *read = send(&mut provider, 1_000, &answered, 1).usage.cache_read_tokens;
    }
    assert_eq!(reads, [19_968, 20_992]);
}

#[test]
fn what_chance_takes_grows_with_the_pause_and_is_named() {
    let lost_after = |pause_ms: i64, seed: u64| {
        let (system, shared) = (part(SentKind::System, 2_000, 7, 0), part(SentKind::Text, 18_000, 1, 0));
        let next = part(SentKind::Text, 9, 2, 1);
        let mut provider = Provider::new(model("gpt-5.3-codex-spark"), Account::Enforced);
        provider.set_seed(seed);
        send(&mut provider, 0, &[system, shared], 0);
        let done = send(&mut provider, pause_ms, &[system, shared, next], 2);
        let read = done.usage.cache_read_tokens;
        assert!(read == 19_968 || (read == 1_920 && done.miss.cause == Some(Cause::Evicted)), "{done:?}");
        read < 19_968
    };
    let share = |pause_ms: i64| (0..1_000).filter(|&seed| lost_after(pause_ms, seed)).count();
    for (pause_ms, percent) in [(30_000, 2), (2 * MINUTE_MS, 9), (8 * MINUTE_MS, 33), (30 * MINUTE_MS, 77)] {
        let lost = share(pause_ms);
        assert!(lost.abs_diff(percent * 10) < 50, "{pause_ms} ms: {lost} of 1,000");
    }
    assert_eq!(lost_after(8 * MINUTE_MS, 3), lost_after(8 * MINUTE_MS, 3), "the same seed, the same loss");
}

#[test]
fn implicit_caching_of_gemini_needs_its_minimum_and_promises_nothing() {
    let reads = |tokens: u32| -> Vec<u64> {
        let prompt = [part(SentKind::Text, tokens, 1, 0)];
        let read = |seed| {
            let mut provider = Provider::new(model("gemini-3.8-flash"), Account::Enforced);
            provider.set_seed(seed);
            send(&mut provider, 0, &prompt, 0);
            send(&mut provider, 1_000, &prompt, 1).usage.cache_read_tokens
        };
        (0..500).map(read).collect()
    };
    assert!(reads(4_000).iter().all(|&read| read == 0));
    let reads = reads(10_000);
    let share =
        |range: std::ops::RangeInclusive<u64>| reads.iter().filter(|&r| range.contains(r)).count() / 5;
    assert!((31..=67).contains(&share(9_500..=10_000)), "{}", share(9_500..=10_000));
    assert!((33..=78).contains(&share(5_000..=9_499)), "{}", share(5_000..=9_499));
    assert!((4..=12).contains(&share(0..=0)), "{}", share(0..=0));
}

#[test]
fn units_end_at_prompts_at_answers_and_where_prompts_parted() {
    let a = part(SentKind::System, 3_000, 1, 0);
    let user = |hash: u64| part(SentKind::Text, 1_000, hash, 0);
    let mut provider = Provider::new(model("deepseek-v4-pro"), Account::Enforced);
    let read = |provider: &mut Provider<'_>, at_ms, blocks: &[SentBlock], from| {
        send(provider, at_ms, blocks, from).usage.cache_read_tokens
    };
    assert_eq!(read(&mut provider, 0, &[a, user(2)], 0), 0);
    assert_eq!(read(&mut provider, 1_000, &[a, user(3)], 1), 0, "A alone was no unit");
    assert_eq!(read(&mut provider, 2_000, &[a, user(4)], 1), 3_000, "now it is");
    let answer = part(SentKind::AssistantText, 500, 5, 1);
    let talk = [a, user(4), answer, part(SentKind::Text, 10, 6, 2)];
    assert_eq!(read(&mut provider, 3_000, &talk, 2), 4_500, "prompt and answer");
    assert_eq!(read(&mut provider, 4_000, &[a, user(2)], 1), 4_000, "the first prompt is still a unit");
    // A day later it is gone.
    assert_eq!(read(&mut provider, 4_000 + 24 * 60 * MINUTE_MS, &[a, user(2)], 2), 0);
}

#[test]
fn blocks_are_whole_and_the_last_token_is_computed_again() {
    let hit = |lines: &str, prompt: u32, shared: u32| {
        let mut models = Models::builtin().unwrap();
        models.add_toml(&format!("[[model]]\nid = \"x\"\n{lines}"), "test").unwrap();
        let mut provider = Provider::new(models.get("x").unwrap(), Account::Enforced);
        let common = part(SentKind::Text, shared, 1, 0);
        let with = |hash| match prompt - shared {
            0 => vec![common],
            rest => vec![common, part(SentKind::Text, rest, hash, 0)],
        };
        send(&mut provider, 0, &with(2), 0);
        send(&mut provider, 1_000, &with(3), 1).usage.cache_read_tokens
    };
    let vllm = |tokens: u32| format!("like = \"vllm\"\ncache.block_tokens = {tokens}\n");
    let sglang = |tokens: u32| format!("like = \"sglang\"\ncache.block_tokens = {tokens}\n");
    assert_eq!(hit(&vllm(4), 14, 10), 8);
    assert_eq!(hit(&vllm(4), 29, 12), 12);
    assert_eq!(hit(&vllm(16), 1_500, 900), 896);
    assert_eq!(hit(&vllm(16), 1_024, 1_024), 1_008);
    assert_eq!([hit(&sglang(1), 1_500, 900), hit(&sglang(16), 1_500, 900)], [900, 896]);
}

#[test]
fn a_cache_of_few_blocks_loses_the_tail_of_what_was_used_least() {
    let mut models = Models::builtin().unwrap();
    models.add_toml("[[model]]\nid = \"x\"\nlike = \"vllm\"\ncache.capacity_blocks = 100\n", "test").unwrap();
    let small = models.get("x").unwrap();
    let mut cache = SharedCache::default();
    let (mut one, mut other) =
        (Provider::new(small, Account::Enforced), Provider::new(small, Account::Enforced));
    let mut visit = |provider: &mut Provider<'_>, at_ms, block: SentBlock, changed_from| {
        provider.enter(&mut cache);
        let done = send(provider, at_ms, &[block], changed_from);
        provider.leave(&mut cache, at_ms);
        (done.usage.cache_read_tokens, done.miss.cause)
    };
    // 50 whole blocks, and 60 that leave room for 40.
    let (first, second) = (part(SentKind::Text, 801, 1, 0), part(SentKind::Text, 961, 2, 0));
    assert_eq!(visit(&mut one, 0, first, 0), (0, Some(Cause::ColdStart)));
    assert_eq!(visit(&mut one, 1_000, first, 1), (800, None));
    assert_eq!(visit(&mut other, 2_000, second, 0).0, 0);
    assert_eq!(visit(&mut one, 3_000, first, 1), (640, Some(Cause::Evicted)));
    // What was lost is there again, and the other prompt paid for it.
    assert_eq!(visit(&mut other, 4_000, second, 1), (800, Some(Cause::Evicted)));
}

#[test]
fn text_put_in_front_pins_what_is_cached() {
    // 2,432 tokens stay in front of a text that is written anew at every request.
    let front = part(SentKind::System, 2_500, 1, 0);
    let mut provider = Provider::new(model("gpt-5.4"), Account::Enforced);
    let mut reads = Vec::new();
    for i in 0..4_u32 {
        let goal = part(SentKind::Text, 400, 1_000 + u64::from(i), 0);
        let history = (0..50 * (i + 1)).map(|k| part(SentKind::Text, 4_000, u64::from(k) + 2, k + 1));
        let blocks: Vec<SentBlock> = [front, goal].into_iter().chain(history).collect();
        reads.push(
            send(&mut provider, i64::from(i) * 10_000, &blocks, 1.min(i as usize)).usage.cache_read_tokens,
        );
    }
    assert_eq!(reads, [0, 2_432, 2_432, 2_432]);
}

#[test]
fn tools_in_another_order_are_read_from_nowhere() {
    let (one, other) = (part(SentKind::Tool, 2_000, 1, 0), part(SentKind::Tool, 3_000, 2, 0));
    let user = part(SentKind::Text, 40_000, 3, 0);
    for id in ["gpt-5.4", "gpt-6-sol", "deepseek-v4-pro", "grok-4.7", "glm-5.3", "vllm"] {
        let mut provider = Provider::new(model(id), Account::Enforced);
        send(&mut provider, 0, &[one, other, user], 0);
        let swapped = send(&mut provider, 1_000, &[other, one, user], 0);
        assert_eq!(swapped.usage.cache_read_tokens, 0, "{id}");
        let back = send(&mut provider, 2_000, &[one, other, user], 0).usage.cache_read_tokens;
        assert!(back > 44_800, "{id}: {back}, the first order is still held");
    }
}

#[test]
fn a_gateway_that_moves_system_messages_to_the_front_breaks_at_zero() {
    // A message in the middle of the conversation, as a user's and as a system message that is moved to the front.
    let (system, user) = (part(SentKind::System, 4_000, 1, 0), part(SentKind::Text, 90_000, 2, 0));
    let steer = part(SentKind::Text, 200, 3, 1);
    let mut provider = Provider::new(model("glm-5.3"), Account::Enforced);
    send(&mut provider, 0, &[system, user], 0);
    assert_eq!(send(&mut provider, 1_000, &[system, user, steer], 2).usage.cache_read_tokens, 94_000);
    let moved = SentBlock { kind: SentKind::System, message: 0, ..steer };
    let mut provider = Provider::new(model("glm-5.3"), Account::Enforced);
    send(&mut provider, 0, &[system, user], 0);
    assert_eq!(send(&mut provider, 1_000, &[moved, system, user], 0).usage.cache_read_tokens, 0);
}

#[test]
fn a_level_of_effort_that_was_used_before_is_still_cached() {
    for id in ["gpt-5.4", "glm-5.3"] {
        let mut talk = Talk::new(model(id), Account::Enforced);
        let prompt = [block(SentKind::System, 2_000, 1), block(SentKind::Text, 40_000, 2)];
        let hits = [0, 0, 1, 1, 0].map(|effort| {
            talk.params.messages_key = effort;
            talk.served(1_000, &prompt, &[]).usage.cache_read_tokens > 0
        });
        assert_eq!(hits, [false, true, false, true, true], "{id}");
    }
}

#[test]
fn an_image_that_loses_the_history_leaves_the_system_prompt() {
    let mut models = Models::builtin().unwrap();
    let lines = "like = \"glm-5.3\"\ncache.image_toggle_invalidates = \"any\"\n";
    models.add_toml(&format!("[[model]]\nid = \"x\"\n{lines}"), "test").unwrap();
    let mut provider = Provider::new(models.get("x").unwrap(), Account::Enforced);
    let mut blocks = vec![part(SentKind::System, 37_579, 1, 0), part(SentKind::Text, 16_228, 2, 0)];
    send(&mut provider, 0, &blocks, 0);
    blocks.push(part(SentKind::Image, 998, 3, 1));
    let image = send(&mut provider, 1_000, &blocks, 2);
    assert_eq!((image.usage.prompt_tokens(), image.usage.cache_read_tokens), (54_805, 37_579));
    blocks.push(part(SentKind::Text, 267, 4, 2));
    let text = send(&mut provider, 2_000, &blocks, 3);
    assert_eq!((text.usage.prompt_tokens(), text.usage.cache_read_tokens), (55_072, 54_805));
    blocks.push(part(SentKind::Image, 695, 5, 3));
    assert_eq!(send(&mut provider, 3_000, &blocks, 4).usage.cache_read_tokens, 37_579);
}

/// A conversation of an organisation that enters its cache for one request.
fn visit(cache: &mut SharedCache, provider: &mut Provider<'_>, request: &Request<'_>) -> Usage {
    provider.enter(cache);
    let answer = provider.send(request);
    provider.leave(cache, request.at_ms);
    match answer {
        Answer::Done(done) => done.usage,
        Answer::Rejected(rejection) => panic!("{}", rejection.message),
    }
}

#[test]
fn parallel_requests_write_until_the_first_answer_begins() {
    let prompt = [block(SentKind::System, 10_553, 1)];
    let markers = [Marker { after: 0, ttl: Ttl::Short }];
    for (id, is_billed) in [("claude-opus-5-5", true), ("gpt-6-sol", true), ("glm-5.3", false)] {
        let mut cache = SharedCache::default();
        let mut providers: Vec<Provider<'_>> =
            (0..4).map(|_| Provider::new(model(id), Account::Enforced)).collect();
        let used = [5_953, 6_715, 7_515, 9_000].iter().zip(&mut providers).map(|(&at_ms, provider)| {
            let request = Request {
                at_ms,
                ttft_ms: 2_000,
                blocks: &prompt,
                changed_from: 0,
                change: None,
                markers: if model(id).needs_markers() { &markers } else { &[] },
                automatic: None,
                params: Params::default(),
                tail_tokens: 0,
                max_output_tokens: 0,
            };
            visit(&mut cache, provider, &request)
        });
        let used: Vec<Usage> = used.collect();
        for usage in &used[..3] {
            assert_eq!(usage.cache_read_tokens, 0, "{id}");
            assert_eq!(usage.cache_write_tokens(), if is_billed { 10_553 } else { 0 }, "{id}");
        }
        assert_eq!(used[3].cache_read_tokens, 10_553, "{id}");
    }
}

#[test]
fn what_stands_behind_the_last_breakpoint_is_written_by_every_spawn() {
    // Static part 5,400 tokens, 4,700 of environment behind it, the same in all four.
    let written = |at: [u32; 2]| -> Vec<u64> {
        let mut cache = SharedCache::default();
        let spawn = |i: u64| {
            let blocks = [
                block(SentKind::System, 5_400, 1),
                block(SentKind::System, 4_700, 2),
                block(SentKind::Text, 2, 3 + i),
            ];
            let markers: Vec<Marker> = at.iter().map(|&after| Marker { after, ttl: Ttl::Short }).collect();
            let request = Request {
                at_ms: i as i64 * 1_000,
                ttft_ms: 0,
                blocks: &blocks,
                changed_from: 0,
                change: None,
                markers: &markers,
                automatic: None,
                params: Params::default(),
                tail_tokens: 0,
                max_output_tokens: 0,
            };
            let mut provider = Provider::new(model("claude-opus-5-5"), Account::Enforced);
            visit(&mut cache, &mut provider, &request).cache_write_tokens()
        };
        (0..4).map(spawn).collect()
    };
    assert_eq!(written([0, 2]), [10_102, 4_702, 4_702, 4_702]);
    assert_eq!(written([1, 2]), [10_102, 2, 2, 2]);
}
