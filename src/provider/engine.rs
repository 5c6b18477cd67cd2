//! The engine behind [`Provider`]: explicit breakpoints, binding, window.
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

use super::attribution::Attribution;
use super::binding::{Behaviour, Place, Records, rejection_text};
use super::cache::{Entry, Store};
use super::model::{CacheSpec, ImageToggle, ParametersLevel, Refresh};
use super::pairing::{self, invalid, wire_path};
use super::path::{Cached, Path, Refused, Scene};
use super::{
    Account, Answer, Done, Marker, Miss, ModelSpec, NO_LINK, Params, Rejection, RejectionKind, Request,
    SentBlock, Ttl,
};
use super::{markers, overflow};
use crate::usage::Usage;

/// Stands for the cache of a model whose cache is not simulated: it holds nothing.
const NO_CACHE: CacheSpec = CacheSpec {
    minimum_tokens: u64::MAX,
    lookback_positions: 1,
    max_markers: 4,
    short_ttl_ms: 1,
    long_ttl_ms: 1,
    refresh: Refresh::MatchedOnly,
    image_toggle_invalidates: ImageToggle::Never,
    parameters_invalidate: ParametersLevel::Messages,
    ttft_ms: 0,
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
        self.store.clear();
        self.records.clear();
        self.attribution = Attribution::default();
        self.served = None;
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
        let scene = scene(self.model, spec, Behaviour::Skip, &self.producers, None);
        self.path.spill(&mut self.store, at_ms);
        self.aside.clear();
        let evaluated = self.aside.sync(&scene, &request, &mut self.records, &mut self.store).is_ok();
        self.aside.spill(&mut self.store, at_ms);
        if let Some(last) = self.aside.nodes.last().filter(|n| evaluated && n.tokens >= spec.minimum_tokens) {
            self.store.put(last.chain, new_entry(spec, ttl, at_ms, 0), at_ms);
        }
        self.path.adopt(&mut self.store);
    }

    /// Serves or refuses a request.
    pub fn send(&mut self, request: &Request<'_>) -> Answer {
        let spec = self.model.cache.as_ref().unwrap_or(&NO_CACHE);
        let behaviour = Behaviour::of(self.model, self.account, &request.params);
        let scene = scene(self.model, spec, behaviour, &self.producers, Some(self.producer));
        self.store.sweep(request.at_ms);
        self.attribution.edited(request, self.path.nodes.len());
        let admitted =
            admit(&scene, request, &mut self.path, &mut self.records, &mut self.store, &mut self.scratch);
        let own_cut = match admitted {
            Ok(own_cut) => own_cut,
            Err(rejection) => {
                self.path.unlearn(&mut self.records, &mut self.store, request.at_ms);
                return Answer::Rejected(rejection);
            }
        };
        self.attribution.cut(own_cut);
        self.path.learn();
        let markers = &self.scratch.markers;
        let hit = find_hit(&self.path, spec, markers, request.at_ms);
        let read_tokens = hit.map_or(0, |at| self.path.nodes[self.path.cached[at].index as usize].tokens);
        let prompt_tokens = self.path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
        let miss = self.attribution.split(
            spec,
            request,
            &self.path,
            &self.store,
            markers,
            read_tokens,
            prompt_tokens,
        );
        let usage = serve(spec, request, &mut self.path, markers, hit);
        self.attribution.served(spec, &self.path, markers, prompt_tokens - u64::from(request.tail_tokens));
        self.served = self.path.nodes.last().map(|node| Place {
            prefix: self.path.prefix,
            messages: node.bound,
            predecessor: node.accepted,
        });
        Answer::Done(done(&self.path, behaviour, usage, miss, prompt_tokens))
    }

    /// The response to the request just served holds these thinking blocks ([`super::SentBlock::link`]):
    /// they are bound to that request as evaluated.
    pub fn answered(&mut self, thinking: &[u32]) {
        let Some(mut place) = self.served else { return };
        for &id in thinking.iter().filter(|&&id| id != NO_LINK) {
            self.records.announce(id, place, self.producer);
            place.predecessor = id;
        }
    }

    /// Thinking that `is_stale` names is bound anew where it appears next. For a history that a recording
    /// changed without saying how: what stays in it cannot be held against the unknown change.
    pub fn forget_bindings(&mut self, is_stale: impl Fn(u32) -> bool) {
        self.records.forget(is_stale);
    }

    /// A request of another conversation of the same organisation (a summarizer call): served from
    /// and written to the same cache, but this conversation's state does not move. Its blocks are always
    /// taken as a whole (`changed_from` is not used), and thinking in it is checked but nothing is bound.
    pub fn send_aside(&mut self, model: &ModelSpec, request: &Request<'_>) -> Answer {
        let spec = model.cache.as_ref().unwrap_or(&NO_CACHE);
        let behaviour = Behaviour::of(model, self.account, &request.params);
        let scene = scene(model, spec, behaviour, &self.producers, None);
        let whole = Request { changed_from: 0, ..*request };
        self.store.sweep(request.at_ms);
        self.path.spill(&mut self.store, request.at_ms);
        self.aside.clear();
        let admitted =
            admit(&scene, &whole, &mut self.aside, &mut self.records, &mut self.store, &mut self.scratch);
        let answer = match admitted {
            Ok(_) => {
                let path = &mut self.aside;
                let hit = find_hit(path, spec, &self.scratch.markers, request.at_ms);
                let usage = serve(spec, request, path, &self.scratch.markers, hit);
                let miss =
                    Miss { new_tokens: usage.prompt_tokens() - usage.cache_read_tokens, ..Miss::default() };
                let prompt_tokens =
                    path.nodes.last().map_or(0, |n| n.tokens) + u64::from(request.tail_tokens);
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

fn scene<'a>(
    model: &'a ModelSpec,
    spec: &'a CacheSpec,
    behaviour: Behaviour,
    producers: &'a [&'a ModelSpec],
    producer: Option<u32>,
) -> Scene<'a> {
    Scene { model, spec, behaviour, producers, producer }
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
) -> Result<Option<(usize, crate::cause::Cause)>, Box<Rejection>> {
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
    if overflow::exceeds(scene.model, prompt_tokens, max_output_tokens) {
        let message =
            overflow::render(scene.model, prompt_tokens, max_output_tokens, scene.model.window_tokens);
        let numbers = overflow::parse(&message);
        let kind = RejectionKind::Overflow { input_tokens: numbers.used, limit_tokens: numbers.limit };
        return Err(Box::new(Rejection { kind, message, block: None, path: None }));
    }
    path.complete = true;
    Ok(own_cut)
}

