//! Rules on recordings that they were not chosen on.
//!
//! Recordings with explicit breakpoints are dealt into two halves by their place in the order of ids. On each half the rules are chosen
//! that won more pairs there than they lost, and the other half is predicted with those alone.

use super::rules::RULES;
use super::totals::total;
use super::{Fits, Options, SessionReport, validate};
use crate::provider::model::Models;
use crate::session::Session;

/// Pairs of all recordings, each predicted with the rules that the other half chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldOut {
    /// Pairs.
    pub pairs: u64,
    /// Predicted to the token.
    pub exact_reads: u64,
    /// The same by `read + write` alone.
    pub plain_exact_reads: u64,
    /// Recordings on which the rules lose against `read + write`.
    pub sessions_below_plain: u64,
}

/// Predicts each half with the rules that pay on the other one. `sessions` and `reports` belong together, in
/// the order of ids.
pub fn hold_out(
    sessions: &[&Session],
    reports: &[SessionReport],
    models: &Models,
    options: &Options,
) -> HoldOut {
    let mut sum = HoldOut::default();
    let asked = sessions.iter().zip(reports).filter(|(_, report)| report.is_explicit);
    let (sessions, reports): (Vec<&Session>, Vec<&SessionReport>) = asked.map(|(s, r)| (*s, r)).unzip();
    for half in [0, 1] {
        let chosen_on = reports.iter().enumerate().filter(|(i, _)| i % 2 != half).map(|(_, report)| *report);
        let effects = total(chosen_on).rules;
        let pays = |id: &str| effects.get(id).is_some_and(|(won, lost)| won > lost);
        let without = RULES.iter().map(|rule| rule.id).filter(|id| !pays(id)).map(str::to_owned).collect();
        let options = Options { without, ..options.clone() };
        for session in sessions.iter().enumerate().filter(|(i, _)| i % 2 == half).map(|(_, session)| *session)
        {
            let report = validate(session, models, &Fits::default(), &options);
            let one = total([&report]);
            sum.pairs += one.pairs;
            sum.exact_reads += one.exact_reads;
            sum.plain_exact_reads += one.plain_exact_reads;
            sum.sessions_below_plain += u64::from(one.exact_reads < one.plain_exact_reads);
        }
    }
    sum
}
