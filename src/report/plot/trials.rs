//! Strategies with one number each, and how sure it is: what curves, heat maps, fronts and rankings are drawn from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::metrics::{self, Better, MetricRef};
use crate::report::results::{Cell, RecipePolicy, ResultSet, Total};
use crate::stats::{self, Column, Interval, Resamples};

use super::bars::{name, subtitle};

/// Resamples of every interval.
const RESAMPLES: usize = 1_000;
/// Draws of sessions for all intervals of a picture: about a second's work.
const MOST_DRAWS: usize = 50_000_000;
/// So many strategies have intervals however many sessions there are, and no more however few.
const LEAST_SURE: usize = 20;
const MOST_SURE: usize = 200;
/// Fewer sessions tell too little for an interval.
const LEAST_SESSIONS: usize = 6;

/// One strategy on one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Name among the others.
    pub label: String,
    /// Place of its policy among all, which gives its colour.
    pub place: usize,
    /// Preset and model: what is the same along a curve.
    pub family: String,
    /// Its parameters.
    pub params: Map<String, Value>,
    /// The metric.
    pub value: f64,
    /// Its change against the baseline, and that over resampled sessions; `None` for the baseline.
    pub change: Option<(f64, Option<Interval>)>,
    /// It cannot be told from the best.
    pub is_flat: bool,
    /// Cost, for fronts.
    pub cost_usd: f64,
    /// It finished every session and broke nothing.
    pub is_sound: bool,
}

/// All strategies of a study.
#[derive(Debug, Clone)]
pub struct Trials {
    /// The metric drawn.
    pub metric: MetricRef,
    /// What everything is compared with.
    pub baseline: String,
    /// How many sessions on what.
    pub subtitle: String,
    /// Names of the parameters that differ.
    pub varied: Vec<String>,
    /// In the order of the results.
    pub trials: Vec<Trial>,
}

impl Trials {
    /// Of results: `metric` of every total, with intervals of the best ones and the flat region around the best.
    pub fn of_results(results: &ResultSet, metric: MetricRef) -> Trials {
        let mut all = Trials::without_intervals(results, metric);
        if all.trials.len() < results.totals.len() {
            return all;
        }
        let columns = Columns::of(results, metric);
        let order = all.ranked();
        let most = MOST_DRAWS / (RESAMPLES * columns.sessions().max(1));
        for i in order.iter().copied().take(most.clamp(LEAST_SURE, MOST_SURE)) {
            let trial = &mut all.trials[i];
            if let (Some((_, interval)), Some(base)) = (&mut trial.change, columns.base(i)) {
                *interval = columns.interval(i, base);
            }
        }
        all.mark_flat(&order[..order.len().min(most.clamp(LEAST_SURE, MOST_SURE))], &columns);
        all
    }

    /// Of results: `metric` of every total.
    pub fn without_intervals(results: &ResultSet, metric: MetricRef) -> Trials {
        let (places, many_models) = (results.policy_places(), results.has_many_models());
        let policies: BTreeMap<&str, &RecipePolicy> =
            results.recipe.policies.iter().map(|p| (p.label.as_str(), p)).collect();
        let trial = |total: &Total| {
            let policy = policies.get(total.policy.as_str());
            let change = total.relative.as_ref().and_then(|r| {
                let (own, base) = (metric.value(&r.own).as_f64()?, metric.value(&r.base).as_f64()?);
                (base != 0.0).then(|| (own / base - 1.0, None))
            });
            Some(Trial {
                label: name(total, many_models),
                place: places.get(total.policy.as_str()).copied().unwrap_or(0),
                family: format!("{} {}", policy.map_or(total.policy.as_str(), |p| &p.preset), total.model),
                params: policy.map(|p| p.params.clone()).unwrap_or_default(),
                value: metric.value(&total.summary).as_f64()?,
                change,
                is_flat: false,
                cost_usd: metrics::Usd(total.summary.cost.total()).as_f64(),
                is_sound: is_sound(total),
            })
        };
        Trials {
            metric,
            baseline: results.baseline().unwrap_or_default().to_owned(),
            subtitle: subtitle(results),
            varied: crate::report::sweep::varied(&results.recipe),
            trials: results.totals.iter().filter_map(trial).collect(),
        }
    }

