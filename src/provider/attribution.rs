//! Why tokens were not read: the split of `prompt − read` into new content and one cause.
//!
//! docs/decisions.md 27, with one addition: the tokens behind the last block (`tail_tokens`) are sent anew
//! with every request and count as new content, so a healthy request has no cause. Exactly:
//! `new = min(prompt − read, max(0, body − previous body) + tail)`, where the body is the prompt without
//! its tail; of a conversation's first request nothing is new content and everything is a cold start.
//!
//! # Divergence from the real API
//!
//! * The API's diagnostics name a broken prefix only by part (model, system, tools, messages); the cause
//!   here is the first that applies in the order of [`Cause`], judged at the deepest entry the previous
//!   request had read or written.
//! * While nothing at all has been cached, a request with a breakpoint that was too short is
//!   `below_minimum`, one without any is still a `cold_start`.

use super::cache::Store;
use super::model::CacheSpec;
use super::path::Path;
use super::{Marker, Miss, Request, SentKind};
use crate::cause::Cause;

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
    #[expect(clippy::too_many_arguments, reason = "the state of the provider at this instant, read only")]
    pub(crate) fn split(
        &self,
        spec: &CacheSpec,
        request: &Request<'_>,
        path: &Path,
        store: &Store,
        markers: &[Marker],
        read_tokens: u64,
        prompt_tokens: u64,
    ) -> Miss {
        let unread = prompt_tokens - read_tokens;
        let Some(previous_body_tokens) = self.previous_body_tokens else {
            let cause = (unread > 0).then_some(Cause::ColdStart);
            return Miss { new_tokens: 0, missed_tokens: unread, cause };
        };
        let tail_tokens = u64::from(request.tail_tokens);
        let grown = (prompt_tokens - tail_tokens).saturating_sub(previous_body_tokens);
        let new_tokens = unread.min(grown + tail_tokens);
        let missed_tokens = unread - new_tokens;
        if missed_tokens == 0 {
            return Miss { new_tokens, missed_tokens, cause: None };
        }
        let cause = self.cause(spec, request.at_ms, path, store, markers, read_tokens);
        Miss { new_tokens, missed_tokens, cause: Some(cause) }
    }

    fn cause(
        &self,
        spec: &CacheSpec,
        at_ms: i64,
        path: &Path,
        store: &Store,
        markers: &[Marker],
        read_tokens: u64,
    ) -> Cause {
        let Some(expected) = self.expected else {
            return if self.below_minimum { Cause::BelowMinimum } else { Cause::ColdStart };
        };
        let at_chain = |index: &usize| path.nodes.get(*index).is_some_and(|n| n.chain == expected.chain);
        let moved = || path.cached.iter().map(|c| c.index as usize).rfind(at_chain);
        let on_path = Some(expected.index as usize).filter(at_chain).or_else(moved);
        let entry = match on_path {
            Some(index) => path.cached_at(index as u32).map(|at| path.cached[at].entry),
            None => store.get(expected.chain).copied(),
        };
        let Some(entry) = entry.filter(|e| e.is_live(at_ms)) else { return Cause::TtlExpired };
        let Some(index) = on_path else {
            return self.cut.map_or(Cause::PrefixUnknown, |(_, cause)| cause);
        };
        if read_tokens >= expected.tokens {
            return Cause::Unknown;
        }
        let position = path.nodes[index].position;
        let in_view = |m: &Marker| {
            let at = path.nodes[m.after as usize].position;
            m.after as usize >= index && position + spec.lookback_positions > at
        };
        if !markers.iter().any(in_view) {
            Cause::Lookback
        } else if at_ms < entry.readable_from_ms {
            Cause::NotYetReadable
        } else {
            Cause::Unknown
        }
    }

    /// A request was served.
    pub(crate) fn served(&mut self, spec: &CacheSpec, path: &Path, markers: &[Marker], body_tokens: u64) {
        self.previous_body_tokens = Some(body_tokens);
        self.cut = None;
        if let Some(last) = markers.last() {
            let node = &path.nodes[last.after as usize];
            self.below_minimum = node.tokens < spec.minimum_tokens;
            if !self.below_minimum {
                self.expected = Some(Expected { index: last.after, chain: node.chain, tokens: node.tokens });
            }
        }
    }
}
