//! Detectors that no usage series of a report shows: each where it fires, and where it is silent.

use ctxsim::audit::DETECTORS;
use ctxsim::cause::Cause;

use crate::audit_support::{
    Billed, EVENING_MS, Log, OPUS, audit_of, causes, detectors, finding, long, short,
};

fn reads(log: &mut Log, id: &str, path: &str, billed: Billed) {
    let call = format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{{"file_path":"{path}"}}}}"#);
    log.request_with(billed, &call, &[id]);
}

#[test]
fn the_table_holds_the_nine_names_in_order() {
    let names: Vec<&str> = DETECTORS.iter().map(|d| d.name).collect();
    let nine = "floor_pin saw_tooth read_gap_avoidable read_gap_expiry write_never_read pass_economics structure \
                refetch_after_elision usage_inconsistent";
    assert_eq!(names.join(" "), nine);
}

#[test]
fn one_break_is_neither_a_pin_nor_a_saw_tooth() {
    let audit =
        Log::of([short(9_000, 40_000), short(49_000, 500), short(9_000, 41_000), short(50_000, 500)]).audit();
    assert_eq!(detectors(&audit), ["read_gap_avoidable"]);
    assert_eq!(finding(&audit, "read_gap_avoidable").requests, [3]);
}

#[test]
fn a_floor_is_pinned_where_the_first_prompt_is_the_largest_too() {
    let grown = |from: u64| (0..20).map(move |i| short(20_000, from + 500 * i));
    let requests: Vec<Billed> = std::iter::once(short(20_000, 30_000)).chain(grown(10_000)).collect();
    assert!(detectors(&Log::of(requests).audit()).contains(&"floor_pin"));
    // A prompt that only shrinks is edited, not pinned.
    let shrinking: Vec<Billed> = (0..20).map(|i| short(20_000, 30_000 - 500 * i)).collect();
    assert!(!detectors(&Log::of(shrinking).audit()).contains(&"floor_pin"));
}

#[test]
fn breaks_under_a_hundredth_of_the_prompt_are_listed_and_not_found() {
    let audit = Log::of([short(0, 100_000), short(99_500, 600), short(100_100, 100)]).audit();
    assert_eq!(audit.breaks.len(), 1);
    assert!(audit.findings.is_empty(), "{:?}", audit.findings);
}

#[test]
fn an_hour_keeps_what_five_minutes_lose() {
    let session = |buy: fn(u64, u64) -> Billed, read: u64| {
        let mut log = Log::of([buy(0, 60_000), buy(60_000, 1_000)]);
        log.pause(1_200_000);
        log.request(buy(read, 61_500 - read));
        log.audit()
    };
    let lost = session(short, 0);
    assert_eq!(causes(&lost), [(3, "ttl_expired")]);
    let found = finding(&lost, "read_gap_expiry");
    assert!(found.detail.contains("an hour would have kept 1"), "{}", found.detail);
    assert!(session(long, 61_000).findings.is_empty());
    assert_eq!(detectors(&session(long, 0)), ["read_gap_avoidable"]);
}

