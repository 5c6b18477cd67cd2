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
//! left out at that request. A summary that is being written survives a restart of the process.

use std::ops::Range;
use std::sync::Arc;

use super::compact::Underway;
use super::context::{Context, Memory};
use super::kept_tail::KeptTail;
use super::ledger::{Change, Ledger};
use super::recording::{Recording, usage_digits};
use super::refetch::Refetches;
use super::wire::is_replayable;
use super::{Recorder, Summary};
use crate::cause::Cause;
use crate::policy::interpreter::Interpreter;
use crate::policy::plan::Ingest;
use crate::policy::recovery::Ladder;
use crate::policy::strategy::{Hook, Hooks, MarkerPlace};
use crate::policy::{OnBindingError, Policy, Strategy};
use crate::provider::price::{Date, Price, Rates};
use crate::provider::reasoning::Replay;
use crate::provider::{
    Account, Answer, Marker, ModelSpec, Models, Params, PrefixMismatch, Provider, RejectionKind, Request, Ttl,
};
use crate::session::{BlockKind, Session, Step};
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
    /// Root of what a provider's cache leaves to chance.
    pub seed: u64,
    /// Sessions of one plan share a cache, as those of one organisation do, in the order of their requests.
    pub shared_cache: bool,
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
    let mut cell = cell(session, strategy, policy, model, options, scratch, recorder);
    cell.replay();
    cell.finish(scratch)
}

/// A run that has not begun.
pub(super) fn cell<'a, 'p, P: Policy<'p>, R: Recorder>(
    session: &'a Session,
    strategy: &'p Strategy,
    policy: &'a mut P,
    model: &'a ModelSpec,
    options: &'a RunOptions,
    scratch: &mut Scratch,
    recorder: &'a mut R,
) -> Cell<'a, 'p, P, R> {
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
        log: Recording::new(session, model, recorder),
        ledger: options.resume_before_each_request.then(Ledger::default),
        options,
        on_binding_error: options.on_binding_error.unwrap_or(strategy.on_binding_error),
        params: Params {
            prefix_mismatch: strategy.prefix_mismatch,
            truncates: strategy.truncates,
            ..Params::default()
        },
        markers: std::mem::take(&mut scratch.markers),
        thinking: std::mem::take(&mut scratch.thinking),
        next_event: 0,
        hooks,
        ladder: Ladder::default(),
        turn: 0,
        archived: 0,
        underway: Vec::new(),
        kept_tail: None,
        reclaimed: None,
        refetches: Refetches::default(),
        reads_estimate: strategy.estimate.is_some() && (strategy.uses_estimate() || recorder_wants),
        compactions_are_undone: session.recorded_compactions_undone() > 0,
    };
    cell.provider.set_seed(options.seed);
    cell
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
    /// Summaries that are being written.
    pub(super) underway: Vec<Underway<'p>>,
    /// Thinking that stands behind a summary of the provider's own since the last request.
    pub(super) kept_tail: Option<KeptTail>,
    /// An edit that nothing followed yet: rule, measure before and after, tokens that left.
    pub(super) reclaimed: Option<(String, u64, u64, u64)>,
    /// What the recording fetches again.
    pub(super) refetches: Refetches,
    /// Somebody reads the client's estimate, and with it the digits of the usage a client stores.
    pub(super) reads_estimate: bool,
    pub(super) compactions_are_undone: bool,
}

