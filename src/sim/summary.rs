//! What a cell comes to. Integers only; rates and dollars are made in [`crate::metrics`].

use serde::{Deserialize, Serialize};

use crate::cause::{CAUSE_COUNT, Cause};
use crate::provider::price::Price;
use crate::usage::Usage;

/// Cost by class, in pico-dollars (1 USD = 10^12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CostPusd {
    /// Prompt tokens at the plain price.
    pub uncached: u128,
    /// Prompt tokens read from the cache.
    pub cache_read: u128,
    /// Prompt tokens written to the cache, of either life.
    pub cache_write: u128,
    /// Generated tokens, thinking included.
    pub output: u128,
    /// Input and output of summarizer calls.
    pub summarizer: u128,
    /// Pings that keep the cache alive.
    pub keep_alive: u128,
}

impl CostPusd {
    /// Sum of all classes.
    pub fn total(&self) -> u128 {
        let input = self.uncached + self.cache_read + self.cache_write;
        input + self.output + self.summarizer + self.keep_alive
    }

    /// Class-wise sum.
    pub fn add(&mut self, other: &CostPusd) {
        self.uncached += other.uncached;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.summarizer += other.summarizer;
        self.keep_alive += other.keep_alive;
    }
}

/// Pings of a run; their cost is in [`CostPusd::keep_alive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepAliveTotal {
    /// Pings sent.
    pub pings: u64,
    /// Requests that read more than they could have without.
    pub converted_requests: u64,
    /// What these requests would have cost above what they did.
    pub saved_pusd: u128,
    /// Token classes over all pings.
    pub usage: Usage,
}

impl KeepAliveTotal {
    /// A request after pings was served, of which `readable_tokens` could have been read without them.
    pub(super) fn book_saving(&mut self, usage: &Usage, readable_tokens: u64, price: &Price) {
        let tokens = usage.cache_read_tokens.saturating_sub(readable_tokens);
        if tokens == 0 {
            return;
        }
        let (rates, _) = price.rates_for(usage);
        let unread = rates.write_short.max(rates.input);
        self.converted_requests += 1;
        self.saved_pusd += u128::from(tokens) * u128::from(unread.saturating_sub(rates.read));
    }

    fn add(&mut self, other: &KeepAliveTotal) {
        self.pings += other.pings;
        self.converted_requests += other.converted_requests;
        self.saved_pusd += other.saved_pusd;
        self.usage.add(&other.usage);
    }
}

/// Missed tokens of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MissTotal {
    /// Requests with such a miss.
    pub requests: u64,
    /// Tokens missed.
    pub tokens: u64,
    /// What was paid for them.
    pub cost_pusd: u128,
}

/// Why a run ended before the session did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The prompt did not fit and the strategy has no recovery, or it was used up.
    Overflow,
    /// A binding rejection with `--on-binding-error fail`.
    BindingRejection,
    /// The retry of a rejected request was rejected too.
    RejectedAgain,
    /// The provider called the request malformed.
    InvalidRequest,
}

