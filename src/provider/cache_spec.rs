//! What a model's cache is like: where it can be read, what it keeps and for how long, as data.
//!
//! Two families. In the first an entry stands at a place that the request or the vendor names, and only there can
//! it be read ([`CacheKind::Breakpoints`], [`CacheKind::MessageEnds`]). In the second everything served before can be
//! read from its beginning, as far as whole units go ([`CacheKind::Prefix`], [`CacheKind::PrefixUnits`],
//! [`CacheKind::Blocks`]).
//!
//! Rules: docs/sources.md A (Anthropic), D1 and D2 (OpenAI), E (Gemini), F (the others), G (self-hosted engines).
//!
//! # Divergence from the real API
//!
//! * What a vendor does not publish (lives of implicit caches, minimums, grids) is assumed where the model's file
//!   says so, and can be set there.
//! * Routing by a cache key, and the number of requests a minute that one key carries, are not modelled.

use serde::{Deserialize, Serialize};

pub use super::block_cache::{BlockSpec, Eviction};

/// What a cache hit refreshes besides the entry it matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// Every live entry at a position marked in the request and before the match, each with its own
    /// life (measured, docs/sources.md A4).
    MatchedAndMarkedBefore,
    /// Nothing else.
    MatchedOnly,
}

/// Which changes in the number of images lose the cache of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageToggle {
    /// None (measured for Claude, docs/sources.md A7).
    Never,
    /// The first image of a conversation, or its removal.
    First,
    /// Any image added or removed (as documented).
    Any,
}

/// How much of the cache a change of [`super::Params::messages_key`] loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParametersLevel {
    /// The messages.
    Messages,
    /// Everything.
    All,
}

/// The cache of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSpec {
    /// Shortest prefix that is cached, in tokens.
    pub minimum_tokens: u64,
    /// Short life; the only one where a client cannot choose.
    pub short_ttl_ms: i64,
    /// Long life.
    pub long_ttl_ms: i64,
    /// What images do.
    pub image_toggle_invalidates: ImageToggle,
    /// What parameters do.
    pub parameters_invalidate: ParametersLevel,
    /// Time until a response begins, for requests that share a cache.
    pub ttft_ms: u32,
    /// Where it can be read.
    pub kind: CacheKind,
}

/// Where a cache can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// At breakpoints of earlier requests, near those of the present one.
    Breakpoints(Breakpoints),
    /// At ends of messages.
    MessageEnds(MessageEnds),
    /// Anywhere on a grid.
    Prefix(PrefixCache),
    /// At ends of persisted units.
    PrefixUnits(PrefixUnits),
    /// At ends of whole blocks.
    Blocks(BlockSpec),
}

impl CacheKind {
    /// Its name in model files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Breakpoints(_) => "breakpoints",
            Self::MessageEnds(_) => "message_ends",
            Self::Prefix(_) => "prefix",
            Self::PrefixUnits(_) => "prefix_units",
            Self::Blocks(_) => "blocks",
        }
    }

    /// Whether nothing is cached but what a client marks.
    pub fn needs_markers(&self) -> bool {
        matches!(self, Self::Breakpoints(_))
    }

    /// Whether tokens written are billed as such; else they are plain input.
    pub fn bills_writes(&self) -> bool {
        matches!(self, Self::Breakpoints(_) | Self::MessageEnds(_))
    }
}

/// Explicit breakpoints (docs/sources.md A; Qwen's explicit mode and Kimi's writes in F).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breakpoints {
    /// Positions looked at per breakpoint, the breakpoint itself included.
    pub lookback_positions: u32,
    /// Most breakpoints of a request, the automatic one included.
    pub max_markers: u32,
    /// What a hit refreshes.
    pub refresh: Refresh,
}

