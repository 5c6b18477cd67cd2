//! Every trap of Claude Code recordings, one hand-made file each.

use ctxsim::Error;
use ctxsim::transcript::{Content, Entry, Input};

use crate::ingest_sketch::{read_bytes, read_fixture, sketch};

/// The one conversation of a fixture, which must have been read without a notice.
fn sketch_of(name: &str) -> Vec<String> {
    let transcripts = read_fixture(name);
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].notices, []);
    sketch(&transcripts[0])
}

#[test]
fn lines_of_a_response_are_one_and_results_between_them_come_after() {
    assert_eq!(
        sketch_of("interleaved"),
        [
            "1 input read both",
            r#"2 m1 3+0+100+0>60 thinking "hm" 4 | call c1 Read {"path":"a"} | call c2 Read {"path":"b"}"#,
            "4 input result c1 [first]",
            "6 input error c2 [second]",
            "7 m2 1+100+20+0>5 done",
        ]
    );
}

#[test]
fn the_head_is_read_from_the_lines() {
    let transcript = &read_fixture("interleaved")[0];
    assert_eq!(transcript.format, "claude-code");
    assert_eq!(transcript.agent, "claude-code");
    assert_eq!(transcript.agent_version, "2.1.100");
    assert_eq!(transcript.session_id, "11111111-1111-4111-8111-111111111111");
    assert_eq!(transcript.parent_session_id, None);
}

#[test]
fn times_are_those_of_the_first_and_the_last_part() {
    let transcript = &read_fixture("interleaved")[0];
    let Entry::Response(response) = &transcript.entries[1] else { panic!("not a response") };
    let at = |s: i64| Some(1_772_359_200_000 + s * 1000);
    assert_eq!((response.first_at_ms, response.last_at_ms), (at(2), at(5)));
    assert_eq!(response.model, "claude-opus-4-6");
    assert!(matches!(&transcript.entries[0], Entry::Input(Input { at_ms, .. }) if *at_ms == at(1)));
}

#[test]
fn results_written_too_early_or_too_late_are_put_where_they_were_sent() {
    assert_eq!(
        sketch_of("result-before-call"),
        [
            "1 input go",
            r#"3 m1 3+0+100+0>9 call c1 Read {"path":"a"}"#,
            "2 input result c1 [early]",
            r#"4 m2 3+100+50+0>9 call c2 Read {"path":"a"}"#,
            "6 input result c2 [late]",
            "5 m3 3+150+50+0>9 end",
        ]
    );
}

#[test]
fn messages_that_the_client_made_up_are_skipped() {
    assert_eq!(sketch_of("synthetic"), ["1 input hello", "5 m1 4+0+9+0>2 hi"]);
}

#[test]
fn attachments_and_meta_lines_are_injected() {
    assert_eq!(
        sketch_of("injected"),
        [
            "4 inject reminder \"A\\nB\"",
            "5 inject caveat",
            "6 input do it",
            "7 inject and that",
            "8 notification",
            "8 inject <task-notification>done</task-notification>",
            "10 m1 4+0+9+0>2 ok",
        ]
    );
}

#[test]
fn half_a_surrogate_pair_in_an_attachment_costs_one_character() {
    let text = r#"{"type":"attachment","uuid":"t","attachment":{"type":"queued_command","prompt":"cut \ud83d"}}
{"type":"assistant","uuid":"a","message":{"id":"m","model":"m","content":"x"}}"#;
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    assert_eq!(transcript.notices, []);
    assert_eq!(sketch(transcript)[0], "1 inject cut \u{fffd}");
}

#[test]
fn every_kind_of_block_is_read() {
    assert_eq!(
        sketch_of("blocks"),
        [
            "1 input look | image Some((640, 480)) 40",
            r#"2 m1 1+0+9+0>2 thinking "" 40 | redacted "" 8 | call c1 ToolSearch {"query":"x"}"#,
            "3 input result c1 [reference Edit, one, image Some((300, 200)) 36]",
            r#"4 m2 1+9+9+0>2 call c2 Edit {"a": 1}"#,
            "5 input result c2 []",
            "6 m3 1+18+9+0>2 end",
        ]
    );
}

#[test]
fn usage_is_read_summed_over_passes_or_refused() {
    let transcripts = read_fixture("usage");
    let responses: Vec<String> =
        sketch(&transcripts[0]).into_iter().filter(|s| !s.contains(" input ")).collect();
    assert_eq!(
        responses,
        [
            "2 m1 5+0+70+0>6 strings",
            "4 m2 no usage negative",
            "6 m3 no usage NaN",
            "8 m4 no usage huge",
            "10 m5 101+5+8+0>22 passes",
            "12 m6 no usage none",
            "14 m7 1+2+3+4>1? placeholder",
        ]
    );
    let lines: Vec<u64> = transcripts[0].notices.iter().map(|n| n.line).collect();
    assert_eq!(lines, [4, 6, 8]);
    assert!(transcripts[0].notices.iter().all(|n| n.reason.contains("without usage")));
}

