//! Carrying out a compaction: the calls to the summarizers, and what becomes of the summary.

use super::Recorder;
use super::aside::{Aside, SummaryCall};
use super::leave::Fold;
use super::ledger::Change;
use super::run::Cell;
use crate::policy::Policy;
use crate::policy::fold::{Archive, Place};
use crate::policy::occasion::Occasion;
use crate::policy::plan::SummarizePlan;
use crate::policy::view::SummaryMessage;
use crate::provider::{Rejection, RejectionKind, Request};
use crate::tokens::scale_milli;

/// Times a summarizer call is made anew with less in it.
const MAX_REFUSALS: u32 = 5;

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Folds as planned; whether it came to that.
    pub(super) fn compact(&mut self, id: &str, plan: &SummarizePlan<'_>, occasion: &Occasion) -> bool {
        if plan.spec.calls == 0 {
            let marker = self.marker(plan);
            let withheld = self.fold(plan, marker);
            self.log.dropped(id, plan, self.plain_estimate(), withheld);
            return true;
        }
        self.log.compaction_start(id, plan);
        let Some(mut call) = self.summarize(id, plan) else { return false };
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
        let file = archive.map(|_| Archive::file(self.archived));
        self.archived += u64::from(archive.is_some());
        self.log.compaction_done(id, plan, &call, self.plain_estimate(), withheld, file);
        true
    }

    /// Asks the summarizers in turn, as often as the strategy does; the last answer.
    fn summarize(&mut self, id: &str, plan: &SummarizePlan<'_>) -> Option<SummaryCall> {
        let mut answer = None;
        for summarizer in &plan.spec.models {
            let (mut calls, mut shed_tokens, mut refusals) = (0, 0, 0);
            while calls < plan.spec.calls {
                let aside = Aside::new(self.session, self.strategy, self.model, plan).without(shed_tokens);
                let automatic = self.place_markers();
                let request = Request {
                    automatic,
                    params: self.params,
                    markers: &self.markers,
                    max_output_tokens: 0,
                    ..self.log.request(&self.context)
                };
                match aside.call(&mut self.provider, &self.context, &request, summarizer) {
                    Ok(call) => {
                        self.log.summarizer_call(&call);
                        answer = Some(call);
                        calls += 1;
                    }
                    Err(Rejection {
                        kind: RejectionKind::Overflow { input_tokens: Some(used), limit_tokens: Some(limit) },
                        ..
                    }) if plan.spec.drop_oldest_leaving.is_some() && refusals < MAX_REFUSALS => {
                        // The oldest messages are left out until what was too much is covered.
                        shed_tokens += used - limit;
                        refusals += 1;
                    }
                    Err(rejection) => {
                        self.log.compaction_failed(id, plan.tokens_before, rejection.message);
                        break;
                    }
                }
            }
            if answer.is_some() {
                break;
            }
        }
        answer
    }

    fn fold(&mut self, plan: &SummarizePlan<'_>, summary: Option<SummaryMessage>) -> u64 {
        let summary_at = match plan.spec.place {
            Place::Head => 0,
            Place::InPlace => plan.keep.first().map_or(0, |r| r.end),
            Place::Last => plan.fold_to,
        };
        let at = self.context.view().revealed;
        let accumulates = plan.spec.accumulates;
        let fold =
            Fold { fold_to: plan.fold_to, keep: plan.keep.clone(), at, summary, summary_at, accumulates };
        let withhold_kept = plan.spec.withhold_kept_thinking;
        let withheld = self.context.fold_all(fold.clone(), withhold_kept);
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
