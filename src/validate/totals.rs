//! Sums over recordings.

use std::collections::BTreeMap;

use super::{Pair, SessionReport};
use crate::metrics::Rate;
use crate::stats::Quantiles;

/// What one or several recordings add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Total {
    /// Recordings.
    pub sessions: u64,
    /// Requests with usage.
    pub requests: u64,
    /// Pairs.
    pub pairs: u64,
    /// Pairs whose read is predicted to the token.
    pub exact_reads: u64,
    /// Pairs whose write is.
    pub exact_writes: u64,
    /// Pairs that `read + write` alone predicts.
    pub plain_exact_reads: u64,
    /// Pairs with a difference that nothing but the read tells of.
    pub unexplained: u64,
    /// Pairs by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// How far off the predicted reads are, in tokens.
    pub read_abs_error: Quantiles,
    /// Input side of the bill, in pico-dollars: as recorded, and as predicted. `None` where a price is not
    /// known.
    pub cost_pusd: Option<(u128, u128)>,
    /// Size of the cost's error per recording with a price, in millionths.
    pub cost_error_abs: Quantiles,
    /// Open loop: error of each prompt, in millionths.
    pub prompt_error: Quantiles,
    /// Open loop: error at the last request of each run, in millionths.
    pub final_prompt_error: Quantiles,
    /// By rule: pairs that it alone made exact, and pairs that were exact without it.
    pub rules: BTreeMap<&'static str, (u64, u64)>,
}

impl Total {
    /// Share of all pairs.
    pub fn share(&self, pairs: u64) -> Rate {
        Rate::of(u128::from(pairs), u128::from(self.pairs))
    }
}

/// Adds recordings up.
pub fn total<'r>(reports: impl IntoIterator<Item = &'r SessionReport>) -> Total {
    let reports: Vec<&SessionReport> = reports.into_iter().collect();
    let pairs: Vec<&Pair> = reports.iter().flat_map(|report| &report.pairs).collect();
    let count = |is: fn(&Pair) -> bool| pairs.iter().filter(|pair| is(pair)).count() as u64;
    let (mut causes, mut rules) = (BTreeMap::new(), BTreeMap::new());
    for pair in &pairs {
        if let Some(cause) = pair.cause {
            *causes.entry(cause).or_default() += 1;
        }
        if let Some(rule) = pair.rule {
            let (won, lost): &mut (u64, u64) = rules.entry(rule).or_default();
            *won += u64::from(pair.is_exact() && !pair.is_plain_exact());
            *lost += u64::from(pair.is_plain_exact() && !pair.is_exact());
        }
    }
    let costs: Vec<(u128, u128)> = reports.iter().filter_map(|report| cost_of(report)).collect();
    let errors =
        costs.iter().filter_map(|(recorded, simulated)| Rate::of(recorded.abs_diff(*simulated), *recorded).0);
    let sum = |cost: fn(&(u128, u128)) -> u128| costs.iter().map(cost).sum();
    Total {
        sessions: reports.len() as u64,
        requests: reports.iter().map(|report| report.requests).sum(),
        pairs: pairs.len() as u64,
        exact_reads: count(Pair::is_exact),
        exact_writes: count(Pair::is_write_exact),
        plain_exact_reads: count(Pair::is_plain_exact),
        unexplained: count(Pair::is_unexplained),
        causes,
        read_abs_error: Quantiles::of(
            pairs.iter().map(|pair| pair.read_tokens.abs_diff(pair.predicted_read_tokens)),
        ),
        cost_pusd: (!costs.is_empty()).then(|| (sum(|cost| cost.0), sum(|cost| cost.1))),
        cost_error_abs: Quantiles::of(errors),
        prompt_error: Quantiles::of(reports.iter().flat_map(|r| r.open_loop.error_micros.iter().copied())),
        final_prompt_error: Quantiles::of(reports.iter().flat_map(|r| r.open_loop.final_error_micros())),
        rules,
    }
}

/// Input side of the bill of one recording in pico-dollars, as recorded and as predicted; `None` where a price
/// is not known.
pub fn cost_of(report: &SessionReport) -> Option<(u128, u128)> {
    report.pairs.iter().try_fold((0, 0), |(recorded, simulated), pair| {
        pair.cost_pusd.map(|cost| (recorded + cost.0, simulated + cost.1))
    })
}
