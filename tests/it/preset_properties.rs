//! What holds of every preset on every session: requests are whole, only rules change what was sent, and the
//! same history gives the same requests.

use std::sync::LazyLock;

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::fold::{Keep, Snap, SummarizeRule, Toward};
use ctxsim::policy::strategy::{Action, EditView, Turn};
use ctxsim::policy::{PolicyConfig, PolicySpec, Strategy as Policy, preset_names};
use ctxsim::provider::{Models, SentBlock, SentKind};
use ctxsim::session::{BlockKind, Event, EventKind, Flags, Session};
use ctxsim::sim::summary::StopReason;
use ctxsim::sim::{Recorder, RequestRow, RunOptions, Scratch, SimEvent, SimEventKind, run};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use crate::presets::typed;
use crate::random_sessions::{act, first_steps, session};

/// Requests as sent, and what happened before each.
#[derive(Debug, Default, PartialEq)]
struct Wires {
    sent: Vec<Vec<SentBlock>>,
    rows: Vec<RequestRow>,
    /// Each with the number of requests sent before it.
    events: Vec<(usize, SimEvent)>,
}

impl Recorder for Wires {
    fn sent(&mut self, blocks: &[SentBlock]) {
        self.sent.push(blocks.to_vec());
    }

    fn request(&mut self, row: &RequestRow) {
        self.rows.push(*row);
    }

    fn event(&mut self, event: &SimEvent) {
        self.events.push((self.sent.len(), event.clone()));
    }

    fn wants_events(&self) -> bool {
        true
    }
}

/// A call in a request without its result in the next message, or the other way round.
fn orphan(sent: &[SentBlock]) -> Option<String> {
    let links = |message: u32, kind: SentKind| -> Vec<u32> {
        let of = |b: &&SentBlock| b.message == message && b.kind == kind;
        let mut links: Vec<u32> = sent.iter().filter(of).map(|b| b.link).collect();
        links.sort_unstable();
        links
    };
    let last = sent.last().map_or(0, |b| b.message);
    let starts_as_user = links(0, SentKind::ToolResult).is_empty();
    if !starts_as_user {
        return Some("results in the first message answer nothing".to_owned());
    }
    (0..=last).find_map(|message| {
        let (calls, results) = (links(message, SentKind::ToolUse), links(message + 1, SentKind::ToolResult));
        (calls != results)
            .then(|| format!("calls {calls:?} of message {message} are answered by {results:?}"))
    })
}

/// What a strategy promises of the user's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    Nothing,
    /// What no answer has followed stays.
    Unanswered,
    /// The last message stays.
    Last,
}

fn promise_of(fold: &SummarizeRule) -> Promise {
    match &fold.keep {
        _ if fold.reinject.last_user => Promise::Last,
        Keep::UnansweredUser => Promise::Unanswered,
        Keep::RecentTokens(_) => Promise::Last,
        Keep::Tail(tail) => {
            let of_users = tail.turn == Turn::User && (tail.at_least_turns > 0 || tail.turns > Some(0));
            let reaches_back = tail.snap == Snap::User && tail.toward == Toward::Older && !tail.drop_crossing;
            let has_any = tail.estimate > Some(0) || tail.messages > Some(0);
            if of_users || (reaches_back && has_any) { Promise::Last } else { Promise::Nothing }
        }
        Keep::Nothing | Keep::Until(..) => Promise::Nothing,
    }
}

fn promise(policy: &Policy) -> Promise {
    let folds = policy.rules.iter().filter_map(|rule| match &rule.action {
        Action::Summarize(fold) => Some(promise_of(fold)),
        _ => None,
    });
    folds.min().unwrap_or(Promise::Last)
}

/// Whether a rule's edits are worked out anew for each request.
fn is_worked_out_anew(policy: &Policy) -> bool {
    let anew = [EditView::Stateless, EditView::Server];
    policy.rules.iter().any(|rule| matches!(&rule.action, Action::Stub(s) if anew.contains(&s.view)))
}

