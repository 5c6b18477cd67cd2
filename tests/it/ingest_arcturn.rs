//! Every trap of Arcturn sessions, hand-made after its session entries; totals are by hand.

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

fn sketch_of(name: &str) -> Vec<String> {
    let transcripts = read_fixture(&format!("arcturn/{name}"));
    assert_eq!(transcripts.len(), 1);
    assert_eq!(transcripts[0].notices, []);
    sketch(&transcripts[0])
}

#[test]
fn a_tree_of_messages_with_a_branch_that_was_left() {
    assert_eq!(
        sketch_of("session"),
        [
            "2 input first",
            r#"3 e2 10+0+900+0>20 thinking "hm" 4 | call c1 bash {"command":"ls"} | call c2 read {"path":"a"}"#,
            "4 input result c1 [listing]",
            "5 input error c2 [gone, image None 4]",
            "7 e6 5+900+50+0>9 one",
            "9 input second",
            "10 inject Turn budget: 2 of 9 turns remain.",
            "11 e10 7+950+0+0>3? cut o",
            // What failed without an answer is no request.
            "12 rewound to 2",
            "9 input second",
            "13 e12 8+950+20+0>4 two",
        ]
    );
    let transcript = &read_fixture("arcturn/session")[0];
    assert_eq!((transcript.format, &*transcript.session_id), ("arcturn", "s-arc"));
    let totals = transcript.totals();
    assert_eq!((totals.responses, totals.tool_calls, totals.tool_results), (4, 2, 2));
    // 10+5+7+8, 0+900+950+950, 900+50+0+20, 20+9+3+4.
    let usage = totals.usage;
    let sums =
        [usage.uncached_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.output_tokens];
    assert_eq!(sums, [30, 2800, 970, 36]);
}

#[test]
fn context_edits_name_new_stubs_and_compactions_what_they_keep() {
    assert_eq!(
        sketch_of("edited"),
        [
            "2 input go",
            "3 e2 1+0+0+0>1 call c1 bash {} | call c2 bash {}",
            "4 input result c1 [r1]",
            "5 input result c2 [r2]",
            "6 results cleared c1 0",
            "7 e6 2+0+0+0>1 one",
            "8 input more",
            "9 results cleared c2 0",
            "10 compaction auto 500 40",
            "10 inject <compacted-history>\nS1\n</compacted-history>",
            "10 inject more",
            "11 e10 3+0+0+0>1 two",
            "12 input last",
            // The second folds the first summary, and keeps what the first one kept.
            "13 compaction auto 400 30",
            "13 inject <compacted-history>\nS2\n</compacted-history>",
            "13 inject more | two | last",
            "14 e13 4+0+0+0>1 three",
            // What names nothing keeps nothing; a count that is none is left out.
            "15 compaction auto 300 0",
            "15 inject <compacted-history>\nS3\n</compacted-history>",
            "16 e15 5+0+0+0>1 four",
        ]
    );
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = std::fs::read_to_string(fixture("arcturn/session.jsonl")).unwrap();
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
    let twice: Vec<&str> = text.lines().flat_map(|line| [line, line]).collect();
    assert_eq!(
        sketch(&read_bytes(twice.join("\n").as_bytes()).unwrap()[0]).len(),
        sketch_of("session").len()
    );
    for usage in [r#"{"inputTokens":-5}"#, r#"{"outputTokens":"NaN"}"#, r#"{"cacheReadTokens":1e12}"#] {
        let text = format!(
            r#"{{"kind":"message","id":"e","parentId":null,"message":{{"role":"assistant","content":[],"usage":{usage}}}}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{usage}");
        assert_eq!(transcript.notices.len(), 1, "{usage}");
    }
}
