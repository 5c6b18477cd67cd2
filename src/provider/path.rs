//! The path of a conversation: for every block sent, what the cache and the binding check know up to
//! there. Appending extends it, an edit truncates it, so a request costs what changed.
//!
//! Rules: docs/sources.md A2, A7, A8, B3; docs/decisions.md 1, 5, 6.
//!
//! # Divergence from the real API
//!
//! * The cache sees blocks, not bytes: two blocks are the same if kind and content hash are.
//! * A thinking block the provider drops has no tokens but keeps its position, and the prefix differs from
//!   one without it from there on.
//! * Thinking that a model strips at a new user turn has no position at all.
//! * Parameters lose the cache of messages (or everything) as a whole; which parameter does is the
//!   caller's knowledge.

use super::binding::{BOUND_START, Behaviour, Lesson, Place, Prefix, Records};
use super::cache::{Entry, Store, key_of, mix, mix_keyed};
use super::cache_spec::{CacheSpec, ImageToggle, ParametersLevel};
use super::covered::Covered;
use super::model::{ModelSpec, ThinkingRetention};
use super::{ChangedPart, NO_LINK, Request, SentBlock, SentKind};
use crate::cause::Cause;

/// State after a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// Cache chain up to and including the block.
    pub(crate) chain: u64,
    /// Binding chain of messages.
    pub(crate) bound: u64,
    /// Prompt tokens.
    pub(crate) tokens: u64,
    /// Number of positions.
    pub(crate) position: u32,
    /// Last accepted thinking, or [`NO_LINK`].
    pub(crate) accepted: u32,
}

/// A cache entry at a block of the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cached {
    pub(crate) index: u32,
    pub(crate) position: u32,
    pub(crate) entry: Entry,
}

/// What a path is evaluated with, besides its request.
pub(crate) struct Scene<'a> {
    pub(crate) model: &'a ModelSpec,
    pub(crate) spec: &'a CacheSpec,
    pub(crate) behaviour: Behaviour,
    /// Models that made the thinking of the conversation, by [`super::binding::Bound::producer`].
    pub(crate) producers: &'a [&'a ModelSpec],
    /// Index of `model` among them; `None` where nothing is to be learned (a call aside).
    pub(crate) producer: Option<u32>,
}

impl Scene<'_> {
    /// Whether the model can use thinking of this producer.
    pub(crate) fn can_read(&self, producer: u32) -> bool {
        self.producer == Some(producer) || self.model.can_read(self.producers[producer as usize])
    }
}

/// Why evaluation stopped.
#[derive(Debug, Clone)]
pub(crate) enum Refused {
    /// Thinking at this block fails the prefix check.
    Binding { index: usize, changed: ChangedPart, explanation: String },
    /// Thinking at this block is not what it was.
    Altered { index: usize },
}

/// The blocks of the last call as evaluated.
#[derive(Debug, Default)]
pub(crate) struct Path {
    pub(crate) nodes: Vec<Node>,
    /// Entries on the path, ascending.
    pub(crate) cached: Vec<Cached>,
    /// What a cache of prefixes holds, below what `cached` holds.
    pub(crate) covered: Covered,
    /// The path is held by a cache of prefixes: a node that is not held is the end of what is.
    pub(crate) is_prefix_closed: bool,
    /// Nodes are still looked up as they are added.
    looks_up: bool,
    /// Indexes of dropped thinking, ascending.
    pub(crate) dropped: Vec<u32>,
    /// Indexes of thinking that fails the prefix check, dropped or not.
    pub(crate) failing: Vec<u32>,
    /// Blocks in front of the messages.
    pub(crate) prefix_len: usize,
    pub(crate) prefix: Prefix,
    behaviour: Behaviour,
    origin: Origin,
    images: Vec<u32>,
    /// Thinking before this block is stripped.
    turn_start: usize,
    /// The call on the path was admitted, so every tool call in it is answered.
    pub(crate) complete: bool,
    /// What this call taught about thinking: index, id, and what was known before.
    pub(crate) learned: Vec<(usize, u32, Lesson)>,
}

