//! report.html holds the numbers of results.json, in its text and in its data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ctxsim::cause::Cause;
use ctxsim::report::html::{self, Heading, Runs};
use ctxsim::report::requests::RunRecord;
use ctxsim::report::{Cell, Recipe, ResultSet};
use ctxsim::sim::{FullRecorder, RequestRow, Summary};
use ctxsim::usage::Usage;
use serde_json::Value;

use crate::support::{code, recording, run, stderr};

/// A row of requests.csv by column.
pub type Row = BTreeMap<String, String>;

/// A small study on disk: two recordings under three policies.
pub struct Study {
    folder: tempfile::TempDir,
    /// report.html.
    pub page: PathBuf,
    /// results.json.
    pub results: Value,
}

impl Study {
    /// Runs it.
    pub fn run() -> Study {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (session, requests) in [("session-one", 40), ("session-two", 12)] {
            let text = recording(session, "claude-opus-5-5", requests, 12_000);
            std::fs::write(folder.path().join(format!("{session}.jsonl")), text).expect("writable");
        }
        let args = [
            "simulate",
            ".",
            "-p",
            "none",
            "-p",
            "arcturn",
            "-p",
            "low=arcturn:minCharsPerPass=0",
            "--out",
            "out",
        ];
        let output = run(folder.path(), args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let out = folder.path().join("out");
        let results = std::fs::read(out.join("results.json")).expect("written");
        let results = serde_json::from_slice(&results).expect("JSON");
        Study { page: out.join("report.html"), results, folder }
    }

    /// Rows of requests.csv of a session.
    pub fn requests(&self, session: &str) -> Vec<Row> {
        let mut reader =
            csv::Reader::from_path(self.folder.path().join("out/requests.csv")).expect("written");
        let rows = reader.deserialize::<Row>().map(|row| row.expect("even rows"));
        rows.filter(|row| row["session"] == session).collect()
    }

    /// Events of a kind, of the longer session.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("out/events.jsonl")).expect("written");
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        events.filter(|e| e["kind"] == kind && e["session"] == "session-one").collect()
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let chunks: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    chunks.iter().map(|c| String::from_utf8_lossy(c)).collect::<Vec<_>>().join(",")
}

/// An exact decimal of dollars as pages show it: four decimals, half up.
pub fn rounded_dollars(exact: &str) -> String {
    let (whole, fraction) = exact.split_once('.').unwrap_or((exact, ""));
    let digits: String = fraction.chars().chain("00000".chars()).take(5).collect();
    let units: u64 = format!("{whole}{digits}").parse().expect("a plain decimal");
    let rounded = (units + 5) / 10;
    format!("${}.{:04}", grouped(rounded / 10_000), rounded % 10_000)
}

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

#[test]
fn data_and_text_are_those_of_the_results() {
    let study = Study::run();
    let page = std::fs::read_to_string(&study.page).expect("written");
    let data = data(&page);
    assert_eq!(data["digest"], study.results["digest"]);
    let name = |list: &str, index: &Value| {
        data[list][usize::try_from(index.as_u64().expect("an index")).expect("small")].clone()
    };
    let totals = study.results["totals"].as_array().expect("totals");
    for (own, total) in data["totals"].as_array().expect("totals").iter().zip(totals) {
        assert_eq!(name("policies", &own["policy"]), total["policy"]);
        assert_eq!(own["cost_usd"].as_str().map(str::to_owned), Some(total["cost_usd"].to_string()));
        assert_eq!(own["prompt"], total["tokens"]["prompt"]);
        assert_eq!(own["hit_rate"].as_f64(), total["hit_rate"].as_f64());
        for text in [
            rounded_dollars(&total["cost_usd"].to_string()),
            grouped(total["tokens"]["prompt"].as_u64().expect("tokens")),
            grouped(total["peak_prompt_tokens"].as_u64().expect("tokens")),
        ] {
            assert!(page.contains(&format!(">{text}</td>")), "{text}");
        }
    }
    let cells = &data["cells"];
    for (i, cell) in study.results["cells"].as_array().expect("cells").iter().enumerate() {
        assert_eq!(name("sessions", &cells["session"][i]), cell["session"]);
        assert_eq!(name("policies", &cells["policy"][i]), cell["policy"]);
        let pusd = cells["cost_pusd"][i].as_u64().expect("money").to_string();
        assert_eq!(
            pusd,
            cell["cost_usd"].as_str().map_or_else(|| to_pusd(&cell["cost_usd"].to_string()), to_pusd)
        );
        let fields = [("requests", "requests"), ("peak", "peak_prompt_tokens"), ("passes", "passes")];
        assert!(fields.iter().all(|(own, theirs)| cells[*own][i] == cell[*theirs]), "{cell}");
        for (own, theirs) in [("prompt", "prompt"), ("read", "cache_read"), ("written", "cache_write")] {
            assert_eq!(cells[own][i], cell["tokens"][theirs]);
        }
    }
}

fn to_pusd(usd: &str) -> String {
    let (whole, fraction) = usd.split_once('.').unwrap_or((usd, ""));
    let digits = format!("{whole}{fraction:0<12}");
    digits.trim_start_matches('0').to_owned()
}

#[test]
fn the_page_made_from_files_is_the_page_of_the_run() {
    let study = Study::run();
    let output = run(study.folder.path(), ["report", "out", "-o", "again.html"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let again = std::fs::read_to_string(study.folder.path().join("again.html")).expect("written");
    assert_eq!(again, std::fs::read_to_string(&study.page).expect("written"));
}

/// A window of the user's own, in which a prompt of the long session nearly fills it.
const OWN_MODEL: &str = "[[model]]\nid = \"own\"\nlike = \"claude-opus-5-5\"\nwindow_tokens = 190_000\n";

#[test]
fn a_model_from_a_file_is_on_the_page_and_in_pictures_what_it_was_in_the_run() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = recording("session-one", "claude-opus-5-5", 40, 12_000);
    std::fs::write(dir.path().join("s.jsonl"), text).expect("writable");
    std::fs::write(dir.path().join("own.toml"), OWN_MODEL).expect("writable");
    for args in [
        "simulate s.jsonl -p none -m own --models-file own.toml --out out",
        "report out -o again.html",
        "plot out --kind token-curve -o curve.svg",
    ] {
        let output = run(dir.path(), args.split(' '));
        assert_eq!(code(&output), 0, "{args}: {}", stderr(&output));
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written");
    let page = read("out/report.html");
    assert_eq!(data(&page)["runs"][0][6], 190_000);
    assert_eq!(page, read("again.html"));
    let results: Value = serde_json::from_str(&read("out/results.json")).expect("JSON");
    assert_eq!(results["models"], serde_json::json!([{"model": "own", "window_tokens": 190_000}]));
    assert!(read("curve.svg").contains("window 190k"));
}

/// What a page says that is to be typed.
fn recipe(page: &Path) -> String {
    let page = std::fs::read_to_string(page).expect("written");
    let (_, rest) = page.split_once("<pre id=\"command\" tabindex=\"0\">").expect("a command");
    rest.split_once("</pre>").expect("an end").0.replace("&#39;", "'")
}

#[test]
fn what_a_page_tells_to_type_gives_its_numbers() {
    let study = Study::run();
    let dir = study.folder.path();
    assert_eq!(
        recipe(&study.page),
        "ctxsim simulate . \\\n  -p none \\\n  -p arcturn \\\n  -p low=arcturn:minCharsPerPass=0"
    );
    let scenario = "policies = [\"none\"]\n[corpus]\ninputs = [\"../session-*.jsonl\"]\n";
    std::fs::create_dir(dir.join("studies")).expect("new");
    std::fs::write(dir.join("studies/two.toml"), scenario).expect("writable");
    // Where it lies on this machine is not told.
    let path = dir.join("studies/two.toml");
    let output = run(dir, [Path::new("run"), &path, Path::new("--jobs"), Path::new("1")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = dir.join("reports/two/report.html");
    assert_eq!(recipe(&page), "ctxsim run studies/two.toml");
    let words = recipe(&page);
    let again = run(dir, words.split_whitespace().skip(1).chain(["--out", "again"]));
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    let results = |folder: &str| std::fs::read(dir.join(folder).join("results.json")).expect("written");
    assert_eq!(results("reports/two"), results("again"));
}

#[test]
fn a_page_is_named_as_one() {
    let study = Study::run();
    let output = run(study.folder.path(), ["report", "out", "-o", "again.pdf"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains(".html"), "{}", stderr(&output));
    assert!(!Path::new(&study.folder.path().join("again.pdf")).exists());
}

#[test]
fn a_large_study_stays_small() {
    let page = large_page();
    assert!(page.len() < 20_000_000, "{}", page.len());
    assert_eq!(data(std::str::from_utf8(&page).expect("UTF-8"))["runs"].as_array().map(Vec::len), Some(30));
}

/// A session of 10,000 requests under 30 policies, with numbers that do not repeat.
pub fn large_page() -> Vec<u8> {
    const REQUESTS: u32 = 10_000;
    let mut runs = Runs::default();
    let mut cells = Vec::new();
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for policy in 0..30_u64 {
        let mut read = 0;
        let mut rows = Vec::new();
        for request in 1..=REQUESTS {
            let breaks = random(40) == 0;
            let usage = Usage {
                uncached_tokens: random(20),
                cache_read_tokens: if breaks { 0 } else { read },
                cache_write_5m_tokens: random(3_000) + if breaks { read } else { 0 },
                cache_write_1h_tokens: 0,
                output_tokens: random(2_000),
            };
            read = (usage.prompt_tokens()) % (200_000 + 10_000 * policy);
            rows.push(RequestRow {
                request,
                at_ms: Some(1_790_000_000_000),
                gap_ms: Some(i64::try_from(random(400_000)).expect("small")),
                usage,
                cost_pusd: u128::from(usage.cache_read_tokens) * 500_000
                    + u128::from(usage.output_tokens) * 25_000_000,
                miss_cause: breaks.then_some(Cause::TtlExpired),
                missed_tokens: if breaks { read } else { 0 },
                estimate_tokens: 0,
                passes: u32::from(random(100) == 0),
                compactions: 0,
                rejections: 0,
            });
        }
        let mut summary = Summary { requests: REQUESTS.into(), ..Summary::default() };
        rows.iter().for_each(|row| summary.usage.add(&row.usage));
        summary.cost.output = rows.iter().map(|row| row.cost_pusd).sum();
        let record = FullRecorder { requests: rows, events: Vec::new() };
        let label = format!("policy-{policy}");
        let run = RunRecord {
            session: "session",
            policy: &label,
            model: "claude-opus-5-5",
            record: &record,
            stopped_at_request: None,
        };
        runs.add(&run, 1_000_000);
        cells.push(Cell {
            session: "session".into(),
            policy: label,
            model: "claude-opus-5-5".into(),
            model_substituted: None,
            summary,
        });
    }
    let results = ResultSet::new(Recipe::default(), Vec::new(), cells);
    html::write(&Heading { title: "large", ..Heading::default() }, &results, &runs)
}
