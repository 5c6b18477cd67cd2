//! Mechanisms of client-side strategies: each evaluates an input on the library and gives every field the
//! vectors may expect. What is compared, the harness decides.

use ctxsim::policy::action::KeepRecent;
use ctxsim::policy::interpreter::Interpreter;
use ctxsim::policy::laws::{Facts, StubLaw};
use ctxsim::policy::plan::{Plan, StubPlan, StubTokens};
use ctxsim::policy::reads::Reads;
use ctxsim::policy::strategy::{Action, Rule, StubSize, SummarizeRule, SummaryInput};
use ctxsim::policy::summarize::transcript;
use ctxsim::policy::view::{SummaryMessage, View};
use ctxsim::policy::{ParamValue, Policy, PolicyConfig, PolicySpec, Strategy};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::sim::context::Context;
use serde_json::{Value, json};

use super::conversation::{Conversation, TIMESTAMP_DIGITS, messages};
use super::grammar::text;
use super::{Case, Run, client, folding, offload};

/// Mechanisms of this room. Section of the agent's configuration that the options belong to: by mechanism.
pub const MECHANISMS: &[(&str, Run)] = &[
    ("offload", |c| Client::of(c, "offloadLimits").map(|c| offload::offload(&c))),
    ("offload.file_name", |c| Client::of(c, "offloadLimits").map(|c| offload::file_name(&c))),
    ("offload_then_edit", |c| Client::of(c, "offloadLimits").map(|c| offload::offload_then_edit(&c))),
    ("edit.select", |c| Client::of(c, "contextEditing").map(|c| edit_select(&c))),
    ("edit.stub_size", |c| Client::of(c, "contextEditing").map(|c| edit_stub_size(&c))),
    ("edit.boundary", |c| Client::of(c, "contextEditing").map(|c| edit_measures(&c))),
    ("edit.trigger", |c| Client::of(c, "contextEditing").map(|c| edit_measures(&c))),
    ("edit.sliding", |c| Client::of(c, "contextEditing").map(|c| edit_sliding(&c))),
    ("edit.passes", |c| Client::of(c, "contextEditing").map(|c| edit_passes(&c))),
    ("token_estimate", |c| Client::of(c, "compaction").map(|c| token_estimate(&c))),
    ("compaction.trigger", |c| Client::of(c, "compaction").map(|c| compaction_trigger(&c))),
    ("compaction.cut", |c| Client::of(c, "compaction").map(|c| compaction_cut(&c))),
    ("compaction.run", |c| {
        Client::of(c, "compaction")
            .map(|c| if folding::is_told(&c) { folding::run(&c) } else { compaction_run(&c) })
    }),
    ("compaction.check", |c| Client::of(c, "").map(|c| folding::check(&c))),
    ("compaction.split", |c| Client::of(c, "").map(|c| folding::split(&c))),
    ("compaction.threshold", |c| Client::of(c, "").map(|c| folding::threshold(&c))),
    ("reclaim", |c| Client::of(c, "").map(|c| folding::reclaim(&c))),
    ("write_cap", |c| Client::of(c, "").map(|c| folding::write_cap(&c))),
    ("archive", |c| Client::of(c, "").map(|c| folding::archive(&c))),
    ("client_window", |c| Client::of(c, "").map(|c| folding::client_window(&c))),
    ("summarizer.model", |c| Client::of(c, "").map(|c| folding::summarizer_model(&c))),
    ("summarizer.input", |c| Client::of(c, "").map(|c| folding::summarizer_input(&c))),
    ("summarizer.usage", |c| Client::of(c, "").map(|c| folding::summarizer_usage(&c))),
    ("overflow.gate", |c| Client::of(c, "").map(|c| folding::gate(&c))),
    ("overflow.pull_back", |c| Client::of(c, "").map(|c| folding::pull_back(&c))),
    ("overflow.retry", |c| Client::of(c, "").map(|c| folding::retry(&c))),
    ("compaction.serialize", |c| Client::of(c, "compaction").map(|c| compaction_serialize(&c))),
    ("defaults", |c| Client::of(c, "").map(|c| group_defaults(&c))),
    ("entries.replay", |c| Client::of(c, "").map(|c| client::entries(&c))),
    ("cache_markers", |c| Client::of(c, "").map(|c| client::cache_markers(&c))),
    ("wire", |c| Client::of(c, "").map(|c| client::wire(&c))),
];

