//! The `cache` table of model files.

use serde::Deserialize;

use super::cache_spec::{
    BlockSpec, Breakpoints, CacheKind, CacheSpec, Eviction, Grid, ImageToggle, Loss, MessageEnds,
    ParametersLevel, PrefixCache, PrefixUnits, RETENTION_STEPS, Refresh, Retention,
};
use crate::error::{Error, Result};

/// Names of [`CacheKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindName {
    Breakpoints,
    MessageEnds,
    Prefix,
    PrefixUnits,
    Blocks,
}

impl KindName {
    fn of(kind: &CacheKind) -> KindName {
        match kind {
            CacheKind::Breakpoints(_) => Self::Breakpoints,
            CacheKind::MessageEnds(_) => Self::MessageEnds,
            CacheKind::Prefix(_) => Self::Prefix,
            CacheKind::PrefixUnits(_) => Self::PrefixUnits,
            CacheKind::Blocks(_) => Self::Blocks,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Breakpoints => "breakpoints",
            Self::MessageEnds => "message_ends",
            Self::Prefix => "prefix",
            Self::PrefixUnits => "prefix_units",
            Self::Blocks => "blocks",
        }
    }
}

/// A `cache` table: every field optional over the cache it is based on; a field that its kind does not have is a
/// mistake.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheFields {
    kind: Option<KindName>,
    minimum_tokens: Option<u64>,
    short_ttl_ms: Option<i64>,
    long_ttl_ms: Option<i64>,
    image_toggle_invalidates: Option<ImageToggle>,
    parameters_invalidate: Option<ParametersLevel>,
    ttft_ms: Option<u32>,
    lookback_positions: Option<u32>,
    max_markers: Option<u32>,
    refresh: Option<Refresh>,
    max_writes: Option<u32>,
    lookback_endings: Option<u32>,
    lookup_first_markers: Option<u32>,
    lookup_last_markers: Option<u32>,
    grid_tokens: Option<u64>,
    grid_offset_tokens: Option<u64>,
    covers_answers: Option<bool>,
    recomputes_last_token: Option<bool>,
    cacheable_max_tokens: Option<u64>,
    retention: Option<Vec<Loss>>,
    loss_keeps_static_prefix: Option<bool>,
    interval_tokens: Option<u64>,
    block_tokens: Option<u32>,
    capacity_blocks: Option<u32>,
    evicts: Option<Eviction>,
    keeps_partial_blocks: Option<bool>,
}

/// Where a table stands, for errors.
struct Origin<'a>(&'a str);

impl Origin<'_> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::Config { origin: self.0.to_owned(), reason: reason.into() }
    }

    fn given<T>(&self, field: &str, value: Option<T>, base: Option<T>) -> Result<T> {
        value.or(base).ok_or_else(|| {
            self.wrong(format!(
                "cache.{field} is missing; give it, or name a model to start from with `like`"
            ))
        })
    }
}

impl CacheFields {
    /// The cache that these fields make of `base`.
    ///
    /// # Errors
    ///
    /// A field that is missing, out of range, or not one of the kind's.
    pub(crate) fn over(&self, base: Option<CacheSpec>, origin: &str) -> Result<CacheSpec> {
        let origin = Origin(origin);
        let base_kind = base.map(|b| b.kind);
        // Model files from before there was a kind mean breakpoints.
        let kind = self.kind.or(base_kind.as_ref().map(KindName::of)).unwrap_or(KindName::Breakpoints);
        self.refuse_foreign(kind, &origin)?;
        let base_kind = base_kind.filter(|b| KindName::of(b) == kind);
        macro_rules! field {
            ($name:ident) => {
                origin.given(stringify!($name), self.$name, base.map(|b| b.$name))?
            };
        }
        let spec = CacheSpec {
            minimum_tokens: field!(minimum_tokens),
            short_ttl_ms: field!(short_ttl_ms),
            long_ttl_ms: field!(long_ttl_ms),
            image_toggle_invalidates: field!(image_toggle_invalidates),
            parameters_invalidate: field!(parameters_invalidate),
            ttft_ms: field!(ttft_ms),
            kind: match kind {
                KindName::Breakpoints => self.breakpoints(base_kind, &origin)?,
                KindName::MessageEnds => self.message_ends(base_kind, &origin)?,
                KindName::Prefix => self.prefix(base_kind, &origin)?,
                KindName::PrefixUnits => self.prefix_units(base_kind),
                KindName::Blocks => self.blocks(base_kind, &origin)?,
            },
        };
        if spec.short_ttl_ms <= 0 || spec.long_ttl_ms < spec.short_ttl_ms {
            return Err(origin.wrong("cache needs 0 < short_ttl_ms <= long_ttl_ms"));
        }
        Ok(spec)
    }

