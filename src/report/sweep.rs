//! Totals of a grid of strategies: one row per strategy and model.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use crate::metrics::{self, MetricRef, Rate, Usd, Value, group_digits};

use super::grid::{Grid, GridColumn};
use super::results::{Recipe, RecipePolicy, Relative, ResultSet, Total};
use super::wins;

/// Marks the cheapest strategy of a model in the table.
pub const BEST: &str = "best";

/// Names of the parameters in which strategies of one preset differ, in the order of the recipe.
pub fn varied(recipe: &Recipe) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for policy in &recipe.policies {
        let first = recipe.policies.iter().find(|p| p.preset == policy.preset);
        let differs = |name: &String| first.is_some_and(|f| f.params.get(name) != policy.params.get(name));
        names.extend(
            policy
                .params
                .keys()
                .filter(|n| differs(n))
                .filter(|n| !names.contains(n))
                .cloned()
                .collect::<Vec<_>>(),
        );
    }
    names
}

/// For each total whether it is the cheapest of its model, among those that finished the most sessions
/// and broke no rule. Of equal ones it is the first.
pub fn best(results: &ResultSet) -> Vec<bool> {
    best_of(results, |_| true)
}

/// [`best`] of those totals that are `asked` for.
pub fn best_of(results: &ResultSet, asked: impl Fn(&Total) -> bool) -> Vec<bool> {
    let rank = |t: &Total| (Reverse(t.finished_sessions), t.summary.violations, t.summary.cost.total());
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, total) in results.totals.iter().enumerate().filter(|(_, total)| asked(total)) {
        let best = first.entry(&total.model).or_insert(i);
        if rank(total) < rank(&results.totals[*best]) {
            *best = i;
        }
    }
    (0..results.totals.len()).map(|i| first.values().any(|best| *best == i)).collect()
}

type Text = fn(&Total) -> String;

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

/// Title, rank (0 is always shown), and whether it is left out where all rows have 0; then the text.
const COLUMNS: &[(&str, u8, bool, Text)] = &[
    ("sessions", 5, false, |t| number(t.sessions)),
    ("requests", 6, false, |t| number(t.summary.requests)),
    ("prompt", 4, false, |t| number(t.summary.usage.prompt_tokens())),
    ("peak", 2, false, |t| number(t.summary.peak_prompt_tokens)),
    ("hit rate", 0, false, |t| metrics::hit_rate(&t.summary).percent()),
    ("cost", 0, false, |t| format!("${}", Usd(t.summary.cost.total()).rounded(4))),
    ("vs {baseline}", 0, true, |t| {
        t.relative.as_ref().map(|r| r.cost_change().percent()).unwrap_or_default()
    }),
    ("passes", 1, false, |t| number(t.summary.passes)),
    ("compactions", 3, true, |t| number(t.summary.compactions)),
    ("rejected", 1, false, |t| number(t.summary.binding_rejections)),
    ("overflows", 3, true, |t| number(t.summary.overflows)),
    ("violations", 1, true, |t| number(t.summary.violations)),
    ("stopped", 1, true, |t| number(t.sessions - t.finished_sessions)),
];

/// The table: totals over sessions, in the order of the grid.
pub fn grid(results: &ResultSet) -> Grid {
    let many_models = results.has_many_models();
    let baseline = results.baseline_word();
    let head = |title: &str, right, rank| GridColumn { title: title.to_owned(), right, rank };
    let mut grid = Grid { columns: vec![head("policy", false, 0)], rows: Vec::new() };
    if many_models {
        grid.columns.push(head("model", false, 0));
    }
    let is_empty = |text: &Text| results.totals.iter().all(|t| matches!(text(t).as_str(), "" | "0"));
    let shown = COLUMNS.iter().filter(|(_, _, optional, text)| !(*optional && is_empty(text)));
    let shown: Vec<_> = shown.collect();
    grid.columns.extend(shown.iter().map(|c| head(&c.0.replace("{baseline}", baseline), true, c.1)));
    let wins = wins::of(results);
    if !wins.is_empty() {
        grid.columns.push(head("cheaper in", true, 2));
    }
    grid.columns.push(head("", false, 0));
    for (total, best) in results.totals.iter().zip(best(results)) {
        let names = [Some(&total.policy), many_models.then_some(&total.model)];
        let mut row: Vec<String> = names.into_iter().flatten().cloned().collect();
        row.extend(shown.iter().map(|column| (column.3)(total)));
        if !wins.is_empty() {
            let own = wins.iter().find(|w| w.policy == total.policy && w.model == total.model);
            row.push(own.map(|w| format!("{} of {}", w.paired.wins, w.sessions)).unwrap_or_default());
        }
        row.push(if best { BEST.to_owned() } else { String::new() });
        grid.rows.push(row);
    }
    grid
}