/// A case whose preset is a client strategy.
pub struct Client<'a> {
    pub preset: &'a str,
    /// Section of the configuration that its options belong to.
    section: &'a str,
    input: Value,
    /// Arguments of calls that give none.
    call_args: &'a Value,
    /// What vectors of this system leave out.
    defaults: &'a Value,
}

impl<'a> Client<'a> {
    /// `None` where the preset is none of ours.
    fn of(case: &'a Case<'_>, section: &'a str) -> Option<Client<'a>> {
        let known = ctxsim::policy::preset_names().contains(&case.preset);
        let system = case.system.split('@').next().unwrap_or("");
        known.then(|| Client {
            preset: case.preset,
            section,
            input: Value::Object(case.input.clone()),
            call_args: &case.defaults[system]["call_args"],
            defaults: &case.defaults[system],
        })
    }

    pub fn get(&self, key: &str) -> &Value {
        self.input.get(key).unwrap_or(&Value::Null)
    }

    /// A field of the input, `null` included; `None` where it is not there.
    pub fn input_value(&self, key: &str) -> Option<Value> {
        self.input.get(key).cloned()
    }

    /// A number that vectors of this system leave out.
    pub fn default(&self, key: &str) -> Option<i64> {
        self.defaults[key].as_i64()
    }

    pub fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or("")
    }

    pub fn list(&self) -> Vec<Value> {
        messages(self.get("messages"))
    }

    pub fn conversation(&self, list: &[Value]) -> Conversation {
        Conversation::new(list, self.call_args)
    }

    pub fn built(&self) -> (Vec<Value>, Conversation) {
        let list = self.list();
        let conversation = self.conversation(&list);
        (list, conversation)
    }

    /// The preset with the vector's options, read as the agent's own configuration would be.
    pub fn config(&self) -> PolicyConfig {
        if folding::is_told(self) {
            return folding::config(self);
        }
        let options = self.get("options").as_object().cloned().unwrap_or_default();
        let extra = self.input.get("keepRecentTurns").map(|v| ("keepRecentTurns".to_owned(), v.clone()));
        let pairs: Vec<(String, ParamValue)> = options
            .into_iter()
            .chain(extra)
            .map(|(key, value)| (format!("{}.{key}", self.section), param(&value)))
            .collect();
        let spec: PolicySpec = self.preset.parse().unwrap();
        spec.load(&pairs, &[]).unwrap()
    }

    pub fn model(&self) -> ModelSpec {
        let id = self.input.get("model").and_then(Value::as_str).unwrap_or("claude-opus-5-5");
        let mut model = Models::builtin().unwrap().get(id).unwrap().clone();
        if let Some(window) = self.input.get("window").and_then(Value::as_u64) {
            model.window_tokens = window;
        }
        model
    }

    pub fn strategy(&self) -> Strategy {
        let mut strategy = self.config().strategy(&self.model(), &Models::builtin().unwrap()).unwrap();
        if let Some(law) = &mut strategy.estimate {
            law.timestamp_digits = TIMESTAMP_DIGITS;
            // In the vectors each result is a batch of its own.
            law.merged = false;
        }
        strategy
    }
}

fn param(value: &Value) -> ParamValue {
    match value {
        Value::Bool(b) => ParamValue::Bool(*b),
        Value::Number(n) => ParamValue::Int(n.as_i64().unwrap()),
        Value::Array(list) => ParamValue::List(list.iter().map(|v| v.as_str().unwrap().to_owned()).collect()),
        other => ParamValue::Text(other.as_str().unwrap_or_default().to_owned()),
    }
}

pub fn rule<'s>(strategy: &'s Strategy, id: &str) -> Option<(usize, &'s Rule)> {
    strategy.rules.iter().enumerate().find(|(_, r)| r.id == id)
}

pub fn stub_facts(tool: &str, chars: u64, is_error: bool, path: &str) -> Facts {
    Facts {
        tool_utf16: tool.encode_utf16().count() as u64,
        tool_json_utf16: 2 + ctxsim::session::compile::json_utf16(tool),
        path_utf16: path.encode_utf16().count() as u64,
        chars,
        is_error,
        ..Facts::default()
    }
}

