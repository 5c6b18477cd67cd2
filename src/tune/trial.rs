//! Candidates as measured: each on a growing number of sessions.

use crate::error::Result;
use crate::metrics::MetricRef;
use crate::policy::PolicyConfig;
use crate::sim::Summary;
use crate::stats::Column;

use super::space::Candidate;

/// Runs strategies on sessions.
pub trait Evaluate {
    /// Runs every policy on every session (by index) and hands each summary over with the places of its policy and
    /// session in these lists; the sessions of a policy come in order. Returns whether all were run.
    ///
    /// # Errors
    /// A policy that does not fit the model of a session.
    fn run(
        &mut self,
        policies: &[PolicyConfig],
        sessions: &[usize],
        sink: &mut dyn FnMut(usize, usize, &Summary),
    ) -> Result<bool>;
}

/// One candidate and what is known of it.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What was run.
    pub candidate: Candidate,
    /// Its name in results.
    pub label: String,
    /// What each session gives to the objective, in the order of the search.
    pub column: Column,
    /// Sums over these sessions.
    pub total: Summary,
    /// Sessions among them that did not reach their end.
    pub unfinished: usize,
}

impl Trial {
    /// Nothing is known yet.
    pub fn new(candidate: Candidate, label: String) -> Trial {
        Trial { candidate, label, column: Column::default(), total: Summary::default(), unfinished: 0 }
    }

    /// Sessions it was run on.
    pub fn sessions(&self) -> usize {
        self.column.len()
    }

    /// Adds a session.
    pub fn add(&mut self, objective: MetricRef, summary: &Summary) {
        self.column.push(objective.share(summary));
        self.total.add(summary);
        self.unfinished += usize::from(summary.stop_reason.is_some());
    }
}

/// Brings `trials` forward to the first `count` sessions of `order`. Returns whether all were run; those that were not
/// stay where they were.
///
/// # Errors
/// Those of the evaluator.
pub fn advance(
    evaluate: &mut dyn Evaluate,
    objective: MetricRef,
    trials: &mut [(&mut Trial, PolicyConfig)],
    order: &[usize],
    count: usize,
) -> Result<bool> {
    let mut complete = true;
    let mut from: Vec<usize> = trials.iter().map(|(trial, _)| trial.sessions()).collect();
    from.sort_unstable();
    from.dedup();
    for from in from.into_iter().filter(|from| *from < count) {
        let mut group: Vec<(Trial, &mut (&mut Trial, PolicyConfig))> = trials
            .iter_mut()
            .filter(|(trial, _)| trial.sessions() == from)
            .map(|pair| (pair.0.clone(), pair))
            .collect();
        let policies: Vec<PolicyConfig> = group.iter().map(|(_, pair)| pair.1.clone()).collect();
        let done = evaluate.run(&policies, &order[from..count], &mut |policy, _, summary| {
            group[policy].0.add(objective, summary);
        })?;
        complete &= done;
        for (advanced, pair) in group.into_iter().filter(|(t, _)| t.sessions() == count) {
            *pair.0 = advanced;
        }
    }
    Ok(complete)
}
