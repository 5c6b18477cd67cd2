//! When a write to the cache pays: of an edit, and of caching at all.
//!
//! # Divergence from the real API
//!
//! These are the vendors' prices and no more: the turns saved are assumed to be read from the cache, each
//! within the life of the entry.

use super::Ttl;
use super::price::{Price, Rates};
use crate::usage::Usage;

/// What an edit of history costs, and after how many turns it has paid for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditBreakEven {
    /// Cost of the turn with the edit above the same turn without; negative if it is cheaper at once.
    pub extra_cost_pusd: i128,
    /// Later turns until the reads it saves are worth more; `None` if they never are.
    pub turns: Option<u64>,
}

/// Compares the turn that carries an edit with the same turn without it. Each later turn reads
/// `saved_tokens` less.
pub fn of_edit(price: &Price, edit: &Usage, keep: &Usage, saved_tokens: u64) -> EditBreakEven {
    let cost = |usage: &Usage| price.cost(usage).total() as i128;
    let extra_cost_pusd = cost(edit) - cost(keep);
    let (rates, _) = price.rates_for(edit);
    let saved_pusd = u128::from(saved_tokens) * u128::from(rates.read);
    let turns = match u128::try_from(extra_cost_pusd) {
        Err(_) => Some(0),
        Ok(0) => Some(0),
        Ok(_) if saved_pusd == 0 => None,
        Ok(extra) => u64::try_from(extra.div_ceil(saved_pusd)).ok(),
    };
    EditBreakEven { extra_cost_pusd, turns }
}

/// The first number of equal requests, each within the life of the entry, from which caching is cheaper
/// than not caching; `None` if reads cost as much as plain input.
pub fn of_caching(price: &Price, ttl: Ttl) -> Option<u64> {
    let rates = &price.rates;
    let write = match ttl {
        Ttl::Short => rates.write_short,
        Ttl::Long => rates.write_long,
    };
    // write + (n - 1) × read < n × input
    let gain = rates.input.checked_sub(rates.read).filter(|gain| *gain > 0)?;
    Some(write.saturating_sub(rates.read) / gain + 1)
}

/// Share of requests, in millionths, that must come after the short life is over and before the long one is for the
/// long life to pay, in a conversation whose requests write `new_tokens` each behind a prefix of `prefix_tokens`:
/// the dearer writes against a prefix written anew. `None` if the prefix costs no more to write than to read.
///
/// Where everything is rewritten each time both are the same.
pub fn of_long_life(price: &Price, new_tokens: u64, prefix_tokens: u64) -> Option<u64> {
    long_life_share(long_life_weights(&price.rates, new_tokens, prefix_tokens))
}

/// What the long life costs more to write new tokens with, and what the short one costs to write a prefix anew above
/// reading it.
pub(crate) fn long_life_weights(rates: &Rates, new_tokens: u64, prefix_tokens: u64) -> [u128; 2] {
    let extra = u128::from(rates.write_long.saturating_sub(rates.write_short));
    let saved = u128::from(rates.write_short.saturating_sub(rates.read));
    [extra * u128::from(new_tokens), saved * u128::from(prefix_tokens)]
}

/// The share of [`of_long_life`], by the sums of its weights.
pub(crate) fn long_life_share([extra, saved]: [u128; 2]) -> Option<u64> {
    u64::try_from((extra * 1_000_000).checked_div(saved)?).ok()
}

/// A request as it matters for the life of what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// Since the start of the request before; `None` for the first.
    pub gap_ms: Option<i64>,
    /// Tokens that the request before left in the cache.
    pub prefix_tokens: u64,
    /// Of these, those that are read however late it comes: other conversations use them too.
    pub shared_tokens: u64,
    /// Tokens it adds to the cache.
    pub new_tokens: u64,
}

impl Use {
    /// Whether a life outlasts the gap before it.
    pub fn is_alive(&self, life_ms: i64) -> bool {
        self.gap_ms.is_some_and(|gap_ms| gap_ms < life_ms)
    }