/// An implicit breakpoint at the end of the latest message that is not the model's, besides explicit ones; writes
/// are billed (docs/sources.md D1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageEnds {
    /// Most entries a request writes: the implicit one and the latest explicit ones.
    pub max_writes: u32,
    /// Earlier ends of messages that are looked at, besides the latest.
    pub lookback_endings: u32,
    /// Explicit breakpoints that are looked at: so many from the front …
    pub lookup_first_markers: u32,
    /// … and so many from the back.
    pub lookup_last_markers: u32,
}

/// The longest prefix in common with anything served, rounded down to a grid; nothing is billed for writing
/// (docs/sources.md D2, E, F).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixCache {
    /// What a read is rounded down to.
    pub grid: Grid,
    /// The model's own answer is cached behind the prompt.
    pub covers_answers: bool,
    /// The last token of a prompt is computed anew even if all of it is cached.
    pub recomputes_last_token: bool,
    /// Most tokens of a prompt that are ever read, however long the prefix in common is; `None`: all. No vendor
    /// documents such a limit; users reported reads that stayed the same for hours while the prompt grew.
    pub cacheable_max_tokens: Option<u64>,
    /// Whether it holds what it could hold; `None`: always.
    pub retention: Option<Retention>,
}

/// Units persisted at the end of a prompt, at the end of its answer, and where requests turned out to share a
/// prefix; a read covers whole units (docs/sources.md F, DeepSeek).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixUnits {
    /// A unit ends at every multiple of so many tokens, too; `None`: it does not (the vendor's number is not known).
    pub interval_tokens: Option<u64>,
}

/// Multiples of `step_tokens`, less `offset_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// At least 1; 1 rounds nothing.
    pub step_tokens: u64,
    /// Below `step_tokens`.
    pub offset_tokens: u64,
}

impl Grid {
    /// Rounds nothing.
    pub const NONE: Grid = Grid { step_tokens: 1, offset_tokens: 0 };

    /// Largest point that is at most `tokens`.
    pub fn floor(self, tokens: u64) -> u64 {
        let up = tokens + self.offset_tokens;
        (up - up % self.step_tokens).saturating_sub(self.offset_tokens)
    }

    /// Whether `tokens` is a point.
    pub fn holds(self, tokens: u64) -> bool {
        (tokens + self.offset_tokens).is_multiple_of(self.step_tokens)
    }
}

/// Steps of a [`Retention`] at most.
pub const RETENTION_STEPS: usize = 6;

/// Reuse as a matter of chance: by how long ago the prefix was used last, how often it is lost, and how often only a
/// part of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Ascending; the last one holds beyond its end.
    pub steps: [Loss; RETENTION_STEPS],
    /// Where a prefix is lost, tools and system are still held (other conversations use them).
    pub keeps_static_prefix: bool,
}

/// How often a prefix that was idle for less than `idle_ms` is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Time since its last use, in milliseconds.
    pub idle_ms: i64,
    /// Share of requests that read nothing of it, in percent.
    #[serde(default)]
    pub lost_percent: u8,
    /// Share of requests that read 50 to 95 % of it, in percent.
    #[serde(default)]
    pub partial_percent: u8,
}

impl Retention {
    /// The step for a prefix that was idle for so long.
    pub fn at(&self, idle_ms: i64) -> Loss {
        let last = self.steps[RETENTION_STEPS - 1];
        self.steps.iter().copied().find(|step| idle_ms < step.idle_ms).unwrap_or(last)
    }
}

/// The second family seen as one: everything served can be read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnyPrefix {
    /// A read is rounded down to this; `None`: it ends at a unit or nowhere.
    pub(crate) grid: Option<Grid>,
    /// Units are persisted and can be read.
    pub(crate) units: bool,
    pub(crate) covers_answers: bool,
    pub(crate) recomputes_last_token: bool,
    pub(crate) max_tokens: u64,
    pub(crate) retention: Option<Retention>,
}

impl CacheSpec {
    /// Whether it holds whole prefixes, and not entries at places of its own.
    #[inline]
    pub(crate) fn holds_prefixes(&self) -> bool {
        !matches!(self.kind, CacheKind::Breakpoints(_) | CacheKind::MessageEnds(_))
    }

