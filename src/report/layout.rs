//! From a grid to aligned lines of text. Where the terminal is narrow, in this order: columns of high rank go,
//! sentences wrap, names lose their middle, and at last the columns on the right go. A number is never cut, and no line
//! is wider than the terminal unless its first column is.

use super::grid::Grid;
use super::table::harmless;

/// Columns are this far apart.
const GAP: usize = 2;

/// A name keeps at least so many characters.
const SHORTEST_NAME: usize = 10;

/// A sentence wraps at no fewer characters than this.
const SHORTEST_PROSE: usize = 24;

/// The lines of a grid: its titles, a rule, and its rows.
pub fn lines(mut grid: Grid, width: Option<usize>) -> Vec<String> {
    for row in &mut grid.rows {
        for cell in row.iter_mut() {
            *cell = harmless(cell).replace('\n', " ");
        }
    }
    let (widths, prose) = fit(&mut grid, width.unwrap_or(usize::MAX));
    let titles: Vec<String> = grid.columns.iter().map(|column| column.title.clone()).collect();
    let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let mut out = row_lines(&grid, &widths, None, &titles);
    out.push("─".repeat(total));
    for row in &grid.rows {
        out.extend(row_lines(&grid, &widths, prose, row));
    }
    out
}

/// Makes the grid fit; gives the widths of the columns that are left, and which of them wraps.
fn fit(grid: &mut Grid, width: usize) -> (Vec<usize>, Option<usize>) {
    loop {
        let mut widths: Vec<usize> = (0..grid.columns.len()).map(|i| grid.width_of(i)).collect();
        let gaps = GAP * widths.len().saturating_sub(1);
        let over = |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let prose = prose(grid, &widths);
        if let Some(i) = prose {
            let least = SHORTEST_PROSE.max(grid.columns[i].title.chars().count());
            widths[i] = widths[i].saturating_sub(over(&widths)).max(widths[i].min(least));
        }
        if over(&widths) == 0 {
            return (widths, prose);
        }
        let highest = (0..grid.columns.len()).rev().max_by_key(|&i| grid.columns[i].rank);
        if let Some(i) = highest.filter(|&i| grid.columns[i].rank > 0) {
            grid.remove_column(i);
            continue;
        }
        shorten_names(grid, &mut widths, prose, &over);
        if over(&widths) == 0 || grid.columns.len() <= 1 {
            return (widths, prose);
        }
        grid.remove_column(grid.columns.len() - 1);
    }
}

/// The column of sentences, if there is one: left-aligned, wide, not the first, and with more words than any other.
fn prose(grid: &Grid, widths: &[usize]) -> Option<usize> {
    let spaces = |i: usize| grid.rows.iter().map(|row| row[i].matches(' ').count()).sum::<usize>();
    let wide = (1..grid.columns.len()).filter(|&i| !grid.columns[i].right && widths[i] > SHORTEST_PROSE);
    wide.map(|i| (spaces(i), i)).filter(|(spaces, _)| *spaces > 0).max().map(|(_, i)| i)
}

/// Narrows left-aligned columns, the widest first.
fn shorten_names(grid: &Grid, widths: &mut [usize], prose: Option<usize>, over: &impl Fn(&[usize]) -> usize) {
    while over(widths) > 0 {
        let least = |i: usize| SHORTEST_NAME.max(grid.columns[i].title.chars().count());
        let names = (0..widths.len()).filter(|&i| !grid.columns[i].right && Some(i) != prose);
        match names.filter(|&i| widths[i] > least(i)).max_by_key(|&i| widths[i]) {
            Some(i) => widths[i] -= 1,
            None => return,
        }
    }
}

fn row_lines(grid: &Grid, widths: &[usize], prose: Option<usize>, cells: &[String]) -> Vec<String> {
    let cells: Vec<Vec<String>> = cells
        .iter()
        .enumerate()
        .map(
            |(i, cell)| {
                if Some(i) == prose { prose_lines(cell, widths[i]) } else { vec![cut(cell, widths[i])] }
            },
        )
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(1);
    (0..height)
        .map(|line| {
            let mut out = String::new();
            for (i, cell) in cells.iter().enumerate() {
                let text = cell.get(line).map_or("", String::as_str);
                let space = " ".repeat(widths[i].saturating_sub(text.chars().count()));
                let (before, after) = if grid.columns[i].right { (&*space, "") } else { ("", &*space) };
                let gap = if i == 0 { "" } else { &" ".repeat(GAP) };
                out.extend([gap, before, text, after]);
            }
            out.truncate(out.trim_end().len());
            out
        })
        .collect()
}

/// A name in at most `width` characters. Of a policy with parameters their names are cut, and their values stay: they are
/// what tells it from others. Of any other both ends stay, of the end twice as much: names of one study often begin alike.
pub fn cut(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    if let Some(short) = with_short_keys(name, count - width) {
        return short;
    }
    let kept = width.saturating_sub(1);
    let head = kept.div_ceil(3);
    let tail = name.chars().skip(count - (kept - head));
    name.chars().take(head).chain(['…']).chain(tail).collect()
}

/// `policy:key=1,other=2` with so many characters less in its keys, the longest first; `None` where they are too short, or
/// there are none.
fn with_short_keys(name: &str, mut over: usize) -> Option<String> {
    /// A character and the mark that the rest is left out.
    const SHORTEST_KEY: usize = 2;
    let (policy, params) = name.split_once(':')?;
    let pairs = params.split(',').map(|pair| pair.split_once('=')).collect::<Option<Vec<_>>>()?;
    let mut lengths: Vec<usize> = pairs.iter().map(|(key, _)| key.chars().count()).collect();
    while over > 0 {
        let longest = lengths.iter_mut().max().filter(|length| **length > SHORTEST_KEY)?;
        *longest -= 1;
        over -= 1;
    }
    let short = pairs.iter().zip(lengths).map(|((key, value), length)| match key.chars().count() {
        whole if whole <= length => format!("{key}={value}"),
        _ => format!("{}…={value}", key.chars().take(length - 1).collect::<String>()),
    });
    Some(format!("{policy}:{}", short.collect::<Vec<_>>().join(",")))
}

