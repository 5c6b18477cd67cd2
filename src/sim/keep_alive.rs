//! Pings between two requests, what they cost, and what they saved.
//!
//! What a ping saved is known once the next request is served: what it read above what could still have been read
//! without any ping, at the price of writing it (or sending it plain, where that is dearer) less that of reading it.

use super::Recorder;
use super::run::Cell;
use crate::policy::Policy;
use crate::policy::keep_alive::PING_OUTPUT_TOKENS;
use crate::provider::{Answer, Request};

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Pings after the request of `step`, which was just served.
    pub(super) fn keep_alive(&mut self, step: usize) {
        let Some(rule) = self.strategy.keep_alive else { return };
        let steps = &self.session.steps;
        let Some(start_ms) = steps[step].start_ms else { return };
        let next_ms = steps.get(step + 1).and_then(|next| next.start_ms);
        let base = Request {
            automatic: self.automatic(),
            ttft_ms: self.ttft_ms(),
            params: self.params,
            markers: &self.markers,
            ..self.log.request(&self.context)
        };
        let (prompt_tokens, sent) = (self.log.last_prompt_tokens(), self.log.pings());
        let mut instants = rule.instants(start_ms, next_ms, prompt_tokens, sent).peekable();
        if instants.peek().is_none() {
            return;
        }
        if let Some(at_ms) = next_ms {
            let readable = self.provider.would_read(&Request { at_ms, ..base });
            self.log.without_pings(readable);
        }
        for at_ms in instants {
            match self.provider.send(&Request { at_ms, ..base }) {
                Answer::Done(done) => {
                    let mut usage = done.usage;
                    usage.output_tokens = PING_OUTPUT_TOKENS;
                    self.log.pinged(&usage, at_ms);
                }
                Answer::Rejected(_) => return,
            }
        }
    }
}
