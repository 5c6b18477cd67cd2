//! Carrying out a compaction: the calls to the summarizers, and what becomes of the summary.

use super::Recorder;
use super::aside::{Aside, Less, Part, SummaryCall};
use super::context::BrokenPlan;
use super::leave::Fold;
use super::ledger::Change;
use super::run::Cell;
use crate::policy::Policy;
use crate::policy::fold::{Archive, Place, SummarizeRule, Summarizer, SummaryInput};
use crate::policy::occasion::Occasion;
use crate::policy::plan::{ReplacePlan, SummarizePlan};
use crate::policy::reads::Reads;
use crate::policy::strategy::Hook;
use crate::policy::view::{State, Stored, SummaryMessage};
use crate::provider::{RejectionKind, Request};
use crate::session::BlockKind;
use crate::tokens::scale_milli;

/// Times a summarizer call is made anew with less in it.
const MAX_REFUSALS: u32 = 5;

/// What became of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compacted {
    Done,
    /// The summary is being written.
    Later,
    Failed,
}

/// A summary that is being written while the session goes on.
#[derive(Debug)]
pub(super) struct Underway<'p> {
    pub(super) rule: usize,
    id: String,
    plan: SummarizePlan<'p>,
    call: SummaryCall,
    /// The request before which it is there.
    due: u32,
    /// What it stands for, as it was.
    seen: u64,
}

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Folds as planned, or asks for the summary and folds when it is there.
    pub(super) fn compact(
        &mut self,
        rule: usize,
        id: &str,
        plan: SummarizePlan<'p>,
        occasion: &Occasion,
    ) -> Compacted {
        if plan.spec.calls == 0 {
            let marker = self.marker(&plan);
            let withheld = self.fold(&plan, marker);
            self.log.dropped(id, &plan, self.plain_estimate(), withheld);
            return Compacted::Done;
        }
        self.log.compaction_start(id, &plan);
        let thinking = self.thinking_kept_by(&plan);
        let sends_conversation =
            matches!(plan.spec.input, SummaryInput::Native { .. } | SummaryInput::Fork { .. });
        let call = match sends_conversation {
            true => self.with_kept_tail(|cell| cell.summarize(id, &plan)),
            false => self.summarize(id, &plan),
        };
        let Some(call) = call else { return Compacted::Failed };
        if plan.spec.latency_steps > 0 && !occasion.asks_no_trigger() {
            let due =
                self.log.number().saturating_add(u32::try_from(plan.spec.latency_steps).unwrap_or(u32::MAX));
            let seen = self.as_seen(&plan);
            self.underway.push(Underway { rule, id: id.to_owned(), plan, call, due, seen });
            return Compacted::Later;
        }
        if !self.accept(id, &plan, call, occasion) {
            return Compacted::Failed;
        }
        self.keep_tail(thinking);
        Compacted::Done
    }

    /// Summaries that have been written by now are put in the place of what they stand for.
    pub(super) fn put_in_place(&mut self) {
        if self.underway.is_empty() {
            return;
        }
        let number = self.log.number();
        let occasion = self.occasion(Hook::Request);
        let mut at = 0;
        while at < self.underway.len() {
            let Underway { rule, due, .. } = self.underway[at];
            if due > number || !self.policy.summary_is_due(rule, &occasion, self.context.view()) {
                at += 1;
                continue;
            }
            let Underway { rule, id, plan, call, seen, .. } = self.underway.remove(at);
            self.policy.begin(&occasion);
            let is_stale = plan.spec.discard_if_stale && self.as_seen(&plan) != seen;
            let fits = self.still_stands(&plan) && self.context.check_fold(&plan).is_ok();
            if is_stale || !fits {
                let reason = "what it stands for has changed since it was asked for".to_owned();
                self.log.compaction_failed(&id, plan.tokens_before, reason);
                self.policy.failed(rule);
            } else if self.accept(&id, &plan, call, &occasion) {
                self.policy.applied(rule, &occasion, self.context.view());
            } else {
                self.policy.failed(rule);
            }
        }
    }

    /// What is to be folded, as it is now: equal as long as nothing was done to any of it.
    fn as_seen(&self, plan: &SummarizePlan<'_>) -> u64 {
        let view = self.context.view();
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        hasher.update(&view.live_from.to_le_bytes());
        hasher.update(&view.summary.map_or(0, |s| s.hash).to_le_bytes());
        for block in 0..plan.fold_to {
            hasher.update(&[view.states[block as usize].0]);
            hasher.update(&view.text_utf16(block).to_le_bytes());
        }
        hasher.digest()
    }

    /// Whether any of what a summary stands for is still there.
    fn still_stands(&self, plan: &SummarizePlan<'_>) -> bool {
        let view = self.context.view();
        let is_kept = |b: u32| plan.keep.iter().any(|r| r.contains(&b));
        (view.live_from..plan.fold_to).any(|b| view.is_live(b) && !is_kept(b))
    }

    /// Folds, if the summary is good enough.
    fn accept(
        &mut self,
        id: &str,
        plan: &SummarizePlan<'_>,
        mut call: SummaryCall,
        occasion: &Occasion,
    ) -> bool {
        if plan.spec.reject_if_larger && self.summary_estimate(&call.summary) >= plan.folded_estimate {
            self.log.compaction_failed(id, plan.tokens_before, "the summary is no smaller".to_owned());
            return false;
        }
        let after =
            plan.whole_estimate.saturating_sub(plan.folded_estimate) + self.summary_estimate(&call.summary);
        if plan.must_reach.is_some_and(|target| after > target) && !occasion.asks_no_trigger() {
            self.log.compaction_failed(id, plan.tokens_before, "the target is not reached".to_owned());
            return false;
        }
        let archive = plan.spec.archive.filter(|_| !occasion.is_forced);
        if let Some(archive) = &archive {
            self.add_note(&mut call.summary, archive);
        }
        if call.sent_conversation {
            self.context.mark_sent();
        }
        let withheld = self.fold(plan, Some(call.summary));
        if let Some(fold) = self.context.folds.last() {
            self.refetches.compacted(self.log.number(), &fold.folded);
        }
        self.cut_what_is_kept(id, plan);
        let file = archive.map(|_| Archive::file(self.archived));
        self.archived += u64::from(archive.is_some());
        self.log.compaction_done(id, plan, &call, self.plain_estimate(), withheld, file);
        true
    }

    /// Old results behind the summary are cut with it.
    fn cut_what_is_kept(&mut self, id: &str, plan: &SummarizePlan<'_>) {
        let view = self.context.view();
        let is_whole =
            |s: &&Stored| view.is_live(s.block) && !view.states[s.block as usize].has(State::REPLACED);
        let stored: Vec<Stored> = plan.truncated.iter().filter(is_whole).copied().collect();
        if stored.is_empty() {
            return;
        }
        let left = |s: &Stored| view.text_utf16(s.block).saturating_sub(u64::from(s.utf16));
        let saved_utf16 = stored.iter().map(left).sum();
        let cut = ReplacePlan { stored, saved_utf16, saved_estimate: 0, withhold: None };
        self.context.replace(&cut.stored, None);
        self.log.replaced(id, &cut, 0);
        self.note(Change::Replaced { stored: cut.stored, withhold: None });
    }

    /// Asks the summarizers in turn; the first that answers.
    fn summarize(&mut self, id: &str, plan: &SummarizePlan<'_>) -> Option<SummaryCall> {
        let parts = match (plan.split_at, plan.spec.split_turn) {
            (Some(turn), Some(split)) => vec![Part::BeforeTurn(turn), Part::Turn(turn, split)],
            _ => vec![Part::Whole],
        };
        let asked = |cell: &mut Self, summarizer: &Summarizer| {
            let mut whole: Option<SummaryCall> = None;
            for part in &parts {
                let aside = Aside::new(cell.session, cell.strategy, cell.model, plan, *part, Less::default());
                let says_so = plan.spec.empty_utf16 > 0;
                let call = match aside.has_input(&cell.context) {
                    false if says_so => aside.empty_summary(cell.model),
                    false if *part != Part::Whole => continue,
                    _ => cell.asked(id, plan, summarizer, *part)?,
                };
                whole = Some(whole.map_or(call, |first| first.and(&call)));
            }
            whole
        };
        plan.spec.models.iter().find_map(|summarizer| asked(self, summarizer))
    }

    /// Asks a summarizer as often as the strategy does; the last answer.
    fn asked(
        &mut self,
        id: &str,
        plan: &SummarizePlan<'_>,
        summarizer: &Summarizer,
        part: Part,
    ) -> Option<SummaryCall> {
        let mut answer = None;
        let (mut calls, mut less, mut refusals) = (0, Less::default(), 0);
        let mut percents = plan.spec.leave_out_percent.iter();
        while calls < plan.spec.calls {
            let aside = Aside::new(self.session, self.strategy, self.model, plan, part, less);
            let automatic = self.place_markers();
            let request = Request {
                automatic,
                ttft_ms: self.ttft_ms(),
                params: self.params,
                markers: &self.markers,
                max_output_tokens: 0,
                ..self.log.request(&self.context)
            };
            let rejection = match aside.call(&mut self.provider, &self.context, &request, summarizer) {
                Ok(call) => {
                    self.log.summarizer_call(&call);
                    answer = Some(call);
                    calls += 1;
                    continue;
                }
                Err(rejection) => rejection,
            };
            match rejection.kind {
                RejectionKind::Overflow { input_tokens: Some(used), limit_tokens: Some(limit) }
                    if plan.spec.drop_oldest_leaving.is_some() && refusals < MAX_REFUSALS =>
                {
                    // The oldest messages are left out until what was too much is covered.
                    less.tokens += used - limit;
                    refusals += 1;
                }
                RejectionKind::Overflow { .. } if percents.len() > 0 => {
                    less.results_percent = percents.next().copied().unwrap_or(100);
                }
                _ => {
                    self.log.compaction_failed(id, plan.tokens_before, rejection.message);
                    break;
                }
            }
        }
        answer
    }

    /// Each result and its call get a text of their own in their place; whether any did.
    ///
    /// # Errors
    /// A block that is no result in the history.
    pub(super) fn summarize_pairs(
        &mut self,
        id: &str,
        results: &[u32],
        spec: &'p SummarizeRule,
    ) -> Result<bool, BrokenPlan> {
        let pairs = self.context.pairs_of(results)?;
        let mut stored = Vec::with_capacity(results.len());
        let mut saved_utf16 = 0;
        let tokens_before = self.plain_estimate();
        for result in results {
            let view = self.context.view();
            let blocks = &view.session.blocks;
            let call = pairs.iter().map(|r| r.start).find(|b| {
                blocks.kind[*b as usize] == BlockKind::ToolUse
                    && blocks.call[*b as usize] == blocks.call[*result as usize]
            });
            let from = call.unwrap_or(*result);
            let without = (from..*result).filter(|b| Some(*b) != call).collect();
            let plan = SummarizePlan {
                fold_to: result + 1,
                prompt_utf16: 0,
                tokens_before,
                folded_messages: 2,
                kept_turns: 0,
                keep: Vec::new(),
                folded_estimate: 0,
                whole_estimate: 0,
                reinjected_tokens: 0,
                must_reach: None,
                reads: Reads { from, to: result + 1, messages: 2, without, ..Reads::default() },
                split_at: None,
                truncated: Vec::new(),
                reads_cut: false,
                spec,
            };
            let whole_utf16 = view.result_utf16(*result);
            let Some(call) = self.summarize(id, &plan) else { continue };
            let SummaryMessage { tokens, utf16, json_utf16, .. } = call.summary;
            saved_utf16 += whole_utf16.saturating_sub(u64::from(utf16));
            let (block, bytes, lines, path_utf16, ascii) = (*result, utf16, 1, 0, utf16);
            stored.push(Stored {
                block,
                utf16,
                bytes,
                json_utf16,
                lines,
                tokens,
                path_utf16,
                ascii,
                is_text: true,
            });
        }
        if stored.is_empty() {
            return Ok(false);
        }
        self.context.apply_texts(&stored)?;
        self.log.history_changed(&self.context);
        let texts = ReplacePlan { stored, saved_utf16, saved_estimate: 0, withhold: None };
        self.log.replaced(id, &texts, 0);
        self.note(Change::Texts { stored: texts.stored });
        Ok(true)
    }

    fn fold(&mut self, plan: &SummarizePlan<'_>, summary: Option<SummaryMessage>) -> u64 {
        let summary_at = match plan.spec.place {
            Place::Head => 0,
            Place::InPlace => plan.keep.first().map_or(0, |r| r.end),
            Place::Last => plan.fold_to,
        };
        let at = self.context.view().revealed;
        let accumulates = plan.spec.accumulates;
        let (fold_to, keep, folded) = (plan.fold_to, plan.keep.clone(), Vec::new());
        let fold = Fold { fold_to, keep, at, summary, summary_at, accumulates, folded };
        let withhold_kept = plan.spec.withhold_kept_thinking;
        let withheld = self.context.fold_all(fold.clone(), withhold_kept);
        self.log.history_changed(&self.context);
        self.note(Change::Compaction { fold, withhold_kept });
        withheld
    }

    /// What stands for messages that leave without a summary.
    fn marker(&self, plan: &SummarizePlan<'_>) -> Option<SummaryMessage> {
        let utf16 = plan.spec.wrap_utf16;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        (utf16 > 0).then(|| SummaryMessage {
            tokens: narrow(scale_milli(utf16, u64::from(self.session.coefficients.text_milli))),
            utf16: narrow(utf16),
            json_utf16: narrow(utf16),
            hash: xxhash_rust::xxh3::xxh3_64(
                &[u64::from(plan.fold_to).to_le_bytes(), utf16.to_le_bytes()].concat(),
            ),
            wide_bytes: 0,
        })
    }

    /// The summary says where the folded messages are.
    fn add_note(&self, summary: &mut SummaryMessage, archive: &Archive) {
        let utf16 = archive.note_utf16(self.archived);
        let tokens = scale_milli(utf16, u64::from(self.session.coefficients.text_milli));
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        summary.utf16 += narrow(utf16);
        summary.json_utf16 += narrow(utf16);
        summary.tokens += narrow(tokens);
    }

    fn plain_estimate(&self) -> u64 {
        self.strategy.estimate.as_ref().map_or(0, |law| self.context.view().sum_of_messages(law))
    }

    fn summary_estimate(&self, summary: &SummaryMessage) -> u64 {
        self.strategy.estimate.as_ref().map_or(u64::from(summary.tokens), |law| {
            law.total(self.context.view().milli_of_summary(law, summary))
        })
    }
}
