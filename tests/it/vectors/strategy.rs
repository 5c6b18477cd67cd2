//! `strategy.run`: a preset on a session of stated sizes, run as the program runs it. What comes out is what
//! the run reports, and what a probe behind the last rule sees of the history at each request.

use std::collections::BTreeMap;

use ctxsim::error::Result;
use ctxsim::policy::interpreter::Interpreter;
use ctxsim::policy::occasion::{Occasion, Stopped};
use ctxsim::policy::plan::{Ingest, Plan};
use ctxsim::policy::strategy::{Hook, Hooks};
use ctxsim::policy::view::{State, View};
use ctxsim::policy::{Policy, PolicyConfig, PolicySpec};
use ctxsim::provider::{Account, ModelSpec, Models};
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RequestRow, RunOptions, Scratch, SimEvent, Summary, run_policy};
use serde_json::{Map, Value, json};

use super::sized::{Sized, Values};
use super::{Case, Run};

/// Mechanisms of this room.
pub const MECHANISMS: &[(&str, Run)] = &[("strategy.run", |case| Some(strategy_run(case)))];

/// Names of blocks per state, and counts of all blocks per state.
#[derive(Default)]
struct Look {
    names: BTreeMap<&'static str, Vec<String>>,
    counts: BTreeMap<&'static str, u64>,
    first_kept: Option<String>,
    has_summary: bool,
}

/// The interpreter, and behind its last rule one that only looks.
struct Probe<'a, 'p> {
    interpreter: Interpreter<'p>,
    sized: &'a Sized,
    looks: BTreeMap<u32, Look>,
}

impl<'p> Policy<'p> for Probe<'_, 'p> {
    fn rule_count(&self) -> usize {
        self.interpreter.rule_count() + 1
    }

    fn rule_id(&self, rule: usize) -> &str {
        if self.has(rule) { self.interpreter.rule_id(rule) } else { "probe" }
    }

    fn hooks(&self) -> Hooks {
        self.interpreter.hooks().with(Hook::Request)
    }

    fn at_tool_result(&mut self, rule: usize, view: &View<'_>, result: u32) -> Option<Ingest> {
        self.has(rule).then(|| self.interpreter.at_tool_result(rule, view, result)).flatten()
    }

    fn resumed(&mut self, session: &Session) {
        self.interpreter.resumed(session);
    }

    fn begin(&mut self, occasion: &Occasion) {
        self.interpreter.begin(occasion);
    }

    fn at_hook(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Plan<'p>> {
        if self.has(rule) {
            return self.interpreter.at_hook(rule, occasion, view);
        }
        if occasion.hook == Hook::Request {
            self.looks.insert(occasion.request, look(view, &self.sized.names));
        }
        None
    }

    fn applied(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Stopped> {
        self.has(rule).then(|| self.interpreter.applied(rule, occasion, view)).flatten()
    }

    fn summary_is_due(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> bool {
        self.interpreter.summary_is_due(rule, occasion, view)
    }

    fn failed(&mut self, rule: usize) {
        self.interpreter.failed(rule);
    }
}

impl Probe<'_, '_> {
    /// Whether the rule is the interpreter's.
    fn has(&self, rule: usize) -> bool {
        rule < self.interpreter.rule_count()
    }
}

/// What has become of a block, in one word: where it has left, why; else what stands for it.
fn word(state: State) -> &'static str {
    let words = [
        (State::GONE, "dropped"),
        (State::FOLDED, "folded"),
        (State::HIDDEN, "hidden"),
        (State::ELIDED, "stubbed"),
        (State::REPLACED, "stubbed"),
        (State::WITHHELD, "withheld"),
        (State::OFFLOADED, "offloaded"),
    ];
    words.into_iter().find(|(bit, _)| state.has(*bit)).map_or("kept", |(_, word)| word)
}

fn look(view: &View<'_>, names: &[Option<String>]) -> Look {
    let mut look = Look { has_summary: view.summary.is_some(), ..Look::default() };
    for (i, state) in view.states.iter().enumerate() {
        let word = word(*state);
        *look.counts.entry(word).or_default() += 1;
        let Some(name) = &names[i] else { continue };
        look.names.entry(word).or_default().push(name.clone());
        if word == "kept" && look.first_kept.is_none() {
            look.first_kept = Some(name.clone());
        }
    }
    look
}

impl Look {
    fn to_json(&self) -> Value {
        let mut out = json!({"first_kept": self.first_kept, "has_summary": self.has_summary});
        for word in ["kept", "stubbed", "offloaded", "folded", "dropped", "hidden", "withheld"] {
            out[word] = json!(self.names.get(word).cloned().unwrap_or_default());
            out[format!("{word}_count")] = json!(self.counts.get(word).copied().unwrap_or(0));
        }
        out
    }
}

/// The preset with the vector's options, each of which must exist.
fn config(case: &Case<'_>) -> Result<PolicyConfig> {
    let options = case.input.get("options").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    };
    let overrides = options.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let spec = PolicySpec { label: None, source: case.preset.to_owned(), overrides };
    spec.load(&[], &[])
}

