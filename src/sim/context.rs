//! The client's history during a run, and the blocks it would send: the only thing that changes.
//!
//! Its `apply_*` methods and `fold` carry out plans after checking them; everything else only reveals what the
//! recording says comes next. The blocks as sent are kept beside the index up to which they equal the
//! last request's, so a request costs what is new or changed, not what is there.

use std::ops::Range;

use super::leave::Fold;
use super::wire::{Wire, is_replayable};
use crate::cause::Cause;
use crate::policy::live::{Changed, Live, Work};
use crate::policy::plan::{Offload, StubPlan, StubTokens};
pub use crate::policy::sent::Stub;
use crate::policy::view::{NameSize, State, Stored, View};
use crate::session::{BlockKind, Prefix, Session};
use crate::tokens::{scale_milli, scale_ratio};

/// UTF-16 units of what a recording agent leaves of a result it cleared.
const CLEARED_TEXT_UTF16: u64 = 33;

/// Buffers of a context, to be used again by the next.
#[derive(Debug, Default)]
pub struct Memory {
    states: Vec<State>,
    stored: Vec<Stored>,
    live: Live,
    results: Vec<u32>,
    user_messages: Vec<u32>,
    answered: Vec<u32>,
    changed: Changed,
    usage_totals: Vec<u64>,
    usage_digits: Vec<u8>,
    tool_names: Vec<NameSize>,
    stubs: Vec<Stub>,
    folds: Vec<Fold>,
    wire: Wire,
}

/// The client's history.
#[derive(Debug)]
pub struct Context<'s> {
    pub(super) view: View<'s>,
    pub(super) folds: Vec<Fold>,
    /// Block in front of which the summary is sent; up to the first live one: at the head.
    pub(super) summary_at: u32,
    /// A rule has changed what is sent of calls or of thinking.
    pub(super) answers_edited: bool,
    pub(super) prefix: Prefix,
    pub(super) wire: Wire,
}

/// A plan that breaks a rule of its own or of the wire; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenPlan(pub &'static str);

/// A buffer without its content.
fn emptied<T>(mut buffer: Vec<T>) -> Vec<T> {
    buffer.clear();
    buffer
}

fn filled<T: Clone>(buffer: Vec<T>, len: usize, value: T) -> Vec<T> {
    let mut buffer = emptied(buffer);
    buffer.resize(len, value);
    buffer
}

impl<'s> Context<'s> {
    /// An empty history behind the session's prefix.
    pub fn new(session: &'s Session, model_id_utf16: u64, memory: Memory) -> Context<'s> {
        let Memory {
            states,
            stored,
            mut live,
            results,
            user_messages,
            answered,
            mut changed,
            usage_totals,
            usage_digits,
            tool_names,
            stubs,
            folds,
            wire,
        } = memory;
        live.clear();
        changed.left.clear();
        changed.edited.clear();
        let view = View {
            session,
            states: emptied(states),
            stored: emptied(stored),
            revealed: 0,
            live_from: 0,
            summary: None,
            last_summary: None,
            has_texts_for_pairs: false,
            live,
            results: emptied(results),
            user_messages: emptied(user_messages),
            answered: emptied(answered),
            usage_totals: filled(usage_totals, session.steps.len(), 0),
            usage_digits: filled(usage_digits, session.steps.len(), 4),
            stubs: emptied(stubs),
            tool_results_utf16: 0,
            raw_tokens: session.prefix.tokens(),
            changed,
            edited_at: 0,
            model_id_utf16,
            tool_names: emptied(tool_names),
            work: Work::default(),
        };
        let mut context = Context {
            view,
            folds: emptied(folds),
            summary_at: 0,
            answers_edited: false,
            prefix: session.prefix.clone(),
            wire,
        };
        context.view.tool_names.extend(session.tools.iter().map(|t| NameSize::of(&t.name)));
        context.wire.clear();
        context.rebuild_head();
        context
    }

    /// The buffers, for another context.
    pub fn into_memory(self) -> Memory {
        let View {
            states,
            stored,
            live,
            results,
            user_messages,
            answered,
            changed,
            usage_totals,
            usage_digits,
            tool_names,
            stubs,
            ..
        } = self.view;
        Memory {
            states,
            stored,
            live,
            results,
            user_messages,
            answered,
            changed,
            usage_totals,
            usage_digits,
            tool_names,
            stubs,
            folds: self.folds,
            wire: self.wire,
        }
    }

    /// What a policy may see.
    pub fn view(&self) -> &View<'s> {
        &self.view
    }

