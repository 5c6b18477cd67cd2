//! What the measurements say: limits, the best, the flat region around it, Pareto fronts, and whether to recommend.

use crate::gate::rule::{Rule, exact};
use crate::metrics::{self, Better, MetricRef};
use crate::stats::{self, Interval, Paired, Resamples};

use super::space::Space;
use super::trial::Trial;

/// Resamples of every interval.
pub const RESAMPLES: usize = 1_000;

/// Fewest sessions whose interval decides anything; fewer tell too little of their kind.
pub const LEAST_SESSIONS: usize = 6;

/// What cost is weighed against: metric, and whether more is better.
const FRONTS: [&str; 3] = ["peak_prompt_tokens", "hit_rate", "summarizer_calls"];

/// What a candidate must keep to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// More of the objective is better.
    pub higher_is_better: bool,
    /// `--subject-to`.
    pub rules: Vec<Rule>,
    /// Broken plans of the baseline: no candidate may have more.
    pub violations: u64,
}

impl Limits {
    /// A difference of the objective as a loss.
    pub fn loss(&self, difference: f64) -> f64 {
        if self.higher_is_better { -difference } else { difference }
    }

    /// Why a candidate does not count, if so, by its sums over the sessions it was run on.
    pub fn broken_by(&self, trial: &Trial) -> Option<String> {
        let total = &trial.total;
        if trial.unfinished > 0 {
            let sessions = trial.unfinished;
            return Some(format!("stops early in {sessions} of the sessions that the baseline finishes"));
        }
        if total.violations > self.violations {
            return Some(format!("breaks {} plans, the baseline {}", total.violations, self.violations));
        }
        let broken = self.rules.iter().find(|rule| !rule.holds(None, exact(rule.metric.value(total))))?;
        Some(format!("{} is {}, against {broken}", broken.metric.name(), broken.metric.value(total)))
    }
}

/// A candidate on some sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Number of sessions.
    pub sessions: usize,
    /// The objective.
    pub value: Option<f64>,
    /// Of the objective, by bootstrap over sessions.
    pub interval: Option<Interval>,
    /// What it is better by than the baseline, whichever way is better.
    pub gain: Option<f64>,
    /// Against the baseline, on the same sessions.
    pub versus: Option<Paired>,
}

/// Trials over the same sessions; the first is the baseline.
pub struct Field<'a> {
    /// The trials.
    pub trials: Vec<&'a Trial>,
    limits: &'a Limits,
    sessions: usize,
    /// The objective of each trial in each resample.
    drawn: Vec<Vec<Option<f64>>>,
}

impl<'a> Field<'a> {
    /// Draws the sessions anew, for all trials alike.
    pub fn new(trials: Vec<&'a Trial>, limits: &'a Limits, seed: u64, purpose: &str) -> Field<'a> {
        let sessions = trials.first().map_or(0, |trial| trial.sessions());
        let resamples = Resamples::draw(seed, purpose, sessions, RESAMPLES);
        let drawn = trials.iter().map(|trial| resamples.scores(&trial.column)).collect();
        Field { trials, limits, sessions, drawn }
    }

    /// Whether there are enough sessions for an interval to decide anything.
    pub fn is_large(&self) -> bool {
        self.sessions >= LEAST_SESSIONS
    }

    fn loss(&self, i: usize) -> Option<f64> {
        self.trials[i].column.pooled().map(|value| self.limits.loss(value))
    }

    fn allows(&self, i: usize) -> bool {
        self.limits.broken_by(self.trials[i]).is_none()
    }

    /// Losses of a trial against another one, in each resample.
    fn losses(&self, i: usize, other: usize) -> impl Iterator<Item = Option<f64>> {
        let differences = stats::differences(&self.drawn[i], &self.drawn[other]);
        differences.into_iter().map(|d| d.map(|d| self.limits.loss(d)))
    }

    /// How a trial does.
    pub fn score(&self, i: usize) -> Score {
        let drawn = |i: usize| (&self.trials[i].column, self.drawn[i].as_slice());
        let versus = (self.is_large() && i > 0)
            .then(|| stats::paired(drawn(i), drawn(0), self.limits.higher_is_better))
            .flatten();
        Score {
            sessions: self.sessions,
            value: self.trials[i].column.pooled(),
            interval: self.is_large().then(|| stats::interval(self.drawn[i].iter().copied())).flatten(),
            gain: self.loss(0).zip(self.loss(i)).map(|(base, own)| base - own),
            versus,
        }
    }

    /// The best of those that keep to the limits; of equal ones the first.
    pub fn best(&self) -> Option<usize> {
        let allowed = (0..self.trials.len()).filter(|i| self.allows(*i));
        let scored = allowed.filter_map(|i| Some((i, self.loss(i)?)));
        scored.reduce(|best, next| if next.1 < best.1 { next } else { best }).map(|(i, _)| i)
    }

    /// Those that keep to the limits and cannot be told from the best one: the interval of the paired difference has
    /// zero in it.
    pub fn flat(&self, best: usize) -> Vec<usize> {
        let near = |i: usize| stats::interval(self.losses(i, best)).is_some_and(|loss| loss.low <= 0.0);
        (0..self.trials.len()).filter(|i| *i == best || (self.allows(*i) && near(*i))).collect()
    }

    /// Whether each trial is better than the baseline beyond doubt, although all of them were looked at.
    pub fn separable(&self) -> Vec<bool> {
        let gains = |i: usize| -> Option<Vec<f64>> { self.losses(i, 0).map(|d| d.map(|d| -d)).collect() };
        let measured = |i: usize| Some((i, self.loss(0)? - self.loss(i)?, gains(i)?));
        let mut known: Vec<(usize, f64)> = Vec::new();
        let mut drawn: Vec<Vec<f64>> = Vec::new();
        for (i, gain, draws) in (0..self.trials.len()).filter_map(measured) {
            known.push((i, gain));
            drawn.push(draws);
        }
        let observed: Vec<f64> = known.iter().map(|(_, gain)| *gain).collect();
        let bounds = stats::simultaneous_lower_bounds(&observed, &drawn, self.sessions);
        let mut out = vec![false; self.trials.len()];
        for ((i, _), bound) in known.iter().zip(bounds) {
            out[*i] = bound > 0.0;
        }
        out
    }
}

