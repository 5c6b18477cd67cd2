//! The blocks of the next request, in the order in which they are sent.

use std::ops::Range;

use crate::cause::Cause;
use crate::policy::strategy::{MarkerPlace, MarkerSpec};
use crate::policy::view::{State, SummaryMessage};
use crate::provider::model::CacheSpec;
use crate::provider::{Marker, ModelSpec, NO_LINK, SentBlock, SentKind};
use crate::session::{BlockKind, Flags, Prefix, PrefixBlock, Session, Step};

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
    last_tool: Option<u32>,
    last_system: Option<u32>,
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

    /// Appends the unfilled block at the end of the next request alone, if it is known and the model's cache keeps
    /// such; it stands for no block of the session.
    pub(super) fn push_tail(&mut self, step: &Step, model: &ModelSpec) {
        let Step { tail_hash: hash, tail_tokens: tokens, .. } = *step;
        if hash == 0 || !model.cache.as_ref().is_some_and(CacheSpec::keeps_partial_blocks) {
            return;
        }
        self.push_text(hash, tokens);
    }

    /// Appends a text that is no block of the session.
    fn push_text(&mut self, hash: u64, tokens: u32) {
        let (kind, message) = (SentKind::Text, Messages::after(self.blocks.last()).next(SentKind::Text));
        let (deferred, placeholder) = (false, false);
        self.blocks.push(SentBlock { hash, tokens, link: NO_LINK, message, kind, deferred, placeholder });
    }

    /// Whether there is one.
    pub(super) fn has_tail(&self) -> bool {
        self.blocks.len() > self.refs.len()
    }

    /// Takes it off again.
    pub(super) fn drop_tail(&mut self) {
        self.blocks.truncate(self.refs.len());
    }

    pub(super) fn mark_sent(&mut self) {
        self.drop_tail();
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

    /// Rebuilds prefix and summaries; what stays equal at the front counts as unchanged.
    pub(super) fn rebuild_head(&mut self, prefix: &Prefix, summaries: &[SummaryMessage]) {
        let mut head = Vec::with_capacity(
            prefix.tools.len() + prefix.system.len() + prefix.injected.len() + summaries.len(),
        );
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
        let text =
            |s: &SummaryMessage| block(SentKind::Text, &PrefixBlock { hash: s.hash, tokens: s.tokens });
        head.extend(summaries.iter().map(text));
        let same = head.iter().zip(&self.blocks).take_while(|(a, b)| a == b).count();
        self.changed_from = self.changed_from.min(same);
        self.blocks.clear();
        self.refs.clear();
        self.head = head.len();
        let last = |kind| head.iter().rposition(|b| b.kind == kind).and_then(|i| u32::try_from(i).ok());
        self.last_tool = last(SentKind::Tool);
        self.last_system = last(SentKind::System);
        self.refs.resize(head.len(), NO_BLOCK);
        self.blocks.extend(head);
    }

    /// Goes through the session's blocks from `first` on in place, after an edit: `edit` makes each what is sent
    /// now, and says whether it is sent at all. Nothing happens if none of them is on the wire.
    pub(super) fn rewrite_from(
        &mut self,
        first: u32,
        cause: Cause,
        mut edit: impl FnMut(u32, &mut SentBlock) -> bool,
    ) {
        let at = self.head + self.refs[self.head..].partition_point(|b| *b < first);
        if at == self.blocks.len() {
            return;
        }
        let mut messages = Messages::after(self.blocks[..at].last());
        let (blocks, refs) = (&mut self.blocks[at..], &mut self.refs[at..]);
        let len = blocks.len().min(refs.len());
        let mut kept = 0;
        for i in 0..len {
            // Field by field: a load of all of them right behind narrower stores would stall.
            let (block, mut sent) = (refs[i], blocks[i]);
            if !edit(block, &mut sent) {
                continue;
            }
            let SentBlock { hash, tokens, link, kind, deferred, placeholder, .. } = sent;
            let message = messages.next(kind);
            blocks[kept] = SentBlock { hash, tokens, link, message, kind, deferred, placeholder };
            refs[kept] = block;
            kept += 1;
        }
        self.blocks.truncate(at + kept);
        self.refs.truncate(at + kept);
        self.changed_from = self.changed_from.min(at);
        if at < self.sent_len {
            self.note_change(cause);
        }
    }

    /// Appends blocks as recorded, up to the first that is not sent so: something has happened to it, or it is
    /// thinking without a signature. Gives where that is.
    pub(super) fn push_as_recorded(&mut self, session: &Session, range: Range<u32>, states: &[State]) -> u32 {
        let columns = range.start as usize..range.end as usize;
        let blocks = &session.blocks;
        let kinds = blocks.kind[columns.clone()].iter().zip(&blocks.flags[columns.clone()]);
        let is_edited = |((kind, flags), state): ((&BlockKind, &Flags), &State)| {
            *state != State::default() || !is_ever_sent(*kind, *flags)
        };
        let plain = kinds.zip(&states[columns]).position(is_edited);
        let end = plain.map_or(range.end, |n| range.start + u32::try_from(n).unwrap_or(u32::MAX));
        self.extend_as_recorded(session, range.start..end);
        end
    }

    /// Appends blocks that are all sent.
    fn extend_as_recorded(&mut self, session: &Session, range: Range<u32>) {
        let columns = range.start as usize..range.end as usize;
        let blocks = &session.blocks;
        let each = blocks.kind[columns.clone()]
            .iter()
            .zip(&blocks.hash[columns.clone()])
            .zip(&blocks.tokens[columns.clone()])
            .zip(&blocks.call[columns]);
        let mut messages = Messages::after(self.blocks.last());
        let mut block = range.start;
        self.blocks.extend(each.map(move |(((kind, hash), tokens), call)| {
            let kind = SENT_AS[*kind as usize];
            let (hash, tokens, link) = (*hash, *tokens, link_of(kind, *call, block));
            block = block.wrapping_add(1);
            let message = messages.next(kind);
            SentBlock { hash, tokens, link, message, kind, deferred: false, placeholder: false }
        }));
        self.refs.extend(range);
    }

    /// Appends the summary in front of session block `at`.
    pub(super) fn push_summary(&mut self, summary: &SummaryMessage, at: u32) {
        self.push_text(summary.hash, summary.tokens);
        // It goes where what it stands for was.
        self.refs.push(at.saturating_sub(1));
    }

    /// Appends a block with another content than the recorded one.
    pub(super) fn push_edited(&mut self, session: &Session, block: u32, content: Content) {
        let i = block as usize;
        if is_ever_sent(session.blocks.kind[i], session.blocks.flags[i]) {
            self.extend_as_recorded(session, block..block + 1);
            if let Some(sent) = self.blocks.last_mut() {
                content.put_into(sent);
            }
        }
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
                    let user = |b: &SentBlock| !b.kind.is_assistant() && !b.kind.is_prefix();
                    self.blocks.iter().rposition(user).and_then(|i| u32::try_from(i).ok())
                }
                MarkerPlace::PreviousMessage => {
                    self.blocks.last().filter(|b| b.message > 0).and_then(|last| {
                        let end =
                            self.blocks.iter().rposition(|b| b.message != last.message).map_or(0, |i| i + 1);
                        self.last_markable(end)
                    })
                }
            };
            let Some(after) = after else { continue };
            if out.last().is_none_or(|m| m.after < after) {
                out.push(Marker { after, ttl: spec.ttl });
            }
        }
    }

    /// The last block before `end` that can carry a breakpoint: thinking cannot.
    fn last_markable(&self, end: usize) -> Option<u32> {
        let can_carry = |b: &SentBlock| b.kind != SentKind::Thinking && !b.kind.is_prefix();
        match self.blocks[..end].last() {
            Some(last) if can_carry(last) => u32::try_from(end - 1).ok(),
            _ => self.blocks[..end].iter().rposition(can_carry).and_then(|i| u32::try_from(i).ok()),
        }
    }
}

