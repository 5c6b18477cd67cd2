//! Money, errors and pings (reports 12, 13, 16, 32, 42, 47, 48, 49, 52 and 81 of the collection; those about price
//! tables are in `prices`).

use ctxsim::generate::ConstantGrowth;
use ctxsim::metrics;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::break_even::{Use, of_edit, of_life};
use ctxsim::provider::price::Price;
use ctxsim::provider::{Models, Ttl};
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};
use ctxsim::usage::Usage;

use crate::policy_support::{model, run_with};

const SECOND_MS: i64 = 1_000;

fn price(id: &str) -> Price {
    Models::builtin().unwrap().get(id).unwrap().price(None).unwrap().clone()
}

fn usage(uncached: u64, read: u64, short: u64, long: u64) -> Usage {
    Usage {
        uncached_tokens: uncached,
        cache_read_tokens: read,
        cache_write_5m_tokens: short,
        cache_write_1h_tokens: long,
        ..Usage::default()
    }
}

/// Pico-dollars in ten-thousandths of a dollar, half up.
fn hundredths_of_cents(pusd: u128) -> u128 {
    (pusd + 50_000_000) / 100_000_000
}

/// briancaffey/hermes-otel#83: 98.6 % and not 49.3 %; a request that read nothing counts.
#[test]
fn the_hit_rate_has_one_denominator() {
    let rate = |usage: Usage| metrics::hit_rate(&Summary { usage, ..Summary::default() }).0;
    assert_eq!(rate(usage(5, 15_409, 212, 0)), Some(986_113));
    let mut two = usage(5, 15_409, 212, 0);
    two.add(&usage(0, 0, 15_626, 0));
    assert_eq!(rate(two), Some(493_056));
    assert_eq!(rate(usage(0, 100, 0, 0)), Some(1_000_000));
}

/// NousResearch/hermes-agent#118622: the same turn with a frozen breakpoint and with one that moves.
#[test]
fn a_frozen_breakpoint_costs_five_times_as_much() {
    let price = price("claude-opus-4-8");
    let cost = |read, write| hundredths_of_cents(price.cost(&usage(36, read, 0, write)).total());
    assert_eq!((cost(744_978, 781_682), cost(1_441_452, 85_208)), (81_895, 15_730));
}

/// zeroclaw-labs/zeroclaw#10858: one request after midnight, everything behind the tools written for an hour.
#[test]
fn a_date_in_the_system_prompt_costs_three_dollars_at_midnight() {
    let cost = price("claude-opus-5").cost(&usage(0, 22_126, 0, 317_874)).total();
    assert_eq!(hundredths_of_cents(cost), 31_898);
}

/// anthropics/claude-code#91705: to rewrite 158,694 tokens so that 1,500 need not be read pays after 2,010 turns.
#[test]
fn taking_an_image_out_pays_after_two_thousand_turns() {
    let price = price("claude-opus-5");
    let even = of_edit(&price, &usage(0, 0, 0, 158_694), &usage(0, 158_694, 0, 0), 1_500);
    assert_eq!(even.turns, Some(2_011), "2,010 turns do not quite cover it");
}

/// anomalyco/opencode#25120: what a compaction pays that shares no prefix with its conversation.
#[test]
fn a_compaction_with_the_conversations_prefix_pays_a_tenth() {
    let price = price("claude-sonnet-4-6");
    for (tokens, plain, read) in [(2_000, 60, 6), (3_000, 90, 9), (40_000, 1_200, 120)] {
        assert_eq!(hundredths_of_cents(price.cost(&usage(tokens, 0, 0, 0)).total()), plain);
        assert_eq!(hundredths_of_cents(price.cost(&usage(0, tokens, 0, 0)).total()), read);
    }
}

/// A session with these gaps between its requests, behind a prefix of 100,000 tokens.
fn with_gaps(gaps_s: &[i64]) -> Session {
    let growth = ConstantGrowth {
        requests: gaps_s.len() as u32 + 1,
        tools_tokens: 90_000,
        system_tokens: 10_000,
        model: "claude-opus-5".to_owned(),
        ..ConstantGrowth::default()
    };
    let mut session = growth.session();
    let mut at_ms = 0;
    for (step, gap_s) in session.steps.iter_mut().zip(std::iter::once(&0).chain(gaps_s)) {
        at_ms += gap_s * SECOND_MS;
        step.start_ms = Some(at_ms);
    }
    session
}

fn pinged(session: &Session, idle_s: i64, pings: i64) -> Summary {
    run_with(1_000_000, session, "", &[("keep_alive.idle_s", idle_s), ("keep_alive.pings", pings)]).0
}

