//! Summary cards and the comparison of strategies, as HTML that needs no script.

use std::fmt::Write as _;

use crate::metrics::{self, Usd, group_digits};
use crate::report::grid::counted;
use crate::report::results::{Change, Relative, ResultSet, Total};
use crate::report::sweep::best;
use crate::report::wins::{self, Wins};

use super::escape::{breakable, escape};

/// Rows of the comparison; of more, the cheapest are shown.
const ROWS: usize = 500;

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

/// Stands for the title of the change against the baseline.
const VERSUS: &str = "vs {baseline}";

/// Dollars as everywhere in reports.
pub(super) fn dollars(pusd: u128) -> String {
    format!("${}", Usd(pusd).rounded(4))
}

/// Indices of at most `most` totals in the order of the results; of more, the cheapest.
pub(super) fn shown(results: &ResultSet, most: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..results.totals.len()).collect();
    if all.len() > most {
        all.sort_by_key(|&i| (results.totals[i].summary.cost.total(), i));
        all.truncate(most);
        all.sort_unstable();
    }
    all
}

/// The sign of a change as a class: less money is good.
fn tone(change: Option<Change>) -> &'static str {
    match change.and_then(|c| c.0) {
        Some(micro) if micro < 0 => "good",
        Some(micro) if micro > 0 => "bad",
        _ => "",
    }
}

fn card(label: &str, value: &str, detail: &str, tone: &str) -> String {
    // A name needs more room than a number.
    let long = if value.chars().count() > 12 { " long" } else { "" };
    format!(
        "<div class=\"card {tone}\"><h3>{}</h3><p class=\"big{long}\">{}</p><p>{}</p></div>\n",
        breakable(label),
        breakable(value),
        breakable(detail)
    )
}

/// The cards.
pub(super) fn cards(results: &ResultSet) -> String {
    let Some(first) = results.totals.first() else {
        return card("Result", "nothing", "No session was run.", "bad");
    };
    let own_model = |t: &&Total| t.model == first.model;
    let totals: Vec<&Total> = results.totals.iter().filter(own_model).collect();
    let on_model = match results.totals.len() > totals.len() {
        true => format!(" on {}", first.model),
        false => String::new(),
    };
    let mut out = card(
        "Sessions",
        &number(first.sessions),
        &format!("{}, {}", counted(first.summary.requests, "request"), counted_policies(totals.len())),
        "",
    );
    out += &card(
        &format!("Cost of {}{on_model}", first.policy),
        &dollars(first.summary.cost.total()),
        "the baseline",
        "",
    );
    let marked = results.totals.iter().zip(best(results)).find(|(t, is)| *is && t.model == first.model);
    if let Some((cheapest, _)) = marked.filter(|(t, _)| t.policy != first.policy) {
        let change = cheapest.relative.as_ref().map(Relative::cost_change);
        let detail = match &cheapest.relative {
            Some(r) if r.sessions < cheapest.sessions => {
                format!("{}, over {} that both finished", cheapest.policy, counted(r.sessions, "session"))
            }
            _ => format!("{}, {}", cheapest.policy, dollars(cheapest.summary.cost.total())),
        };
        let text = change.map(Change::percent).unwrap_or_default();
        out += &card(&format!("Cheapest{on_model}"), &text, &detail, tone(change));
    } else {
        out += &card(&format!("Cheapest{on_model}"), &first.policy, "no other one costs less", "");
    }
    let rate = |t: &Total| metrics::hit_rate(&t.summary);
    let versus = |t: &Total, own: &str| match t.policy == first.policy {
        true => ", the baseline".to_owned(),
        false => format!("; {} has {own}", first.policy),
    };
    if let Some(highest) = totals.iter().rev().max_by_key(|t| rate(t).0) {
        let detail = format!("{}{}", highest.policy, versus(highest, &rate(first).percent()));
        out += &card("Highest hit rate", &rate(highest).percent(), &detail, "");
    }
    if let Some(lowest) = totals.iter().min_by_key(|t| t.summary.peak_prompt_tokens) {
        let own = number(first.summary.peak_prompt_tokens);
        let detail = format!("tokens, {}{}", lowest.policy, versus(lowest, &own));
        out += &card("Smallest peak prompt", &number(lowest.summary.peak_prompt_tokens), &detail, "");
    }
    out + &trouble(results)
}

