//! What a recording says, in one shape for every format. Text lives here and ends at
//! [`crate::session::compile`].
//!
//! A reader ([`crate::ingest`]) has already grouped lines into responses, paired nothing and judged
//! nothing: `entries` is the main chain in the order in which a client would have sent it.

use crate::usage::Usage;

/// One recorded session.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Name of the recording format, as in `ctxsim formats`.
    pub format: &'static str,
    /// Program that made the recording.
    pub agent: String,
    /// Its version, empty if unknown.
    pub agent_version: String,
    /// The session's own id.
    pub session_id: String,
    /// The session that started this one (sub-agents).
    pub parent_session_id: Option<String>,
    /// Text of the system prompt where the recording has it.
    pub system: Option<String>,
    /// Tool definitions where the recording has them: name and JSON text.
    pub tools: Vec<ToolText>,
    /// What the recording says that the whole session cost, in pico-dollars; 0 also where the agent knew no
    /// price, or a subscription paid.
    pub recorded_cost_pusd: Option<u64>,
    /// Inputs, responses and events in order.
    pub entries: Vec<Entry>,
    /// Lines that could not be used, with their reason.
    pub notices: Vec<Notice>,
}

/// A recorded tool definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolText {
    /// The tool's name.
    pub name: String,
    /// Its definition as JSON text.
    pub json: String,
}

/// Something in the recording that was not used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Line number, from 1; 0 where the format has no lines.
    pub line: u64,
    /// One sentence.
    pub reason: String,
}

/// One element of the main chain.
#[derive(Debug, Clone)]
pub enum Entry {
    /// Content on its way to the model.
    Input(Input),
    /// One model response: one request of the session.
    Response(Response),
    /// Something that happens between requests.
    Event(Event),
}

/// Content of one user message, or the results of one or more tool calls.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Line of the recording, from 1.
    pub line: u64,
    /// Unix epoch, milliseconds.
    pub at_ms: Option<i64>,
    /// Text, images and tool results, in recorded order.
    pub content: Vec<Content>,
    /// Injected by the client (attachment, reminder, meta line): never starts a human turn.
    pub injected: bool,
}

/// One model response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// Line of its first part, from 1.
    pub line: u64,
    /// The provider's id of the response, empty if none.
    pub id: String,
    /// Model id as recorded.
    pub model: String,
    /// Time of the first part, Unix epoch, milliseconds.
    pub first_at_ms: Option<i64>,
    /// Time of the last part.
    pub last_at_ms: Option<i64>,
    /// Thinking, text and tool calls, in recorded order.
    pub content: Vec<Content>,
    /// What was billed; `None` where the recording has no usable usage.
    pub usage: Option<Usage>,
    /// `usage.output_tokens` is a final count (a stop reason is set), not a stream-start snapshot.
    pub output_is_final: bool,
    /// What the recording says that it cost, in pico-dollars; 0 also where the agent knew no price, or a
    /// subscription paid.
    pub recorded_cost_pusd: Option<u64>,
    /// What is odd about the usage.
    pub doubts: UsageDoubts,
}

/// What is odd about a usage that is taken all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageDoubts {
    /// Cache writes by life do not sum to all cache writes.
    pub split_differs: bool,
    /// Lines of the response report different prompts.
    pub lines_differ: bool,
}

/// One content block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text of either role.
    Text(String),
    /// Reasoning.
    Thinking {
        /// What is visible of it; empty where the provider hides it.
        text: String,
        /// Characters of the signature; 0 where it is unsigned.
        signature_chars: u32,
        /// The provider gave ciphertext only.
        redacted: bool,
    },
    /// A tool call.
    ToolUse {
        /// The provider's id, which the result names.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments as JSON text.
        input: String,
    },
    /// The result of a call.
    ToolResult {
        /// Id of the call.
        call_id: String,
        /// Texts, images and references, in wire order.
        parts: Vec<ResultPart>,
        /// The tool failed.
        is_error: bool,
    },
    /// An image of its own (not inside a result).
    Image(Image),
}

/// One part of a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPart {
    /// Text.
    Text(String),
    /// Image.
    Image(Image),
    /// Reference to a deferred tool whose schema the provider inserts.
    ToolReference(String),
}

/// What is known of an image without keeping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Image {
    /// Length of its base64 text.
    pub base64_chars: u32,
    /// Width and height from the PNG or JPEG header.
    pub size_px: Option<(u32, u32)>,
    /// Hash of the data.
    pub hash: u64,
}

/// Something between two requests.
#[derive(Debug, Clone)]
pub struct Event {
    /// Line of the recording, from 1.
    pub line: u64,
    /// Unix epoch, milliseconds.
    pub at_ms: Option<i64>,
    /// What it is.
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The agent compacted. Every input up to the next response whose `injected` is set was put
    /// there by the compaction; the first one is the summary.
    Compaction {
        /// The agent began it by itself; else the user asked.
        automatic: bool,
        /// Size of the prompt before, in tokens as the agent reports it; `None`: it does not.
        pre_tokens: Option<u64>,
        /// The same after.
        post_tokens: Option<u64>,
    },
    /// The agent cleared old tool results in place.
    ResultsCleared {
        /// Ids of their calls.
        call_ids: Vec<String>,
        /// Tokens that it saved as the agent reports it; `None`: it does not.
        tokens_saved: Option<u64>,
    },
    /// The user cleared the history, or accepted a plan into a fresh context: what is before is gone.
    Cleared,
    /// The user went back: the entries after the first `keep_responses` responses of this
    /// transcript are gone, but for the results of the last one's calls.
    Rewound {
        /// Responses that stay, with what precedes them.
        keep_responses: u32,
    },
    /// The session was resumed in another process.
    Resumed,
    /// Says something of the next request, and changes nothing in the history.
    Marker(Marker),
}

/// Traces that a client leaves of what it does besides the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The client summed the session up for a user who had gone away: a request of its own, whose usage
    /// is not recorded.
    AwaySummary,
    /// The next input reports the end of a background task: it starts a turn that nobody typed.
    Notification,
    /// The next input is the text of a skill that was loaded.
    SkillLoaded,
}
