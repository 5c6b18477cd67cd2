//! Writes that paid for nothing.

use super::{Found, counted, dollars, number, numbers};
use crate::audit::judge::Series;

/// Fewer unread tokens of one request are the usual loose end.
const MINIMUM_TOKENS: u64 = 1_024;
/// Part of all written tokens that must never be read: one in this many.
const MATTERS: u64 = 20;
/// Requests that must be concerned.
const MINIMUM_REQUESTS: usize = 2;

/// A written piece of the prompt, from and up to this token, that is still in place.
struct Piece {
    row: usize,
    from: u64,
    to: u64,
}

/// Tokens that a request wrote and that were written again, or left behind, before any request read them.
/// What the last request wrote may still be read, and does not count.
pub(super) fn never_read(series: &Series<'_>) -> Vec<Found> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut unread = vec![0_u64; series.rows.len()];
    for i in 0..series.rows.len() {
        let read = series.read(i);
        for piece in pieces.drain(..).filter(|piece| piece.to > read) {
            unread[piece.row] += piece.to - piece.from.max(read);
        }
        let written = series.rows[i].usage.cache_write_tokens();
        if written > 0 {
            pieces.push(Piece { row: i, from: read, to: read + written });
        }
    }
    let rows: Vec<usize> = (0..unread.len()).filter(|i| unread[*i] >= MINIMUM_TOKENS).collect();
    let tokens: u64 = rows.iter().map(|i| unread[*i]).sum();
    let written: u64 = series.rows.iter().map(|row| row.usage.cache_write_tokens()).sum();
    if rows.len() < MINIMUM_REQUESTS || tokens * MATTERS < written {
        return Vec::new();
    }
    let paid = |i: &usize| {
        let usage = &series.rows[*i].usage;
        // Short writes lie behind long ones.
        let cost = |tokens: u64| series.price(*i).map(|price| price.split_unread(usage, tokens).missed);
        let all = usage.cache_write_tokens();
        cost(all).zip(cost(all - unread[*i])).map(|(all, read)| all - read)
    };
    let detail = format!(
        "{} of {} written tokens{} were never read, in {}",
        number(tokens),
        number(written),
        dollars(rows.iter().map(paid).sum()),
        counted(rows.len(), "request"),
    );
    vec![Found { requests: numbers(series, &rows), tokens, detail }]
}
