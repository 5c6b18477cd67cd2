//! The conversation trace of Mooncake against the hit rates that are known of it (docs/published.md): by the cache
//! alone, and by everything that stands between the command line and it.

use std::fmt::Write as _;
use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::provider::block_cache::{BlockCache, BlockSpec, Eviction};
use ctxsim::session::Session;
use ctxsim::sim::shared::run_shared;
use ctxsim::sim::{NoRecorder, RunOptions, Summary};

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

/// The trace as it was published, read as any recording.
fn sessions() -> Vec<Session> {
    let mut lines = String::new();
    for prompt in prompts() {
        let Prompt { at_ms, tokens, blocks } = prompt;
        writeln!(
            lines,
            "{{\"timestamp\":{at_ms},\"input_length\":{tokens},\"output_length\":1,\"hash_ids\":{blocks:?}}}"
        )
        .expect("a string has room");
    }
    let recordings = ingest::read(lines.as_bytes(), Path::new("mooncake.jsonl"), &ReadOptions::default())
        .expect("a trace");
    let session = |recording| match recording {
        Recording::Hashed { session, .. } => *session,
        other => panic!("not a hashed session: {other:?}"),
    };
    recordings.into_iter().map(session).collect()
}

#[test]
fn a_simulation_of_the_trace_hits_what_is_published_too() {
    let sessions = sessions();
    let models = Models::builtin().expect("built in");
    let model = models.get("mooncake").expect("built in");
    let none = "none".parse::<PolicySpec>().expect("a preset").load(&[], &[]).expect("a preset");
    let strategy = none.strategy(model, &models).expect("a preset");
    let options = RunOptions { shared_cache: true, ..RunOptions::default() };
    let all: Vec<&Session> = sessions.iter().collect();
    let mut recorders = vec![NoRecorder; all.len()];
    let summaries =
        run_shared(&all, &strategy, model, &options, &mut recorders, || true).expect("not stopped");
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let (requests, prompt) = (sum(|s| s.requests), sum(|s| s.usage.prompt_tokens()));
    assert_eq!((requests, prompt), (12_031, prompts().iter().map(|p| p.tokens).sum()));
    assert_near(sum(|s| s.hit_rate_sum_nano) as f64 / 1e7 / requests as f64, 40.94);
    assert_near(100.0 * sum(|s| s.usage.cache_read_tokens) as f64 / prompt as f64, 37.36);
}
