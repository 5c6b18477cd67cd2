//! What a command found out, independent of how it is written.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::Rate;
use crate::sim::Summary;

use super::curve::Curves;

/// Version of every file that ctxsim writes.
pub const FORMAT_VERSION: u32 = 1;

/// All cells of a command, their totals, and what reproduces them.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSet {
    /// What reproduces them.
    pub recipe: Recipe,
    /// Inputs that could not be used.
    pub skipped: Vec<Skipped>,
    /// By session id, then policy and model as given.
    pub cells: Vec<Cell>,
    /// By policy and model as given.
    pub totals: Vec<Total>,
    /// The command was stopped before every cell was done.
    pub interrupted: bool,
    /// Windows of the models in tokens, by id; a model that is missing comes from a file without them.
    pub windows: BTreeMap<String, u64>,
    /// What was typed behind `ctxsim`, without what changes no number. Paths are relative to the folder it was typed in,
    /// or begin with `~` or, behind a label, with `$HOME`; of others, `…` and the file's name are left. Empty where
    /// nobody typed anything.
    pub command_line: Vec<String>,
    /// Prompt sizes over each run, for tables; no file holds them.
    pub curves: Curves,
}

/// Version, seed and fully resolved parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recipe {
    /// Version of ctxsim.
    pub ctxsim: String,
    /// The command.
    pub command: String,
    /// The scenario's name, if one was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Root seed.
    pub seed: u64,
    /// How tokens were counted.
    pub tokens: String,
    /// Kind of account.
    pub account: String,
    /// Override of the strategies' answer to a binding rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_binding_error: Option<String>,
    /// What became of the recordings' own compactions.
    #[serde(default)]
    pub recorded_compactions: String,
    /// Models asked for; empty means each recording's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// Date whose prices were used, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_date: Option<String>,
    /// Whether all sessions shared a cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_cache: bool,
    /// How requests were bought, where not at the standard price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Which part of the sessions was run, as `hash:i/n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Strategies with every parameter.
    pub policies: Vec<RecipePolicy>,
}

/// One strategy of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecipePolicy {
    /// Name in results.
    pub label: String,
    /// The preset or file it comes from.
    #[serde(default)]
    pub preset: String,
    /// Every parameter, as resolved for the first model asked for, else for the one that stands in for unknown
    /// ones.
    pub params: serde_json::Map<String, serde_json::Value>,
}

/// An input, or a line of one, that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Path as given.
    pub path: String,
    /// Line, from 1; 0 where it is about the whole file.
    pub line: u64,
    /// One sentence.
    pub reason: String,
}

/// One session under one policy on one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Session id.
    pub session: String,
    /// Policy label.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// The recorded model id, where it is unknown and `model` stands in for it.
    pub model_substituted: Option<String>,
    /// The numbers.
    pub summary: Summary,
}

impl Cell {
    /// Whether the run reached the session's end.
    pub fn finished(&self) -> bool {
        self.summary.stop_reason.is_none()
    }
}

/// All sessions of one policy on one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// Policy label.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// Sessions summed.
    pub sessions: u64,
    /// Of these, sessions that ran to their end.
    pub finished_sessions: u64,
    /// Sums over all sessions; of the peak, the largest.
    pub summary: Summary,
    /// Against the first policy; `None` for that policy itself.
    pub relative: Option<Relative>,
}

/// A policy against the baseline, over the sessions that both finished (docs/decisions.md 18).
#[derive(Debug, Clone, PartialEq)]
pub struct Relative {
    /// The first policy.
    pub baseline: String,
    /// Sessions that both finished on this model.
    pub sessions: u64,
    /// The policy's sums over them.
    pub own: Summary,
    /// The baseline's sums over them.
    pub base: Summary,
}

impl Relative {
    /// (cost − baseline) / baseline.
    pub fn cost_change(&self) -> Change {
        Change::of(self.own.cost.total(), self.base.cost.total())
    }

    /// (prompt tokens − baseline) / baseline.
    pub fn prompt_change(&self) -> Change {
        Change::of(u128::from(self.own.usage.prompt_tokens()), u128::from(self.base.usage.prompt_tokens()))
    }
}

/// A relative change in signed millionths; `None` over 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change(pub Option<i64>);

impl Change {
    /// (new − old) / old, half away from zero at the sixth decimal.
    pub fn of(new: u128, old: u128) -> Change {
        let magnitude = Rate::of(new.abs_diff(old), old).0.and_then(|micro| i64::try_from(micro).ok());
        Change(magnitude.map(|micro| if new < old { -micro } else { micro }))
    }

