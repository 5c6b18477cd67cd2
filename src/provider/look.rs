//! What a request reads.
//!
//! Rules: docs/sources.md A2 (breakpoints), D1 (ends of messages), D2, E and F (prefixes), G (blocks).
//!
//! # Divergence from the real API
//!
//! * Two prompts share whole content blocks: where a block differs, the tokens it has in common with its other
//!   version are not read.
//! * A message ends where the role changes, and where results of tools are followed by something else; two
//!   messages of the user in a row are one.
//! * Of breakpoints in an OpenAI request those looked at are the first two and the latest fifty (the guide; the
//!   reference says the latest eighty).
//! * Chance (what a cache lost, or did not find) is drawn from the prefix and the instant, so the same request
//!   comes out the same in every run of one seed.
//! * What the model answered is known by the blocks the next request carries, hidden thinking among them only
//!   if the client returns it.

use super::cache_spec::{AnyPrefix, Breakpoints, CacheKind, CacheSpec, MessageEnds, Retention};
use super::path::Path;
use super::{Marker, Request, SentBlock, SentKind};
use crate::seed;

/// What is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) tokens: u64,
    /// Index on the path's stack of the entry that is read; of caches with entries only.
    pub(crate) entry: Option<usize>,
    /// Chance had it that less was read than is held.
    pub(crate) lost: bool,
}

/// What `request` reads of the path it is on.
// Inlined, so that the reading stays in registers: copied through memory it stalls.
#[inline(always)]
pub(crate) fn read(
    path: &Path,
    spec: &CacheSpec,
    request: &Request<'_>,
    markers: &[Marker],
    prompt_tokens: u64,
    seed: u64,
) -> Reading {
    let entry = match &spec.kind {
        CacheKind::Breakpoints(cache) => at_breakpoint(path, cache, markers, request.at_ms),
        CacheKind::MessageEnds(cache) => at_message_end(path, cache, request),
        CacheKind::Prefix(_) | CacheKind::PrefixUnits(_) | CacheKind::Blocks(_) => {
            let Some(cache) = spec.any_prefix() else { return Reading::default() };
            return of_prefix(path, spec, &cache, request.at_ms, prompt_tokens, seed);
        }
    };
    let tokens = entry.map_or(0, |at| path.nodes[path.cached[at].index as usize].tokens);
    Reading { tokens, entry, lost: false }
}

/// For each breakpoint, last first, the nearest entry that can be read among the positions looked at.
fn at_breakpoint(path: &Path, cache: &Breakpoints, markers: &[Marker], at_ms: i64) -> Option<usize> {
    let mut top = path.cached.len();
    for marker in markers.iter().rev() {
        if path.cached[..top].last().is_some_and(|c| c.index > marker.after) {
            top = path.cached[..top].partition_point(|c| c.index <= marker.after);
        }
        let position = path.nodes[marker.after as usize].position;
        let in_view =
            path.cached[..top].iter().rev().take_while(|c| c.position + cache.lookback_positions > position);
        if let Some(back) = in_view.map(|c| c.entry.hits(at_ms)).position(|hits| hits) {
            return Some(top - 1 - back);
        }
    }
    None
}

/// The deepest entry that can be read at a place that is looked at.
fn at_message_end(path: &Path, cache: &MessageEnds, request: &Request<'_>) -> Option<usize> {
    let mut places = Places::of(cache, request);
    let readable = path.cached.iter().enumerate().rev().filter(|(_, c)| c.entry.hits(request.at_ms));
    for (at, cached) in readable {
        if places.hold(cached.index) {
            return Some(at);
        }
        if places.are_exhausted() {
            return None;
        }
    }
    None
}

/// Whether the entry at `index` is at a place that is looked at.
pub(crate) fn message_end_in_view(cache: &MessageEnds, request: &Request<'_>, index: u32) -> bool {
    Places::of(cache, request).hold(index)
}

/// The places at which a request is looked up, gone through from its end.
struct Places<'r> {
    blocks: &'r [SentBlock],
    /// Explicit breakpoints looked at, from the front and from the back.
    first: &'r [Marker],
    last: &'r [Marker],
    /// Ends of messages that may still be looked at.
    endings: u32,
    /// Blocks from here on have been gone through.
    gone: usize,
}

