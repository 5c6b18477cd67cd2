//! Thinking binding: what each thinking block was made behind, and whether that still stands before it.
//!
//! Each block records the system prompt, the set of tools, the non-thinking content before it, and the
//! thinking block before it. It is valid iff the first three are the same and either no accepted thinking
//! precedes it or the last accepted one is the recorded one (docs/sources.md B3, preserved-thinking page
//! 2026-10-08; docs/decisions.md 7). Accepted are all blocks but those dropped by this very check.
//!
//! A response is bound to the request it answers, as evaluated. Its own content before a later thinking
//! block of it is learned when the client first sends it back. Thinking that no answer announced is bound
//! where it first appears.
//!
//! # Divergence from the real API
//!
//! * Content earlier in the same assistant message is part of the prefix; tool order is not ("set of
//!   tools"); blocks dropped because the model cannot read them count as predecessors. The pages leave
//!   all three open.
//! * Organisation and end-user checks are not modelled: one organisation, one user.
//! * A signature is known to be altered only by the hash of its block; redacted thinking is thinking.

use super::cache::mix;
use super::model::{Binding, ModelSpec, Parts};
use super::{Account, ChangedPart, NO_LINK, Params, PrefixMismatch, SentBlock, SentKind};

/// Chain of the messages before the first one.
pub(crate) const BOUND_START: u64 = 0x9e37_79b9_7f4a_7c15;

/// No message of the prefix is known to have changed.
const NO_MESSAGE: u32 = u32::MAX;

/// What a request does with thinking that fails the prefix check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behaviour {
    /// The check does not run.
    #[default]
    Skip,
    /// The request is refused.
    Reject,
    /// The block is dropped.
    Drop,
    /// The block is let through and billed.
    Allow,
}

impl Behaviour {
    /// Of a request (docs/sources.md B1, B5): setting either value opts an older account in.
    pub(crate) fn of(model: &ModelSpec, account: Account, params: &Params) -> Behaviour {
        match (model.binding, params.prefix_mismatch) {
            (Binding::None, _) => Behaviour::Skip,
            (Binding::Removes, _) => Behaviour::Drop,
            (_, Some(PrefixMismatch::Error)) => Behaviour::Reject,
            (_, Some(PrefixMismatch::DropBlock)) => Behaviour::Drop,
            (Binding::Always, None) => Behaviour::Reject,
            (Binding::ByAccount, None) if account == Account::Enforced => Behaviour::Reject,
            (Binding::ByAccount, None) => Behaviour::Allow,
        }
    }
}

/// System prompt and tools, as the check compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Prefix {
    pub(crate) tools: u64,
    pub(crate) system: u64,
}

impl Prefix {
    /// Of the blocks in front of the messages. Tools are summed, so their order does not matter.
    pub(crate) fn of(blocks: &[SentBlock]) -> Prefix {
        let mut prefix = Prefix::default();
        for block in blocks.iter().filter(|b| !b.deferred) {
            match block.kind {
                SentKind::Tool => prefix.tools = prefix.tools.wrapping_add(mix(BOUND_START, block.hash, 1)),
                _ => prefix.system = mix(prefix.system, block.hash, 2),
            }
        }
        prefix
    }
}

/// Where a block stands, or stood when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) prefix: Prefix,
    /// Chain of the non-thinking content of messages before it.
    pub(crate) messages: u64,
    /// The last accepted thinking block before it, or [`NO_LINK`].
    pub(crate) predecessor: u32,
}

/// What is known of one thinking block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    /// Where it was made.
    pub(crate) place: Place,
    /// Index of its model among those this conversation ran on.
    pub(crate) producer: u32,
    /// Hash of its content, from its first appearance on.
    pub(crate) content: Option<u64>,
    /// `false` while `place.messages` is the end of the request it answers, and what the response itself
    /// holds before it is still to be learned.
    pub(crate) settled: bool,
    /// First message known to differ from what it was made behind.
    changed_message: u32,
    /// Place among all announced thinking, from 1; 0 if no answer announced it.
    announced: u32,
}

