//! `tune`: what it recommends where the optimum is known, and that it refuses where there is nothing to choose.

use std::sync::Arc;

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{PolicyConfig, PolicySpec};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::seed;
use ctxsim::session::Session;
use ctxsim::sim::{RunOptions, Summary};
use ctxsim::sweep::{Control, ModelChoice, Plan, Planned};
use ctxsim::tune::{Cells, Evaluate, Method, Settings, Space, Tuned, tune};

/// Characters of a token in the sessions made here.
const CHARS: f64 = 4.0;
/// Turns that stay verbatim.
const KEPT: f64 = 3.0;

fn policies(texts: &[&str]) -> Vec<PolicyConfig> {
    texts.iter().map(|t| t.parse::<PolicySpec>().expect(t).load(&[], &[]).expect(t)).collect()
}

fn space(texts: &[&str], params: &[&str]) -> Space {
    let wishes: Vec<_> = params.iter().map(|p| p.parse().expect(p)).collect();
    Space::new(&policies(texts), &wishes).expect("the parameters are there")
}

fn settings(seed: u64) -> Settings {
    Settings { trials: 40, seed, ..Settings::new("cost_usd", &[]).expect("a metric") }
}

/// Sessions that grow by the same amount at every request, each by its own. Results are large against everything else:
/// the closed form leaves out that stubs and calls pile up in front of a pass, where the client has no breakpoint.
fn population(seed: u64, sessions: u64, result_tokens: (u32, u32)) -> Vec<ConstantGrowth> {
    let mut rng = seed::stream(seed, "test.population", &[]);
    let mut between = |low: u32, high: u32| low + seed::below(&mut rng, u64::from(high - low)) as u32;
    (0..sessions)
        .map(|_| {
            let result_tokens = between(result_tokens.0, result_tokens.1);
            ConstantGrowth {
                requests: between(120, 200),
                thinking_tokens: 0,
                call_tokens: between(10, 30),
                result_tokens,
                result_utf16: result_tokens * CHARS as u32,
                ..ConstantGrowth::default()
            }
        })
        .collect()
}

/// A model whose cache finds every entry: the closed form knows no look-back.
fn model(models: &Models) -> ModelSpec {
    let mut model = models.get("claude-opus-5-5").expect("built in").clone();
    let cache = model.cache.as_mut().expect("it has one");
    let ctxsim::provider::cache_spec::CacheKind::Breakpoints(breakpoints) = &mut cache.kind else { panic!() };
    breakpoints.lookback_positions = 1_000_000;
    model
}

/// Cost of what can be pruned, by closed form: requests × (a (P + M/2) + b (P (g + c) + M c) / M), with a cache that is
/// never cold. Batches are of whole results, so that one is half a result larger than M asks for.
fn closed_form(model: &ModelSpec, population: &[ConstantGrowth], min_chars: f64) -> f64 {
    let rates = model.price(None).expect("it has a price").rates;
    let (read, write) = (rates.read as f64, rates.write_short as f64);
    let cost = |growth: &ConstantGrowth| {
        let (g, c) = (f64::from(growth.result_tokens), f64::from(growth.call_tokens));
        let (kept, batch) = (KEPT * g, min_chars / CHARS + g / 2.0);
        let each = read * (kept + batch / 2.0) + (write - read) * (kept * (g + c) + batch * c) / batch;
        f64::from(growth.requests) * each
    };
    population.iter().map(cost).sum()
}

fn plan(models: &Models, population: &[ConstantGrowth]) -> Plan {
    let session = |(i, growth): (usize, &ConstantGrowth)| {
        let mut session: Session = growth.session();
        session.id = format!("session-{i}");
        Planned { session: Arc::new(session), models: vec![ModelChoice { model: 0, substituted: None }] }
    };
    Plan {
        sessions: population.iter().enumerate().map(session).collect(),
        models: vec![model(models)],
        strategies: Vec::new(),
        options: RunOptions::default(),
    }
}

