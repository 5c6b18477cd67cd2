//! The checks on a thinking block where it stands on a path.
//!
//! Rules: docs/sources.md B3; docs/decisions.md 5 to 7.
//!
//! # Divergence from the real API
//!
//! That of [`super::binding`].

use super::binding::{BOUND_START, Behaviour, Bound, Lesson, Place, Records};
use super::path::{Path, Refused, Scene};
use super::{NO_LINK, Request, SentBlock, SentKind};

/// What the checks make of a thinking block.
pub(crate) struct Verdict {
    pub(crate) dropped: bool,
    /// It is the predecessor of the next one.
    pub(crate) accepted: bool,
}

impl Path {
    /// Runs the checks on a thinking block that stands at `here`.
    pub(crate) fn judge(
        &mut self,
        scene: &Scene<'_>,
        request: &Request<'_>,
        index: usize,
        here: &Place,
        edited: usize,
        records: &mut Records,
    ) -> Result<Verdict, Refused> {
        let block = &request.blocks[index];
        if block.link == NO_LINK {
            return Ok(Verdict { dropped: false, accepted: false });
        }
        if is_reordered(request.blocks, index, records) {
            return Err(Refused::Altered { index });
        }
        let Some(bound) = records.get_mut(block.link) else {
            if let Some(producer) = scene.producer {
                records.insert(block.link, Bound::as_seen(*here, producer, block.hash));
                self.learned.push((index, block.link, Lesson::New));
            }
            return Ok(Verdict { dropped: false, accepted: true });
        };
        if bound.content.is_some_and(|content| content != block.hash) {
            return Err(Refused::Altered { index });
        }
        let mut aside;
        let bound = if scene.producer.is_some() {
            bound
        } else {
            aside = *bound;
            &mut aside
        };
        if bound.content.is_none() || !bound.settled {
            self.learned.push((index, block.link, Lesson::about(bound)));
            bound.content = Some(block.hash);
        }
        if !scene.can_read(bound.producer) {
            self.dropped.push(index as u32);
            return Ok(Verdict { dropped: true, accepted: true });
        }
        if scene.behaviour == Behaviour::Skip {
            return Ok(Verdict { dropped: false, accepted: true });
        }
        if !bound.settled {
            self.settle(bound, request.blocks, index, here.messages);
        }
        let changed_message = request.blocks[edited.min(request.blocks.len() - 1)].message;
        match (bound.check(here, changed_message, scene.model.binding_parts), scene.behaviour) {
            (Some(changed), Behaviour::Reject) => {
                return Err(Refused::Binding { index, changed, explanation: bound.explain(changed) });
            }
            (Some(_), Behaviour::Drop) => {
                self.failing.push(index as u32);
                self.dropped.push(index as u32);
                return Ok(Verdict { dropped: true, accepted: false });
            }
            (Some(_), _) => self.failing.push(index as u32),
            (None, _) => {}
        }
        Ok(Verdict { dropped: false, accepted: true })
    }

    /// Learns what the response itself holds before a block of it: the assistant content between the end
    /// of the request it answers and the block.
    fn settle(&self, bound: &mut Bound, blocks: &[SentBlock], index: usize, here: u64) {
        let base = bound.place.messages;
        let mut at = index;
        loop {
            let before = if at == 0 { BOUND_START } else { self.nodes[at - 1].bound };
            if before == base {
                bound.place.messages = here;
                bound.settled = true;
                return;
            }
            if at == 0 || !blocks[at - 1].kind.is_assistant() {
                return;
            }
            at -= 1;
        }
    }
}

/// Whether thinking of the latest assistant message stands behind thinking that was made after it. Earlier
/// messages are not held against the response they were.
fn is_reordered(blocks: &[SentBlock], index: usize, records: &Records) -> bool {
    let message = blocks[index].message;
    let same = |b: &&SentBlock| b.message == message && b.kind.is_assistant();
    let before = blocks[..index].iter().rev().take_while(same).find(|b| b.kind == SentKind::Thinking);
    let Some(before) = before else { return false };
    !records.in_order(before.link, blocks[index].link)
        && !blocks[index..].iter().any(|b| b.kind.is_assistant() && b.message != message)
}
