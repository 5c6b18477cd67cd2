//! Cache entries: what a breakpoint leaves behind, and who can read it until when.
//!
//! An entry is known by the chain hash of everything up to and including its block. Entries on the
//! current path of a conversation lie on that path's own stack (see [`super::path`]), so that append-only
//! traffic never looks anything up; all others lie here and are found again by hash when the path comes
//! back to them (an edit undone, a rewind, another conversation with the same prefix).
//!
//! Rules and dates: docs/sources.md A2 to A4 (prompt-caching page, 2026-10-08).
//!
//! # Divergence from the real API
//!
//! * Entries live exactly their life; the API promises it as a minimum. Nothing is evicted for capacity.
//! * Two writers of one prefix make one entry: it has the longer life and can be read as soon as the first
//!   of them began to answer. The API does not say.
//! * A refresh restarts the entry's own life, whatever life the marker that hit it asks for.

#![expect(clippy::disallowed_types, reason = "looked up by hash and never walked through")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Ttl;
use super::block_cache::BlockSpec;
use super::limited::LimitedBlocks;
use super::path::Node;

/// One cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ttl: Ttl,
    /// It can be read by requests that start before this.
    pub(crate) expires_ms: i64,
    /// It can be read by requests that start at this or later: its writer has begun to answer.
    pub(crate) readable_from_ms: i64,
    /// A persisted unit ends here (caches of prefix units only).
    pub(crate) unit: bool,
}

impl Entry {
    /// Whether its life has not ended.
    pub(crate) fn is_live(&self, at_ms: i64) -> bool {
        at_ms < self.expires_ms
    }

    /// Whether a request that starts at `at_ms` can read it.
    pub(crate) fn hits(&self, at_ms: i64) -> bool {
        self.is_live(at_ms) && at_ms >= self.readable_from_ms
    }

    /// Writes the same prefix again at `at_ms`.
    pub(crate) fn rewrite(&mut self, new: Entry, at_ms: i64) {
        if !self.is_live(at_ms) {
            *self = new;
            return;
        }
        self.ttl = self.ttl.max(new.ttl);
        self.expires_ms = self.expires_ms.max(new.expires_ms);
        self.readable_from_ms = self.readable_from_ms.min(new.readable_from_ms);
        self.unit |= new.unit;
    }
}

/// Entries off the path, by chain hash. After an edit every block sent again asks for its chain here, nearly
/// always in vain: a filter of one bit per entry answers most of these. Few entries outlive the short time
/// until the next ones come, so the newest wait in a list. When that is full the dead leave it, and only where
/// most are still alive do they go to the table.
#[derive(Debug, Default)]
pub(crate) struct Store {
    newest: Vec<(u64, Entry)>,
    table: HashMap<u64, Entry, BuildHasherDefault<ChainHasher>>,
    latest_expiry_ms: i64,
    /// No entry ends behind this position of its prompt.
    deepest: u32,
    filter: Filter,
    /// Size of the table at which the dead are looked for in it.
    sweep_len: usize,
    /// Caches of blocks with a limit; one where there is any.
    limited: Vec<LimitedBlocks>,
}

/// Entries that wait in the list.
const NEWEST_MAX: usize = 64;
/// Tables up to this size are not searched for the dead.
const SWEEP_LEN_MIN: usize = 4_096;

/// Which chains may be there: one bit each, large enough that few of the others share one.
#[derive(Debug)]
struct Filter([u64; 128]);

impl Default for Filter {
    fn default() -> Filter {
        Filter([0; 128])
    }
}

impl Filter {
    /// Word and bit of a chain: chains are mixed already.
    fn place(chain: u64) -> (usize, u64) {
        ((chain >> 57) as usize, 1 << (chain & 63))
    }

    fn add(&mut self, chain: u64) {
        let (word, bit) = Filter::place(chain);
        self.0[word] |= bit;
    }

    fn may_hold(&self, chain: u64) -> bool {
        let (word, bit) = Filter::place(chain);
        self.0[word] & bit != 0
    }
}

