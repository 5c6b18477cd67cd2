//! The compact session: sizes and hashes only, no text.
//!
//! Blocks are in the order in which a client without any strategy would send them; a step is one
//! request and its response. Everything a strategy or the provider may want to know of a block is a
//! number in [`Blocks`], so a run touches no string and no tokenizer.

pub mod compile;
pub mod hash_trace;
pub mod repeats;
pub mod roles;
pub mod scale;
pub mod trace;
pub mod view;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tokens::{Coefficients, Tokenizer};
use crate::usage::Usage;

/// Stands for "no tool", "no call" in the columns of [`Blocks`].
pub const NONE: u32 = u32::MAX;

/// What a block is. One block is one position of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Text typed by the user, or injected (see [`Flags::INJECTED`]).
    UserText,
    /// The result of a tool call, images inside included.
    ToolResult,
    /// An image of its own.
    Image,
    /// Text of the model.
    AssistantText,
    /// Reasoning, signed or not, redacted or not (see [`Flags`]).
    Thinking,
    /// A tool call.
    ToolUse,
}

impl BlockKind {
    /// Whether the model wrote it.
    pub fn is_assistant(self) -> bool {
        matches!(self, Self::AssistantText | Self::Thinking | Self::ToolUse)
    }
}

/// Bit set of block properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// Injected by the client (attachment, reminder): starts no human turn.
    pub const INJECTED: Flags = Flags(1);
    /// A tool result that reports an error.
    pub const ERROR: Flags = Flags(2);
    /// Thinking with a signature: replayed and bound. Unsigned thinking is never sent.
    pub const SIGNED: Flags = Flags(4);
    /// Redacted thinking.
    pub const REDACTED: Flags = Flags(8);
    /// Not in the recording: put there so that calls and results pair (an interrupted call).
    pub const SYNTHETIC: Flags = Flags(16);
    /// Put there by a recorded compaction: in the `keep` view only (see [`view`]). No view has it.
    pub const COMPACTION: Flags = Flags(32);
    /// Pending when a recorded compaction summarized it: in the `undo` view only. No view has it.
    pub const FOLDED: Flags = Flags(64);

    /// Whether every bit of `other` is set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether thinking with these is sent back: it is signed, or redacted and carries its signature inside.
    pub fn is_replayable(self) -> bool {
        self.has(Self::SIGNED) || self.has(Self::REDACTED)
    }

    /// `self` with every bit of `other` off.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Both sets.
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Columns of all blocks of a session. All have the same length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    /// What it is.
    pub kind: Vec<BlockKind>,
    /// Its properties.
    pub flags: Vec<Flags>,
    /// The client message it belongs to, from 0: one per user message, per assistant response, and
    /// per tool result (`messages = per_result`).
    pub message: Vec<u32>,
    /// Index into [`Session::tools`], or [`NONE`]; of calls and results.
    pub tool: Vec<u32>,
    /// Index into [`Session::calls`], or [`NONE`]; of calls and results.
    pub call: Vec<u32>,
    /// Keyed hash of the content; equal content is equal across sessions.
    pub hash: Vec<u64>,
    /// Prompt tokens, on the session's tokenizer.
    pub tokens: Vec<u32>,
    /// UTF-16 code units of the text (images left out; see [`ResultParts`]). Of a call: of its
    /// arguments as JSON text.
    pub utf16: Vec<u32>,
    /// UTF-8 bytes of the same text.
    pub bytes: Vec<u32>,
    /// Lines of the same text: 0 if empty, else 1 + line feeds.
    pub lines: Vec<u32>,
    /// UTF-16 units of the text as the inside of a JSON string; of a call: of its arguments as
    /// compact JSON; of thinking: of text and signature together.
    pub json_utf16: Vec<u32>,
    /// ASCII characters of the text.
    pub ascii: Vec<u32>,
    /// Of a call: UTF-16 units of its arguments rendered as `key=json, key2=json`. Else 0.
    pub args_utf16: Vec<u32>,
    /// See [`Blocks::repeated_calls`].
    repeats: repeats::Repeats,
}

/// One row of [`Blocks`], for building.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// As [`Blocks::kind`].
    pub kind: BlockKind,
    /// As [`Blocks::flags`].
    pub flags: Flags,
    /// As [`Blocks::message`].
    pub message: u32,
    /// As [`Blocks::tool`]; [`NONE`] where it is neither call nor result.
    pub tool: u32,
    /// As [`Blocks::call`]; [`NONE`] where it is neither call nor result.
    pub call: u32,
    /// As [`Blocks::hash`].
    pub hash: u64,
    /// As [`Blocks::tokens`].
    pub tokens: u32,
    /// As [`Blocks::utf16`].
    pub utf16: u32,
    /// As [`Blocks::bytes`].
    pub bytes: u32,
    /// As [`Blocks::lines`].
    pub lines: u32,
    /// As [`Blocks::json_utf16`].
    pub json_utf16: u32,
    /// As [`Blocks::ascii`].
    pub ascii: u32,
    /// As [`Blocks::args_utf16`].
    pub args_utf16: u32,
}