/// What a prefix depends on besides its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Origin {
    model: u64,
    params: u64,
    images: u64,
}

impl Path {
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.cached.clear();
        self.covered.clear();
        self.is_prefix_closed = false;
        self.dropped.clear();
        self.failing.clear();
        self.images.clear();
        self.learned.clear();
        self.prefix_len = 0;
        self.turn_start = 0;
        self.complete = false;
        self.origin = Origin::default();
    }

    /// Forgets the path from `len` on; its entries go to the store.
    pub(crate) fn truncate(&mut self, len: usize, store: &mut Store, at_ms: i64) {
        if len >= self.nodes.len() {
            return;
        }
        if self.is_prefix_closed {
            self.uncover(len, store, at_ms);
        }
        while let Some(&Cached { index, entry, .. }) = self.cached.last().filter(|c| c.index as usize >= len)
        {
            self.cached.pop();
            if entry.is_live(at_ms) {
                store.put(&self.nodes[index as usize], entry, at_ms);
            }
        }
        self.nodes.truncate(len);
        for list in [&mut self.dropped, &mut self.failing, &mut self.images] {
            list.truncate(list.partition_point(|&i| (i as usize) < len));
        }
    }

    /// Thinking before this block is stripped of prompts for `model`.
    pub(crate) fn stripped_before(&self, model: &ModelSpec) -> usize {
        match model.thinking {
            ThinkingRetention::CurrentTurn => self.turn_start,
            ThinkingRetention::KeepAll => 0,
        }
    }

    /// Undoes what this call taught, because it was refused.
    pub(crate) fn unlearn(&mut self, records: &mut Records, store: &mut Store, at_ms: i64) {
        if let Some(&(first, _, _)) = self.learned.first() {
            self.truncate(first, store, at_ms);
        }
        for (_, id, lesson) in self.learned.drain(..).rev() {
            records.unlearn(id, lesson);
        }
    }

    /// Keeps what this call taught, because it was served.
    pub(crate) fn learn(&mut self) {
        self.learned.clear();
    }

    /// Makes the path that of `request`. Returns where the provider itself made it diverge from the last
    /// call, if below `request.changed_from`.
    pub(crate) fn sync(
        &mut self,
        scene: &Scene<'_>,
        request: &Request<'_>,
        records: &mut Records,
        store: &mut Store,
    ) -> Result<Option<(usize, Cause)>, Refused> {
        let edited = request.changed_from.min(self.nodes.len()).min(request.blocks.len());
        let own_cut = self.own_cut(scene, request, edited);
        let from = own_cut.map_or(edited, |(cut, _)| cut.min(edited));
        self.truncate(from, store, request.at_ms);
        self.is_prefix_closed = scene.spec.holds_prefixes();
        self.looks_up = !store.is_empty();
        if from < self.prefix_len || self.nodes.is_empty() {
            self.prefix_len = request.blocks.iter().take_while(|b| b.kind.is_prefix()).count();
            self.prefix = Prefix::of(&request.blocks[..self.prefix_len]);
        }
        self.extend(scene, request, edited, records, store)?;
        if self.is_prefix_closed && scene.spec.any_prefix().is_some_and(|cache| cache.covers_answers) {
            self.credit_answer(request.blocks);
        }
        Ok(own_cut)
    }

    /// Where parameters, images, stripping or another way of treating failing thinking make the kept part
    /// of the path invalid: the first such block and the cause.
    fn own_cut(&mut self, scene: &Scene<'_>, request: &Request<'_>, edited: usize) -> Option<(usize, Cause)> {
        let origin = Origin {
            model: scene.model.seed,
            params: request.params.messages_key,
            images: self.count_images(scene.spec.image_toggle_invalidates, request, edited),
        };
        let before = std::mem::replace(&mut self.origin, origin);
        let all_params = scene.spec.parameters_invalidate == ParametersLevel::All;
        let turn = match scene.model.thinking {
            ThinkingRetention::KeepAll => None,
            ThinkingRetention::CurrentTurn => self.move_turn(request.blocks, edited),
        };
        let behaviour = std::mem::replace(&mut self.behaviour, scene.behaviour);
        if origin == before && turn.is_none() && behaviour == scene.behaviour {
            return None;
        }
        let failing = self.failing.first().filter(|_| behaviour != scene.behaviour).map(|&i| i as usize);
        let cuts = [
            (origin.model != before.model).then_some((0, Cause::PrefixModel)),
            (origin.params != before.params)
                .then_some((if all_params { 0 } else { self.prefix_len }, Cause::PrefixParameters)),
            (origin.images != before.images).then_some((self.prefix_len, Cause::PrefixImage)),
            turn.map(|at| (at, Cause::PrefixThinking)),
            failing.map(|at| (at, Cause::PrefixThinking)),
        ];
        cuts.into_iter().flatten().filter(|(at, _)| *at < edited).min_by_key(|(at, _)| *at)
    }

    /// What the cache of messages depends on of the images in the request.
    fn count_images(&self, toggle: ImageToggle, request: &Request<'_>, edited: usize) -> u64 {
        if toggle == ImageToggle::Never {
            return 0;
        }
        let kept = self.images.partition_point(|&i| (i as usize) < edited);
        let new = request.blocks[edited..].iter().filter(|b| b.kind == SentKind::Image).count();
        let count = (kept + new) as u64;
        if toggle == ImageToggle::First { count.min(1) } else { count }
    }

    /// Moves the start of the current turn; returns the first kept block it changes.
    fn move_turn(&mut self, blocks: &[SentBlock], edited: usize) -> Option<usize> {
        let speaks = |i: &usize| matches!(blocks[*i].kind, SentKind::Text | SentKind::Image);
        let old = self.turn_start;
        let appended = (edited..blocks.len()).rev().find(speaks);
        let kept = || if old < edited { Some(old) } else { (0..edited).rev().find(speaks) };
        let start = appended.or_else(kept).unwrap_or(0);
        self.turn_start = start;
        let (low, high) = (old.min(start), old.max(start).min(edited));
        (low..high).find(|&i| blocks[i].kind == SentKind::Thinking)
    }

    fn extend(
        &mut self,
        scene: &Scene<'_>,
        request: &Request<'_>,
        edited: usize,
        records: &mut Records,
        store: &mut Store,
    ) -> Result<(), Refused> {
        let blocks = request.blocks;
        let mut index = self.nodes.len();
        let mut node = self.nodes.last().copied().unwrap_or(Node {
            chain: self.root(scene.spec),
            bound: BOUND_START,
            tokens: 0,
            position: 0,
            accepted: NO_LINK,
        });
        self.nodes.reserve(blocks.len() - index);
        while index < blocks.len() {
            if index == self.prefix_len {
                node.chain = self.messages_start(node.chain, scene.spec);
            }
            if index >= self.prefix_len {
                node = self.extend_plain(&blocks[index..], node);
                if self.looks_up {
                    self.look_up_from(index, store);
                }
                index = self.nodes.len();
            }
            if index < blocks.len() {
                self.extend_one(scene, request, edited, &mut node, records, store)?;
                index += 1;
            }
        }
        Ok(())
    }

    /// Goes over blocks of messages that nothing is asked about but what they are, nearly all there are, up to the
    /// first of another kind.
    #[inline]
    fn extend_plain(&mut self, blocks: &[SentBlock], from: Node) -> Node {
        let plain = blocks.iter().position(|b| !is_plain(b)).unwrap_or(blocks.len());
        let Node { mut chain, mut bound, mut tokens, mut position, accepted } = from;
        self.nodes.extend(blocks[..plain].iter().map(move |block| {
            let key = CHAIN_KEYS[block.kind as usize];
            bound = mix_keyed(bound, block.hash, key);
            chain = mix_keyed(chain, block.hash, key);
            tokens += u64::from(block.tokens);
            position += 1;
            Node { chain, bound, tokens, position, accepted }
        }));
        if plain == 0 { from } else { self.nodes.last().copied().unwrap_or(from) }
    }

    /// Takes what the store has of the nodes from `index` on.
    fn look_up_from(&mut self, index: usize, store: &mut Store) {
        if self.nodes.get(index).is_none_or(|first| first.position > store.deepest()) {
            return;
        }
        for (behind, node) in self.nodes[index..].iter().enumerate() {
            if let Some(entry) = store.take(node.chain) {
                let index = (index + behind) as u32;
                self.cached.push(Cached { index, position: node.position, entry });
            } else if self.is_prefix_closed {
                self.looks_up = false;
                return;
            }
        }
    }

    /// The next block, whatever it is.
    fn extend_one(
        &mut self,
        scene: &Scene<'_>,
        request: &Request<'_>,
        edited: usize,
        node: &mut Node,
        records: &mut Records,
        store: &mut Store,
    ) -> Result<(), Refused> {
        let index = self.nodes.len();
        let block = &request.blocks[index];
        let mut tag = block.kind as u64;
        let mut tokens = block.tokens;
        match block.kind {
            SentKind::Thinking => {
                if index < self.turn_start && scene.model.thinking == ThinkingRetention::CurrentTurn {
                    self.nodes.push(*node);
                    return Ok(());
                }
                let here = Place { prefix: self.prefix, messages: node.bound, predecessor: node.accepted };
                let verdict = self.judge(scene, request, index, &here, edited, records)?;
                if verdict.accepted {
                    node.accepted = block.link;
                }
                if verdict.dropped {
                    tag |= DROPPED;
                    tokens = 0;
                }
            }
            _ if block.deferred => {
                self.nodes.push(*node);
                return Ok(());
            }
            SentKind::Image => {
                self.images.push(index as u32);
                node.bound = mix(node.bound, block.hash, tag);
            }
            _ if index < self.prefix_len => {}
            _ => node.bound = mix(node.bound, block.hash, tag),
        }
        node.chain = if block.placeholder {
            mix(node.chain, u64::from(block.tokens), tag | PLACEHOLDER)
        } else {
            mix(node.chain, block.hash, tag)
        };
        node.tokens += u64::from(tokens);
        node.position += 1;
        self.nodes.push(*node);
        if self.looks_up {
            match store.take(node.chain) {
                Some(entry) => {
                    self.cached.push(Cached { index: index as u32, position: node.position, entry })
                }
                None => self.looks_up = !self.is_prefix_closed,
            }
        }
        Ok(())
    }

    /// Chain before the first block.
    fn root(&self, spec: &CacheSpec) -> u64 {
        let all = spec.parameters_invalidate == ParametersLevel::All;
        mix(self.origin.model, if all { self.origin.params } else { 0 }, ROOT)
    }

    /// Chain before the first message.
    fn messages_start(&self, chain: u64, spec: &CacheSpec) -> u64 {
        let all = spec.parameters_invalidate == ParametersLevel::All;
        mix(chain, if all { 0 } else { self.origin.params }, MESSAGES + self.origin.images)
    }
}

/// Whether a block of a message is only hashed and counted.
#[inline]
fn is_plain(block: &SentBlock) -> bool {
    !matches!(block.kind, SentKind::Thinking | SentKind::Image) && !block.deferred && !block.placeholder
}

/// What [`mix`] makes of each kind of block as a tag.
const CHAIN_KEYS: [u64; 8] = {
    let mut keys = [0; 8];
    let mut kind = 0;
    while kind < keys.len() {
        keys[kind] = key_of(kind as u64);
        kind += 1;
    }
    keys
};

const ROOT: u64 = 64;
const MESSAGES: u64 = 65;
const PLACEHOLDER: u64 = 8;
const DROPPED: u64 = 16;