/// Values of one parameter in the flat region.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatValues {
    /// Policy as typed.
    pub policy: String,
    /// Full name.
    pub param: String,
    /// As in the order of its dimension, without repetition.
    pub values: Vec<crate::policy::ParamValue>,
}

/// The values that occur in the flat region, by policy and parameter.
pub fn flat_values(trials: &[&Trial], flat: &[usize], space: &Space) -> Vec<FlatValues> {
    let mut out = Vec::new();
    for (base, of) in space.bases.iter().enumerate() {
        let members: Vec<&Trial> =
            flat.iter().map(|i| trials[*i]).filter(|t| t.candidate.base == base).collect();
        for (d, dimension) in of.dimensions.iter().enumerate() {
            let used = |value: &&crate::policy::ParamValue| {
                members.iter().any(|t| space.params(&t.candidate)[d].1 == **value)
            };
            let values: Vec<_> = dimension.values.iter().filter(used).cloned().collect();
            if !values.is_empty() {
                let (policy, param) = (of.config.label.clone(), dimension.name.clone());
                out.push(FlatValues { policy, param, values });
            }
        }
    }
    out
}

/// Of `choice`, the one nearest to the middle of the flat region of the best one's policy: a value that stays good when
/// sessions differ from these. Of equally near ones the better, then the first.
pub fn robust(
    trials: &[&Trial],
    choice: &[usize],
    flat: &[usize],
    best: usize,
    space: &Space,
    limits: &Limits,
) -> Option<usize> {
    let base = trials[best].candidate.base;
    let dimensions = &space.bases[base].dimensions;
    let places = |i: usize| -> Vec<f64> {
        let params = space.params(&trials[i].candidate);
        dimensions.iter().zip(params).map(|(d, (_, value))| d.place(&value)).collect()
    };
    let region: Vec<Vec<f64>> =
        flat.iter().filter(|i| trials[**i].candidate.base == base).map(|i| places(*i)).collect();
    let middle: Vec<f64> = (0..dimensions.len())
        .map(|d| {
            let at = region.iter().map(|p| p[d]);
            let (low, high) = (at.clone().fold(1.0, f64::min), at.fold(0.0, f64::max));
            f64::midpoint(low, high)
        })
        .collect();
    let key = |i: usize| {
        let distance = places(i).iter().zip(&middle).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        (distance, limits.loss(trials[i].column.pooled().unwrap_or_default()))
    };
    let own = choice.iter().copied().filter(|i| trials[*i].candidate.base == base);
    own.map(|i| (i, key(i)))
        .reduce(|a, b| if b.1.0.total_cmp(&a.1.0).then(b.1.1.total_cmp(&a.1.1)).is_lt() { b } else { a })
        .map(|(i, _)| i)
}

/// The candidates that no other one beats in cost and in another metric.
#[derive(Debug, Clone)]
pub struct Front {
    /// What cost is weighed against.
    pub metric: MetricRef,
    /// By ascending cost.
    pub members: Vec<usize>,
}

/// Fronts of cost against peak prompt, hit rate and summarizer calls, of the trials that keep to the limits.
pub fn fronts(trials: &[&Trial], limits: &Limits) -> Vec<Front> {
    let allowed: Vec<usize> = (0..trials.len()).filter(|i| limits.broken_by(trials[*i]).is_none()).collect();
    let known = FRONTS.iter().filter_map(|name| metrics::find(name).ok());
    known.map(|metric| Front { metric, members: front(trials, &allowed, metric) }).collect()
}

