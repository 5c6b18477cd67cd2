//! Databases of Crush and Goose, and what may be wrong with a database.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions};
use ctxsim::transcript::Transcript;
use rand::RngExt;

use crate::ingest_sketch::{fixture, sketch, transcript};

fn read(path: &Path) -> ctxsim::Result<Vec<Transcript>> {
    let recordings = ingest::read(ingest::input::open(path)?, path, &ReadOptions::default())?;
    Ok(recordings.into_iter().map(transcript).collect())
}

#[test]
fn sessions_of_a_project_are_linked_and_in_the_order_of_time() {
    let transcripts = read(&fixture("crush/crush.db")).unwrap();
    let ids: Vec<_> = transcripts.iter().map(|t| (&*t.session_id, t.parent_session_id.as_deref())).collect();
    assert_eq!(ids, [("p", None), ("q", Some("p"))], "a session without an answer is none");
    let long = "x".repeat(1500);
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "1 input hi | image None 4".to_owned(),
            // Cancelled before anything came: no request.
            "3 a1 no usage thinking \"hm\" 3 | look | call c1 view {\"file_path\":\"a\"}".to_owned(),
            format!("4 input error c1 [{long}]"),
            "5 a2 no usage done".to_owned(),
            "6 compaction auto 0 0".to_owned(),
            "6 inject SUM".to_owned(),
            "7 input more".to_owned(),
            "12 input and".to_owned(),
            "11 a3 no usage end".to_owned(),
        ]
    );
    assert_eq!(sketch(&transcripts[1]), ["8 input find", "9 w1 no usage found"]);
}

#[test]
fn the_log_beside_a_database_counts() {
    let path = fixture("goose/sessions.db");
    let transcripts = read(&path).unwrap();
    assert_eq!(transcripts.len(), 1);
    let lines = sketch(&transcripts[0]);
    assert_eq!(lines.len(), 4);
    assert!(lines[3].ends_with(" no usage done"), "{lines:?}");
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("sessions.db");
    std::fs::copy(&path, &alone).unwrap();
    assert_eq!(sketch(&read(&alone).unwrap()[0]).len(), 3);
    // A frame that does not belong, and what is behind it, is left over from before.
    let mut log = std::fs::read(fixture("goose/sessions.db-wal")).unwrap();
    log[200] ^= 1;
    std::fs::write(folder.path().join("sessions.db-wal"), log).unwrap();
    assert_eq!(sketch(&read(&alone).unwrap()[0]).len(), 3);
}

#[test]
fn only_databases_of_known_formats_are_found_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [("crush/crush.db", "a.db"), ("goose/sessions.db", "b.db")] {
        std::fs::copy(fixture(from), folder.path().join(to)).unwrap();
    }
    std::fs::write(folder.path().join("c.db"), b"SQLite format 3\0").unwrap();
    std::fs::write(folder.path().join("d.db"), b"something else").unwrap();
    let found = ingest::input::resolve(&[folder.path().to_str().unwrap()]).unwrap();
    assert_eq!(found, [folder.path().join("a.db"), folder.path().join("b.db")]);
}

/// Cases of an ordinary run.
const CASES: u64 = 2_000;

#[test]
fn damage_is_named_and_never_a_panic() {
    let whole = std::fs::read(fixture("crush/crush.db")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    for cut in (0..whole.len()).step_by(509) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        if let Ok(transcripts) = read(&path) {
            assert!(!transcripts[0].notices.is_empty(), "{cut} of {} bytes are read in silence", whole.len());
        }
    }
    for case in 0..CASES {
        let mut rng = ctxsim::seed::stream(case, "hostile databases", &[]);
        let mut bytes = whole.clone();
        for _ in 0..rng.random_range(1..8) {
            // Heads of pages, where the structure is, more often than texts.
            let page = rng.random_range(0..bytes.len() / 512) * 512;
            let at = if rng.random_ratio(2, 3) {
                page + rng.random_range(0..24)
            } else {
                rng.random_range(0..bytes.len())
            };
            bytes[at] = rng.random_range(0..=255);
        }
        let options = ReadOptions { format: Some("crush".to_owned()) };
        let _ = ingest::read(&bytes[..], Path::new("memory"), &options);
    }
}
