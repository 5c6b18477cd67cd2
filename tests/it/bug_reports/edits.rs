//! Edits of history and what they cost (reports 20 to 31 of the collection).

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{Policy, interpreter::Interpreter, plan::Plan};
use ctxsim::provider::break_even::of_edit;
use ctxsim::provider::price::{Price, Rates};
use ctxsim::session::{BlockKind, Session};
use ctxsim::usage::Usage;

use crate::policy_support::{
    base, breaks, compactions, hit_rate, model, passes, run_with, simulate, strategy_on, with_gap,
};

/// Results of 10,000 characters and 2,500 tokens.
fn results_of_ten_thousand(requests: u32) -> Session {
    let growth = ConstantGrowth { requests, result_utf16: 10_000, result_tokens: 2_500, ..base() };
    growth.session()
}

/// Clears oldest results above `trigger` characters until `target` is left.
fn clear_down_to(trigger: u64, target: u64, keep: u64) -> String {
    format!(
        r#"
        [[rule]]
        id = "clear"
        at = "request"
        view = "destructive"
        when = [{{ of = "tool_results", unit = "utf16", over = {trigger} }}]
        stub = {{ fixed = 0 }}
        select = {{ tool_results = {{ keep_recent = {{ results = {keep} }}, until = {{ total = {target} }} }} }}
        "#
    )
}

/// Keeps so many newest results, moving on in steps.
fn keep_newest(keep: u64, quantum: u64) -> String {
    format!(
        r#"
        [[rule]]
        id = "clear"
        at = "request"
        view = "stateless"
        stub = {{ fixed = 0 }}
        select = {{ tool_results = {{ keep_recent = {{ results = {keep} }}, quantum = {quantum} }} }}
        "#
    )
}

/// QwenLM/qwen-code#8452: the trigger of 500,000 characters is the target too, so every result after the
/// fiftieth costs a rewrite; half of it as target leaves one rewrite for 26 results.
#[test]
fn a_target_at_the_trigger_clears_at_every_request() {
    let session = results_of_ten_thousand(120);
    let (tight, record) = simulate(&session, &clear_down_to(500_000, 500_000, 0));
    // Request 52 is the first with 51 results.
    assert_eq!(passes(&record), (52..=120).collect::<Vec<_>>());
    assert_eq!(breaks(&record), passes(&record));
    let (roomy, record) = simulate(&session, &clear_down_to(500_000, 250_000, 0));
    assert_eq!(passes(&record), [52, 78, 104]);
    assert_eq!(breaks(&record), passes(&record));
    let (none, _) = simulate(&session, "");
    assert!(hit_rate(&tight) < hit_rate(&roomy) && hit_rate(&roomy) < hit_rate(&none));
    assert!(tight.cost.total() > roomy.cost.total());
}

/// macanderson/stella#3690: 27 of 86 transitions did not append, and what they missed is told apart from
/// what was new.
#[test]
fn every_transition_that_does_not_append_is_counted_and_priced() {
    let every_third = r#"
        [[rule]]
        id = "age"
        at = "request"
        view = "ledger"
        stub = { fixed = 0 }
        select = { tool_results = { keep_recent = { results = 6 } } }
        cadence = { min_interval = 3 }
    "#;
    let session = results_of_ten_thousand(87);
    let (summary, record) = simulate(&session, every_third);
    // The seventh result, at request 8, is the first that is old: then 11, 14, …, 86.
    assert_eq!(breaks(&record), (8..=86).step_by(3).collect::<Vec<_>>());
    assert_eq!((breaks(&record).len(), record.requests.len() - 1), (27, 86));
    let missed: u64 = summary.misses.iter().map(|m| m.tokens).sum();
    assert_eq!(missed, summary.usage.uncached_tokens + summary.usage.cache_write_tokens());
    let at_breaks: u64 = record.requests.iter().map(|r| r.missed_tokens).sum();
    let first = record.requests[0].missed_tokens;
    let of_rule = summary.miss(Cause::PrefixRule);
    assert_eq!(of_rule.tokens, at_breaks - first);
    // The report's own figures.
    assert_eq!(772_946 * 1_000 / 1_072_637, 720);
}

