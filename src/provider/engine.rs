//! The engine behind [`Provider`]: cache, binding, window.
//!
//! A request is first validated, then put on the path (where thinking is checked), then measured against
//! the window; only then does it read, refresh, write and get billed. A refused request therefore leaves
//! no trace but the path itself, which the next call's `changed_from` refers to.
//!
//! Rules: docs/sources.md A2 to A6 (prompt-caching page, 2026-10-08), J; docs/decisions.md 1 to 10.
//!
//! # Divergence from the real API
//!
//! * A request that starts before an entry's writer has begun to answer cannot read it, whoever sends it.
//!   Within a session, where a request always follows an answer, callers leave `ttft_ms` at 0.
//! * A marked block in front of the hit that has no entry of its own gets none (nothing would be billed
//!   for it).
//! * The model check comes before the prefix check, validation before both, the window last; the API does
//!   not publish an order.
//! * Isolation by workspace, server tools' own breakpoints and pre-warming calls are not modelled.

use super::attribution::{Attribution, Split};
use super::binding::{Behaviour, Forgotten, Place, Records};
use super::cache::Store;
use super::cache_spec::{Breakpoints, CacheKind, CacheSpec, ImageToggle, ParametersLevel, Refresh};
use super::entries::{new_entry, serve};
use super::limited::limit;
use super::look::{self, Reading};
use super::overflow_text::Sizes;
use super::pairing::{self, invalid, wire_path};
use super::path::{Path, Scene};
use super::reasoning::{self, Pairs, Reason, Transformation};
use super::refusal::refusal;
use super::{
    Account, Answer, Done, Marker, Miss, ModelSpec, NO_LINK, Params, Rejection, RejectionKind, Request,
    SentBlock, Ttl,
};
use super::{markers, overflow, truncation};
use crate::cause::Cause;
use crate::usage::Usage;

/// Stands for the cache of a model whose cache is not simulated: it holds nothing.
const NO_CACHE: CacheSpec = CacheSpec {
    minimum_tokens: u64::MAX,
    short_ttl_ms: 1,
    long_ttl_ms: 1,
    image_toggle_invalidates: ImageToggle::Never,
    parameters_invalidate: ParametersLevel::Messages,
    ttft_ms: 0,
    kind: CacheKind::Breakpoints(Breakpoints {
        lookback_positions: 1,
        max_markers: 4,
        refresh: Refresh::MatchedOnly,
    }),
};

/// Scratch memory of a request.
#[derive(Debug, Default)]
struct Scratch {
    markers: Vec<Marker>,
    open_calls: Vec<(u32, usize)>,
}

/// Buffers of a provider, to be used again by the next.
#[derive(Debug, Default)]
pub struct Memory {
    path: Path,
    aside: Path,
    store: Store,
    records: Records,
    scratch: Scratch,
}

/// The cache of an organisation, while none of its conversations is inside.
#[derive(Debug, Default)]
pub struct SharedCache {
    store: Store,
}

/// One conversation with the provider, and the cache of its organisation.
#[derive(Debug)]
pub struct Provider<'m> {
    model: &'m ModelSpec,
    account: Account,
    /// Every model this conversation ran on; thinking remembers which made it.
    producers: Vec<&'m ModelSpec>,
    producer: u32,
    path: Path,
    aside: Path,
    store: Store,
    records: Records,
    attribution: Attribution,
    /// End of the request served last: where its answer is bound.
    served: Option<Place>,
    scratch: Scratch,
    /// Root of what is left to chance.
    seed: u64,
    /// Calls that must come back with reasoning.
    pairs: Pairs,
    /// Blocks of the last call that are on the path; all of them, unless the provider took another copy.
    shared_blocks: usize,
    /// What it took, if it ever did.
    copy: Vec<SentBlock>,
}

