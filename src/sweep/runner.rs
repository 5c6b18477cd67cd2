//! The one runner of sessions × models × policies.
//!
//! A cell is a pure function of its session, strategy, model and options; results land by index. So
//! the number of threads, the order of the policies and what else runs change no cell. Sessions are
//! worked on in blocks, and each block's results are handed over in order before the next begins:
//! memory stays bounded, and an interruption loses at most the block at hand. Sessions that share a cache are one
//! block, of a policy and model each.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::policy::Strategy;
use crate::provider::ModelSpec;
use crate::session::Session;
use crate::sim::{Curve, FullRecorder, NoRecorder, PromptRecorder, RunOptions, Scratch, Summary, shared};

/// Sessions in a block: enough to keep many cores busy, few enough to hold every request of a block.
const BLOCK_SESSIONS: usize = 64;

/// What the caller and the threads tell each other.
#[derive(Debug, Default)]
pub struct Control {
    /// Units of work done so far (files read, cells run).
    pub done: AtomicU64,
    /// Units of work in all, as far as is known.
    pub total: AtomicU64,
    /// Set it to stop after the cells at hand.
    pub stop: Arc<AtomicBool>,
}

impl Control {
    /// A control of other work that stops with this.
    pub fn beside(&self) -> Control {
        Control { stop: Arc::clone(&self.stop), ..Control::default() }
    }

    /// Whether a stop was asked for.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What to keep of a cell besides its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    Summary,
    /// The size of the prompt over the run.
    Curve,
    /// Every request and event.
    Full,
}

/// A model that a session runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Index into [`Plan::models`].
    pub model: usize,
    /// The recorded id, where it is unknown and this model stands in for it.
    pub substituted: Option<String>,
}

/// A session and its models.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The session, on its own tokenizer.
    pub session: Arc<Session>,
    /// What it runs on.
    pub models: Vec<ModelChoice>,
}

/// All cells of a command.
#[derive(Debug)]
pub struct Plan {
    /// Sessions in the order of the output.
    pub sessions: Vec<Planned>,
    /// Models that any session runs on.
    pub models: Vec<ModelSpec>,
    /// `strategies[policy][model]`.
    pub strategies: Vec<Vec<Strategy>>,
    /// Options of every run.
    pub options: RunOptions,
}

impl Plan {
    /// Number of cells.
    pub fn cells(&self) -> u64 {
        let runs: usize = self.sessions.iter().map(|s| s.models.len()).sum();
        (runs * self.strategies.len()) as u64
    }
}

/// One finished cell.
#[derive(Debug, Clone)]
pub struct CellResult {
    /// Index into [`Plan::sessions`].
    pub session: usize,
    /// Index into [`Plan::strategies`].
    pub policy: usize,
    /// What it ran on.
    pub model: ModelChoice,
    /// The numbers.
    pub summary: Summary,
    /// Requests and events, with [`Detail::Full`]; else empty.
    pub record: FullRecorder,
    /// The size of the prompt over the run; empty with [`Detail::Summary`].
    pub curve: Curve,
}

/// A pool of `jobs` threads; 0 means one per core.
pub(super) fn pool(jobs: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(|e| Error::Config {
        origin: "--jobs".into(),
        reason: format!("cannot start the threads: {e}"),
    })
}