impl Bound {
    pub(crate) fn new(place: Place, producer: u32) -> Bound {
        Bound { place, producer, content: None, settled: false, changed_message: NO_MESSAGE, announced: 0 }
    }

    /// Of thinking that no answer announced: bound where it stands.
    pub(crate) fn as_seen(place: Place, producer: u32, content: u64) -> Bound {
        Bound {
            place,
            producer,
            content: Some(content),
            settled: true,
            changed_message: NO_MESSAGE,
            announced: 0,
        }
    }

    /// What differs between where it was made and `here`; `None` if it is valid. `changed_message` is the
    /// first message this request changed, `parts` what the vendor compares.
    pub(crate) fn check(&mut self, here: &Place, changed_message: u32, parts: Parts) -> Option<ChangedPart> {
        let changed = if parts.system && self.place.prefix.system != here.prefix.system {
            Some(ChangedPart::System)
        } else if parts.tools && self.place.prefix.tools != here.prefix.tools {
            Some(ChangedPart::Tools)
        } else if self.place.messages != here.messages {
            self.changed_message = self.changed_message.min(changed_message);
            return Some(ChangedPart::Messages);
        } else if parts.order && here.predecessor != NO_LINK && here.predecessor != self.place.predecessor {
            Some(ChangedPart::Thinking)
        } else {
            None
        };
        self.changed_message = NO_MESSAGE;
        changed
    }

    /// The sentence that names the part that changed.
    pub(crate) fn explain(&self, changed: ChangedPart) -> String {
        match changed {
            ChangedPart::System => "The system prompt differs.".into(),
            ChangedPart::Tools => "The set of tools differs.".into(),
            ChangedPart::Messages => {
                format!("The first changed message is messages.{}.", self.changed_message)
            }
            ChangedPart::Thinking => "The thinking block before it differs.".into(),
        }
    }
}

/// What one call taught about a block, to be undone if the call is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lesson {
    /// It appeared unannounced.
    New,
    /// Its content, and what its own response holds before it: as they were.
    Known { content: Option<u64>, messages: u64, settled: bool },
}

impl Lesson {
    /// What is known of a block before the call.
    pub(crate) fn about(bound: &Bound) -> Lesson {
        Lesson::Known { content: bound.content, messages: bound.place.messages, settled: bound.settled }
    }
}

/// What was known of thinking that was forgotten.
#[derive(Debug)]
pub struct Forgotten(Vec<(u32, Bound)>);

/// All bound thinking of a conversation, by id. Ids usually come in ascending order and are asked for in
/// the order they came, so both cost no search.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Ascending.
    ids: Vec<u32>,
    /// What is known of each.
    bounds: Vec<Bound>,
    cursor: usize,
    announced: u32,
}

impl Records {
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.bounds.clear();
        self.cursor = 0;
        self.announced = 0;
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Bound> {
        let at = self.find(id).ok()?;
        self.cursor = at + 1;
        Some(&mut self.bounds[at])
    }

    /// Records thinking of an answer, in the answer's order.
    pub(crate) fn announce(&mut self, id: u32, place: Place, producer: u32) {
        self.announced += 1;
        self.insert(id, Bound { announced: self.announced, ..Bound::new(place, producer) });
    }

    /// Whether both were announced, and `first` before `second`.
    pub(crate) fn in_order(&self, first: u32, second: u32) -> bool {
        let announced = |id| self.find(id).map_or(0, |at| self.bounds[at].announced);
        let (first, second) = (announced(first), announced(second));
        first == 0 || second == 0 || first < second
    }

    #[inline]
    pub(crate) fn insert(&mut self, id: u32, bound: Bound) {
        let is_newest = self.ids.last().is_none_or(|last| *last < id);
        self.ids.push(id);
        self.bounds.push(bound);
        if !is_newest {
            self.sort_in_last();
        }
    }

    /// The last record belongs further to the front, or stands for one that is there.
    #[cold]
    fn sort_in_last(&mut self) {
        let Some((id, bound)) = self.ids.pop().zip(self.bounds.pop()) else { return };
        match self.find(id) {
            Ok(at) => self.bounds[at] = bound,
            Err(at) => {
                self.ids.insert(at, id);
                self.bounds.insert(at, bound);
            }
        }
    }

