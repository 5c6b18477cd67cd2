//! What is searched: the values of the parameters, and the candidates they make.

use crate::error::{Error, Result};
use crate::policy::{self, Param, ParamValue, PolicyConfig, Scale};
use crate::sweep::Axis;

/// Values that a number without a SPEC starts with.
const START_VALUES: i64 = 9;

/// A number on a logarithmic scale is searched from its default divided by this to its default times this.
const LOG_REACH: i64 = 100;

/// A parameter as asked for: `KEY` or `KEY=SPEC`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    key: String,
    axis: Option<Axis>,
}

impl std::str::FromStr for Wish {
    type Err = Error;

    fn from_str(text: &str) -> Result<Wish> {
        let axis = match text.contains('=') {
            true => Some(text.parse::<Axis>().map_err(|error| renamed(error, text))?),
            false => None,
        };
        let key = axis.as_ref().map_or_else(|| text.trim().to_owned(), |axis| axis.key.clone());
        Ok(Wish { key, axis })
    }
}

/// Errors of a SPEC name the flag it was typed after.
fn renamed(error: Error, text: &str) -> Error {
    match error {
        Error::Config { reason, .. } => Error::Config { origin: format!("--param {text}"), reason },
        other => other,
    }
}

/// One parameter and the values tried so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// As typed; labels show it.
    pub key: String,
    /// Its full name.
    pub name: String,
    /// Numbers ascend; words are as listed.
    pub values: Vec<ParamValue>,
    /// Values between those given may be tried.
    refine: bool,
    scale: Scale,
    is_common: bool,
}

/// A policy and what is searched of it.
#[derive(Debug, Clone)]
pub struct Base {
    /// As typed.
    pub config: PolicyConfig,
    /// Empty for a policy that has none of the parameters.
    pub dimensions: Vec<Dimension>,
}

/// A policy with values of its dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Index into [`Space::bases`].
    pub base: usize,
    /// One for each dimension; empty: the policy as typed.
    pub values: Vec<ParamValue>,
}

/// All policies and what is searched of them.
#[derive(Debug, Clone)]
pub struct Space {
    /// In the order given; the first one, as typed, is what everything is compared with.
    pub bases: Vec<Base>,
}

impl Space {
    /// Finds the parameters in the policies.
    ///
    /// # Errors
    /// A parameter that no policy has, with the nearest name; one given twice; values it does not take.
    pub fn new(policies: &[PolicyConfig], wishes: &[Wish]) -> Result<Space> {
        let common = policy::common_params();
        let mut bases = Vec::new();
        for config in policies {
            let mut dimensions: Vec<Dimension> = Vec::new();
            for wish in wishes {
                let own = policy::find_param(&config.preset.params, &wish.key);
                let found = own.map(|p| (p, false)).or_else(|error| {
                    policy::find_param(&common, &wish.key).map(|p| (p, true)).map_err(|_| error)
                });
                match found {
                    Ok((param, is_common)) => dimensions.push(dimension(wish, param, is_common)?),
                    // An ambiguous name says so itself.
                    Err(error @ Error::Config { .. }) => return Err(error),
                    Err(_) => {}
                }
            }
            if let Some(twice) = repeated(&dimensions) {
                let reason = format!("`{twice}` is given twice");
                return Err(Error::Config { origin: "--param".to_owned(), reason });
            }
            bases.push(Base { config: config.clone(), dimensions });
        }
        let used = |wish: &Wish| bases.iter().any(|b| b.dimensions.iter().any(|d| d.key == wish.key));
        if let Some(unused) = wishes.iter().find(|wish| !used(wish)) {
            let names = policies.iter().flat_map(|c| &c.preset.params).chain(&common);
            let names = names.flat_map(|p| [p.name.as_str(), p.name.rsplit('.').next().unwrap_or_default()]);
            return Err(Error::unknown("parameter", &unused.key, names));
        }
        Ok(Space { bases })
    }

    /// Every policy as typed: what must be beaten, and what it is compared with.
    pub fn as_typed(&self) -> impl Iterator<Item = Candidate> {
        (0..self.bases.len()).map(|base| Candidate { base, values: Vec::new() })
    }