    /// Of a tune.json: every candidate that was run on all sessions, with the objective; or, if they are there, with
    /// another metric or what is weighed against cost.
    ///
    /// # Errors
    /// An objective that is no metric.
    pub fn of_tune(tune: &Value, metric: Option<MetricRef>, against_cost: bool) -> Result<Trials> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let objective = metrics::find(&text(&tune["objective"]))?;
        let metric = match metric {
            Some(metric) => metric,
            None if against_cost => metrics::find("hit_rate")?,
            None => objective,
        };
        let is_objective = metric.name() == objective.name();
        let baseline = text(&tune["baseline"]);
        let none = Vec::new();
        let candidates = tune["candidates"].as_array().unwrap_or(&none);
        let base = candidates.iter().find(|c| c["policy"] == tune["baseline"]);
        let of = |c: &Value| match is_objective {
            true => c["training"]["value"].as_f64(),
            false => c["metrics"][metric.name()].as_f64(),
        };
        let base_value = base.and_then(of);
        let mut trials = Vec::new();
        for candidate in candidates.iter().filter(|c| c["full"] == Value::Bool(true)) {
            let Some(value) = of(candidate) else { continue };
            let label = text(&candidate["policy"]);
            let versus = &candidate["training"]["versus_baseline"];
            let change = base_value.filter(|base| *base != 0.0).map(|base| {
                let ends = &versus["difference_interval"];
                let interval = ends[0].as_f64().zip(ends[1].as_f64()).filter(|_| is_objective);
                let interval = interval.map(|(low, high)| Interval { low: low / base, high: high / base });
                (value / base - 1.0, interval)
            });
            trials.push(Trial {
                place: trials.len(),
                family: label.split([':', '=']).next().unwrap_or_default().to_owned(),
                params: candidate["params"].as_object().cloned().unwrap_or_default(),
                value,
                change: change.filter(|_| label != baseline),
                is_flat: candidate["flat"] == Value::Bool(true),
                cost_usd: candidate["metrics"]["cost_usd"].as_f64().unwrap_or(value),
                is_sound: candidate["not_allowed"].is_null(),
                label,
            });
        }
        let names = trials.iter().flat_map(|t: &Trial| t.params.keys().cloned());
        let mut varied: Vec<String> = Vec::new();
        for name in names {
            if !varied.contains(&name) {
                varied.push(name);
            }
        }
        let sessions = tune["sessions"]["training"].as_u64().unwrap_or(0);
        let subtitle = format!("learned on {}", crate::report::grid::counted(sessions, "session"));
        Ok(Trials { metric, baseline, subtitle, varied, trials })
    }

    /// Whether more of the metric is better.
    pub fn higher_is_better(&self) -> bool {
        self.metric.metric().better == Better::Higher
    }

    /// Indices from the best to the worst.
    pub fn ranked(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.trials.len()).collect();
        let sign = if self.higher_is_better() { -1.0 } else { 1.0 };
        let key = |i: usize| (!self.trials[i].is_sound, sign * self.trials[i].value);
        order.sort_by(|a, b| key(*a).0.cmp(&key(*b).0).then(key(*a).1.total_cmp(&key(*b).1)));
        order
    }

    /// Of `order`, best first, those that cannot be told from the best.
    fn mark_flat(&mut self, order: &[usize], columns: &Columns<'_>) {
        let Some(best) = order.first().copied().filter(|best| self.trials[*best].is_sound) else { return };
        let model = &columns.results.totals[best].model;
        for i in order.iter().copied() {
            let comparable = self.trials[i].is_sound && columns.results.totals[i].model == *model;
            self.trials[i].is_flat = comparable && (i == best || columns.is_near(i, best));
        }
    }
}

/// The name of a metric in a title.
pub(super) fn words(metric: MetricRef) -> String {
    metric.name().trim_end_matches("_usd").replace('_', " ")
}

fn is_sound(total: &Total) -> bool {
    total.finished_sessions == total.sessions && total.summary.violations == 0
}

/// The metric by session, for resampling.
struct Columns<'a> {
    results: &'a ResultSet,
    metric: MetricRef,
    cells: BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, &'a Cell>>,
}

