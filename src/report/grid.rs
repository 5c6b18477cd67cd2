//! Results as rows and columns of text: what the table and the Markdown writer share.

use crate::cause::Cause;
use crate::metrics::{self, Usd, group_digits};
use crate::sim::{MissTotal, Summary};

use super::curve::{Curves, line};
use super::results::{Change, Relative, ResultSet, Total};

/// Text in rows and columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grid {
    /// Columns.
    pub columns: Vec<GridColumn>,
    /// Rows; each as long as `columns`. A row of empty cells is a gap.
    pub rows: Vec<Vec<String>>,
}

/// Head of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridColumn {
    /// Its title.
    pub title: String,
    /// Numbers stand right, names left.
    pub right: bool,
    /// 0 is always shown; where space is short, the highest goes first.
    pub rank: u8,
}

impl Grid {
    /// An empty grid.
    pub fn new(columns: impl IntoIterator<Item = (String, bool)>) -> Grid {
        let columns =
            columns.into_iter().map(|(title, right)| GridColumn { title, right, rank: 0 }).collect();
        Grid { columns, rows: Vec::new() }
    }

    /// Removes column `index`.
    pub fn remove_column(&mut self, index: usize) {
        self.columns.remove(index);
        for row in &mut self.rows {
            row.remove(index);
        }
    }

    /// Least width in characters at which no cell is cut, with `gap` characters between columns.
    pub fn natural_width(&self, gap: usize) -> usize {
        let widths = (0..self.columns.len()).map(|i| self.width_of(i));
        widths.sum::<usize>() + gap * self.columns.len().saturating_sub(1)
    }

    /// Width of the longest cell of a column, its title included.
    pub fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.columns[column].title.chars().count()]).max().unwrap_or(0)
    }
}

/// One line of the results table.
struct Line<'a> {
    session: String,
    policy: &'a str,
    model: &'a str,
    summary: &'a Summary,
    change: Option<Change>,
    stopped: String,
    curve: String,
}

/// What a column shows of a line.
struct Column {
    title: &'static str,
    right: bool,
    rank: u8,
    /// Left out where every line shows nothing or 0.
    optional: bool,
    text: fn(&Line<'_>) -> String,
}

macro_rules! columns {
    ($($title:literal, $right:literal, $rank:literal, $optional:literal, $text:expr;)*) => {
        &[$(Column { title: $title, right: $right, rank: $rank, optional: $optional, text: $text },)*]
    };
}

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

/// `{baseline}` is replaced by the first policy's label, if that is short.
const COLUMNS: &[Column] = columns! {
    "session", false, 0, false, |l| l.session.clone();
    "policy", false, 0, false, |l| l.policy.to_owned();
    "model", false, 0, false, |l| l.model.to_owned();
    "prompt curve", false, 1, true, |l| l.curve.clone();
    "requests", true, 4, false, |l| number(l.summary.requests);
    "prompt", true, 2, false, |l| number(l.summary.usage.prompt_tokens());
    "read", true, 7, false, |l| number(l.summary.usage.cache_read_tokens);
    "written", true, 5, false, |l| number(l.summary.usage.cache_write_tokens());
    "uncached", true, 6, false, |l| number(l.summary.usage.uncached_tokens);
    "output", true, 8, false, |l| number(l.summary.usage.output_tokens);
    "peak", true, 3, false, |l| number(l.summary.peak_prompt_tokens);
    "hit rate", true, 0, false, |l| metrics::hit_rate(l.summary).percent();
    "cost", true, 0, false, |l| format!("${}", Usd(l.summary.cost.total()).rounded(4));
    "vs {baseline}", true, 0, true, |l| l.change.map(Change::percent).unwrap_or_default();
    "offloads", true, 3, true, |l| number(l.summary.offloads);
    "passes", true, 2, true, |l| number(l.summary.passes);
    "elided", true, 6, true, |l| number(l.summary.elided_results);
    "compactions", true, 2, true, |l| number(l.summary.compactions);
    "rejected", true, 1, true, |l| number(l.summary.binding_rejections);
    "overflows", true, 1, true, |l| number(l.summary.overflows);
    "violations", true, 1, true, |l| number(l.summary.violations);
    "stopped", false, 0, true, |l| l.stopped.clone();
};

/// The results table: cells by session, a gap, then totals.
pub fn results_grid(results: &ResultSet) -> Grid {
    grid_of(results, &lines(results, &Curves::default()))
}

/// The same, with the prompt sizes of each run as a line of bars: a session's rows on one scale.
pub fn results_grid_with_curves(results: &ResultSet) -> Grid {
    grid_of(results, &lines(results, &results.curves))
}

/// Totals alone, without a column for the session.
pub fn totals_grid(results: &ResultSet) -> Grid {
    let mut grid = grid_of(results, &total_lines(results));
    grid.remove_column(0);
    grid
}

/// Cells alone.
pub fn cells_grid(results: &ResultSet) -> Grid {
    grid_of(results, &cell_lines(results, &Curves::default()))
}

fn grid_of(results: &ResultSet, lines: &[Option<Line<'_>>]) -> Grid {
    let many_models = results.has_many_models();
    let mut grid = Grid::default();
    let mut shown: Vec<&Column> = Vec::new();
    for column in COLUMNS {
        let empty = || lines.iter().flatten().all(|line| matches!((column.text)(line).as_str(), "" | "0"));
        if (column.title == "model" && !many_models) || (column.optional && empty()) {
            continue;
        }
        grid.columns.push(GridColumn {
            title: column.title.replace("{baseline}", results.baseline_word()),
            right: column.right,
            rank: column.rank,
        });
        shown.push(column);
    }
    for line in lines {
        grid.rows.push(match line {
            Some(line) => shown.iter().map(|column| (column.text)(line)).collect(),
            None => vec![String::new(); shown.len()],
        });
    }
    grid
}

/// Cells, a gap where there are totals behind it, and these.
fn lines<'r>(results: &'r ResultSet, curves: &Curves) -> Vec<Option<Line<'r>>> {
    let mut lines = cell_lines(results, curves);
    if results.cells.len() > results.totals.len() {
        lines.push(None);
        lines.extend(total_lines(results));
    }
    lines
}

