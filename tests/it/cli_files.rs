//! Files that commands write.

use std::fs;

use crate::support::{code, json, one_session, recording, run, stderr, stdout};

const HEADER: &str = "session,policy,model,request,at_ms,gap_ms,prompt_tokens,uncached_tokens,cache_read_tokens,\
                      cache_write_5m_tokens,cache_write_1h_tokens,output_tokens,cost_usd,miss_cause,missed_tokens,\
                      estimate_tokens,passes,compactions,rejections";

#[test]
fn a_folder_of_results_is_complete_and_consistent() {
    let dir = one_session();
    let output = run(dir.path(), ["simulate", "s.jsonl", "--out", "out", "--format", "json"]);
    let printed = json(&output, 0);
    let out = dir.path().join("out");
    let written: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).expect("written")).expect("JSON");
    assert_eq!(written, printed);

    let csv = fs::read_to_string(out.join("requests.csv")).expect("written");
    assert_eq!(csv.lines().next(), Some(HEADER));
    assert_eq!(csv.lines().count(), 1 + 2 * 30);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let mut prompts = [0_u64; 2];
    for row in reader.records().map(|r| r.expect("even rows")) {
        let number = |i: usize| row[i].parse::<u64>().expect("a number");
        assert_eq!(number(6), (7..=10).map(number).sum::<u64>());
        prompts[usize::from(&row[1] == "arcturn")] += number(6);
    }
    for (cell, prompt) in prompts.iter().enumerate() {
        assert_eq!(printed["cells"][cell]["tokens"]["prompt"], *prompt);
    }

    let events = fs::read_to_string(out.join("events.jsonl")).expect("written");
    let kinds: Vec<serde_json::Value> =
        events.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let passes = kinds.iter().filter(|e| e["kind"] == "pass" && e["policy"] == "arcturn").count();
    assert_eq!(printed["cells"][1]["passes"], passes);
    for name in
        ["report.md", "report.html", "plots/token-curve.svg", "plots/token-curve.png", "plots/cost.svg"]
    {
        assert!(fs::metadata(out.join(name)).expect(name).len() > 500, "{name}");
    }
    let left_over = fs::read_dir(&out)
        .expect("there")
        .filter(|e| e.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().ends_with(".tmp")));
    assert_eq!(left_over.count(), 0);
}

#[test]
fn a_foreign_folder_is_not_overwritten_without_force() {
    let dir = one_session();
    fs::create_dir(dir.path().join("mine")).expect("new");
    fs::write(dir.path().join("mine/notes.txt"), "keep").expect("new");
    let refused = run(dir.path(), ["simulate", "s.jsonl", "-o", "mine"]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(fs::read_dir(dir.path().join("mine")).expect("there").count(), 1);
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "-o", "mine", "--force"])), 0);
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "-o", "mine"])), 0);
    assert_eq!(fs::read_to_string(dir.path().join("mine/notes.txt")).expect("kept"), "keep");
}

#[test]
fn requests_alone_go_to_a_file() {
    let dir = one_session();
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "-p", "none", "--requests", "r.csv"])), 0);
    let csv = fs::read_to_string(dir.path().join("r.csv")).expect("written");
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some(HEADER), 31));
}

#[test]
fn a_scenario_is_run_into_its_report() {
    let dir = one_session();
    fs::create_dir(dir.path().join("scenarios")).expect("new");
    let scenario = "policies = ['none', 'low=arcturn:minCharsPerPass=0']\nmodels = ['claude-opus-5-5']\n\
                    [corpus]\ninputs = ['../s.jsonl']\n";
    fs::write(dir.path().join("scenarios/study.toml"), scenario).expect("writable");
    let output = run(dir.path(), ["run", "scenarios/study.toml"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("low"), "{}", stdout(&output));
    let report = dir.path().join("reports/study");
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(report.join("results.json")).expect("written")).expect("JSON");
    assert_eq!(results["recipe"]["scenario"], "study");
    assert_eq!(results["recipe"]["policies"][1]["params"]["contextEditing.minCharsPerPass"], 0);
    for name in
        ["requests.csv", "events.jsonl", "report.md", "plots/token-curve.svg", "plots/token-curve.png"]
    {
        assert!(report.join(name).exists(), "{name}");
    }
    let again = run(dir.path(), ["run", "scenarios/study.toml", "--jobs", "1", "--format", "json"]);
    assert_eq!(json(&again, 0)["digest"], results["digest"]);

    fs::write(dir.path().join("bad.toml"), "policies = ['none']\n[corpus]\ninput = ['s.jsonl']\n")
        .expect("writable");
    let wrong = run(dir.path(), ["run", "bad.toml"]);
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("bad.toml, line 3"), "{}", stderr(&wrong));
}

