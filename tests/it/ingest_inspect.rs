//! Inspect logs, plain and packed. Expectations were worked out by hand from the fixtures.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, input};

use crate::ingest_sketch::{fixture, read_bytes, read_path, sketch, transcript};

#[test]
fn model_events_are_requests_and_each_prompt_is_a_session() {
    let transcripts = read_path("inspect/log.json");
    let found: Vec<(&str, Vec<String>)> = transcripts.iter().map(|t| (&*t.session_id, sketch(t))).collect();
    let expected: [(&str, &[&str]); 3] = [
        (
            "sample1",
            &[
                "1 input look at this | image None 4",
                // Input and output are less than the total, so the cached tokens are not among them.
                r#"1 msg_1 10+0+90+0>7 thinking "hm" 4 | I run. | call k1 bash {"cmd":"ls"}"#,
                "2 input error k1 [partial output]",
                "2 msg_2 5+90+20+0>3 partial output",
            ],
        ),
        // Here they add up to it.
        ("sample1-2", &["4 input grade it", "4 msg_4 36+64+0+0>2 C"]),
        ("task-2-3", &["7 input q", "8 task-2-3-8 no usage a"]),
    ];
    let expected = expected.map(|(id, lines)| (id, lines.iter().map(|l| (*l).to_owned()).collect()));
    assert_eq!(found, expected);
    assert_eq!(transcripts[0].system.as_deref(), Some("You are an agent."));
    assert_eq!((transcripts[0].format, &*transcripts[0].agent_version), ("inspect", "0.3.1"));
    assert!(transcripts.iter().all(|t| t.notices.is_empty()));
}

#[test]
fn messages_of_a_pool_are_put_back_by_range() {
    let transcripts = read_path("inspect/pool.json");
    let found: Vec<(&str, Vec<String>)> = transcripts.iter().map(|t| (&*t.session_id, sketch(t))).collect();
    let expected: [(&str, &[&str]); 2] = [
        (
            "pooled",
            &[
                "1 input find it",
                r#"1 resp_1 100+0+0+0>9 I look. | call k1 bash {"cmd":"ls"}"#,
                "2 input result k1 [a]",
                r#"2 resp_2 56+64+0+0>8 Again. | call k2 bash {"cmd":"cat a"}"#,
                // The answer with k1 was left out.
                "4 input result k2 [x]",
                "4 compaction auto 0 0",
                r#"4 inject find it | Again. | bash {"cmd":"cat a"}"#,
                "4 inject x",
                "4 resp_4 118+0+0+0>5 x it is",
                "5 rewound to 2",
                "5 input so far: looked",
                "5 resp_5 118+0+0+0>5 bad",
            ],
        ),
        ("pooled-2", &["3 input grade: found", "3 resp_3 20+0+0+0>1 C"]),
    ];
    let expected = expected.map(|(id, lines)| (id, lines.iter().map(|l| (*l).to_owned()).collect()));
    assert_eq!(found, expected);
    let notices: Vec<u64> = transcripts[0].notices.iter().map(|notice| notice.line).collect();
    // Ranges that end behind the pool, or are none.
    assert_eq!(notices, [5]);
}

#[test]
fn the_pool_of_the_first_logs_that_had_one_is_found_too_and_a_message_may_be_sent_often() {
    let text = std::fs::read_to_string(fixture("inspect/pool.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sample = &mut document["samples"][0];
    sample["message_pool"] = sample["events_data"]["messages"].take();
    sample.as_object_mut().unwrap().remove("events_data");
    sample["events"].as_array_mut().unwrap().truncate(1);
    let mut often = vec![serde_json::json!([0, 2])];
    often.resize(9, serde_json::json!([1, 2]));
    sample["events"][0]["input_refs"] = often.into();
    let transcript = &read_bytes(document.to_string().as_bytes()).unwrap()[0];
    let asked = ["find it"; 9].join(" | ");
    assert_eq!(sketch(transcript)[0], format!("1 input {asked}"));
    assert!(transcript.notices.is_empty());
    for refs in ["[[2, 1]]", "[[0, 99]]", "[[-1, 2]]", r#"[["a", 2]]"#, "[7]"] {
        document["samples"][0]["events"][0]["input_refs"] = serde_json::from_str(refs).unwrap();
        let transcripts = read_bytes(document.to_string().as_bytes()).unwrap();
        assert_eq!(transcripts[0].notices.len(), 1, "{refs}");
    }
}

#[test]
fn an_archive_holds_the_same() {
    let sketches = |name: &str| -> Vec<(String, usize)> {
        let mut sessions: Vec<(String, usize)> =
            read_path(name).iter().map(|t| (t.session_id.clone(), sketch(t).len())).collect();
        sessions.sort();
        sessions
    };
    assert_eq!(sketches("inspect/log.eval"), sketches("inspect/log.json"));
}

#[test]
fn an_archive_packed_with_zstd_holds_the_same() {
    let deflated = std::fs::read(fixture("inspect/log.eval")).unwrap();
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&deflated)).unwrap();
    let mut again = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let zstd = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Zstd);
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).unwrap();
        let name = entry.name().unwrap().into_owned();
        again.start_file(name, zstd).unwrap();
        std::io::copy(&mut entry, &mut again).unwrap();
    }
    let packed = again.finish().unwrap().into_inner();
    assert_ne!(packed, deflated);
    let read = |bytes: &[u8]| {
        let recordings =
            ingest::read(input::unpack(bytes).unwrap(), Path::new("log.eval"), &ReadOptions::default());
        recordings.unwrap().into_iter().map(|r| sketch(&transcript(r))).collect::<Vec<_>>()
    };
    assert_eq!(read(&packed), read(&deflated));
}

#[test]
fn an_archive_that_is_cut_off_or_of_something_else_is_an_error() {
    let bytes = std::fs::read(fixture("inspect/log.eval")).unwrap();
    for cut in (4..bytes.len() - 1).step_by(37) {
        let unpacked = input::unpack(&bytes[..cut]);
        assert!(unpacked.is_err(), "cut at {cut}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.eval");
    // An archive of nothing: its end alone, behind a local header that nothing points to.
    std::fs::write(&path, b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    let read = ctxsim::ingest::read(input::open(&path).unwrap(), &path, &Default::default());
    let message = read.unwrap_err().to_string();
    assert!(message.contains("known are") && message.contains("inspect"), "{message}");
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for usage in [
        r#"{"input_tokens":-1,"output_tokens":1,"total_tokens":0}"#,
        r#"{"input_tokens":5,"output_tokens":1,"total_tokens":6,"input_tokens_cache_read":7}"#,
        r#"{"input_tokens":NaN}"#,
    ] {
        let text = format!(
            r#"{{"version":2,"eval":{{}},"samples":[{{"id":1,"epoch":1,"events":[{{"event":"model","model":"m","input":[{{"role":"user","content":"p"}}],"output":{{"choices":[{{"message":{{"content":"x"}},"stop_reason":"stop"}}],"usage":{usage}}}}}]}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.len(), 1, "{usage}");
    }
}
