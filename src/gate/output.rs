//! A verdict for people and for CI: table, Markdown, JUnit XML, GitHub annotations, SARIF.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use crate::report::grid::{Grid, counted};
use crate::report::markdown;

use super::{Check, Place, Verdict};

/// Rows of what only changed that are shown; what failed is always shown.
const SHOWN_CHANGES: usize = 50;

/// One line: whether it passed.
pub fn headline(verdict: &Verdict) -> String {
    let places = verdict.places.len() as u64;
    let changed = verdict.places.iter().filter(|p| p.changed()).count();
    match verdict.failures() {
        0 => format!("Passed: {} compared, {changed} changed, no rule broken.", counted(places, "row")),
        n => {
            let places = verdict.places.iter().filter(|p| p.failed()).count() as u64;
            format!("Failed: {} broken in {}.", counted(n as u64, "rule"), counted(places, "place"))
        }
    }
}

/// What failed, then what changed.
pub fn grid(verdict: &Verdict) -> Grid {
    let [mut failed, changed] = grids(verdict);
    failed.rows.extend(changed.rows.into_iter().take(SHOWN_CHANGES));
    failed
}

/// What failed, and what changed.
fn grids(verdict: &Verdict) -> [Grid; 2] {
    let left = |title: &str| (title.to_owned(), false);
    let right = |title: &str| (title.to_owned(), true);
    let mut grid = Grid::new([
        left("session"),
        left("policy"),
        left("model"),
        left("metric"),
        right("baseline"),
        right("now"),
        right("change"),
        left("first different request"),
        left("broken rule"),
    ]);
    let row = |place: &Place, check: Option<&Check>| {
        let text = |f: fn(&Check) -> &String| check.map(f).cloned().unwrap_or_default();
        vec![
            place.session.clone().unwrap_or_else(|| "total".to_owned()),
            place.policy.clone(),
            place.model.clone(),
            check.map_or_else(|| "requests".to_owned(), |c| c.metric.clone()),
            text(|c| &c.baseline),
            text(|c| &c.now),
            text(|c| &c.change),
            place.divergence.map(|d| d.to_string()).unwrap_or_default(),
            check.filter(|c| c.failed).map(|c| c.rule.clone()).unwrap_or_default(),
        ]
    };
    for place in &verdict.places {
        grid.rows.extend(place.checks.iter().filter(|c| c.failed).map(|check| row(place, Some(check))));
    }
    let mut changes = Vec::new();
    for place in verdict.places.iter().filter(|p| p.changed()) {
        let own: Vec<&Check> = place.checks.iter().filter(|c| !c.failed && c.changed()).collect();
        changes.extend(own.iter().map(|check| row(place, Some(check))));
        if own.is_empty() && !place.failed() {
            changes.push(row(place, None));
        }
    }
    let changed = Grid { columns: grid.columns.clone(), rows: changes };
    [grid, changed]
}

/// For a pull request or a job summary.
pub fn markdown(verdict: &Verdict) -> String {
    let sign = if verdict.passed() { "✅" } else { "❌" };
    let mut out = format!("## {sign} ctxsim gate\n\n{}\n", headline(verdict));
    let [failed, changed] = grids(verdict);
    if !failed.rows.is_empty() {
        out.push('\n');
        markdown::table_within(&mut out, &failed, markdown::COMMENT_CHARS / 2);
    }
    if !verdict.notes.is_empty() {
        out.push('\n');
        verdict.notes.iter().take(SHOWN_CHANGES).for_each(|note| out.push_str(&format!("- {note}\n")));
    }
    let summary = format!("{} changed without breaking a rule", counted(changed.rows.len() as u64, "number"));
    markdown::fold(&mut out, &summary, &changed, markdown::COMMENT_CHARS / 4);
    out
}

/// What is wrong with a place, in a sentence.
fn sentence(place: &Place, check: &Check) -> String {
    let change = if check.change.is_empty() { String::new() } else { format!(" ({})", check.change) };
    let first = place.divergence.map(|d| format!("; first different request {d}")).unwrap_or_default();
    let from = if check.baseline.is_empty() { String::new() } else { format!(" from {}", check.baseline) };
    let name = place.name();
    format!("{name}: {}{from} to {}{change} breaks `{}`{first}", check.metric, check.now, check.rule)
}

