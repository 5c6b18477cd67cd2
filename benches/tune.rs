//! Our search beside samplers of the `optimizer` crate, on the same cells: how far above the best known cost the best
//! candidate is, after so many runs of the whole population. Seeds are fixed, so the numbers are the same each time;
//! nothing is timed.

use std::sync::Arc;

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{PolicyConfig, PolicySpec};
use ctxsim::provider::Models;
use ctxsim::seed;
use ctxsim::sim::{RunOptions, Summary};
use ctxsim::sweep::{Control, ModelChoice, Plan, Planned};
use ctxsim::tune::{Cells, Evaluate, Settings, Space, tune};
use optimizer::parameter::{IntParam, Parameter};
use optimizer::sampler::{DESampler, RandomSampler, Sampler, TpeSampler};
use optimizer::{Direction, Study};

const SESSIONS: u64 = 12;
const SEEDS: u64 = 9;
const BUDGETS: [usize; 3] = [30, 60, 120];
const POLICY: &str = "arcturn:compaction.enabled=false,offload=off,minCharsToElide=500";
const PARAMS: [&str; 3] = ["minCharsPerPass", "keepRecentTurns", "maxTotalToolResultChars"];

/// Sessions of different length whose results differ in size.
fn plan(models: &Models) -> Plan {
    let mut rng = seed::stream(1, "bench.population", &[]);
    let mut between = |low: u32, high: u32| low + seed::below(&mut rng, u64::from(high - low)) as u32;
    let sessions = (0..SESSIONS).map(|i| {
        let result_tokens = between(400, 4_000);
        let growth = ConstantGrowth {
            requests: between(40, 160),
            result_tokens,
            result_utf16: result_tokens * 4,
            ..ConstantGrowth::default()
        };
        let mut session = growth.session();
        session.id = format!("session-{i}");
        Planned { session: Arc::new(session), models: vec![ModelChoice { model: 0, substituted: None }] }
    });
    Plan {
        sessions: sessions.collect(),
        models: vec![models.get("claude-opus-5-5").expect("the table has it").clone()],
        strategies: Vec::new(),
        options: RunOptions::default(),
    }
}

/// Counts the cells that pass through.
struct Counted<'a> {
    cells: Cells<'a>,
    runs: usize,
}

impl Evaluate for Counted<'_> {
    fn run(
        &mut self,
        policies: &[PolicyConfig],
        sessions: &[usize],
        sink: &mut dyn FnMut(usize, usize, &Summary),
    ) -> ctxsim::Result<bool> {
        self.runs += policies.len() * sessions.len();
        self.cells.run(policies, sessions, sink)
    }
}

fn config(values: [i64; 3]) -> PolicyConfig {
    let params: Vec<String> =
        PARAMS.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect();
    let text = format!("{POLICY},{}", params.join(","));
    text.parse::<PolicySpec>().and_then(|spec| spec.load(&[], &[])).expect("in range")
}

fn cost_usd(evaluate: &mut dyn Evaluate, values: [i64; 3]) -> f64 {
    let all: Vec<usize> = (0..SESSIONS as usize).collect();
    let mut pusd = 0;
    let run = evaluate.run(&[config(values)], &all, &mut |_, _, summary| pusd += summary.cost.total());
    run.expect("the policy fits the model");
    pusd as f64 / 1e12
}

/// Best cost of our search, and how many runs of the whole population it took.
fn ours(evaluate: &mut Counted<'_>, trials: usize, seed: u64) -> (f64, f64) {
    let policy = POLICY.parse::<PolicySpec>().and_then(|spec| spec.load(&[], &[])).expect("a preset");
    let wishes: Vec<_> = PARAMS.iter().map(|name| name.parse().expect("a name")).collect();
    let space = Space::new(&[policy], &wishes).expect("its parameters");
    let settings =
        Settings { trials, holdout_millionths: 0, seed, ..Settings::new("cost_usd", &[]).expect("a metric") };
    let ids: Vec<String> = (0..SESSIONS).map(|i| format!("session-{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    evaluate.runs = 0;
    let tuned = tune(space, settings, &ids, evaluate).expect("the policy fits the model");
    let best = tuned.best.and_then(|i| tuned.tried[i].training.value).expect("no constraint");
    (best, evaluate.runs as f64 / SESSIONS as f64)
}

/// Best cost that a sampler finds within the ranges that ours starts from.
fn theirs(evaluate: &mut Counted<'_>, runs: usize, sampler: impl Sampler + 'static) -> f64 {
    let study: Study<f64> = Study::with_sampler(Direction::Minimize, sampler);
    let log = |low, high, name: &str| IntParam::new(low, high).log_scale().name(name);
    let params = [log(500, 5_000_000, "a"), IntParam::new(0, 19).name("b"), log(1_000, 10_000_000, "c")];
    for _ in 0..runs {
        let mut trial = study.create_trial();
        let mut suggest = |i: usize| params[i].suggest(&mut trial).expect("a range");
        let values = [suggest(0), suggest(1), suggest(2)];
        study.complete_trial(trial, cost_usd(evaluate, values));
    }
    study.best_value().expect("it ran")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // `cargo test` runs benches without `--bench`, to see that they build.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let models = Models::builtin().expect("the built-in models are well-formed");
    let control = Control::default();
    let cells = Cells { plan: plan(&models), models: &models, jobs: 0, control: &control };
    let mut evaluate = Counted { cells, runs: 0 };
    let mut rows: Vec<(&str, usize, f64, Vec<f64>)> = Vec::new();
    for budget in BUDGETS {
        let found: Vec<(f64, f64)> = (0..SEEDS).map(|seed| ours(&mut evaluate, budget, seed)).collect();
        let runs = median(found.iter().map(|f| f.1).collect());
        rows.push(("halving and refinement", budget, runs, found.into_iter().map(|f| f.0).collect()));
        let mut others = |name, find: &mut dyn FnMut(&mut Counted<'_>, u64) -> f64| {
            let costs = (0..SEEDS).map(|seed| find(&mut evaluate, seed)).collect();
            rows.push((name, budget, budget as f64, costs));
        };
        others("random", &mut |e, seed| theirs(e, budget, RandomSampler::with_seed(seed)));
        others("TPE", &mut |e, seed| {
            theirs(e, budget, TpeSampler::builder().seed(seed).build().expect("its defaults"))
        });
        others("differential evolution", &mut |e, seed| theirs(e, budget, DESampler::with_seed(seed)));
    }
    let least = rows.iter().flat_map(|row| &row.3).copied().fold(f64::INFINITY, f64::min);
    println!("{:<24} {:>7} {:>10} {:>16} {:>10}", "search", "trials", "runs", "median excess", "worst");
    for (name, budget, runs, costs) in rows {
        let excess: Vec<f64> = costs.iter().map(|cost| 100.0 * (cost / least - 1.0)).collect();
        let worst = excess.iter().copied().fold(0.0, f64::max);
        println!("{name:<24} {budget:>7} {runs:>10.1} {:>15.2}% {worst:>9.2}%", median(excess));
    }
}
