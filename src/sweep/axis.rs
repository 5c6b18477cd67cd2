//! `--grid KEY=SPEC`: the values of one parameter, and the grid of several.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::policy::{self, Param, ParamValue, PolicyConfig};

/// Most values of one axis, and most strategies of a grid: more is a slip.
const MAX_POINTS: usize = 100_000;

/// One parameter and the values it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// As typed; labels of grid points show it.
    pub key: String,
    /// As typed, or as spaced.
    pub values: Vec<String>,
    text: String,
}

impl FromStr for Axis {
    type Err = Error;

    /// Reads `KEY=1,3,5`, `KEY=LOW..HIGH:STEP` or `KEY=LOW..HIGH:log:N`; without a step it is 1. Both
    /// ends belong to a range.
    fn from_str(text: &str) -> Result<Axis> {
        let fail = |reason: String| Error::Config { origin: format!("--grid {text}"), reason };
        let forms = "write KEY=1,3,5 or KEY=0..10:2 or KEY=10000..200000:log:9";
        let (key, spec) = text.split_once('=').ok_or_else(|| fail(forms.to_owned()))?;
        let (key, spec) = (key.trim(), spec.trim());
        let values = match spec.split_once("..") {
            Some((low, rest)) => range(low, rest).map_err(|why| fail(format!("{key}: {why}; {forms}")))?,
            None => policy::split_list(spec).into_iter().map(str::to_owned).collect(),
        };
        if key.is_empty() || values.is_empty() {
            return Err(fail(forms.to_owned()));
        }
        if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
            return Err(fail(format!("{key}: the value {} is given twice", twice.1)));
        }
        Ok(Axis { key: key.to_owned(), values, text: text.to_owned() })
    }
}

type Spaced = std::result::Result<Vec<String>, String>;

fn range(low: &str, rest: &str) -> Spaced {
    let whole = |text: &str| {
        let digits = text.trim().replace('_', "");
        digits.parse::<i64>().map_err(|_| format!("`{text}` is no whole number"))
    };
    let (high, spacing) = rest.split_once(':').map_or((rest, None), |(high, how)| (high, Some(how)));
    let (low, high) = (whole(low)?, whole(high)?);
    if low >= high {
        return Err(format!("the range {low}..{high} is empty"));
    }
    let values = match spacing {
        Some(how) if how.starts_with("log:") => log_spaced(low, high, whole(&how["log:".len()..])?)?,
        _ => {
            let step = spacing.map_or(Ok(1), whole)?;
            if step < 1 {
                return Err(format!("a step of {step} goes nowhere"));
            }
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            (low..=high).step_by(step).take(MAX_POINTS + 1).collect()
        }
    };
    if values.len() > MAX_POINTS {
        return Err(format!("more than {MAX_POINTS} values"));
    }
    Ok(values.iter().map(i64::to_string).collect())
}

/// `count` whole numbers from `low` to `high`, each the same factor above the one before; those that
/// round to the same number are one.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "spacing, rounded to whole")]
fn log_spaced(low: i64, high: i64, count: i64) -> std::result::Result<Vec<i64>, String> {
    if low < 1 {
        return Err(format!("a logarithmic range starts above 0, not at {low}"));
    }
    if !(2..=MAX_POINTS as i64).contains(&count) {
        return Err(format!("a logarithmic range has 2 to {MAX_POINTS} values, not {count}"));
    }
    let factor = high as f64 / low as f64;
    let at = |i: i64| (low as f64 * factor.powf(i as f64 / (count - 1) as f64)).round() as i64;
    let mut values: Vec<i64> = (0..count - 1).map(at).collect();
    values.push(high);
    values.dedup();
    Ok(values)
}

/// Every policy at every point of the axes that it has a parameter for. Policies that have none of them
/// come first and as they are: they are what the grid is compared with.
///
/// # Errors
/// A key that no policy has, with the nearest name; an axis given twice; a value that the parameter does
/// not take; a grid that is too large.
pub fn expand(policies: &[PolicyConfig], axes: &[Axis]) -> Result<Vec<PolicyConfig>> {
    let common = policy::common_params();
    let (mut fixed, mut swept) = (Vec::new(), Vec::new());
    for axis in axes {
        let known = |config: &PolicyConfig| param(config, &common, &axis.key).is_some();
        if !policies.iter().any(known) {
            return Err(unknown(policies, &common, axis));
        }
    }
    for config in policies {
        let mut points = vec![config.clone()];
        let mut used: Vec<&str> = Vec::new();
        let own = axes.iter().filter_map(|axis| Some((axis, param(config, &common, &axis.key)?)));
        for (axis, param) in own {
            if used.contains(&param.name.as_str()) {
                let reason = format!("`{}` is given twice", param.name);
                return Err(Error::Config { origin: format!("--grid {}", axis.text), reason });
            }
            used.push(&param.name);
            points = multiply(&points, axis, param, &common)?;
        }
        let into = if used.is_empty() { &mut fixed } else { &mut swept };
        into.extend(points);
    }
    fixed.extend(swept);
    Ok(fixed)
}

fn param<'a>(config: &'a PolicyConfig, common: &'a [Param], key: &str) -> Option<&'a Param> {
    policy::find_param(&config.preset.params, key).or_else(|_| policy::find_param(common, key)).ok()
}

