//! When a batched edit is worth its rewrite: the closed form of its cost, the cold cache, the economic gate.

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::Strategy;
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};

use crate::policy_support::{self, passes};

/// Prunable and other tokens of a call.
const PRUNABLE: u64 = 100;
const OTHER: u64 = 40;

fn models() -> Models {
    let mut models = Models::builtin().unwrap();
    // The closed form knows no look-back: everything in front of an edit is still read.
    for (id, like) in
        [("sees-far", "claude-opus-5"), ("reads-cheaply", "claude-fable-5-1"), ("small", "claude-haiku-4-5")]
    {
        let text = format!(
            "[[model]]\nid = \"{id}\"\nlike = \"{like}\"\nwindow_tokens = 100000000\n\
             cache.lookback_positions = 1000000\n"
        );
        models.add_toml(&text, "test").unwrap();
    }
    models
}

fn strategy(models: &Models, keep: u64, cadence: &str) -> Strategy {
    strategy_on(models, "sees-far", "5m", keep, cadence)
}

fn strategy_on(models: &Models, model: &str, ttl: &str, keep: u64, cadence: &str) -> Strategy {
    let rules = format!(
        "[params]\n\"cache.ttl\" = {{ default = \"{ttl}\", choices = [\"5m\", \"1h\"], doc = \"d\" }}\n\
         [[rule]]\nid = \"prune\"\nat = \"request\"\n\
         when = [{{ of = \"tool_results\", unit = \"count\", over = 0 }}]\n\
         select = {{ tool_results = {{ keep_recent = {{ tokens = {keep} }} }} }}\n\
         stub = {{ fixed = 0 }}\ncadence = {{ {cadence} }}\n"
    );
    policy_support::strategy_on(models.get(model).unwrap(), &rules, &[])
}

fn play(models: &Models, session: &Session, strategy: &Strategy) -> (Summary, FullRecorder) {
    play_on(models, "sees-far", session, strategy)
}

fn play_on(models: &Models, model: &str, session: &Session, strategy: &Strategy) -> (Summary, FullRecorder) {
    let mut record = FullRecorder::default();
    let model = models.get(model).unwrap();
    let summary = run(session, strategy, model, &RunOptions::default(), &mut Scratch::default(), &mut record);
    (summary, record)
}

fn session(requests: u32, gap_ms: u32, other: u64) -> Session {
    ConstantGrowth {
        requests,
        gap_ms,
        thinking_tokens: 0,
        call_tokens: other as u32,
        result_tokens: PRUNABLE as u32,
        result_utf16: 3 * PRUNABLE as u32,
        ..ConstantGrowth::default()
    }
    .session()
}

/// One check of the closed form: whose prices, for how long they buy, what stays, how it grows, how often the
/// cache is cold.
struct Check {
    model: &'static str,
    ttl: &'static str,
    kept: u64,
    growth: u64,
    /// Every so many requests the cache has expired; 0: never.
    cold_every: u32,
}

impl Check {
    /// Prices of reading and writing.
    fn rates(&self, models: &Models) -> (f64, f64) {
        let rates = &models.get(self.model).unwrap().price(None).unwrap().rates;
        let write = if self.ttl == "1h" { rates.write_long } else { rates.write_short };
        (rates.read as f64, write as f64)
    }

    /// `a` and `b` of the closed form, in units of the read price.
    fn factors(&self, models: &Models) -> (f64, f64) {
        let (read, write) = self.rates(models);
        let cold = if self.cold_every == 0 { 0.0 } else { 1.0 / f64::from(self.cold_every) };
        ((1.0 - cold) + cold * write / read, (write / read - 1.0) * (1.0 - cold))
    }

    /// `C(M) = a(P + M/2) + b(P(g + c) + M c)/M`. Explicit breakpoints leave one entry behind a rewrite, so all that
    /// the last pass rewrote is rewritten again: the form holds where nothing but results grows (c = 0).
    fn closed_form(&self, models: &Models, batch: u64) -> f64 {
        let (a, b) = self.factors(models);
        let (p, m, g) = (self.kept as f64, batch as f64, self.growth as f64);
        a * (p + m / 2.0) + b * p * g / m
    }

    fn optimum(&self, models: &Models) -> f64 {
        let (a, b) = self.factors(models);
        (2.0 * b * self.kept as f64 * self.growth as f64 / a).sqrt()
    }

    /// Cost per call that depends on the batch: reads of what is prunable, and what is rewritten of it, in units of
    /// the read price; from one pass to another, at least a hundred later.
    fn measured(&self, models: &Models, batch: u64) -> f64 {
        let requests = (batch / self.growth + 2) * 102 + self.kept / self.growth;
        let session = ConstantGrowth {
            requests: requests as u32,
            gap_ms: 1,
            thinking_tokens: 0,
            call_tokens: 0,
            result_tokens: self.growth as u32,
            result_utf16: 3 * self.growth as u32,
            ..ConstantGrowth::default()
        };
        let session = with_pauses(session.session(), self.cold_every as usize, 4_000_000);
        let cadence = format!("min_savings = {batch}, savings_unit = \"tokens\"");
        let strategy = strategy_on(models, self.model, self.ttl, self.kept, &cadence);
        let (summary, record) = play_on(models, self.model, &session, &strategy);
        let passes = passes(&record);
        assert!(passes.len() >= 100 && summary.violations == 0, "{} passes", passes.len());
        let (read, write) = self.rates(models);
        let extra = write / read - 1.0;
        let (first, last) = (passes[0] as usize, *passes.last().unwrap() as usize);
        let front = 12_000 + 3_000 + 200;
        let mut cost = 0.0;
        for row in &record.requests[first - 1..last - 1] {
            let prunable = row.usage.prompt_tokens() - self.growth - front;
            let rewritten = row.usage.cache_write_tokens() + row.usage.uncached_tokens - self.growth;
            // In the cold the front is written too, which no batch changes.
            let rewritten = if row.usage.cache_read_tokens == 0 { rewritten - front } else { rewritten };
            cost += prunable as f64 + extra * rewritten as f64;
        }
        cost / (last - first) as f64
    }
}

