//! What happens in a recording between two requests.

use std::ops::Range;

use super::Recorder;
use super::ledger::Change;
use super::run::Cell;
use crate::cause::Cause;
use crate::policy::Policy;
use crate::policy::strategy::Hook;
use crate::session::{DropReason, Event, EventKind, Prefix, PrefixBlock};

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Events of the recording before `step`. A change at a resume is one the process did not see.
    pub(super) fn events_before(&mut self, step: usize) {
        let session = self.session;
        let begin = self.next_event;
        let due = session.events[begin..].iter().take_while(|e| e.before_step as usize <= step).count();
        self.next_event += due;
        if due == 0 {
            return;
        }
        self.reveal_to(session.steps[step].input.start);
        let events = &session.events[begin..begin + due];
        self.refetches.recorded(events);
        let resumed = events.iter().any(|e| e.kind == EventKind::Resumed);
        for group in events.chunk_by(|a, b| drop_reason(a).is_some() && drop_reason(a) == drop_reason(b)) {
            match drop_reason(&group[0]) {
                Some(reason) => self.drop_blocks(group, reason),
                None => self.event(&group[0].kind, resumed),
            }
        }
    }

    fn event(&mut self, event: &EventKind, resumed: bool) {
        match event {
            EventKind::ToolsChanged { tools } => {
                let mut prefix = self.context.prefix.clone();
                let order_only = is_permutation(&prefix.tools, tools);
                prefix.tools.clone_from(tools);
                let cause = if order_only { Cause::PrefixToolOrder } else { Cause::PrefixTools };
                self.change_prefix(prefix, cause, resumed);
            }
            EventKind::SystemChanged { system } => {
                let mut prefix = self.context.prefix.clone();
                prefix.system.clone_from(system);
                self.change_prefix(prefix, Cause::PrefixSystem, resumed);
            }
            EventKind::ParametersChanged { hash } => {
                self.params.messages_key = *hash;
                self.context.note_change(Cause::PrefixParameters);
            }
            EventKind::ManualCompaction => self.ask(Hook::Manual),
            EventKind::RecordedClearing { blocks, applied: true } => {
                let elided = self.context.apply_recorded_clearing(blocks);
                self.note(Change::Pass { elided, withhold: None });
            }
            // The user asked for it; whether the recording's own is kept, the session's view says.
            EventKind::RecordedCompaction { automatic: false, .. } if self.compactions_are_undone => {
                self.ask(Hook::Manual);
            }
            EventKind::RecordedClearing { applied: false, .. }
            | EventKind::RecordedCompaction { .. }
            | EventKind::BlocksDropped { .. } => {}
            EventKind::ModelChanged { model } => self.change_model(model),
            EventKind::Resumed => {}
        }
    }

    /// Drops that follow each other for one reason are one change.
    fn drop_blocks(&mut self, events: &[Event], reason: DropReason) {
        let cause = match reason {
            DropReason::Compaction => Cause::PrefixCompaction,
            DropReason::Clear | DropReason::Rewind => Cause::PrefixRewind,
            DropReason::Unexplained => Cause::PrefixUnknown,
        };
        let ranges: Vec<Range<u32>> = events
            .iter()
            .filter_map(|e| match e.kind {
                EventKind::BlocksDropped { from, to, .. } => Some(from..to),
                _ => None,
            })
            .collect();
        self.context.drop_blocks(&ranges, reason, cause);
        self.log.history_changed(&self.context);
        if reason == DropReason::Unexplained {
            let first = ranges.iter().map(|r| r.start).min().unwrap_or(0);
            self.provider.forget_bindings(|block| block >= first);
        }
        self.note(Change::Dropped { ranges, reason, cause });
    }

    fn change_prefix(&mut self, prefix: Prefix, cause: Cause, resumed: bool) {
        self.context.change_prefix(prefix.clone(), cause);
        self.note(Change::PrefixChanged { prefix, cause });
        if self.strategy.withhold_on_prefix_change && !resumed {
            let withheld = self.context.withhold_all(cause);
            self.note(Change::WithholdAll);
            self.log.prefix_change_noticed(withheld);
        }
    }

    /// The recording goes on with another model. One that is not known changes nothing.
    fn change_model(&mut self, id: &str) {
        let found = self.options.model_changes.as_ref().and_then(|models| models.resolve(id).ok());
        if let Some(found) = found.filter(|f| f.model.id != self.model.id && !f.substituted) {
            self.model = found.model;
            self.provider.set_model(found.model);
            self.log.set_model(found.model);
            self.context.note_change(Cause::PrefixModel);
        }
    }
}

fn drop_reason(event: &Event) -> Option<DropReason> {
    match event.kind {
        EventKind::BlocksDropped { reason, .. } => Some(reason),
        _ => None,
    }
}

fn is_permutation(a: &[PrefixBlock], b: &[PrefixBlock]) -> bool {
    let sorted = |list: &[PrefixBlock]| {
        let mut hashes: Vec<(u64, u32)> = list.iter().map(|t| (t.hash, t.tokens)).collect();
        hashes.sort_unstable();
        hashes
    };
    a != b && sorted(a) == sorted(b)
}