    /// For people: `+4.2%`, `-31.0%`, `0.0%`; `-` where there is none.
    pub fn percent(self) -> String {
        let Some(micro) = self.0 else { return "-".to_owned() };
        let text = Rate(Some(micro.unsigned_abs())).percent();
        match micro {
            _ if text == "0.0%" => text,
            ..0 => format!("-{text}"),
            0.. => format!("+{text}"),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(micro) => {
                if micro < 0 {
                    f.write_str("-")?;
                }
                Rate(Some(micro.unsigned_abs())).fmt(f)
            }
            None => f.write_str("null"),
        }
    }
}

impl ResultSet {
    /// Sorts the cells, and makes the totals.
    pub fn new(recipe: Recipe, mut skipped: Vec<Skipped>, mut cells: Vec<Cell>) -> ResultSet {
        let (policies, models) = (order_of(&cells, |c| &c.policy), order_of(&cells, |c| &c.model));
        let policies = match recipe.policies.is_empty() {
            true => policies,
            false => recipe.policies.iter().map(|p| p.label.clone()).collect(),
        };
        let models = if recipe.models.is_empty() { sorted(models) } else { models };
        let (policy_rank, model_rank) = (ranks(&policies), ranks(&models));
        let rank =
            |ranks: &BTreeMap<&str, usize>, name: &str| ranks.get(name).copied().unwrap_or(ranks.len());
        let ranked = |c: &Cell| (rank(&policy_rank, &c.policy), rank(&model_rank, &c.model));
        // No two cells are equal, and a stable sort would take half their memory again.
        cells.sort_unstable_by(|a, b| a.session.cmp(&b.session).then_with(|| ranked(a).cmp(&ranked(b))));
        skipped.sort();
        let totals = totals(&cells, &policies, &models);
        ResultSet {
            recipe,
            skipped,
            cells,
            totals,
            interrupted: false,
            windows: BTreeMap::new(),
            command_line: Vec::new(),
            curves: Curves::default(),
        }
    }

    /// Label of the policy that relative columns refer to.
    pub fn baseline(&self) -> Option<&str> {
        match self.recipe.policies.first() {
            Some(policy) => Some(policy.label.as_str()),
            None => self.totals.first().map(|t| t.policy.as_str()),
        }
    }

    /// The baseline in titles: its label, where that is short.
    pub fn baseline_word(&self) -> &str {
        const LONGEST: usize = 16;
        self.baseline().filter(|label| label.chars().count() <= LONGEST).unwrap_or("baseline")
    }

    /// Place of each policy among all, in the order of the totals: what gives it its colour everywhere.
    pub fn policy_places(&self) -> BTreeMap<&str, usize> {
        let mut places = BTreeMap::new();
        for total in &self.totals {
            let next = places.len();
            places.entry(total.policy.as_str()).or_insert(next);
        }
        places
    }

    /// Whether the totals are of more than one model, so that it must be named.
    pub fn has_many_models(&self) -> bool {
        self.totals.iter().any(|t| t.model != self.totals[0].model)
    }

    /// The baseline's cell of the same session and model, if both cells finished.
    pub fn baseline_of(&self, cell: &Cell) -> Option<&Cell> {
        let baseline = self.baseline()?;
        let start = self.cells.partition_point(|c| c.session < cell.session);
        self.cells[start..]
            .iter()
            .take_while(|c| c.session == cell.session)
            .find(|c| c.policy == baseline && c.model == cell.model)
            .filter(|base| base.finished() && cell.finished())
    }
}

fn ranks(names: &[String]) -> BTreeMap<&str, usize> {
    names.iter().enumerate().map(|(rank, name)| (name.as_str(), rank)).collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn order_of<'a>(cells: &'a [Cell], name: impl Fn(&'a Cell) -> &'a String) -> Vec<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    cells.iter().map(name).filter(|n| seen.insert(n)).cloned().collect()
}

fn totals(cells: &[Cell], policies: &[String], models: &[String]) -> Vec<Total> {
    let mut by_key: BTreeMap<(&str, &str), BTreeMap<&str, &Cell>> = BTreeMap::new();
    for cell in cells {
        by_key.entry((&cell.policy, &cell.model)).or_default().insert(&cell.session, cell);
    }
    let mut out = Vec::new();
    for (policy, model) in policies.iter().flat_map(|p| models.iter().map(move |m| (p, m))) {
        let Some(own) = by_key.get(&(policy.as_str(), model.as_str())) else { continue };
        let mut total = Total {
            policy: policy.clone(),
            model: model.clone(),
            sessions: own.len() as u64,
            finished_sessions: own.values().filter(|c| c.finished()).count() as u64,
            summary: Summary::default(),
            relative: None,
        };
        for cell in own.values() {
            total.summary.add(&cell.summary);
        }
        let baseline = policies.first().filter(|first| *first != policy);
        total.relative = baseline.and_then(|first| {
            let base = by_key.get(&(first.as_str(), model.as_str()))?;
            Some(relative(first, own, base))
        });
        out.push(total);
    }
    out
}

