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
}

impl Fold {
    fn live_from(&self) -> u32 {
        self.keep.first().map_or(self.fold_to, |r| r.start)
    }

    fn folds(&self, block: u32) -> bool {
        block < self.fold_to && !self.keep.iter().any(|r| r.contains(&block))
    }
}

impl Context<'_> {
    /// Replaces everything before `fold_to` by `summary`; gives the number of thinking blocks that are no
    /// longer replayed.
    pub fn fold(&mut self, fold_to: u32, summary: SummaryMessage, withhold_kept: bool) -> u64 {
        let at = self.view.revealed;
        self.fold_all(
            Fold { fold_to, keep: Vec::new(), at, summary: Some(summary), summary_at: 0 },
            withhold_kept,
        )
    }

    /// The same, of a fold that may keep blocks in front, and whose summary may stand behind them.
    pub fn fold_all(&mut self, fold: Fold, withhold_kept: bool) -> u64 {
        for block in self.view.live_from..fold.fold_to {
            if fold.folds(block) && !self.view.states[block as usize].has_left() {
                self.set_state(block, State::FOLDED);
            }
        }
        let fold_to = fold.fold_to;
        self.folds.push(fold);
        self.show_last_fold();
        let withheld = if withhold_kept { self.withhold(fold_to..self.view.revealed).0 } else { 0 };
        self.view.edited_at = self.view.revealed;
        self.recount();
        self.wire.note_change(Cause::PrefixCompaction);
        self.rebuild_head();
        withheld
    }

    fn show_last_fold(&mut self) {
        let last = self.folds.last();
        self.view.live_from = last.map_or(0, Fold::live_from);
        self.view.summary = last.and_then(|f| f.summary);
        self.summary_at = last.map_or(0, |f| f.summary_at);
    }

    /// Blocks leave the history, all for one reason. What a summary stands for stays in it, except that a
    /// clear (or a recorded compaction that is kept) takes the summary too, and going back to before a
    /// compaction undoes it.
    pub fn drop_blocks(&mut self, ranges: &[Range<u32>], reason: DropReason, cause: Cause) {
        let first = ranges.iter().map(|r| r.start).min().unwrap_or(self.view.revealed);
        let folds = self.folds.len();
        match reason {
            DropReason::Rewind => self.unfold_behind(first),
            DropReason::Clear | DropReason::Compaction if first <= self.view.live_from => self.folds.clear(),
            DropReason::Clear | DropReason::Compaction | DropReason::Unexplained => {}
        }
        let had_summary = self.folds.len() < folds;
        for range in ranges {
            self.mark_gone(range.start.max(self.view.live_from)..range.end.min(self.view.revealed));
        }
        self.show_last_fold();
        self.view.edited_at = self.view.revealed;
        self.recount();
        if had_summary {
            self.wire.note_change(cause);
            self.rebuild_head();
        } else {
            self.resend_from(first, cause);
        }
    }

    /// Takes back the compactions that were made after block `from` had come.
    fn unfold_behind(&mut self, from: u32) {
        let folded_to = self.folds.last().map_or(0, |f| f.fold_to);
        while self.folds.pop_if(|f| f.at > from).is_some() {}
        self.show_last_fold();
        for block in 0..folded_to {
            let is_folded = self.folds.last().is_some_and(|f| f.folds(block));
            if !is_folded {
                self.view.states[block as usize].0 &= !State::FOLDED.0;
            }
        }
    }

    fn mark_gone(&mut self, range: Range<u32>) {
        for block in range.clone() {
            self.set_state(block, State::GONE);
        }
        // An answer without blocks leaves with its neighbours.
        let steps = &self.view.session.steps;
        for step in &self.view.answered {
            let output = &steps[*step as usize].output;
            if output.is_empty()
                && (range.contains(&output.start) || (range.end == output.start && !range.is_empty()))
            {
                self.view.usage_totals[*step as usize] = 0;
            }
        }
    }

    /// Works the running totals out anew from what is live.
    pub(super) fn recount(&mut self) {
        let mut raw_tokens = self.prefix.tokens() + self.view.summary.map_or(0, |s| u64::from(s.tokens));
        let mut tool_results_utf16 = 0;
        for block in (self.view.live_from..self.view.revealed).filter(|b| self.view.is_live(*b)) {
            if !self.view.states[block as usize].has(State::WITHHELD) {
                raw_tokens += self.client_tokens(block);
            }
            if self.view.session.blocks.kind[block as usize] == BlockKind::ToolResult {
                tool_results_utf16 += self.view.result_utf16(block);
            }
        }
        self.view.raw_tokens = raw_tokens;
        self.view.tool_results_utf16 = tool_results_utf16;
        self.recount_answers();
        self.view.epoch += 1;
    }

    /// An answer is in the history while any block of it is; one that only lost its thinking still is.
    fn recount_answers(&mut self) {
        let steps = &self.view.session.steps;
        let mut answered = std::mem::take(&mut self.view.answered);
        answered.clear();
        // Steps in front of the live history, and those still to come, need no look.
        let first = steps.partition_point(|s| s.output.end < self.view.live_from);
        for (at, total) in self.view.usage_totals.iter().enumerate().skip(first) {
            let output = steps[at].output.clone();
            if output.start > self.view.revealed {
                break;
            }
            let is_there = if output.is_empty() {
                output.start > self.view.live_from
            } else {
                output.end <= self.view.revealed && output.into_iter().any(|block| self.view.is_live(block))
            };
            if *total > 0 && is_there {
                answered.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
        self.view.answered = answered;
    }
}
