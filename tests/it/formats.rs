//! docs/formats.md holds: every file says the version that its table says, newer ones are refused, and fields that are
//! not known are passed over.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{code, run, stderr};
use crate::tidy::root;

const TRACE: &str = "fixtures/traces/f1681958-e329-492a-bece-56ac78ecaa08.trace.jsonl";

/// The version that the page's table gives for a file, and the constant it names.
fn promised(file: &str) -> (u64, String) {
    let page = fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| `{file}` |")))
        .unwrap_or_else(|| panic!("{file}"));
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    (cells[3].parse().unwrap(), cells[4].trim_matches('`').to_owned())
}

fn ctxsim(args: &[&str]) -> Vec<u8> {
    let output = run(root(), args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    output.stdout
}

fn version(json: &[u8]) -> u64 {
    serde_json::from_slice::<Value>(json).unwrap()["format_version"].as_u64().unwrap()
}

#[test]
fn every_file_says_the_version_of_the_table() {
    let results = ctxsim(&["simulate", TRACE, "-p", "none", "--format", "json"]);
    assert_eq!(version(&results), promised("results.json").0);
    assert_eq!(u64::from(ctxsim::report::results::FORMAT_VERSION), promised("results.json").0);
    let audit = ctxsim(&["audit", TRACE, "--format", "json"]);
    assert_eq!(version(&audit), promised("audit --format json").0);
    let validate = ctxsim(&["validate", TRACE, "--format", "json"]);
    assert_eq!(version(&validate), promised("validate --format json").0);
    let tune =
        ["tune", TRACE, "-p", "arcturn", "--param", "minCharsPerPass", "--trials", "1", "--format", "json"];
    assert_eq!(version(&ctxsim(&tune)), promised("tune.json").0);
    let baseline = fs::read(root().join("scenarios/ci/baseline.json")).unwrap();
    assert_eq!(version(&baseline), promised("baseline.json").0);
    let trace = fs::read_to_string(root().join(TRACE)).unwrap();
    let header: Value = serde_json::from_str(trace.lines().next().unwrap()).unwrap();
    assert_eq!(header["ctxsim_trace"]["format_version"].as_u64(), Some(promised("*.trace.jsonl").0));
    assert_eq!(u64::from(ctxsim::session::trace::FORMAT_VERSION), promised("*.trace.jsonl").0);
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("made").display().to_string();
    ctxsim(&["generate", "--profile", "chat", "--sessions", "1", "-o", &dir]);
    let profile = fs::read_to_string(made.path().join("made/profile.toml")).unwrap();
    assert!(profile.contains(&format!("format_version = {}\n", promised("profile.toml").0)), "{profile}");
}

#[test]
fn the_table_names_constants_that_are_there() {
    for file in ["results.json", "*.trace.jsonl", "profile.toml"] {
        let (version, constant) = promised(file);
        let module = constant.strip_suffix("::FORMAT_VERSION").unwrap().replace("::", "/");
        let paths = [format!("src/{module}.rs"), format!("src/{module}/mod.rs")];
        let text = paths.iter().find_map(|path| fs::read_to_string(root().join(path)).ok()).expect(&constant);
        assert!(text.contains(&format!("const FORMAT_VERSION: u32 = {version};")), "{constant}");
    }
}

/// Writes `text` to a file and gives what `args` on it say.
fn read(dir: &Path, name: &str, text: &str, args: &[&str]) -> (i32, String) {
    fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
    fs::write(dir.join(name), text).unwrap();
    let output = run(dir, args);
    (code(&output), stderr(&output))
}

#[test]
fn newer_versions_are_refused_and_new_fields_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let results = String::from_utf8(ctxsim(&["simulate", TRACE, "-p", "none", "--format", "json"])).unwrap();
    let trace = fs::read_to_string(root().join(TRACE)).unwrap();
    let baseline = ["gate", "r/results.json", "--baseline", "b.json", "--update"];
    let inspect = ["inspect", "s.trace.jsonl"];
    for (name, text, args) in
        [("r/results.json", &results, &baseline[..]), ("s.trace.jsonl", &trace, &inspect[..])]
    {
        let at = text.find("\"format_version\"").unwrap();
        let number = at + text[at..].find('1').unwrap();
        let newer = format!("{}99{}", &text[..number], &text[number + 1..]);
        let (code, said) = read(dir.path(), name, &newer, args);
        assert!(code != 0 && said.contains("99") && said.contains("newer"), "{name}: {code} {said}");
        let more = format!("{}\"from_the_future\": [1], {}", &text[..at], &text[at..]);
        let (code, said) = read(dir.path(), name, &more, args);
        assert_eq!(code, 0, "{name}: {said}");
    }
}
