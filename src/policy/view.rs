//! What a policy sees: what the client itself knows. Never the provider's true counts, except the usage
//! it reported.

use std::ops::Range;

use crate::policy::estimate::{Anchor, EstimateLaw, MessageSize, TextLaw, TextSize};
pub use crate::policy::laws::NameSize;
use crate::policy::live::{Changed, Live, Work};
use crate::policy::sent::Stub;
use crate::session::{BlockKind, Flags, Session, Tool};

/// What has happened to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State(pub u8);

impl State {
    /// Its content went to a file before it entered the conversation.
    pub const OFFLOADED: State = State(1);
    /// A stub stands for it in requests.
    pub const ELIDED: State = State(2);
    /// Thinking that is no longer replayed.
    pub const WITHHELD: State = State(4);
    /// Cleared, rewound, or missing from the recording.
    pub const GONE: State = State(8);
    /// A summary stands for it.
    pub const FOLDED: State = State(16);
    /// Its stored content was replaced.
    pub const REPLACED: State = State(32);
    /// It stays in the history, and is not sent.
    pub const HIDDEN: State = State(64);
    /// The stub in its place is the recording's own: no rule takes it back.
    pub const CLEARED: State = State(128);

    /// Whether it is no longer in the history.
    pub fn has_left(self) -> bool {
        self.has(Self::GONE) || self.has(Self::FOLDED)
    }

    /// Whether it is part of requests.
    pub fn is_sent(self) -> bool {
        self.0 & (Self::GONE.0 | Self::FOLDED.0 | Self::WITHHELD.0 | Self::HIDDEN.0) == 0
    }

    /// Whether every bit of `other` is set.
    pub fn has(self, other: State) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Sizes of a block whose stored content is not the recorded one: offloaded, shortened, replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Which block.
    pub block: u32,
    /// UTF-16 units of the stub with its excerpts.
    pub utf16: u32,
    /// UTF-8 bytes of the same.
    pub bytes: u32,
    /// UTF-16 units of the same inside a JSON string.
    pub json_utf16: u32,
    /// Lines of the same.
    pub lines: u32,
    /// Prompt tokens, images included.
    pub tokens: u32,
    /// Of the file it went to; 0 without one.
    pub path_utf16: u32,
    /// ASCII characters.
    pub ascii: u32,
    /// Of a result whose call has left: it is a text of the user's.
    pub is_text: bool,
}

/// The summary at the head of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SummaryMessage {
    /// Prompt tokens of the message, what it is wrapped in included.
    pub tokens: u32,
    /// UTF-16 units of the same.
    pub utf16: u32,
    /// UTF-16 units of the same inside a JSON string.
    pub json_utf16: u32,
    /// Of its place and size, which stand for its words: what the cache compares.
    pub hash: u64,
    /// UTF-8 bytes of its characters that are not ASCII; each takes three.
    pub wide_bytes: u32,
}

/// Usage of the last answered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastUsage {
    /// Prompt and output together.
    pub total_tokens: u64,
    /// Output alone.
    pub output_tokens: u64,
    /// The step it answered.
    pub step: u32,
}

/// The client's state. A policy reads it; only the context changes it.
#[derive(Debug, Clone)]
pub struct View<'s> {
    /// The recording: what will come, and the sizes of what has.
    pub session: &'s Session,
    /// Per revealed block.
    pub states: Vec<State>,
    /// Offloaded results, by ascending block.
    pub stored: Vec<Stored>,
    /// Blocks the client knows: `0..revealed`.
    pub revealed: u32,
    /// Blocks before this one are folded into the summary.
    pub live_from: u32,
    /// What stands for them; summaries that accumulate count as one.
    pub summary: Option<SummaryMessage>,
    /// The newest summary alone.
    pub last_summary: Option<SummaryMessage>,
    /// Which blocks are in the history.
    pub live: Live,
    /// A text stands for some result and its call.
    pub has_texts_for_pairs: bool,
    /// Stubs that stand in requests, by ascending block.
    pub stubs: Vec<Stub>,
    /// Tool results in the history, ascending.
    pub results: Vec<u32>,
    /// First blocks of the user messages in the history, ascending.
    pub user_messages: Vec<u32>,
    /// Steps whose answer is in the history, ascending.
    pub answered: Vec<u32>,
    /// Prompt and output together, per step of the session; 0 until it is answered.
    pub usage_totals: Vec<u64>,
    /// Digits of the four usage counts, per step of the session.
    pub usage_digits: Vec<u8>,
    /// UTF-16 units of all live results as stored, base64 of images included.
    pub tool_results_utf16: u64,
    /// Prompt tokens of the request as the client sends it: its own stubs count, what the provider edits
    /// does not.
    pub raw_tokens: u64,
    /// From where on it is not what it was.
    pub changed: Changed,
    /// Blocks that were there when the stored history was edited last.
    pub edited_at: u32,
    /// UTF-16 units of the model's id.
    pub model_id_utf16: u64,
    /// Of the name of each of the session's tools.
    pub tool_names: Vec<NameSize>,
    /// What all that looked through it went through.
    pub work: Work,
}