/// A sentence in a column: a word that is wider loses its middle.
fn prose_lines(text: &str, width: usize) -> Vec<String> {
    wrap(text, width).iter().map(|line| cut(line, width)).collect()
}

/// A sentence in lines of at most `width` characters, if its words are no longer than that.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Text whose sentences are no wider than `width`; they keep their indent. What is narrow enough stays as it is, and so do
/// the rows of a Markdown table.
pub fn fold(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_start_matches(' ').trim_end_matches('\n');
        let indent = line.len() - line.trim_start_matches(' ').len();
        // Escape codes stand in rows of tables only, which fit.
        if line.trim_end_matches('\n').chars().count() <= width
            || words.starts_with('|')
            || words.contains('\u{1b}')
        {
            out.push_str(line);
            continue;
        }
        for folded in wrap(words, width.saturating_sub(indent).max(SHORTEST_PROSE)) {
            out.extend([" ".repeat(indent).as_str(), folded.as_str(), "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::grid::GridColumn;

    fn grid(columns: &[(&str, bool, u8)], rows: &[&[&str]]) -> Grid {
        let column = |(title, right, rank): &(&str, bool, u8)| GridColumn {
            title: (*title).to_owned(),
            right: *right,
            rank: *rank,
        };
        let row = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        Grid { columns: columns.iter().map(column).collect(), rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn columns_of_high_rank_go_first() {
        let columns = [("name", false, 0), ("often", true, 2), ("seldom", true, 1), ("cost", true, 0)];
        let text = |width| lines(grid(&columns, &[&["one", "1", "2", "3"]]), width);
        assert_eq!(text(None), ["name  often  seldom  cost", &"─".repeat(25), "one       1       2     3"]);
        assert_eq!(text(Some(24))[0], "name  seldom  cost");
        assert_eq!(text(Some(10))[0], "name  cost");
    }

    #[test]
    fn names_lose_their_middle_and_numbers_nothing() {
        let rows: &[&[&str]] = &[&["policy:parameter=10000", "1,234,567"], &["policy:parameter=20000", "8"]];
        let text = lines(grid(&[("policy", false, 0), ("tokens", true, 0)], rows), Some(24));
        assert_eq!(text[2..], ["poli…er=10000  1,234,567", "poli…er=20000          8"]);
        assert!(text.iter().all(|line| line.chars().count() <= 24), "{text:#?}");
    }

    #[test]
    fn policies_are_told_apart_by_their_values() {
        let name = "arcturn:minCharsPerPass=10000,keepRecentTurns=1";
        assert_eq!(cut(name, 40), "arcturn:minCharsPer…=10000,keepRecent…=1");
        assert_eq!(cut(name, 24), "arcturn:min…=10000,ke…=1");
        assert_eq!(cut(name, 21), "arcturn:m…=10000,k…=1");
        assert_eq!(cut(name, 20), "arcturn…ecentTurns=1", "too narrow for that");
        assert_eq!(cut("own=label", 5), "ow…el");
    }

    #[test]
    fn what_cannot_be_shortened_goes_from_the_right() {
        let columns = [("a", false, 0), ("one", true, 0), ("two", true, 0)];
        let text = lines(grid(&columns, &[&["x", "1,234,567", "7,654,321"]]), Some(14));
        assert_eq!(text, ["a        one", &"─".repeat(12), "x  1,234,567"]);
    }

    #[test]
    fn sentences_wrap_between_words() {
        let prose = "a local pass must save at least this much, by the measure of the client";
        let rows: &[&[&str]] = &[&["minCharsPerPass", "utf16", prose]];
        let text =
            lines(grid(&[("name", false, 0), ("unit", false, 0), ("meaning", false, 0)], rows), Some(50));
        assert!(text.len() > 4 && text.iter().all(|line| line.chars().count() <= 50), "{text:#?}");
        assert!(text[3].trim_start().chars().next().is_some_and(char::is_alphabetic), "{text:#?}");
        assert_eq!(text[2..].join(" ").split_whitespace().skip(2).collect::<Vec<_>>().join(" "), prose);
    }

    #[test]
    fn sentences_of_a_text_keep_their_indent() {
        let text =
            "short\n    a sentence that is far too long for it\n| a row of a Markdown table, whole |\n";
        let folded = fold(text, 28);
        let lines: Vec<&str> = folded.lines().collect();
        assert_eq!(lines[..3], ["short", "    a sentence that is far", "    too long for it"]);
        assert_eq!(lines[3], "| a row of a Markdown table, whole |");
        assert_eq!(fold(text, 80), text);
    }

    #[test]
    fn a_path_with_a_space_is_no_sentence() {
        let path = "~/Library/Application Support/agent/sessions";
        let rows: &[&[&str]] = &[&["one", path, "one JSON object a line, as the agent writes it"]];
        let text =
            lines(grid(&[("name", false, 0), ("folder", false, 0), ("what", false, 0)], rows), Some(60));
        assert!(text.len() > 3 && text.iter().all(|line| line.chars().count() <= 60), "{text:#?}");
        assert!(text[2].contains("~/Li") && text[2].contains('…') && !text[3].contains('…'), "{text:#?}");
    }

    #[test]
    fn a_grid_without_rows_is_a_head() {
        assert_eq!(lines(grid(&[("a", false, 0)], &[]), Some(20)), ["a", "─"]);
    }
}
