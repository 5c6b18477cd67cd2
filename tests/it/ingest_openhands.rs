//! OpenHands: event lists, evaluation output, events of the SDK. Expectations were worked out by hand from the
//! fixtures.

use ctxsim::ingest::input;
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, read_path, sketch};

const EVENTS: [&str; 13] = [
    "2 input fix it",
    "4 inject use tabs | push is off",
    r#"6 gen-1 10+0+90+0>20 I run two. | call k1 execute_bash {"n":1} | call k2 execute_bash {"n":2}"#,
    "8 input result k1 [one]",
    "9 input result k2 [two]",
    r#"10 gen-2 10+90+50+0>10 call k3 execute_bash {"n":3}"#,
    "11 input error k3 [no such file]",
    "12 compaction auto 0 0",
    "12 inject two were run",
    r#"12 inject fix it | use tabs | push is off | execute_bash {"n":3} | no such file"#,
    r#"13 gen-3 80+0+0+0>5 call k4 execute_bash {"n":4}"#,
    "15 input result k4 [four]",
    "16 event-14 no usage All done.",
];

fn costs(transcript: &Transcript) -> Vec<Option<u64>> {
    let cost = |e: &Entry| if let Entry::Response(r) = e { Some(r.recorded_cost_pusd) } else { None };
    transcript.entries.iter().filter_map(cost).collect()
}

#[test]
fn a_response_is_one_request_however_many_events_repeat_it() {
    let transcript = &read_path("openhands/events.json")[0];
    assert_eq!(sketch(transcript), EVENTS);
    assert_eq!(transcript.system.as_deref(), Some("You are an agent."));
    assert_eq!((&*transcript.agent_version, &*transcript.tools[0].name), ("0.35.0", "execute_bash"));
    // Events state the sum so far.
    assert_eq!(costs(transcript), [Some(10_000_000_000), Some(5_000_000_000), Some(1_000_000_000), None]);
}

#[test]
fn every_line_of_an_output_is_a_session_and_other_requests_are_in_its_metrics() {
    let transcripts = read_path("openhands/output.jsonl");
    assert_eq!(sketch(&transcripts[0]), EVENTS);
    assert_eq!(sketch(&transcripts[1]), ["0 gen-c 400+0+0+0>30 "]);
    assert_eq!(transcripts[1].parent_session_id.as_deref(), Some("task-1"));
    // Older histories are pairs of action and observation.
    assert_eq!(
        sketch(&transcripts[2]),
        [
            "1 input fix it",
            r#"3 gen-2 10+90+50+0>10 call k3 execute_bash {"n":3}"#,
            "4 input error k3 [no such file]"
        ]
    );
    let ids: Vec<&str> = transcripts.iter().map(|t| &*t.session_id).collect();
    assert_eq!(ids, ["task-1", "task-1-other-1", "task-2"]);
    assert_eq!(transcripts[0].recorded_cost_pusd, Some(17_200_000_000));
}

#[test]
fn a_delegate_is_a_session_that_names_its_parent() {
    let transcripts = read_path("openhands/delegate.json");
    let lines: Vec<(Option<&str>, Vec<String>)> =
        transcripts.iter().map(|t| (t.parent_session_id.as_deref(), sketch(t))).collect();
    assert_eq!(lines[0].0, None);
    assert_eq!(lines[0].1[2..], ["6 inject found it", r#"7 gen-3 80+0+0+0>5 call k4 execute_bash {"n":4}"#]);
    assert_eq!(lines[1].0, Some("delegate"));
    assert_eq!(lines[1].1[0], "3 input browse for it");
    assert_eq!(transcripts[1].totals().responses, 1);
}

#[test]
fn the_events_of_the_sdk_are_one_recording_with_the_state_beside_them() {
    let folder = fixture("openhands/sdk");
    let found = input::resolve(&[folder.to_str().unwrap()]).unwrap();
    assert_eq!(found, [fixture("openhands/sdk/conv-1/events")]);
    let transcripts = read_path("openhands/sdk/conv-1/events");
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "2 input fix it",
            "2 inject know this",
            r#"3 resp-1 10+0+90+0>20 thinking "hm" 4 | I run two. | call k1 terminal {"n":1} | call k2 terminal {"n":2}"#,
            "5 input result k1 [one]",
            "6 input error k2 [no such tool]",
            "7 compaction auto 0 0",
            "7 inject one was run",
            "7 inject fix it | no such tool",
            "8 resp-2 10+90+30+0>9 All done.",
        ]
    );
    assert_eq!(sketch(&transcripts[1]), ["0 resp-c 500+0+0+0>40 "]);
    assert_eq!(transcripts[0].session_id, "11111111-1111-4111-8111-111111111111");
    assert_eq!(costs(&transcripts[0]), [Some(8_000_000_000), Some(4_000_000_000)]);
    assert_eq!(transcripts[0].recorded_cost_pusd, Some(13_000_000_000));
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for usage in [r#"{"prompt_tokens":-5}"#, r#"{"prompt_tokens":5,"cache_read_input_tokens":6}"#] {
        let text = format!(
            r#"[{{"id":1,"timestamp":"2026-03-01T10:00:00","source":"agent","action":"run","tool_call_metadata":{{"model_response":{{"id":"g","choices":[{{"message":{{"content":"x"}}}}],"usage":{usage}}}}}}}]"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [1], "{usage}");
    }
}

#[test]
fn a_folder_with_an_event_a_file_is_one_recording_in_the_order_of_its_ids() {
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(fixture("openhands/events.json")).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("session-1/events");
    std::fs::create_dir_all(&folder).unwrap();
    for event in &list {
        std::fs::write(folder.join(format!("{}.json", event["id"])), event.to_string()).unwrap();
    }
    let found = input::resolve(&[dir.path().to_str().unwrap()]).unwrap();
    assert_eq!(found, [folder]);
    let read = ctxsim::ingest::read(input::open(&found[0]).unwrap(), &found[0], &Default::default()).unwrap();
    let transcript = crate::ingest_sketch::transcript(read.into_iter().next().unwrap());
    assert_eq!(transcript.session_id, "session-1");
    let kinds = |sketch: Vec<String>| -> Vec<String> {
        sketch.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let expected: Vec<String> = EVENTS.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(kinds(sketch(&transcript)), kinds(expected));
}
