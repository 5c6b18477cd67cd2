//! Sizes of what stands for an item: a stub, or its two ends with a marker between them.

use super::action::{Ends, Items, StubRule, StubSize};
use super::estimate::TextSize;
use super::laws::{Facts, Figure, StubLaw, lines_in_part};
use super::strategy::Unit;
use super::view::{Stored, View};
use crate::session::Flags;
use crate::tokens::{scale_milli, scale_ratio};

/// What a stub of `block` may print.
pub fn facts(view: &View<'_>, block: u32) -> Facts {
    let chars = view.result_utf16(block);
    let i = block as usize;
    let blocks = &view.session.blocks;
    let name = view.tool_name(block);
    let stored = view.stored_of(block);
    Facts {
        tool_utf16: u64::from(name.utf16),
        tool_json_utf16: u64::from(name.json_utf16),
        path_utf16: stored.map_or(0, |s| u64::from(s.path_utf16)),
        chars,
        bytes: u64::from(stored.map_or(blocks.bytes[i], |s| s.bytes)),
        lines: u64::from(stored.map_or(blocks.lines[i], |s| s.lines)),
        is_error: blocks.flags[i].has(Flags::ERROR),
        ..Facts::default()
    }
}

/// UTF-16 units of a stub for an item of `chars`: as [`StubLaw::utf16`] of its facts.
// Inlined, with the law: each looked-at item asks for it.
#[inline(always)]
pub(super) fn stub_utf16(law: &StubLaw, view: &View<'_>, block: u32, chars: u64) -> u64 {
    let name = view.tool_name(block);
    let stored = view.stored_of(block);
    let path_utf16 = stored.map_or(0, |s| u64::from(s.path_utf16));
    let names = [u64::from(name.utf16), u64::from(name.json_utf16), path_utf16];
    let blocks = &view.session.blocks;
    let i = block as usize;
    law.utf16_of(names, blocks.flags[i].has(Flags::ERROR), |figure| match figure {
        Figure::Chars => chars,
        Figure::Bytes => u64::from(stored.map_or(blocks.bytes[i], |s| s.bytes)),
        Figure::Lines => u64::from(stored.map_or(blocks.lines[i], |s| s.lines)),
        // What a stub of a whole item leaves unsaid.
        Figure::Limit | Figure::OmittedChars | Figure::OmittedLines | Figure::OmittedBytes => 0,
    })
}

