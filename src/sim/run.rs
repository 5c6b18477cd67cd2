//! The loop of one cell: reveal what the recording says, ask the policy, send, record.
//!
//! # Divergence from the real API
//!
//! Replay is open-loop: outputs are as recorded, no request is added, and re-reads that a stub would have
//! provoked are not charged (docs/decisions.md 24). Where a recorded prompt shrank and the recording does
//! not say why, the thinking behind the gap is not judged by what was before it.
//!
//! Where the recording changes its model and that is replayed, the strategy goes on as it was resolved for
//! the first one, and tokens stay on the first one's tokenizer. A compaction whose summarizer is refused is
//! left out at that request.

use std::ops::Range;
use std::sync::Arc;

use super::context::{BrokenPlan, Context, Memory};
use super::ledger::{Change, Ledger};
use super::recording::{Recording, usage_digits};
use super::wire::is_replayable;
use super::{Recorder, Summary};
use crate::cause::Cause;
use crate::policy::interpreter::Interpreter;
use crate::policy::occasion::Occasion;
use crate::policy::plan::{Ingest, Plan};
use crate::policy::recovery::Ladder;
use crate::policy::strategy::{Hook, Hooks, MarkerPlace};
use crate::policy::{OnBindingError, Policy, Strategy};
use crate::provider::price::{Price, Rates};
use crate::provider::{
    Account, Answer, Marker, ModelSpec, Models, Params, PrefixMismatch, Provider, RejectionKind, Request, Ttl,
};
use crate::session::{BlockKind, DropReason, Event, EventKind, Session, Step};
use crate::sim::SimEventKind;
use crate::sim::summary::StopReason;

/// Options of a run besides session, strategy and model.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Kind of account.
    pub account: Account,
    /// Override of the strategy's answer to a binding rejection.
    pub on_binding_error: Option<OnBindingError>,
    /// Models to replay the recording's own model changes with; `None`: the run stays on its model.
    pub model_changes: Option<Arc<Models>>,
    /// Rebuild the client's history from what it wrote down before every request, as a resume does. It
    /// must change nothing; tests use it.
    pub resume_before_each_request: bool,
}

/// Working memory of a worker, reused from cell to cell.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Memory,
    provider: crate::provider::engine::Memory,
    markers: Vec<Marker>,
    thinking: Vec<u32>,
}

/// Replays `session` under `strategy` on `model`.
pub fn run(
    session: &Session,
    strategy: &Strategy,
    model: &ModelSpec,
    options: &RunOptions,
    scratch: &mut Scratch,
    recorder: &mut impl Recorder,
) -> Summary {
    let mut policy = Interpreter::new(strategy, session);
    run_policy(session, strategy, &mut policy, model, options, scratch, recorder)
}

/// Replays `session` under a policy of one's own; `strategy` says what else the client does (markers,
/// estimate, answers to rejections).
pub fn run_policy<'p, P: Policy<'p>>(
    session: &Session,
    strategy: &'p Strategy,
    policy: &mut P,
    model: &ModelSpec,
    options: &RunOptions,
    scratch: &mut Scratch,
    recorder: &mut impl Recorder,
) -> Summary {
    let memory = std::mem::take(&mut scratch.memory);
    let recorder_wants = recorder.wants_events();
    let hooks = policy.hooks();
    let mut cell = Cell {
        session,
        strategy,
        policy,
        model,
        context: Context::new(session, strategy.model_id_utf16, memory),
        provider: Provider::with_memory(model, options.account, std::mem::take(&mut scratch.provider)),
        log: Recording::new(session, price_of(model), recorder),
        ledger: options.resume_before_each_request.then(Ledger::default),
        options,
        on_binding_error: options.on_binding_error.unwrap_or(strategy.on_binding_error),
        params: Params { prefix_mismatch: strategy.prefix_mismatch, ..Params::default() },
        markers: std::mem::take(&mut scratch.markers),
        thinking: std::mem::take(&mut scratch.thinking),
        next_event: 0,
        hooks,
        ladder: Ladder::default(),
        turn: 0,
        archived: 0,
        reclaimed: None,
        reads_estimate: strategy.estimate.is_some() && (strategy.uses_estimate() || recorder_wants),
        compactions_are_undone: session.recorded_compactions_undone() > 0,
    };
    cell.replay();
    let Cell { context, provider, log, markers, thinking, .. } = cell;
    scratch.memory = context.into_memory();
    scratch.provider = provider.into_memory();
    scratch.markers = markers;
    scratch.thinking = thinking;
    log.finish()
}

