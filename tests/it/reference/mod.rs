//! The engine against the naive reference: the same usage, drops, mismatches and refusals on thousands of
//! random small sessions, and proof that the same sessions would find each of a list of mistakes.

mod caches;
mod client;
mod naive;

use std::sync::LazyLock;

use ctxsim::provider::{
    Account, Answer, Marker, ModelSpec, Models, Params, Provider, RejectionKind, Request, SentBlock,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use client::{Client, Edit, MINIMUM_TOKENS, Step, place_markers, step};
use naive::{Cache, Fault, Naive, Outcome, Rules};

const WINDOW_TOKENS: u64 = 700;

/// One request as sent, with the model it went to, and the response it got.
struct Sent {
    at_ms: i64,
    ttft_ms: u32,
    blocks: Vec<SentBlock>,
    changed_from: usize,
    markers: Vec<Marker>,
    automatic: Option<ctxsim::provider::Ttl>,
    params: Params,
    tail_tokens: u32,
    other_model: bool,
    aside: bool,
    response: Vec<SentBlock>,
    outcome: Outcome,
}

impl Sent {
    fn request(&self) -> Request<'_> {
        Request {
            at_ms: self.at_ms,
            ttft_ms: self.ttft_ms,
            blocks: &self.blocks,
            changed_from: self.changed_from,
            change: None,
            markers: &self.markers,
            automatic: self.automatic,
            params: self.params,
            tail_tokens: self.tail_tokens,
            max_output_tokens: 40,
        }
    }
}

/// Kinds of models a session can run on: binding, thinking, account, cache.
const KINDS: [(&str, &str, Account, Cache); 10] = [
    ("always", "keep_all", Account::Unenforced, Cache::Breakpoints),
    ("by_account", "keep_all", Account::Enforced, Cache::Breakpoints),
    ("by_account", "keep_all", Account::Unenforced, Cache::Breakpoints),
    ("none", "keep_all", Account::Enforced, Cache::Breakpoints),
    ("none", "current_turn", Account::Enforced, Cache::Breakpoints),
    ("none", "keep_all", Account::Enforced, Cache::MessageEnds { writes: 3, endings: 2, first: 1, last: 2 }),
    (
        "none",
        "keep_all",
        Account::Enforced,
        Cache::Prefix { step: 16, offset: 3, answers: false, recomputes_last: false, most: u64::MAX },
    ),
    (
        "none",
        "current_turn",
        Account::Enforced,
        Cache::Prefix { step: 8, offset: 0, answers: true, recomputes_last: true, most: 203 },
    ),
    ("always", "keep_all", Account::Unenforced, Cache::Units { interval: 0 }),
    ("none", "keep_all", Account::Enforced, Cache::Units { interval: 64 }),
];

/// The cache in a model file.
fn cache_toml(cache: Cache) -> String {
    match cache {
        Cache::Breakpoints => String::new(),
        Cache::MessageEnds { writes, endings, first, last } => format!(
            "cache.kind = \"message_ends\"\ncache.max_writes = {writes}\ncache.lookback_endings = {endings}\n\
             cache.lookup_first_markers = {first}\ncache.lookup_last_markers = {last}\n"
        ),
        Cache::Prefix { step, offset, answers, recomputes_last, most } => format!(
            "cache.kind = \"prefix\"\ncache.grid_tokens = {step}\ncache.grid_offset_tokens = {offset}\n\
             cache.covers_answers = {answers}\ncache.recomputes_last_token = {recomputes_last}\n{}",
            if most < u64::MAX { format!("cache.cacheable_max_tokens = {most}\n") } else { String::new() }
        ),
        Cache::Units { interval } => {
            format!("cache.kind = \"prefix_units\"\ncache.interval_tokens = {interval}\n")
        }
    }
}

fn models(kind: usize) -> &'static Models {
    static MODELS: LazyLock<Vec<Models>> = LazyLock::new(|| (0..KINDS.len()).map(build_models).collect());
    &MODELS[kind]
}

