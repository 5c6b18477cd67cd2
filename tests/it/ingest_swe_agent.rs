//! Every trap of SWE-agent's and mini-SWE-agent's trajectories.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, input};
use ctxsim::session::BlockKind;
use ctxsim::session::compile::{CompileOptions, compile};
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, read_path, sketch, transcript};

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

/// A sketch with the ids of commands by number, in the order in which they come.
fn sketch_of(transcript: &Transcript) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut numbered = |word: &str| match word.strip_prefix("command-") {
        Some(id) if id.len() > 16 => {
            let number = ids.iter().position(|known| known == id).unwrap_or(ids.len());
            if number == ids.len() {
                ids.push(id.to_owned());
            }
            format!("command-{number}")
        }
        _ => word.to_owned(),
    };
    let mut line = |line: String| line.split(' ').map(&mut numbered).collect::<Vec<_>>().join(" ");
    sketch(transcript).into_iter().map(&mut line).collect()
}

#[test]
fn what_was_sent_shows_answers_taken_back_and_observations_left_out() {
    let transcript = read("query.traj");
    assert_eq!(
        sketch_of(&transcript),
        [
            "1 inject an example | I list. | bash {}",
            "1 input fix it",
            "1 query-step-1 no usage One.\n | call command-0 bash ls\n",
            "2 input result command-0 [a\nb]",
            "2 query-step-2 no usage no command",
            "3 rewound to 1",
            "3 query-step-3 no usage Two.\n | call command-1 bash cat a\n",
            "4 results cleared command-0 0",
            "4 input result command-1 [x]",
            "4 query-step-4 no usage Three.\n | call command-2 bash submit\n",
        ]
    );
    assert_eq!((&*transcript.session_id, transcript.system.as_deref()), ("query", Some("Be brief.")));
    assert_eq!((&*transcript.agent_version, transcript.recorded_cost_pusd), ("1.1.0", Some(250_000_000_000)));
    let Entry::Response(response) = &transcript.entries[2] else { panic!("not a response") };
    assert_eq!(response.model, "claude-sonnet-4-5");
}

#[test]
fn what_is_asked_for_again_is_sent_once() {
    let session = compile(&read("query.traj"), &CompileOptions::default());
    // The result of the first command, behind which the answer was taken back, and the one of the second.
    let results = session.blocks.kind.iter().filter(|kind| **kind == BlockKind::ToolResult);
    assert_eq!(results.count(), 2);
    let again = session.steps[2].input.clone().map(|block| session.blocks.tokens[block as usize]);
    assert_eq!(again.sum::<u32>(), 0);
}

#[test]
fn words_of_the_client_and_answers_in_examples_are_no_requests() {
    assert_eq!(
        sketch(&read("gave-up.traj")),
        [
            "2 inject an example",
            "3 inject I list. | bash {}",
            "4 input fix it",
            "5  no usage One.\n | call command-1 bash ls\n",
            "6 input result command-1 [a\nb]",
            "7  no usage Two.\n | call command-2 bash cat a\n",
            "8 input result command-2 [x]",
            "9  no usage Three.\n | call command-3 bash submit\n",
            "10 input result command-3 [patch]",
        ]
    );
}

#[test]
fn answers_are_found_in_the_next_prompt_whatever_became_of_the_history() {
    let text = std::fs::read_to_string(fixture("swe-agent/attempts.traj")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let whole = sketch(&read_bytes(text.as_bytes()).unwrap()[0]);
    for attempt in document["attempts"].as_array_mut().unwrap() {
        attempt["history"] = serde_json::json!([{"role": "assistant", "content": "other words"}]);
    }
    assert_eq!(sketch(&read_bytes(document.to_string().as_bytes()).unwrap()[0]), whole);
}

#[test]
fn each_attempt_is_a_session_and_the_chosen_one_counts_once() {
    let transcripts = read_path("swe-agent/attempts.traj");
    let found: Vec<(&str, Option<u64>)> =
        transcripts.iter().map(|t| (&*t.session_id, t.recorded_cost_pusd)).collect();
    let (first, second) = (Some(500_000_000_000), Some(750_000_000_000));
    assert_eq!(found, [("attempts-attempt-1", first), ("attempts-attempt-2", second)]);
    assert_eq!(
        sketch_of(&transcripts[0]),
        [
            "1 input fix it",
            "1 attempts-attempt-1-step-1 no usage  | call command-0 bash vim",
            "2 rewound to 0",
            "2 input fix it",
            r#"2 attempts-attempt-1-step-2 no usage thinking "hm 1" 4 | call c1 open {"path":"a"}"#,
            "3 input result c1 [x]",
            "3 attempts-attempt-1-step-3 no usage done 1",
        ]
    );
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
    for name in ["mini.traj.json", "task.traj", "query.traj", "attempts.traj"] {
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
