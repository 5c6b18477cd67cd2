//! The conversation trace of Mooncake against the hit rates that are known of it (docs/published.md).

use ctxsim::provider::block_cache::{BlockCache, BlockSpec, Eviction};

use crate::mooncake_trace::{BLOCK_TOKENS, Prompt, prompts};

/// Hit rates in percent: mean of the requests', of all tokens, of all blocks.
struct Rates {
    mean: f64,
    tokens: f64,
    blocks: f64,
}

fn replay(prompts: &[Prompt], capacity_blocks: Option<u32>) -> Rates {
    let spec = BlockSpec {
        block_tokens: BLOCK_TOKENS as u32,
        capacity_blocks,
        evicts: Eviction::HeadFirst,
        recomputes_last_token: false,
        keeps_partial_blocks: true,
    };
    let mut cache = BlockCache::new(&spec);
    let (mut mean, mut hit_tokens, mut tokens, mut hit_blocks, mut blocks) = (0.0, 0, 0, 0, 0);
    for prompt in prompts {
        let hit = cache.serve(&prompt.blocks);
        let read = spec.hit_tokens(prompt.tokens, hit as u64);
        mean += read as f64 / prompt.tokens as f64;
        (hit_tokens, tokens) = (hit_tokens + read, tokens + prompt.tokens);
        (hit_blocks, blocks) = (hit_blocks + hit, blocks + prompt.blocks.len());
    }
    Rates {
        mean: 100.0 * mean / prompts.len() as f64,
        tokens: 100.0 * hit_tokens as f64 / tokens as f64,
        blocks: 100.0 * hit_blocks as f64 / blocks as f64,
    }
}

#[track_caller]
fn assert_near(found: f64, published: f64) {
    assert!((found - published).abs() < 0.1, "{found} instead of {published}");
}

#[test]
fn the_distilled_trace_is_whole() {
    let prompts = prompts();
    assert_eq!(prompts.len(), 12_031);
    assert_eq!(prompts.iter().map(|p| p.blocks.len()).sum::<usize>(), 288_500);
    assert_eq!(prompts.iter().flat_map(|p| &p.blocks).max(), Some(&182_789));
}

#[test]
fn a_cache_without_end_hits_what_is_published() {
    let rates = replay(&prompts(), None);
    assert_near(rates.mean, 40.94);
    assert_near(rates.tokens, 37.36);
    assert_near(rates.blocks, 36.64);
}

#[test]
fn capacity_costs_hits_as_published() {
    let prompts = prompts();
    for (capacity, blocks) in
        [(1_000, 4.45), (10_000, 21.12), (30_000, 32.57), (50_000, 35.46), (100_000, 36.37)]
    {
        assert_near(replay(&prompts, Some(capacity)).blocks, blocks);
    }
}
