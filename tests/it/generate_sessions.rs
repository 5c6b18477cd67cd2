//! What every generated session must be.

use ctxsim::generate::{MAX_STEPS, Profile, START_MS, profile_names, session};
use ctxsim::session::compile::RecordedCompactions;
use ctxsim::session::{BlockKind, EventKind, Flags, Session, trace};

fn profile(name: &str, set: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::load(name).expect("built in");
    set.iter().for_each(|(key, value)| profile.set(key, value).expect("a value"));
    profile
}

fn written(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace::write(session, &mut bytes).expect("memory");
    bytes
}

#[test]
fn a_written_session_is_read_again_and_pairs_every_call() {
    for name in profile_names() {
        let session = session(&profile(name, &[("turns", "4")]), 7, 1);
        let again = trace::read(&written(&session)[..], std::path::Path::new("x")).expect("a trace");
        assert_eq!(again, session, "{name}");
        let calls = |kind| -> Vec<u32> {
            let blocks = &session.blocks;
            (0..blocks.len()).filter(|i| blocks.kind[*i] == kind).map(|i| blocks.call[i]).collect()
        };
        assert_eq!(calls(BlockKind::ToolUse), calls(BlockKind::ToolResult), "{name}");
        assert_eq!(session.steps.iter().filter(|s| s.human_turn).count(), 4, "{name}");
    }
}

#[test]
fn a_session_depends_on_profile_seed_and_index_alone() {
    let coding = profile("interactive-coding", &[]);
    let one = session(&coding, 3, 5);
    assert_eq!(one, session(&coding, 3, 5));
    assert_ne!(one.blocks, session(&coding, 4, 5).blocks);
    assert_ne!(one.blocks, session(&coding, 3, 6).blocks);
    // Another length of answers leaves waits and numbers of requests as they were.
    let other = session(&profile("interactive-coding", &[("output_tokens", "50")]), 3, 5);
    let times = |s: &Session| -> Vec<_> { s.steps.iter().map(|s| (s.start_ms, s.duration_ms)).collect() };
    assert_eq!(times(&one), times(&other));
    assert!(other.steps.iter().all(|s| s.output_tokens == 50));
}

#[test]
fn one_call_has_what_the_parameters_say() {
    let set = [
        ("turns", "2"),
        ("steps_per_turn", "1"),
        ("user_tokens", "330"),
        ("result_tokens", "900"),
        ("output_tokens", "200"),
        ("thinking_chance", "1"),
        ("thinking_share", "0.25"),
        ("text_share", "0.2"),
        ("calls_per_step", "2"),
        ("density", "1"),
        ("line_utf16", "100"),
        ("escape_share", "0.1"),
        ("non_ascii_share", "0.05"),
        ("error_chance", "1"),
        ("human_wait_s", "60"),
        ("tool_latency_s", "1.5"),
        ("generation_s", "2"),
        ("start_s", "0"),
    ];
    let session = session(&profile("interactive-coding", &set), 0, 0);
    let kinds = &session.blocks.kind;
    use BlockKind::{AssistantText, Thinking, ToolResult, ToolUse, UserText};
    let turn = [
        UserText,
        Thinking,
        AssistantText,
        ToolUse,
        ToolUse,
        ToolResult,
        ToolResult,
        Thinking,
        AssistantText,
    ];
    assert_eq!(kinds[..], [turn, turn].concat());
    assert_eq!(session.blocks.tokens[..5], [330, 50, 30, 60, 60]);
    assert_eq!(session.blocks.tokens[5] + session.blocks.tokens[6], 900);
    assert!(session.blocks.flags[5].has(Flags::ERROR) && session.blocks.flags[1].has(Flags::SIGNED));
    let user = session.blocks.get(0);
    assert_eq!(
        (user.utf16, user.lines, user.json_utf16, user.bytes, user.ascii),
        (1_000, 11, 1_110, 1_100, 950)
    );
    assert_eq!(session.blocks.message[..9], [0, 1, 1, 1, 1, 2, 3, 4, 4]);
    let starts: Vec<i64> = session.steps.iter().filter_map(|s| s.start_ms).map(|ms| ms - START_MS).collect();
    assert_eq!(starts, [0, 3_500, 65_500, 69_000]);
}