impl StopReason {
    /// The name used in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::BindingRejection => "binding_rejection",
            Self::RejectedAgain => "rejected_again",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

/// Result of one cell. Summarizer calls are in `summarizer` and `cost.summarizer` only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Requests served.
    pub requests: u64,
    /// Token classes over all requests.
    pub usage: Usage,
    /// Token classes over all summarizer calls.
    pub summarizer: Usage,
    /// Number of summarizer calls.
    pub summarizer_calls: u64,
    /// Cost by class.
    pub cost: CostPusd,
    /// Sum over requests of read/prompt, in nano-units: the mean hit rate without floats.
    pub hit_rate_sum_nano: u64,
    /// Largest prompt.
    pub peak_prompt_tokens: u64,
    /// Missed tokens by [`Cause::index`].
    pub misses: [MissTotal; CAUSE_COUNT],
    /// Results written to a file before they entered the conversation.
    pub offloads: u64,
    /// Recorded edits of history.
    pub passes: u64,
    /// Results replaced by a stub.
    pub elided_results: u64,
    /// UTF-16 units saved by passes.
    pub chars_saved: u64,
    /// Summaries that replaced history.
    pub compactions: u64,
    /// Thinking blocks the strategy stopped replaying.
    pub withheld_thinking_blocks: u64,
    /// Requests refused for bound thinking.
    pub binding_rejections: u64,
    /// Thinking blocks dropped by the provider, summed over requests.
    pub dropped_thinking_blocks: u64,
    /// Mismatching blocks let through, summed over requests.
    pub allowed_mismatches: u64,
    /// Requests refused for length.
    pub overflows: u64,
    /// Requests that lost their oldest messages to the provider, since they did not fit.
    pub truncated_requests: u64,
    /// Pings.
    pub keep_alive: KeepAliveTotal,
    /// Requests served after a recovery.
    pub recoveries: u64,
    /// Broken plans, and rejections of a retry.
    pub violations: u64,
    /// Recorded calls made again after the strategy had taken their result out of the request, or cut it.
    pub refetched_calls: u64,
    /// Tokens of what these brought.
    pub refetched_tokens: u64,
    /// Recorded calls made again while their result was there in full.
    pub repeated_calls: u64,
    /// Compactions that took out what one of the next requests fetched again.
    pub refetched_compactions: u64,
    /// Recorded compactions that were undone.
    pub recorded_compactions_undone: u64,
    /// Request at which the run stopped, from 1.
    pub stopped_at_request: Option<u64>,
    /// Why.
    pub stop_reason: Option<StopReason>,
    /// Tokens in front of the conversation that the recording does not show.
    pub hidden_prefix_tokens: u64,
}

impl Summary {
    /// Missed tokens of `cause`.
    pub fn miss(&self, cause: Cause) -> &MissTotal {
        &self.misses[cause.index()]
    }

    pub(super) fn book_miss(&mut self, cause: Cause, tokens: u64, cost_pusd: u128) {
        let miss = &mut self.misses[cause.index()];
        miss.requests += 1;
        miss.tokens += tokens;
        miss.cost_pusd += cost_pusd;
    }

    /// Adds another cell: sums, but the larger peak.
    pub fn add(&mut self, other: &Summary) {
        self.requests += other.requests;
        self.usage.add(&other.usage);
        self.summarizer.add(&other.summarizer);
        self.summarizer_calls += other.summarizer_calls;
        self.cost.add(&other.cost);
        self.hit_rate_sum_nano += other.hit_rate_sum_nano;
        self.peak_prompt_tokens = self.peak_prompt_tokens.max(other.peak_prompt_tokens);
        for (mine, theirs) in self.misses.iter_mut().zip(&other.misses) {
            mine.requests += theirs.requests;
            mine.tokens += theirs.tokens;
            mine.cost_pusd += theirs.cost_pusd;
        }
        self.offloads += other.offloads;
        self.passes += other.passes;
        self.elided_results += other.elided_results;
        self.chars_saved += other.chars_saved;
        self.compactions += other.compactions;
        self.withheld_thinking_blocks += other.withheld_thinking_blocks;
        self.binding_rejections += other.binding_rejections;
        self.dropped_thinking_blocks += other.dropped_thinking_blocks;
        self.allowed_mismatches += other.allowed_mismatches;
        self.overflows += other.overflows;
        self.truncated_requests += other.truncated_requests;
        self.keep_alive.add(&other.keep_alive);
        self.recoveries += other.recoveries;
        self.violations += other.violations;
        self.refetched_calls += other.refetched_calls;
        self.refetched_tokens += other.refetched_tokens;
        self.repeated_calls += other.repeated_calls;
        self.refetched_compactions += other.refetched_compactions;
        self.recorded_compactions_undone += other.recorded_compactions_undone;
        self.hidden_prefix_tokens += other.hidden_prefix_tokens;
    }
}
