//! `ctxsim generate`, and what its adversarial sessions do to strategies.

use std::path::Path;

use ctxsim::cause::Cause;
use ctxsim::generate::{Profile, profile_names, session};
use ctxsim::policy::{PolicySpec, preset_names};
use ctxsim::provider::Models;
use ctxsim::session::{BlockKind, Session, trace};
use ctxsim::sim::summary::StopReason;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::{self, code, json, stderr, stdout};

fn profile(name: &str) -> Profile {
    Profile::load(name).expect("built in")
}

fn simulate(session: &Session, policy: &str) -> (Summary, FullRecorder) {
    let models = Models::builtin().expect("built in");
    let model = models.get("claude-opus-5-5").expect("known");
    let spec: PolicySpec = policy.parse().expect("a policy");
    let strategy = spec.load(&[], &[]).expect("known").strategy(model, &models).expect("a strategy");
    let mut record = FullRecorder::default();
    let options = RunOptions::default();
    let summary = run(session, &strategy, model, &options, &mut Scratch::default(), &mut record);
    (summary, record)
}

fn results_utf16(session: &Session) -> Vec<u32> {
    let blocks = &session.blocks;
    let is_result = |i: &usize| blocks.kind[*i] == BlockKind::ToolResult;
    (0..blocks.len()).filter(is_result).map(|i| blocks.utf16[i]).collect()
}

/// Every byte that is written, as one number per profile: equal on every machine.
#[test]
fn the_bytes_of_every_profile_are_golden() {
    let digests: Vec<String> = profile_names()
        .into_iter()
        .map(|name| {
            let mut bytes = Vec::new();
            (0..3).for_each(|i| trace::write(&session(&profile(name), 1, i), &mut bytes).expect("memory"));
            format!("{name} {:016x}", xxh3_64(&bytes))
        })
        .collect();
    insta::assert_debug_snapshot!(digests);
}

#[test]
fn adversarial_sessions_break_no_strategy() {
    let names = profile_names();
    let adversarial = names.iter().filter(|name| name.starts_with("adversarial-"));
    for name in adversarial {
        let mut profile = profile(name);
        if *name == "adversarial-tiny-results" {
            // Three thousand take a minute without optimisation.
            profile.set("steps_per_turn", "500").expect("in range");
        }
        let session = session(&profile, 0, 0);
        for policy in preset_names() {
            let (summary, _) = simulate(&session, policy);
            assert_eq!(summary.violations, 0, "{name} under {policy}");
            assert!(summary.requests > 0, "{name} under {policy}");
        }
    }
}

#[test]
fn at_a_threshold_one_character_decides() {
    let session = session(&profile("adversarial-thresholds"), 0, 0);
    let results = results_utf16(&session);
    let count = |size: u32| results.iter().filter(|utf16| **utf16 == size).count() as u64;
    assert_eq!([999, 1_000, 1_001, 15_999, 16_000, 16_001].map(count), [40; 6]);
    let offloads = |limit: u32| {
        let policy = format!("arcturn:offloadLimits.maxChars={limit}");
        simulate(&session, &policy).0.offloads
    };
    assert_eq!([15_998, 15_999, 16_000, 16_001].map(offloads), [120, 80, 40, 0]);
    let (edited, _) = simulate(&session, "arcturn:minCharsPerPass=0,offload=off,keepRecentTurns=0");
    let (above, _) =
        simulate(&session, "arcturn:minCharsPerPass=0,offload=off,keepRecentTurns=0,minCharsToElide=1001");
    assert!(edited.elided_results > above.elided_results, "results of exactly 1,000 characters count");
}

#[test]
fn an_entry_ends_exactly_at_its_expiry() {
    let session = session(&profile("adversarial-expiry"), 0, 0);
    for (policy, ttl_ms) in [("none", 300_000), ("none:cache.ttl=1h", 3_600_000)] {
        let (_, record) = simulate(&session, policy);
        let starts: Vec<i64> = session.steps.iter().filter_map(|s| s.start_ms).collect();
        for (row, times) in record.requests[1..].iter().zip(starts.windows(2)) {
            let gap_ms = times[1] - times[0];
            assert_eq!(row.usage.cache_read_tokens > 0, gap_ms < ttl_ms, "{policy}: {gap_ms} ms");
        }
    }
}

#[test]
fn look_back_ends_at_the_tenth_call() {
    let session = session(&profile("adversarial-parallel-calls"), 0, 0);
    let (_, record) = simulate(&session, "none");
    let calls = |step: usize| {
        let output = session.steps[step].output.clone();
        output.filter(|b| session.blocks.kind[*b as usize] == BlockKind::ToolUse).count()
    };
    for (i, row) in record.requests.iter().enumerate().skip(1) {
        assert_eq!(
            row.miss_cause == Some(Cause::Lookback),
            calls(i - 1) >= 10,
            "after {} calls",
            calls(i - 1)
        );
    }
}

