//! `ctxsim plot`: every kind from the files of a study, and what they say is what the results say.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::html_report::rounded_dollars;
use crate::support::{code, recording, run, stderr};

/// Eight recordings of different lengths, enough for intervals.
fn recordings() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 1..=8 {
        let text = recording(
            &format!("session-{i}"),
            "claude-opus-5-5",
            14 + 4 * i,
            9_000 + 700 * usize::try_from(i).expect("small"),
        );
        fs::write(dir.path().join(format!("{i}.jsonl")), text).expect("writable");
    }
    dir
}

fn done(dir: &Path, args: &[&str]) {
    let output = run(dir, args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
}

fn draw(dir: &Path, results: &str, kind: &str, extra: &[&str]) -> String {
    done(dir, &[&["plot", results, "--kind", kind, "-o", "p.svg"], extra].concat());
    fs::read_to_string(dir.join("p.svg")).expect("written")
}

/// Texts of an SVG in the order in which they are drawn.
fn texts(svg: &str) -> Vec<String> {
    let texts =
        svg.split("<text").skip(1).filter_map(|t| Some(t.split_once('>')?.1.split_once("</text>")?.0));
    texts.map(|t| t.trim().to_owned()).collect()
}

fn results(dir: &Path, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(dir.join(folder).join("results.json")).expect("written")).expect("JSON")
}

#[test]
fn every_kind_is_drawn_in_both_formats_and_both_themes() {
    let dir = recordings();
    done(
        dir.path(),
        &[
            "simulate",
            "*.jsonl",
            "-p",
            "none",
            "-p",
            "arcturn",
            "-p",
            "low=arcturn:minCharsPerPass=0",
            "-o",
            "out",
        ],
    );
    done(
        dir.path(),
        &[
            "sweep",
            "*.jsonl",
            "-p",
            "none",
            "-p",
            "arcturn",
            "--grid",
            "minCharsPerPass=0,20000,90000",
            "-o",
            "one",
        ],
    );
    done(
        dir.path(),
        &[
            "sweep",
            "*.jsonl",
            "-p",
            "arcturn",
            "--grid",
            "minCharsPerPass=0,20000",
            "--grid",
            "keepRecentTurns=1,3",
            "-o",
            "two",
        ],
    );
    done(dir.path(), &["sweep", "*.jsonl", "-p", "arcturn", "--grid", "cache.ttl=5m,1h", "-o", "lives"]);
    let kinds = [
        ("out", "token-curve"),
        ("out", "usage"),
        ("out", "cost"),
        ("out", "misses"),
        ("out", "pareto"),
        ("out", "ranking"),
        ("one", "sweep"),
        ("two", "sweep"),
        ("lives", "sweep"),
        ("lives", "ttl"),
    ];
    for (folder, kind) in kinds {
        let light = draw(dir.path(), folder, kind, &[]);
        let dark = draw(dir.path(), folder, kind, &["--dark"]);
        assert_ne!(light, dark, "{kind}");
        assert_eq!(texts(&light), texts(&dark), "{kind}");
        assert_eq!(light, draw(dir.path(), folder, kind, &[]), "{kind}");
        done(dir.path(), &["plot", folder, "--kind", kind, "-o", "p.png"]);
        assert!(fs::read(dir.path().join("p.png")).expect("written").starts_with(b"\x89PNG"), "{kind}");
    }
}

#[test]
fn a_parameter_goes_by_its_whole_name_or_by_the_last_part_of_it() {
    let dir = recordings();
    let grid = "sweep 1.jsonl -p arcturn --grid minCharsPerPass=0,20000 -o swept";
    done(dir.path(), &grid.split(' ').collect::<Vec<_>>());
    let over = |name| draw(dir.path(), "swept", "sweep", &["--param", name]);
    assert_eq!(over("minCharsPerPass"), over("contextEditing.minCharsPerPass"));
    let slip = run(dir.path(), "plot swept --kind sweep --param minCharPerPass -o p.svg".split(' '));
    assert_eq!(code(&slip), 2);
    assert!(stderr(&slip).contains("did you mean `minCharsPerPass`?"), "{}", stderr(&slip));
}

#[test]
fn bars_and_rankings_show_the_numbers_of_the_results() {
    let dir = recordings();
    done(
        dir.path(),
        &[
            "simulate",
            "*.jsonl",
            "-p",
            "none",
            "-p",
            "arcturn",
            "-p",
            "low=arcturn:minCharsPerPass=0",
            "-o",
            "out",
        ],
    );
    let results = results(dir.path(), "out");
    let totals = results["totals"].as_array().expect("totals");
    let cost = draw(dir.path(), "out", "cost", &[]);
    for total in totals {
        // Pictures show cents: what is left of four decimals after rounding in two steps may differ by one.
        let exact: f64 = total["cost_usd"].to_string().parse().expect("dollars");
        let shown = texts(&cost).into_iter().find(|t| t.starts_with(&format!("${exact:.2}")));
        assert!(shown.is_some(), "{}: {:?}", rounded_dollars(&total["cost_usd"].to_string()), texts(&cost));
    }
    let ranking = texts(&draw(dir.path(), "out", "ranking", &[]));
    let mut order: Vec<(f64, String)> = totals
        .iter()
        .map(|t| (t["cost_usd"].as_f64().expect("dollars"), t["policy"].as_str().expect("a name").to_owned()))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let names: Vec<&String> = order.iter().map(|(_, name)| name).collect();
    let drawn: Vec<&String> = ranking.iter().filter(|t| names.contains(t)).collect();
    assert_eq!(drawn, names);
    assert!(ranking.iter().any(|t| t.contains("95 %")), "{ranking:?}");
}

#[test]
fn what_cannot_be_drawn_says_why() {
    let dir = recordings();
    done(dir.path(), &["simulate", "*.jsonl", "-p", "none", "-p", "arcturn", "-o", "out"]);
    for (args, code_, words) in [
        (&["--kind", "ttl"][..], 4, "cache.ttl"),
        (&["--kind", "ranking", "--metric", "cost_us"], 2, "cost_usd"),
        (&["--kind", "usage", "-p", "arctorn"], 2, "arcturn"),
        (&["--size", "10x10"], 2, "800x500"),
        (&["--session", "nobody"], 4, "nobody"),
    ] {
        let output = run(dir.path(), [&["plot", "out", "-o", "p.svg"], args].concat());
        assert_eq!(code(&output), code_, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn a_search_can_be_drawn() {
    let dir = recordings();
    done(
        dir.path(),
        &[
            "tune",
            "*.jsonl",
            "-p",
            "none",
            "-p",
            "arcturn",
            "--param",
            "minCharsPerPass=0,20000,60000",
            "--holdout",
            "0",
            "-q",
            "-o",
            "tuned",
        ],
    );
    for kind in ["sweep", "pareto", "ranking"] {
        let words = texts(&draw(dir.path(), "tuned", kind, &[]));
        assert!(words.iter().any(|t| t.contains("arcturn")), "{kind}: {words:?}");
    }
}
