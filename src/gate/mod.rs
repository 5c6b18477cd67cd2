//! Results against a committed baseline: what changed, what of it breaks a rule, and where it began.
//!
//! A cell is a session under a policy on a model. Rules about a rise or a drop hold for every cell, and
//! for every total over the cells that the baseline has too, so that a new session is no regression.
//! Rules about a value hold for totals. A cell that is gone, or that now stops before its session's end,
//! always fails.

pub mod baseline;
pub mod output;
pub mod rule;

use std::collections::BTreeMap;

use crate::cause::Cause;
use crate::metrics::{Rate, write_decimal};
use crate::report::results::Change;
use crate::report::{Cell, ResultSet};
use crate::sim::Summary;

pub use baseline::{Baseline, Requests};
pub use rule::{DEFAULT_RULES, Rule};

use baseline::{BaselineCell, Metrics, first_difference, value};
use rule::{Exact, exact};

/// What a gate found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Cells, then totals.
    pub places: Vec<Place>,
    /// What a reader should know, one sentence each.
    pub notes: Vec<String>,
}

/// A cell or a total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Session id; `None` for a total.
    pub session: Option<String>,
    /// Policy label, as it is now.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// What was checked.
    pub checks: Vec<Check>,
    /// Where its requests first differ from the baseline's.
    pub divergence: Option<Divergence>,
}

/// One rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The rule as written, or what else must hold.
    pub rule: String,
    /// What the rule is about.
    pub metric: String,
    /// Value in the baseline; empty where there is none.
    pub baseline: String,
    /// Value now; empty where there is none.
    pub now: String,
    /// From one to the other.
    pub change: String,
    /// The rule does not hold.
    pub failed: bool,
}

/// The first request that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// Its number, from 1.
    pub request: usize,
    /// Why it missed the cache, apart from new content.
    pub cause: Option<Cause>,
    /// Tokens missed for that cause.
    pub missed_tokens: u64,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.cause {
            Some(cause) => write!(f, "{}: {}, {} tokens", self.request, cause.name(), self.missed_tokens),
            None => write!(f, "{}: no cache miss", self.request),
        }
    }
}

impl Check {
    /// Whether the value is another one than the baseline's.
    pub fn changed(&self) -> bool {
        self.baseline != self.now && !self.baseline.is_empty()
    }
}

impl Place {
    /// Whether a rule does not hold here.
    pub fn failed(&self) -> bool {
        self.checks.iter().any(|c| c.failed)
    }

    /// Whether anything is not as in the baseline.
    pub fn changed(&self) -> bool {
        self.divergence.is_some() || self.checks.iter().any(Check::changed)
    }

    /// For people.
    pub fn name(&self) -> String {
        let session = self.session.as_deref().unwrap_or("total");
        format!("{session}, {} on {}", self.policy, self.model)
    }
}

impl Verdict {
    /// Whether every rule holds everywhere.
    pub fn passed(&self) -> bool {
        !self.places.iter().any(Place::failed)
    }

    /// Number of rules that do not hold, over all places.
    pub fn failures(&self) -> usize {
        self.places.iter().flat_map(|p| &p.checks).filter(|c| c.failed).count()
    }
}

type Key<'a> = (&'a str, &'a str, &'a str);

