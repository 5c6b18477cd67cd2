//! Prompts that shrink unmarked.
//!
//! A total that leaves much less than the new blocks need means that something left the prompt (thinking
//! cleared after a pause, context not restored on resume). Oldest first, thinking, then injected text,
//! then whole tool rounds are dropped with [`DropReason::Unexplained`] until the new blocks fit.

use std::ops::Range;

use crate::session::{BlockKind, DropReason, Event, EventKind};

use super::calibrate::{Place, Walk, signed};
use super::measure::clamp;

/// New blocks may be this much smaller than estimated without a shrink being suspected.
const SHRINK_TOLERANCE_TOKENS: u64 = 200;

/// Classes of content that can leave a prompt without a trace in the recording, likeliest first.
#[derive(Clone, Copy)]
enum Class {
    Thinking,
    Injected,
    Round,
}

/// Whether new blocks of this estimate cannot be all that happened.
pub(super) fn too_small(grown: i64, estimate: u64, blocks: usize) -> bool {
    let Ok(grown) = u64::try_from(grown) else { return true };
    grown < blocks as u64 || (grown * 4 < estimate && grown + SHRINK_TOLERANCE_TOKENS < estimate)
}

impl Walk<'_, '_> {
    /// Drops old content until the new blocks have room; gives the room. Thinking and injected text go
    /// as far as that takes; rounds only until the blocks are no longer much too small.
    pub(super) fn shrink(&mut self, k: usize, grown: i64, estimate: u64, blocks: usize) -> i64 {
        let recorded = |walk: &Walk| walk.prompt + walk.offset;
        let before = recorded(self);
        let room = |walk: &Walk| grown + before - recorded(walk);
        let wanted = signed(estimate);
        for class in [Class::Thinking, Class::Injected, Class::Round] {
            let enough = |room| match class {
                Class::Round => !too_small(room, estimate, blocks),
                Class::Thinking | Class::Injected => room >= wanted,
            };
            while !enough(room(self))
                && let Some((range, tokens)) = self.oldest(class)
                && room(self) + tokens <= wanted
            {
                self.drop_unexplained(k, range);
            }
        }
        // Nothing more fits exactly: more than needed goes, and the new blocks grow instead.
        for class in [Class::Thinking, Class::Injected, Class::Round] {
            while room(self) < blocks.try_into().unwrap_or(i64::MAX)
                && let Some((range, _)) = self.oldest(class)
            {
                self.drop_unexplained(k, range);
            }
        }
        room(self)
    }

    /// Oldest content of a class that is in the prompt: its blocks and their tokens.
    fn oldest(&mut self, class: Class) -> Option<(Range<u32>, i64)> {
        let queue = match class {
            Class::Thinking => &mut self.thinking,
            Class::Injected => &mut self.injected,
            Class::Round => return self.oldest_round(),
        };
        while let Some(&i) = queue.front() {
            if self.place[i as usize] == Place::Sent && !self.undone.is_folded(self.draft, i) {
                return Some((i..i + 1, self.held_tokens(i)));
            }
            queue.pop_front();
        }
        None
    }

    /// A response and the results of its calls, all of it sent and sized, and what is recorded of them.
    fn oldest_round(&mut self) -> Option<(Range<u32>, i64)> {
        while self.first_round + 1 < self.unsized_from {
            let next = &self.draft.steps[self.first_round + 1].input;
            let results = next
                .clone()
                .take_while(|i| self.draft.blocks.kind[*i as usize] == BlockKind::ToolResult)
                .count();
            let blocks = self.draft.steps[self.first_round].output.start..next.start + clamp(results as u64);
            let sent = blocks.clone().filter(|i| self.place[*i as usize] == Place::Sent);
            let tokens: i64 = sent.map(|i| self.held_tokens(i)).sum();
            if tokens > 0 {
                return Some((blocks, tokens));
            }
            self.first_round += 1;
        }
        None
    }

    fn drop_unexplained(&mut self, k: usize, blocks: Range<u32>) {
        blocks.clone().for_each(|i| self.remove(i));
        let before_step = clamp(k as u64);
        if let Some(Event { before_step: step, kind: EventKind::BlocksDropped { to, .. } }) =
            self.drops.last_mut()
            && (*step, *to) == (before_step, blocks.start)
        {
            *to = blocks.end;
            return;
        }
        let kind =
            EventKind::BlocksDropped { from: blocks.start, to: blocks.end, reason: DropReason::Unexplained };
        self.drops.push(Event { before_step, kind });
    }
}
