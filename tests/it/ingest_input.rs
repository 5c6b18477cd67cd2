//! INPUT → files → bytes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ctxsim::ingest::input::{open, resolve, resolve_as};
use ctxsim::ingest::{self, ReadOptions};

use crate::ingest_sketch::{fixture, sketch, transcript};
use crate::support::{run, stderr};

/// A folder with these files; their content does not matter.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    folder
}

/// What inputs below `folder` resolve to, relative to it.
fn resolved(folder: &Path, inputs: &[&str]) -> Vec<String> {
    let inputs: Vec<String> = inputs.iter().map(|i| folder.join(i).to_str().unwrap().to_owned()).collect();
    let paths = resolve(&inputs).unwrap();
    paths.iter().map(|p| p.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/")).collect()
}

#[test]
fn folders_are_searched_and_everything_is_sorted_and_single() {
    let folder = folder(&["b/z.jsonl", "b/a/y.jsonl.gz", "b/notes.txt", "a.jsonl.zst", "c.md"]);
    let path = folder.path();
    let all = ["a.jsonl.zst", "b/a/y.jsonl.gz", "b/z.jsonl"];
    assert_eq!(resolved(path, &["."]).len(), 3);
    assert_eq!(resolved(path, &["b", "a.jsonl.zst"]), all);
    assert_eq!(resolved(path, &["a.jsonl.zst", "b/z.jsonl", "b", "b/z.jsonl"]), all);
    assert_eq!(resolved(path, &["b/notes.txt"]), ["b/notes.txt"], "a named file counts whatever its name");
}

#[test]
fn globs_match_files_and_folders() {
    let folder = folder(&["p1/s.jsonl", "p1/x/t.jsonl", "p2/s.jsonl", "p2/s.txt", "q[1]/s.jsonl"]);
    let path = folder.path();
    assert_eq!(resolved(path, &["p*/s.*"]), ["p1/s.jsonl", "p2/s.jsonl", "p2/s.txt"]);
    assert_eq!(resolved(path, &["p?"]), ["p1/s.jsonl", "p1/x/t.jsonl", "p2/s.jsonl"]);
    assert_eq!(resolved(path, &["**/t.jsonl"]), ["p1/x/t.jsonl"]);
    assert_eq!(resolved(path, &["{p1,p2}/*.jsonl"]), ["p1/s.jsonl", "p2/s.jsonl"]);
    assert_eq!(resolved(path, &["q[1]"]), ["q[1]/s.jsonl"], "a folder that is there is no glob");
}

#[test]
fn an_input_that_names_nothing_is_an_error_that_names_it() {
    let folder = folder(&["a.txt"]);
    for input in ["missing.jsonl", "*.jsonl", "none/*.jsonl", "."] {
        let input = folder.path().join(input).to_str().unwrap().to_owned();
        let message = resolve(std::slice::from_ref(&input)).unwrap_err().to_string();
        assert!(message.starts_with(&input) && message.contains("no such file"), "{message}");
    }
    let message = resolve(&["a{b"]).unwrap_err().to_string();
    assert!(message.starts_with("a{b: not a valid glob"), "{message}");
}

#[test]
fn standard_input_is_passed_on() {
    assert_eq!(resolve(&["-"]).unwrap(), [PathBuf::from("-")]);
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_end_and_doubles_through_links_are_single() {
    let folder = folder(&["a/s.jsonl"]);
    std::os::unix::fs::symlink(folder.path(), folder.path().join("a/up")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("a/s.jsonl"), folder.path().join("a/t.jsonl")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("gone"), folder.path().join("a/u.jsonl")).unwrap();
    assert_eq!(resolved(folder.path(), &["a"]), ["a/s.jsonl"]);
}

fn read(path: &Path) -> Vec<String> {
    let recordings = ingest::read(open(path).unwrap(), path, &ReadOptions::default()).unwrap();
    sketch(&transcript(recordings.into_iter().next().unwrap()))
}

#[test]
fn packed_files_are_read_whatever_they_are_called() {
    let plain = fixture("interleaved.jsonl");
    let bytes = fs::read(&plain).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (gz, zst) = (folder.path().join("a.jsonl"), folder.path().join("b"));
    let mut packer =
        flate2::write::GzEncoder::new(fs::File::create(&gz).unwrap(), flate2::Compression::fast());
    packer.write_all(&bytes).unwrap();
    packer.finish().unwrap();
    fs::write(&zst, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    assert_eq!(read(&gz), read(&plain));
    assert_eq!(read(&zst), read(&plain));
}

#[test]
fn a_packed_file_that_ends_early_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.gz");
    let text = fs::read_to_string(fixture("interleaved.jsonl")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packer.write_all(text.as_bytes()).unwrap();
    let mut packed = packer.finish().unwrap();
    packed.truncate(packed.len() - 300);
    fs::write(&path, packed).unwrap();
    let recordings = ingest::read(open(&path).unwrap(), &path, &ReadOptions::default()).unwrap();
    let transcript = transcript(recordings.into_iter().next().unwrap());
    assert_eq!(sketch(&transcript).len(), 4);
    assert!(transcript.notices.iter().any(|n| n.reason.contains("ends early")), "{:?}", transcript.notices);
}

#[test]
fn a_growing_file_is_read_to_its_length_at_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let text = fs::read_to_string(fixture("interleaved.jsonl")).unwrap();
    fs::write(&path, &text).unwrap();
    let source = open(&path).unwrap();
    let more = text.replace("\"m1\"", "\"m8\"").replace("\"m2\"", "\"m9\"");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(more.as_bytes()).unwrap();
    let recordings = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    assert_eq!(transcript(recordings.into_iter().next().unwrap()).totals().responses, 2);
}

#[test]
fn the_format_is_sniffed_from_content_or_forced_by_name() {
    let options = ReadOptions { format: Some("claude-code".to_owned()) };
    let odd = b"{\"kind\":\"odd\"}\n{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"model\":\"m\"}}\n";
    assert_eq!(ingest::read(&odd[..], Path::new("x.txt"), &options).unwrap().len(), 1);
    let wrong = ReadOptions { format: Some("claude-cod".to_owned()) };
    let message = ingest::read(&odd[..], Path::new("x"), &wrong).unwrap_err().to_string();
    assert_eq!(message, "there is no input format `claude-cod`; did you mean `claude-code`?");
}

/// A document as its tool writes it, with a field in front whose content is long and over many lines.
fn with_long_field(name: &str, field: &str) -> String {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut first = document[field].take();
    document.as_object_mut().unwrap().remove(field);
    let filler: Vec<String> = (0..1_000).map(|line| format!("line {line}")).collect();
    match &mut first {
        serde_json::Value::Array(items) => items[0]["observation"] = filler.join("\n").into(),
        other => other["filler"] = filler.into(),
    }
    let (first, rest) = (serde_json::to_string_pretty(&first), serde_json::to_string_pretty(&document));
    format!("{{\n \"{field}\": {},{}", first.unwrap(), &rest.unwrap()[1..])
}

#[test]
fn a_document_is_known_however_long_its_first_field_is() {
    for (name, field, format) in [
        ("opencode/session.json", "info", "opencode"),
        ("swe-agent/mini.traj.json", "info", "mini-swe-agent"),
        ("swe-agent/query.traj", "trajectory", "swe-agent"),
        ("inspect/pool.json", "eval", "inspect"),
        ("atif/continued.json", "agent", "atif"),
    ] {
        let text = with_long_field(name, field);
        assert!(text.lines().count() > 1_000 || field == "trajectory");
        let found = ingest::known(text.as_bytes(), Path::new(name)).map(|format| format.name);
        assert_eq!(found, Some(format), "{name}");
    }
}

#[test]
fn a_folder_without_recordings_says_what_is_known_and_a_format_that_is_named_is_taken_for_granted() {
    let dir = tempfile::tempdir().unwrap();
    let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    fs::write(dir.path().join("old.json"), list).unwrap();
    let folder = [dir.path().to_str().unwrap()];
    let message = resolve(&folder).unwrap_err().to_string();
    assert!(message.contains("1 of its files") && message.contains("claude-code"), "{message}");
    let format = ingest::format("mini-swe-agent").unwrap();
    assert_eq!(resolve_as(&folder, Some(format)).unwrap().files, [dir.path().join("old.json")]);
}

#[test]
fn what_only_is_called_like_a_recording_is_passed_over_and_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        fs::write(dir.path().join(name), content).unwrap();
        dir.path().join(name)
    };
    let good = file("good.jsonl", &fs::read_to_string(fixture("blocks.jsonl")).unwrap());
    let damaged = file("damaged.json", "\0\0\0");
    file("notes.txt", "no recording is called like that");
    let folder = dir.path().to_str().unwrap();
    let found = resolve_as(&[folder], None).unwrap();
    assert_eq!((found.files, found.passed_over), (vec![good.clone()], vec![damaged.clone()]));
    // What is named counts.
    let found = resolve_as(&[folder, damaged.to_str().unwrap()], None).unwrap();
    assert_eq!((found.files, found.passed_over), (vec![damaged.clone(), good], vec![]));
    let said = stderr(&run(dir.path(), ["audit", folder]));
    let told = format!("1 file passed over: no known format begins like that, such as {}", damaged.display());
    assert!(said.contains(&told), "{said}");
    assert!(!stderr(&run(dir.path(), ["audit", folder, "--quiet"])).contains("passed over"));
}