/// Compares `results` with `baseline`. `requests` are those of the results, as far as they are at hand.
pub fn check(baseline: &Baseline, results: &ResultSet, requests: &Requests, rules: &[Rule]) -> Verdict {
    let mut verdict = Verdict::default();
    let old_labels = old_labels(baseline, results, &mut verdict.notes);
    let known: BTreeMap<Key<'_>, &BaselineCell> = baseline
        .cells
        .iter()
        .map(|c| ((c.session.as_str(), c.policy.as_str(), c.model.as_str()), c))
        .collect();
    for rule in rules.iter().filter(|rule| rule.is_relative() && !baseline.knows(&rule.metric.name())) {
        verdict.notes.push(format!("The baseline does not know the metric of `{rule}`; --update adds it."));
    }
    let mut found: Vec<Key<'_>> = Vec::new();
    let mut shared: BTreeMap<(&str, &str), Summary> = BTreeMap::new();
    let mut new = 0;
    for cell in &results.cells {
        let policy = old_label(&old_labels, &cell.policy);
        let key = (cell.session.as_str(), policy, cell.model.as_str());
        let Some((key, before)) = known.get_key_value(&key) else {
            new += 1;
            continue;
        };
        found.push(*key);
        shared.entry((&cell.policy, &cell.model)).or_default().add(&cell.summary);
        verdict.places.push(place_of(cell, before, baseline, requests, rules));
    }
    if new > 0 {
        verdict
            .notes
            .push(format!("{new} cells are not in the baseline and were not compared; --update adds them."));
    }
    found.sort_unstable();
    let missing: Vec<&BaselineCell> = known
        .iter()
        .filter(|(key, _)| found.binary_search(key).is_err())
        .map(|(_, before)| *before)
        .collect();
    verdict.places.extend(missing.iter().map(|before| missing_place(before)));
    for total in &results.totals {
        let policy = old_label(&old_labels, &total.policy);
        let before = baseline.totals.iter().find(|t| t.policy == policy && t.model == total.model);
        let own = shared.get(&(total.policy.as_str(), total.model.as_str()));
        // Sums over other sessions say nothing; the missing cells fail by themselves.
        let whole = !missing.iter().any(|m| m.policy == policy && m.model == total.model);
        let compared = before.zip(own).filter(|_| whole);
        let checks = rules.iter().filter_map(|rule| match (rule.is_relative(), compared) {
            (true, Some((before, own))) => checked(rule, baseline, Some(&before.values), own),
            (true, None) => None,
            (false, _) => checked(rule, baseline, before.map(|b| &b.values), &total.summary),
        });
        verdict.places.push(Place {
            session: None,
            policy: total.policy.clone(),
            model: total.model.clone(),
            checks: checks.collect(),
            divergence: None,
        });
    }
    verdict
}

fn old_label<'a>(old_labels: &BTreeMap<&'a str, &'a str>, policy: &'a str) -> &'a str {
    old_labels.get(policy).copied().unwrap_or(policy)
}

/// The baseline's label of each strategy that has another one now: one of the same preset and parameters.
fn old_labels<'a>(
    baseline: &'a Baseline,
    results: &'a ResultSet,
    notes: &mut Vec<String>,
) -> BTreeMap<&'a str, &'a str> {
    let mut renamed: BTreeMap<&str, &str> = BTreeMap::new();
    let now = &results.recipe.policies;
    for old in baseline.policies.iter().filter(|old| !now.iter().any(|n| n.label == old.label)) {
        let same = now.iter().find(|new| {
            let is_new = !baseline.policies.iter().any(|p| p.label == new.label);
            let has = |(name, value)| new.params.get(name) == Some(value);
            is_new
                && !renamed.contains_key(new.label.as_str())
                && new.preset == old.preset
                && old.params.iter().all(has)
        });
        if let Some(new) = same {
            notes.push(format!("{} is called {} now; it has the same parameters.", old.label, new.label));
            renamed.insert(&new.label, &old.label);
        }
    }
    renamed
}

fn place_of(
    cell: &Cell,
    before: &BaselineCell,
    baseline: &Baseline,
    requests: &Requests,
    rules: &[Rule],
) -> Place {
    let relative = rules.iter().filter(|rule| rule.is_relative());
    let mut checks: Vec<Check> =
        relative.filter_map(|rule| checked(rule, baseline, Some(&before.values), &cell.summary)).collect();
    checks.extend(stop(cell, before));
    let key = (cell.session.clone(), cell.policy.clone(), cell.model.clone());
    let now = requests.get(&key).map(Vec::as_slice).unwrap_or_default();
    let divergence = first_difference(&before.requests, now).map(|request| {
        let mark = now.get(request - 1);
        Divergence {
            request,
            cause: mark.and_then(|m| m.cause),
            missed_tokens: mark.map_or(0, |m| m.missed_tokens),
        }
    });
    Place {
        session: Some(cell.session.clone()),
        policy: cell.policy.clone(),
        model: cell.model.clone(),
        checks,
        divergence,
    }
}

/// A run that ends early is cheaper for it: no rule about costs may call that right.
fn stop(cell: &Cell, before: &BaselineCell) -> Option<Check> {
    let at = cell.summary.stopped_at_request?;
    let before = before.stopped_at_request;
    before.is_none_or(|before| at < before).then(|| Check {
        rule: "no run stops earlier".to_owned(),
        metric: "stopped_at_request".to_owned(),
        baseline: before.map_or("-".to_owned(), |b| b.to_string()),
        now: at.to_string(),
        change: cell.summary.stop_reason.map(|r| r.name().to_owned()).unwrap_or_default(),
        failed: true,
    })
}

