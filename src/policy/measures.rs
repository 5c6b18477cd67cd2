//! Running sums over the results and blocks of a history.

use super::estimate::EstimateLaw;
use super::items::item_size;
use super::strategy::Unit;
use super::view::View;

/// Sums that cost what is new.
#[derive(Debug, Clone, Default)]
pub(super) struct Results {
    key: Option<(u32, u32)>,
    seen: usize,
    sum: u64,
    live_key: Option<u32>,
    live_to: u32,
    live: u64,
    /// Recorded tokens before each block, as far as it was asked.
    tokens_before: Vec<u64>,
}

impl Results {
    /// Sizes of all live results.
    pub(super) fn sum(&mut self, view: &View<'_>, law: Option<&EstimateLaw>, unit: Unit) -> u64 {
        if self.key != Some((view.epoch, view.edits)) {
            self.key = Some((view.epoch, view.edits));
            self.seen = view.results.partition_point(|b| *b < view.live_from);
            self.sum = 0;
        }
        for block in view.results[self.seen..].iter().filter(|b| view.is_live(**b)) {
            self.sum += item_size(view, law, *block, unit);
        }
        self.seen = view.results.len();
        self.sum
    }

    /// Live blocks.
    pub(super) fn live_blocks(&mut self, view: &View<'_>) -> u64 {
        if self.live_key != Some(view.epoch) {
            self.live_key = Some(view.epoch);
            self.live_to = view.live_from;
            self.live = 0;
        }
        self.live += (self.live_to..view.revealed).filter(|b| view.is_live(*b)).count() as u64;
        self.live_to = view.revealed;
        self.live
    }

    /// Recorded tokens of the blocks from `first` on.
    pub(super) fn tokens_from(&mut self, view: &View<'_>, first: u32) -> u64 {
        let mut sum = self.tokens_before.last().copied().unwrap_or(0);
        if self.tokens_before.is_empty() {
            self.tokens_before.push(0);
        }
        for tokens in &view.session.blocks.tokens[self.tokens_before.len() - 1..view.revealed as usize] {
            sum += u64::from(*tokens);
            self.tokens_before.push(sum);
        }
        sum - self.tokens_before[first as usize]
    }
}
