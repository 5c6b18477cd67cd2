//! Candidates as cells of the one runner.

use crate::error::Result;
use crate::policy::PolicyConfig;
use crate::provider::Models;
use crate::sim::Summary;
use crate::sweep::{CellResult, Control, Detail, Plan, runner};

use super::trial::Evaluate;

/// Runs candidates on sessions, each on one model.
pub struct Cells<'a> {
    /// Sessions, models and options; its strategies are not used.
    pub plan: Plan,
    /// Models that strategies may name.
    pub models: &'a Models,
    /// Threads; 0 means one per core.
    pub jobs: usize,
    /// Counts cells, and stops the work.
    pub control: &'a Control,
}

impl Evaluate for Cells<'_> {
    fn run(
        &mut self,
        policies: &[PolicyConfig],
        sessions: &[usize],
        sink: &mut dyn FnMut(usize, usize, &Summary),
    ) -> Result<bool> {
        let strategies = policies.iter().map(|config| {
            self.plan.models.iter().map(|model| config.strategy(model, self.models)).collect::<Result<_>>()
        });
        let plan = Plan {
            sessions: sessions.iter().map(|i| self.plan.sessions[*i].clone()).collect(),
            models: self.plan.models.clone(),
            strategies: strategies.collect::<Result<_>>()?,
            options: self.plan.options.clone(),
        };
        runner::run(&plan, Detail::Summary, self.jobs, self.control, |block: Vec<CellResult>| {
            for cell in block {
                sink(cell.policy, cell.session, &cell.summary);
            }
            Ok(())
        })
    }
}