    /// The cache as one of prefixes, if it is one.
    pub(crate) fn any_prefix(&self) -> Option<AnyPrefix> {
        let plain = AnyPrefix {
            grid: None,
            units: false,
            covers_answers: true,
            recomputes_last_token: false,
            max_tokens: u64::MAX,
            retention: None,
        };
        match self.kind {
            CacheKind::Breakpoints(_) | CacheKind::MessageEnds(_) => None,
            CacheKind::Prefix(cache) => Some(AnyPrefix {
                grid: Some(cache.grid),
                covers_answers: cache.covers_answers,
                recomputes_last_token: cache.recomputes_last_token,
                max_tokens: cache.cacheable_max_tokens.unwrap_or(u64::MAX),
                retention: cache.retention,
                ..plain
            }),
            CacheKind::PrefixUnits(cache) => {
                let grid = cache.interval_tokens.map(|step_tokens| Grid { step_tokens, offset_tokens: 0 });
                Some(AnyPrefix { grid, units: true, ..plain })
            }
            CacheKind::Blocks(cache) => Some(AnyPrefix {
                // An unfilled block can be read to its end, wherever a prompt ends.
                grid: Some(match cache.keeps_partial_blocks {
                    true => Grid::NONE,
                    false => Grid { step_tokens: u64::from(cache.block_tokens.max(1)), offset_tokens: 0 },
                }),
                recomputes_last_token: cache.recomputes_last_token,
                ..plain
            }),
        }
    }

    /// Whether a prefix of so many tokens is longer than what can ever be read.
    pub(crate) fn exceeds_cacheable(&self, tokens: u64) -> bool {
        self.any_prefix().is_some_and(|cache| tokens > cache.max_tokens)
    }

    /// The unfilled block at the end of a prompt can be read again.
    #[inline]
    pub fn keeps_partial_blocks(&self) -> bool {
        matches!(&self.kind, CacheKind::Blocks(blocks) if blocks.keeps_partial_blocks)
    }

    /// Its blocks, if they are not all kept.
    #[inline]
    pub(crate) fn limited_blocks(&self) -> Option<&BlockSpec> {
        match &self.kind {
            CacheKind::Blocks(blocks) if blocks.capacity_blocks.is_some() => Some(blocks),
            _ => None,
        }
    }

    /// Tokens of a prefix of so many that can be read again by a prompt that goes on behind it. Nobody goes on
    /// behind an unfilled block: it is another one when it is full.
    #[inline]
    pub(crate) fn held_tokens(&self, tokens: u64) -> u64 {
        if !self.holds_prefixes() {
            return tokens;
        }
        if let CacheKind::Blocks(blocks) = &self.kind {
            return tokens - tokens % u64::from(blocks.block_tokens.max(1));
        }
        match self.any_prefix() {
            Some(AnyPrefix { grid: Some(grid), units: false, .. }) => grid.floor(tokens),
            _ => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_rounds_down_to_its_points() {
        let coarse = Grid { step_tokens: 512, offset_tokens: 128 };
        assert_eq!([383, 384, 895, 896].map(|n| coarse.floor(n)), [0, 384, 384, 896]);
        assert!(coarse.holds(384) && !coarse.holds(512));
        assert_eq!(Grid::NONE.floor(77), 77);
    }

    #[test]
    fn loss_is_that_of_the_first_step_longer_than_the_pause() {
        let step = |idle_ms, lost_percent| Loss { idle_ms, lost_percent, partial_percent: 0 };
        let mut steps = [step(3_600_000, 77); RETENTION_STEPS];
        steps[0] = step(60_000, 2);
        let retention = Retention { steps, keeps_static_prefix: true };
        assert_eq!([0, 59_999, 60_000, 9_000_000].map(|t| retention.at(t).lost_percent), [2, 2, 77, 77]);
    }
}
