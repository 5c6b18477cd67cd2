//! Usage series of public bug reports, written as session files: each is named by cause and detector. The
//! numbers are those of the reports.

use ctxsim::cause::Cause;

use crate::audit_support::{Billed, EVENING_MS, Log, causes, detectors, finding, implicit, long, short};

#[test]
fn a_frozen_breakpoint_rewrites_the_transcript_at_every_round() {
    let written = [
        16_463, 3_423, 10_668, 19_973, 23_460, 33_442, 39_108, 39_922, 41_404, 52_261, 55_873, 57_332,
        59_219, 61_190, 64_037, 66_871, 67_746, 69_290,
    ];
    let read = |i: usize| if i == 0 { 26_354 } else { 42_272 };
    let series = written.iter().enumerate().map(|(i, w)| Billed { uncached: 2, ..long(read(i), *w) });
    let audit = Log::of(series).audit();
    assert_eq!(audit.breaks.len(), 17);
    assert!(audit.breaks.iter().all(|b| b.cause == Cause::PrefixUnknown), "{:?}", causes(&audit));
    let pin = finding(&audit, "floor_pin");
    assert_eq!(pin.requests, (2..=18).collect::<Vec<u32>>());
    assert!(pin.detail.contains("42,272"), "{}", pin.detail);
    assert_eq!(audit.sums.usage.cache_write_tokens(), 781_682);
    let unread = finding(&audit, "write_never_read");
    assert!(unread.detail.contains("of 781,682 written tokens"), "{}", unread.detail);
}

#[test]
fn a_suffix_that_snaps_back_to_the_floor_is_a_saw_tooth() {
    // Turns 12 to 16 are left out of the report; the one before turn 17 had 101,974 tokens cached.
    let series = [
        (52_287, 5_256),
        (57_543, 17_263),
        (74_806, 9_638),
        (56_081, 19_395),
        (75_476, 14_450),
        (56_081, 38_128),
        (56_081, 31_249),
        (87_330, 4_638),
        (56_081, 30_264),
        (86_345, 966),
        (56_081, 39_406),
        (95_487, 6_487),
        (56_081, 44_383),
    ];
    let mut log = Log::new(None);
    series.iter().for_each(|(r, w)| log.request(short(*r, *w)));
    let audit = log.audit();
    let expected = [4, 6, 7, 9, 11, 13].map(|request| (request, "prefix_unknown"));
    assert_eq!(causes(&audit), expected);
    assert_eq!(finding(&audit, "saw_tooth").requests, [4, 6, 7, 9, 11, 13]);
    assert!(!detectors(&audit).contains(&"floor_pin"));
}

