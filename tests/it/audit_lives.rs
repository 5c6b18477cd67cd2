//! What either life of cache entries would have cost a recording (anthropics/claude-code#46829), and the same at other
//! prices. Numbers are by hand: of Claude Opus 5, per million, 5 plain, 6.25 and 10 written, 0.5 read.

use std::fs;

use ctxsim::audit::Lives;
use serde_json::Value;

use crate::audit_support::{EVENING_MS, Log, implicit, long, short};
use crate::support::{code, json, run, stderr, stdout};

const SECOND_MS: i64 = 1_000;

/// Tokens at dollars per million are millionths of a dollar.
const MICRO: u128 = 1_000_000;

/// Gaps of ten seconds, ten minutes, two hours and thirty seconds.
fn hours() -> Log {
    hours_on("claude-opus-5")
}

fn hours_on(model: &str) -> Log {
    let mut log = Log::new(Some(EVENING_MS - 36_000_000));
    log.model(model);
    for (gap_s, billed) in [
        (10, long(0, 100_000)),
        (10, long(100_000, 1_000)),
        (600, long(101_000, 1_000)),
        (7_200, long(0, 103_000)),
        (30, long(103_000, 1_000)),
    ] {
        // A request comes ten seconds after the one before.
        log.pause((gap_s - 10) * SECOND_MS);
        log.request(billed);
    }
    log
}

#[test]
fn each_life_has_its_cost_and_its_regret() {
    let lives = hours().audit().sums.lives.expect("the client chose");
    // 100,000 written; read, 1,000 written; all written again after ten minutes; and after two hours; read.
    let short = 625_000 + (50_000 + 6_250) + 102_000 * 25 / 4 + 103_000 * 25 / 4 + (51_500 + 6_250);
    let long = 1_000_000 + (50_000 + 10_000) + (50_500 + 10_000) + 1_030_000 + (51_500 + 10_000);
    assert_eq!(lives.cost_pusd, [short * MICRO, long * MICRO]);
    // The second write is lost after five minutes: 101,000 at 6.25 and 1,000 at 6.25 against 1,000 at 10 and a read. All
    // others are dearer for an hour, 102,000 more after two hours included.
    let of_short = 637_500 - 60_500;
    let of_long = (100_000 + 1_000 + 1_000 + 1_000 + 102_000) * 15 / 4;
    assert_eq!(lives.regret_pusd, [of_short * MICRO, of_long * MICRO]);
    assert_eq!(long - short, of_long - of_short, "what one costs more is what it regrets more");
    assert_eq!((lives.requests, lives.late_requests), (4, 1));
    assert_eq!((lives.long_writes, lives.long_writes_needed), (5, 1));
    // 104,000 new tokens and 102,000 again, each 3.75 dearer, against prefixes of 406,000 at 5.75: a third of the requests
    // would have to be late, and a quarter is.
    assert_eq!(lives.break_even_millionths(), Some(206_000 * 375 * 10_000 / (406_000 * 575 / 100)));
    assert!(lives.break_even_millionths() > Some(250_000));
}

#[test]
fn above_the_break_even_the_long_life_is_the_cheaper_one() {
    let session = |late: usize| -> Lives {
        let mut log = Log::of([short(0, 120_000)]);
        for i in 0..400_u64 {
            let is_late = late > 0 && (i as usize + 1).is_multiple_of(400 / late);
            if is_late {
                log.pause(600 * SECOND_MS);
            }
            let cached = 120_000 + i * 30;
            log.request(if is_late { short(0, cached + 30) } else { short(cached, 30) });
        }
        log.audit().sums.lives.expect("the client chose")
    };
    // Writes of 132,000 tokens in all, 3.75 dearer, against prefixes of about 126,000 at 5.75: 0.17 % of 400 requests.
    for (late, pays) in [(0, false), (1, true), (4, true), (40, true)] {
        let lives = session(late);
        assert_eq!(lives.late_requests as usize, late);
        let share = lives.break_even_millionths().unwrap();
        assert!((1_600..1_900).contains(&share), "{share}");
        assert_eq!(lives.cost_pusd[1] < lives.cost_pusd[0], pays, "{late}: {lives:?}");
        assert_eq!(late as u64 * 1_000_000 > share * 400, pays);
    }
}

