//! LiteLLM's `model_prices_and_context_window.json` as a models file.
//!
//! Shape: one object, model name to fields; money in USD per token. The file is read as of `litellm` 1.110.2 (PyPI,
//! November 2026). Only what generates text and has a price of input and output becomes a model; numbers are read from
//! the file's own digits, so no float stands between them and pico-dollars.
//!
//! A name of a vendor's own (`claude-opus-5-5`, `xai/grok-4.5`) gives that model another price. A name at another
//! provider (`azure/gpt-5.4`) is a model of its own under its whole name, with the rules of the model it serves where
//! that is known.
//!
//! # Divergence from the real API
//!
//! * Digits beyond the pico-dollar (prices converted from other currencies) are rounded half up.
//! * A price of more than one threshold is left out, since a tier here has one. Priority, flex and image, audio and
//!   video prices are not read.
//! * A tier without a price of its own for a class has the ordinary one; a model without a price of reads or writes
//!   pays input for them.
//! * Off-peak hours are taken to be those of the vendor in `models/peak.toml`, which knows holidays too.
//! * Prices in this file have no dates: they are valid always.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::price::{Counts, FastRates, Hours, Price, Rates, Tier};
use super::service::Factors;
use crate::error::{Error, Result};

/// Whether a models file is of this shape, not TOML.
pub(super) fn recognise(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A model of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    /// Name as it stands.
    pub name: String,
    /// Our word for its vendor, where it is one of ours and serves its own models.
    pub vendor: Option<&'static str>,
    /// Provider as the file names it.
    pub provider: String,
    pub prices: Vec<Price>,
    pub factors: Factors,
    pub input_limit_tokens: Option<u64>,
    pub max_output_tokens: Option<u64>,
}

/// LiteLLM's words for vendors that have a file here.
const VENDORS: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("gemini", "google"),
    ("deepseek", "deepseek"),
    ("xai", "xai"),
    ("moonshot", "moonshotai"),
    ("zai", "zai"),
    ("dashscope", "qwen"),
    ("minimax", "minimax"),
    ("mistral", "mistral"),
];

type Fields<'t> = BTreeMap<&'t str, &'t RawValue>;

/// Reads the file, in its order.
///
/// # Errors
///
/// Text that is no such file, or a price that is no number, with model and field.
pub(super) fn read(text: &str, origin: &str) -> Result<Vec<Listed>> {
    let entries: Entries<'_> = serde_json::from_str(text).map_err(|e| Error::Input {
        path: origin.into(),
        line: e.line() as u64,
        reason: format!("this is neither TOML nor LiteLLM's price list: {e}"),
    })?;
    let mut listed = Vec::new();
    for (name, raw) in entries.0 {
        let fields: Fields<'_> = serde_json::from_str(raw.get()).map_err(|e| Error::Config {
            origin: format!("{origin}, model `{name}`"),
            reason: format!("its fields are not an object: {e}"),
        })?;
        let entry = Entry { fields: &fields };
        if !entry.is_text() {
            continue;
        }
        let found = entry
            .model(&name, origin)
            .map_err(|reason| Error::Config { origin: format!("{origin}, model `{name}`"), reason })?;
        listed.extend(found);
    }
    if listed.is_empty() {
        return Err(Error::Config {
            origin: origin.to_owned(),
            reason: "no model in it has input_cost_per_token and output_cost_per_token".into(),
        });
    }
    Ok(listed)
}

/// Names and raw fields in file order.
struct Entries<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of models")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

struct Entry<'f, 't> {
    fields: &'f Fields<'t>,
}

/// Field names of the five classes, long write and its older and newer word.
const INPUT: &str = "input_cost_per_token";
const OUTPUT: &str = "output_cost_per_token";
const SHORT: &str = "cache_creation_input_token_cost";
const LONG: [&str; 2] =
    ["cache_creation_input_token_cost_above_1hr", "cache_creation_input_token_cost_above_12hr"];
const READ: &str = "cache_read_input_token_cost";

/// Rates as far as they are given: input, output, short write, long write, read.
type Given = [Option<u64>; 5];

impl Entry<'_, '_> {
    /// Whether it answers with text, and has not been left a sample.
    fn is_text(&self) -> bool {
        let mode = self.text("mode");
        matches!(mode.as_deref(), None | Some("chat" | "responses" | "completion"))
    }

