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
use crate::provider::cache_spec::{CacheKind, CacheSpec};
use crate::provider::price::Rates;

const SHORT_LIFE_MS: i64 = 300_000;
const LONG_LIFE_MS: i64 = 3_600_000;

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
    /// What everything that neither life saves to write costs more with the long one.
    extra_pusd: u128,
    /// What writing every prefix again costs above reading it, with the short life.
    rewrite_pusd: u128,
}

impl Lives {
    /// Share of requests, with prefixes as long as the others, that must be late for the long life to pay, in millionths;
    /// `None` if it never does.
    pub fn break_even_millionths(&self) -> Option<u64> {
        let share = (self.extra_pusd * 1_000_000).checked_div(self.rewrite_pusd)?;
        u64::try_from(share).ok()
    }

    /// Adds another session's.
    pub fn add(&mut self, other: &Lives) {
        for (own, other) in
            [(&mut self.cost_pusd, other.cost_pusd), (&mut self.regret_pusd, other.regret_pusd)]
        {
            own[0] += other[0];
            own[1] += other[1];
        }
        self.requests += other.requests;
        self.late_requests += other.late_requests;
        self.long_writes += other.long_writes;
        self.long_writes_needed += other.long_writes_needed;
        self.extra_pusd += other.extra_pusd;
        self.rewrite_pusd += other.rewrite_pusd;
    }
}

/// A request as it matters for the life of what it reads.
struct Use<'a> {
    rates: &'a Rates,
    /// Sent plain.
    uncached: u64,
    /// Written whatever becomes of the prefix.
    new: u64,
    /// There to be read, if it is alive; and what of it is read even if it is not.
    prefix: u64,
    floor: u64,
    /// Whether each life outlasts the gap before it.
    alive: [bool; 2],
}

impl Use<'_> {
    fn write_rates(&self) -> [u64; 2] {
        [self.rates.write_short, self.rates.write_long]
    }

    fn of_new(&self) -> [u128; 2] {
        self.write_rates().map(|rate| times(self.new, rate))
    }

    fn of_prefix(&self) -> [u128; 2] {
        let read = |tokens: u64| times(tokens, self.rates.read);
        let [short, long] = self.write_rates();
        [(short, self.alive[0]), (long, self.alive[1])].map(|(rate, alive)| match alive {
            true => read(self.prefix),
            false => read(self.floor) + times(self.prefix - self.floor, rate),
        })
    }

    fn is_late(&self) -> bool {
        self.alive == [false, true]
    }
}

fn times(tokens: u64, rate: u64) -> u128 {
    u128::from(tokens) * u128::from(rate)
}

/// What both lives would have cost a session; `None` where its client or its model has not the choice between these
/// two, or a price is not known.
pub(super) fn of(series: &Series<'_>) -> Option<Lives> {
    if !series.explicit {
        return None;
    }
    let has_both = |cache: CacheSpec| {
        let lives = [cache.short_ttl_ms, cache.long_ttl_ms];
        lives == [SHORT_LIFE_MS, LONG_LIFE_MS] && matches!(cache.kind, CacheKind::Breakpoints(_))
    };
    let caches = (0..series.rows.len()).filter_map(|i| series.model(i).and_then(|model| model.cache));
    if !caches.into_iter().all(has_both) {
        return None;
    }
    let uses: Vec<Use<'_>> = (0..series.rows.len()).map(|i| use_of(series, i)).collect::<Option<_>>()?;
    let mut lives = Lives::default();
    for (i, it) in uses.iter().enumerate() {
        let next = uses.get(i + 1);
        let (new, prefix, plain) = (it.of_new(), it.of_prefix(), times(it.uncached, it.rates.input));
        let again = next.map_or([0, 0], Use::of_prefix);
        let cheaper = (new[0] + again[0]).min(new[1] + again[1]);
        for life in 0..2 {
            lives.cost_pusd[life] += new[life] + prefix[life] + plain;
            lives.regret_pusd[life] += new[life] + again[life] - cheaper;
        }
        lives.requests += u64::from(i > 0);
        lives.late_requests += u64::from(it.is_late());
        let is_long = series.rows[i].usage.cache_write_1h_tokens > 0;
        lives.long_writes += u64::from(is_long);
        lives.long_writes_needed += u64::from(is_long && next.is_some_and(Use::is_late));
        let [short, long] = it.write_rates();
        let written_anyway = it.new + if it.alive[1] { 0 } else { it.prefix - it.floor };
        lives.extra_pusd += times(written_anyway, long.saturating_sub(short));
        lives.rewrite_pusd += times(it.prefix - it.floor, short.saturating_sub(it.rates.read));
    }
    Some(lives)
}

fn use_of<'s>(series: &'s Series<'_>, i: usize) -> Option<Use<'s>> {
    let row = &series.rows[i];
    let (rates, _) = series.price(i)?.rates_for(&row.usage);
    let usage = &row.usage;
    let cached = usage.prompt_tokens() - usage.uncached_tokens;
    let expired = row.cause == Some(Cause::TtlExpired);
    let expected = row.verdict.expected_read_tokens.filter(|_| expired);
    let prefix =
        expected.map_or(usage.cache_read_tokens, |tokens| tokens.clamp(usage.cache_read_tokens, cached));
    // What the first request reads was not written by this session.
    let floor = if i == 0 { prefix } else { series.floor_tokens.min(prefix) };
    let gap_ms = row.verdict.gap_ms.unwrap_or(0);
    let new = cached - prefix;
    Some(Use {
        rates,
        uncached: usage.uncached_tokens,
        new,
        prefix,
        floor,
        alive: [SHORT_LIFE_MS, LONG_LIFE_MS].map(|life| gap_ms < life),
    })
}
