//! Breaks by the time since the request before.

use super::{Found, counted, dollars, number, numbers, span, wasted};
use crate::audit::judge::{Row, Series};
use crate::cause::Cause;

/// Life of a long entry, Anthropic (docs/sources.md A4).
const LONG_LIFE_MS: i64 = 3_600_000;

/// Breaks within the life of the entry that nobody chose.
pub(super) fn avoidable(series: &Series<'_>) -> Vec<Found> {
    let alive = |row: &Row| row.verdict.gap_ms.is_some_and(|gap| gap < row.life_ms);
    let rows: Vec<usize> = (0..series.rows.len())
        .filter(|i| series.is_notable(*i) && series.is_unforced(*i) && alive(&series.rows[*i]))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let unexplained = rows.iter().filter(|i| {
        let cause = series.rows[**i].cause;
        matches!(cause, Some(Cause::Unknown | Cause::ProviderSide | Cause::PrefixUnknown))
    });
    let unexplained = match unexplained.count() {
        0 => String::new(),
        n => format!("; nothing in the recording explains {}", number(n as u64)),
    };
    let (tokens, usd) = wasted(series, &rows);
    let detail = format!(
        "{} read too little while the entry was alive: {} tokens{} wasted{unexplained}",
        counted(rows.len(), "request"),
        number(tokens),
        dollars(usd),
    );
    vec![Found { requests: numbers(series, &rows), tokens, detail }]
}

/// Breaks after a pause longer than the life of the entry.
pub(super) fn expiry(series: &Series<'_>) -> Vec<Found> {
    let expired = |i: &usize| series.rows[*i].cause == Some(Cause::TtlExpired) && series.is_notable(*i);
    let rows: Vec<usize> = (0..series.rows.len()).filter(expired).collect();
    let gaps = || rows.iter().filter_map(|i| series.rows[*i].verdict.gap_ms);
    let (Some(shortest), Some(longest)) = (gaps().min(), gaps().max()) else { return Vec::new() };
    let (tokens, usd) = wasted(series, &rows);
    let longer_life = rows.iter().filter(|i| {
        let row = &series.rows[**i];
        series.explicit
            && row.life_ms < LONG_LIFE_MS
            && row.verdict.gap_ms.is_some_and(|gap| gap < LONG_LIFE_MS)
    });
    let longer_life = match longer_life.count() {
        0 => String::new(),
        n => format!("; entries that live an hour would have kept {}", number(n as u64)),
    };
    let pauses = match shortest == longest {
        true => format!("a pause of {}", span(longest)),
        false => format!("pauses of {} to {}", span(shortest), span(longest)),
    };
    let detail = format!(
        "{} came after {pauses}, when the entry was gone: {} tokens{} wasted{longer_life}",
        counted(rows.len(), "request"),
        number(tokens),
        dollars(usd),
    );
    vec![Found { requests: numbers(series, &rows), tokens, detail }]
}
