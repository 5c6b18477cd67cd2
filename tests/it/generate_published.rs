//! Published results, reproduced by running generated sessions through the simulator.

use std::path::Path;

use ctxsim::generate::{ConstantGrowth, Profile, session};
use ctxsim::policy::{PolicySpec, Strategy};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::session::Session;
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};
use ctxsim::usage::Usage;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/published").join(name);
    std::fs::read_to_string(path).expect("a fixture")
}

/// A model of `ideal-cache.toml` and what sends everything to it.
struct Ideal {
    model: ModelSpec,
    strategy: Strategy,
}

impl Ideal {
    fn new(id: &str) -> Ideal {
        let mut models = Models::builtin().expect("built in");
        models.add_toml(&fixture("ideal-cache.toml"), "ideal-cache.toml").expect("a models file");
        let model = models.get_simulated(id).expect("simulated").clone();
        let config = "none".parse::<PolicySpec>().expect("a name").load(&[], &[]).expect("built in");
        Ideal { strategy: config.strategy(&model, &models).expect("a strategy"), model }
    }

    fn usage(&self, session: &Session, scratch: &mut Scratch) -> Usage {
        let options = RunOptions::default();
        let summary = run(session, &self.strategy, &self.model, &options, scratch, &mut NoRecorder);
        assert_eq!(summary.requests as usize, session.steps.len(), "{}: every request is served", session.id);
        summary.usage
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// A task of SWE-bench as a run of constant growth: each request adds what the task wrote per request.
fn task(requests: u32, written_tokens: u32) -> Session {
    const PREFIX_TOKENS: u32 = 35_897;
    let growth = (f64::from(written_tokens) / f64::from(requests)).round() as u32;
    let call_tokens = 40;
    ConstantGrowth {
        requests,
        tools_tokens: PREFIX_TOKENS * 4 / 5,
        system_tokens: PREFIX_TOKENS - PREFIX_TOKENS * 4 / 5,
        prompt_tokens: growth,
        thinking_tokens: 0,
        call_tokens,
        result_tokens: growth - call_tokens,
        ..ConstantGrowth::default()
    }
    .session()
}

#[test]
fn linear_growth_reads_what_fifty_tasks_were_billed() {
    let ideal = Ideal::new("ideal-cache-unlimited");
    let mut scratch = Scratch::default();
    let text = fixture("swebench50.csv");
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let errors: Vec<f64> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            let number = |i: usize| cells[i].parse::<u32>().expect("a number");
            let usage = ideal.usage(&task(number(1), number(3)), &mut scratch);
            (usage.cache_read_tokens as f64 / f64::from(number(2)) - 1.0).abs()
        })
        .collect();
    assert_eq!(errors.len(), 50);
    let error = median(errors);
    println!("linear growth: median error {:.2} %", 100.0 * error);
    assert!(error <= 0.03, "median error {:.2} %", 100.0 * error);
}

/// Share of the prompts of 1,000 interactive sessions that is read, at each expiry.
fn pooled_hit_rates(seed: u64, ideals: &[Ideal]) -> Vec<f64> {
    let profile = Profile::load("interactive-coding").expect("built in");
    let mut scratch = Scratch::default();
    let mut sums = vec![(0_u64, 0_u64); ideals.len()];
    for index in 0..1_000 {
        let session = session(&profile, seed, index);
        let session = session.view(RecordedCompactions::Keep);
        for (ideal, (read, prompt)) in ideals.iter().zip(&mut sums) {
            let usage = ideal.usage(&session, &mut scratch);
            *read += usage.cache_read_tokens;
            *prompt += usage.prompt_tokens();
        }
    }
    sums.into_iter().map(|(read, prompt)| 100.0 * read as f64 / prompt as f64).collect()
}

#[test]
fn the_hit_rate_by_expiry_is_that_of_the_published_curve() {
    const PUBLISHED: [(&str, f64); 3] =
        [("ideal-cache-1m", 85.4), ("ideal-cache-5m", 94.0), ("ideal-cache-1h", 98.6)];
    let ideals = PUBLISHED.map(|(id, _)| Ideal::new(id));
    let rates: Vec<(u64, Vec<f64>)> = std::thread::scope(|scope| {
        let one = |seed| {
            scope.spawn({
                let ideals = &ideals;
                move || (seed, pooled_hit_rates(seed, ideals))
            })
        };
        let threads: Vec<_> = (0..8).map(one).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    for (seed, rates) in rates {
        println!("expiry curve, seed {seed}: {rates:.2?}");
        for ((id, published), rate) in PUBLISHED.iter().zip(rates) {
            assert!((rate - published).abs() <= 4.0, "seed {seed}, {id}: {rate:.2} against {published}");
        }
    }
}

/// The published row per session is not what the profile was fitted to, and so a check of it: mean 73.6 tool-initiated
/// requests, p90 135, p99 1,107.
#[test]
fn whole_sessions_are_about_as_long_as_published() {
    let profile = Profile::load("interactive-coding").expect("built in");
    let mut lengths: Vec<usize> = (0..4_000)
        .map(|index| session(&profile, 0, index).steps.iter().filter(|step| !step.human_turn).count())
        .collect();
    lengths.sort_unstable();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    let (p90, p99) = (lengths[3_600], lengths[3_960]);
    println!(
        "tool-initiated requests of a session: mean {mean:.1}, p50 {}, p90 {p90}, p99 {p99}",
        lengths[2_000]
    );
    assert!((50.0..95.0).contains(&mean) && (100..180).contains(&p90) && (700..1_600).contains(&p99));
}
