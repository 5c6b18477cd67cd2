//! The command line: exit codes, error texts, what is read and printed.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::{code, ctxsim, json, one_session, recording, run, stderr, stdout};

#[test]
fn results_json_is_a_partition_of_every_prompt() {
    let dir = one_session();
    let results = json(&run(dir.path(), ["simulate", "s.jsonl", "--format", "json"]), 0);
    assert_eq!(results["format_version"], 1);
    assert_eq!(results["recipe"]["command"], "simulate");
    assert_eq!(results["digest"].as_str().map(str::len), Some(16));
    let cells = results["cells"].as_array().expect("cells");
    let labels: Vec<_> = cells.iter().map(|c| c["policy"].as_str().expect("a label")).collect();
    assert_eq!(labels, ["none", "arcturn"]);
    for cell in cells.iter().chain(results["totals"].as_array().expect("totals")) {
        let tokens = |name: &str| cell["tokens"][name].as_u64().expect("a number");
        assert_eq!(tokens("prompt"), tokens("uncached") + tokens("cache_read") + tokens("cache_write"));
        assert_eq!(tokens("cache_write"), tokens("cache_write_5m") + tokens("cache_write_1h"));
        let misses = cell["misses"].as_object().expect("causes");
        let missed: u64 = misses.values().map(|m| m["tokens"].as_u64().expect("a number")).sum();
        assert_eq!(missed, tokens("uncached") + tokens("cache_write"));
        assert!(tokens("prompt") > 0 && cell["requests"] == 30);
    }
    assert!(cells[1]["passes"].as_u64() > Some(0), "{}", cells[1]);
    assert_eq!(cells[0]["misses"]["ttl_expired"]["requests"], 1);
}

#[test]
fn unknown_names_suggest_the_nearest_and_end_with_2() {
    let dir = one_session();
    for (args, expected) in [
        (vec!["-p", "arctrun"], "there is no policy `arctrun`; did you mean `arcturn`?"),
        (vec!["-p", "arcturn:minCharPerPass=1"], "did you mean `minCharsPerPass`?"),
        (vec!["--set", "minCharPerPass=1"], "did you mean `minCharsPerPass`?"),
        (vec!["-m", "claude-opuss-5-5"], "did you mean `claude-opus-5-5`?"),
        (vec!["--input-format", "claude-cod"], "did you mean `claude-code`?"),
        (vec!["--shard", "hash:4/3"], "hash:i/n"),
        (vec!["--tokens", "words"], "--tokens words"),
        (vec!["-p", "none", "-p", "none"], "given twice"),
    ] {
        let output = run(dir.path(), ["simulate", "s.jsonl"].into_iter().chain(args.iter().copied()));
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_missing_file_is_named_with_one_reason() {
    let dir = one_session();
    let output = run(dir.path(), ["policies", "--check", "gone.toml"]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output).matches("gone.toml").count(), 1);
    assert_eq!(stderr(&output).matches("os error").count(), 1, "{}", stderr(&output));
}

#[test]
fn a_check_finds_slips_in_rules_that_are_off_by_default() {
    let dir = one_session();
    let policy = |rule: &str| {
        format!(
            "name = 'x'\nversion = '1'\nsummary = 's'\n[cache]\nttl = '5m'\nmarkers = ['system']\n[params]\n\
             mode = {{ default = 'off', choices = ['off', 'on'], doc = 'd' }}\n\
             [[rule]]\nid = 'edit'\nat = 'request'\nif = [{{ param = 'mode', is = ['on'] }}]\n\
             when = [{{ of = 'tool_results', unit = 'utf16', over = {rule} }}]\n\
             select = {{ tool_results = {{}} }}\nstub = {{ fixed = 10 }}\n"
        )
    };
    for (over, expected) in [("100", 0), ("'$most'", 2)] {
        fs::write(dir.path().join("p.toml"), policy(over)).expect("writable");
        let output = run(dir.path(), ["policies", "--check", "p.toml"]);
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("there is no parameter `most`"), expected == 2);
    }
}