    /// The blocks as sent.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The request with the present blocks was answered: from here on they count as sent.
    pub fn mark_sent(&mut self) {
        self.wire.mark_sent();
    }

    /// Puts the next blocks of the recording in the history, without sending them yet.
    pub fn reveal(&mut self, range: Range<u32>) {
        debug_assert_eq!(range.start, self.view.revealed);
        let session = self.view.session;
        let columns = range.start as usize..range.end as usize;
        self.view.revealed = range.end;
        self.view.states.resize(columns.end, State::default());
        self.view.live.push(range.clone());
        let tokens: u64 = session.blocks.tokens[columns.clone()].iter().map(|t| u64::from(*t)).sum();
        self.view.raw_tokens += tokens;
        for (at, kind) in session.blocks.kind[columns].iter().enumerate() {
            if kind.is_assistant() {
                continue;
            }
            let block = range.start + at as u32;
            if *kind == BlockKind::ToolResult {
                let images = self.view.images_utf16(block);
                self.view.tool_results_utf16 += u64::from(session.blocks.utf16[block as usize]) + images;
                self.view.results.push(block);
            } else if self.begins_message(block) {
                self.view.user_messages.push(block);
            }
        }
    }

    pub(super) fn begins_message(&self, block: u32) -> bool {
        let messages = &self.view.session.blocks.message;
        let i = block as usize;
        i == 0 || messages[i] != messages[i - 1]
    }

    /// Step `step` was answered: its usage is what the client knows from now on.
    pub fn answered(&mut self, step: u32, usage_total: u64, usage_digits: u8) {
        self.view.answered.push(step);
        self.view.usage_totals[step as usize] = usage_total;
        self.view.usage_digits[step as usize] = usage_digits;
    }

    /// Carries out an offload of a result that is revealed but not sent.
    ///
    /// # Errors
    /// The block is no result, or was offloaded already.
    pub fn apply_offload(&mut self, plan: &Offload) -> Result<Stored, BrokenPlan> {
        let i = plan.block as usize;
        let blocks = &self.view.session.blocks;
        let state = self.view.states.get(i).copied().ok_or(BrokenPlan("the block is not in the history"))?;
        let was_sent = self.wire.holds(plan.block);
        if blocks.kind[i] != BlockKind::ToolResult || state != State::default() || was_sent {
            return Err(BrokenPlan("only a tool result that just came back can be offloaded"));
        }
        let stored = self.stored_sizes(plan);
        self.restore_stored(stored);
        Ok(stored)
    }

    /// A result that the session file holds as offloaded.
    pub fn restore_stored(&mut self, stored: Stored) {
        let i = stored.block as usize;
        self.view.raw_tokens =
            self.view.raw_tokens + u64::from(stored.tokens) - u64::from(self.view.session.blocks.tokens[i]);
        self.view.tool_results_utf16 = self.view.tool_results_utf16 + u64::from(stored.utf16)
            - u64::from(self.view.session.blocks.utf16[i]);
        self.view.states[i] = State::OFFLOADED;
        self.view.stored.push(stored);
    }

    fn stored_sizes(&self, plan: &Offload) -> Stored {
        let i = plan.block as usize;
        let blocks = &self.view.session.blocks;
        let chars = u64::from(blocks.utf16[i]);
        let image_tokens = self.view.session.parts_of(plan.block).map_or(0, |p| u64::from(p.image_tokens));
        let text_tokens = u64::from(blocks.tokens[i]).saturating_sub(image_tokens);
        let part = |whole: u64| scale_ratio(whole, plan.kept_utf16, chars);
        let envelope_tokens =
            scale_milli(plan.envelope_utf16, u64::from(self.view.session.coefficients.tool_result_milli));
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Stored {
            block: plan.block,
            utf16: narrow(plan.stub_utf16()),
            bytes: narrow(plan.envelope_utf16 + part(u64::from(blocks.bytes[i]))),
            json_utf16: narrow(
                plan.envelope_utf16 + plan.envelope_json_escapes + part(u64::from(blocks.json_utf16[i])),
            ),
            lines: narrow(1 + part(u64::from(blocks.lines[i]))),
            tokens: narrow(envelope_tokens + part(text_tokens) + image_tokens),
            path_utf16: narrow(plan.path_utf16),
            ascii: narrow(plan.envelope_utf16 + part(u64::from(blocks.ascii[i]))),
            is_text: false,
        }
    }

