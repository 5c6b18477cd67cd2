//! Draws from distributions, the same to the last bit on every machine: the four operations and `floor` are exact
//! everywhere, and `exp`, `log` and `cos` are those of `libm`, never the platform's.

use crate::seed::{self, Stream};

/// Between 0 and 1, never either: the middle of one of 2^52 equal cells.
pub fn unit(rng: &mut Stream) -> f64 {
    const CELLS: f64 = 4_503_599_627_370_496.0;
    #[expect(clippy::cast_precision_loss, reason = "52 bits fit")]
    let cell = (seed::bits(rng) >> 12) as f64;
    (cell + 0.5) / CELLS
}

/// Standard normal, by the cosine half of Box and Muller's transform.
pub fn normal(rng: &mut Stream) -> f64 {
    let radius = (-2.0 * libm::log(unit(rng))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

/// e to the power of a normal draw with mean `mu` and deviation `sigma`.
pub fn log_normal(rng: &mut Stream, mu: f64, sigma: f64) -> f64 {
    libm::exp(mu + sigma * normal(rng))
}

/// Evenly between `low` and `high`.
pub fn uniform(rng: &mut Stream, low: f64, high: f64) -> f64 {
    low + (high - low) * unit(rng)
}

/// Failures before the first success, each try succeeding with probability `p`.
pub fn geometric(rng: &mut Stream, p: f64) -> f64 {
    let draw = unit(rng);
    if p >= 1.0 { 0.0 } else { (libm::log(draw) / libm::log(1.0 - p)).floor() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 40_000;

    fn draws(purpose: &str, mut one: impl FnMut(&mut Stream) -> f64) -> Vec<f64> {
        let mut rng = seed::stream(0, purpose, &[]);
        (0..N).map(|_| one(&mut rng)).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// What every machine must draw, bit for bit.
    #[test]
    fn golden_values() {
        let bits = |purpose: &str, one: fn(&mut Stream) -> f64| -> [u64; 3] {
            let mut rng = seed::stream(20_261_130, purpose, &[1, 2]);
            std::array::from_fn(|_| one(&mut rng).to_bits())
        };
        insta::assert_debug_snapshot!([
            bits("unit", unit),
            bits("normal", normal),
            bits("log-normal", |rng| log_normal(rng, 6.1, 1.6)),
            bits("uniform", |rng| uniform(rng, -3.0, 8.0)),
            bits("geometric", |rng| geometric(rng, 0.07)),
        ]);
    }

    #[test]
    fn moments_are_those_of_the_names() {
        let units = draws("unit", unit);
        assert!((mean(&units) - 0.5).abs() < 0.005 && units.iter().all(|x| *x > 0.0 && *x < 1.0));
        let normals = draws("normal", normal);
        let variance = mean(&normals.iter().map(|x| x * x).collect::<Vec<_>>());
        let within = normals.iter().filter(|x| x.abs() < 1.959_964).count() as f64 / N as f64;
        assert!(
            mean(&normals).abs() < 0.02 && (variance - 1.0).abs() < 0.02 && (within - 0.95).abs() < 0.005
        );
        let mut logs = draws("log-normal", |rng| log_normal(rng, 2.0, 0.5));
        logs.sort_by(f64::total_cmp);
        assert!((logs[N / 2] - 7.389).abs() < 0.1 && (mean(&logs) - 8.373).abs() < 0.1);
        assert!((mean(&draws("uniform", |rng| uniform(rng, -3.0, 8.0))) - 2.5).abs() < 0.05);
        let tries = draws("geometric", |rng| geometric(rng, 0.2));
        assert!((mean(&tries) - 4.0).abs() < 0.1);
        assert!(draws("sure", |rng| geometric(rng, 1.0)).iter().all(|x| *x == 0.0));
    }
}