#[test]
fn inputs_that_cannot_be_read() {
    let dir = one_session();
    fs::write(dir.path().join("bad.jsonl"), "not a recording\n").expect("writable");
    let simulate = |args: &[&str]| run(dir.path(), ["simulate"].iter().chain(args));

    let missing = simulate(&["gone.jsonl"]);
    assert_eq!(code(&missing), 3);
    assert!(stderr(&missing).contains("gone.jsonl"), "{}", stderr(&missing));
    assert_eq!(code(&simulate(&["bad.jsonl"])), 3);

    let both = simulate(&["bad.jsonl", "s.jsonl", "--format", "json"]);
    let results = json(&both, 5);
    assert_eq!(results["cells"].as_array().map(Vec::len), Some(2));
    assert_eq!(results["skipped"][0]["path"], "bad.jsonl");
    assert!(stderr(&both).contains("skipped bad.jsonl"), "{}", stderr(&both));

    let strict = simulate(&["bad.jsonl", "s.jsonl", "--strict"]);
    assert_eq!(code(&strict), 3);
    assert!(stderr(&strict).starts_with("ctxsim: bad.jsonl"), "{}", stderr(&strict));
}

#[test]
fn nothing_matching_ends_with_4() {
    let dir = one_session();
    for args in [["--since", "2199-01-01"], ["--project", "elsewhere"]] {
        let output = run(dir.path(), ["simulate", "s.jsonl"].into_iter().chain(args));
        assert_eq!(code(&output), 4, "{}", stderr(&output));
    }
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "--since", "yesterday"])), 2);
    assert_eq!(code(&run(dir.path(), ["simulate", "s.jsonl", "--since", "2026-10-01"])), 0);
}

#[test]
fn without_input_the_sessions_of_agents_are_found() {
    let dir = one_session();
    let none = run(dir.path(), ["simulate"]);
    assert_eq!(code(&none), 3);
    assert!(stderr(&none).contains("~/.claude/projects"), "{}", stderr(&none));
    let project = dir.path().join(".claude/projects/-home-me-api");
    fs::create_dir_all(&project).expect("writable");
    fs::rename(dir.path().join("s.jsonl"), project.join("s.jsonl")).expect("same folder");
    let found = run(dir.path(), ["simulate", "--project", "api", "--format", "json"]);
    assert_eq!(json(&found, 0)["cells"].as_array().map(Vec::len), Some(2));
    assert!(stderr(&found).contains("1 file below"), "{}", stderr(&found));
    assert_eq!(code(&run(dir.path(), ["simulate", "--project", "web"])), 4);
}

