//! Whether the recorded run itself comes out as recorded: no search is worth more than the replay it rests on.
//!
//! Each recording is replayed without any strategy on its own model, with the cache life it bought, up to the first
//! compaction or clearing of its own. What it would have cost is compared with what its usage says it did.
//!
//! # Divergence from the real API
//!
//! Misses that the provider alone knows of count as an error of the replay here; `validate` tells them apart.

use crate::error::Result;
use crate::policy::{PolicyConfig, PolicySpec};
use crate::provider::{ModelSpec, Models};
use crate::session::{EventKind, Session};
use crate::sim::run::price_at;
use crate::sweep::{CellResult, Control, Detail, Plan, runner};
use crate::usage::Usage;

/// A replay further off than this, in millionths of the recorded cost, is not reproduced.
const TOLERANCE_MILLIONTHS: u128 = 100_000;

/// The recorded requests, as billed and as simulated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reproduction {
    /// Requests compared.
    pub requests: u64,
    /// Sessions without any usage: nothing to compare with.
    pub sessions_without_usage: u64,
    /// What the recordings say.
    pub recorded: Usage,
    /// What the replay says.
    pub simulated: Usage,
    /// Cost of what the recordings say, in pico-dollars.
    pub recorded_pusd: u128,
    /// Cost of what the replay says.
    pub simulated_pusd: u128,
}

impl Reproduction {
    /// Whether the simulated cost is near the recorded one; without usage there is no doubt to have.
    pub fn is_near(&self) -> bool {
        let off = self.simulated_pusd.abs_diff(self.recorded_pusd);
        off.saturating_mul(1_000_000) <= self.recorded_pusd.saturating_mul(TOLERANCE_MILLIONTHS)
    }

    fn add(&mut self, session: &Session, model: &ModelSpec, cell: &CellResult) {
        for row in &cell.record.requests {
            let step = row.request as usize - 1;
            let Some(recorded) =
                session.steps.get(step).and_then(|s| s.recorded).filter(|_| step < undisturbed(session))
            else {
                continue;
            };
            let Some(price) = price_at(model, session, step) else { return };
            self.requests += 1;
            self.recorded.add(&recorded);
            self.simulated.add(&row.usage);
            self.recorded_pusd += price.cost(&recorded).total();
            self.simulated_pusd += row.cost_pusd;
        }
    }
}

/// Steps before the recording's own first edit of its history.
fn undisturbed(session: &Session) -> usize {
    let edits = |kind: &EventKind| {
        matches!(kind, EventKind::RecordedCompaction { .. } | EventKind::RecordedClearing { .. })
    };
    let first = session.events.iter().find(|event| edits(&event.kind));
    first.map_or(session.steps.len(), |event| event.before_step as usize)
}

/// Whether the recording wrote mostly with the long life.
fn buys_long_life(session: &Session) -> bool {
    let mut all = Usage::default();
    session.steps.iter().filter_map(|s| s.recorded).for_each(|usage| all.add(&usage));
    all.cache_write_1h_tokens > all.cache_write_5m_tokens
}

/// Replays the sessions of `plan` as recorded; `None` if that was interrupted. Each session runs on its first model,
/// which should be its own.
///
/// # Errors
/// Threads that cannot be started.
pub fn reproduce(
    plan: &Plan,
    models: &Models,
    jobs: usize,
    control: &Control,
) -> Result<Option<Reproduction>> {
    let as_recorded = ["none:cache.ttl=5m", "none:cache.ttl=1h"].map(|text| {
        let config: PolicyConfig = text.parse::<PolicySpec>()?.load(&[], &[])?;
        plan.models.iter().map(|model| config.strategy(model, models)).collect::<Result<Vec<_>>>()
    });
    let with_usage = |session: &Session| session.steps.iter().any(|step| step.recorded.is_some());
    let without = plan.sessions.iter().filter(|p| !with_usage(&p.session)).count();
    let plan = Plan {
        sessions: plan.sessions.iter().filter(|p| with_usage(&p.session)).cloned().collect(),
        models: plan.models.clone(),
        strategies: as_recorded.into_iter().collect::<Result<_>>()?,
        options: plan.options.clone(),
    };
    let mut found = Reproduction { sessions_without_usage: without as u64, ..Reproduction::default() };
    let complete = runner::run(&plan, Detail::Full, jobs, control, |block: Vec<CellResult>| {
        for cell in block {
            let session = &plan.sessions[cell.session].session;
            if cell.policy == usize::from(buys_long_life(session)) {
                found.add(session, &plan.models[cell.model.model], &cell);
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    Ok(complete.then_some(found))
}
