//! Where a compaction cuts, and how long the transcript is that its summarizer reads.

use std::ops::Range;

use super::estimate::EstimateLaw;
use super::laws::{PART_SEPARATOR, TranscriptLaw};
use super::reads::Reads;
use super::view::View;
use crate::session::{BlockKind, Flags};
use crate::tokens::scale_ratio;

/// Whether the last answer made calls whose results are not in the history yet.
pub fn round_is_open(view: &View<'_>) -> bool {
    let Some(step) = view.answered.last() else { return false };
    let output = view.session.steps[*step as usize].output.clone();
    let blocks = &view.session.blocks;
    let calls = output.clone().filter(|i| blocks.kind[*i as usize] == BlockKind::ToolUse).count();
    let results =
        (output.end..view.revealed).filter(|i| blocks.kind[*i as usize] == BlockKind::ToolResult).count();
    calls > results
}

/// First block of the user messages at the end that no answer follows; the end if there are none.
pub fn first_unanswered_user(view: &View<'_>) -> u32 {
    let blocks = &view.session.blocks;
    let mut from = view.revealed;
    while from > view.live_from {
        let i = (from - 1) as usize;
        if !matches!(blocks.kind[i], BlockKind::UserText | BlockKind::Image) {
            break;
        }
        from -= 1;
    }
    from
}

/// Walks from the end until the messages come to `keep_tokens`, then back to the user message before.
/// There is a cut only if a message is left in front of it; an old summary is one.
pub fn cut_before_tail(view: &View<'_>, law: &EstimateLaw, keep_tokens: u64) -> Option<u32> {
    let mut tokens = 0;
    let mut from = view.revealed;
    while tokens < keep_tokens {
        let range = message_before(view, from)?;
        from = range.start;
        tokens += view.message_tokens(law, range);
    }
    let starts = &view.user_messages[..view.user_messages.partition_point(|b| *b <= from)];
    let cut = *starts.last()?;
    let follows = view.summary.is_some() || view.live.last_before(cut).is_some();
    follows.then_some(cut)
}

/// The live client message that ends right before block `end`.
fn message_before(view: &View<'_>, end: u32) -> Option<Range<u32>> {
    let messages = &view.session.blocks.message;
    let last = view.live.last_before(end)? + 1;
    let message = messages[(last - 1) as usize];
    let mut start = last - 1;
    while start > view.live_from && messages[(start - 1) as usize] == message && view.is_live(start - 1) {
        start -= 1;
    }
    Some(start..last)
}

/// Live client messages in a range of blocks, the summary included where the range starts with it.
pub fn messages_in(view: &View<'_>, range: Range<u32>, merged: bool) -> u64 {
    let mut count = u64::from(view.summary.is_some() && range.start == view.live_from);
    let mut last = None;
    for i in view.live_in(range) {
        if last.is_none_or(|last| !view.are_one_message(last, i, merged)) {
            count += 1;
        }
        last = Some(i);
    }
    count
}

/// A transcript as a summarizer reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Its length.
    pub utf16: u64,
    /// Of that: labels, notes and separators.
    pub labels_utf16: u64,
    /// Tokens of what it quotes, each block's own in proportion to what is quoted of it.
    pub quoted_tokens: u64,
    parts: u64,
}

impl Transcript {
    fn part(&mut self, label_utf16: u64, quoted_utf16: u64, quoted_tokens: u64) {
        let separator = if self.parts > 0 { PART_SEPARATOR } else { 0 };
        self.parts += 1;
        self.labels_utf16 += separator;
        self.utf16 += separator;
        self.append(label_utf16, quoted_utf16, quoted_tokens);
    }

    fn append(&mut self, label_utf16: u64, quoted_utf16: u64, quoted_tokens: u64) {
        self.labels_utf16 += label_utf16;
        self.utf16 += label_utf16 + quoted_utf16;
        self.quoted_tokens += quoted_tokens;
    }
}

/// The transcript of what a summarizer reads, the old summary first, if it is part of it. Results as stored, never as
/// stubs: a compaction reads the unedited history.
pub fn transcript(law: &TranscriptLaw, view: &View<'_>, reads: &Reads) -> Transcript {
    let blocks = &view.session.blocks;
    let mut out = Transcript::default();
    if let Some(summary) = view.summary.as_ref().filter(|_| reads.summary) {
        out.part(law.user_label, u64::from(summary.utf16), u64::from(summary.tokens));
    }
    let mut calls_of = None;
    for block in reads.blocks(view) {
        let i = block as usize;
        let is_cut = reads.cut.filter(|cut| block >= reads.from && block < cut.end);
        let part = |size: u64| is_cut.map_or(size, |cut| scale_ratio(size, cut.part, cut.whole));
        let text = part(view.text_utf16(block));
        let tokens = part(view.stored_of(block).map_or(u64::from(blocks.tokens[i]), |s| u64::from(s.tokens)));
        match blocks.kind[i] {
            BlockKind::Thinking | BlockKind::Image => {}
            BlockKind::UserText | BlockKind::AssistantText if text == 0 => {}
            BlockKind::UserText => out.part(law.user_label, text, tokens),
            BlockKind::AssistantText => out.part(law.assistant_label, text, tokens),
            BlockKind::ToolResult if view.is_text_for_pair(block) => {
                out.part(law.user_label, text, tokens);
            }
            BlockKind::ToolResult => {
                let images = view.session.parts_of(block).map_or(0, |p| u64::from(p.image_tokens));
                let quoted = text.min(law.result_cap);
                let share = scale_ratio(tokens.saturating_sub(images), quoted, text);
                let is_error = blocks.flags[i].has(Flags::ERROR);
                let rendered = law.result_utf16(view.tool_name_utf16(block), text, is_error);
                out.part(rendered - quoted, quoted, share);
            }
            BlockKind::ToolUse => {
                let quoted = view.tool_name_utf16(block) + part(u64::from(blocks.args_utf16[i]));
                if calls_of == Some(blocks.message[i]) {
                    out.append(law.call_separator + law.call_fixed, quoted, tokens);
                } else {
                    calls_of = Some(blocks.message[i]);
                    out.part(law.calls_label + law.call_fixed, quoted, tokens);
                }
            }
        }
    }
    out
}