/// Cells by session; `None` would be a gap.
fn cell_lines<'r>(results: &'r ResultSet, curves: &Curves) -> Vec<Option<Line<'r>>> {
    let short = short_ids(results.cells.iter().map(|c| c.session.as_str()).collect());
    let mut lines: Vec<Option<Line<'_>>> = Vec::new();
    let (mut previous, mut highest) = ("", 0);
    for (i, cell) in results.cells.iter().enumerate() {
        let is_baseline = results.baseline() == Some(cell.policy.as_str());
        let base = results.baseline_of(cell).filter(|_| !is_baseline);
        let change = base.map(|b| Change::of(cell.summary.cost.total(), b.summary.cost.total()));
        let stop = cell.summary.stop_reason;
        let at = cell.summary.stopped_at_request.unwrap_or_default();
        let is_first = previous != cell.session;
        if is_first {
            let rows = results.cells[i..].iter().take_while(|c| c.session == cell.session);
            highest = rows.map(|c| c.summary.peak_prompt_tokens).max().unwrap_or(0);
        }
        previous = &cell.session;
        lines.push(Some(Line {
            session: if is_first { short(&cell.session) } else { String::new() },
            policy: &cell.policy,
            model: &cell.model,
            summary: &cell.summary,
            change,
            stopped: stop.map(|reason| format!("at {at}: {}", reason.name())).unwrap_or_default(),
            curve: curves.get(cell).map(|curve| line(curve, highest)).unwrap_or_default(),
        }));
    }
    lines
}

fn total_lines(results: &ResultSet) -> Vec<Option<Line<'_>>> {
    fn line((i, total): (usize, &Total)) -> Option<Line<'_>> {
        let stopped = total.sessions - total.finished_sessions;
        Some(Line {
            session: if i == 0 { "total".to_owned() } else { String::new() },
            policy: &total.policy,
            model: &total.model,
            summary: &total.summary,
            change: total.relative.as_ref().map(Relative::cost_change),
            stopped: if stopped == 0 { String::new() } else { format!("{stopped} of {}", total.sessions) },
            curve: String::new(),
        })
    }
    results.totals.iter().enumerate().map(line).collect()
}

/// Shortens sorted session ids to the fewest characters, at least 8, that tell them apart.
pub fn short_ids(mut ids: Vec<&str>) -> impl Fn(&str) -> String + use<> {
    ids.dedup();
    // Ids are sorted, so the longest shared beginning is one of neighbours.
    let shared = ids.windows(2).map(|w| w[0].chars().zip(w[1].chars()).take_while(|(a, b)| a == b).count());
    let keep = (shared.max().unwrap_or(0) + 1).max(8);
    move |id| {
        let count = id.chars().count();
        if count <= keep + 1 { id.to_owned() } else { id.chars().take(keep).chain(['…']).collect() }
    }
}

/// Missed tokens and their price, by cause and policy; whichever of the two stands in rows makes the narrower table.
pub fn misses_grid(results: &ResultSet) -> Grid {
    misses_to_fit(results, None)
}

/// The same; where it would be wider than `width`, dollars alone.
pub fn misses_to_fit(results: &ResultSet, width: Option<usize>) -> Grid {
    let occurs = |cause: &&Cause| results.totals.iter().any(|t| t.summary.miss(**cause).tokens > 0);
    let causes: Vec<Cause> = Cause::ALL.iter().filter(occurs).copied().collect();
    if causes.is_empty() {
        return Grid::default();
    }
    let full = narrower(results, &causes, "tokens not read", |miss| match miss.tokens {
        0 => "0".to_owned(),
        tokens => format!("{} (${})", number(tokens), Usd(miss.cost_pusd).rounded(4)),
    });
    if width.is_none_or(|width| full.natural_width(2) <= width) {
        return full;
    }
    let dollars = |miss: &MissTotal| format!("${}", Usd(miss.cost_pusd).rounded(2));
    let [by_cause, by_policy] = both_ways(results, &causes, "paid, not read", dollars);
    // Causes that cost little may go and names may be cut, but no policy goes.
    if width.is_some_and(|width| by_cause.natural_width(2) > width) { by_policy } else { by_cause }
}

