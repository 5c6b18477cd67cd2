//! `METRIC OP NUMBER[%|pp]` and `METRIC (rise|drop) <= NUMBER[%|pp]`.
//!
//! Values are compared as integers of 10^-12, so no rounding decides a gate.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::metrics::{self, MetricRef, Rate, Usd, Value, parse_decimal};

/// What holds without rules of one's own, besides that no cell may be missing.
pub const DEFAULT_RULES: [&str; 5] = [
    "hit_rate drop <= 0.3pp",
    "cost_usd rise <= 1%",
    "binding_rejections rise <= 0",
    "overflows rise <= 0",
    "violations rise <= 0",
];

/// Decimals of a number with a unit; values have six more.
const LIMIT_DECIMALS: u32 = 6;
const ONE: u128 = 1_000_000_000_000;

/// A value in units of 10^-12; `None` is a ratio over 0.
pub type Exact = Option<u128>;

/// The exact value of a metric.
pub fn exact(value: Value) -> Exact {
    match value {
        Value::Count(n) => Some(u128::from(n) * ONE),
        Value::Rate(Rate(rate)) => rate.map(|micro| u128::from(micro) * 1_000_000),
        Value::Usd(Usd(pusd)) => Some(pusd),
    }
}

/// How a value is compared with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    AtLeast,
    AtMost,
    Equal,
    Unequal,
    Above,
    Below,
}

/// Longer ones first: `>` begins `>=`.
const OPS: [(&str, Op); 6] = [
    (">=", Op::AtLeast),
    ("<=", Op::AtMost),
    ("==", Op::Equal),
    ("!=", Op::Unequal),
    (">", Op::Above),
    ("<", Op::Below),
];

/// How far a value may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// By this much, in 10^-12.
    Absolute(u128),
    /// By this share of the baseline, in 10^-6 of a percent.
    Percent(u128),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Value(Op, u128),
    Rise(Limit),
    Drop(Limit),
}

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it is about.
    pub metric: MetricRef,
    test: Test,
    text: String,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(typed: &str) -> Result<Rule> {
        let text = typed.split_whitespace().collect::<Vec<_>>().join(" ");
        let fail =
            |reason: &str| Error::Config { origin: format!("rule `{text}`"), reason: reason.to_owned() };
        let forms = "write METRIC >= NUMBER, METRIC rise <= NUMBER or METRIC drop <= NUMBER; the number may end in % or pp";
        let at = text.find(['<', '>', '=', '!']).ok_or_else(|| fail(forms))?;
        let (left, right) = text.split_at(at);
        let (sign, op) = OPS.iter().find(|(sign, _)| right.starts_with(sign)).ok_or_else(|| fail(forms))?;
        let mut words = left.split_whitespace();
        let metric = metrics::find(words.next().ok_or_else(|| fail(forms))?)?;
        let is_rate = metric.metric().unit == "rate";
        let number = Number::parse(right[sign.len()..].trim()).map_err(|why| fail(&why))?;
        let test = match (words.next(), words.next()) {
            (None, _) => {
                if number.unit != Unit::Plain && !is_rate {
                    return Err(fail("% and pp of a value are for rates; write a plain number"));
                }
                Test::Value(*op, number.absolute())
            }
            (Some(word @ ("rise" | "drop")), None) => {
                if *op != Op::AtMost {
                    return Err(fail("a rise or a drop is at most something: write <="));
                }
                let limit = match number.unit {
                    Unit::Points if !is_rate => {
                        return Err(fail("pp is for rates; write % or a plain number"));
                    }
                    Unit::Percent => Limit::Percent(number.micro),
                    _ => Limit::Absolute(number.absolute()),
                };
                if word == "rise" { Test::Rise(limit) } else { Test::Drop(limit) }
            }
            _ => return Err(fail(forms)),
        };
        Ok(Rule { metric, test, text })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Plain,
    Percent,
    Points,
}

struct Number {
    micro: u128,
    unit: Unit,
}

impl Number {
    fn parse(text: &str) -> std::result::Result<Number, String> {
        let (digits, unit) = match (text.strip_suffix('%'), text.strip_suffix("pp")) {
            (Some(digits), _) => (digits, Unit::Percent),
            (None, Some(digits)) => (digits, Unit::Points),
            (None, None) => (text, Unit::Plain),
        };
        Ok(Number { micro: parse_decimal(digits.trim(), LIMIT_DECIMALS as usize)?, unit })
    }

    /// In 10^-12; a percent and a point are a hundredth.
    fn absolute(&self) -> u128 {
        let scaled = self.micro.saturating_mul(ONE / 10_u128.pow(LIMIT_DECIMALS));
        if self.unit == Unit::Plain { scaled } else { scaled / 100 }
    }
}

impl Rule {
    /// Whether it compares with the baseline. Such rules hold for every cell and total, the others for
    /// totals.
    pub fn is_relative(&self) -> bool {
        !matches!(self.test, Test::Value(..))
    }

    /// Whether `now` is right, given what the baseline has. A value that is gone (a ratio over 0 that was
    /// none) is wrong; where there is nothing to compare with, all is right.
    pub fn holds(&self, baseline: Exact, now: Exact) -> bool {
        match self.test {
            Test::Value(op, limit) => now.is_none_or(|now| match op {
                Op::AtLeast => now >= limit,
                Op::AtMost => now <= limit,
                Op::Equal => now == limit,
                Op::Unequal => now != limit,
                Op::Above => now > limit,
                Op::Below => now < limit,
            }),
            Test::Rise(limit) => within(limit, baseline, now, |base, now| now.saturating_sub(base)),
            Test::Drop(limit) => within(limit, baseline, now, u128::saturating_sub),
        }
    }
}

