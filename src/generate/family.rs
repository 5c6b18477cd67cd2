//! The simplest family of distributions that comes close to what was seen.

use super::fit::term;
use crate::generate::Dist;
use crate::generate::dist::{Core, Term};
use crate::seed;
use crate::stats::ks_distance;

/// Units whose values are whole numbers.
pub const WHOLE_UNITS: [&str; 5] = ["turns", "requests", "calls", "tokens", "utf16"];

/// A single value of at least this share stands for itself,
const ATOM_SHARE: f64 = 0.1;
/// if it was seen this often.
const ATOM_VALUES: usize = 3;
/// A more complex family must come closer by this much.
const WORTH: f64 = 0.01;
/// Most single values in front of a geometric tail.
const MAX_ATOMS: usize = 8;
/// Draws that stand for a candidate.
const DRAWS: usize = 8_000;
/// Rounds of expectation and maximisation.
const ROUNDS: usize = 60;
/// Fewest values that two log-normals are fitted to.
const MIN_FOR_TWO: usize = 40;
/// Of more values, evenly spaced ones in ascending order stand for all.
const ENOUGH: usize = 20_000;
/// Narrowest log-normal: one on a single point would have infinite density.
const MIN_SIGMA: f64 = 0.02;

/// A distribution for `values` (at least one).
pub fn fit(values: &[f64], range: (f64, f64), is_chance: bool) -> Dist {
    let mut sorted: Vec<f64> = values.iter().map(|v| v.max(range.0).min(range.1)).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    if is_chance {
        return Dist::constant(rounded(sorted.iter().sum::<f64>() / count(sorted.len())));
    }
    if low == high {
        return Dist::constant(rounded(low));
    }
    let candidates = [geometric_tail(&sorted), Some(log_normals(&sorted, 1)), two(&sorted)];
    let mut best: Option<(f64, Dist)> = None;
    for terms in candidates.into_iter().flatten() {
        let dist = Dist::mixture(terms).bounded(rounded(low), rounded(high));
        let distance = distance(&dist, &sorted);
        if best.as_ref().is_none_or(|(least, _)| distance < least - WORTH) {
            best = Some((distance, dist));
        }
    }
    best.map_or_else(|| Dist::constant(rounded(low)), |(_, dist)| dist)
}

fn distance(dist: &Dist, sorted: &[f64]) -> f64 {
    let mut rng = seed::stream(0, "fit/candidate", &[]);
    // Whole numbers are drawn as whole numbers.
    let is_whole = sorted.iter().all(|v| v.fract() == 0.0);
    let one = |nth| {
        let value = dist.draw(&mut rng, nth);
        if is_whole { (value + 0.5).floor() } else { value }
    };
    let mut draws: Vec<f64> = (0..DRAWS).map(one).collect();
    draws.sort_by(f64::total_cmp);
    ks_distance(sorted, &draws).unwrap_or(1.0)
}

/// Small whole numbers: each of the first ones for itself, then a geometric tail.
fn geometric_tail(sorted: &[f64]) -> Option<Vec<Term>> {
    let mean = sorted.iter().sum::<f64>() / count(sorted.len());
    if sorted.iter().any(|v| v.fract() != 0.0) || mean > 20.0 {
        return None;
    }
    let n = count(sorted.len());
    let mut terms = Vec::new();
    let mut left = sorted;
    while let Some(first) = left.first().copied().filter(|_| terms.len() < MAX_ATOMS) {
        let end = left.partition_point(|v| *v <= first);
        if end < ATOM_VALUES || count(end) / n < ATOM_SHARE / 10.0 {
            break;
        }
        terms.push(term(rounded(count(end) / n), Core::Constant(first)));
        left = &left[end..];
    }
    if let Some(first) = left.first() {
        let beyond = left.iter().map(|v| v - first).sum::<f64>() / count(left.len());
        let core = Core::Geometric { p: rounded(1.0 / (1.0 + beyond)).max(0.0001) };
        terms.push(Term { offset: *first, ..term(weight(count(left.len()) / n), core) });
    }
    Some(terms)
}

fn two(sorted: &[f64]) -> Option<Vec<Term>> {
    (sorted.len() >= MIN_FOR_TWO).then(|| log_normals(sorted, 2))
}

/// The least value for itself if it is frequent, and one or two log-normals behind it.
fn log_normals(sorted: &[f64], components: usize) -> Vec<Term> {
    let least = sorted[0];
    let end = sorted.partition_point(|v| *v <= least);
    let share = count(end) / count(sorted.len());
    let has_atom = share >= ATOM_SHARE && end >= ATOM_VALUES;
    let (offset, rest) = if has_atom { (least, &sorted[end..]) } else { (0.0, sorted) };
    let every = rest.iter().step_by(rest.len().div_ceil(ENOUGH).max(1));
    let logs: Vec<f64> = every.map(|v| v - offset).filter(|v| *v > 0.0).map(libm::log).collect();
    let mut terms = Vec::new();
    if has_atom {
        terms.push(term(weight(share), Core::Constant(least)));
    }
    let left = if has_atom { 1.0 - share } else { 1.0 };
    for (part, mu, sigma) in maximise(&logs, components) {
        let core = Core::LogNormal { mu: rounded(mu), sigma: rounded(sigma) };
        terms.push(Term { offset, ..term(weight(left * part), core) });
    }
    terms
}

/// Weight, mean and deviation of each normal of a mixture, of most likelihood near a start from equal parts of `sorted`.
fn maximise(sorted: &[f64], components: usize) -> Vec<(f64, f64, f64)> {
    let chunk = sorted.len().div_ceil(components).max(1);
    let mut parts: Vec<(f64, f64, f64)> = sorted
        .chunks(chunk)
        .map(|part| {
            let (mean, sigma) = moments(part.iter().map(|x| (*x, 1.0)));
            (count(part.len()) / count(sorted.len()), mean, sigma)
        })
        .collect();
    if components == 1 {
        return parts;
    }
    for _ in 0..ROUNDS {
        let mut shares = vec![Vec::with_capacity(sorted.len()); parts.len()];
        for x in sorted {
            let densities: Vec<f64> = parts
                .iter()
                .map(|(w, mu, sigma)| {
                    let z = (x - mu) / sigma;
                    w * libm::exp(-0.5 * z * z) / sigma
                })
                .collect();
            let sum: f64 = densities.iter().sum();
            for (share, density) in shares.iter_mut().zip(&densities) {
                share.push(if sum > 0.0 { density / sum } else { 1.0 / count(parts.len()) });
            }
        }
        for (part, share) in parts.iter_mut().zip(&shares) {
            let (mean, sigma) = moments(sorted.iter().copied().zip(share.iter().copied()));
            *part = (share.iter().sum::<f64>() / count(sorted.len()), mean, sigma);
        }
    }
    parts.retain(|(w, ..)| *w > 0.005);
    parts
}

/// Weighted mean and deviation.
fn moments(values: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let total: f64 = values.clone().map(|(_, w)| w).sum();
    if total <= 0.0 {
        return (0.0, MIN_SIGMA);
    }
    let mean = values.clone().map(|(x, w)| x * w).sum::<f64>() / total;
    let variance = values.map(|(x, w)| w * (x - mean) * (x - mean)).sum::<f64>() / total;
    (mean, variance.sqrt().max(MIN_SIGMA))
}

/// Four decimals are enough, and a file stays readable.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0 + 0.5).floor() / 10_000.0
}

/// A rounded weight that is never 0.
fn weight(share: f64) -> f64 {
    rounded(share).max(0.0001)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of values are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}
