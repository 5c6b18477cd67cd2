//! octo sessions, hand-made after its session records.

use ctxsim::transcript::Entry;

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

#[test]
fn the_history_as_the_client_has_it() {
    let transcripts = read_fixture("octo/session");
    assert_eq!(transcripts.len(), 1);
    let transcript = &transcripts[0];
    assert_eq!((transcript.format, &*transcript.session_id), ("octo", "20261001-080000-0a1b2c3d"));
    assert_eq!((transcript.system.as_deref(), &transcript.notices[..]), (Some("you are octo"), &[][..]));
    let responses: Vec<_> = transcript
        .entries
        .iter()
        .filter_map(|e| if let Entry::Response(r) = e { Some(r) } else { None })
        .collect();
    let models: Vec<&str> = responses.iter().map(|r| &*r.model).collect();
    assert_eq!(models, ["claude-sonnet-5", "claude-opus-5-5"]);
    // 2026-10-01T06:00:05Z.
    assert_eq!(responses[0].first_at_ms, Some(1_790_834_405_000));
    let (first, second) = (&responses[0].id, &responses[1].id);
    assert_eq!(
        sketch(transcript),
        [
            // It was always there: the file was written anew when the history was folded.
            "3 inject [Earlier conversation summary]\n\nwhat was done".to_owned(),
            "4 input go on".to_owned(),
            format!(
                "6 {first} no usage thinking \"hm\" 3 | look | call c1 read_file {{\"path\":\"a\"}} | call c2 terminal {{\"command\":\"ls\"}}"
            ),
            "7 input result c1 [text] | error c2 [no]".to_owned(),
            "7 inject image None 0".to_owned(),
            format!("10 {second} no usage done"),
            "11 inject <system-reminder>idle</system-reminder>".to_owned(),
        ]
    );
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = std::fs::read_to_string(fixture("octo/session.jsonl")).unwrap();
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
}
