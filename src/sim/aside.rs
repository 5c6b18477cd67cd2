//! The summarizer call: a request like any other, billed as the cost class of its own.
//!
//! # Divergence from the real API
//!
//! A summary's length is a law (docs/decisions.md 15), and the rendered transcript is sized from the
//! tokens of the blocks it quotes. A provider's own instructions have no size, since none is published.

use std::borrow::Cow;

use super::context::Context;
use super::wire::Content;
use crate::policy::Strategy;
use crate::policy::fold::{NativeForm, SplitTurn, Summarizer};
use crate::policy::laws::TranscriptLaw;
use crate::policy::plan::SummarizePlan;
use crate::policy::reads::{Reads, summarizer_reads};
use crate::policy::strategy::{MarkerPlace, SummaryInput};
use crate::policy::summarize;
use crate::policy::view::{Stored, SummaryMessage, View};
use crate::provider::{
    Answer, Marker, ModelSpec, NO_LINK, Provider, Rejection, Request, SentBlock, SentKind,
};
use crate::session::Session;
use crate::session::scale::scale_tokens;
use crate::tokens::{Tokenizer, scale_milli};
use crate::usage::Usage;

/// Share of the summarizer's prompt that comes out as a summary, in hundredths (docs/decisions.md 15).
const SUMMARY_PERCENT: u64 = 12;

/// Told apart from other texts by this.
const INSTRUCTION_HASH: u64 = 0x5ad1_c0de_0f0a_11ed;

/// A summarizer call about to be made.
pub(super) struct Aside<'a> {
    session: &'a Session,
    strategy: &'a Strategy,
    model: &'a ModelSpec,
    plan: &'a SummarizePlan<'a>,
    /// What it is about.
    part: Part,
    /// What is left out of it.
    less: Less,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything that is folded.
    Whole,
    /// What stands before the turn that the tail cuts in two.
    BeforeTurn(u32),
    /// The head of that turn.
    Turn(u32, SplitTurn),
}

/// What is left out of an input that was refused for its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Less {
    /// Tokens of the oldest messages.
    pub tokens: u64,
    /// Hundredths of the results, from the middle on.
    pub results_percent: u64,
}

/// What it came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SummaryCall {
    pub usage: Usage,
    pub cost_pusd: u128,
    pub summary: SummaryMessage,
    /// The conversation itself was sent, so the provider has seen it.
    pub sent_conversation: bool,
}

impl SummaryCall {
    /// Two calls that make one summary.
    pub(super) fn and(mut self, other: &SummaryCall) -> SummaryCall {
        self.usage.add(&other.usage);
        self.cost_pusd += other.cost_pusd;
        let hashes = [self.summary.hash.to_le_bytes(), other.summary.hash.to_le_bytes()].concat();
        self.summary = SummaryMessage {
            tokens: self.summary.tokens.saturating_add(other.summary.tokens),
            utf16: self.summary.utf16.saturating_add(other.summary.utf16),
            json_utf16: self.summary.json_utf16.saturating_add(other.summary.json_utf16),
            hash: xxhash_rust::xxh3::xxh3_64(&hashes),
            wide_bytes: self.summary.wide_bytes.saturating_add(other.summary.wide_bytes),
        };
        self
    }
}

