//! Asking a policy at a hook, and carrying out what it decides.

use super::Recorder;
use super::compact::Compacted;
use super::context::BrokenPlan;
use super::events::SimEventKind;
use super::ledger::Change;
use super::run::Cell;
use crate::cause::Cause;
use crate::policy::Policy;
use crate::policy::occasion::Occasion;
use crate::policy::plan::{Plan, StubPlan};
use crate::policy::strategy::Hook;
use crate::session::DropReason;

/// What a plan came to.
enum Done {
    /// Nothing changed.
    Nothing,
    /// The history changed, and so many tokens of the client's estimate left.
    Freed(u64),
}

impl<'p, P: Policy<'p>, R: Recorder> Cell<'_, 'p, P, R> {
    /// What the client's clock says at a hook.
    pub(super) fn occasion(&self, hook: Hook) -> Occasion {
        let gap_ms = self.log.now().start_ms.zip(self.log.last_start_ms()).map(|(now, last)| now - last);
        Occasion {
            request: self.log.number(),
            turn: self.turn,
            gap_ms,
            is_cold: match gap_ms {
                Some(gap) => gap >= self.strategy.cache_life_ms,
                // Without times a client knows only that it has not sent anything yet.
                None => self.log.number() == 1,
            },
            archived: self.archived,
            ..Occasion::at(hook)
        }
    }

    /// Asks every rule at a hook, in order.
    pub(super) fn ask(&mut self, hook: Hook) {
        if !self.hooks.has(hook) || self.reclaimed.is_none() && self.is_idle(hook) {
            return;
        }
        let occasion = self.occasion(hook);
        self.policy.begin(&occasion);
        for rule in 0..self.policy.rule_count() {
            if self.policy.is_asked(rule, hook) {
                self.ask_rule(rule, &occasion);
            }
        }
        if let Some((id, before, after, freed)) = self.reclaimed.take() {
            self.log.reclaimed(&id, before, after, freed);
        }
    }

    /// Whether no rule has anything to do at a hook.
    fn is_idle(&self, hook: Hook) -> bool {
        let policy = &self.policy;
        let view = self.context.view();
        (0..policy.rule_count()).all(|rule| !policy.is_asked(rule, hook) || policy.is_idle(rule, view))
    }

    /// Asks one rule and carries out what it decides; what that freed, if it did anything.
    pub(super) fn ask_rule(&mut self, rule: usize, occasion: &Occasion) -> Option<u64> {
        // Its last summary is still being written.
        if !occasion.asks_no_trigger() && self.underway.iter().any(|u| u.rule == rule) {
            return None;
        }
        let mut freed = None;
        // A rule that took stubs back is asked again for what it wants instead.
        while let Some(plan) = self.policy.at_hook(rule, occasion, self.context.view()) {
            let id = self.policy.rule_id(rule).to_owned();
            let asks_again = matches!(plan, Plan::Restore { .. });
            match self.apply(rule, &id, occasion, plan) {
                Ok(Done::Nothing) => break,
                Ok(Done::Freed(tokens)) => freed = Some(freed.unwrap_or(0) + tokens),
                Err(broken) => {
                    self.log.violation(&id, broken.0);
                    break;
                }
            }
            if !asks_again {
                break;
            }
        }
        freed
    }

    /// Carries out a plan, or says why it is broken; a broken plan changes nothing.
    fn apply(
        &mut self,
        rule: usize,
        id: &str,
        occasion: &Occasion,
        plan: Plan<'p>,
    ) -> Result<Done, BrokenPlan> {
        let mut freed = 0;
        match plan {
            Plan::Notice { text } => {
                self.log.event(|| SimEventKind::Notice { rule: id.to_owned(), text: text.to_owned() });
                return Ok(Done::Nothing);
            }
            Plan::SameStubs { reported } => {
                self.log.event(|| SimEventKind::SameStubs {
                    rule: id.to_owned(),
                    elided_count: reported.0,
                    chars_saved: reported.1,
                });
                return Ok(Done::Nothing);
            }
            Plan::Restore { blocks } => {
                self.restore(id, blocks)?;
                return Ok(Done::Freed(0));
            }
            Plan::Stub(plan) => self.put_stubs(id, plan)?,
            Plan::Replace(plan) => {
                let withheld = self.context.apply_replace(&plan)?;
                freed = plan.saved_estimate;
                self.log.replaced(id, &plan, withheld);
                self.note(Change::Replaced { stored: plan.stored, withhold: plan.withhold });
            }
            Plan::DropPairs { results, saved_utf16 } => {
                self.drop_pairs(id, &results, saved_utf16)?;
            }
            Plan::SummarizePairs { results, spec } => {
                if !self.summarize_pairs(id, &results, spec)? {
                    return Ok(self.failed(rule));
                }
            }
            Plan::Strip { blocks } => {
                let withheld = self.context.apply_strip(&blocks)?;
                self.log.stripped(id, withheld);
                self.note(Change::Stripped { blocks });
            }
            Plan::Summarize(plan) => {
                self.context.check_fold(&plan)?;
                match self.compact(rule, id, plan, occasion) {
                    Compacted::Done => self.reclaimed = None,
                    Compacted::Later => return Ok(Done::Nothing),
                    Compacted::Failed => return Ok(self.failed(rule)),
                }
            }
        }
        let stopped = self.policy.applied(rule, occasion, self.context.view());
        if let Some(stopped) = stopped.filter(|s| s.stops || occasion.hook == Hook::Manual) {
            self.reclaimed = Some((id.to_owned(), stopped.tokens_before, stopped.tokens_after, freed));
        }
        Ok(Done::Freed(freed))
    }

    fn put_stubs(&mut self, id: &str, plan: StubPlan) -> Result<(), BrokenPlan> {
        let withheld = self.context.apply_stubs(&plan)?;
        self.log.pass(id, self.session, &plan, withheld);
        if plan.server {
            self.log.applied_edits(id, &self.context, plan.stubs.first().map(|(block, _)| *block));
        }
        if self.ledger.is_some() {
            let elided = self.context.stubs_of(&plan).collect();
            self.note(Change::Pass { elided, withhold: plan.withhold });
        }
        Ok(())
    }

    fn restore(&mut self, id: &str, blocks: Vec<u32>) -> Result<(), BrokenPlan> {
        let stubs = &self.context.view().stubs;
        let is_server = stubs.iter().any(|s| s.server && blocks.binary_search(&s.block).is_ok());
        self.context.apply_restore(&blocks)?;
        if is_server {
            self.log.applied_edits(id, &self.context, blocks.first().copied());
        }
        self.note(Change::Restore { blocks });
        Ok(())
    }

    /// What the rule decided could not be carried out.
    fn failed(&mut self, rule: usize) -> Done {
        self.policy.failed(rule);
        Done::Nothing
    }

    fn drop_pairs(&mut self, id: &str, results: &[u32], saved_utf16: u64) -> Result<(), BrokenPlan> {
        let ranges = self.context.pairs_of(results)?;
        let (reason, cause) = (DropReason::Unexplained, Cause::PrefixRule);
        self.context.drop_blocks(&ranges, reason, cause);
        self.log.history_changed(&self.context);
        self.log.pairs_dropped(id, results, saved_utf16);
        self.note(Change::Dropped { ranges, reason, cause });
        Ok(())
    }

    pub(super) fn note(&mut self, change: Change) {
        if let Some(ledger) = &mut self.ledger {
            ledger.note(&self.context, change);
        }
    }
}