/// Everything of one run.
pub(super) struct Cell<'a, 'p, P, R> {
    pub(super) session: &'a Session,
    pub(super) strategy: &'p Strategy,
    pub(super) policy: &'a mut P,
    pub(super) model: &'a ModelSpec,
    pub(super) context: Context<'a>,
    pub(super) provider: Provider<'a>,
    pub(super) log: Recording<'a, R>,
    pub(super) ledger: Option<Ledger>,
    pub(super) options: &'a RunOptions,
    pub(super) on_binding_error: OnBindingError,
    pub(super) params: Params,
    pub(super) markers: Vec<Marker>,
    pub(super) thinking: Vec<u32>,
    pub(super) next_event: usize,
    /// Hooks at which the policy wants to be asked.
    pub(super) hooks: Hooks,
    /// The ladder of recovery, as far as it is used.
    pub(super) ladder: Ladder,
    /// Human turns begun.
    pub(super) turn: u32,
    /// Summaries whose folded messages went to a file.
    pub(super) archived: u64,
    /// An edit that nothing followed yet: rule, measure before and after, tokens that left.
    pub(super) reclaimed: Option<(String, u64, u64, u64)>,
    /// Somebody reads the client's estimate, and with it the digits of the usage a client stores.
    pub(super) reads_estimate: bool,
    pub(super) compactions_are_undone: bool,
}

/// The run ends here.
pub(super) struct Stop(pub(super) StopReason);

