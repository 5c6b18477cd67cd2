//! Why tokens were not read: the split of `prompt − read` into new content and one cause.
//!
//! docs/decisions.md 27, with one addition: the tokens behind the last block (`tail_tokens`) are sent anew
//! with every request and count as new content, so a healthy request has no cause. Exactly:
//! `new = min(prompt − read, max(0, body − previous body) + tail)`, where the body is the prompt without
//! its tail; of a conversation's first request nothing is new content and everything is a cold start. Where a
//! cache holds whole units of a grid only, the end of a prompt that fills none was never in it and is new content
//! of the request after it: the previous body is rounded down to the grid.
//!
//! # Divergence from the real API
//!
//! * The API's diagnostics name a broken prefix only by part (model, system, tools, messages); the cause
//!   here is the first that applies in the order of [`Cause`], judged at the deepest entry the previous
//!   request had read or written.
//! * What chance took from a cache that promises nothing is `evicted`.
//! * While nothing at all has been cached, a request with a breakpoint that was too short is
//!   `below_minimum`, one without any is still a `cold_start`.

use super::cache::Store;
use super::cache_spec::{CacheKind, CacheSpec};
use super::look::{Reading, message_end_in_view};
use super::path::Path;
use super::{Marker, Miss, Request, SentKind};
use crate::cause::Cause;

/// The state of the provider when a request has been looked up and nothing was written for it yet.
pub(crate) struct Split<'a> {
    pub(crate) spec: &'a CacheSpec,
    pub(crate) request: &'a Request<'a>,
    pub(crate) path: &'a Path,
    pub(crate) store: &'a Store,
    pub(crate) markers: &'a [Marker],
}

/// What the previous request left to be read.
#[derive(Debug, Clone, Copy)]
struct Expected {
    index: u32,
    chain: u64,
    tokens: u64,
}

/// State between the requests of a conversation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attribution {
    /// Prompt without tail of the request served last; `None` before the first.
    previous_body_tokens: Option<u64>,
    expected: Option<Expected>,
    /// The last breakpoint was too short to be written.
    below_minimum: bool,
    /// First block at which the prompt diverged since the request served last, and why.
    cut: Option<(usize, Cause)>,
}

impl Attribution {
    /// A request comes in that differs from the last call, whose path has `known` blocks.
    pub(crate) fn edited(&mut self, request: &Request<'_>, known: usize) {
        let at = request.changed_from;
        if at >= known {
            return;
        }
        let cause = request.change.unwrap_or_else(|| match request.blocks.get(at).map(|b| b.kind) {
            Some(SentKind::Tool) => Cause::PrefixTools,
            Some(SentKind::System) => Cause::PrefixSystem,
            Some(SentKind::Image) => Cause::PrefixImage,
            Some(SentKind::Thinking) => Cause::PrefixThinking,
            _ => Cause::PrefixUnknown,
        });
        self.lower(at, cause);
    }

    /// The provider itself made the prompt diverge.
    pub(crate) fn cut(&mut self, own_cut: Option<(usize, Cause)>) {
        if let Some((at, cause)) = own_cut {
            self.lower(at, cause);
        }
    }

    fn lower(&mut self, at: usize, cause: Cause) {
        if self.cut.is_none_or(|(lowest, _)| at < lowest) {
            self.cut = Some((at, cause));
        }
    }

    /// Splits what a request did not read, before anything is written for it.
    pub(crate) fn split(&self, scene: &Split<'_>, reading: &Reading, prompt_tokens: u64) -> Miss {
        let unread = prompt_tokens - reading.tokens;
        let Some(previous_body_tokens) = self.previous_body_tokens else {
            let cause = (unread > 0).then_some(Cause::ColdStart);
            return Miss { new_tokens: 0, missed_tokens: unread, cause };
        };
        let tail_tokens = u64::from(scene.request.tail_tokens);
        let grown = (prompt_tokens - tail_tokens).saturating_sub(previous_body_tokens);
        let new_tokens = unread.min(grown + tail_tokens);
        let missed_tokens = unread - new_tokens;
        if missed_tokens == 0 {
            return Miss { new_tokens, missed_tokens, cause: None };
        }
        Miss { new_tokens, missed_tokens, cause: Some(self.cause(scene, reading)) }
    }