    fn text(&self, field: &str) -> Option<String> {
        self.fields.get(field).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// A price in pico-dollars per token.
    fn pusd(&self, field: &str) -> std::result::Result<Option<u64>, String> {
        let Some(raw) = self.fields.get(field).map(|raw| raw.get()).filter(|raw| *raw != "null") else {
            return Ok(None);
        };
        let number = pico(raw.trim_matches('"'));
        number.map(Some).ok_or_else(|| format!("{field} is {raw}, which is no price in USD per token"))
    }

    fn tokens(&self, field: &str) -> Option<u64> {
        whole_tokens(self.fields.get(field)?.get()).filter(|tokens| *tokens > 0)
    }

    /// The five classes under names with this ending.
    fn rates(&self, ending: &str) -> std::result::Result<Given, String> {
        let named = |name: &str| self.pusd(&format!("{name}{ending}"));
        let long = match named(LONG[0])? {
            Some(long) => Some(long),
            None => named(LONG[1])?,
        };
        Ok([named(INPUT)?, named(OUTPUT)?, named(SHORT)?, long, named(READ)?])
    }

    fn model(&self, name: &str, origin: &str) -> std::result::Result<Option<Listed>, String> {
        let provider = self.text("litellm_provider").unwrap_or_default();
        let Some((base, tier)) = self.base_and_tier()? else { return Ok(None) };
        let Some(rates) = whole(base) else { return Ok(None) };
        let source = self.text("source").unwrap_or_else(|| origin.to_owned());
        let price = Price { tier, fast: self.fast(&rates)?, source, ..Price::flat(rates) };
        let own = VENDORS.iter().find(|(word, _)| *word == provider).map(|(_, vendor)| *vendor);
        Ok(Some(Listed {
            vendor: own,
            prices: self.by_hours(price, base)?,
            factors: Factors {
                batch_percent: self.batch_percent(base)?,
                us_percent: self.us_percent(),
                regional_percent: None,
            },
            input_limit_tokens: self.tokens("max_input_tokens").or_else(|| self.tokens("max_tokens")),
            max_output_tokens: self.tokens("max_output_tokens").or_else(|| self.tokens("max_tokens")),
            provider,
            name: name.to_owned(),
        }))
    }

    /// The ordinary rates and those of long prompts; `None` if there is no price, or more than one threshold.
    fn base_and_tier(&self) -> std::result::Result<Option<(Given, Option<Tier>)>, String> {
        if let Some(raw) = self.fields.get("tiered_pricing").filter(|_| !self.fields.contains_key(INPUT)) {
            return ranges(raw);
        }
        let base = self.rates("")?;
        let prefix = format!("{INPUT}_above_");
        let thresholds: Vec<&str> = self
            .fields
            .keys()
            .filter_map(|field| field.strip_prefix(prefix.as_str())?.strip_suffix("_tokens"))
            .collect();
        let [threshold] = thresholds[..] else {
            return Ok(thresholds.is_empty().then_some((base, None)));
        };
        let thousands = threshold.strip_suffix('k').and_then(|n| n.parse::<u64>().ok());
        let above =
            thousands.ok_or_else(|| format!("{prefix}{threshold}_tokens has no threshold in thousands"))?;
        let long = self.rates(&format!("_above_{threshold}_tokens"))?;
        Ok(Some((base, tier(above * 1_000, base, long))))
    }

    /// Fast mode is a factor on everything.
    fn fast(&self, rates: &Rates) -> std::result::Result<Option<FastRates>, String> {
        let Some(factor) = self.provider_entry("fast") else { return Ok(None) };
        let times = |rate: u64| u64::try_from(u128::from(rate) * u128::from(factor) / FACTOR_ONE).ok();
        Ok(times(rates.input).zip(times(rates.output)).map(|(input, output)| FastRates { input, output }))
    }

    /// A factor of `provider_specific_entry`, in pico-units.
    fn provider_entry(&self, key: &str) -> Option<u64> {
        let raw = self.fields.get("provider_specific_entry")?;
        let entries: Fields<'_> = serde_json::from_str(raw.get()).ok()?;
        pico(entries.get(key)?.get())
    }

    fn us_percent(&self) -> Option<u32> {
        let own = self.fields.get("regional_processing_uplift_multiplier_us").and_then(|raw| pico(raw.get()));
        percent(self.provider_entry("us").or(own)?, FACTOR_ONE)
    }

    /// What batches cost in hundredths, where that is the same for every class.
    fn batch_percent(&self, base: Given) -> std::result::Result<Option<u32>, String> {
        let batches = self.rates("_batches")?;
        let pairs = base.iter().zip(batches).filter_map(|(base, batch)| base.zip(batch));
        let mut factors =
            pairs.filter(|(base, _)| *base > 0).map(|(base, batch)| percent(batch, base.into()));
        let Some(first) = factors.next() else { return Ok(None) };
        Ok(if factors.all(|factor| factor == first) { first } else { None })
    }

    /// The price as it is, or at and outside peak hours.
    fn by_hours(&self, price: Price, base: Given) -> std::result::Result<Vec<Price>, String> {
        let Some(raw) = self.fields.get("off_peak_pricing") else { return Ok(vec![price]) };
        let fields: Fields<'_> =
            serde_json::from_str(raw.get()).map_err(|e| format!("off_peak_pricing: {e}"))?;
        let given = Entry { fields: &fields }.rates("")?;
        let Some(rates) = whole(std::array::from_fn(|i| given[i].or(base[i]))) else {
            return Ok(vec![price]);
        };
        let off_peak = Price { rates, hours: Hours::OffPeak, ..price.clone() };
        Ok(vec![Price { hours: Hours::Peak, ..price }, off_peak])
    }
}

/// Rates of a price that has input and output; the cache costs input where it has no price.
fn whole([input, output, write_short, write_long, read]: Given) -> Option<Rates> {
    let input = input?;
    let or_input = |rate: Option<u64>| rate.unwrap_or(input);
    Some(Rates {
        input,
        output: output?,
        write_short: or_input(write_short),
        write_long: or_input(write_long),
        read: or_input(read),
    })
}

fn tier(above_prompt_tokens: u64, base: Given, long: Given) -> Option<Tier> {
    let rates = whole(std::array::from_fn(|i| long[i].or(base[i])))?;
    Some(Tier { above_prompt_tokens, inclusive: false, counts: Counts::PROMPT, rates })
}

/// `tiered_pricing`: ranges of prompt tokens, each with rates.
fn ranges(raw: &RawValue) -> std::result::Result<Option<(Given, Option<Tier>)>, String> {
    let wrong = |e: serde_json::Error| format!("tiered_pricing: {e}");
    let ranges: Vec<Fields<'_>> = serde_json::from_str(raw.get()).map_err(wrong)?;
    let rates =
        ranges.iter().map(|fields| Entry { fields }.rates("")).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(match (&ranges[..], &rates[..]) {
        ([_], [base]) => Some((*base, None)),
        ([_, second], [base, long]) => {
            let range = second.get("range").map(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()));
            let range = range.transpose().map_err(wrong)?.unwrap_or_default();
            let from = range.first().and_then(|from| whole_tokens(from.get()));
            from.map(|from| (*base, tier(from, *base, *long)))
        }
        _ => None,
    })
}

