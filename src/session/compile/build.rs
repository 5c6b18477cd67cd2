//! Blocks, steps and events in the order in which a client would send them.

#![expect(clippy::disallowed_types, reason = "looked up by name or id and never walked through")]

use std::collections::HashMap;
use std::ops::Range;

use crate::session::roles::Role;
use crate::session::{
    Block, BlockKind, Blocks, Call, DropReason, Event, EventKind, Facts, Flags, Marks, NONE, ResultParts,
    Step, Tool,
};
use crate::tokens::Tokenizer;
use crate::transcript::{self, Content, Entry, Input, Marker, Response, ResultPart, Transcript};

use super::measure::{self, Measured, Size, clamp};
use super::times::StepTimes;

/// UTF-16 units of a result that stands for the missing one of an interrupted call: the size of a client's
/// own notice of the abort, all ASCII on one line.
pub const SYNTHETIC_RESULT_UTF16: u32 = 20;

/// What calibration needs of a block besides its row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raw {
    /// UTF-16 units that the class coefficient applies to.
    pub units: u32,
    /// Characters of a thinking signature.
    pub signature_chars: u32,
    /// Tokens known without counting characters.
    pub fixed_tokens: u32,
}

/// What calibration needs of a step besides its row.
#[derive(Debug, Clone)]
pub(super) struct RawStep<'t> {
    pub model: &'t str,
    pub output_is_final: bool,
    /// The output held reasoning that is never sent again, so its count is not that of the blocks.
    pub unsent_output: bool,
    /// A recorded compaction or clearing lies between the previous response and this one: their totals
    /// are not comparable.
    pub compacted_before: bool,
    pub times: StepTimes,
}

/// Everything about the session that needs no tokens.
#[derive(Debug, Default)]
pub(super) struct Draft<'t> {
    pub blocks: Blocks,
    pub raw: Vec<Raw>,
    pub result_parts: Vec<ResultParts>,
    pub tools: Vec<Tool>,
    pub calls: Vec<Call>,
    pub steps: Vec<Step>,
    pub raw_steps: Vec<RawStep<'t>>,
    pub events: Vec<Event>,
}

impl Draft<'_> {
    fn next_block(&self) -> u32 {
        clamp(self.blocks.len() as u64)
    }

    fn next_step(&self) -> u32 {
        clamp(self.steps.len() as u64)
    }

    fn push(&mut self, measured: Measured, message: u32, call: u32, tool: u32) -> u32 {
        let size = measured.size;
        let block = self.blocks.push(Block {
            kind: measured.kind,
            flags: measured.flags,
            message,
            tool,
            call,
            hash: measured.hash,
            tokens: 0,
            utf16: size.utf16,
            bytes: size.bytes,
            lines: size.lines(),
            json_utf16: size.json_utf16,
            ascii: size.ascii,
            args_utf16: measured.args_utf16,
        });
        self.raw.push(Raw {
            units: size.utf16,
            signature_chars: measured.signature_chars,
            fixed_tokens: measured.fixed_tokens,
        });
        self.result_parts.extend(measured.parts.map(|parts| ResultParts { block, ..parts }));
        block
    }
}

/// A block waiting for its request.
struct Queued<'t> {
    measured: Measured,
    call: u32,
    tool: u32,
    /// Of results: id of the call.
    id: &'t str,
    /// Of others: a new client message begins here.
    new_message: bool,
}

/// Content on its way into the next request.
#[derive(Default)]
struct Pending<'t> {
    results: Vec<Queued<'t>>,
    others: Vec<Queued<'t>>,
    /// The message being put together has text that the user typed.
    has_prompt: bool,
    /// A recorded compaction lies before this point.
    compacted: bool,
    /// A recorded clearing of results does.
    results_cleared: bool,
    /// History was dropped: the previous response need not be in the prompt.
    dropped: bool,
    times: StepTimes,
    facts: Facts,
}

pub(super) struct Builder<'t> {
    draft: Draft<'t>,
    format: &'t str,
    key: u64,
    tokenizer: Tokenizer,
    pending: Pending<'t>,
    next_message: u32,
    tool_index: HashMap<&'t str, u32>,
    /// Unanswered calls of the last response: id → (call, tool).
    open: HashMap<&'t str, (u32, u32)>,
    /// Calls of the last response in order, for synthetic results.
    last_calls: Vec<&'t str>,
    /// Result block by call id, for recorded clearings.
    result_block: HashMap<&'t str, u32>,
    /// Results at the head of each step's input.
    results_of_step: Vec<u32>,
    /// Runs of blocks that are still in the conversation; the last one, from `live_from` on, is open.
    live: Vec<Range<u32>>,
    live_from: u32,
    model: &'t str,
}