impl<'a> Columns<'a> {
    fn of(results: &'a ResultSet, metric: MetricRef) -> Columns<'a> {
        let mut cells: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for cell in &results.cells {
            let key = (cell.policy.as_str(), cell.model.as_str());
            cells.entry(key).or_default().insert(cell.session.as_str(), cell);
        }
        Columns { results, metric, cells }
    }

    fn sessions(&self) -> usize {
        self.cells.values().map(BTreeMap::len).max().unwrap_or(0)
    }

    /// The baseline on the model of a total; `None` for that one itself.
    fn base(&self, i: usize) -> Option<usize> {
        let (totals, baseline) = (&self.results.totals, self.results.baseline()?);
        let base = totals.iter().position(|t| t.policy == baseline && t.model == totals[i].model)?;
        (base != i).then_some(base)
    }

    /// What resampling makes of two totals, over the sessions that both finished; nothing of few sessions.
    fn pair(&self, i: usize, other: usize) -> Option<[Vec<Option<f64>>; 2]> {
        let of = |i: usize| {
            let total = &self.results.totals[i];
            self.cells.get(&(total.policy.as_str(), total.model.as_str()))
        };
        let (own, base) = (of(i)?, of(other)?);
        let (mut a, mut b) = (Column::default(), Column::default());
        for (session, cell) in own {
            if let Some(twin) = base.get(session).filter(|twin| twin.finished() && cell.finished()) {
                a.push(self.metric.share(&cell.summary));
                b.push(self.metric.share(&twin.summary));
            }
        }
        let enough = if a.len() < LEAST_SESSIONS { 0 } else { RESAMPLES };
        let draws = Resamples::draw(self.results.recipe.seed, "plot", a.len(), enough);
        Some([draws.scores(&a), draws.scores(&b)])
    }

    /// Interval of the change against another total.
    fn interval(&self, i: usize, base: usize) -> Option<Interval> {
        let [own, other] = self.pair(i, base)?;
        let relative = |a: f64, b: f64| (b != 0.0).then(|| a / b - 1.0);
        stats::interval(own.iter().zip(&other).map(|(a, b)| relative((*a)?, (*b)?)))
    }

    /// Whether a total cannot be told from the best.
    fn is_near(&self, i: usize, best: usize) -> bool {
        let Some([own, other]) = self.pair(i, best) else { return false };
        let sign = if self.metric.metric().better == Better::Higher { -1.0 } else { 1.0 };
        let losses = stats::differences(&own, &other).into_iter().map(|d| d.map(|d| sign * d));
        stats::interval(losses).is_some_and(|loss| loss.low <= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};

    /// Eight sessions under a baseline, two that are alike within the noise, and a dear one.
    fn results() -> ResultSet {
        let costs = |i: u64| [("none", 1_000), ("a", 700 + (i % 3)), ("b", 701 + (i % 2)), ("dear", 900)];
        let cells = (0..8).flat_map(|i| {
            costs(i).map(|(policy, cost)| {
                cell(&format!("s{i}"), policy, 9, 1_000, u128::from(cost) * 1_000_000_000)
            })
        });
        ResultSet::new(crate::report::Recipe::default(), Vec::new(), cells.collect())
    }

    #[test]
    fn what_is_within_the_noise_of_the_best_is_flat() {
        let all = Trials::of_results(&results(), metrics::find("cost_usd").expect("known"));
        let flat: Vec<&str> = all.trials.iter().filter(|t| t.is_flat).map(|t| t.label.as_str()).collect();
        assert_eq!(flat, ["a", "b"]);
        let order: Vec<&str> = all.ranked().iter().map(|i| all.trials[*i].label.as_str()).collect();
        assert_eq!(order[2..], ["dear", "none"]);
        let (change, interval) = all.trials[3].change.expect("against none");
        let near = |x: f64| (x + 0.1).abs() < 1e-9;
        assert!(
            near(change) && interval.is_some_and(|i| near(i.low) && near(i.high)),
            "{change} {interval:?}"
        );
        assert_eq!(all.trials[0].change, None);
    }

    #[test]
    fn few_sessions_have_no_interval_and_a_stopped_run_is_not_sound() {
        let all = Trials::of_results(&sample(), metrics::find("cost_usd").expect("known"));
        assert!(!all.trials[1].is_sound);
        assert_eq!(all.trials[1].change.map(|(_, interval)| interval), Some(None));
    }
}