    /// Number of candidates of the full grid.
    pub fn grid_len(&self) -> u64 {
        self.bases.iter().map(Base::grid_len).fold(0, u64::saturating_add)
    }

    /// The `index`-th candidate of the full grid.
    pub fn grid_point(&self, index: u64) -> Option<Candidate> {
        let mut rest = index;
        for (base, of) in self.bases.iter().enumerate() {
            match rest.checked_sub(of.grid_len()) {
                None => return Some(Candidate { base, values: of.values_at(rest) }),
                Some(less) => rest = less,
            }
        }
        None
    }

    /// The policy with the candidate's values, under a label that shows them.
    pub fn config(&self, candidate: &Candidate) -> PolicyConfig {
        let base = &self.bases[candidate.base];
        let mut config = base.config.clone();
        if !candidate.values.is_empty() {
            config.label = base.label_without_searched();
        }
        for (dimension, value) in base.dimensions.iter().zip(&candidate.values) {
            let separator = if config.label.contains(':') { ',' } else { ':' };
            config.label = format!("{}{separator}{}={value}", config.label, dimension.key);
            let into = if dimension.is_common { &mut config.common } else { &mut config.set };
            into.insert(dimension.name.clone(), value.clone());
        }
        config
    }

    /// The values of the searched parameters, those of a policy as typed included, as far as it was told them.
    pub fn params(&self, candidate: &Candidate) -> Vec<(String, ParamValue)> {
        let base = &self.bases[candidate.base];
        let value = |(i, dimension): (usize, &Dimension)| {
            let typed = || {
                let set = base.config.set.get(&dimension.name);
                set.or_else(|| base.config.common.get(&dimension.name)).cloned().unwrap_or_else(|| {
                    let own = base.config.preset.params.iter().find(|p| p.name == dimension.name);
                    let common = policy::common_params();
                    let common = common.iter().find(|p| p.name == dimension.name);
                    own.or(common).map_or(ParamValue::Bool(false), |p| p.default.clone())
                })
            };
            let value = candidate.values.get(i).cloned().unwrap_or_else(typed);
            (dimension.name.clone(), value)
        };
        base.dimensions.iter().enumerate().map(value).collect()
    }

    /// Candidates next to `centre` along each dimension among the values tried, each with the one halfway to it where
    /// there is one that may be tried.
    pub fn around(&self, centre: &Candidate) -> Vec<(Candidate, Option<Candidate>)> {
        let with = |i: usize, value: ParamValue| {
            let mut candidate = centre.clone();
            candidate.values[i] = value;
            candidate
        };
        let mut found = Vec::new();
        for (i, dimension) in self.bases[centre.base].dimensions.iter().enumerate() {
            let Some(value) = centre.values.get(i) else { continue };
            let around = dimension.around(value).into_iter();
            found.extend(around.map(|(next, between)| (with(i, next), between.map(|value| with(i, value)))));
        }
        found
    }

    /// Makes the values of a candidate values of their dimensions.
    pub fn admit(&mut self, candidate: &Candidate) {
        let dimensions = &mut self.bases[candidate.base].dimensions;
        dimensions.iter_mut().zip(&candidate.values).for_each(|(dimension, value)| dimension.admit(value));
    }
}

fn repeated(dimensions: &[Dimension]) -> Option<&str> {
    let twice = |(i, d): &(usize, &Dimension)| dimensions[..*i].iter().any(|other| other.name == d.name);
    dimensions.iter().enumerate().find(twice).map(|(_, d)| d.name.as_str())
}

impl Base {
    /// The label without what it says of the parameters that are searched.
    fn label_without_searched(&self) -> String {
        let Some((head, tail)) = self.config.label.split_once(':') else { return self.config.label.clone() };
        let is_searched = |part: &str| {
            let key = part.split('=').next().unwrap_or(part);
            let found = policy::find_param(&self.config.preset.params, key);
            let name = found.map_or_else(|_| key.to_owned(), |p| p.name.clone());
            self.dimensions.iter().any(|d| d.name == name)
        };
        let kept: Vec<&str> =
            policy::split_list(tail).into_iter().filter(|part| !is_searched(part)).collect();
        if kept.is_empty() { head.to_owned() } else { format!("{head}:{}", kept.join(",")) }
    }

