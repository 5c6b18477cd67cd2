//! Requests per second of one cell, to a summary without per-request output: binding enforced, compaction
//! off, five blocks a request.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};

fn session(requests: u32, result_utf16: u32, result_tokens: u32) -> Session {
    let growth = ConstantGrowth {
        requests,
        text_tokens: 20,
        reminder_tokens: 20,
        result_utf16,
        result_tokens,
        ..ConstantGrowth::default()
    };
    growth.session()
}

fn bench(c: &mut Criterion) {
    let models = Models::builtin().expect("the built-in models are well-formed");
    let model = models.get("claude-opus-5-5").expect("it is in the table");
    let mut group = c.benchmark_group("sim::run");
    // Thinking 40, text 20, call 20, result 80 and reminder 20: 180 new tokens a request for `none`; for
    // `arcturn` one result of 4,000 characters. `openhands-recent` drops messages at every request: what its time
    // per request must not do is grow with the session.
    let cells = [
        ("none", 240, 80),
        ("arcturn:compaction.enabled=false", 4_000, 1_800),
        ("openhands-recent", 240, 80),
    ];
    for (policy, utf16, tokens) in cells {
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
