//! ATIF trajectories. Expectations were worked out by hand from the fixtures.

use ctxsim::audit::Account;
use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::{read_bytes, read_path, sketch};

/// A sketch without the ids of the steps, which are hashes.
fn sketch_of(transcript: &Transcript) -> Vec<String> {
    let without_id = |line: String| match line.split_once(" step-") {
        Some((head, rest)) => format!("{head} {}", rest.split_once(' ').unwrap().1),
        None => line,
    };
    sketch(transcript).into_iter().map(without_id).collect()
}

#[test]
fn copied_context_is_input_and_embedded_trajectories_are_sub_agents() {
    let transcripts = read_path("atif/trajectory.json");
    assert_eq!(
        sketch_of(&transcripts[0]),
        [
            "2 inject earlier",
            "3 inject earlier answer",
            "4 input go",
            r#"5 36+64+0+0>10 thinking "hm" 0 | I run. | call k1 shell {"a":1} | call k2 shell {}"#,
            "5 input result k1 [one]",
            "5 input result k2 [two]",
            "6 compaction auto 0 0",
            "6 inject Performed context summarization.",
            r#"7 70+0+0+0>4 {"commands":[]}"#,
            "7 inject New output",
            // The same metrics, but words of its own and no time: another request.
            r#"8 70+0+0+0>4 {"commands":[1]}"#,
        ]
    );
    assert_eq!(sketch_of(&transcripts[1]), ["1 input summarize", "2 33+0+0+0>3 it was so"]);
    let ids: Vec<(&str, Option<&str>)> =
        transcripts.iter().map(|t| (&*t.session_id, t.parent_session_id.as_deref())).collect();
    assert_eq!(ids, [("s1", None), ("sub1", Some("s1"))]);
    assert_eq!(transcripts[0].system.as_deref(), Some("Be brief."));
    assert_eq!(transcripts[0].recorded_cost_pusd, Some(700_000_000));
    let costs: Vec<Option<u64>> = transcripts[0]
        .entries
        .iter()
        .filter_map(|e| if let Entry::Response(r) = e { Some(r.recorded_cost_pusd) } else { None })
        .collect();
    assert_eq!(costs, [Some(270_000_000), Some(215_000_000), Some(215_000_000)]);
}

#[test]
fn one_answer_that_a_converter_spread_over_steps_counts_once() {
    let transcript = &read_path("atif/claude-code.json")[0];
    assert_eq!(
        sketch_of(transcript),
        [
            "1 input go",
            "2 4+1000+300+0>50 I read. | call t1 Read {} | call t2 Read {}",
            "3 input result t1 [one]",
            "4 input result t2 [two]",
            "5 6+1300+40+0>5 Done.",
        ]
    );
}

#[test]
fn a_continuation_in_another_file_is_a_session_of_its_own_and_counts_nothing_twice() {
    let first = &read_path("atif/continued.json")[0];
    let second = &read_path("atif/continued.cont-1.json")[0];
    assert_eq!(
        sketch_of(first),
        ["1 input go", "2 90+10+0+0>5 one", "3 compaction auto 0 0", "3 inject Summarized."]
    );
    assert_eq!(
        sketch_of(second),
        ["1 inject go", "2 inject so far: one", "3 30+10+0+0>4 two", "4 44+0+0+0>3 three"]
    );
    assert_eq!((&*first.session_id, &*second.session_id), ("s2", "s2-cont-1"));
    let costs = [first, second].map(|t| Account::of(t).recorded_cost_pusd);
    // The second file states 0.0023 dollars, with those of the first and of the summary; one step of it states none.
    assert_eq!(costs, [Some(1_000_000_000), Some(400_000_000)]);
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for metrics in [
        r#"{"prompt_tokens":-1}"#,
        r#"{"prompt_tokens":5,"cached_tokens":6}"#,
        r#"{"completion_tokens":"many"}"#,
    ] {
        let text = format!(
            r#"{{"schema_version":"ATIF-v1.5","steps":[{{"source":"agent","message":"x","metrics":{metrics}}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{metrics}");
        assert_eq!(transcript.notices.iter().map(|n| n.line).collect::<Vec<_>>(), [1], "{metrics}");
    }
}
