//! Prices in a model file: `price = { … }`, or several with validity dates as `[[model.prices]]`.

use serde::Deserialize;

use super::price::{Counts, Date, FastRates, Hours, Price, PriceTable, Rates, Tier};
use super::price_file::{counts, parse_usd_per_mtok};
use crate::error::{Error, Result};

/// A price in USD per million tokens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceFields {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write_short: Option<f64>,
    cache_write_long: Option<f64>,
    long: Option<LongPrice>,
    fast: Option<FastPrice>,
    #[serde(default)]
    hours: Hours,
    from: Option<String>,
    to: Option<String>,
    #[serde(default)]
    as_of: String,
    source: Option<String>,
    #[serde(default)]
    notes: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPrice {
    above_prompt_tokens: u64,
    #[serde(default)]
    inclusive: bool,
    /// Classes held against the threshold, joined by `+`; the whole prompt without it.
    #[serde(default)]
    counts: String,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write_short: Option<f64>,
    cache_write_long: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct FastPrice {
    input: f64,
    output: f64,
}

/// The table of a model that gives these prices.
///
/// # Errors
///
/// Names `origin` and what is wrong with which price.
pub(super) fn table(prices: &[PriceFields], origin: &str) -> Result<PriceTable> {
    let rows = prices.iter().map(|fields| fields.price(origin)).collect::<Result<_>>()?;
    Ok(PriceTable::new(rows))
}

impl PriceFields {
    fn price(&self, origin: &str) -> Result<Price> {
        let wrong = |reason: String| Error::Config { origin: origin.to_owned(), reason };
        let exact = |usd: f64| {
            exact_pusd(usd).ok_or_else(|| {
                wrong(format!("price {usd} is not a USD amount per million tokens with at most 6 decimals"))
            })
        };
        let rates = |input: f64, output: f64, [short, long, read]: [Option<f64>; 3]| -> Result<Rates> {
            let input = exact(input)?;
            let or_input = |value: Option<f64>| value.map_or(Ok(input), exact);
            Ok(Rates {
                input,
                output: exact(output)?,
                write_short: or_input(short)?,
                write_long: or_input(long)?,
                read: or_input(read)?,
            })
        };
        let tier = match &self.long {
            None => None,
            Some(l) => Some(Tier {
                above_prompt_tokens: l.above_prompt_tokens,
                inclusive: l.inclusive,
                counts: if l.counts.is_empty() {
                    Counts::PROMPT
                } else {
                    counts(&l.counts).map_err(wrong)?
                },
                rates: rates(l.input, l.output, [l.cache_write_short, l.cache_write_long, l.cache_read])?,
            }),
        };
        let fast = match &self.fast {
            None => None,
            Some(fast) => Some(FastRates { input: exact(fast.input)?, output: exact(fast.output)? }),
        };
        let day = |text: &Option<String>| text.as_deref().map(str::parse::<Date>).transpose();
        Ok(Price {
            rates: rates(
                self.input,
                self.output,
                [self.cache_write_short, self.cache_write_long, self.cache_read],
            )?,
            tier,
            fast,
            hours: self.hours,
            from: day(&self.from)?,
            to: day(&self.to)?,
            as_of: self.as_of.clone(),
            source: self.source.clone().unwrap_or_else(|| origin.to_owned()),
            notes: self.notes.clone(),
        })
    }
}

/// The float of a TOML file through its shortest decimal form, so that 0.1 is exactly 100,000.
fn exact_pusd(usd: f64) -> Option<u64> {
    parse_usd_per_mtok(&format!("{usd}"))
}