/// What is sent of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    hash: u64,
    tokens: u32,
    placeholder: bool,
    /// It is a text of the user's.
    is_text: bool,
}

impl Content {
    pub(super) fn as_recorded(session: &Session, block: u32) -> Content {
        let i = block as usize;
        let (hash, tokens) = (session.blocks.hash[i], session.blocks.tokens[i]);
        Content { hash, tokens, placeholder: false, is_text: false }
    }

    /// The client's stub.
    pub(super) fn stub(session: &Session, block: u32, tokens: u32) -> Content {
        let hash = stub_hash(session.blocks.hash[block as usize], tokens);
        Content { hash, tokens, placeholder: false, is_text: false }
    }

    /// A text in the place of a result whose call has left.
    pub(super) fn text(session: &Session, block: u32, tokens: u32) -> Content {
        Content { is_text: true, ..Content::stub(session, block, tokens) }
    }

    /// The provider's placeholder. The client goes on sending what it has, so the hash is that of the
    /// block, or of the stub of `stored_tokens` that the client keeps in its place.
    pub(super) fn placeholder(
        session: &Session,
        block: u32,
        stored_tokens: Option<u32>,
        tokens: u32,
    ) -> Content {
        let original = session.blocks.hash[block as usize];
        let hash = stored_tokens.map_or(original, |stored| stub_hash(original, stored));
        Content { hash, tokens, placeholder: true, is_text: false }
    }

