//! A cache of token blocks of one size, as self-hosted engines keep it: a prompt is a list of whole blocks, each
//! named by everything up to its end; a request reads the longest run of cached blocks it begins with, and
//! leaves all of its blocks in the cache, of which the least recently used make room.
//!
//! Sources: docs/sources.md G (vLLM's prefix-caching design page, mini-sglang `radix_cache.py`, TensorRT-LLM
//! `kvcache.md`, all 2026; Mooncake, FAST 2025).
//!
//! # Divergence from the real API
//!
//! * Requests are served one after the other: a request's own blocks cannot be evicted while it runs, those of
//!   no other request are held.
//! * SGLang and TensorRT-LLM evict leaves of a tree, vLLM takes its free blocks from a queue where a finished
//!   request puts its tail first. Served one after the other these are one order, [`Eviction::TailFirst`]: a block
//!   was never used later than the block before it, and of one use the deeper one goes first.
//! * TensorRT-LLM's priorities (all blocks have the default), its copies in host memory, and the extra keys of
//!   a block (adapters, salts) are not modelled; duplicates of a block do not occur.

use serde::{Deserialize, Serialize};

/// Which of the blocks that were used least recently goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// A request's blocks count as used from the last to the first, so that its tail goes before its head; room
    /// is made when the request is done (vLLM, SGLang, TensorRT-LLM).
    #[default]
    TailFirst,
    /// From the first to the last, and room is made for each block at once (the simulation that the Mooncake
    /// trace was published with). What stays of a prompt without its head is of no use to anyone.
    HeadFirst,
}

/// How an engine keeps blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSpec {
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Most blocks it holds; `None`: all.
    pub capacity_blocks: Option<u32>,
    /// Which goes first.
    pub evicts: Eviction,
    /// The last token of a prompt is computed again even if its block is cached: a hit is at most the whole blocks
    /// before it.
    pub recomputes_last_token: bool,
    /// The unfilled block at the end of a prompt is kept too.
    pub keeps_partial_blocks: bool,
}

impl BlockSpec {
    /// Number of blocks that a prompt leaves in the cache.
    pub fn blocks_of(&self, prompt_tokens: u64) -> u64 {
        let size = u64::from(self.block_tokens.max(1));
        if self.keeps_partial_blocks { prompt_tokens.div_ceil(size) } else { prompt_tokens / size }
    }

    /// Tokens that a prompt reads of `cached_blocks` cached ones.
    pub fn hit_tokens(&self, prompt_tokens: u64, cached_blocks: u64) -> u64 {
        let size = u64::from(self.block_tokens.max(1));
        let most = if self.recomputes_last_token {
            prompt_tokens.saturating_sub(1) / size * size
        } else {
            prompt_tokens
        };
        cached_blocks.saturating_mul(size).min(most)
    }
}

/// End of the list of blocks by use.
const SENTINEL: u32 = 0;

/// The neighbours of a block that is not cached.
const ABSENT: u32 = u32::MAX;

/// A place in the list of blocks by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Links {
    /// The block used next before this one.
    older: u32,
    /// The block used next after this one.
    newer: u32,
}

const UNUSED: Links = Links { older: ABSENT, newer: ABSENT };

/// The cached blocks, ordered by last use. Blocks are numbers from 0, given out in any order but without large gaps:
/// an entry is kept for each number below the largest.
#[derive(Debug, Clone)]
pub struct BlockCache {
    evicts: Eviction,
    capacity: usize,
    len: usize,
    /// Of block `b` at `b + 1`; at 0 the ends: `older` is the newest block, `newer` the oldest.
    links: Vec<Links>,
}

impl BlockCache {
    /// An empty cache.
    pub fn new(spec: &BlockSpec) -> BlockCache {
        let capacity = spec.capacity_blocks.map_or(usize::MAX, |blocks| blocks as usize);
        let ends = Links { older: SENTINEL, newer: SENTINEL };
        BlockCache { evicts: spec.evicts, capacity, len: 0, links: vec![ends] }
    }

    /// Number of cached blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this block is cached.
    pub fn contains(&self, block: u32) -> bool {
        self.links.get(block as usize + 1).is_some_and(|links| *links != UNUSED)
    }

    /// Serves a prompt: returns how many of its first blocks were cached, and leaves all of them in the cache.
    pub fn serve(&mut self, blocks: &[u32]) -> usize {
        let hit = blocks.iter().take_while(|&&block| self.contains(block)).count();
        if let Some(&largest) = blocks.iter().max()
            && self.links.len() < largest as usize + 2
        {
            self.links.resize(largest as usize + 2, UNUSED);
        }
        match self.evicts {
            Eviction::HeadFirst => {
                for &block in blocks {
                    self.touch(block + 1);
                    self.make_room();
                }
            }
            Eviction::TailFirst => {
                for &block in blocks.iter().rev() {
                    self.touch(block + 1);
                }
                self.make_room();
            }
        }
        hit
    }

    /// Makes the block at `at` the newest.
    fn touch(&mut self, at: u32) {
        let Links { older, newer } = self.links[at as usize];
        if older == ABSENT {
            self.len += 1;
        } else {
            self.links[older as usize].newer = newer;
            self.links[newer as usize].older = older;
        }
        let newest = self.links[SENTINEL as usize].older;
        self.links[at as usize] = Links { older: newest, newer: SENTINEL };
        self.links[newest as usize].newer = at;
        self.links[SENTINEL as usize].older = at;
    }

