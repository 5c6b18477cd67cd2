//! Where the recent items begin that a rule leaves alone, and what replacing an older one saves.

use super::action::{Items, KeepRecent, StubRule, StubSize};
use super::estimate::EstimateLaw;
use super::plan::StubTokens;
use super::replace;
use super::strategy::Unit;
use super::stubs::is_replaced;
use super::turns;
use super::view::View;
use crate::session::BlockKind;

/// An item that may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Block and size of its stub, as a plan has them.
    pub stub: (u32, StubTokens),
    /// In the rule's own unit.
    pub saved: u64,
    /// UTF-16 units that leave the request.
    pub saved_utf16: u64,
}

impl Candidate {
    /// The item itself.
    pub fn block(&self) -> u32 {
        self.stub.0
    }
}

/// Whether the rule measures anything by the client's estimate.
pub(super) fn needs_law(stub: &StubRule) -> bool {
    stub.savings.unit == Unit::Estimate || stub.min_unit == Unit::Estimate
}

/// First block of what is recent: items from it on stay. `counted` are the results of the rule's tools.
pub(super) fn boundary(stub: &StubRule, view: &View<'_>, law: Option<&EstimateLaw>, counted: &[u32]) -> u32 {
    let keep = &stub.keep;
    let mut boundary = match keep.turns {
        Some(turns) if keep.turn == super::strategy::Turn::Assistant => view.turn_boundary(turns),
        Some(turns) => turns::boundary(view, keep.turn, turns, view.revealed),
        None => view.revealed,
    };
    if let Some(turns) = keep.thinking_turns {
        boundary = boundary.min(thinking_boundary(view, turns));
    }
    if let Some(results) = keep.results {
        let newest = results_boundary(stub, view, counted, results);
        // Arguments stand in front of the result that answers their call.
        let own = if stub.items == Items::Inputs { call_of(view, newest) } else { None };
        boundary = boundary.min(own.unwrap_or(newest));
    }
    if let Some(messages) = keep.messages {
        boundary = boundary.min(messages_boundary(view, messages, law.is_some_and(|l| l.merged)));
    }
    if let Some((tokens, law)) = keep.history_estimate.zip(law) {
        boundary = boundary.min(history_boundary(keep, view, law, tokens));
    }
    let newest = view.revealed;
    for size in &keep.sizes {
        boundary = boundary.min(size_boundary(keep, view, law, *size, newest));
    }
    let others = boundary;
    for size in &keep.beyond {
        boundary = boundary.min(size_boundary(keep, view, law, *size, others));
    }
    boundary
}

/// First block that is not one of the oldest items that stay.
pub(super) fn first_free(stub: &StubRule, view: &View<'_>) -> u32 {
    let kept = stub.keep_first.saturating_sub(stub.hidden_items);
    if kept == 0 {
        return 0;
    }
    let free = usize::try_from(kept).ok().and_then(|kept| view.results.get(kept));
    free.copied().unwrap_or(view.revealed)
}

/// With a quantum the boundary is at `floor((results + hidden) / quantum) × quantum − kept`, counted from the
/// oldest; without, at the `kept`-th result from the end.
fn results_boundary(stub: &StubRule, view: &View<'_>, results: &[u32], kept: u64) -> u32 {
    if stub.quantum <= 1 {
        let Some(last_kept) = usize::try_from(kept).ok().and_then(|n| n.checked_sub(1)) else {
            return view.revealed;
        };
        return results.iter().rev().nth(last_kept).copied().unwrap_or(view.live_from);
    }
    let counted = results.len() as u64 + stub.hidden_items;
    let removed = (counted / stub.quantum * stub.quantum).saturating_sub(kept);
    let shown = usize::try_from(removed.saturating_sub(stub.hidden_items)).unwrap_or(usize::MAX);
    if shown == 0 { view.live_from } else { results.get(shown).copied().unwrap_or(view.revealed) }
}

/// The call that a result answers.
pub(super) fn call_of(view: &View<'_>, result: u32) -> Option<u32> {
    let blocks = &view.session.blocks;
    let call = blocks.call.get(result as usize).filter(|_| result < view.revealed)?;
    view.live_in(0..result)
        .rev()
        .find(|b| blocks.kind[*b as usize] == BlockKind::ToolUse && blocks.call[*b as usize] == *call)
}

/// First block of the `kept`-th answer from the end that thinks.
fn thinking_boundary(view: &View<'_>, kept: u64) -> u32 {
    let Some(last_kept) = usize::try_from(kept).ok().and_then(|n| n.checked_sub(1)) else {
        return view.revealed;
    };
    let blocks = &view.session.blocks;
    let thinks = |b: u32| {
        let i = b as usize;
        blocks.kind[i] == BlockKind::Thinking && blocks.flags[i].is_replayable() && view.is_live(b)
    };
    let answers = view.answered.iter().rev().map(|step| view.session.steps[*step as usize].output.clone());
    let mut thinking = answers.filter(|output| output.clone().any(thinks));
    thinking.nth(last_kept).map_or(view.live_from, |output| output.start)
}

