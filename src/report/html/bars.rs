//! Where the money goes: bars by class of cost and by cause of misses.

use std::fmt::Write as _;

use crate::cause::Cause;
use crate::metrics::group_digits;
use crate::report::plot::palette;
use crate::report::results::{ResultSet, Total};

use super::escape::{breakable, escape};
use super::tables::{dollars, shown};

/// Bars; of more totals, the cheapest are shown.
const BARS: usize = 40;

/// A part of a bar: variable of its colour, name, size, what is said of it.
struct Part {
    colour: String,
    name: String,
    pusd: u128,
    about: String,
}

/// A bar per strategy and model, all on one scale, and a legend of the parts that occur.
fn bars(results: &ResultSet, parts: fn(&Total) -> Vec<Part>) -> String {
    let many_models = results.has_many_models();
    let rows: Vec<(&Total, Vec<Part>)> =
        shown(results, BARS).into_iter().map(|i| (&results.totals[i], parts(&results.totals[i]))).collect();
    let sum = |parts: &[Part]| parts.iter().map(|p| p.pusd).sum::<u128>();
    let most = rows.iter().map(|(_, parts)| sum(parts)).max().unwrap_or(0).max(1);
    let mut legend: Vec<(&str, &str)> = Vec::new();
    let mut out = String::from("<ul class=\"bars\">\n");
    for (total, parts) in &rows {
        let name = match many_models {
            true => format!("{} on {}", total.policy, total.model),
            false => total.policy.clone(),
        };
        let _ = write!(
            out,
            "<li><span class=\"name\" title=\"{}\">{}</span><span class=\"bar\">",
            escape(&name),
            breakable(&name)
        );
        for part in parts.iter().filter(|p| p.pusd > 0) {
            if !legend.contains(&(&part.colour, &part.name)) {
                legend.push((&part.colour, &part.name));
            }
            // Hundredths of a per cent: finer than a pixel.
            let share = part.pusd * 10_000 / most;
            let _ = write!(
                out,
                "<span style=\"width:{}.{:02}%;background:var({})\" title=\"{}\"></span>",
                share / 100,
                share % 100,
                part.colour,
                escape(&format!("{}: {}", part.name, part.about))
            );
        }
        let _ = writeln!(out, "</span><span class=\"value\">{}</span></li>", dollars(sum(parts)));
    }
    out.push_str("</ul>\n<ul class=\"legend\">");
    for (colour, name) in legend {
        let _ = write!(
            out,
            "<li><span class=\"swatch\" style=\"background:var({colour})\"></span>{}</li>",
            escape(name)
        );
    }
    out + "</ul>"
}

/// Cost by class.
pub(super) fn cost(results: &ResultSet) -> String {
    bars(results, |total| {
        let classes = palette::CLASSES.iter().enumerate().map(|(i, (name, _, pusd))| {
            let pusd = pusd(&total.summary.cost);
            Part { colour: format!("--class-{i}"), name: (*name).to_owned(), pusd, about: dollars(pusd) }
        });
        classes.collect()
    })
}

/// What was paid for tokens that were not read, by cause.
pub(super) fn misses(results: &ResultSet) -> String {
    bars(results, |total| {
        let part = |cause: &Cause| {
            let miss = total.summary.miss(*cause);
            Part {
                colour: format!("--cause-{}", cause.index()),
                name: cause.name().replace('_', " "),
                pusd: miss.cost_pusd,
                about: format!(
                    "{}, {} tokens in {} requests",
                    dollars(miss.cost_pusd),
                    group_digits(u128::from(miss.tokens)),
                    group_digits(u128::from(miss.requests))
                ),
            }
        };
        Cause::ALL.iter().map(part).collect()
    })
}
