//! What the recording shows besides its numbers: pairs, repeated calls, contradictions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Found, counted, number};
use crate::audit::account::{Call, FlawKind};
use crate::audit::judge::Series;
use crate::audit::signs::Signs;
use crate::session::repeats::REFETCH_REQUESTS;
use crate::session::roles::Role;

fn number_of(request: u32) -> u32 {
    request.saturating_add(1)
}

/// Calls and results that do not pair: a provider refuses such a prompt unless the client mends it.
pub(super) fn structure(series: &Series<'_>) -> Vec<Found> {
    let flaws = &series.account.flaws;
    let mut by_kind: BTreeMap<FlawKind, usize> = BTreeMap::new();
    flaws.iter().for_each(|flaw| *by_kind.entry(flaw.kind).or_insert(0) += 1);
    if by_kind.is_empty() {
        return Vec::new();
    }
    let words = by_kind.into_iter().map(|(kind, n)| match kind {
        FlawKind::ResultWithoutCall => {
            format!("{} without a call in the answer before", counted(n, "result"))
        }
        FlawKind::CallWithoutResult => {
            format!("{} without a result in the request after", counted(n, "call"))
        }
        FlawKind::DoubledCall => format!("{} with an id that is not its own", counted(n, "call")),
    });
    let requests: BTreeSet<u32> = flaws.iter().map(|flaw| number_of(flaw.request)).collect();
    let detail = words.collect::<Vec<_>>().join(", ");
    vec![Found { requests: requests.into_iter().collect(), tokens: 0, detail }]
}

/// What took a result out of the prompt; a compaction, before which request.
#[derive(Debug, Clone, Copy)]
enum Gone {
    Compacted(u32),
    Cleared,
}

/// Calls whose target was fetched before, by a call whose result is gone since.
pub(super) fn refetch(series: &Series<'_>) -> Vec<Found> {
    let calls = &series.account.calls;
    let requests = (0_u32..).zip(&series.account.requests);
    let mut compactions =
        requests.filter(|(_, request)| request.signs.any(Signs::COMPACTION)).map(|(i, _)| i).peekable();
    let mut cleared: Vec<(u32, u64)> =
        calls.iter().filter_map(|call| Some((call.cleared_before?, call.target))).collect();
    cleared.sort_unstable();
    let mut cleared = cleared.into_iter().peekable();
    let (mut fetched, mut gone) = (BTreeSet::new(), BTreeMap::new());
    let mut again: Vec<&Call> = Vec::new();
    for call in calls {
        while let Some(at) = compactions.next_if(|at| *at <= call.request) {
            gone.extend(std::mem::take(&mut fetched).into_iter().map(|target| (target, Gone::Compacted(at))));
        }
        while let Some((_, target)) = cleared.next_if(|(at, _)| *at <= call.request) {
            gone.insert(target, Gone::Cleared);
        }
        if !matches!(call.role, Role::Read | Role::Search | Role::Web | Role::Shell) {
            continue;
        }
        match gone.remove(&call.target) {
            Some(Gone::Compacted(at)) if call.request - at >= REFETCH_REQUESTS => {}
            Some(Gone::Compacted(_) | Gone::Cleared) => again.push(call),
            None => {}
        }
        fetched.insert(call.target);
    }
    if again.is_empty() {
        return Vec::new();
    }
    let requests: BTreeSet<u32> = again.iter().map(|call| number_of(call.request)).collect();
    let detail = format!(
        "{} of {} fetched again what a compaction or a clearing had taken out",
        number(again.len() as u64),
        counted(calls.len(), "call"),
    );
    vec![Found { requests: requests.into_iter().collect(), tokens: 0, detail }]
}

/// Usage that contradicts itself, or is missing where other requests have it.
pub(super) fn usage(series: &Series<'_>) -> Vec<Found> {
    let requests = &series.account.requests;
    let having = |sign: Signs| -> Vec<u32> {
        let found = (0_u32..).zip(requests).filter(|(_, request)| request.signs.any(sign));
        found.map(|(i, _)| number_of(i)).collect()
    };
    let missing: Vec<u32> = (0_u32..)
        .zip(requests)
        .filter(|(_, request)| !series.rows.is_empty() && request.usage.is_none())
        .map(|(i, _)| number_of(i))
        .collect();
    let checks = [
        (having(Signs::SPLIT_DIFFERS), "cache writes by life do not sum to all cache writes"),
        (having(Signs::LINES_DIFFER), "lines of one response report different prompts; the larger counts"),
        (missing, "there is no usable usage; nothing is counted"),
    ];
    let worded = checks.into_iter().filter(|(requests, _)| !requests.is_empty());
    let found = |(requests, what): (Vec<u32>, &str)| {
        let detail = format!("in {} {what}", counted(requests.len(), "request"));
        Found { requests, tokens: 0, detail }
    };
    worded.map(found).collect()
}
