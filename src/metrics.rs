//! Every number a result can show: one table that help, schema, CSV headers and rules are made from.
//!
//! Money and tokens stay integers up to here. A rate is a count of millionths, made by one integer
//! division, so that no machine rounds it differently; dollars print as the exact decimal of their
//! pico-dollar sum (docs/decisions.md 34).

use std::fmt;
use std::str::FromStr;

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::sim::Summary;

/// Pico-dollars in a dollar.
const PUSD_PER_USD: u128 = 1_000_000_000_000;

/// An amount of money in pico-dollars; displays as an exact plain decimal of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Usd(pub u128);

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 12)
    }
}

impl FromStr for Usd {
    type Err = String;

    /// Reads what [`Usd`] displays. At most twelve decimals, no exponent: money is never rounded.
    fn from_str(text: &str) -> std::result::Result<Usd, String> {
        parse_decimal(text, 12).map(Usd)
    }
}

impl Usd {
    /// Dollars with `decimals` decimals (at most 12), rounded half up, for people.
    pub fn rounded(self, decimals: u32) -> String {
        let step = 10_u128.pow(12 - decimals.min(12));
        let units = (self.0 + step / 2) / step;
        let scale = 10_u128.pow(decimals.min(12));
        let whole = group_digits(units / scale);
        if decimals == 0 {
            return whole;
        }
        format!("{whole}.{:0width$}", units % scale, width = decimals as usize)
    }

    /// Dollars as a float, for ratios, search and drawing only.
    #[expect(clippy::cast_precision_loss, reason = "a picture or a percentage does not show the 53rd bit")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / PUSD_PER_USD as f64
    }
}

/// A fraction in millionths; `None` where the denominator is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(pub Option<u64>);

impl Rate {
    /// `part / whole`, half up to the sixth decimal.
    pub fn of(part: u128, whole: u128) -> Rate {
        if whole == 0 {
            return Rate(None);
        }
        Rate(u64::try_from((2 * part * 1_000_000 + whole) / (2 * whole)).ok())
    }

    /// The fraction as a float.
    #[expect(clippy::cast_precision_loss, reason = "millionths of a fraction are far below 2^53")]
    pub fn as_f64(self) -> Option<f64> {
        self.0.map(|micro| micro as f64 / 1e6)
    }

    /// As a percentage with one decimal, `-` where there is none, for people.
    pub fn percent(self) -> String {
        self.0.map_or_else(
            || "-".to_owned(),
            |micro| {
                let tenths = (micro + 500) / 1_000;
                format!("{}.{}%", tenths / 10, tenths % 10)
            },
        )
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(micro) => write_decimal(f, u128::from(micro), 6),
            None => f.write_str("null"),
        }
    }
}

/// `value / 10^decimals` as a plain decimal without trailing zeros.
pub fn write_decimal(f: &mut impl fmt::Write, value: u128, decimals: u32) -> fmt::Result {
    let scale = 10_u128.pow(decimals);
    write!(f, "{}", value / scale)?;
    let fraction = value % scale;
    if fraction == 0 {
        return Ok(());
    }
    let digits = format!("{fraction:0width$}", width = decimals as usize);
    write!(f, ".{}", digits.trim_end_matches('0'))
}

/// Reads a plain non-negative decimal into units of `10^-decimals`, exactly.
pub fn parse_decimal(text: &str, decimals: usize) -> std::result::Result<u128, String> {
    let wrong = || format!("`{text}` is not a plain decimal with at most {decimals} decimals");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > decimals || !is_digits(whole) || !is_digits(fraction) {
        return Err(wrong());
    }
    format!("{whole}{fraction:0<decimals$}").parse().map_err(|_| wrong())
}

/// `1234567` as `1,234,567`.
pub fn group_digits(value: u128) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A fraction.
    Rate(Rate),
    /// Money.
    Usd(Usd),
}

impl Value {
    /// As a float, for rules, search and drawing; `None` for a ratio over 0.
    #[expect(clippy::cast_precision_loss, reason = "rules and pictures compare magnitudes")]
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Count(n) => Some(n as f64),
            Self::Rate(rate) => rate.as_f64(),
            Self::Usd(usd) => Some(usd.as_f64()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Rate(rate) => rate.fmt(f),
            Self::Usd(usd) => usd.fmt(f),
        }
    }
}

/// Which way a metric should move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// A description, not a score.
    Neither,
}

impl Better {
    /// The word used in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Neither => "-",
        }
    }
}

