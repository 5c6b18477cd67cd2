//! The two ways to replay a session whose agent compacted: as if it had not, or as it did
//! (docs/decisions.md 17).
//!
//! A compiled session holds what a compaction injected (flag [`Flags::COMPACTION`]) and what was pending
//! when it summarized ([`Flags::FOLDED`]). A view has one of the two and neither flag:
//!
//! - **undo**: injected blocks are gone; prompts and results stay; results that were cleared in place
//!   are in full. The events stay as information.
//! - **keep**: what the compaction folded is dropped ([`EventKind::BlocksDropped`]), its summary and
//!   whatever it injected is in the next input; recorded clearings are applied.
//!
//! Clears, plan accepts and rewinds are the user's acts and happen in both.
//!
//! # Divergence from the real API
//!
//! What the agent read again because a compaction had removed it cannot be undone:
//! [`Session::recorded_compactions_undone`] counts the occasions. A rewind to before a compaction brings
//! back only the summary in the keep view.

use std::borrow::Cow;

use super::compile::RecordedCompactions;
use super::{Blocks, DropReason, Event, EventKind, Flags, ResultParts, Session, Step};

impl Session {
    /// The session as it is to be replayed. Borrowed if it has nothing to choose; a view of a view is
    /// the view itself.
    pub fn view(&self, how: RecordedCompactions) -> Cow<'_, Session> {
        let marks = Flags::COMPACTION.with(Flags::FOLDED);
        let is_marked = self.blocks.flags.iter().any(|f| f.without(marks) != *f);
        let keeps = how == RecordedCompactions::Keep
            && (self.recorded_compactions_undone() > 0
                || self
                    .events
                    .iter()
                    .any(|e| matches!(e.kind, EventKind::RecordedClearing { applied: false, .. })));
        if !is_marked && !keeps {
            return Cow::Borrowed(self);
        }
        let other = match how {
            RecordedCompactions::Undo => Flags::COMPACTION,
            RecordedCompactions::Keep => Flags::FOLDED,
        };
        let mut session = self.without_blocks(other);
        for flags in &mut session.blocks.flags {
            *flags = flags.without(marks);
        }
        if how == RecordedCompactions::Keep {
            session.apply_recorded();
        }
        Cow::Owned(session)
    }

    /// Compactions of the recording that this session is replayed without.
    pub fn recorded_compactions_undone(&self) -> u64 {
        let kept = |next: Option<&Event>| {
            let reason = next.map(|e| &e.kind);
            matches!(reason, Some(EventKind::BlocksDropped { reason: DropReason::Compaction, .. }))
        };
        let undone = self.events.iter().enumerate().filter(|(i, event)| {
            matches!(event.kind, EventKind::RecordedCompaction { .. }) && !kept(self.events.get(i + 1))
        });
        undone.count() as u64
    }

    /// Drops what each recorded compaction folded, and applies clearings.
    fn apply_recorded(&mut self) {
        let end = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let mut from = 0;
        let mut events = Vec::with_capacity(self.events.len());
        let mut old = std::mem::take(&mut self.events).into_iter().peekable();
        while let Some(mut event) = old.next() {
            let before_step = event.before_step;
            if let EventKind::RecordedClearing { applied, .. } = &mut event.kind {
                *applied = true;
            }
            let is_compaction = matches!(event.kind, EventKind::RecordedCompaction { .. });
            events.push(event);
            let kept_already = old.peek().is_some_and(|e| {
                matches!(e.kind, EventKind::BlocksDropped { reason: DropReason::Compaction, .. })
            });
            let to = self.steps.get(before_step as usize).map_or(end, |step| step.input.start);
            if is_compaction && !kept_already {
                // Also where nothing is left to drop: the pair of events says that it is kept.
                let kind = EventKind::BlocksDropped { from, to, reason: DropReason::Compaction };
                events.push(Event { before_step, kind });
                from = to;
            }
        }
        self.events = events;
    }

    /// A copy without the blocks that carry `mark`; everything that names blocks or messages follows.
    fn without_blocks(&self, mark: Flags) -> Session {
        let mut blocks = Blocks::default();
        // New index of each old one: of a removed block, that of the next one that stays.
        let mut moved = Vec::with_capacity(self.blocks.len() + 1);
        let mut last_message = None;
        let mut messages = 0;
        for i in 0..self.blocks.len() {
            let next = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
            moved.push(next);
            let mut block = self.blocks.get(i);
            if block.flags.has(mark) {
                continue;
            }
            if last_message.is_some_and(|m| m != block.message) {
                messages += 1;
            }
            last_message = Some(block.message);
            block.message = messages;
            blocks.push(block);
        }
        moved.push(u32::try_from(blocks.len()).unwrap_or(u32::MAX));
        let at = |i: u32| moved[i as usize];
        let stays = |i: u32| !self.blocks.flags[i as usize].has(mark);
        let steps = self.steps.iter().map(|step| Step {
            input: at(step.input.start)..at(step.input.end),
            output: at(step.output.start)..at(step.output.end),
            ..step.clone()
        });
        let parts = self.result_parts.iter().filter(|row| stays(row.block));
        let parts = parts.map(|row| ResultParts { block: at(row.block), ..*row });
        let events = self.events.iter().filter_map(|event| {
            let kind = match &event.kind {
                EventKind::BlocksDropped { from, to, reason } => {
                    let (from, to) = (at(*from), at(*to));
                    if from == to {
                        return None;
                    }
                    EventKind::BlocksDropped { from, to, reason: *reason }
                }
                EventKind::RecordedClearing { blocks, applied } => EventKind::RecordedClearing {
                    blocks: blocks.iter().copied().filter(|i| stays(*i)).map(at).collect(),
                    applied: *applied,
                },
                other => other.clone(),
            };
            Some(Event { before_step: event.before_step, kind })
        });
        Session {
            steps: steps.collect(),
            result_parts: parts.collect(),
            events: events.collect(),
            blocks,
            ..self.clone_without_columns()
        }
    }

    fn clone_without_columns(&self) -> Session {
        Session {
            id: self.id.clone(),
            parent: self.parent.clone(),
            origin: self.origin.clone(),
            model: self.model.clone(),
            tokenizer: self.tokenizer,
            coefficients: self.coefficients,
            prefix: self.prefix.clone(),
            prefix_is_measured: self.prefix_is_measured,
            warm_prefix_tokens: self.warm_prefix_tokens,
            tools: self.tools.clone(),
            calls: self.calls.clone(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        }
    }
}
