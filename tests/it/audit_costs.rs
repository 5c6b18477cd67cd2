//! Dollars that recordings state: read as they stand there, and what our price list makes of the same usage.

use std::collections::BTreeSet;
use std::path::Path;

use ctxsim::cause::Cause;
use ctxsim::ingest::{Detail, Recording};
use ctxsim::provider::model::Models;
use ctxsim::transcript::Entry;
use serde_json::{Value, json};

use crate::audit_support::{account, audit_of};
use crate::audit_totals::{read, recordings};
use crate::ingest_sketch::{fixture, read_bytes};

/// Where the cost of a request, or of a session, stands in a line or a message.
const PLACES: [&str; 7] = [
    "/message/usage/cost/total",
    "/message/usage/costUsd",
    "/metrics/accumulated_cost",
    "/response/usage/cost",
    "/info/cost",
    "/extra/cost",
    "/extra/response/usage/cost",
];

fn cost_of(value: &Value) -> Option<f64> {
    PLACES.iter().find_map(|place| value.pointer(place)?.as_f64())
}

/// A count that goes on from event to event.
fn counted_on(events: &[Value]) -> Option<f64> {
    // Older lists hold pairs of an action and its observation.
    let each =
        events.iter().flat_map(|event| event.as_array().map_or(std::slice::from_ref(event), Vec::as_slice));
    let so_far = each.filter_map(|event| event.pointer("/llm_metrics/accumulated_cost")?.as_f64());
    so_far.reduce(f64::max)
}

/// Dollars that a recording states, by a reader of its own.
fn stated(path: &Path) -> Option<f64> {
    let document = |path: &Path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).ok()?).ok();
    if path.is_dir() {
        // OpenHands SDK: events in a folder, and what they cost beside it.
        let state = document(&path.parent()?.join("base_state.json"))?;
        let uses = state.pointer("/stats/usage_to_metrics")?.as_object()?.values();
        return Some(uses.filter_map(|metrics| metrics["accumulated_cost"].as_f64()).sum());
    }
    let text = std::fs::read_to_string(path).ok()?;
    let Some(document) = document(path) else {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let history = |line: &Value| counted_on(line["history"].as_array()?);
        return Some(lines.filter_map(|line| cost_of(&line).or_else(|| history(&line))).sum());
    };
    if let Some(most) = document.as_array().and_then(|events| counted_on(events)) {
        return Some(most);
    }
    let of_all = document.pointer("/info/model_stats/instance_cost").or(document.get("cost"));
    let costs = document["messages"].as_array().into_iter().flatten().filter_map(cost_of);
    of_all.and_then(Value::as_f64).or_else(|| Some(costs.sum()))
}

#[test]
fn stated_dollars_go_before_the_price_list() {
    let mut compared = BTreeSet::new();
    let folder = fixture("openhands/sdk/conv-1/events");
    for path in recordings("jsonl").into_iter().chain(recordings("json")).chain([folder]) {
        let Some(expected) = stated(&path).filter(|usd| *usd > 0.0) else { continue };
        let Some(recordings) = read(&path, Detail::Facts) else { continue };
        let costs = recordings.iter().filter_map(|r| account(r).recorded_cost_pusd);
        let cost = costs.sum::<u64>() as f64 / 1e12;
        assert!((cost - expected).abs() < 0.005, "{}: {cost}, not {expected}", path.display());
        if let Recording::Transcript(transcript) = &recordings[0] {
            compared.insert(transcript.format);
        }
    }
    for format in ["arcturn", "litellm", "mini-swe-agent", "openhands", "openhands-sdk", "request-log"] {
        assert!(compared.contains(format), "{format} is not among {compared:?}");
    }
}

/// One request to a model of $3 a million tokens in and $15 out, reads at a tenth and writes at five quarters:
/// 4,812 tokens of prompt, 3,000 of them read and 800 written, and 146 of output.
const STATED_USD: f64 = (1_012.0 * 3.0 + 3_000.0 * 0.3 + 800.0 * 3.75 + 146.0 * 15.0) / 1e6;

