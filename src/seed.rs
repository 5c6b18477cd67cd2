//! The only source of randomness: a draw depends on what it is for, never on order or thread.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// A generator for one purpose: its seed is a hash of the root seed and the labels.
pub fn stream(root: u64, purpose: &str, ids: &[u64]) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(derive(root, purpose, ids))
}

/// The seed behind [`stream`], for purposes that need only one number.
pub fn derive(root: u64, purpose: &str, ids: &[u64]) -> u64 {
    let mut label = Vec::with_capacity(16 + purpose.len() + 8 * ids.len());
    label.extend_from_slice(&root.to_le_bytes());
    label.extend_from_slice(&(purpose.len() as u64).to_le_bytes());
    label.extend_from_slice(purpose.as_bytes());
    for id in ids {
        label.extend_from_slice(&id.to_le_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&label)
}

/// The generator behind every draw.
pub type Stream = Xoshiro256PlusPlus;

/// Sixty-four random bits.
pub fn bits(rng: &mut Stream) -> u64 {
    rng.next_u64()
}

/// A whole number from 0 up to and without `bound` (0 where that is 0), the same on every machine. The draw is the
/// upper half of a product of 128 bits: values differ in probability by less than `bound` in 2^64.
pub fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_their_bound_and_reach_every_value() {
        let mut rng = stream(1, "test", &[]);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[below(&mut rng, 7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1_200).contains(n)), "{seen:?}");
        assert_eq!(below(&mut rng, 0), 0);
    }
}
