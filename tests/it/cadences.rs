//! When a batched edit is worth its rewrite: the closed form of its cost, the cold cache, the economic gate.

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::{Strategy, parse_preset, resolve::PolicyConfig};
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

/// Prunable and other tokens of a call, and what stays in full.
const PRUNABLE: u64 = 100;
const OTHER: u64 = 40;
const KEPT: u64 = 8_000;

fn models() -> Models {
    let mut models = Models::builtin().unwrap();
    // The closed form knows no look-back: everything in front of an edit is still read.
    let text = "[[model]]\nid = \"sees-far\"\nlike = \"claude-opus-5\"\nwindow_tokens = 100000000\n\
                cache.lookback_positions = 1000000\n";
    models.add_toml(text, "test").unwrap();
    models
}

fn strategy(models: &Models, keep: u64, cadence: &str) -> Strategy {
    let text = format!(
        "name = \"t\"\nversion = \"1\"\nsummary = \"s\"\n\
         [cache]\nttl = \"5m\"\nmarkers = [\"tools\", \"system\", \"last_user\"]\n\
         [[rule]]\nid = \"prune\"\nat = \"request\"\n\
         when = [{{ of = \"tool_results\", unit = \"count\", over = 0 }}]\n\
         select = {{ tool_results = {{ keep_recent = {{ tokens = {keep} }} }} }}\n\
         stub = {{ fixed = 0 }}\ncadence = {{ {cadence} }}\n"
    );
    let preset = std::sync::Arc::new(parse_preset(&text, "test").unwrap());
    let config = PolicyConfig {
        label: "t".to_owned(),
        preset,
        set: Default::default(),
        common: Default::default(),
        warnings: Vec::new(),
    };
    config.strategy(models.get("sees-far").unwrap(), models).unwrap()
}

fn play(models: &Models, session: &Session, strategy: &Strategy) -> (Summary, FullRecorder) {
    let mut record = FullRecorder::default();
    let model = models.get("sees-far").unwrap();
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

fn passes(record: &FullRecorder) -> Vec<u32> {
    let at = |e: &ctxsim::sim::SimEvent| matches!(e.kind, SimEventKind::Pass { .. }).then_some(e.request);
    record.events.iter().filter_map(at).collect()
}

/// Cost per call that depends on the batch: reads of what is prunable, and what each pass rewrites, in units of
/// the read price; from one pass to another.
fn measured(models: &Models, session: &Session, batch: u64) -> f64 {
    let cadence = format!("min_savings = {batch}, savings_unit = \"tokens\"");
    let (summary, record) = play(models, session, &strategy(models, KEPT, &cadence));
    let passes = passes(&record);
    assert!(passes.len() >= 100 && summary.violations == 0, "{} passes", passes.len());
    let rates = &models.get("sees-far").unwrap().price(None).unwrap().rates;
    let extra = (rates.write_short - rates.read) as f64 / rates.read as f64;
    let (first, last) = (passes[0] as usize, *passes.last().unwrap() as usize);
    let front = 12_000 + 3_000 + 200;
    let mut cost = 0.0;
    for row in &record.requests[first - 1..last - 1] {
        let prunable = row.usage.prompt_tokens() - PRUNABLE - front;
        let rewritten = row.usage.cache_write_tokens() + row.usage.uncached_tokens - PRUNABLE;
        cost += prunable as f64 + extra * rewritten as f64;
    }
    cost / (last - first) as f64
}

/// `C(M) = a(P + M/2) + b(P(g + c) + M c)/M` with no cold cache, in units of the read price. Explicit
/// breakpoints leave one entry behind a rewrite, so all that the last pass rewrote is rewritten again: the form
/// holds where nothing but results grows (c = 0).
fn closed_form(models: &Models, batch: u64) -> f64 {
    let rates = &models.get("sees-far").unwrap().price(None).unwrap().rates;
    let b = (rates.write_short - rates.read) as f64 / rates.read as f64;
    let (p, m, g) = (KEPT as f64, batch as f64, PRUNABLE as f64);
    p + m / 2.0 + b * p * g / m
}

#[test]
fn batches_cost_what_the_closed_form_says_and_the_best_is_where_it_says() {
    let models = models();
    let grid: Vec<u64> = (0..8).map(|k| (2_000.0 * 1.35_f64.powi(k)).round() as u64).collect();
    let longest = *grid.last().unwrap();
    // Nothing is cold, so nothing in front of an edit may expire.
    let requests = (longest / PRUNABLE + 2) * 101 + KEPT / PRUNABLE;
    let session = session(u32::try_from(requests).unwrap(), 1, 0);
    let costs: Vec<f64> = grid.iter().map(|batch| measured(&models, &session, *batch)).collect();
    for (batch, cost) in grid.iter().zip(&costs) {
        let expected = closed_form(&models, *batch);
        let off = (cost - expected).abs() / expected;
        assert!(off < 0.02, "batch {batch}: {cost} against {expected}, {:.2} %", off * 100.0);
    }
    let best = (0..grid.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap();
    let rates = &models.get("sees-far").unwrap().price(None).unwrap().rates;
    let b = (rates.write_short - rates.read) as f64 / rates.read as f64;
    let optimum = (2.0 * b * KEPT as f64 * PRUNABLE as f64).sqrt();
    let nearest = (0..grid.len())
        .min_by(|a, b| {
            let distance = |i: usize| (grid[i] as f64 / optimum).ln().abs();
            distance(*a).total_cmp(&distance(*b))
        })
        .unwrap();
    assert!(best.abs_diff(nearest) <= 1, "best {} of {grid:?}, optimum {optimum}", grid[best]);
}

/// Every twentieth request comes after ten minutes.
fn with_pauses(mut session: Session) -> Session {
    for (i, step) in session.steps.iter_mut().enumerate() {
        let pauses = i64::try_from(i / 20).unwrap();
        step.start_ms = step.start_ms.map(|ms| ms + 600_000 * pauses);
    }
    session
}

#[test]
fn an_edit_in_the_cold_breaks_no_prefix() {
    let models = models();
    let session = with_pauses(session(600, 10_000, OTHER));
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
