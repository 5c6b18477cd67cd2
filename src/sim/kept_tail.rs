//! Thinking behind a summary that the provider itself wrote: when the turns that are kept may keep theirs.
//!
//! It stays valid (docs/sources.md C3) if the summary was written by a model that runs the prefix check, and was still valid
//! then; if the kept turns follow the summarized ones directly and are sent unchanged; if the first kept message has
//! another role than the last summarized one; and if tools and system prompt of the next request are those of the
//! compaction. Otherwise the check fails as behind a summary of the client's own.
//!
//! # Divergence from the real API
//!
//! * The conditions are published for compactions on demand; that they hold for what a client sends again behind a
//!   pause is assumed.
//! * Whether thinking was valid is known from the last request before the compaction.

use super::Recorder;
use super::run::Cell;
use super::wire::Wire;
use crate::policy::Policy;
use crate::policy::fold::SummaryInput;
use crate::policy::plan::SummarizePlan;
use crate::provider::model::Binding;
use crate::provider::{SentBlock, SentKind};
use crate::session::BlockKind;

/// Thinking that the next request may carry behind a summary.
#[derive(Debug)]
pub(super) struct KeptTail {
    /// Its ids, ascending.
    thinking: Vec<u32>,
    /// What must stand in front of it, and it itself.
    sent: Vec<SentBlock>,
}

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Thinking in what a plan keeps that can stay valid; ids, ascending.
    pub(super) fn thinking_kept_by(&self, plan: &SummarizePlan<'_>) -> Vec<u32> {
        let is_native = matches!(plan.spec.input, SummaryInput::Native { .. });
        if !is_native || self.model.binding == Binding::None || !self.changes_role(plan.fold_to) {
            return Vec::new();
        }
        let wire = self.context.wire();
        let known = &wire.blocks()[..wire.changed_from().min(wire.blocks().len())];
        let failing = self.provider.mismatched_thinking();
        let failing: Vec<u32> =
            failing.iter().filter_map(|at| known.get(*at as usize)).map(|block| block.link).collect();
        let kept = wire.session_blocks().filter(|(_, block)| *block >= plan.fold_to);
        let thinking = kept.filter(|(sent, _)| sent.kind == SentKind::Thinking).map(|(sent, _)| sent.link);
        let mut thinking: Vec<u32> = thinking.filter(|link| !failing.contains(link)).collect();
        thinking.sort_unstable();
        thinking
    }

    /// Whether the first message that stays is of another role than the last that is folded. Where that is an earlier
    /// summary, it is the provider's answer.
    fn changes_role(&self, fold_to: u32) -> bool {
        let view = self.context.view();
        let is_assistant = |block: u32| {
            let kind: BlockKind = view.session.blocks.kind[block as usize];
            kind.is_assistant()
        };
        let Some(first) = view.live.first_from(fold_to) else { return false };
        let last = view.live.last_before(fold_to);
        let last_is_assistant = last.map(is_assistant).or(view.summary.is_some().then_some(true));
        last_is_assistant.is_some_and(|last| last != is_assistant(first))
    }

    /// The summary is in its place: what the next request must begin with.
    pub(super) fn keep_tail(&mut self, thinking: Vec<u32>) {
        self.kept_tail = (!thinking.is_empty())
            .then(|| KeptTail { thinking, sent: self.context.wire().blocks().to_vec() });
    }

    /// Makes a call that sends what the next request would: thinking that may stay valid in that one is valid in this one
    /// too. What the call does not carry is bound as it was.
    pub(super) fn with_kept_tail<T>(&mut self, call: impl FnOnce(&mut Self) -> T) -> T {
        let wire: &Wire = self.context.wire();
        let Some(tail) = self.kept_tail.as_ref().filter(|tail| wire.blocks().starts_with(&tail.sent)) else {
            return call(self);
        };
        let forgotten = self.provider.forget_bindings(|id| tail.thinking.binary_search(&id).is_ok());
        let answer = call(self);
        self.provider.recall_bindings(forgotten);
        answer
    }

    /// Right before a request: thinking that is kept as it must be is bound to what stands in front of it now.
    pub(super) fn rebind_kept_tail(&mut self) {
        let Some(tail) = self.kept_tail.take() else { return };
        let wire: &Wire = self.context.wire();
        if wire.blocks().starts_with(&tail.sent) {
            self.provider.forget_bindings(|id| tail.thinking.binary_search(&id).is_ok());
        }
    }
}
