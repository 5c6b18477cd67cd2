//! Statistics of sessions: quantiles, a seeded bootstrap over sessions, and paired comparisons.
//!
//! Sessions, not requests, are what a corpus is a sample of, so they are what is drawn anew. One set of draws serves
//! every strategy: a difference between two of them is then that of the same sessions, whose own differences cancel.
//! Sums run in a fixed order and only the four operations and the square root are used, so that all machines agree.

use crate::metrics::Share;
use crate::seed;

/// Level of every interval.
pub const LEVEL: f64 = 0.95;

/// Normal deviate of [`LEVEL`], both sides.
const DEVIATE: f64 = 1.959_963_984_540_054;

/// Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The `q`-quantile of ascending values, linear between neighbours; `None` without values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a list that fits in memory, never negative"
)]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// Greatest distance between the distribution functions of two lists of ascending values (Kolmogorov and Smirnov);
/// `None` where one is empty.
#[expect(clippy::cast_precision_loss, reason = "a place in a list that fits in memory")]
pub fn ks_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut i, mut j, mut greatest) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let next = a[i].min(b[j]);
        i += a[i..].iter().take_while(|x| **x <= next).count();
        j += b[j..].iter().take_while(|x| **x <= next).count();
        greatest = greatest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    Some(greatest)
}

/// Wilson's interval of a proportion of `n` trials: sensible for few of them, and at 0 and 1.
#[expect(clippy::cast_precision_loss, reason = "numbers of sessions are far below 2^53")]
pub fn wilson(successes: f64, n: usize) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let n = n as f64;
    let (p, z2) = (successes / n, DEVIATE * DEVIATE);
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = DEVIATE * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    Some(Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) })
}

/// What each session gives to one metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Column {
    part: Vec<f64>,
    /// Only of a ratio.
    whole: Vec<f64>,
    largest: bool,
}

impl Column {
    /// Adds a session. All sessions of a column are of one metric.
    pub fn push(&mut self, share: Share) {
        match share {
            Share::Sum(x) => self.part.push(x),
            Share::Largest(x) => {
                self.largest = true;
                self.part.push(x);
            }
            Share::Ratio(part, whole) => {
                self.part.push(part);
                self.whole.push(whole);
            }
        }
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.part.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// The first `n` sessions.
    pub fn first(&self, n: usize) -> Column {
        let first = |column: &[f64]| column[..n.min(column.len())].to_vec();
        Column { part: first(&self.part), whole: first(&self.whole), largest: self.largest }
    }

    /// The metric of one session; `None` for a ratio over 0.
    pub fn of_session(&self, i: usize) -> Option<f64> {
        match self.whole.get(i) {
            Some(whole) => (*whole > 0.0).then(|| self.part[i] / whole),
            None => Some(self.part[i]),
        }
    }

    /// The metric of all sessions together; `None` for a ratio over 0, and without sessions.
    pub fn pooled(&self) -> Option<f64> {
        self.weighed(std::iter::repeat_n(1, self.len()))
    }

    /// The metric of sessions of which each is there as often as `counts` says.
    fn drawn(&self, counts: &[u16]) -> Option<f64> {
        self.weighed(counts.iter().copied())
    }

    fn weighed(&self, counts: impl Iterator<Item = u16> + Clone) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        if self.largest {
            let there = self.part.iter().zip(counts).filter(|(_, count)| *count > 0);
            return Some(there.fold(0.0, |most: f64, (x, _)| most.max(*x)));
        }
        let sum = |column: &[f64]| -> f64 {
            column.iter().zip(counts.clone()).map(|(x, count)| x * f64::from(count)).sum()
        };
        match self.whole.is_empty() {
            true => Some(sum(&self.part)),
            false => Some(sum(&self.whole)).filter(|whole| *whole > 0.0).map(|whole| sum(&self.part) / whole),
        }
    }
}

/// Draws of sessions with replacement: for each resample how often each session is in it.
#[derive(Debug, Clone)]
pub struct Resamples {
    sessions: usize,
    counts: Vec<u16>,
}

