//! Every trap of Gemini CLI chats, one hand-made file each.

use ctxsim::ingest::{self, ReadOptions, input};
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, sketch, transcript};

fn read(name: &str) -> Transcript {
    let path = fixture(&format!("gemini-cli/{name}"));
    let source = input::open(&path).unwrap();
    let mut read = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    assert_eq!(read.len(), 1);
    let transcript = transcript(read.remove(0));
    assert_eq!(transcript.notices, []);
    transcript
}

#[test]
fn a_message_is_a_request_and_cancelled_calls_belong_to_the_answer_before() {
    assert_eq!(
        sketch(&read("chat.json")),
        [
            "2 input look | \n--- file --- | image None 4",
            r#"3 g1 879+128+0+0>70 thinking "Plan\nlook" 0 | Looking. | call c1 read_file {"file_path":"a"} | call c2 list_directory {} | call c3 glob {}"#,
            "3 input result c1 [one, image None 4]",
            r#"3 input result c2 [{"files":1}]"#,
            r#"4 g2 176+1024+0+0>5 Removing. | call c4 run_shell_command {"command":"rm"}"#,
            "6 input error c4 [cancelled by user]",
            "7 input go on",
            "8 g4 1300+0+0+0>9 Done.",
            "9 input once more",
        ]
    );
}

#[test]
fn the_head_and_the_times_are_read() {
    let transcript = read("chat.json");
    assert_eq!((transcript.format, &*transcript.agent), ("gemini-cli", "gemini-cli"));
    assert_eq!(transcript.session_id, "11111111-1111-4111-8111-111111111111");
    let Entry::Response(response) = &transcript.entries[4] else { panic!("not a response") };
    let at = |s: i64| Some(1_772_359_200_000 + s * 1000);
    assert_eq!((response.first_at_ms, response.last_at_ms), (at(4), at(5)));
    assert_eq!(response.model, "gemini-3-flash-preview");
}

#[test]
fn a_log_counts_each_message_once_and_what_was_taken_back_too() {
    assert_eq!(
        sketch(&read("log.jsonl")),
        [
            "1 input one",
            "2 g1 100+0+0+0>5 1",
            "3 input two",
            "4 g2 100+100+0+0>5 2",
            "5 rewound to 1",
            "6 input three",
            "7 g3 110+100+0+0>5 3",
            "8 compaction auto 0 0",
            "8 inject <state_snapshot>what was done</state_snapshot>",
            "8 inject Got it.",
            "9 input four",
            "10 g4 90+0+0+0>5 4",
            "11 rewound to 3",
            "12 input five",
            "13 g5 95+0+0+0>5 5",
        ]
    );
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for tokens in
        [r#"{"input":-5}"#, r#"{"input":5,"cached":6}"#, r#"{"output":"many"}"#, r#"{"thoughts":NaN}"#]
    {
        let text = format!(
            r#"{{"sessionId":"s","startTime":"x","messages":[{{"id":"a","type":"gemini","tokens":{tokens}}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{tokens}");
        assert_eq!(transcript.notices.len(), 1, "{tokens}");
    }
}

#[test]
fn a_file_that_is_cut_off_never_panics_and_says_so() {
    for name in ["chat.json", "log.jsonl"] {
        let text = std::fs::read(fixture(&format!("gemini-cli/{name}"))).unwrap();
        let mut cut_read = 0;
        for cut in 0..text.len() - 3 {
            if let Ok(transcripts) = read_bytes(&text[..cut]) {
                cut_read += 1;
                let is_whole_lines = name == "log.jsonl" && matches!(text[cut - 1], b'\n' | b'}');
                assert!(is_whole_lines || !transcripts[0].notices.is_empty(), "{name} cut at {cut}");
            }
        }
        assert!(cut_read > 500, "{name}");
    }
}