fn unknown(policies: &[PolicyConfig], common: &[Param], axis: &Axis) -> Error {
    // An ambiguous name says so itself.
    for config in policies {
        if let Err(error @ Error::Config { .. }) = policy::find_param(&config.preset.params, &axis.key) {
            return error;
        }
    }
    let params = policies.iter().flat_map(|c| &c.preset.params).chain(common);
    let names = params.flat_map(|p| [p.name.as_str(), p.name.rsplit('.').next().unwrap_or_default()]);
    Error::unknown("parameter", &axis.key, names)
}

fn multiply(
    points: &[PolicyConfig],
    axis: &Axis,
    param: &Param,
    common: &[Param],
) -> Result<Vec<PolicyConfig>> {
    let fail = |reason: String| Error::Config { origin: format!("--grid {}", axis.text), reason };
    let values = axis.values.iter().map(|text| match param.parse(text) {
        Ok(value) => Ok((text, value)),
        Err(Error::Config { reason, .. }) => Err(fail(reason)),
        Err(other) => Err(other),
    });
    let values: Vec<(&String, ParamValue)> = values.collect::<Result<_>>()?;
    if points.len().saturating_mul(values.len()) > MAX_POINTS {
        return Err(fail(format!("the grid has more than {MAX_POINTS} strategies")));
    }
    let is_common = common.iter().any(|c| c.name == param.name);
    let mut out = Vec::with_capacity(points.len() * values.len());
    for point in points {
        for (text, value) in &values {
            let mut config = point.clone();
            let separator = if config.label.contains(':') { ',' } else { ':' };
            config.label = format!("{}{separator}{}={text}", config.label, axis.key);
            let into = if is_common { &mut config.common } else { &mut config.set };
            into.insert(param.name.clone(), value.clone());
            out.push(config);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicySpec;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Axis>().expect(text).values
    }

    fn policy(text: &str) -> PolicyConfig {
        text.parse::<PolicySpec>().expect(text).load(&[], &[]).expect(text)
    }

    fn labels(policies: &[&str], axes: &[&str]) -> Result<Vec<String>> {
        let policies: Vec<PolicyConfig> = policies.iter().map(|p| policy(p)).collect();
        let axes = axes.iter().map(|a| a.parse()).collect::<Result<Vec<Axis>>>()?;
        Ok(expand(&policies, &axes)?.into_iter().map(|c| c.label).collect())
    }

    #[test]
    fn every_form_of_values() {
        assert_eq!(values("k=1,3,5"), ["1", "3", "5"]);
        assert_eq!(values("k=off, on"), ["off", "on"]);
        assert_eq!(values("k=[a,b],[c]"), ["[a,b]", "[c]"]);
        assert_eq!(values("k=0..10:2"), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(values("k=0..9:4"), ["0", "4", "8"]);
        assert_eq!(values("k=-1..1"), ["-1", "0", "1"]);
        assert_eq!(values("k=1..1_000:log:4"), ["1", "10", "100", "1000"]);
        assert_eq!(values("k=1..4:log:9"), ["1", "2", "3", "4"]);
        let nine = values("k=10000..200000:log:9");
        assert_eq!((nine.len(), nine[0].as_str(), nine[8].as_str()), (9, "10000", "200000"));
        assert_eq!(nine[4], "44721");
    }

    #[test]
    fn wrong_forms_name_what_was_typed() {
        for (text, why) in [
            ("k", "KEY="),
            ("k=", "KEY="),
            ("=1", "KEY="),
            ("k=1,1", "given twice"),
            ("k=5..1:2", "5..1 is empty"),
            ("k=1..5:0", "goes nowhere"),
            ("k=0..5:log:3", "above 0, not at 0"),
            ("k=1..5:log:1", "2 to 100000"),
            ("k=1..x:2", "`x` is no whole number"),
            ("k=0..9000000", "more than"),
        ] {
            let error = text.parse::<Axis>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn a_grid_is_full_and_labels_carry_its_parameters() {
        let axes = ["minCharsPerPass=0,5", "keepRecentTurns=1,3"];
        let expected = [
            "none",
            "arcturn:minCharsPerPass=0,keepRecentTurns=1",
            "arcturn:minCharsPerPass=0,keepRecentTurns=3",
            "arcturn:minCharsPerPass=5,keepRecentTurns=1",
            "arcturn:minCharsPerPass=5,keepRecentTurns=3",
        ];
        assert_eq!(labels(&["arcturn", "none"], &axes).expect("a grid"), expected);
        let both = labels(&["x=none", "y=arcturn:offload=off"], &["cache.ttl=5m,1h"]);
        if let Ok(both) = both {
            assert_eq!(both, ["x:cache.ttl=5m", "x:cache.ttl=1h", "y:cache.ttl=5m", "y:cache.ttl=1h"]);
        }
    }

    #[test]
    fn slips_name_key_and_value() {
        let error = |axes: &[&str]| labels(&["arcturn"], axes).expect_err("wrong").to_string();
        assert!(error(&["minCharPerPass=1"]).contains("did you mean `minCharsPerPass`?"));
        let range = error(&["minCharsPerPass=-7..1"]);
        assert!(range.contains("minCharsPerPass` = -7 is out of range"), "{range}");
        assert!(error(&["minCharsPerPass=x"]).contains("not `x`"));
        let twice = error(&["minCharsPerPass=1", "contextEditing.minCharsPerPass=2"]);
        assert!(twice.contains("given twice"), "{twice}");
    }
}
