//! Logs of requests: what is new in each, and what became of the history. Expectations were worked out by hand
//! from the fixtures.

use ctxsim::ingest::input;
use ctxsim::transcript::{Entry, Response, Transcript};

use crate::ingest_sketch::{fixture, read_bytes, read_path, sketch};

/// The sessions of a log, as `id < parent`, each with its sketch.
fn sessions(name: &str) -> Vec<(String, Vec<String>)> {
    let head = |t: &Transcript| match &t.parent_session_id {
        Some(parent) => format!("{} < {parent}", t.session_id),
        None => t.session_id.clone(),
    };
    let transcripts = read_path(name);
    assert!(transcripts.iter().all(|t| t.notices.is_empty()), "{name}");
    transcripts.iter().map(|t| (head(t), sketch(t))).collect()
}

fn responses(transcript: &Transcript) -> Vec<&Response> {
    transcript
        .entries
        .iter()
        .filter_map(|e| if let Entry::Response(r) = e { Some(r) } else { None })
        .collect()
}

const SUMMARY: &str = "The user asked to start, and the parser was looked at.\nThe cause of the bug was a comma, which is fixed.";

#[test]
fn each_request_adds_what_the_one_before_did_not_have() {
    let sessions = sessions("http/claude-trace.jsonl");
    let put_in = format!("9 inject It goes on from here:\n{SUMMARY}");
    let main = [
        "2 inject reminder \"be kind\"",
        "2 input start",
        r#"2 msg_1 4+0+0+1000>50 thinking "hm" 8 | I look. | call t1 Bash {"command":"ls"}"#,
        "4 input result t1 [long listing]",
        r#"4 msg_2 5+1000+60+0>20 call t2 Task {"prompt":"look for the cause of the bug in the parser"}"#,
        "6 results cleared t1 0",
        "6 input result t2 [it is the comma]",
        "6 msg_3 6+0+1050+0>9 Fixed.",
        "9 compaction auto 0 0",
        &put_in,
        "9 inject reminder \"be kind\"",
        "9 input thanks, next",
        "9 msg_4 3+900+100+0>5 Next what?",
        "10 input this",
        "10 msg_5 2+1000+10+0>6 Done this.",
        "11 rewound to 4",
        "11 input rather that",
        "11 msg_6 2+1000+11+0>6 Done that.",
    ];
    assert_eq!(sessions[0], ("claude-trace".to_owned(), main.map(str::to_owned).to_vec()));
}

#[test]
fn other_prompts_are_sessions_of_their_own_and_name_where_they_come_from() {
    let sessions = sessions("http/claude-trace.jsonl");
    let heads: Vec<(&str, &str)> =
        sessions.iter().map(|(head, sketch)| (&**head, &**sketch.last().unwrap())).collect();
    let summary = format!("8 msg_c 1100+0+0+0>40 {SUMMARY}");
    let expected = [
        ("claude-trace", "11 msg_6 2+1000+11+0>6 Done that."),
        // The summary had the whole history as well.
        ("claude-trace-4 < claude-trace", &*summary),
        ("claude-trace-3 < claude-trace", "5 msg_s1 300+0+0+0>7 it is the comma"),
        ("claude-trace-2", "1 msg_q 8+0+0+0>1 #"),
    ];
    assert_eq!(heads, expected);
}

#[test]
fn system_prompt_tools_and_times_are_those_of_the_log() {
    let main = &read_path("http/claude-trace.jsonl")[0];
    assert_eq!(main.system.as_deref(), Some("You are an agent."));
    let tools: Vec<&str> = main.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(tools, ["Bash", "Task"]);
    let first = responses(main)[0];
    assert_eq!(first.first_at_ms, Some(1_772_359_203_500));
    assert_eq!(first.model, "claude-sonnet-4-5-20250929");
    let Entry::Input(input) = &main.entries[0] else { panic!("not an input") };
    assert_eq!(input.at_ms, Some(1_772_359_201_500));
}

#[test]
fn a_window_that_slides_over_the_history_is_a_compaction() {
    let sessions = sessions("http/chat.jsonl");
    assert_eq!(
        sessions[0].1[6..],
        [
            "4 input result c3 [out 3]",
            "4 compaction auto 0 0",
            r#"4 inject go | shell {"n":2} | out 2 | shell {"n":3}"#,
            "4 inject out 3",
            "4 g4 137+64+0+0>3 end",
        ]
    );
    let transcript = &read_path("http/chat.jsonl")[0];
    let costs: Vec<Option<u64>> = responses(transcript).iter().map(|r| r.recorded_cost_pusd).collect();
    assert_eq!(costs, [Some(1_500_000_000), None, None, None]);
    assert_eq!(transcript.system.as_deref(), Some("Be brief."));
}

#[test]
fn where_the_provider_keeps_the_history_only_what_is_new_was_sent() {
    assert_eq!(
        sessions("http/responses.json"),
        [(
            "responses".to_owned(),
            [
                "1 input go",
                r#"1 r1 50+0+0+0>20 thinking "" 10 | call k1 shell {}"#,
                "1 input result k1 [ok]",
                "1 r2 26+64+0+0>4 done"
            ]
            .map(str::to_owned)
            .to_vec()
        )]
    );
}

