//! What audits sum: independent of how lines are written, and in dollars that another computation agrees
//! with.

use std::path::{Path, PathBuf};

use ctxsim::audit::{Account, audit};
use ctxsim::ingest::{self, Detail, ReadOptions, Recording};
use ctxsim::provider::model::Models;
use proptest::prelude::*;
use serde_json::Value;

use crate::audit_support::{Log, account, audit_of, long, short};
use crate::ingest_sketch::fixture;

/// One answer over as many lines as it has blocks, some of them twice, in this order.
fn spread(line: &str, doubled: &[bool], order: &[u16]) -> Vec<String> {
    let value: Value = serde_json::from_str(line).unwrap();
    let blocks = value["message"]["content"].as_array().unwrap().clone();
    let output = value["message"]["usage"]["output_tokens"].as_u64().unwrap();
    let count = blocks.len() as u64;
    let mut lines: Vec<(u16, String)> = Vec::new();
    for (i, block) in blocks.into_iter().enumerate() {
        let mut one = value.clone();
        one["message"]["content"] = Value::Array(vec![block]);
        // Output grows while the answer streams in.
        one["message"]["usage"]["output_tokens"] = (output * (i as u64 + 1) / count).into();
        for copy in 0..=usize::from(doubled[i % doubled.len()]) {
            one["uuid"] = format!("{}-{i}-{copy}", value["uuid"].as_str().unwrap()).into();
            lines.push((order[(i * 2 + copy) % order.len()], one.to_string()));
        }
    }
    lines.sort_by_key(|(key, _)| *key);
    lines.into_iter().map(|(_, line)| line).collect()
}

proptest! {
    #[test]
    fn audits_do_not_change_when_lines_are_split_doubled_or_reordered(
        series in prop::collection::vec((0_u64..60_000, 0_u64..30_000, any::<bool>(), 1_usize..5), 2..12),
        doubled in prop::collection::vec(any::<bool>(), 8),
        order in prop::collection::vec(any::<u16>(), 16),
    ) {
        let mut log = Log::new(Some(1_790_000_000_000));
        for (n, (read, written, is_long, calls)) in series.into_iter().enumerate() {
            let billed = if is_long { long(read, written + 1) } else { short(read, written + 1) };
            let ids: Vec<String> = (0..calls).map(|i| format!("c{n}-{i}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let blocks: Vec<String> = ids
                .iter()
                .map(|id| format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{{"path":"{id}"}}}}"#))
                .collect();
            log.request_with(billed, &blocks.join(","), &ids);
        }
        let plain = log.audit();
        let lines = log.lines.iter().flat_map(|line| match line.contains("\"assistant\"") {
            true => spread(line, &doubled, &order),
            false => vec![line.clone()],
        });
        let mixed = audit_of(&lines.collect::<Vec<_>>().join("\n"));
        prop_assert_eq!(plain, mixed);
    }

    #[test]
    fn misses_are_a_partition_of_what_was_not_read(
        series in prop::collection::vec((0_u64..90_000, 0_u64..40_000, 0_u64..3_000, 0_i64..400_000), 1..30),
    ) {
        let mut log = Log::new(Some(1_790_000_000_000));
        for (read, written, uncached, pause) in series {
            log.pause(pause);
            log.request(crate::audit_support::Billed { uncached, ..short(read, written) });
        }
        let sums = log.audit().sums;
        let missed: u64 = sums.misses.iter().map(|m| m.tokens).sum();
        let paid: u128 = sums.misses.iter().map(|m| m.cost_pusd).sum();
        let usage = sums.usage;
        prop_assert_eq!(missed, usage.uncached_tokens + usage.cache_write_tokens());
        let read_and_output = u128::from(usage.cache_read_tokens) * 500_000 + u128::from(usage.output_tokens) * 25_000_000;
        prop_assert_eq!(Some(paid + read_and_output), sums.cost_pusd);
        prop_assert!(sums.wasted_pusd <= sums.cost_pusd);
    }
}

/// Every file of a folder that ends so.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub fn read(path: &Path, detail: Detail) -> Option<Vec<Recording>> {
    let source = ingest::input::open(path).ok()?;
    ingest::read_detail(source, path, &ReadOptions::default(), detail).ok()
}

/// Hand-made recordings, and the user's own.
pub fn recordings(extension: &str) -> Vec<PathBuf> {
    let own = std::env::var("CTXSIM_RECORDINGS").map(PathBuf::from);
    let folders = [Some(fixture("")), own.ok()];
    folders.into_iter().flatten().flat_map(|folder| files(&folder, extension)).collect()
}

