//! What edits of history saved, against what they cost.

use super::{Found, dollars, missed, number, numbers};
use crate::audit::judge::{REPLACED, Series};
use crate::audit::signs::Signs;
use crate::cause::Cause;

/// Prices of a token where the model's are unknown, in hundredths of plain input: the usual ratios
/// (docs/sources.md A5).
const USUAL_READ: u128 = 10;
const USUAL_WRITE: u128 = 125;

/// An edit that made a request miss.
struct Pass {
    row: usize,
    /// Prompt tokens that later requests do not send.
    saved_tokens: u64,
    /// Requests from this one on over which it pays back; `None` if it never does.
    pays_after: Option<u64>,
    /// Requests from this one on that had the smaller prompt.
    followed: u64,
}

/// Edits of history (recorded clearings, prompts that shrank unmarked, images that came or went) that were
/// followed by fewer requests than they need to pay back. Writing `r` tokens again costs
/// `r · (write − read)`; each later request saves `s · read`.
pub(super) fn economics(series: &Series<'_>) -> Vec<Found> {
    let is_edit = |cause| matches!(cause, Some(Cause::PrefixRule | Cause::PrefixImage));
    let edits: Vec<usize> = (1..series.rows.len())
        .filter(|i| {
            is_edit(series.rows[*i].cause) && series.rows[*i].missed_tokens > 0 && series.is_notable(*i)
        })
        .collect();
    let passes: Vec<Pass> = edits.iter().map(|i| pass(series, *i)).collect();
    let lost: Vec<&Pass> = passes.iter().filter(|p| p.pays_after.is_none_or(|n| n > p.followed)).collect();
    let Some(worst) = lost.iter().max_by_key(|p| series.rows[p.row].missed_tokens) else { return Vec::new() };
    let rows: Vec<usize> = lost.iter().map(|p| p.row).collect();
    let (tokens, paid) = missed(series, &rows);
    let pays = match worst.pays_after {
        Some(n) => format!("pays after {} requests, and {} followed", number(n), number(worst.followed)),
        None => "saves nothing".to_owned(),
    };
    let detail = format!(
        "{} of {} edits of history did not pay back: {} tokens{} were written again; the one at request {} took \
         {} tokens out and made {} be paid again, which {pays}",
        number(lost.len() as u64),
        number(passes.len() as u64),
        number(tokens),
        dollars(paid),
        series.number(worst.row),
        number(worst.saved_tokens),
        number(series.rows[worst.row].missed_tokens),
    );
    vec![Found { requests: numbers(series, &rows), tokens, detail }]
}

fn pass(series: &Series<'_>, i: usize) -> Pass {
    let (now, before) = (series.request(i), series.request(i - 1));
    let shrunk = series.prompt(i - 1).saturating_sub(series.prompt(i));
    let images = u64::from(now.image_tokens.max(before.image_tokens));
    let known = [now.cleared_tokens, shrunk, images];
    let saved_tokens = known.into_iter().find(|tokens| *tokens > 0).unwrap_or(0);
    let (rewritten, read) = prices(series, i);
    let missed = u128::from(series.rows[i].missed_tokens);
    let saves = u128::from(saved_tokens) * read;
    let pays_after = (rewritten.saturating_sub(missed * read)).checked_add(saves.saturating_sub(1));
    let pays_after = pays_after.and_then(|cost| cost.checked_div(saves)).and_then(|n| u64::try_from(n).ok());
    Pass { row: i, saved_tokens, pays_after, followed: followed(series, i) }
}

/// What was paid for the tokens that row `i` missed, and the price of reading one token.
fn prices(series: &Series<'_>, i: usize) -> (u128, u128) {
    let row = &series.rows[i];
    match series.price(i) {
        Some(price) => {
            let (rates, _) = price.rates_for(&row.usage);
            (price.split_unread(&row.usage, row.missed_tokens).missed, u128::from(rates.read))
        }
        None => (u128::from(row.missed_tokens) * USUAL_WRITE, USUAL_READ),
    }
}

/// Requests from row `i` on until history is replaced or edited again.
fn followed(series: &Series<'_>, i: usize) -> u64 {
    let replaced = REPLACED.with(Signs::RESULTS_CLEARED);
    let end = (i + 1..series.rows.len())
        .find(|j| series.rows[*j].signs.any(replaced) || series.rows[*j].cause == Some(Cause::PrefixRule));
    (end.unwrap_or(series.rows.len()) - i) as u64
}
