//! Running sums over the results and blocks of a history.

use super::estimate::EstimateLaw;
use super::items::item_size;
use super::live::Seen;
use super::strategy::Unit;
use super::view::View;

/// Sums that cost what is new.
#[derive(Debug, Clone, Default)]
pub(super) struct Results {
    /// Changes that are taken in.
    seen: Seen,
    /// Sizes of the live results up to each of them.
    sums: Vec<u64>,
    /// Recorded tokens before each block, as far as it was asked.
    tokens_before: Vec<u64>,
}

impl Results {
    /// Sizes of all live results.
    pub(super) fn sum(&mut self, view: &View<'_>, law: Option<&EstimateLaw>, unit: Unit) -> u64 {
        if let Some(first) = self.seen.changed(&view.changed) {
            self.sums.truncate(view.results.partition_point(|b| *b < first));
        }
        let mut sum = self.sums.last().copied().unwrap_or(0);
        for block in &view.results[self.sums.len()..] {
            sum += item_size(view, law, *block, unit);
            self.sums.push(sum);
        }
        sum
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
