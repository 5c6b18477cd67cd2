//! Every trap of SWE-agent's and mini-SWE-agent's trajectories.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, input};
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, sketch, transcript};

fn read(name: &str) -> Transcript {
    let path = fixture(&format!("swe-agent/{name}"));
    let source = input::open(&path).unwrap();
    let mut read = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    assert_eq!(read.len(), 1);
    let transcript = transcript(read.remove(0));
    assert_eq!(transcript.notices, []);
    transcript
}

#[test]
fn the_providers_responses_are_the_usage_and_fenced_commands_are_calls() {
    let transcript = read("mini.traj.json");
    assert_eq!(
        sketch(&transcript),
        [
            "2 input fix it",
            "3 gen-1 100+0+0+0>60 thinking \"hm\" 0 | THOUGHT: look\n\n | call command-1 bash ls",
            "4 input result command-1 [<output>a</output>]",
            "5 gen-2 72+128+0+0>20 ```bash\na\n```\n```bash\nb\n```",
            "6 inject exactly ONE action, found 2",
            r#"7  no usage now | call c1 bash {"command":"ls"}"#,
            "8 input result c1 [b]",
        ]
    );
    assert_eq!((transcript.format, &*transcript.agent_version), ("mini-swe-agent", "1.15.0"));
    assert_eq!((&*transcript.session_id, transcript.system.as_deref()), ("task-1", Some("Be brief.")));
    let models: Vec<(&str, Option<i64>)> = transcript
        .entries
        .iter()
        .filter_map(|e| if let Entry::Response(r) = e { Some((&*r.model, r.first_at_ms)) } else { None })
        .collect();
    let gemini = "google/gemini-3-pro-preview";
    assert_eq!(models, [(gemini, Some(1_772_359_202_000)), (gemini, Some(1_772_359_204_000)), ("m", None)]);
}

#[test]
fn actions_and_observations_are_calls_and_results() {
    let transcript = read("task.traj");
    assert_eq!(
        sketch(&transcript),
        [
            "2 inject a demonstration",
            "3 input fix it",
            "4  no usage First.\n | call command-1 bash ls\n",
            "5 input result command-1 [a]",
            r#"6  no usage Then. | call c1 open {"path":"a"}"#,
            "7 input result c1 [b]",
        ]
    );
    assert_eq!((transcript.format, &*transcript.session_id), ("swe-agent", "task"));
    let Entry::Response(response) = &transcript.entries[2] else { panic!("not a response") };
    assert_eq!(response.model, "gpt-4o");
}

#[test]
fn a_bare_list_is_read_when_it_is_named() {
    let text = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    assert!(read_bytes(text.as_bytes()).is_err());
    let options = ReadOptions { format: Some("mini-swe-agent".to_owned()) };
    let mut read = ingest::read(text.as_bytes(), Path::new("old.traj.json"), &options).unwrap();
    let transcript = transcript(read.remove(0));
    assert_eq!(sketch(&transcript), ["1 input a", "2  no usage b"]);
    assert_eq!(transcript.session_id, "old");
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for usage in [
        r#"{"prompt_tokens":-5}"#,
        r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":6}}"#,
        r#"{"completion_tokens":"many"}"#,
    ] {
        let text = format!(
            r#"{{"trajectory_format":"mini-swe-agent-1","messages":[{{"role":"assistant","content":7,"extra":{{"response":{{"usage":{usage},"created":-1}}}}}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.len(), 1, "{usage}");
    }
}

#[test]
fn a_document_that_is_cut_off_never_panics_and_says_so() {
    for name in ["mini.traj.json", "task.traj"] {
        let text = std::fs::read(fixture(&format!("swe-agent/{name}"))).unwrap();
        let mut cut_read = 0;
        for cut in 0..text.len() - 3 {
            if let Ok(transcripts) = read_bytes(&text[..cut]) {
                cut_read += 1;
                assert!(!transcripts[0].notices.is_empty(), "{name} cut at {cut}");
            }
        }
        assert!(cut_read > 300, "{name}");
    }
}