/// What a metric is about: one number, or one number per cause of misses.
#[derive(Debug, Clone, Copy)]
enum Read {
    One(fn(&Summary) -> Value),
    /// Over several sessions it is the largest, not the sum.
    Largest(fn(&Summary) -> Value),
    /// Part and whole; over several sessions each is summed.
    Ratio(fn(&Summary) -> (u128, u128)),
    PerCause(fn(&Summary, Cause) -> Value),
}

/// What a session gives to a metric of many sessions, so that these can be weighed and drawn anew without adding
/// up whole summaries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// Values add up.
    Sum(f64),
    /// The largest counts.
    Largest(f64),
    /// Parts and wholes add up; the metric is their ratio.
    Ratio(f64, f64),
}

/// A row of [`METRICS`].
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name; of a metric per cause, with `{cause}` in it.
    pub name: &'static str,
    /// `tokens`, `usd`, `rate`, `requests`, ...
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// One line.
    pub doc: &'static str,
    read: Read,
}

/// A metric with its cause filled in.
#[derive(Debug, Clone, Copy)]
pub struct MetricRef {
    metric: &'static Metric,
    cause: Cause,
}

impl MetricRef {
    /// Its value in `summary`.
    pub fn value(&self, summary: &Summary) -> Value {
        match self.metric.read {
            Read::One(read) | Read::Largest(read) => read(summary),
            Read::Ratio(read) => Value::Rate(ratio(read(summary))),
            Read::PerCause(read) => read(summary, self.cause),
        }
    }

    /// What `summary` gives to the metric of many sessions.
    #[expect(clippy::cast_precision_loss, reason = "statistics of sessions do not show the 53rd bit")]
    pub fn share(&self, summary: &Summary) -> Share {
        let number = || self.value(summary).as_f64().unwrap_or_default();
        match self.metric.read {
            Read::One(_) | Read::PerCause(_) => Share::Sum(number()),
            Read::Largest(_) => Share::Largest(number()),
            Read::Ratio(read) => {
                let (part, whole) = read(summary);
                Share::Ratio(part as f64, whole as f64)
            }
        }
    }

    /// The row it comes from.
    pub fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// Its full name.
    pub fn name(&self) -> String {
        self.metric.name.replace("{cause}", self.cause.name())
    }
}

/// Every metric name: rows per cause are spelled out.
pub fn all() -> impl Iterator<Item = MetricRef> {
    METRICS.iter().flat_map(|metric| {
        let causes = match metric.read {
            Read::PerCause(_) => Cause::ALL,
            _ => &Cause::ALL[..1],
        };
        causes.iter().map(move |&cause| MetricRef { metric, cause })
    })
}

/// The metric called `name`.
///
/// # Errors
/// [`Error::Unknown`] with the nearest name.
pub fn find(name: &str) -> Result<MetricRef> {
    all().find(|m| m.name() == name).ok_or_else(|| {
        let names: Vec<String> = all().map(|m| m.name()).collect();
        Error::unknown("metric", name, names.iter().map(String::as_str))
    })
}

macro_rules! metrics {
    ($($name:literal, $unit:literal, $better:ident, $read:ident($accessor:expr), $doc:literal;)*) => {
        /// The table of metrics, in the order of lists.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name, unit: $unit, better: Better::$better, doc: $doc, read: Read::$read($accessor),
        },)*];
    };
}

fn count(n: u64) -> Value {
    Value::Count(n)
}

fn usd(pusd: u128) -> Value {
    Value::Usd(Usd(pusd))
}

