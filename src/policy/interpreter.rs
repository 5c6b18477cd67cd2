//! The rule interpreter: trigger, selector, cadence → plan. One strategy, one run.
//!
//! Cost follows what is new: totals are running sums of the context or of the interpreter, and each selector
//! keeps a cursor over the items it has already looked at, so a rule that does not fire costs a few
//! comparisons.

use super::Policy;
use super::action::{Action, Growth, StubRule};
use super::cadence::Memo;
use super::estimate::{Anchor, EstimateLaw};
use super::fold::{Keep, SummarizeRule};
use super::fold_plan;
use super::fresh::block_size;
use super::items::item_size;
use super::measures::Results;
use super::occasion::{Occasion, Stopped};
use super::plan::{Ingest, Plan};
use super::sent::MeasuredState;
use super::strategy::{Hook, Hooks, Measure, MessageUnit, Rule, Strategy, Threshold, Unit};
pub use super::stubs::Firing;
use super::stubs::RuleState;
use super::summarize::messages_in;
use super::sums::Sums;
use super::turns;
use super::view::View;
use crate::session::Session;

/// Runs the rules of a [`Strategy`].
#[derive(Debug)]
pub struct Interpreter<'p> {
    pub(super) strategy: &'p Strategy,
    hooks: Hooks,
    /// Somebody asks how a rule came to run in the sequence at hand, and whether it stopped those behind it.
    has_outcomes: bool,
    /// Some rule stands in for another whose breaker is open.
    has_substitutes: bool,
    rules: Vec<Run>,
    /// Per rule: running sums under the rule's own law; the first is the strategy's.
    sums: Vec<Sums>,
}

/// One rule in a run.
#[derive(Debug)]
struct Run {
    state: RuleState,
    results: Results,
    /// What an agent writes down of its own actions, so a resume keeps it.
    memo: Memo,
    /// How the rule came to run when it was asked last, if it did; of the sequence at hand, where anybody asks.
    fired: Option<Firing>,
    /// It left so little that those which follow it do not run.
    stopped: bool,
    /// Where the rule asks for it: the history before it acted, by the estimate.
    before: u64,
    /// Where the rule waits for it: the breaker of another was open when the sequence began.
    was_broken: bool,
}

