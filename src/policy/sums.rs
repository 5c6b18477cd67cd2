//! Running sums of the client's estimate over its messages: what is asked again costs what is new.

use super::estimate::EstimateLaw;
use super::live::Seen;
use super::view::View;

/// Estimated sizes of the live messages, in order.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Changes that are taken in.
    seen: Seen,
    /// Thousandths of tokens of the summary in front.
    summary: u64,
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
    /// Takes in what is new, and everything from where the history was edited.
    pub fn refresh(&mut self, view: &View<'_>, law: &EstimateLaw) {
        let changed = self.seen.changed(&view.changed);
        // Unless it changed, only the last message may have grown.
        let first = changed.unwrap_or(self.to);
        if changed.is_some() || self.to < view.revealed {
            // The message that begins before may reach behind.
            self.go_back_to(self.starts.partition_point(|s| *s < first).saturating_sub(1));
        }
        if changed.is_some() {
            let summary = view.summary_milli(law);
            if summary != self.summary {
                self.go_back_to(0);
                self.summary = summary;
            }
        }
        if self.starts.is_empty() {
            self.to = view.live_from;
            self.total = self.summary;
        }
        for message in view.messages_from(self.to, law.merged) {
            self.to = message.end;
            self.starts.push(message.start);
            self.before.push(self.total);
            self.total += view.message_milli(law, message);
        }
        self.to = view.revealed;
    }

    /// Forgets all but the first `kept` messages.
    fn go_back_to(&mut self, kept: usize) {
        if let (Some(start), Some(before)) = (self.starts.get(kept), self.before.get(kept)) {
            self.to = *start;
            self.total = *before;
            self.starts.truncate(kept);
            self.before.truncate(kept);
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