    fn cause(&self, scene: &Split<'_>, reading: &Reading) -> Cause {
        let Split { spec, request, path, store, markers } = scene;
        let at_ms = request.at_ms;
        let Some(expected) = self.expected else {
            return if self.below_minimum { Cause::BelowMinimum } else { Cause::ColdStart };
        };
        let at_chain = |index: &usize| path.nodes.get(*index).is_some_and(|n| n.chain == expected.chain);
        let moved = || path.cached.iter().map(|c| c.index as usize).rfind(at_chain);
        let on_path = Some(expected.index as usize).filter(at_chain).or_else(moved);
        let entry = match on_path {
            Some(index) => path.held_at(index as u32),
            None => store.get(expected.chain).copied(),
        };
        let Some(entry) = entry.filter(|e| e.is_live(at_ms)) else { return Cause::TtlExpired };
        let Some(index) = on_path else {
            return self.cut.map_or(Cause::PrefixUnknown, |(_, cause)| cause);
        };
        if reading.tokens >= expected.tokens {
            return Cause::Unknown;
        }
        if !is_in_view(spec, request, path, markers, index) {
            Cause::Lookback
        } else if at_ms < entry.readable_from_ms {
            Cause::NotYetReadable
        } else if reading.lost {
            Cause::Evicted
        } else if spec.exceeds_cacheable(expected.tokens) {
            Cause::ProviderSide
        } else {
            Cause::Unknown
        }
    }

    /// A request was served.
    pub(crate) fn served(&mut self, spec: &CacheSpec, path: &Path, markers: &[Marker], body_tokens: u64) {
        let held_tokens = spec.held_tokens(body_tokens);
        let is_whole = held_tokens < spec.minimum_tokens;
        self.previous_body_tokens = Some(if is_whole { body_tokens } else { held_tokens });
        self.cut = None;
        let last = match spec.holds_prefixes() {
            true => path.nodes.len().checked_sub(1).map(|last| end_of_whole(spec, path, last)),
            false => markers.last().map(|m| m.after as usize),
        };
        if let Some(last) = last {
            let node = &path.nodes[last];
            let tokens = spec.held_tokens(node.tokens);
            self.below_minimum = tokens < spec.minimum_tokens;
            if !self.below_minimum {
                self.expected = Some(Expected { index: last as u32, chain: node.chain, tokens });
            }
        }
    }
}

/// Where the next prompt can go on behind a prompt that ends at node `last`: in front of a token block of its own that is
/// not full, because the next prompt has another one there.
fn end_of_whole(spec: &CacheSpec, path: &Path, last: usize) -> usize {
    let tokens_at = |at: usize| path.nodes[at].tokens;
    match last.checked_sub(1) {
        Some(before) if spec.keeps_partial_blocks() => {
            let is_whole = spec.held_tokens(tokens_at(before)) == tokens_at(before);
            let is_unfilled = spec.held_tokens(tokens_at(last)) == tokens_at(before);
            if is_whole && is_unfilled { before } else { last }
        }
        _ => last,
    }
}

/// Whether the request looks where the entry at block `index` is.
fn is_in_view(
    spec: &CacheSpec,
    request: &Request<'_>,
    path: &Path,
    markers: &[Marker],
    index: usize,
) -> bool {
    match &spec.kind {
        CacheKind::Breakpoints(cache) => markers.iter().any(|m| {
            let at = path.nodes[m.after as usize].position;
            m.after as usize >= index && path.nodes[index].position + cache.lookback_positions > at
        }),
        CacheKind::MessageEnds(cache) => message_end_in_view(cache, request, index as u32),
        CacheKind::Prefix(_) | CacheKind::PrefixUnits(_) | CacheKind::Blocks(_) => true,
    }
}