/// A number of tokens, which the file may write with a fraction of zeros.
fn whole_tokens(text: &str) -> Option<u64> {
    let text = text.trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    whole.parse().ok().filter(|_| fraction.bytes().all(|digit| digit == b'0'))
}

/// 1 in pico-units.
const FACTOR_ONE: u128 = 1_000_000_000_000;

/// A quotient in hundredths, where it is a whole number of them.
fn percent(part: u64, whole: u128) -> Option<u32> {
    let hundredths = u128::from(part) * 100;
    (hundredths % whole == 0).then(|| u32::try_from(hundredths / whole).ok()).flatten()
}

/// A decimal number as JSON writes it, in units of 10⁻¹², half up; `None` if it is none, negative, or too large.
fn pico(text: &str) -> Option<u64> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 30 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: u128 = digits.parse().ok()?;
    let shift = exponent.checked_add(12)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let value = match u32::try_from(shift) {
        Ok(places) => digits.checked_mul(10u128.checked_pow(places)?)?,
        Err(_) => match 10u128.checked_pow(shift.unsigned_abs()) {
            Some(divisor) => (digits + divisor / 2) / divisor,
            None => 0,
        },
    };
    u64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_from_their_digits() {
        for (text, expected) in [
            ("1.25e-07", 125_000),
            ("4e-06", 4_000_000),
            ("0.00001", 10_000_000),
            ("1E-5", 10_000_000),
            ("0.0", 0),
            ("0", 0),
            ("2.9999900000000002e-06", 2_999_990),
            ("1.5e-12", 2),
            ("4e-13", 0),
            ("1", 1_000_000_000_000),
        ] {
            assert_eq!(pico(text), Some(expected), "{text}");
        }
        for bad in ["", "-1e-6", ".5", "NaN", "1e", "1e99", "one"] {
            assert_eq!(pico(bad), None, "{bad}");
        }
    }

    fn one(text: &str) -> Listed {
        let mut found = read(&format!("{{\"m\": {text}}}"), "l.json").unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn rates_tiers_and_factors_are_read() {
        let found = one(r#"{"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 1e-07,
            "output_cost_per_token": 5e-07, "cache_creation_input_token_cost": 1.25e-07,
            "cache_creation_input_token_cost_above_1hr": 2e-07, "cache_read_input_token_cost": 1e-08,
            "input_cost_per_token_above_100k_tokens": 5e-07, "output_cost_per_token_above_100k_tokens": 2.5e-06,
            "cache_creation_input_token_cost_above_1hr_above_100k_tokens": 1e-06,
            "input_cost_per_token_batches": 5e-08, "output_cost_per_token_batches": 2.5e-07,
            "provider_specific_entry": {"us": 1.1, "fast": 2.0}, "max_input_tokens": 1000000.0,
            "max_output_tokens": 128000, "source": "a page"}"#);
        assert_eq!((found.vendor, found.input_limit_tokens), (Some("anthropic"), Some(1_000_000)));
        let price = &found.prices[0];
        let base = Rates {
            input: 100_000,
            output: 500_000,
            write_short: 125_000,
            write_long: 200_000,
            read: 10_000,
        };
        assert_eq!((price.rates, price.source.as_str()), (base, "a page"));
        assert_eq!(price.fast, Some(FastRates { input: 200_000, output: 1_000_000 }));
        let tier = price.tier.unwrap();
        assert_eq!((tier.above_prompt_tokens, tier.inclusive), (100_000, false));
        let long = Rates { input: 500_000, output: 2_500_000, write_long: 1_000_000, ..base };
        assert_eq!(tier.rates, long, "what the tier does not name stays as it is");
        assert_eq!(found.factors.batch_percent.zip(found.factors.us_percent), Some((50, 110)));
    }

    #[test]
    fn twelve_hours_ranges_and_off_peak_hours_are_read() {
        let found = one(r#"{"input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05,
            "cache_creation_input_token_cost_above_12hr": 5e-06, "input_cost_per_token_batches": 1e-06,
            "output_cost_per_token_batches": 1e-05}"#);
        let rates = found.prices[0].rates;
        assert_eq!((rates.write_long, rates.read, rates.write_short), (5_000_000, 2_000_000, 2_000_000));
        assert_eq!(found.factors, Factors::default(), "one class has no discount");
        let found = one(r#"{"tiered_pricing": [{"range": [0, 256000.0], "input_cost_per_token": 5e-08,
            "output_cost_per_token": 4e-07}, {"range": [256000.0, 1000000.0], "input_cost_per_token": 2.5e-07,
            "output_cost_per_token": 2e-06}]}"#);
        let tier = found.prices[0].tier.unwrap();
        assert_eq!((tier.above_prompt_tokens, tier.rates.input), (256_000, 250_000));
        let found = one(r#"{"input_cost_per_token": 1.32e-06, "output_cost_per_token": 3.96e-06,
            "cache_creation_input_token_cost": 0.0, "off_peak_pricing": {"input_cost_per_token": 6.6e-07,
            "output_cost_per_token": 1.98e-06, "windows": []}}"#);
        let [peak, off_peak] = &found.prices[..] else { panic!("two rows") };
        assert_eq!((peak.hours, peak.rates.input), (Hours::Peak, 1_320_000));
        assert_eq!(
            (off_peak.hours, off_peak.rates.input, off_peak.rates.write_short),
            (Hours::OffPeak, 660_000, 0)
        );
    }

    #[test]
    fn what_is_no_text_model_is_left_out_and_what_is_wrong_is_named() {
        let text = r#"{
            "pictures": {"mode": "image_generation", "input_cost_per_token": 1, "output_cost_per_token": 1},
            "free": {"mode": "chat"},
            "two": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6,
                    "input_cost_per_token_above_32k_tokens": 1e-6, "input_cost_per_token_above_256k_tokens": 2e-6},
            "m": {"input_cost_per_token": "1e-6", "output_cost_per_token": 1e-6}}"#;
        let found = read(text, "l.json").unwrap();
        assert_eq!(found.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["m"]);
        let error = read(r#"{"m": {"input_cost_per_token": "dear", "output_cost_per_token": 1}}"#, "l.json");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("l.json, model `m`: input_cost_per_token is \"dear\""), "{error}");
        assert!(read("{}", "l.json").unwrap_err().to_string().contains("no model in it"));
        assert!(read("{\n1}", "l.json").unwrap_err().to_string().contains("l.json, line 2"));
        assert!(recognise("\n {\"a\": 1}") && !recognise("[[model]]\nid = \"x\""));
    }
}