    fn grid_len(&self) -> u64 {
        match self.dimensions.is_empty() {
            true => 0,
            false => self.dimensions.iter().map(|d| d.values.len() as u64).fold(1, u64::saturating_mul),
        }
    }

    /// The last dimension turns fastest.
    fn values_at(&self, index: u64) -> Vec<ParamValue> {
        let mut rest = index;
        let mut values: Vec<ParamValue> = Vec::new();
        for dimension in self.dimensions.iter().rev() {
            let len = dimension.values.len() as u64;
            let place = usize::try_from(rest % len).unwrap_or_default();
            values.push(dimension.values[place].clone());
            rest /= len;
        }
        values.reverse();
        values
    }
}

impl Dimension {
    /// Where a number stands between the smallest and the largest value tried, from 0 to 1; a word by its place.
    pub fn place(&self, value: &ParamValue) -> f64 {
        let (Some(first), Some(last)) = (self.values.first(), self.values.last()) else { return 0.0 };
        let at = |value: &ParamValue| match (value, self.scale) {
            (ParamValue::Int(n), Scale::Linear) => float(*n),
            (ParamValue::Int(n), Scale::Log) => doublings(*n),
            _ => float(self.values.iter().position(|v| v == value).unwrap_or(0) as i64),
        };
        let span = at(last) - at(first);
        if span > 0.0 { (at(value) - at(first)) / span } else { 0.0 }
    }

    /// The neighbours of a value, each with the number halfway to it.
    fn around(&self, value: &ParamValue) -> Vec<(ParamValue, Option<ParamValue>)> {
        let Some(place) = self.values.iter().position(|v| v == value) else { return Vec::new() };
        let neighbours = [place.checked_sub(1), Some(place + 1)].into_iter().flatten();
        let neighbours = neighbours.filter_map(|i| self.values.get(i).cloned());
        let between = |other: &ParamValue| match (value, other) {
            (ParamValue::Int(a), ParamValue::Int(b)) if self.refine => {
                let middle = middle(*a, *b, self.scale);
                (middle != *a && middle != *b).then_some(ParamValue::Int(middle))
            }
            _ => None,
        };
        neighbours.map(|other| (other.clone(), between(&other))).collect()
    }

