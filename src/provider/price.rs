//! Prices and what a request costs, in whole pico-dollars.
//!
//! One table, `models/prices.csv` (docs/sources.md H, compiled 2026-11-30), holds every row
//! with its validity dates, source and cross-checks. A price per million tokens with at most six decimals
//! is a whole number of pico-dollars per token, so no multiplier is ever rounded.
//!
//! # Divergence from the real API
//!
//! * A tier reprices the whole request once its prompt (read, written and plain tokens) exceeds the
//!   threshold. That cached tokens count towards it is documented for OpenAI and assumed for Haiku 5.5.
//! * Fast mode, batch, data residency and regional surcharges are listed but not applied.
//! * DeepSeek's peak hours are not modelled: the first row of the table (peak) is used.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::usage::Usage;

/// The price table in the binary.
pub(crate) const BUILTIN_CSV: &str = include_str!("models/prices.csv");

/// Name of the built-in table in errors.
pub(crate) const BUILTIN_ORIGIN: &str = "prices.csv (built in)";

/// A calendar date; compares in time order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Date> {
        let wrong = || Error::Config {
            origin: format!("date `{text}`"),
            reason: "write it as YYYY-MM-DD, like 2026-11-30".into(),
        };
        let mut parts = text.split('-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|p| p.parse::<u16>().ok())
        };
        let (Some(year), Some(month), Some(day)) = (number(4), number(2), number(2)) else {
            return Err(wrong());
        };
        if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(wrong());
        }
        Ok(Date { year, month: month as u8, day: day as u8 })
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

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
    /// The rates.
    pub rates: Rates,
}

/// One price with its validity and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Rates of ordinary requests.
    pub rates: Rates,
    /// Rates of long ones.
    pub tier: Option<Tier>,
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
    /// The rates for a prompt of this size, and their name.
    pub fn rates_for(&self, prompt_tokens: u64) -> (&Rates, TierName) {
        match &self.tier {
            Some(tier)
                if prompt_tokens > tier.above_prompt_tokens
                    || (tier.inclusive && prompt_tokens == tier.above_prompt_tokens) =>
            {
                (&tier.rates, TierName::Long)
            }
            _ => (&self.rates, TierName::Base),
        }
    }

    /// What a request costs.
    pub fn cost(&self, usage: &Usage) -> InputCost {
        let (rates, tier) = self.rates_for(usage.prompt_tokens());
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
        let (rates, _) = self.rates_for(usage.prompt_tokens());
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
        let (rates, _) = self.rates_for(usage.prompt_tokens());
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
}

impl PriceTable {
    /// A table of these rows.
    pub fn new(rows: Vec<Price>) -> PriceTable {
        PriceTable { rows }
    }

    /// All rows, in table order.
    pub fn rows(&self) -> &[Price] {
        &self.rows
    }

    /// The first row valid on `date`; without a date, the first row of the table. `None` if there is none.
    pub fn at(&self, date: Option<Date>) -> Option<&Price> {
        let Some(date) = date else { return self.rows.first() };
        self.rows.iter().find(|p| p.from.is_none_or(|from| from <= date) && p.to.is_none_or(|to| date <= to))
    }

    /// What a request costs on `date`; `None` where the price is not known, never 0.
    pub fn cost(&self, usage: &Usage, date: Option<Date>) -> Option<InputCost> {
        self.at(date).map(|price| price.cost(usage))
    }

    pub(crate) fn push(&mut self, price: Price) {
        self.rows.push(price);
    }
}

/// One row of the table as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PriceRow {
    pub provider: String,
    pub model_id: String,
    input: String,
    output: String,
    cache_write_short: String,
    /// Life of a short write, as the vendor names it.
    pub cache_write_short_ttl: String,
    cache_write_long: String,
    /// Life of a long write, as the vendor names it.
    pub cache_write_long_ttl: String,
    cache_read: String,
    tier_above_prompt_tokens: String,
    tier_scope: String,
    tier_input: String,
    tier_output: String,
    tier_cache_write_short: String,
    tier_cache_write_long: String,
    tier_cache_read: String,
    context_window: String,
    max_input: String,
    max_output: String,
    /// Minimum cacheable prompt as the source words it.
    pub min_cacheable_tokens: String,
    /// Input price of fast mode, USD per million tokens; empty if there is none.
    pub fast_input: String,
    /// Output price of fast mode.
    pub fast_output: String,
    effective_from: String,
    effective_to: String,
    as_of: String,
    source_url: String,
    notes: String,
    /// What other price lists say.
    pub cross_check: String,
}

impl PriceRow {
    /// Largest input, else the window, where the source gives a number.
    pub fn input_limit_tokens(&self) -> Option<u64> {
        self.max_input.parse().or_else(|_| self.context_window.parse()).ok()
    }

    /// Largest output, where the source gives one number.
    pub fn max_output_tokens(&self) -> Option<u64> {
        self.max_output.parse().ok()
    }

