//! A prompt that does not fit and is shortened instead of refused.
//!
//! Whole messages leave from the start of the conversation, tools and system prompt stay, and no result stands
//! without its call (docs/sources.md D4: OpenAI `truncation: "auto"`; I: vendors that say nothing).
//!
//! # Divergence from the real API
//!
//! * Vendors may leave out more than is needed, since they set the output allowance aside; here as much stays as fits.
//! * The answer is as recorded, also where the real one would have been cut short.

use super::path::Path;
use super::{Marker, SentBlock, SentKind};

/// The first block of a conversation that stays, if leaving out what is between it and the prefix makes the prompt
/// fit into `limit_tokens`. `path` has the sizes of `blocks`.
pub(super) fn keeps_from(
    path: &Path,
    blocks: &[SentBlock],
    tail_tokens: u64,
    limit_tokens: u64,
) -> Option<usize> {
    let prefix = prefix_len(blocks);
    let tokens_before = |i: usize| i.checked_sub(1).map_or(0, |before| path.nodes[before].tokens);
    let total = tokens_before(blocks.len()) + tail_tokens;
    let starts = |i: usize| {
        blocks[i].kind != SentKind::ToolResult && (i == prefix || blocks[i].message != blocks[i - 1].message)
    };
    (prefix + 1..blocks.len())
        .filter(|&i| starts(i))
        .find(|&i| total - tokens_before(i) + tokens_before(prefix) <= limit_tokens)
}

/// Blocks in front of the messages.
pub(super) fn prefix_len(blocks: &[SentBlock]) -> usize {
    blocks.iter().take_while(|block| block.kind.is_prefix()).count()
}

/// What is left of a request: its blocks into `copy`, and its markers on what stays.
pub(super) fn shorten(
    blocks: &[SentBlock],
    markers: &[Marker],
    from: usize,
    copy: &mut Vec<SentBlock>,
) -> Vec<Marker> {
    let prefix = prefix_len(blocks);
    copy.clear();
    copy.extend_from_slice(&blocks[..prefix]);
    copy.extend_from_slice(&blocks[from..]);
    let gap = u32::try_from(from - prefix).unwrap_or(u32::MAX);
    let stays = |marker: &Marker| match marker.after as usize {
        after if after < prefix => Some(*marker),
        after if after >= from => Some(Marker { after: marker.after - gap, ..*marker }),
        _ => None,
    };
    markers.iter().filter_map(stays).collect()
}
