//! When a rule runs: its hooks, limits and cadence, with numbers in them.

use std::sync::Arc;

use super::{Bound, Resolved, estimate_law, matches_glob};
use crate::policy::estimate::EstimateLaw;
use crate::policy::file::{
    CadenceToml, MeasureOf, MeasureToml, MeasureUnit, MessagesForm, RuleToml, ScopeToml, SelectToml,
    StopToml, SummaryPer,
};
use crate::policy::sent::MeasuredState;
use crate::policy::strategy::{
    Cadence, EditView, Hook, Hooks, Measure, MessageUnit, Rule, RuleScope, StopRule, Threshold, Unit,
};
use crate::provider::Models;

/// Unit of the size of an item.
pub(super) fn item_unit(unit: MeasureUnit) -> Resolved<Unit> {
    match unit {
        MeasureUnit::Utf16 => Ok(Unit::Utf16),
        MeasureUnit::Bytes => Ok(Unit::Bytes),
        MeasureUnit::Lines => Ok(Unit::Lines),
        MeasureUnit::Estimate => Ok(Unit::Estimate),
        MeasureUnit::Tokens => Ok(Unit::Tokens),
        MeasureUnit::Count => Ok(Unit::Count),
        other => Err(format!("an item has no size in {other:?}")),
    }
}

