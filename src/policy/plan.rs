//! What a policy may decide. A plan changes nothing: [`crate::sim::context::Context`] checks it and carries
//! it out.

use std::ops::Range;

use super::fold::SummarizeRule;
use super::reads::Reads;
use super::view::Stored;

/// A decision of one rule.
#[derive(Debug, Clone)]
pub enum Plan<'p> {
    /// Items are replaced by stubs, or left out.
    Stub(StubPlan),
    /// The stored content of items changes.
    Replace(ReplacePlan),
    /// Results and their calls leave the history.
    DropPairs {
        /// Blocks of the results, ascending.
        results: Vec<u32>,
        /// UTF-16 units of results and calls together.
        saved_utf16: u64,
    },
    /// A summary of its own stands for each of these results and its call.
    SummarizePairs {
        /// Blocks of the results, ascending.
        results: Vec<u32>,
        /// How each call is made.
        spec: &'p SummarizeRule,
    },
    /// Thinking is no longer replayed.
    Strip {
        /// The thinking blocks, ascending.
        blocks: Vec<u32>,
    },
    /// Stubs of a stateless rule are taken back.
    Restore {
        /// Blocks that are sent in full again, ascending.
        blocks: Vec<u32>,
    },
    /// A stateless rule sends the stubs it sent before; its agent reports them each time.
    SameStubs {
        /// What it reports: results, and UTF-16 units saved.
        reported: (u64, u64),
    },
    /// History before `fold_to` is replaced by a summary.
    Summarize(SummarizePlan<'p>),
    /// The rule would act and cannot, and says so.
    Notice {
        /// What it says, for people.
        text: &'static str,
    },
}

/// What becomes of a tool result that just came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingest {
    /// It goes to a file.
    Offload(Offload),
    /// It is cut.
    Truncate(Stored),
}

/// Offload of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// The result.
    pub block: u32,
    /// UTF-16 units of the stub without its excerpts.
    pub envelope_utf16: u64,
    /// What JSON escapes add to the envelope.
    pub envelope_json_escapes: u64,
    /// UTF-16 units kept from both ends together.
    pub kept_utf16: u64,
    /// UTF-16 units of the file's path, once.
    pub path_utf16: u64,
}

impl Offload {
    /// UTF-16 units of the whole stub.
    pub fn stub_utf16(&self) -> u64 {
        self.envelope_utf16 + self.kept_utf16
    }
}

/// Stubs for several results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubPlan {
    /// Block and size of its stub, by ascending block.
    pub stubs: Vec<(u32, StubTokens)>,
    /// UTF-16 units that leave the request.
    pub saved_utf16: u64,
    /// Thinking in these blocks is no longer replayed.
    pub withhold: Option<Range<u32>>,
    /// The provider edits its own copy.
    pub server: bool,
    /// What the agent reports: results and savings, cumulative for a stateless rule.
    pub reported: (u64, u64),
}

/// Size of a stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubTokens {
    /// By its text.
    Utf16(u64),
    /// As the provider counts it.
    Tokens(u64),
    /// Both known: what is left of an item and a marker.
    Sized {
        /// Prompt tokens.
        tokens: u64,
        /// UTF-16 units.
        utf16: u64,
    },
    /// Nothing stands for it; of a result, its call leaves too.
    Nothing,
}

/// New stored content for several items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacePlan {
    /// By ascending block.
    pub stored: Vec<Stored>,
    /// UTF-16 units that leave.
    pub saved_utf16: u64,
    /// Tokens that leave, by the client's estimate.
    pub saved_estimate: u64,
    /// Thinking in these blocks is no longer replayed.
    pub withhold: Option<Range<u32>>,
}

/// A compaction.
#[derive(Debug, Clone)]
pub struct SummarizePlan<'p> {
    /// First block that stays.
    pub fold_to: u32,
    /// UTF-16 units of the prompt the summarizer reads besides its system prompt; 0 for a prefix fork.
    pub prompt_utf16: u64,
    /// The client's estimate before.
    pub tokens_before: u64,
    /// Client messages folded.
    pub folded_messages: u64,
    /// Turns that stay.
    pub kept_turns: u64,
    /// Blocks in front of `fold_to` that stay, ascending.
    pub keep: Vec<Range<u32>>,
    /// The client's estimate of what is folded.
    pub folded_estimate: u64,
    /// And of all messages, before.
    pub whole_estimate: u64,
    /// Tokens of user messages that come again, cut, with the summary.
    pub reinjected_tokens: u64,
    /// What the history must come to, by the client's estimate; else nothing happens.
    pub must_reach: Option<u64>,
    /// What the summarizer is given.
    pub reads: Reads,
    /// The tail begins inside the turn of this user message, which has a call of its own.
    pub split_at: Option<u32>,
    /// Results that are cut in the same action, if the summary is accepted; ascending.
    pub truncated: Vec<Stored>,
    /// The summarizer is given them cut.
    pub reads_cut: bool,
    /// The rule's parameters.
    pub spec: &'p SummarizeRule,
}
