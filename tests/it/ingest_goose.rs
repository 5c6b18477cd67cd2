//! Goose sessions in JSONL, hand-made after its messages.

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

#[test]
fn a_compaction_is_known_by_who_sees_its_messages() {
    let transcripts = read_fixture("goose/session");
    let transcript = &transcripts[0];
    assert_eq!((transcripts.len(), transcript.format, &*transcript.session_id), (1, "goose", "session"));
    let mut lines = sketch(transcript);
    // Messages without an id are known by what they hold.
    lines[3] = lines[3].split_at(18).1.to_owned();
    assert_eq!(
        lines,
        [
            "2 input hi",
            r#"3 m2 no usage thinking "hm" 3 | redacted "" 4 | call t1 developer__shell {"command":"ls"}"#,
            "4 input error t1 [a]",
            " no usage done",
            "7 compaction auto 0 0",
            "7 inject SUM",
            "8 inject go on as before",
            "9 input error none [lost]",
            "9 input next",
            "10 m8 no usage end",
        ]
    );
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = std::fs::read_to_string(fixture("goose/session.jsonl")).unwrap();
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
}
