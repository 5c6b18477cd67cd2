//! Where the recorded prompt is another than the replayed one.
//!
//! A compaction that is undone here took everything before it out of the recorded prompt, a clearing took
//! results. Blocks of both kinds stay in the replayed prompt; when they leave it later, the recorded prompt
//! loses only what it still held of them.

use crate::session::{BlockKind, Flags};
use crate::tokens::apportion;

use super::build::Draft;
use super::calibrate::{Place, Walk};
use super::measure::clamp;

/// What was undone so far.
#[derive(Debug, Default)]
pub(super) struct Undone {
    /// Steps behind the compactions that the conversation went through.
    compactions: Vec<usize>,
    /// The last one, until a total says what it left.
    pub just_compacted: Option<usize>,
    /// Since the last total there was one, or a rewind over one: by how much the prompts differ is not known.
    is_offset_unknown: bool,
    /// Tokens that clearings took of each block.
    cleared_tokens: Vec<u32>,
    /// Results that were cleared since the last total: taken as a whole until one says what is left of them.
    just_cleared: Vec<u32>,
}

impl Undone {
    pub fn new(blocks: usize) -> Undone {
        Undone { cleared_tokens: vec![0; blocks], ..Undone::default() }
    }

    /// Nothing is left of what was undone.
    pub fn forget(&mut self) {
        self.compactions.clear();
        self.just_compacted = None;
        self.is_offset_unknown = false;
        self.just_cleared.clear();
    }

    /// Whether the last compaction took block `i`: all that is older than the step behind it, and what was
    /// pending and is in that step's input.
    pub fn is_folded(&self, draft: &Draft, i: u32) -> bool {
        self.compactions.last().is_some_and(|step| {
            let input = &draft.steps[*step].input;
            i < input.start || (i < input.end && draft.blocks.flags[i as usize].has(Flags::FOLDED))
        })
    }
}

impl Walk<'_, '_> {
    /// Tokens of a block in the replayed prompt that the recorded prompt holds too.
    pub(super) fn held_tokens(&self, i: u32) -> i64 {
        if self.undone.is_folded(self.draft, i) {
            return 0;
        }
        self.tokens(i) - i64::from(self.undone.cleared_tokens[i as usize])
    }

    /// Blocks of the recorded prompt at step `k` as far as they are visible: also what a compaction injected,
    /// but not what it or a clearing took.
    pub(super) fn held(&self, k: usize) -> Vec<u32> {
        let is_held = |i: &u32| {
            let is_there = matches!(self.place[*i as usize], Place::Sent | Place::Kept);
            let was_cleared = self.undone.cleared_tokens[*i as usize] > 0;
            is_there && !was_cleared && !self.undone.is_folded(self.draft, *i)
        };
        (0..self.draft.steps[k].input.end).filter(is_held).collect()
    }

    /// The first reported total is smaller than what is visible: no prefix, smaller blocks.
    pub(super) fn rescale(&mut self, blocks: &[u32], total: i64) {
        let weights: Vec<u64> = blocks.iter().map(|i| self.weight[*i as usize]).collect();
        let shares = apportion(u64::try_from(total).unwrap_or(0), &weights);
        for (&i, tokens) in blocks.iter().zip(shares) {
            let before = self.tokens(i);
            self.draft.blocks.tokens[i as usize] = clamp(tokens);
            if self.place[i as usize] == Place::Sent {
                self.prompt += self.tokens(i) - before;
            }
        }
    }

    /// Undoes a compaction before step `k`.
    pub(super) fn undo_compaction(&mut self, k: usize) {
        self.undone.compactions.push(k);
        self.undone.just_compacted = Some(k);
        self.undone.is_offset_unknown = true;
    }

    /// Notes a rewind to block `from`. One to before a compaction brings back what that took, and its size is
    /// not known; one to the compaction itself may or may not.
    pub(super) fn rewind_compactions(&mut self, from: u32) {
        while let Some(&step) = self.undone.compactions.last() {
            let input = self.draft.steps[step].input.clone();
            let is_result = |i: u32| self.draft.blocks.kind[i as usize] == BlockKind::ToolResult;
            if from > input.end || !(input.start..from).all(is_result) {
                return;
            }
            self.is_incomparable = true;
            if from >= input.start {
                return;
            }
            self.undone.compactions.pop();
            self.undone.just_compacted = None;
            self.undone.is_offset_unknown = true;
        }
    }

    /// In the `keep` view the prompt is prefix, what the last compaction injected and what came since: at the
    /// first total behind it, sizes the injected blocks so that all of it is met, `tokens` without the prefix.
    pub(super) fn size_compaction(&mut self, k: usize, tokens: i64) {
        let Some(first) = self.undone.just_compacted.take() else { return };
        let (mut injected, mut kept) = (Vec::new(), 0);
        for i in self.draft.steps[first].input.start..self.draft.steps[k].input.end {
            match self.place[i as usize] {
                Place::Kept => injected.push(i),
                Place::Sent => kept += self.held_tokens(i),
                Place::New | Place::Gone => {}
            }
        }
        let rest = u64::try_from(tokens - kept).unwrap_or(0);
        if !self.scale || rest < injected.len() as u64 {
            return;
        }
        let weights: Vec<u64> = injected.iter().map(|i| self.weight[*i as usize]).collect();
        for (i, tokens) in injected.into_iter().zip(apportion(rest, &weights)) {
            self.draft.blocks.tokens[i as usize] = clamp(tokens);
        }
    }

    /// Undoes a clearing of results.
    pub(super) fn undo_clearing(&mut self, results: &[u32]) {
        for &i in results {
            let held = self.held_tokens(i);
            if self.place[i as usize] == Place::Sent && held > 0 {
                self.offset -= held;
                self.undone.cleared_tokens[i as usize] = self.draft.blocks.tokens[i as usize];
                self.undone.just_cleared.push(i);
            }
        }
    }

    /// Shares among the results that were cleared last the tokens that the recorded prompt still holds of
    /// them; nothing where that is not known, as behind a compaction.
    pub(super) fn size_cleared(&mut self, left: Option<i64>) {
        let is_offset_unknown = std::mem::take(&mut self.undone.is_offset_unknown);
        let left = left.filter(|_| !is_offset_unknown);
        let mut cleared = std::mem::take(&mut self.undone.just_cleared);
        cleared.retain(|i| self.place[*i as usize] == Place::Sent && !self.undone.is_folded(self.draft, *i));
        let weights: Vec<u64> =
            cleared.iter().map(|i| u64::from(self.draft.blocks.tokens[*i as usize])).collect();
        let left = left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0);
        for (i, tokens) in cleared.into_iter().zip(apportion(left.min(weights.iter().sum()), &weights)) {
            self.undone.cleared_tokens[i as usize] -= clamp(tokens);
        }
    }
}