impl Resamples {
    /// `resamples` draws of as many sessions as there are; the same for the same seed and purpose.
    pub fn draw(root_seed: u64, purpose: &str, sessions: usize, resamples: usize) -> Resamples {
        let mut counts = vec![0_u16; sessions * resamples];
        for (i, row) in counts.chunks_exact_mut(sessions.max(1)).enumerate() {
            let mut rng = seed::stream(root_seed, purpose, &[i as u64]);
            for _ in 0..sessions {
                let drawn = usize::try_from(seed::below(&mut rng, sessions as u64)).unwrap_or_default();
                row[drawn] = row[drawn].saturating_add(1);
            }
        }
        Resamples { sessions, counts }
    }

    /// Number of sessions drawn from.
    pub fn sessions(&self) -> usize {
        self.sessions
    }

    /// The metric in each resample.
    pub fn scores(&self, column: &Column) -> Vec<Option<f64>> {
        self.counts.chunks_exact(self.sessions.max(1)).map(|counts| column.drawn(counts)).collect()
    }
}

/// The middle [`LEVEL`] of `values`; `None` where one is missing or there are none.
pub fn interval(values: impl IntoIterator<Item = Option<f64>>) -> Option<Interval> {
    let mut values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Some(Interval { low: quantile(&values, tail)?, high: quantile(&values, 1.0 - tail)? })
}

/// `a[i] − b[i]` where both are there.
pub fn differences(a: &[Option<f64>], b: &[Option<f64>]) -> Vec<Option<f64>> {
    a.iter().zip(b).map(|(a, b)| Some((*a)? - (*b)?)).collect()
}

/// Mean and standard deviation.
#[expect(clippy::cast_precision_loss, reason = "numbers of resamples are far below 2^53")]
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    Some((mean, variance.sqrt()))
}

/// One strategy against another on the same sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// Sessions in which it is better.
    pub wins: usize,
    /// Sessions in which it is worse.
    pub losses: usize,
    /// Sessions in which both are equal.
    pub ties: usize,
    /// (wins + ties/2) / sessions.
    pub win_rate: f64,
    /// Of the win rate.
    pub win_rate_interval: Interval,
    /// Metric of all sessions, less that of the other.
    pub difference: f64,
    /// Of the difference, by bootstrap over sessions.
    pub difference_interval: Interval,
}

/// A column and what [`Resamples::scores`] says of it.
pub type Drawn<'a> = (&'a Column, &'a [Option<f64>]);

/// Compares two columns of the same sessions, with the same draws. `None` without sessions, or where a metric of all of
/// them is a ratio over 0.
#[expect(clippy::cast_precision_loss, reason = "numbers of sessions are far below 2^53")]
pub fn paired(
    (own, own_drawn): Drawn<'_>,
    (other, other_drawn): Drawn<'_>,
    higher_is_better: bool,
) -> Option<Paired> {
    let (mut wins, mut losses, mut ties) = (0, 0, 0);
    for i in 0..own.len().min(other.len()) {
        let (Some(a), Some(b)) = (own.of_session(i), other.of_session(i)) else { continue };
        match a.total_cmp(&b) {
            std::cmp::Ordering::Equal => ties += 1,
            order if (order == std::cmp::Ordering::Greater) == higher_is_better => wins += 1,
            _ => losses += 1,
        }
    }
    let n = wins + losses + ties;
    let successes = wins as f64 + ties as f64 / 2.0;
    Some(Paired {
        wins,
        losses,
        ties,
        win_rate: successes / (n.max(1)) as f64,
        win_rate_interval: wilson(successes, n)?,
        difference: own.pooled()? - other.pooled()?,
        difference_interval: interval(differences(own_drawn, other_drawn))?,
    })
}

