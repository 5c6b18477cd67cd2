//! Rules, causes and grids of `validate`, each on a recording made by hand.

use std::fmt::Write as _;
use std::path::Path;

use ctxsim::audit::Account;
use ctxsim::generate::ConstantGrowth;
use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::provider::model::Models;
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{Marks, Session, trace};
use ctxsim::tokens::Tokenizer;
use ctxsim::usage::Usage;
use ctxsim::validate::{Fits, Options, Pair, SessionReport, is_comparable, validate};

/// A Claude Code recording, line by line. Times are seconds.
struct Lines {
    text: String,
    version: &'static str,
    model: &'static str,
    responses: u32,
}

impl Lines {
    fn new(version: &'static str, model: &'static str) -> Lines {
        Lines { text: String::new(), version, model, responses: 0 }
    }

    fn line(mut self, at_s: u32, rest: &str) -> Lines {
        let time = format!("2026-03-01T{:02}:{:02}:{:02}.000Z", at_s / 3600, at_s / 60 % 60, at_s % 60);
        let _ = writeln!(
            self.text,
            r#"{{"uuid":"{:x}","sessionId":"s","version":"{}","timestamp":"{time}",{rest}}}"#,
            self.text.len(),
            self.version
        );
        self
    }

    fn typed(self, at_s: u32) -> Lines {
        self.line(at_s, r#""type":"user","message":{"role":"user","content":"go on"}"#)
    }

    fn reported(self, at_s: u32) -> Lines {
        self.line(
            at_s,
            r#""type":"user","origin":{"kind":"task-notification"},"message":{"role":"user","content":"ended"}"#,
        )
    }

    fn away(self, at_s: u32) -> Lines {
        self.line(at_s, r#""type":"system","subtype":"away_summary","content":"so far""#)
    }

    fn result(self, at_s: u32, content: &str) -> Lines {
        let rest = format!(
            r#""type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{}","content":{content}}}]}}"#,
            self.responses
        );
        self.line(at_s, &rest)
    }

    /// Usage: plain, read, written for 5 minutes, for an hour, output.
    fn response(mut self, at_s: u32, usage: [u64; 5]) -> Lines {
        self.responses += 1;
        let [plain, read, short, long, output] = usage;
        let n = self.responses;
        let message = serde_json::json!({
            "id": format!("m{n}"),
            "model": self.model,
            "role": "assistant",
            "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": format!("c{n}"), "name": "Bash", "input": {}}],
            "usage": {
                "input_tokens": plain,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": short + long,
                "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
                "output_tokens": output,
            },
        });
        self.line(at_s, &format!(r#""type":"assistant","message":{message}"#))
    }

    fn session(&self) -> Session {
        let path = Path::new("s.jsonl");
        let source = Box::new(std::io::Cursor::new(self.text.clone().into_bytes()));
        let recordings = ingest::read(source, path, &ReadOptions::default()).expect("it can be read");
        let Some(Recording::Transcript(transcript)) = recordings.into_iter().next() else {
            panic!("not a transcript")
        };
        compile(&transcript, &CompileOptions::default()).view(RecordedCompactions::Keep).into_owned()
    }

    fn pairs(&self) -> Vec<Pair> {
        report(&self.session()).pairs
    }
}

fn report(session: &Session) -> SessionReport {
    assert!(is_comparable(session));
    let models = Models::builtin().expect("the built-in models");
    validate(session, &models, &Fits::default(), &Options::default())
}

/// Rule, whether it was exact, and the cause, of the last pair.
fn last(lines: &Lines) -> (Option<&'static str>, bool, Option<&'static str>) {
    let pairs = lines.pairs();
    let pair = pairs.last().expect("a pair");
    (pair.rule, pair.is_exact(), pair.cause)
}

const OPUS: &str = "claude-opus-4-6";

/// Two requests; the first read 1,000 and left 11,000.
fn opened(version: &'static str, model: &'static str) -> Lines {
    let lines = Lines::new(version, model).typed(0).response(2, [3, 1_000, 9_000, 0, 50]);
    lines.result(10, r#""x""#).response(12, [3, 10_000, 1_000, 0, 50])
}

#[test]
fn a_request_reads_what_the_one_before_left() {
    let pairs = opened("2.1.0", OPUS).pairs();
    assert_eq!(pairs.len(), 1);
    assert!(pairs[0].is_exact() && pairs[0].is_write_exact() && pairs[0].is_plain_exact(), "{pairs:?}");
    assert_eq!((pairs[0].rule, pairs[0].cause), (None, None));
    let (recorded, predicted) = pairs[0].cost_pusd.expect("a known price");
    assert_eq!(recorded, predicted);
}

#[test]
fn once_the_life_is_over_the_floor_is_read() {
    // Starts at 10 s and, 300 or 301 seconds later, again.
    let alive = opened("2.1.0", OPUS).result(310, r#""x""#).response(312, [3, 11_000, 500, 0, 50]);
    assert_eq!(last(&alive), (None, true, None));
    let over = opened("2.1.0", OPUS).result(311, r#""x""#).response(312, [3, 1_000, 10_500, 0, 50]);
    assert_eq!(last(&over), (Some("ttl_expired"), true, Some("ttl_expired")));
    let an_hour = Lines::new("2.1.0", OPUS).typed(0).response(2, [3, 0, 0, 9_000, 50]);
    let an_hour = an_hour.result(3_600, r#""x""#).response(3_602, [3, 9_000, 0, 500, 50]);
    let alive_pair = last(&an_hour);
    assert_eq!(alive_pair, (None, true, None));
    let nothing = an_hour.result(7_201, r#""x""#).response(7_202, [3, 0, 0, 10_000, 50]);
    assert_eq!(last(&nothing), (Some("ttl_expired"), true, Some("ttl_expired")));
}

#[test]
fn a_summary_for_an_absent_user_is_a_use() {
    let away = opened("2.1.0", OPUS).away(200).typed(400).response(402, [3, 11_000, 500, 0, 50]);
    assert_eq!(last(&away), (None, true, None));
    let too_late = opened("2.1.0", OPUS).away(320).typed(400).response(402, [3, 1_000, 10_500, 0, 50]);
    assert_eq!(last(&too_late), (Some("ttl_expired"), true, Some("ttl_expired")));
}

#[test]
fn side_requests_leave_the_answer_but_for_its_tail() {
    let back = |version, model, read| {
        let lines = opened(version, model).away(100).typed(120).response(122, [3, read, 20, 0, 50]);
        last(&lines)
    };
    // The prompt before was 11,003 tokens, its answer 50.
    assert_eq!(back("2.1.150", OPUS, 11_051), (Some("side_away"), true, Some("side_request")));
    assert_eq!(back("2.1.150", "claude-opus-4-7", 11_049), (Some("side_away"), true, Some("side_request")));
    assert_eq!(back("2.1.149", OPUS, 11_051), (None, false, Some("side_request")));
    // More than the prompt and the answer is no side request.
    assert_eq!(back("2.1.150", OPUS, 11_054).2, Some("unknown"));
}

#[test]
fn a_turn_repeats_what_the_last_of_its_kind_showed() {
    let shown = opened("2.1.0", OPUS).typed(20).response(22, [3, 11_051, 949, 0, 50]);
    assert_eq!(last(&shown), (None, false, Some("side_request")));
    let again = |lines: Lines| lines.response(42, [3, 12_051, 49, 0, 50]);
    let shown = || opened("2.1.0", OPUS).typed(20).response(22, [3, 11_051, 949, 0, 50]);
    assert_eq!(last(&again(shown().typed(40))), (Some("side_repeat"), true, Some("side_request")));
    assert_eq!(last(&again(shown().reported(40))).0, None);
}

#[test]
fn a_rule_that_lost_is_silent_until_it_would_have_won() {
    let mut lines = opened("2.1.160", OPUS);
    let mut left = 11_000;
    for i in 0..4 {
        lines = lines.away(100 + 40 * i).typed(120 + 40 * i).response(122 + 40 * i, [3, left, 100, 0, 50]);
        left += 100;
    }
    let rules: Vec<_> = lines.pairs().iter().map(|pair| pair.rule).collect();
    assert_eq!(rules, [None, Some("side_away"), None, None, None]);
}

#[test]
fn loaded_tools_and_skills_break_the_prefix_of_some_clients() {
    let tools = r#"[{"type":"tool_reference","tool_name":"TaskCreate"}]"#;
    let loaded =
        |version, read| last(&opened(version, OPUS).result(20, tools).response(22, [3, read, 500, 0, 50]));
    assert_eq!(loaded("2.1.136", 1_093), (Some("task_tools"), true, Some("prefix_tools")));
    assert_eq!(loaded("2.1.200", 11_000), (None, true, None));
    assert_eq!(loaded("2.1.200", 1_093), (None, false, Some("prefix_tools")));
    let skill = r#""type":"user","isMeta":true,"message":{"role":"user","content":[{"type":"text","text":"Base directory for this skill: /x"}]}"#;
    let skilled =
        opened("2.1.20", OPUS).result(20, r#""x""#).line(20, skill).response(22, [3, 1_000, 500, 0, 50]);
    assert_eq!(last(&skilled), (Some("skill"), true, Some("prefix_skill")));
}

#[test]
fn after_a_compaction_the_floor_is_read() {
    let boundary =
        r#""type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":9}"#;
    let summary = r#""type":"user","isCompactSummary":true,"message":{"role":"user","content":"summary"}"#;
    let compacted = |lines: Lines, at_s, read| {
        lines.line(at_s, boundary).line(at_s, summary).response(at_s + 2, [3, read, 500, 0, 50])
    };
    let first = compacted(opened("2.1.0", OPUS), 20, 2_000);
    assert_eq!(last(&first), (Some("compaction"), false, Some("prefix_compaction")));
    let second = compacted(first.result(30, r#""x""#).response(32, [3, 2_500, 5_000, 0, 9]), 40, 2_000);
    assert_eq!(last(&second), (Some("compaction"), true, Some("prefix_compaction")));
}

#[test]
fn causes_need_evidence_besides_the_read() {
    let next = |usage| last(&opened("2.1.0", OPUS).result(20, r#""x""#).response(22, usage)).2;
    // What the request before read, and its write not yet.
    assert_eq!(next([3, 10_000, 1_500, 0, 50]), Some("not_yet_readable"));
    // The place where the read ends is no evidence, whatever it is called.
    assert_eq!(next([3, 9_000, 2_500, 0, 50]), Some("prefix_unknown"));
    assert_eq!(next([3, 9_000, 1_500, 0, 50]), Some("prefix_unknown"));
    // More was read in the middle of a turn.
    assert_eq!(next([3, 11_040, 500, 0, 50]), Some("unknown"));
    let shrunk = |model| last(&opened("2.1.0", model).typed(20).response(22, [3, 9_000, 1_500, 0, 50])).2;
    assert_eq!(shrunk("claude-sonnet-4-5"), Some("prefix_thinking"));
    assert_eq!(shrunk(OPUS), Some("prefix_unknown"));
    let unexplained: Vec<bool> = opened("2.1.0", OPUS)
        .result(20, r#""x""#)
        .response(22, [3, 9_000, 2_500, 0, 50])
        .pairs()
        .iter()
        .map(Pair::is_unexplained)
        .collect();
    assert_eq!(unexplained, [false, true]);
}

#[test]
fn a_break_has_the_name_that_an_audit_gives_it() {
    let cleared = r#""type":"system","subtype":"microcompact_boundary","microcompactMetadata":{"tokensSaved":900,"compactedToolIds":["c1"]}"#;
    let next = |lines: Lines, usage| lines.response(32, usage);
    let opened = || opened("2.1.0", OPUS).result(20, r#""x""#);
    for (lines, cause, is_unexplained) in [
        (next(opened().line(21, cleared), [3, 4_000, 6_000, 0, 50]), "prefix_rule", false),
        (next(opened(), [3, 10_000, 1_500, 0, 50]), "not_yet_readable", false),
        (next(opened(), [3, 9_000, 2_500, 0, 50]), "prefix_unknown", true),
        (next(opened(), [3, 0, 11_500, 0, 50]), "provider_side", true),
    ] {
        let session = lines.session();
        let pairs = report(&session).pairs;
        let pair = pairs.last().expect("a pair");
        assert_eq!((pair.cause, pair.is_unexplained()), (Some(cause), is_unexplained));
        let models = Models::builtin().expect("the built-in models");
        let audited = ctxsim::audit::audit(&Account::of_session(&session), &models, None);
        let broken: Vec<(u32, &str)> = audited.breaks.iter().map(|b| (b.request, b.cause.name())).collect();
        assert_eq!(broken, [(pair.request, cause)]);
    }
}

#[test]
fn unknown_prices_are_no_dollars() {
    let report = report(&opened("2.1.0", "claude-unheard-of-9").session());
    assert!(report.is_unpriced && report.pairs[0].cost_pusd.is_none());
    assert!(report.pairs[0].is_exact());
}

/// A session of a provider that caches by itself: each request reads what `read` makes of the usage before.
fn automatic(read: impl Fn(&Usage) -> u64) -> Session {
    let growth =
        ConstantGrowth { tokenizer: Tokenizer::Openai, model: "gpt-5.4".into(), ..Default::default() };
    let mut session = growth.session();
    let mut before: Option<Usage> = None;
    for (i, step) in (0_u64..).zip(&mut session.steps) {
        let prompt = 20_000 + 777 * i + (i * i * 37) % 500;
        let cached = before.as_ref().map_or(0, &read);
        let usage = Usage {
            uncached_tokens: prompt - cached,
            cache_read_tokens: cached,
            output_tokens: 40 + (i * 53) % 300,
            ..Usage::default()
        };
        step.recorded = Some(usage);
        before = Some(usage);
    }
    session
}

#[test]
fn the_grid_of_an_automatic_cache_is_found_from_earlier_pairs() {
    type Reads = fn(&Usage) -> u64;
    let kinds: [Reads; 5] = [
        |u| u.prompt_tokens() / 128 * 128,
        |u| (u.prompt_tokens() + u.output_tokens - 51) / 128 * 128,
        |u| (u.prompt_tokens() - 46 + 128) / 512 * 512 - 128,
        |u| (u.prompt_tokens() - 96 + 256) / 1024 * 1024 - 256,
        |u| u.prompt_tokens() - 1,
    ];
    for (kind, read) in kinds.into_iter().enumerate() {
        let pairs = report(&automatic(read)).pairs;
        let late = &pairs[pairs.len() / 2..];
        let exact = late.iter().filter(|pair| pair.is_exact()).count();
        assert!(exact * 100 >= late.len() * 95, "kind {kind}: {exact} of {}", late.len());
    }
}

#[test]
fn the_mode_is_predicted_whatever_was_lost_once() {
    let regular = report(&automatic(|u| u.prompt_tokens() / 128 * 128)).pairs;
    let mut session = automatic(|u| u.prompt_tokens() / 128 * 128);
    let usage = session.steps[60].recorded.as_mut().expect("usage");
    (usage.uncached_tokens, usage.cache_read_tokens) = (usage.prompt_tokens(), 0);
    let pairs = report(&session).pairs;
    assert_eq!(pairs[59].cause, Some("provider_side"));
    for (pair, same) in pairs.iter().zip(&regular).filter(|(pair, _)| pair.request != 61) {
        assert_eq!(pair.predicted_read_tokens, same.predicted_read_tokens);
    }
}

#[test]
fn runs_are_cut_where_the_prompt_falls() {
    let mut session = automatic(|u| u.prompt_tokens() / 128 * 128);
    assert_eq!(report(&session).open_loop.ends.iter().map(|end| end.requests).collect::<Vec<_>>(), [100]);
    for step in &mut session.steps[40..] {
        let usage = step.recorded.as_mut().expect("usage");
        *usage = Usage { uncached_tokens: usage.prompt_tokens() - 15_000, ..Usage::default() };
    }
    let open_loop = report(&session).open_loop;
    assert_eq!(open_loop.ends.iter().map(|end| end.requests).collect::<Vec<_>>(), [40, 60]);
    assert_eq!(open_loop.error_micros.len(), 98);
    // Nothing that was billed later changes a prediction but the first prompt of its run.
    session.steps[99].recorded.as_mut().expect("usage").uncached_tokens += 5_000;
    let later = report(&session).open_loop;
    assert_eq!(later.ends[1].predicted_tokens, open_loop.ends[1].predicted_tokens);
}

#[test]
fn facts_survive_a_trace_and_older_traces_have_none() {
    let tools = r#"[{"type":"tool_reference","tool_name":"TaskCreate"}]"#;
    let session = opened("2.1.150", OPUS).result(20, tools).away(30).reported(40);
    let session = session.response(42, [3, 1_093, 500, 0, 50]).session();
    let facts = session.steps[2].facts;
    let expected = Marks::FINAL_OUTPUT
        .with(Marks::AWAY_SUMMARY)
        .with(Marks::NOTIFICATION)
        .with(Marks::TASK_TOOLS_LOADED);
    assert_eq!((facts.marks, facts.loaded_tools), (expected, 1));
    let start = session.steps[0].start_ms.expect("times");
    assert_eq!(facts.away_at_ms, Some(start + 30_000));
    let mut bytes = Vec::new();
    trace::write(&session, &mut bytes).expect("memory");
    let label = Path::new("s.trace.jsonl");
    assert_eq!(trace::read(bytes.as_slice(), label).expect("its own output"), session);
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains(r#""f":23,"l":1,"w":"#), "{text}");
    let older = text.replace(r#","f":23,"l":1,"w":"#, r#","later":"#);
    assert_ne!(older, text);
    let read = trace::read(older.as_bytes(), label).expect("an older trace");
    assert_eq!(read.steps[2].facts, Default::default());
}