#[test]
fn the_recording_agent_compacts_and_both_replays_are_there() {
    let set = [
        ("turns", "3"),
        ("steps_per_turn", "5"),
        ("user_tokens", "1000"),
        ("result_tokens", "10000"),
        ("output_tokens", "1000"),
        ("compact_above_tokens", "60000"),
        ("compact_to_tokens", "5000"),
    ];
    let session = session(&profile("interactive-coding", &set), 0, 0);
    let prompts = |how| {
        let view = session.view(how).into_owned();
        let mut live: Vec<u32> = Vec::new();
        let mut prompts = Vec::new();
        for (k, step) in view.steps.iter().enumerate() {
            for event in view.events.iter().filter(|e| e.before_step as usize == k) {
                if let EventKind::BlocksDropped { from, to, .. } = event.kind {
                    live.retain(|b| !(from..to).contains(b));
                }
            }
            live.extend(step.input.clone());
            prompts.push(36_000 + live.iter().map(|b| view.blocks.tokens[*b as usize]).sum::<u32>());
            live.extend(step.output.clone());
        }
        prompts
    };
    let kept = prompts(RecordedCompactions::Keep);
    let undone = prompts(RecordedCompactions::Undo);
    // 1,000 + 1,000 after the first request, then 11,000 a step: the third would be 59,000, the fourth is too much.
    assert_eq!(kept[..5], [37_000, 48_000, 59_000, 41_000, 52_000]);
    assert_eq!(undone[..5], [37_000, 48_000, 59_000, 70_000, 81_000]);
    assert!(kept.iter().all(|p| *p <= 60_000) && session.recorded_compactions_undone() >= 3);
}

#[test]
fn repeated_calls_are_the_same_content_again() {
    let set = [("turns", "1"), ("steps_per_turn", "200"), ("repeat_chance", "0.5")];
    let session = session(&profile("interactive-coding", &set), 0, 0);
    let distinct = |kind| {
        let blocks = &session.blocks;
        let of_kind = |i: &usize| blocks.kind[*i] == kind;
        let hashes: Vec<u64> = (0..blocks.len()).filter(of_kind).map(|i| blocks.hash[i]).collect();
        let mut unique = hashes.clone();
        unique.sort_unstable();
        unique.dedup();
        (hashes.len(), unique.len())
    };
    let (calls, different) = distinct(BlockKind::ToolUse);
    assert!(calls >= 200 && different.abs_diff(calls / 2) < calls / 8, "{different} of {calls}");
    assert_eq!(distinct(BlockKind::ToolResult).1, different);
}

#[test]
fn both_ends_of_every_range_make_sessions() {
    let base =
        profile("interactive-coding", &[("turns", "2"), ("steps_per_turn", "2"), ("calls_per_step", "3")]);
    let few = ["turns", "steps_per_turn", "calls_per_step"];
    let mut all_high = base.clone();
    for param in base.params.iter().filter(|p| !few.contains(&p.name.as_str())) {
        for end in [param.range.0, param.range.1] {
            let mut one = base.clone();
            one.set(&param.name, &end.to_string()).expect("in range");
            let made = session(&one, 0, 0);
            let again = trace::read(&written(&made)[..], std::path::Path::new("x")).expect("a trace");
            assert_eq!((again.steps.len(), &again), (6, &made), "{} = {end}", param.name);
        }
        all_high.set(&param.name, &param.range.1.to_string()).expect("in range");
    }
    assert_eq!(session(&all_high, 0, 0).steps.len(), 6);
}

#[test]
fn no_draw_makes_a_session_without_end() {
    let set = [("turns", "10000"), ("steps_per_turn", "100"), ("result_tokens", "1"), ("output_tokens", "1")];
    assert_eq!(session(&profile("interactive-coding", &set), 0, 0).steps.len(), MAX_STEPS);
}