    fn breakpoints(&self, base: Option<CacheKind>, origin: &Origin<'_>) -> Result<CacheKind> {
        let base = if let Some(CacheKind::Breakpoints(base)) = base { Some(base) } else { None };
        let spec = Breakpoints {
            lookback_positions: origin.given(
                "lookback_positions",
                self.lookback_positions,
                base.map(|b| b.lookback_positions),
            )?,
            max_markers: origin.given("max_markers", self.max_markers, base.map(|b| b.max_markers))?,
            refresh: origin.given("refresh", self.refresh, base.map(|b| b.refresh))?,
        };
        if spec.lookback_positions == 0 {
            return Err(origin.wrong("cache.lookback_positions is at least 1: the breakpoint itself"));
        }
        Ok(CacheKind::Breakpoints(spec))
    }

    fn message_ends(&self, base: Option<CacheKind>, origin: &Origin<'_>) -> Result<CacheKind> {
        let base = if let Some(CacheKind::MessageEnds(base)) = base { Some(base) } else { None };
        macro_rules! field {
            ($name:ident) => {
                origin.given(stringify!($name), self.$name, base.map(|b| b.$name))?
            };
        }
        let spec = MessageEnds {
            max_writes: field!(max_writes),
            lookback_endings: field!(lookback_endings),
            lookup_first_markers: field!(lookup_first_markers),
            lookup_last_markers: field!(lookup_last_markers),
        };
        if spec.max_writes == 0 {
            return Err(origin.wrong("cache.max_writes is at least 1: the implicit breakpoint"));
        }
        Ok(CacheKind::MessageEnds(spec))
    }

    fn prefix(&self, base: Option<CacheKind>, origin: &Origin<'_>) -> Result<CacheKind> {
        let base = if let Some(CacheKind::Prefix(base)) = base { Some(base) } else { None };
        let step_tokens = origin.given("grid_tokens", self.grid_tokens, base.map(|b| b.grid.step_tokens))?;
        // An offset belongs to its step.
        let offset = base.filter(|_| self.grid_tokens.is_none()).map(|b| b.grid.offset_tokens);
        let grid =
            Grid { step_tokens, offset_tokens: self.grid_offset_tokens.or(offset).unwrap_or_default() };
        if grid.step_tokens == 0 || grid.offset_tokens >= grid.step_tokens {
            return Err(origin.wrong("cache needs grid_tokens of at least 1 and grid_offset_tokens below it"));
        }
        let limit = self.cacheable_max_tokens.filter(|&tokens| tokens > 0);
        if limit.is_some_and(|tokens| grid.floor(tokens) == 0) {
            return Err(origin.wrong(format!(
                "cache.cacheable_max_tokens is below the first step of the grid, {} tokens: nothing could be read",
                grid.step_tokens - grid.offset_tokens
            )));
        }
        let retention = match &self.retention {
            Some(steps) => retention(steps, self.loss_keeps_static_prefix.unwrap_or(true), origin)?,
            None => base.and_then(|b| b.retention).map(|r| Retention {
                keeps_static_prefix: self.loss_keeps_static_prefix.unwrap_or(r.keeps_static_prefix),
                ..r
            }),
        };
        Ok(CacheKind::Prefix(PrefixCache {
            grid,
            covers_answers: self.covers_answers.or(base.map(|b| b.covers_answers)).unwrap_or(false),
            recomputes_last_token: self
                .recomputes_last_token
                .or(base.map(|b| b.recomputes_last_token))
                .unwrap_or(false),
            // 0 takes the limit away.
            cacheable_max_tokens: self
                .cacheable_max_tokens
                .or(base.and_then(|b| b.cacheable_max_tokens))
                .filter(|&tokens| tokens > 0),
            retention,
        }))
    }