/// The run ends here.
pub(super) struct Stop(pub(super) StopReason);

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    fn replay(&mut self) {
        for step in 0..self.session.steps.len() {
            if !self.advance(step) {
                return;
            }
        }
    }

    /// Goes through the next step. Returns whether the run goes on.
    pub(super) fn advance(&mut self, step: usize) -> bool {
        if step == 0 && self.strategy.warm_prefix {
            self.warm_prefix();
        }
        self.log.begin(step);
        match self.step(step) {
            Ok(()) => true,
            Err(Stop(reason)) => {
                self.log.stop(reason);
                false
            }
        }
    }

    /// What it came to; buffers go back for the next run.
    pub(super) fn finish(self, scratch: &mut Scratch) -> Summary {
        let Cell { context, provider, log, markers, thinking, .. } = self;
        scratch.memory = context.into_memory();
        scratch.provider = provider.into_memory();
        scratch.markers = markers;
        scratch.thinking = thinking;
        log.finish()
    }

    /// Until when other conversations cannot read what the request writes.
    pub(super) fn ttft_ms(&self) -> u32 {
        self.model.cache.filter(|_| self.options.shared_cache).map_or(0, |cache| cache.ttft_ms)
    }

    fn step(&mut self, step: usize) -> Result<(), Stop> {
        self.events_before(step);
        self.reveal_input(step);
        self.put_in_place();
        self.ask(Hook::Request);
        if let Some(ledger) = &self.ledger {
            let rebuilt = ledger.rebuild(self.session, &self.context);
            self.context = rebuilt;
            self.policy.resumed(self.session);
        }
        self.send(step)?;
        self.thinking.clear();
        let output = self.session.steps[step].output.clone();
        let kinds = &self.session.blocks.kind;
        let flags = &self.session.blocks.flags;
        let replayable =
            |b: &u32| kinds[*b as usize] == BlockKind::Thinking && is_replayable(flags[*b as usize]);
        self.thinking.extend(output.clone().filter(replayable));
        self.provider.answered(&self.thinking);
        self.log.answered_with(&mut self.refetches, self.context.view(), &output);
        self.announce_call(output.clone());
        self.keep_alive(step);
        if self.hooks.has(Hook::Response) || self.hooks.has(Hook::TurnEnd) {
            let has_calls = output.clone().any(|b| kinds[b as usize] == BlockKind::ToolUse);
            self.reveal_to(output.end);
            self.ask(Hook::Response);
            if !has_calls {
                self.ask(Hook::TurnEnd);
            }
        }
        Ok(())
    }

    /// Some vendors want the reasoning of an answer back with its first call.
    fn announce_call(&mut self, output: Range<u32>) {
        if self.model.replay == Replay::Free {
            return;
        }
        let blocks = &self.session.blocks;
        let Some(call) = output.clone().find(|b| blocks.kind[*b as usize] == BlockKind::ToolUse) else {
            return;
        };
        if let Some(reasoning) = self.thinking.iter().rev().find(|block| **block < call) {
            self.provider.called(blocks.call[call as usize], *reasoning);
        }
    }

    /// The last answer and new input enter the history: results first, then what the user says. A turn begins
    /// before it does; tools have come back when the results have.
    fn reveal_input(&mut self, step: usize) {
        let Step { input, human_turn, .. } = &self.session.steps[step];
        let (input, human_turn) = (input.clone(), *human_turn);
        if self.hooks.has(Hook::Idle) {
            self.reveal_to(input.start);
            self.ask(Hook::Idle);
        }
        self.turn += u32::from(human_turn);
        if self.hooks.has(Hook::TurnStart) || self.hooks.has(Hook::AfterTools) {
            let kinds = &self.session.blocks.kind;
            let is_result = |b: &u32| kinds[*b as usize] == BlockKind::ToolResult;
            let results_end = input.clone().find(|b| !is_result(b)).unwrap_or(input.end);
            self.reveal_to(results_end);
            if human_turn {
                self.ask(Hook::TurnStart);
            } else if results_end > input.start {
                self.ask(Hook::AfterTools);
            }
        }
        self.reveal_to(input.end);
    }

    /// What is new up to block `end` enters the history; oversized results are shortened before they do.
    pub(super) fn reveal_to(&mut self, end: u32) {
        let new = self.context.view().revealed..end;
        let results = self.context.view().results.len();
        self.context.reveal(new.clone());
        if self.hooks.has(Hook::ToolResult) {
            for at in results..self.context.view().results.len() {
                self.ingest(self.context.view().results[at]);
            }
        }
        self.context.send(new);
    }

    fn ingest(&mut self, block: u32) {
        for rule in 0..self.policy.rule_count() {
            if !self.policy.is_asked(rule, Hook::ToolResult) {
                continue;
            }
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

    /// Sends the request of `step`, and again after what is done about a refusal.
    fn send(&mut self, step: usize) -> Result<(), Stop> {
        let (mut retried, mut binding_asked) = (false, false);
        self.rebind_kept_tail();
        if self.session.steps[step].human_turn
            && let Some(recovery) = &self.strategy.recovery
        {
            self.ladder.turn_starts(recovery);
        }
        loop {
            let automatic = self.place_markers();
            self.context.wire.push_tail(&self.session.steps[step], self.model);
            let request = Request {
                params: self.params,
                markers: &self.markers,
                automatic,
                ttft_ms: self.ttft_ms(),
                ..self.log.request(&self.context)
            };
            match self.provider.send(&request) {
                Answer::Done(done) => {
                    self.log.sent(&request);
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
                    self.context.wire.drop_tail();
                    let kind = rejection.kind;
                    self.log.rejection(*rejection);
                    if let RejectionKind::Overflow { input_tokens, limit_tokens } = kind {
                        let deficit = input_tokens.zip(limit_tokens).map(|(used, limit)| used - limit);
                        self.recover_from_overflow(deficit)?;
                        continue;
                    }
                    let is_binding = matches!(kind, RejectionKind::Binding { .. });
                    if is_binding && !std::mem::replace(&mut binding_asked, true) && self.edit_after_binding()
                    {
                        continue;
                    }
                    self.recover(kind, retried)?;
                    retried = true;
                }
            }
        }
    }

    /// Places the strategy's breakpoints where the model caches nothing without; elsewhere the life of the last one is
    /// that of what the provider caches by itself.
    pub(super) fn place_markers(&mut self) -> Option<Ttl> {
        if self.model.needs_markers() {
            self.context.wire().markers(&self.strategy.markers, &mut self.markers);
        } else {
            self.markers.clear();
        }
        self.automatic()
    }

    /// The life of what the provider caches by itself, where it does.
    pub(super) fn automatic(&self) -> Option<Ttl> {
        self.strategy.markers.last().filter(|_| !self.model.needs_markers()).map(|m| m.ttl)
    }

    fn estimate(&self) -> Option<u64> {
        self.strategy.estimate.as_ref().map(|law| self.context.view().estimate_tokens(law))
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

/// What is charged where no price is known: nothing, and the caller says so.
static UNPRICED: Price = Price::flat(Rates { input: 0, output: 0, write_short: 0, write_long: 0, read: 0 });

/// The model's price for a request of a session of this day that starts at `at_ms`. A day that no row is valid on
/// has the first row; a caller who wants another day's narrows the table.
pub(super) fn price_of(model: &ModelSpec, day: Option<Date>, at_ms: Option<i64>) -> &Price {
    let prices = &model.prices;
    prices.when(day, at_ms).or_else(|| prices.when(None, at_ms)).unwrap_or(&UNPRICED)
}

/// The price of the request at `step` of a session on `model`; `None` if none is known.
pub fn price_at<'m>(model: &'m ModelSpec, session: &Session, step: usize) -> Option<&'m Price> {
    let at_ms = session.steps.get(step).and_then(|step| step.start_ms);
    Some(price_of(model, day_of(session), at_ms)).filter(|_| !model.prices.rows().is_empty())
}

/// The day of a session: that of its first request with a time.
pub(super) fn day_of(session: &Session) -> Option<Date> {
    session.steps.iter().find_map(|step| step.start_ms).and_then(Date::of_ms)
}
