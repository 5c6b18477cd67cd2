//! Ticks, their labels, and fewer points than pixels.

/// A step of 1, 2 or 5 times a power of ten that cuts `max` into at most `count` parts.
pub fn step(max: u64, count: u64) -> u64 {
    let mut power = 1;
    loop {
        for factor in [1, 2, 5] {
            let step = factor * power;
            if max.div_ceil(step) <= count || step > u64::MAX / 20 {
                return step;
            }
        }
        power *= 10;
    }
}

/// `0`, `950`, `50k`, `1.2M`: as short as the step allows.
pub fn short_number(n: u64) -> String {
    let (unit, suffix) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (1_000, "k"),
        _ => (1_000_000, "M"),
    };
    let hundredths = (n % unit) / (unit / 100).max(1);
    let fraction = format!("{hundredths:02}");
    match fraction.trim_end_matches('0') {
        "" => format!("{}{suffix}", n / unit),
        digits => format!("{}.{digits}{suffix}", n / unit),
    }
}

/// [`short_number`] with three digits that count.
pub fn rounded_number(n: u64) -> String {
    let unit = 10_u64.pow(n.checked_ilog10().unwrap_or(0).saturating_sub(2));
    short_number(n.saturating_add(unit / 2) / unit * unit)
}

/// Thins a line to at most four points per column of `width` columns between `first` and `last`: first,
/// lowest, highest and last of each, so that no peak is lost.
pub fn downsample(points: &[(u64, u64)], first: u64, last: u64, width: usize) -> Vec<(u64, u64)> {
    if points.len() <= 2 * width {
        return points.to_vec();
    }
    let span = (last - first + 1).max(1);
    let column = |x: u64| (x.saturating_sub(first)) * width as u64 / span;
    let mut out = Vec::new();
    for chunk in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let mut kept: Vec<usize> = vec![0, chunk.len() - 1];
        kept.extend((0..chunk.len()).min_by_key(|&i| chunk[i].1));
        kept.extend((0..chunk.len()).max_by_key(|&i| chunk[i].1));
        kept.sort_unstable();
        kept.dedup();
        out.extend(kept.into_iter().map(|i| chunk[i]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (max, count, expected) in
            [(1, 6, 1), (6, 6, 1), (7, 6, 2), (180_000, 6, 50_000), (10_000, 8, 2_000)]
        {
            assert_eq!(step(max, count), expected, "{max} in {count}");
        }
    }

    #[test]
    fn labels_are_short() {
        for (n, label) in [(0, "0"), (999, "999"), (50_000, "50k"), (1_200_000, "1.2M"), (2_500, "2.5k")] {
            assert_eq!(short_number(n), label);
        }
        for (n, label) in [(0, "0"), (109_856, "110k"), (33_145, "33.1k"), (1_581, "1.58k"), (999_900, "1M")]
        {
            assert_eq!(rounded_number(n), label);
        }
    }

    #[test]
    fn downsampling_keeps_peaks_and_ends() {
        let points: Vec<(u64, u64)> =
            (1..=10_000).map(|x| (x, if x == 4_321 { 999 } else { x % 7 })).collect();
        let thin = downsample(&points, 1, 10_000, 100);
        assert!(thin.len() <= 400);
        assert!(thin.contains(&(4_321, 999)));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[9_999]));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
