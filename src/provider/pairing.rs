//! Malformed requests: unpaired calls and results, and the paths that name them.
//!
//! Each tool call must be answered in the user turn right behind its assistant turn, each result must
//! answer such a call, and none twice. Calls and results without an id ([`NO_LINK`]) are not checked.
//!
//! # Divergence from the real API
//!
//! * A turn is a run of messages of one role, as the API sees it after merging; within the user turn
//!   results may stand anywhere, while the API wants them first.
//! * Server tools, which answer within the assistant turn, have no id here.

use super::{NO_LINK, Rejection, RejectionKind, SentBlock, SentKind};

/// Checks the turns that reach into `blocks[from..]`, given that those before were checked; `appended` if
/// `blocks[..from]` was a whole request in itself. `open` is scratch memory.
pub(crate) fn check(
    blocks: &[SentBlock],
    from: usize,
    appended: bool,
    open: &mut Vec<(u32, usize)>,
) -> Result<(), Rejection> {
    open.clear();
    let mut in_assistant_turn = false;
    let start = if appended { from } else { turn_start(blocks, from) };
    for (behind, block) in blocks[start..].iter().enumerate() {
        if !block.kind.is_assistant() {
            in_assistant_turn = false;
            if block.kind == SentKind::ToolResult && block.link != NO_LINK && !closes(open, block.link) {
                return Err(unexpected_result(blocks, start + behind));
            }
            continue;
        }
        if !in_assistant_turn {
            unanswered(blocks, open)?;
            in_assistant_turn = true;
        }
        if block.kind == SentKind::ToolUse && block.link != NO_LINK {
            open.push((block.link, start + behind));
        }
    }
    unanswered(blocks, open)
}

/// Takes the call that a result answers from those that are open, if it is there.
#[inline]
fn closes(open: &mut Vec<(u32, usize)>, call: u32) -> bool {
    // Nearly always one call is open.
    if open.pop_if(|(id, _)| *id == call).is_some() {
        return true;
    }
    let Some(at) = open.iter().position(|(id, _)| *id == call) else { return false };
    open.remove(at);
    true
}

/// Start of the last assistant turn that begins before `from`: what stands at `from` may answer its calls,
/// or fail to.
fn turn_start(blocks: &[SentBlock], from: usize) -> usize {
    let assistant = |i: usize| blocks[i].kind.is_assistant();
    (0..from.min(blocks.len())).rev().find(|&i| assistant(i) && (i == 0 || !assistant(i - 1))).unwrap_or(0)
}

#[inline]
fn unanswered(blocks: &[SentBlock], open: &[(u32, usize)]) -> Result<(), Rejection> {
    match open.first() {
        None => Ok(()),
        Some(&(id, index)) => Err(unanswered_call(blocks, id, index)),
    }
}

#[cold]
fn unanswered_call(blocks: &[SentBlock], id: u32, index: usize) -> Rejection {
    let message = format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}. Each `tool_use` \
         block must have a corresponding `tool_result` block in the next message.",
        blocks[index].message
    );
    invalid(blocks, Some(index), message)
}

#[cold]
fn unexpected_result(blocks: &[SentBlock], index: usize) -> Rejection {
    let message = format!(
        "{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block must have a \
         corresponding `tool_use` block in the previous message.",
        wire_path(blocks, index),
        blocks[index].link
    );
    invalid(blocks, Some(index), message)
}

/// An `invalid_request_error` at a block.
pub(crate) fn invalid(blocks: &[SentBlock], index: Option<usize>, message: String) -> Rejection {
    Rejection {
        kind: RejectionKind::InvalidRequest,
        message,
        block: index.map(|i| i as u32),
        path: index.map(|i| wire_path(blocks, i)),
    }
}

/// Path of a block in the request: `messages.{i}.content.{j}`, `tools.{i}` or `system.{i}`.
pub fn wire_path(blocks: &[SentBlock], index: usize) -> String {
    let block = &blocks[index];
    let before = &blocks[..index];
    let messages_start = blocks.iter().take_while(|b| b.kind.is_prefix()).count();
    if index < messages_start {
        let place = before.iter().filter(|b| b.kind == block.kind).count();
        let list = if block.kind == SentKind::Tool { "tools" } else { "system" };
        return format!("{list}.{place}");
    }
    let messages = &blocks[messages_start..index];
    let place = messages.iter().rev().take_while(|b| b.message == block.message).count();
    format!("messages.{}.content.{place}", block.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: SentKind, link: u32, message: u32) -> SentBlock {
        SentBlock { hash: 1, tokens: 1, link, message, kind, deferred: false, placeholder: false }
    }

    fn verdict(blocks: &[SentBlock], from: usize) -> Option<u32> {
        check(blocks, from, false, &mut Vec::new()).err().map(|r| r.block.unwrap())
    }

    #[test]
    fn pairs_pass_and_orphans_are_named_by_index() {
        use SentKind::{AssistantText, Text, ToolResult, ToolUse};
        let mut blocks = vec![
            block(SentKind::System, NO_LINK, 0),
            block(Text, NO_LINK, 0),
            block(ToolUse, 1, 1),
            block(ToolUse, 2, 1),
            block(ToolResult, 2, 2),
            block(ToolResult, 1, 2),
            block(Text, NO_LINK, 2),
            block(AssistantText, NO_LINK, 3),
        ];
        for from in 0..=blocks.len() {
            assert_eq!(verdict(&blocks, from), None, "from {from}");
        }
        let mut lost_result = blocks.clone();
        lost_result.remove(5);
        assert_eq!(verdict(&lost_result, 5), Some(2));
        let mut lost_last_result = blocks.clone();
        lost_last_result.drain(5..7);
        assert_eq!(verdict(&lost_last_result, 5), Some(2), "an assistant turn follows at once");
        let mut lost_call = blocks.clone();
        lost_call.remove(3);
        assert_eq!(verdict(&lost_call, 3), Some(3));
        blocks.push(block(ToolUse, 3, 3));
        assert_eq!(verdict(&blocks, 8), Some(8), "a call nobody answers");
        blocks.push(block(ToolResult, 3, 4));
        blocks.push(block(ToolResult, 3, 4));
        assert_eq!(verdict(&blocks, 9), Some(10), "a call answered twice");
    }

    #[test]
    fn paths_count_within_their_list() {
        let blocks = [
            block(SentKind::Tool, NO_LINK, 0),
            block(SentKind::Tool, NO_LINK, 0),
            block(SentKind::System, NO_LINK, 0),
            block(SentKind::Text, NO_LINK, 0),
            block(SentKind::AssistantText, NO_LINK, 1),
            block(SentKind::ToolUse, 1, 1),
        ];
        let paths: Vec<_> = (0..blocks.len()).map(|i| wire_path(&blocks, i)).collect();
        let expected = [
            "tools.0",
            "tools.1",
            "system.0",
            "messages.0.content.0",
            "messages.1.content.0",
            "messages.1.content.1",
        ];
        assert_eq!(paths, expected);
    }
}
