//! What recordings state as cost is kept, exactly.

use ctxsim::transcript::{Entry, Transcript};

use crate::ingest_sketch::read_bytes;

fn costs(transcript: &Transcript) -> Vec<Option<u64>> {
    let cost = |e: &Entry| if let Entry::Response(r) = e { Some(r.recorded_cost_pusd) } else { None };
    transcript.entries.iter().filter_map(cost).collect()
}

#[test]
fn pi_states_the_cost_of_each_request() {
    let text = r#"{"type":"session","id":"s","timestamp":"2026-03-01T10:00:00Z","cwd":"w"}
{"type":"message","id":"a","message":{"role":"assistant","model":"m","responseId":"r1","content":[{"type":"text","text":"x"}],"usage":{"input":2328,"output":59,"cost":{"input":0.01,"total":0.013410000000000002}}}}
{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","model":"m","responseId":"r2","content":[{"type":"text","text":"x"}],"usage":{"input":1,"cost":{"total":-1}}}}"#;
    assert_eq!(costs(&read_bytes(text.as_bytes()).unwrap()[0]), [Some(13_410_000_000), None]);
}

#[test]
fn opencode_states_the_cost_of_each_step() {
    let part = |cost: &str| {
        format!(
            r#"{{"type":"text","text":"x"}},{{"type":"step-finish","cost":{cost},"tokens":{{"input":1,"output":1}}}}"#
        )
    };
    let text = format!(
        r#"{{"info":{{"id":"ses_1"}},"messages":[{{"info":{{"id":"m1","role":"assistant","cost":0.75,"tokens":{{"input":2}}}},"parts":[{}]}},{{"info":{{"id":"m2","role":"assistant","cost":0.5,"tokens":{{"input":2}}}},"parts":[{},{}]}}]}}"#,
        part("0.75"),
        part("0.2"),
        part("0.3"),
    );
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    assert_eq!(costs(transcript), [Some(750_000_000_000), Some(200_000_000_000), Some(300_000_000_000)]);
}

#[test]
fn mini_swe_agent_states_it_for_each_request_and_for_all() {
    let text = r#"{"trajectory_format":"mini-swe-agent-1","info":{"model_stats":{"instance_cost":0.0021}},"messages":[{"role":"assistant","content":"x","extra":{"response":{"usage":{"prompt_tokens":1,"cost":0.0015}}}},{"role":"assistant","content":"y","extra":{"cost":6e-4,"response":{"usage":{"prompt_tokens":1}}}}]}"#;
    let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
    assert_eq!(costs(transcript), [Some(1_500_000_000), Some(600_000_000)]);
    assert_eq!(transcript.recorded_cost_pusd, Some(2_100_000_000));
}
