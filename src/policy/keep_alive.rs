//! Pings that keep a cache entry alive while nobody asks for anything.
//!
//! A ping sends the last prompt again and asks for next to nothing: it reads the entry, which renews its life
//! (docs/sources.md A4: a use refreshes for free). The interval runs from the start of a request, as the life
//! does, not from the end of its answer.
//!
//! # Divergence from the real API
//!
//! * A ping generates one token. Models whose thinking cannot be switched off generate more.
//! * A client does not know that a session is over: the pings of its last gap are sent, and save nothing.
//! * Pings count against no rate limit.

/// When a client pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Time without a request, from the start of the last one or of the last ping.
    pub idle_ms: i64,
    /// Most pings between two requests.
    pub pings: u32,
    /// Most pings of a session; `None` without a limit.
    pub cap: Option<u64>,
    /// Prompts with fewer tokens are left to die.
    pub min_tokens: u64,
}

/// Output of a ping.
pub const PING_OUTPUT_TOKENS: u64 = 1;

impl KeepAlive {
    /// Starts of the pings after a request at `start_ms` with a prompt of so many tokens, before the next one, if
    /// there is one; `sent` pings were sent in the session so far.
    pub fn instants(
        &self,
        start_ms: i64,
        next_ms: Option<i64>,
        prompt_tokens: u64,
        sent: u64,
    ) -> impl Iterator<Item = i64> + use<> {
        let left = self.cap.map_or(u64::MAX, |cap| cap.saturating_sub(sent));
        let wanted = if prompt_tokens < self.min_tokens { 0 } else { u64::from(self.pings).min(left) };
        let idle_ms = self.idle_ms;
        (1..=wanted)
            .map_while(move |n| i64::try_from(n).ok()?.checked_mul(idle_ms)?.checked_add(start_ms))
            .take_while(move |at_ms| next_ms.is_none_or(|next_ms| *at_ms < next_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_stop_at_the_next_request_the_count_and_the_cap() {
        let rule = KeepAlive { idle_ms: 280, pings: 3, cap: None, min_tokens: 0 };
        let at = |rule: KeepAlive, next, sent| rule.instants(1_000, next, 100, sent).collect::<Vec<_>>();
        assert_eq!(at(rule, Some(1_600), 0), [1_280, 1_560]);
        assert_eq!(at(rule, Some(1_280), 0), [0; 0], "the request itself renews");
        assert_eq!(at(rule, None, 0), [1_280, 1_560, 1_840]);
        assert_eq!(at(KeepAlive { cap: Some(5), ..rule }, None, 4), [1_280]);
        assert_eq!(at(KeepAlive { cap: Some(5), ..rule }, None, 5), [0; 0]);
        assert_eq!(at(KeepAlive { min_tokens: 101, ..rule }, None, 0), [0; 0]);
    }
}