    /// Forgets the thinking that `is_stale` names: it is bound anew where it appears next.
    pub(crate) fn forget(&mut self, is_stale: impl Fn(u32) -> bool) -> Forgotten {
        let known = self.ids.iter().copied().zip(self.bounds.iter().copied());
        let (gone, kept): (Vec<_>, Vec<_>) = known.partition(|(id, _)| is_stale(*id));
        (self.ids, self.bounds) = kept.into_iter().unzip();
        self.cursor = 0;
        Forgotten(gone)
    }

    /// What was forgotten and has not been bound since is bound as it was.
    pub(crate) fn recall(&mut self, forgotten: Forgotten) {
        for (id, bound) in forgotten.0 {
            if self.find(id).is_err() {
                self.insert(id, bound);
            }
        }
        self.cursor = 0;
    }

    /// Undoes a lesson.
    pub(crate) fn unlearn(&mut self, id: u32, lesson: Lesson) {
        let Ok(at) = self.find(id) else { return };
        match lesson {
            Lesson::New => {
                self.ids.remove(at);
                self.bounds.remove(at);
            }
            Lesson::Known { content, messages, settled } => {
                let bound = &mut self.bounds[at];
                bound.content = content;
                bound.place.messages = messages;
                bound.settled = settled;
            }
        }
    }

    fn find(&self, id: u32) -> Result<usize, usize> {
        match self.ids.get(self.cursor) {
            Some(next) if *next == id => Ok(self.cursor),
            _ => self.ids.binary_search(&id),
        }
    }
}

/// The provider's error text (docs/sources.md B6), plus the sentence that names what changed.
pub(crate) fn rejection_text(path: &str, explanation: &str, beta_header: bool) -> String {
    let header = if beta_header {
        ""
    } else {
        " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
    };
    format!(
        "{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the \
         block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".{header} {explanation}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(tools: u64, system: u64, messages: u64, predecessor: u32) -> Place {
        Place { prefix: Prefix { tools, system }, messages, predecessor }
    }

    #[test]
    fn the_first_part_that_changed_is_named() {
        let mut bound = Bound::new(place(1, 2, 3, 7), 0);
        assert_eq!(bound.check(&place(1, 2, 3, 7), 0, Parts::ALL), None);
        assert_eq!(
            bound.check(&place(1, 2, 3, NO_LINK), 0, Parts::ALL),
            None,
            "nothing accepted precedes it"
        );
        assert_eq!(bound.check(&place(9, 9, 9, 9), 0, Parts::ALL), Some(ChangedPart::System));
        assert_eq!(bound.check(&place(9, 2, 9, 9), 0, Parts::ALL), Some(ChangedPart::Tools));
        assert_eq!(bound.check(&place(1, 2, 9, 9), 5, Parts::ALL), Some(ChangedPart::Messages));
        assert_eq!(bound.check(&place(1, 2, 9, 9), 8, Parts::ALL), Some(ChangedPart::Messages));
        assert!(bound.explain(ChangedPart::Messages).contains("messages.5."));
        assert_eq!(bound.check(&place(1, 2, 3, 6), 0, Parts::ALL), Some(ChangedPart::Thinking));
        let messages = Parts { system: false, tools: false, order: false };
        assert_eq!(bound.check(&place(9, 9, 3, 6), 0, messages), None, "nothing else is compared");
        assert_eq!(bound.check(&place(1, 2, 9, 7), 0, messages), Some(ChangedPart::Messages));
    }

    #[test]
    fn records_are_found_in_any_order() {
        let mut records = Records::default();
        for id in [5, 9, 2, 7] {
            records.insert(id, Bound::new(place(0, 0, u64::from(id), NO_LINK), 0));
        }
        for id in [7, 2, 5, 9, 9] {
            assert_eq!(records.get_mut(id).map(|b| b.place.messages), Some(u64::from(id)));
        }
        records.unlearn(5, Lesson::New);
        assert!(records.get_mut(5).is_none() && records.get_mut(7).is_some());
    }
}