#[test]
fn compactions_are_events_and_their_summary_comes_first() {
    assert_eq!(
        sketch_of("compaction"),
        [
            "1 input long task",
            r#"2 m1 1+0+160000+0>9 call c1 Read {"path":"a"}"#,
            "3 input result c1 [big]",
            "4 compaction auto 160010 9000",
            "6 inject summary of it",
            "5 inject reminder \"a\\n1\"",
            "7 m2 1+0+9000+0>5 going on",
            "8 input next",
            "9 results cleared c1 50",
            "10 m3 1+0+9050+0>5 yes",
            "11 compaction manual 9060 0",
            "12 inject second summary",
            "13 input go",
            "14 m4 1+0+5000+0>5 gone",
        ]
    );
}

#[test]
fn a_clear_is_seen_by_command_hook_or_new_root_with_a_smaller_prompt() {
    assert_eq!(
        sketch_of("cleared"),
        [
            "1 input first",
            "2 m1 1+0+500+0>9 one",
            "3 cleared",
            "3 input <command-name>/clear</command-name>",
            "4 input second",
            "5 m2 1+0+300+0>9 two",
            "6 cleared",
            "6 input Implement the plan",
            "7 m3 1+0+200+0>9 three",
            "8 cleared",
            "9 input third",
            "10 m4 1+0+400+0>9 four",
            "11 input the chain is broken, and the prompt is longer",
            "12 m5 1+0+900+0>9 five",
        ]
    );
}

#[test]
fn without_links_between_lines_nothing_is_taken_for_a_clear() {
    let mut text = String::new();
    for (turn, tokens) in [(1, 900), (2, 500), (3, 700)] {
        text += &format!(
            r#"{{"type":"user","uuid":"u{turn}","parentUuid":null,"message":{{"content":"t{turn}"}}}}
{{"type":"assistant","uuid":"a{turn}","parentUuid":null,"message":{{"id":"m{turn}","model":"m","content":"x","usage":{{"input_tokens":{tokens}}}}}}}
"#
        );
    }
    let totals = read_bytes(text.as_bytes()).unwrap()[0].totals();
    assert_eq!((totals.responses, totals.events), (3, 0));
}

#[test]
fn going_back_keeps_what_the_tree_has_and_forks_are_not_going_back() {
    assert_eq!(
        sketch_of("rewound"),
        [
            "1 input start",
            r#"2 m1 1+0+500+0>9 call c1 Read {"path":"a"} | call c2 Read {"path":"b"}"#,
            "4 input result c1 [one]",
            "5 input result c2 [two]",
            "7 m2 1+500+50+0>9 read",
            "8 input wrong way",
            "9 m3 1+550+50+0>9 going wrong",
            "10 rewound to 2",
            "10 input right way",
            "11 m4 1+550+60+0>9 going right",
            "12 rewound to 1",
            "4 input result c1 [one]",
            "5 input result c2 [two]",
            "12 input once more, from the results",
            "13 m5 1+500+70+0>9 again",
        ]
    );
}

#[test]
fn a_response_that_was_tried_again_is_gone_and_its_prompt_is_not() {
    assert_eq!(
        sketch_of("retried"),
        [
            "1 input hello",
            "2 m1 1+0+500+0>9 broke off",
            "3 rewound to 0",
            "1 input hello",
            "3 m2 1+500+0+0>9 whole",
        ]
    );
}

#[test]
fn a_resumed_session_counts_its_copied_history_once() {
    assert_eq!(
        sketch_of("resumed"),
        [
            "1 input old",
            "2 m1 1+0+500+0>9 old answer",
            "5 resumed",
            "5 input new",
            "6 m2 1+0+600+0>9 new answer",
            "7 resumed",
            "8 input newer",
            "9 m3 1+600+10+0>9 newer answer",
        ]
    );
    assert_eq!(read_fixture("resumed")[0].session_id, "11111111-1111-4111-8111-111111111111");
}

#[test]
fn sub_agents_are_sessions_of_their_own() {
    let transcripts = read_fixture("sub-agents");
    let ids: Vec<&str> = transcripts.iter().map(|t| &*t.session_id).collect();
    let main = "11111111-1111-4111-8111-111111111111";
    assert_eq!(ids, [main, "abc", "s1", "def"]);
    assert!(transcripts[1..].iter().all(|t| t.parent_session_id.as_deref() == Some(main)));
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "1 input delegate",
            r#"2 m1 1+0+500+0>9 call c1 Task {"prompt":"look around"}"#,
            "11 input result c1 [seen]",
            "12 m2 1+500+20+0>9 thanks",
        ]
    );
    assert_eq!(
        sketch(&transcripts[1]),
        [
            "3 input look around",
            r#"4 n1 2+0+30+0>4? call d1 Read {"path":"x"}"#,
            "5 input result d1 [y]",
            "6 n2 2+30+5+0>4? seen",
        ]
    );
    assert_eq!(sketch(&transcripts[2]), ["7 input side question", "8 n3 7+0+0+0>1 side answer"]);
    assert_eq!(sketch(&transcripts[3]), ["9 input other", "10 n4 8+0+0+0>1 other answer"]);
}

