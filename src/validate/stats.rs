//! Quantiles of whole numbers, by nearest rank: no interpolation, so that every machine gives the same.

/// Sorted values.
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
    use super::Quantiles;

    #[test]
    fn percentiles_are_values() {
        let ten = Quantiles::of((1..=10).rev());
        assert_eq!([1, 50, 90, 99, 100].map(|p| ten.percentile(p)), [1, 5, 9, 10, 10].map(Some));
        assert_eq!(Quantiles::of([7]).percentile(50), Some(7));
        assert_eq!(Quantiles::default().percentile(50), None);
    }
}