fn narrower(results: &ResultSet, causes: &[Cause], corner: &str, cell: fn(&MissTotal) -> String) -> Grid {
    let [by_cause, by_policy] = both_ways(results, causes, corner, cell);
    if by_policy.natural_width(2) < by_cause.natural_width(2) { by_policy } else { by_cause }
}

/// A row per cause, and a row per policy.
fn both_ways(
    results: &ResultSet,
    causes: &[Cause],
    corner: &str,
    cell: fn(&MissTotal) -> String,
) -> [Grid; 2] {
    let many_models = results.has_many_models();
    let policies = results.totals.iter().map(|t| match many_models {
        true => format!("{} on {}", t.policy, t.model),
        false => t.policy.clone(),
    });
    let policies: Vec<String> = policies.collect();
    let cell = |policy: usize, cause: Cause| cell(results.totals[policy].summary.miss(cause));
    let titled = |titles: Vec<String>| {
        let names = titles.into_iter().map(|title| (title, true));
        Grid::new([(corner.to_owned(), false)].into_iter().chain(names))
    };
    let mut by_cause = titled(policies.clone());
    for cause in causes {
        let cells = (0..policies.len()).map(|policy| cell(policy, *cause));
        by_cause.rows.push([cause.name().to_owned()].into_iter().chain(cells).collect());
    }
    let mut by_policy = titled(causes.iter().map(|cause| cause.name().to_owned()).collect());
    for (policy, label) in policies.into_iter().enumerate() {
        let cells = causes.iter().map(|cause| cell(policy, *cause));
        by_policy.rows.push([label].into_iter().chain(cells).collect());
    }
    // Where columns must go, the causes that cost the most stay.
    let paid =
        |cause: &Cause| -> u128 { results.totals.iter().map(|t| t.summary.miss(*cause).cost_pusd).sum() };
    let mut dearest: Vec<usize> = (0..causes.len()).collect();
    dearest.sort_by_key(|i| std::cmp::Reverse(paid(&causes[*i])));
    for (rank, i) in dearest.into_iter().enumerate() {
        by_policy.columns[i + 1].rank = u8::try_from(rank).unwrap_or(u8::MAX);
    }
    [by_cause, by_policy]
}

/// What a reader must know to read the numbers right, one sentence each.
pub fn notes(results: &ResultSet) -> Vec<String> {
    let mut notes = vec![
        "Open-loop replay: outputs are as recorded, no request is added, nothing is invented.".to_owned(),
    ];
    if results.interrupted {
        notes.push("Interrupted: only the cells that were finished are shown.".to_owned());
    }
    for total in &results.totals {
        let stopped = total.sessions - total.finished_sessions;
        if stopped > 0 {
            notes.push(format!(
                "{} stopped before the end in {stopped} of {}.",
                total.policy,
                counted(total.sessions, "session")
            ));
        }
        if let Some(relative) = total.relative.as_ref().filter(|r| r.sessions < total.sessions) {
            notes.push(format!(
                "The change of {} against {} is over the {} of {} that both finished.",
                total.policy,
                relative.baseline,
                relative.sessions,
                counted(total.sessions, "session")
            ));
        }
    }
    notes.extend(substitution_notes(results));
    let sessions_where = |test: &dyn Fn(&Summary) -> bool| {
        let mut ids: Vec<&str> =
            results.cells.iter().filter(|c| test(&c.summary)).map(|c| c.session.as_str()).collect();
        ids.dedup();
        ids.len() as u64
    };
    let without_prefix = sessions_where(&|s| s.hidden_prefix_tokens == 0);
    if without_prefix > 0 {
        notes.push(format!(
            "How large system prompt and tools are does not show in {}; they count as 0 tokens there.",
            counted(without_prefix, "session")
        ));
    }
    let undone = sessions_where(&|s| s.recorded_compactions_undone > 0);
    if undone > 0 {
        notes.push(format!(
            "Compactions in the recording of {} were undone; what the agent read again after them is still there.",
            counted(undone, "session")
        ));
    }
    if !results.skipped.is_empty() {
        notes.push(format!(
            "{} inputs or lines were skipped; results.json names them.",
            results.skipped.len()
        ));
    }
    notes
}

/// `1 session`, `2 sessions`.
pub fn counted(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(n))
}

fn substitution_notes(results: &ResultSet) -> Vec<String> {
    let mut names: Vec<(&str, &str)> = results
        .cells
        .iter()
        .filter_map(|c| Some((c.model_substituted.as_deref()?, c.model.as_str())))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.iter().map(|(id, model)| format!("Unknown model `{id}` was simulated as {model}.")).collect()
}
