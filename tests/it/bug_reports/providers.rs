//! What breaks a provider's cache, and what looks like it (reports 32 to 35, 37, 38, 40, 41 and 50 of the collection).

use std::path::Path;

use ctxsim::cause::Cause;
use ctxsim::generate::ConstantGrowth;
use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::policy::PolicySpec;
use ctxsim::provider::{Account, Answer, ModelSpec, Models, SentBlock, SentKind, Ttl};
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::session::{Event, EventKind, PrefixBlock, Session};
use ctxsim::sim::{FullRecorder, RequestRow, RunOptions, Scratch, run};
use ctxsim::validate::{Fits, Options, Pair, validate};

use crate::audit_support::{EVENING_MS, Log, implicit, long};
use crate::policy_support::{base, simulate, with_human_turns, with_prompt};
use crate::provider_support::{Talk, block, classes, model};

const MINUTE_MS: i64 = 60_000;

/// Texts of so many tokens each, the first of them number `first`.
fn texts(first: u64, count: u64, tokens: u32) -> impl Iterator<Item = SentBlock> {
    (first..first + count).map(move |n| block(SentKind::Text, tokens, 10_000 + n))
}

/// Share of `part` in `whole`, in hundredths, half up.
fn percent(part: u64, whole: u64) -> u64 {
    (200 * part + whole) / (2 * whole)
}

/// joshuadavidthomas/opencode-agent-memory#20 and seven others: a timestamp below a day, or a random id, in the system
/// prompt. Whatever the cache, a request reads what stands in front of it and no more: 94 % became 15 %.
#[test]
fn a_volatile_byte_pins_every_read_to_what_stands_before_it() {
    // Thirty requests of 5,480 tokens each behind 15,000 that stay the same.
    let reads = |id: &str, volatile: bool| -> (Vec<u64>, u64) {
        let mut talk = Talk::new(model(id), Account::Enforced);
        let mut prompts = 0;
        let reads = (1..=30).map(|request| {
            let version = if volatile { request } else { 0 };
            let head = [(12_000, 1), (3_000, 2), (20, 100 + version)];
            let kinds = [SentKind::Tool, SentKind::System, SentKind::System];
            let head = kinds.into_iter().zip(head).map(|(kind, (tokens, hash))| block(kind, tokens, hash));
            let blocks: Vec<SentBlock> = head.chain(texts(0, request, 5_480)).collect();
            let markers = if id.starts_with("claude") { vec![1, blocks.len() - 1] } else { Vec::new() };
            let usage = talk.served(request as i64 * 10_000, &blocks, &markers).usage;
            prompts += usage.prompt_tokens();
            usage.cache_read_tokens
        });
        (reads.collect(), prompts)
    };
    // To the token at a breakpoint and where there is no grid, else to its step.
    for (id, before) in [("claude-opus-5", 15_000), ("gpt-5.4", 14_976), ("glm-5.3", 15_000)] {
        let (pinned, prompts) = reads(id, true);
        assert_eq!(pinned[0], 0, "{id}");
        assert!(pinned[1..].iter().all(|read| *read == before), "{id}: {pinned:?}");
        assert!((14..=15).contains(&percent(pinned.iter().sum(), prompts)), "{id}: {prompts}");
        assert_eq!(percent(30 * before, prompts), 15, "{id}");
        let (healthy, prompts) = reads(id, false);
        assert_eq!(percent(healthy.iter().sum(), prompts), 94, "{id}");
    }
}

/// Requests that missed for a cause, and what they read.
fn missed(session: &Session, model: &ModelSpec, policy: &str, cause: Cause) -> Vec<(u32, u64)> {
    let rows = rows(session, model, policy);
    let missed = rows.iter().filter(|row| row.miss_cause == Some(cause));
    missed.map(|row| (row.request, row.usage.cache_read_tokens)).collect()
}