/// Lower bounds of several gains at once: with probability [`LEVEL`] all true gains are above theirs. The best of many
/// looks better than it is; these bounds allow for having looked at all of them.
///
/// `gains` are the observed ones, `drawn[i]` those of the resamples. The critical value is the quantile of the largest
/// standardised deviation in a resample; deviations of few sessions are widened by √(n/(n−1)).
#[expect(clippy::cast_precision_loss, reason = "numbers of sessions are far below 2^53")]
pub fn simultaneous_lower_bounds(gains: &[f64], drawn: &[Vec<f64>], sessions: usize) -> Vec<f64> {
    let widen = if sessions > 1 { (sessions as f64 / (sessions as f64 - 1.0)).sqrt() } else { f64::INFINITY };
    let deviation = |values: &Vec<f64>| mean_and_deviation(values).map_or(0.0, |(_, sd)| sd * widen);
    let deviations: Vec<f64> = drawn.iter().map(deviation).collect();
    let resamples = drawn.iter().map(Vec::len).min().unwrap_or(0);
    let mut largest: Vec<f64> = (0..resamples)
        .map(|r| {
            let of = |i: usize| (deviations[i] > 0.0).then(|| (drawn[i][r] - gains[i]) / deviations[i]);
            (0..gains.len()).filter_map(of).fold(0.0, f64::max)
        })
        .collect();
    largest.sort_by(f64::total_cmp);
    let critical = quantile(&largest, LEVEL).unwrap_or(f64::INFINITY);
    let bound = |(gain, sd): (&f64, &f64)| if *sd > 0.0 { gain - critical * sd } else { *gain };
    gains.iter().zip(&deviations).map(bound).collect()
}

/// Quantiles of whole numbers, by nearest rank: no interpolation, so each is one of the values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quantiles {
    sorted: Vec<u64>,
}