    #[inline]
    pub(super) fn put_into(self, sent: &mut SentBlock) {
        sent.hash = self.hash;
        sent.tokens = self.tokens;
        sent.placeholder = self.placeholder;
        if self.is_text {
            (sent.kind, sent.link) = (SentKind::Text, NO_LINK);
        }
    }
}

/// Numbers messages: one begins wherever the role changes.
struct Messages {
    message: u32,
    /// Role of the last block: 0 the user's, 1 the model's, 2 before the first.
    role: u32,
}

impl Messages {
    fn after(last: Option<&SentBlock>) -> Messages {
        match last.filter(|b| !b.kind.is_prefix()) {
            Some(b) => Messages { message: b.message, role: u32::from(b.kind.is_assistant()) },
            None => Messages { message: 0, role: 2 },
        }
    }

    #[inline]
    fn next(&mut self, kind: SentKind) -> u32 {
        let role = u32::from(kind.is_assistant());
        self.message = self.message.wrapping_add(u32::from(self.role ^ role == 1));
        self.role = role;
        self.message
    }
}

/// What each kind of block of a session is on the wire.
const SENT_AS: [SentKind; 6] = {
    let mut table = [SentKind::Text; 6];
    table[BlockKind::UserText as usize] = SentKind::Text;
    table[BlockKind::Image as usize] = SentKind::Image;
    table[BlockKind::ToolResult as usize] = SentKind::ToolResult;
    table[BlockKind::AssistantText as usize] = SentKind::AssistantText;
    table[BlockKind::Thinking as usize] = SentKind::Thinking;
    table[BlockKind::ToolUse as usize] = SentKind::ToolUse;
    table
};

/// What links a block to others: calls and results their call, thinking itself.
#[inline]
fn link_of(kind: SentKind, call: u32, block: u32) -> u32 {
    match kind {
        SentKind::ToolUse | SentKind::ToolResult => call,
        SentKind::Thinking => block,
        _ => NO_LINK,
    }
}

/// Whether a client sends such a block at all: thinking without a signature it does not.
#[inline]
fn is_ever_sent(kind: BlockKind, flags: Flags) -> bool {
    kind != BlockKind::Thinking || is_replayable(flags)
}

/// Thinking is replayed if it is signed; redacted thinking carries its signature inside.
pub(super) fn is_replayable(flags: Flags) -> bool {
    flags.is_replayable()
}

/// Hash of a stub: another content than the original, the same whenever it is written again.
fn stub_hash(original: u64, tokens: u32) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&original.to_le_bytes(), u64::from(tokens))
}
