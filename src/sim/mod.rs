//! One cell: one session under one strategy on one model. Pure: no I/O, no clock, no text, no thread.

mod aside;
mod asking;
mod cleared;
mod compact;
pub mod context;
mod curve;
mod edits;
pub mod events;
mod keep_alive;
mod kept_tail;
pub mod leave;
pub mod ledger;
mod recorded;
mod recording;
mod recover;
mod refetch;
pub mod run;
mod send;
pub mod shared;
pub mod summary;
pub mod wire;

pub use crate::policy::OnBindingError;
use crate::provider::SentBlock;
pub use curve::{Curve, PromptRecorder};
pub use events::{RequestRow, SimEvent, SimEventKind};
pub use run::{RunOptions, Scratch, run, run_policy};
pub use summary::{CostPusd, MissTotal, Summary};

/// Receives what happens in a run. The default methods do nothing, so a run to a summary costs no
/// per-request output.
pub trait Recorder {
    /// The blocks of a request that was served, as sent: prefix first, then the conversation.
    fn sent(&mut self, _blocks: &[SentBlock]) {}
    /// One served request.
    fn request(&mut self, _row: &RequestRow) {}
    /// Whether rows of requests are wanted at all; `false` spares building them.
    fn wants_requests(&self) -> bool {
        true
    }
    /// One offload, pass, compaction, rejection, recovery or violation.
    fn event(&mut self, _event: &SimEvent) {}
    /// Whether events are wanted at all; `false` spares building them.
    fn wants_events(&self) -> bool {
        false
    }
}

/// Records nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn wants_requests(&self) -> bool {
        false
    }
}

/// Keeps everything.
#[derive(Debug, Clone, Default)]
pub struct FullRecorder {
    /// Requests in order.
    pub requests: Vec<RequestRow>,
    /// Events in order.
    pub events: Vec<SimEvent>,
}

impl Recorder for FullRecorder {
    fn request(&mut self, row: &RequestRow) {
        self.requests.push(*row);
    }

    fn event(&mut self, event: &SimEvent) {
        self.events.push(event.clone());
    }

    fn wants_events(&self) -> bool {
        true
    }
}