#[test]
fn standard_input_and_packed_files_are_read() {
    let dir = one_session();
    let text = fs::read(dir.path().join("s.jsonl")).expect("there");
    let plain = json(&run(dir.path(), ["simulate", "s.jsonl", "--format", "json"]), 0);

    let mut child = ctxsim(dir.path())
        .args(["simulate", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("piped").write_all(&text).expect("read to the end");
    let piped = json(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(piped["digest"], plain["digest"]);

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&text).expect("memory");
    fs::write(dir.path().join("p.jsonl.gz"), packed.finish().expect("memory")).expect("writable");
    let gz = json(&run(dir.path(), ["simulate", "p.jsonl.gz", "--format", "json"]), 0);
    assert_eq!(gz["digest"], plain["digest"]);
}

#[test]
fn a_closed_pipe_is_a_normal_end() {
    let dir = one_session();
    for args in [&["simulate", "s.jsonl"][..], &["metrics"], &["schema", "results"], &["completions", "bash"]]
    {
        let mut child = ctxsim(dir.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
}

/// Filling the pipe waits for the program to read, so Ctrl-C is caught by then.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_130_and_says_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut child = ctxsim(dir.path())
        .args(["simulate", "-", "-o", "out"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let text = recording("s", "claude-opus-5-5", 40, 12_000);
    stdin.write_all(&text.as_bytes()[..400_000]).expect("read by the program");
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill starts").success());
    // Its answer to Ctrl-C says that it was caught; only then may the input end.
    let mut said = String::new();
    let mut stderr_of_child = std::io::BufReader::new(child.stderr.take().expect("piped"));
    std::io::BufRead::read_line(&mut stderr_of_child, &mut said).expect("text");
    assert!(said.contains("stopping"), "{said}");
    drop(stdin);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr_of_child, &mut rest).expect("text");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 130, "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    let results = fs::read_to_string(dir.path().join("out/results.json")).expect("kept");
    assert!(results.contains("\"interrupted\": true"), "{results}");
}

#[test]
fn threads_company_and_order_change_no_cell() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (i, requests) in [30, 12, 45, 3, 20].into_iter().enumerate() {
        let text = recording(&format!("session-{i}"), "claude-opus-4-6", requests, 9_000 + 1_000 * i);
        fs::write(dir.path().join(format!("{i}.jsonl")), text).expect("writable");
    }
    let cells = |args: &[&str]| -> Vec<String> {
        let results = json(&run(dir.path(), ["simulate", ".", "--format", "json"].iter().chain(args)), 0);
        let mut cells: Vec<String> =
            results["cells"].as_array().expect("cells").iter().map(ToString::to_string).collect();
        cells.sort();
        cells
    };
    let all = ["-p", "none", "-p", "arcturn", "-p", "arcturn-0.6", "-m", "claude-opus-5-5"];
    let reference = cells(&[&all[..], &["--jobs", "1"]].concat());
    assert_eq!(reference.len(), 15);
    assert_eq!(cells(&[&all[..], &["--jobs", "4"]].concat()), reference);
    let shuffled = ["-p", "arcturn-0.6", "-p", "none", "-p", "arcturn", "-m", "claude-opus-5-5"];
    assert_eq!(cells(&shuffled), reference);
    let mut alone: Vec<String> = ["none", "arcturn", "arcturn-0.6"]
        .iter()
        .flat_map(|p| cells(&["-p", p, "-m", "claude-opus-5-5"]))
        .collect();
    alone.sort();
    assert_eq!(alone, reference);
    let mut sharded: Vec<String> = Vec::new();
    for shard in ["hash:1/2", "hash:2/2"] {
        let part = cells(&[&all[..], &["--shard", shard]].concat());
        assert!(!part.is_empty() && part.len() < 15, "{shard}: {}", part.len());
        sharded.extend(part);
    }
    sharded.sort();
    assert_eq!(sharded, reference);
}

#[test]
fn unknown_models_are_substituted_and_said_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = recording("s", "gpt-99-turbo", 5, 1_000);
    fs::write(dir.path().join("s.jsonl"), text).expect("writable");
    let output = run(dir.path(), ["simulate", "s.jsonl", "-p", "none", "--format", "json"]);
    let results = json(&output, 0);
    assert_eq!(results["cells"][0]["model"], "claude-opus-5-5");
    assert_eq!(results["cells"][0]["model_substituted"], "gpt-99-turbo");
    assert!(stderr(&output).contains("gpt-99-turbo"), "{}", stderr(&output));
}

#[test]
fn tables_have_no_escape_codes_in_a_pipe() {
    let dir = one_session();
    let output = run(dir.path(), ["simulate", "s.jsonl"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 0);
    assert!(!text.contains('\u{1b}'));
    assert!(text.contains("vs none") && text.contains("nothing is invented"), "{text}");
}

#[test]
fn a_recording_is_inspected() {
    let dir = one_session();
    let found = json(&run(dir.path(), ["inspect", "s.jsonl", "--format", "json"]), 0);
    let session = &found["sessions"][0];
    assert_eq!(session["session"], "session-one");
    assert_eq!(session["requests"], 30);
    assert_eq!(session["tools"][0]["tool"], "Read");
    assert_eq!(session["tools"][0]["role"], "read");
    assert_eq!(session["tools"][0]["calls"], 29);
    assert_eq!(session["gaps"]["over_5_min"], 1);
    assert_eq!(session["gaps"]["longest"][0]["request"], 3);
    let page = stdout(&run(dir.path(), ["inspect", "s.jsonl"]));
    for part in ["session-one", "Tools", "Longest gaps", "Largest results"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn lists_show_what_there_is() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = |args: &[&str]| {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert!(text(&["policies"]).contains("arcturn-0.6"));
    let arcturn = text(&["policies", "arcturn"]);
    for parameter in ["contextEditing.minCharsPerPass", "50000", "compaction.shape", "Sources:"] {
        assert!(arcturn.contains(parameter), "{parameter}");
    }
    assert!(text(&["models"]).contains("claude-opus-5-5"));
    let model: serde_json::Value =
        serde_json::from_str(&text(&["models", "claude-opus-5-5", "--format", "json"])).expect("JSON");
    assert_eq!(model["price_usd_per_million_tokens"]["cache_read"].as_f64(), Some(0.2));
    assert!(text(&["metrics"]).contains("hit_rate"));
    assert!(text(&["formats"]).contains("~/.claude/projects"));
    assert!(text(&["completions", "fish"]).contains("simulate"));
    assert_eq!(code(&run(dir.path(), ["policies", "arctrun"])), 2);
    assert_eq!(code(&run(dir.path(), ["nonsense"])), 2);
}

#[test]
fn a_policy_file_is_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("bad.toml"), "name = \"x\"\nversion = \"1\"\nnonsense = 3\n")
        .expect("writable");
    let output = run(dir.path(), ["policies", "--check", "bad.toml"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("bad.toml") && stderr(&output).contains("nonsense"),
        "{}",
        stderr(&output)
    );
}
