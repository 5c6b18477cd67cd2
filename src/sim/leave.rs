//! How blocks leave the history: folded into a summary, cleared, rewound, or simply missing from the
//! recording.

use std::ops::Range;

use super::context::Context;
use crate::cause::Cause;
use crate::policy::view::{State, SummaryMessage};
use crate::session::{BlockKind, DropReason};

/// A summary and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Blocks before this one are folded.
    pub fold_to: u32,
    /// But for these, ascending.
    pub keep: Vec<Range<u32>>,
    /// Blocks that were in the history when it was written: going back behind them undoes it.
    pub at: u32,
    /// `None`: nothing stands for them.
    pub summary: Option<SummaryMessage>,
    /// Block in front of which the summary is sent.
    pub summary_at: u32,
    /// The summaries before it stay in front of it.
    pub accumulates: bool,
    /// What it took out of the history, ascending; known once it has.
    pub folded: Vec<Range<u32>>,
}

impl Fold {
    fn live_from(&self) -> u32 {
        self.keep.first().map_or(self.fold_to, |r| r.start)
    }

    /// All blocks before its end but those that stay.
    fn gaps(&self) -> Vec<Range<u32>> {
        let ends = self.keep.iter().map(|r| r.start).chain([self.fold_to]);
        let starts = std::iter::once(0).chain(self.keep.iter().map(|r| r.end));
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }
}