/// macanderson/stella#1819: a gate on the number of results fires for four small ones and never for three
/// of 100 kB; one on what can be saved does the opposite.
#[test]
fn a_gate_belongs_on_bytes_and_not_on_a_count() {
    let by_count = r#"
        [[rule]]
        id = "clear"
        at = "request"
        when = [{ of = "tool_results", unit = "count", over = 3 }]
        stub = { fixed = 0 }
        select = { tool_results = {} }
    "#;
    let by_bytes = r#"
        [[rule]]
        id = "clear"
        at = "request"
        stub = { fixed = 100 }
        select = { tool_results = {} }
        cadence = { min_savings = 12000 }
    "#;
    let session = |results: u32, chars: u32| {
        ConstantGrowth { requests: results + 1, result_utf16: chars, result_tokens: chars / 4, ..base() }
            .session()
    };
    let fired = |session: &Session, rules: &str| simulate(session, rules).0.passes;
    let (small, large) = (session(4, 2_100), session(3, 100_000));
    assert_eq!((fired(&small, by_count), fired(&large, by_count)), (1, 0));
    // 3 × (100,000 − 100), one after the other as they come.
    assert_eq!((fired(&small, by_bytes), fired(&large, by_bytes)), (0, 3));
}

fn price(input: u64, read: u64, output: u64) -> Price {
    let rates = Rates { input, output, write_short: input, write_long: input, read };
    Price::flat(rates)
}

/// anomalyco/opencode#32515: the pruned request has a sixth fewer tokens and costs seven and a half times
/// as much. $10, $1 and $60 a million reproduce all three bills.
#[test]
fn a_smaller_request_can_be_dearer() {
    let price = price(10_000_000, 1_000_000, 60_000_000);
    let request = |uncached: u64, read: u64, output: u64| Usage {
        uncached_tokens: uncached,
        cache_read_tokens: read,
        output_tokens: output,
        ..Usage::default()
    };
    let [a, b, c] = [request(631, 219_140, 297), request(955, 219_140, 298), request(182_410, 0, 112)];
    // Pico-dollars; the report gives six places, its cached tokens in tens.
    let micro = |usage: &Usage| price.cost(usage).total() / 1_000_000;
    for (usage, reported) in [(&a, 243_266), (&b, 246_566), (&c, 1_830_800)] {
        assert!(micro(usage).abs_diff(reported) <= 20, "{} for {reported}", micro(usage));
    }
    assert_eq!((b.prompt_tokens() - c.prompt_tokens()) * 100 / b.prompt_tokens(), 17);
    assert_eq!(micro(&c) * 10 / micro(&a), 75);
    // It pays back when the reads it saves have covered the difference.
    let saved = b.prompt_tokens() - c.prompt_tokens();
    let even = of_edit(&price, &c, &b, saved);
    let extra = price.cost(&c).total() - price.cost(&b).total();
    assert_eq!(even.turns, Some(u64::try_from(extra.div_ceil(u128::from(saved) * 1_000_000)).unwrap()));
}

/// ranxianglei/opencode-acp#5: 176 misses in 828 messages, 89 % of all fresh input had been in the cache.
/// Pruned in place every third request with 24 results kept, as much has; appended to, none.
#[test]
fn most_fresh_input_of_pruning_in_place_was_in_the_cache_before() {
    let in_place = r#"
        [[rule]]
        id = "prune"
        at = "request"
        view = "ledger"
        stub = { fixed = 0 }
        select = { tool_results = { keep_recent = { results = 24 } } }
        cadence = { min_interval = 3 }
    "#;
    let session = results_of_ten_thousand(414);
    let share = |rules: &str| {
        let (summary, _) = simulate(&session, rules);
        let fresh = summary.usage.uncached_tokens + summary.usage.cache_write_tokens();
        summary.miss(Cause::PrefixRule).tokens * 100 / fresh
    };
    // 130 passes, from request 26 to 413. More than 20 blocks are behind what a pass touches, so all behind
    // the system prompt is written again: 24 results of 2,500, on average 220 calls of 60, and 200; the
    // prompt has shrunk, so none of it counts as new. In between two requests bring 2,560 each; before the
    // first pass there were 25 of them and 15,200 to begin with.
    let (rewritten, new) = (130 * (24 * 2_500 + 220 * 60 + 200), 130 * 2 * 2_560 + 25 * 2_560 + 15_200);
    assert_eq!(share(in_place), rewritten * 100 / (rewritten + new));
    assert_eq!(share(""), 0);
}

