//! Prices and what a request costs, in whole pico-dollars.
//!
//! One table, `models/prices.csv` (docs/sources.md H, compiled 2026-11-30), holds every row with its
//! validity dates, hours, source and cross-checks ([`super::price_file`] reads it). A price per million tokens with
//! at most six decimals is a whole number of pico-dollars per token, so no price is ever rounded.
//!
//! A request is priced by the row that is valid on the day of its session and in the hour in which it starts
//! ([`PriceTable::when`]); `--price-date` asks for another day, not for other hours.
//!
//! # Divergence from the real API
//!
//! * A tier reprices the whole request once its prompt exceeds the threshold. That cached tokens count towards
//!   it is documented for OpenAI and assumed for the others. That xAI's tier includes its threshold is what one of
//!   two price lists says.
//! * A session of before a model's first known price, or after its last, is priced by the first row of its table.
//! * Gemini's explicit caches, rented per token and hour, are not modelled: no strategy makes one. What the rent is, where it
//!   is known, stands with the model ([`super::ModelSpec::storage_pusd_per_token_hour`]) and is in no cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use super::date::{Date, PeakHours};
use crate::usage::Usage;

/// Pico-dollars per token of each class (1 USD per million tokens = 1,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Plain input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Write with the vendor's short life. Without a price of its own: plain input.
    pub write_short: u64,
    /// Write with the vendor's long life. Without a price of its own: plain input.
    pub write_long: u64,
    /// Read. Without a price of its own: plain input, since only an explicit 0 is free.
    pub read: u64,
}

/// Rates for the whole request once its prompt is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Threshold in prompt tokens.
    pub above_prompt_tokens: u64,
    /// Whether a prompt of exactly the threshold is long already.
    pub inclusive: bool,
    /// Which tokens are held against the threshold.
    pub counts: Counts,
    /// The rates.
    pub rates: Rates,
}

impl Tier {
    /// Whether a request is long.
    pub fn applies_to(&self, usage: &Usage) -> bool {
        let tokens = self.counts.of(usage);
        tokens > self.above_prompt_tokens || (self.inclusive && tokens == self.above_prompt_tokens)
    }
}

/// Classes of prompt tokens that a tier counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Plain input.
    pub input: bool,
    /// Reads.
    pub cache_read: bool,
    /// Writes of both lives.
    pub cache_write: bool,
}

impl Counts {
    /// The whole prompt.
    pub const PROMPT: Counts = Counts { input: true, cache_read: true, cache_write: true };

    /// Tokens of a request that count.
    pub fn of(self, usage: &Usage) -> u64 {
        let counted = |counts: bool, tokens: u64| if counts { tokens } else { 0 };
        counted(self.input, usage.uncached_tokens)
            + counted(self.cache_read, usage.cache_read_tokens)
            + counted(self.cache_write, usage.cache_write_tokens())
    }
}

/// Hours in which a price is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hours {
    /// All.
    #[default]
    Always,
    /// The vendor's peak hours.
    Peak,
    /// All others.
    OffPeak,
}

/// Input and output price of fast mode; what the cache costs keeps its ratio to the input price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRates {
    /// Plain input.
    pub input: u64,
    /// Output.
    pub output: u64,
}

/// One price with its validity and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Rates of ordinary requests.
    pub rates: Rates,
    /// Rates of long ones.
    pub tier: Option<Tier>,
    /// Rates of fast mode, where there is one.
    pub fast: Option<FastRates>,
    /// Hours in which it is charged.
    pub hours: Hours,
    /// First day it is valid.
    pub from: Option<Date>,
    /// Last day it is valid.
    pub to: Option<Date>,
    /// When it was read.
    pub as_of: String,
    /// Where it was read.
    pub source: String,
    /// What is doubtful about it.
    pub notes: String,
}

/// Which rates a request was billed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TierName {
    /// The ordinary ones.
    #[default]
    Base,
    /// Those of long prompts.
    Long,
}

/// Cost of one request by class, in pico-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputCost {
    /// Plain input.
    pub uncached: u128,
    /// Reads.
    pub cache_read: u128,
    /// Writes of both lives.
    pub cache_write: u128,
    /// Output.
    pub output: u128,
    /// Rates that applied.
    pub tier: TierName,
}

impl InputCost {
    /// Sum of all classes.
    pub fn total(&self) -> u128 {
        self.uncached + self.cache_read + self.cache_write + self.output
    }
}

/// What was paid for the tokens that were not read: a partition of `uncached + cache_write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnreadCost {
    /// For the tokens that were missed for a cause.
    pub missed: u128,
    /// For new content.
    pub new: u128,
}

impl Price {
    /// A price of these rates at all times, of nobody's table.
    pub const fn flat(rates: Rates) -> Price {
        Price {
            rates,
            tier: None,
            fast: None,
            hours: Hours::Always,
            from: None,
            to: None,
            as_of: String::new(),
            source: String::new(),
            notes: String::new(),
        }
    }

