//! A client's own estimate of its prompt: a law over the JSON text of its messages.
//!
//! Many clients divide the length of `JSON.stringify(message)` by four, and start from the last usage the
//! provider reported where there is one. The JSON shapes of the client's messages are data in the preset;
//! here they are only measured.
//!
//! # Divergence from the real API
//!
//! A recording's own `details` objects are not part of a session, so they count 0, except those that an
//! offload rule writes.

use schemars::JsonSchema;
use serde::Deserialize;

pub use super::file::{Anchor, Per, Round};
use super::laws::digits;
use super::value::Decimal;

/// The shapes as written in a preset: compact JSON of each kind of message and block, with everything
/// that varies left empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shapes {
    /// A message of the user's.
    pub user: String,
    /// An answer; its blocks come in addition.
    pub assistant: String,
    /// A message that carries a result, one that reports no error.
    pub tool_result: String,
    /// A text block.
    pub text: String,
    /// A thinking block, signature included.
    pub thinking: String,
    /// A call in an answer.
    pub tool_call: String,
    /// An image, in a message or a result.
    pub image: String,
    /// What an offload adds to its result.
    pub offload_details: String,
    /// The word that is stored as stop reason of an answer without calls.
    pub stop_reason: String,
    /// The same of an answer with calls.
    pub stop_reason_with_calls: String,
}

/// A law of estimation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateLaw {
    /// JSON characters per token; each message is rounded up by itself.
    pub chars_per_token: u64,
    /// What it starts from.
    pub anchor: Anchor,
    /// Any edit of the stored history makes the client forget the last usage until the next answer.
    pub until_edit: bool,
    /// All results of a batch are one message.
    pub merged: bool,
    /// Texts are measured, not JSON.
    pub texts: Option<TextLaw>,
    /// Digits of the timestamps of user messages, answers and results.
    pub timestamp_digits: [u64; 3],
    user: u64,
    assistant: u64,
    tool_result: u64,
    text: u64,
    thinking: u64,
    tool_call: u64,
    image: u64,
    offload_details: u64,
    stop_reason: u64,
    stop_reason_with_calls: u64,
}

/// Digits of a millisecond timestamp of our days.
pub const TIMESTAMP_DIGITS: u64 = 13;

impl EstimateLaw {
    /// Measures the shapes.
    pub fn new(chars_per_token: u64, shapes: &Shapes) -> EstimateLaw {
        let len = |s: &str| s.encode_utf16().count() as u64;
        EstimateLaw {
            chars_per_token: chars_per_token.max(1),
            anchor: Anchor::None,
            until_edit: false,
            merged: false,
            texts: None,
            timestamp_digits: [TIMESTAMP_DIGITS; 3],
            user: len(&shapes.user),
            assistant: len(&shapes.assistant),
            tool_result: len(&shapes.tool_result),
            text: len(&shapes.text),
            thinking: len(&shapes.thinking),
            tool_call: len(&shapes.tool_call),
            image: len(&shapes.image),
            offload_details: len(&shapes.offload_details),
            stop_reason: len(&shapes.stop_reason),
            stop_reason_with_calls: len(&shapes.stop_reason_with_calls),
        }
    }

    /// Whole tokens of a sum of messages, in thousandths of tokens.
    pub fn total(&self, milli: u64) -> u64 {
        match &self.texts {
            Some(text) => text.rounded(milli.saturating_mul(text.factor_percent) / 100) / 1_000,
            None => milli / 1_000,
        }
    }

    /// Tokens of a message of so many JSON characters.
    pub fn tokens(&self, json_utf16: u64) -> u64 {
        json_utf16.div_ceil(self.chars_per_token)
    }

    /// A user message.
    pub fn user(&self) -> MessageSize<'_> {
        MessageSize::new(self, self.user + self.timestamp_digits[0])
    }

    /// An assistant message; `usage_digits` is the number of digits of its four usage counts together.
    pub fn assistant(&self, model_utf16: u64, usage_digits: u64, has_calls: bool) -> MessageSize<'_> {
        let stop = if has_calls { self.stop_reason_with_calls } else { self.stop_reason };
        MessageSize::new(self, self.assistant + self.timestamp_digits[1] + model_utf16 + usage_digits + stop)
    }

    /// A tool result. `true` is one character shorter than `false`.
    pub fn tool_result(&self, call_id_utf16: u64, tool_utf16: u64, is_error: bool) -> MessageSize<'_> {
        let fixed = self.tool_result + self.timestamp_digits[2] - u64::from(is_error);
        MessageSize::new(self, fixed + call_id_utf16 + tool_utf16)
    }
}