impl View<'_> {
    /// Whether block `i` is in the history.
    pub fn is_live(&self, i: u32) -> bool {
        self.work.add(1);
        i >= self.live_from && !self.states[i as usize].has_left()
    }

    /// Sizes of a block whose stored content is not the recorded one.
    #[inline]
    pub fn stored_of(&self, block: u32) -> Option<&Stored> {
        let state = self.states[block as usize];
        if state.has(State::OFFLOADED) || state.has(State::REPLACED) { self.find_stored(block) } else { None }
    }

    #[inline(never)]
    fn find_stored(&self, block: u32) -> Option<&Stored> {
        self.stored.binary_search_by_key(&block, |s| s.block).ok().map(|i| &self.stored[i])
    }

    /// Whether a text stands for a result and its call.
    pub fn is_text_for_pair(&self, block: u32) -> bool {
        self.stored_of(block).is_some_and(|s| s.is_text)
    }

    /// UTF-16 units of a block's text as stored, images left out.
    #[inline]
    pub fn text_utf16(&self, block: u32) -> u64 {
        self.stored_of(block)
            .map_or_else(|| u64::from(self.session.blocks.utf16[block as usize]), |s| u64::from(s.utf16))
    }

    /// UTF-16 units of a result as stored, base64 of images included.
    #[inline]
    pub fn result_utf16(&self, block: u32) -> u64 {
        self.text_utf16(block) + self.images_utf16(block)
    }

    /// Of its images alone.
    #[inline]
    pub fn images_utf16(&self, block: u32) -> u64 {
        self.session.parts_of(block).map_or(0, |p| u64::from(p.image_base64_chars))
    }

    /// First block of the `turns`-th answer from the end: results before it are older than so many
    /// turns. All blocks if `turns` is 0 or less, none if there are fewer answers.
    pub fn turn_boundary(&self, turns: i64) -> u32 {
        match usize::try_from(turns) {
            Err(_) | Ok(0) => self.revealed,
            Ok(n) if n > self.answered.len() => self.live_from,
            Ok(n) => self.session.steps[self.answered[self.answered.len() - n] as usize].output.start,
        }
    }

    /// The client message that starts at block `from`: its range of blocks.
    pub fn message_at(&self, from: u32) -> Range<u32> {
        self.message_from(from, false)
    }

    /// The same; `merged`: all results of a batch are one message.
    pub fn message_from(&self, from: u32, merged: bool) -> Range<u32> {
        let blocks = &self.session.blocks;
        let mut end = from + 1;
        while end < self.revealed && self.are_one_message(end - 1, end, merged) {
            end += 1;
        }
        debug_assert!(end as usize <= blocks.len());
        from..end
    }

    /// Whether two neighbouring blocks belong to one client message.
    pub fn are_one_message(&self, a: u32, b: u32, merged: bool) -> bool {
        let blocks = &self.session.blocks;
        let (a, b) = (a as usize, b as usize);
        let results = blocks.kind[a] == BlockKind::ToolResult && blocks.kind[b] == BlockKind::ToolResult;
        blocks.message[a] == blocks.message[b] || (merged && results)
    }

    /// The message that ends with block `last`, live blocks only.
    pub fn message_to(&self, last: u32, merged: bool) -> Range<u32> {
        let mut start = last;
        while start > self.live_from
            && self.are_one_message(start - 1, start, merged)
            && self.is_live(start - 1)
        {
            start -= 1;
        }
        start..last + 1
    }

    /// Sizes of a block's text as stored, images left out.
    pub fn text_size(&self, block: u32) -> TextSize {
        let blocks = &self.session.blocks;
        let i = block as usize;
        match self.stored_of(block) {
            Some(s) => TextSize {
                utf16: u64::from(s.utf16),
                bytes: u64::from(s.bytes),
                ascii: u64::from(s.ascii),
                tokens: u64::from(s.tokens),
            },
            None => TextSize {
                utf16: u64::from(blocks.utf16[i]),
                bytes: u64::from(blocks.bytes[i]),
                ascii: u64::from(blocks.ascii[i]),
                tokens: u64::from(blocks.tokens[i]),
            },
        }
    }

    /// Lines of a block's text as stored.
    pub fn text_lines(&self, block: u32) -> u64 {
        self.stored_of(block)
            .map_or_else(|| u64::from(self.session.blocks.lines[block as usize]), |s| u64::from(s.lines))
    }

    /// Arguments of a call as `key:value,` for each: from the lengths of their two renderings, every value
    /// taken for a text.
    fn plain_args(&self, block: u32) -> TextSize {
        let i = block as usize;
        let blocks = &self.session.blocks;
        if self.states[i].has(State::REPLACED) {
            return self.text_size(block);
        }
        let json = u64::from(blocks.json_utf16[i]);
        let rendered = u64::from(blocks.args_utf16[i]);
        if rendered == 0 {
            return TextSize::default();
        }
        let arguments = json.saturating_sub(rendered + 3).max(1);
        let utf16 = (rendered + 2).saturating_sub(3 * arguments);
        let text = self.text_size(block);
        let structure = text.utf16.saturating_sub(utf16);
        TextSize {
            utf16,
            bytes: text.bytes.saturating_sub(structure),
            ascii: text.ascii.saturating_sub(structure),
            tokens: text.tokens,
        }
    }

    /// Thousandths of tokens of one block under a law of texts.
    fn block_milli(&self, law: &TextLaw, block: u32) -> u64 {
        let i = block as usize;
        let images = |n: u64| 1_000 * law.image_tokens * n;
        match self.session.blocks.kind[i] {
            BlockKind::Thinking if !law.thinking => 0,
            BlockKind::ToolUse if !law.args => 0,
            BlockKind::ToolUse => {
                let name = TextSize::ascii(self.tool_name_utf16(block));
                law.milli(&name) + law.milli(&self.plain_args(block))
            }
            BlockKind::Image => images(1),
            BlockKind::ToolResult => {
                let parts = self.session.parts_of(block).map_or(0, |p| u64::from(p.images));
                law.milli(&self.text_size(block)) + images(parts)
            }
            BlockKind::Thinking | BlockKind::UserText | BlockKind::AssistantText => {
                law.milli(&self.text_size(block))
            }
        }
    }

    /// Tokens of one text under the client's law, a message of its own.
    pub fn text_tokens(&self, law: &EstimateLaw, text: &TextSize) -> u64 {
        match &law.texts {
            Some(texts) => law.total(texts.milli(text)),
            None => law.tokens(text.utf16),
        }
    }

    /// Thousandths of tokens of the client message in `range`; see [`EstimateLaw::total`].
    pub fn message_milli(&self, law: &EstimateLaw, range: Range<u32>) -> u64 {
        self.work.add(range.len());
        match &law.texts {
            Some(text) => {
                let live = range.filter(|block| self.is_live(*block));
                text.message_milli(live.map(|block| self.block_milli(text, block)).sum())
            }
            None => 1_000 * self.message_size(law, range).tokens(),
        }
    }

    /// Tokens of the client message in `range`.
    pub fn message_tokens(&self, law: &EstimateLaw, range: Range<u32>) -> u64 {
        law.total(self.message_milli(law, range))
    }

    /// JSON size of the client message in `range`, measured by `law`.
    pub fn message_size<'l>(&self, law: &'l EstimateLaw, range: Range<u32>) -> MessageSize<'l> {
        let blocks = &self.session.blocks;
        let first = range.start as usize;
        match blocks.kind[first] {
            BlockKind::ToolResult => self.result_size(law, range.start),
            kind if kind.is_assistant() => self.assistant_size(law, range),
            _ => {
                range.filter(|i| self.is_live(*i)).fold(law.user(), |size, i| match blocks.kind[i as usize] {
                    BlockKind::Image => size.image(u64::from(blocks.utf16[i as usize])),
                    _ => size.text(u64::from(blocks.json_utf16[i as usize])),
                })
            }
        }
    }

    fn result_size<'l>(&self, law: &'l EstimateLaw, block: u32) -> MessageSize<'l> {
        let blocks = &self.session.blocks;
        let i = block as usize;
        let is_error = blocks.flags[i].has(Flags::ERROR);
        let mut size = law.tool_result(self.call_id_utf16(block), self.tool_name_utf16(block), is_error);
        let parts = self.session.parts_of(block);
        let (texts, images) = parts.map_or((1, 0), |p| (p.texts, p.images));
        size = match self.stored_of(block) {
            None if texts == 0 && images > 0 => size,
            // The text of all parts is counted with the first.
            None => (1..texts).fold(size.text(u64::from(blocks.json_utf16[i])), |size, _| size.text(0)),
            Some(s) if s.path_utf16 == 0 => size.text(u64::from(s.json_utf16)),
            Some(s) => size.text(u64::from(s.json_utf16)).offload_details(
                u64::from(s.path_utf16),
                [
                    u64::from(blocks.utf16[i]),
                    u64::from(blocks.bytes[i]),
                    u64::from(blocks.lines[i]),
                    u64::from(s.utf16),
                ],
            ),
        };
        match parts {
            Some(parts) if images > 0 => {
                (1..images).fold(size.image(u64::from(parts.image_base64_chars)), |size, _| size.image(0))
            }
            _ => size,
        }
    }

    fn assistant_size<'l>(&self, law: &'l EstimateLaw, range: Range<u32>) -> MessageSize<'l> {
        let blocks = &self.session.blocks;
        let has_calls = range.clone().any(|i| blocks.kind[i as usize] == BlockKind::ToolUse);
        let step = self.session.steps.partition_point(|s| s.output.start <= range.start).saturating_sub(1);
        let usage_digits = self.usage_digits.get(step).copied().map_or(4, u64::from);
        let live = range.filter(|i| self.is_live(*i));
        live.fold(law.assistant(self.model_id_utf16, usage_digits, has_calls), |size, i| {
            let stored = self.stored_of(i).map(|s| s.json_utf16);
            let json = u64::from(stored.unwrap_or(blocks.json_utf16[i as usize]));
            match blocks.kind[i as usize] {
                BlockKind::Thinking => size.thinking(json),
                BlockKind::ToolUse => size.tool_call(self.call_id_utf16(i), self.tool_name_utf16(i), json),
                _ => size.text(json),
            }
        })
    }

    /// Tool of a call or a result.
    pub fn tool(&self, block: u32) -> Option<&Tool> {
        self.session.tools.get(self.session.blocks.tool[block as usize] as usize)
    }

    /// Length of the name of a call's or result's tool.
    pub fn tool_name(&self, block: u32) -> NameSize {
        self.tool_names.get(self.session.blocks.tool[block as usize] as usize).copied().unwrap_or_default()
    }

    /// UTF-16 units of the name of a call's or result's tool.
    pub fn tool_name_utf16(&self, block: u32) -> u64 {
        u64::from(self.tool_name(block).utf16)
    }

    fn call_id_utf16(&self, block: u32) -> u64 {
        self.session
            .calls
            .get(self.session.blocks.call[block as usize] as usize)
            .map_or(0, |c| u64::from(c.id_utf16))
    }

    /// The last usage reported for an answer that is still in the history.
    pub fn last_usage(&self, until_edit: bool) -> Option<LastUsage> {
        let steps = self.answered.iter().rev().copied();
        let usage = steps
            .map(|step| LastUsage {
                total_tokens: self.usage_totals[step as usize],
                output_tokens: u64::from(self.session.steps[step as usize].output_tokens),
                step,
            })
            .find(|usage| usage.total_tokens > 0)?;
        let is_known = !until_edit || self.session.steps[usage.step as usize].output.end > self.edited_at;
        is_known.then_some(usage)
    }

    /// The client's estimate of the stored history.
    pub fn estimate_tokens(&self, law: &EstimateLaw) -> u64 {
        let last = if law.anchor == Anchor::None { None } else { self.last_usage(law.until_edit) };
        let Some(last) = last else { return self.sum_of_messages(law) };
        let output = &self.session.steps[last.step as usize].output;
        let prompt_tokens = last.total_tokens.saturating_sub(last.output_tokens);
        match law.anchor {
            Anchor::None | Anchor::LastUsage => last.total_tokens,
            Anchor::LastUsageTotal => last.total_tokens + law.total(self.milli_from(law, output.end)),
            Anchor::LastPrompt => prompt_tokens,
            Anchor::LastPromptAndTail => prompt_tokens + law.total(self.milli_from(law, output.start)),
        }
    }

    /// Plain sum of the estimated tokens of every message, without the anchor.
    pub fn sum_of_messages(&self, law: &EstimateLaw) -> u64 {
        law.total(self.summary_milli(law) + self.milli_from(law, self.live_from))
    }

    fn milli_from(&self, law: &EstimateLaw, from: u32) -> u64 {
        self.messages_from(from, law.merged).map(|message| self.message_milli(law, message)).sum()
    }

    /// Thousandths of estimated tokens of the summary message, 0 without one.
    pub fn summary_milli(&self, law: &EstimateLaw) -> u64 {
        self.summary.map_or(0, |s| self.milli_of_summary(law, &s))
    }

    /// The same of any summary.
    pub fn milli_of_summary(&self, law: &EstimateLaw, s: &SummaryMessage) -> u64 {
        match &law.texts {
            Some(text) => {
                let wide = u64::from(s.wide_bytes);
                let ascii = u64::from(s.utf16).saturating_sub(wide / 3);
                let size = TextSize {
                    utf16: u64::from(s.utf16),
                    bytes: ascii + wide,
                    ascii,
                    tokens: u64::from(s.tokens),
                };
                text.message_milli(text.milli(&size))
            }
            None => 1_000 * law.user().text(u64::from(s.json_utf16)).tokens(),
        }
    }
}
