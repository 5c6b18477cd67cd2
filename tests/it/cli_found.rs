//! Without INPUT, commands that read recordings look where agents keep theirs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::audit_support::{Log, short};
use crate::ingest_sketch::fixture;
use crate::support::{code, ctxsim, json, run, stderr};

/// Commands that read recordings and need nothing but them.
const COMMANDS: [&str; 4] = ["audit", "inspect", "simulate", "validate"];

fn session() -> String {
    Log::of([short(9_000, 40_000), short(49_000, 500), short(49_500, 900)]).text()
}

/// What `ctxsim formats` says of where files are kept.
fn listed(dir: &Path) -> Vec<String> {
    let formats = json(&run(dir, ["formats", "--format", "json"]), 0);
    let kept = formats.as_array().expect("a list").iter().filter_map(|row| row["kept in"].as_str());
    // Names of folders hold spaces on some systems.
    let folders = kept.flat_map(|kept| kept.split(" ~").map(str::to_owned).collect::<Vec<_>>());
    let folders = folders.map(|f| if f.starts_with(['~', '.']) { f } else { format!("~{f}") });
    folders.filter(|f| f != "~").collect()
}

#[test]
fn every_folder_that_formats_lists_is_looked_into() {
    let all = tempfile::tempdir().expect("a temporary folder");
    let folders = listed(all.path());
    for expected in ["~/.claude/projects", "~/.codex/sessions", "~/.pi/agent/sessions", ".crush"] {
        assert!(folders.iter().any(|f| f == expected), "{expected} in {folders:?}");
    }
    for folder in folders {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let project = dir.path().join(folder.trim_start_matches("~/")).join("api");
        fs::create_dir_all(&project).expect("writable");
        fs::write(project.join("s.jsonl"), session()).expect("writable");
        let output = run(dir.path(), ["audit", "--format", "json"]);
        assert_eq!(json(&output, 0)["total"]["requests"], 3, "{folder}");
        assert!(stderr(&output).contains("1 file below"), "{folder}: {}", stderr(&output));
        assert!(stderr(&output).contains(folder.trim_start_matches("~/")), "{folder}: {}", stderr(&output));
    }
}

#[test]
fn every_command_finds_narrows_and_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for project in ["-home-me-api", "-home-me-web"] {
        let folder = dir.path().join(".claude/projects").join(project);
        fs::create_dir_all(&folder).expect("writable");
        // Two sessions, not one that is there twice.
        let text = session().replace(r#""sessionId":"s""#, &format!(r#""sessionId":"{project}""#));
        fs::write(folder.join("s.jsonl"), text.replace("msg_", project)).expect("writable");
    }
    let sessions = |output: &Value| output["sessions"].as_array().map(Vec::len);
    for command in COMMANDS {
        let arguments = |more: &[&'static str]| [&[command, "--format", "json"][..], more].concat();
        let all = run(dir.path(), arguments(&[]));
        let found = json(&all, 0);
        assert!(stderr(&all).contains("2 files below"), "{command}: {}", stderr(&all));
        assert_eq!(sessions(&found).unwrap_or(2), 2, "{command}");
        let one = json(&run(dir.path(), arguments(&["--project", "web"])), 0);
        assert_eq!(sessions(&one).unwrap_or(1), 1, "{command}");
        let rows = |output: &Value| (output["sessions"].clone(), output["cells"].clone());
        assert_ne!(rows(&found), rows(&one), "{command}");
        let since = json(&run(dir.path(), arguments(&["--since", "2020-01-01"])), 0);
        assert_eq!(rows(&since), rows(&found), "{command}");
        for narrowed in [["--project", "elsewhere"], ["--since", "2199-01-01"]] {
            assert_eq!(code(&run(dir.path(), arguments(&narrowed))), 4, "{command} {narrowed:?}");
        }
    }
}

/// Writes a file below a folder.
fn put(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a name below it")).expect("writable");
    fs::write(&path, bytes).expect("writable");
    path
}

#[test]
fn an_agent_without_recordings_does_not_stop_the_others() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    put(&dir.path().join(".gemini/tmp"), "abc/logs.json", "[]");
    let none = run(dir.path(), ["audit"]);
    assert_eq!(code(&none), 3);
    assert!(stderr(&none).contains("no recording below"), "{}", stderr(&none));
    put(dir.path(), ".claude/projects/api/s.jsonl", session());
    let some = run(dir.path(), ["audit", "--format", "json"]);
    assert_eq!(json(&some, 0)["total"]["requests"], 3);
}

#[test]
fn a_project_is_also_where_a_recording_says_that_it_worked() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let dir = home.path().join("me-and-web");
    let codex = fs::read_to_string(fixture("codex/newer.jsonl")).expect("there");
    assert!(codex.contains(r#""cwd":"w""#));
    let at_home = dir.join("other").display().to_string();
    for (name, folder) in [("a", "/src/API"), ("b", "/src/other"), ("c", &*at_home)] {
        let text = codex.replace(r#""cwd":"w""#, &format!(r#""cwd":"{folder}""#));
        put(&dir, &format!(".codex/sessions/2026/11/{name}.jsonl"), text);
    }
    let narrowed = |project: &str| run(&dir, ["inspect", "--project", project, "--format", "json"]);
    assert_eq!(json(&narrowed("api"), 0)["sessions"].as_array().map(Vec::len), Some(1));
    let dashed = dir.join("other").display().to_string().replace(['/', '.', '_'], "-");
    put(&dir, &format!(".claude/projects/{dashed}/s.jsonl"), session());
    // The folders that all lie in tell nothing.
    assert_eq!(code(&narrowed("web")), 4);
    let named = run(&dir, ["inspect", ".codex/sessions", "--project", "codex", "--format", "json"]);
    assert_eq!(code(&named), 4);
}

#[test]
fn folders_that_the_user_moved_are_looked_into() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    put(dir.path(), "moved/projects/api/s.jsonl", session());
    assert_eq!(code(&run(dir.path(), ["audit"])), 3);
    let moved = dir.path().join("moved");
    let output =
        ctxsim(dir.path()).env("CLAUDE_CONFIG_DIR", moved).args(["audit", "--format", "json"]).output();
    assert_eq!(json(&output.expect("the program starts"), 0)["total"]["requests"], 3);
}

#[test]
fn a_database_is_as_young_as_the_log_beside_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let bytes = fs::read(fixture("goose/sessions.db")).expect("there");
    let database = put(dir.path(), "sessions.db", bytes);
    let file = fs::File::options().write(true).open(&database).expect("there");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("a file of ours");
    let since = || code(&run(dir.path(), ["inspect", "sessions.db", "--since", "2001-01-01"]));
    assert_eq!(since(), 4);
    put(dir.path(), "sessions.db-wal", "");
    assert_eq!(since(), 0);
}
