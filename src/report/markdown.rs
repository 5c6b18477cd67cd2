//! Markdown: tables for a pull request, and report.md.
//!
//! A comment, a pull request and the summary of a job show what they are given only up to a length; what would not fit
//! is left out row by row, and the text says how much and where it is.

use std::fmt::Write as _;

use super::grid::{Grid, cells_grid, counted, misses_grid, notes, totals_grid};
use super::results::ResultSet;
use super::{sweep, wins};

/// Most characters of a comment on GitHub.
pub const COMMENT_CHARS: usize = 65_536;

/// Kept free for what others put around a report.
const SPARE_CHARS: usize = 4_096;

/// Totals, win rates, misses by cause and notes as Markdown, and the sessions folded away.
pub fn write(results: &ResultSet) -> String {
    let mut out = String::new();
    let room = COMMENT_CHARS - SPARE_CHARS;
    let all_notes: String = notes(results).iter().map(|note| format!("- {}\n", escaped(note))).collect();
    let notes = shortened(&all_notes, room / 8);
    table_within(&mut out, &totals_grid(results), room / 3);
    for (grid, room) in [(wins::grid(results), room / 8), (misses_grid(results), room / 4)] {
        if !grid.rows.is_empty() {
            out.push('\n');
            table_within(&mut out, &grid, room);
        }
    }
    out.push('\n');
    out.push_str(&notes);
    let left = room.saturating_sub(out.chars().count());
    fold(
        &mut out,
        &format!("{} in detail", counted(sessions(results), "session")),
        &cells_grid(results),
        left,
    );
    out
}

/// A grid of strategies: totals and notes.
pub fn sweep(results: &ResultSet) -> String {
    let mut out = String::new();
    let room = COMMENT_CHARS - SPARE_CHARS;
    table_within(&mut out, &sweep::grid(results), room * 7 / 8);
    let notes: String = notes(results).iter().map(|note| format!("- {}\n", escaped(note))).collect();
    out.push('\n');
    out + &shortened(&notes, room / 8)
}

fn sessions(results: &ResultSet) -> u64 {
    let mut ids: Vec<&str> = results.cells.iter().map(|c| c.session.as_str()).collect();
    ids.dedup();
    ids.len() as u64
}

/// A table below a line that opens it, in at most `room` characters; nothing where there are no rows.
pub fn fold(out: &mut String, summary: &str, grid: &Grid, room: usize) {
    const FRAME: usize = 200;
    if grid.rows.is_empty() || room < 2 * FRAME {
        return;
    }
    let _ = write!(out, "\n<details>\n<summary>{}</summary>\n\n", escaped(summary));
    table_within(out, grid, room - FRAME);
    out.push_str("\n</details>\n");
}