pub fn edit_law(strategy: &Strategy) -> StubLaw {
    match rule(strategy, "edit").map(|(_, r)| &r.action) {
        Some(Action::Stub(stub)) => match &stub.stub {
            StubSize::Law(law) => law.clone(),
            other => panic!("no law: {other:?}"),
        },
        _ => panic!("no edit rule"),
    }
}

fn edit_stub_size(case: &Client<'_>) -> Value {
    let facts = stub_facts(
        case.get("tool").as_str().unwrap(),
        case.get("chars").as_u64().unwrap(),
        case.get("is_error").as_bool().unwrap_or(false),
        case.get("path").as_str().unwrap_or(""),
    );
    json!({"stub_chars": edit_law(&case.strategy()).utf16(&facts)})
}

fn keep_recent_turns(case: &Client<'_>) -> i64 {
    let params = case.config().resolved_params(&case.model());
    match params.into_iter().find(|(k, _)| k == "contextEditing.keepRecentTurns") {
        Some((_, ParamValue::Int(n))) => n,
        other => panic!("{other:?}"),
    }
}

fn edit_measures(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let context = conversation.context(list.len());
    let view = context.view();
    // Whether it fires shows in what it decides where nothing but its trigger stands in the way.
    let mut eager = case.strategy();
    for rule in &mut eager.rules {
        if let Action::Stub(stub) = &mut rule.action {
            (stub.min, stub.savings.min, stub.keep) = (0, 0, KeepRecent::default());
            stub.stub = StubSize::Law(StubLaw::default());
        }
    }
    json!({
        "boundary": conversation.message_of(view.turn_boundary(keep_recent_turns(case))),
        "fires": edit_once(&eager, &conversation, &context).is_some(),
        "total_tool_result_chars": view.tool_results_utf16,
    })
}

fn edit_once(strategy: &Strategy, conversation: &Conversation, context: &Context<'_>) -> Option<StubPlan> {
    let (index, _) = rule(strategy, "edit")?;
    match Interpreter::new(strategy, &conversation.session).at_request(index, context.view(), false) {
        Some(Plan::Stub(plan)) => Some(plan),
        _ => None,
    }
}

fn edit_select(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let mut context = conversation.context(list.len());
    let mut strategy = case.strategy();
    if let Some(fixed) = case.get("fixed_stub_chars").as_u64() {
        for rule in &mut strategy.rules {
            if let Action::Stub(stub) = &mut rule.action {
                stub.stub = StubSize::Law(StubLaw { fixed, ..StubLaw::default() });
            }
        }
    }
    let mut actual = edit_measures(case);
    let plan = edit_once(&strategy, &conversation, &context);
    let stubs = plan.as_ref().map_or(&[][..], |p| &p.stubs);
    let errors: Vec<bool> = stubs
        .iter()
        .map(|(b, _)| conversation.session.blocks.flags[*b as usize].has(ctxsim::session::Flags::ERROR))
        .collect();
    actual["elided_indexes"] = stubs.iter().map(|(b, _)| conversation.message_of(*b)).collect();
    actual["elided_count"] = json!(stubs.len());
    actual["chars_saved"] = json!(plan.as_ref().map_or(0, |p| p.saved_utf16));
    actual["stub_chars"] = stubs
        .iter()
        .map(|(_, size)| match size {
            StubTokens::Utf16(n) | StubTokens::Tokens(n) | StubTokens::Sized { utf16: n, .. } => *n,
            StubTokens::Nothing => 0,
        })
        .collect();
    actual["is_error"] = json!(errors);
    actual["result_kinds"] = stubs.iter().map(|_| vec!["text"]).collect();
    if case.get("apply_twice").as_bool() == Some(true) {
        if let Some(plan) = &plan {
            context.apply_stubs(plan).unwrap();
        }
        let again = edit_once(&strategy, &conversation, &context);
        actual["again"] = json!({
            "elided_count": again.as_ref().map_or(0, |p| p.stubs.len()),
            "chars_saved": again.as_ref().map_or(0, |p| p.saved_utf16),
        });
    }
    actual
}

