//! Cache breaks told from usage alone, on series of public bug reports.

use ctxsim::provider::classify::{UsageRow, classify, floor_tokens};

fn rows(series: &[(u64, u64, u64)]) -> Vec<UsageRow> {
    let row = |&(cache_read_tokens, cache_write_tokens, uncached_tokens): &(u64, u64, u64)| UsageRow {
        cache_read_tokens,
        cache_write_tokens,
        uncached_tokens,
        at_ms: None,
    };
    series.iter().map(row).collect()
}

#[test]
fn a_healthy_session_has_no_breaks_however_much_it_writes_per_plain_token() {
    // 19,371 plain tokens, 15,478 of them in the first of 67 requests, the rest 59 a turn on average.
    let mut series = vec![(0, 20_000, 15_478)];
    for turn in 0..66 {
        let (read, write, _) = series[turn];
        series.push((read + write, 7_500, if turn < 65 { 59 } else { 3_893 - 65 * 59 }));
    }
    let rows = rows(&series);
    let (write, plain) =
        rows.iter().fold((0, 0), |(w, u), r| (w + r.cache_write_tokens, u + r.uncached_tokens));
    assert_eq!(plain, 19_371);
    assert!(write / plain > 20, "writes per plain token look like churn: {}", write / plain);
    let verdicts = classify(&rows);
    assert!(verdicts.iter().all(|v| !v.is_break && !v.side_read && v.wasted_tokens == 0));
}

#[test]
fn requests_that_snap_back_to_the_floor_are_marked() {
    // The report leaves turns 12 to 16 out; the one before turn 17 had 101,974 tokens cached.
    let series = [
        (52_287, 5_256, 0),
        (57_543, 17_263, 0),
        (74_806, 9_638, 0),
        (56_081, 19_395, 0),
        (75_476, 14_450, 0),
        (56_081, 38_128, 0),
        (56_081, 31_249, 0),
        (87_330, 4_638, 0),
        (56_081, 30_264, 0),
        (86_345, 966, 0),
        (56_081, 39_406, 0),
        (95_487, 101_974 - 95_487, 0),
        (56_081, 44_383, 0),
    ];
    let turn = |index: usize| if index == 12 { 17 } else { index + 1 };
    let rows = rows(&series);
    let verdicts = classify(&rows);
    let breaks: Vec<usize> = (0..rows.len()).filter(|&i| verdicts[i].is_break).map(turn).collect();
    assert_eq!(breaks, [4, 6, 7, 9, 11, 17]);
    assert!(verdicts.iter().all(|v| v.is_break == v.at_floor));
    assert_eq!(floor_tokens(&rows, &verdicts), 56_081);
    let wasted: Vec<u64> = verdicts.iter().filter(|v| v.is_break).map(|v| v.wasted_tokens).collect();
    // What was cached, or the whole prompt where that is less, without what was read.
    let expected = [75_476 - 56_081, 33_845, 31_249, 30_264, 87_311 - 56_081, 44_383];
    assert_eq!(wasted, expected);
    assert_eq!(verdicts[1].expected_read_tokens, Some(57_543));
}

#[test]
fn gaps_side_reads_and_an_empty_series_are_told() {
    assert!(classify(&[]).is_empty());
    let mut two = rows(&[(0, 100, 0), (250, 10, 5)]);
    (two[0].at_ms, two[1].at_ms) = (Some(1_000), Some(301_000));
    let verdicts = classify(&two);
    assert!(verdicts[1].side_read && !verdicts[1].is_break);
    assert_eq!((verdicts[0].gap_ms, verdicts[1].gap_ms), (None, Some(300_000)));
}