impl<'p> Interpreter<'p> {
    /// An interpreter for one run over `session`.
    pub fn new(strategy: &'p Strategy, session: &Session) -> Interpreter<'p> {
        let run = |rule: &Rule| Run {
            state: RuleState::new(rule.action.tools(), session),
            results: Results::default(),
            memo: Memo::default(),
            fired: None,
            stopped: false,
            before: 0,
            was_broken: false,
        };
        Interpreter {
            strategy,
            hooks: strategy.hooks(),
            has_outcomes: strategy
                .rules
                .iter()
                .any(|rule| rule.follows.is_some() || rule.stop_if_under.is_some()),
            has_substitutes: strategy.rules.iter().any(|rule| rule.if_broken.is_some()),
            rules: strategy.rules.iter().map(run).collect(),
            sums: vec![Sums::default(); strategy.rules.len() + 1],
        }
    }

    /// Running sums of the client's estimate as `rule` has it.
    fn sums(&mut self, rule: usize, view: &View<'_>, law: &EstimateLaw) -> &Sums {
        let own = self.strategy.rules[rule].scope.estimate.is_some();
        let sums = &mut self.sums[if own { rule + 1 } else { 0 }];
        sums.refresh(view, law);
        sums
    }

    /// The client's estimate of its history, as `rule` has it; 0 without a law.
    fn estimate(&mut self, rule: usize, view: &View<'_>) -> u64 {
        let strategy = self.strategy;
        let Some(law) = strategy.law_of(&strategy.rules[rule]) else { return 0 };
        if law.anchor == Anchor::None || view.last_usage(law.until_edit).is_none() {
            return self.plain_estimate(rule, view);
        }
        view.estimate_tokens(law)
    }

    /// The same without its anchor.
    fn plain_estimate(&mut self, rule: usize, view: &View<'_>) -> u64 {
        let strategy = self.strategy;
        let Some(law) = strategy.law_of(&strategy.rules[rule]) else { return 0 };
        law.total(self.sums(rule, view, law).milli_before(u32::MAX))
    }

    /// How the rule's trigger comes out; `None`: it does not fire.
    fn firing(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Firing> {
        let spec = &self.strategy.rules[rule];
        if let Some(leader) = spec.follows.filter(|_| !occasion.is_forced) {
            let leader = &self.rules[leader];
            return leader.fired.filter(|_| !leader.stopped);
        }
        if occasion.asks_no_trigger() || spec.when.is_empty() {
            let value = if spec.stop_if_under.is_some() { self.estimate(rule, view) } else { 0 };
            let limit = spec.when.first().map_or(0, |t| t.limit);
            return Some(Firing { value, limit, ..Firing::default() });
        }
        let mut first = None;
        for threshold in spec.when.iter().filter(|t| t.at.is_none_or(|at| at == occasion.hook)) {
            let value = self.measured(rule, threshold, occasion, view);
            if threshold.crossed(value) {
                let growth = if spec.cadence.knows_growth {
                    self.rules[rule].memo.growth(value, occasion)
                } else {
                    Growth::default()
                };
                let firing = Firing { value, limit: threshold.limit, hard: threshold.hard, growth };
                if !spec.all {
                    return Some(firing);
                }
                first = first.or(Some(firing));
            } else if spec.all {
                return None;
            }
        }
        first
    }

    /// What a threshold is about, in the state of the history that it asks for.
    #[inline]
    fn measured(&mut self, rule: usize, threshold: &Threshold, occasion: &Occasion, view: &View<'_>) -> u64 {
        match threshold.state {
            MeasuredState::Stored => self.value(rule, threshold.measure, occasion, view),
            _ => self.measured_in(rule, threshold, view),
        }
    }

    /// The same of a state that the history is not in.
    fn measured_in(&self, rule: usize, threshold: &Threshold, view: &View<'_>) -> u64 {
        let law = self.strategy.law_of(&self.strategy.rules[rule]);
        let other = view.in_state(threshold.state);
        match (threshold.measure, law) {
            (Measure::ToolResults(unit), _) => {
                let live = other.results.iter().filter(|b| other.is_live(**b));
                live.map(|b| item_size(&other, law, *b, unit)).sum()
            }
            (Measure::Messages(MessageUnit::Estimate), Some(law)) => other.estimate_tokens(law),
            (Measure::Messages(MessageUnit::PlainEstimate), Some(law)) => other.sum_of_messages(law),
            (Measure::Messages(MessageUnit::Count), Some(law)) => {
                messages_in(&other, other.live_from..other.revealed, law.merged)
            }
            _ => 0,
        }
    }

    #[inline]
    fn value(&mut self, rule: usize, measure: Measure, occasion: &Occasion, view: &View<'_>) -> u64 {
        match measure {
            Measure::ToolResults(Unit::Utf16) => view.tool_results_utf16,
            Measure::RequestTokens => view.raw_tokens,
            _ => self.worked_out(rule, measure, occasion, view),
        }
    }

    /// Of a measure that the context keeps no total of.
    fn worked_out(&mut self, rule: usize, measure: Measure, occasion: &Occasion, view: &View<'_>) -> u64 {
        let strategy = self.strategy;
        let spec = &strategy.rules[rule];
        let law = strategy.law_of(spec);
        match measure {
            Measure::ToolResults(unit) => self.rules[rule].results.sum(view, law, unit),
            Measure::Messages(MessageUnit::Estimate) => self.estimate(rule, view),
            Measure::Messages(MessageUnit::PlainEstimate) => self.plain_estimate(rule, view),
            Measure::Messages(MessageUnit::Count) => {
                let summary = u64::from(view.summary.is_some());
                law.map_or(0, |law| summary + self.sums(rule, view, law).messages_before(u32::MAX))
            }
            Measure::Messages(MessageUnit::Turns) => {
                turns::count(view, spec.scope.turn, view.revealed) + u64::from(view.summary.is_some())
            }
            Measure::Messages(MessageUnit::Events(hidden)) => {
                hidden + u64::from(view.summary.is_some()) + view.live.len()
            }
            Measure::LastPrompt => view.last_usage(false).map_or(0, |u| u.total_tokens - u.output_tokens),
            Measure::LastUsage => view.last_usage(false).map_or(0, |u| u.total_tokens),
            Measure::Eligible(unit) => match &spec.action {
                Action::Stub(stub) => {
                    let (saved, count) = self.rules[rule].state.eligible(stub, view, law);
                    if unit == Unit::Count { count } else { saved }
                }
                _ => 0,
            },
            Measure::SinceRequests => self.rules[rule].memo.requests_since(occasion),
            Measure::SinceTurns => self.rules[rule].memo.turns_since(occasion),
            Measure::IdleSeconds => u64::try_from(occasion.gap_ms.unwrap_or(0) / 1_000).unwrap_or(0),
            // The context's own total, and what is looked at where the block is known, in `at_tool_result`.
            Measure::RequestTokens | Measure::Block(_) => 0,
        }
    }

    /// What a rule that fires decides.
    fn decide(
        &mut self,
        rule: usize,
        occasion: &Occasion,
        view: &View<'_>,
        firing: Option<Firing>,
    ) -> Option<Plan<'p>> {
        let strategy = self.strategy;
        let spec = &strategy.rules[rule];
        let law = strategy.law_of(spec);
        match &spec.action {
            Action::Offload(_) | Action::Truncate(_) => None,
            Action::Stub(stub) => {
                let firing = match (firing, spec.cadence.break_even_steps) {
                    (Some(f), Some(steps))
                        if !f.hard && !occasion.is_cold && !self.pays(rule, stub, view, steps) =>
                    {
                        None
                    }
                    (firing, _) => firing,
                };
                match (self.rules[rule].state.decide(stub, view, law, firing), &stub.summary) {
                    (Some(Plan::DropPairs { results, .. }), Some(spec)) => {
                        Some(Plan::SummarizePairs { results, spec })
                    }
                    (plan, _) => plan,
                }
            }
            Action::Summarize(fold) => {
                let firing = firing?;
                let measured = spec.when.iter().any(|t| matches!(t.measure, Measure::Messages(_)));
                let knows = measured || spec.follows.is_some() || occasion.asks_no_trigger();
                let tokens_before = if knows { self.estimate(rule, view) } else { 0 };
                if let Some(law) = law {
                    self.sums(rule, view, law);
                }
                let sums = &self.sums[if spec.scope.estimate.is_some() { rule + 1 } else { 0 }];
                // Where there is no place to cut the history, the results are not gone through either.
                let may_fold = !matches!(&fold.keep, Keep::Tail(tail) if !tail.has_places(view));
                let cut = fold.truncate_results.as_ref().filter(|_| may_fold);
                let cuts = cut.zip(law).map(|(cut, law)| cut.cuts(view, law));
                let Some(cuts) = cuts.filter(|cuts| !cuts.is_empty()) else {
                    return fold_plan::decide(
                        fold,
                        spec,
                        law,
                        sums,
                        view,
                        occasion,
                        (&firing, tokens_before),
                    );
                };
                // Where the history is cut follows from what the results will be.
                let cut_view = view.with_stored(&cuts);
                let mut cut_sums = Sums::default();
                law.inspect(|law| cut_sums.refresh(&cut_view, law));
                let fires = (&firing, tokens_before);
                let mut plan = fold_plan::decide(fold, spec, law, &cut_sums, &cut_view, occasion, fires);
                if let Some(Plan::Summarize(plan)) = &mut plan {
                    let whole = law.map_or(0, |law| law.total(sums.milli_before(plan.fold_to)));
                    plan.reads_cut = fold.truncate_results.as_ref().is_some_and(|t| whole >= t.whole_under);
                    plan.truncated = cuts;
                }
                plan
            }
        }
    }

    /// The economic gate: what the edit saves over the steps to come against what it makes to be rewritten.
    fn pays(&mut self, rule: usize, stub: &StubRule, view: &View<'_>, steps: u64) -> bool {
        let strategy = self.strategy;
        self.rules[rule].state.eligible(stub, view, strategy.law_of(&strategy.rules[rule]));
        let Some((first, saved_utf16)) = self.rules[rule].state.pending() else { return true };
        let milli = u64::from(view.session.coefficients.tool_result_milli);
        let saved_tokens = crate::tokens::scale_milli(saved_utf16, milli);
        let behind = self.rules[rule].results.tokens_from(view, first).saturating_sub(saved_tokens);
        let price = self.strategy.token_price;
        let gain = u128::from(saved_tokens) * u128::from(price.read_pusd) * u128::from(steps);
        let cost = u128::from(behind) * u128::from(price.write_pusd.saturating_sub(price.read_pusd));
        gain >= cost
    }

    /// What breaks a rule at an occasion counts from the next one on.
    fn note_broken(&mut self) {
        for (rule, spec) in self.strategy.rules.iter().enumerate() {
            if let Some(other) = spec.if_broken {
                let cadence = &self.strategy.rules[other].cadence;
                self.rules[rule].was_broken = self.rules[other].memo.is_broken(cadence);
            }
        }
    }
}

impl Interpreter<'_> {
    /// Whether the rule leaves an item of this tool alone.
    pub(super) fn excepts(&self, rule: usize, session: &Session, block: u32) -> bool {
        self.rules[rule].state.is_excepted(session, block)
    }
}