    fn price(&self) -> std::result::Result<Price, String> {
        let base = rates(
            [&self.input, &self.output, &self.cache_write_short, &self.cache_write_long, &self.cache_read],
            ["input", "output", "cache_write_short", "cache_write_long", "cache_read"],
        )?;
        let tier = if self.tier_above_prompt_tokens.is_empty() {
            None
        } else {
            if self.tier_scope != "whole request" {
                return Err(format!("tier_scope is `{}`; only `whole request` is known", self.tier_scope));
            }
            Some(Tier {
                above_prompt_tokens: self.tier_above_prompt_tokens.parse().map_err(|_| {
                    format!("tier_above_prompt_tokens `{}` is no whole number", self.tier_above_prompt_tokens)
                })?,
                inclusive: false,
                rates: rates(
                    [
                        &self.tier_input,
                        &self.tier_output,
                        &self.tier_cache_write_short,
                        &self.tier_cache_write_long,
                        &self.tier_cache_read,
                    ],
                    [
                        "tier_input",
                        "tier_output",
                        "tier_cache_write_short",
                        "tier_cache_write_long",
                        "tier_cache_read",
                    ],
                )?,
            })
        };
        let date = |text: &str, field: &str| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("{field} `{text}` is no date (YYYY-MM-DD)")),
        };
        Ok(Price {
            rates: base,
            tier,
            from: date(&self.effective_from, "effective_from")?,
            to: date(&self.effective_to, "effective_to")?,
            as_of: self.as_of.clone(),
            source: self.source_url.clone(),
            notes: self.notes.clone(),
        })
    }
}

/// Rates of `[input, output, short write, long write, read]`; empty cache prices fall back to input.
fn rates(values: [&str; 5], fields: [&str; 5]) -> std::result::Result<Rates, String> {
    let required = |i: usize| {
        parse_usd_per_mtok(values[i])
            .ok_or_else(|| format!("{} `{}` is no price in USD per million tokens", fields[i], values[i]))
    };
    let input = required(0)?;
    let optional = |i: usize| if values[i].is_empty() { Ok(input) } else { required(i) };
    Ok(Rates {
        input,
        output: required(1)?,
        write_short: optional(2)?,
        write_long: optional(3)?,
        read: optional(4)?,
    })
}

/// A decimal price in USD per million tokens as pico-dollars per token; `None` if it is no decimal, or
/// has more than six places.
pub(crate) fn parse_usd_per_mtok(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty()
        || fraction.len() > 6
        || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let millionths: u64 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(millionths)
}

/// Reads a price table: every row with its price, in file order.
///
/// # Errors
///
/// Names `origin`, the line and the field of the first row that cannot be read.
pub fn read_table(csv_text: &str, origin: &str) -> Result<Vec<(PriceRow, Price)>> {
    let wrong = |line: u64, reason: String| Error::Input { path: origin.into(), line, reason };
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let mut rows = Vec::new();
    for record in reader.deserialize::<PriceRow>() {
        let row = record.map_err(|e| wrong(e.position().map_or(0, csv::Position::line), e.to_string()))?;
        let line = rows.len() as u64 + 2;
        let price = row.price().map_err(|reason| wrong(line, format!("{}: {reason}", row.model_id)))?;
        rows.push((row, price));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(parse_usd_per_mtok("0.003"), Some(3_000));
        assert_eq!(parse_usd_per_mtok("6.25"), Some(6_250_000));
        assert_eq!(parse_usd_per_mtok("25"), Some(25_000_000));
        for bad in ["", ".5", "-1", "1e3", "0.0000001", "1,5"] {
            assert_eq!(parse_usd_per_mtok(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_compare_and_refuse_nonsense() {
        let day = |t: &str| t.parse::<Date>();
        assert!(day("2026-11-30").unwrap() < day("2026-12-01").unwrap());
        assert_eq!(day("2026-12-01").unwrap().to_string(), "2026-12-01");
        for bad in ["2026-13-01", "2026-1-1", "yesterday", "2026-12-01-1", "20x6-12-01"] {
            assert!(day(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_price_is_the_one_of_its_day() {
        let row = |from: &str, to: &str, input: u64| Price {
            rates: Rates { input, output: 0, write_short: 0, write_long: 0, read: 0 },
            tier: None,
            from: from.parse().ok(),
            to: to.parse().ok(),
            as_of: String::new(),
            source: String::new(),
            notes: String::new(),
        };
        let table = PriceTable::new(vec![row("", "2026-11-30", 2), row("2026-12-01", "", 4)]);
        let on = |d: &str| table.at(Some(d.parse().unwrap())).map(|p| p.rates.input);
        assert_eq!((on("2026-11-30"), on("2026-12-01")), (Some(2), Some(4)));
        assert_eq!(table.at(None).map(|p| p.rates.input), Some(2));
        assert_eq!(PriceTable::default().cost(&Usage::default(), None), None);
    }

    #[test]
    fn unread_tokens_are_paid_for_once() {
        let rates = Rates { input: 4, output: 20, write_short: 5, write_long: 8, read: 1 };
        let price = Price {
            rates,
            tier: None,
            from: None,
            to: None,
            as_of: String::new(),
            source: String::new(),
            notes: String::new(),
        };
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
