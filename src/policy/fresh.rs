//! What becomes of a result that just came back and was not sent yet.

use super::action::{Action, OffloadRule, TruncateRule};
use super::estimate::{EstimateLaw, TextSize};
use super::interpreter::Interpreter;
use super::items::item_size;
use super::laws::{Facts, excerpt, lines_in_part};
use super::plan::{Ingest, Offload};
use super::replace;
use super::strategy::{Measure, Unit};
use super::view::View;
use crate::session::Flags;

impl Interpreter<'_> {
    /// What becomes of a fresh result that is large enough for the rule.
    #[cold]
    pub(super) fn taken_in(&self, rule: usize, view: &View<'_>, result: u32) -> Option<Ingest> {
        let spec = &self.strategy.rules[rule];
        let is_error = view.session.blocks.flags[result as usize].has(Flags::ERROR);
        if !spec.action.errors().takes(is_error) || self.excepts(rule, view.session, result) {
            return None;
        }
        match &spec.action {
            Action::Offload(offload) => Some(Ingest::Offload(offload_of(offload, view, result))),
            Action::Truncate(TruncateRule { ends, .. }) => {
                replace::cut(view, result, ends).map(Ingest::Truncate)
            }
            Action::Stub(_) | Action::Summarize(_) => None,
        }
    }
}

/// Size of a fresh result. In UTF-16 units and bytes its parts are joined by a line feed.
#[inline]
pub(super) fn block_size(view: &View<'_>, law: Option<&EstimateLaw>, measure: Measure, block: u32) -> u64 {
    let Measure::Block(unit) = measure else { return 0 };
    let separators = separators(view, block);
    match unit {
        Unit::Utf16 => view.text_utf16(block) + separators,
        Unit::Bytes => item_size(view, law, block, unit) + separators,
        _ => item_size(view, law, block, unit),
    }
}

fn offload_of(offload: &OffloadRule, view: &View<'_>, result: u32) -> Offload {
    let blocks = &view.session.blocks;
    let i = result as usize;
    let separators = separators(view, result);
    let chars = u64::from(blocks.utf16[i]) + separators;
    let lines = u64::from(blocks.lines[i]);
    let text = TextSize { utf16: chars, bytes: u64::from(blocks.bytes[i]), ..TextSize::default() };
    let whole = match offload.unit {
        Unit::Lines => lines,
        Unit::Bytes => text.bytes,
        _ => chars,
    };
    let ends = excerpt(whole, offload.keep_head, offload.keep_tail);
    let kept_utf16 = if whole == chars {
        ends.head + ends.tail
    } else {
        crate::tokens::scale_ratio(chars, ends.head + ends.tail, whole)
    };
    let omitted_chars = chars - kept_utf16.min(chars);
    let (safe_tool, safe_call) = safe_names(view, result);
    let path_utf16 = offload.path.utf16(safe_tool, safe_call);
    let facts = Facts {
        tool_utf16: view.tool_name_utf16(result),
        path_utf16,
        chars,
        bytes: text.bytes + separators,
        lines,
        limit: offload.limit,
        omitted_chars,
        omitted_lines: lines_in_part(lines, omitted_chars, chars),
        is_error: blocks.flags[i].has(Flags::ERROR),
        ..Facts::default()
    };
    Offload {
        block: result,
        envelope_utf16: offload.stub.utf16(&facts),
        envelope_json_escapes: offload.stub.json_escapes,
        kept_utf16,
        path_utf16,
    }
}

/// Line feeds between the texts of a result.
fn separators(view: &View<'_>, result: u32) -> u64 {
    view.session.parts_of(result).map_or(0, |p| u64::from(p.texts.saturating_sub(1)))
}

/// File-name lengths of a result's tool and call; without a call, that of `unknown`.
fn safe_names(view: &View<'_>, result: u32) -> (u64, u64) {
    let call = view.session.calls.get(view.session.blocks.call[result as usize] as usize);
    (u64::from(view.tool_name(result).safe_utf16), call.map_or(7, |c| u64::from(c.safe_utf16)))
}