    fn prefix_units(&self, base: Option<CacheKind>) -> CacheKind {
        let base = if let Some(CacheKind::PrefixUnits(base)) = base { base.interval_tokens } else { None };
        // 0 turns it off.
        let interval_tokens = self.interval_tokens.or(base).filter(|&tokens| tokens > 0);
        CacheKind::PrefixUnits(PrefixUnits { interval_tokens })
    }

    fn blocks(&self, base: Option<CacheKind>, origin: &Origin<'_>) -> Result<CacheKind> {
        let base = if let Some(CacheKind::Blocks(base)) = base { Some(base) } else { None };
        let block_tokens = origin.given("block_tokens", self.block_tokens, base.map(|b| b.block_tokens))?;
        if block_tokens == 0 {
            return Err(origin.wrong("cache.block_tokens is at least 1"));
        }
        Ok(CacheKind::Blocks(BlockSpec {
            block_tokens,
            // 0 takes the limit away.
            capacity_blocks: self
                .capacity_blocks
                .or(base.and_then(|b| b.capacity_blocks))
                .filter(|&blocks| blocks > 0),
            evicts: self.evicts.or(base.map(|b| b.evicts)).unwrap_or_default(),
            keeps_partial_blocks: self
                .keeps_partial_blocks
                .or(base.map(|b| b.keeps_partial_blocks))
                .unwrap_or(false),
            recomputes_last_token: self
                .recomputes_last_token
                .or(base.map(|b| b.recomputes_last_token))
                .unwrap_or(false),
        }))
    }

    fn refuse_foreign(&self, kind: KindName, origin: &Origin<'_>) -> Result<()> {
        use KindName::{Blocks, Breakpoints, MessageEnds, Prefix, PrefixUnits};
        let fields: [(&str, bool, &[KindName]); 19] = [
            ("lookback_positions", self.lookback_positions.is_some(), &[Breakpoints]),
            ("max_markers", self.max_markers.is_some(), &[Breakpoints]),
            ("refresh", self.refresh.is_some(), &[Breakpoints]),
            ("max_writes", self.max_writes.is_some(), &[MessageEnds]),
            ("lookback_endings", self.lookback_endings.is_some(), &[MessageEnds]),
            ("lookup_first_markers", self.lookup_first_markers.is_some(), &[MessageEnds]),
            ("lookup_last_markers", self.lookup_last_markers.is_some(), &[MessageEnds]),
            ("grid_tokens", self.grid_tokens.is_some(), &[Prefix]),
            ("grid_offset_tokens", self.grid_offset_tokens.is_some(), &[Prefix]),
            ("covers_answers", self.covers_answers.is_some(), &[Prefix]),
            ("recomputes_last_token", self.recomputes_last_token.is_some(), &[Prefix, Blocks]),
            ("cacheable_max_tokens", self.cacheable_max_tokens.is_some(), &[Prefix]),
            ("retention", self.retention.is_some(), &[Prefix]),
            ("loss_keeps_static_prefix", self.loss_keeps_static_prefix.is_some(), &[Prefix]),
            ("interval_tokens", self.interval_tokens.is_some(), &[PrefixUnits]),
            ("block_tokens", self.block_tokens.is_some(), &[Blocks]),
            ("capacity_blocks", self.capacity_blocks.is_some(), &[Blocks]),
            ("evicts", self.evicts.is_some(), &[Blocks]),
            ("keeps_partial_blocks", self.keeps_partial_blocks.is_some(), &[Blocks]),
        ];
        match fields.iter().find(|(_, given, kinds)| *given && !kinds.contains(&kind)) {
            None => Ok(()),
            Some((field, ..)) => {
                Err(origin
                    .wrong(format!("cache.{field} is no field of a `{}` cache; leave it out", kind.word())))
            }
        }
    }
}