metrics! {
    "requests", "requests", Neither, One(|s| count(s.requests)), "requests served, summarizer calls left out";
    "cost_usd", "usd", Lower, One(|s| usd(s.cost.total())), "all money, summarizer calls included";
    "cost_uncached_usd", "usd", Lower, One(|s| usd(s.cost.uncached)), "paid for plain input";
    "cost_cache_read_usd", "usd", Lower, One(|s| usd(s.cost.cache_read)), "paid for cache reads";
    "cost_cache_write_usd", "usd", Lower, One(|s| usd(s.cost.cache_write)), "paid for cache writes";
    "cost_output_usd", "usd", Lower, One(|s| usd(s.cost.output)), "paid for output";
    "cost_summarizer_usd", "usd", Lower, One(|s| usd(s.cost.summarizer)), "input and output of summarizer calls";
    "cost_keep_alive_usd", "usd", Lower, One(|s| usd(s.cost.keep_alive)), "input and output of pings that keep the cache alive";
    "keep_alive_pings", "pings", Neither, One(|s| count(s.keep_alive.pings)), "pings that keep the cache alive";
    "keep_alive_saved_usd", "usd", Higher, One(|s| usd(s.keep_alive.saved_pusd)), "what requests would have cost more without these pings";
    "hit_rate", "rate", Higher, Ratio(hit_parts), "cache_read / prompt, weighted by tokens";
    "request_hit_rate", "rate", Higher, Ratio(request_hit_parts), "mean over requests of cache_read / prompt";
    "prompt_tokens", "tokens", Lower, One(|s| count(s.usage.prompt_tokens())), "uncached + cache_read + cache_write";
    "uncached_tokens", "tokens", Lower, One(|s| count(s.usage.uncached_tokens)), "prompt tokens at the plain price";
    "cache_read_tokens", "tokens", Neither, One(|s| count(s.usage.cache_read_tokens)), "prompt tokens read from the cache";
    "cache_write_tokens", "tokens", Lower, One(|s| count(s.usage.cache_write_tokens())), "prompt tokens written, any life";
    "cache_write_5m_tokens", "tokens", Lower, One(|s| count(s.usage.cache_write_5m_tokens)), "written with the short life";
    "cache_write_1h_tokens", "tokens", Lower, One(|s| count(s.usage.cache_write_1h_tokens)), "written with the long life";
    "output_tokens", "tokens", Neither, One(|s| count(s.usage.output_tokens)), "generated tokens, hidden thinking included";
    "peak_prompt_tokens", "tokens", Lower, Largest(|s| count(s.peak_prompt_tokens)), "largest prompt of a request";
    "missed_tokens", "tokens", Lower, One(|s| count(missed_tokens(s))), "prompt tokens not read although an earlier prompt held them";
    "misses.{cause}.tokens", "tokens", Lower, PerCause(|s, c| count(s.miss(c).tokens)), "prompt tokens not read for this cause";
    "misses.{cause}.requests", "requests", Lower, PerCause(|s, c| count(s.miss(c).requests)), "requests with a miss of this cause";
    "misses.{cause}.usd", "usd", Lower, PerCause(|s, c| usd(s.miss(c).cost_pusd)), "what was paid for the missed tokens";
    "summarizer_calls", "calls", Lower, One(|s| count(s.summarizer_calls)), "requests made to write a summary";
    "summarizer_prompt_tokens", "tokens", Lower, One(|s| count(s.summarizer.prompt_tokens())), "prompt tokens of summarizer calls";
    "summarizer_output_tokens", "tokens", Lower, One(|s| count(s.summarizer.output_tokens)), "output tokens of summarizer calls";
    "offloads", "results", Neither, One(|s| count(s.offloads)), "results written to a file before they entered the conversation";
    "passes", "passes", Neither, One(|s| count(s.passes)), "recorded edits of history";
    "elided_results", "results", Neither, One(|s| count(s.elided_results)), "results replaced by a stub";
    "chars_saved", "utf16", Neither, One(|s| count(s.chars_saved)), "UTF-16 units that passes removed";
    "compactions", "compactions", Neither, One(|s| count(s.compactions)), "summaries that replaced history";
    "withheld_thinking_blocks", "blocks", Neither, One(|s| count(s.withheld_thinking_blocks)), "thinking blocks the strategy stopped sending";
    "binding_rejections", "requests", Lower, One(|s| count(s.binding_rejections)), "requests refused because thinking is bound to another history";
    "dropped_thinking_blocks", "blocks", Lower, One(|s| count(s.dropped_thinking_blocks)), "thinking blocks dropped by the provider";
    "allowed_mismatches", "blocks", Lower, One(|s| count(s.allowed_mismatches)), "mismatching thinking blocks that were let through";
    "overflows", "requests", Lower, One(|s| count(s.overflows)), "requests refused for length";
    "truncated_requests", "requests", Lower, One(|s| count(s.truncated_requests)), "requests that the provider shortened, since they did not fit";
    "recoveries", "requests", Neither, One(|s| count(s.recoveries)), "refused requests that were made to fit";
    "violations", "plans", Lower, One(|s| count(s.violations)), "broken plans, and rejections of a retry";
}

fn ratio((part, whole): (u128, u128)) -> Rate {
    Rate::of(part, whole)
}

fn hit_parts(s: &Summary) -> (u128, u128) {
    (u128::from(s.usage.cache_read_tokens), u128::from(s.usage.prompt_tokens()))
}

