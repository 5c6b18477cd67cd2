//! Searches a strategy's own parameters: the best values for an objective under constraints, how sure that is, and
//! whether it can be recommended at all.
//!
//! Sessions are split by a hash of their id into those the search learns from and those held out. Every candidate runs
//! on the same sessions, so candidates are compared in pairs, by a bootstrap over sessions ([`crate::stats`]). What is
//! recommended is the middle of the flat region, not the luckiest value, and only if it beats the baseline, the first
//! policy as typed, beyond doubt in both halves.
//!
//! # Divergence from the real API
//!
//! Replay is open-loop (docs/decisions.md 24): a strategy that hides what the agent would have read again is not
//! charged for it, so the optimum of cost alone is on the side of hiding more. Constrain what matters besides.

mod cells;
pub mod output;
mod reproduce;
mod search;
pub mod space;
mod trial;
mod verdict;
pub mod wire;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::gate::Rule;
use crate::metrics::{self, Better, MetricRef};
use crate::policy::{ParamValue, PolicyConfig};
use crate::sim::Summary;

pub use cells::Cells;
pub use reproduce::{Reproduction, reproduce};
pub use search::Method;
pub use space::{Candidate, Space, Wish};
pub use trial::Evaluate;
pub use verdict::{FlatValues, LEAST_SESSIONS, RESAMPLES, Score};

use search::Search;
use trial::{Trial, advance};
use verdict::{Field, Limits, flat_values, fronts, robust};

/// Parts of a whole that [`Settings::holdout_millionths`] counts.
const MILLION: u64 = 1_000_000;

/// What to search for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is made small or large.
    pub objective: MetricRef,
    /// What must hold over the sessions learned from.
    pub constraints: Vec<Rule>,
    /// Most candidates, the policies as typed left out.
    pub trials: usize,
    /// Share of the sessions that is held out.
    pub holdout_millionths: u64,
    /// Root of all draws.
    pub seed: u64,
}

impl Settings {
    /// Checks what was typed.
    ///
    /// # Errors
    /// An unknown metric, one that is no score, or a constraint that needs a baseline.
    pub fn new(objective: &str, constraints: &[String]) -> Result<Settings> {
        let objective = metrics::find(objective)?;
        if objective.metric().better == Better::Neither {
            return Err(Error::Config {
                origin: format!("--objective {}", objective.name()),
                reason: "more of it is neither better nor worse; choose a metric of `ctxsim metrics` that says which"
                    .to_owned(),
            });
        }
        let constraints = constraints.iter().map(|text| text.parse()).collect::<Result<Vec<Rule>>>()?;
        if let Some(relative) = constraints.iter().find(|rule| rule.is_relative()) {
            return Err(Error::Config {
                origin: format!("--subject-to '{relative}'"),
                reason: "a constraint is about a value; write METRIC >= NUMBER".to_owned(),
            });
        }
        Ok(Settings { objective, constraints, trials: 200, holdout_millionths: 300_000, seed: 0 })
    }

    /// Whether a session is held out: by its id alone, so that it stays so in every run.
    pub fn holds_out(&self, session_id: &str) -> bool {
        xxh3_64(session_id.as_bytes()) % MILLION < self.holdout_millionths
    }
}

/// A candidate as reported.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Name in results; a policy as ctxsim takes it.
    pub label: String,
    /// The policy with its values.
    pub config: PolicyConfig,
    /// The searched parameters, by full name.
    pub params: Vec<(String, ParamValue)>,
    /// Sums over the sessions learned from, as far as it was run.
    pub total: Summary,
    /// On these sessions.
    pub training: Score,
    /// On the sessions held out.
    pub held_out: Option<Score>,
    /// It was run on all sessions learned from.
    pub is_full: bool,
    /// Why it does not count.
    pub broken: Option<String>,
}