/// zeroclaw-labs/zeroclaw#10858: the date in the system prompt of a session of 340,000 tokens: at midnight where the
/// client is, the tools are read, 22,126 tokens, and everything else is written again. With the date of its start,
/// nothing is.
#[test]
fn a_date_in_the_system_prompt_breaks_once_at_local_midnight() {
    let growth = ConstantGrowth { requests: 12, tools_tokens: 22_126, system_tokens: 3_000, ..base() };
    let mut session = with_prompt(growth.session(), 313_400);
    let start_ms = EVENING_MS - 120 * MINUTE_MS;
    for (step, k) in session.steps.iter_mut().zip(0..) {
        step.start_ms = Some(start_ms + k * 25 * MINUTE_MS);
    }
    // 21:30 UTC is half past eleven in the evening two hours to the east.
    for (hours_east, request) in [(0, 7), (2, 3)] {
        let mut dated = session.clone();
        let day = |ms: i64| (ms + hours_east * 60 * MINUTE_MS).div_euclid(24 * 60 * MINUTE_MS);
        let starts: Vec<i64> = session.steps.iter().filter_map(|step| step.start_ms).collect();
        for (k, pair) in (1..).zip(starts.windows(2)) {
            if day(pair[0]) != day(pair[1]) {
                let system = vec![PrefixBlock { hash: day(pair[1]) as u64, tokens: 3_000 }];
                dated.events.push(Event { before_step: k, kind: EventKind::SystemChanged { system } });
            }
        }
        let opus = model("claude-opus-5");
        let found = missed(&dated, opus, "none:cache.ttl=1h", Cause::PrefixSystem);
        assert_eq!(found, [(request, 22_126)], "{hours_east}");
        assert_eq!(missed(&session, opus, "none:cache.ttl=1h", Cause::PrefixSystem), [], "pinned");
        let healthy = rows(&session, opus, "none:cache.ttl=1h");
        let rate = |row: &RequestRow| percent(row.usage.cache_read_tokens, row.usage.prompt_tokens());
        assert!(healthy[1..].iter().all(|row| rate(row) > 99));
        let cost = rows(&dated, opus, "none:cache.ttl=1h")[request as usize - 1].cost_pusd;
        assert!((3_175..3_290).contains(&(cost / 1_000_000_000)), "{cost}: $3.19, and some output");
    }
}

/// can1357/oh-my-pi#890: a server of tools that reconnects every few minutes comes back in another order: twelve misses in
/// a hundred turns, each from the first block on. rynfar/meridian#367: 7, 10 and 18 tools in one session, each time 0 %.
#[test]
fn tools_in_another_order_are_told_from_other_tools() {
    let session = ConstantGrowth { requests: 100, ..base() }.session();
    let tool = |hash: u64| PrefixBlock { hash, tokens: 1_000 };
    let changed = |changes: Vec<(u32, Vec<PrefixBlock>)>| {
        let mut session = session.clone();
        session.prefix.tools = (101..=107).map(tool).collect();
        let event = |(before_step, tools)| Event { before_step, kind: EventKind::ToolsChanged { tools } };
        session.events = changes.into_iter().map(event).collect();
        session
    };
    let opus = model("claude-opus-5");
    let reordered = (1..=12).map(|n| (8 * n, (0..7).map(|i| tool(101 + (i + u64::from(n)) % 7)).collect()));
    let reordered = changed(reordered.collect());
    let found = missed(&reordered, opus, "none", Cause::PrefixToolOrder);
    // The seventh order is the first again, but its entry has expired.
    assert_eq!(found, (1..=12).map(|n| (8 * n + 1, 0)).collect::<Vec<_>>());
    assert_eq!(missed(&reordered, opus, "none", Cause::PrefixTools), []);
    // Sorted by name, the new ones come first.
    let grown = changed(vec![(30, (98..=107).map(tool).collect()), (60, (90..=107).map(tool).collect())]);
    assert_eq!(missed(&grown, opus, "none", Cause::PrefixTools), [(31, 0), (61, 0)]);
}

/// A session of sixty requests of about 130,000 tokens, in which somebody speaks at every tenth.
fn spoken_to() -> Session {
    let growth = ConstantGrowth { requests: 60, tools_tokens: 10_400, system_tokens: 1_000, ..base() };
    with_human_turns(with_prompt(growth.session(), 118_000), 10)
}

/// Hit rates in hundredths of the requests that somebody's words started and of those that results did, the first left
/// out.
fn by_trigger(session: &Session) -> [Vec<u64>; 2] {
    let (_, record) = simulate(session, "");
    let rows = session.steps.iter().zip(&record.requests).skip(1);
    let rate = |row: &RequestRow| percent(row.usage.cache_read_tokens, row.usage.prompt_tokens());
    let (user, tool): (Vec<_>, Vec<_>) = rows.partition(|(step, _)| step.human_turn);
    [user, tool].map(|rows| rows.into_iter().map(|(_, row)| rate(row)).collect())
}