#[test]
fn tiny_results_are_never_worth_a_stub_and_giant_ones_are_offloaded() {
    let tiny = session(&profile("adversarial-tiny-results"), 0, 0);
    assert_eq!(results_utf16(&tiny).len(), 3_000);
    for policy in ["arcturn:minCharsPerPass=0,maxTotalToolResultChars=0,minCharsToElide=0", "arcturn"] {
        let (summary, _) = simulate(&tiny, policy);
        assert_eq!((summary.offloads, summary.chars_saved), (0, 0), "{policy}");
    }
    let giant = session(&profile("adversarial-giant-result"), 0, 0);
    let (none, _) = simulate(&giant, "none");
    let (arcturn, _) = simulate(&giant, "arcturn");
    assert_eq!((none.stop_reason, none.overflows), (Some(StopReason::Overflow), 1));
    assert_eq!((arcturn.stop_reason, arcturn.offloads), (None, 3));
}

#[test]
fn a_history_beyond_the_window_ends_without_compaction_and_goes_on_with_it() {
    let session = session(&profile("adversarial-window"), 0, 0);
    assert_eq!(simulate(&session, "none").0.stop_reason, Some(StopReason::Overflow));
    let compacting = |shape: &str| {
        let policy = format!("arcturn:offload=off,contextEditing.enabled=false,compaction.shape={shape}");
        simulate(&session, &policy).0
    };
    let simple = compacting("simple");
    assert!(simple.stop_reason.is_none() && simple.compactions >= 3);
    // In a single turn there is no user message to cut at.
    assert_eq!(compacting("keep-tail").stop_reason, Some(StopReason::Overflow));
}

fn traces(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("a folder")
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_name().to_string_lossy().ends_with(".trace.jsonl"))
        .map(|e| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).expect("a file")))
        .collect();
    files.sort();
    files
}

fn generate(dir: &Path, args: &str) {
    let output = support::run(dir, format!("generate {args}").split(' '));
    assert_eq!(code(&output), 0, "{args}: {}", stderr(&output));
}

#[test]
fn the_same_command_writes_the_same_bytes_however_it_is_split() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    generate(dir.path(), "--profile swe-bench-like --sessions 12 --seed 4 --jobs 1 -o one");
    generate(dir.path(), "--profile swe-bench-like --sessions 12 --seed 4 --jobs 2 -o two");
    generate(dir.path(), "--profile one/profile.toml --sessions 15 --seed 4 -o more");
    let whole = traces(&path("one"));
    assert_eq!(whole.len(), 12);
    assert_eq!(whole, traces(&path("two")));
    assert_eq!(whole[..], traces(&path("more"))[..12]);
    let mut shards = Vec::new();
    for i in 1..=3 {
        generate(
            dir.path(),
            &format!("--profile swe-bench-like --sessions 12 --seed 4 --shard hash:{i}/3 -o s{i}"),
        );
        shards.extend(traces(&path(&format!("s{i}"))));
    }
    shards.sort();
    assert_eq!(whole, shards);
    generate(dir.path(), "--profile swe-bench-like --sessions 12 --seed 5 -o other");
    assert!(traces(&path("other")).iter().zip(&whole).all(|(a, b)| a.1 != b.1));
}

#[test]
fn sessions_against_a_policy_have_results_at_each_of_its_sizes() {
    let dir = tempfile::tempdir().expect("a folder");
    generate(dir.path(), "--against arcturn:offloadLimits.maxChars=20000 --sessions 1 -o edges");
    let (name, bytes) = traces(&dir.path().join("edges")).remove(0);
    let session = trace::read(&bytes[..], Path::new(&name)).expect("a trace");
    let results = results_utf16(&session);
    // Its limit, its least stub, its pass; four characters for a token of its kept tail.
    for size in [20_000, 1_000, 50_000, 4 * 20_000] {
        assert!([size - 1, size, size + 1].iter().all(|n| results.contains(n)), "{size}");
    }
    assert!(!results.contains(&16_000));
    let refused = support::run(dir.path(), "generate --against none --sessions 1 -o x".split(' '));
    assert!(code(&refused) == 2 && stderr(&refused).contains("nothing to aim at"), "{}", stderr(&refused));
}

