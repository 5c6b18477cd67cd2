//! report.html as a person uses it: in a browser, with a pointer and with keys.
//!
//! These need Chromium, which a machine may lack: `cargo test -- --ignored browser` runs them, and so does `.ci/run`,
//! which installs it.

mod devtools;

use std::path::Path;

use serde_json::{Value, json};

use crate::html_report::{Study, large_page, rounded_dollars};
use devtools::{Page, text};

const DETAIL: &str = "#curve-detail tbody tr";

fn open(study: &Study) -> Page {
    let mut page = Page::start(1280, 900);
    page.open(&study.page);
    page
}

/// Texts of one column of the comparison, the first being 1; rows that are shown.
fn column(page: &mut Page, index: usize) -> Vec<String> {
    page.texts(&format!("#comparison tbody tr:not([hidden]) > :nth-child({index})"))
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn a_click_sorts_and_a_word_filters() {
    let study = Study::run();
    let mut page = open(&study);
    let titles = page.texts("#comparison thead th");
    let cost = titles.iter().position(|t| t == "cost").expect("a column of cost") + 1;
    let header = format!("#comparison thead th:nth-child({cost})");
    let given = column(&mut page, cost);
    let amounts = |texts: &[String]| -> Vec<f64> {
        texts.iter().map(|t| t.replace(['$', ','], "").parse().expect("dollars")).collect()
    };
    let mut sorted = amounts(&given);
    sorted.sort_by(f64::total_cmp);
    for (order, ascending) in [("descending", false), ("ascending", true), ("descending", false)] {
        page.click(&format!("{header} button"));
        let aria = page.evaluate(&format!("document.querySelector('{header}').getAttribute('aria-sort')"));
        assert_eq!(aria, json!(order));
        let mut shown = amounts(&column(&mut page, cost));
        if !ascending {
            shown.reverse();
        }
        assert_eq!(shown, sorted);
    }
    page.evaluate("document.querySelector('[data-for=comparison] input').focus()");
    for letter in ["a", "r", "c"] {
        page.key(letter);
    }
    let names = column(&mut page, 1);
    assert!(!names.is_empty() && names.len() < given.len(), "{names:?}");
    assert!(names.iter().all(|name| name.contains("arc")), "{names:?}");
    let told = page.texts("[data-for=comparison] output");
    assert_eq!(told, [format!("{} of {} rows", names.len(), given.len())]);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn the_pointer_tells_of_the_request_below_it() {
    let study = Study::run();
    let mut page = open(&study);
    let rows = study.requests("session-one");
    let last: u64 = rows.iter().map(|r| r["request"].parse().expect("a number")).max().expect("requests");
    for share in [0.0, 0.33, 0.8, 1.0] {
        // The picture has margins of 52 and 14 points.
        let width =
            page.evaluate("document.getElementById('curve-picture').clientWidth").as_f64().expect("a width");
        page.hover("#curve-picture", (52.0 + share * (width - 66.0)) / width, 0.5);
        let number = page.texts("#curve-number").remove(0);
        let request = number.split(' ').next().expect("a number").to_owned();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let expected = 1 + (share * (last - 1) as f64).round() as u64;
        assert_eq!(request, expected.to_string(), "{number}");
        let expected: Vec<String> = rows.iter().filter(|r| r["request"] == request).map(detail_of).collect();
        let shown: Vec<String> = (1..=expected.len())
            .map(|i| page.texts(&format!("{DETAIL}:nth-child({i}) > :nth-child(-n+8)")).join("|"))
            .collect();
        assert_eq!(shown, expected);
    }
    let pass = study.events("pass").remove(0);
    let script = format!(
        "(() => {{ const s = document.getElementById('curve-request'); s.value = {}; s.dispatchEvent(new Event('input')); }})()",
        pass["request"]
    );
    page.evaluate(&script);
    let told = page.texts(&format!("{DETAIL} > :last-child")).join(" ");
    assert!(told.contains(&format!("pass: {} results elided", pass["elided_count"])), "{told}");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// What the page says of a row of requests.csv.
fn detail_of(row: &crate::html_report::Row) -> String {
    let grouped = |name: &str| crate::html_report::grouped(row[name].parse().expect("a number"));
    let sum = |names: [&str; 2]| {
        let [a, b] = names.map(|n| row[n].parse::<u64>().expect("a number"));
        crate::html_report::grouped(a + b)
    };
    let missed = match row["miss_cause"].as_str() {
        "" => String::new(),
        cause => format!("{}, {}", grouped("missed_tokens"), cause.replace('_', " ")),
    };
    [
        row["policy"].clone(),
        grouped("prompt_tokens"),
        grouped("cache_read_tokens"),
        sum(["cache_write_5m_tokens", "cache_write_1h_tokens"]),
        grouped("uncached_tokens"),
        grouped("output_tokens"),
        rounded_dollars(&row["cost_usd"]),
        missed,
    ]
    .join("|")
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn a_drag_shows_a_part_of_the_session() {
    let study = Study::run();
    let mut page = open(&study);
    let ends = "['min', 'max'].map((end) => Number(document.getElementById('curve-request')[end]))";
    let whole = page.evaluate(ends);
    page.drag("#curve-picture", (0.3, 0.5), (0.6, 0.5));
    let part = page.evaluate(ends);
    let bound = |ends: &Value, i: usize| ends[i].as_u64().expect("a number");
    assert!(bound(&part, 0) > bound(&whole, 0) && bound(&part, 1) < bound(&whole, 1), "{part} of {whole}");
    page.click("#curve-closer");
    let closer = page.evaluate(ends);
    assert!(bound(&closer, 1) - bound(&closer, 0) < bound(&part, 1) - bound(&part, 0), "{closer} of {part}");
    page.click("#curve-whole");
    assert_eq!(page.evaluate(ends), whole);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn a_session_opens_to_what_each_policy_made_of_it() {
    let study = Study::run();
    let mut page = open(&study);
    let rows = page.texts("#session-table > tbody > tr:not(.detail) > th");
    let cells = study.results["cells"].as_array().expect("cells");
    for (i, session) in rows.iter().enumerate() {
        let opener = format!("#session-table > tbody > tr:nth-child({}) .open", 2 * i + 1);
        page.click(&opener);
        let detail =
            format!("#session-table > tbody > tr:nth-child({}) .scroll:nth-child(2) tbody tr", 2 * i + 2);
        let own: Vec<&Value> =
            cells.iter().filter(|c| text(&c["session"]).starts_with(session.trim_end_matches('…'))).collect();
        let names: Vec<String> = own.iter().map(|c| text(&c["policy"])).collect();
        assert_eq!(page.texts(&format!("{detail} > th")), names);
        let costs: Vec<String> = own.iter().map(|c| rounded_dollars(&c["cost_usd"].to_string())).collect();
        assert_eq!(page.texts(&format!("{detail} > td:nth-child(2)")), costs);
        let prompts: Vec<String> = own
            .iter()
            .map(|c| crate::html_report::grouped(c["tokens"]["prompt"].as_u64().expect("tokens")))
            .collect();
        assert_eq!(page.texts(&format!("{detail} > td:nth-child(6)")), prompts);
    }
    page.click("#session-table .detail button");
    let focused = page.evaluate("document.activeElement.id");
    assert_eq!(focused, json!("curve-session"));
    page.click("#session-table .open");
    assert_eq!(page.texts("#session-table .detail").len(), rows.len() - 1);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn everything_can_be_reached_with_keys() {
    let study = Study::run();
    let mut page = open(&study);
    let all = "[...document.querySelectorAll('a, button, select, input, summary, [tabindex=\"0\"]')].filter((e) => e.checkVisibility())";
    let count = page.evaluate(&format!("{all}.length")).as_u64().expect("a number");
    let mut reached = Vec::new();
    for _ in 0..count {
        page.key("Tab");
        let place =
            page.evaluate(&format!("{all}.indexOf(document.activeElement)")).as_i64().expect("a place");
        reached.push(place);
        let ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
        assert_ne!(ring, json!("none"), "no ring around element {place}");
    }
    // In the order of the page, each once, none skipped.
    assert_eq!(reached, (0..count).map(|i| i64::try_from(i).expect("small")).collect::<Vec<_>>());

    page.evaluate("document.querySelector('#comparison thead button').focus()");
    page.key("Enter");
    let order = page.evaluate("document.querySelector('#comparison thead th').getAttribute('aria-sort')");
    assert_eq!(order, json!("ascending"));
    page.evaluate("document.getElementById('curve-request').focus()");
    let number = |page: &mut Page| {
        page.evaluate("Number(document.getElementById('curve-request').value)").as_u64().expect("a number")
    };
    let before = number(&mut page);
    page.key("ArrowLeft");
    assert_eq!(number(&mut page), before - 1);
    assert!(page.texts("#curve-number")[0].starts_with(&format!("{} of", before - 1)));
    page.evaluate("document.querySelector('#session-table .open').focus()");
    page.key("Enter");
    let open = page.evaluate("document.querySelector('#session-table .open').getAttribute('aria-expanded')");
    assert_eq!(open, json!("true"));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn both_themes_and_a_narrow_window_are_readable() {
    let study = Study::run();
    let mut page = Page::start(400, 800);
    let paper = "getComputedStyle(document.body).backgroundColor";
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        page.prefer(scheme);
        page.open(&study.page);
        let width = page.evaluate("document.scrollingElement.scrollWidth").as_u64().expect("a width");
        assert!(width <= 400, "{width} points are wider than the window");
        papers.push(page.evaluate(paper));
        page.click("#theme");
        papers.push(page.evaluate(paper));
    }
    assert_eq!(papers[0], papers[3]);
    assert_eq!(papers[1], papers[2]);
    assert_ne!(papers[0], papers[1]);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium; .ci/run runs it"]
fn ten_thousand_requests_under_thirty_policies_are_painted_at_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("large.html");
    std::fs::write(&path, large_page()).expect("writable");
    let mut page = Page::start(1280, 900);
    page.open(&path);
    let paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    let ready = page.evaluate("performance.now()");
    println!("first contentful paint after {paint} ms, asked after {ready} ms");
    // A machine under load is slow; what matters is that it is not a multiple of this.
    assert!(paint.as_f64().is_some_and(|ms| ms < 10_000.0), "{paint}");
    let lines = page.evaluate("document.querySelectorAll('#curve-picture path[data-policy]').length");
    assert!(lines.as_u64().is_some_and(|n| n > 0), "{lines}");
    page.click("#curve-choice button");
    assert_eq!(
        page.evaluate("document.querySelectorAll('#curve-picture path[data-policy]').length"),
        json!(30)
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// Set CTXSIM_SCREENSHOTS to a folder, and CTXSIM_PAGE to a report.html, to see them.
#[test]
#[ignore = "needs Chromium; draws only"]
fn screenshots() {
    let (Some(folder), Some(file)) =
        (std::env::var_os("CTXSIM_SCREENSHOTS"), std::env::var_os("CTXSIM_PAGE"))
    else {
        return;
    };
    let (folder, file) = (Path::new(&folder), Path::new(&file));
    for (name, scheme, width, opens) in [
        ("report", "light", 1280, true),
        ("report-dark", "dark", 1280, false),
        ("report-narrow", "light", 400, false),
    ] {
        let mut page = Page::start(width, 900);
        page.prefer(scheme);
        page.open(file);
        if opens {
            page.click("#session-table .open");
        }
        page.evaluate("scrollTo(0, 0)");
        std::fs::write(folder.join(format!("{name}.png")), page.screenshot()).expect("writable");
    }
}
