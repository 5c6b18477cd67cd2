//! Mechanisms of clients that fold whole turns: their limits, what they reclaim and fold, and what they do
//! when a prompt does not fit.

use ctxsim::policy::fold::{Archive, Keep, SummarizeRule};
use ctxsim::policy::interpreter::Interpreter;
use ctxsim::policy::occasion::Occasion;
use ctxsim::policy::plan::{Ingest, Plan, SummarizePlan};
use ctxsim::policy::reads::{Reads, summarizer_reads};
use ctxsim::policy::recovery::Ladder;
use ctxsim::policy::strategy::{Action, Hook, Measure, MessageUnit, Rule};
use ctxsim::policy::sums::Sums;
use ctxsim::policy::view::SummaryMessage;
use ctxsim::policy::{BELIEVED_WINDOW, ParamValue, Policy, PolicyConfig, PolicySpec, Strategy, load_preset};
use ctxsim::provider::overflow;
use ctxsim::sim::context::Context;
use ctxsim::usage::Usage;
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::grammar::text;
use super::policy::{Client, per_message};

/// Whether the client has the parameters that these vectors set.
pub fn is_told(case: &Client<'_>) -> bool {
    load_preset(case.preset).unwrap().params.iter().any(|p| p.name == "compact_threshold")
}

pub fn config(case: &Client<'_>) -> PolicyConfig {
    let spec: PolicySpec = case.preset.parse().unwrap();
    let mut config = spec.load(&[], &[]).unwrap();
    let option = |key: &str| case.input_value(key).or_else(|| case.get("options").get(key).cloned());
    if let Some(threshold) = option("threshold").and_then(|v| v.as_i64()) {
        config.set.insert("compact_threshold".to_owned(), ParamValue::Int(threshold));
    }
    if let Some(fraction) = option("auto_fraction").and_then(|v| v.as_f64()) {
        config.set.insert("compact_auto_pct".to_owned(), ParamValue::Int((fraction * 100.0).round() as i64));
    }
    if case.get("lite").is_null() && case.input_value("lite").is_some() {
        config.set.insert("lite_model".to_owned(), ParamValue::Text("same".to_owned()));
    }
    let window = option("window").and_then(|v| v.as_i64()).or(case.default("window"));
    config.common.insert(BELIEVED_WINDOW.to_owned(), ParamValue::Int(window.unwrap()));
    config
}

/// The rule that folds without being asked by a ladder, and the limit of its sequence.
fn fold_rule(strategy: &Strategy) -> (usize, &Rule, &SummarizeRule) {
    let found = strategy.rules.iter().enumerate().find_map(|(i, rule)| match &rule.action {
        Action::Summarize(fold) if rule.at.has(Hook::Manual) => Some((i, rule, fold)),
        _ => None,
    });
    found.unwrap()
}

fn limit(strategy: &Strategy) -> i64 {
    let estimate = Measure::Messages(MessageUnit::Estimate);
    let limits = strategy.rules.iter().flat_map(|r| &r.when).filter(|t| t.measure == estimate);
    limits.map(|t| t.limit).next().unwrap_or(0)
}

fn keep_budget(fold: &SummarizeRule) -> Option<u64> {
    match &fold.keep {
        Keep::Tail(tail) => tail.estimate,
        _ => None,
    }
}

pub fn threshold(case: &Client<'_>) -> Value {
    json!({"trigger": limit(&case.strategy())})
}

pub fn check(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let (list, conversation) = case.built();
    let law = strategy.estimate.as_ref().unwrap();
    let estimate = conversation.context(list.len()).view().estimate_tokens(law);
    let last = case.get("last_input_tokens").as_u64().filter(|n| *n > 0).unwrap_or(estimate);
    let hook = if case.text("point") == "after_tools" { Hook::AfterTools } else { Hook::TurnStart };
    let thresholds = strategy.rules.iter().flat_map(|r| &r.when);
    let fires = thresholds
        .filter(|t| t.at.is_none_or(|at| at == hook))
        .any(|t| matches!(t.measure, Measure::Messages(_)) && t.crossed(last));
    json!({"fires": fires})
}