impl Quantiles {
    /// Of these values, in any order.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut sorted: Vec<u64> = values.into_iter().collect();
        sorted.sort_unstable();
        Quantiles { sorted }
    }

    /// The smallest value that at least `percent` of all values do not exceed; `None` of nothing.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        self.sorted.get(rank - 1).copied()
    }

    /// Sum of all values.
    pub fn sum(&self) -> u128 {
        self.sorted.iter().map(|value| u128::from(*value)).sum()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[f64]) -> Column {
        let mut column = Column::default();
        values.iter().for_each(|x| column.push(Share::Sum(*x)));
        column
    }

    /// Twelve uniform draws added up, less their mean: close enough to a normal one, of variance 1.
    fn noise(seed: u64, purpose: &str, n: usize) -> Vec<f64> {
        let mut rng = seed::stream(seed, purpose, &[]);
        let mut one = || (0..12).map(|_| seed::below(&mut rng, 1 << 20) as f64 / f64::from(1 << 20)).sum();
        (0..n)
            .map(|_| {
                let sum: f64 = one();
                sum - 6.0
            })
            .collect()
    }

    #[test]
    fn quantiles_are_linear_between_neighbours() {
        let values = [1.0, 2.0, 4.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.5), Some(2.0));
        assert_eq!(quantile(&values, 0.75), Some(3.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn distances_between_distributions_allow_for_ties() {
        assert_eq!(ks_distance(&[1.0, 2.0], &[1.0, 2.0]), Some(0.0));
        assert_eq!(ks_distance(&[1.0, 2.0], &[3.0]), Some(1.0));
        assert_eq!(ks_distance(&[1.0, 1.0, 1.0, 2.0], &[1.0, 2.0]), Some(0.25));
        assert_eq!(ks_distance(&[0.0, 5.0], &[1.0, 2.0, 3.0, 4.0]), Some(0.5));
        assert_eq!(ks_distance(&[], &[1.0]), None);
    }

    #[test]
    fn a_ratio_pools_parts_and_wholes() {
        let mut ratio = Column::default();
        ratio.push(Share::Ratio(1.0, 10.0));
        ratio.push(Share::Ratio(80.0, 90.0));
        assert_eq!(ratio.pooled(), Some(0.81));
        assert_eq!(ratio.drawn(&[2, 0]), Some(0.1));
        assert_eq!(ratio.of_session(1), Some(80.0 / 90.0));
        let mut peak = Column::default();
        [3.0, 9.0, 5.0].iter().for_each(|x| peak.push(Share::Largest(*x)));
        assert_eq!((peak.pooled(), peak.drawn(&[2, 0, 1])), (Some(9.0), Some(5.0)));
        assert_eq!(Column::default().pooled(), None);
    }

    #[test]
    fn wilson_is_what_textbooks_say() {
        let interval = wilson(8.0, 10).expect("ten trials");
        assert!(
            (interval.low - 0.4902).abs() < 1e-4 && (interval.high - 0.9433).abs() < 1e-4,
            "{interval:?}"
        );
        assert_eq!(wilson(0.0, 5).expect("five").low, 0.0);
        assert_eq!(wilson(0.0, 0), None);
    }

    #[test]
    fn draws_depend_on_the_seed_alone() {
        let values = column(&noise(3, "values", 40));
        let once = Resamples::draw(7, "test", 40, 200).scores(&values);
        assert_eq!(once, Resamples::draw(7, "test", 40, 200).scores(&values));
        assert_ne!(once, Resamples::draw(8, "test", 40, 200).scores(&values));
    }

    #[test]
    fn the_interval_of_a_sum_covers_the_truth_about_as_often_as_it_says() {
        let covered = (0..200).filter(|seed| {
            let values = column(&noise(*seed, "cover", 40));
            let drawn = Resamples::draw(*seed, "test", 40, 300).scores(&values);
            interval(drawn).expect("forty sessions").contains(0.0)
        });
        assert!((176..=199).contains(&covered.count()));
    }

    #[test]
    fn a_pair_sees_through_what_its_sessions_share() {
        // Sessions differ by thousands, the strategies by one.
        let base: Vec<f64> = noise(1, "base", 30).iter().map(|x| 5_000.0 + 1_000.0 * x).collect();
        let better: Vec<f64> = base.iter().zip(noise(2, "own", 30)).map(|(b, x)| b - 1.0 + 0.1 * x).collect();
        let resamples = Resamples::draw(0, "test", 30, 500);
        let (better, base) = (column(&better), column(&base));
        let (of_better, of_base) = (resamples.scores(&better), resamples.scores(&base));
        let pair = paired((&better, &of_better), (&base, &of_base), false).expect("thirty sessions");
        assert_eq!((pair.wins, pair.losses, pair.ties), (30, 0, 0));
        assert!(pair.win_rate_interval.low > 0.8 && pair.difference_interval.high < 0.0, "{pair:?}");
        let same = paired((&base, &of_base), (&base, &of_base), false).expect("thirty sessions");
        assert_eq!((same.ties, same.win_rate, same.difference), (30, 0.5, 0.0));
    }

    #[test]
    fn the_luckiest_of_many_is_not_taken_for_better() {
        let mut found = 0;
        for seed in 0..100 {
            let resamples = Resamples::draw(seed, "test", 30, 300);
            let columns: Vec<Column> =
                (0..10).map(|i| column(&noise(seed, &format!("lucky {i}"), 30))).collect();
            let drawn: Vec<Vec<f64>> =
                columns.iter().map(|c| resamples.scores(c).into_iter().flatten().collect()).collect();
            let gains: Vec<f64> = columns.iter().filter_map(Column::pooled).collect();
            found += usize::from(simultaneous_lower_bounds(&gains, &drawn, 30).iter().any(|low| *low > 0.0));
        }
        assert!(found <= 10, "{found} of 100");
        let sure = simultaneous_lower_bounds(&[5.0], &[vec![4.9, 5.0, 5.1, 5.0]], 30);
        assert!(sure[0] > 4.5);
    }

    #[test]
    fn percentiles_are_values() {
        let ten = Quantiles::of((1..=10).rev());
        assert_eq!([1, 50, 90, 99, 100].map(|p| ten.percentile(p)), [1, 5, 9, 10, 10].map(Some));
        assert_eq!(Quantiles::of([7]).percentile(50), Some(7));
        assert_eq!(Quantiles::default().percentile(50), None);
    }
}