/// jjuraszek/pi-condense#3: a strip of old thinking that moves at every render misses at every render; in
/// steps of ten it misses at a tenth of them. Thinking was 69 % of what left, so a trigger that counts tool
/// output alone foresees less than a third of it.
#[test]
fn a_moving_strip_of_thinking_breaks_at_every_render() {
    let strip = |interval: u32| {
        format!(
            r#"
            [[rule]]
            id = "strip"
            at = "request"
            view = "ledger"
            select = {{ thinking = {{ keep_recent = {{ turns = 3 }} }} }}
            strip_thinking = {{}}
            cadence = {{ min_interval = {interval} }}
            "#
        )
    };
    let session = ConstantGrowth { requests: 44, thinking_tokens: 900, ..base() }.session();
    let (_, record) = simulate(&session, &strip(1));
    // Request 5 is the first with four answers before it; the first of them was sent by request 2.
    assert_eq!(breaks(&record), (5..=44).collect::<Vec<_>>());
    let (_, record) = simulate(&session, &strip(10));
    assert_eq!(breaks(&record), [5, 15, 25, 35]);
    assert_eq!(286_749 * 100 / (286_749 + 129_879), 68);
}

/// tetsuo-ai/agenc-core#2156: a projection is a function of the history alone, and grows by appending
/// between passes. The fix of the report: gather to 120,000 characters, clear to half, never the newest five.
#[test]
fn projecting_the_same_history_twice_gives_the_same() {
    let session = results_of_ten_thousand(75);
    let model = model(10_000_000);
    let strategy = strategy_on(&model, &keep_newest(5, 1), &[]);
    let mut context =
        ctxsim::sim::context::Context::new(&session, 10, ctxsim::sim::context::Memory::default());
    for step in &session.steps[..20] {
        context.reveal(step.input.start..step.output.end);
    }
    let plan = |policy: &mut Interpreter<'_>| match policy.at_request(0, context.view(), false) {
        Some(Plan::Stub(plan)) => plan,
        other => panic!("{other:?}"),
    };
    let once = plan(&mut Interpreter::new(&strategy, &session));
    assert_eq!(once, plan(&mut Interpreter::new(&strategy, &session)));
    assert_eq!(once.stubs.len(), 19 - 5);
    let (_, sliding) = simulate(&session, &keep_newest(5, 1));
    // Request 7 has six results.
    assert_eq!(breaks(&sliding), (7..=75).collect::<Vec<_>>());
    let (_, gathered) = simulate(&session, &clear_down_to(120_000, 60_000, 5));
    // 130,000 at request 14, 60,000 left, 130,000 again after seven results.
    assert_eq!(breaks(&gathered), (14..=75).step_by(7).collect::<Vec<_>>());
}

/// A policy that clears all but the newest six, when the cache is cold only.
const WHEN_COLD: &str = r#"
    [[rule]]
    id = "clear"
    at = "request"
    view = "ledger"
    stub = { fixed = 0 }
    select = { tool_results = { keep_recent = { results = 6 } } }
    cadence = { when_cache = "cold" }
"#;

