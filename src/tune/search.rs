//! Which candidates are run, and on how many sessions.
//!
//! A grid within the number of trials is run in full. A larger one is sampled, and halved again and again: in each
//! round the better half goes on to twice as many sessions, so that every round costs about the same. What is left is
//! refined: from the best one, steps to the values next to it along each parameter, and halfway to them, until nothing
//! is better. Tree-structured estimators and evolution were tried beside it (benches/tune.rs) and need more runs for less.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::metrics::MetricRef;
use crate::policy::PolicyConfig;
use crate::seed;

use super::space::{Candidate, Space};
use super::trial::{Evaluate, Trial, advance};
use super::verdict::Limits;

/// Candidates that are run on all sessions when a large grid was halved.
const FINALISTS: usize = 8;

/// Fewest sessions of a round.
const LEAST_SESSIONS: usize = 4;

/// Rounds of refinement: each halves the distance at least once.
const REFINEMENTS: usize = 12;

/// How the candidates were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// All of the grid.
    Exhaustive,
    /// A sample of it, halved over sessions.
    Halving,
}

impl Method {
    /// The name used in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhaustive => "exhaustive",
            Self::Halving => "successive_halving",
        }
    }
}

/// A search under way.
pub struct Search<'a> {
    /// What is searched; refinement adds values.
    pub space: Space,
    /// Runs the cells.
    pub evaluate: &'a mut dyn Evaluate,
    /// What is made small or large.
    pub objective: MetricRef,
    /// What must hold besides.
    pub limits: Limits,
    /// Sessions to learn from, in the order of the search.
    pub order: Vec<usize>,
    /// Most candidates.
    pub trials: usize,
    /// Root of the draws.
    pub seed: u64,
    /// Everything that was run; the policies as typed come first.
    pub tried: Vec<Trial>,
    /// Everything asked for was run.
    pub complete: bool,
}

impl Search<'_> {
    /// Runs the search. Trials with all sessions of `order` are comparable.
    ///
    /// # Errors
    /// Those of the evaluator.
    pub fn run(&mut self) -> Result<Method> {
        let typed: Vec<Candidate> = self.space.as_typed().collect();
        let typed = self.admit(typed);
        self.advance(&typed, self.order.len())?;
        let grid = self.space.grid_len();
        let room = self.trials as u64;
        let method = if grid <= room { Method::Exhaustive } else { Method::Halving };
        let start: Vec<Candidate> = match method {
            Method::Exhaustive => (0..grid).filter_map(|i| self.space.grid_point(i)).collect(),
            // A third of the trials is left for refinement.
            Method::Halving => self.sample(grid, self.trials - self.trials / 3),
        };
        let start = self.admit(start);
        match method {
            Method::Exhaustive => self.advance(&start, self.order.len())?,
            Method::Halving => self.halve(start)?,
        }
        self.refine()?;
        Ok(method)
    }

    /// Different points of the grid, drawn without regard to their order.
    fn sample(&self, grid: u64, count: usize) -> Vec<Candidate> {
        let mut rng = seed::stream(self.seed, "tune.sample", &[]);
        let mut drawn: BTreeSet<u64> = BTreeSet::new();
        while drawn.len() < count.min(usize::try_from(grid).unwrap_or(usize::MAX)) {
            drawn.insert(seed::below(&mut rng, grid));
        }
        drawn.into_iter().filter_map(|i| self.space.grid_point(i)).collect()
    }

    /// Takes new candidates in; gives the places of all of them.
    fn admit(&mut self, candidates: Vec<Candidate>) -> Vec<usize> {
        let mut places = Vec::new();
        for candidate in candidates {
            let known = self.tried.iter().position(|t| t.candidate == candidate);
            places.push(known.unwrap_or_else(|| {
                let label = self.space.config(&candidate).label;
                self.tried.push(Trial::new(candidate, label));
                self.tried.len() - 1
            }));
        }
        places
    }

    fn advance(&mut self, places: &[usize], count: usize) -> Result<()> {
        let space = &self.space;
        let chosen = self.tried.iter_mut().enumerate().filter(|(i, _)| places.contains(i));
        let mut trials: Vec<(&mut Trial, PolicyConfig)> = chosen
            .map(|(_, trial)| {
                let config = space.config(&trial.candidate);
                (trial, config)
            })
            .collect();
        self.complete &= advance(self.evaluate, self.objective, &mut trials, &self.order, count)?;
        Ok(())
    }

    fn halve(&mut self, mut places: Vec<usize>) -> Result<()> {
        let all = self.order.len();
        while self.complete {
            let sessions = (all * FINALISTS / places.len().max(1)).clamp(LEAST_SESSIONS.min(all), all);
            self.advance(&places, sessions)?;
            if sessions == all {
                break;
            }
            self.rank(&mut places, sessions);
            places.truncate(places.len().div_ceil(2).max(FINALISTS.min(places.len())));
            if places.len() <= FINALISTS {
                self.advance(&places, all)?;
                break;
            }
        }
        Ok(())
    }

    /// Best first. Candidates that break a limit come after those that do not; equal ones as they were.
    fn rank(&self, places: &mut [usize], sessions: usize) {
        let baseline = self.tried[0].column.first(sessions);
        let baseline_value = baseline.pooled().unwrap_or_default();
        let key = |place: usize| {
            let trial = &self.tried[place];
            let value = trial.column.first(sessions).pooled();
            let loss = value.map_or(f64::INFINITY, |value| self.limits.loss(value - baseline_value));
            (self.limits.broken_by(trial).is_some(), loss)
        };
        places.sort_by(|a, b| {
            let (a, b) = (key(*a), key(*b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
    }

    /// Steps to better neighbours, and between them, until there is none or the trials are used up.
    fn refine(&mut self) -> Result<()> {
        for _ in 0..REFINEMENTS {
            let mut full: Vec<usize> =
                (0..self.tried.len()).filter(|i| self.tried[*i].sessions() == self.order.len()).collect();
            self.rank(&mut full, self.order.len());
            let Some(best) = full.first().filter(|_| self.complete) else { break };
            let mut centre = self.tried[*best].candidate.clone();
            if centre.values.is_empty() {
                centre.values = self.space.params(&centre).into_iter().map(|(_, value)| value).collect();
            }
            let room = (self.trials + self.space.bases.len()).saturating_sub(self.tried.len());
            let mut around = self.next_to(&centre, self.tried[*best].column.pooled());
            around.truncate(room);
            if around.is_empty() {
                break;
            }
            around.iter().for_each(|candidate| self.space.admit(candidate));
            let places = self.admit(around);
            self.advance(&places, self.order.len())?;
        }
        Ok(())
    }

    /// What is still to be run around a candidate: its neighbours, and the values between. Between two that come to the
    /// same there is nothing to look for.
    fn next_to(&self, centre: &Candidate, value: Option<f64>) -> Vec<Candidate> {
        let all = self.order.len();
        let known = |c: &Candidate| self.tried.iter().find(|t| t.candidate == *c && t.sessions() == all);
        let mut found = Vec::new();
        for (neighbour, between) in self.space.around(centre) {
            match known(&neighbour) {
                None => found.push(neighbour),
                Some(trial) if trial.column.pooled() != value => {
                    found.extend(between.filter(|candidate| known(candidate).is_none()));
                }
                Some(_) => {}
            }
        }
        found
    }
}