fn edit_sliding(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let strategy = case.strategy();
    let counts: Vec<usize> = (1..=list.len())
        .map(|n| edit_once(&strategy, &conversation, &conversation.context(n)).map_or(0, |p| p.stubs.len()))
        .collect();
    json!({"elided_count_by_prefix": counts})
}

fn edit_passes(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let strategy = case.strategy();
    let mut interpreter = Interpreter::new(&strategy, &conversation.session);
    let mut context = conversation.context(0);
    let mut passes = Vec::new();
    let mut shown = 0;
    for (request, step) in conversation.session.steps.iter().enumerate() {
        let until = conversation.message_of(step.input.end);
        conversation.reveal(&mut context, shown..until);
        shown = until;
        if let Some((index, _)) = rule(&strategy, "edit")
            && let Some(Plan::Stub(plan)) = interpreter.at_request(index, context.view(), false)
        {
            context.apply_stubs(&plan).unwrap();
            passes.push(pass(&list, &conversation, &plan, request + 1, until));
        }
        let answered = conversation.message_of(step.output.end);
        conversation.reveal(&mut context, shown..answered);
        shown = answered;
    }
    json!({
        "pass_count": passes.len(),
        "before_requests": passes.iter().map(|p| p["before_request"].clone()).collect::<Vec<_>>(),
        "passes": passes,
    })
}

fn pass(
    list: &[Value],
    conversation: &Conversation,
    plan: &StubPlan,
    request: usize,
    history: usize,
) -> Value {
    let withheld: Vec<usize> = plan.withhold.clone().map_or_else(Vec::new, |range| {
        (0..history)
            .filter(|m| conversation.step_of[*m].is_some() && range.contains(&conversation.message_start[*m]))
            .collect()
    });
    json!({
        "before_request": request,
        "elided_call_ids": plan.stubs.iter().map(|(b, _)| conversation.call_id(list, *b)).collect::<Vec<_>>(),
        "elided_count": plan.stubs.len(),
        "chars_saved": plan.saved_utf16,
        "first_touched_index": conversation.message_of(plan.stubs[0].0),
        "withheld_assistant_indexes": withheld,
        "history_len": history,
    })
}

pub fn per_message(conversation: &Conversation, strategy: &Strategy, view: &View<'_>) -> Vec<u64> {
    let law = strategy.estimate.as_ref().unwrap();
    conversation.message_start.iter().map(|start| view.message_tokens(law, view.message_at(*start))).collect()
}

fn token_estimate(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let context = conversation.context(list.len());
    let strategy = case.strategy();
    json!({
        "estimate": context.view().estimate_tokens(strategy.estimate.as_ref().unwrap()),
        "per_message_tokens": per_message(&conversation, &strategy, context.view()),
    })
}

fn compaction_trigger(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let tokens = case.get("tokens").as_u64().unwrap();
    let fires = rule(&strategy, "compact").is_some_and(|(_, r)| r.when.iter().any(|t| t.crossed(tokens)));
    json!({"fires": fires})
}

/// What a manual compaction decides: its plan, if there is one.
fn manual_plan<'s>(
    strategy: &'s Strategy,
    conversation: &Conversation,
    view: &View<'_>,
    manual: bool,
) -> Option<Plan<'s>> {
    let (index, _) = rule(strategy, "compact")?;
    Interpreter::new(strategy, &conversation.session).at_request(index, view, manual)
}

fn compaction_cut(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let context = conversation.context(list.len());
    let strategy = case.strategy();
    let cut = match manual_plan(&strategy, &conversation, context.view(), true) {
        Some(Plan::Summarize(plan)) => conversation.message_of(plan.fold_to),
        _ => 0,
    };
    json!({"cut": cut, "per_message_tokens": per_message(&conversation, &strategy, context.view())})
}

fn compaction_serialize(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let context = conversation.context(list.len());
    let strategy = case.strategy();
    let Some((
        _,
        Rule {
            action: Action::Summarize(SummarizeRule { input: SummaryInput::Transcript { law, .. }, .. }),
            ..
        },
    )) = rule(&strategy, "compact")
    else {
        panic!("no transcript");
    };
    let view = context.view();
    let reads = Reads { summary: true, from: view.live_from, to: conversation.blocks(), ..Reads::default() };
    json!({"chars": transcript(law, view, &reads).utf16})
}

