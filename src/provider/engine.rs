//! The engine behind [`Provider`].

use super::{Account, Answer, ModelSpec, Request};

/// One conversation with the provider, and the cache of its organisation.
#[derive(Debug)]
pub struct Provider<'m> {
    model: &'m ModelSpec,
}

impl<'m> Provider<'m> {
    /// An empty cache, nothing sent yet.
    pub fn new(model: &'m ModelSpec, _account: Account) -> Provider<'m> {
        Provider { model }
    }

    /// Empties cache and conversation for another run, keeping allocations.
    pub fn reset(&mut self, model: &'m ModelSpec, _account: Account) {
        self.model = model;
    }

    /// Serves or refuses a request.
    pub fn send(&mut self, _request: &Request<'_>) -> Answer {
        unimplemented!()
    }

    /// The response to the request just served holds these thinking blocks ([`super::SentBlock::link`]):
    /// they are bound to that request as evaluated.
    pub fn answered(&mut self, _thinking: &[u32]) {}

    /// A request of another conversation of the same organisation (a summarizer call): served from
    /// and written to the same cache, but this conversation's state does not move.
    pub fn send_aside(&mut self, _model: &ModelSpec, _request: &Request<'_>) -> Answer {
        unimplemented!()
    }

    /// Indexes (into the last request's blocks) of the thinking blocks dropped in it.
    pub fn dropped_thinking(&self) -> &[u32] {
        &[]
    }
}
