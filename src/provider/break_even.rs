//! When a write to the cache pays: of an edit, and of caching at all.
//!
//! # Divergence from the real API
//!
//! These are the vendors' prices and no more: the turns saved are assumed to be read from the cache, each
//! within the life of the entry.

use super::Ttl;
use super::price::Price;
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

#[cfg(test)]
mod tests {
    use super::super::price::Rates;
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
