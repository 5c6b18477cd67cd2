//! Without INPUT, commands that read recordings look where agents keep theirs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::audit_support::{Log, short};
use crate::support::{code, json, run, stderr};

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