    fn admit(&mut self, value: &ParamValue) {
        if !self.values.contains(value) {
            self.values.push(value.clone());
            self.values.sort_by_key(|v| if let ParamValue::Int(n) = v { *n } else { 0 });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place on a scale")]
fn float(n: i64) -> f64 {
    n as f64
}

/// log2 of `n + 1` in steps that need no logarithm: the place of its leading bit, and linear up to the next one.
fn doublings(n: i64) -> f64 {
    let n = n.max(0).unsigned_abs() + 1;
    let bit = 63 - n.leading_zeros();
    f64::from(bit) + float((n - (1 << bit)) as i64) / float(1 << bit.min(62))
}

/// Between two numbers, in the scale of their parameter; 0 has no logarithm, so that halfway to it is half.
fn middle(a: i64, b: i64, scale: Scale) -> i64 {
    match scale {
        Scale::Log if a > 0 && b > 0 => {
            let product = a.unsigned_abs() as u128 * b.unsigned_abs() as u128;
            i64::try_from(product.isqrt()).unwrap_or(i64::MAX)
        }
        _ => a + (b - a) / 2,
    }
}

fn dimension(wish: &Wish, param: &Param, is_common: bool) -> Result<Dimension> {
    let wrong = |reason: String| Error::Config { origin: format!("--param {}", wish.key), reason };
    let mut values = match &wish.axis {
        Some(axis) => {
            let parsed = axis.values.iter().map(|text| {
                param.parse(text).map_err(|e| match e {
                    Error::Config { reason, .. } => wrong(reason),
                    other => other,
                })
            });
            parsed.collect::<Result<Vec<_>>>()?
        }
        None => start_values(param).ok_or_else(|| {
            wrong(format!("`{}` has no range to search; write {}=VALUE,VALUE,…", param.name, wish.key))
        })?,
    };
    if values.iter().all(|v| matches!(v, ParamValue::Int(_))) {
        values.sort_by_key(|v| if let ParamValue::Int(n) = v { *n } else { 0 });
    }
    Ok(Dimension {
        key: wish.key.clone(),
        name: param.name.clone(),
        refine: wish.axis.is_none(),
        scale: param.scale,
        values,
        is_common,
    })
}

/// The values that the table of parameters suggests: both switches, all words, or numbers around the default within
/// the range.
fn start_values(param: &Param) -> Option<Vec<ParamValue>> {
    match &param.default {
        ParamValue::Bool(_) => Some(vec![ParamValue::Bool(false), ParamValue::Bool(true)]),
        ParamValue::Text(_) if !param.choices.is_empty() => {
            Some(param.choices.iter().cloned().map(ParamValue::Text).collect())
        }
        ParamValue::Int(default) => {
            let (low, high) = param.range?;
            let mut numbers = match param.scale {
                Scale::Log => log_values(*default, low, high),
                Scale::Linear => linear_values(*default, low, high),
            };
            numbers.extend([*default]);
            numbers.sort_unstable();
            numbers.dedup();
            Some(numbers.into_iter().map(ParamValue::Int).collect())
        }
        _ => None,
    }
}

/// From a hundredth to a hundred times the default, by repeated halving of the factor; 0 too where it is allowed, since
/// it often means something of its own.
fn log_values(default: i64, low: i64, high: i64) -> Vec<i64> {
    let centre = default.clamp(low.max(1), high.max(1));
    let ends = (low.max(centre / LOG_REACH).max(1), high.min(centre.saturating_mul(LOG_REACH)).max(1));
    let mut values = vec![ends.0, centre, ends.1];
    while (values.len() as i64) < START_VALUES {
        let between: Vec<i64> = values.windows(2).map(|w| middle(w[0], w[1], Scale::Log)).collect();
        let before = values.len();
        values.extend(between);
        values.sort_unstable();
        values.dedup();
        if values.len() == before {
            break;
        }
    }
    if low <= 0 && high >= 0 {
        values.push(0);
    }
    values
}

/// From 0, or the end of the range nearest to it, to four times the default or 16 above it.
fn linear_values(default: i64, low: i64, high: i64) -> Vec<i64> {
    let first = low.max(default.min(0));
    let last = high.min(default.saturating_mul(4).max(default.saturating_add(16)));
    let span = last - first;
    (0..START_VALUES).map(|i| first + span * i / (START_VALUES - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicySpec;

    fn space(policies: &[&str], wishes: &[&str]) -> Result<Space> {
        let load = |text: &&str| text.parse::<PolicySpec>().and_then(|spec| spec.load(&[], &[]));
        let policies = policies.iter().map(load).collect::<Result<Vec<_>>>()?;
        let wishes = wishes.iter().map(|text| text.parse()).collect::<Result<Vec<_>>>()?;
        Space::new(&policies, &wishes)
    }

    fn numbers(dimension: &Dimension) -> Vec<i64> {
        dimension.values.iter().map(|v| if let ParamValue::Int(n) = v { *n } else { -1 }).collect()
    }

    #[test]
    fn values_come_from_the_table_of_parameters() {
        let space = space(
            &["arcturn"],
            &[
                "minCharsPerPass",
                "keepRecentTurns",
                "contextEditing.mode",
                "contextEditing.enabled",
                "keepHead=1,5",
            ],
        )
        .expect("all are there");
        let dimensions = &space.bases[0].dimensions;
        let log = numbers(&dimensions[0]);
        assert_eq!((log[0], log[1], *log.last().expect("some")), (0, 500, 5_000_000));
        assert!(log.contains(&50_000) && log.len() == 10, "{log:?}");
        let turns = numbers(&dimensions[1]);
        assert_eq!((turns[0], *turns.last().expect("some")), (0, 19));
        assert!(turns.contains(&3));
        assert_eq!(dimensions[2].values.len(), 3);
        assert_eq!(dimensions[3].values, [ParamValue::Bool(false), ParamValue::Bool(true)]);
        assert_eq!(numbers(&dimensions[4]), [1, 5]);
        assert_eq!(space.grid_len(), 10 * turns.len() as u64 * 3 * 2 * 2);
    }

    #[test]
    fn every_point_of_the_grid_is_there_once() {
        let space =
            space(&["none", "arcturn", "b=arcturn"], &["minCharsPerPass=0,5", "keepRecentTurns=1,3,9"]);
        let space = space.expect("right");
        assert_eq!(space.grid_len(), 12);
        let labels: Vec<String> =
            (0..12).filter_map(|i| space.grid_point(i)).map(|c| space.config(&c).label).collect();
        assert_eq!(labels[1], "arcturn:minCharsPerPass=0,keepRecentTurns=3");
        assert_eq!(labels[11], "b:minCharsPerPass=5,keepRecentTurns=9");
        let mut unique = labels.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 12);
        assert_eq!(space.grid_point(12), None);
        assert_eq!(space.as_typed().count(), 3);
        let typed = self::space(&["arcturn:keepRecentTurns=4,minCharsPerPass=9"], &["minCharsPerPass=1,2"]);
        let typed = typed.expect("right");
        let label = |candidate: Option<Candidate>| typed.config(&candidate.expect("there")).label;
        assert_eq!(label(typed.grid_point(1)), "arcturn:keepRecentTurns=4,minCharsPerPass=2");
        assert_eq!(label(typed.as_typed().next()), "arcturn:keepRecentTurns=4,minCharsPerPass=9");
    }

    #[test]
    fn a_step_closes_in_on_half_the_distance_unless_values_were_given() {
        let mut open = space(&["arcturn"], &["minCharsPerPass"]).expect("right");
        let centre = Candidate { base: 0, values: vec![ParamValue::Int(50_000)] };
        let number = |c: &Candidate| if let ParamValue::Int(n) = c.values[0] { n } else { -1 };
        let around = |space: &Space| -> Vec<(i64, Option<i64>)> {
            space
                .around(&centre)
                .iter()
                .map(|(next, between)| (number(next), between.as_ref().map(number)))
                .collect()
        };
        assert_eq!(around(&open), [(15_811, Some(28_116)), (158_113, Some(88_913))]);
        open.admit(&Candidate { base: 0, values: vec![ParamValue::Int(28_116)] });
        assert_eq!(around(&open)[0], (28_116, Some(37_493)));
        let given = space(&["arcturn"], &["minCharsPerPass=1,50000,70000"]).expect("right");
        assert_eq!(around(&given), [(1, None), (70_000, None)]);
    }

    #[test]
    fn slips_are_named() {
        let error =
            |policies: &[&str], wishes: &[&str]| space(policies, wishes).expect_err("wrong").to_string();
        assert!(error(&["arcturn"], &["minCharPerPass"]).contains("did you mean `minCharsPerPass`?"));
        assert!(error(&["none"], &["minCharsPerPass"]).contains("minCharsPerPass"));
        assert!(error(&["arcturn"], &["keepRecentTurns=x"]).contains("--param keepRecentTurns"));
        assert!(error(&["arcturn"], &["keepRecentTurns=5..1"]).contains("--param keepRecentTurns=5..1"));
        assert!(error(&["arcturn"], &["keepHead", "offloadLimits.keepHead=1"]).contains("given twice"));
        assert!(error(&["arcturn"], &["protectToolNames"]).contains("no range to search"));
    }

    #[test]
    fn places_lie_between_0_and_1() {
        let space = space(&["arcturn"], &["minCharsPerPass", "contextEditing.mode"]).expect("right");
        let [number, word] = &space.bases[0].dimensions[..] else { panic!("two") };
        assert_eq!(number.place(&ParamValue::Int(0)), 0.0);
        assert_eq!(number.place(&ParamValue::Int(5_000_000)), 1.0);
        let (low, high) = (number.place(&ParamValue::Int(5_000)), number.place(&ParamValue::Int(50_000)));
        assert!(0.3 < low && low < high && high < 0.9, "{low} {high}");
        assert_eq!(word.place(&ParamValue::Text("server".into())), 0.5);
        assert!((doublings(7) - 3.0).abs() < 1e-9 && (doublings(11) - 3.5).abs() < 1e-9);
    }
}
