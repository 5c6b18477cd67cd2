//! What a strategy took out of the request and the recording then fetched again.
//!
//! A call is known by tool and arguments ([`crate::session::repeats`]). What counts is its newest earlier result
//! that the recording itself has not dropped or cleared, as it stood in the request that the model answered with
//! the call.
//!
//! # Divergence from the real API
//!
//! The recorded agent saw everything, or what its own strategy left; a model that misses something would ask in
//! other words, or not at all. Arguments that differ in the order of their keys are different. Whether a file was
//! written between two reads cannot be told from hashes, so a read of what has changed counts too.

use std::ops::Range;

use super::summary::Summary;
use crate::policy::view::{State, View};
use crate::session::repeats::REFETCH_REQUESTS;
use crate::session::roles::Role;
use crate::session::{Event, EventKind, Session};

/// Watches over the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Refetches {
    /// The next repeat to come.
    next: usize,
    /// By block: the recording dropped or cleared it.
    gone: Vec<bool>,
    /// The latest compactions: at which request, and what they folded; those that are counted already are left
    /// out.
    compactions: Vec<(u32, Vec<Range<u32>>)>,
}

impl Refetches {
    /// What the recording itself took out.
    pub(super) fn recorded(&mut self, events: &[Event]) {
        for event in events {
            match &event.kind {
                EventKind::BlocksDropped { from, to, .. } => self.mark_gone(*from..*to),
                EventKind::RecordedClearing { blocks, applied: true } => {
                    blocks.iter().for_each(|block| self.mark_gone(*block..block + 1));
                }
                _ => {}
            }
        }
    }

    fn mark_gone(&mut self, range: Range<u32>) {
        let range = range.start as usize..range.end as usize;
        if self.gone.len() < range.end {
            self.gone.resize(range.end, false);
        }
        self.gone[range].fill(true);
    }

    /// A summary stands for these blocks, from request `request` on.
    pub(super) fn compacted(&mut self, request: u32, folded: &[Range<u32>]) {
        self.compactions.retain(|(at, _)| request - at < REFETCH_REQUESTS);
        self.compactions.push((request, folded.to_vec()));
    }

    /// Request `request` was answered with `output`.
    #[inline]
    pub(super) fn answered(
        &mut self,
        session: &Session,
        view: &View<'_>,
        (request, output): (u32, &Range<u32>),
        summary: &mut Summary,
    ) {
        let repeats = session.blocks.repeated_calls();
        if repeats.get(self.next).is_some_and(|next| next.call < output.end) {
            self.asked_again(session, view, (request, output), summary);
        }
    }

    /// Some of the calls were made before.
    fn asked_again(
        &mut self,
        session: &Session,
        view: &View<'_>,
        (request, output): (u32, &Range<u32>),
        summary: &mut Summary,
    ) {
        let repeats = session.blocks.repeated_calls();
        while let Some(repeat) = repeats.get(self.next).filter(|r| r.call < output.end) {
            self.next += 1;
            let mut earlier = Some(repeat.earlier);
            while let Some(gone) = earlier.filter(|block| self.is_gone(*block)) {
                earlier = session.blocks.result_before(gone);
            }
            let Some(earlier) = earlier.filter(|_| fetches(session, repeat.call)) else { continue };
            if is_there(view, earlier) {
                summary.repeated_calls += 1;
                continue;
            }
            summary.refetched_calls += 1;
            let tokens = repeat.result.map_or(0, |result| session.blocks.tokens[result as usize]);
            summary.refetched_tokens += u64::from(tokens);
            let counted = self.compactions.len();
            self.compactions.retain(|(at, folded)| {
                request - at >= REFETCH_REQUESTS || !folded.iter().any(|r| r.contains(&earlier))
            });
            summary.refetched_compactions += (counted - self.compactions.len()) as u64;
        }
    }

    fn is_gone(&self, block: u32) -> bool {
        self.gone.get(block as usize).copied().unwrap_or(false)
    }
}

/// Whether a call brings something, and does not change anything.
fn fetches(session: &Session, call: u32) -> bool {
    let tool = session.tools.get(session.blocks.tool[call as usize] as usize);
    tool.is_none_or(|t| !matches!(t.role, Role::Edit | Role::Write | Role::Todo | Role::Plan | Role::Agent))
}

/// Whether a result is in the request in full.
fn is_there(view: &View<'_>, result: u32) -> bool {
    let state = view.states[result as usize];
    let is_whole =
        [State::ELIDED, State::OFFLOADED, State::REPLACED, State::HIDDEN].iter().all(|bit| !state.has(*bit));
    is_whole && view.is_live(result)
}