/// Cost against another metric.
#[derive(Debug, Clone)]
pub struct Front {
    /// The other metric.
    pub metric: MetricRef,
    /// Indexes of candidates, by ascending cost.
    pub members: Vec<usize>,
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// What was asked for.
    pub settings: Settings,
    /// How candidates were chosen.
    pub method: Method,
    /// Everything tried: first the policies as typed, of which the first is the baseline.
    pub tried: Vec<Tried>,
    /// The best one on the sessions learned from.
    pub best: Option<usize>,
    /// What to use, or why nothing is recommended.
    pub recommended: std::result::Result<usize, String>,
    /// Candidates that cannot be told from the best.
    pub flat: Vec<usize>,
    /// The values among them.
    pub flat_values: Vec<FlatValues>,
    /// Fronts of cost against other metrics.
    pub fronts: Vec<Front>,
    /// Sessions learned from.
    pub training_sessions: usize,
    /// Sessions held out.
    pub held_out_sessions: usize,
    /// Sessions that the baseline does not finish; they are left out.
    pub left_out_sessions: usize,
    /// Everything was run.
    pub complete: bool,
}

/// Searches `space` on the sessions with these ids.
///
/// # Errors
/// Those of the evaluator.
pub fn tune(space: Space, settings: Settings, ids: &[&str], evaluate: &mut dyn Evaluate) -> Result<Tuned> {
    let baseline = space.config(&Candidate { base: 0, values: Vec::new() });
    let all: Vec<usize> = (0..ids.len()).collect();
    let mut finished = vec![false; ids.len()];
    let mut violations = 0;
    let began = evaluate.run(&[baseline], &all, &mut |_, session, summary| {
        finished[session] = summary.stop_reason.is_none();
        if !settings.holds_out(ids[session]) {
            violations += summary.violations;
        }
    })?;
    let (held_out, mut order): (Vec<usize>, Vec<usize>) =
        all.iter().copied().filter(|i| finished[*i]).partition(|i| settings.holds_out(ids[*i]));
    // A part of the order is then a sample of all, and the same one for the same sessions.
    order.sort_by_key(|i| {
        (crate::seed::derive(settings.seed, "tune.order", &[xxh3_64(ids[*i].as_bytes())]), *i)
    });
    let limits = Limits {
        higher_is_better: settings.objective.metric().better == Better::Higher,
        rules: settings.constraints.clone(),
        violations,
    };
    let mut search = Search {
        space,
        evaluate,
        objective: settings.objective,
        limits: limits.clone(),
        order,
        trials: settings.trials,
        seed: settings.seed,
        tried: Vec::new(),
        complete: began,
    };
    let method = search.run()?;
    let mut checked: Vec<Trial> =
        search.tried.iter().map(|trial| Trial::new(trial.candidate.clone(), trial.label.clone())).collect();
    search.complete &=
        check(&mut search.space, search.evaluate, &settings, &search.tried, &mut checked, &held_out)?;
    let mut tuned = judge(search, &checked, &limits, settings, method, held_out.len());
    tuned.left_out_sessions = finished.iter().filter(|f| !**f).count();
    Ok(tuned)
}

/// Runs everything that was learned in full on the sessions held out.
fn check(
    space: &mut Space,
    evaluate: &mut dyn Evaluate,
    settings: &Settings,
    tried: &[Trial],
    checked: &mut [Trial],
    held_out: &[usize],
) -> Result<bool> {
    let full = tried.first().map_or(0, Trial::sessions);
    let chosen = checked.iter_mut().zip(tried).filter(|(_, trial)| trial.sessions() == full);
    let mut trials: Vec<(&mut Trial, PolicyConfig)> = chosen
        .map(|(checked, _)| {
            let config = space.config(&checked.candidate);
            (checked, config)
        })
        .collect();
    advance(evaluate, settings.objective, &mut trials, held_out, held_out.len())
}

