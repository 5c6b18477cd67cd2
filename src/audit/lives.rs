//! Which life of cache entries would have paid: what the requests of a recording cost if all of them write for the short
//! life, and if all write for the long one.
//!
//! A request that comes after the short life is over and before the long one writes its prefix again under the one and
//! reads it under the other; every write costs more under the other. Which weighs more is told by the gaps: if late
//! requests had prefixes as long as the others, the long life would pay where their share is above `extra cost of the
//! writes / cost of writing the prefixes again`; what not even the long life saves to write is among those writes.
//!
//! # Divergence from the real API
//!
//! * Nothing changes but the life: a prefix that broke for another reason is written again under both, and so is what
//!   was written for a life that no request outlasts.
//! * What survives breaks ([`Series::floor_tokens`]) is read under both: other conversations use it.
//! * A request without a time comes in time.

use super::judge::Series;
use crate::cause::Cause;
use crate::provider::Ttl;
use crate::provider::break_even::{self, Use};
use crate::provider::cache_spec::{CacheKind, CacheSpec};
use crate::provider::price::Price;
use crate::usage::Usage;

/// The two lives that are sold, and how long they are.
const LIVES: [(Ttl, i64); 2] = [(Ttl::Short, 300_000), (Ttl::Long, 3_600_000)];

/// What the two lives come to; of each pair the short one first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lives {
    /// Input side of the bill if everything is written for that life.
    pub cost_pusd: [u128; 2],
    /// What each write for that life, and what is written again because it was over, costs above the other life for
    /// the same write, where it is the dearer one.
    pub regret_pusd: [u128; 2],
    /// Requests that follow another.
    pub requests: u64,
    /// Of these, those that come after the short life and before the end of the long one.
    pub late_requests: u64,
    /// Recorded writes for the long life.
    pub long_writes: u64,
    /// Of these, those whose next request was late: the short life would have lost them.
    pub long_writes_needed: u64,
    /// What everything that neither life saves to write costs more with the long one, and what writing every prefix
    /// again costs above reading it, with the short one.
    weights_pusd: [u128; 2],
}

impl Lives {
    /// Share of requests, with prefixes as long as the others, that must be late for the long life to pay, in millionths;
    /// `None` if it never does.
    pub fn break_even_millionths(&self) -> Option<u64> {
        break_even::long_life_share(self.weights_pusd)
    }

    /// Adds another session's.
    pub fn add(&mut self, other: &Lives) {
        for (own, other) in [
            (&mut self.cost_pusd, other.cost_pusd),
            (&mut self.regret_pusd, other.regret_pusd),
            (&mut self.weights_pusd, other.weights_pusd),
        ] {
            own[0] += other[0];
            own[1] += other[1];
        }
        self.requests += other.requests;
        self.late_requests += other.late_requests;
        self.long_writes += other.long_writes;
        self.long_writes_needed += other.long_writes_needed;
    }
}

/// A request with what its input costs.
struct Row {
    /// Its own, whatever life it is written for: a prompt does not change its size.
    price: Price,
    /// Sent plain.
    uncached_tokens: u64,
    it: Use,
}

impl Row {
    /// The cost under each life of what `of` makes of the request.
    fn cost(&self, of: impl Fn(Usage) -> Usage, it: Use) -> [u128; 2] {
        LIVES.map(|(ttl, life_ms)| self.price.cost(&of(it.usage(ttl, life_ms))).total())
    }

    fn whole(&self) -> [u128; 2] {
        self.cost(|usage| Usage { uncached_tokens: self.uncached_tokens, ..usage }, self.it)
    }

    fn of_new(&self) -> [u128; 2] {
        self.cost(|usage| usage, Use { prefix_tokens: 0, shared_tokens: 0, ..self.it })
    }

    fn of_prefix(&self) -> [u128; 2] {
        self.cost(|usage| usage, Use { new_tokens: 0, ..self.it })
    }

    fn is_late(&self) -> bool {
        LIVES.map(|(_, life_ms)| self.it.is_alive(life_ms)) == [false, true]
    }
}

/// What both lives would have cost a session; `None` where its client or its model has not the choice between these
/// two, or a price is not known.
pub(super) fn of(series: &Series<'_>) -> Option<Lives> {
    if !series.explicit {
        return None;
    }
    let has_both = |cache: CacheSpec| {
        let lives = [cache.short_ttl_ms, cache.long_ttl_ms];
        lives == LIVES.map(|(_, life_ms)| life_ms) && matches!(cache.kind, CacheKind::Breakpoints(_))
    };
    let mut caches = (0..series.rows.len()).filter_map(|i| series.model(i).and_then(|model| model.cache));
    if !caches.all(has_both) {
        return None;
    }
    let rows: Vec<Row> = (0..series.rows.len()).map(|i| row_of(series, i)).collect::<Option<_>>()?;
    let mut lives = Lives::default();
    for (i, row) in rows.iter().enumerate() {
        let next = rows.get(i + 1);
        let (whole, new) = (row.whole(), row.of_new());
        let again = next.map_or([0, 0], Row::of_prefix);
        let cheaper = (new[0] + again[0]).min(new[1] + again[1]);
        for life in 0..2 {
            lives.cost_pusd[life] += whole[life];
            lives.regret_pusd[life] += new[life] + again[life] - cheaper;
        }
        lives.requests += u64::from(i > 0);
        lives.late_requests += u64::from(row.is_late());
        let is_long = series.rows[i].usage.cache_write_1h_tokens > 0;
        lives.long_writes += u64::from(is_long);
        lives.long_writes_needed += u64::from(is_long && next.is_some_and(Row::is_late));
        let it = &row.it;
        let again_anyway = if it.is_alive(LIVES[1].1) { 0 } else { it.prefix_tokens - it.shared_tokens };
        let [extra, saved] = break_even::long_life_weights(
            &row.price.rates,
            it.new_tokens + again_anyway,
            it.prefix_tokens - it.shared_tokens,
        );
        lives.weights_pusd[0] += extra;
        lives.weights_pusd[1] += saved;
    }
    Some(lives)
}

fn row_of(series: &Series<'_>, i: usize) -> Option<Row> {
    let row = &series.rows[i];
    let (rates, _) = series.price(i)?.rates_for(&row.usage);
    let usage = &row.usage;
    let cached = usage.prompt_tokens() - usage.uncached_tokens;
    let expired = row.cause == Some(Cause::TtlExpired);
    let expected = row.verdict.expected_read_tokens.filter(|_| expired);
    let prefix_tokens =
        expected.map_or(usage.cache_read_tokens, |tokens| tokens.clamp(usage.cache_read_tokens, cached));
    // What the first request reads was not written by this session.
    let shared_tokens = if i == 0 { prefix_tokens } else { series.floor_tokens.min(prefix_tokens) };
    let gap_ms = Some(row.verdict.gap_ms.unwrap_or(0));
    let it = Use { gap_ms, prefix_tokens, shared_tokens, new_tokens: cached - prefix_tokens };
    Some(Row { price: Price::flat(*rates), uncached_tokens: usage.uncached_tokens, it })
}