fn missing_place(before: &BaselineCell) -> Place {
    let check = Check {
        rule: "no cell is missing".to_owned(),
        metric: "cell".to_owned(),
        baseline: "there".to_owned(),
        now: "missing".to_owned(),
        change: String::new(),
        failed: true,
    };
    Place {
        session: Some(before.session.clone()),
        policy: before.policy.clone(),
        model: before.model.clone(),
        checks: vec![check],
        divergence: None,
    }
}

/// `None` where the rule has nothing to compare with.
fn checked(rule: &Rule, baseline: &Baseline, before: Option<&Metrics>, now: &Summary) -> Option<Check> {
    let metric = rule.metric.name();
    let before = before.filter(|_| baseline.knows(&metric)).map(|values| value(values, &metric));
    if rule.is_relative() && before.is_none() {
        return None;
    }
    let now = exact(rule.metric.value(now));
    let is_rate = rule.metric.metric().unit == "rate";
    Some(Check {
        rule: rule.to_string(),
        metric,
        baseline: before.map(text).unwrap_or_default(),
        now: text(now),
        change: before.map(|before| change(before, now, is_rate)).unwrap_or_default(),
        failed: !rule.holds(before.flatten(), now),
    })
}

fn text(value: Exact) -> String {
    let Some(value) = value else { return "null".to_owned() };
    let mut out = String::new();
    write_decimal(&mut out, value, 12).expect("a write to memory never fails");
    out
}