#[test]
fn facts_are_those_of_the_whole_recording() {
    let mut compared = 0;
    for path in recordings("jsonl") {
        let (Some(full), Some(facts)) = (read(&path, Detail::Full), read(&path, Detail::Facts)) else {
            continue;
        };
        let accounts = |read: &[Recording]| read.iter().map(account).collect::<Vec<Account>>();
        assert_eq!(accounts(&full), accounts(&facts), "{}", path.display());
        for (full, facts) in full.iter().zip(&facts) {
            let (Recording::Transcript(full), Recording::Transcript(facts)) = (full, facts) else { continue };
            assert_eq!(full.totals(), facts.totals(), "{}", path.display());
            assert_eq!(full.notices, facts.notices, "{}", path.display());
        }
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

/// Dollars a million tokens: input, five-minute write, hour write, read, output; of vendors' pages.
const PRICES: &[(&str, [f64; 5])] = &[
    ("claude-opus-4-5", [5.0, 6.25, 10.0, 0.5, 25.0]),
    ("claude-opus-4-6", [5.0, 6.25, 10.0, 0.5, 25.0]),
    ("claude-opus-4-7", [5.0, 6.25, 10.0, 0.5, 25.0]),
    ("claude-opus-4-8", [5.0, 6.25, 10.0, 0.5, 25.0]),
    ("claude-opus-5", [5.0, 6.25, 10.0, 0.5, 25.0]),
    ("claude-sonnet-4-5", [3.0, 3.75, 6.0, 0.3, 15.0]),
    ("claude-sonnet-4-6", [3.0, 3.75, 6.0, 0.3, 15.0]),
    ("claude-haiku-4-5", [1.0, 1.25, 2.0, 0.1, 5.0]),
    ("claude-fable-5", [10.0, 12.5, 20.0, 1.0, 50.0]),
];

/// The cost of a file by a reader of its own: the last line of each message id counts.
fn cost_of_lines(text: &str) -> Option<f64> {
    let mut last: std::collections::BTreeMap<String, Value> = std::collections::BTreeMap::new();
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let message = &value["message"];
        let is_side = value["isSidechain"].as_bool().unwrap_or(false) || value.get("agentId").is_some();
        if value["type"] == "assistant" && !is_side && message["usage"].is_object() {
            last.insert(message["id"].as_str()?.to_owned(), message.clone());
        }
    }
    let mut usd = 0.0;
    for message in last.into_values().filter(|m| m["model"] != "<synthetic>") {
        let model = message["model"].as_str()?;
        let (_, price) = PRICES.iter().find(|(name, _)| model.starts_with(name))?;
        let usage = &message["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let hour = usage["cache_creation"]["ephemeral_1h_input_tokens"].as_u64().unwrap_or(0);
        let tokens = [
            count("input_tokens"),
            count("cache_creation_input_tokens") - hour,
            hour,
            count("cache_read_input_tokens"),
            count("output_tokens"),
        ];
        usd += tokens.iter().zip(price).map(|(tokens, price)| *tokens as f64 * price / 1e6).sum::<f64>();
    }
    Some(usd)
}

fn dollars(pusd: Option<u128>) -> f64 {
    pusd.expect("a known price") as f64 / 1e12
}

#[test]
fn dollars_agree_with_a_computation_of_its_own() {
    let mut log = Log::of([long(20_000, 9_000), short(29_000, 700), long(4_000, 31_000)]);
    log.model("claude-sonnet-4-6");
    log.request(short(0, 40_000));
    let expected = cost_of_lines(&log.text()).unwrap();
    assert!((dollars(log.audit().sums.cost_pusd) - expected).abs() < 1e-9);

    let Ok(folder) = std::env::var("CTXSIM_RECORDINGS") else { return };
    let models = Models::builtin().unwrap();
    let mut compared = 0;
    for path in files(Path::new(&folder), "jsonl") {
        let Some(recordings) = read(&path, Detail::Full) else { continue };
        let Recording::Transcript(main) = &recordings[0] else { continue };
        let text = std::fs::read_to_string(&path).unwrap();
        let Some(expected) = cost_of_lines(&text).filter(|usd| main.format == "claude-code" && *usd > 0.0)
        else {
            continue;
        };
        let cost = dollars(audit(&Account::of(main), &models, None).sums.cost_pusd);
        assert!((cost - expected).abs() < 0.005, "{}: {cost}, not {expected}", path.display());
        compared += 1;
    }
    println!("{compared} recordings compared");
}
