//! Speed of the Claude Code reader: MB/s over a generated corpus in memory.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctxsim::ingest::{ReadOptions, Recording, read};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const WORDS: &[&str] =
    &["alpha", "let", "match", "return", "error:", "warning", "src/lib.rs", "\\n", "\\t", "fn", "{", "}"];

/// Text as the inside of a JSON string, of about `chars` characters.
fn text(rng: &mut Xoshiro256PlusPlus, chars: usize) -> String {
    let mut text = String::with_capacity(chars + 12);
    while text.len() < chars {
        text.push_str(WORDS[rng.random_range(0..WORDS.len())]);
        text.push(' ');
    }
    text
}

/// One session of `requests` requests: a thinking, a text and a call line each, and a result with its
/// richer copy.
fn session(seed: u64, requests: usize) -> String {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut out = String::new();
    let mut parent = "root".to_owned();
    for request in 0..requests {
        let usage = format!(
            r#""usage":{{"input_tokens":3,"cache_creation_input_tokens":{},"cache_read_input_tokens":{},"output_tokens":{}}}"#,
            rng.random_range(100..5000),
            request * 900,
            rng.random_range(20..900),
        );
        let blocks = [
            format!(
                r#"{{"type":"thinking","thinking":"{}","signature":"{}"}}"#,
                text(rng, 300),
                "x".repeat(400)
            ),
            format!(r#"{{"type":"text","text":"{}"}}"#, text(rng, 400)),
            format!(
                r#"{{"type":"tool_use","id":"call{request}","name":"Read","input":{{"path":"{}"}}}}"#,
                text(rng, 60)
            ),
        ];
        for (i, block) in blocks.iter().enumerate() {
            let uuid = format!("{request}-{i}");
            let _ = writeln!(
                out,
                r#"{{"parentUuid":"{parent}","isSidechain":false,"cwd":"/srv/p","sessionId":"s{seed}","version":"2.1.200","gitBranch":"main","type":"assistant","requestId":"r{request}","uuid":"{uuid}","timestamp":"2026-11-01T00:00:00.000Z","message":{{"id":"m{request}","type":"message","role":"assistant","model":"claude-opus-4-6","content":[{block}],"stop_reason":"tool_use",{usage}}}}}"#
            );
            parent = uuid;
        }
        let chars = rng.random_range(200..12_000);
        let result = text(rng, chars);
        let _ = writeln!(
            out,
            r#"{{"parentUuid":"{parent}","isSidechain":false,"cwd":"/srv/p","sessionId":"s{seed}","version":"2.1.200","gitBranch":"main","type":"user","uuid":"{request}-r","timestamp":"2026-11-01T00:00:01.000Z","message":{{"role":"user","content":[{{"tool_use_id":"call{request}","type":"tool_result","content":"{result}"}}]}},"toolUseResult":{{"stdout":"{result}","stderr":""}}}}"#
        );
        parent = format!("{request}-r");
    }
    out
}

fn requests_in(recordings: &[Recording]) -> u64 {
    let transcripts =
        recordings.iter().filter_map(|r| if let Recording::Transcript(t) = r { Some(t) } else { None });
    transcripts.map(|t| t.totals().responses).sum()
}

fn ingest(c: &mut Criterion) {
    let corpus: Vec<String> = (0..8).map(|seed| session(seed, 250)).collect();
    let bytes: usize = corpus.iter().map(String::len).sum();
    let mut group = c.benchmark_group("ingest");
    group.sample_size(20).throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("claude-code", |b| {
        b.iter(|| {
            let mut requests = 0;
            for session in &corpus {
                let recordings =
                    read(black_box(session.as_bytes()), Path::new("bench"), &ReadOptions::default());
                requests += requests_in(&recordings.expect("the generated session is well-formed"));
            }
            assert_eq!(requests, 2000);
        });
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
