//! Requests per second of one cell, to a summary without per-request output: binding enforced, compaction
//! off, five blocks a request.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};

fn session(requests: u32, result_utf16: u32, result_tokens: u32) -> Session {
    ConstantGrowth {
        requests,
        calls_per_request: 2,
        result_utf16,
        result_tokens,
        ..ConstantGrowth::default()
    }
    .session()
}

fn bench(c: &mut Criterion) {
    let models = Models::builtin().expect("the built-in models are well-formed");
    let model = models.get("claude-opus-5-5").expect("it is in the table");
    let mut group = c.benchmark_group("sim::run");
    // `none`: 40 thinking + 2 × 20 call + 2 × 50 result = 180 new tokens a request. `arcturn`: two results
    // of 2,000 characters a request.
    for (policy, utf16, tokens) in [("none", 150, 50), ("arcturn:compaction.enabled=false", 2_000, 900)] {
        let spec: PolicySpec = policy.parse().expect("a preset");
        let strategy = spec.load(&[], &[]).and_then(|p| p.strategy(model, &models)).expect("a strategy");
        for requests in [500, 5_000] {
            let growth = session(requests, utf16, tokens);
            let mut scratch = Scratch::default();
            group.throughput(Throughput::Elements(u64::from(requests)));
            group.bench_with_input(BenchmarkId::new(policy, requests), &growth, |b, growth| {
                b.iter(|| {
                    run(growth, &strategy, model, &RunOptions::default(), &mut scratch, &mut NoRecorder)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
