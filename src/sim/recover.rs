//! What is done when the provider says that the prompt does not fit.

use super::Recorder;
use super::run::{Cell, Stop};
use super::summary::StopReason;
use crate::policy::Policy;
use crate::policy::occasion::Occasion;
use crate::policy::recovery::RecoveryStep;
use crate::policy::strategy::Hook;
use crate::policy::summarize::messages_in;

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// Goes down the ladder until a step makes it worth sending again. `deficit` is by how many tokens the
    /// prompt was too long, where the error text says so.
    pub(super) fn recover_from_overflow(&mut self, deficit: Option<u64>) -> Result<(), Stop> {
        let strategy = self.strategy;
        let Some(recovery) = &strategy.recovery else { return Err(Stop(StopReason::Overflow)) };
        if !self.ladder.refused(recovery) {
            return Err(Stop(StopReason::Overflow));
        }
        while let Some(step) = self.ladder.step(recovery) {
            let Some(freed) = self.recovery_step(step) else { continue };
            if step.retries(freed, deficit) {
                self.ladder.retries();
                let rules: Vec<&str> = step.rules.iter().map(|r| self.policy.rule_id(*r)).collect();
                let action = rules.join(", ");
                self.log.recovery(&action, 0);
                return Ok(());
            }
        }
        Err(Stop(StopReason::Overflow))
    }

    /// Runs the rules that have something to do about refused thinking; whether any did anything.
    pub(super) fn edit_after_binding(&mut self) -> bool {
        if !self.hooks.has(Hook::Binding) {
            return false;
        }
        let occasion = self.occasion(Hook::Binding);
        self.policy.begin(&occasion);
        let acted = |cell: &mut Self, rule: &usize| cell.ask_rule(*rule, &occasion).is_some();
        let rules: Vec<usize> = (0..self.policy.rule_count()).filter(|rule| acted(self, rule)).collect();
        let ids: Vec<&str> = rules.iter().map(|rule| self.policy.rule_id(*rule)).collect();
        let action = ids.join(", ");
        if !action.is_empty() {
            self.log.recovery(&action, 0);
        }
        !action.is_empty()
    }

    /// Runs the rules of a step; what they freed, if any did anything.
    fn recovery_step(&mut self, step: &RecoveryStep) -> Option<u64> {
        let merged = self.strategy.estimate.as_ref().is_some_and(|law| law.merged);
        let view = self.context.view();
        let aside = step.pull_back(messages_in(view, view.live_from..view.revealed, merged))?;
        let mut end = view.revealed;
        for _ in 0..aside {
            end = view.message_to(view.live.last_before(end)?, merged).start;
        }
        let occasion = Occasion { is_forced: true, end, ..self.occasion(Hook::Overflow) };
        self.policy.begin(&occasion);
        let mut freed = None;
        for rule in &step.rules {
            if let Some(tokens) = self.ask_rule(*rule, &occasion) {
                freed = Some(freed.unwrap_or(0) + tokens);
            }
        }
        freed
    }
}
