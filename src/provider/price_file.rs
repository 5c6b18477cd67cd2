//! The price table as a file: reading `models/prices.csv`, and a lint over any table.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::price::{Counts, FastRates, Hours, PeakHours, Price, Rates, Tier};
use crate::error::{Error, Result};

/// The price table in the binary.
pub(crate) const BUILTIN_CSV: &str = include_str!("models/prices.csv");

/// Name of the built-in table in errors.
pub(crate) const BUILTIN_ORIGIN: &str = "prices.csv (built in)";

const PEAK_TOML: &str = include_str!("models/peak.toml");

/// Millionths: a multiple of the input price as the table gives it.
const MILLION: u64 = 1_000_000;

/// One row of the table as it stands in the file. Unknown columns are refused by the reader of the header.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceRow {
    /// Vendor whose price it is, such as `anthropic`.
    pub provider: String,
    /// The model's id in this table.
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
    fast_input: String,
    /// Output price of fast mode.
    fast_output: String,
    effective_from: String,
    effective_to: String,
    as_of: String,
    source_url: String,
    notes: String,
    /// What other price lists say.
    pub cross_check: String,
    /// `yes` if a prompt of exactly the threshold is long.
    tier_inclusive: String,
    /// Token classes held against the threshold, joined by `+`.
    tier_counts: String,
    /// `peak`, `off_peak`, or empty for always.
    hours: String,
    /// What a read costs, as a multiple of the input price; empty where the vendor publishes none.
    read_multiple: String,
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

    /// What a read costs, in millionths of the input price.
    pub fn read_multiple_millionths(&self) -> Option<u64> {
        parse_usd_per_mtok(&self.read_multiple)
    }

    fn price(&self) -> std::result::Result<Price, String> {
        let base = rates(
            [&self.input, &self.output, &self.cache_write_short, &self.cache_write_long, &self.cache_read],
            ["input", "output", "cache_write_short", "cache_write_long", "cache_read"],
        )?;
        let date = |text: &str, field: &str| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("{field} `{text}` is no date (YYYY-MM-DD)")),
        };
        let fast = match (self.fast_input.as_str(), self.fast_output.as_str()) {
            ("", "") => None,
            (input, output) => {
                Some(FastRates { input: usd(input, "fast_input")?, output: usd(output, "fast_output")? })
            }
        };
        let hours = match self.hours.as_str() {
            "" => Hours::Always,
            "peak" => Hours::Peak,
            "off_peak" => Hours::OffPeak,
            other => return Err(format!("hours is `{other}`; write peak, off_peak or nothing")),
        };
        Ok(Price {
            rates: base,
            tier: self.tier()?,
            fast,
            hours,
            from: date(&self.effective_from, "effective_from")?,
            to: date(&self.effective_to, "effective_to")?,
            as_of: self.as_of.clone(),
            source: self.source_url.clone(),
            notes: self.notes.clone(),
        })
    }

    fn tier(&self) -> std::result::Result<Option<Tier>, String> {
        if self.tier_above_prompt_tokens.is_empty() {
            return Ok(None);
        }
        if self.tier_scope != "whole request" {
            return Err(format!("tier_scope is `{}`; only `whole request` is known", self.tier_scope));
        }
        let values = [
            &self.tier_input,
            &self.tier_output,
            &self.tier_cache_write_short,
            &self.tier_cache_write_long,
            &self.tier_cache_read,
        ];
        let names = [
            "tier_input",
            "tier_output",
            "tier_cache_write_short",
            "tier_cache_write_long",
            "tier_cache_read",
        ];
        Ok(Some(Tier {
            above_prompt_tokens: self.tier_above_prompt_tokens.parse().map_err(|_| {
                format!("tier_above_prompt_tokens `{}` is no whole number", self.tier_above_prompt_tokens)
            })?,
            inclusive: match self.tier_inclusive.as_str() {
                "yes" => true,
                "no" | "" => false,
                other => return Err(format!("tier_inclusive is `{other}`; write yes or no")),
            },
            counts: counts(&self.tier_counts)?,
            rates: rates(values.map(String::as_str), names)?,
        }))
    }
}

/// `input+cache_read+cache_write`, or fewer of them; nothing means the whole prompt.
pub(crate) fn counts(text: &str) -> std::result::Result<Counts, String> {
    if text.is_empty() {
        return Ok(Counts::PROMPT);
    }
    let mut counts = Counts { input: false, cache_read: false, cache_write: false };
    for class in text.split('+') {
        match class.trim() {
            "input" => counts.input = true,
            "cache_read" => counts.cache_read = true,
            "cache_write" => counts.cache_write = true,
            other => {
                return Err(format!(
                    "`{other}` is no class of tokens; write input, cache_read or cache_write"
                ));
            }
        }
    }
    Ok(counts)
}

fn usd(text: &str, field: &str) -> std::result::Result<u64, String> {
    parse_usd_per_mtok(text).ok_or_else(|| format!("{field} `{text}` is no price in USD per million tokens"))
}