fn request_hit_parts(s: &Summary) -> (u128, u128) {
    (u128::from(s.hit_rate_sum_nano), u128::from(s.requests) * 1_000_000_000)
}

/// cache_read / prompt.
pub fn hit_rate(s: &Summary) -> Rate {
    ratio(hit_parts(s))
}

/// Mean over requests of cache_read / prompt.
pub fn request_hit_rate(s: &Summary) -> Rate {
    ratio(request_hit_parts(s))
}

/// Missed tokens of every cause but new content.
pub fn missed_tokens(s: &Summary) -> u64 {
    Cause::ALL.iter().filter(|&&c| c != Cause::NewContent).map(|&c| s.miss(c).tokens).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_exact_both_ways() {
        for (pusd, text) in [
            (0, "0"),
            (1, "0.000000000001"),
            (1_234_567_000_000, "1.234567"),
            (5 * PUSD_PER_USD, "5"),
            (12_345_678_901_234_567, "12345.678901234567"),
        ] {
            assert_eq!(Usd(pusd).to_string(), text);
            assert_eq!(text.parse(), Ok(Usd(pusd)));
        }
        for wrong in ["", ".5", "-1", "1e3", "1.0000000000001", "1,5"] {
            assert!(wrong.parse::<Usd>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rounding_for_people_is_half_up_with_thousands_separators() {
        assert_eq!(Usd(1_234_567_894_999_999_999).rounded(4), "1,234,567.8950");
        assert_eq!(Usd(4_999_999_999).rounded(2), "0.00");
        assert_eq!(Usd(5_000_000_000).rounded(2), "0.01");
        assert_eq!(Usd(1_500_000_000_000).rounded(0), "2");
    }

    #[test]
    fn rates_have_six_decimals_and_no_value_over_zero() {
        assert_eq!(Rate::of(1, 3).to_string(), "0.333333");
        assert_eq!(Rate::of(2, 3).to_string(), "0.666667");
        assert_eq!(Rate::of(1, 1).to_string(), "1");
        assert_eq!(Rate::of(0, 0).to_string(), "null");
        assert_eq!(Rate::of(95, 100).percent(), "95.0%");
        assert_eq!(Rate::of(0, 0).percent(), "-");
    }

    #[test]
    fn shares_of_sessions_make_the_metric_of_all() {
        let filled = |k: u64| {
            let mut s = Summary { requests: 3 * k, peak_prompt_tokens: 50 * k, ..Summary::default() };
            s.usage.cache_read_tokens = 100 * k + 7;
            s.usage.uncached_tokens = 13;
            s.cost.output = u128::from(k) * 1_000_000_000_000;
            s.hit_rate_sum_nano = 3 * k * 900_000_000 - k * k;
            s.summarizer_calls = k;
            s.misses[2].tokens = k + 1;
            s
        };
        let sessions = [filled(1), filled(4), filled(2)];
        let mut all = Summary::default();
        sessions.iter().for_each(|s| all.add(s));
        for metric in super::all() {
            let pooled = sessions.iter().map(|s| metric.share(s)).reduce(|a, b| match (a, b) {
                (Share::Sum(a), Share::Sum(b)) => Share::Sum(a + b),
                (Share::Largest(a), Share::Largest(b)) => Share::Largest(a.max(b)),
                (Share::Ratio(a, b), Share::Ratio(c, d)) => Share::Ratio(a + c, b + d),
                _ => panic!("{} changes its kind", metric.name()),
            });
            let pooled = match pooled.expect("three sessions") {
                Share::Sum(x) | Share::Largest(x) => Some(x),
                Share::Ratio(part, whole) => (whole > 0.0).then(|| part / whole),
            };
            let (a, b) = (pooled, metric.value(&all).as_f64());
            assert_eq!(a.is_some(), b.is_some(), "{}", metric.name());
            assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-6, "{}: {a:?} {b:?}", metric.name());
        }
    }

    #[test]
    fn every_metric_is_found_by_its_name_and_names_are_unique() {
        let mut names: Vec<String> = all().map(|m| m.name()).collect();
        for name in &names {
            assert_eq!(&find(name).expect("listed").name(), name);
        }
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(before, names.len());
        assert!(names.contains(&"misses.ttl_expired.usd".to_owned()));
        let error = find("hitrate").expect_err("no such metric").to_string();
        assert_eq!(error, "there is no metric `hitrate`; did you mean `hit_rate`?");
    }
}