impl<'p> Policy<'p> for Interpreter<'p> {
    fn summary_is_due(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> bool {
        let strategy = self.strategy;
        match &strategy.rules[rule].action {
            Action::Summarize(SummarizeRule { place_when: Some(threshold), .. }) => {
                threshold.crossed(self.measured(rule, threshold, occasion, view))
            }
            _ => true,
        }
    }

    fn rule_count(&self) -> usize {
        self.strategy.rules.len()
    }

    fn rule_id(&self, rule: usize) -> &str {
        &self.strategy.rules[rule].id
    }

    fn hooks(&self) -> Hooks {
        self.hooks
    }

    fn is_asked(&self, rule: usize, hook: Hook) -> bool {
        self.strategy.rules[rule].at.has(hook)
    }

    fn is_idle(&self, rule: usize, view: &View<'_>) -> bool {
        let Action::Stub(stub) = &self.strategy.rules[rule].action else { return false };
        // Where others ask how it came to run, it does.
        !self.has_outcomes && !self.has_substitutes && self.rules[rule].state.falls_short(stub, view)
    }

    fn at_tool_result(&mut self, rule: usize, view: &View<'_>, result: u32) -> Option<Ingest> {
        let spec = &self.strategy.rules[rule];
        if !self.is_asked(rule, Hook::ToolResult) {
            return None;
        }
        // Most results are too small: that is looked at first.
        let law = self.strategy.law_of(spec);
        let fires = |t: &Threshold| t.crossed(block_size(view, law, t.measure, result));
        // Any of them, or not any that does not.
        let fired = spec.when.iter().any(|t| fires(t) != spec.all) != spec.all;
        if fired { self.taken_in(rule, view, result) } else { None }
    }

    fn begin(&mut self, _occasion: &Occasion) {
        if self.has_outcomes {
            for rule in &mut self.rules {
                rule.fired = None;
                rule.stopped = false;
            }
        }
        if self.has_substitutes {
            self.note_broken();
        }
    }

    fn at_hook(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Plan<'p>> {
        let spec = &self.strategy.rules[rule];
        if !occasion.is_forced && !self.is_asked(rule, occasion.hook) {
            return None;
        }
        if spec.if_broken.is_some() && !self.rules[rule].was_broken {
            return None;
        }
        let fired = self.firing(rule, occasion, view);
        if self.has_outcomes {
            self.rules[rule].fired = fired;
        }
        let memo = &self.rules[rule].memo;
        let firing = fired.filter(|f| {
            f.hard || occasion.asks_no_trigger() || !memo.holds_back(&spec.cadence, f, occasion, view)
        });
        if firing.is_none() && !matches!(spec.action, Action::Stub(_)) {
            return None;
        }
        if spec.stop_if_saved.is_some() {
            self.rules[rule].before = self.plain_estimate(rule, view);
        }
        self.decide(rule, occasion, view, firing)
    }

    fn applied(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Stopped> {
        let spec = &self.strategy.rules[rule];
        let firing = self.rules[rule].fired.unwrap_or_default();
        let wants_floor = spec.cadence.no_refire_above_floor || spec.cadence.knows_growth;
        let floor = if wants_floor && !spec.when.is_empty() {
            self.measured(rule, &spec.when[0], occasion, view)
        } else {
            0
        };
        self.rules[rule].memo.acted(&spec.cadence, occasion, view, floor);
        if let Some(share) = spec.stop_if_saved.filter(|_| !occasion.is_forced) {
            let (before, after) = (self.rules[rule].before, self.plain_estimate(rule, view));
            let saved = i128::from(before.saturating_sub(after)) * 1_000_000;
            let stops = saved >= i128::from(before) * i128::from(share) && saved > 0;
            self.rules[rule].stopped = stops;
            return Some(Stopped { stops, tokens_before: before, tokens_after: after });
        }
        let stop = spec.stop_if_under.filter(|_| !occasion.is_forced)?;
        let after = if stop.plain { self.plain_estimate(rule, view) } else { self.estimate(rule, view) };
        let stops = after < stop.under && occasion.hook != Hook::Manual;
        self.rules[rule].stopped = stops;
        Some(Stopped { stops, tokens_before: firing.value, tokens_after: after })
    }

    fn failed(&mut self, rule: usize) {
        let cadence = &self.strategy.rules[rule].cadence;
        self.rules[rule].memo.failed(cadence);
    }

    fn resumed(&mut self, session: &Session) {
        for (rule, spec) in self.rules.iter_mut().zip(&self.strategy.rules) {
            rule.state = RuleState::new(spec.action.tools(), session);
            rule.results = Results::default();
        }
        self.sums.fill(Sums::default());
    }
}
