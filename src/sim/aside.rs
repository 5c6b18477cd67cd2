//! The summarizer call: a request like any other, billed as the cost class of its own.
//!
//! # Divergence from the real API
//!
//! A summary's length is a law (docs/decisions.md 15), and the rendered transcript is sized from the
//! tokens of the blocks it quotes. The provider-side shape summarizes everything it was sent; whether the
//! real one keeps the last messages beside its summary is not documented.

use super::context::Context;
use crate::policy::Strategy;
use crate::policy::laws::TranscriptLaw;
use crate::policy::plan::SummarizePlan;
use crate::policy::strategy::{MarkerPlace, SummaryInput};
use crate::policy::summarize;
use crate::policy::view::{SummaryMessage, View};
use crate::provider::{
    Answer, Marker, ModelSpec, NO_LINK, Provider, Rejection, Request, SentBlock, SentKind,
};
use crate::session::Session;
use crate::tokens::{Tokenizer, scale_milli};
use crate::usage::Usage;

/// Share of the summarizer's prompt that comes out as a summary, in hundredths (docs/decisions.md 15).
const SUMMARY_PERCENT: u64 = 12;

/// A summarizer call about to be made.
pub(super) struct Aside<'a> {
    session: &'a Session,
    strategy: &'a Strategy,
    model: &'a ModelSpec,
    plan: &'a SummarizePlan<'a>,
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

impl<'a> Aside<'a> {
    pub(super) fn new(
        session: &'a Session,
        strategy: &'a Strategy,
        model: &'a ModelSpec,
        plan: &'a SummarizePlan<'a>,
    ) -> Aside<'a> {
        Aside { session, strategy, model, plan }
    }

    /// Makes the call at the instant of `request`.
    ///
    /// # Errors
    /// The provider refused it.
    pub(super) fn call(
        &self,
        provider: &mut Provider<'_>,
        context: &Context<'_>,
        request: &Request<'_>,
    ) -> Result<SummaryCall, Rejection> {
        let (answer, model, sent_conversation) = match &self.plan.spec.input {
            SummaryInput::PrefixFork => (provider.send(request), self.model, true),
            SummaryInput::Transcript { law, system_utf16, prompt_utf16 } => {
                let model = self.plan.spec.model.as_deref().unwrap_or(self.model);
                let blocks = self.blocks(law, *system_utf16, *prompt_utf16, context.view(), model);
                let markers = self.markers();
                let aside = Request {
                    blocks: &blocks,
                    changed_from: 0,
                    change: None,
                    markers: &markers,
                    tail_tokens: 0,
                    ..*request
                };
                (provider.send_aside(model, &aside), model, false)
            }
        };
        let done = match answer {
            Answer::Done(done) => done,
            Answer::Rejected(rejection) => return Err(*rejection),
        };
        let mut usage = done.usage;
        usage.output_tokens = self.output_tokens(usage.prompt_tokens());
        let cost_pusd = super::run::price_of(model).cost(&usage).total();
        let summary = self.summary(usage.output_tokens, model.tokenizer);
        Ok(SummaryCall { usage, cost_pusd, summary, sent_conversation })
    }

    fn output_tokens(&self, prompt_tokens: u64) -> u64 {
        let law = (prompt_tokens * SUMMARY_PERCENT).div_ceil(100).min(self.plan.spec.max_output_tokens);
        self.strategy.summary_tokens.unwrap_or(law)
    }

    /// The client marks the system prompt and the last user message where its markers say so.
    fn markers(&self) -> Vec<Marker> {
        let ttl_of = |places: &[MarkerPlace]| {
            self.strategy.markers.iter().find(|m| places.contains(&m.place)).map(|m| m.ttl)
        };
        let system = ttl_of(&[MarkerPlace::System]).map(|ttl| Marker { after: 0, ttl });
        let last =
            ttl_of(&[MarkerPlace::LastUser, MarkerPlace::LastMessage]).map(|ttl| Marker { after: 1, ttl });
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
        let to_model = |tokens: u64| {
            crate::session::scale::scale_tokens(tokens, self.session.tokenizer, model.tokenizer)
        };
        let system = to_model(scale_milli(system_utf16, text_milli));
        let transcript = summarize::transcript(law, view, self.plan.fold_to);
        let own_words = scale_milli(prompt_utf16 + transcript.labels_utf16, text_milli);
        let prompt = to_model(own_words + transcript.quoted_tokens);
        let block = |kind: SentKind, tokens: u64, hash: u64| SentBlock {
            hash,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            link: NO_LINK,
            message: 0,
            kind,
            deferred: false,
            placeholder: false,
        };
        let own = xxhash_rust::xxh3::xxh3_64(
            &[self.plan.fold_to.to_le_bytes(), view.live_from.to_le_bytes()].concat(),
        );
        [block(SentKind::System, system, system_utf16), block(SentKind::Text, prompt, own)]
    }

    fn summary(&self, output_tokens: u64, tokenizer: Tokenizer) -> SummaryMessage {
        let text_milli = u64::from(self.session.coefficients.text_milli).max(1);
        let spec = self.plan.spec;
        let tokens = crate::session::scale::scale_tokens(output_tokens, tokenizer, self.session.tokenizer);
        let utf16 = tokens * 1_000 / text_milli + spec.wrap_utf16;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        SummaryMessage {
            tokens: narrow(tokens + scale_milli(spec.wrap_utf16, text_milli)),
            utf16: narrow(utf16),
            json_utf16: narrow(utf16 + spec.wrap_json_escapes),
            hash: xxhash_rust::xxh3::xxh3_64(
                &[u64::from(self.plan.fold_to).to_le_bytes(), tokens.to_le_bytes()].concat(),
            ),
        }
    }
}
