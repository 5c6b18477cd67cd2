//! Reads that are stuck at a floor, or keep falling back to one.

use std::collections::BTreeMap;

use super::{Found, counted, dollars, missed, number, numbers, wasted};
use crate::audit::judge::{PINNED_REQUESTS, Series};
use crate::cause::Cause;

/// Part of the last prompt that must be missed for a plateau to matter: one in this many.
const MATTERS: u64 = 5;

/// A run of equal reads over a growing prompt. Two are enough where an earlier request had read the same.
pub(super) fn floor_pin(series: &Series<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for run in series.plateaus() {
        let floor = series.read(run.start);
        let last = run.end - 1;
        let returns = floor > 0 && (0..run.start).any(|i| series.read(i) == floor);
        let rows: Vec<usize> =
            run.clone().filter(|i| series.is_unforced(*i) && series.rows[*i].missed_tokens > 0).collect();
        let is_run = run.len() >= PINNED_REQUESTS || returns;
        if !is_run || rows.len() < 2 || series.rows[last].missed_tokens * MATTERS < series.prompt(last) {
            continue;
        }
        let (tokens, paid) = missed(series, &rows);
        let detail = format!(
            "{} in a row read {} tokens while the prompt grew from {} to {}: {} tokens{} were paid again; {}",
            counted(run.len(), "request"),
            number(floor),
            number(series.prompt(run.start)),
            number(series.prompt(last)),
            number(tokens),
            dollars(paid),
            why(series, &rows),
        );
        found.push(Found { requests: numbers(series, &rows), tokens, detail });
    }
    found
}

/// Several breaks that read the same, with recoveries between them, or without the prompt growing.
pub(super) fn saw_tooth(series: &Series<'_>) -> Vec<Found> {
    let mut by_floor: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for i in (0..series.rows.len()).filter(|i| series.is_unforced(*i) && series.is_notable(*i)) {
        by_floor.entry(series.read(i)).or_default().push(i);
    }
    let mut found = Vec::new();
    for (floor, rows) in by_floor.into_iter().filter(|(_, rows)| rows.len() >= PINNED_REQUESTS) {
        let recovers = rows.windows(2).any(|w| w[1] > w[0] + 1);
        let grows = series.prompt(rows[rows.len() - 1]) > series.prompt(rows[0]);
        if !recovers && grows {
            continue;
        }
        let (tokens, usd) = wasted(series, &rows);
        let detail = format!(
            "reads fell back to {} tokens {} times: {} tokens{} were paid again; {}",
            number(floor),
            number(rows.len() as u64),
            number(tokens),
            dollars(usd),
            why(series, &rows),
        );
        found.push(Found { requests: numbers(series, &rows), tokens, detail });
    }
    found
}

/// What most of the misses have in common.
fn why(series: &Series<'_>, rows: &[usize]) -> &'static str {
    let having = |cause: Cause| rows.iter().filter(|i| series.rows[**i].cause == Some(cause)).count() * 2;
    match rows.len() {
        n if having(Cause::ProviderSide) > n => {
            "the recording shows no change: it is the provider, or what is not recorded (tools, system prompt)"
        }
        n if having(Cause::PrefixImage) > n => "images come or go each time",
        _ => "the prompt behind that place changes each time",
    }
}