fn counted_policies(n: usize) -> String {
    if n == 1 { "1 policy".to_owned() } else { format!("{n} policies") }
}

fn trouble(results: &ResultSet) -> String {
    let sum = |f: fn(&Total) -> u64| results.totals.iter().map(f).sum::<u64>();
    let kinds = [
        ("rejection", sum(|t| t.summary.binding_rejections)),
        ("overflow", sum(|t| t.summary.overflows)),
        ("violation", sum(|t| t.summary.violations)),
        ("stopped run", sum(|t| t.sessions - t.finished_sessions)),
    ];
    let all: u64 = kinds.iter().map(|(_, n)| n).sum();
    let there: Vec<String> =
        kinds.iter().filter(|(_, n)| *n > 0).map(|(noun, n)| counted(*n, noun)).collect();
    match all {
        0 => card("Broken requests", "0", "nothing was refused, nothing stopped", ""),
        _ => card("Broken requests", &number(all), &there.join(", "), "bad"),
    }
}

/// What a column shows of a total: title, explanation, text, number to sort by.
struct Column {
    title: &'static str,
    about: &'static str,
    /// Left out where every row shows 0.
    optional: bool,
    text: fn(&Total) -> String,
    sort: fn(&Total) -> f64,
}

#[expect(clippy::cast_precision_loss, reason = "only sorted by")]
fn float(n: u64) -> f64 {
    n as f64
}

macro_rules! count {
    ($title:literal, $optional:literal, $about:literal, $of:expr) => {
        Column {
            title: $title,
            about: $about,
            optional: $optional,
            text: |t| {
                let of: fn(&Total) -> u64 = $of;
                number(of(t))
            },
            sort: |t| {
                let of: fn(&Total) -> u64 = $of;
                float(of(t))
            },
        }
    };
}

fn change(t: &Total) -> Option<Change> {
    t.relative.as_ref().map(Relative::cost_change)
}

#[expect(clippy::cast_precision_loss, reason = "only sorted by")]
const COLUMNS: &[Column] = &[
    Column {
        title: "cost",
        about: "all money, summarizer calls included",
        optional: false,
        text: |t| dollars(t.summary.cost.total()),
        sort: |t| Usd(t.summary.cost.total()).as_f64(),
    },
    Column {
        title: VERSUS,
        about: "change of cost, over the sessions that both finished",
        optional: true,
        text: |t| change(t).map(Change::percent).unwrap_or_default(),
        sort: |t| change(t).and_then(|c| c.0).unwrap_or(0) as f64,
    },
    Column {
        title: "hit rate",
        about: "tokens read from the cache / prompt tokens",
        optional: false,
        text: |t| metrics::hit_rate(&t.summary).percent(),
        sort: |t| metrics::hit_rate(&t.summary).as_f64().unwrap_or(-1.0),
    },
    count!("peak", false, "tokens of the largest prompt", |t| t.summary.peak_prompt_tokens),
    count!("prompt", false, "prompt tokens of all requests", |t| t.summary.usage.prompt_tokens()),
    count!("read", false, "prompt tokens read from the cache", |t| t.summary.usage.cache_read_tokens),
    count!("written", false, "prompt tokens written to the cache", |t| t.summary.usage.cache_write_tokens()),
    count!("uncached", false, "prompt tokens at the plain price", |t| t.summary.usage.uncached_tokens),
    count!("output", false, "generated tokens, as recorded", |t| t.summary.usage.output_tokens),
    count!("offloads", true, "results written to a file before they entered", |t| t.summary.offloads),
    count!("passes", true, "edits of history", |t| t.summary.passes),
    count!("elided", true, "results replaced by a stub", |t| t.summary.elided_results),
    count!("compactions", true, "summaries that replaced history", |t| t.summary.compactions),
    count!("rejected", true, "requests refused because thinking is bound to another history", |t| {
        t.summary.binding_rejections
    }),
    count!("overflows", true, "requests refused for length", |t| t.summary.overflows),
    count!("violations", true, "broken plans, and rejections of a retry", |t| t.summary.violations),
    Column {
        title: "stopped",
        about: "sessions that did not reach their end",
        optional: true,
        text: |t| match t.sessions - t.finished_sessions {
            0 => "0".to_owned(),
            n => format!("{n} of {}", t.sessions),
        },
        sort: |t| float(t.sessions - t.finished_sessions),
    },
    count!("requests", false, "requests served", |t| t.summary.requests),
];