fn compaction_run(case: &Client<'_>) -> Value {
    let mut list = case.list();
    let manual = case.get("mode").as_str() == Some("manual");
    if manual && case.get("running").as_bool() == Some(true) {
        return json!({"error": "busy", "messages_before": list.len(), "messages_after": list.len(), "compacted": false});
    }
    if let Some(prompt) = case.get("prompt").as_str() {
        list.push(json!({"role": "user", "text": prompt}));
    }
    let conversation = case.conversation(&list);
    let mut context = conversation.context(list.len());
    let strategy = case.strategy();
    let law = strategy.estimate.as_ref().unwrap();
    let replies = usize::from(!case.get("reply").is_null());
    let before = context.view().estimate_tokens(law);
    let idle = json!({"compacted": false, "cut": 0, "summarizer_calls": 0, "messages_before": list.len(),
        "messages_after": list.len(), "messages_after_run": list.len() + replies, "tokens_before": before,
        "notice": "info", "events": []});
    let plan = match manual_plan(&strategy, &conversation, context.view(), manual) {
        Some(Plan::Summarize(plan)) => plan,
        Some(_) => return idle,
        None => {
            let mut silent = idle;
            silent["notice"] = Value::Null;
            return silent;
        }
    };
    context.check_fold(&plan).unwrap();
    let SummaryInput::Transcript { system_utf16, .. } = &plan.spec.input else { panic!("no transcript") };
    let cut = conversation.message_of(plan.fold_to);
    let mut actual = json!({
        "compacted": true, "cut": cut, "messages_before": list.len(), "summarizer_calls": 1,
        "tokens_before": plan.tokens_before, "folded_messages": plan.folded_messages,
        "summarizer_prompt_chars": plan.prompt_utf16, "summarizer_system_chars": system_utf16,
        "summarizer_max_output_tokens": plan.spec.max_output_tokens, "error": null,
    });
    if case.get("summarizer").as_str() == Some("error") {
        actual["compacted"] = json!(false);
        actual["notice"] = json!("error");
        actual["tokens_after"] = json!(before);
        actual["messages_after"] = json!(list.len());
        actual["messages_after_run"] = json!(list.len() + replies);
        actual["events"] = json!([{"kind": "compactionStart"},
            {"kind": "compactionEnd", "summary_chars": 0, "tokens_before": before, "tokens_after": before}]);
        return actual;
    }
    let summary = text(case.get("summary"));
    let utf16 = u32::try_from(summary.encode_utf16().count()).unwrap();
    let wrap = u32::try_from(plan.spec.wrap_utf16).unwrap();
    let json_utf16 = u32::try_from(
        ctxsim::session::compile::json_utf16(&summary) + plan.spec.wrap_utf16 + plan.spec.wrap_json_escapes,
    )
    .unwrap();
    context.fold(
        plan.fold_to,
        SummaryMessage { tokens: utf16 / 3, utf16: utf16 + wrap, json_utf16, hash: 1, wide_bytes: 0 },
        false,
    );
    let after = context.view().sum_of_messages(law);
    actual["tokens_after"] = json!(after);
    actual["kept_messages"] = json!(list.len() - cut);
    actual["messages_after"] = json!(1 + list.len() - cut);
    actual["messages_after_run"] = json!(1 + list.len() - cut + replies);
    actual["first_is_summary"] = json!(true);
    actual["events"] = json!([{"kind": "compactionStart"},
        {"kind": "compactionEnd", "summary_chars": utf16, "tokens_before": plan.tokens_before, "tokens_after": after}]);
    actual
}

fn group_defaults(case: &Client<'_>) -> Value {
    let of = case.get("of").as_str().unwrap();
    let group = match of {
        "context_editing" | "contextEditing" => "contextEditing",
        "offload" | "offloadLimits" => "offloadLimits",
        other => other,
    };
    case.config()
        .resolved_params(&case.model())
        .into_iter()
        .filter_map(|(k, v)| Some((k.strip_prefix(group)?.strip_prefix('.')?.to_owned(), json!(v))))
        .collect::<serde_json::Map<String, Value>>()
        .into()
}
