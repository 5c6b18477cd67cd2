//! How often a strategy is cheaper than the baseline, session by session, and how sure that is.

use std::collections::BTreeMap;

use crate::metrics::{Share, Usd};
use crate::stats::{self, Column, Interval, Paired, Resamples};

use super::grid::Grid;
use super::results::{Cell, ResultSet};

/// Fewer sessions than this say nothing about others.
const FEWEST_SESSIONS: usize = 2;

/// Draws of sessions: the interval's ends are the 25th and 975th of them.
const RESAMPLES: usize = 1_000;

/// Cost against the baseline, over the sessions that both finished.
#[derive(Debug, Clone, PartialEq)]
pub struct Wins {
    /// Policy label.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// Its intervals are of a thousand draws of the sessions; differences are dollars over all of them.
    pub paired: Paired,
    /// Sessions compared.
    pub sessions: usize,
}

/// One entry per total that is not the baseline; none where fewer than two sessions can be compared.
pub fn of(results: &ResultSet) -> Vec<Wins> {
    let mut pairs: BTreeMap<(&str, &str), (Column, Column)> = BTreeMap::new();
    let baseline = results.baseline().unwrap_or_default();
    for cell in results.cells.iter().filter(|cell| cell.policy != baseline) {
        let Some(base) = results.baseline_of(cell) else { continue };
        let (own, other) = pairs.entry((&cell.policy, &cell.model)).or_default();
        own.push(cost(cell));
        other.push(cost(base));
    }
    let mut draws: BTreeMap<usize, Resamples> = BTreeMap::new();
    let one = |total: &super::results::Total| {
        let (own, other) = pairs.get(&(total.policy.as_str(), total.model.as_str()))?;
        let sessions = own.len();
        if sessions < FEWEST_SESSIONS {
            return None;
        }
        let draw = || Resamples::draw(results.recipe.seed, "win rates", sessions, RESAMPLES);
        let drawn = draws.entry(sessions).or_insert_with(draw);
        let paired = stats::paired((own, &drawn.scores(own)), (other, &drawn.scores(other)), false)?;
        Some(Wins { policy: total.policy.clone(), model: total.model.clone(), paired, sessions })
    };
    results.totals.iter().filter_map(one).collect()
}

fn cost(cell: &Cell) -> Share {
    Share::Sum(Usd(cell.summary.cost.total()).as_f64())
}

/// The table of [`of`]; without rows where there is nothing to compare.
pub fn grid(results: &ResultSet) -> Grid {
    let many_models = results.has_many_models();
    let titles = [
        (format!("against {}", results.baseline_word()), false),
        ("cheaper/equal/dearer".to_owned(), true),
        ("win rate, 95%".to_owned(), true),
        ("change a session".to_owned(), true),
        ("95%".to_owned(), true),
    ];
    let mut grid = Grid::new(titles);
    grid.columns[4].rank = 1;
    for wins in of(results) {
        let name = match many_models {
            true => format!("{} on {}", wins.policy, wins.model),
            false => wins.policy.clone(),
        };
        let paired = &wins.paired;
        let (change, interval) = change(paired, wins.sessions);
        grid.rows.push(vec![
            name,
            format!("{}/{}/{}", paired.wins, paired.ties, paired.losses),
            percents(paired.win_rate_interval),
            dollars(change),
            format!("{} to {}", dollars(interval.low), dollars(interval.high)),
        ]);
    }
    grid
}

/// What a session costs more on average, in dollars.
#[expect(clippy::cast_precision_loss, reason = "numbers of sessions are far below 2^53")]
fn change(paired: &Paired, sessions: usize) -> (f64, Interval) {
    let each = |dollars: f64| dollars / sessions as f64;
    let of = paired.difference_interval;
    (each(paired.difference), Interval { low: each(of.low), high: each(of.high) })
}

fn percents(interval: Interval) -> String {
    format!("{:.0}% to {:.0}%", interval.low * 100.0, interval.high * 100.0)
}

fn dollars(amount: f64) -> String {
    match amount {
        ..=-0.005 => format!("-${:.2}", -amount),
        0.005.. => format!("+${amount:.2}"),
        _ => "$0.00".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::cell;
    use crate::report::{Recipe, RecipePolicy};

    fn results(sessions: u64) -> ResultSet {
        let label = |label: &str| RecipePolicy {
            label: label.to_owned(),
            preset: label.to_owned(),
            params: serde_json::Map::new(),
        };
        let recipe = Recipe { policies: ["none", "arc"].map(label).to_vec(), ..Recipe::default() };
        let dollar = 1_000_000_000_000;
        let pair = |i: u64| {
            let own = if i == 0 { 12 } else { 9 };
            let of = |policy, dollars: u128| cell(&format!("s{i}"), policy, 3, 100, dollars * dollar);
            [of("none", 10), of("arc", own)]
        };
        ResultSet::new(recipe, Vec::new(), (0..sessions).flat_map(pair).collect())
    }

    #[test]
    fn sessions_are_counted_and_dollars_averaged() {
        let grid = grid(&results(10));
        assert_eq!(grid.rows.len(), 1, "the baseline has no row");
        let row: Vec<&str> = grid.rows[0].iter().map(String::as_str).collect();
        assert_eq!(row[..4], ["arc", "9/0/1", "60% to 98%", "-$0.70"]);
        let wins = &of(&results(10))[0];
        assert_eq!((wins.paired.wins, wins.paired.losses, wins.paired.ties), (9, 1, 0));
        let (_, interval) = change(&wins.paired, 10);
        assert!(interval.high > -0.7 && interval.low >= -1.0 - 1e-9, "{interval:?}");
    }

    #[test]
    fn one_session_is_no_sample() {
        assert!(grid(&results(1)).rows.is_empty());
        assert_eq!(grid(&results(2)).rows.len(), 1);
    }
}
