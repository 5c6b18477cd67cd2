//! What a rule does to single items, with numbers in it.

use super::rule::item_unit;
use super::{Bound, Resolved};
use crate::policy::file::{
    CopyForm, CrossingForm, ItemsToml, KeepRecentToml, OffloadToml, RuleToml, SavingsForm, SelectToml,
    StopAtForm, TruncateToml, UntilToml,
};
use crate::policy::laws::{PathLaw, StubLaw};
use crate::policy::strategy::{
    Action, EditView, Ends, Items, KeepRecent, Level, OffloadRule, Repeated, Savings, StubRule, StubSize,
    TruncateRule, Unit, Until,
};
use crate::policy::value::{ListValue, Value};
use crate::provider::Models;

impl Bound<'_> {
    pub(super) fn action(&mut self, rule: &RuleToml, models: &Models) -> Resolved<Action> {
        let given = [
            rule.offload.is_some(),
            rule.stub.is_some(),
            rule.clear.is_some(),
            rule.truncate.is_some(),
            rule.clear_inputs.is_some(),
            rule.drop.is_some(),
            rule.strip_thinking.is_some(),
            rule.summarize.is_some(),
            rule.native_compact.is_some(),
        ];
        if given.iter().filter(|g| **g).count() != 1 {
            return Err("exactly one of `offload`, `stub`, `clear`, `truncate`, `clear_inputs`, `drop`, \
                        `strip_thinking`, `summarize`, `native_compact` is needed"
                .to_owned());
        }
        if let Some(offload) = &rule.offload {
            return self.offload(rule, offload);
        }
        if let Some(truncate) = &rule.truncate {
            let ends = self.ends(truncate)?;
            if rule.at.0.contains(&crate::policy::strategy::Hook::ToolResult) {
                let select = self.items(rule)?.1;
                let (except, only) = self.tools(select)?;
                return Ok(Action::Truncate(TruncateRule { except, only, errors: select.errors, ends }));
            }
            return self.stub(rule, StubSize::Ends(ends));
        }
        if let Some(law) = &rule.stub {
            return self.stub(rule, StubSize::Law(law.clone()));
        }
        if let Some(clear) = &rule.clear {
            return self.stub(rule, StubSize::Tokens(clear.placeholder_tokens));
        }
        if let Some(inputs) = &rule.clear_inputs {
            let law = StubLaw { fixed: inputs.chars, ..StubLaw::default() };
            return self.stub(rule, StubSize::Law(law));
        }
        if rule.strip_thinking.is_some() {
            // What the provider removes from its own copy, the client goes on sending.
            let is_server = rule.view == EditView::Server;
            return self.stub(rule, if is_server { StubSize::Tokens(0) } else { StubSize::Nothing });
        }
        match (&rule.drop, &rule.select) {
            (Some(drop), Some(SelectToml::Messages(_))) => self.drop_messages(rule, drop.marker_chars),
            (Some(drop), _) if drop.marker_chars > 0 => {
                Err("a marker stands for messages; single items have a `stub`".to_owned())
            }
            (Some(_), _) => self.stub(rule, StubSize::Nothing),
            (None, _) => self.summarize(rule, models),
        }
    }

    /// Which items the rule selects.
    fn items<'r>(&self, rule: &'r RuleToml) -> Resolved<(Items, &'r ItemsToml)> {
        match &rule.select {
            Some(SelectToml::ToolResults(items)) => Ok((Items::Results, items)),
            Some(SelectToml::ToolInputs(items)) => Ok((Items::Inputs, items)),
            Some(SelectToml::Pairs(items)) => Ok((Items::Pairs, items)),
            Some(SelectToml::Thinking(items)) => Ok((Items::Thinking, items)),
            Some(SelectToml::Messages(_)) | None => {
                Err("this action needs `select` with `tool_results`, `tool_inputs`, `pairs` or `thinking`"
                    .to_owned())
            }
        }
    }

    /// Tools left alone, and tools the rule is limited to.
    fn tools(&self, select: &ItemsToml) -> Resolved<(Vec<String>, Vec<String>)> {
        let only = select.only.as_ref().map_or(Ok(Vec::new()), |l: &ListValue| self.list(l))?;
        Ok((self.list(&select.except)?, only))
    }

    fn offload(&mut self, rule: &RuleToml, offload: &OffloadToml) -> Resolved<Action> {
        let select = self.items(rule)?.1;
        let (except, only) = self.tools(select)?;
        let home = self.text(&offload.path.home)?;
        let utf16 = |s: &str| s.encode_utf16().count() as u64;
        Ok(Action::Offload(OffloadRule {
            except,
            only,
            errors: select.errors,
            keep_head: self.count(&offload.head)?,
            keep_tail: self.count(&offload.tail)?,
            unit: offload.unit.map_or(Ok(Unit::Utf16), item_unit)?,
            limit: self.count(&offload.limit)?,
            stub: offload.stub.clone(),
            path: PathLaw {
                folder_utf16: utf16(&home) + utf16(&offload.path.folder),
                session_utf16: offload.path.session_id,
                fixed: utf16("/") + utf16("-") + utf16(".txt"),
            },
        }))
    }

    pub(super) fn ends(&self, truncate: &TruncateToml) -> Resolved<Ends> {
        let unit = truncate.unit.map_or(Ok(Unit::Utf16), item_unit)?;
        let marker = truncate.marker.clone();
        let count = |v: &Option<Value>| v.as_ref().map_or(Ok(0), |v| self.count(v));
        match (&truncate.budget, truncate.head.is_some() || truncate.tail.is_some()) {
            (Some(budget), false) => {
                let head = truncate.head_percent.unwrap_or(50);
                Ok(Ends { head, tail: 0, budget: Some(self.count(budget)?), unit, marker })
            }
            (None, true) if truncate.head_percent.is_none() => Ok(Ends {
                head: count(&truncate.head)?,
                tail: count(&truncate.tail)?,
                budget: None,
                unit,
                marker,
            }),
            _ => Err("`truncate` has `head` and `tail`, or a `budget` with its `head_percent`".to_owned()),
        }
    }

    pub(super) fn stub(&mut self, rule: &RuleToml, stub: StubSize) -> Resolved<Action> {
        let (items, select) = self.items(rule)?;
        let (except, only) = self.tools(select)?;
        let is_provider = matches!(stub, StubSize::Tokens(_));
        let default_unit = if is_provider { Unit::Tokens } else { Unit::Utf16 };
        let cadence = &rule.cadence;
        let min = match (&cadence.min_savings, &cadence.savings_over) {
            (Some(_), Some(_)) => {
                return Err("`min_savings` and `savings_over` exclude each other".to_owned());
            }
            (Some(v), None) => self.count(v)?,
            (None, Some(v)) => self.count(v)?.saturating_add(1),
            (None, None) => 0,
        };
        let mut by_tool = Vec::with_capacity(rule.stub_by_tool.len());
        for other in &rule.stub_by_tool {
            let size = match (&other.head, &other.tail) {
                (None, None) => StubSize::Law(other.stub.clone()),
                (head, tail) => StubSize::Ends(self.ends(&TruncateToml {
                    head: head.clone(),
                    tail: tail.clone(),
                    budget: None,
                    head_percent: None,
                    unit: other.unit,
                    marker: other.stub.clone(),
                })?),
            };
            by_tool.push((self.list(&other.only)?, size));
        }
        Ok(Action::Stub(StubRule {
            items,
            except,
            only,
            errors: select.errors,
            min: select.min.as_ref().map_or(Ok(0), |v| self.count(v))?,
            min_unit: select.min_unit.map_or(Ok(Unit::Utf16), item_unit)?,
            keep: self.keep_recent(rule, select)?,
            keep_first: select.keep_first.as_ref().map_or(Ok(0), |v| self.count(v))?,
            hidden_items: select.hidden_items.as_ref().map_or(Ok(0), |v| self.count(v))?,
            quantum: select.quantum.as_ref().map_or(Ok(0), |v| self.count(v))?,
            stop_at_stubbed: select.stop_at == Some(StopAtForm::Stubbed),
            until: select.until.as_ref().map(|u| self.until(u)).transpose()?,
            stub,
            by_tool,
            savings: Savings {
                min,
                unit: cadence.savings_unit.map_or(Ok(default_unit), item_unit)?,
                gross: cadence.savings == SavingsForm::Gross,
            },
            target: self.target(rule)?,
            target_required: cadence.target_required,
            view: rule.view,
            withhold_thinking: self.withholds(rule.withhold_thinking.as_ref())?,
            summary: None,
            repeated: repeated(items, select)?,
        }))
    }

    /// The post level: `cadence.target`, or what `cadence.headroom` comes to.
    pub(super) fn target(&self, rule: &RuleToml) -> Resolved<Option<Level>> {
        match (&rule.cadence.target, &rule.cadence.headroom) {
            (Some(_), Some(_)) => Err("`cadence.headroom` stands in place of `cadence.target`".to_owned()),
            (target, None) => target.as_ref().map(|v| self.level(v)).transpose(),
            (None, Some(_)) if rule.when.is_empty() => {
                Err("`cadence.headroom` is of a measure: the rule needs `when`".to_owned())
            }
            (None, Some(room)) => {
                let (floor, ceiling) = (room.floor.millionths(self)?, room.ceiling.millionths(self)?);
                Ok(Some(Level::Headroom { requests: self.count(&room.requests)?, floor, ceiling }))
            }
        }
    }

    fn keep_recent(&self, rule: &RuleToml, select: &ItemsToml) -> Resolved<KeepRecent> {
        let none = KeepRecentToml::default();
        let toml = select.keep_recent.as_ref().unwrap_or(&none);
        if toml.share.is_some() || toml.requests.is_some() {
            return Err("single items are kept by turns, results, messages or sizes".to_owned());
        }
        if toml.turns.is_some() && select.keep_recent_turns.is_some() {
            return Err("`keep_recent_turns` is the older way to write `keep_recent.turns`".to_owned());
        }
        let turns = toml.turns.as_ref().or(select.keep_recent_turns.as_ref());
        let file_turn = rule.scope.turn.or(self.config.preset.file.turn);
        let sizes = [
            (Unit::Tokens, &toml.tokens),
            (Unit::Estimate, &toml.estimate),
            (Unit::Bytes, &toml.bytes),
            (Unit::Utf16, &toml.utf16),
        ];
        let sizes = sizes.into_iter().filter_map(|(unit, v)| v.as_ref().map(|v| (unit, v)));
        let beyond = toml.beyond.iter().flat_map(|b| {
            [
                (Unit::Tokens, &b.tokens),
                (Unit::Estimate, &b.estimate),
                (Unit::Bytes, &b.bytes),
                (Unit::Utf16, &b.utf16),
            ]
        });
        let beyond = beyond.filter_map(|(unit, v)| v.as_ref().map(|v| (unit, v)));
        Ok(KeepRecent {
            turns: turns.map(|v| v.resolve(self)).transpose()?,
            turn: toml.turn.or(file_turn).unwrap_or_default(),
            results: toml.results.as_ref().map(|v| self.count(v)).transpose()?,
            thinking_turns: toml.thinking_turns.as_ref().map(|v| self.count(v)).transpose()?,
            messages: toml.messages.as_ref().map(|v| self.count(v)).transpose()?,
            history_estimate: toml.history_estimate.as_ref().map(|v| self.count(v)).transpose()?,
            sizes: sizes.map(|(unit, v)| Ok((unit, self.count(v)?))).collect::<Resolved<_>>()?,
            beyond: beyond.map(|(unit, v)| Ok((unit, self.count(v)?))).collect::<Resolved<_>>()?,
            drop_crossing: toml.crossing == CrossingForm::Drop,
        })
    }

    pub(super) fn level(&self, value: &Value) -> Resolved<Level> {
        match value {
            Value::Fired(millionths) => Ok(Level::OfFired(*millionths)),
            other => other.resolve(self).map(Level::At),
        }
    }

    pub(super) fn until(&self, toml: &UntilToml) -> Resolved<Until> {
        if let (Some(share), Some(step), Some(total)) = (&toml.share, &toml.step, &toml.total) {
            let (share, step) = (share.millionths(self)?, step.millionths(self)?);
            return Ok(Until::Growing { share, step, under: self.level(total)? });
        }
        match (&toml.saved, &toml.total, &toml.count, &toml.share) {
            (Some(v), None, None, None) => Ok(Until::Saved(self.count(v)?)),
            (None, Some(v), None, None) => Ok(Until::Total(self.level(v)?)),
            (None, None, Some(v), None) => Ok(Until::Count(self.count(v)?)),
            (None, None, None, Some(share)) => Ok(Until::Share(share.millionths(self)?)),
            _ => Err("`until` has exactly one of `saved`, `total`, `count`, `share`".to_owned()),
        }
    }
}

/// Which results the rule is limited to, of those that repeat one another.
fn repeated(items: Items, select: &ItemsToml) -> Resolved<Option<Repeated>> {
    let repeated = match (select.superseded, select.duplicates) {
        (false, None) => return Ok(None),
        (true, None) => Repeated::Superseded,
        (false, Some(CopyForm::Earlier)) => Repeated::EarlierCopy,
        (false, Some(CopyForm::Later)) => Repeated::LaterCopy,
        (true, Some(_)) => {
            return Err("`superseded` and `duplicates` exclude each other: write two rules".to_owned());
        }
    };
    if !matches!(items, Items::Results | Items::Pairs) {
        return Err("`superseded` and `duplicates` are of `tool_results` and `pairs`".to_owned());
    }
    Ok(Some(repeated))
}