impl Store {
    pub(crate) fn clear(&mut self) {
        self.newest.clear();
        self.table.clear();
        self.filter = Filter::default();
        self.latest_expiry_ms = i64::MIN;
        self.deepest = 0;
        self.sweep_len = 0;
    }

    /// Forgets the blocks of caches with a limit, too.
    pub(crate) fn clear_all(&mut self) {
        self.clear();
        self.limited.clear();
    }

    /// The cache of blocks with this limit.
    pub(crate) fn limited(&mut self, spec: &BlockSpec) -> &mut LimitedBlocks {
        let at = self.limited.iter().position(|blocks| blocks.is_of(spec)).unwrap_or_else(|| {
            self.limited.push(LimitedBlocks::new(*spec));
            self.limited.len() - 1
        });
        &mut self.limited[at]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.table.is_empty()
    }

    /// Forgets everything once nothing can be read any more; time runs forward.
    pub(crate) fn sweep(&mut self, at_ms: i64) {
        if at_ms >= self.latest_expiry_ms && !self.is_empty() {
            self.clear();
        }
    }

    /// A prompt that is longer than so many positions is not here.
    pub(crate) fn deepest(&self) -> u32 {
        self.deepest
    }

    /// Keeps the entry at a node of a path.
    #[inline]
    pub(crate) fn put(&mut self, node: &Node, entry: Entry, at_ms: i64) {
        let chain = node.chain;
        self.deepest = self.deepest.max(node.position);
        self.latest_expiry_ms = self.latest_expiry_ms.max(entry.expires_ms);
        if self.filter.may_hold(chain) && self.rewrite(chain, entry, at_ms) {
            return;
        }
        if self.newest.len() == NEWEST_MAX {
            self.settle(at_ms);
        }
        self.filter.add(chain);
        self.newest.push((chain, entry));
    }

    /// Puts many at once, as a path of which a tail is cut off leaves behind. Such entries live long: the dead are
    /// looked for only when the table has doubled.
    pub(crate) fn put_run(&mut self, run: impl Iterator<Item = (u64, Entry)>, at_ms: i64) {
        // Paths of this kind stop looking at the first node that is not here.
        self.deepest = u32::MAX;
        for (chain, mut entry) in run {
            if let Some(mut old) = self.take(chain) {
                old.rewrite(entry, at_ms);
                entry = old;
            }
            self.filter.add(chain);
            self.latest_expiry_ms = self.latest_expiry_ms.max(entry.expires_ms);
            self.table.insert(chain, entry);
        }
        if self.table.len() > self.sweep_len.max(SWEEP_LEN_MIN) {
            self.table.retain(|_, entry| entry.is_live(at_ms));
            self.sweep_len = 2 * self.table.len();
        }
    }

    /// Writes an entry again, if it is there.
    #[cold]
    fn rewrite(&mut self, chain: u64, entry: Entry, at_ms: i64) -> bool {
        let newest = self.newest.iter_mut().find(|(c, _)| *c == chain).map(|(_, old)| old);
        let Some(old) = newest.or_else(|| self.table.get_mut(&chain)) else { return false };
        old.rewrite(entry, at_ms);
        true
    }

