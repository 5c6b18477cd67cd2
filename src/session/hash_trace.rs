//! Requests that are known by the hashes of their prompts' blocks → sessions.
//!
//! Hash blocks have a fixed size and no meaning; a position of a prompt is a content block. So hash blocks that
//! always follow each other, in every request of a trace, become one block: a run ends where some request
//! ends, or where two requests go on differently. Equal runs have equal hashes in all sessions of a trace.
//! What is behind the last whole block of a prompt is the tail of its request, by the hash that the trace has for it.
//!
//! # Divergence from the real API
//!
//! What the model answered cannot be told from what was sent behind it: answers have no blocks of their own,
//! and come with the next input. All content is text of the user. Characters are not recorded, so sizes are
//! what the tokens make by the tokenizer's coefficient, on one line. What was read from a cache is not
//! recorded: requests have no usage.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::Xxh3;

use crate::session::{
    Block, BlockKind, Blocks, DropReason, Event, EventKind, Facts, Flags, NONE, Origin, Prefix, PrefixBlock,
    Session, Step,
};
use crate::tokens::Tokenizer;

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HashedRequest {
    /// Start, milliseconds from any origin.
    pub start_ms: Option<i64>,
    /// From start to the end of the answer.
    pub duration_ms: u32,
    /// Hashes of the prompt's blocks, in order. Each stands for all blocks up to it.
    pub ids: Vec<u64>,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// What was added was typed by a user.
    pub is_human: bool,
}

/// A session in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HashedSession {
    /// Its id.
    pub id: String,
    /// Session that started it.
    pub parent: Option<String>,
    /// Model as recorded; may be empty.
    pub model: String,
    /// Tokens of the tool definitions at the head of each prompt, and of the system prompt behind them.
    pub head_tokens: (u64, u64),
    /// In order.
    pub requests: Vec<HashedRequest>,
}

/// Sessions whose hashes are of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HashedTrace {
    /// Recording format.
    pub format: String,
    /// Mixed into all hashes: hashes that mean something in one file only have its name here.
    pub scope: String,
    /// Tokens of a hash block.
    pub block_tokens: u64,
    /// The sessions.
    pub sessions: Vec<HashedSession>,
}

impl HashedTrace {
    /// Compiles all sessions.
    pub fn sessions(&self) -> Vec<Session> {
        let ends = self.ends();
        self.sessions.iter().map(|session| Builder::new(self, session).build(session, &ends)).collect()
    }

    /// Hash blocks that a run ends with.
    fn ends(&self) -> BTreeSet<u64> {
        let mut ends = BTreeSet::new();
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for session in &self.sessions {
            let head = usize::try_from(self.head_blocks(session)).unwrap_or(0);
            for request in &session.requests {
                let (ids, _) = self.split(request);
                ends.extend(ids.last());
                ends.extend(head.checked_sub(1).and_then(|last| ids.get(last)));
                for pair in ids.windows(2) {
                    if *next.entry(pair[0]).or_insert(pair[1]) != pair[1] {
                        ends.insert(pair[0]);
                    }
                }
            }
        }
        ends
    }

    /// Whole blocks of a prompt, and the hash of what is behind them, if there is anything and it has one.
    fn split<'r>(&self, request: &'r HashedRequest) -> (&'r [u64], Option<u64>) {
        let whole = request.input_tokens / self.block_tokens.max(1);
        let whole = usize::try_from(whole).unwrap_or(usize::MAX).min(request.ids.len());
        let (ids, rest) = request.ids.split_at(whole);
        let is_unfilled = whole as u64 * self.block_tokens < request.input_tokens;
        (ids, rest.first().copied().filter(|_| is_unfilled))
    }

    /// The hash of hash blocks that follow each other.
    fn hash(&self, ids: &[u64]) -> u64 {
        let mut hash = Xxh3::with_seed(0);
        hash.update(self.scope.as_bytes());
        ids.iter().for_each(|id| hash.update(&id.to_le_bytes()));
        hash.digest()
    }

    /// Whole hash blocks at the head of all prompts of a session that hold its tools and system prompt.
    fn head_blocks(&self, session: &HashedSession) -> u64 {
        let (tools, system) = session.head_tokens;
        let Some(first) = session.requests.first() else { return 0 };
        let first = self.split(first).0;
        let common = |ids: &[u64]| ids.iter().zip(first).take_while(|(a, b)| a == b).count() as u64;
        let shared = session.requests.iter().map(|r| common(self.split(r).0)).min().unwrap_or(0);
        ((tools + system) / self.block_tokens.max(1)).min(shared)
    }
}

/// A run of hash blocks in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    hash: u64,
    tokens: u64,
}