    /// The rates of a request, and their name.
    pub fn rates_for(&self, usage: &Usage) -> (&Rates, TierName) {
        match &self.tier {
            Some(tier) if tier.applies_to(usage) => (&tier.rates, TierName::Long),
            _ => (&self.rates, TierName::Base),
        }
    }

    fn is_valid_on(&self, date: Date) -> bool {
        self.from.is_none_or(|from| from <= date) && self.to.is_none_or(|to| date <= to)
    }

    /// What a request costs.
    #[inline]
    pub fn cost(&self, usage: &Usage) -> InputCost {
        let (rates, tier) = self.rates_for(usage);
        InputCost {
            uncached: times(usage.uncached_tokens, rates.input),
            cache_read: times(usage.cache_read_tokens, rates.read),
            cache_write: times(usage.cache_write_5m_tokens, rates.write_short)
                + times(usage.cache_write_1h_tokens, rates.write_long),
            output: times(usage.output_tokens, rates.output),
            tier,
        }
    }

    /// Splits what was paid for unread tokens between those missed for a cause and new content
    /// (docs/decisions.md 28). After the read a prompt is a stream of long writes, short writes and
    /// plain tokens; the missed ones come first. The two parts sum to `uncached + cache_write` exactly.
    pub fn split_unread(&self, usage: &Usage, missed_tokens: u64) -> UnreadCost {
        let (rates, _) = self.rates_for(usage);
        let stream = [
            (usage.cache_write_1h_tokens, rates.write_long),
            (usage.cache_write_5m_tokens, rates.write_short),
            (usage.uncached_tokens, rates.input),
        ];
        let mut left = missed_tokens;
        let mut cost = UnreadCost::default();
        for (tokens, rate) in stream {
            let missed = left.min(tokens);
            left -= missed;
            cost.missed += times(missed, rate);
            cost.new += times(tokens - missed, rate);
        }
        cost
    }

    /// What `wasted_tokens` cost above reading them: rewritten tokens first, long life first, each at
    /// the price paid less the read price; never negative (docs/decisions.md 28).
    pub fn wasted_pusd(&self, usage: &Usage, wasted_tokens: u64) -> u128 {
        let (rates, _) = self.rates_for(usage);
        let paid = self.split_unread(usage, wasted_tokens).missed;
        paid.saturating_sub(times(wasted_tokens, rates.read))
    }
}

fn times(tokens: u64, pusd_per_token: u64) -> u128 {
    u128::from(tokens) * u128::from(pusd_per_token)
}

/// All prices of one model, in table order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriceTable {
    rows: Vec<Price>,
    /// The vendor's peak hours, where a row has any.
    peak: Option<Arc<PeakHours>>,
}

impl PriceTable {
    /// A table of these rows.
    pub fn new(rows: Vec<Price>) -> PriceTable {
        PriceTable { rows, peak: None }
    }

    /// With these peak hours.
    #[must_use]
    pub fn with_peak(self, peak: Option<Arc<PeakHours>>) -> PriceTable {
        PriceTable { peak, ..self }
    }

    /// All rows, in table order.
    pub fn rows(&self) -> &[Price] {
        &self.rows
    }

    /// The vendor's peak hours.
    pub fn peak(&self) -> Option<&Arc<PeakHours>> {
        self.peak.as_ref()
    }

    /// Whether the hour of a request changes its price.
    pub fn varies_by_hour(&self) -> bool {
        self.peak.is_some() && self.rows.iter().any(|price| price.hours != Hours::Always)
    }

    /// The first row valid on `date`, whatever the hour; without a date, the first row of the table. `None` if
    /// there is none.
    pub fn at(&self, date: Option<Date>) -> Option<&Price> {
        self.when(date, None)
    }

    /// The first row valid on `date` for a request that starts at `at_ms`. Without a date every row is valid, and
    /// without an instant every hour is meant.
    pub fn when(&self, date: Option<Date>, at_ms: Option<i64>) -> Option<&Price> {
        let is_peak = self.peak.as_ref().zip(at_ms).map(|(peak, at_ms)| peak.contains(at_ms));
        let in_hours = |price: &Price| match (price.hours, is_peak) {
            (Hours::Always, _) | (_, None) => true,
            (Hours::Peak, Some(is_peak)) => is_peak,
            (Hours::OffPeak, Some(is_peak)) => !is_peak,
        };
        self.rows.iter().find(|price| date.is_none_or(|date| price.is_valid_on(date)) && in_hours(price))
    }

    /// The rows valid on `date`, for whatever day they are asked next; `None` if there are none.
    pub fn on(&self, date: Date) -> Option<PriceTable> {
        let valid = self.rows.iter().filter(|price| price.is_valid_on(date));
        let rows: Vec<Price> = valid.map(|price| Price { from: None, to: None, ..price.clone() }).collect();
        (!rows.is_empty()).then(|| PriceTable { rows, peak: self.peak.clone() })
    }

