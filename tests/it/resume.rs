//! `--resume`, and sessions that are run while others are still read.

use std::fs;
use std::path::Path;

use crate::support::{code, json, recording, run, stderr, stdout};

fn corpus() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 0..7 {
        let model = ["claude-haiku-4-5", "claude-opus-5-5"][i % 2];
        let text = recording(&format!("s{i}"), model, 8 + i as u64, 9_000);
        fs::write(dir.path().join(format!("s{i}.jsonl")), text).expect("writable");
    }
    // A fork that goes on by itself, and a copy.
    let long = recording("s1", "claude-opus-5-5", 14, 9_000);
    let fork = long.replace("\"sessionId\":\"s1\"", "\"sessionId\":\"fork\"");
    fs::write(dir.path().join("fork.jsonl"), fork).expect("writable");
    fs::copy(dir.path().join("s3.jsonl"), dir.path().join("copy.jsonl")).expect("writable");
    dir
}

const POLICIES: [&str; 5] = ["*.jsonl", "-p", "none", "-p", "arcturn:minCharsPerPass=0,keepRecentTurns=1"];

#[test]
fn sessions_in_flight_give_the_bytes_of_a_whole_corpus() {
    let dir = corpus();
    let flying = run(dir.path(), ["simulate", "--format", "json"].iter().chain(&POLICIES));
    assert_eq!(code(&flying), 0, "{}", stderr(&flying));
    let held = run(dir.path(), ["simulate", "-o", "out"].iter().chain(&POLICIES));
    assert_eq!(code(&held), 0, "{}", stderr(&held));
    assert_eq!(stdout(&flying), fs::read_to_string(dir.path().join("out/results.json")).expect("written"));
    let cells = json(&flying, 0)["cells"].as_array().expect("cells").len();
    assert_eq!(cells, 2 * 8);
}

/// Makes the folder of a whole run one that was interrupted: two sessions are gone, and half of a third.
fn interrupt(folder: &Path) {
    let path = folder.join("results.json");
    let mut results: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    results["interrupted"] = true.into();
    let cells = results["cells"].as_array_mut().expect("cells");
    cells.retain(|c| {
        c["session"] != "s0" && c["session"] != "s4" && (c["session"] != "s5" || c["policy"] == "none")
    });
    fs::write(&path, results.to_string()).expect("writable");
    for name in ["requests.csv", "events.jsonl"] {
        let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
        let gone = |line: &str| {
            ["s0", "s4"].iter().any(|s| line.starts_with(s) || line.contains(&format!("\"{s}\"")))
        };
        let kept: String = text.lines().filter(|line| !gone(line)).flat_map(|line| [line, "\n"]).collect();
        fs::write(folder.join(name), kept).expect("writable");
    }
}

#[test]
fn a_resumed_folder_has_the_bytes_of_an_uninterrupted_run() {
    for (command, names) in [
        (
            &["simulate"][..],
            &["results.json", "requests.csv", "events.jsonl", "report.md", "report.html"][..],
        ),
        (
            &["sweep", "--grid", "minCharsToElide=500,2000"],
            &["results.json", "sweep.csv", "report.md", "report.html"],
        ),
    ] {
        let dir = corpus();
        let run = |extra: &[&str]| run(dir.path(), command.iter().chain(&POLICIES).chain(extra));
        assert_eq!(code(&run(&["-o", "out"])), 0);
        let read = |name: &str| fs::read(dir.path().join("out").join(name)).expect(name);
        let before: Vec<Vec<u8>> = names.iter().map(|name| read(name)).collect();
        interrupt(&dir.path().join("out"));
        let resumed = run(&["-o", "out", "--resume"]);
        assert_eq!(code(&resumed), 0, "{}", stderr(&resumed));
        assert!(stderr(&resumed).contains("5 finished sessions are kept"), "{}", stderr(&resumed));
        for (name, before) in names.iter().zip(before) {
            assert!(read(name) == before, "{command:?}: {name}");
        }
    }
}

#[test]
fn what_is_kept_is_not_run_again() {
    let dir = corpus();
    let run =
        |extra: &[&str]| run(dir.path(), ["simulate", "-o", "out"].iter().chain(&POLICIES).chain(extra));
    assert_eq!(code(&run(&[])), 0);
    let path = dir.path().join("out/results.json");
    let mark = |text: String| {
        let (head, tail) = text.split_at(text.find("\"session\": \"s0\"").expect("a cell"));
        format!("{head}{}", tail.replacen("\"offloads\": 0", "\"offloads\": 12345", 1))
    };
    fs::write(&path, mark(fs::read_to_string(&path).expect("written"))).expect("writable");
    assert_eq!(code(&run(&["--resume"])), 0);
    assert!(fs::read_to_string(&path).expect("written").contains("12345"));
}

#[test]
fn another_recipe_is_refused() {
    let dir = corpus();
    let simulate = |extra: &[&str]| run(dir.path(), ["simulate", "*.jsonl"].iter().chain(extra));
    assert_eq!(code(&simulate(&["-p", "none", "-o", "out"])), 0);
    for (args, field) in [
        (&["-p", "none", "-p", "arcturn", "-o", "out", "--resume"][..], "`policies`"),
        (&["-p", "none", "-o", "out", "--resume", "--tokens", "chars:4"], "`tokens`"),
        (&["-p", "none", "-o", "out", "--resume", "--shard", "hash:1/2"], "`shard`"),
    ] {
        let output = simulate(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(
            stderr(&output).contains(field) && stderr(&output).contains("results.json"),
            "{}",
            stderr(&output)
        );
    }
    let output = simulate(&["-p", "none", "--resume"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("--out"), "{}", stderr(&output));
    let fresh = simulate(&["-p", "none", "-o", "fresh", "--resume"]);
    assert_eq!(code(&fresh), 0, "{}", stderr(&fresh));
}
