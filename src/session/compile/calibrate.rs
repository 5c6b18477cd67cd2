//! Tokens of every block, scaled to what the recording was billed for (docs/decisions.md 11).
//!
//! The walk keeps the prompt as a client without a strategy would send it and the provider would count
//! it: earlier thinking is stripped at a human turn where the model keeps only the current turn. At each
//! request with usage, the blocks that are new since the last one with usage are scaled, by largest remainder, to
//! what is missing to the recorded total. After an undone compaction or clearing the replayed prompt is
//! another than the recorded one: the step across it is sized by coefficients, and from there on the
//! recorded increments are met, no longer the totals, until a clear empties both prompts.
//!
//! Sizes to begin with are in `weights`; where the two prompts differ is in `undone`; prompts that shrink
//! are in `shrink`.

use std::collections::VecDeque;
use std::ops::Range;

use crate::session::{BlockKind, DropReason, Event, EventKind, Flags, Prefix};
use crate::tokens::{Coefficients, ThinkingRetention, Tokenizer, apportion, scale_ratio, thinking_retention};
use crate::transcript::Transcript;

use super::build::Draft;
use super::measure::clamp;
use super::shrink::too_small;
use super::undone::Undone;
use super::weights::{set_tails, weights};
use super::{CompileOptions, TokenMode, prefix};

/// What is in front of the calibrated blocks.
pub(super) struct Sized {
    pub prefix: Prefix,
    pub prefix_is_measured: bool,
}

/// Where a block is at the current point of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Not sent yet.
    New,
    /// In the prompt.
    Sent,
    /// Never in the replayed prompt, but in the recorded one and the `keep` view: a compaction put it there.
    Kept,
    /// Dropped or stripped.
    Gone,
}

/// The prompt as it grows.
pub(super) struct Walk<'d, 't> {
    pub(super) draft: &'d mut Draft<'t>,
    pub(super) scale: bool,
    /// Relative size of each block in milli-tokens: its estimate, or its share of the response's output.
    pub(super) weight: Vec<u64>,
    pub(super) place: Vec<Place>,
    /// Replayed prompt without prefix and tail.
    pub(super) prompt: i64,
    /// Tokens of the prefix, once a total was reported.
    hidden: Option<i64>,
    /// Tokenizer that counted them.
    hidden_by: Tokenizer,
    /// Recorded minus replayed prompt, since the first undone compaction or clearing.
    pub(super) offset: i64,
    pub(super) undone: Undone,
    /// Blocks of the requests without usage since the last one with it, sized by coefficients for now.
    estimated: Vec<u32>,
    /// First step whose blocks have no size yet, while a step is walked through.
    pub(super) unsized_from: usize,
    /// Since the last request with usage a compaction or clearing was undone, or a rewind brought back what
    /// a compaction took.
    pub(super) is_incomparable: bool,
    /// Since then the tokenizer changed.
    tokenizer_changed: bool,
    next_event: usize,
    /// Thinking that a human turn would strip.
    strippable: Vec<u32>,
    /// Thinking in the prompt, oldest first.
    pub(super) thinking: VecDeque<u32>,
    /// Injected text in the prompt, oldest first.
    pub(super) injected: VecDeque<u32>,
    /// First step whose round may still be in the prompt.
    pub(super) first_round: usize,
    pub(super) drops: Vec<Event>,
}

/// Sets the tokens of all blocks, the tails and the output tokens, and sizes the prefix.
pub(super) fn calibrate(
    draft: &mut Draft,
    transcript: &Transcript,
    coefficients: &Coefficients,
    tokenizer: Tokenizer,
    options: &CompileOptions,
) -> Sized {
    set_tails(&mut draft.steps, tokenizer);
    let weight = weights(draft, coefficients, options.tokens);
    let place = draft
        .blocks
        .flags
        .iter()
        .map(|flags| if flags.has(Flags::COMPACTION) { Place::Kept } else { Place::New })
        .collect();
    let mut walk = Walk {
        undone: Undone::new(draft.blocks.len()),
        draft,
        scale: options.tokens == TokenMode::Auto,
        weight,
        place,
        prompt: 0,
        hidden: None,
        hidden_by: tokenizer,
        offset: 0,
        estimated: Vec::new(),
        unsized_from: 0,
        is_incomparable: false,
        tokenizer_changed: false,
        next_event: 0,
        strippable: Vec::new(),
        thinking: VecDeque::new(),
        injected: VecDeque::new(),
        first_round: 0,
        drops: Vec::new(),
    };
    walk.estimate(Place::Kept);
    for k in 0..walk.draft.steps.len() {
        walk.step(k);
    }
    let hidden_tokens = walk.hidden.and_then(|h| u64::try_from(h).ok());
    walk.finish();
    Sized {
        prefix: prefix::prefix(transcript, &draft.steps, hidden_tokens, coefficients, options.hash_key),
        prefix_is_measured: hidden_tokens.is_some(),
    }
}