impl Blocks {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Appends a row and gives its index.
    pub fn push(&mut self, b: Block) -> u32 {
        let index = u32::try_from(self.len()).unwrap_or(u32::MAX);
        self.kind.push(b.kind);
        self.flags.push(b.flags);
        self.message.push(b.message);
        self.tool.push(b.tool);
        self.call.push(b.call);
        self.hash.push(b.hash);
        self.tokens.push(b.tokens);
        self.utf16.push(b.utf16);
        self.bytes.push(b.bytes);
        self.lines.push(b.lines);
        self.json_utf16.push(b.json_utf16);
        self.ascii.push(b.ascii);
        self.args_utf16.push(b.args_utf16);
        index
    }

    /// Row `i`.
    pub fn get(&self, i: usize) -> Block {
        Block {
            kind: self.kind[i],
            flags: self.flags[i],
            message: self.message[i],
            tool: self.tool[i],
            call: self.call[i],
            hash: self.hash[i],
            tokens: self.tokens[i],
            utf16: self.utf16[i],
            bytes: self.bytes[i],
            lines: self.lines[i],
            json_utf16: self.json_utf16[i],
            ascii: self.ascii[i],
            args_utf16: self.args_utf16[i],
        }
    }
}

/// Parts of a tool result that is not one plain text; results without a row are one text block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultParts {
    /// The block.
    pub block: u32,
    /// Number of text parts.
    pub texts: u32,
    /// Number of images.
    pub images: u32,
    /// Base64 characters of all images.
    pub image_base64_chars: u32,
    /// Tokens of all images; part of the block's tokens.
    pub image_tokens: u32,
}

/// A tool of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tool {
    /// Name as recorded.
    pub name: String,
    /// What it does, by the format's alias table ([`roles`]).
    pub role: roles::Role,
}

/// Length of a call id; the id itself stays only where the recording's may be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// UTF-16 units of the id.
    pub id_utf16: u32,
    /// UTF-16 units of the id once made safe as part of a file name.
    pub safe_utf16: u32,
}

/// A block in front of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrefixBlock {
    /// Keyed hash of the content; in files 16 hex digits.
    #[serde(with = "trace::hex")]
    #[schemars(with = "String")]
    pub hash: u64,
    /// Its tokens.
    pub tokens: u32,
}

/// Everything in front of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Prefix {
    /// Tool definitions, in order.
    pub tools: Vec<PrefixBlock>,
    /// System blocks.
    pub system: Vec<PrefixBlock>,
    /// Text at the head of the first user message that every compaction keeps.
    pub injected: Vec<PrefixBlock>,
}

impl Prefix {
    /// Sum of all blocks.
    pub fn tokens(&self) -> u64 {
        [&self.tools, &self.system, &self.injected].into_iter().flatten().map(|b| u64::from(b.tokens)).sum()
    }
}

/// One model request and its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Blocks sent for the first time: tool results first, then text and images.
    pub input: Range<u32>,
    /// Blocks the model answered with.
    pub output: Range<u32>,
    /// Start, Unix epoch in milliseconds, monotone over the session; `None` where the recording has
    /// no times at all.
    pub start_ms: Option<i64>,
    /// From start to the last block of the response.
    pub duration_ms: u32,
    /// Prompt tokens behind the last content block (the provider's own generation header); sent
    /// anew with each request and never cached.
    pub tail_tokens: u32,
    /// Hash of the tail where it is the unfilled block at the end of a prompt, equal where the block is; 0:
    /// nobody else sends it. A cache that keeps unfilled blocks can read it again.
    pub tail_hash: u64,
    /// Tokens generated.
    pub output_tokens: u32,
    /// A human turn starts with this step's input.
    pub human_turn: bool,
    /// What was billed, where the recording says.
    pub recorded: Option<Usage>,
    /// What else the recording tells of the request.
    pub facts: Facts,
}

/// What a recording tells of a request besides content, time and usage. It changes no replay;
/// [`crate::validate`] predicts what was billed from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// What happened or was seen, as bits.
    pub marks: Marks,
    /// Tool definitions that a search for deferred tools put into the input.
    pub loaded_tools: u32,
    /// When the client last summed the session up for an absent user, since the request before. Unix
    /// epoch, milliseconds.
    pub away_at_ms: Option<i64>,
}

