//! Editing and compaction on the provider's side: each vector is a run of the preset that asks for them, so that what
//! is checked is what runs do.

use ctxsim::policy::{ParamValue, PolicySpec};
use ctxsim::provider::server_side;
use ctxsim::session::{Event, EventKind, Session};
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};
use ctxsim::tokens::Tokenizer;
use ctxsim::usage::Usage;
use serde_json::{Value, json};

use super::provider::models;
use super::sized::{Sized, Values};
use super::{Case, Run};

pub const MECHANISMS: &[(&str, Run)] = &[
    ("defaults", defaults),
    ("count_tokens", count_tokens),
    ("server_clear", server_clear),
    ("server_compaction", server_compaction),
];

/// Tokens in front of the conversation of these sessions, besides what fills a prompt up.
const CALL_TOKENS: u64 = 20;

fn session(case: &Case<'_>, json: &Value) -> Session {
    Sized::new(json, Values(None), case.preset, Tokenizer::ClaudeNewer).session
}

fn simulate(case: &Case<'_>, session: &Session, policy: &str) -> (Summary, FullRecorder) {
    let model = models().get(case.preset).unwrap();
    let strategy = policy.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
    let strategy = strategy.strategy(model, models()).unwrap();
    let (mut record, options) = (FullRecorder::default(), RunOptions::default());
    let summary = run(session, &strategy, model, &options, &mut Scratch::default(), &mut record);
    assert_eq!((summary.violations, summary.binding_rejections), (0, 0), "{:?}", record.events);
    (summary, record)
}

fn number(case: &Case<'_>, field: &str) -> Option<u64> {
    case.input.get(field).and_then(Value::as_u64)
}

/// An answer with one call for each of `results`, and a request with these; whatever they leave of `prompt` is the
/// first message.
fn results_session(case: &Case<'_>, prompt: u64, results: &[u64]) -> Session {
    let first = prompt - results.iter().sum::<u64>() - results.len() as u64 * CALL_TOKENS;
    let calls: Vec<Value> = (0..results.len())
        .map(|i| json!({"kind": "call", "id": format!("c{i}"), "tokens": CALL_TOKENS}))
        .collect();
    let results = results.iter().enumerate();
    let results: Vec<Value> = results
        .map(|(i, tokens)| json!({"kind": "result", "id": format!("r{i}"), "tokens": tokens}))
        .collect();
    let steps = json!([
        {"input": [{"kind": "user", "id": "u", "tokens": first}], "output": calls},
        {"input": results, "output": [{"kind": "text", "tokens": 10}]},
    ]);
    session(case, &json!({"prefix": {}, "steps": steps}))
}

