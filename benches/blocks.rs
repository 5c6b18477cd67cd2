//! The block cache alone, on the conversation trace of Mooncake: 288,500 references to 182,790 blocks, of which
//! 50,000 are kept. Throughput is references a second; reading the trace and naming blocks are left out.

#[path = "../tests/it/mooncake_trace.rs"]
mod mooncake;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctxsim::provider::block_cache::{BlockCache, BlockSpec, Eviction};

fn blocks(criterion: &mut Criterion) {
    let prompts = mooncake::prompts();
    assert!(prompts.is_sorted_by_key(|prompt| prompt.at_ms), "requests come in the order of their times");
    let references: usize = prompts.iter().map(|p| p.blocks.len()).sum();
    let mut group = criterion.benchmark_group("blocks");
    group.throughput(Throughput::Elements(references as u64));
    for (name, evicts) in [("head_first", Eviction::HeadFirst), ("tail_first", Eviction::TailFirst)] {
        let spec = BlockSpec {
            block_tokens: mooncake::BLOCK_TOKENS as u32,
            capacity_blocks: Some(50_000),
            evicts,
            recomputes_last_token: false,
            keeps_partial_blocks: true,
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut cache = BlockCache::new(&spec);
                let mut hit_tokens = 0;
                for prompt in &prompts {
                    let hit = cache.serve(black_box(&prompt.blocks));
                    hit_tokens += spec.hit_tokens(prompt.tokens, hit as u64);
                }
                hit_tokens
            });
        });
    }
    group.finish();
}

criterion_group!(benches, blocks);
criterion_main!(benches);
