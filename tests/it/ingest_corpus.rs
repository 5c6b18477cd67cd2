//! Totals over lines and over files: nothing is counted twice, whatever was written how often.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ctxsim::ingest::dedupe::{Copied, Loaded, dedupe};
use ctxsim::ingest::{self, ReadOptions, Recording, Totals};
use ctxsim::session::Session;
use ctxsim::tokens::Tokenizer;
use ctxsim::transcript::{Entry, Response, Transcript};
use ctxsim::usage::Usage;
use proptest::prelude::*;

use crate::ingest_sketch::{read_bytes, sketch};

/// A line of response `id` with one block, of an answer that has `output` tokens so far.
fn line(id: usize, uuid: &str, block: &str, output: u64) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{uuid}","sessionId":"s","requestId":"q{id}","message":{{"id":"m{id}","model":"m","content":[{block}],"stop_reason":"end_turn","usage":{{"input_tokens":{},"cache_read_input_tokens":{},"cache_creation_input_tokens":7,"output_tokens":{output}}}}}}}"#,
        id + 1,
        id * 10,
    )
}

fn call(id: usize, n: usize) -> String {
    format!(r#"{{"type":"tool_use","id":"c{id}-{n}","name":"T","input":{{}}}}"#)
}

fn totals(text: &str) -> Totals {
    let transcripts = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(transcripts.len(), 1);
    transcripts[0].totals()
}

/// `lines` lines for `responses` responses; every line has a call of its own and more output than the
/// one before. Also the same calls in one line per response.
fn spread_and_single(lines: usize, responses: usize) -> (String, String) {
    let (mut spread, mut single) = (String::new(), String::new());
    for id in 0..responses {
        let parts = lines / responses + usize::from(id < lines % responses);
        let calls: Vec<String> = (0..parts).map(|n| call(id, n)).collect();
        for (n, block) in calls.iter().enumerate() {
            let _ = writeln!(spread, "{}", line(id, &format!("u{id}-{n}"), block, 1 + n as u64));
        }
        let _ = writeln!(single, "{}", line(id, &format!("u{id}"), &calls.join(","), parts as u64));
    }
    (spread, single)
}

#[test]
fn totals_do_not_depend_on_the_number_of_lines_per_response() {
    for (lines, responses) in [(135, 118), (926, 231), (180, 89)] {
        let (spread, single) = spread_and_single(lines, responses);
        assert_eq!(spread.lines().count(), lines);
        let totals = totals(&spread);
        assert_eq!(totals, self::totals(&single));
        assert_eq!((totals.responses, totals.tool_calls), (responses as u64, lines as u64));
        assert_eq!(totals.usage.output_tokens, lines as u64);
        assert_eq!(totals.usage.cache_write_5m_tokens, 7 * responses as u64);
    }
}

#[test]
fn usage_that_grows_while_streaming_is_taken_at_its_end_and_never_summed() {
    let mut text = String::new();
    for (id, usages) in [[(10, 1), (40, 9)], [(20, 1), (60, 30)]].into_iter().enumerate() {
        for (n, (input, output)) in usages.into_iter().enumerate() {
            let _ = writeln!(
                text,
                r#"{{"type":"assistant","uuid":"{id}-{n}","message":{{"id":"m{id}","model":"m","content":[],"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}}}"#
            );
        }
    }
    let usage = totals(&text).usage;
    assert_eq!((usage.uncached_tokens, usage.output_tokens), (100, 39));
}

proptest! {
    #[test]
    fn totals_do_not_change_when_lines_are_split_doubled_or_reordered(
        parts in prop::collection::vec(1_usize..5, 1..8),
        doubled in prop::collection::vec(any::<bool>(), 32),
        new_uuids in any::<bool>(),
        order in prop::collection::vec(any::<u16>(), 80),
    ) {
        let (mut plain, mut mixed) = (String::new(), String::new());
        let mut draw = 0;
        for (id, parts) in parts.into_iter().enumerate() {
            let calls: Vec<String> = (0..parts).map(|n| call(id, n)).collect();
            let _ = writeln!(plain, "{}", line(id, &format!("u{id}"), &calls.join(","), parts as u64));
            let mut lines = Vec::new();
            for (n, block) in calls.iter().enumerate() {
                let copies = 1 + usize::from(doubled[draw % doubled.len()]);
                for copy in 0..copies {
                    let uuid = format!("u{id}-{n}-{}", if new_uuids { copy } else { 0 });
                    lines.push((order[(draw * 2 + copy) % order.len()], line(id, &uuid, block, 1 + n as u64)));
                }
                draw += 1;
            }
            lines.sort_by_key(|(key, _)| *key);
            lines.into_iter().for_each(|(_, line)| { let _ = writeln!(mixed, "{line}"); });
        }
        prop_assert_eq!(totals(&plain), totals(&mixed));
    }

    #[test]
    fn whatever_follows_a_line_costs_no_more_than_itself(
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = line(0, "u", "", 1).into_bytes();
        bytes.extend(tail);
        prop_assert_eq!(read_bytes(&bytes).unwrap()[0].totals().responses, 1);
    }

    #[test]
    fn a_cut_line_is_a_notice_and_never_a_panic(cut in 1_usize..240) {
        let whole = line(0, "u", r#"{"type":"text","text":"\ud83d\ude00é"}"#, 1);
        let mut bytes = format!("{whole}\n{}", line(1, "v", r#"{"type":"text","text":"\ud83d\ude00é"}"#, 1)).into_bytes();
        bytes.truncate(whole.len() + 1 + cut);
        let transcripts = read_bytes(&bytes).unwrap();
        prop_assert_eq!(transcripts[0].totals().responses, 1);
        prop_assert_eq!(transcripts[0].notices.len(), 1);
        prop_assert_eq!(transcripts[0].notices[0].line, 2);
    }
}

/// A session of responses `from..to`, each with an input before it; ids of lines and session are the
/// session's own, and `second` is that of the first response.
fn session(name: &str, ids: std::ops::Range<usize>, second: usize) -> Loaded {
    let mut text = String::new();
    for id in ids {
        let time =
            format!("2026-03-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, (second + id) % 60);
        let _ = writeln!(
            text,
            r#"{{"type":"user","uuid":"{name}-u{id}","sessionId":"{name}","timestamp":"{time}","message":{{"content":"prompt {id}"}}}}
{{"type":"assistant","uuid":"{name}-a{id}","sessionId":"{name}","timestamp":"{time}","message":{{"id":"m{id}","model":"m","content":"answer {id}","usage":{{"input_tokens":1}}}}}}"#
        );
    }
    let mut recordings = ingest::read(text.as_bytes(), Path::new(name), &ReadOptions::default()).unwrap();
    Loaded { path: PathBuf::from(name), recording: recordings.remove(0) }
}

fn transcript(loaded: &Loaded) -> &Transcript {
    match &loaded.recording {
        Recording::Transcript(transcript) => transcript,
        Recording::Session(_) | Recording::Hashed { .. } => panic!("a session without text"),
    }
}

fn shares(corpus: &[Loaded]) -> Vec<(&str, u64)> {
    corpus.iter().map(|l| (&*transcript(l).session_id, transcript(l).totals().responses)).collect()
}

#[test]
fn a_fork_counts_its_own_tail_only() {
    for second in [0, 3600] {
        let mut corpus = vec![session("fork", 0..150, second), session("parent", 0..100, 0)];
        let copied = dedupe(&mut corpus);
        assert_eq!(shares(&corpus), [("fork", 50), ("parent", 100)]);
        let fork = Copied { path: "fork".into(), session_id: "fork".into(), responses: 100, whole: false };
        assert_eq!(copied, [fork]);
        // The tail begins with its own prompt.
        assert_eq!(sketch(transcript(&corpus[0]))[0], "201 input prompt 100");
    }
}

#[test]
fn any_number_of_forks_and_any_order_give_the_parent_and_the_tails() {
    let make = || -> Vec<Loaded> {
        let mut corpus = vec![session("parent", 0..100, 0)];
        for fork in 1..=36 {
            let mut loaded = session(&format!("fork{fork:02}"), 0..100, fork * 60);
            let Recording::Transcript(own) = session("x", 1000 * fork..1000 * fork + fork, 0).recording
            else {
                panic!()
            };
            let Recording::Transcript(transcript) = &mut loaded.recording else { panic!() };
            transcript.entries.extend(own.entries);
            corpus.push(loaded);
        }
        corpus
    };
    let mut corpus = make();
    dedupe(&mut corpus);
    let mut expected = vec![("parent".to_owned(), 100)];
    expected.extend((1..=36).map(|fork| (format!("fork{fork:02}"), fork)));
    let found: Vec<(String, u64)> = shares(&corpus).into_iter().map(|(id, n)| (id.to_owned(), n)).collect();
    assert_eq!(found, expected);

    let mut backwards: Vec<Loaded> = make().into_iter().rev().collect();
    dedupe(&mut backwards);
    backwards.reverse();
    assert_eq!(shares(&backwards), shares(&corpus));
}

#[test]
fn of_growing_copies_of_a_session_the_longest_stays_whole() {
    let mut corpus = vec![session("s", 0..3, 0), session("s", 0..7, 0), session("s", 0..5, 0)];
    for (loaded, path) in corpus.iter_mut().zip(["1", "2", "3"]) {
        loaded.path = path.into();
    }
    let copied = dedupe(&mut corpus);
    assert_eq!(shares(&corpus), [("s", 7)]);
    assert_eq!(corpus[0].path, Path::new("2"));
    assert!(copied.len() == 2 && copied.iter().all(|c| c.whole));
}

#[test]
fn sessions_without_ids_in_common_are_left_alone_but_for_their_name() {
    let mut corpus = vec![session("s", 0..3, 0), session("s", 10..12, 0), session("t", 20..21, 0)];
    assert_eq!(dedupe(&mut corpus), []);
    assert_eq!(shares(&corpus), [("s", 3), ("s#2", 2), ("t", 1)]);
}

#[test]
fn a_trace_that_is_there_twice_counts_once() {
    let session = |id: &str, model: &str| Session {
        id: id.to_owned(),
        parent: None,
        origin: Default::default(),
        model: model.to_owned(),
        tokenizer: Tokenizer::ClaudeOlder,
        coefficients: Tokenizer::ClaudeOlder.coefficients(),
        prefix: Default::default(),
        prefix_is_measured: false,
        warm_prefix_tokens: 0,
        tools: Vec::new(),
        calls: Vec::new(),
        blocks: Default::default(),
        result_parts: Vec::new(),
        steps: Vec::new(),
        events: Vec::new(),
    };
    let mut corpus: Vec<Loaded> =
        [session("s", "a"), session("s", "a"), session("s", "b"), session("t", "a")]
            .into_iter()
            .map(|s| Loaded { path: "x".into(), recording: Recording::Session(Box::new(s)) })
            .collect();
    let copied = dedupe(&mut corpus);
    assert_eq!(copied.iter().map(|c| &*c.session_id).collect::<Vec<_>>(), ["s"]);
    let ids = corpus.iter().map(|l| match &l.recording {
        Recording::Session(session) => &*session.id,
        _ => panic!("a conversation"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["s", "s#2", "t"]);
}

#[test]
fn results_of_copied_calls_leave_with_them() {
    let text = |tail: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"s{tail}","message":{{"id":"m1","model":"m","content":[{{"type":"tool_use","id":"c","name":"T","input":{{}}}}]}}}}
{{"type":"user","sessionId":"s{tail}","message":{{"content":[{{"type":"tool_result","tool_use_id":"c","content":"r"}},{{"type":"text","text":"t{tail}"}}]}}}}
{{"type":"assistant","sessionId":"s{tail}","message":{{"id":"m{tail}","model":"m","content":"end"}}}}"#
        )
    };
    let load = |tail: &str| Loaded {
        path: tail.into(),
        recording: Recording::Transcript(Box::new(read_bytes(text(tail).as_bytes()).unwrap().remove(0))),
    };
    let mut corpus = vec![load("2"), load("3")];
    dedupe(&mut corpus);
    assert_eq!(sketch(transcript(&corpus[1])), ["2 input t3", "3 m3 no usage end"]);
}

/// Reads every recording of a folder, if there is one, and shows what is in it.
#[test]
fn real_recordings_are_read() {
    let Ok(folder) = std::env::var("CTXSIM_RECORDINGS") else { return };
    let mut sum = Usage::default();
    for path in ingest::input::resolve(&[folder]).unwrap() {
        let recordings =
            match ingest::read(ingest::input::open(&path).unwrap(), &path, &ReadOptions::default()) {
                Ok(recordings) => recordings,
                Err(e) => {
                    println!("{e}");
                    continue;
                }
            };
        for recording in recordings {
            let Recording::Transcript(transcript) = recording else { continue };
            let totals = transcript.totals();
            let has_calls_and_ids = |r: &Response| !r.id.is_empty() && !r.model.is_empty();
            assert!(
                transcript.entries.iter().all(|e| !matches!(e, Entry::Response(r) if !has_calls_and_ids(r)))
            );
            println!("{} {} {totals:?} {:?}", path.display(), transcript.session_id, transcript.notices);
            sum.add(&totals.usage);
        }
    }
    println!("{sum:?}");
}
