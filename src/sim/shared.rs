//! Several sessions of one organisation on one cache: their requests in the order of their starts, ties by session id
//! (docs/decisions.md 9).
//!
//! # Divergence from the real API
//!
//! * Everything that is replayed together is one organisation, in one region, and lands where its cache is.
//! * What a request writes can be read from its start and the model's `ttft_ms` on, by its own session too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::run::cell;
use super::{Recorder, RunOptions, Scratch, Summary};
use crate::policy::Strategy;
use crate::policy::interpreter::Interpreter;
use crate::provider::ModelSpec;
use crate::provider::engine::SharedCache;
use crate::session::Session;

/// Replays `sessions` under `strategy` on `model`, all on one cache; `recorders` are theirs, in the same order.
///
/// `goes_on` is asked before each request; where it says no, what is left of the sessions is not run and nothing is
/// returned.
pub fn run_shared<R: Recorder>(
    sessions: &[&Session],
    strategy: &Strategy,
    model: &ModelSpec,
    options: &RunOptions,
    recorders: &mut [R],
    mut goes_on: impl FnMut() -> bool,
) -> Option<Vec<Summary>> {
    let mut policies: Vec<Interpreter<'_>> =
        sessions.iter().map(|session| Interpreter::new(strategy, session)).collect();
    let mut scratch = Scratch::default();
    let mut cells: Vec<_> = sessions
        .iter()
        .zip(&mut policies)
        .zip(recorders)
        .map(|((session, policy), recorder)| {
            cell(session, strategy, policy, model, options, &mut Scratch::default(), recorder)
        })
        .collect();
    let starts = |at: usize, step: usize| {
        let start = sessions[at].steps.get(step)?.start_ms.unwrap_or(0);
        Some(Reverse((start, sessions[at].id.as_str(), at, step)))
    };
    let mut waiting: BinaryHeap<_> = (0..sessions.len()).filter_map(|at| starts(at, 0)).collect();
    let mut cache = SharedCache::default();
    let mut inside: Option<usize> = None;
    while let Some(Reverse((start_ms, _, at, step))) = waiting.pop() {
        if !goes_on() {
            return None;
        }
        if inside != Some(at) {
            if let Some(before) = inside.replace(at) {
                cells[before].provider.leave(&mut cache, start_ms);
            }
            cells[at].provider.enter(&mut cache);
        }
        if cells[at].advance(step) {
            waiting.extend(starts(at, step + 1));
        }
    }
    Some(cells.into_iter().map(|cell| cell.finish(&mut scratch)).collect())
}