/// lijunzh/koda#639: microcompaction at the seventh result and at every call after it; gated on the gap,
/// it does nothing while the cache is warm.
#[test]
fn gated_on_the_gap_nothing_is_cleared_while_the_cache_is_warm() {
    let always = WHEN_COLD.replace("cadence = { when_cache = \"cold\" }", "");
    let session = results_of_ten_thousand(20);
    let (_, record) = simulate(&session, &always);
    assert_eq!(passes(&record), (8..=20).collect::<Vec<_>>());
    assert_eq!(passes(&simulate(&session, WHEN_COLD).1), [0_u32; 0]);
    // A gap of ten seconds is the session's own; 290 more are the life of the entries, to the millisecond.
    for (gap_ms, cold) in [(289_999, false), (290_000, true), (3_600_000, true)] {
        let (_, record) = simulate(&with_gap(session.clone(), 14, gap_ms), WHEN_COLD);
        assert_eq!(passes(&record), if cold { vec![15] } else { vec![] }, "{gap_ms}");
    }
}

/// cnighswonger/claude-code-cache-fix#36: a pass after the cache has expired costs nothing extra; before, it
/// costs what it rewrites at the difference of write and read.
#[test]
fn a_pass_on_a_cold_cache_costs_nothing_extra() {
    let once = clear_down_to(110_000, 40_000, 0);
    let session = results_of_ten_thousand(13);
    let rates = model(10_000_000).price(None).unwrap().rates;
    let (write, read) = (i128::from(rates.write_short), i128::from(rates.read));
    for (gap_ms, is_cold) in [(0, false), (280_000, false), (300_000, true), (3_600_000, true)] {
        // Request 13 has twelve results, 120,000 characters: eight are cleared, 2,500 tokens each.
        let session = with_gap(session.clone(), 12, gap_ms);
        let [none, edited] = ["", &once].map(|rules| simulate(&session, rules).1.requests[12]);
        let extra = edited.cost_pusd as i128 - none.cost_pusd as i128;
        let saved = 8 * 2_500;
        assert_eq!(none.usage.prompt_tokens() - edited.usage.prompt_tokens(), saved);
        let rewritten = i128::from(none.usage.cache_read_tokens) - i128::from(edited.usage.cache_read_tokens);
        if is_cold {
            assert_eq!(extra, -i128::from(saved) * write, "only cheaper");
        } else {
            assert_eq!(extra, rewritten * (write - read) - i128::from(saved) * write);
            assert!(extra > 0);
        }
    }
}

