//! What the README shows works: its commands run, its files are valid, its totals are those that come out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{code, ctxsim, recording, stderr, stdout};
use crate::tidy::root;

/// Commands that the test cannot run because they build or test the project itself; anything else in a `sh`
/// fence must be one that it runs.
const NOT_RUN: &[&str] =
    &["cargo test", "cargo bench --bench ", "cargo install --path .", "CTXSIM_RECORDINGS="];

/// The insides of fences of `language`.
fn fences(text: &str, language: &str) -> Vec<String> {
    let open = format!("\n```{language}\n");
    let inside = text.split(&open).skip(1);
    inside.map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// A copy of what a clone has, with a recording where an agent keeps its own, and the README's files.
fn clone_for(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["scenarios", "scenarios/ci", "fixtures/traces", "fixtures/validate"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        let entries = fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap);
        for entry in entries.filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), dir.path().join(folder).join(entry.file_name())).unwrap();
        }
    }
    let project = dir.path().join(".claude/projects/x");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("y.jsonl"), recording("y", "claude-opus-5-5", 30, 12_000)).unwrap();
    for file in fences(text, "toml") {
        let name = file.lines().next().and_then(|l| l.strip_prefix("# ")).expect("its name comes first");
        fs::write(dir.path().join(name), &file).unwrap();
    }
    dir
}

/// Runs a line as a user's shell would, `~` and redirections included.
fn shell(dir: &Path, line: &str) -> Output {
    let program = ctxsim(dir);
    let folder = Path::new(program.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(dir).env("HOME", dir).env("PATH", path);
    shell.output().unwrap()
}

#[test]
fn every_command_of_the_readme_runs() {
    let text = readme();
    let dir = clone_for(&text);
    let mut ran = 0;
    for line in fences(&text, "sh").iter().flat_map(|fence| fence.lines()) {
        let line = line.replace("cargo run --release -- ", "ctxsim ");
        if !line.starts_with("ctxsim ") {
            assert!(
                NOT_RUN.iter().any(|known| line.starts_with(known)),
                "not a command this test knows: {line}"
            );
            continue;
        }
        let output = shell(dir.path(), &line);
        assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
        let to_file = line.contains(" > ")
            || line.starts_with("ctxsim plot")
            || line.starts_with("ctxsim trace")
            || line.starts_with("ctxsim join")
            || line.starts_with("ctxsim generate --profile")
            || line.ends_with("--update");
        assert!(to_file || !stdout(&output).is_empty(), "{line} says nothing");
        ran += 1;
    }
    assert!(ran >= 10, "{ran} commands found");
}

#[test]
fn the_totals_of_the_readme_are_those_of_the_quickstart() {
    let text = readme();
    let dir = clone_for(&text);
    let output = shell(dir.path(), "ctxsim run scenarios/quickstart.toml");
    let printed = stdout(&output);
    let totals = printed.rsplit("\ntotal ").next().unwrap_or_default();
    for policy in ["none", "arcturn", "arcturn-0.6"] {
        let row = text.lines().find(|l| l.starts_with(&format!("| {policy} |"))).unwrap();
        let line = totals.lines().find(|l| l.split_whitespace().next() == Some(policy)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        for cell in row.split('|').map(str::trim).filter(|cell| !cell.is_empty()) {
            assert!(words.contains(&cell), "the README's `{cell}` of {policy} is not in: {line}");
        }
    }
}

#[test]
fn files_that_the_readme_names_are_there() {
    let text = readme();
    let links = text.match_indices("](").map(|(at, _)| text[at + 2..].split(')').next().unwrap_or_default());
    let mut seen = 0;
    for link in links.filter(|link| !link.starts_with("http")) {
        assert!(root().join(link).exists(), "{link}");
        seen += 1;
    }
    assert!(seen >= 4);
}

#[test]
fn the_readme_names_every_policy_and_format() {
    let text = readme();
    let policies = ctxsim::policy::preset_names();
    let formats = ctxsim::ingest::FORMATS.iter().map(|f| f.name);
    for name in policies.into_iter().chain(formats) {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}