/// One row per strategy and model: its varied parameters, then every metric of its total.
///
/// # Errors
/// None in memory; the signature is that of the CSV writer.
pub fn csv(results: &ResultSet) -> io::Result<Vec<u8>> {
    let columns: Vec<MetricRef> = metrics::all().collect();
    let params = varied(&results.recipe);
    let mut csv = csv::Writer::from_writer(Vec::new());
    let keys = ["policy", "preset", "model", "sessions", "finished_sessions", "best", "cost_change"];
    let names = keys.map(str::to_owned).into_iter().chain(params.iter().cloned());
    csv.write_record(names.chain(columns.iter().map(MetricRef::name)))?;
    let policies: BTreeMap<&str, &RecipePolicy> =
        results.recipe.policies.iter().map(|p| (p.label.as_str(), p)).collect();
    for (total, best) in results.totals.iter().zip(best(results)) {
        let policy = policies.get(total.policy.as_str());
        let change = total.relative.as_ref().map(Relative::cost_change).filter(|c| c.0.is_some());
        let keys = [
            total.policy.clone(),
            policy.map(|p| p.preset.clone()).unwrap_or_default(),
            total.model.clone(),
            total.sessions.to_string(),
            total.finished_sessions.to_string(),
            best.to_string(),
            change.map(|c| c.to_string()).unwrap_or_default(),
        ];
        let param = |name: &String| match policy.and_then(|p| p.params.get(name)) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let values = columns.iter().map(|m| match m.value(&total.summary) {
            Value::Rate(Rate(None)) => String::new(),
            value => value.to_string(),
        });
        csv.write_record(keys.into_iter().chain(params.iter().map(param)).chain(values))?;
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};

    #[test]
    fn the_best_is_the_cheapest_of_those_that_finished() {
        let results = sample();
        // The cheaper one stopped in a session.
        assert_eq!(best(&results), [true, false]);
        assert_eq!(best_of(&results, |total| total.policy != "none"), [false, true]);
        let cells = vec![cell("s", "none", 4, 1_000, 500), cell("s", "arc", 4, 1_000, 500)];
        let equal = ResultSet::new(sample().recipe, Vec::new(), cells);
        assert_eq!(best(&equal), [true, false]);
    }

    #[test]
    fn a_row_is_a_strategy_and_the_best_one_is_marked() {
        let grid = grid(&sample());
        assert_eq!(grid.rows.len(), 2);
        let text = |row: usize, title: &str| {
            let column = grid.columns.iter().position(|c| c.title == title).expect(title);
            grid.rows[row][column].clone()
        };
        assert_eq!(
            (text(0, "policy"), text(0, ""), text(1, "")),
            ("none".into(), BEST.into(), String::new())
        );
        assert_eq!((text(1, "vs none"), text(1, "stopped")), ("-40.0%".into(), "1".into()));
    }

    #[test]
    fn csv_has_the_parameters_that_differ() {
        let mut results = sample();
        results.recipe.policies[1].preset = "none".into();
        assert!(varied(&results.recipe).is_empty());
        results.recipe.policies[1].params["keep"] = 5.into();
        assert_eq!(varied(&results.recipe), ["keep"]);
        let bytes = csv(&results).expect("memory");
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let column = reader.headers().expect("a header").iter().position(|h| h == "keep").expect("varied");
        let values: Vec<String> =
            reader.records().map(|r| r.expect("even rows")[column].to_owned()).collect();
        assert_eq!(values, ["3", "5"]);
    }
}