/// Batches by growth, eight of them. In the third the ratio of the prices is 50, in the others 12.5 and 20; cold
/// requests come at every phase of a cycle: 13 divides the length of none.
const CHECKS: [Check; 5] = [
    Check { model: "sees-far", ttl: "5m", kept: 8_000, growth: 100, cold_every: 0 },
    Check { model: "sees-far", ttl: "1h", kept: 8_000, growth: 100, cold_every: 0 },
    Check { model: "reads-cheaply", ttl: "5m", kept: 4_000, growth: 40, cold_every: 0 },
    Check { model: "small", ttl: "5m", kept: 50_000, growth: 500, cold_every: 0 },
    Check { model: "sees-far", ttl: "5m", kept: 8_000, growth: 100, cold_every: 13 },
];

#[test]
fn batches_cost_what_the_closed_form_says_and_the_best_is_where_it_says() {
    let models = models();
    for check in &CHECKS {
        let batch = |k: i32| (20.0 * 1.35_f64.powi(k)).round() as u64 * check.growth;
        let grid: Vec<u64> = (0..8).map(batch).collect();
        let costs: Vec<f64> = grid.iter().map(|batch| check.measured(&models, *batch)).collect();
        for (batch, cost) in grid.iter().zip(&costs) {
            assert!(check.growth * 40 <= check.kept + batch / 2, "a call is too large for a curve");
            let expected = check.closed_form(&models, *batch);
            let off = (cost - expected).abs() / expected;
            let (model, ttl) = (check.model, check.ttl);
            assert!(off < 0.02, "{model} {ttl}, {batch}: {cost} for {expected}, {:.2} %", off * 100.0);
        }
        let best = (0..grid.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap();
        let optimum = check.optimum(&models);
        let nearest = (0..grid.len())
            .min_by(|a, b| {
                let distance = |i: usize| (grid[i] as f64 / optimum).ln().abs();
                distance(*a).total_cmp(&distance(*b))
            })
            .unwrap();
        assert!(best.abs_diff(nearest) <= 1, "best {} of {grid:?}, optimum {optimum}", grid[best]);
    }
}

/// Every so many requests there is a pause; 0: never.
fn with_pauses(mut session: Session, every: usize, pause_ms: i64) -> Session {
    for (i, step) in session.steps.iter_mut().enumerate() {
        let pauses = i64::try_from(i.checked_div(every).unwrap_or(0)).unwrap();
        step.start_ms = step.start_ms.map(|ms| ms + pause_ms * pauses);
    }
    session
}

#[test]
fn an_edit_in_the_cold_breaks_no_prefix() {
    let models = models();
    let session = with_pauses(session(600, 10_000, OTHER), 20, 600_000);
    let gate = "min_savings = 1000, savings_unit = \"tokens\"";
    let (any, _) = play(&models, &session, &strategy(&models, 1_000, gate));
    let cold = format!("{gate}, when_cache = \"cold\"");
    let (cold, record) = play(&models, &session, &strategy(&models, 1_000, &cold));
    let at = passes(&record);
    assert!(at.len() >= 20 && at.iter().all(|request| (request - 1) % 20 == 0), "{at:?}");
    assert_eq!(cold.miss(Cause::PrefixRule).tokens, 0, "what it rewrites was gone anyway");
    assert!(any.miss(Cause::PrefixRule).tokens > 0);
    assert!(cold.cost.total() < any.cost.total());
    let waits = format!("{gate}, when_cache = \"prefer_cold\", prefer_cold_until = 45");
    let (_, record) = play(&models, &session, &strategy(&models, 1_000, &waits));
    let warm = passes(&record).iter().filter(|request| (*request - 1) % 20 != 0).count();
    assert!(warm > 0, "the 45th result is more than it waits for");
}

#[test]
fn an_edit_waits_until_it_pays() {
    let models = models();
    let session = session(400, 10_000, OTHER);
    let count = |steps: u64| {
        let cadence = format!("break_even = {{ steps = {steps} }}");
        play(&models, &session, &strategy(&models, 1_000, &cadence)).0.passes
    };
    assert_eq!(count(0), 0, "with no step to come nothing pays");
    assert!(
        count(10) < count(100) && count(100) < count(10_000),
        "{} {} {}",
        count(10),
        count(100),
        count(10_000)
    );
    // At the first pass: saved × read × steps covers (tokens behind the first stub) × (write − read).
    let cadence = "break_even = { steps = 40 }";
    let (_, record) = play(&models, &session, &strategy(&models, 1_000, cadence));
    let first = u64::from(passes(&record)[0]);
    let rates = &models.get("sees-far").unwrap().price(None).unwrap().rates;
    let pays = |request: u64| {
        // Before request n there are n - 1 results; ten and the one that crosses stay.
        let saved = (request - 1).saturating_sub(11) * PRUNABLE;
        // The law of stubs counts characters: 300 of them at 0.45.
        let by_characters = (request - 1).saturating_sub(11) * 135;
        let behind = (request - 1) * PRUNABLE + request.saturating_sub(2) * OTHER;
        saved > 0
            && by_characters * rates.read * 40
                >= behind.saturating_sub(by_characters) * (rates.write_short - rates.read)
    };
    let expected = (1..).find(|n| pays(*n)).unwrap();
    assert!(first.abs_diff(expected) <= 1, "{first} against {expected}");
}