/// morphllm/opencode-morph-plugin#5: a summary that is written anew at every call past 100,000 characters
/// leaves nothing to read; one that stays until the next is due breaks once.
#[test]
fn a_summary_written_anew_at_every_call_leaves_nothing_to_read() {
    let summarize = |keep: u64| {
        format!(
            r#"
            [estimate]
            unit = "utf16"
            chars_per_token = 1
            [[rule]]
            id = "summarize"
            at = "request"
            when = [{{ of = "messages", unit = "plain_estimate", over = 100000 }}]
            select = {{ messages = {{ keep_recent = {{ estimate = {keep} }}, snap = "assistant" }} }}
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
    };
    let session = results_of_ten_thousand(40);
    let (sliding, record) = run_with(10_000_000, &session, &summarize(95_000), &[("summary_tokens", 200)]);
    let first = compactions(&record)[0];
    assert_eq!(compactions(&record), (first..=40).collect::<Vec<_>>());
    let (frozen, record) = run_with(10_000_000, &session, &summarize(20_000), &[("summary_tokens", 200)]);
    let (all, some) = (41 - first as usize, compactions(&record).len());
    assert!(some >= 2 && some * 6 <= all, "{some} of {all}");
    assert_eq!(breaks(&record), compactions(&record));
    assert!(hit_rate(&sliding) < hit_rate(&frozen));
}

/// Tarquinen/opencode-dynamic-context-pruning#410: what changes in the past every k calls breaks a k-th of
/// the requests.
#[test]
fn steps_of_twenty_break_a_twentieth_of_the_requests() {
    let session = results_of_ten_thousand(401);
    for (quantum, expected) in [(1, 395), (20, 20)] {
        let (_, record) = simulate(&session, &keep_newest(5, quantum));
        // 400 results, of which 395 are old in the end; with 20, the boundary moves at 20, 40, …, 400.
        assert_eq!(breaks(&record).len(), expected, "{quantum}");
    }
}

/// The same file read at turns 3 and 9 of twelve: equal calls with equal results.
fn read_twice() -> Session {
    let mut session = results_of_ten_thousand(12);
    let blocks = &mut session.blocks;
    for kind in [BlockKind::ToolUse, BlockKind::ToolResult] {
        let of_kind: Vec<usize> = (0..blocks.len()).filter(|i| blocks.kind[*i] == kind).collect();
        blocks.hash[of_kind[8]] = blocks.hash[of_kind[2]];
    }
    session
}

/// A rule about results that another one repeats.
fn repeated(id: &str, which: &str) -> String {
    format!(
        r#"
        [[rule]]
        id = "{id}"
        at = "request"
        stub = {{ fixed = 0 }}
        select = {{ tool_results = {{ {which} }} }}
        "#
    )
}

/// macanderson/stella#372: of two reads of one file, at turns 3 and 9, keeping the latest copy edits what was sent at
/// turn 3; keeping the earliest replaces the later one before it is sent, and breaks nothing. With supersession besides,
/// whichever of them runs first, exactly one full copy is left.
#[test]
fn of_two_copies_the_one_that_was_not_sent_yet_goes_for_free() {
    let session = read_twice();
    let (latest, record) = simulate(&session, &repeated("dedupe", "duplicates = \"earlier\""));
    // Request 10 is the first with the result of the ninth call; the break is at the third.
    assert_eq!((passes(&record), breaks(&record)), (vec![10], vec![10]));
    let read = |record: &ctxsim::sim::FullRecorder| record.requests[9].usage.cache_read_tokens;
    let prompt_of = |record: &ctxsim::sim::FullRecorder, request: usize| {
        record.requests[request - 1].usage.prompt_tokens()
    };
    let (_, none) = simulate(&session, "");
    // Of what was sent before the third result nothing is read either but tools and system prompt: 21 blocks lie between,
    // more than a marker looks back.
    assert_eq!(read(&record), 15_000);
    let (earliest, record) = simulate(&session, &repeated("dedupe", "duplicates = \"later\""));
    assert_eq!((passes(&record), breaks(&record)), (vec![10], vec![]));
    assert_eq!(read(&record), prompt_of(&none, 9));
    assert_eq!(latest.elided_results, earliest.elided_results);
    assert!(earliest.cost.total() < latest.cost.total());
    for order in
        [["duplicates = \"later\"", "superseded = true"], ["superseded = true", "duplicates = \"later\""]]
    {
        let rules = format!("{}{}", repeated("first", order[0]), repeated("second", order[1]));
        let (both, _) = simulate(&session, &rules);
        assert_eq!(both.elided_results, 1, "one of two copies goes, whichever: {order:?}");
    }
}

/// anthropics/claude-code#90716: after 155 images each further one put out the oldest, so that 22 of the last 27
/// requests wrote the conversation anew; put out in batches, two of them do.
#[test]
fn images_that_make_way_one_by_one_break_at_each_of_them() {
    let mut session = ConstantGrowth { requests: 156 + 27, ..base() }.session();
    // Images are what Bash brings here; another tool answers 5 of the 27 requests.
    session.tools.push(session.tools[0].clone());
    session.tools[1].name = "Other".to_owned();
    for other in [0, 6, 12, 18, 24] {
        let step = session.steps[156 + other].clone();
        let call = session.steps[155 + other].output.clone();
        for block in call.chain(step.input) {
            let tool = &mut session.blocks.tool[block as usize];
            // What is no call and no result has none.
            *tool = if *tool == 0 { 1 } else { *tool };
        }
    }
    let evicting = |quantum: u64| {
        let rules = keep_newest(155, quantum).replace("keep_recent", "only = [\"exact:Bash\"], keep_recent");
        breaks(&simulate(&session, &rules).1)
    };
    let images: Vec<u32> = (157..=183).filter(|request| (request - 157) % 6 != 0).collect();
    assert_eq!((evicting(1), images.len()), (images, 22));
    // 177 images in the end: the boundary stands at 160 - 155 from the 160th on, and moves at the 170th.
    assert_eq!(evicting(10).len(), 2);
}