/// Bit set of facts about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marks(pub u8);

impl Marks {
    /// The recorded output tokens are a final count, not that of the stream's start.
    pub const FINAL_OUTPUT: Marks = Marks(1);
    /// The client summed the session up for an absent user: a request whose usage is not recorded.
    pub const AWAY_SUMMARY: Marks = Marks(2);
    /// The input holds a report of a background task, which starts a turn that nobody typed.
    pub const NOTIFICATION: Marks = Marks(4);
    /// The input holds the text of a skill that was loaded.
    pub const SKILL_LOADED: Marks = Marks(8);
    /// Among the loaded tools are those of the task list.
    pub const TASK_TOOLS_LOADED: Marks = Marks(16);

    /// Whether every bit of `other` is set.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    pub fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

/// Something that happens before a step's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Index of the step, from 0; the number of steps for an event after the last.
    pub before_step: u32,
    /// What happens.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The tool definitions become these.
    ToolsChanged {
        /// One block for each definition, in wire order.
        tools: Vec<PrefixBlock>,
    },
    /// The system prompt becomes this.
    SystemChanged {
        /// Its blocks, in wire order.
        system: Vec<PrefixBlock>,
    },
    /// The recording goes on with another model.
    ModelChanged {
        /// Its id as recorded.
        model: String,
    },
    /// A request parameter that is part of the cache key of messages changed (effort, tool choice).
    ParametersChanged {
        /// Hash of the parameters as they are from now on; in a trace, 16 hexadecimal digits.
        #[serde(with = "trace::hex")]
        #[schemars(with = "String")]
        hash: u64,
    },
    /// The process was restarted: in-process knowledge is gone.
    Resumed,
    /// The user asked for a compaction.
    ManualCompaction,
    /// The recording agent compacted. With `--recorded-compactions undo` this is information only;
    /// with `keep` a [`EventKind::BlocksDropped`] follows and the summary is in the next input.
    RecordedCompaction {
        /// The agent began it by itself; else the user asked.
        automatic: bool,
        /// Size of the prompt before, in tokens as the agent reports it; `None`: it does not.
        pre_tokens: Option<u64>,
        /// The same after.
        post_tokens: Option<u64>,
    },
    /// The recording agent cleared these results in place (block indexes). Applied only with
    /// `--recorded-compactions keep`.
    RecordedClearing {
        /// The results, ascending.
        blocks: Vec<u32>,
        /// Whether it happens in this view of the session; else it is information only.
        applied: bool,
    },
    /// Blocks `from..to` leave the conversation: a clear, a rewind, a kept compaction.
    BlocksDropped {
        /// The first block that leaves.
        from: u32,
        /// The first one behind it that does not.
        to: u32,
        /// Why they leave.
        reason: DropReason,
    },
}

/// Why blocks left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The user cleared the history.
    Clear,
    /// The user went back.
    Rewind,
    /// A recorded compaction that is kept.
    Compaction,
    /// The recorded prompt shrank and the recording does not say why ([`compile`]).
    Unexplained,
}

/// Where a session comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Origin {
    /// Recording format, or `synthetic`.
    pub format: String,
    /// The agent that recorded it.
    pub agent: String,
    /// Its version.
    pub agent_version: String,
}

/// One session, ready to be replayed any number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Unique over a corpus.
    pub id: String,
    /// Session that started this one.
    pub parent: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// Model id of the first response, as recorded.
    pub model: String,
    /// Tokenizer generation the token columns are on.
    pub tokenizer: Tokenizer,
    /// Tokens per character of this recording: what stubs and summaries are sized with.
    pub coefficients: Coefficients,
    /// In front of the conversation.
    pub prefix: Prefix,
    /// Whether the prefix was sized from recorded usage; if not it is empty and results say so.
    pub prefix_is_measured: bool,
    /// Tokens of the prefix that the first recorded request read from the cache.
    pub warm_prefix_tokens: u64,
    /// Tools seen.
    pub tools: Vec<Tool>,
    /// Calls seen.
    pub calls: Vec<Call>,
    /// All blocks.
    pub blocks: Blocks,
    /// Rows for results that are not one plain text, by ascending block.
    pub result_parts: Vec<ResultParts>,
    /// Requests.
    pub steps: Vec<Step>,
    /// Events, by ascending `before_step`.
    pub events: Vec<Event>,
}

impl Session {
    /// Parts of result `block`, where it is not one plain text.
    pub fn parts_of(&self, block: u32) -> Option<&ResultParts> {
        self.result_parts.binary_search_by_key(&block, |p| p.block).ok().map(|i| &self.result_parts[i])
    }
}