impl Bound<'_> {
    /// The rule, if its conditions hold. `before` are the rules in front of it.
    pub(super) fn rule(
        &mut self,
        rule: &RuleToml,
        models: &Models,
        before: &[Rule],
    ) -> Resolved<Option<Rule>> {
        (self.window, self.trigger) = (self.scope_window(&rule.scope), None);
        if !self.hold(&rule.conditions)? || rule.if_model.is_some_and(|ability| !self.has(ability)) {
            return Ok(None);
        }
        let mut at = Hooks::of(&rule.at.0);
        if rule.manual {
            at = at.with(Hook::Manual);
        }
        check_shape(rule, at)?;
        let mut follows = None;
        if let Some(id) = &rule.follows {
            let Some(leader) = before.iter().rposition(|r| r.id == *id) else {
                // Its leader is not there on this model or with these parameters, so neither is it.
                let known = self.config.preset.file.rule.iter().any(|r| r.id == *id);
                let unknown = || format!("it follows `{id}`, and no rule before it has that id");
                return if known { Ok(None) } else { Err(unknown()) };
            };
            follows = Some(leader);
            // A leader whose measures are off has no limit either.
            self.trigger = before[leader].when.iter().map(|t| t.limit).min().or(Some(-1));
        }
        let if_broken = match &rule.if_broken {
            None => None,
            Some(id) => Some(broken_rule(id, before)?),
        };
        let mut when = Vec::with_capacity(rule.when.len());
        for measure in &rule.when {
            when.extend(self.threshold(rule, measure)?);
        }
        self.trigger = when.iter().map(|t| t.limit).min().or(self.trigger);
        if when.is_empty() && !rule.when.is_empty() {
            // Every measure is switched off: only what needs no trigger runs it.
            at = Hooks::of(
                &[Hook::Manual, Hook::Overflow, Hook::Binding]
                    .into_iter()
                    .filter(|h| at.has(*h))
                    .collect::<Vec<_>>(),
            );
            self.trigger = self.trigger.or(Some(-1));
        }
        let scope = self.rule_scope(&rule.scope)?;
        let stop_if_under = rule.stop_if_under.as_ref().map(|stop| self.stop_rule(stop)).transpose()?;
        let action = self.action(rule, models)?;
        let cadence = self.cadence(&rule.cadence)?;
        let stop_if_saved = rule.stop_if_saved.as_ref().map(|s| s.millionths(self)).transpose()?;
        let (id, all) = (rule.id.clone(), rule.all);
        Ok(Some(Rule {
            id,
            at,
            when,
            all,
            follows,
            stop_if_under,
            stop_if_saved,
            if_broken,
            scope,
            cadence,
            action,
        }))
    }

    fn stop_rule(&self, stop: &StopToml) -> Resolved<StopRule> {
        let plain = match stop.unit {
            MeasureUnit::PlainEstimate => true,
            MeasureUnit::Estimate => false,
            other => return Err(format!("`stop_if_under` measures no {other:?}")),
        };
        Ok(StopRule { plain, under: self.count(&stop.under)? })
    }

    /// The window of a rule that came with another file's beliefs, or that names its own.
    fn scope_window(&self, scope: &ScopeToml) -> Option<i64> {
        let matches =
            |b: &&crate::policy::file::Belief| b.models.iter().any(|p| matches_glob(p, &self.model.id));
        let own =
            scope.belief.as_deref().map(|beliefs| beliefs.iter().find(matches).and_then(|b| b.window_tokens));
        let table = || i64::try_from(self.model.window_tokens).unwrap_or(i64::MAX);
        scope.window.or_else(|| own.map(|w| w.unwrap_or_else(table)))
    }

    fn rule_scope(&self, scope: &ScopeToml) -> Resolved<RuleScope> {
        let file = &self.config.preset.file;
        let merged = scope.messages.or(file.messages) == Some(MessagesForm::Merged);
        let differs = scope.messages.is_some() && scope.messages != file.messages;
        let estimate = match (&scope.estimate, &file.estimate) {
            (Some(own), _) => Some(own),
            (None, Some(of_file)) if differs => Some(of_file),
            _ => None,
        };
        let estimate: Option<EstimateLaw> = estimate.map(|e| estimate_law(e, merged)).transpose()?;
        Ok(RuleScope {
            turn: scope.turn.or(file.turn).unwrap_or_default(),
            merged,
            estimate: estimate.map(Arc::new),
        })
    }

    /// A limit; `None` where it is switched off.
    pub(super) fn threshold(&self, rule: &RuleToml, m: &MeasureToml) -> Resolved<Option<Threshold>> {
        let measure = measure(rule, self, m)?;
        let (value, inclusive) = match (&m.over, &m.at_least) {
            (Some(v), None) => (v, false),
            (None, Some(v)) => (v, true),
            _ => return Err("a measure has exactly one of `over` and `at_least`".to_owned()),
        };
        let limit = value.resolve(self)?;
        let is_of_history = matches!(measure, Measure::ToolResults(_) | Measure::Messages(_));
        let counts_turns = matches!(measure, Measure::Messages(MessageUnit::Turns | MessageUnit::Events(_)));
        if m.state != MeasuredState::Stored && (!is_of_history || counts_turns) {
            return Err("`state` is of `messages` and `tool_results`, in a size or a count".to_owned());
        }
        let off = m.off_if_negative && limit < 0;
        Ok((!off).then_some(Threshold { measure, limit, inclusive, at: m.at, hard: m.hard, state: m.state }))
    }

    fn cadence(&self, toml: &CadenceToml) -> Resolved<Cadence> {
        let count = |v: &Option<_>| v.as_ref().map_or(Ok(0), |v| self.count(v));
        let breaker = toml.breaker.as_ref();
        Ok(Cadence {
            min_interval: count(&toml.min_interval)?,
            interval_in_turns: match toml.interval_unit {
                None | Some(MeasureUnit::Requests) => false,
                Some(MeasureUnit::Turns) => true,
                Some(other) => return Err(format!("an interval is no number of {other:?}")),
            },
            not_after_self: toml.not_after_self,
            no_refire_above_floor: toml.no_refire_above_floor,
            knows_growth: toml.headroom.is_some(),
            breaker_failures: breaker.map_or(Ok(0), |b| count(&b.failures))?,
            breaker_refills: breaker.map_or(Ok(0), |b| count(&b.refills))?,
            when_cache: toml.when_cache,
            prefer_cold_until: toml.prefer_cold_until.as_ref().map(|v| self.count(v)).transpose()?,
            break_even_steps: toml.break_even.as_ref().map(|b| self.count(&b.steps)).transpose()?,
        })
    }
}

/// The rule in front with this id, which must have a breaker.
fn broken_rule(id: &str, before: &[Rule]) -> Resolved<usize> {
    let Some(at) = before.iter().rposition(|r| r.id == *id) else {
        let near = crate::error::nearest(id, before.iter().map(|r| r.id.as_str()));
        let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        return Err(format!("`if_broken` names `{id}`, and no rule before it has that id{hint}"));
    };
    let cadence = &before[at].cadence;
    if cadence.breaker_failures == 0 && cadence.breaker_refills == 0 {
        return Err(format!("`if_broken` names `{id}`, which has no `cadence.breaker`"));
    }
    Ok(at)
}