fn build_models(kind: usize) -> Models {
    let (binding, thinking, _, cache) = KINDS[kind];
    let mut models = Models::builtin().unwrap();
    let mut text = String::new();
    for (id, reads) in [("reads-all", "*"), ("reads-own", "reads-own")] {
        text += &format!(
            "[[model]]\nid = \"{id}\"\nlike = \"claude-opus-5-5\"\nbinding = \"{binding}\"\nthinking = \"{thinking}\"\n\
             window_tokens = {WINDOW_TOKENS}\nreads = [\"{reads}\"]\nreads_not = []\n\
             cache.minimum_tokens = {MINIMUM_TOKENS}\n{}",
            cache_toml(cache)
        );
    }
    models.add_toml(&text, "test").unwrap();
    models
}

fn rules(kind: usize, other_model: bool) -> Rules {
    let (binding, thinking, account, cache) = KINDS[kind];
    Rules {
        cache,
        model: u64::from(other_model),
        minimum_tokens: MINIMUM_TOKENS,
        window_tokens: WINDOW_TOKENS,
        checks_prefix: binding != "none",
        unset_is_error: binding == "always" || account == Account::Enforced,
        strips_old_thinking: thinking == "current_turn",
    }
}

/// Plays a session against the engine and keeps what was sent and answered.
fn play(kind: usize, system_tokens: u32, steps: &[Step]) -> Vec<Sent> {
    let models = models(kind);
    let model =
        |other: bool| -> &ModelSpec { models.get(if other { "reads-own" } else { "reads-all" }).unwrap() };
    let mut provider = Provider::new(model(false), KINDS[kind].2);
    let mut client = Client::new(system_tokens);
    let (mut at_ms, mut response, mut other_model) = (0, Vec::new(), false);
    let mut before: Vec<SentBlock> = Vec::new();
    let mut log: Vec<Sent> = Vec::new();
    for step in steps {
        at_ms += step.gap_ms;
        step.edits.iter().for_each(|&edit| client.edit(edit));
        client.say(&response, step.new_blocks, step.at_minimum);
        let blocks = client.wire();
        let same = before.iter().zip(&blocks).take_while(|(a, b)| a == b).count();
        let mut sent = Sent {
            at_ms,
            ttft_ms: step.ttft_ms,
            changed_from: same.saturating_sub(step.caution),
            markers: if marks(kind, step) { place_markers(step, &blocks) } else { Vec::new() },
            blocks,
            automatic: step.automatic,
            params: step.params,
            tail_tokens: step.tail_tokens,
            other_model,
            aside: step.aside,
            response: Vec::new(),
            outcome: Ok(Default::default()),
        };
        if step.aside {
            sent.outcome = outcome(provider.send_aside(model(step.other_model), &sent.request()), &[]);
            sent.other_model = step.other_model;
            log.push(sent);
            response = Vec::new();
            continue;
        }
        if step.other_model {
            other_model = !other_model;
            sent.other_model = other_model;
            provider.set_model(model(other_model));
        }
        let answer = provider.send(&sent.request());
        sent.outcome = outcome(answer, provider.dropped_thinking());
        before.clone_from(&sent.blocks);
        response = Vec::new();
        if sent.outcome.is_ok() {
            response = client.respond(step.response);
            let ids: Vec<u32> = response
                .iter()
                .filter(|b| b.kind == ctxsim::provider::SentKind::Thinking)
                .map(|b| b.link)
                .collect();
            provider.answered(&ids);
            sent.response.clone_from(&response);
        } else if matches!(sent.outcome, Err((RejectionKind::Overflow { .. }, _))) {
            client.edit(Edit::Rewind(4));
        }
        log.push(sent);
    }
    log
}

/// Whether the step's markers are sent: always where nothing is cached without, else in some steps.
fn marks(kind: usize, step: &Step) -> bool {
    matches!(KINDS[kind].3, Cache::Breakpoints) || step.long_markers > 2
}