pub fn split(case: &Client<'_>) -> Value {
    let (list, conversation) = case.built();
    let strategy = case.strategy();
    let context = conversation.context(list.len());
    let law = strategy.estimate.as_ref().unwrap();
    let Keep::Tail(tail) = &fold_rule(&strategy).2.keep else { panic!("no tail") };
    let mut tail = tail.clone();
    tail.estimate = case.get("keep_budget").as_u64();
    let mut sums = Sums::default();
    sums.refresh(context.view(), law);
    let cut = tail.cut(context.view(), law, &sums, conversation.blocks());
    json!({
        "split": cut.map_or(0, |block| conversation.message_of(block)),
        "per_message_tokens": per_message(&conversation, &strategy, context.view()),
    })
}

/// The history with the usage of its last answer, where the vector gives one.
fn context<'c>(case: &Client<'_>, conversation: &'c mut Conversation, messages: usize) -> Context<'c> {
    if let Some(last) = case.get("last_input_tokens").as_u64()
        && let Some(usage) = conversation.usage.last_mut()
    {
        *usage = (last, 4);
    }
    conversation.context(messages)
}

fn ordinals(conversation: &Conversation, blocks: &[u32]) -> Vec<usize> {
    let results =
        |b: &u32| conversation.session.blocks.kind[*b as usize] == ctxsim::session::BlockKind::ToolResult;
    blocks.iter().map(|block| (0..*block).filter(results).count()).collect()
}

pub fn reclaim(case: &Client<'_>) -> Value {
    let (list, mut conversation) = case.built();
    let strategy = case.strategy();
    let law = strategy.estimate.clone().unwrap();
    let mut context = context(case, &mut conversation, list.len());
    let session = context.view().session;
    let mut interpreter = Interpreter::new(&strategy, session);
    let occasion = Occasion::at(Hook::Manual);
    let before = context.view().sum_of_messages(&law);
    let mut elided = Vec::new();
    let (mut freed, mut bytes, mut tokens) = (0, None, None);
    for rule in 0..strategy.rules.len() {
        if let Some(Plan::Replace(plan)) = interpreter.at_hook(rule, &occasion, context.view()) {
            context.apply_replace(&plan).unwrap();
            freed += plan.saved_estimate;
            elided.extend(plan.stored.iter().map(|s| s.block));
            bytes = plan.stored.first().map(|s| s.bytes);
            let stub = plan.stored.first().map(ctxsim::policy::replace::text_of);
            tokens = stub.map(|stub| context.view().text_tokens(&law, &stub));
        }
    }
    let after = context.view().sum_of_messages(&law);
    drop(context);
    json!({
        "elided_results": ordinals(&conversation, &elided), "reclaimed_tokens": freed, "placeholder_bytes": bytes,
        "placeholder_tokens": tokens, "tokens_before": before, "tokens_after": after,
    })
}

pub fn write_cap(case: &Client<'_>) -> Value {
    let list = [json!({"role": "tool_result", "id": "c", "tool": "t", "text": case.get("text")})];
    let conversation = case.conversation(&list);
    let strategy = case.strategy();
    let context = conversation.context(1);
    let mut interpreter = Interpreter::new(&strategy, &conversation.session);
    let cut = (0..strategy.rules.len()).find_map(|rule| {
        match interpreter.at_tool_result(rule, context.view(), 0) {
            Some(Ingest::Truncate(stored)) => Some(stored),
            _ => None,
        }
    });
    let whole = text(case.get("text")).len();
    json!({"bytes": cut.map_or(whole, |s| s.bytes as usize), "cut": cut.is_some()})
}

pub fn archive(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let kept = fold_rule(&strategy).2.archive.filter(|_| case.get("archive_dir").as_bool() == Some(true));
    let existing = case.get("existing_chunks").as_u64().unwrap();
    json!({"file": kept.map(|_| Archive::file(existing)), "note": kept.is_some_and(|a| a.note_utf16(existing) > 0)})
}

