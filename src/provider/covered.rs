//! What a cache of prefixes holds of a path. Everything served can be read again, and each served request uses all of
//! its own prefix; so what is held of the path of a conversation is a length and one time, whatever its length.
//! Only what an edit cuts off goes to the store node by node, and comes back from there onto the path's stack.
//!
//! Deeper nodes are never held longer, and never readable sooner, than those before them.
//!
//! Rules: docs/sources.md D2, E, F, G.

use super::cache::{Entry, Store};
use super::cache_spec::AnyPrefix;
use super::path::{Cached, Path};
use super::{SentBlock, Ttl};

/// What is held of a path as the last served request left it.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// `nodes[..len]` are held.
    pub(crate) len: usize,
    expires_ms: i64,
    /// From which node on, and from when they can be read; ascending. Empty where all can.
    zones: Vec<(u32, i64)>,
    /// Nodes at which a unit ends, ascending.
    units: Vec<u32>,
    /// Number of blocks of the request served last, and its chain: what follows it is its answer.
    answered: Option<(usize, u64)>,
}

impl Covered {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.zones.clear();
        self.units.clear();
        self.answered = None;
    }

    fn entry(&self, index: u32) -> Entry {
        let readable = self.zones.iter().rev().find(|(from, _)| *from <= index);
        Entry {
            ttl: Ttl::Short,
            expires_ms: self.expires_ms,
            readable_from_ms: readable.map_or(i64::MIN, |(_, ms)| *ms),
            unit: self.units.binary_search(&index).is_ok(),
        }
    }

    /// Number of nodes that can be read.
    fn readable_len(&self, at_ms: i64) -> usize {
        if at_ms >= self.expires_ms {
            return 0;
        }
        let pending = self.zones.iter().find(|(_, readable_ms)| at_ms < *readable_ms);
        pending.map_or(self.len, |(from, _)| *from as usize)
    }
}