    fn make_room(&mut self) {
        while self.len > self.capacity {
            let oldest = self.links[SENTINEL as usize].newer;
            let next = self.links[oldest as usize].newer;
            self.links[SENTINEL as usize].newer = next;
            self.links[next as usize].older = SENTINEL;
            self.links[oldest as usize] = UNUSED;
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(evicts: Eviction, capacity_blocks: Option<u32>) -> BlockSpec {
        BlockSpec {
            block_tokens: 16,
            capacity_blocks,
            evicts,
            recomputes_last_token: false,
            keeps_partial_blocks: false,
        }
    }

    /// Blocks in order of use, newest last, looked through one by one.
    struct Naive {
        spec: BlockSpec,
        used: Vec<u32>,
    }

    impl Naive {
        fn serve(&mut self, blocks: &[u32]) -> usize {
            let hit = blocks.iter().take_while(|b| self.used.contains(b)).count();
            let capacity = self.spec.capacity_blocks.map_or(usize::MAX, |c| c as usize);
            let head_first = self.spec.evicts == Eviction::HeadFirst;
            let order: Vec<u32> =
                if head_first { blocks.to_vec() } else { blocks.iter().rev().copied().collect() };
            for block in order {
                self.used.retain(|&b| b != block);
                self.used.push(block);
                if head_first && self.used.len() > capacity {
                    self.used.remove(0);
                }
            }
            while self.used.len() > capacity {
                self.used.remove(0);
            }
            hit
        }
    }

    /// A tree of blocks as SGLang keeps it: only leaves are evicted, least recently used first, of one use the
    /// deepest; never blocks of the request at hand while others are left.
    #[derive(Default)]
    struct Leaves {
        /// Block, its parent, its depth, and the request that used it last.
        nodes: Vec<(u32, Option<u32>, usize, usize)>,
        served: usize,
    }

    impl Leaves {
        fn serve(&mut self, blocks: &[u32], capacity: usize) -> usize {
            self.served += 1;
            let known = |nodes: &[(u32, Option<u32>, usize, usize)], b| nodes.iter().position(|n| n.0 == b);
            let hit = blocks.iter().take_while(|&&b| known(&self.nodes, b).is_some()).count();
            for (depth, &block) in blocks.iter().enumerate() {
                match known(&self.nodes, block) {
                    Some(at) => self.nodes[at].3 = self.served,
                    None => {
                        let parent = depth.checked_sub(1).map(|d| blocks[d]);
                        self.nodes.push((block, parent, depth, self.served));
                    }
                }
            }
            while self.nodes.len() > capacity {
                let is_leaf = |n: &(u32, Option<u32>, usize, usize)| {
                    !self.nodes.iter().any(|other| other.1 == Some(n.0))
                };
                let leaves = self.nodes.iter().enumerate().filter(|(_, n)| is_leaf(n));
                let (at, _) = leaves.min_by_key(|(_, n)| (n.3, std::cmp::Reverse(n.2))).unwrap();
                self.nodes.remove(at);
            }
            hit
        }
    }

    /// Prompts whose blocks are named by everything up to them.
    fn prompts() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let paths = prop::collection::vec(prop::collection::vec(0_u32..3, 0..7), 1..40);
        paths.prop_map(|paths| {
            let name = |path: &[u32]| path.iter().fold(0, |name, step| name * 3 + step + 1) - 1;
            paths.iter().map(|path| (1..=path.len()).map(|end| name(&path[..end])).collect()).collect()
        })
    }

    proptest! {
        #[test]
        fn the_list_is_the_naive_one(prompts in prompts(), capacity in prop::option::of(0_u32..20), head in any::<bool>()) {
            let evicts = if head { Eviction::HeadFirst } else { Eviction::TailFirst };
            let spec = spec(evicts, capacity);
            let mut cache = BlockCache::new(&spec);
            let mut naive = Naive { spec, used: Vec::new() };
            for prompt in &prompts {
                prop_assert_eq!(cache.serve(prompt), naive.serve(prompt));
                prop_assert_eq!(cache.len(), naive.used.len());
                prop_assert!(naive.used.iter().all(|&block| cache.contains(block)));
            }
        }

        #[test]
        fn tail_first_is_the_order_of_leaves(prompts in prompts(), capacity in 0_u32..20) {
            let mut cache = BlockCache::new(&spec(Eviction::TailFirst, Some(capacity)));
            let mut leaves = Leaves::default();
            for prompt in &prompts {
                prop_assert_eq!(cache.serve(prompt), leaves.serve(prompt, capacity as usize));
            }
        }
    }

    #[test]
    fn a_hit_is_whole_blocks_and_leaves_the_last_token() {
        let mut vllm = spec(Eviction::TailFirst, None);
        assert_eq!((vllm.blocks_of(33), vllm.hit_tokens(33, 2)), (2, 32));
        assert_eq!(vllm.hit_tokens(32, 2), 32);
        vllm.recomputes_last_token = true;
        assert_eq!((vllm.hit_tokens(32, 2), vllm.hit_tokens(0, 0)), (16, 0));
        let partial = BlockSpec { keeps_partial_blocks: true, recomputes_last_token: false, ..vllm };
        assert_eq!((partial.blocks_of(33), partial.hit_tokens(33, 3)), (3, 33));
    }

    #[test]
    fn a_prompt_larger_than_the_cache_leaves_its_head_or_its_tail() {
        let cached = |evicts| {
            let mut cache = BlockCache::new(&spec(evicts, Some(2)));
            cache.serve(&[0, 1, 2]);
            [0, 1, 2].map(|block| cache.contains(block))
        };
        assert_eq!(cached(Eviction::TailFirst), [true, true, false]);
        assert_eq!(cached(Eviction::HeadFirst), [false, true, true]);
    }
}
