//! What the documents show works: their commands run and print what is shown, their files are valid, the README's
//! totals are those that come out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{code, ctxsim, recording, stderr, stdout};
use crate::tidy::root;

/// Commands that the test cannot run because they build or test the project itself; anything else in a `sh` or
/// `console` fence must be one that it runs.
const NOT_RUN: &[&str] =
    &["cargo test", "cargo bench --bench ", "cargo install --path .", "CTXSIM_RECORDINGS=", ".ci/"];

/// The insides of fences of `language`.
fn fences(text: &str, language: &str) -> Vec<String> {
    let open = format!("\n```{language}\n");
    let inside = text.split(&open).skip(1);
    inside.map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Name and text of everything that people read.
fn documents() -> Vec<(String, String)> {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = pages.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    pages.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

/// What a clone has and commands read.
const CLONED: &[&str] = &[
    "scenarios",
    "scenarios/binding",
    "scenarios/ci",
    "scenarios/models",
    "fixtures/traces",
    "fixtures/validate",
    "fixtures/published",
    "fixtures/generated/parallel-tools",
];

/// A copy of what a clone has, with a recording where an agent keeps its own, and the files that a document shows.
fn clone_for(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in CLONED {
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
        // A file begins with its name; what does not is a part of one.
        let name = file.lines().next().and_then(|line| line.strip_prefix("# "));
        if let Some(name) = name.filter(|name| name.ends_with(".toml")) {
            fs::write(dir.path().join(name), &file).unwrap();
        }
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

/// A command, and the lines that are shown below it.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let plain = fences(text, "sh");
    let plain = plain.iter().flat_map(|fence| fence.lines()).filter(|line| !line.starts_with('#'));
    let mut found: Vec<_> = plain.map(|line| (line.to_owned(), Vec::new())).collect();
    for line in fences(text, "console").iter().flat_map(|fence| fence.lines()) {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.to_owned()),
            (None, None) => panic!("a console fence begins with a command: {line}"),
        }
    }
    found
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs a command, and finds every line that is shown in what it prints.
fn check(dir: &Path, line: &str, shown: &[String]) {
    let output = shell(dir, line);
    assert_eq!(code(&output), 0, "{line}: {}", stderr(&output));
    let printed = stdout(&output);
    let to_file = line.contains(" > ")
        || line.starts_with("ctxsim plot")
        || line.starts_with("ctxsim trace")
        || line.starts_with("ctxsim join")
        || line.starts_with("ctxsim generate --profile")
        || line.starts_with("ctxsim man")
        || line.ends_with("--update");
    assert!(to_file || !printed.is_empty(), "{line} says nothing");
    for want in shown.iter().filter(|want| !matches!(want.trim(), "" | "…")) {
        assert!(
            printed.lines().any(|got| words(got) == words(want)),
            "{line} does not print\n{want}\nbut\n{printed}"
        );
    }
}

#[test]
fn every_command_of_every_document_runs() {
    let mut ran = 0;
    for (name, text) in documents() {
        let dir = clone_for(&text);
        for (line, shown) in commands(&text) {
            let line = line.replace("cargo run --release -- ", "ctxsim ");
            if line.starts_with("ctxsim ") {
                check(dir.path(), &line, &shown);
                ran += 1;
            } else {
                let known = NOT_RUN.iter().any(|known| line.starts_with(known));
                assert!(known, "{name}: not a command this test knows: {line}");
            }
        }
    }
    assert!(ran >= 25, "{ran} commands found");
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
fn files_that_documents_link_to_are_there() {
    let mut seen = 0;
    for (name, text) in documents() {
        let folder = Path::new(&name).parent().unwrap();
        let links = text.match_indices("](").map(|(at, _)| text[at + 2..].split([')', '#']).next().unwrap());
        for link in links.filter(|link| !link.is_empty() && !link.starts_with("http")) {
            assert!(folder.join(link).exists(), "{name}: {link}");
            seen += 1;
        }
    }
    assert!(seen >= 8);
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