#[test]
fn cassettes_of_all_recorders_are_read() {
    for (name, expected) in [
        (
            "go-vcr.yaml",
            &["1 input it's 2 + 3", "1 msg_y1 12+0+0+0>3 five", "3 input sure?", "3 msg_y2 20+0+0+0>2 yes"][..],
        ),
        ("vcr.json", &["1 input go", "1 v1 9+0+0+0>2 gone"]),
        ("nock.json", &["2 n1 5+10+15+0>2 ab"]),
    ] {
        assert_eq!(sessions(&format!("http/{name}"))[0].1, expected, "{name}");
    }
    assert_eq!(responses(&read_path("http/nock.json")[0])[0].recorded_cost_pusd, Some(250_000_000_000));
}

#[test]
fn a_folder_of_completion_logs_is_one_recording() {
    let folder = fixture("litellm");
    let found = input::resolve(&[folder.to_str().unwrap()]).unwrap();
    assert_eq!(found, [folder]);
    assert_eq!(
        sessions("litellm")[0].1,
        [
            "1 input hello",
            "1 chatcmpl-1 20+0+80+0>10 I run. | call k1 terminal {}",
            "2 input result k1 [hi]",
            "2 chatcmpl-2 10+80+30+0>5 Done.",
        ]
    );
    let transcript = &read_path("litellm")[0];
    let costs: Vec<Option<u64>> = responses(transcript).iter().map(|r| r.recorded_cost_pusd).collect();
    assert_eq!(costs, [Some(510_000_000), Some(291_000_000)]);
    assert_eq!(transcript.tools[0].name, "terminal");
}

#[test]
fn a_single_log_of_the_folder_has_its_history_as_input() {
    let transcript = &read_path("litellm/model-1772359210.75.json")[0];
    assert_eq!(
        sketch(transcript),
        [
            "1 input hello",
            "1 inject I run. | terminal {}",
            "1 input result k1 [hi]",
            "1 chatcmpl-2 10+80+30+0>5 Done.",
        ]
    );
}

/// A pair whose answer has `usage`.
fn pair(id: &str, prompt: &str, usage: &str) -> String {
    format!(
        r#"{{"request":{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}},"response":{{"id":"{id}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"x"}}],"stop_reason":"end_turn","usage":{usage}}}}}"#
    )
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for usage in [
        r#"{"input_tokens":-5}"#,
        r#"{"cache_creation_input_tokens":"NaN"}"#,
        r#"{"output_tokens":1e12}"#,
        r#"{"input_tokens":NaN}"#,
    ] {
        let transcript = &read_bytes(pair("a", "p", usage).as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [1], "{usage}");
    }
    let numeric = r#"{"input_tokens":"7","output_tokens":2.0}"#;
    let usage = read_bytes(pair("a", "p", numeric).as_bytes()).unwrap()[0].totals().usage;
    assert_eq!((usage.uncached_tokens, usage.output_tokens), (7, 2));
}

#[test]
fn a_request_that_is_sent_again_takes_back_its_answer() {
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    let text = [pair("a", "p", usage), pair("b", "p", usage)].join("\n");
    assert_eq!(
        sketch(&read_bytes(text.as_bytes()).unwrap()[0]),
        ["1 input p", "1 a 1+0+0+0>1 x", "2 rewound to 0", "2 input p", "2 b 1+0+0+0>1 x"]
    );
}

#[test]
fn prompts_without_anything_in_common_are_sessions_apart() {
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    let text = [pair("a", "p", usage), pair("b", "q", usage), pair("c", "r", usage)].join("\n");
    let ids: Vec<String> =
        read_bytes(text.as_bytes()).unwrap().iter().map(|t| t.session_id.clone()).collect();
    assert_eq!(ids, ["test", "test-2", "test-3"]);
}

#[test]
fn a_folder_is_searched_for_cassettes_and_not_for_any_yaml() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), "name: x\nsteps:\n- run: y\n").unwrap();
    std::fs::copy(fixture("http/go-vcr.yaml"), dir.path().join("cassette.yml")).unwrap();
    let found = input::resolve(&[dir.path().to_str().unwrap()]).unwrap();
    assert_eq!(found, [dir.path().join("cassette.yml")]);
}

#[test]
fn an_answer_that_cannot_be_read_is_named() {
    let good = pair("a", "p", r#"{"input_tokens":1,"output_tokens":1}"#);
    let bad = r#"{"request":{"url":"u","body":{"model":"m","messages":[]}},"response":{"status_code":200,"body":null,"body_raw":"H4sIAAAA"}}"#;
    let transcript = &read_bytes(format!("{good}\n{bad}").as_bytes()).unwrap()[0];
    assert_eq!(transcript.totals().responses, 1);
    assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [2]);
}
