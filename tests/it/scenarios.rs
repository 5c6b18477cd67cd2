//! The scenarios: what each reports is what is committed, and the README's answers are in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{code, run, stderr};
use crate::tidy::root;

/// Scenario files with a report, by path; those of `ci` are models for a gate.
fn scenarios() -> Vec<PathBuf> {
    let folders = ["scenarios", "scenarios/binding"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn committed(name: &str) -> String {
    let path = root().join("reports").join(name).join("report.md");
    fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run .ci/regenerate", path.display()))
}

/// Run `.ci/regenerate` after an intended change.
#[test]
fn reports_are_what_the_scenarios_say_today() {
    let out = tempfile::tempdir().unwrap();
    assert!(scenarios().len() >= 9);
    for path in scenarios() {
        let (name, dir) = (name(&path), out.path().join(name(&path)));
        let output = run(root(), [Path::new("run"), &path, Path::new("--out"), &dir, Path::new("--quiet")]);
        assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
        let written = fs::read_to_string(dir.join("report.md")).unwrap();
        assert_eq!(written, committed(&name), "reports/{name}/report.md has drifted: run .ci/regenerate");
    }
}

#[test]
fn a_scenario_says_in_two_sentences_what_it_asks() {
    for path in scenarios().iter().filter(|path| name(path) != "quickstart") {
        let text = fs::read_to_string(path).unwrap();
        let scenario = ctxsim::config::scenario::Scenario::parse(path, &text).unwrap();
        let sentences = scenario.description.split_inclusive(['.', '?']).filter(|s| s.trim().len() > 1);
        // A version number has a point too.
        assert!(sentences.count() >= 2 && scenario.description.contains('?'), "{}", path.display());
    }
}

/// Cells of the README's table of scenarios: name, question, answer.
fn answers() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let table = text.split("\n| scenario | question | answer |\n").nth(1).expect("the table of scenarios");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_readme_answers_with_the_numbers_of_the_reports() {
    let answers = answers();
    for path in scenarios() {
        let name = name(&path);
        let row = answers.iter().find(|row| row[0].contains(&format!("({}", relative(&path))));
        let row = row.unwrap_or_else(|| panic!("the README's table has no row for {name}"));
        let report = committed(&name);
        let is_number =
            |word: &&str| word.contains(|c: char| c.is_ascii_digit()) && word.contains(['$', '%']);
        let words = row[2].split([' ', '(', ')', ';']).map(|word| word.trim_end_matches([',', '.', ':']));
        let numbers: Vec<&str> = words.filter(is_number).collect();
        assert!(!numbers.is_empty(), "{name}: an answer without a number");
        for number in numbers {
            assert!(shows(&report, number), "{name}: the README's {number} is not in its report");
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// Whether a cell of the report is `number`, cents rounded.
fn shows(report: &str, number: &str) -> bool {
    let cells = report.lines().flat_map(|line| line.split('|')).map(str::trim);
    let amount = |text: &str| text.strip_prefix('$').and_then(|t| t.replace(',', "").parse::<f64>().ok());
    cells.into_iter().any(|cell| match (amount(cell), amount(number)) {
        (Some(exact), Some(shown)) => (exact - shown).abs() < 0.005_1,
        _ => cell == number,
    })
}

/// `ctxsim generate --profile parallel-tools --sessions 8 --seed 5` writes them; compress each with zstd.
#[test]
fn generated_fixtures_are_what_is_generated() {
    let out = tempfile::tempdir().unwrap();
    let args = ["generate", "--profile", "parallel-tools", "--sessions", "8", "--seed", "5", "-o", "made"];
    let output = run(out.path(), args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut seen = 0;
    for entry in fs::read_dir(root().join("fixtures/generated/parallel-tools")).unwrap() {
        let path = entry.unwrap().path();
        let made = fs::read(out.path().join("made").join(path.file_stem().unwrap())).unwrap();
        assert_eq!(zstd::decode_all(&fs::read(&path).unwrap()[..]).unwrap(), made, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 8);
}