/// What an estimate of texts looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnit {
    /// UTF-16 units by so many to a token.
    Utf16(Decimal),
    /// UTF-8 bytes by so many to a token.
    Bytes(Decimal),
    /// ASCII characters by four, down; the bytes of the others by one and a half, half up.
    Runes,
    /// The session's own token counts.
    Tokens,
}

/// A law over the texts of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLaw {
    /// What a text is measured in, and what of it makes a token.
    pub unit: TextUnit,
    /// What becomes of parts of a token.
    pub round: Round,
    /// Where it is rounded.
    pub per: Per,
    /// Tokens of every message besides its texts.
    pub message_tokens: u64,
    /// Tokens of every image; 0: images do not count.
    pub image_tokens: u64,
    /// Thinking counts.
    pub thinking: bool,
    /// Names and arguments of calls count.
    pub args: bool,
    /// Of the sum, in hundredths.
    pub factor_percent: u64,
}

/// Sizes of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextSize {
    /// UTF-16 code units.
    pub utf16: u64,
    /// UTF-8 bytes.
    pub bytes: u64,
    /// ASCII characters among them.
    pub ascii: u64,
    /// Prompt tokens by the session's own count; 0 where nobody has counted.
    pub tokens: u64,
}

impl TextSize {
    /// A text of ASCII characters only.
    pub fn ascii(chars: u64) -> TextSize {
        TextSize { utf16: chars, bytes: chars, ascii: chars, tokens: 0 }
    }
}

impl TextLaw {
    /// Thousandths of tokens of one text, rounded here if texts are what is rounded.
    pub fn milli(&self, text: &TextSize) -> u64 {
        let by = |size: u64, per_token: Decimal| {
            let scaled = u128::from(size) * 1_000_000_000 / u128::from(per_token.0.unsigned_abs().max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let milli = match self.unit {
            TextUnit::Utf16(per_token) => by(text.utf16, per_token),
            TextUnit::Bytes(per_token) => by(text.bytes, per_token),
            TextUnit::Runes => 1_000 * (text.ascii / 4 + (4 * text.bytes.saturating_sub(text.ascii) + 3) / 6),
            TextUnit::Tokens => 1_000 * text.tokens,
        };
        if self.per == Per::Block { self.rounded(milli) } else { milli }
    }

    /// Thousandths of tokens of a message whose texts come to so many.
    pub fn message_milli(&self, texts_milli: u64) -> u64 {
        let texts = if self.per == Per::Message { self.rounded(texts_milli) } else { texts_milli };
        texts + 1_000 * self.message_tokens
    }

    fn rounded(&self, milli: u64) -> u64 {
        1_000
            * match self.round {
                Round::Up => milli.div_ceil(1_000),
                Round::Down => milli / 1_000,
                Round::HalfUp => (milli + 500) / 1_000,
            }
    }
}

/// A message being measured: add its blocks, then ask for its size.
#[derive(Debug, Clone, Copy)]
pub struct MessageSize<'l> {
    law: &'l EstimateLaw,
    json_utf16: u64,
    blocks: u64,
}

impl<'l> MessageSize<'l> {
    fn new(law: &'l EstimateLaw, json_utf16: u64) -> MessageSize<'l> {
        MessageSize { law, json_utf16, blocks: 0 }
    }

    fn block(mut self, json_utf16: u64) -> Self {
        self.json_utf16 += json_utf16 + u64::from(self.blocks > 0);
        self.blocks += 1;
        self
    }

    /// A text of this length inside a JSON string.
    pub fn text(self, json_utf16: u64) -> Self {
        self.block(self.law.text + json_utf16)
    }

    /// Reasoning: text and signature together.
    pub fn thinking(self, json_utf16: u64) -> Self {
        self.block(self.law.thinking + json_utf16)
    }

    /// A call with its arguments as compact JSON.
    pub fn tool_call(self, id_utf16: u64, tool_utf16: u64, args_json_utf16: u64) -> Self {
        self.block(self.law.tool_call + id_utf16 + tool_utf16 + args_json_utf16)
    }

    /// An image by the length of its base64 text.
    pub fn image(self, base64_chars: u64) -> Self {
        self.block(self.law.image + base64_chars)
    }

    /// What an offload adds: the path and its four counts.
    pub fn offload_details(mut self, path_utf16: u64, counts: [u64; 4]) -> Self {
        self.json_utf16 +=
            self.law.offload_details + path_utf16 + counts.into_iter().map(digits).sum::<u64>();
        self
    }

    /// Its JSON text.
    pub fn json_utf16(self) -> u64 {
        self.json_utf16
    }

    /// Its tokens.
    pub fn tokens(self) -> u64 {
        self.law.tokens(self.json_utf16())
    }
}
