//! Where a compaction cuts, and how long the transcript is that its summarizer reads.

use std::ops::Range;

use super::estimate::EstimateLaw;
use super::laws::TranscriptLaw;
use super::view::View;
use crate::session::{BlockKind, Flags};

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

/// Walks from the end until the messages come to `keep_tokens`, then back to the user message before;
/// a cut needs something in front of it. The start of the live history means: no cut.
pub fn cut_before_tail(view: &View<'_>, law: &EstimateLaw, keep_tokens: u64) -> u32 {
    let mut tokens = 0;
    let mut from = view.revealed;
    while tokens < keep_tokens {
        match message_before(view, from) {
            Some(range) => {
                from = range.start;
                tokens += view.message_size(law, range).tokens();
            }
            None => return view.live_from,
        }
    }
    loop {
        if is_user_message(view, from) && has_message_before(view, from) {
            return from;
        }
        match message_before(view, from) {
            Some(range) => from = range.start,
            None => return view.live_from,
        }
    }
}

fn is_user_message(view: &View<'_>, from: u32) -> bool {
    from < view.revealed
        && matches!(view.session.blocks.kind[from as usize], BlockKind::UserText | BlockKind::Image)
}

fn has_message_before(view: &View<'_>, from: u32) -> bool {
    view.summary.is_some() || message_before(view, from).is_some()
}

/// The live client message that ends right before block `end`.
fn message_before(view: &View<'_>, end: u32) -> Option<Range<u32>> {
    let messages = &view.session.blocks.message;
    let mut last = end;
    while last > view.live_from && !view.is_live(last - 1) {
        last -= 1;
    }
    if last <= view.live_from {
        return None;
    }
    let message = messages[(last - 1) as usize];
    let mut start = last - 1;
    while start > view.live_from && messages[(start - 1) as usize] == message && view.is_live(start - 1) {
        start -= 1;
    }
    Some(start..last)
}

/// Live client messages in a range of blocks, the summary included where the range starts with it.
pub fn messages_in(view: &View<'_>, range: Range<u32>) -> u64 {
    let mut count =
        u64::from(view.summary.is_some() && range.start == view.live_from && range.end > range.start);
    let mut last = None;
    for i in range.filter(|i| view.is_live(*i)) {
        let message = view.session.blocks.message[i as usize];
        if last != Some(message) {
            count += 1;
            last = Some(message);
        }
    }
    count
}

/// UTF-16 units of the transcript of the live blocks in `range`, and its number of parts; separators
/// left out. Results as stored, never as stubs: a compaction reads the unedited history.
pub fn transcript_utf16(law: &TranscriptLaw, view: &View<'_>, range: Range<u32>) -> (u64, u64) {
    let blocks = &view.session.blocks;
    let mut total = view.summary.map_or(0, |s| law.user_label + u64::from(s.utf16));
    let mut parts = u64::from(view.summary.is_some());
    let mut calls_of = None;
    for block in range.filter(|i| view.is_live(*i)) {
        let i = block as usize;
        let text = view.text_utf16(block);
        match blocks.kind[i] {
            BlockKind::Thinking | BlockKind::Image => continue,
            BlockKind::UserText | BlockKind::AssistantText if text == 0 => continue,
            BlockKind::UserText => total += law.user_label + text,
            BlockKind::AssistantText => total += law.assistant_label + text,
            BlockKind::ToolResult => {
                let is_error = blocks.flags[i].has(Flags::ERROR);
                total += law.result_utf16(view.tool_name_utf16(block), text, is_error);
            }
            BlockKind::ToolUse => {
                total += law.call_utf16(view.tool_name_utf16(block), u64::from(blocks.args_utf16[i]));
                if calls_of == Some(blocks.message[i]) {
                    total += law.call_separator;
                    continue;
                }
                calls_of = Some(blocks.message[i]);
                total += law.calls_label;
            }
        }
        parts += 1;
    }
    (total, parts)
}
