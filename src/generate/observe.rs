//! What the parameters of a profile are in a session, so that a profile can be fitted to it.
//!
//! The session is looked at without the blocks that recorded compactions injected: they are the agent's doing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::session::{BlockKind, EventKind, Flags, Session, Step};

/// Requests of each session: no parameter, but what a profile is checked on.
pub const REQUESTS: &str = "requests";
/// Tokens of each session's conversation: as [`REQUESTS`].
pub const SESSION_TOKENS: &str = "session_tokens";

/// Shorter texts say little about characters per token.
const DENSITY_MIN_TOKENS: u32 = 20;

/// Values of parameters, by name: everything that was seen, in the order of the sessions. A chance is seen as 0s and 1s.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// Number of sessions.
    pub sessions: usize,
    /// By parameter.
    pub values: BTreeMap<&'static str, Vec<f64>>,
    /// Calls by tool.
    pub tools: BTreeMap<String, u64>,
    /// Sessions by model.
    pub models: BTreeMap<String, u64>,
}

impl Observations {
    /// What is in `sessions`.
    pub fn of<'s>(sessions: impl IntoIterator<Item = &'s Session>) -> Observations {
        let mut seen = Observations::default();
        for session in sessions {
            Observer { session, seen: &mut seen, earlier_calls: BTreeSet::new() }.observe();
        }
        seen
    }

    /// Values of a parameter, [`REQUESTS`] or [`SESSION_TOKENS`].
    pub fn of_name(&self, name: &str) -> &[f64] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, name: &'static str, value: f64) {
        self.values.entry(name).or_default().push(value);
    }

    fn chance(&mut self, name: &'static str, happened: bool) {
        self.add(name, f64::from(u8::from(happened)));
    }
}

struct Observer<'a> {
    session: &'a Session,
    seen: &'a mut Observations,
    earlier_calls: BTreeSet<u64>,
}