    /// Makes room in the list, and the filter anew: it is to know no dead ones.
    #[cold]
    fn settle(&mut self, at_ms: i64) {
        self.table.retain(|_, entry| entry.is_live(at_ms));
        self.newest.retain(|(_, entry)| entry.is_live(at_ms));
        if self.newest.len() > NEWEST_MAX / 2 {
            self.table.extend(self.newest.drain(..));
        }
        self.filter = Filter::default();
        for chain in self.table.keys().chain(self.newest.iter().map(|(chain, _)| chain)) {
            self.filter.add(*chain);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, chain: u64) -> Option<Entry> {
        if self.filter.may_hold(chain) { self.find_and_take(chain) } else { None }
    }

    #[cold]
    fn find_and_take(&mut self, chain: u64) -> Option<Entry> {
        match self.newest.iter().position(|(c, _)| *c == chain) {
            Some(at) => Some(self.newest.swap_remove(at).1),
            None => self.table.remove(&chain),
        }
    }

    pub(crate) fn get(&self, chain: u64) -> Option<&Entry> {
        // What a path has just left is asked for most.
        let newest = self.newest.iter().rev().find(|(c, _)| *c == chain).map(|(_, entry)| entry);
        newest.or_else(|| self.table.get(&chain))
    }
}

/// Chain hashes are mixed already: the key is its own hash.
#[derive(Debug, Default)]
pub(crate) struct ChainHasher(u64);

impl Hasher for ChainHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, u64::from(byte), 0);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

// Secrets of XXH3 (its default secret at offsets 8, 16 and 24).
const SECRET_CHAIN: u64 = 0x1cad_21f7_2c81_017c;
const SECRET_VALUE: u64 = 0xdb97_9083_e96d_d4de;
const SECRET_TAG: u64 = 0x1f67_b3b7_a4a4_4072;

/// The next link of a chain: the 128-bit product fold that XXH3-64 mixes 16 bytes with, over the chain so
/// far and one value; `tag` tells apart what the value is. The same on every machine.
#[inline]
pub(crate) fn mix(chain: u64, value: u64, tag: u64) -> u64 {
    mix_keyed(chain, value, key_of(tag))
}

/// What a tag does to a chain.
pub(crate) const fn key_of(tag: u64) -> u64 {
    SECRET_CHAIN ^ tag.wrapping_mul(SECRET_TAG)
}

/// [`mix`], the tag given by its key.
#[inline]
pub(crate) fn mix_keyed(chain: u64, value: u64, key: u64) -> u64 {
    let product = u128::from(chain ^ key) * u128::from(value ^ SECRET_VALUE);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(chain: u64) -> Node {
        Node { chain, bound: 0, tokens: 0, position: 1, accepted: 0 }
    }

    fn entry(ttl: Ttl, expires_ms: i64, readable_from_ms: i64) -> Entry {
        Entry { ttl, expires_ms, readable_from_ms, unit: false }
    }

    #[test]
    fn life_ends_at_its_expiry_and_begins_with_the_answer() {
        let e = entry(Ttl::Short, 300_000, 2_000);
        assert!(e.is_live(299_999) && !e.is_live(300_000));
        assert!(!e.hits(1_999) && e.hits(2_000) && !e.hits(300_000));
    }

    #[test]
    fn writing_again_keeps_the_better_of_both_unless_the_old_is_dead() {
        let mut e = entry(Ttl::Long, 3_600_000, 0);
        e.rewrite(entry(Ttl::Short, 400_000, 100_500), 100_000);
        assert_eq!(e, entry(Ttl::Long, 3_600_000, 0));
        e.rewrite(entry(Ttl::Short, 4_000_000, 3_700_500), 3_700_000);
        assert_eq!(e, entry(Ttl::Short, 4_000_000, 3_700_500));
    }

    #[test]
    fn the_store_forgets_only_when_all_are_dead() {
        let mut store = Store::default();
        store.put(&node(1), entry(Ttl::Short, 300_000, 0), 0);
        store.put(&node(2), entry(Ttl::Long, 3_600_000, 0), 0);
        store.sweep(300_000);
        assert!(store.get(1).is_some());
        store.sweep(3_600_000);
        assert!(store.is_empty());
        store.put(&node(3), entry(Ttl::Short, 4_000_000, 0), 3_700_000);
        store.sweep(3_999_999);
        assert!(store.take(3).is_some() && store.take(3).is_none());
    }

    #[test]
    fn every_argument_changes_the_link() {
        let base = mix(1, 2, 3);
        assert!([mix(0, 2, 3), mix(1, 0, 3), mix(1, 2, 0), mix(2, 1, 3)].iter().all(|&m| m != base));
    }
}