fn refusal(request: &Request<'_>, refused: Refused) -> Rejection {
    let blocks = request.blocks;
    match refused {
        Refused::Binding { index, changed, explanation } => {
            let path = wire_path(blocks, index);
            Rejection {
                kind: RejectionKind::Binding { changed },
                message: rejection_text(&path, &explanation, request.params.binding_beta),
                block: Some(index as u32),
                path: Some(path),
            }
        }
        Refused::Altered { index } => {
            let path = wire_path(blocks, index);
            let later = |b: &SentBlock| b.kind.is_assistant() && b.message != blocks[index].message;
            let latest = !blocks[index..].iter().any(later);
            let message = if latest {
                format!(
                    "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
                     modified. These blocks must remain as they were in the original response."
                )
            } else {
                format!("{path}: Invalid `signature` in `thinking` block")
            };
            invalid(blocks, Some(index), message)
        }
    }
}

/// The entry a request reads: for each breakpoint, last first, the nearest that can be read among the
/// positions looked at.
fn find_hit(path: &Path, spec: &CacheSpec, markers: &[Marker], at_ms: i64) -> Option<usize> {
    let mut top = path.cached.len();
    for marker in markers.iter().rev() {
        if path.cached[..top].last().is_some_and(|c| c.index > marker.after) {
            top = path.cached[..top].partition_point(|c| c.index <= marker.after);
        }
        let position = path.nodes[marker.after as usize].position;
        let in_view =
            path.cached[..top].iter().rev().take_while(|c| c.position + spec.lookback_positions > position);
        if let Some(back) = in_view.map(|c| c.entry.hits(at_ms)).position(|hits| hits) {
            return Some(top - 1 - back);
        }
    }
    None
}

