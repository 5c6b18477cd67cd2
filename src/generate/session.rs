//! One session drawn from a profile.
//!
//! A turn is the user's message and as many further requests as drawn, each with the results of the calls in the answer
//! before it. Where the recording agent's prompt would grow above `compact_above_tokens` it compacts, as recordings have
//! it: both replays, with and without, are in the session ([`crate::session::view`]).
//!
//! # Divergence from the real API
//!
//! - Draws are independent: a long wait is not followed by a longer message, an error not by the same call again, and a
//!   session's turns do not resemble each other more than those of others (but for `growth_scale`).
//! - Nothing happens but turns and compactions: no change of tools, system prompt or model, no rewind, no resume.
//! - No usage is recorded, since no provider was asked.

use std::ops::Range;

use super::write::{self, Writer};
use super::{Dist, Profile, sample};
use crate::seed::{self, Stream};
use crate::session::{Block, BlockKind, EventKind, Facts, Flags, ResultParts, Session, Step};
use crate::tokens::apportion;

/// A session ends at this many requests, whatever is drawn.
pub const MAX_STEPS: usize = 100_000;

/// Calls of an answer, whatever is drawn.
const MAX_CALLS: u32 = 10_000;

/// Ten days: so many for every request of the longest session still end before the year 9999.
const MAX_WAIT_MS: u32 = 864_000_000;

/// Time that `start_s` counts from: 2026-01-05 00:00 UTC, a Monday.
pub const START_MS: i64 = 1_767_571_200_000;

/// Draws of one parameter in one session.
#[derive(Debug)]
struct Sampler<'p> {
    dist: &'p Dist,
    range: (f64, f64),
    rng: Stream,
    drawn: usize,
}

impl<'p> Sampler<'p> {
    /// `name` is one of [`PARAMETERS`], all of which a checked profile has.
    fn new(profile: &'p Profile, name: &str, root_seed: u64, index: u64) -> Sampler<'p> {
        let at = profile.params.iter().position(|p| p.name == name).unwrap_or_default();
        let param = &profile.params[at];
        let rng = seed::stream(root_seed, &format!("generate/{name}"), &[index]);
        Sampler { dist: &param.value, range: param.range, rng, drawn: 0 }
    }

    fn value(&mut self) -> f64 {
        let value = self.dist.draw(&mut self.rng, self.drawn);
        self.drawn += 1;
        value.max(self.range.0).min(self.range.1)
    }

    fn count(&mut self) -> u32 {
        whole(self.value())
    }

    /// Seconds as milliseconds.
    fn ms(&mut self) -> i64 {
        i64::from(whole(self.value() * 1_000.0).min(MAX_WAIT_MS))
    }

    fn happens(&mut self) -> bool {
        let chance = self.value();
        sample::unit(&mut self.rng) < chance
    }
}

/// The nearest whole number, half up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast stops at both ends of u32"
)]
fn whole(value: f64) -> u32 {
    (value + 0.5).floor() as u32
}

macro_rules! parameters {
    ($($name:ident),* $(,)?) => {
        /// Every parameter of a profile.
        pub const PARAMETERS: &[&str] = &[$(stringify!($name)),*];

        /// A stream of draws for each of [`PARAMETERS`].
        struct Samplers<'p> { $($name: Sampler<'p>,)* }

        impl<'p> Samplers<'p> {
            fn new(profile: &'p Profile, root_seed: u64, index: u64) -> Samplers<'p> {
                Samplers { $($name: Sampler::new(profile, stringify!($name), root_seed, index),)* }
            }
        }
    };
}

parameters! {
    turns, steps_per_turn, human_wait_s, tool_latency_s, generation_s, start_s,
    tools_tokens, system_tokens, injected_tokens, user_tokens, result_tokens, result_utf16, output_tokens, growth_scale,
    calls_per_step, text_share, thinking_chance, thinking_share, repeat_chance, error_chance,
    reminder_chance, reminder_tokens,
    image_chance, user_image_chance, image_tokens,
    density, line_utf16, escape_share, non_ascii_share,
    compact_above_tokens, compact_to_tokens,
}

/// The id of a session: unique over profiles, seeds and sessions.
pub fn session_id(profile: &Profile, root_seed: u64, index: u64) -> String {
    format!("{}-{root_seed}-{index:06}", profile.name)
}