pub fn client_window(case: &Client<'_>) -> Value {
    json!({"window": load_preset(case.preset).unwrap().believed_window_tokens(case.text("model"))})
}

pub fn summarizer_model(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let (mut lite_calls, mut primary_calls) = (0, 0);
    for summarizer in &fold_rule(&strategy).2.models {
        let is_lite = summarizer.model.is_some();
        if is_lite {
            lite_calls += 1
        } else {
            primary_calls += 1
        }
        if !is_lite || case.text("lite") == "ok" {
            break;
        }
    }
    json!({"lite_calls": lite_calls, "primary_calls": primary_calls})
}

pub fn summarizer_input(case: &Client<'_>) -> Value {
    let (list, mut conversation) = case.built();
    let strategy = case.strategy();
    let law = strategy.estimate.as_ref().unwrap();
    let context = context(case, &mut conversation, list.len());
    let plan =
        whole_plan(fold_rule(&strategy).2, &context, list.len() as u64, context.view().sum_of_messages(law));
    let window = case.get("summarizer_window").as_u64().unwrap();
    json!({"summarizer_messages": summarizer_reads(context.view(), Some(law), &plan, window).messages + 1})
}

/// A fold of everything.
fn whole_plan<'p>(
    spec: &'p SummarizeRule,
    context: &Context<'_>,
    folded_messages: u64,
    folded_estimate: u64,
) -> SummarizePlan<'p> {
    SummarizePlan {
        fold_to: context.view().revealed,
        prompt_utf16: 0,
        tokens_before: folded_estimate,
        folded_messages,
        kept_turns: 0,
        keep: Vec::new(),
        folded_estimate,
        whole_estimate: folded_estimate,
        reinjected_tokens: 0,
        must_reach: None,
        reads: Reads {
            summary: context.view().summary.is_some(),
            from: context.view().live_from,
            to: context.view().revealed,
            messages: folded_messages,
            ..Reads::default()
        },
        split_at: None,
        truncated: Vec::new(),
        reads_cut: false,
        spec,
    }
}

pub fn summarizer_usage(case: &Client<'_>) -> Value {
    let count = |key: &str| case.get("usage")[key].as_u64().unwrap();
    let mut total = Usage::default();
    total.add(&Usage {
        uncached_tokens: count("input"),
        output_tokens: count("output"),
        cache_read_tokens: count("cache_read"),
        cache_write_5m_tokens: count("cache_write"),
        ..Usage::default()
    });
    let conversation = case.conversation(&[]);
    let last = conversation.context(0).view().last_usage(true).map_or(0, |u| u.total_tokens);
    json!({
        "total_input": total.uncached_tokens, "total_output": total.output_tokens,
        "total_cache_read": total.cache_read_tokens, "total_cache_write": total.cache_write_tokens(),
        "last_input_tokens": last,
    })
}

pub fn gate(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let step = &strategy.recovery.as_ref().unwrap().steps[0];
    let deficit = overflow::parse(case.text("text")).deficit;
    json!({"retry": step.retries(case.get("freed_tokens").as_u64().unwrap(), deficit)})
}

pub fn pull_back(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let layer = usize::try_from(case.get("layer").as_u64().unwrap()).unwrap();
    let step = &strategy.recovery.as_ref().unwrap().steps[layer];
    json!({"k": step.pull_back(case.get("history_len").as_u64().unwrap())})
}