struct Builder<'t> {
    trace: &'t HashedTrace,
    tokenizer: Tokenizer,
    blocks: Blocks,
    steps: Vec<Step>,
    events: Vec<Event>,
    /// Runs that are in the prompt, each with its block.
    live: Vec<(Run, u32)>,
}

impl<'t> Builder<'t> {
    fn new(trace: &'t HashedTrace, session: &HashedSession) -> Builder<'t> {
        let tokenizer = Tokenizer::of_model(&session.model);
        let (blocks, steps, events) = (Blocks::default(), Vec::new(), Vec::new());
        Builder { trace, tokenizer, blocks, steps, events, live: Vec::new() }
    }

    fn build(mut self, session: &HashedSession, ends: &BTreeSet<u64>) -> Session {
        let head = self.trace.head_blocks(session);
        let mut prefix = Prefix::default();
        let mut clock = i64::MIN;
        for (k, request) in session.requests.iter().enumerate() {
            let (runs, tail) = self.runs(request, ends);
            let (_, tail_id) = self.trace.split(request);
            let in_head = self.count_head(&runs, head);
            if k == 0 {
                prefix = head_of(&runs[..in_head], session.head_tokens.0);
            }
            let input = self.input(k, &runs[in_head..]);
            clock = clock.max(request.start_ms.unwrap_or(i64::MIN));
            self.steps.push(Step {
                facts: Facts::default(),
                output: input.end..input.end,
                input,
                start_ms: (clock > i64::MIN).then_some(clock),
                duration_ms: request.duration_ms,
                tail_tokens: clamp(tail),
                tail_hash: tail_id.map_or(0, |id| self.trace.hash(&[id])),
                output_tokens: clamp(request.output_tokens),
                human_turn: request.is_human,
                recorded: None,
            });
        }
        Session {
            id: session.id.clone(),
            parent: session.parent.clone(),
            origin: Origin {
                format: self.trace.format.clone(),
                agent: self.trace.format.clone(),
                agent_version: String::new(),
            },
            model: session.model.clone(),
            tokenizer: self.tokenizer,
            coefficients: self.tokenizer.coefficients(),
            prefix_is_measured: !prefix.tools.is_empty() || !prefix.system.is_empty(),
            prefix,
            warm_prefix_tokens: 0,
            tools: Vec::new(),
            calls: Vec::new(),
            blocks: self.blocks,
            result_parts: Vec::new(),
            steps: self.steps,
            events: self.events,
        }
    }

    /// The runs of a prompt, and the tokens behind the last of its whole hash blocks.
    fn runs(&self, request: &HashedRequest, ends: &BTreeSet<u64>) -> (Vec<Run>, u64) {
        let size = self.trace.block_tokens;
        let (ids, _) = self.trace.split(request);
        let run = |ids: &[u64]| Run { hash: self.trace.hash(ids), tokens: size * ids.len() as u64 };
        let runs: Vec<Run> = ids.split_inclusive(|id| ends.contains(id)).map(run).collect();
        (runs, request.input_tokens - size * ids.len() as u64)
    }

    /// Number of runs that make up the head.
    fn count_head(&self, runs: &[Run], head_blocks: u64) -> usize {
        let mut left = head_blocks.saturating_mul(self.trace.block_tokens);
        runs.iter()
            .take_while(|run| {
                let rest = left.checked_sub(run.tokens);
                left = rest.unwrap_or(0);
                rest.is_some()
            })
            .count()
    }

    /// Makes the prompt what `runs` say; gives the new blocks.
    fn input(&mut self, k: usize, runs: &[Run]) -> std::ops::Range<u32> {
        let shared = self.live.iter().zip(runs).take_while(|((old, _), new)| old == *new).count();
        for (_, block) in self.live.drain(shared..) {
            let before_step = clamp(k as u64);
            if let Some(Event { before_step: step, kind: EventKind::BlocksDropped { to, .. } }) =
                self.events.last_mut()
                && (*step, *to) == (before_step, block)
            {
                *to = block + 1;
                continue;
            }
            let kind =
                EventKind::BlocksDropped { from: block, to: block + 1, reason: DropReason::Unexplained };
            self.events.push(Event { before_step, kind });
        }
        let start = clamp(self.blocks.len() as u64);
        // A conversation is not empty, if nothing of it was recorded.
        let nothing = [Run { hash: 0, tokens: 0 }];
        let new = if runs.is_empty() && self.live.is_empty() { &nothing } else { &runs[shared..] };
        for run in new {
            let block = self.push(k, *run);
            self.live.push((*run, block));
        }
        start..clamp(self.blocks.len() as u64)
    }

    fn push(&mut self, k: usize, run: Run) -> u32 {
        let milli = u64::from(self.tokenizer.coefficients().text_milli).max(1);
        let chars = clamp(run.tokens.saturating_mul(1000) / milli);
        self.blocks.push(Block {
            kind: BlockKind::UserText,
            flags: if run.tokens > 0 { Flags::default() } else { Flags::SYNTHETIC.with(Flags::INJECTED) },
            message: clamp(k as u64),
            tool: NONE,
            call: NONE,
            hash: run.hash,
            tokens: clamp(run.tokens),
            utf16: chars,
            bytes: chars,
            lines: u32::from(chars > 0),
            json_utf16: chars,
            ascii: chars,
            args_utf16: 0,
        })
    }
}

/// Tool definitions and system prompt: the first run may hold both.
fn head_of(runs: &[Run], tool_tokens: u64) -> Prefix {
    let mut prefix = Prefix::default();
    let mut left = tool_tokens;
    for run in runs {
        let tools = run.tokens.min(left);
        left -= tools;
        for (tokens, list) in [(tools, &mut prefix.tools), (run.tokens - tools, &mut prefix.system)] {
            if tokens > 0 {
                list.push(PrefixBlock { hash: run.hash ^ tokens, tokens: clamp(tokens) });
            }
        }
    }
    prefix
}

fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{HashedRequest, HashedSession, HashedTrace};
    use crate::session::{DropReason, EventKind, Session};

