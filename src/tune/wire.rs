//! The JSON of a search.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::metrics::{self, Better};
use crate::report::results::FORMAT_VERSION;
use crate::report::{Recipe, Skipped};
use crate::stats::{Interval, Paired};

use super::output::{SHOWN_METRICS, configuration, ranked};
use super::{Reproduction, Score, Tried, Tuned};

/// Nine decimals: enough for dollars, and the same on all machines.
pub(super) fn rounded(x: f64) -> f64 {
    let scaled = (x * 1e9).round() / 1e9;
    if scaled == 0.0 { 0.0 } else { scaled }
}

fn round(x: Option<f64>) -> Option<f64> {
    x.map(rounded)
}

/// `tune --format json`, and tune.json.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "ctxsim tune")]
pub struct TuneWire {
    format_version: u32,
    recipe: Recipe,
    /// xxh3-64 of the compact JSON of the candidates, 16 hex digits.
    digest: String,
    /// The command was stopped before everything was run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    skipped: Vec<Skipped>,
    /// What was made small or large.
    objective: String,
    /// `lower` or `higher`.
    better: String,
    /// What had to hold besides.
    constraints: Vec<String>,
    /// `exhaustive` or `successive_halving`.
    method: String,
    sessions: SessionsWire,
    /// The recorded run against its own usage; null where no recording has any.
    reproduction: Option<ReproductionWire>,
    /// What everything is compared with: the first policy as typed.
    baseline: String,
    /// The best on the sessions learned from.
    best: Option<String>,
    /// What to use; null where nothing is beyond doubt.
    recommended: Option<RecommendedWire>,
    /// Why nothing is recommended.
    why: Option<String>,
    flat_region: FlatWire,
    /// For each metric the policies that no other one beats in cost and in it, by ascending cost.
    pareto: BTreeMap<String, Vec<String>>,
    /// Best first.
    candidates: Vec<CandidateWire>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SessionsWire {
    training: usize,
    held_out: usize,
    /// Not finished by the baseline.
    left_out: usize,
    without_usage: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReproductionWire {
    requests: u64,
    recorded_cost_usd: f64,
    simulated_cost_usd: f64,
    /// simulated / recorded − 1.
    cost_error: Option<f64>,
    recorded_hit_rate: Option<f64>,
    simulated_hit_rate: Option<f64>,
    /// Near enough for a recommendation.
    reproduced: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RecommendedWire {
    /// As `-p` takes it, unless the policy had a label of its own.
    policy: String,
    params: serde_json::Map<String, serde_json::Value>,
    /// In the agent's own format, where it is known.
    configuration: Option<ConfigurationWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ConfigurationWire {
    goes_into: String,
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FlatWire {
    policies: Vec<String>,
    values: Vec<FlatValuesWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FlatValuesWire {
    policy: String,
    param: String,
    values: Vec<serde_json::Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CandidateWire {
    policy: String,
    params: serde_json::Map<String, serde_json::Value>,
    training: ScoreWire,
    held_out: Option<ScoreWire>,
    /// Sums over the sessions learned from.
    metrics: BTreeMap<String, Option<Number>>,
    /// It was run on all of them.
    full: bool,
    /// It cannot be told from the best.
    flat: bool,
    /// Why it does not count.
    not_allowed: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ScoreWire {
    sessions: usize,
    value: Option<f64>,
    /// 95 %, by bootstrap over sessions; null for too few of them.
    interval: Option<[f64; 2]>,
    /// Against the baseline, on the same sessions; null for the baseline and for too few of them.
    versus_baseline: Option<PairedWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PairedWire {
    difference: f64,
    difference_interval: [f64; 2],
    wins: usize,
    losses: usize,
    ties: usize,
    /// (wins + ties / 2) / sessions.
    win_rate: f64,
    win_rate_interval: [f64; 2],
}

fn ends(interval: Interval) -> [f64; 2] {
    [rounded(interval.low), rounded(interval.high)]
}

impl From<Paired> for PairedWire {
    fn from(pair: Paired) -> PairedWire {
        PairedWire {
            difference: rounded(pair.difference),
            difference_interval: ends(pair.difference_interval),
            wins: pair.wins,
            losses: pair.losses,
            ties: pair.ties,
            win_rate: rounded(pair.win_rate),
            win_rate_interval: ends(pair.win_rate_interval),
        }
    }
}

impl From<&Score> for ScoreWire {
    fn from(score: &Score) -> ScoreWire {
        ScoreWire {
            sessions: score.sessions,
            value: round(score.value),
            interval: score.interval.map(ends),
            versus_baseline: score.versus.map(PairedWire::from),
        }
    }
}

impl ReproductionWire {
    fn of(found: &Reproduction) -> Option<ReproductionWire> {
        let usd = |pusd| metrics::Usd(pusd).as_f64();
        let (recorded, simulated) = (usd(found.recorded_pusd), usd(found.simulated_pusd));
        let rate = |usage: &crate::usage::Usage| {
            let (part, whole) = (u128::from(usage.cache_read_tokens), u128::from(usage.prompt_tokens()));
            metrics::Rate::of(part, whole).as_f64()
        };
        (found.requests > 0).then(|| ReproductionWire {
            requests: found.requests,
            recorded_cost_usd: rounded(recorded),
            simulated_cost_usd: rounded(simulated),
            cost_error: (recorded > 0.0).then(|| rounded(simulated / recorded - 1.0)),
            recorded_hit_rate: rate(&found.recorded),
            simulated_hit_rate: rate(&found.simulated),
            reproduced: found.is_near(),
        })
    }
}

fn params(tried: &Tried) -> serde_json::Map<String, serde_json::Value> {
    tried.params.iter().map(|(name, value)| (name.clone(), serde_json::json!(value))).collect()
}

fn candidate(tuned: &Tuned, i: usize) -> CandidateWire {
    let tried = &tuned.tried[i];
    let number = |name: &str| {
        let text = metrics::find(name).ok()?.value(&tried.total).to_string();
        text.parse::<Number>().ok()
    };
    CandidateWire {
        policy: tried.label.clone(),
        params: params(tried),
        training: ScoreWire::from(&tried.training),
        held_out: tried.held_out.as_ref().map(ScoreWire::from),
        metrics: SHOWN_METRICS.iter().map(|name| ((*name).to_owned(), number(name))).collect(),
        full: tried.is_full,
        flat: tuned.flat.contains(&i),
        not_allowed: tried.broken.clone(),
    }
}

impl TuneWire {
    /// The JSON of a search.
    ///
    /// # Errors
    /// Serialisation errors of `serde_json`.
    pub fn of(
        tuned: &Tuned,
        recipe: &Recipe,
        reproduction: &Reproduction,
        skipped: &[Skipped],
        warnings: &[String],
    ) -> serde_json::Result<TuneWire> {
        let label = |i: usize| tuned.tried[i].label.clone();
        let candidates: Vec<CandidateWire> = ranked(tuned).into_iter().map(|i| candidate(tuned, i)).collect();
        let settings = &tuned.settings;
        let higher = settings.objective.metric().better == Better::Higher;
        let values = tuned.flat_values.iter().map(|flat| FlatValuesWire {
            policy: flat.policy.clone(),
            param: flat.param.clone(),
            values: flat.values.iter().map(|value| serde_json::json!(value)).collect(),
        });
        let fronts = tuned
            .fronts
            .iter()
            .map(|front| (front.metric.name(), front.members.iter().map(|i| label(*i)).collect()));
        Ok(TuneWire {
            format_version: FORMAT_VERSION,
            recipe: recipe.clone(),
            digest: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&serde_json::to_vec(&candidates)?)),
            interrupted: !tuned.complete,
            skipped: skipped.to_vec(),
            objective: settings.objective.name(),
            better: if higher { Better::Higher } else { Better::Lower }.name().to_owned(),
            constraints: settings.constraints.iter().map(ToString::to_string).collect(),
            method: tuned.method.name().to_owned(),
            sessions: SessionsWire {
                training: tuned.training_sessions,
                held_out: tuned.held_out_sessions,
                left_out: tuned.left_out_sessions,
                without_usage: reproduction.sessions_without_usage,
            },
            reproduction: ReproductionWire::of(reproduction),
            baseline: label(0),
            best: tuned.best.map(label),
            recommended: tuned.recommended.as_ref().ok().map(|i| RecommendedWire {
                policy: label(*i),
                params: params(&tuned.tried[*i]),
                configuration: configuration(&tuned.tried[*i])
                    .map(|c| ConfigurationWire { goes_into: c.goes_into.to_owned(), text: c.text }),
            }),
            why: tuned.recommended.as_ref().err().cloned(),
            flat_region: FlatWire {
                policies: tuned.flat.iter().map(|i| label(*i)).collect(),
                values: values.collect(),
            },
            pareto: fronts.collect(),
            candidates,
            warnings: warnings.to_vec(),
        })
    }
}