/// Session `index` (from 0) of a profile.
pub fn session(profile: &Profile, root_seed: u64, index: u64) -> Session {
    let mut draws = Samplers::new(profile, root_seed, index);
    let prefix = [draws.tools_tokens.count(), draws.system_tokens.count(), draws.injected_tokens.count()];
    let mut generator = Generator {
        growth: draws.growth_scale.value(),
        compact_above_tokens: u64::from(draws.compact_above_tokens.count()),
        tool_rng: seed::stream(root_seed, "generate/tools", &[index]),
        share_rng: seed::stream(root_seed, "generate/shares", &[index]),
        writer: Writer::new(
            profile,
            session_id(profile, root_seed, index),
            prefix,
            content_seed(profile, root_seed, index),
        ),
        prefix_tokens: prefix.iter().map(|tokens| u64::from(*tokens)).sum(),
        conversation_tokens: 0,
        open: Vec::new(),
        made: Vec::new(),
        weights: profile.tools.iter().map(|(_, weight)| *weight).collect(),
        draws,
    };
    generator.run();
    generator.writer.finish()
}

fn content_seed(profile: &Profile, root_seed: u64, index: u64) -> u64 {
    seed::derive(root_seed, &format!("generate/content/{}", profile.name), &[index])
}

/// A result and the parts of it, where it is not one plain text.
type ResultRow = (Block, Option<ResultParts>);

/// A call that the next input answers.
#[derive(Debug, Clone, Copy)]
struct Open {
    block: Block,
    /// Index into [`Generator::made`] of the call that it repeats.
    repeats: Option<usize>,
}

struct Generator<'p> {
    draws: Samplers<'p>,
    tool_rng: Stream,
    /// How results share their tokens.
    share_rng: Stream,
    weights: Vec<f64>,
    writer: Writer,
    growth: f64,
    compact_above_tokens: u64,
    prefix_tokens: u64,
    /// What the recording agent, which compacts, has behind the prefix.
    conversation_tokens: u64,
    open: Vec<Open>,
    /// Answered calls.
    made: Vec<(Block, ResultRow)>,
}

