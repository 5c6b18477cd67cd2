//! Patterns over a whole session, each with a name, a meaning and a function.
//!
//! Findings pass over breaks that waste less than a hundredth of the prompt (docs/decisions.md 28).

mod floor;
mod gaps;
mod passes;
mod structure;
mod writes;

use super::judge::Series;
use super::report::Finding;
use crate::metrics::{Usd, group_digits};

/// One detector.
#[derive(Debug)]
pub struct Detector {
    /// Its name in every output.
    pub name: &'static str,
    /// What it finds.
    pub doc: &'static str,
    find: fn(&Series<'_>) -> Vec<Found>,
}

/// What a detector returns.
struct Found {
    /// Numbers of requests, from 1.
    requests: Vec<u32>,
    /// Tokens that it is about; 0 where it is about none.
    tokens: u64,
    /// One sentence.
    detail: String,
}

impl Detector {
    /// What it finds in a session.
    pub fn run(&self, series: &Series<'_>) -> Vec<Finding> {
        let found = (self.find)(series).into_iter();
        found
            .map(|f| Finding {
                detector: self.name,
                requests: f.requests,
                tokens: f.tokens,
                detail: f.detail,
            })
            .collect()
    }
}

macro_rules! detectors {
    ($($name:literal, $find:path, $doc:literal;)*) => {
        /// The table of detectors, in the order of every output.
        pub const DETECTORS: &[Detector] = &[$(Detector { name: $name, doc: $doc, find: $find },)*];
    };
}

detectors! {
    "floor_pin", floor::floor_pin, "the same number of tokens is read while the prompt grows: everything behind is paid again each time";
    "saw_tooth", floor::saw_tooth, "reads recover and fall back to one floor again and again";
    "read_gap_avoidable", gaps::avoidable, "reads fall short although the entry was alive and nobody asked for a change";
    "read_gap_expiry", gaps::expiry, "a pause outlived the cache entry";
    "write_never_read", writes::never_read, "tokens were written to the cache and no later request read them";
    "pass_economics", passes::economics, "an edit of history cost more to write again than the smaller prompt has saved since";
    "structure", structure::structure, "calls and results do not pair";
    "refetch_after_elision", structure::refetch, "what was cleared or compacted away was fetched again";
    "usage_inconsistent", structure::usage, "reported usage contradicts itself";
}

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

/// ` ($1.23)`, or nothing where the price is unknown.
fn dollars(pusd: Option<u128>) -> String {
    pusd.map_or_else(String::new, |pusd| format!(" (${})", Usd(pusd).rounded(2)))
}

/// Sum over rows; unknown if one is.
fn wasted(series: &Series<'_>, rows: &[usize]) -> (u64, Option<u128>) {
    let tokens = rows.iter().map(|i| series.rows[*i].verdict.wasted_tokens).sum();
    (tokens, rows.iter().map(|i| series.wasted_pusd(*i)).sum())
}

/// What rows missed, and what was paid for it.
fn missed(series: &Series<'_>, rows: &[usize]) -> (u64, Option<u128>) {
    let paid = |i: &usize| {
        let row = &series.rows[*i];
        series.price(*i).map(|price| price.split_unread(&row.usage, row.missed_tokens).missed)
    };
    (rows.iter().map(|i| series.rows[*i].missed_tokens).sum(), rows.iter().map(paid).sum())
}

fn numbers(series: &Series<'_>, rows: &[usize]) -> Vec<u32> {
    rows.iter().map(|i| series.number(*i)).collect()
}

/// `1 request`, `2 requests`.
fn counted(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", number(n as u64), if n == 1 { "" } else { "s" })
}

/// A span of time for people: `45 s`, `12 min`, `3.5 h`.
pub(crate) fn span(ms: i64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{}.{} h", seconds / 3_600, seconds % 3_600 / 360),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_are_worded_by_their_size() {
        let words = [(45_000, "45 s"), (119_999, "119 s"), (720_000, "12 min"), (12_600_000, "3.5 h")];
        for (ms, expected) in words {
            assert_eq!(span(ms), expected);
        }
    }
}
