//! Traces without text: prompts as lists of block hashes. Totals are by hand.

use std::path::Path;

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::session::{EventKind, Session, trace};
use ctxsim::transcript::Notice;

use crate::ingest_sketch::fixture;

fn read(path: &Path) -> (Vec<Session>, Vec<Notice>) {
    let recordings = ingest::read(ingest::input::open(path).unwrap(), path, &ReadOptions::default()).unwrap();
    let mut all = Vec::new();
    let sessions = recordings.into_iter().map(|recording| match recording {
        Recording::Hashed { session, notices } => {
            all.extend(notices);
            *session
        }
        other => panic!("not a hashed session: {other:?}"),
    });
    (sessions.collect(), all)
}

/// Tokens of the prompt at each request.
fn prompts(session: &Session) -> Vec<u64> {
    let mut live: Vec<u32> = Vec::new();
    let mut events = session.events.iter().peekable();
    let step = |(k, step): (usize, &ctxsim::session::Step)| {
        while let Some(event) = events.next_if(|e| e.before_step as usize <= k) {
            if let EventKind::BlocksDropped { from, to, .. } = event.kind {
                live.retain(|block| !(from..to).contains(block));
            }
        }
        live.extend(step.input.clone());
        let blocks: u64 = live.iter().map(|b| u64::from(session.blocks.tokens[*b as usize])).sum();
        session.prefix.tokens() + blocks + u64::from(step.tail_tokens)
    };
    session.steps.iter().enumerate().map(step).collect()
}

#[test]
fn a_mooncake_request_goes_on_with_the_conversation_whose_blocks_it_begins_with() {
    let (sessions, notices) = read(&fixture("hash-trace/mooncake.jsonl"));
    let found: Vec<_> = sessions.iter().map(|s| (&*s.id, prompts(s))).collect();
    // The first one's last block is a part of one. Block 0 is in all, so it tells nothing of the second and the
    // fourth, whose clock runs backwards. The fifth cannot be.
    assert_eq!(
        found,
        [("mooncake-1", vec![1_100, 2_100]), ("mooncake-2", vec![600]), ("mooncake-3", vec![1_024])]
    );
    assert_eq!(sessions[0].steps.iter().map(|s| s.output_tokens).collect::<Vec<_>>(), [50, 60]);
    assert_eq!(sessions[0].blocks.hash[0], sessions[1].blocks.hash[0], "block 0 is in both");
    assert_eq!(notices.iter().map(|n| n.line).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_conversation_has_its_tools_system_prompt_and_sub_agents() {
    let (sessions, notices) = read(&fixture("hash-trace/kv-cache-tester.json"));
    assert_eq!(notices, []);
    let found: Vec<_> = sessions.iter().map(|s| (&*s.id, s.parent.as_deref(), prompts(s))).collect();
    assert_eq!(
        found,
        [("trace_1", None, vec![300, 384, 250]), ("trace_1-agent-1", Some("trace_1"), vec![130])]
    );
    // Two whole blocks of 64 are the head: 100 tokens of tools, 28 of the system prompt.
    let sum = |blocks: &[ctxsim::session::PrefixBlock]| blocks.iter().map(|b| b.tokens).sum::<u32>();
    let head = &sessions[0].prefix;
    assert_eq!((sum(&head.tools), sum(&head.system)), (100, 28));
    let starts: Vec<_> =
        sessions[0].steps.iter().map(|s| (s.start_ms, s.duration_ms, s.human_turn)).collect();
    assert_eq!(starts, [(Some(0), 4_190, true), (Some(10_500), 0, false), (Some(20_000), 0, true)]);
    assert_eq!(sessions[0].steps.iter().map(|s| s.tail_tokens).collect::<Vec<_>>(), [44, 0, 58]);
}

#[test]
fn the_hash_of_an_unfilled_block_is_kept_in_a_trace_and_hidden_by_a_key() {
    let (mut sessions, _) = read(&fixture("hash-trace/mooncake.jsonl"));
    let tails = |session: &Session| session.steps.iter().map(|step| step.tail_hash).collect::<Vec<_>>();
    let session = sessions.remove(0);
    let [first, last] = tails(&session)[..] else { panic!("two requests") };
    assert!(first != 0 && last != 0 && first != last);
    let mut bytes = Vec::new();
    trace::write(&session, &mut bytes).unwrap();
    assert_eq!(trace::read(&bytes[..], Path::new("t")).unwrap(), session);
    let [hidden, _] = tails(&session.anonymised(7))[..] else { panic!("two requests") };
    assert!(hidden != 0 && hidden != first);
    let (tester, _) = read(&fixture("hash-trace/kv-cache-tester.json"));
    assert_eq!(tails(&tester[0].anonymised(7)), [0, 0, 0], "that format has no hash for them");
}

#[test]
fn what_is_broken_is_named_and_never_a_panic() {
    for name in ["hash-trace/mooncake.jsonl", "hash-trace/kv-cache-tester.json"] {
        let text = std::fs::read(fixture(name)).unwrap();
        for cut in 0..text.len() {
            let _ = ingest::read(&text[..cut], Path::new("x"), &ReadOptions::default());
        }
    }
    let odd = br#"{"input_length":5,"output_length":1,"hash_ids":[1,"x",-3,2,1e99],"timestamp":-9}"#;
    let sessions = ingest::read(&odd[..], Path::new("x"), &ReadOptions::default()).unwrap();
    assert_eq!(sessions.len(), 1);
}
