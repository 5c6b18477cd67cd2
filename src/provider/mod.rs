//! The mock provider: what a request costs, what of it the cache held, and what gets rejected.
//!
//! The client (in a run: [`crate::sim`]) describes each request as the blocks it sends, plus the index
//! up to which they equal the previous request's. The provider answers with usage or a rejection. It
//! never sees a policy; a policy never sees the provider's state.

mod attribution;
mod binding;
pub mod block_cache;
pub mod break_even;
mod cache;
pub mod cache_spec;
mod cache_toml;
pub mod classify;
mod covered;
mod date;
pub mod engine;
mod entries;
mod judge;
mod limited;
mod litellm;
mod look;
mod markers;
pub mod model;
mod models_file;
mod models_toml;
pub mod overflow;
pub mod overflow_text;
mod pairing;
mod path;
pub mod price;
pub mod price_file;
mod price_toml;
pub mod reasoning;
mod refusal;
pub mod server_side;
pub mod service;
mod truncation;

pub use engine::Provider;
pub use model::{ModelSpec, Models};
pub use pairing::wire_path;

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::usage::Usage;

/// Stands for "no call", "no thinking id" in [`SentBlock::link`].
pub const NO_LINK: u32 = u32::MAX;

/// What a sent block is, as far as the provider cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentKind {
    /// A tool definition; order on the wire: tools, system, messages.
    Tool,
    /// A system block.
    System,
    /// User text.
    Text,
    /// Text of the model.
    AssistantText,
    /// Reasoning with a signature.
    Thinking,
    /// A tool call.
    ToolUse,
    /// The result of a call.
    ToolResult,
    /// An image of its own.
    Image,
}

impl SentKind {
    /// Whether it stands in an assistant message.
    pub fn is_assistant(self) -> bool {
        matches!(self, Self::AssistantText | Self::Thinking | Self::ToolUse)
    }

    /// Whether it stands in front of the messages.
    pub fn is_prefix(self) -> bool {
        matches!(self, Self::Tool | Self::System)
    }
}

/// One content block as the client sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBlock {
    /// Hash of the content.
    pub hash: u64,
    /// Prompt tokens.
    pub tokens: u32,
    /// Of a call or result: id of the call. Of thinking: its id, unique in the conversation.
    pub link: u32,
    /// Index of the message on the wire, for error paths; prefix blocks have 0.
    pub message: u32,
    /// What it is.
    pub kind: SentKind,
    /// A deferred tool: in no prefix, no position, no tokens.
    pub deferred: bool,
    /// The provider put a placeholder of `tokens` in its own copy: the cache sees the placeholder, the
    /// binding check sees the client's content (`hash`).
    pub placeholder: bool,
}

/// Life of a cache entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ttl {
    /// The vendor's short life (Anthropic 5 minutes).
    #[serde(rename = "5m")]
    Short,
    /// The vendor's long life (Anthropic 1 hour).
    #[serde(rename = "1h")]
    Long,
}

/// A cache breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Index of the block it stands on.
    pub after: u32,
    /// Life of the entry written there.
    pub ttl: Ttl,
}

/// What a request asks for when thinking fails the prefix check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrefixMismatch {
    /// Reject the request.
    Error,
    /// Drop the failing blocks and go on.
    DropBlock,
}

/// Whether the account is one for which the prefix check is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// Created on or after 2026-08-31.
    #[default]
    Enforced,
    /// Older.
    Unenforced,
}

/// Request parameters outside system, tools and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Params {
    /// Hash of what the cache of messages depends on (tool choice, effort, thinking mode); 0 = defaults.
    pub messages_key: u64,
    /// `thinking.block_binding.prefix_mismatch_behavior`.
    pub prefix_mismatch: Option<PrefixMismatch>,
    /// The thinking-binding beta header is sent: allowed mismatches are reported.
    pub binding_beta: bool,
    /// `truncation: "auto"`: a prompt that does not fit loses its oldest messages instead of being refused.
    pub truncates: bool,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Start, milliseconds.
    pub at_ms: i64,
    /// Time until the response begins and entries written here can be read by others.
    pub ttft_ms: u32,
    /// All blocks: tools, system, messages.
    pub blocks: &'a [SentBlock],
    /// `blocks[..changed_from]` equals the blocks of the previous call on this conversation.
    pub changed_from: usize,
    /// Why the rest differs, where something other than appending happened.
    pub change: Option<Cause>,
    /// Explicit breakpoints, ascending.
    pub markers: &'a [Marker],
    /// Automatic breakpoint on the last eligible block.
    pub automatic: Option<Ttl>,
    /// Other parameters.
    pub params: Params,
    /// Tokens behind the last block, sent anew with each request and never cached.
    pub tail_tokens: u32,
    /// `max_tokens` of the request.
    pub max_output_tokens: u32,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was served.
    Done(Done),
    /// It was refused: nothing read, written, refreshed or billed.
    Rejected(Box<Rejection>),
}

/// A served request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Input side of the bill; `output_tokens` is 0 here.
    pub usage: Usage,
    /// Split of what was not read.
    pub miss: Miss,
    /// Thinking blocks dropped by a check, in this request (see [`Provider::dropped_thinking`]).
    pub dropped_thinking: u32,
    /// Blocks that the provider left out, since the prompt did not fit.
    pub left_out_blocks: u32,
    /// Thinking blocks that failed the prefix check and were let through, whether reported or not.
    pub allowed_mismatches: u32,
}

/// prompt − read, as a partition (docs/decisions.md 27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Miss {
    /// Tokens that no earlier prompt held.
    pub new_tokens: u64,
    /// Tokens missed for `cause`.
    pub missed_tokens: u64,
    /// Set iff `missed_tokens > 0`.
    pub cause: Option<Cause>,
}

/// Which part of a thinking block's prefix changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedPart {
    /// The system prompt.
    System,
    /// The set of tools.
    Tools,
    /// A message before the block.
    Messages,
    /// The thinking block before it (removed, or put back).
    Thinking,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// What was wrong.
    pub kind: RejectionKind,
    /// The provider's own error text.
    pub message: String,
    /// First offending block, as an index into [`Request::blocks`].
    pub block: Option<u32>,
    /// Its path on the wire, `messages.{i}.content.{j}`.
    pub path: Option<String>,
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionKind {
    /// A thinking block is bound to a different conversation.
    Binding {
        /// What of the conversation is no longer as it was when the block was made.
        changed: ChangedPart,
    },
    /// The prompt does not fit.
    Overflow {
        /// Size of the prompt; `None`: the vendor's text does not say it.
        input_tokens: Option<u64>,
        /// What would have fitted; `None`: the vendor's text does not say it.
        limit_tokens: Option<u64>,
    },
    /// Unpaired call or result, too many breakpoints, TTLs in the wrong order, marker on thinking.
    InvalidRequest,
}