    /// What a request costs on `date`; `None` where the price is not known, never 0.
    pub fn cost(&self, usage: &Usage, date: Option<Date>) -> Option<InputCost> {
        self.at(date).map(|price| price.cost(usage))
    }

    pub(crate) fn push(&mut self, price: Price) {
        self.rows.push(price);
    }

    pub(crate) fn map_rows<E>(
        &self,
        change: impl FnMut(&Price) -> Result<Price, E>,
    ) -> Result<PriceTable, E> {
        let rows = self.rows.iter().map(change).collect::<Result<_, E>>()?;
        Ok(PriceTable { rows, peak: self.peak.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from: &str, to: &str, input: u64) -> Price {
        let rates = Rates { input, output: 0, write_short: 0, write_long: 0, read: 0 };
        Price { from: from.parse().ok(), to: to.parse().ok(), ..Price::flat(rates) }
    }

    #[test]
    fn a_price_is_the_one_of_its_day() {
        let table = PriceTable::new(vec![row("", "2026-11-30", 2), row("2026-12-01", "", 4)]);
        let on = |d: &str| table.at(Some(d.parse().unwrap())).map(|p| p.rates.input);
        assert_eq!((on("2026-11-30"), on("2026-12-01")), (Some(2), Some(4)));
        assert_eq!(table.at(None).map(|p| p.rates.input), Some(2));
        assert_eq!(PriceTable::default().cost(&Usage::default(), None), None);
        let later = table.on("2026-12-01".parse().unwrap()).unwrap();
        assert_eq!(later.at(Some("2020-01-01".parse().unwrap())).map(|p| p.rates.input), Some(4));
        let gap = PriceTable::new(vec![row("2026-12-01", "", 4)]);
        assert_eq!(gap.on("2026-11-30".parse().unwrap()), None);
    }

    #[test]
    fn a_price_is_the_one_of_its_hour() {
        let peak: PeakHours = toml::from_str("hours_utc = [\"01:00-04:00\"]").unwrap();
        let rows = [Hours::Peak, Hours::OffPeak].map(|hours| Price { hours, ..row("", "", hours as u64) });
        let table = PriceTable::new(rows.to_vec());
        assert!(!table.varies_by_hour());
        let table = table.with_peak(Some(Arc::new(peak)));
        assert!(table.varies_by_hour());
        // 1970-01-01 was a Thursday.
        let at = |hour: i64| table.when(None, Some(hour * 3_600_000)).map(|p| p.hours);
        assert_eq!((at(1), at(4)), (Some(Hours::Peak), Some(Hours::OffPeak)));
        assert_eq!(table.at(None).map(|p| p.hours), Some(Hours::Peak), "without a time the dearer one");
    }

    #[test]
    fn a_tier_counts_what_it_says() {
        let rates = Rates { input: 1, output: 1, write_short: 1, write_long: 1, read: 1 };
        let usage = Usage {
            uncached_tokens: 30,
            cache_read_tokens: 20,
            cache_write_5m_tokens: 5,
            cache_write_1h_tokens: 4,
            output_tokens: 100,
        };
        for (counts, tokens) in [
            (Counts::PROMPT, 59),
            (Counts { cache_read: false, ..Counts::PROMPT }, 39),
            (Counts { cache_write: false, ..Counts::PROMPT }, 50),
            (Counts { input: false, ..Counts::PROMPT }, 29),
        ] {
            assert_eq!(counts.of(&usage), tokens);
            for (above, inclusive, expected) in [
                (tokens - 1, false, true),
                (tokens, false, false),
                (tokens, true, true),
                (tokens + 1, true, false),
            ] {
                let tier = Tier { above_prompt_tokens: above, inclusive, counts, rates };
                assert_eq!(tier.applies_to(&usage), expected, "{above} {inclusive}");
            }
        }
    }

    #[test]
    fn unread_tokens_are_paid_for_once() {
        let price = Price::flat(Rates { input: 4, output: 20, write_short: 5, write_long: 8, read: 1 });
        let usage = Usage {
            uncached_tokens: 10,
            cache_read_tokens: 100,
            cache_write_5m_tokens: 20,
            cache_write_1h_tokens: 30,
            output_tokens: 7,
        };
        let split = price.split_unread(&usage, 35);
        assert_eq!(split.missed, 30 * 8 + 5 * 5);
        assert_eq!(split.new, 15 * 5 + 10 * 4);
        let cost = price.cost(&usage);
        assert_eq!(split.missed + split.new, cost.uncached + cost.cache_write);
        assert_eq!(price.wasted_pusd(&usage, 35), 30 * 7 + 5 * 4);
    }
}