impl Context<'_> {
    /// Replaces everything before `fold_to` by `summary`; gives the number of thinking blocks that are no
    /// longer replayed.
    pub fn fold(&mut self, fold_to: u32, summary: SummaryMessage, withhold_kept: bool) -> u64 {
        let at = self.view.revealed;
        let fold = Fold {
            fold_to,
            keep: Vec::new(),
            at,
            summary: Some(summary),
            summary_at: 0,
            accumulates: false,
            folded: Vec::new(),
        };
        self.fold_all(fold, withhold_kept)
    }

    /// The same, of a fold that may keep blocks in front, and whose summary may stand behind them.
    pub fn fold_all(&mut self, mut fold: Fold, withhold_kept: bool) -> u64 {
        let was_live_from = self.view.live_from;
        fold.folded = self.view.live.take(&fold.gaps());
        for range in &fold.folded {
            self.leave(range.clone(), State::FOLDED);
        }
        let fold_to = fold.fold_to;
        let first = fold.folded.first().map_or(fold_to, |r| r.start);
        self.folds.push(fold);
        self.show_last_fold();
        let withheld = if withhold_kept { self.withhold(fold_to..self.view.revealed).0 } else { 0 };
        self.view.edited_at = self.view.revealed;
        self.left_from(first, was_live_from);
        self.wire.note_change(Cause::PrefixCompaction);
        self.rebuild_head();
        withheld
    }

    /// Blocks that were in the history no longer are.
    fn leave(&mut self, range: Range<u32>, why: State) {
        self.view.work.add(range.len());
        for block in range {
            self.view.raw_tokens -= self.tokens_in_request(block);
            self.view.tool_results_utf16 -= self.utf16_of_result(block);
            self.set_state(block, why);
        }
    }

    /// Tokens of a block in the request as the client sends it.
    fn tokens_in_request(&self, block: u32) -> u64 {
        if self.view.states[block as usize].has(State::WITHHELD) { 0 } else { self.client_tokens(block) }
    }

    /// UTF-16 units of a result; 0 of anything else.
    fn utf16_of_result(&self, block: u32) -> u64 {
        let is_result = self.view.session.blocks.kind[block as usize] == BlockKind::ToolResult;
        if is_result { self.view.result_utf16(block) } else { 0 }
    }

    /// The lists of what is in the history no longer hold what left from block `first` on, nor answers before
    /// `first_answer` that are gone.
    fn left_from(&mut self, first: u32, first_answer: u32) {
        let view = &mut self.view;
        for list in [&mut view.results, &mut view.user_messages] {
            let behind = list.split_off(list.partition_point(|b| *b < first));
            view.work.add(behind.len());
            list.extend(behind.into_iter().filter(|b| !view.states[*b as usize].has_left()));
        }
        let steps = &self.view.session.steps;
        let from = first.min(first_answer);
        let mut answered = std::mem::take(&mut self.view.answered);
        let behind = answered.split_off(answered.partition_point(|s| steps[*s as usize].output.end < from));
        answered.extend(behind.into_iter().filter(|step| self.has_answer(*step)));
        self.view.answered = answered;
        self.view.changed.left.note(first);
    }

    fn show_last_fold(&mut self) {
        let before = self.view.summary;
        let last = self.folds.last();
        self.view.live_from = last.map_or(0, Fold::live_from);
        self.view.last_summary = last.and_then(|f| f.summary);
        self.summary_at = last.map_or(0, |f| f.summary_at);
        self.view.summary = self.summaries().into_iter().reduce(|sum, s| SummaryMessage {
            tokens: sum.tokens.saturating_add(s.tokens),
            utf16: sum.utf16.saturating_add(s.utf16),
            json_utf16: sum.json_utf16.saturating_add(s.json_utf16),
            wide_bytes: sum.wide_bytes.saturating_add(s.wide_bytes),
            hash: s.hash,
        });
        let tokens = |s: Option<SummaryMessage>| s.map_or(0, |s| u64::from(s.tokens));
        self.view.raw_tokens = self.view.raw_tokens + tokens(self.view.summary) - tokens(before);
    }

    /// The summaries that stand for what was folded, in order.
    pub(super) fn summaries(&self) -> Vec<SummaryMessage> {
        let mut summaries = Vec::new();
        for fold in self.folds.iter().rev() {
            summaries.extend(fold.summary);
            if !fold.accumulates {
                break;
            }
        }
        summaries.reverse();
        summaries
    }

    /// Blocks leave the history, all for one reason. What a summary stands for stays in it, except that a
    /// clear (or a recorded compaction that is kept) takes the summary too, and going back to before a
    /// compaction undoes it.
    pub fn drop_blocks(&mut self, ranges: &[Range<u32>], reason: DropReason, cause: Cause) {
        let first = ranges.iter().map(|r| r.start).min().unwrap_or(self.view.revealed);
        let folds = self.folds.len();
        let mut changed_from = first;
        match reason {
            DropReason::Rewind => changed_from = self.unfold_behind(first).map_or(first, |b| b.min(first)),
            DropReason::Clear | DropReason::Compaction if first <= self.view.live_from => self.folds.clear(),
            DropReason::Clear | DropReason::Compaction | DropReason::Unexplained => {}
        }
        let had_summary = self.folds.len() < folds;
        self.mark_gone(ranges);
        self.show_last_fold();
        self.view.edited_at = self.view.revealed;
        self.left_from(changed_from, first);
        if had_summary {
            self.wire.note_change(cause);
            self.rebuild_head();
        } else {
            self.resend_from(first, cause);
        }
    }

    /// Takes back the compactions that were made after block `from` had come; the first block that came back.
    fn unfold_behind(&mut self, from: u32) -> Option<u32> {
        let mut back: Vec<Range<u32>> = Vec::new();
        while let Some(fold) = self.folds.pop_if(|f| f.at > from) {
            for block in fold.folded.into_iter().flatten() {
                let state = &mut self.view.states[block as usize];
                state.0 &= !State::FOLDED.0;
                if state.has_left() {
                    continue;
                }
                self.view.raw_tokens += self.tokens_in_request(block);
                self.view.tool_results_utf16 += self.utf16_of_result(block);
                match back.last_mut() {
                    Some(run) if run.end == block => run.end += 1,
                    _ => back.push(block..block + 1),
                }
            }
        }
        self.show_last_fold();
        self.view.live.put_back(&back);
        for block in back.iter().cloned().flatten() {
            match self.view.session.blocks.kind[block as usize] {
                BlockKind::ToolResult => self.view.results.push(block),
                BlockKind::UserText | BlockKind::Image if self.begins_message(block) => {
                    self.view.user_messages.push(block);
                }
                _ => {}
            }
        }
        let first = back.iter().map(|r| r.start).min()?;
        self.view.results.sort_unstable();
        self.view.user_messages.sort_unstable();
        self.recount_answers();
        Some(first)
    }

    /// Blocks leave for good, whether they are in the history or a summary stands for them.
    fn mark_gone(&mut self, ranges: &[Range<u32>]) {
        let of_history = |r: &Range<u32>| r.start.max(self.view.live_from)..r.end.min(self.view.revealed);
        let mut ranges: Vec<Range<u32>> = ranges.iter().map(of_history).collect();
        ranges.sort_by_key(|r| r.start);
        for run in self.view.live.take(&ranges) {
            self.leave(run, State::GONE);
        }
        for range in ranges {
            self.forget_empty_answers(&range);
            for block in range {
                self.set_state(block, State::GONE);
            }
        }
    }

    /// An answer without blocks leaves with its neighbours.
    fn forget_empty_answers(&mut self, gone: &Range<u32>) {
        if gone.is_empty() {
            return;
        }
        let steps = &self.view.session.steps;
        let first = steps.partition_point(|s| s.output.start < gone.start);
        for (step, total) in steps.iter().zip(&mut self.view.usage_totals).skip(first) {
            if step.output.start > gone.end {
                break;
            }
            if step.output.is_empty() {
                *total = 0;
            }
        }
    }

    /// What [`View::raw_tokens`] and [`View::tool_results_utf16`] come to, worked out from every block.
    ///
    /// [`View::raw_tokens`]: crate::policy::view::View::raw_tokens
    /// [`View::tool_results_utf16`]: crate::policy::view::View::tool_results_utf16
    pub(super) fn totals(&self) -> (u64, u64) {
        let live = || (0..self.view.revealed).filter(|block| self.view.is_live(*block));
        let in_front = self.prefix.tokens() + self.view.summary.map_or(0, |s| u64::from(s.tokens));
        let raw_tokens = in_front + live().map(|block| self.tokens_in_request(block)).sum::<u64>();
        (raw_tokens, live().map(|block| self.utf16_of_result(block)).sum())
    }

    /// Works out anew which answers are in the history.
    pub(super) fn recount_answers(&mut self) {
        let steps = &self.view.session.steps;
        let first = steps.partition_point(|s| s.output.end < self.view.live_from);
        let known = steps.partition_point(|s| s.output.start <= self.view.revealed);
        let narrow = |at| u32::try_from(at).unwrap_or(u32::MAX);
        self.view.answered =
            (first.min(known)..known).map(narrow).filter(|step| self.has_answer(*step)).collect();
    }

    /// An answer is in the history while any block of it is; one that only lost its thinking still is.
    fn has_answer(&self, step: u32) -> bool {
        let view = &self.view;
        let output = view.session.steps[step as usize].output.clone();
        let is_there = if output.is_empty() {
            output.start > view.live_from
        } else {
            output.end <= view.revealed && output.into_iter().any(|block| view.is_live(block))
        };
        is_there && view.usage_totals[step as usize] > 0
    }
}