impl<'r> Places<'r> {
    fn of(cache: &MessageEnds, request: &Request<'r>) -> Places<'r> {
        let markers = request.markers;
        let first = &markers[..markers.len().min(cache.lookup_first_markers as usize)];
        let last = &markers[markers.len().saturating_sub(cache.lookup_last_markers as usize)..];
        let endings = if is_implicit(request) { cache.lookback_endings + 1 } else { 0 };
        Places { blocks: request.blocks, first, last, endings, gone: request.blocks.len() }
    }

    /// Whether this place is one of them; places are asked for from the end.
    fn hold(&mut self, index: u32) -> bool {
        let at = index as usize;
        while self.gone > at && self.endings > 0 {
            self.gone -= 1;
            if is_ending(self.blocks, self.gone) {
                self.endings -= 1;
                if self.gone == at {
                    return true;
                }
            }
        }
        self.first.iter().chain(self.last).any(|m| m.after == index)
    }

    fn are_exhausted(&self) -> bool {
        self.endings == 0 && self.first.is_empty() && self.last.is_empty()
    }
}

/// Whether the request has a breakpoint of the provider's own: it asks for one, or for none at all.
pub(crate) fn is_implicit(request: &Request<'_>) -> bool {
    request.automatic.is_some() || request.markers.is_empty()
}

/// Whether a message that is not the model's ends with this block.
pub(crate) fn is_ending(blocks: &[SentBlock], index: usize) -> bool {
    let block = &blocks[index];
    let is_result = |b: &SentBlock| b.kind == SentKind::ToolResult;
    !block.kind.is_assistant()
        && blocks.get(index + 1).is_none_or(|next| {
            next.kind.is_assistant()
                || next.kind.is_prefix() != block.kind.is_prefix()
                || next.message != block.message
                || (is_result(block) && !is_result(next))
        })
}

/// The longest prefix that is held, as far as it can be read.
fn of_prefix(
    path: &Path,
    spec: &CacheSpec,
    cache: &AnyPrefix,
    at_ms: i64,
    prompt_tokens: u64,
    seed: u64,
) -> Reading {
    let Some(shared) = path.shared(at_ms) else { return Reading::default() };
    let node = &path.nodes[shared as usize];
    let held_tokens = match &cache.retention {
        None => node.tokens,
        Some(retention) => {
            let idle_ms = path.held_at(shared).map_or(0, |e| at_ms - (e.expires_ms - spec.short_ttl_ms));
            let keys = [node.chain, at_ms.cast_unsigned()];
            match draw(retention, idle_ms, seed, &keys) {
                Chance::Kept => node.tokens,
                Chance::Part { percent } => node.tokens * percent / 100,
                Chance::Lost if retention.keeps_static_prefix => path.static_prefix_tokens().min(node.tokens),
                Chance::Lost => 0,
            }
        }
    };
    let on_grid = cache.grid.map_or(0, |grid| grid.floor(held_tokens.min(cache.max_tokens)));
    let unit = if cache.units { path.unit_below(shared) } else { None };
    let mut tokens = on_grid.max(unit.map_or(0, |i| path.nodes[i as usize].tokens));
    if cache.recomputes_last_token
        && let Some(grid) = cache.grid
    {
        tokens = tokens.min(grid.floor(prompt_tokens.saturating_sub(1)));
    }
    if tokens < spec.minimum_tokens {
        tokens = 0;
    }
    Reading { tokens, entry: None, lost: held_tokens < node.tokens }
}

enum Chance {
    Kept,
    Part { percent: u64 },
    Lost,
}

fn draw(retention: &Retention, idle_ms: i64, seed: u64, keys: &[u64]) -> Chance {
    let loss = retention.at(idle_ms);
    let mut rng = seed::stream(seed, "cache_retention", keys);
    let roll = seed::below(&mut rng, 100);
    let lost = u64::from(loss.lost_percent);
    if roll < lost {
        Chance::Lost
    } else if roll < lost + u64::from(loss.partial_percent) {
        Chance::Part { percent: 50 + seed::below(&mut rng, 46) }
    } else {
        Chance::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::NO_LINK;
    use super::*;

    fn block(kind: SentKind, message: u32) -> SentBlock {
        SentBlock { hash: 1, tokens: 1, link: NO_LINK, message, kind, deferred: false, placeholder: false }
    }

    #[test]
    fn messages_of_others_than_the_model_end() {
        use SentKind::{AssistantText, Image, System, Text, Tool, ToolResult};
        let kinds = [
            (Tool, 0, false),
            (System, 0, true),
            (Text, 0, false),
            (Image, 0, true),
            (AssistantText, 1, false),
            (ToolResult, 2, false),
            (ToolResult, 2, true),
            (Text, 2, true),
            (Text, 3, true),
        ];
        let blocks: Vec<SentBlock> = kinds.iter().map(|(kind, message, _)| block(*kind, *message)).collect();
        for (i, (kind, _, ends)) in kinds.iter().enumerate() {
            assert_eq!(is_ending(&blocks, i), *ends, "{i}: {kind:?}");
        }
    }
}