impl Generator<'_> {
    fn run(&mut self) {
        let mut ended_ms = START_MS + self.draws.start_s.ms();
        for turn in 0..self.draws.turns.count() {
            let further = self.draws.steps_per_turn.count();
            for step in 0..=further {
                if self.writer.session.steps.len() == MAX_STEPS {
                    return;
                }
                let wait_ms = match (turn, step) {
                    (0, 0) => 0,
                    (_, 0) => self.draws.human_wait_s.ms(),
                    _ => self.draws.tool_latency_s.ms(),
                };
                let start_ms = ended_ms + wait_ms;
                ended_ms = start_ms + self.step(start_ms, step == 0, step < further);
            }
        }
    }

    /// Adds a request and gives the time it takes.
    fn step(&mut self, start_ms: i64, human_turn: bool, with_calls: bool) -> i64 {
        let input = self.input(human_turn);
        let (output, output_tokens) = self.output(with_calls);
        let duration_ms = self.draws.generation_s.ms();
        self.writer.session.steps.push(Step {
            input,
            output,
            start_ms: Some(start_ms),
            duration_ms: u32::try_from(duration_ms).unwrap_or(u32::MAX),
            tail_tokens: 0,
            tail_hash: 0,
            output_tokens,
            human_turn,
            recorded: None,
            facts: Facts::default(),
        });
        duration_ms
    }

    /// A number of tokens, scaled as this session's are.
    fn scaled(&self, tokens: f64) -> u32 {
        whole(tokens * self.growth).clamp(1, write::MAX_BLOCK_TOKENS)
    }

    /// Results first, then what a compaction left, what the user says, and what the client injects.
    fn input(&mut self, human_turn: bool) -> Range<u32> {
        let mut results = self.results();
        let said = self.user_message(human_turn);
        let tokens =
            |blocks: &mut dyn Iterator<Item = &Block>| blocks.map(|b| u64::from(b.tokens)).sum::<u64>();
        let said_tokens = tokens(&mut said.iter());
        let new_tokens = tokens(&mut results.iter().map(|(block, _)| block)) + said_tokens;
        let summary = self.compaction(new_tokens);
        self.conversation_tokens = match &summary {
            Some(summary) => u64::from(summary.tokens) + said_tokens,
            None => self.conversation_tokens + new_tokens,
        };
        if summary.is_some() {
            results.iter_mut().for_each(|(block, _)| block.flags = block.flags.with(Flags::FOLDED));
        }
        let start = self.writer.len();
        for (result, parts) in results {
            self.writer.push(result, parts);
            self.writer.end_message();
        }
        if let Some(summary) = summary {
            self.writer.push(summary, None);
            self.writer.end_message();
        }
        let any_said = !said.is_empty();
        said.into_iter().for_each(|block| self.writer.push(block, None));
        if any_said {
            self.writer.end_message();
        }
        start..self.writer.len()
    }

    /// The summary, where the recording agent compacts before this request.
    fn compaction(&mut self, new_tokens: u64) -> Option<Block> {
        let (above, conversation) = (self.compact_above_tokens, self.conversation_tokens);
        let prompt = self.prefix_tokens + conversation + new_tokens;
        if above == 0 || prompt <= above {
            return None;
        }
        let left = self.draws.compact_to_tokens.count();
        // What is there is no more than what would be left of it.
        if conversation <= u64::from(left) {
            return None;
        }
        let pre_tokens = Some(self.prefix_tokens + conversation);
        let kind = EventKind::RecordedCompaction { automatic: true, pre_tokens, post_tokens: None };
        self.writer.event(kind);
        let mut block = self.text(BlockKind::UserText, left);
        block.flags = Flags::INJECTED.with(Flags::COMPACTION);
        Some(block)
    }

    fn user_message(&mut self, human_turn: bool) -> Vec<Block> {
        let mut blocks = Vec::new();
        if human_turn {
            if self.draws.user_image_chance.happens() {
                blocks.push(write::image(self.draws.image_tokens.count()));
            }
            let tokens = self.draws.user_tokens.value();
            blocks.push(self.text(BlockKind::UserText, self.scaled(tokens)));
        }
        if self.draws.reminder_chance.happens() {
            let tokens = self.draws.reminder_tokens.count();
            let mut block = self.text(BlockKind::UserText, tokens);
            block.flags = Flags::INJECTED;
            blocks.push(block);
        }
        blocks
    }

    /// Results of all open calls.
    fn results(&mut self) -> Vec<ResultRow> {
        let open = std::mem::take(&mut self.open);
        let mut shares = self.shares(open.iter().filter(|call| call.repeats.is_none()).count()).into_iter();
        let mut rows = Vec::with_capacity(open.len());
        for call in &open {
            let (mut block, mut parts) = match call.repeats {
                Some(earlier) => self.made[earlier].1,
                None => self.result(shares.next().unwrap_or(1)),
            };
            (block.tool, block.call) = (call.block.tool, call.block.call);
            if call.repeats.is_none() {
                parts = self.draws.image_chance.happens().then(|| self.add_image(&mut block));
            }
            rows.push((block, parts));
        }
        for (call, row) in open.iter().zip(&mut rows) {
            // Contents are told apart once they stand in the session; a repeated one has been.
            if call.repeats.is_none() {
                row.0.hash = self.writer.new_hash();
                self.made.push((call.block, *row));
            }
        }
        rows
    }

    /// How `fresh` results share their tokens: each weight is exponential, so one often has most.
    fn shares(&mut self, fresh: usize) -> Vec<u32> {
        if fresh == 0 {
            return Vec::new();
        }
        let tokens = self.draws.result_tokens.value();
        let total = u64::from(self.scaled(tokens));
        let rng = &mut self.share_rng;
        let weights: Vec<u64> = match fresh {
            1 => vec![1],
            _ => (0..fresh).map(|_| u64::from(whole(-1_000.0 * libm::log(sample::unit(rng)))) + 1).collect(),
        };
        apportion(total, &weights).into_iter().map(|t| u32::try_from(t).unwrap_or(u32::MAX)).collect()
    }

    fn result(&mut self, share: u32) -> ResultRow {
        let utf16 = self.draws.result_utf16.count();
        let mut block = match utf16 {
            0 => self.text(BlockKind::ToolResult, share),
            _ => self.text_of_utf16(BlockKind::ToolResult, utf16),
        };
        if self.draws.error_chance.happens() {
            block.flags = Flags::ERROR;
        }
        (block, None)
    }

    fn add_image(&mut self, block: &mut Block) -> ResultParts {
        let image_tokens = self.draws.image_tokens.count();
        block.tokens = block.tokens.saturating_add(image_tokens);
        let image_base64_chars = write::base64_chars(image_tokens);
        ResultParts { block: 0, texts: 1, images: 1, image_base64_chars, image_tokens }
    }

    /// The answer, and its tokens.
    fn output(&mut self, with_calls: bool) -> (Range<u32>, u32) {
        let start = self.writer.len();
        let tokens = self.draws.output_tokens.value();
        let total = self.scaled(tokens);
        let mut visible = total;
        if self.draws.thinking_chance.happens() {
            let thinking = whole(f64::from(total) * self.draws.thinking_share.value()).min(total - 1);
            visible -= thinking;
            self.thinking(thinking);
        }
        match with_calls {
            true => self.text_and_calls(visible),
            false => {
                let block = self.text(BlockKind::AssistantText, visible);
                self.writer.push_new(block);
            }
        }
        self.writer.end_message();
        let end = self.writer.len();
        let blocks = &self.writer.session.blocks.tokens[start as usize..end as usize];
        // Not `total`: a repeated call has the length that it had before.
        let written: u64 = blocks.iter().map(|tokens| u64::from(*tokens)).sum();
        self.conversation_tokens += written;
        (start..end, u32::try_from(written).unwrap_or(u32::MAX))
    }

    fn thinking(&mut self, tokens: u32) {
        if tokens > 0 {
            let mut block = self.text(BlockKind::Thinking, tokens);
            block.flags = Flags::SIGNED;
            block.json_utf16 = block.json_utf16.saturating_add(write::signature_chars(tokens));
            self.writer.push_new(block);
        }
    }

    fn text_and_calls(&mut self, visible: u32) {
        let text = whole(f64::from(visible) * self.draws.text_share.value()).min(visible);
        if text > 0 {
            let block = self.text(BlockKind::AssistantText, text);
            self.writer.push_new(block);
        }
        let calls = self.draws.calls_per_step.count().clamp(1, MAX_CALLS);
        for tokens in apportion(u64::from(visible - text), &vec![1; calls as usize]) {
            let repeats = self.repeated();
            let mut block = match repeats {
                Some(earlier) => self.made[earlier].0,
                None => self.call(u32::try_from(tokens).unwrap_or(u32::MAX)),
            };
            block.call = self.writer.new_call();
            self.writer.push(block, None);
            self.open.push(Open { block, repeats });
        }
    }

    /// The call that the next one repeats, if it repeats any.
    fn repeated(&mut self) -> Option<usize> {
        if !self.draws.repeat_chance.happens() {
            return None;
        }
        let at = seed::below(&mut self.draws.repeat_chance.rng, self.made.len() as u64);
        usize::try_from(at).ok().filter(|at| *at < self.made.len())
    }

    fn call(&mut self, tokens: u32) -> Block {
        let mut block = self.text(BlockKind::ToolUse, tokens);
        block.hash = self.writer.new_hash();
        block.tool = self.tool();
        // `key=json` is a little shorter than the same arguments as JSON.
        block.args_utf16 = block.utf16 - block.utf16 / 20;
        block
    }

    fn tool(&mut self) -> u32 {
        let mut left = sample::unit(&mut self.tool_rng) * self.weights.iter().sum::<f64>();
        let at = self.weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        u32::try_from(at.unwrap_or(self.weights.len() - 1)).unwrap_or(0)
    }

    /// A text of so many tokens.
    fn text(&mut self, kind: BlockKind, tokens: u32) -> Block {
        let density = self.draws.density.value();
        let utf16 = whole(f64::from(tokens) * 1_000.0 * density / self.writer.milli(kind));
        self.measured(kind, tokens, utf16)
    }

    /// A text of so many characters.
    fn text_of_utf16(&mut self, kind: BlockKind, utf16: u32) -> Block {
        let density = self.draws.density.value();
        let tokens = whole(f64::from(utf16) * self.writer.milli(kind) / 1_000.0 / density);
        self.measured(kind, tokens.clamp(1, write::MAX_BLOCK_TOKENS), utf16)
    }

    fn measured(&mut self, kind: BlockKind, tokens: u32, utf16: u32) -> Block {
        let line_feeds = whole(f64::from(utf16) / self.draws.line_utf16.value());
        let escapes = whole(f64::from(utf16) * self.draws.escape_share.value());
        let others = whole(f64::from(utf16) * self.draws.non_ascii_share.value());
        let mut block = write::plain(kind, tokens, utf16);
        block.lines = if utf16 == 0 { 0 } else { 1 + line_feeds };
        // In arguments, which are JSON already, nothing more is escaped.
        if kind != BlockKind::ToolUse {
            block.json_utf16 = utf16.saturating_add(line_feeds).saturating_add(escapes);
        }
        block.bytes = utf16.saturating_add(others.saturating_mul(2));
        block.ascii = utf16.saturating_sub(others);
        block
    }
}