fn tune_population(space: Space, seed: u64, population: &[ConstantGrowth]) -> Tuned {
    let models = Models::builtin().expect("built in");
    let control = Control::default();
    let ids: Vec<String> = (0..population.len()).map(|i| format!("session-{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut cells = Cells { plan: plan(&models, population), models: &models, jobs: 1, control: &control };
    tune(space, settings(seed), &ids, &mut cells).expect("the policies fit")
}

const OFTEN: &str = "arcturn:minCharsPerPass=2000,keepRecentTurns=3,maxTotalToolResultChars=0,minCharsToElide=500,\
                     compaction.enabled=false,offload=off";

#[test]
fn the_recommended_value_is_where_the_closed_form_is_flat() {
    let model = model(&Models::builtin().expect("built in"));
    for seed in 0..20 {
        let population = population(seed, 12, (8_000, 12_000));
        let tuned = tune_population(space(&[OFTEN], &["minCharsPerPass"]), seed, &population);
        let chosen = tuned.recommended.clone().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let value = tuned.tried[chosen].params[0].1.to_string().parse::<f64>().expect("a number");
        let least = (1..2_000)
            .map(|i| closed_form(&model, &population, f64::from(i) * 1_000.0))
            .fold(f64::INFINITY, f64::min);
        let excess = closed_form(&model, &population, value) / least - 1.0;
        assert!(excess < 0.03, "seed {seed}: {value} costs {:.1} % more than the optimum", 100.0 * excess);
        assert!(tuned.flat.contains(&chosen), "seed {seed}");
        assert!(tuned.tried[chosen].held_out.is_some() && tuned.held_out_sessions > 0, "seed {seed}");
    }
}

#[test]
fn two_policies_that_never_act_are_not_told_apart() {
    let texts = ["none", "arcturn:offload=off,compaction.enabled=false,minCharsPerPass=900000000"];
    for seed in 0..3 {
        let space = space(&texts, &["minCharsPerPass=900000000,1000000000"]);
        let tuned = tune_population(space, seed, &population(seed, 12, (800, 1_200)));
        assert!(tuned.recommended.is_err(), "seed {seed}");
        assert_eq!(tuned.flat.len(), tuned.tried.len(), "seed {seed}");
    }
}

/// Costs of every cell drawn from one distribution: no policy is better than another one.
struct Equal(u64);

impl Evaluate for Equal {
    fn run(
        &mut self,
        policies: &[PolicyConfig],
        sessions: &[usize],
        sink: &mut dyn FnMut(usize, usize, &Summary),
    ) -> ctxsim::Result<bool> {
        for (place, session) in sessions.iter().enumerate() {
            for (policy, config) in policies.iter().enumerate() {
                let mut rng = seed::stream(self.0, &config.label, &[*session as u64]);
                let mut summary = Summary { requests: 1, ..Summary::default() };
                let draws = (0..4).map(|_| u128::from(seed::below(&mut rng, 1_000)));
                summary.cost.output = 1_000_000_000 * (8_000 + draws.sum::<u128>());
                sink(policy, place, &summary);
            }
        }
        Ok(true)
    }
}

#[test]
fn of_policies_of_equal_cost_the_luckiest_is_not_recommended() {
    let ids: Vec<String> = (0..60).map(|i| format!("session-{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for (texts, params) in [
        (&["none", "arcturn"][..], "minCharsPerPass=50000"),
        (&["arcturn"], "minCharsPerPass=10000..200000:log:12"),
    ] {
        let refuses = |seed: &u64| {
            let tuned =
                tune(space(texts, &[params]), settings(*seed), &ids, &mut Equal(*seed)).expect("no model");
            tuned.recommended.is_err()
        };
        let refused = (0..100).filter(refuses).count();
        assert!(refused >= 90, "{texts:?}: {refused} of 100");
    }
}

/// Costs that fall with the distance of a parameter to an optimum, with noise; counts what was run.
struct Valley {
    seed: u64,
    runs: usize,
}

impl Evaluate for Valley {
    fn run(
        &mut self,
        policies: &[PolicyConfig],
        sessions: &[usize],
        sink: &mut dyn FnMut(usize, usize, &Summary),
    ) -> ctxsim::Result<bool> {
        let number = |config: &PolicyConfig, name: &str| {
            let set = config.set.get(name).map(ToString::to_string);
            set.and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0)
        };
        for (place, session) in sessions.iter().enumerate() {
            for (policy, config) in policies.iter().enumerate() {
                let mut rng = seed::stream(self.seed, "valley", &[*session as u64]);
                let base = 10_000 + seed::below(&mut rng, 10_000);
                let chars = number(config, "contextEditing.minCharsPerPass").max(1.0);
                let turns = number(config, "contextEditing.keepRecentTurns");
                let off = (chars / 30_000.0).log2().abs() + (turns - 7.0).abs() / 4.0;
                let mut summary = Summary { requests: 1, ..Summary::default() };
                summary.cost.output = (base as f64 * (1.0 + 0.1 * off) * 1e9) as u128;
                self.runs += 1;
                sink(policy, place, &summary);
            }
        }
        Ok(true)
    }
}

#[test]
fn a_large_grid_is_halved_over_sessions_and_refined() {
    let ids: Vec<String> = (0..100).map(|i| format!("session-{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut valley = Valley { seed: 5, runs: 0 };
    let space = space(&["arcturn"], &["minCharsPerPass", "keepRecentTurns"]);
    let grid = space.grid_len();
    let tuned = tune(space, settings(5), &ids, &mut valley).expect("no model");
    assert_eq!(tuned.method, Method::Halving);
    assert!(grid > 40 && tuned.tried.len() <= 41, "{grid} {}", tuned.tried.len());
    let chosen = tuned.recommended.expect("a clear optimum");
    let params: Vec<f64> =
        tuned.tried[chosen].params.iter().map(|(_, v)| v.to_string().parse().expect("a number")).collect();
    assert!((20_000.0..45_000.0).contains(&params[0]) && (params[1] - 7.0).abs() <= 1.0, "{params:?}");
    assert!(valley.runs < 40 * 100 / 2 + 1_500, "{} runs", valley.runs);
}