fn measure(rule: &RuleToml, bound: &Bound<'_>, m: &MeasureToml) -> Resolved<Measure> {
    use MeasureOf as Of;
    use MeasureUnit as U;
    Ok(match (m.of, m.unit) {
        (Of::Block, unit) if unit != U::Count => Measure::Block(item_unit(unit)?),
        (Of::ToolResults, unit) => Measure::ToolResults(item_unit(unit)?),
        (Of::Messages, U::Estimate) => Measure::Messages(MessageUnit::Estimate),
        (Of::Messages, U::PlainEstimate) => Measure::Messages(MessageUnit::PlainEstimate),
        (Of::Messages, U::Count) => Measure::Messages(MessageUnit::Count),
        (Of::Messages, U::Turns) => Measure::Messages(MessageUnit::Turns),
        (Of::Messages, U::Events) => {
            let hidden = match &rule.select {
                Some(SelectToml::Messages(select)) => select.hidden_events.as_ref(),
                _ => None,
            };
            Measure::Messages(MessageUnit::Events(hidden.map_or(Ok(0), |v| bound.count(v))?))
        }
        (Of::Request, U::Tokens) => Measure::RequestTokens,
        (Of::LastPrompt, U::Tokens) => Measure::LastPrompt,
        (Of::LastUsage, U::Tokens) => Measure::LastUsage,
        (Of::Eligible, unit) => Measure::Eligible(item_unit(unit)?),
        (Of::SincePass, U::Requests) => Measure::SinceRequests,
        (Of::SincePass, U::Turns) => Measure::SinceTurns,
        (Of::Idle, U::Seconds) => Measure::IdleSeconds,
        (of, unit) => return Err(format!("{of:?} cannot be measured in {unit:?}")),
    })
}

/// Whether the parts of a rule go together; a part that would never matter is a mistake.
fn check_shape(rule: &RuleToml, at: Hooks) -> Resolved<()> {
    let of_pairs = rule.summarize.as_ref().is_some_and(|s| s.per == SummaryPer::Pair);
    if of_pairs && rule.view != EditView::Destructive {
        return Err(
            "a summary of each pair changes the stored history: it needs `view = \"destructive\"`".to_owned()
        );
    }
    let summarizes = (rule.summarize.is_some() && !of_pairs) || rule.native_compact.is_some();
    let folds = summarizes || (rule.drop.is_some() && matches!(rule.select, Some(SelectToml::Messages(_))));
    let is_fresh = at.has(Hook::ToolResult);
    if is_fresh && at != Hooks::of(&[Hook::ToolResult]) {
        return Err("`tool_result` is a hook of its own: it stands alone in `at`".to_owned());
    }
    if rule.offload.is_some() && !is_fresh {
        return Err("`offload` acts at `tool_result`".to_owned());
    }
    if is_fresh && rule.offload.is_none() && rule.truncate.is_none() {
        return Err("at `tool_result` a result can be offloaded or truncated, nothing else".to_owned());
    }
    let of_block = |m: &MeasureToml| m.of == MeasureOf::Block;
    if is_fresh && (rule.when.is_empty() || !rule.when.iter().all(of_block)) {
        return Err(
            "at `tool_result` the rule needs `when` with the size of the `block` at hand, and nothing else"
                .to_owned(),
        );
    }
    if !is_fresh && rule.when.iter().any(of_block) {
        return Err("the size of a `block` is known at `tool_result` only".to_owned());
    }
    let edits = !is_fresh && !folds;
    if !edits && (rule.cadence.min_savings.is_some() || rule.view != EditView::Ledger) {
        return Err("savings and `view` belong to edits of single items".to_owned());
    }
    if !summarizes && rule.cadence.larger_than_last_summary {
        return Err("`larger_than_last_summary` belongs to `summarize`".to_owned());
    }
    let is_server = rule.view == EditView::Server;
    let may_be_server = rule.clear.is_some() || rule.clear_inputs.is_some() || rule.strip_thinking.is_some();
    if (rule.clear.is_some() && !is_server) || (is_server && !may_be_server) {
        return Err("`clear` is the provider's own edit: it goes with `view = \"server\"`, and only it, `clear_inputs` \
                    and `strip_thinking` do"
            .to_owned());
    }
    let asked = at.has(Hook::Manual) || at.has(Hook::Overflow) || at.has(Hook::Binding);
    if asked && edits && matches!(rule.view, EditView::Stateless | EditView::Server) {
        return Err("an edit worked out anew for each request cannot be asked for once".to_owned());
    }
    match &rule.select {
        Some(SelectToml::ToolResults(s))
            if is_fresh && (s.min.is_some() || s.keep_recent_turns.is_some() || s.keep_recent.is_some()) =>
        {
            Err("the rule sees one fresh result: `min` and `keep_recent` do not apply to it".to_owned())
        }
        _ => Ok(()),
    }
}
