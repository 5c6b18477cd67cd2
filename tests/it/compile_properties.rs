//! What holds of every compiled transcript, whatever it says.

use proptest::prelude::*;

use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{BlockKind, DropReason, EventKind, Session, trace};
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

/// One thing that happens in a conversation that counts its own tokens. Sizes are in hundreds of characters.
#[derive(Debug, Clone)]
enum Deed {
    /// Results of the open calls, a note of the client, a prompt, and the answer.
    Turn {
        sizes: [usize; 4],
        calls: usize,
        asks: bool,
        is_billed: bool,
    },
    /// What was pending is folded: results of the open calls, a prompt.
    Compaction {
        summary: usize,
        has_results: bool,
        prompt: usize,
    },
    Clearing,
    Clear,
    Rewind {
        keep: usize,
    },
}

fn turn() -> impl Strategy<Value = Deed> {
    let sizes = (1..40_usize, 0..3_usize, 1..20_usize, 1..5_usize);
    (sizes, 0..3_usize, any::<bool>(), prop::bool::weighted(0.7)).prop_map(
        |((result, note, prompt, answer), calls, asks, is_billed)| Deed::Turn {
            sizes: [result, note, prompt, answer],
            calls,
            asks,
            is_billed,
        },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => turn(),
        1 => (1..30_usize, any::<bool>(), 0..3_usize)
            .prop_map(|(summary, has_results, prompt)| Deed::Compaction { summary, has_results, prompt }),
        1 => prop_oneof![
            Just(Deed::Clearing),
            Just(Deed::Clear),
            (0..20_usize).prop_map(|keep| Deed::Rewind { keep }),
        ],
    ]
}

const PREFIX_TOKENS: u64 = 5_000;
/// Tokens of a hundred characters by the coefficients of the model.
const fn tokens_per_hundred(kind: BlockKind) -> u64 {
    match kind {
        BlockKind::UserText | BlockKind::AssistantText => 27,
        BlockKind::ToolUse => 30,
        BlockKind::ToolResult => 34,
        BlockKind::Thinking | BlockKind::Image => 0,
    }
}

/// A client that keeps what it sends as a list of pieces, and is billed for exactly them.
#[derive(Default)]
struct Client {
    entries: Vec<Entry>,
    /// True tokens in percent of what the coefficients give, and those of summaries.
    percent: [u64; 2],
    /// Tokens of all pieces there ever were; 0 once they are cleared or gone for good.
    pieces: Vec<u64>,
    history: Vec<usize>,
    pending: Vec<usize>,
    open: Vec<usize>,
    calls: usize,
    /// Results that the next request sends, and those of each request made: call and piece.
    results: Vec<(usize, usize)>,
    results_of: Vec<Vec<(usize, usize)>>,
    /// Behind each response: pieces so far, and the history.
    answered: Vec<(usize, Vec<usize>)>,
    /// Responses that the conversation still goes back to.
    path: Vec<usize>,
    /// A compaction is pending.
    is_compacted: bool,
    has_total: bool,
}

impl Client {
    fn piece(&mut self, kind: BlockKind, hundreds: usize, percent: u64) -> usize {
        self.pieces.push(tokens_per_hundred(kind) * hundreds as u64 * percent / 100);
        self.pieces.len() - 1
    }

    /// Results of calls that are older than a pending compaction are folded: they are sent nowhere.
    fn answer_calls(&mut self, hundreds: usize) {
        for call in std::mem::take(&mut self.open) {
            self.entries.push(input(vec![result(&format!("call-{call}"), hundreds * 100)]));
            let piece = self.piece(BlockKind::ToolResult, hundreds, self.percent[0]);
            self.results.push((call, piece));
            if !self.is_compacted {
                self.pending.push(piece);
            }
        }
    }

    fn write(&mut self, hundreds: usize, by: fn(Vec<Content>) -> Entry, percent: u64) {
        self.entries.push(by(vec![text(hundreds * 100)]));
        let piece = self.piece(BlockKind::UserText, hundreds, percent);
        self.pending.push(piece);
    }

    fn turn(
        &mut self,
        [result, note, prompt, answer]: [usize; 4],
        calls: usize,
        asks: bool,
        is_billed: bool,
    ) {
        let asks = asks || self.open.is_empty();
        self.answer_calls(result);
        if note > 0 {
            self.write(note, injected, self.percent[0]);
        }
        if asks {
            // The first prompt is what the coefficients say, so that the prefix is known exactly.
            let percent = if self.pieces.is_empty() { 100 } else { self.percent[0] };
            self.write(prompt, input, percent);
        }
        self.history.append(&mut self.pending);
        self.results_of.push(std::mem::take(&mut self.results));
        self.is_compacted = false;
        let total = PREFIX_TOKENS + self.history.iter().map(|piece| self.pieces[*piece]).sum::<u64>();
        self.open = (self.calls..self.calls + calls).collect();
        self.calls += calls;
        let mut content = vec![text(answer * 100)];
        let output = self.piece(BlockKind::AssistantText, answer, self.percent[0]);
        self.history.push(output);
        for call in self.open.clone() {
            let input = format!("{{\"a\":\"{}\"}}", "x".repeat(92));
            content.push(Content::ToolUse { id: format!("call-{call}"), name: "Bash".into(), input });
            let output = self.piece(BlockKind::ToolUse, 1, self.percent[0]);
            self.history.push(output);
        }
        self.entries.push(if is_billed { billed(content, [0, 0, total]) } else { response(content) });
        self.has_total |= is_billed;
        self.path.push(self.answered.len());
        self.answered.push((self.pieces.len(), self.history.clone()));
    }