impl<'a> Aside<'a> {
    pub(super) fn new(
        session: &'a Session,
        strategy: &'a Strategy,
        model: &'a ModelSpec,
        plan: &'a SummarizePlan<'a>,
        part: Part,
        less: Less,
    ) -> Aside<'a> {
        Aside { session, strategy, model, plan, part, less }
    }

    /// The history that the summarizer is given: results that the same action cuts are cut in it.
    fn view<'v>(&self, context: &'v Context<'_>) -> Cow<'v, View<'v>> {
        if self.plan.reads_cut {
            Cow::Owned(context.view().with_stored(&self.plan.truncated))
        } else {
            Cow::Borrowed(context.view())
        }
    }

    fn reads(&self, view: &View<'_>) -> Reads {
        let whole = &self.plan.reads;
        let mut reads = match self.part {
            Part::Whole => whole.clone(),
            Part::BeforeTurn(turn) => whole.before(turn),
            Part::Turn(turn, _) => whole.behind(turn),
        };
        if self.less.results_percent > 0 {
            reads.leave_out_results(view, self.less.results_percent);
        }
        reads
    }

    /// Whether there is anything to read.
    pub(super) fn has_input(&self, context: &Context<'_>) -> bool {
        let reads = self.reads(context.view());
        reads.summary || reads.blocks(context.view()).next().is_some()
    }

    /// What stands for a summary where there was nothing to read: nobody was asked.
    pub(super) fn empty_summary(&self, model: &ModelSpec) -> SummaryCall {
        let text_milli = u64::from(self.session.coefficients.text_milli);
        let tokens = scale_milli(self.plan.spec.empty_utf16, text_milli);
        let summary =
            self.summary(scale_tokens(tokens, self.session.tokenizer, model.tokenizer), model.tokenizer);
        SummaryCall { usage: Usage::default(), cost_pusd: 0, summary, sent_conversation: false }
    }

    /// Takes the oldest messages off the front of `blocks`, prefix apart; an answer goes as a whole, and a
    /// result without its call goes too.
    fn shed(&self, blocks: &mut Vec<SentBlock>) {
        if self.less.tokens == 0 {
            return;
        }
        let front = blocks.iter().take_while(|b| b.kind.is_prefix()).count();
        let (mut shed, mut end) = (0, front);
        while end < blocks.len() && shed < self.less.tokens {
            shed += u64::from(blocks[end].tokens);
            end += 1;
        }
        let in_answer = |at: usize| at > front && at < blocks.len() && blocks[at].kind.is_assistant();
        while in_answer(end) && blocks[end - 1].kind.is_assistant() {
            end += 1;
        }
        while end < blocks.len() && blocks[end].kind == SentKind::ToolResult {
            end += 1;
        }
        blocks.drain(front..end);
    }

    /// Makes the call at the instant of `request`, to the given summarizer.
    ///
    /// # Errors
    /// The provider refused it.
    pub(super) fn call(
        &self,
        provider: &mut Provider<'_>,
        context: &Context<'_>,
        request: &Request<'_>,
        summarizer: &Summarizer,
    ) -> Result<SummaryCall, Rejection> {
        let spec = self.plan.spec;
        let own = matches!(spec.input, SummaryInput::Native { .. });
        let model = if own { self.model } else { summarizer.model.as_deref().unwrap_or(self.model) };
        let send =
            |provider: &mut Provider<'_>, blocks: &[SentBlock], markers: &[Marker], tail_tokens: u32| {
                let (markers, automatic) = match model.needs_markers() {
                    true => (markers, None),
                    false => (&[][..], request.automatic),
                };
                let aside = Request {
                    blocks,
                    changed_from: 0,
                    change: None,
                    markers,
                    automatic,
                    tail_tokens,
                    ..*request
                };
                provider.send_aside(model, &aside)
            };
        let answer = match &spec.input {
            SummaryInput::Native { form, instructions_tokens } => {
                self.native(provider, context, request, *form, *instructions_tokens)
            }
            SummaryInput::Transcript { law, system_utf16, prompt_utf16 } => {
                let prompt_utf16 = match self.part {
                    Part::Turn(_, split) => split.prompt_utf16,
                    Part::Whole | Part::BeforeTurn(_) => *prompt_utf16,
                };
                let blocks = self.blocks(law, *system_utf16, prompt_utf16, &self.view(context), model);
                send(provider, &blocks, &self.markers(Some(0), 1), 0)
            }
            SummaryInput::Messages { prompt_utf16 } => {
                let mut blocks = self.folded_blocks(context, summarizer.window_tokens, model);
                self.shed(&mut blocks);
                blocks.push(self.instruction(*prompt_utf16, model));
                send(provider, &blocks, &self.markers(None, blocks.len() - 1), 0)
            }
            SummaryInput::Fork { prompt_utf16 } => {
                let (blocks, markers) = self.fork(request, *prompt_utf16, model);
                send(provider, &blocks, &markers, request.tail_tokens)
            }
        };
        let done = match answer {
            Answer::Done(done) => done,
            Answer::Rejected(rejection) => return Err(*rejection),
        };
        let mut usage = done.usage;
        usage.output_tokens = self.output_tokens(usage.prompt_tokens());
        let day = super::run::day_of(self.session);
        let cost_pusd = super::run::price_of(model, day, day.map(|_| request.at_ms)).cost(&usage).total();
        let summary = self.summary(usage.output_tokens, model.tokenizer);
        Ok(SummaryCall { usage, cost_pusd, summary, sent_conversation: own })
    }

    /// The conversation itself is sent, or as much of it as is folded, and the provider summarizes it.
    fn native(
        &self,
        provider: &mut Provider<'_>,
        context: &Context<'_>,
        request: &Request<'_>,
        form: NativeForm,
        instructions_tokens: u64,
    ) -> Answer {
        let sent = request.blocks;
        let kept = match form {
            NativeForm::OnDemand => {
                context.wire().session_blocks().filter(|(_, block)| *block >= self.plan.fold_to).count()
            }
            NativeForm::Inline | NativeForm::Paused | NativeForm::Endpoint => 0,
        };
        let blocks = &sent[..sent.len().saturating_sub(kept)];
        let mut markers = request.markers.to_vec();
        if kept > 0
            && let Some(last) = markers.pop()
            && let Some(end) = blocks.iter().rposition(|block| block.kind != SentKind::Thinking)
        {
            let after = u32::try_from(end).unwrap_or(u32::MAX);
            markers.retain(|marker| marker.after < after);
            markers.push(Marker { after, ..last });
        }
        let instructions = u32::try_from(instructions_tokens).unwrap_or(u32::MAX);
        provider.send(&Request {
            blocks,
            markers: &markers,
            changed_from: request.changed_from.min(blocks.len()),
            tail_tokens: request.tail_tokens.saturating_add(instructions),
            ..*request
        })
    }

    /// The conversation as it is sent, with the instruction behind it; the last marker moves there.
    fn fork(
        &self,
        request: &Request<'_>,
        prompt_utf16: u64,
        model: &ModelSpec,
    ) -> (Vec<SentBlock>, Vec<Marker>) {
        let mut blocks = request.blocks.to_vec();
        self.shed(&mut blocks);
        blocks.push(self.instruction(prompt_utf16, model));
        let at = u32::try_from(blocks.len() - 1).unwrap_or(u32::MAX);
        let (last, front) = match request.markers.split_last() {
            Some((last, front)) => (Some(Marker { after: at, ..*last }), front),
            None => (None, request.markers),
        };
        let stands = |m: &&Marker| {
            self.less.tokens == 0 || blocks.get(m.after as usize).is_some_and(|b| b.kind.is_prefix())
        };
        let last = last.filter(|_| self.plan.spec.writes_cache);
        let markers = front.iter().filter(stands).copied().chain(last).collect();
        (blocks, markers)
    }

    fn output_tokens(&self, prompt_tokens: u64) -> u64 {
        let spec = self.plan.spec;
        let share = spec.output_share.map(|millionths| {
            let tokens = u128::from(prompt_tokens) * u128::from(millionths.unsigned_abs()) / 1_000_000;
            u64::try_from(tokens).unwrap_or(u64::MAX)
        });
        let law = share.unwrap_or_else(|| (prompt_tokens * SUMMARY_PERCENT).div_ceil(100));
        let most = match self.part {
            Part::Turn(_, split) => split.max_output_tokens,
            Part::Whole | Part::BeforeTurn(_) => spec.max_output_tokens,
        };
        let own = spec.output_tokens.unwrap_or(law).min(most);
        self.strategy.summary_tokens.unwrap_or(own)
    }

    /// The folded messages as they are sent, the old summary in front; those that do not fit are left out.
    fn folded_blocks(&self, context: &Context<'_>, window_tokens: u64, model: &ModelSpec) -> Vec<SentBlock> {
        let view = context.view();
        let reads = summarizer_reads(view, self.strategy.estimate.as_ref(), self.plan, window_tokens);
        let scaled = |tokens: u32| {
            let tokens = scale_tokens(u64::from(tokens), self.session.tokenizer, model.tokenizer);
            u32::try_from(tokens).unwrap_or(u32::MAX)
        };
        let in_front = reads.summary && context.summary_at <= view.live_from;
        let summary = view.summary.filter(|_| in_front).map(|s| self.text(s.hash, scaled(s.tokens)));
        let sent = context.wire().session_blocks();
        let cuts: &[Stored] = if self.plan.reads_cut { &self.plan.truncated } else { &[] };
        let folded = sent.filter(|(_, block)| *block >= reads.from && *block < self.plan.fold_to);
        let folded = folded.map(|(sent, block)| {
            let mut sent = *sent;
            if let Ok(at) = cuts.binary_search_by_key(&block, |s| s.block) {
                Content::stub(self.session, block, cuts[at].tokens).put_into(&mut sent);
            }
            SentBlock { tokens: scaled(sent.tokens), ..sent }
        });
        summary.into_iter().chain(folded).collect()
    }

    fn text(&self, hash: u64, tokens: u32) -> SentBlock {
        SentBlock {
            hash,
            tokens,
            link: NO_LINK,
            message: 0,
            kind: SentKind::Text,
            deferred: false,
            placeholder: false,
        }
    }

    /// The instruction behind what is to be summarized.
    fn instruction(&self, prompt_utf16: u64, model: &ModelSpec) -> SentBlock {
        let own = scale_milli(prompt_utf16, u64::from(self.session.coefficients.text_milli));
        let tokens = scale_tokens(own, self.session.tokenizer, model.tokenizer);
        self.text(prompt_utf16 ^ INSTRUCTION_HASH, u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// The client marks the system prompt and the last user message where its markers say so.
    fn markers(&self, system: Option<u32>, last: usize) -> Vec<Marker> {
        if !self.plan.spec.writes_cache {
            return Vec::new();
        }
        let ttl_of = |places: &[MarkerPlace]| {
            self.strategy.markers.iter().find(|m| places.contains(&m.place)).map(|m| m.ttl)
        };
        let system = system.zip(ttl_of(&[MarkerPlace::System])).map(|(after, ttl)| Marker { after, ttl });
        let last = ttl_of(&[MarkerPlace::LastUser, MarkerPlace::LastMessage])
            .map(|ttl| Marker { after: u32::try_from(last).unwrap_or(u32::MAX), ttl });
        system.into_iter().chain(last).collect()
    }

    fn blocks(
        &self,
        law: &TranscriptLaw,
        system_utf16: u64,
        prompt_utf16: u64,
        view: &View<'_>,
        model: &ModelSpec,
    ) -> [SentBlock; 2] {
        let text_milli = u64::from(self.session.coefficients.text_milli);
        let to_model = |tokens: u64| scale_tokens(tokens, self.session.tokenizer, model.tokenizer);
        let system = to_model(scale_milli(system_utf16, text_milli));
        let reads = self.reads(view);
        let transcript = summarize::transcript(law, view, &reads);
        let own_words = scale_milli(prompt_utf16 + transcript.labels_utf16, text_milli);
        let quoted_tokens = transcript.quoted_tokens.saturating_sub(self.less.tokens);
        let prompt = to_model(own_words + quoted_tokens);
        let block = |kind: SentKind, tokens: u64, hash: u64| SentBlock {
            hash,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            link: NO_LINK,
            message: 0,
            kind,
            deferred: false,
            placeholder: false,
        };
        let own = xxhash_rust::xxh3::xxh3_64(&[reads.to.to_le_bytes(), reads.from.to_le_bytes()].concat());
        [block(SentKind::System, system, system_utf16), block(SentKind::Text, prompt, own)]
    }

    fn summary(&self, output_tokens: u64, tokenizer: Tokenizer) -> SummaryMessage {
        let text_milli = u64::from(self.session.coefficients.text_milli).max(1);
        let spec = self.plan.spec;
        let (besides, wrap_utf16) = match self.part {
            Part::Turn(_, split) => (0, split.wrap_utf16),
            Part::Whole | Part::BeforeTurn(_) => {
                (spec.reinject.tokens + self.plan.reinjected_tokens, spec.wrap_utf16)
            }
        };
        let tokens = scale_tokens(output_tokens, tokenizer, self.session.tokenizer) + besides;
        let utf16 = tokens * 1_000 / text_milli + wrap_utf16;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        SummaryMessage {
            tokens: narrow(tokens + scale_milli(wrap_utf16, text_milli)),
            utf16: narrow(utf16),
            json_utf16: narrow(utf16 + spec.wrap_json_escapes),
            hash: xxhash_rust::xxh3::xxh3_64(
                &[u64::from(self.plan.fold_to).to_le_bytes(), tokens.to_le_bytes()].concat(),
            ),
            wide_bytes: 0,
        }
    }
}
