//! Markdown: the same table for a pull request, and report.md.

use std::fmt::Write as _;

use super::grid::{Grid, misses_grid, notes, results_grid};
use super::results::ResultSet;

/// Results, misses by cause and notes as Markdown tables.
pub fn write(results: &ResultSet) -> String {
    let mut out = String::new();
    draw(&mut out, &results_grid(results));
    let misses = misses_grid(results);
    if !misses.rows.is_empty() {
        out.push('\n');
        draw(&mut out, &misses);
    }
    out.push('\n');
    for note in notes(results) {
        let _ = writeln!(out, "- {note}");
    }
    out
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
        let cells: Vec<String> = cells.map(|c| c.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(&mut grid.columns.iter().map(|c| c.title.clone()));
    line(&mut grid.columns.iter().map(|c| if c.right { "---:".to_owned() } else { "---".to_owned() }));
    for row in grid.rows.iter().filter(|row| row.iter().any(|cell| !cell.is_empty())) {
        line(&mut row.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    #[test]
    fn markdown() {
        insta::assert_snapshot!(write(&sample()));
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