fn server_clear(case: &Case<'_>) -> Option<Value> {
    let sizes: Vec<u64> =
        case.input["tool_result_tokens"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let placeholder = number(case, "placeholder_tokens").unwrap_or(server_side::PLACEHOLDER_TOKENS);
    assert_eq!(placeholder, server_side::PLACEHOLDER_TOKENS, "the preset has this one");
    let prompt = number(case, "input_tokens").unwrap();
    let set = [
        ("trigger_input_tokens", "clear_tool_uses.trigger.input_tokens"),
        ("keep_tool_uses", "clear_tool_uses.keep"),
        ("clear_at_least", "clear_at_least"),
    ];
    let set: Vec<String> = set
        .iter()
        .filter_map(|(field, param)| number(case, field).map(|value| format!("{param}={value}")))
        .collect();
    let policy = if set.is_empty() {
        "anthropic-editing".into()
    } else {
        format!("anthropic-editing:{}", set.join(","))
    };
    let (summary, record) = simulate(case, &results_session(case, prompt, &sizes), &policy);
    let sent = record.requests[1].usage.prompt_tokens();
    Some(json!({
        "fires": summary.elided_results > 0,
        "cleared_tool_uses": summary.elided_results,
        "cleared_input_tokens": prompt - sent,
    }))
}

/// The edit is worked out on the raw prompt, and the prompt that is counted is what is left of it.
fn count_tokens(case: &Case<'_>) -> Option<Value> {
    let (raw, cleared) =
        (number(case, "original_input_tokens").unwrap(), number(case, "cleared_input_tokens").unwrap());
    let result = cleared + server_side::PLACEHOLDER_TOKENS;
    let policy = "anthropic-editing:clear_tool_uses.trigger.input_tokens=0,clear_tool_uses.trigger.tool_uses=1,\
                  clear_tool_uses.keep=1";
    let (_, record) = simulate(case, &results_session(case, raw, &[result, 100]), policy);
    Some(json!({ "input_tokens": record.requests[1].usage.prompt_tokens() }))
}

fn server_compaction(case: &Case<'_>) -> Option<Value> {
    let (prompt, summary_tokens) =
        (number(case, "prompt_tokens").unwrap(), number(case, "summary_tokens").unwrap());
    let message = case.input.get("message");
    let (left, output) = match message {
        Some(message) => (message["input"].as_u64().unwrap(), message["output"].as_u64().unwrap()),
        None => (summary_tokens, 10),
    };
    // What the summary leaves of the prompt stands in front of the conversation.
    let prefix = left - summary_tokens;
    let steps = json!([
        {"input": [{"kind": "user", "id": "u", "tokens": prompt - prefix}],
         "output": [{"kind": "text", "tokens": output}]},
        {"input": [{"kind": "user", "id": "v", "tokens": 1}], "output": [{"kind": "text", "tokens": 1}]},
    ]);
    let mut session = session(case, &json!({"prefix": {"tools": prefix}, "steps": steps}));
    let policy = format!("anthropic-compaction:summary_tokens={summary_tokens}");
    if message.is_none() {
        // On demand: after the first answer, of which nothing is left to send.
        let kind = EventKind::ManualCompaction;
        session.events.push(Event { before_step: 1, kind });
    }
    let (summary, record) = simulate(case, &session, &policy);
    assert_eq!(summary.compactions, 1, "{:?}", record.events);
    let pass = summary.summarizer;
    let answer = message.map(|_| record.requests[0].usage);
    let usage = server_side::compaction_usage(&pass, answer.as_ref());
    Some(json!({
        "input": usage.top_level.prompt_tokens(),
        "output": usage.top_level.output_tokens,
        "billed_input": usage.billed.prompt_tokens() - if message.is_some() { 0 } else { sent_since(&session) },
        "billed_output": usage.billed.output_tokens,
        "stop_reason": usage.stop_reason,
    }))
}

/// Tokens of the first answer, which a compaction on demand reads besides the prompt.
fn sent_since(session: &Session) -> u64 {
    session.steps[0].output.clone().map(|b| u64::from(session.blocks.tokens[b as usize])).sum()
}

/// Defaults as the presets have them.
fn defaults(case: &Case<'_>) -> Option<Value> {
    let preset = |name: &str| name.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap().preset;
    let value = |preset: &str, param: &str| {
        let preset = self::preset_param(preset, param);
        serde_json::to_value(preset).unwrap()
    };
    match (case.system, case.input["of"].as_str()?) {
        ("anthropic-api", "clear_tool_uses_20250919") => {
            assert!(preset("anthropic-editing").version.contains("clear_tool_uses_20250919"));
            let at_least = preset_param("anthropic-editing", "clear_at_least");
            Some(json!({
                "trigger_input_tokens": value("anthropic-editing", "clear_tool_uses.trigger.input_tokens"),
                "keep_tool_uses": value("anthropic-editing", "clear_tool_uses.keep"),
                "clear_at_least": if at_least == ParamValue::Int(0) { Value::Null } else { json!(at_least) },
                "exclude_tools": value("anthropic-editing", "exclude_tools"),
                "clear_tool_inputs": value("anthropic-editing", "clear_tool_inputs"),
                "beta": server_side::EDITING_BETA,
            }))
        }
        ("anthropic-api", "compact_20260112") => Some(json!({
            "trigger_input_tokens": value("anthropic-compaction", "trigger"),
            "min_trigger_input_tokens": server_side::MIN_COMPACTION_TRIGGER_TOKENS,
            "pause_after_compaction": false,
            "instructions": null,
            "beta": server_side::COMPACTION_BETA,
            "top_level_usage_excludes_it": excludes_the_pass(),
            "summarizer_is_request_model": true,
        })),
        _ => None,
    }
}

fn preset_param(preset: &str, param: &str) -> ParamValue {
    let preset = preset.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap().preset;
    preset.params.iter().find(|p| p.name == param).unwrap_or_else(|| panic!("{param}")).default.clone()
}

/// Whether the top level leaves the pass out.
fn excludes_the_pass() -> bool {
    let pass = Usage { uncached_tokens: 7, ..Usage::default() };
    let message = Usage { uncached_tokens: 5, ..Usage::default() };
    server_side::compaction_usage(&pass, Some(&message)).top_level == message
}