    fn compact(&mut self, summary: usize, has_results: bool, prompt: usize) {
        if has_results {
            self.answer_calls(1);
        }
        if prompt > 0 {
            self.write(prompt, input, self.percent[0]);
        }
        self.entries.push(compaction());
        self.history.clear();
        self.pending.clear();
        self.is_compacted = true;
        self.write(summary, injected, self.percent[1]);
    }

    /// Results of every second call that are in the prompt, to nothing.
    fn clear_results(&mut self) {
        let call_ids = (0..self.calls).step_by(2).map(|call| format!("call-{call}")).collect();
        self.entries.push(event(Recorded::ResultsCleared { call_ids, tokens_saved: None }));
        for (call, piece) in self.results_of.iter().flatten() {
            if call % 2 == 0 && self.history.contains(piece) {
                self.pieces[*piece] = 0;
            }
        }
    }

    fn clear(&mut self) {
        self.entries.push(event(Recorded::Cleared));
        self.pieces.fill(0);
        self.go_back_to(0, Vec::new());
    }

    fn rewind(&mut self, which: usize) {
        let which = which % (self.path.len() + 1);
        let keep = which.checked_sub(1).map_or(0, |last| self.path[last] + 1);
        let keep_responses = u32::try_from(keep).expect("there are few");
        self.entries.push(event(Recorded::Rewound { keep_responses }));
        if keep == self.answered.len() && keep > 0 {
            self.pending.clear();
            return;
        }
        let (pieces, mut history) =
            keep.checked_sub(1).map(|last| self.answered[last].clone()).unwrap_or_default();
        let results = self.results_of.get(keep).filter(|_| keep > 0);
        let results: Vec<usize> = results.into_iter().flatten().map(|(_, piece)| *piece).collect();
        for piece in (pieces..self.pieces.len()).filter(|piece| !results.contains(piece)) {
            self.pieces[piece] = 0;
        }
        history.extend(results);
        self.go_back_to(keep, history);
    }

    fn go_back_to(&mut self, responses: usize, history: Vec<usize>) {
        self.history = history;
        self.path.retain(|response| *response < responses);
        self.pending.clear();
        self.open.clear();
        self.results.clear();
        self.is_compacted = false;
    }

    fn act(&mut self, deed: &Deed) {
        match *deed {
            Deed::Turn { sizes, calls, asks, is_billed } => self.turn(sizes, calls, asks, is_billed),
            Deed::Compaction { summary, has_results, prompt } => self.compact(summary, has_results, prompt),
            Deed::Clearing => self.clear_results(),
            Deed::Clear => self.clear(),
            Deed::Rewind { keep } => self.rewind(keep),
        }
    }

    fn compiled(self) -> Session {
        compile(&transcript(self.entries), &CompileOptions::default())
    }
}

/// How far a replayed total may be from the recorded one.
#[derive(Clone, Copy)]
enum Off {
    Known(i128),
    /// By as much as the next one.
    Unknown,
}

proptest! {
    #[test]
    fn where_the_coefficients_are_right_every_block_has_its_true_size(deeds in prop::collection::vec(deed(), 1..20)) {
        let mut client = Client { percent: [100, 100], ..Client::default() };
        for deed in &deeds {
            // Before the first total nothing shows what a rewind to a compaction brought back.
            if client.has_total || !matches!(deed, Deed::Rewind { .. }) {
                client.act(deed);
            }
        }
        let has_total = client.has_total;
        let s = client.compiled();
        for i in 0..s.blocks.len() {
            let block = s.blocks.get(i);
            let tokens = tokens_per_hundred(block.kind) * u64::from(block.utf16) / 100;
            prop_assert_eq!(u64::from(block.tokens), tokens, "block {} of {:?}", i, s.blocks.tokens);
        }
        prop_assert_eq!(s.prefix.tokens(), if has_total { PREFIX_TOKENS } else { 0 });
    }

    #[test]
    fn totals_are_met_where_compactions_are_kept_and_increments_where_they_are_undone(
        percent in [100..300_u64, 100..400_u64],
        deeds in prop::collection::vec(deed(), 1..20),
    ) {
        let mut client = Client { percent, ..Client::default() };
        client.turn([1, 0, 1, 1], 1, true, true);
        let mut compacted = false;
        for deed in &deeds {
            let is_left_out = match deed {
                Deed::Clearing => true,
                // Sizes behind a compaction are not known well enough to take some of them back.
                Deed::Rewind { .. } => compacted,
                _ => false,
            };
            if !is_left_out {
                client.act(deed);
            }
            compacted = matches!(deed, Deed::Compaction { .. }) || (compacted && !matches!(deed, Deed::Clear));
        }
        let base = client.compiled();
        let billed = |s: &Session| -> Vec<(usize, i128)> {
            let totals = prompt_totals(s).into_iter().zip(&s.steps).enumerate();
            totals
                .filter_map(|(k, (total, step))| Some((k, i128::from(total) - i128::from(step.recorded?.prompt_tokens()))))
                .collect()
        };
        for (k, off) in billed(&base.view(RecordedCompactions::Keep)) {
            prop_assert_eq!(off, 0, "kept, request {}", k);
        }
        let s = base.view(RecordedCompactions::Undo);
        let mut expected = Off::Known(0);
        let mut events = s.events.iter().peekable();
        for (k, off) in billed(&s) {
            while let Some(event) = events.next_if(|event| event.before_step as usize <= k) {
                match event.kind {
                    EventKind::RecordedCompaction { .. } => expected = Off::Unknown,
                    EventKind::BlocksDropped { reason: DropReason::Clear, .. } => expected = Off::Known(0),
                    _ => {}
                }
            }
            if let Off::Known(expected) = expected {
                prop_assert_eq!(off, expected, "undone, request {}", k);
            }
            expected = Off::Known(off);
        }
    }
}