fn model(case: &Case<'_>, models: &Models) -> ModelSpec {
    let id = case.input.get("model").and_then(Value::as_str).unwrap_or("claude-opus-5-5");
    let mut model = models.get(id).unwrap().clone();
    let number = |field: &str| case.input.get(field).and_then(Value::as_u64);
    model.window_tokens = number("window").unwrap_or(model.window_tokens);
    model.max_output_tokens = number("max_output").unwrap_or(model.max_output_tokens);
    model
}

/// A preset that cannot be read or resolved fails each of its vectors, not the others.
fn strategy_run(case: &Case<'_>) -> Value {
    run_strategy(case).unwrap_or_else(|error| {
        println!("{}: {error}", case.preset);
        json!({"error": error.to_string()})
    })
}

fn run_strategy(case: &Case<'_>) -> Result<Value> {
    let models = Models::builtin().unwrap();
    let model = model(case, &models);
    let config = config(case)?;
    let strategy = config.strategy(&model, &models)?;
    let params: Map<String, Value> =
        config.resolved_params(&model).into_iter().map(|(name, value)| (name, json!(value))).collect();
    let mut ids: Vec<&str> = strategy.rules.iter().map(|r| r.id.as_str()).collect();
    ids.dedup();
    let mut actual = json!({"params": params, "rules": ids});
    let Some(session) = case.input.get("session") else { return Ok(actual) };
    let values = Values(case.input.get("values").and_then(Value::as_object));
    let sized = Sized::new(session, values, &model.id, model.tokenizer);
    let account = match case.input.get("account").and_then(Value::as_str) {
        Some("enforced") => Account::Enforced,
        None | Some("unenforced") => Account::Unenforced,
        Some(other) => panic!("account {other}"),
    };
    let interpreter = Interpreter::new(&strategy, &sized.session);
    let mut probe = Probe { interpreter, sized: &sized, looks: BTreeMap::new() };
    let options = RunOptions { account, ..RunOptions::default() };
    let mut record = FullRecorder::default();
    let summary = run_policy(
        &sized.session,
        &strategy,
        &mut probe,
        &model,
        &options,
        &mut Scratch::default(),
        &mut record,
    );
    let reported = reported(&record, &ids);
    actual.as_object_mut().unwrap().extend(reported.as_object().unwrap().clone());
    actual["summary"] = totals(&summary);
    let mut looks: Map<String, Value> =
        probe.looks.iter().map(|(request, look)| (request.to_string(), look.to_json())).collect();
    if let Some((_, last)) = probe.looks.last_key_value() {
        looks.insert("end".to_owned(), last.to_json());
    }
    actual["state"] = Value::Object(looks);
    Ok(actual)
}

