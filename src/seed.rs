//! The only source of randomness: a draw depends on what it is for, never on order or thread.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

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