/// JUnit XML: a suite for each policy and model, a case for each cell and total.
///
/// # Errors
/// If the report cannot be serialised, which the writer says.
pub fn junit(verdict: &Verdict) -> Result<String, String> {
    let mut report = Report::new("ctxsim gate");
    let mut names: Vec<(&str, &str)> =
        verdict.places.iter().map(|p| (p.policy.as_str(), p.model.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    for (policy, model) in names {
        let mut suite = TestSuite::new(format!("{policy} on {model}"));
        for place in verdict.places.iter().filter(|p| p.policy == policy && p.model == model) {
            let broken: Vec<&Check> = place.checks.iter().filter(|c| c.failed).collect();
            let status = match broken.first() {
                None => TestCaseStatus::success(),
                Some(first) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    let texts: Vec<String> = broken.iter().map(|check| sentence(place, check)).collect();
                    status.set_type(first.metric.as_str()).set_message(texts[0].as_str());
                    status.set_description(texts.join("\n"));
                    status
                }
            };
            let name = place.session.as_deref().unwrap_or("total");
            let mut case = TestCase::new(name, status);
            case.set_classname(format!("{policy}.{model}"));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|e| e.to_string())
}

/// Workflow commands that GitHub shows beside the change: one for each broken rule.
pub fn github(verdict: &Verdict, baseline: &str) -> String {
    // What these characters mean there, from its own toolkit.
    let text = |t: &str| t.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |t: &str| text(t).replace(':', "%3A").replace(',', "%2C");
    let mut out = String::new();
    for place in &verdict.places {
        for check in place.checks.iter().filter(|c| c.failed) {
            let (file, title) = (property(baseline), property(&format!("ctxsim: {}", check.rule)));
            out.push_str(&format!("::error file={file},title={title}::{}\n", text(&sentence(place, check))));
        }
    }
    out
}

/// SARIF 2.1.0: one result for each broken rule, at the baseline file.
pub fn sarif(verdict: &Verdict, baseline: &str) -> serde_json::Value {
    let mut rules: Vec<&str> = Vec::new();
    let mut results = Vec::new();
    for place in &verdict.places {
        for check in place.checks.iter().filter(|c| c.failed) {
            if !rules.contains(&check.rule.as_str()) {
                rules.push(&check.rule);
            }
            results.push(json!({
                "ruleId": check.rule,
                "level": "error",
                "message": {"text": sentence(place, check)},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": baseline.replace('\\', "/")}}}],
                "partialFingerprints": {"place/v1": format!("{} {}", place.name(), check.rule)},
            }));
        }
    }
    let rules: Vec<_> = rules
        .iter()
        .map(|r| json!({"id": r, "shortDescription": {"text": format!("ctxsim gate: {r}")}}))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "ctxsim", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::gate::Divergence;

    fn verdict() -> Verdict {
        let check = |failed| Check {
            rule: "cost_usd rise <= 1%".into(),
            metric: "cost_usd".into(),
            baseline: "1".into(),
            now: if failed { "2".into() } else { "1.001".into() },
            change: "+100.0%".into(),
            failed,
        };
        let place = |session: Option<&str>, failed| Place {
            session: session.map(str::to_owned),
            policy: "a<b".into(),
            model: "m".into(),
            checks: vec![check(failed)],
            divergence: session.map(|_| Divergence {
                request: 7,
                cause: Some(Cause::PrefixSystem),
                missed_tokens: 900,
            }),
        };
        let places = vec![place(Some("quiet"), false), place(Some("s-one"), true), place(None, false)];
        Verdict { places, notes: vec!["A note.".into()] }
    }

    #[test]
    fn what_failed_comes_first_and_says_where_it_began() {
        let grid = grid(&verdict());
        assert_eq!(grid.rows.len(), 3);
        assert_eq!(grid.rows[0][0], "s-one");
        assert_eq!(grid.rows[0][7..], ["7: prefix_system, 900 tokens", "cost_usd rise <= 1%"]);
        assert!(grid.rows[1..].iter().all(|row| row[8].is_empty()));
        assert_eq!(headline(&verdict()), "Failed: 1 rule broken in 1 place.");
        let text = markdown(&verdict());
        assert!(text.starts_with("## ❌") && text.contains("\n- A note.\n"), "{text}");
        let (open, folded) = text.split_once("<details>").expect("a fold");
        assert!(open.contains("s-one") && !open.contains("quiet") && folded.contains("quiet"), "{text}");
    }

    #[test]
    fn junit_counts_and_escapes() {
        let xml = junit(&verdict()).expect("XML");
        assert!(xml.contains(r#"tests="3" skipped="0" errors="0" failures="1""#), "{xml}");
        assert!(
            xml.contains("a&lt;b on m") && xml.contains("first different request 7: prefix_system"),
            "{xml}"
        );
    }

    #[test]
    fn annotations_are_one_line_each() {
        let text = github(&verdict(), "ci/base,line.json");
        assert_eq!(text.lines().count(), 1);
        assert!(
            text.starts_with("::error file=ci/base%2Cline.json,title=ctxsim%3A cost_usd rise <= 1%25::s-one")
        );
    }

    #[test]
    fn sarif_names_rule_and_file() {
        let sarif = sarif(&verdict(), "ci/baseline.json");
        let run = &sarif["runs"][0];
        assert_eq!(run["results"].as_array().map(Vec::len), Some(1));
        assert_eq!(run["results"][0]["ruleId"], run["tool"]["driver"]["rules"][0]["id"]);
        let place = &run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(place, "ci/baseline.json");
    }
}