#[test]
fn generated_sessions_are_input_like_any_other() {
    let dir = tempfile::tempdir().expect("a folder");
    generate(dir.path(), "--profile chat --sessions 3 --set turns=4 --set user_tokens=500 -o chats");
    let results = json(&support::run(dir.path(), "simulate chats -p none --format json".split(' ')), 0);
    let cells = results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 3);
    assert!(cells.iter().all(|cell| cell["requests"] == 4 && cell["model"] == "claude-opus-5-5"));
    let ideal = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/published/ideal-cache.toml");
    let ideal = ideal.to_string_lossy();
    let args = [
        "simulate",
        "chats",
        "-p",
        "none",
        "-m",
        "ideal-cache-unlimited",
        "--models-file",
        &ideal,
        "--format",
        "json",
    ];
    let results = json(&support::run(dir.path(), args), 0);
    let tokens = &results["cells"][0]["tokens"];
    assert_eq!(tokens["uncached"], 0);
    assert!(tokens["cache_read"].as_u64() > tokens["cache_write"].as_u64());
}

#[test]
fn a_fit_writes_a_profile_that_makes_such_sessions() {
    let dir = tempfile::tempdir().expect("a folder");
    generate(dir.path(), "--profile thinking-heavy --sessions 40 --set turns=2 -o recorded");
    let output =
        support::run(dir.path(), "generate --fit recorded -o fitted --sessions 4 --format json".split(' '));
    let report = json(&output, 0);
    let (training, held) = (report["training_sessions"].as_u64(), report["held_out_sessions"].as_u64());
    assert_eq!(training.zip(held).map(|(a, b)| a + b), Some(40));
    let parameters = report["parameters"].as_array().expect("parameters");
    let row = |name: &str| parameters.iter().find(|p| p["name"] == name).expect("a row");
    assert!(row("output_tokens")["ks"].as_f64().is_some_and(|ks| ks < 0.1));
    for q in ["p10", "p25", "p50", "p75", "p90", "p99"] {
        let quantile = &row("generation_s")["quantiles"][q];
        assert!(quantile["recorded"].is_f64() && quantile["fitted"].is_f64(), "{q}: {quantile}");
    }
    assert_eq!(row("requests")["distribution"], "");
    assert_eq!(traces(&dir.path().join("fitted")).len(), 4);
    generate(dir.path(), "--profile fitted/fitted.toml --sessions 4 -o again");
    assert_eq!(traces(&dir.path().join("fitted")), traces(&dir.path().join("again")));
    let table = stdout(&support::run(dir.path(), "generate --fit recorded".split(' ')));
    assert!(table.contains("output_tokens") && table.contains("KS"), "{table}");
}

/// Recordings of several agents: what a third of them show is what a fit to the others says.
#[test]
fn a_fit_to_committed_recordings_holds_on_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/validate");
    let recordings = recordings.to_string_lossy();
    let report = json(&support::run(dir.path(), ["generate", "--fit", &recordings, "--format", "json"]), 0);
    assert!(report["held_out_sessions"].as_u64() >= Some(10));
    let parameters = report["parameters"].as_array().expect("parameters");
    for (name, most) in
        [("output_tokens", 0.1), ("result_tokens", 0.15), ("steps_per_turn", 0.15), ("calls_per_step", 0.05)]
    {
        let row = parameters.iter().find(|p| p["name"] == name).expect("a row");
        assert!(row["held_out_values"].as_u64() > Some(100));
        assert!(row["ks"].as_f64().is_some_and(|ks| ks <= most), "{name}: {}", row["ks"]);
    }
}

#[test]
fn lists_and_mistakes() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| support::run(dir.path(), [&["generate"], args].concat());
    let list = stdout(&run(&["--list"]));
    assert!(profile_names().iter().all(|name| list.contains(name)), "{list}");
    let params = json(&run(&["--list", "--profile", "chat", "--format", "json"]), 0);
    let turns =
        params["params"].as_array().and_then(|p| p.iter().find(|p| p["name"] == "turns")).expect("listed");
    assert_eq!((&turns["unit"], turns["range"][0].as_f64()), (&"turns".into(), Some(1.0)));
    for (args, words) in [
        (
            &["--profile", "interactiv-coding", "--sessions", "1", "-o", "x"][..],
            "did you mean `interactive-coding`?",
        ),
        (&["--profile", "chat", "--set", "turn=1", "--list"], "did you mean `turns`?"),
        (&["--profile", "chat", "--set", "turns=ln(1)", "--list"], "write ln(MU, SIGMA)"),
        (&["--profile", "chat", "--set", "turns", "--list"], "write KEY=VALUE"),
        (&["--profile", "chat", "-o", "x"], "--sessions N is missing"),
        (&["--profile", "chat", "--sessions", "1"], "-o DIR is missing"),
        (&["--sessions", "1", "-o", "x"], "--profile is missing"),
        (&["--profile", "chat", "--sessions", "0", "-o", "x"], "--sessions is a number from 1"),
        (&["recorded"], "write --fit recorded"),
        (&["--profile", "missing.toml", "--list"], "missing.toml"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(code(&run(&["--fit", "nowhere"])), 3);
}