/// Runs the plan on `jobs` threads (0: one per core) and hands finished cells to `sink`, ordered by
/// session, policy and model. Returns whether all were run; a stop leaves the rest out, and nothing
/// that was finished is lost.
///
/// # Errors
/// [`Error::Config`] if the threads cannot be started, and what `sink` returns.
pub fn run<E: From<Error>>(
    plan: &Plan,
    detail: Detail,
    jobs: usize,
    control: &Control,
    mut sink: impl FnMut(Vec<CellResult>) -> std::result::Result<(), E>,
) -> std::result::Result<bool, E> {
    let pool = pool(jobs)?;
    if plan.options.shared_cache {
        let results = pool.install(|| run_shared(plan, detail, control));
        let complete = results.iter().all(Option::is_some);
        let mut cells: Vec<CellResult> = results.into_iter().flatten().flatten().collect();
        cells.sort_by_key(|cell| (cell.session, cell.policy));
        sink(cells)?;
        return Ok(complete);
    }
    for start in (0..plan.sessions.len()).step_by(BLOCK_SESSIONS) {
        let end = (start + BLOCK_SESSIONS).min(plan.sessions.len());
        let results = pool.install(|| run_block(plan, start..end, detail, control));
        let complete = results.iter().all(Option::is_some);
        sink(results.into_iter().flatten().collect())?;
        if !complete {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every policy and model has a cache of its own, which all sessions that run on the model share.
fn run_shared(plan: &Plan, detail: Detail, control: &Control) -> Vec<Option<Vec<CellResult>>> {
    let groups: Vec<(usize, usize)> = (0..plan.strategies.len())
        .flat_map(|policy| (0..plan.models.len()).map(move |model| (policy, model)))
        .collect();
    groups.into_par_iter().map(|(policy, model)| run_group(plan, policy, model, detail, control)).collect()
}

fn run_group(
    plan: &Plan,
    policy: usize,
    model: usize,
    detail: Detail,
    control: &Control,
) -> Option<Vec<CellResult>> {
    let runs = plan.sessions.iter().enumerate();
    let on_model = runs.flat_map(|(i, planned)| planned.models.iter().map(move |choice| (i, choice)));
    let prepared: Vec<Prepared<'_>> = on_model
        .filter(|(_, choice)| choice.model == model)
        .map(|(session, choice)| prepare(plan, session, choice))
        .collect();
    let sessions: Vec<&Session> = prepared.iter().map(|p| p.scaled.as_ref()).collect();
    let (spec, strategy, options) = (&plan.models[model], &plan.strategies[policy][model], &plan.options);
    let goes_on = || !control.stopped();
    let mut records: Vec<FullRecorder> = vec![FullRecorder::default(); prepared.len()];
    let mut prompts = vec![PromptRecorder::default(); prepared.len()];
    let summaries = match detail {
        Detail::Summary => {
            let mut none = vec![NoRecorder; prepared.len()];
            shared::run_shared(&sessions, strategy, spec, options, &mut none, goes_on)
        }
        Detail::Curve => shared::run_shared(&sessions, strategy, spec, options, &mut prompts, goes_on),
        Detail::Full => shared::run_shared(&sessions, strategy, spec, options, &mut records, goes_on),
    }?;
    control.done.fetch_add(prepared.len() as u64, Ordering::Relaxed);
    let recorded = records.into_iter().zip(prompts);
    let cells =
        prepared.iter().zip(summaries).zip(recorded).map(|((prepared, summary), (record, prompts))| {
            let curve = curve_of(&record, prompts);
            let model = prepared.choice.clone();
            CellResult { session: prepared.session, policy, model, summary, record, curve }
        });
    Some(cells.collect())
}

/// A session on the tokenizer of one of its models.
struct Prepared<'p> {
    session: usize,
    choice: &'p ModelChoice,
    scaled: Cow<'p, Session>,
}

fn run_block(
    plan: &Plan,
    sessions: std::ops::Range<usize>,
    detail: Detail,
    control: &Control,
) -> Vec<Option<CellResult>> {
    let runs: Vec<(usize, &ModelChoice)> =
        sessions.flat_map(|i| plan.sessions[i].models.iter().map(move |choice| (i, choice))).collect();
    let prepared: Vec<Prepared<'_>> =
        runs.into_par_iter().map(|(session, choice)| prepare(plan, session, choice)).collect();
    let mut cells: Vec<(usize, &Prepared<'_>)> =
        prepared.iter().flat_map(|p| (0..plan.strategies.len()).map(move |policy| (policy, p))).collect();
    // Stable: models keep the order of the plan within a session and policy.
    cells.sort_by_key(|(policy, p)| (p.session, *policy));
    cells
        .into_par_iter()
        .map_init(Scratch::default, |scratch, (policy, prepared)| {
            if control.stopped() {
                return None;
            }
            let result = run_cell(plan, prepared, policy, detail, scratch);
            control.done.fetch_add(1, Ordering::Relaxed);
            Some(result)
        })
        .collect()
}

fn prepare<'p>(plan: &'p Plan, session: usize, choice: &'p ModelChoice) -> Prepared<'p> {
    let original = plan.sessions[session].session.as_ref();
    let tokenizer = plan.models[choice.model].tokenizer;
    Prepared { session, choice, scaled: original.scaled_to(tokenizer) }
}

/// From whichever of the two there is.
fn curve_of(record: &FullRecorder, mut prompts: PromptRecorder) -> Curve {
    prompts.prompts.extend(record.requests.iter().map(|row| row.usage.prompt_tokens()));
    Curve::of(&prompts.prompts)
}

fn run_cell(
    plan: &Plan,
    prepared: &Prepared<'_>,
    policy: usize,
    detail: Detail,
    scratch: &mut Scratch,
) -> CellResult {
    let (model, strategy) =
        (&plan.models[prepared.choice.model], &plan.strategies[policy][prepared.choice.model]);
    let (session, options) = (prepared.scaled.as_ref(), &plan.options);
    let (mut record, mut prompts) = (FullRecorder::default(), PromptRecorder::default());
    let summary = match detail {
        Detail::Summary => crate::sim::run(session, strategy, model, options, scratch, &mut NoRecorder),
        Detail::Curve => crate::sim::run(session, strategy, model, options, scratch, &mut prompts),
        Detail::Full => crate::sim::run(session, strategy, model, options, scratch, &mut record),
    };
    let curve = curve_of(&record, prompts);
    CellResult { session: prepared.session, policy, model: prepared.choice.clone(), summary, record, curve }
}
