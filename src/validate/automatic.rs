//! Closed loop where the provider caches by itself.
//!
//! Such caches hold whole blocks: a read is a multiple of 128 tokens, or lies on one of the coarser grids that
//! newer models show; some providers and gateways round nothing. It covers as much of the previous prompt, or of that and its answer, as the grid holds,
//! a few trailing tokens left out. Which grid, which end and how many tokens is chosen anew at each request,
//! from the earlier pairs of the recording on the same model: what would have been exact most often. The mode
//! is predicted, never a draw.
//!
//! # Divergence from the real API
//!
//! Reuse is a matter of chance: the same request may land on a machine that holds less. Nothing here tells
//! when.

use super::Guess;
use super::account::Request;
use crate::provider::cache_spec::Grid;
use crate::usage::Usage;

/// A grid, and the weight of its being coarse: that reads lie on it is the less an accident.
#[derive(Debug, Clone, Copy)]
struct GridOf {
    grid: Grid,
    coarse: i64,
}

const fn grid_of(step_tokens: u64, offset_tokens: u64, coarse: i64) -> GridOf {
    GridOf { grid: Grid { step_tokens, offset_tokens }, coarse }
}

/// The grids that recordings show; the last one rounds nothing.
const GRIDS: [GridOf; 5] =
    [grid_of(128, 0, 0), grid_of(512, 128, 1), grid_of(512, 0, 1), grid_of(1024, 256, 2), grid_of(1, 0, -1)];
/// Most trailing tokens that are left out.
const TAIL_MAX: usize = 130;
/// Weight of one exact pair in the choice, against the preferences below.
const HIT: i64 = 20;
/// A coarser grid that (nearly) every read lies on is no accident; one that they do not lie on is wrong.
const FITS: i64 = 10;
const FITS_NOT: i64 = -100;
const FITS_UNSEEN: i64 = -2;
/// Answers are cached less often than prompts.
const WITH_ANSWER: i64 = -5;
/// Share of the reads that must lie on a grid, in percent.
const ON_GRID_PERCENT: u64 = 90;

/// Exact pairs so far, of one grid and one end, by the trailing tokens left out.
#[derive(Debug, Clone, Copy)]
struct Score {
    /// Index into [`GRIDS`].
    grid: usize,
    with_answer: bool,
    hits: [u32; TAIL_MAX + 1],
}

impl Score {
    fn end(&self, before: &Usage) -> u64 {
        before.prompt_tokens() + if self.with_answer { before.output_tokens } else { 0 }
    }

    fn read(&self, before: &Usage, tail: u64, prompt_tokens: u64) -> u64 {
        GRIDS[self.grid].grid.floor(self.end(before).saturating_sub(tail)).min(prompt_tokens)
    }

    fn best(&self) -> u32 {
        self.hits.iter().copied().max().unwrap_or(0)
    }

    /// The middle one of the tails that were exact most often.
    fn tail(&self) -> u64 {
        let best = self.best();
        let tails: Vec<u64> =
            (0..).zip(&self.hits).filter(|(_, hits)| **hits == best).map(|(k, _)| k).collect();
        tails[tails.len() / 2]
    }

    fn see(&mut self, before: &Usage, now: &Usage) {
        for tail in 0..=TAIL_MAX {
            let is_exact = self.read(before, tail as u64, now.prompt_tokens()) == now.cache_read_tokens;
            self.hits[tail] += u32::from(is_exact);
        }
    }
}

/// What the earlier pairs of a recording tell.
struct Choice {
    scores: Vec<Score>,
    /// Reads so far that were not 0.
    reads: u64,
    /// How many of them each of [`GRIDS`] holds.
    on_grid: [u64; GRIDS.len()],
}

impl Choice {
    fn new() -> Choice {
        let scores = (0..GRIDS.len()).flat_map(|grid| {
            [false, true].map(|with_answer| Score { grid, with_answer, hits: [0; TAIL_MAX + 1] })
        });
        Choice { scores: scores.collect(), reads: 0, on_grid: [0; GRIDS.len()] }
    }

    /// Of equals the finer grid, and the prompt alone.
    fn best(&self) -> Option<&Score> {
        let mut best: Option<(i64, &Score)> = None;
        for score in &self.scores {
            let worth = i64::from(score.best()) * HIT
                + self.preference(score.grid)
                + if score.with_answer { WITH_ANSWER } else { 0 };
            if best.is_none_or(|(most, _)| worth > most) {
                best = Some((worth, score));
            }
        }
        best.map(|(_, score)| score)
    }

    fn preference(&self, grid: usize) -> i64 {
        let fits = |i: usize| self.on_grid[i] * 100 >= self.reads * ON_GRID_PERCENT;
        match GRIDS[grid].coarse {
            0 => 0,
            _ if self.reads == 0 => FITS_UNSEEN,
            -1 if fits(0) => FITS_NOT,
            -1 => 0,
            coarse if fits(grid) => FITS * coarse,
            _ => FITS_NOT,
        }
    }

    fn see_read(&mut self, usage: &Usage) {
        let read = usage.cache_read_tokens;
        if read > 0 {
            self.reads += 1;
            for (count, grid) in self.on_grid.iter_mut().zip(GRIDS) {
                *count += u64::from(grid.grid.holds(read));
            }
        }
    }
}

/// Predicts every request but the first.
pub(super) fn predict(requests: &[Request<'_>]) -> Vec<Guess> {
    let mut choice = Choice::new();
    if let Some(first) = requests.first() {
        choice.see_read(&first.usage);
    }
    let mut guesses = Vec::with_capacity(requests.len());
    for two in requests.windows(2) {
        let (before, now) = (&two[0], &two[1]);
        if now.model != before.model {
            choice = Choice::new();
        }
        let prompt_tokens = now.usage.prompt_tokens();
        let read = choice.best().map_or(0, |score| score.read(&before.usage, score.tail(), prompt_tokens));
        guesses.push(Guess { usage: usage_of(&now.usage, read), rule: None });
        for score in &mut choice.scores {
            score.see(&before.usage, &now.usage);
        }
        choice.see_read(&now.usage);
    }
    guesses
}

/// What is not read is plain input, or a write where the provider reports writes.
fn usage_of(recorded: &Usage, read_tokens: u64) -> Usage {
    let rest = recorded.prompt_tokens() - read_tokens;
    let writes = recorded.cache_write_tokens() > 0;
    let uncached = if writes { recorded.uncached_tokens.min(rest) } else { rest };
    Usage {
        uncached_tokens: uncached,
        cache_read_tokens: read_tokens,
        cache_write_5m_tokens: rest - uncached,
        cache_write_1h_tokens: 0,
        output_tokens: recorded.output_tokens,
    }
}