impl<'t> Builder<'t> {
    pub fn new(transcript: &'t Transcript, tokenizer: Tokenizer, key: u64) -> Builder<'t> {
        Builder {
            draft: Draft::default(),
            format: transcript.format,
            key,
            tokenizer,
            pending: Pending::default(),
            next_message: 0,
            tool_index: HashMap::new(),
            open: HashMap::new(),
            last_calls: Vec::new(),
            result_block: HashMap::new(),
            results_of_step: Vec::new(),
            live: Vec::new(),
            live_from: 0,
            model: "",
        }
    }

    /// Content after the last response was never sent and is left out.
    pub fn build(mut self, transcript: &'t Transcript) -> Draft<'t> {
        for entry in &transcript.entries {
            match entry {
                Entry::Input(input) => self.input(input),
                Entry::Response(response) => self.response(response),
                Entry::Event(event) => self.event(event),
            }
        }
        self.draft
    }

    fn message(&mut self) -> u32 {
        self.next_message += 1;
        self.next_message - 1
    }

    fn tool(&mut self, name: &'t str) -> u32 {
        let format = self.format;
        let tools = &mut self.draft.tools;
        *self.tool_index.entry(name).or_insert_with(|| {
            tools.push(Tool { name: name.to_owned(), role: Role::of(format, name) });
            clamp(tools.len() as u64 - 1)
        })
    }

    fn input(&mut self, input: &'t Input) {
        self.pending.times.input(input.at_ms, input.injected);
        let mut first = true;
        for content in &input.content {
            match content {
                Content::ToolResult { call_id, parts, is_error } => {
                    let measured = measure::result(parts, *is_error, self.tokenizer, self.key);
                    match self.open.remove(call_id.as_str()) {
                        Some((call, tool)) => {
                            self.loaded_tools(parts);
                            self.queue_result(measured, call, tool, call_id);
                        }
                        // An answer to nothing cannot be sent as a result.
                        None => {
                            let text = Measured { kind: BlockKind::UserText, parts: None, ..measured };
                            self.queue_other(text, true, true);
                        }
                    }
                }
                Content::Text(text) if text.is_empty() => {}
                Content::Text(text) => {
                    let measured = measure::text(BlockKind::UserText, text, self.key);
                    self.queue_other(measured, input.injected, first);
                    first = false;
                }
                Content::Image(image) => {
                    self.queue_other(measure::image(image, self.key), input.injected, first);
                    first = false;
                }
                // The model's own content never stands in an input.
                Content::Thinking { .. } | Content::ToolUse { .. } => {}
            }
        }
    }

    fn queue_result(&mut self, mut measured: Measured, call: u32, tool: u32, id: &'t str) {
        // The call is older than the compaction, which therefore folded the result too.
        if self.pending.compacted {
            measured.flags = measured.flags.with(Flags::FOLDED);
        }
        self.pending.results.push(Queued { measured, call, tool, id, new_message: true });
    }

    /// Counts the definitions that a search for deferred tools loads.
    fn loaded_tools(&mut self, parts: &[ResultPart]) {
        for part in parts {
            let ResultPart::ToolReference(name) = part else { continue };
            let facts = &mut self.pending.facts;
            facts.loaded_tools += 1;
            if Role::of(self.format, name) == Role::Todo {
                facts.marks = facts.marks.with(Marks::TASK_TOOLS_LOADED);
            }
        }
    }

    /// Injected text is part of the pending user message; a prompt joins injected text before it.
    fn queue_other(&mut self, mut measured: Measured, injected: bool, first_of_input: bool) {
        let pending = &mut self.pending;
        let mut by_compaction = false;
        if injected {
            measured.flags = measured.flags.with(Flags::INJECTED);
            by_compaction = pending.compacted;
        }
        if by_compaction {
            measured.flags = measured.flags.with(Flags::COMPACTION);
        }
        let last = pending.others.last().map(|q| q.measured.flags.has(Flags::COMPACTION));
        let new_message = match last {
            None => true,
            Some(last_by_compaction) if last_by_compaction != by_compaction => true,
            Some(_) => !injected && first_of_input && pending.has_prompt,
        };
        pending.has_prompt = !injected || (pending.has_prompt && !new_message);
        pending.others.push(Queued { measured, call: NONE, tool: NONE, id: "", new_message });
    }

    fn response(&mut self, response: &'t Response) {
        let input = self.flush_input();
        let pending = std::mem::take(&mut self.pending);
        if !response.model.is_empty() {
            if !self.model.is_empty() && self.model != response.model {
                self.push_event(EventKind::ModelChanged { model: response.model.clone() });
            }
            self.model = &response.model;
        }
        let output = self.output(response);
        let blocks = &self.draft.blocks;
        let human_turn = (input.start as usize..input.end as usize).any(|i| {
            matches!(blocks.kind[i], BlockKind::UserText | BlockKind::Image)
                && !blocks.flags[i].has(Flags::INJECTED)
        });
        let mut times = pending.times;
        times.response(response.first_at_ms, response.last_at_ms);
        let mut facts = pending.facts;
        if response.output_is_final {
            facts.marks = facts.marks.with(Marks::FINAL_OUTPUT);
        }
        self.draft.steps.push(Step {
            input,
            output,
            start_ms: None,
            duration_ms: 0,
            tail_tokens: 0,
            tail_hash: 0,
            output_tokens: 0,
            human_turn,
            recorded: response.usage,
            facts,
        });
        self.draft.raw_steps.push(RawStep {
            model: self.model,
            output_is_final: response.output_is_final,
            unsent_output: response.content.iter().any(|content| {
                matches!(content, Content::Thinking { text, signature_chars: 0, redacted: false } if !text.is_empty())
            }),
            compacted_before: pending.compacted || pending.results_cleared,
            times,
        });
    }

    /// Writes the pending input: results first (docs/decisions.md 1), then text and images.
    fn flush_input(&mut self) -> Range<u32> {
        self.answer_open_calls();
        let start = self.draft.next_block();
        let results = std::mem::take(&mut self.pending.results);
        self.results_of_step.push(clamp(results.len() as u64));
        for q in results {
            let message = self.message();
            let block = self.draft.push(q.measured, message, q.call, q.tool);
            if !q.id.is_empty() {
                self.result_block.insert(q.id, block);
            }
        }
        let previous_is_sent =
            !self.pending.dropped && self.draft.steps.last().is_some_and(|step| !step.output.is_empty());
        let mut others = std::mem::take(&mut self.pending.others);
        if others.is_empty() && start == self.draft.next_block() && !previous_is_sent {
            // A request adds something: stands for what the recording does not show.
            let flags = Flags::SYNTHETIC.with(Flags::INJECTED);
            let mut measured = measure::text(BlockKind::UserText, "", self.key);
            measured.flags = flags;
            others.push(Queued { measured, call: NONE, tool: NONE, id: "", new_message: true });
        }
        let mut message = 0;
        for q in others {
            if q.new_message {
                message = self.message();
            }
            self.draft.push(q.measured, message, q.call, q.tool);
        }
        start..self.draft.next_block()
    }

    /// Puts an error result in place of each one that the recording lacks.
    fn answer_open_calls(&mut self) {
        for id in std::mem::take(&mut self.last_calls) {
            let Some((call, tool)) = self.open.remove(id) else { continue };
            let size = Size {
                utf16: SYNTHETIC_RESULT_UTF16,
                bytes: SYNTHETIC_RESULT_UTF16,
                line_feeds: 0,
                json_utf16: SYNTHETIC_RESULT_UTF16,
                ascii: SYNTHETIC_RESULT_UTF16,
            };
            let hash = measure::Hasher::new(self.key, measure::SYNTHETIC_TAG).finish();
            let flags = Flags::SYNTHETIC.with(Flags::ERROR);
            self.queue_result(Measured::plain(BlockKind::ToolResult, flags, hash, size), call, tool, "");
        }
    }

    fn output(&mut self, response: &'t Response) -> Range<u32> {
        let start = self.draft.next_block();
        let message = self.next_message;
        for content in &response.content {
            match content {
                Content::Text(text) if text.is_empty() => {}
                Content::Text(text) => {
                    let measured = measure::text(BlockKind::AssistantText, text, self.key);
                    self.draft.push(measured, message, NONE, NONE);
                }
                // Unsigned thinking is never sent (docs/decisions.md 1).
                Content::Thinking { signature_chars: 0, redacted: false, .. } => {}
                Content::Thinking { text, signature_chars, redacted } => {
                    let measured = measure::thinking(text, *signature_chars, *redacted, self.key);
                    self.draft.push(measured, message, NONE, NONE);
                }
                // A call whose id is taken could not be answered on its own: it is a copied line.
                Content::ToolUse { id, .. } if self.open.contains_key(id.as_str()) => {}
                Content::ToolUse { id, name, input } => {
                    let tool = self.tool(name);
                    let call = clamp(self.draft.calls.len() as u64);
                    self.draft.calls.push(measure::call_id(id));
                    self.draft.push(measure::call(name, input, self.key), message, call, tool);
                    self.open.insert(id, (call, tool));
                    self.last_calls.push(id);
                }
                // Server-side results and generated images are not modelled.
                Content::ToolResult { .. } | Content::Image(_) => {}
            }
        }
        if self.draft.next_block() > start {
            self.next_message += 1;
        }
        start..self.draft.next_block()
    }

    fn push_event(&mut self, kind: EventKind) {
        let before_step = self.draft.next_step();
        self.draft.events.push(Event { before_step, kind });
    }

    fn event(&mut self, event: &'t transcript::Event) {
        match &event.kind {
            transcript::EventKind::Compaction { automatic, pre_tokens, post_tokens } => {
                self.fold_pending();
                self.push_event(EventKind::RecordedCompaction {
                    automatic: *automatic,
                    pre_tokens: *pre_tokens,
                    post_tokens: *post_tokens,
                });
            }
            transcript::EventKind::ResultsCleared { call_ids, .. } => {
                let mut blocks: Vec<u32> =
                    call_ids.iter().filter_map(|id| self.result_block.get(id.as_str()).copied()).collect();
                blocks.sort_unstable();
                blocks.dedup();
                self.pending.results_cleared = true;
                self.push_event(EventKind::RecordedClearing { blocks, applied: false });
            }
            transcript::EventKind::Cleared => {
                self.open.clear();
                self.pending.results.clear();
                self.pending.compacted = false;
                self.pending.results_cleared = false;
                self.drop_from(0, DropReason::Clear);
            }
            transcript::EventKind::Rewound { keep_responses } => self.rewind(*keep_responses),
            transcript::EventKind::Resumed => self.push_event(EventKind::Resumed),
            transcript::EventKind::Marker(marker) => self.marker(*marker, event.at_ms),
        }
    }

    fn marker(&mut self, marker: Marker, at_ms: Option<i64>) {
        let facts = &mut self.pending.facts;
        let mark = match marker {
            Marker::AwaySummary => {
                facts.away_at_ms = facts.away_at_ms.max(at_ms);
                Marks::AWAY_SUMMARY
            }
            Marker::Notification => Marks::NOTIFICATION,
            Marker::SkillLoaded => Marks::SKILL_LOADED,
        };
        facts.marks = facts.marks.with(mark);
    }

    /// What is pending when a compaction happens goes into its summary; what an earlier compaction put
    /// there and nobody ever saw is gone.
    fn fold_pending(&mut self) {
        let pending = &mut self.pending;
        pending.compacted = true;
        pending.others.retain(|q| !q.measured.flags.has(Flags::COMPACTION));
        for q in pending.others.iter_mut().chain(&mut pending.results) {
            q.measured.flags = q.measured.flags.with(Flags::FOLDED);
        }
    }

    /// Results of the last response that is kept stay: its calls need them. A compaction that no request saw
    /// goes with the responses before it.
    fn rewind(&mut self, keep_responses: u32) {
        let keep = keep_responses as usize;
        if keep == 0 || keep < self.draft.steps.len() {
            self.open.clear();
            self.pending.results.clear();
            self.pending.compacted = false;
        }
        let from = match self.draft.steps.get(keep) {
            Some(step) if keep > 0 => step.input.start + self.results_of_step[keep],
            Some(_) => 0,
            None => self.draft.next_block(),
        };
        self.drop_from(from, DropReason::Rewind);
    }

    /// Drops what is left of the conversation from block `from` on: an event for each run, so that what
    /// is gone already is not gone over again.
    fn drop_from(&mut self, from: u32, reason: DropReason) {
        self.pending.others.clear();
        self.pending.has_prompt = false;
        let end = self.draft.next_block();
        self.live.push(self.live_from..end);
        self.live_from = end;
        let mut dropped = Vec::new();
        while let Some(mut run) = self.live.pop_if(|run| run.end > from || run.start >= run.end) {
            let first = run.start.max(from);
            if first < run.end {
                dropped.push(first..run.end);
            }
            run.end = first;
            if run.start < run.end {
                self.live.push(run);
                break;
            }
        }
        for run in dropped.into_iter().rev() {
            self.pending.dropped = true;
            self.push_event(EventKind::BlocksDropped { from: run.start, to: run.end, reason });
        }
    }
}