/// The request as each format that states costs writes it down.
fn priced() -> Vec<(&'static str, String)> {
    const MODEL: &str = "claude-sonnet-4-5-20250929";
    let chat = json!({
        "prompt_tokens": 4812, "completion_tokens": 146, "prompt_tokens_details": {"cached_tokens": 3000},
        "cache_creation_input_tokens": 800, "cache_read_input_tokens": 3000,
    });
    let answer = json!({"id": "r1", "model": MODEL, "choices": [{"message": {"role": "assistant", "content": "hi"}}], "usage": chat});
    let listed = json!({"model": MODEL, "prompt_tokens": 4812, "completion_tokens": 146, "cache_read_tokens": 3000,
        "cache_write_tokens": 800, "response_id": "r1"});
    let event = |id: u32, metrics: Value| {
        json!({
            "id": id, "timestamp": "2026-03-01T10:00:00", "source": "agent", "action": "message", "args": {"content": "hi"},
            "tool_call_metadata": {"tool_call_id": "c", "function_name": "f", "total_calls_in_response": 1, "model_response": answer},
            "llm_metrics": metrics,
        })
    };
    let pi = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T10:00:00Z", "cwd": "w"}),
        json!({"type": "message", "id": "a", "message": {"role": "assistant", "model": MODEL, "content": [{"type": "text", "text": "hi"}],
            "usage": {"input": 1012, "output": 146, "cacheRead": 3000, "cacheWrite": 800, "cost": {"total": STATED_USD}}}}),
    ];
    let opencode = json!({"info": {"id": "ses_1"}, "messages": [{
        "info": {"id": "m1", "role": "assistant", "modelID": MODEL, "cost": STATED_USD,
            "tokens": {"input": 1012, "output": 146, "reasoning": 0, "cache": {"read": 3000, "write": 800}}},
        "parts": [{"type": "text", "text": "hi"}],
    }]});
    let mini = json!({"trajectory_format": "mini-swe-agent-1", "info": {"model_stats": {"instance_cost": STATED_USD}},
        "messages": [{"role": "assistant", "content": "hi", "extra": {"cost": STATED_USD, "response": answer}}]});
    let evaluated = json!({"instance_id": "i", "test_result": {}, "history": [event(1, Value::Null)],
        "metrics": {"accumulated_cost": STATED_USD, "token_usages": [listed], "costs": [{"model": MODEL, "cost": STATED_USD}]}});
    let litellm = json!({"messages": [{"role": "user", "content": "go"}], "tools": null, "kwargs": {}, "response": answer,
        "cost": STATED_USD, "timestamp": 1_772_359_205.25, "latency_sec": 1.5});
    vec![
        ("pi", pi.map(|line| format!("{line}\n")).concat()),
        ("opencode", opencode.to_string()),
        ("mini-swe-agent", mini.to_string()),
        ("openhands", json!([event(1, json!({"accumulated_cost": STATED_USD}))]).to_string()),
        ("openhands", evaluated.to_string()),
        ("litellm", litellm.to_string()),
    ]
}

#[test]
fn our_prices_are_what_recordings_state() {
    let models = Models::builtin().unwrap();
    let pusd = |usd: f64| (usd * 1e12).round() as u64;
    for (format, text) in priced() {
        let transcripts = read_bytes(text.as_bytes()).unwrap();
        assert_eq!(transcripts[0].format, format);
        let responses = transcripts[0].entries.iter().filter_map(|entry| match entry {
            Entry::Response(response) => Some(response),
            _ => None,
        });
        let responses: Vec<_> = responses.collect();
        assert_eq!(responses.len(), 1, "{format}");
        let price = models.get(&responses[0].model).unwrap().price(None).unwrap();
        let ours = price.cost(&responses[0].usage.unwrap()).total();
        assert_eq!(ours, u128::from(pusd(STATED_USD)), "{format}");
        assert_eq!(responses[0].recorded_cost_pusd, Some(pusd(STATED_USD)), "{format}");
        let account = account(&Recording::Transcript(Box::new(transcripts[0].clone())));
        assert_eq!(account.recorded_cost_pusd, Some(pusd(STATED_USD)), "{format}");
    }
}

#[test]
fn a_cost_of_nothing_is_a_price_that_the_agent_did_not_know() {
    for (format, text) in priced() {
        let text = text.replace(&STATED_USD.to_string(), "0.0");
        let transcript = read_bytes(text.as_bytes()).unwrap().remove(0);
        let ours = account(&Recording::Transcript(Box::new(transcript)));
        assert_eq!(ours.recorded_cost_pusd, None, "{format}");
        let audit = audit_of(&text);
        assert_eq!(audit.sums.cost_pusd, Some((STATED_USD * 1e12).round() as u128), "{format}");
    }
}

#[test]
fn a_stated_cost_is_the_session_s_cost() {
    let text = r#"{"type":"session","version":3,"id":"p","timestamp":"2026-10-01T00:00:00Z","cwd":"/x"}
{"type":"message","id":"1","parentId":null,"timestamp":"2026-10-01T00:00:01Z","message":{"role":"user","content":"hello"}}
{"type":"message","id":"2","parentId":"1","timestamp":"2026-10-01T00:00:02Z","message":{"role":"assistant","provider":"x","model":"nobody-knows-1","content":[{"type":"text","text":"hi"}],"usage":{"input":1000,"output":10,"cacheRead":0,"cacheWrite":0,"totalTokens":1010,"cost":{"total":0.01234}}}}
"#;
    let audit = audit_of(text);
    assert_eq!(audit.sums.cost_pusd, Some(12_340_000_000));
    // What it paid for misses is not stated.
    assert_eq!((audit.sums.wasted_pusd, audit.sums.misses_priced), (None, false));
    assert_eq!(audit.unpriced_model.as_deref(), Some("nobody-knows-1"));
    assert_eq!(audit.sums.miss(Cause::ColdStart).tokens, 1_000);
}