fn ttl_ms(spec: &CacheSpec, ttl: Ttl) -> i64 {
    match ttl {
        Ttl::Short => spec.short_ttl_ms,
        Ttl::Long => spec.long_ttl_ms,
    }
}

fn new_entry(spec: &CacheSpec, ttl: Ttl, at_ms: i64, ttft_ms: u32) -> Entry {
    Entry { ttl, expires_ms: at_ms + ttl_ms(spec, ttl), readable_from_ms: at_ms + i64::from(ttft_ms) }
}

/// Refreshes what was read, writes behind it, and bills (docs/sources.md A5).
fn serve(
    spec: &CacheSpec,
    request: &Request<'_>,
    path: &mut Path,
    markers: &[Marker],
    hit: Option<usize>,
) -> Usage {
    let at_ms = request.at_ms;
    let hit_index = hit.map(|at| path.cached[at].index);
    if let Some(at) = hit {
        let entry = &mut path.cached[at].entry;
        entry.expires_ms = at_ms + ttl_ms(spec, entry.ttl);
    }
    let total_tokens = path.nodes.last().map_or(0, |n| n.tokens);
    let read_tokens = hit_index.map_or(0, |i| path.nodes[i as usize].tokens);
    let (mut long_to, mut written_to) = (read_tokens, read_tokens);
    // Markers on tools and system have the first entries.
    for (nth, marker) in markers.iter().enumerate() {
        match hit_index {
            Some(hit) if marker.after == hit => {}
            Some(hit) if marker.after < hit => {
                if spec.refresh == Refresh::MatchedAndMarkedBefore
                    && let Some(entry) = path.entry_at(marker.after, nth)
                    && entry.hits(at_ms)
                {
                    entry.expires_ms = at_ms + ttl_ms(spec, entry.ttl);
                }
            }
            _ => {
                let tokens = path.nodes[marker.after as usize].tokens;
                if tokens < spec.minimum_tokens {
                    continue;
                }
                write(path, marker.after, new_entry(spec, marker.ttl, at_ms, request.ttft_ms), at_ms);
                written_to = tokens;
                if marker.ttl == Ttl::Long {
                    long_to = tokens;
                }
            }
        }
    }
    Usage {
        cache_read_tokens: read_tokens,
        cache_write_1h_tokens: long_to - read_tokens,
        cache_write_5m_tokens: written_to - long_to,
        uncached_tokens: total_tokens - written_to + u64::from(request.tail_tokens),
        output_tokens: 0,
    }
}

fn write(path: &mut Path, index: u32, entry: Entry, at_ms: i64) {
    let cached = Cached { index, position: path.nodes[index as usize].position, entry };
    if path.cached.last().is_none_or(|last| last.index < index) {
        path.cached.push(cached);
        return;
    }
    match path.cached.binary_search_by_key(&index, |c| c.index) {
        Ok(at) => path.cached[at].entry.rewrite(entry, at_ms),
        Err(at) => path.cached.insert(at, cached),
    }
}

fn done(path: &Path, behaviour: Behaviour, usage: Usage, miss: Miss, prompt_tokens: u64) -> Done {
    assert_eq!(usage.prompt_tokens(), prompt_tokens, "prompt = read + written + uncached");
    assert_eq!(
        miss.new_tokens + miss.missed_tokens + usage.cache_read_tokens,
        prompt_tokens,
        "prompt - read = new + missed"
    );
    Done {
        usage,
        miss,
        dropped_thinking: path.dropped.len() as u32,
        allowed_mismatches: if behaviour == Behaviour::Allow { path.failing.len() as u32 } else { 0 },
    }
}
