//! What a recording fetches again after a strategy took it out: held against the requests as sent.

use ctxsim::policy::PolicySpec;
use ctxsim::provider::{Models, SentBlock, SentKind};
use ctxsim::session::roles::Role;
use ctxsim::session::{BlockKind, EventKind, Flags, Session};
use ctxsim::sim::{Recorder, RunOptions, Scratch, Summary, run};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::presets::typed;
use crate::random_sessions::{act, session};

#[derive(Default)]
struct Sent(Vec<Vec<SentBlock>>);

impl Recorder for Sent {
    fn sent(&mut self, blocks: &[SentBlock]) {
        self.0.push(blocks.to_vec());
    }
}

/// Whether the recording dropped or cleared a block before request `step` was sent.
fn is_gone(session: &Session, step: usize, block: u32) -> bool {
    let events = session.events.iter().filter(|e| e.before_step as usize <= step);
    events.map(|e| &e.kind).any(|kind| match kind {
        EventKind::BlocksDropped { from, to, .. } => (*from..*to).contains(&block),
        EventKind::RecordedClearing { blocks, applied } => *applied && blocks.contains(&block),
        _ => false,
    })
}

/// The newest result, before block `call`, of a call like it.
fn earlier(session: &Session, step: usize, call: u32) -> Option<u32> {
    let blocks = &session.blocks;
    (0..call).rev().find(|result| {
        let i = *result as usize;
        blocks.kind[i] == BlockKind::ToolResult
            && !blocks.flags[i].has(Flags::SYNTHETIC)
            && !is_gone(session, step, *result)
            && (0..i).rev().any(|c| {
                let answers = blocks.kind[c] == BlockKind::ToolUse && blocks.call[c] == blocks.call[i];
                answers && blocks.hash[c] == blocks.hash[call as usize]
            })
    })
}

/// Calls that repeat one whose result was in the request in full, and those that repeat another.
fn expected(session: &Session, sent: &[Vec<SentBlock>]) -> (u64, u64) {
    let blocks = &session.blocks;
    let (mut there, mut gone) = (0, 0);
    for (step, sent) in sent.iter().enumerate() {
        let calls = session.steps[step].output.clone();
        for call in calls.filter(|b| blocks.kind[*b as usize] == BlockKind::ToolUse) {
            let role = session.tools[blocks.tool[call as usize] as usize].role;
            if matches!(role, Role::Edit | Role::Write | Role::Todo | Role::Plan | Role::Agent) {
                continue;
            }
            let Some(result) = earlier(session, step, call) else { continue };
            let whole = |b: &SentBlock| {
                let i = result as usize;
                let of_call = b.kind == SentKind::ToolResult && b.link == blocks.call[i];
                of_call && b.hash == blocks.hash[i] && !b.placeholder
            };
            if sent.iter().any(whole) { there += 1 } else { gone += 1 }
        }
    }
    (there, gone)
}

fn go(session: &Session, preset: &str) -> (Summary, Vec<Vec<SentBlock>>) {
    let models = Models::builtin().unwrap();
    let model = models.get("claude-opus-5").unwrap();
    let typed = typed(preset);
    let separator = if typed.contains(':') { ',' } else { ':' };
    let spec: PolicySpec = format!("{typed}{separator}believed_window_tokens=70000").parse().unwrap();
    let strategy = spec.load(&[], &[]).unwrap().strategy(model, &models).unwrap();
    let mut sent = Sent::default();
    let scratch = &mut Scratch::default();
    let summary = run(session, &strategy, model, &RunOptions::default(), scratch, &mut sent);
    (summary, sent.0)
}

/// `session` with calls of `kinds` kinds only.
fn with_few_kinds_of_calls(mut session: Session, kinds: usize) -> Session {
    let calls = (0..session.blocks.len()).filter(|i| session.blocks.kind[*i] == BlockKind::ToolUse);
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        session.blocks.hash[call] = ((n * n) % kinds) as u64;
    }
    session
}

const PRESETS: &[&str] = &[
    "none",
    "arcturn",
    "octo",
    "openhands",
    "openhands-recent",
    "anthropic-editing",
    "langchain-edit",
    "swe-agent",
    "yoagent",
    "strands-sliding",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_call_made_again_is_counted_by_what_the_request_held(acts in vec(act(), 20..60), kinds in 3_usize..40) {
        let session = with_few_kinds_of_calls(session(&acts), kinds);
        for preset in PRESETS {
            let (summary, sent) = go(&session, preset);
            let counted = (summary.repeated_calls, summary.refetched_calls);
            prop_assert_eq!(counted, expected(&session, &sent), "{}", preset);
        }
    }
}
