//! Every trap of Codex rollouts, one hand-made file each.

use std::path::PathBuf;

use ctxsim::ingest::Recording;
use ctxsim::ingest::dedupe::{Loaded, dedupe};
use ctxsim::transcript::Entry;

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

fn sketch_of(name: &str) -> Vec<String> {
    let transcripts = read_fixture(&format!("codex/{name}"));
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].notices, []);
    sketch(&transcripts[0])
}

/// Responses without ids are named by a hash; what it is does not matter.
fn without_made_up_ids(lines: Vec<String>) -> Vec<String> {
    let shorten = |word: &str| if word.starts_with("count-") { "count".to_owned() } else { word.to_owned() };
    lines.iter().map(|line| line.split(' ').map(shorten).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn counts_before_the_results_close_the_request_and_repeated_ones_count_once() {
    assert_eq!(
        sketch_of("older"),
        [
            "2 inject permissions",
            "3 inject # AGENTS.md instructions for w\n\nrules | <environment_context>\n</environment_context>",
            "5 input look",
            r#"7 rs_1 872+128+0+0>60 thinking "hm" 10 | Looking. | call c1 exec_command {"cmd":"ls"} | call c2 exec_command {"cmd":"pwd"}"#,
            "13 input result c1 [a]",
            "14 input result c2 [/w]",
            r#"17 rs_2 176+1024+0+0>9 thinking "" 1 | Done."#,
        ]
    );
}

#[test]
fn the_head_and_the_times_are_read() {
    let transcript = &read_fixture("codex/older")[0];
    assert_eq!((transcript.format, &*transcript.agent_version), ("codex", "0.100.0"));
    assert_eq!(transcript.session_id, "11111111-1111-4111-8111-111111111111");
    assert_eq!(transcript.system.as_deref(), Some("Be brief."));
    let Entry::Response(response) = &transcript.entries[3] else { panic!("not a response") };
    let at = |s: i64| Some(1_772_359_200_000 + s * 1000);
    assert_eq!((response.first_at_ms, response.last_at_ms), (at(7), at(11)));
    assert_eq!(response.model, "gpt-5.4");
}

#[test]
fn counts_behind_the_results_bill_the_request_before_them() {
    assert_eq!(
        sketch_of("newer"),
        [
            "3 input patch",
            "4 c1 1000+0+0+0>60 call c1 apply_patch *** Begin",
            "5 input result c1 [ok, image None 4]",
            r#"7 c2 176+1024+0+0>9 call c2 tool_search {"query":"q"}"#,
            r#"7 input result c2 [{"name":"t"}]"#,
            "9 resumed",
            "11 inject <environment_context>\n</environment_context>",
            "12 input go on",
            r#"13 c3 76+1024+200+0>7 {"type":"search","query":"x"} | call c3 mcp__db._get {}"#,
            "15 input error c3 [no]",
            "17 c4 no usage call c4 exec_command {}",
            "18 input result c4 [interrupted before it was billed]",
            "19 inject <turn_aborted>\n</turn_aborted>",
            "20 input again",
            "21 msg_9 220+1280+0+0>3 Yes.",
        ]
    );
    let transcripts = read_fixture("codex/newer");
    let models: Vec<&str> = transcripts[0]
        .entries
        .iter()
        .filter_map(|e| if let Entry::Response(r) = e { Some(&*r.model) } else { None })
        .collect();
    assert_eq!(models, ["gpt-5.5", "gpt-5.5", "gpt-5.6-sol", "gpt-5.6-sol", "gpt-5.6-sol"]);
}

#[test]
fn a_compaction_puts_in_its_summary_and_what_it_keeps() {
    assert_eq!(
        without_made_up_ids(sketch_of("compacted")),
        [
            "3 input long task",
            "4 c1 90000+0+0+0>60 call c1 exec_command {}",
            "5 input result c1 [big]",
            "7 compaction auto 0 0",
            "7 inject secret",
            "7 inject long task",
            "7 inject on it",
            "7 inject exec_command {}",
            "7 inject kept",
            "10 count 3400+9600+0+0>5 On.",
            "12 count 300+12800+0+0>400 ",
            "13 compaction auto 0 0",
            "13 inject what was done",
            "14 count 9000+0+0+0>5 And on.",
        ]
    );
}

#[test]
fn going_back_drops_turns() {
    assert_eq!(
        without_made_up_ids(sketch_of("rolled-back")),
        [
            "3 input one",
            "4 count 500+0+0+0>5 1",
            "6 input two",
            "7 count 88+512+0+0>5 2",
            "9 rewound to 1",
            "10 input three",
            "11 count 98+512+0+0>5 3",
        ]
    );
}

#[test]
fn a_sub_agent_names_its_parent() {
    let transcript = &read_fixture("codex/sub-agent")[0];
    assert_eq!(transcript.parent_session_id.as_deref(), Some("11111111-1111-4111-8111-111111111111"));
    assert_eq!(sketch(transcript)[0], "3 inject look around");
}

#[test]
fn history_that_a_fork_copied_counts_once() {
    let load = |name: &str| {
        let transcript = read_fixture(&format!("codex/{name}")).remove(0);
        Loaded { path: PathBuf::from(name), recording: Recording::Transcript(Box::new(transcript)) }
    };
    let mut corpus = vec![load("forked"), load("older")];
    let copied = dedupe(&mut corpus);
    assert_eq!(copied.len(), 1);
    assert_eq!((&*copied[0].session_id, copied[0].responses), ("22222222-2222-4222-8222-222222222222", 2));
    let Recording::Transcript(fork) = &corpus[0].recording else { panic!("a transcript") };
    assert_eq!(without_made_up_ids(sketch(fork)), ["21 input other way", "22 count 148+1152+0+0>4 Fine."]);
}

fn line(payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-03-01T10:00:00Z","type":"response_item","payload":{payload}}}"#)
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for last in [
        r#"{"input_tokens":-5}"#,
        r#"{"input_tokens":10,"cached_input_tokens":11}"#,
        r#"{"input_tokens":"NaN"}"#,
        r#"{"output_tokens":1e30}"#,
    ] {
        let text = format!(
            "{}\n{}",
            line(r#"{"type":"message","role":"assistant","content":[{"text":"x"}]}"#),
            format_args!(
                r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"last_token_usage":{last},"total_token_usage":{{}}}}}}}}"#
            )
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{last}");
        assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [2], "{last}");
    }
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = [
        line(r#"{"type":"function_call_output","call_id":"gone","output":[1,null,{"text":2}]}"#),
        line("{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"x\"}").replace("}}", "}} {oops"),
        line(r#"{"type":"reasoning","summary":{},"encrypted_content":[]}"#),
        line(r#"{"type":7,"arguments":{}}"#),
        r#"{"type":"event_msg","payload":{"type":"token_count","info":[]}}"#.to_owned(),
        r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}}"#.to_owned(),
        r#"{"type":"compacted","payload":{"replacement_history":[3,{"type":"message"}]}}"#.to_owned(),
        line(r#"{"type":"message","role":"assi"#),
    ]
    .join("\n");
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    assert_eq!(transcript.totals().responses, 1);
    assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [2, 8]);
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
}

#[test]
fn lines_that_are_there_twice_count_once() {
    let text = std::fs::read_to_string(fixture("codex/newer.jsonl")).unwrap();
    let is_item = |line: &&str| line.contains("call_id") || line.contains("token_count");
    let twice: Vec<&str> =
        text.lines().flat_map(|line| std::iter::repeat_n(line, 1 + usize::from(is_item(&line)))).collect();
    let totals = |text: &str| read_bytes(text.as_bytes()).unwrap()[0].totals();
    assert_eq!(totals(&twice.join("\n")), totals(&text));
}
