//! Edits of single items that are neither stubs nor folds: stored content that changes, items that are left
//! out, thinking that is no longer replayed.

use std::ops::Range;

use super::context::{BrokenPlan, Context, Stub};
use crate::cause::Cause;
use crate::policy::fold::Keep;
use crate::policy::plan::{ReplacePlan, SummarizePlan};
use crate::policy::summarize::{first_unanswered_user, round_is_open};
use crate::policy::view::{State, Stored};
use crate::session::{BlockKind, DropReason};

impl Context<'_> {
    /// Changes the stored content of items; gives the number of thinking blocks that are no longer replayed.
    ///
    /// # Errors
    /// An item that is not in the history, or neither a result nor a call.
    pub fn apply_replace(&mut self, plan: &ReplacePlan) -> Result<u64, BrokenPlan> {
        let fits = |s: &Stored| {
            s.block < self.view.revealed
                && self.view.is_live(s.block)
                && matches!(
                    self.view.session.blocks.kind[s.block as usize],
                    BlockKind::ToolResult | BlockKind::ToolUse
                )
        };
        if !plan.stored.is_sorted_by(|a, b| a.block < b.block) || !plan.stored.iter().all(fits) {
            return Err(BrokenPlan("only results and calls that are in the history can be replaced"));
        }
        Ok(self.replace(&plan.stored, plan.withhold.as_ref()))
    }

    pub(super) fn replace(&mut self, stored: &[Stored], withhold: Option<&Range<u32>>) -> u64 {
        for new in stored {
            let i = new.block as usize;
            let before = self.client_tokens(new.block);
            let text_before = self.view.text_utf16(new.block);
            if self.view.session.blocks.kind[i] == BlockKind::ToolResult {
                self.view.tool_results_utf16 =
                    self.view.tool_results_utf16 + u64::from(new.utf16) - text_before;
            }
            match self.view.stored.binary_search_by_key(&new.block, |s| s.block) {
                Ok(at) => self.view.stored[at] = *new,
                Err(at) => self.view.stored.insert(at, *new),
            }
            self.set_state(new.block, State::REPLACED);
            self.answers_edited |= self.view.session.blocks.kind[i] == BlockKind::ToolUse;
            self.view.raw_tokens = self.view.raw_tokens + self.client_tokens(new.block) - before;
        }
        let first_stored = stored.iter().map(|s| s.block).min().unwrap_or(self.view.revealed);
        self.view.changed.edited.note(first_stored);
        self.view.edited_at = self.view.revealed;
        let withheld = withhold.cloned().map_or(0, |range| self.withhold(range).0);
        let first = withhold.map_or(first_stored, |range| range.start.min(first_stored));
        self.resend_from(first, Cause::PrefixRule);
        withheld
    }

    /// Cuts a result that is revealed but not sent.
    ///
    /// # Errors
    /// The block is no result that just came back.
    pub fn apply_truncation(&mut self, stored: Stored) -> Result<Stored, BrokenPlan> {
        let i = stored.block as usize;
        let state = self.view.states.get(i).copied().ok_or(BrokenPlan("the block is not in the history"))?;
        let is_result = self.view.session.blocks.kind[i] == BlockKind::ToolResult;
        if !is_result || state != State::default() || self.wire.holds(stored.block) {
            return Err(BrokenPlan("only a tool result that just came back can be cut"));
        }
        self.restore_stored(stored);
        Ok(stored)
    }

    /// Results with their calls, as ranges of blocks in order.
    ///
    /// # Errors
    /// A block that is no result in the history.
    pub fn pairs_of(&self, results: &[u32]) -> Result<Vec<Range<u32>>, BrokenPlan> {
        let mut ranges = Vec::with_capacity(2 * results.len());
        for result in results {
            let is_result =
                self.view.session.blocks.kind.get(*result as usize) == Some(&BlockKind::ToolResult);
            if !is_result || *result >= self.view.revealed || !self.view.is_live(*result) {
                return Err(BrokenPlan("only results that are in the history leave with their calls"));
            }
            ranges.extend(self.call_of(*result).map(|call| call..call + 1));
            ranges.push(*result..*result + 1);
        }
        ranges.sort_by_key(|r| r.start);
        Ok(ranges)
    }

    /// Texts take the place of results, and their calls leave.
    ///
    /// # Errors
    /// A block that is no result in the history, or has a text in its place already.
    pub fn apply_texts(&mut self, stored: &[Stored]) -> Result<(), BrokenPlan> {
        let results: Vec<u32> = stored.iter().map(|s| s.block).collect();
        let is_whole = |s: &Stored| s.is_text && !self.view.states[s.block as usize].has(State::REPLACED);
        let mut calls = self.pairs_of(&results)?;
        if !stored.iter().all(is_whole) {
            return Err(BrokenPlan("a text stands for a whole result and its call"));
        }
        calls.retain(|range| !results.contains(&range.start));
        self.replace(stored, None);
        self.view.has_texts_for_pairs = true;
        self.drop_blocks(&calls, DropReason::Unexplained, Cause::PrefixRule);
        Ok(())
    }

    /// Stops replaying these thinking blocks.
    ///
    /// # Errors
    /// A block that is no thinking in the history.
    pub fn apply_strip(&mut self, blocks: &[u32]) -> Result<u64, BrokenPlan> {
        let kinds = &self.view.session.blocks.kind;
        let fits = |b: &u32| *b < self.view.revealed && kinds[*b as usize] == BlockKind::Thinking;
        if !blocks.is_sorted_by(|a, b| a < b) || !blocks.iter().all(fits) {
            return Err(BrokenPlan("only thinking that is in the history can be stripped"));
        }
        let withheld = blocks.iter().map(|b| self.withhold(*b..*b + 1).0).sum();
        if let Some(first) = blocks.first() {
            self.resend_from(*first, Cause::PrefixRule);
        }
        Ok(withheld)
    }

    /// First block of the wire that an edit touches.
    pub(super) fn first_touched(&self, elided: &[Stub], withhold: Option<&Range<u32>>) -> u32 {
        let blocks = elided.iter().map(|s| {
            let call = if s.hidden { self.call_of(s.block) } else { None };
            call.unwrap_or(s.block)
        });
        blocks.chain(withhold.map(|r| r.start)).min().unwrap_or(self.view.revealed)
    }

    /// What else a stub does than stand for a result.
    pub(super) fn note_stub(&mut self, stub: &Stub) {
        if stub.hidden {
            self.hide_with_call(stub.block);
        }
        self.answers_edited |= self.view.session.blocks.kind[stub.block as usize].is_assistant();
    }

    /// The call that a result answers.
    fn call_of(&self, result: u32) -> Option<u32> {
        let blocks = &self.view.session.blocks;
        let call = blocks.call[result as usize];
        (0..result)
            .rev()
            .find(|b| blocks.kind[*b as usize] == BlockKind::ToolUse && blocks.call[*b as usize] == call)
    }

    /// A result and its call are no longer sent.
    pub(super) fn hide_with_call(&mut self, result: u32) {
        self.set_state(result, State::HIDDEN);
        if let Some(call) = self.call_of(result) {
            if self.view.is_live(call) {
                self.view.raw_tokens -= self.client_tokens(call);
            }
            self.set_state(call, State::HIDDEN);
        }
    }

    /// The call of a hidden result is sent again.
    pub(super) fn show_call_of(&mut self, result: u32) -> Option<u32> {
        let call = self.call_of(result)?;
        self.view.states[call as usize].0 &= !State::HIDDEN.0;
        if self.view.is_live(call) {
            self.view.raw_tokens += self.client_tokens(call);
        }
        Some(call)
    }

    /// Whether a compaction may be carried out as planned.
    ///
    /// # Errors
    /// It would cut a message or an open tool round in two, or drop a user message that the rule keeps.
    pub fn check_fold(&self, plan: &SummarizePlan<'_>) -> Result<(), BrokenPlan> {
        let view = &self.view;
        let folds_nothing = plan.fold_to == view.live_from && view.summary.is_none();
        if plan.fold_to < view.live_from || folds_nothing || plan.fold_to > view.revealed {
            return Err(BrokenPlan("a compaction must fold something that is in the history"));
        }
        if plan.spec.is_on_demand() && view.live.last_before(plan.fold_to).is_none() {
            return Err(BrokenPlan("a compaction on demand must summarize more than an earlier summary"));
        }
        let blocks = &view.session.blocks;
        if let Some(kept) = view.live.first_from(plan.fold_to) {
            let message = blocks.message[kept as usize];
            let folds_part = view.live.last_before(plan.fold_to);
            if folds_part.is_some_and(|b| blocks.message[b as usize] == message) {
                return Err(BrokenPlan("a compaction must not cut a message in two"));
            }
            if blocks.kind[kept as usize] == BlockKind::ToolResult && !view.is_text_for_pair(kept) {
                return Err(BrokenPlan("a compaction must not part a tool call from its result"));
            }
        }
        let open_from = view.answered.last().map(|s| view.session.steps[*s as usize].output.start);
        if round_is_open(view) && open_from.is_some_and(|from| plan.fold_to > from) {
            return Err(BrokenPlan("a compaction must not cut through an open tool round"));
        }
        let counts = |b: &u32, kind: BlockKind| {
            blocks.kind[*b as usize] == kind && view.is_live(*b) && !view.is_text_for_pair(*b)
        };
        let count = |kind: BlockKind| plan.keep.iter().cloned().flatten().filter(|b| counts(b, kind)).count();
        let kept_in_order = plan.keep.is_sorted_by(|a, b| a.end <= b.start)
            && plan.keep.iter().all(|r| r.start >= view.live_from && r.end <= plan.fold_to);
        if !kept_in_order || count(BlockKind::ToolUse) != count(BlockKind::ToolResult) {
            return Err(BrokenPlan("what stays in front of a compaction must be whole rounds, in order"));
        }
        if plan.spec.keep == Keep::UnansweredUser && plan.fold_to > first_unanswered_user(view) {
            return Err(BrokenPlan("the rule keeps the last user message, the plan does not"));
        }
        Ok(())
    }
}
