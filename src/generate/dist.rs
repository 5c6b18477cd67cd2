//! A parameter's distribution, in a form short enough for a command line.
//!
//! ```text
//! 3                                      always 3
//! ln(6.1, 1.6) in 1..60000               log-normal (natural logarithms), cut off at both ends
//! 0.45: 0 | 0.55: 1 + ln(2.0, 1.25)      a mixture: weight, then what is drawn
//! uniform(0, 1)   4 + geometric(0.5)     evenly; 4 and the failures before a success of probability 0.5
//! cycle(15999, 16000, 16001)             these values in turn, without chance
//! ```

use std::fmt;
use std::str::FromStr;

use super::sample;
use crate::error::Error;
use crate::seed::Stream;

/// What a parameter's values are drawn from. [`fmt::Display`] writes what [`FromStr`] reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Dist {
    form: Form,
    /// Values outside become the nearest one inside.
    bounds: Option<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Mixture(Vec<Term>),
    Cycle(Vec<f64>),
}

/// One part of a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Term {
    pub weight: f64,
    pub offset: f64,
    pub core: Core,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Core {
    Constant(f64),
    LogNormal { mu: f64, sigma: f64 },
    Uniform { low: f64, high: f64 },
    Geometric { p: f64 },
}

impl Core {
    fn draw(self, rng: &mut Stream) -> f64 {
        match self {
            Core::Constant(value) => value,
            Core::LogNormal { mu, sigma } => sample::log_normal(rng, mu, sigma),
            Core::Uniform { low, high } => sample::uniform(rng, low, high),
            Core::Geometric { p } => sample::geometric(rng, p),
        }
    }
}

impl Dist {
    /// Always the same value.
    pub fn constant(value: f64) -> Dist {
        Dist::mixture(vec![Term { weight: 1.0, offset: 0.0, core: Core::Constant(value) }])
    }

    pub(super) fn mixture(terms: Vec<Term>) -> Dist {
        Dist { form: Form::Mixture(terms), bounds: None }
    }

    pub(super) fn bounded(self, low: f64, high: f64) -> Dist {
        Dist { bounds: Some((low, high)), ..self }
    }

    /// Every value it takes, where chance has no part in them.
    pub fn fixed_values(&self) -> Option<Vec<f64>> {
        let values: Option<Vec<f64>> = match &self.form {
            Form::Cycle(values) => Some(values.clone()),
            Form::Mixture(terms) => terms
                .iter()
                .map(|term| match term.core {
                    Core::Constant(value) => Some(term.offset + value),
                    _ => None,
                })
                .collect(),
        };
        values.map(|values| values.into_iter().map(|value| self.bound(value)).collect())
    }

    fn bound(&self, value: f64) -> f64 {
        self.bounds.map_or(value, |(low, high)| value.max(low).min(high))
    }

    /// The value of draw `nth`, from 0.
    pub fn draw(&self, rng: &mut Stream, nth: usize) -> f64 {
        let value = match &self.form {
            Form::Cycle(values) => values[nth % values.len()],
            Form::Mixture(terms) => {
                let term = pick(terms, rng);
                term.offset + term.core.draw(rng)
            }
        };
        self.bound(value)
    }
}

/// One of the terms, by weight. A single one takes no draw.
fn pick<'t>(terms: &'t [Term], rng: &mut Stream) -> &'t Term {
    let last = &terms[terms.len() - 1];
    if terms.len() == 1 {
        return last;
    }
    let mut left = sample::unit(rng) * terms.iter().map(|term| term.weight).sum::<f64>();
    terms
        .iter()
        .find(|term| {
            left -= term.weight;
            left < 0.0
        })
        .unwrap_or(last)
}

impl FromStr for Dist {
    type Err = Error;

    fn from_str(text: &str) -> Result<Dist, Error> {
        parse(text).map_err(|reason| Error::Config { origin: format!("distribution `{text}`"), reason })
    }
}

type Parsed<T> = Result<T, String>;

fn parse(text: &str) -> Parsed<Dist> {
    let (body, bounds) = match text.rsplit_once(" in ") {
        Some((body, bounds)) => (body, Some(parse_bounds(bounds)?)),
        None => (text, None),
    };
    let form = match arguments(body.trim(), "cycle") {
        Some(values) => Form::Cycle(values?),
        None => Form::Mixture(parse_mixture(body)?),
    };
    Ok(Dist { form, bounds })
}

fn parse_bounds(text: &str) -> Parsed<(f64, f64)> {
    let (low, high) = text.split_once("..").ok_or("write bounds as LOW..HIGH")?;
    let (low, high) = (number(low)?, number(high)?);
    if low <= high {
        Ok((low, high))
    } else {
        Err(format!("the bounds {low}..{high} are the wrong way round"))
    }
}

fn parse_mixture(text: &str) -> Parsed<Vec<Term>> {
    let parts: Vec<&str> = text.split('|').collect();
    let term = |part: &&str| -> Parsed<Term> {
        let (weight, rest) = match part.split_once(':') {
            Some((weight, rest)) => (number(weight)?, rest),
            None if parts.len() == 1 => (1.0, *part),
            None => return Err(format!("`{}` needs a weight: write WEIGHT: VALUE", part.trim())),
        };
        if weight <= 0.0 {
            return Err(format!("the weight {weight} must be above 0"));
        }
        let (offset, core) = match rest.split_once(" + ") {
            Some((offset, core)) => (number(offset)?, core),
            None => (0.0, rest),
        };
        Ok(Term { weight, offset, core: parse_core(core.trim())? })
    };
    parts.iter().map(term).collect()
}