/// timgordontg/engrim#20: a slice of memory for each prompt, in the system prompt: the request after it hits 8 %, those
/// of the tool loop all; attached to the user's message, both do.
#[test]
fn a_slice_of_memory_in_the_system_prompt_misses_at_each_word_of_the_user() {
    let mut in_system = spoken_to();
    let turns = |session: &Session| -> Vec<usize> {
        (1..session.steps.len()).filter(|k| session.steps[*k].human_turn).collect()
    };
    for step in turns(&in_system) {
        let system = vec![PrefixBlock { hash: 1_000 + step as u64, tokens: 1_000 }];
        in_system.events.push(Event { before_step: step as u32, kind: EventKind::SystemChanged { system } });
    }
    let [user, tool] = by_trigger(&in_system);
    assert_eq!((user.len(), tool.len()), (5, 54));
    assert!(user.iter().all(|rate| *rate == 8), "{user:?}");
    assert!(tool.iter().all(|rate| *rate == 100), "{tool:?}");
    let mut attached = spoken_to();
    for step in turns(&attached) {
        let block = attached.steps[step].input.start as usize;
        attached.blocks.tokens[block] += 1_000;
    }
    let [user, tool] = by_trigger(&attached);
    assert!(user.iter().all(|rate| *rate == 99) && tool.iter().all(|rate| *rate == 100), "{user:?} {tool:?}");
}

/// multica-ai/multica#6008: CLAUDE.md written anew at every run, so that each resume wrote all of the conversation: 12,818
/// tokens a request. Written only when it changes, the first resume after the upgrade misses once, and 5,033 are
/// left, 61 % less.
#[test]
fn a_file_that_every_run_writes_anew_costs_its_conversation_at_each() {
    let mut talk = Talk::new(model("claude-opus-5"), Account::Enforced);
    let mut sent = 0;
    // Tokens written by so many requests, the file being what it is then.
    let mut run = |version: u64, requests: u64| -> u64 {
        let mut written = 0;
        for _ in 0..requests {
            sent += 1;
            let head = [block(SentKind::Tool, 9_000, 1), block(SentKind::System, 22_487, 100 + version)];
            let blocks: Vec<SentBlock> = head.into_iter().chain(texts(0, sent, 5_033)).collect();
            let at_ms = sent as i64 * 10_000;
            written += talk.served(at_ms, &blocks, &[0, blocks.len() - 1]).usage.cache_write_5m_tokens;
        }
        written
    };
    assert_eq!(run(0, 1), 9_000 + 22_487 + 5_033, "everything once");
    let before: Vec<u64> = (1..=3).map(|version| run(version, 10)).collect();
    let migrating = run(10, 10);
    let after: Vec<u64> = (0..3).map(|_| run(10, 10)).collect();
    let mean = |written: &[u64]| written.iter().sum::<u64>() / (10 * written.len() as u64);
    // What a resume writes again: the file, and the conversation so far.
    let again = |requests: u64| 22_487 + requests * 5_033;
    assert_eq!(migrating, again(31) + 10 * 5_033, "the first resume misses once");
    assert_eq!((mean(&before), mean(&after)), (12_818, 5_033));
    assert_eq!(percent(12_818 - 5_033, 12_818), 61);
}

/// lidge-jun/opencodex#5569: a catalogue of skills, 7,000 tokens, derived from disk at each turn: 17.22 % of the first
/// requests of a turn created everything anew. Edits in 31 of 180 turns do; a catalogue that is frozen never breaks.
#[test]
fn a_catalogue_read_from_disk_breaks_at_its_block_when_a_file_was_edited() {
    let breaks = |frozen: bool| -> Vec<(u64, u64)> {
        let mut talk = Talk::new(model("claude-opus-5"), Account::Enforced);
        let (mut edits, mut requests, mut found) = (0, 0, Vec::new());
        for turn in 0..180 {
            // 31 edits, spread over the turns behind the first.
            edits += u64::from(turn > 0 && turn * 31 / 180 > (turn - 1) * 31 / 180);
            edits += u64::from(turn == 179);
            for _ in 0..2 {
                requests += 1;
                let catalogue = block(SentKind::System, 7_000, 100 + if frozen { 0 } else { edits });
                let head = [block(SentKind::Tool, 9_000, 1), block(SentKind::System, 4_000, 2), catalogue];
                let blocks: Vec<SentBlock> = head.into_iter().chain(texts(0, requests, 50)).collect();
                let usage = talk.served(requests as i64 * 10_000, &blocks, &[1, blocks.len() - 1]).usage;
                let healthy = 20_000 + (requests - 1) * 50;
                if requests > 1 && usage.cache_read_tokens < healthy {
                    found.push((requests, usage.cache_read_tokens));
                }
            }
        }
        assert_eq!(edits, 31);
        found
    };
    let found = breaks(false);
    assert_eq!((found.len(), 31 * 10_000 / 180), (31, 1_722));
    assert!(found.iter().all(|(request, read)| request % 2 == 1 && *read == 13_000), "{found:?}");
    assert_eq!(breaks(true), []);
}

