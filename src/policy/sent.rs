//! The history in another state than it is stored in: as the client sends it, and as it came.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::{State, Stored, View};

/// A stub that stands for a result in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stub {
    /// The block it stands for.
    pub block: u32,
    /// Prompt tokens of the stub; 0 where nothing stands for the block.
    pub tokens: u32,
    /// UTF-16 units, where the client wrote it.
    pub utf16: u32,
    /// The provider put it in its own copy.
    pub server: bool,
    /// Nothing stands for the result, and its call is not sent either.
    pub hidden: bool,
    /// The recording agent put it there, no rule.
    pub recorded: bool,
}

/// Which state of the history a measure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredState {
    /// What is stored: an offloaded or replaced result counts as what is left of it, a stub that stands in requests
    /// only does not count.
    #[default]
    Stored,
    /// What the client sends: its stubs count, and what is not sent does not. The provider's edits of its own copy
    /// are none of the client's.
    Sent,
    /// What came: nothing was offloaded, cut or replaced.
    Original,
}

impl View<'_> {
    /// The history as it would be with other content for some items, ascending.
    pub fn with_stored(&self, stored: &[Stored]) -> Self {
        let mut view = self.clone();
        for new in stored {
            match view.stored.binary_search_by_key(&new.block, |s| s.block) {
                Ok(at) => view.stored[at] = *new,
                Err(at) => view.stored.insert(at, *new),
            }
            view.states[new.block as usize].0 |= State::REPLACED.0;
        }
        view
    }

    /// The history in another state.
    pub fn in_state(&self, state: MeasuredState) -> Self {
        let mut view = self.clone();
        match state {
            MeasuredState::Stored => {}
            MeasuredState::Original => {
                view.stored.clear();
                for state in &mut view.states {
                    state.0 &= !(State::OFFLOADED.0 | State::REPLACED.0);
                }
            }
            MeasuredState::Sent => {
                let shown = || self.stubs.iter().filter(|s| !s.server && !s.hidden);
                let is_shown = |block| {
                    let at = self.stubs.binary_search_by_key(&block, |s| s.block);
                    at.is_ok_and(|at| !self.stubs[at].server && !self.stubs[at].hidden)
                };
                view.stored.retain(|s| !is_shown(s.block));
                for stub in shown() {
                    view.states[stub.block as usize].0 |= State::REPLACED.0;
                    view.stored.push(stored_of(stub));
                }
                view.stored.sort_unstable_by_key(|s| s.block);
                let is_left_out = |b: &u32| {
                    let state = view.states[*b as usize];
                    state.has(State::HIDDEN) || state.has(State::WITHHELD)
                };
                let left_out: Vec<u32> =
                    self.live_in(self.live_from..self.revealed).filter(is_left_out).collect();
                for block in &left_out {
                    view.states[*block as usize].0 |= State::GONE.0;
                }
                let gaps: Vec<_> = left_out.iter().map(|b| *b..*b + 1).collect();
                view.live.take(&gaps);
                view.results.retain(|b| left_out.binary_search(b).is_err());
            }
        }
        view
    }
}

/// A stub as stored content.
fn stored_of(stub: &Stub) -> Stored {
    let Stub { block, tokens, utf16, .. } = *stub;
    let (bytes, json_utf16, ascii) = (utf16, utf16, utf16);
    Stored { block, utf16, bytes, json_utf16, lines: 1, tokens, path_utf16: 0, ascii, is_text: false }
}