fn messages_boundary(view: &View<'_>, kept: u64, merged: bool) -> u32 {
    let mut from = view.revealed;
    for _ in 0..kept {
        let Some(last) = view.live.last_before(from) else { return view.live_from };
        from = view.message_to(last, merged).start;
    }
    from
}

/// First block of the newest messages that come to so many estimated tokens.
fn history_boundary(keep: &KeepRecent, view: &View<'_>, law: &EstimateLaw, tokens: u64) -> u32 {
    let mut from = view.revealed;
    let mut milli = 0;
    while let Some(last) = (view.live_from..from).rev().find(|b| view.is_live(*b)) {
        let message = view.message_to(last, law.merged);
        milli += view.message_milli(law, message.clone());
        if law.total(milli) > tokens {
            return if keep.drop_crossing { from } else { message.start };
        }
        from = message.start;
    }
    view.live_from
}

/// Walks from the newest result before `end` until they come to more than a size; what is replaced already does
/// not count.
fn size_boundary(
    keep: &KeepRecent,
    view: &View<'_>,
    law: Option<&EstimateLaw>,
    (unit, budget): (Unit, u64),
    end: u32,
) -> u32 {
    let last = view.results.partition_point(|b| *b < end);
    let mut sum = 0;
    let mut newer = end;
    let results = view.results[..last].iter().rev().copied();
    for block in results.filter(|b| !is_replaced(view, *b)) {
        sum += item_size(view, law, block, unit);
        if sum > budget {
            return if keep.drop_crossing { newer } else { block };
        }
        newer = block;
    }
    view.live_from
}

/// UTF-16 units of an item as stored; base64 of images is part of a result.
// Inlined: each looked-at item asks for it.
#[inline(always)]
fn item_utf16(view: &View<'_>, block: u32) -> u64 {
    match view.session.blocks.kind[block as usize] {
        BlockKind::ToolResult => view.result_utf16(block),
        _ => view.text_utf16(block),
    }
}

/// Size of an item as stored.
pub(super) fn item_size(view: &View<'_>, law: Option<&EstimateLaw>, block: u32, unit: Unit) -> u64 {
    view.work.add(1);
    match unit {
        Unit::Utf16 => item_utf16(view, block),
        Unit::Bytes => view.text_size(block).bytes,
        Unit::Lines => view.text_lines(block),
        Unit::Tokens => view.text_size(block).tokens,
        Unit::Estimate => law.map_or(0, |law| view.text_tokens(law, &view.text_size(block))),
        Unit::Count => 1,
    }
}

/// What stands for an item and what that saves; `None` where it is too small or its stub no shorter.
// Inlined: each looked-at item asks for it.
#[inline(always)]
pub(super) fn stub_for(
    stub: &StubRule,
    view: &View<'_>,
    law: Option<&EstimateLaw>,
    block: u32,
) -> Option<Candidate> {
    view.work.add(1);
    let utf16_before = item_utf16(view, block);
    let is_too_small = match stub.min_unit {
        Unit::Utf16 => utf16_before < stub.min,
        unit => stub.min > 0 && item_size(view, law, block, unit) < stub.min,
    };
    if is_too_small {
        return None;
    }
    let size = stub.size_for(|| view.tool(block));
    let (size, utf16, after) = match size {
        StubSize::Tokens(tokens) => {
            let full = view.text_size(block).tokens;
            let saved = full.checked_sub(*tokens).filter(|s| *s > 0)?;
            let stub = (block, StubTokens::Tokens(*tokens));
            return Some(Candidate { stub, saved, saved_utf16: utf16_before });
        }
        StubSize::Law(law) => {
            let utf16 = replace::stub_utf16(law, view, block, utf16_before);
            (StubTokens::Utf16(utf16), utf16, None)
        }
        StubSize::Ends(ends) => {
            let cut = replace::cut(view, block, ends)?;
            let size = StubTokens::Sized { tokens: u64::from(cut.tokens), utf16: u64::from(cut.utf16) };
            (size, u64::from(cut.utf16), Some(cut))
        }
        StubSize::Nothing => (StubTokens::Nothing, 0, None),
    };
    let saved_utf16 = utf16_before.checked_sub(utf16).filter(|s| *s > 0 || stub.items == Items::Thinking)?;
    let saved = if stub.savings.gross {
        item_size(view, law, block, stub.savings.unit)
    } else if stub.savings.unit == Unit::Utf16 {
        saved_utf16
    } else {
        let new = after.unwrap_or_else(|| replace::stored(stub, view, block));
        let left = match stub.savings.unit {
            Unit::Bytes => u64::from(new.bytes),
            Unit::Lines => u64::from(new.lines),
            Unit::Tokens => u64::from(new.tokens),
            Unit::Estimate => law.map_or(0, |law| view.text_tokens(law, &replace::text_of(&new))),
            Unit::Utf16 | Unit::Count => 0,
        };
        item_size(view, law, block, stub.savings.unit).saturating_sub(left)
    };
    Some(Candidate { stub: (block, size), saved, saved_utf16 })
}