fn outcome(answer: Answer, dropped: &[u32]) -> Outcome {
    match answer {
        Answer::Done(done) => Ok((done.usage, dropped.to_vec(), done.allowed_mismatches)),
        Answer::Rejected(rejection) => Err((rejection.kind, rejection.block)),
    }
}

/// Sends the same requests to the reference; the first one that comes out differently.
fn first_difference(kind: usize, log: &[Sent], fault: Fault) -> Option<(usize, Outcome)> {
    let mut naive = Naive::new(fault);
    log.iter().enumerate().find_map(|(i, sent)| {
        let rules = rules(kind, sent.other_model);
        let mut found = naive.send(&rules, &sent.request(), sent.aside);
        if !sent.aside && found.is_ok() {
            naive.answered(&rules, &sent.response);
        }
        if let (true, Ok((_, dropped, _))) = (sent.aside, &mut found) {
            dropped.clear();
        }
        (found != sent.outcome).then_some((i, found))
    })
}

/// Kind of model, size of the system prompt (below or above the minimum with the tools), and steps; most
/// sessions place their markers in one way throughout.
fn session() -> impl Strategy<Value = (usize, u32, Vec<Step>)> {
    let steps = proptest::collection::vec(step(), 2..9);
    (0..KINDS.len(), prop_oneof![Just(25u32), Just(90)], steps, any::<[bool; 2]>()).prop_map(
        |(kind, system_tokens, mut steps, [same_markers, same_lives])| {
            let first = steps[0].clone();
            for step in &mut steps {
                if same_markers {
                    step.markers.clone_from(&first.markers);
                }
                if same_lives {
                    step.long_markers = first.long_markers;
                }
            }
            (kind, system_tokens, steps)
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: Config::default().cases.max(4_096), failure_persistence: None, ..Config::default() })]

    #[test]
    fn engine_and_reference_agree((kind, system_tokens, steps) in session()) {
        let log = play(kind, system_tokens, &steps);
        if let Some((i, found)) = first_difference(kind, &log, Fault::None) {
            prop_assert!(false, "request {i}: engine {:?}, reference {found:?}", log[i].outcome);
        }
    }
}

#[test]
fn every_seeded_fault_is_caught() {
    use Fault::*;
    let mut faults = vec![
        LookbackOneLess,
        LookbackOneMore,
        ExpiryOneEarly,
        ExpiryOneLate,
        RefreshOff,
        RefreshMatchedOnly,
        RefreshAll,
        WriteBelowMinimum,
        MinimumExclusive,
        PredecessorIgnored,
        ModelDropsAreNoPredecessors,
        ThinkingInPrefix,
        ToolsOrdered,
        MixedTtlOrder,
        DroppedLosesPosition,
        DroppedIsBilled,
        DroppedHashedAsKept,
        LifeFromResponseEnd,
        ReadableAtOnce,
        RejectedStillWrites,
        ParametersIgnored,
        PlaceholderBreaksBinding,
        DeferredToolsCount,
        StrippedKeepsPosition,
        FiveMarkers,
        EndingsOneLess,
        EndingsOneMore,
        LengthenedMessageHits,
        ImplicitNotWritten,
        GridRoundsUp,
        AnswersNotCovered,
        SharedPrefixNotPersisted,
        PrefixNotRefreshed,
        AnyPrefixIsAUnit,
        LimitIgnored,
    ];
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let sessions = session();
    for case in 0..8_192 {
        let (kind, system_tokens, steps) = sessions.new_tree(&mut runner).unwrap().current();
        let log = play(kind, system_tokens, &steps);
        assert!(first_difference(kind, &log, Fault::None).is_none(), "session {case}");
        faults.retain(|&fault| {
            let caught = first_difference(kind, &log, fault).is_some();
            if caught {
                println!("{fault:?}: caught by session {case}");
            }
            !caught
        });
        if faults.is_empty() {
            return;
        }
    }
    panic!("8,192 sessions do not tell these mistakes from the engine: {faults:?}");
}