#[test]
fn what_the_user_or_the_agent_chose_is_not_avoidable() {
    let mut log = Log::of([short(0, 90_000), short(90_000, 1_000)]);
    log.compaction();
    log.request(short(15_000, 9_000));
    log.request(short(24_000, 500));
    log.results(r#""done""#);
    log.user(r#"{"type":"text","text":"<command-name>/clear</command-name>"}"#);
    log.request(short(15_000, 2_000));
    log.request(short(17_000, 500));
    log.model("claude-sonnet-4-6");
    log.request(short(0, 17_500));
    let audit = log.audit();
    assert_eq!(causes(&audit), [(3, "prefix_compaction"), (5, "prefix_rewind"), (7, "prefix_model")]);
    assert!(audit.findings.is_empty(), "{:?}", audit.findings);
}

#[test]
fn calls_and_results_must_pair() {
    let call = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}"#);
    let mut log = Log::new(Some(EVENING_MS));
    log.request_with(short(0, 20_000), &format!("{},{}", call("a"), call("b")), &["a"]);
    log.request_with(short(20_000, 100), &call("c"), &["c", "nobody"]);
    log.request_with(short(20_100, 100), &call("d"), &["d"]);
    let audit = log.audit();
    let found = finding(&audit, "structure");
    assert_eq!(found.requests, [2, 3]);
    let words = "1 result without a call in the answer before, 1 call without a result in the request after";
    assert_eq!(found.detail, words);
    assert!(Log::of([short(0, 20_000), short(20_000, 100)]).audit().findings.is_empty());
}

#[test]
fn what_was_cleared_or_compacted_away_and_is_fetched_again() {
    let mut log = Log::new(Some(EVENING_MS));
    reads(&mut log, "a", "/src/lib.rs", short(0, 50_000));
    reads(&mut log, "b", "/src/main.rs", short(50_000, 2_000));
    log.cleared(r#""a""#, 20_000);
    reads(&mut log, "c", "/src/lib.rs", short(20_000, 12_000));
    log.compaction();
    reads(&mut log, "d", "/src/main.rs", short(20_000, 6_000));
    reads(&mut log, "e", "/src/new.rs", short(26_000, 2_000));
    let audit = log.audit();
    assert_eq!(finding(&audit, "refetch_after_elision").requests, [3, 4]);

    let mut log = Log::new(Some(EVENING_MS));
    reads(&mut log, "a", "/src/lib.rs", short(0, 50_000));
    reads(&mut log, "b", "/src/lib.rs", short(50_000, 2_000));
    log.compaction();
    reads(&mut log, "c", "/src/new.rs", short(20_000, 6_000));
    assert!(!detectors(&log.audit()).contains(&"refetch_after_elision"));
}

fn usage_line(id: &str, uuid: &str, usage: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{uuid}","sessionId":"s","requestId":"q{id}","message":{{"id":"m{id}","model":"{OPUS}","content":[{{"type":"text","text":"{uuid}"}}],"usage":{{{usage}}}}}}}"#
    )
}

#[test]
fn usage_that_contradicts_itself() {
    // The parts add to 24,082 more than the whole.
    let split = r#""cache_creation_input_tokens":216447,"cache_creation":{"ephemeral_5m_input_tokens":47745,"ephemeral_1h_input_tokens":192784},"output_tokens":1"#;
    let grown = |input: u64| format!(r#""input_tokens":{input},"output_tokens":1"#);
    let bad = r#""input_tokens":-4"#;
    let text = [
        usage_line("1", "a", split),
        usage_line("2", "b", &grown(10)),
        usage_line("2", "c", &grown(40)),
        usage_line("3", "d", bad),
        usage_line("4", "e", &grown(41)),
    ]
    .join("\n");
    let audit = audit_of(&text);
    let found: Vec<&[u32]> = audit.findings.iter().map(|f| f.requests.as_slice()).collect();
    assert_eq!(found, [[1], [2], [3]]);
    assert!(audit.findings.iter().all(|f| f.detector == "usage_inconsistent"));
    assert_eq!(audit.sums.without_usage, 1);
    let same = [usage_line("1", "a", &grown(10)), usage_line("1", "b", &grown(10))].join("\n");
    assert!(audit_of(&same).findings.is_empty());
}

#[test]
fn thinking_that_the_model_strips_at_a_human_turn() {
    let session = |model: &str| {
        let mut log = Log::new(Some(EVENING_MS));
        log.model(model);
        let thought =
            r#"{"type":"thinking","thinking":"so","signature":"abcd"},{"type":"text","text":"done"}"#;
        log.request(short(16_000, 20_000));
        log.request_with(short(36_000, 5_000), thought, &[]);
        log.prompt();
        log.request(short(36_000, 5_300));
        log.audit()
    };
    assert_eq!(causes(&session("claude-sonnet-4-5")), [(3, "prefix_thinking")]);
    assert_ne!(causes(&session("claude-opus-4-6")), [(3, "prefix_thinking")]);
}

#[test]
fn a_step_wider_than_the_provider_looks_back() {
    let session = |calls: usize| {
        let mut log = Log::of([short(16_000, 8_000)]);
        let ids: Vec<String> = (0..calls).map(|i| format!("wide{i}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let blocks: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"n":"{id}"}}}}"#))
            .collect();
        log.request_with(short(24_000, 500), &blocks.join(","), &ids);
        log.request(short(16_000, 14_000));
        log.request(short(30_000, 200));
        log.audit()
    };
    assert_eq!(causes(&session(10)), [(3, "lookback")]);
    assert_eq!(causes(&session(9)), [(3, "prefix_unknown")]);
}

#[test]
fn an_entry_that_could_not_be_read_yet() {
    let audit =
        Log::of([short(0, 30_000), short(30_000, 900), short(30_000, 1_800), short(31_800, 500)]).audit();
    assert_eq!(causes(&audit), [(3, "not_yet_readable")]);
    assert_eq!(audit.sums.miss(Cause::NotYetReadable).tokens, 900);
}

#[test]
fn a_break_behind_a_mark_is_named_by_it() {
    let session = |line: &str| {
        let mut log = Log::of([short(16_000, 20_000), short(36_000, 500)]);
        log.results(r#""done""#);
        log.line("user", line);
        log.request(short(16_000, 22_000));
        log.audit()
    };
    let skill = r#""isMeta":true,"message":{"role":"user","content":[{"type":"text","text":"Base directory for this skill: /s"}]}"#;
    let plain = r#""isMeta":true,"message":{"role":"user","content":[{"type":"text","text":"a reminder"}]}"#;
    assert_eq!(causes(&session(skill)), [(3, "prefix_skill")]);
    assert_eq!(causes(&session(plain)), [(3, "prefix_unknown")]);
    let mut log = Log::of([short(16_000, 20_000), short(36_000, 500)]);
    log.line("progress", r#""data":{"type":"hook_progress","hookName":"SessionStart:resume"}"#);
    log.request(short(0, 37_000));
    assert_eq!(causes(&log.audit()), [(3, "prefix_resume")]);
}
