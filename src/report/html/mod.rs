//! report.html: one file that shows a study in a browser, without a network.
//!
//! The page is readable as it comes: cards, the comparison and the bars are HTML made here. The scripts beside this
//! file add sorting, filters, the token curves and the sessions. Requests of each run stand in elements of their own
//! at the end, so that the page is painted before they are read, and a run is unpacked only when it is looked at.
//! What a page shows of cells and totals is exact; see [`Runs`] for how many requests it holds.

mod bars;
mod data;
mod divergence;
mod escape;
mod pack;
mod recipe;
mod runs;
mod tables;

use std::fmt::Write as _;

use escape::{escape, script_json};

use super::grid::notes;
use super::plot::palette::{self, Theme};
use super::results::ResultSet;

pub use runs::Runs;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// In the order in which they use each other.
const SCRIPTS: [&str; 6] = [
    include_str!("decode.js"),
    include_str!("format.js"),
    include_str!("table.js"),
    include_str!("curve.js"),
    include_str!("sessions.js"),
    include_str!("main.js"),
];

/// What stands above the results.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heading<'a> {
    /// Name of the scenario or command.
    pub title: &'a str,
    /// What the study is about, in a line.
    pub description: &'a str,
    /// Digest of the results.
    pub digest: &'a str,
}

/// The page.
pub fn write(heading: &Heading<'_>, results: &ResultSet, runs: &Runs) -> Vec<u8> {
    let fill = |name: &str, out: &mut String| match name {
        "title" => out.push_str(&escape(heading.title)),
        "description" => out.push_str(&escape(heading.description)),
        "subtitle" => out.push_str(&escape(&subtitle(heading, results))),
        "style" => out.push_str(STYLE),
        "colours" => out.push_str(&colours()),
        "cards" => out.push_str(&tables::cards(results)),
        "comparison" => out.push_str(&tables::comparison(results)),
        "cost" => out.push_str(&bars::cost(results)),
        "misses" => out.push_str(&bars::misses(results)),
        "notes" => out.push_str(&note_list(results, runs)),
        "divergence" => out.push_str(&divergence::html()),
        "recipe" => out.push_str(&recipe::html(results)),
        "data" => out.push_str(&script_json(&data::json(heading, results, runs).to_string())),
        "runs" => run_elements(out, runs),
        "script" => SCRIPTS.iter().for_each(|script| out.push_str(script)),
        _ => {}
    };
    let mut out = String::new();
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        out.push_str(before);
        fill(name, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out.into_bytes()
}

fn subtitle(heading: &Heading<'_>, results: &ResultSet) -> String {
    let recipe = &results.recipe;
    let mut models: Vec<&str> = results.totals.iter().map(|t| t.model.as_str()).collect();
    models.sort_unstable();
    models.dedup();
    let models = if models.len() > 3 { format!("{} models", models.len()) } else { models.join(", ") };
    let (version, seed, tokens, account) = (&recipe.ctxsim, recipe.seed, &recipe.tokens, &recipe.account);
    let digest = heading.digest;
    format!(
        "{models} · ctxsim {version} · seed {seed} · tokens {tokens} · account {account} · digest {digest}"
    )
}

fn note_list(results: &ResultSet, runs: &Runs) -> String {
    let mut notes = notes(results);
    if runs.left_out > 0 {
        notes.push(format!(
            "Requests of {} with the most of them are on this page; requests.csv has all.",
            super::grid::counted(runs.sessions.len() as u64, "session")
        ));
    }
    notes.iter().fold(String::new(), |out, note| out + "<li>" + &escape(note) + "</li>\n")
}

/// Colours of lines, classes and text as variables, in both themes.
fn colours() -> String {
    let block = |theme: Theme| {
        let mut out = String::new();
        for i in 0..8 {
            let _ = write!(out, "--line-{i}:{};", palette::look(i).ink.css(theme));
        }
        for (i, (_, ink, _)) in palette::CLASSES.iter().enumerate() {
            let _ = write!(out, "--class-{i}:{};", ink.css(theme));
        }
        for cause in crate::cause::Cause::ALL {
            let _ = write!(out, "--cause-{}:{};", cause.index(), palette::cause(*cause).css(theme));
        }
        out
    };
    let (light, dark) = (block(Theme::Light), block(Theme::Dark));
    format!(
        ":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
         :root[data-theme=dark]{{{dark}}}\n"
    )
}

/// The requests of each run, in the order of `runs` in the data: packed columns, a line feed, events.
fn run_elements(out: &mut String, runs: &Runs) {
    for (i, run) in runs.sessions.iter().flat_map(|session| &session.runs).enumerate() {
        let events = script_json(&run.events);
        let _ = writeln!(
            out,
            "<script type=\"text/plain\" id=\"run-{i}\">{}\n{events}</script>",
            run.packed.text
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    fn page() -> String {
        let heading = Heading { title: "a <b> title", description: "", digest: "00ff" };
        String::from_utf8(write(&heading, &sample(), &Runs::default())).expect("UTF-8")
    }

    #[test]
    fn everything_is_filled_in_and_nothing_is_fetched() {
        let page = page();
        assert!(page.contains("<h1>a &lt;b&gt; title</h1>"));
        assert!(!page.contains("{{"));
        for outside in ["src=", "href=\"http", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn totals_are_readable_without_a_script() {
        let page = page();
        for text in ["$0.1800", "$0.1100", "-40.0%", "80.0%", "1 of 2"] {
            assert!(page.contains(text), "{text}");
        }
    }
}
