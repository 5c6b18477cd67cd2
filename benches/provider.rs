//! The provider alone: append-only sessions of 5 blocks and 180 new tokens a request, breakpoints on tools,
//! system and the last block, binding enforced.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ctxsim::provider::{
    Account, Answer, Marker, Models, NO_LINK, Params, Provider, Request, SentBlock, SentKind, Ttl,
};

const NEW: [(SentKind, u32); 5] = [
    (SentKind::Thinking, 40),
    (SentKind::AssistantText, 20),
    (SentKind::ToolUse, 30),
    (SentKind::ToolResult, 80),
    (SentKind::Text, 10),
];

fn block(kind: SentKind, tokens: u32, link: u32, message: u32, seed: u64) -> SentBlock {
    let hash = xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes());
    SentBlock { hash, tokens, link, message, kind, deferred: false, placeholder: false }
}

/// All blocks of a session of `requests` requests.
fn session(requests: u32) -> Vec<SentBlock> {
    let mut blocks = vec![
        block(SentKind::Tool, 8_000, NO_LINK, 0, 1),
        block(SentKind::System, 2_000, NO_LINK, 0, 2),
        block(SentKind::Text, 100, NO_LINK, 0, 3),
    ];
    for request in 1..requests {
        for (i, (kind, tokens)) in NEW.into_iter().enumerate() {
            let linked = matches!(kind, SentKind::Thinking | SentKind::ToolUse | SentKind::ToolResult);
            let message = 2 * request - u32::from(kind.is_assistant());
            let link = if linked { request } else { NO_LINK };
            blocks.push(block(kind, tokens, link, message, u64::from(request) * 8 + i as u64 + 16));
        }
    }
    blocks
}

/// Sends the session, each request longer by five blocks.
fn replay(provider: &mut Provider<'_>, blocks: &[SentBlock], requests: u32) -> u64 {
    let mut read_tokens = 0;
    let mut known = 0;
    for request in 1..=requests {
        let len = 3 + 5 * (request as usize - 1);
        let last = len as u32 - 1;
        let markers = [0, 1, last].map(|after| Marker { after, ttl: Ttl::Short });
        let answer = provider.send(&Request {
            at_ms: i64::from(request) * 10_000,
            ttft_ms: 0,
            blocks: &blocks[..len],
            changed_from: known,
            change: None,
            markers: &markers,
            automatic: None,
            params: Params::default(),
            tail_tokens: 120,
            max_output_tokens: 0,
        });
        known = len;
        provider.answered(&[request]);
        match answer {
            Answer::Done(done) => read_tokens += done.usage.cache_read_tokens,
            Answer::Rejected(rejection) => panic!("{}", rejection.message),
        }
    }
    read_tokens
}

fn provider(c: &mut Criterion) {
    let mut models = Models::builtin().unwrap();
    models.add_toml("[[model]]\nid = \"claude-opus-5-5\"\nwindow_tokens = 1000000000\n", "bench").unwrap();
    let model = models.get("claude-opus-5-5").unwrap();
    let mut group = c.benchmark_group("provider/append");
    for requests in [500, 5_000] {
        let blocks = session(requests);
        let mut provider = Provider::new(model, Account::Enforced);
        group.throughput(Throughput::Elements(u64::from(requests)));
        group.bench_with_input(BenchmarkId::from_parameter(requests), &requests, |b, &requests| {
            b.iter(|| {
                provider.reset(model, Account::Enforced);
                black_box(replay(&mut provider, black_box(&blocks), requests))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(3));
    targets = provider
}
criterion_main!(benches);