impl Observer<'_> {
    #[expect(clippy::cast_precision_loss, reason = "sizes of sessions are far below 2^53")]
    fn observe(&mut self) {
        let session = self.session;
        self.seen.sessions += 1;
        *self.seen.models.entry(session.model.clone()).or_default() += 1;
        self.turns();
        self.times();
        self.prefix();
        for step in &session.steps {
            self.input(step);
            self.output(step.output.clone());
        }
        self.compactions();
        let own = |i: &usize| !session.blocks.flags[*i].has(Flags::COMPACTION);
        let tokens: u64 =
            (0..session.blocks.len()).filter(own).map(|i| u64::from(session.blocks.tokens[i])).sum();
        self.seen.add(REQUESTS, session.steps.len() as f64);
        self.seen.add(SESSION_TOKENS, tokens as f64);
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of requests are far below 2^53")]
    fn turns(&mut self) {
        let steps = &self.session.steps;
        let starts = |i: &usize| *i == 0 || steps[*i].human_turn;
        let mut begins: Vec<usize> = (0..steps.len()).filter(starts).collect();
        self.seen.add("turns", begins.len() as f64);
        begins.push(steps.len());
        for turn in begins.windows(2) {
            self.seen.add("steps_per_turn", (turn[1] - turn[0] - 1) as f64);
        }
    }

    fn times(&mut self) {
        let seconds = |ms: i64| f64::from(i32::try_from(ms.max(0)).unwrap_or(i32::MAX)) / 1_000.0;
        let mut ended_ms = None;
        for step in &self.session.steps {
            let Some(start_ms) = step.start_ms else { return };
            if let Some(ended_ms) = ended_ms {
                let name = if step.human_turn { "human_wait_s" } else { "tool_latency_s" };
                self.seen.add(name, seconds(start_ms - ended_ms));
            }
            if step.duration_ms > 0 {
                self.seen.add("generation_s", f64::from(step.duration_ms) / 1_000.0);
            }
            ended_ms = Some(start_ms + i64::from(step.duration_ms));
        }
    }

    fn prefix(&mut self) {
        if self.session.prefix_is_measured {
            let prefix = &self.session.prefix;
            for (name, blocks) in [
                ("tools_tokens", &prefix.tools),
                ("system_tokens", &prefix.system),
                ("injected_tokens", &prefix.injected),
            ] {
                // A sum of nothing is −0.
                self.seen.add(name, blocks.iter().map(|b| f64::from(b.tokens)).fold(0.0, |sum, n| sum + n));
            }
        }
    }

    fn input(&mut self, step: &Step) {
        let blocks = &self.session.blocks;
        let (mut results, mut said, mut injected) = (None, None, None);
        let mut has_image = false;
        for i in step.input.start as usize..step.input.end as usize {
            let (flags, tokens) = (blocks.flags[i], f64::from(blocks.tokens[i]));
            match blocks.kind[i] {
                _ if flags.has(Flags::COMPACTION) => {}
                BlockKind::ToolResult => *results.get_or_insert(0.0) += self.result(i),
                BlockKind::Image => {
                    has_image = true;
                    self.seen.add("image_tokens", tokens);
                }
                _ if flags.has(Flags::INJECTED) => *injected.get_or_insert(0.0) += tokens,
                _ => *said.get_or_insert(0.0) += tokens,
            }
            self.text(i);
        }
        results.into_iter().for_each(|tokens| self.seen.add("result_tokens", tokens));
        said.into_iter().for_each(|tokens| self.seen.add("user_tokens", tokens));
        injected.into_iter().for_each(|tokens| self.seen.add("reminder_tokens", tokens));
        self.seen.chance("reminder_chance", injected.is_some());
        if step.human_turn {
            self.seen.chance("user_image_chance", has_image);
        }
    }

    /// Tokens of a result, its images left out.
    fn result(&mut self, i: usize) -> f64 {
        let blocks = &self.session.blocks;
        let parts = u32::try_from(i).ok().and_then(|block| self.session.parts_of(block));
        let image_tokens = parts.map_or(0, |parts| parts.image_tokens);
        self.seen.chance("error_chance", blocks.flags[i].has(Flags::ERROR));
        self.seen.chance("image_chance", image_tokens > 0);
        if let Some(parts) = parts.filter(|parts| parts.images > 0) {
            self.seen.add("image_tokens", f64::from(parts.image_tokens) / f64::from(parts.images));
        }
        if blocks.lines[i] > 1 {
            self.seen.add("line_utf16", f64::from(blocks.utf16[i]) / f64::from(blocks.lines[i] - 1));
        }
        f64::from(blocks.tokens[i].saturating_sub(image_tokens))
    }

    /// How a text is written.
    fn text(&mut self, i: usize) {
        let blocks = &self.session.blocks;
        let usual = self.session.tokenizer.coefficients();
        let milli = match blocks.kind[i] {
            BlockKind::ToolResult => usual.tool_result_milli,
            BlockKind::UserText | BlockKind::AssistantText => usual.text_milli,
            _ => return,
        };
        let has_parts = u32::try_from(i).is_ok_and(|block| self.session.parts_of(block).is_some());
        let (tokens, utf16) = (blocks.tokens[i], f64::from(blocks.utf16[i]));
        if has_parts || tokens < DENSITY_MIN_TOKENS || blocks.utf16[i] == 0 {
            return;
        }
        self.seen.add("density", utf16 * f64::from(milli) / (1_000.0 * f64::from(tokens)));
        let escapes = f64::from(blocks.json_utf16[i]) - utf16 - f64::from(blocks.lines[i].saturating_sub(1));
        self.seen.add("escape_share", escapes.max(0.0) / utf16);
        self.seen.add("non_ascii_share", (1.0 - f64::from(blocks.ascii[i]) / utf16).max(0.0));
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of calls are far below 2^53")]
    fn output(&mut self, output: Range<u32>) {
        let blocks = &self.session.blocks;
        let (mut thinking, mut text, mut in_calls) = (0.0, 0.0, 0.0);
        let mut calls = 0_usize;
        for i in output.start as usize..output.end as usize {
            let tokens = f64::from(blocks.tokens[i]);
            match blocks.kind[i] {
                BlockKind::Thinking => thinking += tokens,
                BlockKind::ToolUse => {
                    in_calls += tokens;
                    calls += 1;
                    self.call(i);
                }
                _ => text += tokens,
            }
            self.text(i);
        }
        let total = thinking + text + in_calls;
        if total == 0.0 {
            return;
        }
        self.seen.add("output_tokens", total);
        self.seen.chance("thinking_chance", thinking > 0.0);
        if thinking > 0.0 {
            self.seen.add("thinking_share", thinking / total);
        }
        if calls > 0 {
            self.seen.add("calls_per_step", calls as f64);
            self.seen.add("text_share", text / (text + in_calls).max(1.0));
        }
    }

    fn call(&mut self, i: usize) {
        let blocks = &self.session.blocks;
        let is_new = self.earlier_calls.insert(blocks.hash[i]);
        self.seen.chance("repeat_chance", !is_new);
        if let Some(tool) = self.session.tools.get(blocks.tool[i] as usize) {
            *self.seen.tools.entry(tool.name.clone()).or_default() += 1;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of tokens are far below 2^53")]
    fn compactions(&mut self) {
        let session = self.session;
        for event in &session.events {
            if let EventKind::RecordedCompaction { automatic: true, pre_tokens: Some(tokens), .. } =
                event.kind
            {
                self.seen.add("compact_above_tokens", tokens as f64);
            }
        }
        for step in &session.steps {
            let input = step.input.start as usize..step.input.end as usize;
            let left = input.filter(|i| session.blocks.flags[*i].has(Flags::COMPACTION));
            let tokens: f64 = left.map(|i| f64::from(session.blocks.tokens[i])).sum();
            if tokens > 0.0 {
                self.seen.add("compact_to_tokens", tokens);
            }
        }
    }
}
