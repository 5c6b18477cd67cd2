//! What a client writes down, and a history rebuilt from it.
//!
//! Each pass, compaction and withholding is a state entry of the session file; a process that resumes
//! reads the recorded messages and these entries, and must send exactly what the live process would have
//! sent. [`Ledger::rebuild`] is that resume; [`super::RunOptions::resume_before_each_request`] runs it
//! before every request, which must change nothing.

use std::ops::Range;

use super::context::{Context, Memory, Stub};
use super::leave::Fold;
use crate::cause::Cause;
use crate::policy::view::Stored;
use crate::session::{DropReason, Prefix, Session};

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
    Pass {
        /// The stubs, by ascending block.
        elided: Vec<Stub>,
        /// Thinking in these blocks is no longer replayed; `None`: none is withheld.
        withhold: Option<Range<u32>>,
    },
    /// Stubs taken back.
    Restore {
        /// Blocks that are sent in full again, ascending.
        blocks: Vec<u32>,
    },
    /// A summary stands for everything before a block.
    Compaction {
        /// The summary and what it stands for.
        fold: Fold,
        /// Thinking of what is kept is no longer replayed.
        withhold_kept: bool,
    },
    /// Stored content changed.
    Replaced {
        /// The new sizes, by ascending block.
        stored: Vec<Stored>,
        /// Thinking in these blocks is no longer replayed; `None`: none is withheld.
        withhold: Option<Range<u32>>,
    },
    /// Texts stand for results and their calls.
    Texts {
        /// Sizes of the texts, by ascending block of the result.
        stored: Vec<Stored>,
    },
    /// Thinking is no longer replayed.
    Stripped {
        /// The thinking blocks, ascending.
        blocks: Vec<u32>,
    },
    /// All thinking up to here is no longer replayed.
    WithholdAll,
    /// The user cleared the history or went back.
    Dropped {
        /// Blocks that left, ascending.
        ranges: Vec<Range<u32>>,
        /// What the user did.
        reason: DropReason,
        /// What a miss behind it is counted as.
        cause: Cause,
    },
    /// Tools or system prompt changed.
    PrefixChanged {
        /// Both as they are from now on.
        prefix: Prefix,
        /// What a miss behind it is counted as.
        cause: Cause,
    },
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
        self.entries.push(Entry { revealed: context.view.revealed, change });
    }

    pub(super) fn note_stored(&mut self, stored: Stored) {
        self.stored.push(stored);
    }

    /// The history of `live`, rebuilt in a fresh context from the recorded messages and the entries.
    pub fn rebuild<'s>(&self, session: &'s Session, live: &Context<'s>) -> Context<'s> {
        let mut context = Context::new(session, live.view().model_id_utf16, Memory::default());
        // The usage of each answer is stored with it.
        context.view.usage_totals.clone_from(&live.view.usage_totals);
        context.view.usage_digits.clone_from(&live.view.usage_digits);
        for entry in &self.entries {
            self.reveal_to(&mut context, entry.revealed);
            context.replay(&entry.change);
        }
        self.reveal_to(&mut context, live.view.revealed);
        context.recount_answers();
        debug_assert_eq!(context.totals(), (context.view.raw_tokens, context.view.tool_results_utf16));
        debug_assert_eq!(live.totals(), (live.view.raw_tokens, live.view.tool_results_utf16));
        debug_assert_eq!(context.view.live, live.view.live);
        debug_assert_eq!(context.view.results, live.view.results);
        debug_assert_eq!(context.view.user_messages, live.view.user_messages);
        debug_assert_eq!(context.view.answered, live.view.answered);
        context.wire.adopt(&live.wire);
        context
    }

    fn reveal_to(&self, context: &mut Context<'_>, revealed: u32) {
        let range = context.view.revealed..revealed;
        context.reveal(range.clone());
        let first = self.stored.partition_point(|s| s.block < range.start);
        for stored in self.stored[first..].iter().take_while(|s| s.block < range.end) {
            context.restore_stored(*stored);
        }
        context.send(range);
    }
}

/// An entry of a client's session file, as far as replay cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEntry {
    /// A message of the conversation.
    Message {
        /// The client's own id.
        id: String,
    },
    /// A summary stands for everything up to and including `up_to`.
    Compaction {
        /// The client's own id.
        id: String,
        /// Id of the last entry that the summary stands for.
        up_to: String,
    },
    /// Kept and skipped.
    Other {
        /// The client's own id.
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
                let folded = messages.iter().position(|m| entries[*m].id() == up_to);
                let kept = folded.map_or(messages.len(), |last| last + 1);
                messages = std::iter::once(i).chain(messages[kept..].iter().copied()).collect();
            }
        }
    }
    Replayed { messages, leaf: entries.last().map(|e| e.id().to_owned()) }
}

impl Context<'_> {
    fn replay(&mut self, change: &Change) {
        match change {
            Change::Pass { elided, withhold } => {
                self.elide(elided);
                let first = self.first_touched(elided, withhold.as_ref());
                if let Some(range) = withhold.clone() {
                    self.withhold(range);
                }
                self.resend_from(first, Cause::PrefixRule);
            }
            Change::Restore { blocks } => {
                // It was checked when it was recorded.
                let _ = self.apply_restore(blocks);
            }
            Change::Compaction { fold, withhold_kept } => {
                self.fold_all(fold.clone(), *withhold_kept);
            }
            Change::Replaced { stored, withhold } => {
                self.replace(stored, withhold.as_ref());
            }
            Change::Texts { stored } => {
                // They were checked when it was recorded.
                let _ = self.apply_texts(stored);
            }
            Change::Stripped { blocks } => {
                // They were checked when it was recorded.
                let _ = self.apply_strip(blocks);
            }
            Change::WithholdAll => {
                self.withhold_all(Cause::PrefixThinking);
            }
            Change::Dropped { ranges, reason, cause } => self.drop_blocks(ranges, *reason, *cause),
            Change::PrefixChanged { prefix, cause } => self.change_prefix(prefix.clone(), *cause),
        }
    }
}
