//! Running sums of the client's estimate over its messages: what is asked again costs what is new.

use super::estimate::EstimateLaw;
use super::view::View;

/// Estimated sizes of the live messages, in order.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Epoch and edits they were worked out in; `None`: not yet.
    key: Option<(u32, u32)>,
    /// First block of each live message.
    starts: Vec<u32>,
    /// Thousandths of tokens before each of them, the summary included.
    before: Vec<u64>,
    /// Of all of them.
    total: u64,
    /// Blocks looked at.
    to: u32,
}

impl Sums {
    /// Takes in what is new; everything where the history was edited.
    pub fn refresh(&mut self, view: &View<'_>, law: &EstimateLaw) {
        if self.key != Some((view.epoch, view.edits)) {
            self.key = Some((view.epoch, view.edits));
            self.starts.clear();
            self.before.clear();
            self.total = view.summary_milli(law);
            self.to = view.live_from;
        } else if self.to < view.revealed
            && let (Some(start), Some(before)) = (self.starts.pop(), self.before.pop())
        {
            // The last message may have grown.
            self.to = start;
            self.total = before;
        }
        while self.to < view.revealed {
            let range = view.message_from(self.to, law.merged);
            self.to = range.end;
            if range.clone().any(|block| view.is_live(block)) {
                self.starts.push(range.start);
                self.before.push(self.total);
                self.total += view.message_milli(law, range);
            }
        }
    }

    /// First blocks of the messages that begin before block `end`.
    pub fn starts_before(&self, end: u32) -> &[u32] {
        &self.starts[..self.starts.partition_point(|s| *s < end)]
    }

    /// Thousandths of tokens before each message that begins before block `end`.
    pub fn milli_before_each(&self, end: u32) -> &[u64] {
        &self.before[..self.starts_before(end).len()]
    }

    /// Thousandths of tokens of the messages that begin before `block`, the summary included.
    pub fn milli_before(&self, block: u32) -> u64 {
        self.before.get(self.starts.partition_point(|s| *s < block)).copied().unwrap_or(self.total)
    }

    /// Messages that begin before `block`, the summary not counted.
    pub fn messages_before(&self, block: u32) -> u64 {
        self.starts.partition_point(|s| *s < block) as u64
    }
}
