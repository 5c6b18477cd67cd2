//! The conversation trace of Mooncake against the hit rates that are known of it (docs/published.md): by the cache
//! alone, and by everything that stands between the command line and it.

use std::fmt::Write as _;
use std::path::Path;

use ctxsim::cause::Cause;
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
    read(&lines)
}

fn read(lines: &str) -> Vec<Session> {
    let recordings = ingest::read(lines.as_bytes(), Path::new("mooncake.jsonl"), &ReadOptions::default())
        .expect("a trace");
    let session = |recording| match recording {
        Recording::Hashed { session, .. } => *session,
        other => panic!("not a hashed session: {other:?}"),
    };
    recordings.into_iter().map(session).collect()
}

fn served(sessions: &[Session], models: &Models, model: &str) -> Vec<Summary> {
    let model = models.get(model).expect("a model");
    let none = "none".parse::<PolicySpec>().expect("a preset").load(&[], &[]).expect("a preset");
    let strategy = none.strategy(model, models).expect("a preset");
    let options = RunOptions { shared_cache: true, ..RunOptions::default() };
    let all: Vec<&Session> = sessions.iter().collect();
    let mut recorders = vec![NoRecorder; all.len()];
    run_shared(&all, &strategy, model, &options, &mut recorders, || true).expect("not stopped")
}

#[test]
fn a_simulation_of_the_trace_hits_what_is_published_too() {
    let models = Models::builtin().expect("built in");
    let summaries = served(&sessions(), &models, "mooncake");
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let (requests, prompt) = (sum(|s| s.requests), sum(|s| s.usage.prompt_tokens()));
    assert_eq!((requests, prompt), (12_031, prompts().iter().map(|p| p.tokens).sum()));
    assert_near(sum(|s| s.hit_rate_sum_nano) as f64 / 1e7 / requests as f64, 40.94);
    assert_near(100.0 * sum(|s| s.usage.cache_read_tokens) as f64 / prompt as f64, 37.36);
}

/// Of two caches that differ only in what they do with unfilled blocks, what the full ones lost has one cause.
#[test]
fn what_a_full_cache_lost_is_evicted_whether_or_not_unfilled_blocks_are_kept() {
    let line = |at_ms: u64, tokens: u64, blocks: &[u32]| {
        format!(
            "{{\"timestamp\":{at_ms},\"input_length\":{tokens},\"output_length\":1,\"hash_ids\":{blocks:?}}}\n"
        )
    };
    // One conversation comes back after another has taken its room.
    let lines = [
        line(0, 3 * 512 + 100, &[1, 2, 3, 4]),
        line(1_000, 5 * 512 + 50, &[11, 12, 13, 14, 15, 16]),
        line(2_000, 4 * 512 + 100, &[1, 2, 3, 5, 6]),
    ]
    .concat();
    let missed = [true, false].map(|keeps| {
        let own = format!(
            "[[model]]\nid = \"own\"\nlike = \"mooncake\"\ncache.capacity_blocks = 6\n\
             cache.keeps_partial_blocks = {keeps}\n"
        );
        let mut models = Models::builtin().expect("built in");
        models.add_toml(&own, "own.toml").expect("a model");
        let summaries = served(&read(&lines), &models, "own");
        [Cause::Evicted, Cause::PrefixUnknown]
            .map(|c| summaries.iter().map(|s| s.miss(c).tokens).sum::<u64>())
    });
    assert_eq!(missed[0], missed[1]);
    assert!(missed[0][0] > 0 && missed[0][1] == 0, "{missed:?}");
}