impl<'m> Provider<'m> {
    /// An empty cache, nothing sent yet. A model whose cache is not simulated caches nothing.
    pub fn new(model: &'m ModelSpec, account: Account) -> Provider<'m> {
        Provider::with_memory(model, account, Memory::default())
    }

    /// As [`Provider::new`], in the buffers of an earlier provider.
    pub fn with_memory(model: &'m ModelSpec, account: Account, memory: Memory) -> Provider<'m> {
        let Memory { path, aside, store, records, scratch } = memory;
        let mut provider = Provider {
            model,
            account,
            producers: Vec::new(),
            producer: 0,
            path,
            aside,
            store,
            records,
            attribution: Attribution::default(),
            served: None,
            scratch,
            seed: 0,
            pairs: Pairs::default(),
            shared_blocks: usize::MAX,
            copy: Vec::new(),
        };
        provider.reset(model, account);
        provider
    }

    /// The buffers, for another provider.
    pub fn into_memory(self) -> Memory {
        let Provider { path, aside, store, records, scratch, .. } = self;
        Memory { path, aside, store, records, scratch }
    }

    /// Empties cache and conversation for another run, keeping allocations.
    pub fn reset(&mut self, model: &'m ModelSpec, account: Account) {
        self.model = model;
        self.account = account;
        self.producers.clear();
        self.producers.push(model);
        self.producer = 0;
        self.path.clear();
        self.aside.clear();
        self.store.clear_all();
        self.records.clear();
        self.attribution = Attribution::default();
        self.served = None;
        self.pairs.clear();
        self.shared_blocks = usize::MAX;
    }

    /// Sets the root of what is left to chance: what a cache lost that promises nothing.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Continues the conversation on another model: nothing cached before fits, thinking the new model
    /// cannot read is dropped, and both come back with the old model.
    pub fn set_model(&mut self, model: &'m ModelSpec) {
        self.model = model;
        self.producer = match self.producers.iter().position(|p| p.seed == model.seed) {
            Some(at) => at as u32,
            None => {
                self.producers.push(model);
                self.producers.len() as u32 - 1
            }
        };
    }

    /// The conversation goes on with the cache of its organisation, until it leaves.
    pub fn enter(&mut self, cache: &mut SharedCache) {
        std::mem::swap(&mut self.store, &mut cache.store);
        self.path.adopt(&mut self.store);
    }

    /// The cache is given back at `at_ms`, for another conversation.
    pub fn leave(&mut self, cache: &mut SharedCache, at_ms: i64) {
        self.path.spill(&mut self.store, at_ms);
        std::mem::swap(&mut self.store, &mut cache.store);
    }

    /// Makes `blocks` a cached prefix, as if another conversation had sent them at `at_ms` with a
    /// breakpoint behind the last one. Nothing happens if they are shorter than the model's minimum.
    pub fn warm(&mut self, blocks: &[SentBlock], params: Params, ttl: Ttl, at_ms: i64) {
        let request = Request {
            at_ms,
            ttft_ms: 0,
            blocks,
            changed_from: 0,
            change: None,
            markers: &[],
            automatic: None,
            params,
            tail_tokens: 0,
            max_output_tokens: 0,
        };
        let spec = self.model.cache.as_ref().unwrap_or(&NO_CACHE);
        let scene = Scene {
            model: self.model,
            spec,
            behaviour: Behaviour::Skip,
            producers: &self.producers,
            producer: None,
        };
        self.path.spill(&mut self.store, at_ms);
        self.aside.clear();
        let evaluated = self.aside.sync(&scene, &request, &mut self.records, &mut self.store).is_ok();
        let long_enough = self.aside.nodes.last().is_some_and(|n| n.tokens >= spec.minimum_tokens);
        if evaluated
            && long_enough
            && let Some(cache) = spec.any_prefix()
        {
            limit(&mut Reading::default(), &mut self.store, spec, &self.aside, 0);
            self.aside.cover(&cache, spec.short_ttl_ms, at_ms, 0);
        }
        self.aside.spill(&mut self.store, at_ms);
        if let Some(last) = self.aside.nodes.last().filter(|_| evaluated && long_enough)
            && spec.any_prefix().is_none()
        {
            self.store.put(last, new_entry(spec, ttl, at_ms, 0), at_ms);
        }
        self.path.adopt(&mut self.store);
    }

    /// Serves or refuses a request.
    pub fn send(&mut self, request: &Request<'_>) -> Answer {
        self.store.sweep(request.at_ms);
        let changed_from = request.changed_from.min(std::mem::replace(&mut self.shared_blocks, usize::MAX));
        if changed_from < request.changed_from {
            self.attribution.cut(Some((changed_from, Cause::ProviderSide)));
        } else {
            self.attribution.edited(request, self.path.nodes.len());
        }
        // A request is a dozen words: it is copied only where it has to change.
        let own;
        let request = if changed_from < request.changed_from {
            own = Request { changed_from, ..*request };
            &own
        } else {
            request
        };
        let behaviour = Behaviour::of(self.model, self.account, &request.params);
        match self.admit(request, behaviour) {
            Ok(own_cut) => Answer::Done(self.serve(request, behaviour, own_cut)),
            Err(rejection) => match self.shortened(request, behaviour, &rejection) {
                Some(answer) => answer,
                None => self.refuse(request, rejection),
            },
        }
    }

    fn admit(
        &mut self,
        request: &Request<'_>,
        behaviour: Behaviour,
    ) -> Result<Option<(usize, Cause)>, Box<Rejection>> {
        let spec = self.model.cache.as_ref().unwrap_or(&NO_CACHE);
        let scene = Scene {
            model: self.model,
            spec,
            behaviour,
            producers: &self.producers,
            producer: Some(self.producer),
        };
        let blocks = request.blocks;
        if let Some((at, text)) =
            reasoning::missing(self.model.replay, &self.pairs, blocks, request.changed_from)
        {
            self.path.truncate(request.changed_from, &mut self.store, request.at_ms);
            return Err(Box::new(invalid(blocks, Some(at), text)));
        }
        admit(&scene, request, &mut self.path, &mut self.records, &mut self.store, &mut self.scratch)
    }

    fn refuse(&mut self, request: &Request<'_>, rejection: Box<Rejection>) -> Answer {
        self.path.unlearn(&mut self.records, &mut self.store, request.at_ms);
        Answer::Rejected(rejection)
    }

    /// The answer to a request that does not fit, where its oldest messages are left out instead of refusing it.
    #[cold]
    fn shortened(
        &mut self,
        request: &Request<'_>,
        behaviour: Behaviour,
        rejection: &Rejection,
    ) -> Option<Answer> {
        let is_too_long = matches!(rejection.kind, RejectionKind::Overflow { .. });
        if !is_too_long || !(self.model.overflow.truncates() || request.params.truncates) {
            return None;
        }
        let (blocks, tail_tokens) = (request.blocks, u64::from(request.tail_tokens));
        let from = truncation::keeps_from(&self.path, blocks, tail_tokens, self.model.window_tokens)?;
        self.path.unlearn(&mut self.records, &mut self.store, request.at_ms);
        let mut copy = std::mem::take(&mut self.copy);
        let markers = truncation::shorten(blocks, request.markers, from, &mut copy);
        let prefix = truncation::prefix_len(blocks);
        self.shared_blocks = prefix;
        self.attribution.cut(Some((prefix, Cause::ProviderSide)));
        let shorter = Request { blocks: &copy, markers: &markers, changed_from: prefix, ..*request };
        let answer = match self.admit(&shorter, behaviour) {
            Ok(own_cut) => {
                let left_out_blocks = u32::try_from(from - prefix).unwrap_or(u32::MAX);
                Answer::Done(Done { left_out_blocks, ..self.serve(&shorter, behaviour, own_cut) })
            }
            Err(rejection) => self.refuse(&shorter, rejection),
        };
        self.copy = copy;
        Some(answer)
    }

    /// Looks an admitted request up, writes and bills it.
    fn serve(
        &mut self,
        request: &Request<'_>,
        behaviour: Behaviour,
        own_cut: Option<(usize, Cause)>,
    ) -> Done {
        let spec = self.model.cache.as_ref().unwrap_or(&NO_CACHE);
        self.attribution.cut(own_cut);
        self.path.learn();
        let markers = &self.scratch.markers;
        let prompt_tokens = self.path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
        let mut reading = look::read(&self.path, spec, request, markers, prompt_tokens, self.seed);
        limit(&mut reading, &mut self.store, spec, &self.path, prompt_tokens);
        let scene = Split { spec, request, path: &self.path, store: &self.store, markers };
        let miss = self.attribution.split(&scene, &reading, prompt_tokens);
        let usage = serve(spec, request, &mut self.path, markers, &reading);
        self.attribution.served(spec, &self.path, markers, prompt_tokens - u64::from(request.tail_tokens));
        self.served = self.path.nodes.last().map(|node| Place {
            prefix: self.path.prefix,
            messages: node.bound,
            predecessor: node.accepted,
        });
        done(&self.path, behaviour, usage, miss, prompt_tokens)
    }

    /// The response to the request just served holds these thinking blocks ([`super::SentBlock::link`]):
    /// they are bound to that request as evaluated.
    pub fn answered(&mut self, thinking: &[u32]) {
        let Some(Place { prefix, messages, mut predecessor }) = self.served else { return };
        for &id in thinking.iter().filter(|&&id| id != NO_LINK) {
            self.records.announce(id, Place { prefix, messages, predecessor }, self.producer);
            predecessor = id;
        }
    }

    /// The first call of the response just announced, and the last reasoning before it: where the vendor wants
    /// that, one does not come back without the other.
    pub fn called(&mut self, call: u32, reasoning: u32) {
        self.pairs.learn(call, reasoning);
    }

    /// What the request served last would read if it came again at `request.at_ms`.
    pub fn would_read(&self, request: &Request<'_>) -> u64 {
        let spec = self.model.cache.as_ref().unwrap_or(&NO_CACHE);
        let prompt_tokens = self.path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
        look::read(&self.path, spec, request, &self.scratch.markers, prompt_tokens, self.seed).tokens
    }

    /// What the response to the request just served says of its reasoning; `blocks` are that request's.
    pub fn transformations(&self, blocks: &[SentBlock]) -> Vec<Transformation> {
        let stripped = (0..self.path.stripped_before(self.model).min(blocks.len()))
            .filter(|&i| blocks[i].kind == super::SentKind::Thinking)
            .map(|i| (i as u32, true, Reason::TurnBoundary));
        let dropped = self.path.dropped.iter().map(|&i| {
            let failed = self.path.failing.binary_search(&i).is_ok();
            (i, true, if failed { Reason::PrefixMismatch } else { Reason::ModelMismatch })
        });
        let is_dropped = |i: &&u32| self.path.dropped.binary_search(i).is_ok();
        let allowed = self.path.failing.iter().filter(|i| !is_dropped(i));
        let allowed = allowed.map(|&i| (i, false, Reason::PrefixMismatch));
        let mut all: Vec<(u32, bool, Reason)> = stripped.chain(dropped).chain(allowed).collect();
        all.sort_unstable_by_key(|(i, ..)| *i);
        let entry = |(block, removed, reason): (u32, bool, Reason)| Transformation {
            block,
            path: wire_path(blocks, block as usize),
            removed,
            reason,
        };
        all.into_iter().map(entry).collect()
    }

    /// Thinking that `is_stale` names is bound anew where it appears next. For a history that a recording
    /// changed without saying how: what stays in it cannot be held against the unknown change.
    pub fn forget_bindings(&mut self, is_stale: impl Fn(u32) -> bool) -> Forgotten {
        self.records.forget(is_stale)
    }

    /// Of what was forgotten, thinking that appeared in no request since is bound as it was.
    pub fn recall_bindings(&mut self, forgotten: Forgotten) {
        self.records.recall(forgotten);
    }

    /// A request of another conversation of the same organisation (a summarizer call): served from
    /// and written to the same cache, but this conversation's state does not move. Its blocks are always
    /// taken as a whole (`changed_from` is not used), and thinking in it is checked but nothing is bound.
    pub fn send_aside(&mut self, model: &ModelSpec, request: &Request<'_>) -> Answer {
        let spec = model.cache.as_ref().unwrap_or(&NO_CACHE);
        let behaviour = Behaviour::of(model, self.account, &request.params);
        let scene = Scene { model, spec, behaviour, producers: &self.producers, producer: None };
        let whole = Request { changed_from: 0, ..*request };
        self.store.sweep(request.at_ms);
        self.path.spill(&mut self.store, request.at_ms);
        self.aside.clear();
        let admitted =
            admit(&scene, &whole, &mut self.aside, &mut self.records, &mut self.store, &mut self.scratch);
        let answer = match admitted {
            Ok(_) => {
                let path = &mut self.aside;
                let markers = &self.scratch.markers;
                let prompt_tokens =
                    path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
                let mut reading = look::read(path, spec, &whole, markers, prompt_tokens, self.seed);
                limit(&mut reading, &mut self.store, spec, path, prompt_tokens);
                let usage = serve(spec, request, path, markers, &reading);
                let miss =
                    Miss { new_tokens: usage.prompt_tokens() - usage.cache_read_tokens, ..Miss::default() };
                Answer::Done(done(path, behaviour, usage, miss, prompt_tokens))
            }
            Err(rejection) => Answer::Rejected(rejection),
        };
        self.aside.spill(&mut self.store, request.at_ms);
        self.path.adopt(&mut self.store);
        answer
    }

    /// Indexes (into the last request's blocks) of the thinking blocks dropped in it.
    pub fn dropped_thinking(&self) -> &[u32] {
        &self.path.dropped
    }

    /// Indexes (into the last request's blocks) of the thinking blocks that failed the prefix check in it,
    /// whether they were dropped or let through.
    pub fn mismatched_thinking(&self) -> &[u32] {
        &self.path.failing
    }
}

/// Validates a request, puts it on the path and holds it against the window. A refusal leaves the path at
/// what it still shares with the request.
fn admit(
    scene: &Scene<'_>,
    request: &Request<'_>,
    path: &mut Path,
    records: &mut Records,
    store: &mut Store,
    scratch: &mut Scratch,
) -> Result<Option<(usize, Cause)>, Box<Rejection>> {
    let known = request.changed_from.min(path.nodes.len()).min(request.blocks.len());
    let appended = std::mem::take(&mut path.complete) && known == path.nodes.len();
    let valid = markers::effective(scene.spec, request, &mut scratch.markers)
        .and_then(|()| pairing::check(request.blocks, known, appended, &mut scratch.open_calls));
    if let Err(rejection) = valid {
        path.truncate(known, store, request.at_ms);
        return Err(Box::new(rejection));
    }
    let own_cut =
        path.sync(scene, request, records, store).map_err(|refused| Box::new(refusal(request, refused)))?;
    let prompt_tokens = path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
    let max_output_tokens = u64::from(request.max_output_tokens);
    let sizes = Sizes {
        input_tokens: prompt_tokens,
        output_tokens: max_output_tokens,
        limit_tokens: scene.model.window_tokens,
    };
    if scene.model.overflow.exceeds(&sizes) {
        let message = scene.model.overflow.text(&sizes);
        let numbers = overflow::parse(&message);
        let kind = RejectionKind::Overflow { input_tokens: numbers.used, limit_tokens: numbers.limit };
        return Err(Box::new(Rejection { kind, message, block: None, path: None }));
    }
    path.complete = true;
    Ok(own_cut)
}

// Inlined, so that what it makes stays in registers: copied through memory it stalls.
#[inline(always)]
fn done(path: &Path, behaviour: Behaviour, usage: Usage, miss: Miss, prompt_tokens: u64) -> Done {
    // What every bill rests on; a run holds the two partitions against each other in every build.
    debug_assert_eq!(usage.prompt_tokens(), prompt_tokens, "prompt = read + written + uncached");
    debug_assert_eq!(
        miss.new_tokens + miss.missed_tokens + usage.cache_read_tokens,
        prompt_tokens,
        "prompt - read = new + missed"
    );
    Done {
        usage,
        miss,
        dropped_thinking: path.dropped.len() as u32,
        left_out_blocks: 0,
        allowed_mismatches: if behaviour == Behaviour::Allow { path.failing.len() as u32 } else { 0 },
    }
}