    /// What it reads and writes if everything is written with one life, short or long.
    pub fn usage(&self, ttl: Ttl, life_ms: i64) -> Usage {
        let read = if self.is_alive(life_ms) { self.prefix_tokens } else { self.shared_tokens };
        let write = self.prefix_tokens - read + self.new_tokens;
        match ttl {
            Ttl::Short => Usage { cache_read_tokens: read, cache_write_5m_tokens: write, ..Usage::default() },
            Ttl::Long => Usage { cache_read_tokens: read, cache_write_1h_tokens: write, ..Usage::default() },
        }
    }
}

/// What the input of these requests costs if everything is written with one life, short or long.
pub fn of_life(price: &Price, uses: &[Use], ttl: Ttl, life_ms: i64) -> u128 {
    uses.iter().map(|it| price.cost(&it.usage(ttl, life_ms)).total()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: u64, write_short: u64, write_long: u64, read: u64) -> Price {
        let rates = Rates { input, output: 0, write_short, write_long, read };
        Price::flat(rates)
    }

    #[test]
    fn caching_pays_from_the_request_that_makes_it_cheaper() {
        let p = price(100, 125, 200, 10);
        for ttl in [Ttl::Short, Ttl::Long] {
            let write = if ttl == Ttl::Short { 125 } else { 200 };
            let first = (1..).find(|n| write + (n - 1) * 10 < n * 100);
            assert_eq!(of_caching(&p, ttl), first);
        }
        assert_eq!(of_caching(&price(100, 100, 100, 100), Ttl::Short), None);
        assert_eq!(of_caching(&price(100, 0, 0, 10), Ttl::Short), Some(1), "free writes pay at once");
    }

    /// anthropics/claude-code#46829: 0.75 of the input price for each token written, against 1.15 for each of the
    /// prefix at an expiry in between.
    #[test]
    fn the_long_life_pays_from_a_share_of_gaps() {
        let p = price(100, 125, 200, 10);
        assert_eq!(of_long_life(&p, 1, 1), Some(652_173), "75 / 115: everything is rewritten");
        assert_eq!(of_long_life(&p, 900, 120_000), Some(4_891), "half a per cent of an append-only session");
        assert_eq!(of_long_life(&price(100, 100, 100, 100), 1, 1), None);
        // At that share the two lives cost the same: 115 gaps in 10,000 that only the long life outlasts.
        let uses = |late: usize| -> Vec<Use> {
            let gap = |i: usize| if i < late { 600_000 } else { 10_000 };
            (0..10_000)
                .map(|i| Use {
                    gap_ms: Some(gap(i)),
                    prefix_tokens: 120_000,
                    new_tokens: 1_840,
                    ..Use::default()
                })
                .collect()
        };
        let cheaper = |late: usize| {
            let [short, long] = [(Ttl::Short, 300_000), (Ttl::Long, 3_600_000)]
                .map(|(ttl, life_ms)| of_life(&p, &uses(late), ttl, life_ms));
            short.cmp(&long)
        };
        assert_eq!(of_long_life(&p, 1_840, 120_000), Some(10_000), "one in a hundred");
        use std::cmp::Ordering::{Equal, Greater, Less};
        assert_eq!((cheaper(99), cheaper(100), cheaper(101)), (Less, Equal, Greater));
    }

    #[test]
    fn an_edit_pays_back_at_the_turn_that_covers_it() {
        let p = price(100, 125, 200, 10);
        let usage = |write: u64, read: u64| Usage {
            cache_write_5m_tokens: write,
            cache_read_tokens: read,
            ..Usage::default()
        };
        let even = of_edit(&p, &usage(100, 0), &usage(0, 150), 20);
        assert_eq!((even.extra_cost_pusd, even.turns), (11_000, Some(55)));
        assert_eq!(of_edit(&p, &usage(0, 100), &usage(0, 150), 50).turns, Some(0), "cheaper at once");
        assert_eq!(of_edit(&p, &usage(100, 0), &usage(0, 150), 0).turns, None);
    }
}
