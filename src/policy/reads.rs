//! What a summarizer is given of what is folded.

use std::ops::Range;

use super::estimate::EstimateLaw;
use super::plan::SummarizePlan;
use super::view::{State, View};
use crate::session::BlockKind;

/// Part of a history, for a summarizer to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reads {
    /// The old summary is part of it.
    pub summary: bool,
    /// First block.
    pub from: u32,
    /// Behind the last block.
    pub to: u32,
    /// Client messages among these, the old summary included where it is read.
    pub messages: u64,
    /// Blocks that an earlier summary stands for, read once more in front of the others.
    pub again: Range<u32>,
    /// The first message is cut at its beginning.
    pub cut: Option<Cut>,
    /// Results that are left out, ascending.
    pub without: Vec<u32>,
}

/// The newest part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Behind its last block.
    pub end: u32,
    /// So much of it is read, …
    pub part: u64,
    /// … of so much, in the client's estimate.
    pub whole: u64,
}

impl Reads {
    /// Its blocks, in order.
    pub fn blocks<'v>(&'v self, view: &'v View<'_>) -> impl Iterator<Item = u32> + 'v {
        let is_folded = |b: &u32| {
            let state = view.states[*b as usize];
            state.has(State::FOLDED) && !state.has(State::GONE)
        };
        let again = self.again.clone().filter(is_folded);
        let own = view.live_in(self.from..self.to);
        again.chain(own).filter(|b| self.without.binary_search(b).is_err())
    }

    /// Keeps the newest messages that come to so many estimated tokens; of the one that crosses, the end.
    pub fn keep_newest(&mut self, view: &View<'_>, law: &EstimateLaw, tokens: u64) {
        let mut left = tokens;
        let mut from = self.to;
        let mut messages = 0;
        while let Some(last) = view.live.last_before(from).filter(|b| *b >= self.from) {
            let message = view.message_to(last, law.merged);
            let size = view.message_tokens(law, message.clone());
            if size > left {
                (self.summary, self.again) = (false, 0..0);
                if left > 0 {
                    self.cut = Some(Cut { end: message.end, part: left, whole: size });
                    (from, messages) = (message.start, messages + 1);
                }
                (self.from, self.messages) = (from, messages);
                return;
            }
            left -= size;
            (from, messages) = (message.start, messages + 1);
        }
        let summary = law.total(view.summary_milli(law));
        self.summary &= summary <= left;
        self.messages = messages + u64::from(self.summary);
    }

    /// Leaves out what stands before the first user message, the old summary counting as one.
    pub fn start_at_user(&mut self, view: &View<'_>) {
        if self.summary {
            return;
        }
        self.again = 0..0;
        let kinds = &view.session.blocks.kind;
        let is_user = |b: &u32| matches!(kinds[*b as usize], BlockKind::UserText | BlockKind::Image);
        let first = view.live_in(self.from..self.to).find(is_user).unwrap_or(self.to);
        self.cut = self.cut.filter(|cut| first < cut.end);
        self.from = first;
    }

    /// Leaves out so many hundredths of the results, at least one of them: those in the middle first.
    pub fn leave_out_results(&mut self, view: &View<'_>, percent: u64) {
        let kinds = &view.session.blocks.kind;
        let results: Vec<u32> =
            self.blocks(view).filter(|b| kinds[*b as usize] == BlockKind::ToolResult).collect();
        let count = (results.len() as u64 * percent.min(100) / 100).max(u64::from(percent > 0));
        let (left, right) = results.split_at(results.len() / 2);
        // To the left of the middle and to the right in turn, as long as there are any on either side.
        let pairs = (0..right.len()).flat_map(|i| [left.iter().rev().nth(i), right.get(i)]);
        let left_out = pairs.flatten().take(usize::try_from(count).unwrap_or(usize::MAX)).copied();
        self.without.extend(left_out);
        self.without.sort_unstable();
    }

    /// What stands in front of a block, the old summary included.
    pub fn before(&self, block: u32) -> Reads {
        Reads { to: self.to.min(block), ..self.clone() }
    }

    /// What stands behind it.
    pub fn behind(&self, block: u32) -> Reads {
        let from = self.from.max(block);
        Reads {
            summary: false,
            from,
            again: 0..0,
            cut: self.cut.filter(|_| from == self.from),
            ..self.clone()
        }
    }
}

/// Where the folded messages do not fit a window, the oldest are left out until they do, or until so many
/// are left; a result without its call is left out too.
pub fn summarizer_reads(
    view: &View<'_>,
    law: Option<&EstimateLaw>,
    plan: &SummarizePlan<'_>,
    window: u64,
) -> Reads {
    let mut reads = plan.reads.clone();
    let (Some(leave), Some(law)) = (plan.spec.drop_oldest_leaving, law) else { return reads };
    let mut tokens = plan.folded_estimate;
    while tokens >= window && reads.messages > leave {
        if std::mem::take(&mut reads.summary) {
            tokens = tokens.saturating_sub(law.total(view.summary_milli(law)));
            reads.messages -= 1;
            continue;
        }
        let Some(first) = view.live.first_from(reads.from).filter(|b| *b < plan.fold_to) else { break };
        let message = view.message_from(first, law.merged);
        reads.from = message.end;
        tokens = tokens.saturating_sub(view.message_tokens(law, message));
        reads.messages -= 1;
    }
    let kinds = &view.session.blocks.kind;
    if reads.from > view.live_from {
        while reads.from < plan.fold_to && kinds[reads.from as usize] == BlockKind::ToolResult {
            let message = view.message_from(reads.from, law.merged);
            reads.from = message.end;
            reads.messages = reads.messages.saturating_sub(1);
        }
    }
    reads
}