/// Hash of the user's words that must be in the request of `step`.
fn promised(session: &Session, step: usize, promise: Promise) -> Option<u64> {
    let input = session.steps[step].input.clone();
    let dropped = |block: u32| {
        session.events.iter().any(|e| {
            e.before_step as usize <= step
                && matches!(e.kind, EventKind::BlocksDropped { from, to, .. } if (from..to).contains(&block))
        })
    };
    let is_user = |b: &u32| session.blocks.kind[*b as usize] == BlockKind::UserText && !dropped(*b);
    let from = match promise {
        Promise::Nothing => return None,
        Promise::Unanswered => input.start,
        Promise::Last => 0,
    };
    (from..input.end).rev().find(is_user).map(|b| session.blocks.hash[b as usize])
}

/// Whether something is allowed to change what was sent, between so many requests and the next.
fn may_change(session: &Session, events: &[(usize, SimEvent)], sent: usize) -> bool {
    let of_rule = events.iter().filter(|(before, _)| *before == sent).any(|(_, e)| {
        !matches!(
            e.kind,
            SimEventKind::Offload { .. }
                | SimEventKind::Truncate { .. }
                | SimEventKind::CompactionStart { .. }
                | SimEventKind::CompactionProgress { .. }
                | SimEventKind::CompactionFailed { .. }
                | SimEventKind::Notice { .. }
                | SimEventKind::SameStubs { .. }
        )
    });
    of_rule || session.events.iter().any(|e| e.before_step as usize == sent)
}

fn go(
    session: &Session,
    policy: &Policy,
    model: &str,
    options: &RunOptions,
) -> (Wires, ctxsim::sim::Summary) {
    let mut wires = Wires::default();
    let model = MODELS.get(model).unwrap();
    let summary = run(session, policy, model, options, &mut Scratch::default(), &mut wires);
    (wires, summary)
}

static MODELS: LazyLock<Models> = LazyLock::new(|| Models::builtin().unwrap());
static CONFIGS: LazyLock<Vec<(&str, u32, PolicyConfig)>> = LazyLock::new(|| {
    let of = |name: &'static str, window: u32| {
        let typed = typed(name);
        let separator = if typed.contains(':') { ',' } else { ':' };
        let spec: PolicySpec = format!("{typed}{separator}believed_window_tokens={window}").parse().unwrap();
        (name, window, spec.load(&[], &[]).unwrap())
    };
    preset_names().into_iter().flat_map(|name| [of(name, 0), of(name, 70_000)]).collect()
});

