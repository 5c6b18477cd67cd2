//! A short way to write conversations with the mock provider.

use std::sync::LazyLock;

use ctxsim::cause::Cause;
use ctxsim::provider::{
    Account, Answer, Done, Marker, ModelSpec, Models, NO_LINK, Params, Provider, Rejection, Request,
    SentBlock, SentKind, Ttl,
};

/// The models in the binary.
pub fn model(id: &str) -> &'static ModelSpec {
    static MODELS: LazyLock<Models> = LazyLock::new(|| Models::builtin().unwrap());
    MODELS.get(id).unwrap()
}

/// A block; `hash` is its content.
pub fn block(kind: SentKind, tokens: u32, hash: u64) -> SentBlock {
    SentBlock { hash, tokens, link: NO_LINK, message: 0, kind, deferred: false, placeholder: false }
}

/// A thinking block whose id is its content.
pub fn thinking(tokens: u32, id: u32) -> SentBlock {
    SentBlock { link: id, ..block(SentKind::Thinking, tokens, u64::from(id)) }
}

/// A conversation: knows what was sent last, so that `changed_from` is always right.
pub struct Talk<'m> {
    pub provider: Provider<'m>,
    pub params: Params,
    pub change: Option<Cause>,
    pub tail_tokens: u32,
    pub ttft_ms: u32,
    pub max_output_tokens: u32,
    before: Vec<SentBlock>,
}

impl<'m> Talk<'m> {
    pub fn new(model: &'m ModelSpec, account: Account) -> Talk<'m> {
        Talk {
            provider: Provider::new(model, account),
            params: Params::default(),
            change: None,
            tail_tokens: 0,
            ttft_ms: 0,
            max_output_tokens: 0,
            before: Vec::new(),
        }
    }

    /// Sends `blocks` with markers at these indexes, all of one life.
    pub fn send(&mut self, at_ms: i64, blocks: &[SentBlock], markers: &[usize], ttl: Ttl) -> Answer {
        let markers: Vec<Marker> = markers.iter().map(|&i| Marker { after: i as u32, ttl }).collect();
        let blocks = numbered(blocks);
        let changed_from = self.before.iter().zip(&blocks).take_while(|(a, b)| a == b).count();
        let answer = self.provider.send(&Request {
            at_ms,
            ttft_ms: self.ttft_ms,
            blocks: &blocks,
            changed_from,
            change: self.change.take(),
            markers: &markers,
            automatic: None,
            params: self.params,
            tail_tokens: self.tail_tokens,
            max_output_tokens: self.max_output_tokens,
        });
        self.before = blocks;
        answer
    }

    /// As [`Talk::send`], with the short life, for a request that must be served.
    pub fn served(&mut self, at_ms: i64, blocks: &[SentBlock], markers: &[usize]) -> Done {
        match self.send(at_ms, blocks, markers, Ttl::Short) {
            Answer::Done(done) => done,
            Answer::Rejected(rejection) => panic!("{}", rejection.message),
        }
    }

    /// As [`Talk::send`], with a marker on the last block, for a request that must be refused.
    pub fn refused(&mut self, at_ms: i64, blocks: &[SentBlock]) -> Rejection {
        match self.send(at_ms, blocks, &[blocks.len() - 1], Ttl::Short) {
            Answer::Done(done) => panic!("{done:?}"),
            Answer::Rejected(rejection) => *rejection,
        }
    }
}

/// Numbers the messages by turns, as a client that merges them would.
pub fn numbered(blocks: &[SentBlock]) -> Vec<SentBlock> {
    let mut numbered: Vec<SentBlock> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let last = numbered.last().filter(|b| !b.kind.is_prefix());
        let message =
            last.map_or(0, |b| b.message + u32::from(b.kind.is_assistant() != block.kind.is_assistant()));
        numbered.push(SentBlock { message, ..*block });
    }
    numbered
}

/// Read, short write, long write, uncached.
pub fn classes(done: &Done) -> [u64; 4] {
    let usage = &done.usage;
    [usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.cache_write_1h_tokens, usage.uncached_tokens]
}