/// Points for rates, percent for the rest.
fn change(before: Exact, now: Exact, is_rate: bool) -> String {
    let (Some(before), Some(now)) = (before, now) else { return String::new() };
    if before == now {
        return String::new();
    }
    if !is_rate {
        return Change::of(now, before).percent();
    }
    let sign = if now < before { '-' } else { '+' };
    // 10^-12 of a rate is 10^-10 of a point.
    let points = Rate::of(now.abs_diff(before), 10_000_000_000);
    format!("{sign}{points}pp")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};
    use crate::sim::summary::StopReason;

    /// For tests.
    pub fn results(cells: Vec<Cell>) -> ResultSet {
        ResultSet::new(sample().recipe, Vec::new(), cells)
    }

    /// For tests.
    pub fn two() -> Vec<Cell> {
        let one = |session| ["none", "arc"].map(|policy| cell(session, policy, 4, 10_000, 1_000_000));
        [one("s-one"), one("s-two")].concat()
    }

    /// For tests.
    pub fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|t| t.parse().expect(t)).collect()
    }

    fn against(before: &ResultSet, now: &ResultSet, texts: &[&str]) -> Verdict {
        check(&Baseline::of(before, &Requests::new()), now, &Requests::new(), &rules(texts))
    }

    fn failed(verdict: &Verdict) -> Vec<String> {
        let places = verdict.places.iter().filter(|p| p.failed());
        places.map(|p| format!("{} {}", p.session.as_deref().unwrap_or("total"), p.policy)).collect()
    }

    /// One cell changed by `change`, under the default rules.
    fn changed(change: fn(&mut Cell)) -> Verdict {
        let mut cells = two();
        change(&mut cells[3]);
        against(&results(two()), &results(cells), &DEFAULT_RULES)
    }

    #[test]
    fn the_same_results_pass_and_nothing_changed() {
        let verdict = against(&results(two()), &results(two()), &DEFAULT_RULES);
        assert!(verdict.passed() && verdict.notes.is_empty());
        assert!(!verdict.places.iter().any(Place::changed));
        assert_eq!(verdict.places.len(), 4 + 2);
    }

    #[test]
    fn default_rules_fail_on_each_kind_of_regression() {
        let cell = ["s-two arc".to_owned(), "total arc".to_owned()];
        assert_eq!(failed(&changed(|c| c.summary.cost.output += 30_000)), cell);
        assert_eq!(failed(&changed(|c| c.summary.binding_rejections = 1)), cell);
        assert_eq!(failed(&changed(|c| c.summary.overflows = 1)), cell);
        assert_eq!(failed(&changed(|c| c.summary.violations = 1)), cell);
        assert_eq!(
            failed(&changed(|c| {
                c.summary.usage.cache_read_tokens -= 100;
                c.summary.usage.uncached_tokens += 100;
            })),
            cell
        );
        // Within what is allowed, and improvements.
        for harmless in [
            |c: &mut Cell| c.summary.cost.output += 10_000,
            |c: &mut Cell| c.summary.cost.cache_write /= 2,
            |c: &mut Cell| {
                c.summary.usage.cache_read_tokens -= 30;
                c.summary.usage.uncached_tokens += 30;
            },
        ] {
            let verdict = changed(harmless);
            assert!(verdict.passed(), "{verdict:?}");
            assert!(verdict.places.iter().any(Place::changed));
        }
    }

    #[test]
    fn a_total_may_pass_where_a_cell_fails_and_the_cell_counts() {
        let verdict = changed(|c| c.summary.cost.output += 15_000);
        assert_eq!(failed(&verdict), ["s-two arc"]);
        assert_eq!(verdict.failures(), 1);
        let check = verdict.places.iter().flat_map(|p| &p.checks).find(|c| c.failed).expect("failed");
        assert_eq!((check.metric.as_str(), check.change.as_str()), ("cost_usd", "+1.5%"));
    }

    #[test]
    fn rules_about_values_hold_for_totals() {
        let mut cells = two();
        cells[1].summary.binding_rejections = 2;
        let now = results(cells);
        assert_eq!(failed(&against(&now, &now, &["binding_rejections == 0"])), ["total arc"]);
        assert!(against(&now, &now, &["hit_rate >= 80%"]).passed());
        assert_eq!(failed(&against(&now, &now, &["hit_rate > 80%"])), ["total none", "total arc"]);
    }

    #[test]
    fn a_missing_cell_fails_whatever_the_rules() {
        let mut cells = two();
        cells.remove(3);
        for texts in [&DEFAULT_RULES[..], &["passes >= 0"]] {
            let verdict = against(&results(two()), &results(cells.clone()), texts);
            assert!(failed(&verdict).contains(&"s-two arc".to_owned()), "{verdict:?}");
        }
    }

    #[test]
    fn a_new_session_is_no_regression() {
        let more = [two(), vec![cell("s-new", "none", 9, 90_000, 90_000_000)]].concat();
        let verdict = against(&results(two()), &results(more), &DEFAULT_RULES);
        assert!(verdict.passed(), "{verdict:?}");
        assert!(verdict.notes[0].starts_with("1 cells are not in the baseline"), "{:?}", verdict.notes);
    }

    #[test]
    fn a_run_that_now_stops_early_fails() {
        let verdict = changed(|c| {
            c.summary.stop_reason = Some(StopReason::InvalidRequest);
            c.summary.stopped_at_request = Some(3);
        });
        assert_eq!(failed(&verdict), ["s-two arc"]);
        let stopped = |at| {
            let mut cells = two();
            cells[3].summary.stopped_at_request = Some(at);
            results(cells)
        };
        assert!(against(&stopped(3), &stopped(3), &DEFAULT_RULES).passed());
        assert!(against(&stopped(3), &stopped(4), &DEFAULT_RULES).passed());
        assert!(!against(&stopped(3), &stopped(2), &DEFAULT_RULES).passed());
    }

    #[test]
    fn a_renamed_label_passes_and_another_strategy_does_not() {
        let rename = |keep: u64| {
            let mut recipe = sample().recipe;
            recipe.policies[1].label = "candidate".into();
            recipe.policies[1].params["keep"] = keep.into();
            let mut cells = two();
            cells.iter_mut().filter(|c| c.policy == "arc").for_each(|c| c.policy = "candidate".into());
            ResultSet::new(recipe, Vec::new(), cells)
        };
        let renamed = against(&results(two()), &rename(3), &DEFAULT_RULES);
        assert!(renamed.passed(), "{renamed:?}");
        assert_eq!(renamed.notes, ["arc is called candidate now; it has the same parameters."]);
        assert_eq!(failed(&against(&results(two()), &rename(9), &DEFAULT_RULES)), ["s-one arc", "s-two arc"]);
    }

    #[test]
    fn a_metric_that_the_baseline_does_not_know_passes() {
        let mut cells = two();
        cells[3].summary.offloads = 7;
        let mut baseline = Baseline::of(&results(two()), &Requests::new());
        let now = results(cells);
        let rules = rules(&["offloads rise <= 1%"]);
        assert!(!check(&baseline, &now, &Requests::new(), &rules).passed());
        baseline.metrics.retain(|m| m != "offloads");
        let verdict = check(&baseline, &now, &Requests::new(), &rules);
        assert!(verdict.passed());
        assert!(verdict.notes[0].contains("offloads rise <= 1%"), "{:?}", verdict.notes);
    }
}
