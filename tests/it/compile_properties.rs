//! What holds of every compiled transcript, whatever it says.

use proptest::prelude::*;

use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{EventKind, Session, trace};
use ctxsim::tokens::Tokenizer;
use ctxsim::transcript::{Content, Entry, EventKind as Recorded};

use crate::prompt_totals::{first_unpaired, prompt_totals};
use crate::transcripts::*;

const MODELS: [&str; 3] = ["claude-opus-4-6", "claude-sonnet-4-5-20250929", "claude-fable-5"];

/// One thing that happens; numbers are taken modulo what makes sense at that point.
#[derive(Debug, Clone)]
enum Act {
    Prompt {
        chars: usize,
        injected: bool,
    },
    Results {
        answer: Vec<bool>,
        chars: usize,
        stray: bool,
    },
    Response {
        thinking: usize,
        signature: u32,
        text: usize,
        calls: usize,
        grown: u64,
        uncached: u64,
        usage: bool,
    },
    Compaction,
    Clearing,
    Clear,
    Rewind {
        keep: u32,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..2_000_usize, any::<bool>()).prop_map(|(chars, injected)| Act::Prompt { chars, injected }),
        4 => (prop::collection::vec(any::<bool>(), 4), 0..5_000_usize, prop::bool::weighted(0.1))
            .prop_map(|(answer, chars, stray)| Act::Results { answer, chars, stray }),
        6 => (0..300_usize, 0..600_u32, 0..300_usize, 0..4_usize, 0..4_000_u64, 0..40_u64, prop::bool::weighted(0.9))
            .prop_map(|(thinking, signature, text, calls, grown, uncached, usage)| Act::Response {
                thinking, signature, text, calls, grown, uncached, usage
            }),
        1 => prop_oneof![
            Just(Act::Compaction),
            Just(Act::Clearing),
            Just(Act::Clear),
            (0..30_u32).prop_map(|keep| Act::Rewind { keep }),
        ],
    ]
}

/// Entries in which recorded totals never fall, unless history is dropped.
fn entries(model: &str, acts: &[Act]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut total, mut calls) = (30_000, 0);
    let mut open: Vec<String> = Vec::new();
    let mut responses = 0;
    for act in acts {
        match act {
            Act::Prompt { chars, injected: true } => entries.push(injected(vec![text(*chars)])),
            Act::Prompt { chars, .. } => entries.push(input(vec![text(*chars)])),
            Act::Results { answer, chars, stray } => {
                let answered =
                    open.iter().zip(answer).filter(|(_, yes)| **yes).map(|(id, _)| result(id, *chars));
                let mut content: Vec<Content> = answered.collect();
                content.extend(stray.then(|| result("stray", *chars)));
                entries.push(input(content));
            }
            Act::Response { thinking: thought, signature, text: chars, calls: n, grown, uncached, usage } => {
                open = (calls..calls + n).map(|i| format!("call-{i}")).collect();
                calls += n;
                let mut content = vec![thinking(*thought, *signature), text(*chars)];
                content.extend(open.iter().map(|id| call(id)));
                total += grown;
                let Entry::Response(mut response) =
                    billed_by(model, content, [*uncached, 0, total - uncached])
                else {
                    unreachable!("billed is a response")
                };
                response.usage = response.usage.filter(|_| *usage);
                entries.push(Entry::Response(response));
                responses += 1;
            }
            Act::Compaction => entries.push(compaction()),
            Act::Clearing => {
                let call_ids = (0..calls).step_by(2).map(|i| format!("call-{i}")).collect();
                entries.push(event(Recorded::ResultsCleared { call_ids, tokens_saved: None }));
            }
            Act::Clear => entries.push(event(Recorded::Cleared)),
            Act::Rewind { keep } => {
                entries.push(event(Recorded::Rewound { keep_responses: keep % (responses + 1) }));
            }
        }
    }
    entries
}

fn columns_agree(s: &Session) -> bool {
    let b = &s.blocks;
    let lengths = [
        b.kind.len(),
        b.flags.len(),
        b.message.len(),
        b.tool.len(),
        b.call.len(),
        b.hash.len(),
        b.tokens.len(),
        b.utf16.len(),
        b.bytes.len(),
        b.lines.len(),
        b.json_utf16.len(),
        b.ascii.len(),
        b.args_utf16.len(),
    ];
    let mut next = 0;
    let consecutive = s.steps.iter().all(|step| {
        let fits = step.input.start == next && step.output.start == step.input.end;
        next = step.output.end;
        fits
    });
    lengths.iter().all(|l| *l == lengths[0]) && consecutive && next as usize == lengths[0]
}

proptest! {
    #[test]
    fn columns_calls_and_traces_hold_together(model in 0..3_usize, acts in prop::collection::vec(act(), 0..40)) {
        let base = compile(&transcript(entries(MODELS[model], &acts)), &CompileOptions::default());
        prop_assert!(columns_agree(&base));
        for how in [RecordedCompactions::Undo, RecordedCompactions::Keep] {
            let view = base.view(how);
            prop_assert!(columns_agree(&view));
            prop_assert_eq!(first_unpaired(&view), None, "{:?}", how);
            prop_assert!(*view.view(how) == *view);
        }
        prop_assert!(columns_agree(&base.scaled_to(Tokenizer::Openai)));
        let mut out = Vec::new();
        trace::write(&base, &mut out).expect("a vector takes everything");
        let back = trace::read(out.as_slice(), std::path::Path::new("x")).expect("it was just written");
        prop_assert_eq!(back, base);
    }

    #[test]
    fn totals_are_exact_until_the_first_undone_compaction(
        model in 0..3_usize,
        acts in prop::collection::vec(act(), 1..40),
    ) {
        // Dropped history would need totals that fall by as much.
        let acts: Vec<Act> =
            acts.into_iter().filter(|a| !matches!(a, Act::Clear | Act::Rewind { .. })).collect();
        let base = compile(&transcript(entries(MODELS[model], &acts)), &CompileOptions::default());
        let s = base.view(RecordedCompactions::Undo);
        let undone = |kind: &EventKind| {
            matches!(kind, EventKind::RecordedCompaction { .. } | EventKind::RecordedClearing { .. })
        };
        let end = s.events.iter().find(|e| undone(&e.kind)).map_or(s.steps.len(), |e| e.before_step as usize);
        for (step, total) in s.steps.iter().zip(prompt_totals(&s)).take(end) {
            if let Some(usage) = step.recorded {
                prop_assert_eq!(total, usage.prompt_tokens());
            }
        }
    }
}
