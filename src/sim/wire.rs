//! The blocks of the next request, in the order in which they are sent.

use crate::cause::Cause;
use crate::policy::strategy::{MarkerPlace, MarkerSpec};
use crate::policy::view::SummaryMessage;
use crate::provider::{Marker, NO_LINK, SentBlock, SentKind};
use crate::session::{BlockKind, Flags, Prefix, PrefixBlock, Session};

/// Stands for a block that is not the session's: prefix, summary.
const NO_BLOCK: u32 = u32::MAX;

/// Blocks as sent, and up to where they equal the last request's.
#[derive(Debug, Default)]
pub struct Wire {
    blocks: Vec<SentBlock>,
    /// Session block behind each sent one; ascending from `head` on.
    refs: Vec<u32>,
    /// Number of blocks in front of the session's own.
    head: usize,
    /// Last tool definition and last system block.
    last_tool: Option<usize>,
    last_system: Option<usize>,
    changed_from: usize,
    sent_len: usize,
    change: Option<Cause>,
}

impl Wire {
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.refs.clear();
        self.head = 0;
        self.changed_from = 0;
        self.sent_len = 0;
        self.change = None;
    }

    /// All blocks.
    pub fn blocks(&self) -> &[SentBlock] {
        &self.blocks
    }

    /// Whether a block of the session, or one behind it, is on the wire.
    pub(super) fn holds(&self, block: u32) -> bool {
        self.refs[self.head..].last().is_some_and(|last| *last >= block)
    }

    /// The session's own blocks as sent, each with its index in the session.
    pub fn session_blocks(&self) -> impl Iterator<Item = (&SentBlock, u32)> {
        self.blocks[self.head..].iter().zip(self.refs[self.head..].iter().copied())
    }

    /// `blocks()[..changed_from()]` equals what was sent last.
    pub fn changed_from(&self) -> usize {
        self.changed_from
    }

    /// Why what was sent last differs, where it does.
    pub fn change(&self) -> Option<Cause> {
        if self.changed_from < self.sent_len { self.change } else { None }
    }

    pub(super) fn mark_sent(&mut self) {
        self.changed_from = self.blocks.len();
        self.sent_len = self.blocks.len();
        self.change = None;
    }

    /// Takes over what `live` last sent, as far as the blocks are the same.
    pub(super) fn adopt(&mut self, live: &Wire) {
        let same = self.blocks.iter().zip(&live.blocks).take_while(|(a, b)| a == b).count();
        self.changed_from = live.changed_from.min(same);
        self.sent_len = live.sent_len;
        self.change = live.change;
    }

    /// Of several changes before one request, the first in the order of causes counts.
    pub(super) fn note_change(&mut self, cause: Cause) {
        self.change = Some(self.change.map_or(cause, |c| c.min(cause)));
    }

    /// Rebuilds prefix and summary; what stays equal at the front counts as unchanged.
    pub(super) fn rebuild_head(&mut self, prefix: &Prefix, summary: Option<&SummaryMessage>) {
        let mut head =
            Vec::with_capacity(prefix.tools.len() + prefix.system.len() + prefix.injected.len() + 1);
        let block = |kind: SentKind, b: &PrefixBlock| SentBlock {
            hash: b.hash,
            tokens: b.tokens,
            link: NO_LINK,
            message: 0,
            kind,
            deferred: false,
            placeholder: false,
        };
        head.extend(prefix.tools.iter().map(|b| block(SentKind::Tool, b)));
        head.extend(prefix.system.iter().map(|b| block(SentKind::System, b)));
        head.extend(prefix.injected.iter().map(|b| block(SentKind::Text, b)));
        head.extend(summary.map(|s| block(SentKind::Text, &PrefixBlock { hash: s.hash, tokens: s.tokens })));
        let same = head.iter().zip(&self.blocks).take_while(|(a, b)| a == b).count();
        self.changed_from = self.changed_from.min(same);
        self.blocks.clear();
        self.refs.clear();
        self.head = head.len();
        self.last_tool = head.iter().rposition(|b| b.kind == SentKind::Tool);
        self.last_system = head.iter().rposition(|b| b.kind == SentKind::System);
        self.refs.resize(head.len(), NO_BLOCK);
        self.blocks.extend(head);
    }

    /// Cuts before session block `first`: the session block to go on with, `None` if nothing behind it was
    /// on the wire.
    pub(super) fn truncate_to(&mut self, first: u32, cause: Cause) -> Option<u32> {
        let at = self.head + self.refs[self.head..].partition_point(|b| *b < first);
        if at == self.blocks.len() {
            return None;
        }
        self.blocks.truncate(at);
        self.refs.truncate(at);
        self.changed_from = self.changed_from.min(at);
        if at < self.sent_len {
            self.note_change(cause);
        }
        Some(first)
    }

    /// Appends a block as recorded. Unsigned thinking is never sent.
    #[inline]
    pub(super) fn push_plain(&mut self, session: &Session, block: u32) {
        let i = block as usize;
        if session.blocks.kind[i] == BlockKind::Thinking && !is_replayable(session.blocks.flags[i]) {
            return;
        }
        self.push(session, block, session.blocks.hash[i], session.blocks.tokens[i], false);
    }

    /// Appends a stub for a block.
    pub(super) fn push_stub(&mut self, session: &Session, block: u32, tokens: u32) {
        let original = session.blocks.hash[block as usize];
        self.push(session, block, stub_hash(original, tokens), tokens, false);
    }

    /// Appends the summary in front of session block `at`.
    pub(super) fn push_summary(&mut self, summary: &SummaryMessage, at: u32) {
        let message = match self.blocks.last() {
            Some(last) if !last.kind.is_prefix() => last.message + u32::from(last.kind.is_assistant()),
            _ => 0,
        };
        self.blocks.push(SentBlock {
            hash: summary.hash,
            tokens: summary.tokens,
            link: NO_LINK,
            message,
            kind: SentKind::Text,
            deferred: false,
            placeholder: false,
        });
        // It goes where what it stands for was, and leaves with it.
        self.refs.push(at.saturating_sub(1));
    }

    /// Appends the provider's placeholder for a block. The client goes on sending what it has, so the
    /// hash is that of the block, or of the stub of `stored_tokens` that the client keeps in its place.
    pub(super) fn push_placeholder(
        &mut self,
        session: &Session,
        block: u32,
        stored_tokens: Option<u32>,
        tokens: u32,
    ) {
        let original = session.blocks.hash[block as usize];
        let hash = stored_tokens.map_or(original, |stored| stub_hash(original, stored));
        self.push(session, block, hash, tokens, true);
    }

    #[inline(always)]
    fn push(&mut self, session: &Session, block: u32, hash: u64, tokens: u32, placeholder: bool) {
        let i = block as usize;
        let (kind, link) = match session.blocks.kind[i] {
            BlockKind::UserText => (SentKind::Text, NO_LINK),
            BlockKind::Image => (SentKind::Image, NO_LINK),
            BlockKind::ToolResult => (SentKind::ToolResult, session.blocks.call[i]),
            BlockKind::AssistantText => (SentKind::AssistantText, NO_LINK),
            BlockKind::Thinking => (SentKind::Thinking, block),
            BlockKind::ToolUse => (SentKind::ToolUse, session.blocks.call[i]),
        };
        let message = match self.blocks.last() {
            Some(last) if !last.kind.is_prefix() => {
                last.message + u32::from(last.kind.is_assistant() != kind.is_assistant())
            }
            _ => 0,
        };
        self.blocks.push(SentBlock { hash, tokens, link, message, kind, deferred: false, placeholder });
        self.refs.push(block);
    }

    /// Places breakpoints, ascending; places that do not exist are left out.
    pub fn markers(&self, specs: &[MarkerSpec], out: &mut Vec<Marker>) {
        out.clear();
        for spec in specs {
            let after = match spec.place {
                MarkerPlace::Tools => self.last_tool,
                // Without a system prompt the tools end what a marker there covers.
                MarkerPlace::System => self.last_system.or(self.last_tool),
                MarkerPlace::LastMessage => self.last_markable(self.blocks.len()),
                MarkerPlace::LastUser => {
                    self.blocks.iter().rposition(|b| !b.kind.is_assistant() && !b.kind.is_prefix())
                }
                MarkerPlace::PreviousMessage => {
                    self.blocks.last().filter(|b| b.message > 0).and_then(|last| {
                        let end =
                            self.blocks.iter().rposition(|b| b.message != last.message).map_or(0, |i| i + 1);
                        self.last_markable(end)
                    })
                }
            };
            let Some(after) = after.and_then(|i| u32::try_from(i).ok()) else { continue };
            if out.last().is_none_or(|m| m.after < after) {
                out.push(Marker { after, ttl: spec.ttl });
            }
        }
    }

    /// The last block before `end` that can carry a breakpoint: thinking cannot.
    fn last_markable(&self, end: usize) -> Option<usize> {
        self.blocks[..end].iter().rposition(|b| b.kind != SentKind::Thinking && !b.kind.is_prefix())
    }
}

/// Thinking is replayed if it is signed; redacted thinking carries its signature inside.
pub(super) fn is_replayable(flags: Flags) -> bool {
    flags.has(Flags::SIGNED) || flags.has(Flags::REDACTED)
}

/// Hash of a stub: another content than the original, the same whenever it is written again.
fn stub_hash(original: u64, tokens: u32) -> u64 {
    let mut bytes = [0_u8; 12];
    bytes[..8].copy_from_slice(&original.to_le_bytes());
    bytes[8..].copy_from_slice(&tokens.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
