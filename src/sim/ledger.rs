//! What a client writes down, and a history rebuilt from it.
//!
//! Each pass, compaction and withholding is a state entry of the session file; a process that resumes
//! reads the recorded messages and these entries, and must send exactly what the live process would have
//! sent. [`Ledger::rebuild`] is that resume; [`super::RunOptions::resume_before_each_request`] runs it
//! before every request, which must change nothing.

use std::ops::Range;

use super::context::{Context, Memory, Stub};
use crate::cause::Cause;
use crate::policy::view::{State, Stored, SummaryMessage};
use crate::session::{Prefix, Session};

/// One entry, made when `revealed` blocks were in the history.
#[derive(Debug, Clone)]
struct Entry {
    revealed: u32,
    change: Change,
}

/// What an entry records.
#[derive(Debug, Clone)]
pub enum Change {
    /// A pass: `{elided, withholdThinking?}`.
    Pass { elided: Vec<Stub>, withhold: Option<Range<u32>> },
    /// Stubs taken back.
    Restore { blocks: Vec<u32> },
    /// A summary stands for everything before a block.
    Compaction { fold_to: u32, summary: SummaryMessage, withhold_kept: bool },
    /// All thinking up to here is no longer replayed.
    WithholdAll,
    /// The user cleared the history or went back.
    Dropped { range: Range<u32>, cause: Cause },
    /// Tools or system prompt changed.
    PrefixChanged { prefix: Prefix, cause: Cause },
}

/// All entries of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Offloaded results as they are stored: part of the messages themselves.
    stored: Vec<Stored>,
}

impl Ledger {
    pub(super) fn note(&mut self, context: &Context<'_>, change: Change) {
        self.entries.push(Entry { revealed: context.revealed, change });
    }

    pub(super) fn note_stored(&mut self, stored: Stored) {
        self.stored.push(stored);
    }

    /// The history of `live`, rebuilt in a fresh context from the recorded messages and the entries.
    pub fn rebuild<'s>(&self, session: &'s Session, live: &Context<'s>) -> Context<'s> {
        let mut context = Context::new(session, live.view().model_id_utf16, Memory::default());
        for entry in &self.entries {
            self.reveal_to(&mut context, entry.revealed);
            context.replay(&entry.change);
        }
        self.reveal_to(&mut context, live.revealed);
        for step in &live.memory.answered {
            let i = *step as usize;
            context.answered(*step, live.memory.usage_totals[i], live.memory.usage_digits[i]);
        }
        context.memory.wire.adopt(&live.memory.wire);
        context
    }

    fn reveal_to(&self, context: &mut Context<'_>, revealed: u32) {
        for block in context.revealed..revealed {
            context.reveal_block(block);
            if let Ok(i) = self.stored.binary_search_by_key(&block, |s| s.block) {
                context.restore_stored(self.stored[i]);
            }
            context.send_block(block);
        }
    }
}

/// An entry of a client's session file, as far as replay cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEntry {
    Message {
        id: String,
    },
    /// A summary stands for everything up to and including `up_to`.
    Compaction {
        id: String,
        up_to: String,
    },
    /// Kept and skipped.
    Other {
        id: String,
    },
}

impl SessionEntry {
    fn id(&self) -> &str {
        match self {
            Self::Message { id } | Self::Compaction { id, .. } | Self::Other { id } => id,
        }
    }
}

/// A history made from entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Indexes of the entries whose messages it holds; a compaction's is its summary.
    pub messages: Vec<usize>,
    /// Id of the last entry.
    pub leaf: Option<String>,
}

/// Replays session entries. A compaction that names an unknown entry leaves only its summary.
pub fn replay_entries(entries: &[SessionEntry]) -> Replayed {
    let mut messages: Vec<usize> = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        match entry {
            SessionEntry::Message { .. } => messages.push(i),
            SessionEntry::Other { .. } => {}
            SessionEntry::Compaction { up_to, .. } => {
                let last_folded = entries[..i].iter().position(|e| e.id() == up_to);
                let kept = messages.iter().copied().filter(|m| last_folded.is_some_and(|last| *m > last));
                messages = std::iter::once(i).chain(kept).collect();
            }
        }
    }
    Replayed { messages, leaf: entries.last().map(|e| e.id().to_owned()) }
}

impl Context<'_> {
    fn replay(&mut self, change: &Change) {
        match change {
            Change::Pass { elided, withhold } => {
                for stub in elided {
                    self.memory.states[stub.block as usize].0 |= State::ELIDED.0;
                }
                self.memory.add_stubs(elided);
                let first = elided.iter().map(|s| s.block).chain(withhold.as_ref().map(|r| r.start)).min();
                if let Some(range) = withhold.clone() {
                    self.withhold(range);
                }
                self.resend_from(first.unwrap_or(self.revealed), Cause::PrefixRule);
            }
            Change::Restore { blocks } => self.apply_restore(blocks),
            Change::Compaction { fold_to, summary, withhold_kept } => {
                self.fold(*fold_to, *summary, *withhold_kept);
            }
            Change::WithholdAll => {
                self.withhold_all(Cause::PrefixThinking);
            }
            Change::Dropped { range, cause } => self.drop_blocks(range.clone(), *cause),
            Change::PrefixChanged { prefix, cause } => self.change_prefix(prefix.clone(), *cause),
        }
    }
}
