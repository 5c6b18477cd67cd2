//! The table for people: aligned, thousands separators, as wide as the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::grid::{self, Grid};
use super::layout;
use super::results::ResultSet;
use super::wins;

/// How the table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableStyle {
    /// Widest line; `None` means no limit.
    pub width: Option<usize>,
    /// Escape codes for colour.
    pub colour: bool,
}

/// The results table, misses by cause, and notes.
pub fn write(results: &ResultSet, style: TableStyle) -> String {
    let mut out = String::new();
    let models: Vec<&str> = results.totals.iter().map(|t| t.model.as_str()).collect();
    if let Some(first) = models.first().filter(|first| models.iter().all(|m| m == *first)) {
        let account = &results.recipe.account;
        let _ = writeln!(out, "{first}, account {account}, tokens {}\n", results.recipe.tokens);
    }
    out.push_str(&draw(grid::results_grid_with_curves(results), style));
    for grid in [wins::grid(results), grid::misses_to_fit(results, style.width)] {
        if !grid.rows.is_empty() {
            let _ = write!(out, "\n{}", draw(grid, style));
        }
    }
    out.push('\n');
    for note in grid::notes(results) {
        let _ = writeln!(out, "{}", harmless(&note));
    }
    out
}

/// `text` without control characters but line feeds: names in recordings must not steer the terminal.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n';
    match text.contains(steers) {
        true => text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect(),
        false => Cow::Borrowed(text),
    }
}

/// Draws any grid, no wider than the terminal: see [`layout`].
pub fn draw(grid: Grid, style: TableStyle) -> String {
    let mut out = String::new();
    for (i, line) in layout::lines(grid, style.width).iter().enumerate() {
        match style.colour {
            true if i == 0 => _ = writeln!(out, "{bold}{line}{bold:#}", bold = Style::new().bold()),
            true => _ = writeln!(out, "{}", colour_changes(line)),
            false => _ = writeln!(out, "{line}"),
        }
    }
    out
}

/// Colours signed percentages and dollars: less cost is green, more is red. Done on the finished line, since the
/// layout counts characters and escape codes have no width.
fn colour_changes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for word in line.split_inclusive(' ') {
        let bare = word.trim_end();
        let colour = match bare.as_bytes() {
            [b'-', b'0'..=b'9', .., b'%'] | [b'-', b'$', ..] => AnsiColor::Green,
            [b'+', b'0'..=b'9', .., b'%'] | [b'+', b'$', ..] => AnsiColor::Red,
            _ => {
                out.push_str(word);
                continue;
            }
        };
        let style = Style::new().fg_color(Some(colour.into()));
        let _ = write!(out, "{style}{bare}{style:#}{}", &word[bare.len()..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};

    #[test]
    fn table() {
        insta::assert_snapshot!(write(&sample(), TableStyle::default()));
    }

    #[test]
    fn a_narrow_terminal_loses_columns_not_alignment() {
        let text = write(&sample(), TableStyle { width: Some(72), colour: false });
        let table: Vec<&str> =
            text.lines().skip(2).take_while(|l| !l.starts_with("tokens not read")).collect();
        assert!(table.iter().all(|line| line.chars().count() <= 72), "{text}");
        assert!(table[0].contains("hit rate") && table[0].contains("vs none"), "{text}");
        assert!(!table[0].contains("uncached"), "{text}");
    }

    #[test]
    fn no_policy_goes_from_a_narrow_table_of_misses() {
        let names = ["arcturn:keepRecentTurns=1", "arcturn:keepRecentTurns=9,minCharsPerPass=1000"];
        let cells = names.map(|policy| cell("s", policy, 9, 1_000, 5_000_000_000_000));
        let results = ResultSet::new(Default::default(), Vec::new(), cells.to_vec());
        for width in [44, 60, 72] {
            let text = write(&results, TableStyle { width: Some(width), colour: false });
            let (_, misses) = text.split_once("paid, not read").expect("dollars alone");
            let rows: Vec<&str> = misses.lines().filter(|line| line.starts_with("arcturn")).collect();
            assert!(rows.len() == 2 && rows[0].contains("=1 ") && rows[1].contains("=1000"), "{text}");
        }
    }

    #[test]
    fn colour_adds_nothing_but_escape_codes() {
        let plain = write(&sample(), TableStyle::default());
        let coloured = write(&sample(), TableStyle { width: None, colour: true });
        assert!(coloured.contains("\u{1b}[32m-40.0%"), "{coloured:?}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}