/// Runs of a few short messages: an error leads down the ladder, and to the end where no step did anything.
pub fn retry(case: &Client<'_>) -> Value {
    let strategy = case.strategy();
    let recovery = strategy.recovery.as_ref().unwrap();
    let mut ladder = Ladder::default();
    let mut history: Vec<Value> = Vec::new();
    let mut runs = Vec::new();
    for run in case.get("runs").as_array().unwrap() {
        ladder.turn_starts(recovery);
        history.push(json!({"role": "user", "text": run["prompt"]}));
        let (mut error, mut round) = (None, 0);
        for send in run["sends"].as_array().unwrap() {
            if let Some(reply) = send.get("reply") {
                history.push(json!({"role": "assistant", "text": reply}));
                ladder.succeeded(recovery);
                round += 1;
                continue;
            }
            if !ladder.refused(recovery) || !climbs(case, &strategy, &mut ladder, &history, send) {
                error = Some("overflow");
                break;
            }
        }
        let attempted = ladder.is_used();
        let rolled_back = error.is_some() && round == 0;
        if rolled_back {
            history.pop();
        }
        runs.push(json!({
            "error": error, "attempted": attempted, "input_rolled_back": rolled_back, "history_len": history.len(),
        }));
    }
    json!({"runs": runs})
}

/// Whether a step of the ladder makes it worth sending again.
fn climbs(
    case: &Client<'_>,
    strategy: &Strategy,
    ladder: &mut Ladder,
    history: &[Value],
    send: &Value,
) -> bool {
    let conversation = case.conversation(history);
    let context = conversation.context(history.len());
    let recovery = strategy.recovery.as_ref().unwrap();
    let deficit = overflow::parse(send["error_text"].as_str().unwrap()).deficit;
    let mut interpreter = Interpreter::new(strategy, &conversation.session);
    while let Some(step) = ladder.step(recovery) {
        let Some(aside) = step.pull_back(history.len() as u64) else { continue };
        let end = conversation.message_start[history.len() - usize::try_from(aside).unwrap() - 1..][1..]
            .first()
            .copied()
            .unwrap_or(conversation.blocks());
        let occasion = Occasion { is_forced: true, end, ..Occasion::at(Hook::Overflow) };
        let plans = step.rules.iter().filter_map(|r| interpreter.at_hook(*r, &occasion, context.view()));
        let acts: Vec<Plan<'_>> = plans.filter(|p| !matches!(p, Plan::Notice { .. })).collect();
        let freed =
            acts.iter().map(|p| if let Plan::Replace(plan) = p { plan.saved_estimate } else { 0 }).sum();
        if !acts.is_empty() && step.retries(freed, deficit) {
            ladder.retries();
            return true;
        }
    }
    false
}

pub fn run(case: &Client<'_>) -> Value {
    let list = case.list();
    let is_manual = case.text("mode") == "manual";
    if is_manual && case.get("running").as_bool() == Some(true) {
        return json!({"error": "busy", "messages_before": list.len(), "messages_after": list.len(), "compacted": false});
    }
    let mut conversation = case.conversation(&list);
    let strategy = case.strategy();
    let law = strategy.estimate.clone().unwrap();
    let added = usize::from(!case.get("prompt").is_null()) + usize::from(!case.get("reply").is_null());
    let mut context = context(case, &mut conversation, list.len());
    let session = context.view().session;
    let mut interpreter = Interpreter::new(&strategy, session);
    let occasion = Occasion::at(if is_manual { Hook::Manual } else { Hook::TurnStart });
    let before = context.view().estimate_tokens(&law);
    let mut actual = json!({
        "compacted": false, "split": 0, "threshold": limit(&strategy), "summarizer_calls": 0, "tokens_before": before,
        "folded_messages": 0, "reclaimed_tokens": 0, "messages_before": list.len(), "messages_after": list.len(),
        "error": null, "keep_budget": keep_budget(fold_rule(&strategy).2), "elided_results": [], "tokens_after": before,
        "first_is_summary": false,
    });
    let mut events = Vec::new();
    let mut elided = Vec::new();
    let mut reclaimed = None;
    interpreter.begin(&occasion);
    for rule in 0..strategy.rules.len() {
        match interpreter.at_hook(rule, &occasion, context.view()) {
            Some(Plan::Replace(plan)) => {
                context.apply_replace(&plan).unwrap();
                elided.extend(plan.stored.iter().map(|s| s.block));
                actual["reclaimed_tokens"] = json!(plan.saved_estimate);
                actual["tokens_after"] = json!(context.view().sum_of_messages(&law));
                let stopped = interpreter.applied(rule, &occasion, context.view()).unwrap();
                if stopped.stops || is_manual {
                    reclaimed = Some(json!({"kind": "compact_done", "before": stopped.tokens_before,
                        "after": stopped.tokens_after, "folded_messages": 0, "reclaimed_tokens": plan.saved_estimate}));
                }
            }
            Some(Plan::Summarize(plan)) => {
                reclaimed = None;
                fold(case, &strategy, &mut context, &plan, (&mut actual, &mut events));
            }
            _ => {}
        }
    }
    events.extend(reclaimed);
    let messages_after = actual["messages_after"].as_u64().unwrap();
    actual["messages_after_run"] = json!(messages_after + added as u64);
    actual["last_input_tokens"] =
        json!(context.view().last_usage(true).map_or(0, |u| u.total_tokens - u.output_tokens));
    actual["events"] = json!(events);
    drop(context);
    actual["elided_results"] = json!(ordinals(&conversation, &elided));
    actual
}

