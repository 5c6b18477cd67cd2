//! Copilot CLI logs. Messages, calls and results are as in a recording; compactions, rewinds and sub-agents are
//! hand-made.

use crate::ingest_sketch::{fixture, read_bytes, read_fixture, sketch};

#[test]
fn a_log_is_a_session_its_sub_agents_and_its_summarizers() {
    let transcripts = read_fixture("copilot-cli/events");
    let ids: Vec<_> = transcripts.iter().map(|t| (&*t.session_id, t.parent_session_id.as_deref())).collect();
    assert_eq!(
        ids,
        [("s-cop", None), ("s-cop-agent-1", Some("s-cop")), ("s-cop-compaction-1", Some("s-cop"))]
    );
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "4 input <now>\n\nhi",
            // Two messages of one call of the provider, and their calls.
            r#"5 msg_1 no usage thinking "hm" 5 | call c1 bash {"command":"ls"} | call c2 task {"prompt":"find it"} | and"#,
            "8 input error c1 [denied]",
            "10 input result c2 [found]",
            "12 inject <system_notification>",
            "13 a2 no usage done",
            // The one that failed is none.
            "15 compaction auto 9000 800",
            "15 inject S",
            "16 resumed",
            "17 input more",
            "18 a3 no usage wrong",
            "19 rewound to 2",
            "20 inject other",
            "21 a4 no usage right",
        ]
    );
    assert_eq!(sketch(&transcripts[1]), ["9 input find it", "9 s1 no usage found"]);
    // Counts include what is cached: 9100 less 8900 and 100.
    assert_eq!(sketch(&transcripts[2]), ["15 s-cop-compaction-1-request 100+8900+100+0>300 "]);
    let head = &transcripts[0];
    assert_eq!((&*head.agent_version, head.system.as_deref()), ("1.0.64", Some("you are copilot")));
}

#[test]
fn what_is_broken_costs_no_more_than_itself() {
    let text = std::fs::read_to_string(fixture("copilot-cli/events.jsonl")).unwrap();
    for cut in 0..text.len() {
        let _ = read_bytes(&text.as_bytes()[..cut]);
    }
    let bad = text.replace("\"inputTokens\":9100", "\"inputTokens\":\"NaN\"");
    let transcripts = read_bytes(bad.as_bytes()).unwrap();
    assert_eq!(transcripts.len(), 2);
    assert_eq!(transcripts[0].notices.iter().map(|n| n.line).collect::<Vec<_>>(), [15]);
}