fn within(limit: Limit, baseline: Exact, now: Exact, moved: fn(u128, u128) -> u128) -> bool {
    let Some(base) = baseline else { return true };
    let Some(now) = now else { return false };
    let moved = moved(base, now);
    match limit {
        Limit::Absolute(limit) => moved <= limit,
        // Nothing is a share of 0: any rise from there is too much.
        Limit::Percent(percent) => {
            let share = 100 * 10_u128.pow(LIMIT_DECIMALS);
            moved == 0 || (base > 0 && moved.saturating_mul(share) <= percent.saturating_mul(base))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(rule: &str, baseline: u64, now: u64) -> bool {
        let rule: Rule = rule.parse().expect(rule);
        rule.holds(exact(Value::Count(baseline)), exact(Value::Count(now)))
    }

    fn rates_hold(rule: &str, baseline: Option<u64>, now: Option<u64>) -> bool {
        let rule: Rule = rule.parse().expect(rule);
        let value = |micro| exact(Value::Rate(Rate(micro)));
        rule.holds(value(baseline), value(now))
    }

    #[test]
    fn every_comparison_includes_or_excludes_its_number() {
        for (op, below, same, above) in [
            (">=", false, true, true),
            ("<=", true, true, false),
            ("==", false, true, false),
            ("!=", true, false, true),
            (">", false, false, true),
            ("<", true, false, false),
        ] {
            for (now, expected) in [(4, below), (5, same), (6, above)] {
                assert_eq!(holds(&format!("passes {op} 5"), 0, now), expected, "{now} {op} 5");
                assert_eq!(holds(&format!("passes{op}5"), 0, now), expected, "{now}{op}5");
            }
        }
    }

    #[test]
    fn values_of_rates_may_be_in_percent_or_points() {
        for rule in ["hit_rate >= 0.93", "hit_rate >= 93%", "hit_rate >= 93pp"] {
            assert!(rates_hold(rule, None, Some(930_000)), "{rule}");
            assert!(!rates_hold(rule, None, Some(929_999)), "{rule}");
        }
    }

    #[test]
    fn percent_is_of_the_baseline_and_the_limit_itself_is_allowed() {
        assert!(holds("cost_usd rise <= 1%", 100, 101));
        assert!(holds("cost_usd rise <= 1%", 100, 7));
        assert!(!holds("cost_usd rise <= 1%", 1_000, 1_011));
        assert!(holds("requests drop <= 25%", 4, 3));
        assert!(!holds("requests drop <= 24.9%", 4, 3));
        let rule: Rule = "cost_usd rise <= 1%".parse().expect("a rule");
        assert!(!rule.holds(Some(1_000_000_000_000), Some(1_010_000_000_001)));
    }

    #[test]
    fn any_rise_from_zero_fails_a_percentage() {
        assert!(!holds("overflows rise <= 500%", 0, 1));
        assert!(holds("overflows rise <= 500%", 0, 0));
        assert!(holds("overflows drop <= 5%", 0, 9));
        assert!(holds("overflows rise <= 1", 0, 1));
        assert!(!holds("overflows rise <= 0", 0, 1));
    }

    #[test]
    fn points_are_absolute_hundredths() {
        assert!(rates_hold("hit_rate drop <= 0.3pp", Some(950_000), Some(947_000)));
        assert!(!rates_hold("hit_rate drop <= 0.3pp", Some(950_000), Some(946_999)));
        assert!(!rates_hold("hit_rate drop <= 0.3%", Some(950_000), Some(947_000)));
        assert!(rates_hold("hit_rate drop <= 0.003", Some(950_000), Some(947_000)));
        assert!(rates_hold("hit_rate drop <= 0pp", Some(950_000), Some(990_000)));
    }

    #[test]
    fn a_ratio_over_nothing() {
        assert!(rates_hold("hit_rate drop <= 0.3pp", None, Some(1)));
        assert!(rates_hold("hit_rate drop <= 0.3pp", None, None));
        assert!(!rates_hold("hit_rate drop <= 0.3pp", Some(1), None));
        assert!(rates_hold("hit_rate >= 0.9", Some(1), None));
    }

    #[test]
    fn rules_are_printed_in_one_form_and_slips_say_what_is_right() {
        let rule: Rule = "  misses.ttl_expired.usd   rise<=2% ".parse().expect("a rule");
        assert_eq!(
            (rule.to_string().as_str(), rule.is_relative()),
            ("misses.ttl_expired.usd rise<=2%", true)
        );
        for (text, why) in [
            ("hitrate >= 1", "did you mean `hit_rate`?"),
            ("hit_rate", "METRIC >= NUMBER"),
            ("hit_rate grows <= 1", "METRIC >= NUMBER"),
            ("hit_rate rise fast <= 1", "METRIC >= NUMBER"),
            ("hit_rate rise >= 1", "write <="),
            ("hit_rate >= much", "`much` is not a plain decimal"),
            ("hit_rate >= -1", "`-1` is not a plain decimal"),
            ("cost_usd rise <= 1pp", "pp is for rates"),
            ("cost_usd <= 1%", "for rates"),
            ("<= 1", "METRIC >= NUMBER"),
        ] {
            let error = text.parse::<Rule>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(DEFAULT_RULES.iter().all(|rule| rule.parse::<Rule>().is_ok()));
    }
}