#[test]
fn a_prune_that_makes_the_smaller_request_dearer() {
    let before = [
        Billed { uncached: 631, read: 219_140, output: 297, ..Billed::default() },
        Billed { uncached: 955, read: 219_140, output: 298, ..Billed::default() },
    ];
    let after = Billed { uncached: 182_410, output: 112, ..Billed::default() };
    for marked in [true, false] {
        let mut log = Log::of(before);
        if marked {
            log.cleared(r#""toolu_1""#, 37_685);
        }
        log.request(after);
        let audit = log.audit();
        assert_eq!(causes(&audit), [(3, "prefix_rule")], "marked: {marked}");
        let found = finding(&audit, "pass_economics");
        assert_eq!(found.requests, [3]);
        // 182,410 tokens at ten times the price of a read, less the 37,685 that are gone.
        let rewritten: u64 = 182_410;
        let pays_after = (rewritten * 9).div_ceil(37_685);
        assert!(
            found.detail.contains(&format!("pays after {pays_after} requests, and 1 followed")),
            "{}",
            found.detail
        );
    }
}

#[test]
fn a_prompt_without_breakpoints_after_ones_with_them_misses_everything() {
    let audit = Log::of([
        short(0, 219_140),
        Billed { uncached: 955, ..short(219_140, 0) },
        Billed { uncached: 182_410, ..Billed::default() },
    ])
    .audit();
    assert_eq!(audit.sums.miss(Cause::NewContent).tokens, 955);
    assert_eq!(audit.breaks[0].wasted_tokens, 182_410);
    assert_eq!(finding(&audit, "pass_economics").requests, [3]);
}

#[test]
fn a_prune_that_pays_back_is_none() {
    let mut log = Log::of([short(0, 150_000), short(150_000, 1_000)]);
    log.cleared(r#""toolu_1""#, 100_000);
    log.request(short(40_000, 12_000));
    for i in 0..60 {
        log.request(short(52_000 + i * 500, 500));
    }
    let audit = log.audit();
    assert_eq!(causes(&audit), [(3, "prefix_rule")]);
    assert!(!detectors(&audit).contains(&"pass_economics"), "{:?}", audit.findings);
}

#[test]
fn a_date_in_the_system_prompt_breaks_at_midnight() {
    let mut log = Log::new(Some(EVENING_MS));
    log.request(long(22_126, 315_000));
    log.request(long(337_126, 1_000));
    log.pause(1_800_000);
    log.request(long(22_126, 317_874));
    log.request(long(340_000, 800));
    let audit = log.audit();
    assert_eq!(causes(&audit), [(3, "prefix_system")]);
    assert_eq!(finding(&audit, "read_gap_avoidable").requests, [3]);
    // What was cached and not read, at $10 a million written instead of $0.50 read.
    let wasted: u128 = 338_126 - 22_126;
    assert_eq!(audit.breaks[0].wasted_tokens, 316_000);
    assert_eq!(audit.breaks[0].wasted_pusd, Some(wasted * 9_500_000));
    let same_day = Log::of([long(22_126, 315_000), long(337_126, 1_000), long(22_126, 317_874)]).audit();
    assert_ne!(causes(&same_day), [(3, "prefix_system")]);
}

#[test]
fn a_timestamp_in_the_prefix_pins_reads_to_the_static_base() {
    let audit = Log::of((0..12).map(|i| short(18_000, 4_000 + i * 3_500))).audit();
    assert_eq!(audit.breaks.len(), 11);
    assert!(audit.breaks.iter().all(|b| b.cause == Cause::PrefixSystem), "{:?}", causes(&audit));
    assert_eq!(finding(&audit, "floor_pin").requests.len(), 11);
}

#[test]
fn text_injected_in_front_pins_reads_until_a_compaction() {
    let mut log = Log::of((0..9).map(|i| implicit(206_240 + i * 819, 2_432)));
    log.compaction();
    log.request(implicit(31_000, 2_432));
    for i in 0..6 {
        log.request(implicit(32_000 + i * 900, 30_720 + i * 896));
    }
    let audit = log.audit();
    assert_eq!(finding(&audit, "floor_pin").requests, (2..=9).collect::<Vec<u32>>());
    let of = |cause: Cause| audit.sums.miss(cause).requests;
    assert_eq!((of(Cause::PrefixUnknown), of(Cause::ProviderSide)), (8, 0));
}

#[test]
fn a_cliff_on_the_provider_s_side_is_told_from_it() {
    let audit = Log::of((0..40).map(|i| implicit(206_089 + i * 1_200, 10_752))).audit();
    assert!(audit.breaks.is_empty(), "nothing that was written is known");
    assert_eq!(audit.sums.miss(Cause::ProviderSide).requests, 39);
    assert_eq!(finding(&audit, "floor_pin").requests.len(), 39);
    // Healthy up to a size, then stuck for good.
    let cliff = [(11_500, 11_136), (14_800, 14_656), (15_200, 15_104), (28_700, 9_000)];
    let stuck = (1..8).map(|i| implicit(28_700 + i * 2_000, 9_000));
    let audit = Log::of(cliff.into_iter().map(|(p, r)| implicit(p, r)).chain(stuck)).audit();
    assert_eq!(causes(&audit), [(4, "provider_side")]);
    assert_eq!(audit.sums.miss(Cause::PrefixUnknown).requests, 0);
    assert!(detectors(&audit).contains(&"floor_pin"));
}

#[test]
fn an_image_that_becomes_a_file_pointer() {
    let mut log = Log::of([long(0, 230_000), long(230_000, 1_751), long(231_751, 828)]);
    log.image();
    log.request(long(83_834, 158_694));
    for i in 0..5 {
        log.request(long(242_528 + i * 700, 700));
    }
    let audit = log.audit();
    assert_eq!(causes(&audit), [(4, "prefix_image")]);
    assert_eq!(finding(&audit, "pass_economics").requests, [4]);
    assert_eq!(finding(&audit, "read_gap_avoidable").requests, [4]);
}

#[test]
fn evicting_an_image_at_every_image_is_a_saw_tooth() {
    let mut log = Log::of([short(44_771, 205_000)]);
    let (mut cached, mut evictions) = (249_771, 0);
    for i in 0..27 {
        let written = 175_000 + i * 350;
        if i % 6 == 5 {
            log.request(short(cached, 900));
            cached += 900;
        } else {
            log.image();
            log.request(short(44_771, written));
            cached = 44_771 + written;
            evictions += 1;
        }
    }
    assert!(evictions >= 22);
    let audit = log.audit();
    assert_eq!(audit.breaks.len(), evictions);
    assert!(audit.breaks.iter().all(|b| b.cause == Cause::PrefixImage), "{:?}", causes(&audit));
    assert_eq!(finding(&audit, "saw_tooth").requests.len(), evictions);
}

#[test]
fn an_image_message_invalidates_the_whole_history() {
    let mut log = Log::new(Some(EVENING_MS));
    for (i, (prompt, read)) in
        [(54_805, 37_579), (55_072, 53_807), (55_767, 37_579), (64_102, 37_579)].into_iter().enumerate()
    {
        if i > 1 {
            log.image();
        }
        log.request(implicit(prompt, read));
    }
    let audit = log.audit();
    assert_eq!(causes(&audit), [(3, "prefix_image")]);
    assert_eq!(audit.sums.miss(Cause::PrefixImage).requests, 2);
    assert_eq!(finding(&audit, "floor_pin").requests, [3, 4]);
}

#[test]
fn parallel_requests_each_write_the_cache() {
    let start = 1_790_884_865_953;
    let mut log = Log::new(Some(start));
    log.prompt();
    for pause in [0, 762, 800] {
        log.pause(pause);
        log.answer(short(0, 10_553), r#"{"type":"text","text":"one of three"}"#);
    }
    let audit = log.audit();
    assert_eq!(causes(&audit), [(2, "not_yet_readable"), (3, "not_yet_readable")]);
    assert_eq!(finding(&audit, "write_never_read").requests, [1, 2]);
    assert_eq!(finding(&audit, "read_gap_avoidable").requests, [2, 3]);
}

#[test]
fn a_read_refreshes_the_entry_and_life_runs_from_start_to_start() {
    let session = |pauses: &[i64], last: Billed| {
        let mut log = Log::new(Some(EVENING_MS));
        log.request(short(0, 5_861));
        for (i, pause) in pauses.iter().enumerate() {
            // The next request adds ten seconds of its own.
            log.pause(pause - 10_000);
            log.request(if i + 1 < pauses.len() { short(5_861, 0) } else { last });
        }
        log.audit()
    };
    let pinged = session(&[240_000, 242_000], short(5_861, 0));
    assert!(pinged.breaks.is_empty() && pinged.findings.is_empty(), "{:?}", pinged.findings);
    let control = session(&[482_000], short(0, 5_861));
    assert_eq!(causes(&control), [(2, "ttl_expired")]);
    assert_eq!(finding(&control, "read_gap_expiry").requests, [2]);
    // From the end of a long answer it would be less than five minutes.
    let mut log = Log::new(Some(EVENING_MS));
    log.prompt();
    log.pause(60_000);
    log.answer(short(0, 5_861), r#"{"type":"text","text":"a long answer"}"#);
    log.pause(250_000);
    log.prompt();
    log.answer(short(0, 5_900), r#"{"type":"text","text":"another"}"#);
    assert_eq!(causes(&log.audit()), [(2, "ttl_expired")]);
}

#[test]
fn writes_per_plain_token_are_no_churn() {
    let mut cached = 20_000;
    let mut log = Log::of([Billed { short: 20_000, uncached: 15_478, ..Billed::default() }]);
    for _ in 1..100 {
        log.request(Billed { uncached: 59, ..short(cached, 2_500) });
        cached += 2_500;
    }
    let audit = log.audit();
    let usage = audit.sums.usage;
    assert!(usage.cache_write_tokens() / usage.uncached_tokens > 10);
    assert!(audit.breaks.is_empty() && audit.findings.is_empty(), "{:?}", audit.findings);
    let causes = Cause::ALL.iter().filter(|c| audit.sums.miss(**c).tokens > 0).collect::<Vec<_>>();
    assert_eq!(causes, [&Cause::ColdStart, &Cause::NewContent]);
}

#[test]
fn a_timestamp_inside_a_result_breaks_nothing() {
    let session = |content: &dyn Fn(u64) -> String| {
        let mut log = Log::of([short(15_000, 3_000)]);
        for i in 0..20 {
            log.results(&content(i));
            log.request(short(18_000 + i * 400, 400));
        }
        log.audit()
    };
    let plain = session(&|_| r#""ok""#.to_owned());
    let stamped = session(&|i| format!(r#""ok at 2026-10-01T12:00:{i:02}Z""#));
    assert!(plain.breaks.is_empty() && plain.findings.is_empty());
    assert_eq!(plain, stamped);
}