/// Text sizes of stored content.
pub fn text_of(stored: &Stored) -> TextSize {
    TextSize {
        utf16: u64::from(stored.utf16),
        bytes: u64::from(stored.bytes),
        ascii: u64::from(stored.ascii),
        tokens: u64::from(stored.tokens),
    }
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Tokens of a text of the client's own in the place of `block`.
fn own_tokens(view: &View<'_>, block: u32, utf16: u64) -> u64 {
    let c = &view.session.coefficients;
    let is_call = view.session.blocks.kind[block as usize] == crate::session::BlockKind::ToolUse;
    scale_milli(utf16, u64::from(if is_call { c.tool_use_milli } else { c.tool_result_milli }))
}

/// Tokens of the images of a result.
fn image_tokens(view: &View<'_>, block: u32) -> u64 {
    view.session.parts_of(block).map_or(0, |p| u64::from(p.image_tokens))
}

/// The stored content that `stub` leaves of an item; images stay.
pub fn stored(stub: &StubRule, view: &View<'_>, block: u32) -> Stored {
    let path_utf16 = view.stored_of(block).map_or(0, |s| s.path_utf16);
    let images = image_tokens(view, block);
    match stub.size_for(|| view.tool(block)) {
        StubSize::Ends(ends) => {
            cut(view, block, ends).unwrap_or_else(|| text_stored(view, block, 0, 0, 0, path_utf16, images))
        }
        StubSize::Law(law) => {
            let mut facts = facts(view, block);
            facts.chars = view.text_size(block).utf16;
            let utf16 = law.utf16(&facts);
            text_stored(view, block, utf16, law.wide, law.json_escapes, path_utf16, images)
        }
        StubSize::Tokens(_) | StubSize::Nothing => {
            let utf16 = if stub.items == Items::Inputs { 2 } else { 0 };
            text_stored(view, block, utf16, 0, 0, path_utf16, images)
        }
    }
}

fn text_stored(
    view: &View<'_>,
    block: u32,
    utf16: u64,
    wide: u64,
    escapes: u64,
    path_utf16: u32,
    images: u64,
) -> Stored {
    Stored {
        block,
        utf16: narrow(utf16),
        bytes: narrow(utf16 + 2 * wide),
        json_utf16: narrow(utf16 + escapes),
        lines: u32::from(utf16 > 0),
        tokens: narrow(own_tokens(view, block, utf16) + images),
        path_utf16,
        ascii: narrow(utf16 - wide.min(utf16)),
        is_text: false,
    }
}

/// Size of `text` in a unit that ends may be measured in.
fn measured(text: &TextSize, lines: u64, unit: Unit) -> u64 {
    match unit {
        Unit::Bytes => text.bytes,
        Unit::Lines => lines,
        Unit::Tokens => text.tokens,
        Unit::Utf16 | Unit::Estimate | Unit::Count => text.utf16,
    }
}

/// How much of a text of `whole` stays at its two ends, and the size of the marker; `None` if all of it does.
///
/// With a budget the marker names what does not fit in it, so its own length follows from the text.
pub fn kept(ends: &Ends, whole: u64, facts: &Facts) -> Option<(u64, u64, u64)> {
    let named = |omitted: u64| match ends.unit {
        Unit::Bytes => Facts { omitted_bytes: omitted, omitted_chars: omitted, ..*facts },
        Unit::Lines => Facts { omitted_lines: omitted, ..*facts },
        _ => Facts { omitted_chars: omitted, omitted_bytes: omitted, ..*facts },
    };
    let Some(budget) = ends.budget else {
        if whole <= ends.head.saturating_add(ends.tail) {
            return None;
        }
        let marker = ends.marker.utf16(&named(whole - ends.head - ends.tail));
        return Some((ends.head, ends.tail, marker));
    };
    if whole <= budget {
        return None;
    }
    let marker = ends.marker.utf16(&named(whole - budget));
    let left = budget.saturating_sub(marker + 2 * ends.marker.wide * u64::from(ends.unit == Unit::Bytes));
    let head = left * ends.head.min(100) / 100;
    Some((head, left - head, marker))
}

/// A text cut down to its two ends; `None` if it is short enough.
pub fn cut(view: &View<'_>, block: u32, ends: &Ends) -> Option<Stored> {
    let text = view.text_size(block);
    let lines = view.text_lines(block);
    let whole = measured(&text, lines, ends.unit);
    let mut facts = facts(view, block);
    if ends.unit != Unit::Lines {
        let (head, tail) = (ends.head.min(whole), ends.tail.min(whole));
        facts.omitted_lines = lines_in_part(lines, whole.saturating_sub(head + tail), whole);
    }
    let (head, tail, marker) = kept(ends, whole, &facts)?;
    let part = |size: u64| scale_ratio(size, head + tail, whole);
    let images = image_tokens(view, block);
    let i = block as usize;
    let json = view.stored_of(block).map_or(view.session.blocks.json_utf16[i], |s| s.json_utf16);
    let kept_tokens = part(text.tokens.saturating_sub(images));
    Some(Stored {
        block,
        utf16: narrow(marker + part(text.utf16)),
        bytes: narrow(marker + 2 * ends.marker.wide + part(text.bytes)),
        json_utf16: narrow(marker + ends.marker.json_escapes + part(u64::from(json))),
        lines: narrow(1 + part(lines)),
        tokens: narrow(own_tokens(view, block, marker) + kept_tokens + images),
        path_utf16: view.stored_of(block).map_or(0, |s| s.path_utf16),
        ascii: narrow(marker - ends.marker.wide.min(marker) + part(text.ascii)),
        is_text: false,
    })
}
