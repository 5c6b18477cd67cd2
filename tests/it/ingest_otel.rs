//! OpenTelemetry spans, by every convention of naming. Expectations were worked out by hand from the fixtures.

use crate::ingest_sketch::{read_bytes, read_path, sketch};

#[test]
fn spans_are_requests_in_the_order_of_their_times() {
    let transcripts = read_path("otel/gen-ai.json");
    assert_eq!(transcripts.len(), 1);
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "2 input weather?",
            r#"2 msg_o1 20+0+80+0>10 thinking "hm" 0 | call k1 get_weather {"city":"Paris"}"#,
            "1 input result k1 [sunny]",
            // A count of 15 cannot include 80.
            "1 msg_o2 15+80+0+0>4 Sunny.",
        ]
    );
    assert_eq!(transcripts[0].session_id, "conv1");
    assert_eq!(transcripts[0].system.as_deref(), Some("Be brief."));
    assert_eq!(transcripts[0].tools[0].name, "get_weather");
    assert_eq!(transcripts[0].notices, []);
}

#[test]
fn messages_that_are_spread_over_attributes_are_put_together() {
    let transcripts = read_path("otel/openinference.jsonl");
    assert_eq!(
        sketch(&transcripts[0]),
        [
            "1 input where is it?",
            "1 a 14+16+0+0>5 Checking. | call k1 lookup {}",
            "2 input result k1 [shipped]",
            "2 b 44+16+0+0>6 It is shipped.",
        ]
    );
    assert_eq!(sketch(&transcripts[1]), ["3 input other", "3 c 7+0+0+0>1 fine"]);
    assert_eq!(transcripts[0].tools[0].name, "lookup");
}

#[test]
fn usage_that_cannot_be_is_named_and_not_counted() {
    for count in [r#"{"intValue":"-4"}"#, r#"{"stringValue":"NaN"}"#, r#"{"doubleValue":1e300}"#] {
        let text = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"spanId":"a","startTimeUnixNano":"-1","attributes":[{{"key":"gen_ai.usage.input_tokens","value":{count}}},{{"key":"gen_ai.usage.output_tokens","value":{{"intValue":3}}}},{{"value":3}}]}},7]}}]}}]}}"#
        );
        let transcript = &read_bytes(text.as_bytes()).unwrap()[0];
        assert_eq!((transcript.totals().responses, transcript.totals().without_usage), (1, 1), "{count}");
        assert_eq!(transcript.notices.len(), 1, "{count}");
    }
}