/// Lines of a text as far as they fit.
fn shortened(text: &str, room: usize) -> String {
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        if out.len() + line.len() > room {
            let left = text.lines().count() - i;
            let _ = writeln!(out, "- … and {left} more; results.json has what they say.");
            break;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// A table of as many rows as fit into `room` characters.
pub fn table_within(out: &mut String, grid: &Grid, room: usize) {
    let mut text = String::new();
    draw(&mut text, grid);
    if text.chars().count() <= room {
        out.push_str(&text);
        return;
    }
    // Head and rule, then rows; the last line says what is missing.
    const LAST: usize = 80;
    let mut used = 0;
    let mut shown = 0;
    for line in text.split_inclusive('\n') {
        used += line.chars().count();
        if used + LAST > room && shown > 2 {
            break;
        }
        out.push_str(line);
        shown += 1;
    }
    let left = text.lines().count() - shown;
    let _ =
        writeln!(out, "\n… and {} that would not fit; results.json has all.", counted(left as u64, "row"));
}

/// report.md: a title, the recipe, the tables, and the pictures by relative path.
pub fn report(
    title: &str,
    description: &str,
    results: &ResultSet,
    digest: &str,
    pictures: &[(String, String)],
) -> String {
    let recipe = &results.recipe;
    let mut out = format!("# {title}\n\n");
    if !description.is_empty() {
        let _ = writeln!(out, "{description}\n");
    }
    let _ = writeln!(
        out,
        "ctxsim {}, seed {}, tokens {}, account {}, digest `{digest}`.\n",
        recipe.ctxsim, recipe.seed, recipe.tokens, recipe.account
    );
    for (i, (caption, path)) in pictures.iter().enumerate() {
        let heading = if i == 0 { "" } else { "\n" };
        let _ = writeln!(out, "{heading}![{caption}]({path})");
        if i == 0 {
            out.push('\n');
            out.push_str(&write(results));
        }
    }
    if pictures.is_empty() {
        out.push_str(&write(results));
    }
    out
}

/// Any grid as a Markdown table.
pub fn grid(grid: &Grid) -> String {
    let mut out = String::new();
    draw(&mut out, grid);
    out
}

fn draw(out: &mut String, grid: &Grid) {
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(&mut grid.columns.iter().map(|c| escaped(&c.title)));
    line(&mut grid.columns.iter().map(|c| if c.right { "---:".to_owned() } else { "---".to_owned() }));
    for row in grid.rows.iter().filter(|row| row.iter().any(|cell| !cell.is_empty())) {
        line(&mut row.iter().map(|cell| escaped(cell)));
    }
}

/// Text that stays text: names in recordings must neither end a cell nor open an element.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' => out.push_str("\\|"),
            '<' => out.push_str("&lt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};

    #[test]
    fn markdown() {
        insta::assert_snapshot!(write(&sample()));
    }

    #[test]
    fn a_large_study_fits_into_a_comment_and_says_what_is_missing() {
        let session = |i: u64| format!("0b1c2d3e-5f60-4718-9a2b-{i:012}");
        let cells =
            (0..2_000).flat_map(|i| ["none", "arc"].map(|policy| cell(&session(i), policy, 9, 1_000, 500)));
        let mut results = ResultSet::new(sample().recipe, Vec::new(), cells.collect());
        let text = write(&results);
        assert!(text.chars().count() <= COMMENT_CHARS - SPARE_CHARS, "{}", text.chars().count());
        assert!(
            text.contains("that would not fit") && text.ends_with("</details>\n"),
            "{}",
            &text[text.len() - 200..]
        );
        assert!(text.find("| none").expect("totals") < text.find("<details>").expect("a fold"));
        assert!(text.contains("| arc | 0/2000/0 |"), "win rates");
        let policies = (0..3_000).map(|i| format!("arcturn:minCharsPerPass={i}"));
        let cells = policies.flat_map(|policy| ["s", "t"].map(|s| cell(s, &policy, 9, 1_000, 500)));
        results = ResultSet::new(Default::default(), Vec::new(), cells.collect());
        assert!(write(&results).contains("| against baseline |"));
        for text in [write(&results), sweep(&results)] {
            assert!(text.chars().count() <= COMMENT_CHARS - SPARE_CHARS, "{}", text.chars().count());
        }
    }

    #[test]
    fn names_cannot_break_out_of_their_cells() {
        let grid =
            Grid { rows: vec![vec!["a|b\n</details><img>".into()]], ..Grid::new([("t".into(), false)]) };
        let text = super::grid(&grid);
        assert_eq!(text.lines().last(), Some("| a\\|b &lt;/details>&lt;img> |"));
    }

    #[test]
    fn the_report_shows_the_headline_picture_first() {
        let pictures = ["a", "b"].map(|n| (n.to_owned(), format!("plots/{n}.svg")));
        let text = report("quickstart", "", &sample(), "00ff", &pictures);
        let at = |needle: &str| text.find(needle).expect(needle);
        assert!(at("# quickstart") < at("![a](plots/a.svg)"));
        assert!(at("![a](plots/a.svg)") < at("| session"));
        assert!(at("| session") < at("![b](plots/b.svg)"));
    }
}
