//! Aider's chat history, hand-made after its documentation; counts are by hand.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions};

use crate::ingest_sketch::{fixture, read_bytes, sketch, transcript};

#[test]
fn chats_are_sessions_and_answers_end_with_their_counts() {
    let path = fixture("aider/a.aider.chat.history.md");
    let recordings =
        ingest::read(ingest::input::open(&path).unwrap(), &path, &ReadOptions::default()).unwrap();
    let chats: Vec<_> = recordings.into_iter().map(transcript).collect();
    assert_eq!(chats.len(), 2, "a chat without an answer is none");
    let id = "aider-20261001080000-2";
    assert_eq!((&*chats[0].session_id, &*chats[0].agent_version), (id, "0.86.1"));
    assert_eq!(
        sketch(&chats[0]),
        [
            "10 input fix the bug\nin a.rs".to_owned(),
            // 9.7k less 2.1k and 1.2k.
            format!("13 {id}-1 6400+1200+2100+0>85 I will change it:\n\n```rust\nfn main() {{}}\n```"),
            "22 input /ask why?".to_owned(),
            // More is read than was sent, as counts are rounded.
            format!("24 {id}-2 0+2500+0+0>10 Because."),
            "28 input and now".to_owned(),
            format!("30 {id}-3 no usage It breaks o"),
        ]
    );
    assert_eq!(sketch(&chats[1]), ["40 input hello", "42 aider-20261001100000-38-1 no usage hi"]);
    assert_eq!(chats[0].notices.iter().map(|n| n.line).collect::<Vec<_>>(), [44]);
}

#[test]
fn a_history_is_known_by_its_first_heading() {
    let text = std::fs::read(fixture("aider/a.aider.chat.history.md")).unwrap();
    for cut in 0..text.len() {
        let _ = read_bytes(&text[..cut]);
    }
    let other = b"# something else\n\n#### hello\n\nhi\n";
    let error = ingest::read(&other[..], Path::new("notes.md"), &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no recording of a known format"), "{error}");
}