    fn request(start_ms: i64, ids: &[u64], input_tokens: u64) -> HashedRequest {
        HashedRequest {
            start_ms: Some(start_ms),
            ids: ids.to_vec(),
            input_tokens,
            ..HashedRequest::default()
        }
    }

    fn compiled(sessions: Vec<Vec<HashedRequest>>, head_tokens: (u64, u64)) -> Vec<Session> {
        let sessions = sessions.into_iter().map(|requests| HashedSession {
            head_tokens,
            requests,
            ..HashedSession::default()
        });
        HashedTrace { block_tokens: 10, sessions: sessions.collect(), ..HashedTrace::default() }.sessions()
    }

    #[test]
    fn each_prompt_has_the_tokens_that_were_recorded() {
        let requests = vec![
            request(0, &[1, 2, 3], 34),
            request(9, &[1, 2, 3, 4, 5], 50),
            // Another branch, and a clock that runs backwards.
            request(5, &[1, 2, 6], 30),
        ];
        let session = compiled(vec![requests], (12, 8)).remove(0);
        let head: Vec<u32> = [&session.prefix.tools, &session.prefix.system].map(|b| b[0].tokens).to_vec();
        assert_eq!(head, [12, 8]);
        assert_eq!(session.blocks.tokens, [10, 20, 10]);
        let steps: Vec<_> =
            session.steps.iter().map(|s| (s.input.clone(), s.tail_tokens, s.start_ms)).collect();
        assert_eq!(steps, [(0..1, 4, Some(0)), (1..2, 0, Some(9)), (2..3, 0, Some(9))]);
        let dropped = EventKind::BlocksDropped { from: 0, to: 2, reason: DropReason::Unexplained };
        assert_eq!(
            session.events.iter().map(|e| (e.before_step, &e.kind)).collect::<Vec<_>>(),
            [(2, &dropped)]
        );
    }

    #[test]
    fn what_sessions_share_has_one_hash() {
        let found = compiled(vec![vec![request(0, &[0, 1, 2], 30)], vec![request(1, &[0, 3], 20)]], (0, 0));
        assert_eq!(found[0].blocks.tokens, [10, 20]);
        assert_eq!(found[1].blocks.tokens, [10, 10]);
        assert_eq!(found[0].blocks.hash[0], found[1].blocks.hash[0]);
        assert_ne!(found[0].blocks.hash[1], found[1].blocks.hash[1]);
    }

    #[test]
    fn an_unfilled_block_is_the_tail_and_has_a_hash_of_its_own() {
        let one = vec![request(0, &[1, 2], 15), request(1, &[1, 3], 20), request(2, &[1, 3, 4], 23)];
        let other = vec![request(3, &[1, 2], 15), request(4, &[1, 3, 4], 23), request(5, &[1, 3], 23)];
        let found = compiled(vec![one, other], (0, 0));
        let tails = |session: &Session| -> Vec<(u32, u64)> {
            session.steps.iter().map(|step| (step.tail_tokens, step.tail_hash)).collect()
        };
        let (one, other) = (tails(&found[0]), tails(&found[1]));
        assert_eq!(one.iter().map(|(tokens, _)| *tokens).collect::<Vec<_>>(), [5, 0, 3]);
        // Equal parts have equal hashes; what has none is nobody else's.
        assert_eq!((one[0], one[2]), (other[0], other[1]));
        assert_ne!(one[0].1, one[2].1);
        assert_eq!((one[1].1, other[2]), (0, (3, 0)));
        // The third request adds no whole block, and no empty one stands in for it.
        assert_eq!(found[0].blocks.tokens, [10, 10]);
        assert_eq!(found[0].events, []);
    }
}