/// Late requests while the prefix is short lose little: their share alone does not tell.
#[test]
fn what_pays_is_told_by_the_costs_where_late_requests_are_short() {
    let mut log = Log::of([short(0, 5_000)]);
    let mut cached = 5_000;
    for i in 0..99 {
        let (is_late, new) = (i < 10, 15_000);
        if is_late {
            log.pause(600 * SECOND_MS);
        }
        let new = if is_late { 100 } else { new };
        log.request(if is_late { short(0, cached + new) } else { short(cached, new) });
        cached += new;
    }
    let lives = log.audit().sums.lives.expect("the client chose");
    let late = lives.late_requests * 1_000_000 / lives.requests;
    assert!(lives.break_even_millionths().unwrap() < late, "the share would say that it pays: {lives:?}");
    assert!(lives.cost_pusd[0] < lives.cost_pusd[1], "{lives:?}");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.jsonl"), log.text()).unwrap();
    let text = stdout(&run(dir.path(), ["audit", "s.jsonl"]));
    assert!(text.contains("would not have paid"), "{text}");
}

#[test]
fn a_model_without_these_two_lives_has_none() {
    assert_eq!(hours_on("qwen3.8-max").audit().sums.lives, None);
}

#[test]
fn a_client_that_does_not_choose_has_no_lives() {
    let audit = Log::of((0..5).map(|i| implicit(20_000 + i * 500, i * 128))).audit();
    assert_eq!(audit.sums.lives, None);
}

fn totals(dir: &std::path::Path, more: &[&str]) -> Value {
    let args = ["audit", "s.jsonl", "--format", "json"].into_iter().chain(more.iter().copied());
    json(&run(dir, args), 0)
}

fn number(value: &Value) -> f64 {
    value
        .as_str()
        .map_or_else(|| value.as_f64(), |text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn an_audit_prints_both_lives_and_takes_the_way_in_which_requests_were_bought() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.jsonl"), hours().text()).unwrap();
    let whole = totals(dir.path(), &[]);
    let what_if = &whole["total"]["ttl_what_if"];
    assert_eq!(what_if["late_requests"], 1);
    assert!((number(&what_if["late_share"]) - 0.25).abs() < 1e-9);
    assert!((number(&what_if["1h"]["input_usd"]) - 2.212).abs() < 1e-9, "{what_if}");
    assert!((number(&what_if["5m"]["regret_usd"]) - 0.577).abs() < 1e-9, "{what_if}");
    let text = stdout(&run(dir.path(), ["audit", "s.jsonl"]));
    assert!(text.contains("all written for") && text.contains("$2.21"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("would not have paid: 1 of 4 requests"), "{text}");
    assert!(words.contains("Of 5 writes for an hour, 1 needed it."), "{text}");
    // Half the price in batches; a region without a published factor is no price, and never the usual one.
    let batch = totals(dir.path(), &["--batch"]);
    assert_eq!(batch["recipe"]["service"], "batch");
    let cost = |all: &Value| number(&all["total"]["cost_usd"]);
    assert!((cost(&batch) * 2.0 - cost(&whole)).abs() < 1e-9, "{} {}", cost(&batch), cost(&whole));
    let fast = totals(dir.path(), &["--speed", "fast"]);
    assert!((cost(&fast) - 2.0 * cost(&whole)).abs() < 1e-9, "10 and 50 dollars are twice 5 and 25");
    let own = "[[model]]\nid = \"claude-opus-5\"\nprice_factors = { us_percent = 110 }\n";
    fs::write(dir.path().join("own.toml"), own).unwrap();
    let unknown = totals(dir.path(), &["--models-file", "own.toml", "--batch"]);
    assert_eq!(unknown["total"]["cost_usd"], Value::Null);
    let us = totals(dir.path(), &["--models-file", "own.toml", "--region", "us"]);
    assert!((cost(&us) - 1.1 * cost(&whole)).abs() < 1e-9);
    for command in ["audit", "validate"] {
        let refused = run(dir.path(), [command, "s.jsonl", "--speed", "fast", "--batch"]);
        assert_eq!(code(&refused), 2);
        assert!(stderr(&refused).contains("not sold in batches"), "{}", stderr(&refused));
    }
    let recorded = |more: &[&str]| {
        let args = ["validate", "s.jsonl", "--format", "json"].into_iter().chain(more.iter().copied());
        number(&json(&run(dir.path(), args), 0)["total"]["cost_recorded_usd"])
    };
    assert!((recorded(&["--batch"]) * 2.0 - recorded(&[])).abs() < 1e-9);
}