fn fold(
    case: &Client<'_>,
    strategy: &Strategy,
    context: &mut Context<'_>,
    plan: &SummarizePlan<'_>,
    (actual, events): (&mut Value, &mut Vec<Value>),
) {
    let law = strategy.estimate.as_ref().unwrap();
    context.check_fold(plan).unwrap();
    let summary = text(case.get("summary"));
    let window = plan.spec.models[0].window_tokens;
    let reads = summarizer_reads(context.view(), Some(law), plan, window);
    let max_tokens = plan.spec.max_output_tokens;
    actual["split"] = json!(plan.folded_messages);
    actual["folded_messages"] = json!(plan.folded_messages);
    actual["folded_estimate"] = json!(plan.folded_estimate);
    actual["summarizer_calls"] = json!(1);
    actual["summarizer_messages"] = json!(reads.messages + 1);
    actual["summarizer_max_output_tokens"] = json!(max_tokens);
    actual["summarizer_system_chars"] = json!(0);
    actual["summarizer_prompt_chars"] = json!(plan.prompt_utf16);
    actual["tokens_before"] = json!(plan.tokens_before);
    let before = plan.tokens_before;
    events.push(json!({"kind": "compact_started", "before": before, "folded_messages": plan.folded_messages,
        "kept_turns": plan.kept_turns, "max_tokens": max_tokens}));
    let fails = case.text("summarizer") == "error" || summary.is_empty();
    if fails {
        actual["tokens_after"] = json!(before);
        events.push(json!({"kind": "compact_done", "before": before, "after": before}));
        return;
    }
    let chars = summary.encode_utf16().count() as u64;
    if let Some(chunk) = case.get("stream_chunk_chars").as_u64().filter(|_| plan.spec.progress) {
        events.push(json!({"kind": "compact_progress", "count": chars.div_ceil(chunk)}));
    }
    let wide = summary.chars().filter(|c| !c.is_ascii()).count();
    let narrow = |n: u64| u32::try_from(n).unwrap();
    context.fold(
        plan.fold_to,
        SummaryMessage {
            tokens: narrow(chars / 3),
            utf16: narrow(chars + plan.spec.wrap_utf16),
            json_utf16: narrow(chars + plan.spec.wrap_utf16),
            hash: 1,
            wide_bytes: narrow(3 * wide as u64),
        },
        false,
    );
    let after = context.view().sum_of_messages(law);
    let messages = case.list().len() as u64;
    actual["compacted"] = json!(true);
    actual["tokens_after"] = json!(after);
    actual["kept_messages"] = json!(messages - plan.folded_messages);
    actual["messages_after"] = json!(1 + messages - plan.folded_messages);
    actual["first_is_summary"] = json!(true);
    events.push(json!({"kind": "compact_done", "before": before, "after": after,
        "folded_messages": plan.folded_messages, "reclaimed_tokens": 0}));
}