/// A model file over `like`.
fn changed(like: &str, lines: &str) -> ModelSpec {
    let mut models = Models::builtin().unwrap();
    models.add_toml(&format!("[[model]]\nid = \"x\"\nlike = \"{like}\"\n{lines}"), "test").unwrap();
    models.get("x").unwrap().clone()
}

fn session_of(log: &Log) -> Session {
    let text = log.text();
    let recordings = ingest::read(text.as_bytes(), Path::new("log"), &ReadOptions::default()).unwrap();
    let [Recording::Transcript(transcript)] = &recordings[..] else { panic!("one session") };
    compile(transcript, &CompileOptions::default()).view(RecordedCompactions::Keep).into_owned()
}

fn rows(session: &Session, model: &ModelSpec, policy: &str) -> Vec<RequestRow> {
    let strategy = policy.parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
    let strategy = strategy.strategy(model, &Models::builtin().unwrap()).unwrap();
    let (mut record, options) = (FullRecorder::default(), RunOptions::default());
    run(session, &strategy, model, &options, &mut Scratch::default(), &mut record);
    record.requests
}

/// openclaw/openclaw#138041: 544 calls of 206,089 to 857,434 tokens that all read 10,752. The same prompts, each the one
/// before and more, should hit: so it is the provider's doing, and the audit says so. With a limit to what can be read
/// the simulator reads what was billed.
#[test]
fn a_cliff_of_the_provider_is_what_the_simulator_would_have_read() {
    let mut log = Log::new(Some(EVENING_MS - 80_000_000));
    log.model("gpt-5.4");
    for i in 0..544 {
        log.request(implicit(206_089 + i * 1_199, 10_752));
    }
    let session = session_of(&log);
    let should = rows(&session, model("gpt-5.4"), "none");
    let hit = |row: &RequestRow| percent(row.usage.cache_read_tokens, row.usage.prompt_tokens());
    assert!(should[1..].iter().all(|row| hit(row) >= 99 && row.miss_cause.is_none()));
    let audit = log.audit();
    assert_eq!(audit.sums.miss(Cause::ProviderSide).requests, 543);
    assert_eq!(audit.sums.miss(Cause::PrefixUnknown).requests, 0);
    let limited = changed("gpt-5.4", "cache.cacheable_max_tokens = 10752\n");
    let found = rows(&session, &limited, "none");
    let reads: Vec<u64> = found[1..].iter().map(|row| row.usage.cache_read_tokens).collect();
    assert_eq!(reads, vec![10_752; 543]);
    assert!(found[1..].iter().all(|row| row.miss_cause == Some(Cause::ProviderSide)));
    assert!(found.iter().all(|row| row.usage.cache_write_tokens() == 0));
}

/// openai/codex#20301: 4,608 tokens for two hundred turns. A limit that is no point of the grid is rounded down to one,
/// and what is shorter is read whole.
#[test]
fn a_limit_to_what_is_read_is_rounded_to_the_grid() {
    let limited = changed("gpt-5.4", "cache.cacheable_max_tokens = 4700\n");
    let mut talk = Talk::new(&limited, Account::Enforced);
    let reads: Vec<u64> = (1..=202)
        .map(|turn| {
            let blocks: Vec<SentBlock> = texts(0, turn, 1_280).collect();
            talk.served(turn as i64 * 1_000, &blocks, &[]).usage.cache_read_tokens
        })
        .collect();
    assert_eq!(reads[..5], [0, 1_280, 2_560, 3_840, 4_608]);
    assert_eq!(reads[5..], [4_608; 197]);
}