/// What a plan came to.
enum Done {
    /// Nothing changed.
    Nothing,
    /// The history changed, and so many tokens of the client's estimate left.
    Freed(u64),
}

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    fn replay(&mut self) {
        if self.strategy.warm_prefix {
            self.warm_prefix();
        }
        for step in 0..self.session.steps.len() {
            self.log.begin(step);
            if let Err(Stop(reason)) = self.step(step) {
                self.log.stop(reason);
                return;
            }
        }
    }

    fn step(&mut self, step: usize) -> Result<(), Stop> {
        self.events_before(step);
        self.reveal_input(step);
        self.ask(Hook::Request);
        if let Some(ledger) = &self.ledger {
            let rebuilt = ledger.rebuild(self.session, &self.context);
            self.context = rebuilt;
            self.policy.resumed(self.session);
        }
        self.send(step)?;
        let output = self.session.steps[step].output.clone();
        self.thinking.clear();
        let kinds = &self.session.blocks.kind;
        let flags = &self.session.blocks.flags;
        let replayable =
            |b: &u32| kinds[*b as usize] == BlockKind::Thinking && is_replayable(flags[*b as usize]);
        self.thinking.extend(output.clone().filter(replayable));
        let has_calls = output.clone().any(|b| kinds[b as usize] == BlockKind::ToolUse);
        self.context.reveal(output.clone());
        self.context.send(output);
        self.provider.answered(&self.thinking);
        self.ask(Hook::Response);
        if !has_calls {
            self.ask(Hook::TurnEnd);
        }
        Ok(())
    }

    /// New input enters the history: results first, shortened where they are oversized, then what the user
    /// says. A turn begins before it does; tools have come back when the results have.
    fn reveal_input(&mut self, step: usize) {
        let Step { input, human_turn, .. } = &self.session.steps[step];
        let (input, human_turn) = (input.clone(), *human_turn);
        self.ask(Hook::Idle);
        if !self.hooks.has(Hook::TurnStart) && !self.hooks.has(Hook::AfterTools) {
            self.turn += u32::from(human_turn);
            return self.reveal_blocks(input);
        }
        let kinds = &self.session.blocks.kind;
        let is_result = |b: &u32| kinds[*b as usize] == BlockKind::ToolResult;
        let results_end = input.clone().find(|b| !is_result(b)).unwrap_or(input.end);
        if results_end > input.start {
            self.reveal_blocks(input.start..results_end);
        }
        if human_turn {
            self.turn += 1;
            self.ask(Hook::TurnStart);
        } else if results_end > input.start {
            self.ask(Hook::AfterTools);
        }
        self.reveal_blocks(results_end..input.end);
    }

    fn reveal_blocks(&mut self, blocks: Range<u32>) {
        self.context.reveal(blocks.clone());
        if self.hooks.has(Hook::ToolResult) {
            for block in blocks.clone() {
                if self.session.blocks.kind[block as usize] == BlockKind::ToolResult {
                    self.ingest(block);
                }
            }
        }
        self.context.send(blocks);
    }

    fn ingest(&mut self, block: u32) {
        for rule in 0..self.policy.rule_count() {
            let Some(plan) = self.policy.at_tool_result(rule, self.context.view(), block) else { continue };
            let applied = match &plan {
                Ingest::Offload(offload) => self.context.apply_offload(offload),
                Ingest::Truncate(stored) => self.context.apply_truncation(*stored),
            };
            let id = self.policy.rule_id(rule);
            match (applied, plan) {
                (Err(broken), _) => self.log.violation(id, broken.0),
                (Ok(stored), plan) => {
                    match plan {
                        Ingest::Offload(_) => self.log.offload(id, self.context.view(), &stored),
                        Ingest::Truncate(_) => self.log.truncated(id, &stored),
                    }
                    if let Some(ledger) = &mut self.ledger {
                        ledger.note_stored(stored);
                    }
                }
            }
            return;
        }
    }

    /// What the client's clock says at a hook.
    pub(super) fn occasion(&self, hook: Hook) -> Occasion {
        let gap_ms = self.log.now().start_ms.zip(self.log.last_start_ms()).map(|(now, last)| now - last);
        Occasion {
            request: self.log.number(),
            turn: self.turn,
            gap_ms,
            is_cold: gap_ms.is_none_or(|gap| gap >= self.strategy.cache_life_ms),
            archived: self.archived,
            ..Occasion::at(hook)
        }
    }

    /// Asks every rule at a hook, in order.
    pub(super) fn ask(&mut self, hook: Hook) {
        if !self.hooks.has(hook) {
            return;
        }
        let occasion = self.occasion(hook);
        self.policy.begin(&occasion);
        for rule in 0..self.policy.rule_count() {
            self.ask_rule(rule, &occasion);
        }
        if let Some((id, before, after, freed)) = self.reclaimed.take() {
            self.log.reclaimed(&id, before, after, freed);
        }
    }

    /// Asks one rule and carries out what it decides; what that freed, if it did anything.
    pub(super) fn ask_rule(&mut self, rule: usize, occasion: &Occasion) -> Option<u64> {
        let mut freed = None;
        // A rule that took stubs back is asked again for what it wants instead.
        while let Some(plan) = self.policy.at_hook(rule, occasion, self.context.view()) {
            let id = self.policy.rule_id(rule).to_owned();
            let asks_again = matches!(plan, Plan::Restore { .. });
            match self.apply(rule, &id, occasion, plan) {
                Ok(Done::Nothing) => break,
                Ok(Done::Freed(tokens)) => freed = Some(freed.unwrap_or(0) + tokens),
                Err(broken) => {
                    self.log.violation(&id, broken.0);
                    break;
                }
            }
            if !asks_again {
                break;
            }
        }
        freed
    }

    /// Carries out a plan, or says why it is broken; a broken plan changes nothing.
    fn apply(
        &mut self,
        rule: usize,
        id: &str,
        occasion: &Occasion,
        plan: Plan<'_>,
    ) -> Result<Done, BrokenPlan> {
        let mut freed = 0;
        match plan {
            Plan::Notice { text } => {
                self.log.event(|| SimEventKind::Notice { rule: id.to_owned(), text: text.to_owned() });
                return Ok(Done::Nothing);
            }
            Plan::SameStubs { reported } => {
                self.log.event(|| SimEventKind::SameStubs {
                    rule: id.to_owned(),
                    elided_count: reported.0,
                    chars_saved: reported.1,
                });
                return Ok(Done::Nothing);
            }
            Plan::Restore { blocks } => {
                self.context.apply_restore(&blocks)?;
                self.note(Change::Restore { blocks });
                return Ok(Done::Freed(0));
            }
            Plan::Stub(plan) => {
                let (withheld, elided) = self.context.apply_stubs(&plan)?;
                self.log.pass(id, self.session, &plan, withheld);
                self.note(Change::Pass { elided, withhold: plan.withhold });
            }
            Plan::Replace(plan) => {
                let withheld = self.context.apply_replace(&plan)?;
                freed = plan.saved_estimate;
                self.log.replaced(id, &plan, withheld);
                self.note(Change::Replaced { stored: plan.stored, withhold: plan.withhold });
            }
            Plan::Strip { blocks } => {
                let withheld = self.context.apply_strip(&blocks)?;
                self.log.stripped(id, withheld);
                self.note(Change::Stripped { blocks });
            }
            Plan::Summarize(plan) => {
                self.context.check_fold(&plan)?;
                if !self.compact(id, &plan, occasion) {
                    self.policy.failed(rule);
                    return Ok(Done::Nothing);
                }
                self.reclaimed = None;
            }
        }
        let stopped = self.policy.applied(rule, occasion, self.context.view());
        if let Some(stopped) = stopped.filter(|s| s.stops || occasion.hook == Hook::Manual) {
            self.reclaimed = Some((id.to_owned(), stopped.tokens_before, stopped.tokens_after, freed));
        }
        Ok(Done::Freed(freed))
    }

    pub(super) fn note(&mut self, change: Change) {
        if let Some(ledger) = &mut self.ledger {
            ledger.note(&self.context, change);
        }
    }

    /// Sends the request of `step`, and again after what is done about a refusal.
    fn send(&mut self, step: usize) -> Result<(), Stop> {
        let mut retried = false;
        if self.session.steps[step].human_turn
            && let Some(recovery) = &self.strategy.recovery
        {
            self.ladder.turn_starts(recovery);
        }
        loop {
            self.context.wire().markers(&self.strategy.markers, &mut self.markers);
            let request =
                Request { params: self.params, markers: &self.markers, ..self.log.request(&self.context) };
            match self.provider.send(&request) {
                Answer::Done(done) => {
                    let estimate = self.log.wants_estimate().then(|| self.estimate());
                    let usage = self.log.served(&done, estimate.flatten().unwrap_or(0));
                    self.context.mark_sent();
                    let digits = if self.reads_estimate { usage_digits(&usage) } else { 0 };
                    let total = usage.prompt_tokens() + usage.output_tokens;
                    self.context.answered(u32::try_from(step).unwrap_or(u32::MAX), total, digits);
                    if let Some(recovery) = &self.strategy.recovery {
                        self.ladder.succeeded(recovery);
                    }
                    return Ok(());
                }
                Answer::Rejected(rejection) => {
                    let kind = rejection.kind;
                    self.log.rejection(rejection);
                    if let RejectionKind::Overflow { input_tokens, limit_tokens } = kind {
                        let deficit = input_tokens.zip(limit_tokens).map(|(used, limit)| used - limit);
                        self.recover_from_overflow(deficit)?;
                        continue;
                    }
                    self.recover(kind, retried)?;
                    retried = true;
                }
            }
        }
    }

    fn estimate(&self) -> Option<u64> {
        self.strategy.estimate.as_ref().map(|law| self.context.view().estimate_tokens(law))
    }

    /// Events of the recording before `step`. A change at a resume is one the process did not see.
    fn events_before(&mut self, step: usize) {
        let session = self.session;
        let begin = self.next_event;
        let due = session.events[begin..].iter().take_while(|e| e.before_step as usize <= step).count();
        self.next_event += due;
        let events = &session.events[begin..begin + due];
        let resumed = events.iter().any(|e| e.kind == EventKind::Resumed);
        for group in events.chunk_by(|a, b| drop_reason(a).is_some() && drop_reason(a) == drop_reason(b)) {
            match drop_reason(&group[0]) {
                Some(reason) => self.drop_blocks(group, reason),
                None => self.event(&group[0].kind, resumed),
            }
        }
    }

    fn event(&mut self, event: &EventKind, resumed: bool) {
        match event {
            EventKind::ToolsChanged { tools } => {
                let mut prefix = self.context.prefix.clone();
                let order_only = is_permutation(&prefix.tools, tools);
                prefix.tools.clone_from(tools);
                let cause = if order_only { Cause::PrefixToolOrder } else { Cause::PrefixTools };
                self.change_prefix(prefix, cause, resumed);
            }
            EventKind::SystemChanged { system } => {
                let mut prefix = self.context.prefix.clone();
                prefix.system.clone_from(system);
                self.change_prefix(prefix, Cause::PrefixSystem, resumed);
            }
            EventKind::ParametersChanged { hash } => {
                self.params.messages_key = *hash;
                self.context.note_change(Cause::PrefixParameters);
            }
            EventKind::ManualCompaction => self.ask(Hook::Manual),
            EventKind::RecordedClearing { blocks, applied: true } => {
                let elided = self.context.apply_recorded_clearing(blocks);
                self.note(Change::Pass { elided, withhold: None });
            }
            // The user asked for it; whether the recording's own is kept, the session's view says.
            EventKind::RecordedCompaction { automatic: false, .. } if self.compactions_are_undone => {
                self.ask(Hook::Manual);
            }
            EventKind::RecordedClearing { applied: false, .. }
            | EventKind::RecordedCompaction { .. }
            | EventKind::BlocksDropped { .. } => {}
            EventKind::ModelChanged { model } => self.change_model(model),
            EventKind::Resumed => {}
        }
    }

    /// Drops that follow each other for one reason are one change.
    fn drop_blocks(&mut self, events: &[Event], reason: DropReason) {
        let cause = match reason {
            DropReason::Compaction => Cause::PrefixCompaction,
            DropReason::Clear | DropReason::Rewind => Cause::PrefixRewind,
            DropReason::Unexplained => Cause::PrefixUnknown,
        };
        let ranges: Vec<Range<u32>> = events
            .iter()
            .filter_map(|e| match e.kind {
                EventKind::BlocksDropped { from, to, .. } => Some(from..to),
                _ => None,
            })
            .collect();
        self.context.drop_blocks(&ranges, reason, cause);
        if reason == DropReason::Unexplained {
            let first = ranges.iter().map(|r| r.start).min().unwrap_or(0);
            self.provider.forget_bindings(|block| block >= first);
        }
        self.note(Change::Dropped { ranges, reason, cause });
    }

    fn change_prefix(&mut self, prefix: crate::session::Prefix, cause: Cause, resumed: bool) {
        self.context.change_prefix(prefix.clone(), cause);
        self.note(Change::PrefixChanged { prefix, cause });
        if self.strategy.withhold_on_prefix_change && !resumed {
            let withheld = self.context.withhold_all(cause);
            self.note(Change::WithholdAll);
            self.log.prefix_change_noticed(withheld);
        }
    }

    /// The recording goes on with another model. One that is not known changes nothing.
    fn change_model(&mut self, id: &str) {
        let found = self.options.model_changes.as_ref().and_then(|models| models.resolve(id).ok());
        if let Some(found) = found.filter(|f| f.model.id != self.model.id && !f.substituted) {
            self.model = found.model;
            self.provider.set_model(found.model);
            self.log.set_price(price_of(found.model));
            self.context.note_change(Cause::PrefixModel);
        }
    }

    /// What to do about a refusal: change the next attempt, or stop.
    fn recover(&mut self, kind: RejectionKind, retried: bool) -> Result<(), Stop> {
        match kind {
            RejectionKind::Overflow { .. } => return Err(Stop(StopReason::Overflow)),
            RejectionKind::InvalidRequest => return Err(Stop(StopReason::InvalidRequest)),
            RejectionKind::Binding { .. } => {}
        }
        if retried {
            self.log.violation("retry", "the retry of a refused request was refused too");
            return Err(Stop(StopReason::RejectedAgain));
        }
        match self.on_binding_error {
            OnBindingError::Fail => return Err(Stop(StopReason::BindingRejection)),
            OnBindingError::Strip => {
                let stripped = self.context.withhold_all(Cause::PrefixThinking);
                self.note(Change::WithholdAll);
                self.log.recovery("strip", stripped);
            }
            OnBindingError::DropBlock => {
                self.params.prefix_mismatch = Some(PrefixMismatch::DropBlock);
                self.log.recovery("drop_block", 0);
            }
        }
        Ok(())
    }

    /// The floor of the prefix is in the cache when the session begins.
    fn warm_prefix(&mut self) {
        let blocks = self.context.wire().blocks();
        let prefix = blocks.iter().take_while(|b| b.kind.is_prefix()).count();
        let ttl = self
            .strategy
            .markers
            .iter()
            .find(|m| m.place == MarkerPlace::System)
            .map_or(Ttl::Short, |m| m.ttl);
        let at_ms = self.session.steps.first().and_then(|s| s.start_ms).unwrap_or(0);
        self.provider.warm(&blocks[..prefix], self.params, ttl, at_ms);
    }
}

fn drop_reason(event: &Event) -> Option<DropReason> {
    match event.kind {
        EventKind::BlocksDropped { reason, .. } => Some(reason),
        _ => None,
    }
}

/// What is charged where no price is known: nothing, and the caller says so.
static UNPRICED: Price = Price {
    rates: Rates { input: 0, output: 0, write_short: 0, write_long: 0, read: 0 },
    tier: None,
    from: None,
    to: None,
    as_of: String::new(),
    source: String::new(),
    notes: String::new(),
};

/// The model's price; a caller who wants another day's narrows the table.
pub(super) fn price_of(model: &ModelSpec) -> &Price {
    model.price(None).unwrap_or(&UNPRICED)
}

fn is_permutation(a: &[crate::session::PrefixBlock], b: &[crate::session::PrefixBlock]) -> bool {
    let sorted = |list: &[crate::session::PrefixBlock]| {
        let mut hashes: Vec<(u64, u32)> = list.iter().map(|t| (t.hash, t.tokens)).collect();
        hashes.sort_unstable();
        hashes
    };
    a != b && sorted(a) == sorted(b)
}
