//! The recorder's side of a run: rows, events and the summary, from what the provider answered.

use std::ops::Range;

use super::Recorder;
use super::aside::SummaryCall;
use super::cleared::Cleared;
use super::context::Context;
use super::events::{RequestRow, SimEvent, SimEventKind};
use super::refetch::Refetches;
use super::run::{day_of, price_of};
use super::summary::{StopReason, Summary};
use crate::cause::Cause;
use crate::policy::laws::digits;
use crate::policy::plan::{ReplacePlan, StubPlan, SummarizePlan};
use crate::policy::view::{Stored, View};
use crate::provider::price::{Date, Price};
use crate::provider::{Done, ModelSpec, Params, Rejection, RejectionKind, Request};
use crate::session::{BlockKind, NONE, Session, Step};
use crate::usage::Usage;

/// Adds up one run.
pub(super) struct Recording<'a, R> {
    session: &'a Session,
    model: &'a ModelSpec,
    day: Option<Date>,
    price: &'a Price,
    recorder: &'a mut R,
    summary: Summary,
    step: usize,
    last_start_ms: Option<i64>,
    passes: u32,
    compactions: u32,
    rejections: u32,
    recovering: bool,
    last_prompt_tokens: u64,
    /// What the next request could read if there had been no pings.
    without_pings: Option<u64>,
    /// What the provider was last said to leave out, and the rule that was named: of results and inputs, of thinking.
    cleared: [Option<(String, Cleared)>; 2],
}