#[test]
fn a_picture_is_drawn_from_a_folder() {
    let dir = one_session();
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "-o", "out"])), 0);
    let output = run(dir.path(), ["plot", "out", "--kind", "token-curve", "-o", "c.svg"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let drawn = fs::read_to_string(dir.path().join("c.svg")).expect("written");
    assert!(drawn.contains("session-one") && drawn.contains("arcturn"));
    assert_eq!(code(&run(dir.path(), ["plot", "out", "-o", "c.gif"])), 2);
}

#[test]
fn traces_replay_as_their_recording_does() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 0..3 {
        // Ids that say nothing stay, so that results are the same.
        let id = format!("00000000-0000-4000-8000-00000000000{i}");
        let text = recording(&id, "claude-opus-4-6", 20, 9_000);
        fs::write(dir.path().join(format!("{i}.jsonl")), text).expect("writable");
    }
    let output = run(dir.path(), ["trace", "0.jsonl", "1.jsonl", "2.jsonl", "-o", "traces"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let digest = |input: &[&str]| {
        let args = ["simulate", "--format", "json", "-m", "claude-opus-5-5"];
        json(&run(dir.path(), args.iter().chain(input)), 0)["digest"].clone()
    };
    assert_eq!(digest(&["traces"]), digest(&["0.jsonl", "1.jsonl", "2.jsonl"]));

    let output = run(dir.path(), ["trace", "0.jsonl", "-o", "shared", "--anonymise"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for entry in fs::read_dir(dir.path().join("shared")).expect("written").map(|e| e.expect("readable")) {
        let text = fs::read_to_string(entry.path()).expect("UTF-8");
        assert!(!text.contains("00000000-0000-4000") && !text.contains("Read"), "{}", entry.path().display());
    }
}

#[test]
fn schemas_are_the_ones_checked_in() {
    for what in ["scenario", "policy", "results", "trace", "tune"] {
        let output = run(std::env::temp_dir().as_path(), ["schema", what]);
        assert_eq!(code(&output), 0);
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{what}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &output.stdout).expect("writable");
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == stdout(&output),
            "run this test with UPDATE_SCHEMAS=1 and commit {}",
            path.display()
        );
    }
}

#[test]
fn a_fork_counts_only_what_its_parent_does_not_have() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let long = recording("parent", "claude-opus-5-5", 30, 9_000);
    // A request is two lines, and the first one has a prompt before it.
    let parent: String = long.lines().take(1 + 2 * 10).flat_map(|line| [line, "\n"]).collect();
    let fork = long.replace("\"sessionId\":\"parent\"", "\"sessionId\":\"the-fork\"");
    fs::write(dir.path().join("b.jsonl"), parent).expect("writable");
    fs::write(dir.path().join("a.jsonl"), &fork).expect("writable");
    let requests = |args: &[&str]| -> Vec<(String, u64)> {
        let results =
            json(&run(dir.path(), ["simulate", "-p", "none", "--format", "json"].iter().chain(args)), 0);
        let cells = results["cells"].as_array().expect("cells").iter();
        cells
            .map(|c| {
                (c["session"].as_str().expect("an id").to_owned(), c["requests"].as_u64().expect("a number"))
            })
            .collect()
    };
    let both = [("parent".to_owned(), 10), ("the-fork".to_owned(), 20)];
    for jobs in ["1", "4"] {
        assert_eq!(requests(&["a.jsonl", "b.jsonl", "--jobs", jobs]), both);
    }
    assert_eq!(requests(&["a.jsonl"]), [("the-fork".to_owned(), 30)]);
    // Another recording that calls itself the same.
    let other = recording("x", "claude-opus-5-5", 5, 9_000)
        .replace("\"sessionId\":\"x\"", "\"sessionId\":\"parent\"");
    fs::write(dir.path().join("c.jsonl"), other).expect("writable");
    assert_eq!(requests(&["b.jsonl", "c.jsonl"]), [("parent".to_owned(), 10), ("parent#2".to_owned(), 5)]);
}

/// Two conversations begin with the same two blocks of 512 tokens: the second reads them where the cache is shared.
#[test]
fn sessions_read_what_others_wrote_where_the_cache_is_shared() {
    let dir = tempfile::tempdir().expect("a folder");
    let request = |at: u64, last: u64| {
        format!(
            "{{\"timestamp\":{at},\"input_length\":1536,\"output_length\":9,\"hash_ids\":[0,1,{last}]}}\n"
        )
    };
    fs::write(dir.path().join("m.jsonl"), request(0, 2) + &request(1_000, 3)).expect("new");
    let base = ["simulate", "m.jsonl", "-m", "mooncake", "-p", "none", "--format", "json"];
    let read = |output| {
        let printed: serde_json::Value = json(&output, 0);
        let shared = printed["recipe"]["shared_cache"].clone();
        (
            shared,
            printed["totals"][0]["sessions"].clone(),
            printed["totals"][0]["tokens"]["cache_read"].clone(),
        )
    };
    assert_eq!(read(run(dir.path(), base)), (serde_json::Value::Null, 2.into(), 0.into()));
    let shared = run(dir.path(), base.into_iter().chain(["--shared-cache"]));
    assert_eq!(read(shared), (true.into(), 2.into(), 1_024.into()));
    let resumed = base.into_iter().chain(["--shared-cache", "--out", "out", "--resume"]);
    let refused = run(dir.path(), resumed);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
}
