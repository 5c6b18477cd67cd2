//! Open loop: the size of prompts from the first one of a run and the sizes of what was said since.
//!
//! A run is unbroken while no compaction is marked and the prompt does not fall by more than
//! [`FALL_TOKENS`]; shorter runs than [`MIN_REQUESTS`] tell little and are left out. Within a run nothing
//! that was billed is used but the first prompt.

use super::account::requests;
use super::fit::{Coefficients, FEATURES, Fits, Row, Sums};
use crate::audit::{Account, Signs};
use crate::session::roles::Role;
use crate::session::{BlockKind, Flags, NONE, Session};

/// Fewest requests of a run.
pub const MIN_REQUESTS: usize = 5;
/// A prompt that falls by more begins another run.
pub const FALL_TOKENS: u64 = 200;
/// Tokens of an image of its own, of whose size a session keeps nothing (docs/decisions.md 5).
const IMAGE_TOKENS: i64 = 1_500;

/// The end of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnd {
    /// Requests of the run.
    pub requests: u64,
    /// Prompt of its last request, as billed.
    pub prompt_tokens: u64,
    /// The same, as predicted.
    pub predicted_tokens: u64,
}

/// How well prompts were predicted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenLoop {
    /// Ends of all runs, in order.
    pub ends: Vec<RunEnd>,
    /// Error of every request but the first of each run, in millionths of its prompt.
    pub error_micros: Vec<u64>,
}

impl OpenLoop {
    /// Errors at the ends of runs, in millionths of the prompt.
    pub fn final_error_micros(&self) -> impl Iterator<Item = u64> + '_ {
        self.ends
            .iter()
            .map(|end| micros(end.prompt_tokens.abs_diff(end.predicted_tokens), end.prompt_tokens))
    }
}

impl Sums {
    /// The sums of one recording.
    pub fn of(session: &Session) -> Sums {
        let mut sums = Sums::default();
        for run in runs(session) {
            for two in run.windows(2) {
                let grown = signed(two[1].1) - signed(two[0].1);
                sums.add(&row(session, two[1].0), grown, session.tokenizer);
            }
        }
        sums
    }
}

/// Predicts every run of a recording.
pub(super) fn evaluate(session: &Session, fits: &Fits) -> OpenLoop {
    let coefficients: Coefficients = fits.without(session, &Sums::of(session));
    let mut open_loop = OpenLoop::default();
    for run in runs(session) {
        let Some((_, first_tokens)) = run.first() else { continue };
        let mut predicted_tokens = *first_tokens;
        for (step, prompt_tokens) in &run[1..] {
            predicted_tokens += coefficients.tokens(&row(session, *step));
            open_loop.error_micros.push(micros(predicted_tokens.abs_diff(*prompt_tokens), *prompt_tokens));
        }
        if let Some((_, prompt_tokens)) = run.last() {
            open_loop.ends.push(RunEnd {
                requests: run.len() as u64,
                prompt_tokens: *prompt_tokens,
                predicted_tokens,
            });
        }
    }
    open_loop
}

/// Unbroken runs: index of the step, and its prompt.
fn runs(session: &Session) -> Vec<Vec<(usize, u64)>> {
    let mut runs: Vec<Vec<(usize, u64)>> = vec![Vec::new()];
    let account = Account::of_session(session);
    for request in requests(session, &account) {
        let (step, prompt_tokens) = (request.number as usize - 1, request.usage.prompt_tokens());
        let last = runs.last().and_then(|run| run.last()).copied();
        let breaks = last.is_some_and(|(before, tokens)| {
            let is_compacted = request.signs.any(Signs::COMPACTION);
            before + 1 != step || is_compacted || prompt_tokens + FALL_TOKENS < tokens
        });
        if breaks {
            runs.push(Vec::new());
        }
        if let Some(run) = runs.last_mut() {
            run.push((step, prompt_tokens));
        }
    }
    runs.retain(|run| run.len() >= MIN_REQUESTS);
    runs
}

/// What a step adds to the prompt before it: the answer to that, and its own input.
fn row(session: &Session, step: usize) -> Row {
    let mut features = [0_i64; FEATURES];
    let [request, text, call_units, calls, signature, result, read_result] = &mut features;
    let facts = &session.steps[step].facts;
    let references = i64::from(facts.loaded_tools) * i64::from(session.tokenizer.tool_reference_tokens());
    let mut fixed_tokens = references;
    *request = 1;
    let blocks = &session.blocks;
    for i in session.steps[step - 1].output.clone().chain(session.steps[step].input.clone()) {
        let at = i as usize;
        if blocks.flags[at].has(Flags::COMPACTION) || blocks.flags[at].has(Flags::FOLDED) {
            continue;
        }
        let units = i64::from(blocks.utf16[at]);
        match blocks.kind[at] {
            BlockKind::UserText | BlockKind::AssistantText => *text += units,
            BlockKind::ToolUse => {
                *call_units += units;
                *calls += 1;
            }
            BlockKind::Thinking if units == 0 => *signature += i64::from(blocks.json_utf16[at]),
            BlockKind::Thinking => *text += units,
            BlockKind::Image => fixed_tokens += IMAGE_TOKENS,
            BlockKind::ToolResult => {
                fixed_tokens += session.parts_of(i).map_or(0, |parts| i64::from(parts.image_tokens));
                let tool = blocks.tool[at];
                let reads = tool != NONE && session.tools[tool as usize].role == Role::Read;
                *(if reads { &mut *read_result } else { &mut *result }) += units;
            }
        }
    }
    Row { features, fixed_tokens }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// `part / whole` in millionths.
fn micros(part: u64, whole: u64) -> u64 {
    let micros = (u128::from(part) * 1_000_000 + u128::from(whole / 2)) / u128::from(whole.max(1));
    u64::try_from(micros).unwrap_or(u64::MAX)
}