    /// Tokens of a block as the client sends it: a stub of its own counts, a provider's does not.
    pub(super) fn client_tokens(&self, block: u32) -> u64 {
        let i = block as usize;
        let state = self.view.states[i];
        if state == State::default() {
            return u64::from(self.view.session.blocks.tokens[i]);
        }
        if state.has(State::HIDDEN) {
            return 0;
        }
        if state.has(State::ELIDED) {
            let stub = self.view.stubs.binary_search_by_key(&block, |s| s.block);
            if let Some(stub) = stub.ok().map(|at| self.view.stubs[at]).filter(|s| !s.server) {
                return u64::from(stub.tokens);
            }
        }
        let stored_tokens = self.view.stored_of(block).map(|s| s.tokens);
        u64::from(stored_tokens.unwrap_or(self.view.session.blocks.tokens[i]))
    }

    /// Puts stubs in the place of results.
    pub(super) fn elide(&mut self, stubs: &[Stub]) {
        for stub in stubs {
            self.mark_elided(stub);
        }
        let first_new = self.view.stubs.len();
        self.view.stubs.extend(stubs);
        self.sort_stubs(first_new);
    }

    /// A stub is about to stand for a result.
    fn mark_elided(&mut self, stub: &Stub) {
        if !stub.server {
            let before = self.client_tokens(stub.block);
            self.view.raw_tokens = self.view.raw_tokens + u64::from(stub.tokens) - before;
        }
        self.set_state(stub.block, State::ELIDED);
        if stub.recorded {
            self.set_state(stub.block, State::CLEARED);
        }
        self.note_stub(stub);
    }

    /// Stubs come in ascending order; only those of another rule may fall between.
    fn sort_stubs(&mut self, first_new: usize) {
        let (old, new) = self.view.stubs.split_at(first_new);
        let in_order = old.last().zip(new.first()).is_none_or(|(last, first)| last.block < first.block);
        if !in_order {
            self.view.stubs.sort_unstable_by_key(|s| s.block);
        }
    }

    /// Replaces results by stubs; gives the number of thinking blocks that are no longer replayed.
    ///
    /// # Errors
    /// A block that is no live result, or has a stub already.
    pub fn apply_stubs(&mut self, plan: &StubPlan) -> Result<u64, BrokenPlan> {
        let view = &self.view;
        let fits = |block: u32| {
            block < self.view.revealed
                && view.is_live(block)
                && match self.view.session.blocks.kind[block as usize] {
                    BlockKind::ToolResult | BlockKind::ToolUse => true,
                    // A client sends thinking whole or not at all.
                    BlockKind::Thinking => plan.server,
                    BlockKind::UserText | BlockKind::Image | BlockKind::AssistantText => false,
                }
                && !view.states[block as usize].has(State::ELIDED)
        };
        let ascending = plan.stubs.is_sorted_by(|a, b| a.0 < b.0);
        if !ascending || !plan.stubs.iter().all(|(block, _)| fits(*block)) {
            return Err(BrokenPlan("a stub can only stand for an item that is in the history in full"));
        }
        let first_new = self.view.stubs.len();
        let mut stubs = std::mem::take(&mut self.view.stubs);
        stubs.extend(self.stubs_of(plan));
        for stub in &stubs[first_new..] {
            self.mark_elided(stub);
        }
        self.view.stubs = stubs;
        self.sort_stubs(first_new);
        let withheld = plan.withhold.clone().map_or(0, |range| self.withhold(range).0);
        let first = match plan.stubs.first() {
            Some((_, StubTokens::Nothing)) => {
                let stubs: Vec<Stub> = self.stubs_of(plan).collect();
                self.first_touched(&stubs, plan.withhold.as_ref())
            }
            first => {
                let blocks = first.map(|(b, _)| *b).into_iter();
                blocks.chain(plan.withhold.clone().map(|r| r.start)).min().unwrap_or(self.view.revealed)
            }
        };
        self.resend_from(first, Cause::PrefixRule);
        Ok(withheld)
    }