/// rossoctl/context-guru#100: a ping at 240 seconds keeps what is read at 482; without it everything is written again.
#[test]
fn a_read_renews_the_life_of_an_entry() {
    let session = with_gaps(&[482]);
    let prompt = |summary: &Summary| summary.usage.prompt_tokens();
    let none = run_with(1_000_000, &session, "", &[]).0;
    let with = pinged(&session, 240, 1);
    assert_eq!(prompt(&none), prompt(&with));
    assert_eq!(none.usage.cache_read_tokens, 0);
    assert!(with.usage.cache_read_tokens > 100_000);
    // One ping in the gap, and one behind the last answer, which nobody needs.
    assert_eq!((with.keep_alive.pings, with.keep_alive.converted_requests), (2, 1));
    // The life runs from the start of a request: a ping 240 seconds after an answer of 70 seconds is too late.
    let late = pinged(&session, 310, 1);
    assert!(late.keep_alive.usage.cache_write_5m_tokens > 100_000, "it has to write the entry again");
    assert!(late.cost.total() > none.cost.total(), "and costs more than it saves");
}

/// What pings cost and what they save is what they change of the bill.
#[test]
fn the_books_of_pings_close() {
    let session = with_gaps(&[400, 20, 700, 1_000, 5_000, 290, 10]);
    let none = run_with(1_000_000, &session, "", &[]).0;
    assert_eq!((none.keep_alive.pings, none.cost.keep_alive), (0, 0));
    for (idle_s, pings) in [(280, 1), (280, 3), (240, 2), (60, 4)] {
        let with = pinged(&session, idle_s, pings);
        assert!(with.keep_alive.pings > 0, "configured and sent");
        let saved = none.cost.total() + with.cost.keep_alive - with.cost.total();
        assert_eq!(with.keep_alive.saved_pusd, saved, "{idle_s} {pings}");
        assert_eq!(with.usage.prompt_tokens(), none.usage.prompt_tokens(), "pings are no requests");
    }
    let options = [("keep_alive.idle_s", 280), ("keep_alive.pings", 3), ("keep_alive.cap", 4)];
    assert_eq!(run_with(1_000_000, &session, "", &options).0.keep_alive.pings, 4);
    let options = [("keep_alive.idle_s", 280), ("keep_alive.min_tokens", 200_000)];
    assert_eq!(run_with(1_000_000, &session, "", &options).0.keep_alive.pings, 0, "too small to be kept");
}

/// rossoctl/context-guru#86: with gaps of a heavy tail three pings beat two, two beat one, and twelve are the worst;
/// pinging too early loses what comes just in time.
#[test]
fn more_pings_pay_up_to_a_point() {
    let mut gaps = Vec::new();
    for (count, gap_s) in [(20, 400), (5, 700), (5, 820), (4, 1_000), (1, 2_000), (25, 20_000)] {
        gaps.extend(std::iter::repeat_n(gap_s, count));
    }
    let session = with_gaps(&gaps);
    let net = |idle_s: i64, pings: i64| {
        let with = pinged(&session, idle_s, pings);
        with.keep_alive.saved_pusd as i128 - with.cost.keep_alive as i128
    };
    let [one, two, three, twelve] = [1, 2, 3, 12].map(|pings| net(280, pings));
    assert!(three > two && two > one && one > twelve, "{one} {two} {three} {twelve}");
    assert!(two > net(240, 2) && net(240, 2) > one);
}

/// anthropics/claude-code#46829: which life pays is told by the gaps, and the estimate is what the runs cost.
#[test]
fn the_what_if_of_a_life_is_what_runs_cost() {
    let price = model(1_000_000).price(None).unwrap().clone();
    for (gaps_s, better) in [
        (vec![10, 20, 30, 40], Ttl::Short),
        (vec![10, 600, 30, 2_000], Ttl::Long),
        (vec![10, 5_000], Ttl::Short),
    ] {
        let session = with_gaps(&gaps_s);
        let costs =
            [("5m", Ttl::Short, 300_000), ("1h", Ttl::Long, 3_600_000)].map(|(word, ttl, life_ms)| {
                let model = model(1_000_000);
                let policy: PolicySpec = format!("none:cache.ttl={word}").parse().unwrap();
                let strategy =
                    policy.load(&[], &[]).unwrap().strategy(&model, &Models::builtin().unwrap()).unwrap();
                let (mut record, options) = (FullRecorder::default(), RunOptions::default());
                let summary =
                    run(&session, &strategy, &model, &options, &mut Scratch::default(), &mut record);
                let mut before = 0;
                let uses = record.requests.iter().map(|row| {
                    let prompt = row.usage.prompt_tokens();
                    let new_tokens = prompt - before;
                    let it = Use { gap_ms: row.gap_ms, prefix_tokens: before, new_tokens, ..Use::default() };
                    before = prompt;
                    it
                });
                let estimate = of_life(&price, &uses.collect::<Vec<_>>(), ttl, life_ms);
                assert_eq!(estimate, summary.cost.total() - summary.cost.output, "{word} {gaps_s:?}");
                (estimate, ttl)
            });
        let cheapest = costs.into_iter().min_by_key(|(cost, _)| *cost).unwrap();
        assert_eq!(cheapest.1, better, "{gaps_s:?}");
    }
}