/// The comparison: one row per strategy and model.
pub(super) fn comparison(results: &ResultSet) -> String {
    let rows = shown(results, ROWS);
    let many_models = results.has_many_models();
    let wins = wins::of(results);
    let empty = |column: &Column| {
        rows.iter().all(|&i| matches!((column.text)(&results.totals[i]).as_str(), "" | "0"))
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(|c| !(c.optional && empty(c))).collect();
    let mut out = String::from("<table class=\"sortable\" id=\"comparison\"><thead><tr>");
    head(&mut out, "policy", "the strategy", "text");
    if many_models {
        head(&mut out, "model", "the simulated model", "text");
    }
    for column in &columns {
        let title = column.title.replace("{baseline}", results.baseline_word());
        head(&mut out, &title, column.about, "number");
        if column.title == VERSUS && !wins.is_empty() {
            head(&mut out, "cheaper in", "sessions that cost less than under the baseline", "number");
        }
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let best = best(results);
    let places = results.policy_places();
    for i in rows.iter().copied() {
        let total = &results.totals[i];
        let mark = if best[i] { " <span class=\"tag\">best</span>" } else { "" };
        let name = escape(&total.policy);
        let place = places.get(total.policy.as_str()).copied().unwrap_or(0);
        let _ = write!(
            out,
            "<tr data-policy=\"{name}\" data-model=\"{}\"><th scope=\"row\"><span class=\"swatch\" \
             style=\"background:var(--line-{})\"></span>{name}{mark}</th>",
            escape(&total.model),
            place % 8
        );
        if many_models {
            let _ = write!(out, "<td class=\"text\">{}</td>", escape(&total.model));
        }
        for column in &columns {
            let class = if column.title == VERSUS { tone(change(total)) } else { "" };
            let _ = write!(
                out,
                "<td class=\"{class}\" data-v=\"{}\">{}</td>",
                (column.sort)(total),
                escape(&(column.text)(total))
            );
            if column.title == VERSUS && !wins.is_empty() {
                let own = wins.iter().find(|w| w.policy == total.policy && w.model == total.model);
                out.push_str(&own.map_or_else(|| "<td data-v=\"-1\"></td>".to_owned(), won));
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>");
    if rows.len() < results.totals.len() {
        let _ = write!(
            out,
            "<p class=\"hint\">The {} cheapest of {}; results.json has all.</p>",
            rows.len(),
            number(results.totals.len() as u64)
        );
    }
    out
}

/// How often a strategy is cheaper than the baseline; how sure that is, below the pointer.
fn won(wins: &Wins) -> String {
    let rate = wins.paired.win_rate_interval;
    format!(
        "<td data-v=\"{}\" title=\"win rate, 95 %: {:.0} % to {:.0} %\">{} of {}</td>",
        wins.paired.win_rate,
        rate.low * 100.0,
        rate.high * 100.0,
        wins.paired.wins,
        wins.sessions
    )
}

fn head(out: &mut String, title: &str, about: &str, kind: &str) {
    let _ = write!(
        out,
        "<th scope=\"col\" class=\"{kind}\"><button type=\"button\" title=\"{}\">{}</button></th>",
        escape(about),
        escape(title)
    );
}