    /// The stubs of a plan as they stand in requests.
    pub fn stubs_of<'a>(&self, plan: &'a StubPlan) -> impl Iterator<Item = Stub> + use<'a> {
        let coefficients = &self.view.session.coefficients;
        // A rule is about results or about calls.
        let first = plan.stubs.first().map(|(block, _)| self.view.session.blocks.kind[*block as usize]);
        let is_call = first == Some(BlockKind::ToolUse);
        let milli = if is_call { coefficients.tool_use_milli } else { coefficients.tool_result_milli };
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        plan.stubs.iter().map(move |(block, size)| {
            let (tokens, utf16) = match size {
                StubTokens::Utf16(n) => (scale_milli(*n, u64::from(milli)), *n),
                StubTokens::Tokens(n) => (*n, 0),
                StubTokens::Sized { tokens, utf16 } => (*tokens, *utf16),
                StubTokens::Nothing => (0, 0),
            };
            Stub {
                block: *block,
                tokens: narrow(tokens),
                utf16: narrow(utf16),
                server: plan.server,
                hidden: *size == StubTokens::Nothing,
                recorded: false,
            }
        })
    }

    /// Sends results in full again.
    ///
    /// # Errors
    /// A block that no stub stands for.
    pub fn apply_restore(&mut self, blocks: &[u32]) -> Result<(), BrokenPlan> {
        let elided = |b: &u32| self.view.states.get(*b as usize).is_some_and(|s| s.has(State::ELIDED));
        if !blocks.iter().all(elided) || !blocks.is_sorted_by(|a, b| a < b) {
            return Err(BrokenPlan("only results that a stub stands for can be sent in full again"));
        }
        let mut comes_back = false;
        for block in blocks {
            let before = self.client_tokens(*block);
            let was_hidden = self.view.states[*block as usize].has(State::HIDDEN);
            self.view.states[*block as usize].0 &= !(State::ELIDED.0 | State::HIDDEN.0);
            self.view.raw_tokens = self.view.raw_tokens + self.client_tokens(*block) - before;
            if was_hidden {
                self.show_call_of(*block);
                comes_back = true;
            }
        }
        self.view.stubs.retain(|s| blocks.binary_search(&s.block).is_err());
        if comes_back {
            self.wire.note_change(Cause::PrefixRule);
            self.rebuild_head();
        } else if let Some(first) = blocks.first() {
            self.resend_from(*first, Cause::PrefixRule);
        }
        Ok(())
    }

    pub(super) fn set_state(&mut self, block: u32, bit: State) {
        self.view.states[block as usize].0 |= bit.0;
    }

    /// Marks the thinking in `range` as withheld: how many blocks, and the first of them.
    pub(super) fn withhold(&mut self, range: Range<u32>) -> (u64, Option<u32>) {
        let mut count = 0;
        let mut first = None;
        let view = &mut self.view;
        let blocks = &view.session.blocks;
        for run in view.live.runs_in(range) {
            view.work.add(run.len());
            let kinds = &blocks.kind[run.start as usize..run.end as usize];
            for (block, _) in run.zip(kinds).filter(|(_, kind)| **kind == BlockKind::Thinking) {
                let i = block as usize;
                if is_replayable(blocks.flags[i]) && !view.states[i].has(State::WITHHELD) {
                    view.states[i].0 |= State::WITHHELD.0;
                    view.raw_tokens -= u64::from(blocks.tokens[i]);
                    count += 1;
                    first = first.or(Some(block));
                }
            }
        }
        (count, first)
    }

    /// Stops replaying all thinking now in the history.
    pub fn withhold_all(&mut self, cause: Cause) -> u64 {
        let (count, first) = self.withhold(0..self.view.revealed);
        if let Some(first) = first {
            self.resend_from(first, cause);
        }
        count
    }

    /// Something outside the blocks changed what the cache of messages depends on.
    pub(super) fn note_change(&mut self, cause: Cause) {
        self.wire.note_change(cause);
    }

    /// The recording agent cleared these results in place.
    pub(super) fn apply_recorded_clearing(&mut self, blocks: &[u32]) -> Vec<Stub> {
        let milli = u64::from(self.view.session.coefficients.tool_result_milli);
        let tokens = u32::try_from(scale_milli(CLEARED_TEXT_UTF16, milli)).unwrap_or(u32::MAX);
        let mut elided = Vec::new();
        let revealed = self.view.revealed;
        for block in blocks.iter().copied().filter(|b| *b < revealed) {
            let state = self.view.states[block as usize];
            // Where a text stands for a call and its result, there is no result to clear.
            if !state.has(State::ELIDED) && !state.has_left() && !self.view.is_text_for_pair(block) {
                elided.push(Stub { block, tokens, utf16: 0, server: false, hidden: false, recorded: true });
            }
        }
        self.elide(&elided);
        if let Some(first) = elided.iter().map(|s| s.block).min() {
            self.resend_from(first, Cause::PrefixRule);
        }
        elided
    }

    /// Tools or system prompt become others.
    pub fn change_prefix(&mut self, prefix: Prefix, cause: Cause) {
        self.view.raw_tokens = self.view.raw_tokens + prefix.tokens() - self.prefix.tokens();
        self.prefix = prefix;
        self.wire.note_change(cause);
        self.rebuild_head();
    }
}
