//! What a served request leaves behind: entries at its breakpoints, or all of its prefix.
//!
//! Rules: docs/sources.md A4, A5 (prompt-caching page, 2026-10-08), D1.

use super::cache::Entry;
use super::cache_spec::{Breakpoints, CacheKind, CacheSpec, Refresh};
use super::look::Reading;
use super::path::{Cached, Path};
use super::{Marker, Request, Ttl};
use crate::usage::Usage;

pub(crate) fn ttl_ms(spec: &CacheSpec, ttl: Ttl) -> i64 {
    match ttl {
        Ttl::Short => spec.short_ttl_ms,
        Ttl::Long => spec.long_ttl_ms,
    }
}

pub(crate) fn new_entry(spec: &CacheSpec, ttl: Ttl, at_ms: i64, ttft_ms: u32) -> Entry {
    let readable_from_ms = at_ms + i64::from(ttft_ms);
    Entry { ttl, expires_ms: at_ms + ttl_ms(spec, ttl), readable_from_ms, unit: false }
}

/// Keeps what a served request leaves in the cache, and bills it.
// Inlined, so that the usage stays in registers: copied through memory it stalls.
#[inline(always)]
pub(crate) fn serve(
    spec: &CacheSpec,
    request: &Request<'_>,
    path: &mut Path,
    markers: &[Marker],
    reading: &Reading,
) -> Usage {
    if !spec.holds_prefixes() {
        return serve_entries(spec, request, path, markers, reading.entry);
    }
    if let Some(cache) = spec.any_prefix() {
        path.cover(&cache, spec.short_ttl_ms, request.at_ms, request.ttft_ms);
    }
    let total_tokens = path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
    Usage {
        cache_read_tokens: reading.tokens,
        uncached_tokens: total_tokens - reading.tokens,
        ..Usage::default()
    }
}

/// Refreshes what was read, writes behind it, and bills (docs/sources.md A5).
// Inlined, so that the usage stays in registers: copied through memory it stalls.
#[inline(always)]
fn serve_entries(
    spec: &CacheSpec,
    request: &Request<'_>,
    path: &mut Path,
    markers: &[Marker],
    hit: Option<usize>,
) -> Usage {
    let at_ms = request.at_ms;
    let refreshes_before = matches!(
        spec.kind,
        CacheKind::Breakpoints(Breakpoints { refresh: Refresh::MatchedAndMarkedBefore, .. })
    );
    let total_tokens = path.nodes.last().map_or(0, |n| n.tokens);
    let mut read_tokens = 0;
    let mut markers = markers;
    if let Some(at) = hit {
        let Cached { index, entry, .. } = &mut path.cached[at];
        let index = *index;
        entry.expires_ms = at_ms + ttl_ms(spec, entry.ttl);
        read_tokens = path.nodes[index as usize].tokens;
        let behind = markers.iter().position(|m| m.after > index).unwrap_or(markers.len());
        let (in_front, rest) = markers.split_at(behind);
        markers = rest;
        if refreshes_before {
            // Markers on tools and system have the first entries.
            for (nth, marker) in in_front.iter().enumerate().filter(|(_, m)| m.after < index) {
                if let Some(entry) = path.entry_at(marker.after, nth)
                    && entry.hits(at_ms)
                {
                    entry.expires_ms = at_ms + ttl_ms(spec, entry.ttl);
                }
            }
        }
    }
    let (mut long_to, mut written_to) = (read_tokens, read_tokens);
    for marker in markers {
        let tokens = path.nodes[marker.after as usize].tokens;
        if tokens < spec.minimum_tokens {
            continue;
        }
        write(path, marker.after, new_entry(spec, marker.ttl, at_ms, request.ttft_ms), at_ms);
        written_to = tokens;
        if marker.ttl == Ttl::Long {
            long_to = tokens;
        }
    }
    Usage {
        cache_read_tokens: read_tokens,
        cache_write_1h_tokens: long_to - read_tokens,
        cache_write_5m_tokens: written_to - long_to,
        uncached_tokens: total_tokens - written_to + u64::from(request.tail_tokens),
        output_tokens: 0,
    }
}

#[inline]
fn write(path: &mut Path, index: u32, entry: Entry, at_ms: i64) {
    let cached = Cached { index, position: path.nodes[index as usize].position, entry };
    if path.cached.last().is_none_or(|last| last.index < index) {
        path.cached.push(cached);
        return;
    }
    match path.cached.binary_search_by_key(&index, |c| c.index) {
        Ok(at) => path.cached[at].entry.rewrite(entry, at_ms),
        Err(at) => path.cached.insert(at, cached),
    }
}