fn reported(record: &FullRecorder, ids: &[&str]) -> Value {
    let is_break =
        |row: &&RequestRow| row.miss_cause.is_some_and(|cause| cause.name().starts_with("prefix_"));
    let breaks: Vec<u32> = record.requests.iter().filter(is_break).map(|row| row.request).collect();
    let rows: Map<String, Value> =
        record.requests.iter().map(|row| (row.request.to_string(), request_fields(row))).collect();
    let events: Vec<Value> = record.events.iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    let acted = requests_of(&record.events, &events, ids, acted);
    let noticed = requests_of(&record.events, &events, ids, |kind| kind == "notice");
    let counts: Map<String, Value> =
        acted.iter().map(|(id, list)| (id.clone(), json!(list.as_array().unwrap().len()))).collect();
    let mut by_kind: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in &events {
        by_kind.entry(event["kind"].as_str().unwrap()).or_default().push(event);
    }
    json!({
        "requests": record.requests.len(), "request": rows, "break_count": breaks.len(), "breaks": breaks,
        "fired": acted, "fired_count": counts, "noticed": noticed, "events_of": by_kind, "events": events,
    })
}

/// Whether an event of this kind says that its rule changed something.
fn acted(kind: &str) -> bool {
    ![
        "notice",
        "compaction_start",
        "compaction_progress",
        "compaction_failed",
        "same_stubs",
        "applied_edits",
        "violation",
    ]
    .contains(&kind)
}

fn requests_of(
    events: &[SimEvent],
    json: &[Value],
    ids: &[&str],
    wanted: fn(&str) -> bool,
) -> Map<String, Value> {
    let mut lists: BTreeMap<&str, Vec<u32>> = ids.iter().map(|id| (*id, Vec::new())).collect();
    for (event, fields) in events.iter().zip(json) {
        let rule = fields.get("rule").and_then(Value::as_str);
        if let Some(rule) = rule.filter(|_| wanted(fields["kind"].as_str().unwrap())) {
            let list = lists.entry(rule).or_default();
            if list.last() != Some(&event.request) {
                list.push(event.request);
            }
        }
    }
    lists.into_iter().map(|(id, list)| (id.to_owned(), json!(list))).collect()
}

fn request_fields(row: &RequestRow) -> Value {
    json!({
        "prompt": row.usage.prompt_tokens(),
        "cache_read": row.usage.cache_read_tokens,
        "cache_write_5m": row.usage.cache_write_5m_tokens,
        "cache_write_1h": row.usage.cache_write_1h_tokens,
        "uncached": row.usage.uncached_tokens,
        "miss_cause": row.miss_cause.map(|cause| cause.name()),
        "missed": row.missed_tokens,
        "estimate": row.estimate_tokens,
        "passes": row.passes,
        "compactions": row.compactions,
        "rejections": row.rejections,
    })
}

fn totals(summary: &Summary) -> Value {
    json!({
        "requests": summary.requests, "compactions": summary.compactions, "passes": summary.passes,
        "offloads": summary.offloads, "elided_results": summary.elided_results,
        "chars_saved": summary.chars_saved, "summarizer_calls": summary.summarizer_calls,
        "summarizer": {
            "uncached": summary.summarizer.uncached_tokens,
            "cache_read": summary.summarizer.cache_read_tokens,
            "cache_write_5m": summary.summarizer.cache_write_5m_tokens,
            "cache_write_1h": summary.summarizer.cache_write_1h_tokens,
            "output": summary.summarizer.output_tokens,
        },
        "recoveries": summary.recoveries, "overflows": summary.overflows, "violations": summary.violations,
        "binding_rejections": summary.binding_rejections,
        "withheld_thinking_blocks": summary.withheld_thinking_blocks,
        "peak_prompt_tokens": summary.peak_prompt_tokens,
        "stopped_at_request": summary.stopped_at_request,
        "stop_reason": summary.stop_reason.map(|reason| reason.name()),
    })
}
