//! Every trap of Pi sessions, one hand-made file each.

use ctxsim::transcript::Entry;

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

fn sketch_of(name: &str) -> Vec<String> {
    let transcripts = read_fixture(&format!("pi/{name}"));
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].notices, []);
    sketch(&transcripts[0])
}

#[test]
fn version_1_is_a_list_and_what_was_never_answered_is_no_request() {
    assert_eq!(
        sketch_of("version-1"),
        [
            "2 input /mode",
            "5 input look",
            r#"6 claude-sonnet-4-5-1772359204500 3+0+100+0>60 thinking "hm" 4 | call c1 read {"path":"a"}"#,
            "7 input result c1 [img, image None 4]",
            "8 claude-sonnet-4-5-1772359206500 2+100+20+0>1? cut",
            "9 input on",
            "10 claude-sonnet-4-5-1772359208500 1+120+10+0>9 Done.",
        ]
    );
}

#[test]
fn version_3_is_a_tree_and_branches_that_were_left_count() {
    assert_eq!(
        sketch_of("version-3"),
        [
            "3 input start",
            r#"4 resp_1 200+0+0+0>50 thinking "" 10 | call c1|fc_1 bash {"command":"ls"}"#,
            "5 input error c1|fc_1 [no]",
            "6 inject from an extension",
            "7 inject Ran `pwd`\n/w",
            "9 resp_2 10+256+0+0>8 wrong way",
            "10 input go wrong",
            "11 resp_3 20+256+0+0>8 going wrong",
            "12 rewound to 1",
            "5 input error c1|fc_1 [no]",
            "6 inject from an extension",
            "12 inject it went wrong",
            "13 input right way",
            "14 msg_4 1+3+10+30>2 right",
            "15 rewound to 0",
            "15 input all anew",
            "16 msg_5 5+0+0+0>1 new",
        ]
    );
}

#[test]
fn the_head_and_the_times_are_read() {
    let transcript = &read_fixture("pi/version-3")[0];
    assert_eq!((transcript.format, &*transcript.agent), ("pi", "pi"));
    assert_eq!(transcript.session_id, "11111111-1111-4111-8111-111111111111");
    let Entry::Response(response) = &transcript.entries[1] else { panic!("not a response") };
    let at = |ms: i64| Some(1_772_359_200_000 + ms);
    assert_eq!((response.first_at_ms, response.last_at_ms), (at(2_500), at(3_000)));
    assert_eq!(response.model, "gpt-5.4");
}

#[test]
fn a_compaction_puts_in_its_summary_and_what_it_keeps() {
    assert_eq!(
        sketch_of("compaction"),
        [
            "2 input first",
            "3 m1 900+0+0+0>9 one",
            "4 input second",
            r#"5 m2 90+900+0+0>9 call c1 bash {"command":"ls"}"#,
            "6 input result c1 [listing]",
            "7 compaction auto 1000 0",
            "7 inject what was done",
            r#"7 inject bash {"command":"ls"} | listing"#,
            "8 m3 300+0+0+0>9 on",
        ]
    );
    let first = sketch_of("compaction-version-1");
    assert_eq!(first[3..6], ["5 compaction auto 1000 0", "5 inject what was done", "5 inject second"]);
}

const HEAD: &str = r#"{"type":"session","id":"s","timestamp":"2026-03-01T10:00:00Z","cwd":"w"}"#;

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for usage in [
        r#"{"input":-5}"#,
        r#"{"cacheWrite":10,"cacheWrite1h":11}"#,
        r#"{"output":"many"}"#,
        r#"{"cacheRead":1e12}"#,
    ] {
        let text = format!(
            "{HEAD}\n{{\"type\":\"message\",\"message\":{{\"role\":\"assistant\",\"usage\":{usage}}}}}"
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [2], "{usage}");
    }
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = [
        HEAD,
        r#"{"type":"message","id":"r","parentId":"gone","message":{"role":"toolResult","toolCallId":"none"}}"#,
        r#"{"type":"message","id":"r","parentId":"r","message":{"role":"user","content":7}}"#,
        r#"{"type":"compaction","id":"k","parentId":"r","firstKeptEntryIndex":99,"summary":[]}"#,
        r#"{"type":"compaction","id":"l","parentId":"k","firstKeptEntryIndex":0,"tokensBefore":-1}"#,
        r#"{"type":"message","id":"a","parentId":"l","message":{"role":"assistant","content":[{"type":"toolCall"},3]}}"#,
        r#"{"type":"message","id":"b","parentId":"r","message":{"role":"assistant","content":[{"type":"text","te"#,
    ]
    .join("\n");
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    assert_eq!(transcript.totals().responses, 1);
    assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [7]);
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
}

#[test]
fn lines_that_are_there_twice_count_once() {
    let text = std::fs::read_to_string(fixture("pi/version-3.jsonl")).unwrap();
    let twice: Vec<&str> = text.lines().flat_map(|line| [line, line]).collect();
    assert_eq!(
        sketch(&read_bytes(twice.join("\n").as_bytes()).unwrap()[0]).len(),
        sketch_of("version-3").len()
    );
}