fn judge(
    search: Search<'_>,
    checked: &[Trial],
    limits: &Limits,
    settings: Settings,
    method: Method,
    held_out_sessions: usize,
) -> Tuned {
    let (space, tried, complete) = (search.space, search.tried, search.complete);
    let training_sessions = search.order.len();
    let full: Vec<usize> = (0..tried.len()).filter(|i| tried[*i].sessions() == training_sessions).collect();
    let field = Field::new(full.iter().map(|i| &tried[*i]).collect(), limits, settings.seed, "tune.training");
    let mirror =
        Field::new(full.iter().map(|i| &checked[*i]).collect(), limits, settings.seed, "tune.held_out");
    let best = field.best();
    let flat = best.map(|best| field.flat(best)).unwrap_or_default();
    let recommended = match complete {
        true => recommend(&field, &mirror, best, &flat, &space, limits),
        false => Err("the search was interrupted".to_owned()),
    };
    let report = |(i, trial): (usize, &Trial)| {
        let place = full.iter().position(|f| *f == i);
        Tried {
            label: trial.label.clone(),
            config: space.config(&trial.candidate),
            params: space.params(&trial.candidate),
            total: trial.total.clone(),
            training: place.map_or_else(|| partial(trial), |place| field.score(place)),
            held_out: place.filter(|_| held_out_sessions > 0).map(|place| mirror.score(place)),
            is_full: place.is_some(),
            broken: limits.broken_by(trial),
        }
    };
    let fronts = fronts(&field.trials, limits).into_iter().map(|front| Front {
        metric: front.metric,
        members: front.members.iter().map(|i| full[*i]).collect(),
    });
    Tuned {
        method,
        best: best.map(|i| full[i]),
        recommended: recommended.map(|i| full[i]),
        flat: flat.iter().map(|i| full[*i]).collect(),
        flat_values: flat_values(&field.trials, &flat, &space),
        fronts: fronts.collect(),
        tried: tried.iter().enumerate().map(report).collect(),
        training_sessions,
        held_out_sessions,
        left_out_sessions: 0,
        complete,
        settings,
    }
}

fn partial(trial: &Trial) -> Score {
    Score {
        sessions: trial.sessions(),
        value: trial.column.pooled(),
        interval: None,
        gain: None,
        versus: None,
    }
}

/// The middle of the flat region, as far as it beats the baseline beyond doubt.
fn recommend(
    field: &Field<'_>,
    mirror: &Field<'_>,
    best: Option<usize>,
    flat: &[usize],
    space: &Space,
    limits: &Limits,
) -> std::result::Result<usize, String> {
    if field.trials[0].sessions() == 0 {
        return Err("the baseline finishes no session that is not held out".to_owned());
    }
    let Some(best) = best else {
        return Err(
            "no candidate keeps to the constraints and finishes what the baseline finishes".to_owned()
        );
    };
    let middle = |choice: &[usize]| robust(&field.trials, choice, flat, best, space, limits).unwrap_or(best);
    if limits.broken_by(field.trials[0]).is_some() {
        // There is nothing to beat: the baseline is not allowed.
        return Ok(middle(flat));
    }
    if best == 0 {
        return Err("the baseline is the best of all that was tried".to_owned());
    }
    if !field.is_large() {
        let sessions = field.trials[0].sessions();
        return Err(format!(
            "{sessions} sessions to learn from are too few to tell a difference from chance; {LEAST_SESSIONS} are the least"
        ));
    }
    let separable = field.separable();
    let sure: Vec<usize> = flat.iter().copied().filter(|i| separable[*i]).collect();
    if sure.is_empty() {
        return Err("the intervals overlap: on the sessions learned from, nothing is better than the baseline beyond \
                    the noise between sessions"
            .to_owned());
    }
    let chosen = middle(&sure);
    match holds(mirror, chosen, limits) {
        true => Ok(chosen),
        false => Err(format!(
            "{} is better than the baseline on the sessions learned from, but not beyond doubt on those held out",
            field.trials[chosen].label
        )),
    }
}

/// Whether the held-out sessions agree. A few must have a gain; enough of them a sure one.
fn holds(mirror: &Field<'_>, chosen: usize, limits: &Limits) -> bool {
    let score = mirror.score(chosen);
    if mirror.trials[chosen].unfinished > 0 {
        return false;
    }
    match (score.sessions, score.versus) {
        (0, _) => true,
        (_, Some(paired)) => {
            let ends = [paired.difference_interval.low, paired.difference_interval.high];
            ends.iter().all(|end| limits.loss(*end) < 0.0)
        }
        (_, None) => score.gain.is_some_and(|gain| gain > 0.0),
    }
}