impl Path {
    /// Fills the stack anew from the store, after other conversations used it.
    pub(crate) fn adopt(&mut self, store: &mut Store) {
        let mut position = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            if node.position > position {
                match store.take(node.chain) {
                    Some(entry) => {
                        self.cached.push(Cached { index: index as u32, position: node.position, entry })
                    }
                    None if self.is_prefix_closed => break,
                    None => {}
                }
            }
            position = node.position;
        }
    }

    /// Moves every entry to the store.
    pub(crate) fn spill(&mut self, store: &mut Store, at_ms: i64) {
        if self.is_prefix_closed {
            return self.uncover(0, store, at_ms);
        }
        for cached in self.cached.drain(..) {
            store.put(&self.nodes[cached.index as usize], cached.entry, at_ms);
        }
    }

    /// Tokens of tools and system.
    pub(crate) fn static_prefix_tokens(&self) -> u64 {
        let last = self.prefix_len.min(self.nodes.len()).checked_sub(1);
        last.map_or(0, |i| self.nodes[i].tokens)
    }

    /// The entry at exactly this block, to be changed; it is probably the `nth`.
    pub(crate) fn entry_at(&mut self, index: u32, nth: usize) -> Option<&mut Entry> {
        let at = match self.cached.get(nth) {
            Some(cached) if cached.index == index => nth,
            _ => self.cached_at(index)?,
        };
        self.cached.get_mut(at).map(|cached| &mut cached.entry)
    }

    /// Where on the stack the entry at exactly this block is.
    pub(crate) fn cached_at(&self, index: u32) -> Option<usize> {
        self.cached.binary_search_by_key(&index, |c| c.index).ok()
    }

    /// Gives what is held from node `len` on to the store.
    pub(crate) fn uncover(&mut self, len: usize, store: &mut Store, at_ms: i64) {
        let kept = self.cached.partition_point(|c| (c.index as usize) < len);
        let (nodes, covered) = (&self.nodes, &self.covered);
        let found = self.cached.drain(kept..).map(|c| (nodes[c.index as usize].chain, c.entry));
        store.put_run(found.filter(|(_, entry)| entry.is_live(at_ms)), at_ms);
        if covered.len > len {
            if at_ms < covered.expires_ms {
                let run = (len..covered.len).map(|i| (nodes[i].chain, covered.entry(i as u32)));
                store.put_run(run, at_ms);
            }
            let covered = &mut self.covered;
            covered.len = len;
            covered.zones.truncate(covered.zones.partition_point(|(from, _)| (*from as usize) < len));
            covered.units.truncate(covered.units.partition_point(|&i| (i as usize) < len));
        }
    }

    /// What is held at exactly this node.
    pub(crate) fn held_at(&self, index: u32) -> Option<Entry> {
        if (index as usize) < self.covered.len {
            return Some(self.covered.entry(index));
        }
        self.cached_at(index).map(|at| self.cached[at].entry)
    }

    /// The deepest node that can be read.
    pub(crate) fn shared(&self, at_ms: i64) -> Option<u32> {
        let found = self.cached.partition_point(|c| c.entry.hits(at_ms));
        match found.checked_sub(1) {
            Some(last) => Some(self.cached[last].index),
            None => self.covered.readable_len(at_ms).checked_sub(1).map(|i| i as u32),
        }
    }

    /// The deepest node that is held, whether or not its first writer has begun to answer.
    pub(crate) fn known(&self, at_ms: i64) -> Option<u32> {
        let found = self.cached.partition_point(|c| c.entry.is_live(at_ms));
        match found.checked_sub(1) {
            Some(last) => Some(self.cached[last].index),
            None if at_ms < self.covered.expires_ms => self.covered.len.checked_sub(1).map(|i| i as u32),
            None => None,
        }
    }

    /// The deepest node up to `shared` at which a unit ends.
    pub(crate) fn unit_below(&self, shared: u32) -> Option<u32> {
        let found = self.cached.iter().rev().find(|c| c.entry.unit && c.index <= shared);
        found.map(|c| c.index).or_else(|| {
            let units = &self.covered.units;
            units[..units.partition_point(|&i| i <= shared)].last().copied()
        })
    }

    /// The blocks of the model that follow the request served last are its answer: they were cached with it.
    pub(crate) fn credit_answer(&mut self, blocks: &[SentBlock]) {
        let Some((end, chain)) = self.covered.answered else { return };
        let Some(last) = end.checked_sub(1).filter(|&i| end < blocks.len() && self.nodes[i].chain == chain)
        else {
            return;
        };
        let held = self.cached.last().map(|c| c.index as usize).or(self.covered.len.checked_sub(1));
        let Some(held) = held.filter(|&held| self.nodes[held].position >= self.nodes[last].position) else {
            return;
        };
        let answer = blocks[end..].iter().take_while(|b| b.kind.is_assistant()).count();
        if answer == 0 {
            return;
        }
        let base = self.cached.last().map_or_else(|| self.covered.entry(held as u32), |c| c.entry);
        let base = Entry { unit: false, ..base };
        for i in held.max(last) + 1..end + answer {
            let position = self.nodes[i].position;
            self.cached.push(Cached { index: i as u32, position, entry: base });
        }
        if let Some(at) = self.cached_at((end + answer - 1) as u32) {
            self.cached[at].entry.unit = true;
        }
    }

    /// Everything on the path was served at `at_ms` and is used anew; what was not held is written.
    pub(crate) fn cover(&mut self, cache: &AnyPrefix, life_ms: i64, at_ms: i64, ttft_ms: u32) {
        let answers_ms = at_ms + i64::from(ttft_ms);
        let known = self.known(at_ms);
        let covered = &mut self.covered;
        if at_ms >= covered.expires_ms {
            covered.clear();
        }
        covered.zones.retain(|(_, readable_ms)| *readable_ms > at_ms);
        covered.zones.iter_mut().for_each(|(_, readable_ms)| *readable_ms = answers_ms.min(*readable_ms));
        let mut fresh = covered.len as u32;
        for found in self.cached.drain(..).filter(|c| c.entry.is_live(at_ms)) {
            fresh = found.index + 1;
            if found.entry.unit {
                covered.units.push(found.index);
            }
            let readable_ms = found.entry.readable_from_ms.min(answers_ms);
            if readable_ms > at_ms && covered.zones.last().is_none_or(|(_, last)| *last != readable_ms) {
                covered.zones.push((found.index, readable_ms));
            }
        }
        if ttft_ms > 0 && (fresh as usize) < self.nodes.len() {
            covered.zones.push((fresh, answers_ms));
        }
        covered.len = self.nodes.len();
        covered.expires_ms = at_ms + life_ms;
        if cache.units {
            for unit in known.into_iter().chain(covered.len.checked_sub(1).map(|i| i as u32)) {
                if let Err(at) = covered.units.binary_search(&unit) {
                    covered.units.insert(at, unit);
                }
            }
        }
        let last = self.nodes.last().filter(|_| cache.covers_answers);
        covered.answered = last.map(|node| (covered.len, node.chain));
    }
}
