//! The recovery ladder, with numbers in it.

use super::{Bound, Resolved};
use crate::policy::file::RecoveryToml;
use crate::policy::recovery::{Recovery, RecoveryStep, SetAside};
use crate::policy::strategy::Rule;

impl Bound<'_> {
    pub(super) fn recovery(&mut self, toml: &RecoveryToml, rules: &[Rule]) -> Resolved<Recovery> {
        let mut steps = Vec::with_capacity(toml.step.len());
        for step in &toml.step {
            if !self.hold(&step.conditions)? {
                continue;
            }
            let mut indexes = Vec::with_capacity(step.run.len());
            for id in &step.run {
                if !self.config.preset.file.rule.iter().any(|r| r.id == *id) {
                    return Err(format!("a recovery step runs `{id}`, and no rule has that id"));
                }
                // A rule that is not there with these parameters leaves its step nothing to do.
                indexes.extend(rules.iter().position(|r| r.id == *id));
            }
            steps.push(RecoveryStep {
                rules: indexes,
                set_aside: step.set_aside.as_ref().map(|s| SetAside {
                    newest: s.newest,
                    at_least: s.at_least,
                    leave: s.leave,
                }),
                needs_messages: step.needs_messages,
                retry_margin: match &step.retry {
                    None => None,
                    Some(retry) => {
                        let crate::policy::file::FreedForm::Deficit = retry.freed;
                        Some(retry.margin.as_ref().map_or(Ok(0), |v| self.count(v))?)
                    }
                },
            });
        }
        Ok(Recovery {
            attempts: toml.attempts.as_ref().map_or(Ok(1), |v| self.count(v))?,
            reset: toml.reset,
            on_retry_failure: toml.on_retry_failure,
            steps,
        })
    }
}
