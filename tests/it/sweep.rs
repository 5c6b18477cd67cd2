//! `sweep`: the grid, its table and files.

use std::fs;

use crate::support::{code, json, one_session, recording, run, stderr, stdout};

const GRID: [&str; 4] = ["--grid", "minCharsPerPass=0,50000", "--grid", "keepRecentTurns=1..5:2"];

fn sweep(args: &[&str]) -> (tempfile::TempDir, std::process::Output) {
    let dir = one_session();
    let other = recording("session-two", "claude-sonnet-4-6", 12, 9_000);
    fs::write(dir.path().join("t.jsonl"), other).expect("writable");
    let output = run(dir.path(), ["sweep", "s.jsonl", "t.jsonl"].iter().chain(args));
    (dir, output)
}

#[test]
fn a_grid_point_has_the_numbers_of_a_policy_with_its_parameters() {
    let grid: Vec<&str> =
        ["-p", "arcturn", "-p", "none", "--format", "json"].into_iter().chain(GRID).collect();
    let (dir, output) = sweep(&grid);
    let swept = json(&output, 0);
    assert_eq!(swept["recipe"]["command"], "sweep");
    assert_eq!(swept["cells"].as_array().map(Vec::len), Some(2 * 7));
    let policies = swept["recipe"]["policies"].as_array().expect("policies");
    assert_eq!(policies[0]["label"], "none");
    let label = "arcturn:minCharsPerPass=0,keepRecentTurns=3";
    let point = policies.iter().find(|p| p["label"] == label).expect("a point");
    assert_eq!(point["params"]["contextEditing.minCharsPerPass"], 0);
    assert_eq!(point["params"]["contextEditing.keepRecentTurns"], 3);
    let alone = run(dir.path(), ["simulate", "s.jsonl", "t.jsonl", "-p", label, "--format", "json"]);
    let own = |results: &serde_json::Value| -> Vec<serde_json::Value> {
        let cells = results["cells"].as_array().expect("cells").iter();
        cells.filter(|c| c["policy"] == label).cloned().collect()
    };
    assert_eq!(own(&swept), own(&json(&alone, 0)));
}

#[test]
fn the_cheapest_row_is_marked_in_every_format() {
    let args: Vec<&str> = ["-p", "none", "-p", "arcturn", "-m", "claude-opus-5-5", "-o", "out"]
        .into_iter()
        .chain(GRID)
        .collect();
    let (dir, output) = sweep(&args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    assert_eq!(table.lines().filter(|l| l.trim_end().ends_with(" best")).count(), 1, "{table}");
    assert_eq!(table.lines().filter(|l| l.starts_with("arcturn:")).count(), 6, "{table}");
    assert!(table.contains("vs none"), "{table}");

    let csv = fs::read(dir.path().join("out/sweep.csv")).expect("written");
    let mut reader = csv::Reader::from_reader(csv.as_slice());
    let header = reader.headers().expect("a header").clone();
    let column = |name: &str| header.iter().position(|h| h == name).expect(name);
    let (cost, best) = (column("cost_usd"), column("best"));
    column("contextEditing.minCharsPerPass");
    column("contextEditing.keepRecentTurns");
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("even rows")).collect();
    assert_eq!(rows.len(), 7);
    let usd = |row: &csv::StringRecord| row[cost].parse::<f64>().expect("dollars");
    let least = rows.iter().map(&usd).fold(f64::INFINITY, f64::min);
    let marked: Vec<f64> = rows.iter().filter(|r| &r[best] == "true").map(usd).collect();
    assert_eq!(marked, [least]);
    let report = fs::read_to_string(dir.path().join("out/report.md")).expect("written");
    assert!(report.lines().any(|l| l.ends_with("| best |")), "{report}");
    assert!(dir.path().join("out/results.json").is_file());
}

#[test]
fn slips_are_named_before_any_work() {
    for (args, expected) in [
        (&["--grid", "minCharPerPass=1"][..], "did you mean `minCharsPerPass`?"),
        (
            &["--grid", "keepRecentTurns=-900000,1"],
            "`contextEditing.keepRecentTurns` = -900000 is out of range",
        ),
        (&["--grid", "keepRecentTurns=one"], "not `one`"),
        (&["--grid", "keepRecentTurns=5..1:2"], "5..1 is empty"),
        (&["--grid", "keepRecentTurns"], "KEY=1,3,5"),
        (&["--grid", "keepRecentTurns=1", "--grid", "keepRecentTurns=2"], "given twice"),
        (&["-p", "arcturn:keepRecentTurns=3", "--grid", "keepRecentTurns=1,5"], "leave one of them out"),
    ] {
        let (_dir, output) = sweep(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn joined_shards_are_the_bytes_of_one_run() {
    for command in [
        vec!["sweep", "-p", "none", "-p", "arcturn", "--grid", "keepRecentTurns=1,5"],
        vec!["simulate", "-p", "none", "-p", "arcturn:minCharsPerPass=0,keepRecentTurns=1"],
    ] {
        let dir = one_session();
        for i in 0..6 {
            let text = recording(&format!("s{i}"), ["claude-haiku-4-5", "claude-opus-5-5"][i % 2], 8, 9_000);
            fs::write(dir.path().join(format!("s{i}.jsonl")), text).expect("writable");
        }
        let run = |args: &[&str]| {
            let output = run(dir.path(), command.iter().chain(&["s*.jsonl", "-o"]).chain(args));
            assert_eq!(code(&output), 0, "{}", stderr(&output));
        };
        run(&["whole"]);
        // Seven sessions and nine shards: some are empty.
        let shards: Vec<String> = (1..=9).map(|i| format!("part{i}")).collect();
        for (i, shard) in shards.iter().enumerate() {
            run(&[shard, "--shard", &format!("hash:{}/9", i + 1)]);
        }
        let join = |shards: &[String]| {
            let args = ["join", "-o", "joined"].into_iter().chain(shards.iter().map(String::as_str));
            crate::support::run(dir.path(), args)
        };
        assert_eq!(code(&join(&shards)), 0);
        let bytes = |folder: &str, name: &str| fs::read(dir.path().join(folder).join(name)).expect(name);
        let names = match command[0] {
            "sweep" => &["results.json", "sweep.csv", "report.md", "report.html"][..],
            _ => &["results.json", "requests.csv", "events.jsonl", "report.html"],
        };
        for name in names {
            assert!(bytes("whole", name) == bytes("joined", name), "{name}");
        }
        let missing = join(&shards[1..]);
        assert_eq!(code(&missing), 2);
        assert!(stderr(&missing).contains("hash:1/9"), "{}", stderr(&missing));
        assert_eq!(code(&join(&["whole".to_owned()])), 2);
    }
}