impl<'a, R: Recorder> Recording<'a, R> {
    pub(super) fn new(session: &'a Session, model: &'a ModelSpec, recorder: &'a mut R) -> Recording<'a, R> {
        let summary = Summary {
            hidden_prefix_tokens: session.prefix.tokens(),
            recorded_compactions_undone: session.recorded_compactions_undone(),
            ..Summary::default()
        };
        let day = day_of(session);
        Recording {
            session,
            model,
            day,
            price: price_of(model, day, None),
            recorder,
            summary,
            step: 0,
            last_start_ms: None,
            passes: 0,
            compactions: 0,
            rejections: 0,
            recovering: false,
            last_prompt_tokens: 0,
            without_pings: None,
            cleared: [None, None],
        }
    }

    pub(super) fn begin(&mut self, step: usize) {
        self.step = step;
        self.passes = 0;
        self.compactions = 0;
        self.rejections = 0;
        self.recovering = false;
        if self.model.prices.varies_by_hour() {
            self.set_model(self.model);
        }
    }

    pub(super) fn now(&self) -> &Step {
        &self.session.steps[self.step]
    }

    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.step + 1).unwrap_or(u32::MAX)
    }

    /// The request of the present step, its markers and parameters left out.
    pub(super) fn request<'c>(&self, context: &'c Context<'_>) -> Request<'c> {
        let step = self.now();
        let wire = context.wire();
        Request {
            at_ms: step.start_ms.unwrap_or(0),
            // A session's request follows an answer, so what earlier ones wrote can be read.
            ttft_ms: 0,
            blocks: wire.blocks(),
            changed_from: wire.changed_from(),
            change: wire.change(),
            markers: &[],
            automatic: None,
            params: Params::default(),
            tail_tokens: if wire.has_tail() { 0 } else { step.tail_tokens },
            max_output_tokens: 0,
        }
    }

    /// Prompt tokens of the request served last.
    pub(super) fn last_prompt_tokens(&self) -> u64 {
        self.last_prompt_tokens
    }

    /// Pings sent so far.
    pub(super) fn pings(&self) -> u64 {
        self.summary.keep_alive.pings
    }

    /// The next request could read so much if there had been no pings.
    pub(super) fn without_pings(&mut self, readable_tokens: u64) {
        self.without_pings = Some(readable_tokens);
    }

    /// A ping was served.
    pub(super) fn pinged(&mut self, usage: &Usage, at_ms: i64) {
        let cost = price_of(self.model, self.day, Some(at_ms)).cost(usage).total();
        self.summary.keep_alive.pings += 1;
        self.summary.keep_alive.usage.add(usage);
        self.summary.cost.keep_alive += cost;
    }

    /// A request was served as it stands.
    pub(super) fn sent(&mut self, request: &Request<'_>) {
        self.recorder.sent(request.blocks);
    }

    /// Books a served request; gives its usage, output included.
    pub(super) fn served(&mut self, done: &Done, estimate_tokens: u64) -> Usage {
        let step = &self.session.steps[self.step];
        // Field by field: a load of all of them right behind narrower stores would stall.
        let Usage {
            uncached_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, ..
        } = done.usage;
        let usage = Usage {
            uncached_tokens,
            cache_read_tokens,
            cache_write_5m_tokens,
            cache_write_1h_tokens,
            output_tokens: u64::from(step.output_tokens),
        };
        let cost = self.price.cost(&usage);
        let s = &mut self.summary;
        s.requests += 1;
        s.usage.add(&usage);
        s.cost.uncached += cost.uncached;
        s.cost.cache_read += cost.cache_read;
        s.cost.cache_write += cost.cache_write;
        s.cost.output += cost.output;
        let prompt = usage.prompt_tokens();
        let unread = done.miss.new_tokens + done.miss.missed_tokens;
        assert!(cache_read_tokens + unread == prompt, "read + new + missed = what is billed");
        s.hit_rate_sum_nano += (usage.cache_read_tokens * 1_000_000_000).checked_div(prompt).unwrap_or(0);
        s.peak_prompt_tokens = s.peak_prompt_tokens.max(prompt);
        s.dropped_thinking_blocks += u64::from(done.dropped_thinking);
        s.allowed_mismatches += u64::from(done.allowed_mismatches);
        s.truncated_requests += u64::from(done.left_out_blocks > 0);
        self.last_prompt_tokens = prompt;
        if let Some(readable) = self.without_pings.take() {
            s.keep_alive.book_saving(&usage, readable, self.price);
        }
        s.recoveries += u64::from(self.recovering);
        let mut paid_for_new = cost.uncached + cost.cache_write;
        if let Some(cause) = done.miss.cause {
            let unread = self.price.split_unread(&usage, done.miss.missed_tokens);
            s.book_miss(cause, done.miss.missed_tokens, unread.missed);
            paid_for_new = unread.new;
        }
        if done.miss.new_tokens > 0 {
            s.book_miss(Cause::NewContent, done.miss.new_tokens, paid_for_new);
        }
        let at_ms = step.start_ms;
        let before_ms = std::mem::replace(&mut self.last_start_ms, at_ms);
        if self.recorder.wants_requests() {
            self.recorder.request(&RequestRow {
                request: self.number(),
                at_ms,
                gap_ms: at_ms.zip(before_ms).map(|(now, last)| now - last),
                usage,
                cost_pusd: cost.total(),
                miss_cause: done.miss.cause,
                missed_tokens: done.miss.missed_tokens,
                estimate_tokens,
                passes: self.passes,
                compactions: self.compactions,
                rejections: self.rejections,
            });
        }
        usage
    }

    /// The request was answered with `output`: what of it was asked before.
    pub(super) fn answered_with(&mut self, refetches: &mut Refetches, view: &View<'_>, output: &Range<u32>) {
        let number = self.number();
        refetches.answered(self.session, view, (number, output), &mut self.summary);
    }

    /// Whether per-request output is wanted, and with it the client's estimate.
    pub(super) fn wants_estimate(&self) -> bool {
        self.recorder.wants_events()
    }

    /// Start of the last served request.
    pub(super) fn last_start_ms(&self) -> Option<i64> {
        self.last_start_ms
    }

    /// The conversation goes on at another model's prices.
    /// Requests run on this model from here on.
    pub(super) fn set_model(&mut self, model: &'a ModelSpec) {
        self.model = model;
        self.price = self.price_of(model);
    }

    /// What a model charges for a request at the present step.
    pub(super) fn price_of<'m>(&self, model: &'m ModelSpec) -> &'m Price {
        price_of(model, self.day, self.session.steps.get(self.step).and_then(|step| step.start_ms))
    }

    /// Builds an event only if somebody wants it.
    pub(super) fn event(&mut self, kind: impl FnOnce() -> SimEventKind) {
        if self.recorder.wants_events() {
            let event = SimEvent { request: self.number(), at_ms: self.now().start_ms, kind: kind() };
            self.recorder.event(&event);
        }
    }

    pub(super) fn offload(&mut self, rule: &str, view: &View<'_>, stored: &Stored) {
        self.summary.offloads += 1;
        let i = stored.block as usize;
        let session = self.session;
        let chars = u64::from(session.blocks.utf16[i]);
        let stub_chars = view.text_utf16(stored.block);
        self.event(|| SimEventKind::Offload {
            rule: rule.to_owned(),
            call: session.blocks.call[i],
            tool: session
                .tools
                .get(session.blocks.tool[i] as usize)
                .map_or_else(String::new, |t| t.name.clone()),
            chars,
            stub_chars,
        });
    }

    pub(super) fn pass(&mut self, rule: &str, session: &Session, plan: &StubPlan, withheld: u64) {
        self.edited(plan.stubs.len() as u64, plan.saved_utf16, withheld);
        self.event(|| SimEventKind::Pass {
            rule: rule.to_owned(),
            elided_count: plan.reported.0,
            chars_saved: plan.reported.1,
            elided_calls: plan
                .stubs
                .iter()
                .map(|(block, _)| session.blocks.call[*block as usize])
                .filter(|call| *call != NONE)
                .collect(),
            withheld_thinking_blocks: withheld,
        });
    }

    /// A rule changed what the provider leaves out of its own copy, of the kind of `block`.
    pub(super) fn applied_edits(&mut self, rule: &str, context: &Context<'_>, block: Option<u32>) {
        if self.recorder.wants_events() {
            let is_thinking = |block: u32| self.session.blocks.kind[block as usize] == BlockKind::Thinking;
            let of_thinking = block.is_some_and(is_thinking);
            let cleared = Cleared::of(context, of_thinking);
            self.report_cleared(rule.to_owned(), cleared, of_thinking);
        }
    }

    /// Blocks left the history or came back, and perhaps some that the provider leaves out.
    pub(super) fn history_changed(&mut self, context: &Context<'_>) {
        for of_thinking in [false, true] {
            let Some((rule, before)) = self.cleared[usize::from(of_thinking)].take() else { continue };
            let cleared = Cleared::of(context, of_thinking);
            if cleared == before {
                self.cleared[usize::from(of_thinking)] = Some((rule, before));
            } else {
                self.report_cleared(rule, cleared, of_thinking);
            }
        }
    }

    fn report_cleared(&mut self, rule: String, cleared: Cleared, of_thinking: bool) {
        self.cleared[usize::from(of_thinking)] = Some((rule.clone(), cleared));
        self.event(|| SimEventKind::AppliedEdits {
            rule,
            cleared_tool_uses: cleared.tool_uses,
            cleared_input_tokens: cleared.input_tokens,
            cleared_thinking_turns: cleared.thinking_turns,
        });
    }

    pub(super) fn truncated(&mut self, rule: &str, stored: &Stored) {
        let i = stored.block as usize;
        let session = self.session;
        let kept_chars = u64::from(stored.utf16);
        self.event(|| SimEventKind::Truncate {
            rule: rule.to_owned(),
            call: session.blocks.call[i],
            tool: session
                .tools
                .get(session.blocks.tool[i] as usize)
                .map_or_else(String::new, |t| t.name.clone()),
            chars: u64::from(session.blocks.utf16[i]),
            kept_chars,
        });
    }

    /// Stored content changed: a pass like one whose stubs stand in requests only.
    pub(super) fn replaced(&mut self, rule: &str, plan: &ReplacePlan, withheld: u64) {
        let session = self.session;
        self.edited(plan.stored.len() as u64, plan.saved_utf16, withheld);
        self.event(|| SimEventKind::Pass {
            rule: rule.to_owned(),
            elided_count: plan.stored.len() as u64,
            chars_saved: plan.saved_utf16,
            elided_calls: plan.stored.iter().map(|s| session.blocks.call[s.block as usize]).collect(),
            withheld_thinking_blocks: withheld,
        });
    }

    pub(super) fn pairs_dropped(&mut self, rule: &str, results: &[u32], saved_utf16: u64) {
        let session = self.session;
        self.edited(results.len() as u64, saved_utf16, 0);
        self.event(|| SimEventKind::Pass {
            rule: rule.to_owned(),
            elided_count: results.len() as u64,
            chars_saved: saved_utf16,
            elided_calls: results.iter().map(|b| session.blocks.call[*b as usize]).collect(),
            withheld_thinking_blocks: 0,
        });
    }

    pub(super) fn stripped(&mut self, rule: &str, withheld: u64) {
        self.edited(0, 0, withheld);
        self.event(|| SimEventKind::Pass {
            rule: rule.to_owned(),
            elided_count: 0,
            chars_saved: 0,
            elided_calls: Vec::new(),
            withheld_thinking_blocks: withheld,
        });
    }

    fn edited(&mut self, items: u64, saved_utf16: u64, withheld: u64) {
        self.passes += 1;
        self.summary.passes += 1;
        self.summary.elided_results += items;
        self.summary.chars_saved += saved_utf16;
        self.summary.withheld_thinking_blocks += withheld;
    }

    pub(super) fn reclaimed(
        &mut self,
        rule: &str,
        tokens_before: u64,
        tokens_after: u64,
        reclaimed_tokens: u64,
    ) {
        self.event(|| SimEventKind::Reclaimed {
            rule: rule.to_owned(),
            tokens_before,
            tokens_after,
            reclaimed_tokens,
        });
    }

    pub(super) fn dropped(&mut self, rule: &str, plan: &SummarizePlan<'_>, tokens_after: u64, withheld: u64) {
        self.edited(0, 0, withheld);
        self.event(|| SimEventKind::Dropped {
            rule: rule.to_owned(),
            messages: plan.folded_messages,
            tokens_before: plan.tokens_before,
            tokens_after,
        });
    }

    pub(super) fn compaction_start(&mut self, rule: &str, plan: &SummarizePlan<'_>) {
        self.event(|| SimEventKind::CompactionStart {
            rule: rule.to_owned(),
            tokens_before: plan.tokens_before,
            folded_messages: plan.folded_messages,
            kept_turns: plan.kept_turns,
            max_output_tokens: plan.spec.max_output_tokens,
        });
    }

    pub(super) fn compaction_failed(&mut self, rule: &str, tokens_before: u64, reason: String) {
        self.event(|| SimEventKind::CompactionFailed { rule: rule.to_owned(), tokens_before, reason });
    }

    /// A summarizer call is billed, whatever becomes of it.
    pub(super) fn summarizer_call(&mut self, call: &SummaryCall) {
        self.summary.summarizer_calls += 1;
        self.summary.summarizer.add(&call.usage);
        self.summary.cost.summarizer += call.cost_pusd;
    }

    pub(super) fn compaction_done(
        &mut self,
        rule: &str,
        plan: &SummarizePlan<'_>,
        call: &SummaryCall,
        tokens_after: u64,
        withheld: u64,
        archive: Option<String>,
    ) {
        self.compactions += 1;
        self.summary.compactions += 1;
        self.summary.withheld_thinking_blocks += withheld;
        if plan.spec.progress {
            self.event(|| SimEventKind::CompactionProgress {
                rule: rule.to_owned(),
                summary_tokens: call.usage.output_tokens,
                max_output_tokens: plan.spec.max_output_tokens,
            });
        }
        self.event(|| SimEventKind::CompactionDone {
            rule: rule.to_owned(),
            tokens_before: plan.tokens_before,
            tokens_after,
            summary_chars: u64::from(call.summary.utf16).saturating_sub(plan.spec.wrap_utf16),
            summarizer_prompt_tokens: call.usage.prompt_tokens(),
            summarizer_output_tokens: call.usage.output_tokens,
            folded_messages: plan.folded_messages,
            archive,
        });
    }

    pub(super) fn prefix_change_noticed(&mut self, withheld: u64) {
        self.summary.withheld_thinking_blocks += withheld;
        self.event(|| SimEventKind::PrefixChangeNoticed { withheld_thinking_blocks: withheld });
    }

    pub(super) fn rejection(&mut self, rejection: Rejection) {
        self.rejections += 1;
        let reason = match rejection.kind {
            RejectionKind::Binding { .. } => {
                self.summary.binding_rejections += 1;
                "binding"
            }
            RejectionKind::Overflow { .. } => {
                self.summary.overflows += 1;
                "overflow"
            }
            RejectionKind::InvalidRequest => "invalid_request",
        };
        self.event(|| SimEventKind::Rejection {
            reason: reason.to_owned(),
            message: rejection.message,
            path: rejection.path,
        });
    }

    pub(super) fn recovery(&mut self, action: &str, withheld: u64) {
        self.recovering = true;
        self.summary.withheld_thinking_blocks += withheld;
        self.event(|| SimEventKind::Recovery { action: action.to_owned() });
    }

    pub(super) fn violation(&mut self, rule: &str, reason: &str) {
        self.summary.violations += 1;
        self.event(|| SimEventKind::Violation { rule: rule.to_owned(), reason: reason.to_owned() });
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        self.summary.stopped_at_request = Some(u64::from(self.number()));
        self.summary.stop_reason = Some(reason);
    }

    pub(super) fn finish(self) -> Summary {
        self.summary
    }
}

/// Digits of the four counts a client stores with an answer.
pub(super) fn usage_digits(usage: &Usage) -> u8 {
    let counts =
        [usage.uncached_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens()];
    u8::try_from(counts.into_iter().map(digits).sum::<u64>()).unwrap_or(u8::MAX)
}