/// anthropics/claude-code#93490: a resume sends the second message, 26,285 characters, as a plain string and no longer as
/// a list of blocks: everything behind what stands before it misses. #43657: the list of skills moves from the first
/// message to the new one. #51764: pairs with the same gap but no resume hit, 41 to 99 points more.
#[test]
fn a_resume_that_serialises_anew_breaks_at_the_first_block_that_differs() {
    let head = || [block(SentKind::Tool, 11_000, 1), block(SentKind::System, 3_500, 2)];
    let skills = block(SentKind::Text, 375, 3);
    let as_blocks = block(SentKind::Text, 6_571, 4);
    let as_string = block(SentKind::Text, 6_571, 5);
    let conversation = |front: &[SentBlock], turns: u64, new: &[SentBlock]| -> Vec<SentBlock> {
        head()
            .into_iter()
            .chain(front.iter().copied())
            .chain(texts(0, turns, 5_000))
            .chain(new.iter().copied())
            .collect()
    };
    for gap_minutes in [3, 12, 28] {
        let read = |first: &[SentBlock], resumed: &[SentBlock]| -> (u64, u64) {
            let mut talk = Talk::new(model("claude-opus-5"), Account::Enforced);
            let mut send = |at_ms: i64, blocks: &[SentBlock]| {
                let answer = talk.send(at_ms, blocks, &[1, blocks.len() - 1], Ttl::Long);
                let Answer::Done(done) = answer else { panic!("{answer:?}") };
                let [read, _, _, uncached] = classes(&done);
                assert_eq!(uncached, 0);
                (read, done.usage.prompt_tokens())
            };
            send(0, first);
            send(gap_minutes * MINUTE_MS, resumed)
        };
        let fresh = conversation(&[skills, as_blocks], 20, &[]);
        let (control, prompt) = read(&fresh, &conversation(&[skills, as_blocks], 21, &[]));
        assert_eq!((control, prompt), (14_500 + 375 + 6_571 + 100_000, 126_446), "the same gap, no resume");
        let (resumed, _) = read(&fresh, &conversation(&[skills, as_string], 21, &[]));
        let (moved, _) = read(&fresh, &conversation(&[as_blocks], 21, &[skills]));
        // Tools and system prompt, the last that is marked before the difference.
        assert_eq!((resumed, moved), (14_500, 14_500));
        let points = percent(control, prompt) - percent(resumed, prompt);
        assert!((41..=99).contains(&points), "{points}");
    }
}

/// cortexkit/anthropic-auth#157: 27 full busts in 4,621 large turns: 3 behind a gap of more than an hour, 5 at the first
/// turn, 1 at another model, and 18 with nothing to explain them. The prompts of these grew by appending, so the simulator
/// reads them from the cache; the audit calls them the provider's, and `validate` unexplained.
#[test]
fn busts_that_nothing_explains_are_predicted_as_hits() {
    let models = Models::builtin().unwrap();
    let (mut turns, mut first, mut expired, mut switched) = (0, 0, 0, 0);
    let (mut unexplained, mut pairs, mut predicted) = (0, 0, 0);
    for number in 0..5_u64 {
        let requests = if number == 0 { 925 } else { 924 };
        // Busts by request: gaps in three sessions, another model in the fourth, and 18 over all of them.
        let gap = (number < 3).then_some(600);
        let other_model = (number == 3).then_some(requests - 1);
        let unlucky: Vec<u64> = (0..18).filter(|i| i % 5 == number).map(|i| 50 + i * 30).collect();
        let mut log = Log::new(Some(EVENING_MS - 80_000_000));
        for request in 0..requests {
            let prompt = 60_000 + request * 150;
            let is_bust = request == 0
                || gap == Some(request)
                || other_model == Some(request)
                || unlucky.contains(&request);
            if gap == Some(request) {
                log.pause(61 * MINUTE_MS);
            }
            if let Some(i) = unlucky.iter().position(|at| *at == request) {
                // 0.2 to 3.0 minutes, the ten seconds of every request included.
                log.pause([2_000, 60_000, 120_000, 170_000][i]);
            }
            if other_model == Some(request) {
                log.model("claude-opus-5-5");
            }
            log.request(if is_bust { long(0, prompt) } else { long(prompt - 150, 150) });
        }
        let audit = log.audit();
        let of = |cause: Cause| audit.sums.miss(cause).requests;
        let of_provider: Vec<u64> = audit
            .breaks
            .iter()
            .filter(|b| b.cause == Cause::ProviderSide)
            .map(|b| u64::from(b.request) - 1)
            .collect();
        assert_eq!(of_provider, unlucky);
        turns += requests;
        first += of(Cause::ColdStart);
        expired += of(Cause::TtlExpired);
        switched += of(Cause::PrefixModel);
        let session = session_of(&log);
        let found = rows(&session, model("claude-opus-5"), "none:cache.ttl=1h");
        for request in &unlucky {
            let row = &found[*request as usize];
            predicted += u64::from(row.miss_cause.is_none() && row.usage.cache_read_tokens > 50_000);
        }
        let report = validate(&session, &models, &Fits::default(), &Options::default());
        pairs += report.pairs.len() as u64;
        let is_unexplained = |pair: &&Pair| pair.cause.is_some() && !pair.is_evident;
        unexplained += report.pairs.iter().filter(is_unexplained).count();
    }
    assert_eq!((turns, first, expired, switched), (4_621, 5, 3, 1));
    assert_eq!((predicted, unexplained, pairs), (18, 18, 4_616));
}