#[test]
fn a_sub_agents_own_file_names_its_parent() {
    let transcripts = read_fixture("agent-abc");
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].session_id, "abc");
    assert_eq!(transcripts[0].parent_session_id.as_deref(), Some("11111111-1111-4111-8111-111111111111"));
}

#[test]
fn broken_lines_are_named_and_everything_else_is_read() {
    let transcripts = read_fixture("broken");
    assert_eq!(
        sketch(&transcripts[0]),
        ["1 input hello", "3 m1 1+0+9+0>2 one", "3 input two", "5 m2 1+9+9+0>2 two"]
    );
    let notices: Vec<(u64, &str)> =
        transcripts[0].notices.iter().map(|n| (n.line, n.reason.split(':').next().unwrap())).collect();
    assert_eq!(notices, [(2, "broken JSON"), (4, "not a JSON object"), (6, "the last line is cut off")]);
}

#[test]
fn a_provider_that_reuses_message_ids_is_told_apart_by_its_request_ids() {
    let line = |request: u32| {
        format!(
            r#"{{"type":"assistant","requestId":"q{request}","message":{{"id":"same","model":"m","content":"t{request}","usage":{{"input_tokens":{request}}}}}}}"#
        )
    };
    let text = [line(1), line(2), line(1), line(2), line(3)].join("\n");
    assert_eq!(
        sketch(&read_bytes(text.as_bytes()).unwrap()[0]),
        ["1 same 1+0+0+0>0? t1", "2 q2 2+0+0+0>0? t2", "5 q3 3+0+0+0>0? t3"]
    );
}

#[test]
fn an_id_that_is_used_again_keeps_its_results() {
    let mut text = String::new();
    for turn in 1..=3 {
        text += &format!(
            r#"{{"type":"assistant","message":{{"id":"m{turn}","model":"m","content":[{{"type":"tool_use","id":"call_0","name":"T","input":{{}}}}]}}}}
{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"call_0","content":"{turn}"}}]}}}}
"#
        );
    }
    let inputs: Vec<String> =
        sketch(&read_bytes(text.as_bytes()).unwrap()[0]).into_iter().skip(1).step_by(2).collect();
    assert_eq!(
        inputs,
        ["2 input result call_0 [1]", "4 input result call_0 [2]", "6 input result call_0 [3]"]
    );
}

#[test]
fn tools_run_by_the_provider_keep_their_size() {
    let text = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"x","text":"found"}]}]}}"#;
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    let Entry::Response(response) = &transcript.entries[0] else { panic!("not a response") };
    let texts = [Content::Text(r#"web_search{"query":"q"}"#.to_owned()), Content::Text("found".to_owned())];
    assert_eq!(response.content, texts);
}

#[test]
fn what_cannot_be_read_says_why() {
    let reason = |bytes: &[u8]| match read_bytes(bytes) {
        Err(Error::Input { path, line: 0, reason }) if path.ends_with("test") => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(b""), "the file is empty");
    assert_eq!(reason(b" \n\0\n"), "the file is empty");
    let unknown = reason(b"{\"role\":\"user\"}\nhello\n");
    assert!(
        unknown.contains("known are") && unknown.contains("claude-code") && unknown.contains("ctxsim-trace"),
        "{unknown}"
    );
    assert_eq!(
        reason(b"{\"type\":\"summary\",\"summary\":\"t\",\"leafUuid\":\"x\"}\n"),
        "this recording holds no response of a model"
    );
}

#[test]
fn the_richer_copy_of_a_result_is_not_sent() {
    let text = r#"{"type":"assistant","uuid":"a","sessionId":"s","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"c1","name":"Task","input":{}}],"usage":{"input_tokens":5,"output_tokens":1}}}
{"type":"user","uuid":"b","parentUuid":"a","sessionId":"s","toolUseResult":{"agentId":"x","totalTokens":99,"content":"much more than was sent","usage":{"input_tokens":900}},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"sent"}]}}
{"type":"assistant","uuid":"c","parentUuid":"b","sessionId":"s","message":{"id":"m2","model":"m","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":9,"output_tokens":1}}}
"#;
    let transcripts = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(transcripts.len(), 1);
    assert_eq!(
        sketch(&transcripts[0]),
        ["1 m1 5+0+0+0>1? call c1 Task {}", "2 input result c1 [sent]", "3 m2 9+0+0+0>1? done"]
    );
}