impl Walk<'_, '_> {
    fn step(&mut self, k: usize) {
        self.apply_events(k);
        if self.strips_thinking(k) {
            self.strip(k);
        }
        let mut new = self.new_blocks(k);
        let step = &self.draft.steps[k];
        let recorded = step.recorded.map(|u| signed(u.prompt_tokens()) - i64::from(step.tail_tokens));
        let Some(total) = recorded else {
            self.send_estimated(&new);
            self.estimated.append(&mut new);
            return;
        };
        let tokenizer_changed = std::mem::take(&mut self.tokenizer_changed);
        let is_comparable = !std::mem::take(&mut self.is_incomparable) && !tokenizer_changed && self.scale;
        let before = self.take_back_estimated(is_comparable && self.hidden.is_some());
        new.splice(..0, before);
        let estimate: u64 = new.iter().map(|i| self.weight[*i as usize]).sum::<u64>().div_ceil(1_000);
        match self.hidden {
            None => {
                self.send_estimated(&new);
                self.size_cleared(None);
                let held = self.held(k);
                let visible: i64 = held.iter().map(|i| self.tokens(*i)).sum();
                let hidden = (total - visible).max(0);
                if total < visible {
                    self.rescale(&held, total);
                }
                self.hidden = Some(hidden);
                self.hidden_by = self.tokenizer(k);
                self.offset = total - hidden - self.prompt;
                self.undone.just_compacted = None;
            }
            Some(hidden) if !is_comparable => {
                self.send_estimated(&new);
                let offset = total - hidden - self.prompt;
                let left = (!tokenizer_changed).then_some(offset - self.offset);
                self.size_cleared(left);
                self.offset = offset;
                self.size_compaction(k, total - hidden);
            }
            Some(hidden) => {
                let mut grown = total - hidden - self.offset - self.prompt;
                grown += self.shorten_tail(k, -grown);
                if too_small(grown, estimate, new.len()) {
                    grown = self.shrink(k, grown, estimate, new.len());
                }
                self.send_scaled(&new, u64::try_from(grown).unwrap_or(0));
            }
        }
        self.unsized_from = k + 1;
    }

    /// Takes the blocks of requests without usage out of the prompt again, if a total says now how large they are
    /// together with the next ones: those that are still there.
    fn take_back_estimated(&mut self, has_total: bool) -> Vec<u32> {
        let mut blocks = std::mem::take(&mut self.estimated);
        blocks.retain(|i| has_total && self.place[*i as usize] == Place::Sent);
        for &i in &blocks {
            self.prompt -= self.tokens(i);
            self.place[i as usize] = Place::New;
        }
        blocks
    }

    /// A longer tail than the last request's must not look like history that left: where it explains all
    /// the `missing` tokens, it gives them up.
    fn shorten_tail(&mut self, k: usize, missing: i64) -> i64 {
        let tail = &mut self.draft.steps[k].tail_tokens;
        let given = u32::try_from(missing).ok().filter(|missing| missing <= tail).unwrap_or(0);
        *tail -= given;
        i64::from(given)
    }

    /// Applies drops before step `k` and notes what makes its total incomparable with the one before: a
    /// compaction or clearing that is undone, or another tokenizer.
    fn apply_events(&mut self, k: usize) {
        while let Some(event) = self.draft.events.get(self.next_event) {
            if event.before_step as usize > k {
                break;
            }
            self.next_event += 1;
            match &event.kind {
                EventKind::BlocksDropped { from, to, reason } => {
                    let (range, reason) = (*from..*to, *reason);
                    if reason == DropReason::Rewind {
                        self.rewind_compactions(range.start);
                    }
                    range.for_each(|i| self.remove(i));
                    if reason == DropReason::Clear {
                        self.start_anew(k);
                    }
                }
                // Else no request saw it: a clear or a rewind took it back.
                EventKind::RecordedCompaction { .. } if self.draft.raw_steps[k].compacted_before => {
                    self.undo_compaction(k);
                }
                EventKind::RecordedClearing { blocks, .. } => {
                    let blocks = blocks.clone();
                    self.undo_clearing(&blocks);
                }
                EventKind::ModelChanged { model } => {
                    let before = k.checked_sub(1).map_or("", |j| self.draft.raw_steps[j].model);
                    self.tokenizer_changed |= Tokenizer::of_model(model) != Tokenizer::of_model(before);
                }
                _ => {}
            }
        }
        // A clear before this step took the mark of what was undone before it.
        self.is_incomparable |= self.draft.raw_steps[k].compacted_before;
    }

    /// Both prompts are empty before step `k`: only another tokenizer's count of the prefix can make them differ.
    fn start_anew(&mut self, k: usize) {
        self.offset = 0;
        self.is_incomparable = false;
        self.tokenizer_changed |= self.tokenizer(k) != self.hidden_by;
        self.undone.forget();
    }