/// Rates of `[input, output, short write, long write, read]`; empty cache prices fall back to input.
fn rates(values: [&str; 5], fields: [&str; 5]) -> std::result::Result<Rates, String> {
    let input = usd(values[0], fields[0])?;
    let optional = |i: usize| if values[i].is_empty() { Ok(input) } else { usd(values[i], fields[i]) };
    Ok(Rates {
        input,
        output: usd(values[1], fields[1])?,
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
    whole.parse::<u64>().ok()?.checked_mul(MILLION)?.checked_add(millionths)
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

/// Peak hours by vendor.
///
/// # Errors
///
/// Only if the embedded file is broken, which a test excludes.
pub(crate) fn peak_hours() -> Result<BTreeMap<String, PeakHours>> {
    toml::from_str(PEAK_TOML).map_err(|e| Error::toml("peak.toml (built in)", PEAK_TOML, &e))
}

/// What a cache costs as a multiple of the input price, in millionths, as a vendor publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Multiples {
    /// Short write.
    pub write_short: Option<u64>,
    /// Long write.
    pub write_long: Option<u64>,
    /// Read.
    pub read: Option<u64>,
}

impl Multiples {
    /// Anthropic's writes (docs/sources.md A5); reads differ by model.
    pub fn anthropic(read: Option<u64>) -> Multiples {
        Multiples { write_short: Some(1_250_000), write_long: Some(2_000_000), read }
    }
}

/// What is wrong with a price, in sentences that begin with the field. Cache prices of every tier must keep the
/// published multiples of the input price.
pub fn lint(price: &Price, multiples: &Multiples) -> Vec<String> {
    let mut found = Vec::new();
    let tiers = [("", Some(&price.rates)), ("tier ", price.tier.as_ref().map(|tier| &tier.rates))];
    for (tier, rates) in tiers {
        let Some(rates) = rates else { continue };
        for (field, rate, multiple) in [
            ("short write", rates.write_short, multiples.write_short),
            ("long write", rates.write_long, multiples.write_long),
            ("read", rates.read, multiples.read),
        ] {
            let Some(multiple) = multiple else { continue };
            let expected = u128::from(rates.input) * u128::from(multiple);
            if u128::from(rate) * u128::from(MILLION) != expected {
                found.push(format!(
                    "{tier}{field} costs {} and not {} times the input price",
                    ratio(rate, rates.input),
                    ratio(multiple, MILLION)
                ));
            }
        }
    }
    found
}

/// A quotient with up to four decimals.
fn ratio(numerator: u64, denominator: u64) -> String {
    let scaled = (u128::from(numerator) * 10_000).checked_div(u128::from(denominator)).unwrap_or(0);
    let text = format!("{}.{:04}", scaled / 10_000, scaled % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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

    /// One row with some fields, all others empty.
    fn table(fields: &[(&str, &str)]) -> String {
        let header = BUILTIN_CSV.lines().next().unwrap();
        let value =
            |name: &str| fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value);
        let row: Vec<&str> = header.split(',').map(value).collect();
        format!("{header}\n{}\n", row.join(","))
    }

    #[test]
    fn a_row_is_read_as_it_stands() {
        let fields = [("model_id", "m"), ("input", "2"), ("output", "6")];
        let tier = [
            ("tier_above_prompt_tokens", "200000"),
            ("tier_scope", "whole request"),
            ("tier_input", "4"),
            ("tier_output", "12"),
            ("tier_inclusive", "yes"),
            ("tier_counts", "input+cache_read"),
            ("fast_input", "4"),
            ("fast_output", "12"),
            ("hours", "off_peak"),
        ];
        let text = table(&[&fields[..], &tier[..]].concat());
        let (_, price) = read_table(&text, "t").unwrap().remove(0);
        assert_eq!(price.rates.read, 2_000_000, "no price of its own");
        assert_eq!(price.fast, Some(FastRates { input: 4_000_000, output: 12_000_000 }));
        assert_eq!(price.hours, Hours::OffPeak);
        let tier = price.tier.unwrap();
        assert!(tier.inclusive && !tier.counts.cache_write && tier.counts.cache_read);
        for (field, value, message) in [
            ("hours", "noon", "hours is `noon`"),
            ("effective_to", "never", "effective_to `never` is no date"),
            ("tier_above_prompt_tokens", "many", "tier_scope is ``"),
            ("cache_read", "1e-6", "cache_read `1e-6` is no price"),
            ("fast_input", "4", "fast_output `` is no price"),
        ] {
            let text = table(&[&fields[..], &[(field, value)]].concat());
            let error = read_table(&text, "mine.csv").unwrap_err().to_string();
            assert!(error.contains("mine.csv, line 2: m: ") && error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_lint_names_what_is_off() {
        // Another model's long write in this one's row.
        let rates = Rates {
            input: 250_000,
            output: 1_250_000,
            write_short: 312_500,
            write_long: 6_000_000,
            read: 25_000,
        };
        let multiples = Multiples::anthropic(Some(100_000));
        let found = lint(&Price::flat(rates), &multiples);
        assert_eq!(found, ["long write costs 24 and not 2 times the input price"]);
        assert!(lint(&Price::flat(rates), &Multiples::default()).is_empty());
        let fixed = Rates { write_long: 500_000, ..rates };
        assert!(lint(&Price::flat(fixed), &multiples).is_empty());
        let tier = Tier { above_prompt_tokens: 1, inclusive: false, counts: Counts::PROMPT, rates };
        let tiered = Price { tier: Some(tier), ..Price::flat(fixed) };
        assert!(lint(&tiered, &multiples)[0].starts_with("tier long write"));
    }
}
