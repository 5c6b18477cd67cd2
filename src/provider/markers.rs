//! The breakpoints a request really has, or why it is refused. Caches of prefixes have none: markers mean nothing
//! to them.
//!
//! Rules: docs/sources.md A1, A4 (prompt-caching page, 2026-10-08), D1.
//!
//! # Divergence from the real API
//!
//! * Empty text blocks do not exist here, so they cannot be marked.
//! * With four explicit breakpoints an automatic one is refused even where it would change nothing.

use super::cache_spec::{Breakpoints, CacheKind, CacheSpec, MessageEnds};
use super::look::{is_ending, is_implicit};
use super::pairing::{invalid, wire_path};
use super::{Marker, Rejection, Request, SentKind, Ttl};

/// Puts the effective breakpoints into `out`, ascending.
pub(crate) fn effective(
    spec: &CacheSpec,
    request: &Request<'_>,
    out: &mut Vec<Marker>,
) -> Result<(), Rejection> {
    match &spec.kind {
        CacheKind::Breakpoints(cache) => at_breakpoints(cache, request, out),
        CacheKind::MessageEnds(cache) => at_message_ends(cache, request, out),
        CacheKind::Prefix(_) | CacheKind::PrefixUnits(_) | CacheKind::Blocks(_) => {
            out.clear();
            Ok(())
        }
    }
}

/// The implicit breakpoint at the end of the latest message, and the latest explicit ones besides it.
fn at_message_ends(
    spec: &MessageEnds,
    request: &Request<'_>,
    out: &mut Vec<Marker>,
) -> Result<(), Rejection> {
    out.clear();
    for (i, marker) in request.markers.iter().enumerate() {
        check_place(request, marker, i.checked_sub(1).map(|before| request.markers[before].after))?;
    }
    let mut explicit = spec.max_writes as usize;
    let ending = (0..request.blocks.len()).rev().find(|&i| is_ending(request.blocks, i));
    let implicit = ending
        .filter(|_| is_implicit(request))
        .map(|at| Marker { after: at as u32, ttl: request.automatic.unwrap_or(Ttl::Short) });
    explicit -= usize::from(implicit.is_some());
    let from = request.markers.len().saturating_sub(explicit);
    out.extend_from_slice(&request.markers[from..]);
    if let Some(implicit) = implicit {
        match out.binary_search_by_key(&implicit.after, |m| m.after) {
            Ok(at) => out[at].ttl = out[at].ttl.max(implicit.ttl),
            Err(at) => out.insert(at, implicit),
        }
    }
    Ok(())
}

fn at_breakpoints(spec: &Breakpoints, request: &Request<'_>, out: &mut Vec<Marker>) -> Result<(), Rejection> {
    let blocks = request.blocks;
    out.clear();
    let markers = request.markers;
    let count = markers.len() + usize::from(request.automatic.is_some());
    if count > spec.max_markers as usize {
        let message = format!(
            "A maximum of {} blocks with cache_control may be provided. Found {count}.",
            spec.max_markers
        );
        let at = markers.get(spec.max_markers as usize).or(markers.last()).map(|m| m.after as usize);
        return Err(invalid(blocks, at.filter(|&i| i < blocks.len()), message));
    }
    for marker in markers {
        check_place(request, marker, out.last().map(|before| before.after))?;
        out.push(*marker);
    }
    if let Some(ttl) = request.automatic {
        add_automatic(request, ttl, out)?;
    }
    match out.windows(2).find(|pair| pair[0].ttl < pair[1].ttl) {
        None => Ok(()),
        Some(pair) => {
            let at = pair[1].after as usize;
            let message = format!(
                "{}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control \
                 block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
                wire_path(blocks, at)
            );
            Err(invalid(blocks, Some(at), message))
        }
    }
}

/// A marker stands on a block of its own that can carry it, behind the marker `before` it.
fn check_place(request: &Request<'_>, marker: &Marker, before: Option<u32>) -> Result<(), Rejection> {
    match request.blocks.get(marker.after as usize) {
        Some(block)
            if block.kind != SentKind::Thinking
                && !block.deferred
                && before.is_none_or(|b| b < marker.after) =>
        {
            Ok(())
        }
        _ => Err(misplaced(request, marker)),
    }
}

#[cold]
fn misplaced(request: &Request<'_>, marker: &Marker) -> Rejection {
    let blocks = request.blocks;
    let at = marker.after as usize;
    let Some(block) = blocks.get(at) else {
        let message = format!("cache_control: there is no block {at}; the request has {}", blocks.len());
        return invalid(blocks, None, message);
    };
    let problem = if block.kind == SentKind::Thinking {
        "Extra inputs are not permitted"
    } else if block.deferred {
        "tools with `defer_loading` cannot use prompt caching"
    } else {
        "a block carries one breakpoint, and breakpoints are given in the order of their blocks"
    };
    invalid(blocks, Some(at), format!("{}.cache_control: {problem}", wire_path(blocks, at)))
}

/// The automatic breakpoint stands on the last block that can carry one; none is no error.
fn add_automatic(request: &Request<'_>, ttl: Ttl, out: &mut Vec<Marker>) -> Result<(), Rejection> {
    let blocks = request.blocks;
    let Some(at) = blocks.iter().rposition(|b| b.kind != SentKind::Thinking && !b.deferred) else {
        return Ok(());
    };
    match out.last() {
        Some(last) if last.after as usize == at && last.ttl == ttl => {}
        Some(last) if last.after as usize == at => {
            let message = format!(
                "{}.cache_control: the automatic breakpoint asks for another ttl than the block's own",
                wire_path(blocks, at)
            );
            return Err(invalid(blocks, Some(at), message));
        }
        _ => out.push(Marker { after: at as u32, ttl }),
    }
    Ok(())
}