/// What is wrong with one cell, if anything is.
fn wrong(session: &Session, policy: &Policy, model: &str) -> Result<(), String> {
    let (live, summary) = go(session, policy, model, &RunOptions::default());
    if summary.violations > 0 {
        let of = |e: &&(usize, SimEvent)| matches!(e.1.kind, SimEventKind::Violation { .. });
        return Err(format!("{:?}", live.events.iter().find(of)));
    }
    if matches!(summary.stop_reason, Some(StopReason::InvalidRequest | StopReason::RejectedAgain)) {
        return Err(format!("stopped at {:?}: {:?}", summary.stopped_at_request, live.events.last()));
    }
    let (promise, anew) = (promise(policy), is_worked_out_anew(policy));
    for (step, sent) in live.sent.iter().enumerate() {
        let number = step + 1;
        if let Some(orphan) = orphan(sent) {
            return Err(format!("request {number}: {orphan}"));
        }
        if let Some(hash) = promised(session, step, promise)
            && !sent.iter().any(|b| b.hash == hash)
        {
            return Err(format!("request {number} is without the user's words ({promise:?})"));
        }
        if let Some(before) = step.checked_sub(1).map(|i| &live.sent[i])
            && !anew
            && !sent.starts_with(before)
            && !may_change(session, &live.events, step)
        {
            return Err(format!("request {number} is not the one before and more, and nothing happened"));
        }
    }
    let again = go(session, policy, model, &RunOptions::default());
    let resuming = RunOptions { resume_before_each_request: true, ..RunOptions::default() };
    let resumed = go(session, policy, model, &resuming);
    for (name, (wires, other)) in [("again", again), ("resumed", resumed)] {
        if let Some(at) = wires.sent.iter().zip(&live.sent).position(|(a, b)| a != b) {
            let before = |wires: &Wires| -> Vec<SimEvent> {
                wires.events.iter().filter(|(sent, _)| *sent == at).map(|(_, e)| e.clone()).collect()
            };
            return Err(format!(
                "{name}: request {} is another, after {:?} instead of {:?}",
                at + 1,
                before(&wires),
                before(&live)
            ));
        }
        if let Some((a, b)) = wires.events.iter().zip(&live.events).find(|(a, b)| a != b) {
            return Err(format!("{name}: {a:?} instead of {b:?}"));
        }
        if wires != live || other != summary {
            return Err(format!("{name}: other figures"));
        }
    }
    let count = session.steps.len() / 2;
    let (first, _) = go(&first_steps(session, count), policy, model, &RunOptions::default());
    if !live.sent.starts_with(&first.sent) || first.sent.len() != count.min(live.sent.len()) {
        return Err("what comes later changes what was sent before".to_owned());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_preset_sends_whole_requests_and_only_its_rules_change_them(acts in vec(act(), 2..70)) {
        let original = session(&acts);
        let mut wrongs = Vec::new();
        for model in ["claude-haiku-4-5", "claude-opus-5-5"] {
            let session = original.scaled_to(MODELS.get(model).unwrap().tokenizer);
            for (name, window, config) in CONFIGS.iter() {
                let policy = config.strategy(MODELS.get(model).unwrap(), &MODELS).unwrap();
                let outcome = wrong(&session, &policy, model);
                wrongs.extend(outcome.err().map(|what| format!("{name}, window {window}, on {model}: {what}")));
            }
        }
        prop_assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
    }
}

#[test]
fn what_the_recording_cleared_is_no_stub_of_a_rule() {
    let mut cleared = ConstantGrowth {
        requests: 30,
        result_tokens: 6_000,
        result_utf16: 18_000,
        ..ConstantGrowth::default()
    }
    .session();
    let is_result = |b: &u32| cleared.blocks.kind[*b as usize] == BlockKind::ToolResult;
    let blocks: Vec<u32> = (0..cleared.steps[15].input.start).filter(is_result).step_by(2).collect();
    let kind = EventKind::RecordedClearing { blocks, applied: true };
    cleared.events = vec![Event { before_step: 15, kind }];
    for (name, _, config) in CONFIGS.iter() {
        let policy = config.strategy(MODELS.get("claude-opus-5-5").unwrap(), &MODELS).unwrap();
        assert_eq!(wrong(&cleared, &policy, "claude-opus-5-5"), Ok(()), "{name}");
    }
}

#[test]
fn thinking_that_is_not_sent_back_is_nothing_to_strip() {
    let mut unsigned = ConstantGrowth { requests: 12, ..ConstantGrowth::default() }.session();
    unsigned.blocks.flags.fill(Flags::default());
    let config = "vercel-prune".parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
    let policy = config.strategy(MODELS.get("claude-opus-5-5").unwrap(), &MODELS).unwrap();
    let (wires, _) = go(&unsigned, &policy, "claude-opus-5-5", &RunOptions::default());
    let of_thinking =
        |e: &(usize, SimEvent)| matches!(&e.1.kind, SimEventKind::Pass { rule, .. } if rule == "reasoning");
    assert!(!wires.events.iter().any(of_thinking), "{:?}", wires.events);
    assert_eq!(wrong(&unsigned, &policy, "claude-opus-5-5"), Ok(()));
}

#[test]
fn the_generated_sessions_make_every_kind_of_preset_act() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut quiet: Vec<&str> = CONFIGS.iter().map(|(name, ..)| *name).collect();
    for _ in 0..12 {
        let acts = vec(act(), 60..70).new_tree(&mut runner).unwrap().current();
        let session = session(&acts);
        for (name, _, config) in CONFIGS.iter() {
            let policy = config.strategy(MODELS.get("claude-opus-5-5").unwrap(), &MODELS).unwrap();
            let (_, summary) = go(&session, &policy, "claude-opus-5-5", &RunOptions::default());
            if summary.passes + summary.compactions + summary.offloads > 0 {
                quiet.retain(|n| n != name);
            }
        }
    }
    quiet.dedup();
    assert_eq!(quiet, ["mini-swe-agent", "none"], "presets that did nothing");
}