fn retention(steps: &[Loss], keeps_static_prefix: bool, origin: &Origin<'_>) -> Result<Option<Retention>> {
    let Some(last) = steps.last() else { return Ok(None) };
    let ascending = steps.windows(2).all(|two| two[0].idle_ms < two[1].idle_ms);
    let possible = |step: &Loss| u32::from(step.lost_percent) + u32::from(step.partial_percent) <= 100;
    if steps.len() > RETENTION_STEPS || !ascending || !steps.iter().all(possible) {
        return Err(origin.wrong(format!(
            "cache.retention has at most {RETENTION_STEPS} steps with ascending idle_ms, and lost_percent and \
             partial_percent of each come to at most 100"
        )));
    }
    let mut padded = [*last; RETENTION_STEPS];
    padded[..steps.len()].copy_from_slice(steps);
    Ok(Some(Retention { steps: padded, keeps_static_prefix }))
}

#[cfg(test)]
mod tests {
    use super::super::Models;
    use super::*;

    fn cache_of(like: &str, lines: &str) -> Result<CacheSpec> {
        let mut models = Models::builtin().unwrap();
        models.add_toml(&format!("[[model]]\nid = \"x\"\nlike = \"{like}\"\n{lines}"), "my.toml")?;
        Ok(models.get("x").unwrap().cache.unwrap())
    }

    #[test]
    fn a_field_of_another_kind_is_a_mistake() {
        let error = cache_of("claude-opus-5", "cache.grid_tokens = 128\n").unwrap_err().to_string();
        assert!(error.contains("cache.grid_tokens") && error.contains("`breakpoints`"), "{error}");
        let error = cache_of("claude-opus-5", "cache.kind = \"blocks\"\n").unwrap_err().to_string();
        assert!(error.contains("cache.block_tokens is missing"), "{error}");
    }

    #[test]
    fn another_kind_keeps_what_all_kinds_have() {
        let spec = cache_of("claude-opus-4-8", "cache = { kind = \"prefix\", grid_tokens = 128 }\n").unwrap();
        assert_eq!((spec.minimum_tokens, spec.short_ttl_ms), (1_024, 300_000));
        let CacheKind::Prefix(prefix) = spec.kind else { panic!("{spec:?}") };
        assert_eq!(prefix.grid, Grid { step_tokens: 128, offset_tokens: 0 });
        assert!(!prefix.covers_answers && prefix.retention.is_none());
    }

    #[test]
    fn the_most_that_is_read_is_checked_and_can_be_taken_away() {
        let limited = |lines: &str| {
            let toml = format!("cache.kind = \"prefix\"\ncache.grid_tokens = 128\n{lines}");
            cache_of("claude-opus-5", &toml).map(|spec| match spec.kind {
                CacheKind::Prefix(prefix) => prefix.cacheable_max_tokens,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(limited("").unwrap(), None);
        assert_eq!(limited("cache.cacheable_max_tokens = 9000\n").unwrap(), Some(9_000));
        assert_eq!(limited("cache.cacheable_max_tokens = 0\n").unwrap(), None);
        let error = limited("cache.cacheable_max_tokens = 127\n").unwrap_err().to_string();
        assert!(error.contains("cacheable_max_tokens") && error.contains("128 tokens"), "{error}");
        let error = cache_of("claude-opus-5", "cache.cacheable_max_tokens = 9000\n").unwrap_err().to_string();
        assert!(error.contains("cache.cacheable_max_tokens is no field of a `breakpoints` cache"), "{error}");
    }

    #[test]
    fn a_table_of_losses_is_checked() {
        let lines = |steps: &str| {
            format!("cache = {{ kind = \"prefix\", grid_tokens = 1, retention = [{steps}] }}\n")
        };
        let good = lines("{ idle_ms = 1000, lost_percent = 2 }, { idle_ms = 2000, lost_percent = 9 }");
        let CacheKind::Prefix(prefix) = cache_of("claude-opus-5", &good).unwrap().kind else { panic!() };
        assert_eq!(prefix.retention.unwrap().at(5_000).lost_percent, 9);
        for bad in [
            "{ idle_ms = 2000 }, { idle_ms = 1000 }",
            "{ idle_ms = 1, lost_percent = 60, partial_percent = 41 }",
        ] {
            assert!(cache_of("claude-opus-5", &lines(bad)).is_err(), "{bad}");
        }
    }
}