fn relative(baseline: &str, own: &BTreeMap<&str, &Cell>, base: &BTreeMap<&str, &Cell>) -> Relative {
    let mut relative = Relative {
        baseline: baseline.to_owned(),
        sessions: 0,
        own: Summary::default(),
        base: Summary::default(),
    };
    for (session, cell) in own {
        if let Some(other) = base.get(session).filter(|other| other.finished() && cell.finished()) {
            relative.sessions += 1;
            relative.own.add(&cell.summary);
            relative.base.add(&other.summary);
        }
    }
    relative
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::sim::MissTotal;
    use crate::sim::summary::StopReason;
    use crate::usage::Usage;

    /// A small hand-made result: two sessions, two policies, one stopped run.
    pub fn sample() -> ResultSet {
        let policies = ["none", "arc"].map(|label| RecipePolicy {
            label: label.to_owned(),
            preset: label.to_owned(),
            params: serde_json::Map::from_iter([("keep".to_owned(), 3.into())]),
        });
        let recipe = Recipe {
            ctxsim: "0.1.0".to_owned(),
            command: "simulate".to_owned(),
            tokens: "auto".to_owned(),
            account: "enforced".to_owned(),
            policies: policies.to_vec(),
            ..Recipe::default()
        };
        let mut stopped = cell("s-two", "arc", 10, 900, 50_000_000_000);
        stopped.summary.stop_reason = Some(StopReason::Overflow);
        stopped.summary.stopped_at_request = Some(3);
        let cells = vec![
            stopped,
            cell("s-two", "none", 40, 1_000, 80_000_000_000),
            cell("s-one", "arc", 20, 600, 60_000_000_000),
            cell("s-one", "none", 20, 800, 100_000_000_000),
        ];
        let skipped = vec![Skipped { path: "x.jsonl".into(), line: 12, reason: "not JSON".into() }];
        ResultSet::new(recipe, skipped, cells)
    }

    /// A cell with a consistent token partition: a tenth is new content, a tenth expired.
    pub fn cell(session: &str, policy: &str, requests: u64, prompt: u64, cost_pusd: u128) -> Cell {
        let mut summary = Summary { requests, peak_prompt_tokens: prompt / 2, ..Summary::default() };
        summary.usage = Usage {
            uncached_tokens: prompt / 10,
            cache_read_tokens: prompt - 2 * (prompt / 10),
            cache_write_5m_tokens: prompt / 10,
            cache_write_1h_tokens: 0,
            output_tokens: 7,
        };
        summary.cost.cache_write = cost_pusd - 1;
        summary.cost.output = 1;
        summary.hit_rate_sum_nano = requests * 800_000_000;
        for cause in [Cause::NewContent, Cause::TtlExpired] {
            summary.misses[cause.index()] =
                MissTotal { requests: 1, tokens: prompt / 10, cost_pusd: cost_pusd / 2 };
        }
        Cell {
            session: session.into(),
            policy: policy.into(),
            model: "claude-opus-5-5".into(),
            model_substituted: None,
            summary,
        }
    }

    #[test]
    fn cells_are_ordered_by_session_then_policy_as_given() {
        let order: Vec<_> = sample().cells.iter().map(|c| format!("{}/{}", c.session, c.policy)).collect();
        assert_eq!(order, ["s-one/none", "s-one/arc", "s-two/none", "s-two/arc"]);
    }

    #[test]
    fn comparison_leaves_out_sessions_that_one_side_did_not_finish() {
        let results = sample();
        let total = &results.totals[1];
        assert_eq!((total.sessions, total.finished_sessions), (2, 1));
        assert_eq!(total.summary.requests, 30);
        let relative = total.relative.as_ref().expect("not the baseline");
        assert_eq!(relative.sessions, 1);
        assert_eq!(relative.cost_change(), Change(Some(-400_000)));
        assert_eq!(relative.prompt_change().percent(), "-25.0%");
        assert!(results.baseline_of(&results.cells[3]).is_none());
        assert!(results.baseline_of(&results.cells[1]).is_some());
    }

    #[test]
    fn changes_over_zero_do_not_exist() {
        assert_eq!(Change::of(5, 0), Change(None));
        assert_eq!(Change::of(0, 0).percent(), "-");
        assert_eq!(Change::of(100, 100).percent(), "0.0%");
        assert_eq!(Change::of(106, 100).to_string(), "0.06");
        assert_eq!(Change::of(50, 100).to_string(), "-0.5");
    }
}