fn parse_core(text: &str) -> Parsed<Core> {
    if let Some(values) = arguments(text, "ln") {
        return match values?[..] {
            [mu, sigma] if sigma >= 0.0 => Ok(Core::LogNormal { mu, sigma }),
            _ => Err("write ln(MU, SIGMA), SIGMA at least 0".to_owned()),
        };
    }
    if let Some(values) = arguments(text, "uniform") {
        return match values?[..] {
            [low, high] if low <= high => Ok(Core::Uniform { low, high }),
            _ => Err("write uniform(LOW, HIGH)".to_owned()),
        };
    }
    if let Some(values) = arguments(text, "geometric") {
        return match values?[..] {
            [p] if p > 0.0 && p <= 1.0 => Ok(Core::Geometric { p }),
            _ => Err("write geometric(P), P above 0 and at most 1".to_owned()),
        };
    }
    number(text).map(Core::Constant)
}

/// The numbers in `name(…)`, if `text` is that.
fn arguments(text: &str, name: &str) -> Option<Parsed<Vec<f64>>> {
    let inner = text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    Some(inner.split(',').map(number).collect())
}

fn number(text: &str) -> Parsed<f64> {
    let plain = text.trim().replace('_', "");
    plain.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| {
        let what = text.trim();
        format!(
            "`{what}` is no number; a distribution is a number, ln(MU, SIGMA), uniform(LOW, HIGH), geometric(P), \
             cycle(A, B, …) or a mixture such as 0.4: 0 | 0.6: 1 + ln(2, 1.2) in 0..100"
        )
    })
}

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Cycle(values) => {
                let list: Vec<String> = values.iter().map(f64::to_string).collect();
                write!(f, "cycle({})", list.join(", "))?;
            }
            Form::Mixture(terms) => {
                for (i, term) in terms.iter().enumerate() {
                    if terms.len() > 1 {
                        write!(f, "{}{}: ", if i > 0 { " | " } else { "" }, term.weight)?;
                    }
                    if term.offset != 0.0 {
                        write!(f, "{} + ", term.offset)?;
                    }
                    write!(f, "{}", term.core)?;
                }
            }
        }
        match self.bounds {
            Some((low, high)) => write!(f, " in {low}..{high}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Core::Constant(value) => write!(f, "{value}"),
            Core::LogNormal { mu, sigma } => write!(f, "ln({mu}, {sigma})"),
            Core::Uniform { low, high } => write!(f, "uniform({low}, {high})"),
            Core::Geometric { p } => write!(f, "geometric({p})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    fn dist(text: &str) -> Dist {
        text.parse().expect("a distribution")
    }

    fn draws(text: &str, n: usize) -> Vec<f64> {
        let mut rng = seed::stream(3, "dist", &[]);
        (0..n).map(|i| dist(text).draw(&mut rng, i)).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "3",
            "-1.5",
            "ln(6.1, 1.6) in 1..60000",
            "0.45: 0 | 0.55: 1 + ln(2, 1.25)",
            "0.5: uniform(0, 1) | 0.5: 4 + geometric(0.5) in 0..9",
            "cycle(15999, 16000, 16001)",
        ] {
            assert_eq!(dist(text).to_string(), text);
        }
        assert_eq!(dist("ln( 6 ,1 ) in 0..60_000").to_string(), "ln(6, 1) in 0..60000");
    }

    #[test]
    fn mistakes_say_what_is_right() {
        for (text, hint) in [
            ("", "is no number"),
            ("ln(3)", "ln(MU, SIGMA)"),
            ("ln(3, -1)", "SIGMA"),
            ("uniform(2, 1)", "uniform(LOW, HIGH)"),
            ("geometric(0)", "geometric(P)"),
            ("1 | 2", "needs a weight"),
            ("0: 1 | 1: 2", "above 0"),
            ("1 in 5..2", "wrong way round"),
            ("1 in 5", "LOW..HIGH"),
            ("inf", "is no number"),
            ("gamma(1, 2)", "is no number"),
        ] {
            let error = text.parse::<Dist>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn mixtures_take_each_part_by_its_weight() {
        let values = draws("1: 0 | 3: 10 + geometric(1)", 4_000);
        let tens = values.iter().filter(|x| **x == 10.0).count();
        assert!(tens.abs_diff(3_000) < 100 && values.iter().all(|x| *x == 0.0 || *x == 10.0));
    }

    #[test]
    fn bounds_hold_and_cycles_take_turns() {
        assert!(draws("ln(6.1, 1.6) in 100..1000", 500).iter().all(|x| (100.0..=1_000.0).contains(x)));
        assert_eq!(draws("cycle(1, 2, 3) in 0..2", 5), [1.0, 2.0, 2.0, 1.0, 2.0]);
        assert_eq!(dist("0.5: 1 | 0.5: 2").fixed_values(), Some(vec![1.0, 2.0]));
        assert_eq!(dist("ln(1, 1)").fixed_values(), None);
    }
}
