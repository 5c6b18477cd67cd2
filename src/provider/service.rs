//! How a request is bought: speed, batch and region, each with its factor on the price.
//!
//! Factors are fields of a model (docs/sources.md H: batch at half the price, US-only inference and regional endpoints
//! of other clouds 10 % more); fast mode has prices of its own in `models/prices.csv`. All of them stack with each other
//! and with what the cache costs.
//!
//! # Divergence from the real API
//!
//! * A whole run is bought one way; a fall-back to standard speed when the fast one is full is not modelled.
//! * Batches answer within a day, not at once. Here they keep the recording's times, so the cache is as warm as it
//!   was in the recording.
//! * A rate that a factor would make a fraction of a pico-dollar per token is rounded half up.

use serde::{Deserialize, Serialize};

use super::price::{Price, PriceTable, Rates};

/// Factors of a model's price, in hundredths; `None` where the vendor publishes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Batches.
    pub batch_percent: Option<u32>,
    /// Inference in the United States only.
    pub us_percent: Option<u32>,
    /// Regional endpoints of a cloud.
    pub regional_percent: Option<u32>,
}

impl Factors {
    /// These, and for what they lack, `other`.
    #[must_use]
    pub fn or(self, other: Factors) -> Factors {
        Factors {
            batch_percent: self.batch_percent.or(other.batch_percent),
            us_percent: self.us_percent.or(other.us_percent),
            regional_percent: self.regional_percent.or(other.regional_percent),
        }
    }
}

/// Speed of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speed {
    /// As everyone is served.
    #[default]
    Standard,
    /// Faster answers for a multiple of the price, where the vendor sells them (Anthropic's fast mode).
    Fast,
}

/// Where a request may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Region {
    /// Anywhere.
    #[default]
    Global,
    /// In the United States only.
    Us,
    /// At a regional endpoint of a cloud.
    Regional,
}

/// How requests are bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Service {
    /// Speed.
    pub speed: Speed,
    /// In batches.
    pub batch: bool,
    /// Where.
    pub region: Region,
}

impl Service {
    /// Its words, joined by commas; `None` for the standard service.
    pub fn words(&self) -> Option<String> {
        let region = match self.region {
            Region::Global => None,
            Region::Us => Some("us"),
            Region::Regional => Some("regional"),
        };
        let words = [(self.speed == Speed::Fast).then_some("fast"), self.batch.then_some("batch"), region];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Whether anything is sold this way.
    ///
    /// # Errors
    ///
    /// It is not, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.speed == Speed::Fast && self.batch {
            return Err("fast mode is not sold in batches: leave --speed fast or --batch out".to_owned());
        }
        Ok(())
    }

    /// The table of a model bought this way.
    ///
    /// # Errors
    ///
    /// A price that is not known, as the rest of a sentence that begins with the model.
    pub fn price(&self, table: &PriceTable, factors: &Factors) -> Result<PriceTable, String> {
        if *self == Service::default() {
            return Ok(table.clone());
        }
        self.check()?;
        let region = match self.region {
            Region::Global => Some(100),
            Region::Us => factors.us_percent,
            Region::Regional => factors.regional_percent,
        };
        let region = region.ok_or("no price of that region is known")?;
        let batch = if self.batch { factors.batch_percent } else { Some(100) };
        let batch = batch.ok_or("no price of batches is known")?;
        let percent = |rates: Rates| scale(rates, u64::from(region) * u64::from(batch), 10_000);
        table.map_rows(|price| {
            let price = if self.speed == Speed::Fast { fast(price)? } else { price.clone() };
            let tier = price.tier.map(|tier| super::price::Tier { rates: percent(tier.rates), ..tier });
            Ok(Price { rates: percent(price.rates), tier, ..price })
        })
    }
}

/// The price in fast mode: cache prices, and those of long prompts, keep their ratio to the ordinary ones.
fn fast(price: &Price) -> Result<Price, String> {
    let fast = price.fast.ok_or("no price of fast mode is known")?;
    let base = price.rates;
    let faster = |rates: Rates| Rates {
        output: ratio(rates.output, fast.output, base.output),
        ..scale(rates, fast.input, base.input)
    };
    let tier = price.tier.map(|tier| super::price::Tier { rates: faster(tier.rates), ..tier });
    Ok(Price { rates: faster(base), tier, ..price.clone() })
}

fn scale(rates: Rates, numerator: u64, denominator: u64) -> Rates {
    let scaled = |rate: u64| ratio(rate, numerator, denominator);
    Rates {
        input: scaled(rates.input),
        output: scaled(rates.output),
        write_short: scaled(rates.write_short),
        write_long: scaled(rates.write_long),
        read: scaled(rates.read),
    }
}

/// `rate × numerator / denominator`, half up; `rate` itself over nothing.
fn ratio(rate: u64, numerator: u64, denominator: u64) -> u64 {
    let (rate_wide, denominator) = (u128::from(rate), u128::from(denominator));
    let scaled = (rate_wide * u128::from(numerator) * 2 + denominator).checked_div(denominator * 2);
    scaled.and_then(|n| u64::try_from(n).ok()).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::super::price::FastRates;
    use super::*;

    const FACTORS: Factors =
        Factors { batch_percent: Some(50), us_percent: Some(110), regional_percent: Some(110) };

    fn table() -> PriceTable {
        let rates = Rates {
            input: 4_000_000,
            output: 20_000_000,
            write_short: 5_000_000,
            write_long: 8_000_000,
            read: 200_000,
        };
        let fast = Some(FastRates { input: 8_000_000, output: 40_000_000 });
        PriceTable::new(vec![Price { fast, ..Price::flat(rates) }])
    }

    fn rates(service: Service) -> [u64; 5] {
        let table = service.price(&table(), &FACTORS).unwrap();
        let r = table.rows()[0].rates;
        [r.input, r.output, r.write_short, r.write_long, r.read]
    }

    #[test]
    fn factors_stack_and_stay_exact() {
        let standard = Service::default();
        let base = [4_000_000, 20_000_000, 5_000_000, 8_000_000, 200_000];
        assert_eq!(rates(standard), base);
        assert_eq!(rates(Service { batch: true, ..standard }), base.map(|r| r / 2));
        for region in [Region::Us, Region::Regional] {
            assert_eq!(rates(Service { region, ..standard }), base.map(|r| r / 10 * 11));
            let both = Service { region, batch: true, ..standard };
            assert_eq!(rates(both), base.map(|r| r / 20 * 11));
            let fast = Service { region, speed: Speed::Fast, ..standard };
            assert_eq!(rates(fast), base.map(|r| r / 10 * 22));
        }
        assert_eq!(rates(Service { speed: Speed::Fast, ..standard }), base.map(|r| r * 2));
    }

    #[test]
    fn what_is_not_sold_is_refused() {
        let standard = Service::default();
        let none = Factors::default();
        for service in [
            Service { batch: true, ..standard },
            Service { region: Region::Us, ..standard },
            Service { region: Region::Regional, ..standard },
        ] {
            assert!(service.price(&table(), &none).unwrap_err().contains("is known"));
        }
        let slow = PriceTable::new(vec![Price { fast: None, ..table().rows()[0].clone() }]);
        let fast = Service { speed: Speed::Fast, ..standard };
        assert!(fast.price(&slow, &FACTORS).unwrap_err().contains("fast mode"));
        let both = Service { batch: true, ..fast };
        assert_eq!((standard.words(), both.words().as_deref()), (None, Some("fast, batch")));
        assert!(both.price(&table(), &FACTORS).unwrap_err().contains("batches"));
    }
}