/// By cost, then by the other metric; whoever is better there than all before it is on the front.
fn front(trials: &[&Trial], allowed: &[usize], metric: MetricRef) -> Vec<usize> {
    let higher = metric.metric().better == Better::Higher;
    let other = |i: usize| {
        let value = exact(metric.value(&trials[i].total)).unwrap_or_default();
        if higher { u128::MAX - value } else { value }
    };
    let mut sorted = allowed.to_vec();
    sorted.sort_by_key(|i| (trials[*i].total.cost.total(), other(*i)));
    let mut least = None;
    sorted.retain(|i| {
        let value = other(*i);
        let better = least.is_none_or(|least| value < least);
        if better {
            least = Some(value);
        }
        better
    });
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{ParamValue, PolicySpec};
    use crate::sim::Summary;
    use crate::tune::space::Candidate;

    /// Trials of one parameter: value, cost in dollars of each session, peak, and sessions not finished.
    fn trials(rows: &[(i64, &[u128], u64, usize)]) -> Vec<Trial> {
        let objective = metrics::find("cost_usd").expect("a metric");
        let trial = |(value, costs, peak, unfinished): &(i64, &[u128], u64, usize)| {
            let candidate = Candidate { base: 0, values: vec![ParamValue::Int(*value)] };
            let mut trial = Trial::new(candidate, value.to_string());
            for usd in *costs {
                let mut summary = Summary { peak_prompt_tokens: *peak, ..Summary::default() };
                summary.cost.output = usd * 1_000_000_000_000;
                trial.add(objective, &summary);
            }
            trial.unfinished = *unfinished;
            trial
        };
        rows.iter().map(trial).collect()
    }

    fn limits(rules: &[&str]) -> Limits {
        let rules = rules.iter().map(|rule| rule.parse().expect(rule)).collect();
        Limits { higher_is_better: false, rules, violations: 0 }
    }

    fn space() -> Space {
        let config = "arcturn".parse::<PolicySpec>().expect("a name").load(&[], &[]).expect("a preset");
        Space::new(&[config], &["keepRecentTurns=0..10".parse().expect("a range")]).expect("its parameter")
    }

    const NOISY: [(i64, &[u128], u64, usize); 6] = [
        (0, &[20, 30, 25, 40, 22, 31, 27], 90, 0),
        (2, &[13, 17, 16, 27, 12, 20, 17], 50, 0),
        (3, &[11, 18, 15, 26, 12, 19, 18], 60, 0),
        (4, &[12, 17, 16, 25, 13, 18, 17], 70, 0),
        (8, &[15, 24, 19, 32, 17, 25, 21], 40, 0),
        (9, &[1, 1, 1, 1, 1, 1, 1], 10, 2),
    ];

    #[test]
    fn the_flat_region_is_what_cannot_be_told_from_the_best() {
        let (trials, limits) = (trials(&NOISY), limits(&[]));
        let field = Field::new(trials.iter().collect(), &limits, 0, "test");
        // The cheapest one stopped early.
        let best = field.best().expect("most are allowed");
        assert_eq!(trials[best].label, "4");
        let flat = field.flat(best);
        assert_eq!(flat, [1, 2, 3]);
        let separable = field.separable();
        assert!(flat.iter().all(|i| separable[*i]) && !separable[0], "{separable:?}");
        assert_eq!(robust(&field.trials, &flat, &flat, best, &space(), &limits), Some(2));
        let values = flat_values(&field.trials, &flat, &space());
        assert_eq!(values[0].values, [2, 3, 4].map(ParamValue::Int));
    }

    #[test]
    fn a_front_has_nothing_that_is_beaten_twice() {
        let trials = trials(&NOISY);
        let labels = |rules: &[&str]| -> Vec<String> {
            let fronts = fronts(&trials.iter().collect::<Vec<_>>(), &limits(rules));
            let peak = fronts.iter().find(|f| f.metric.name() == "peak_prompt_tokens").expect("one of them");
            peak.members.iter().map(|i| trials[*i].label.clone()).collect()
        };
        assert_eq!(labels(&[]), ["4", "3", "2", "8"]);
        assert_eq!(labels(&["peak_prompt_tokens <= 60"]), ["3", "2", "8"]);
    }

    #[test]
    fn few_sessions_have_no_intervals() {
        let (trials, limits) = (trials(&[(0, &[2, 3], 1, 0), (1, &[1, 2], 1, 0)]), limits(&[]));
        let field = Field::new(trials.iter().collect(), &limits, 0, "test");
        let score = field.score(1);
        assert!(score.interval.is_none() && score.versus.is_none());
        assert_eq!((score.value, score.gain), (Some(3.0), Some(2.0)));
    }
}