    /// A request before the first that names its model is counted as all others are.
    fn tokenizer(&self, k: usize) -> Tokenizer {
        match self.draft.raw_steps[k].model {
            "" => self.hidden_by,
            model => Tokenizer::of_model(model),
        }
    }

    pub(super) fn tokens(&self, i: u32) -> i64 {
        i64::from(self.draft.blocks.tokens[i as usize])
    }

    /// Takes a block out of the prompt.
    pub(super) fn remove(&mut self, i: u32) {
        match self.place[i as usize] {
            Place::New => self.set_estimate(i),
            Place::Sent => {
                self.prompt -= self.tokens(i);
                self.offset += self.tokens(i) - self.held_tokens(i);
            }
            Place::Kept | Place::Gone => {}
        }
        self.place[i as usize] = Place::Gone;
    }

    /// Sizes what is at `place` by itself.
    fn estimate(&mut self, place: Place) {
        for i in 0..clamp(self.place.len() as u64) {
            if self.place[i as usize] == place {
                self.set_estimate(i);
            }
        }
    }

    fn set_estimate(&mut self, i: u32) {
        self.draft.blocks.tokens[i as usize] = clamp((self.weight[i as usize] + 500) / 1_000);
    }

    /// Where the model keeps thinking of the current turn only, user content other than results ends
    /// the turn (docs/sources.md A8).
    fn strips_thinking(&self, k: usize) -> bool {
        thinking_retention(self.draft.raw_steps[k].model) == ThinkingRetention::CurrentTurn
            && range(&self.draft.steps[k].input).any(|i| {
                let kind = self.draft.blocks.kind[i];
                matches!(kind, BlockKind::UserText | BlockKind::Image) && self.place[i] == Place::New
            })
    }

    /// Strips all thinking before step `k`'s input.
    fn strip(&mut self, k: usize) {
        for i in std::mem::take(&mut self.strippable) {
            if self.place[i as usize] == Place::Sent {
                self.remove(i);
            }
        }
        if let Some(before) = k.checked_sub(1) {
            for i in self.draft.steps[before].output.clone() {
                if self.draft.blocks.kind[i as usize] == BlockKind::Thinking {
                    self.remove(i);
                }
            }
        }
    }

    /// Blocks that request `k` adds: the previous response and its own input.
    fn new_blocks(&self, k: usize) -> Vec<u32> {
        let output = k.checked_sub(1).map_or(0..0, |before| self.draft.steps[before].output.clone());
        let input = self.draft.steps[k].input.clone();
        output.chain(input).filter(|i| self.place[*i as usize] == Place::New).collect()
    }

    fn send_estimated(&mut self, new: &[u32]) {
        for &i in new {
            self.set_estimate(i);
            self.send(i);
        }
    }

    fn send_scaled(&mut self, new: &[u32], total: u64) {
        let weights: Vec<u64> = new.iter().map(|i| self.weight[*i as usize]).collect();
        for (&i, tokens) in new.iter().zip(apportion(total, &weights)) {
            self.draft.blocks.tokens[i as usize] = clamp(tokens);
            self.send(i);
        }
    }

    fn send(&mut self, i: u32) {
        self.prompt += self.tokens(i);
        let index = i as usize;
        self.place[index] = Place::Sent;
        match self.draft.blocks.kind[index] {
            BlockKind::Thinking => {
                self.thinking.push_back(i);
                self.strippable.push(i);
            }
            BlockKind::UserText if self.draft.blocks.flags[index].has(Flags::INJECTED) => {
                self.injected.push_back(i);
            }
            _ => {}
        }
    }

    /// Sizes what was never in a recorded prompt, output tokens and images, and files the drops.
    fn finish(mut self) {
        self.estimate(Place::New);
        let draft = self.draft;
        for (step, raw) in draft.steps.iter_mut().zip(&draft.raw_steps) {
            let generated = range(&step.output).map(|i| u64::from(draft.blocks.tokens[i])).sum();
            let recorded = step.recorded.filter(|u| raw.output_is_final && u.output_tokens > 0);
            step.output_tokens = clamp(recorded.map_or(generated, |u| u.output_tokens));
        }
        for row in &mut draft.result_parts {
            let tokens = u64::from(draft.blocks.tokens[row.block as usize]);
            let weight = self.weight[row.block as usize];
            let scaled = scale_ratio(u64::from(row.image_tokens) * 1_000, tokens, weight);
            row.image_tokens = clamp(scaled.min(tokens));
        }
        draft.events.append(&mut self.drops);
        draft.events.sort_by_key(|event| event.before_step);
    }
}

pub(super) fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

fn range(blocks: &Range<u32>) -> Range<usize> {
    blocks.start as usize..blocks.end as usize
}
