//! Blocks of conversations in a cache with a limit ([`super::block_cache`]): the blocks of a path, named and looked up.
//!
//! A request costs what its prompt has blocks, as it does in the engines: each of them is used anew.
//!
//! # Divergence from the real API
//!
//! * A block is known by the content block it ends in and where in it, so two prompts share the token blocks that end
//!   in content blocks they share.
//! * An answer takes no room until the next request sends it back.

#![expect(clippy::disallowed_types, reason = "looked up by name and never walked through")]

use std::collections::HashMap;

use super::block_cache::{BlockCache, BlockSpec};
use super::cache::{Store, mix};
use super::cache_spec::CacheSpec;
use super::look::Reading;
use super::path::{Node, Path};

/// Sets names of blocks apart from chains of content blocks.
const BLOCK: u64 = 32;

/// A cache with a limit, and numbers for the names of its blocks.
#[derive(Debug)]
pub(crate) struct LimitedBlocks {
    spec: BlockSpec,
    cache: BlockCache,
    numbers: HashMap<u64, u32>,
    /// Blocks of the prompt at hand.
    blocks: Vec<u32>,
}

impl LimitedBlocks {
    pub(crate) fn new(spec: BlockSpec) -> LimitedBlocks {
        let cache = BlockCache::new(&spec);
        LimitedBlocks { spec, cache, numbers: HashMap::new(), blocks: Vec::new() }
    }

    pub(crate) fn is_of(&self, spec: &BlockSpec) -> bool {
        self.spec == *spec
    }

    /// Of what could be read without a limit, what is still there; the prompt's blocks are used and kept.
    pub(crate) fn serve(&mut self, nodes: &[Node], unlimited: Reading, prompt_tokens: u64) -> Reading {
        self.blocks.clear();
        for name in block_names(nodes, &self.spec) {
            let next = self.numbers.len() as u32;
            self.blocks.push(*self.numbers.entry(name).or_insert(next));
        }
        let cached = self.cache.serve(&self.blocks) as u64;
        let tokens = self.spec.hit_tokens(prompt_tokens, cached).min(unlimited.tokens);
        Reading { tokens, lost: unlimited.lost || tokens < unlimited.tokens, ..unlimited }
    }
}

/// What of a reading is still there where a cache holds only so many blocks; the prompt's own are kept.
// Inlined: nearly every cache has no limit.
#[inline(always)]
pub(crate) fn limit(
    reading: &mut Reading,
    store: &mut Store,
    spec: &CacheSpec,
    path: &Path,
    prompt_tokens: u64,
) {
    if let Some(blocks) = spec.limited_blocks() {
        *reading = store.limited(blocks).serve(&path.nodes, *reading, prompt_tokens);
    }
}

/// Names of the token blocks of a prompt: equal where everything up to the block's end is.
fn block_names(nodes: &[Node], spec: &BlockSpec) -> impl Iterator<Item = u64> {
    let size = u64::from(spec.block_tokens.max(1));
    let starts = std::iter::once(0).chain(nodes.iter().map(|node| node.tokens));
    let whole = nodes.iter().zip(starts).flat_map(move |(node, start)| {
        let (first, end) = (start / size + 1, node.tokens / size);
        (first..=end).map(move |block| mix(node.chain, block * size - start, BLOCK))
    });
    let has_unfilled = |node: &&Node| spec.keeps_partial_blocks && !node.tokens.is_multiple_of(size);
    let unfilled = nodes.last().filter(has_unfilled);
    whole.chain(unfilled.map(|node| mix(node.chain, u64::MAX, BLOCK)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::NO_LINK;

    fn path(parts: &[(u64, u64)]) -> Vec<Node> {
        let mut node = Node { chain: 0, bound: 0, tokens: 0, position: 0, accepted: NO_LINK };
        let nodes = parts.iter().map(|(hash, tokens)| {
            node.chain = mix(node.chain, *hash, 0);
            node.tokens += tokens;
            node
        });
        nodes.collect()
    }

    fn names(parts: &[(u64, u64)]) -> Vec<u64> {
        let spec = BlockSpec {
            block_tokens: 16,
            capacity_blocks: Some(4),
            evicts: Default::default(),
            recomputes_last_token: false,
            keeps_partial_blocks: false,
        };
        block_names(&path(parts), &spec).collect()
    }

    #[test]
    fn blocks_are_shared_up_to_the_content_that_differs() {
        let one = names(&[(1, 40), (2, 0), (3, 30)]);
        assert_eq!(one.len(), 4);
        let other = names(&[(1, 40), (2, 0), (4, 60)]);
        assert_eq!(other.len(), 6);
        assert_eq!(one[..2], other[..2], "two blocks end in the first part");
        assert!(one[2..].iter().all(|name| !other.contains(name)));
    }
}
