//! Every trap of OpenCode exports, one hand-made file each.

use ctxsim::ingest::{self, ReadOptions, input};
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, sketch, transcript};

fn read(name: &str) -> Vec<Transcript> {
    let path = fixture(&format!("opencode/{name}.json"));
    let source = input::open(&path).unwrap();
    let read = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    let transcripts: Vec<Transcript> = read.into_iter().map(transcript).collect();
    assert!(transcripts.iter().all(|t| t.notices.is_empty()));
    transcripts
}

#[test]
fn a_message_is_a_request_and_results_come_after_it() {
    let transcripts = read("session");
    assert_eq!(transcripts.len(), 1);
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "1 input look at @a.rs | image None 4",
            "1 inject content of a.rs",
            r#"2 msg_2 900+128+0+0>70 thinking "hm" 10 | Looking. | call c1 read {"path":"a"} | call c2 bash {"cmd":"x"}"#,
            "2 input result c1 [one, image None 4]",
            "2 input error c2 [failed]",
            r#"3 msg_3 no usage thinking "unsigned" 0 | call c3 bash {}"#,
            "5 input go on",
            "6 msg_6 100+1024+50+0>30 Done.",
        ]
    );
}

#[test]
fn the_head_and_the_times_are_read() {
    let transcript = &read("session")[0];
    assert_eq!((transcript.format, &*transcript.agent_version), ("opencode", "1.4.3"));
    assert_eq!(transcript.session_id, "ses_1");
    assert_eq!(transcript.parent_session_id.as_deref(), Some("ses_0"));
    let Entry::Response(response) = &transcript.entries[2] else { panic!("not a response") };
    let at = |ms: i64| Some(1_772_359_200_000 + ms);
    assert_eq!((response.first_at_ms, response.last_at_ms), (at(1_000), at(1_500)));
    assert_eq!(response.model, "gpt-5.4");
    assert!(matches!(&transcript.entries[4], Entry::Input(input) if input.at_ms == at(1_220)));
}

#[test]
fn steps_of_one_message_are_requests_of_their_own() {
    assert_eq!(
        sketch(&read("steps")[0]),
        [
            "1 input two steps in one message",
            r#"2 msg_2 500+0+0+0>9 call c1 read {"path":"a"}"#,
            "2 input result c1 [one]",
            "2 msg_2-1 60+500+0+0>5 Done.",
        ]
    );
}

#[test]
fn a_summary_is_asked_for_aside_and_opens_the_context() {
    let transcripts = read("compaction");
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "1 input long task",
            r#"2 msg_2 90000+0+0+0>9 call c1 read {"path":"a"}"#,
            "2 input result c1 [big]",
            "3 msg_3 10+90000+0+0>5 first",
            "4 results cleared c1 0",
            "4 msg_4 10+80000+0+0>5 second",
            "6 compaction manual 0 0",
            "6 inject The user wants a summary | what was done",
            "7 inject Continue if you have next steps.",
            "8 msg_8 9000+2048+0+0>5 On.",
        ]
    );
    assert_eq!(sketch(&transcripts[1]), ["6 msg_6 70000+0+0+0>300 "]);
    assert_eq!(transcripts[1].session_id, "ses_1-compaction-1");
    assert_eq!(transcripts[1].parent_session_id.as_deref(), Some("ses_1"));
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for tokens in [r#"{"input":-5}"#, r#"{"cache":{"read":"x"}}"#, r#"{"output":1e12}"#, r#"{"input":NaN}"#] {
        let text = format!(
            r#"{{"info":{{"id":"ses_1"}},"messages":[{{"info":{{"role":"assistant","tokens":{tokens}}},"parts":[]}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{tokens}");
        assert_eq!(transcript.notices.len(), 1, "{tokens}");
    }
}

#[test]
fn a_document_that_is_cut_off_never_panics_and_says_so() {
    let text = std::fs::read(fixture("opencode/session.json")).unwrap();
    let mut cut_read = 0;
    for cut in 0..text.len() - 3 {
        if let Ok(transcripts) = read_bytes(&text[..cut]) {
            cut_read += 1;
            assert!(!transcripts[0].notices.is_empty(), "cut at {cut}");
        }
    }
    assert!(cut_read > 1000);
}

#[test]
fn in_a_folder_other_documents_are_no_recordings() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("opencode/session.json"), dir.path().join("a.json")).unwrap();
    std::fs::write(dir.path().join("results.json"), "{\"results\": [],\n\"info\": {\"id\": \"x\"}}\n")
        .unwrap();
    let found = input::resolve(&[dir.path().to_str().unwrap()]).unwrap();
    assert_eq!(found, [dir.path().join("a.json")]);
}

#[test]
fn parts_that_only_the_client_knows_are_not_sent() {
    let part = |rest: &str| format!(r#"{{"type":"text","text":"x"}},{rest}"#);
    let document = |parts: &str| {
        format!(
            r#"{{"info":{{"id":"ses_1"}},"messages":[{{"info":{{"id":"m1","role":"assistant","modelID":"m","tokens":{{"input":2,"output":1}}}},"parts":[{parts}]}}]}}"#
        )
    };
    let plain = read_bytes(document(r#"{"type":"text","text":"x"}"#).as_bytes()).unwrap();
    for rest in [
        r#"{"type":"patch","hash":"h","files":["a"]}"#,
        r#"{"type":"agent","name":"build"}"#,
        r#"{"type":"subtask","prompt":"look","agent":"explore"}"#,
        r#"{"type":"snapshot","snapshot":"s"}"#,
    ] {
        let read = read_bytes(document(&part(rest)).as_bytes()).unwrap();
        assert_eq!(
            read.iter().map(sketch).collect::<Vec<_>>(),
            plain.iter().map(sketch).collect::<Vec<_>>(),
            "{rest}"
        );
    }
}
