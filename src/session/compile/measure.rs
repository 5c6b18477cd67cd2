//! Sizes and hashes of content: the last place that sees text.

use xxhash_rust::xxh3::Xxh3;

use crate::session::{BlockKind, Call, Flags, ResultParts};
use crate::tokens::{Tokenizer, image_tokens};
use crate::transcript::{Image, ResultPart};

/// Size of a text in every unit a strategy may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Size {
    pub utf16: u32,
    pub bytes: u32,
    pub line_feeds: u32,
    /// Inside a JSON string.
    pub json_utf16: u32,
    pub ascii: u32,
}

impl Size {
    /// Measures in one pass. Escapes are those of JavaScript's `JSON.stringify`: two units for quote,
    /// backslash, `\b \f \n \r \t`, six for other control characters.
    pub fn of(text: &str) -> Size {
        let (mut continuation, mut four_byte, mut line_feeds, mut short, mut long, mut high) =
            (0, 0, 0, 0, 0, 0);
        // Counts of at most 255 fit a byte. Sums that are not checked let the compiler vectorize: ten times as fast.
        for chunk in text.as_bytes().chunks(255) {
            let mut counts = [0_u8; 6];
            for &b in chunk {
                let escaped = matches!(b, b'"' | b'\\' | 8 | 9 | 10 | 12 | 13);
                let is_of =
                    [b & 0xC0 == 0x80, b >= 0xF0, b == b'\n', escaped, b < 0x20 && !escaped, b >= 0x80];
                for (count, is_one) in counts.iter_mut().zip(is_of) {
                    *count = count.wrapping_add(u8::from(is_one));
                }
            }
            continuation += u64::from(counts[0]);
            four_byte += u64::from(counts[1]);
            line_feeds += u64::from(counts[2]);
            short += u64::from(counts[3]);
            long += u64::from(counts[4]);
            high += u64::from(counts[5]);
        }
        let bytes = text.len() as u64;
        let utf16 = bytes - continuation + four_byte;
        Size {
            utf16: clamp(utf16),
            bytes: clamp(bytes),
            line_feeds: clamp(line_feeds),
            json_utf16: clamp(utf16 + short + 5 * long),
            ascii: clamp(bytes - high),
        }
    }

    fn add(&mut self, other: Size) {
        self.utf16 = self.utf16.saturating_add(other.utf16);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.line_feeds = self.line_feeds.saturating_add(other.line_feeds);
        self.json_utf16 = self.json_utf16.saturating_add(other.json_utf16);
        self.ascii = self.ascii.saturating_add(other.ascii);
    }

    /// 0 if empty, else 1 + line feeds.
    pub fn lines(self) -> u32 {
        if self.bytes == 0 { 0 } else { self.line_feeds + 1 }
    }
}

/// UTF-16 units of a text as the inside of a JSON string.
pub fn json_utf16(text: &str) -> u64 {
    u64::from(Size::of(text).json_utf16)
}

/// `u64` → `u32`; sizes over 4 G stay at the largest.
pub(super) fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Keyed hash of content: kind first, lengths between parts, so that no two contents run together.
pub(super) struct Hasher {
    state: Xxh3,
}

impl Hasher {
    pub fn new(key: u64, kind: u8) -> Hasher {
        let mut state = Xxh3::with_seed(key);
        state.update(&[kind]);
        Hasher { state }
    }

    pub fn number(mut self, value: u64) -> Hasher {
        self.state.update(&value.to_le_bytes());
        self
    }

    pub fn text(mut self, text: &str) -> Hasher {
        self.state.update(&(text.len() as u64).to_le_bytes());
        self.state.update(text.as_bytes());
        self
    }

    pub fn finish(self) -> u64 {
        self.state.digest()
    }
}

/// Tag of a kind in the hash; also of prefix blocks.
pub(super) fn kind_tag(kind: BlockKind) -> u8 {
    match kind {
        BlockKind::UserText => 1,
        BlockKind::ToolResult => 2,
        BlockKind::Image => 3,
        BlockKind::AssistantText => 4,
        BlockKind::Thinking => 5,
        BlockKind::ToolUse => 6,
    }
}

/// Tag of the results that stand for missing ones.
pub(super) const SYNTHETIC_TAG: u8 = 7;
/// Tag of prefix blocks that the recording does not show.
pub(super) const HIDDEN_TAG: u8 = 8;
/// Tag of prefix blocks whose text the recording has.
pub(super) const PREFIX_TAG: u8 = 9;

/// Lengths of a call id: as it is, and as part of a file name (runs of characters outside
/// `[A-Za-z0-9._-]` become one `-`, those at the ends go, at most 80, `unknown` if nothing is left).
pub(super) fn call_id(id: &str) -> Call {
    let mut safe = String::with_capacity(id.len());
    for c in id.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            safe.push(c);
        } else if !safe.ends_with('\u{0}') {
            safe.push('\u{0}');
        }
    }
    let trimmed = safe.trim_matches(['\u{0}', '-']);
    let safe_utf16 = if trimmed.is_empty() { "unknown".len() } else { trimmed.len().min(80) };
    Call { id_utf16: Size::of(id).utf16, safe_utf16: clamp(safe_utf16 as u64) }
}

/// One content block, measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub kind: BlockKind,
    pub flags: Flags,
    pub hash: u64,
    pub size: Size,
    /// Only of calls.
    pub args_utf16: u32,
    /// Characters of the signature, only of thinking.
    pub signature_chars: u32,
    /// Tokens known without counting characters: images and tool references.
    pub fixed_tokens: u32,
    /// Parts of a result that is not one plain text; `block` is set on placement.
    pub parts: Option<ResultParts>,
}

impl Measured {
    pub fn plain(kind: BlockKind, flags: Flags, hash: u64, size: Size) -> Measured {
        Measured { kind, flags, hash, size, args_utf16: 0, signature_chars: 0, fixed_tokens: 0, parts: None }
    }
}

pub(super) fn text(kind: BlockKind, text: &str, key: u64) -> Measured {
    let hash = Hasher::new(key, kind_tag(kind)).text(text).finish();
    Measured::plain(kind, Flags::default(), hash, Size::of(text))
}

/// The signature itself is not in the transcript; its length stands for it.
pub(super) fn thinking(text: &str, signature_chars: u32, redacted: bool, key: u64) -> Measured {
    let hash = Hasher::new(key, kind_tag(BlockKind::Thinking))
        .text(text)
        .number(u64::from(signature_chars))
        .number(u64::from(redacted))
        .finish();
    let flags = if redacted { Flags::SIGNED.with(Flags::REDACTED) } else { Flags::SIGNED };
    let mut size = Size::of(text);
    size.json_utf16 = size.json_utf16.saturating_add(signature_chars);
    Measured { signature_chars, ..Measured::plain(BlockKind::Thinking, flags, hash, size) }
}

pub(super) fn image(image: &Image, key: u64) -> Measured {
    let hash = Hasher::new(key, kind_tag(BlockKind::Image)).number(image.hash).finish();
    let fixed_tokens = image_tokens(image.size_px);
    // What a client that estimates from its JSON counts; the provider counts pixels.
    let size = Size { utf16: image.base64_chars, ..Size::default() };
    Measured { fixed_tokens, ..Measured::plain(BlockKind::Image, Flags::default(), hash, size) }
}

/// A call: sizes are those of its arguments as compact JSON. Arguments that are no JSON count as they
/// stand.
pub(super) fn call(name: &str, input: &str, key: u64) -> Measured {
    let value: Option<serde_json::Value> = serde_json::from_str(input).ok();
    let compact = value.as_ref().map_or_else(|| input.to_owned(), ToString::to_string);
    let hash = Hasher::new(key, kind_tag(BlockKind::ToolUse)).text(name).text(&compact).finish();
    let mut size = Size::of(&compact);
    size.json_utf16 = size.utf16;
    let args_utf16 = value.as_ref().and_then(|v| v.as_object()).map_or(size.utf16, |arguments| {
        // `key=json` needs one unit more than its texts, `, ` two, against `"key":json` + `,` and the
        // braces; keys are counted without their quotes and escapes.
        let pairs: u64 = arguments
            .iter()
            .map(|(k, v)| u64::from(Size::of(k).utf16) + 1 + u64::from(Size::of(&v.to_string()).utf16))
            .sum();
        clamp(pairs + 2 * (arguments.len() as u64).saturating_sub(1))
    });
    Measured { args_utf16, ..Measured::plain(BlockKind::ToolUse, Flags::default(), hash, size) }
}

/// A result: sizes are sums over its text parts, lines those of the parts joined by a line feed.
pub(super) fn result(parts: &[ResultPart], is_error: bool, tokenizer: Tokenizer, key: u64) -> Measured {
    let mut hasher = Hasher::new(key, kind_tag(BlockKind::ToolResult)).number(u64::from(is_error));
    let mut size = Size::default();
    let mut row = ResultParts { block: 0, texts: 0, images: 0, image_base64_chars: 0, image_tokens: 0 };
    let mut reference_tokens = 0_u32;
    for part in parts {
        match part {
            ResultPart::Text(text) => {
                row.texts += 1;
                size.add(Size::of(text));
                hasher = hasher.number(1).text(text);
            }
            ResultPart::Image(image) => {
                row.images += 1;
                row.image_base64_chars = row.image_base64_chars.saturating_add(image.base64_chars);
                row.image_tokens = row.image_tokens.saturating_add(image_tokens(image.size_px));
                hasher = hasher.number(2).number(image.hash);
            }
            ResultPart::ToolReference(name) => {
                reference_tokens = reference_tokens.saturating_add(tokenizer.tool_reference_tokens());
                hasher = hasher.number(3).text(name);
            }
        }
    }
    if size.bytes > 0 {
        size.line_feeds = size.line_feeds.saturating_add(row.texts.saturating_sub(1));
    }
    let plain = row.images == 0 && row.texts == u32::from(row.texts > 0) && reference_tokens == 0;
    let flags = if is_error { Flags::ERROR } else { Flags::default() };
    Measured {
        fixed_tokens: row.image_tokens.saturating_add(reference_tokens),
        parts: (!plain).then_some(row),
        ..Measured::plain(BlockKind::ToolResult, flags, hasher.finish(), size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_measured_in_every_unit() {
        let size = Size::of("a\"\\\n\u{1}é€😀");
        assert_eq!((size.utf16, size.bytes, size.lines(), size.ascii), (9, 14, 2, 5));
        // Quote, backslash and line feed one more each, U+0001 five more.
        assert_eq!(size.json_utf16, 9 + 3 + 5);
        assert_eq!(Size::of("").lines(), 0);
        assert_eq!(Size::of("\n").lines(), 2);
    }

    #[test]
    fn long_texts_do_not_overflow_the_chunk_counters() {
        let text = "\n".repeat(1_000) + &"é".repeat(1_000);
        let size = Size::of(&text);
        assert_eq!((size.utf16, size.bytes, size.line_feeds), (2_000, 3_000, 1_000));
        assert_eq!((size.json_utf16, size.ascii), (3_000, 1_000));
    }

    #[test]
    fn call_arguments_are_counted_compact_and_as_pairs() {
        let m = call("Bash", "{ \"command\": \"ls -l\", \"n\": 1 }", 0);
        assert_eq!(m.size.utf16, r#"{"command":"ls -l","n":1}"#.len() as u32);
        assert_eq!(m.args_utf16, r#"command="ls -l", n=1"#.len() as u32);
        assert_eq!(m.hash, call("Bash", r#"{"command":"ls -l","n":1}"#, 0).hash);
        assert_eq!(call("Bash", "{}", 0).args_utf16, 0);
        assert_eq!(call("Bash", "not json", 0).size.utf16, 8);
    }

    #[test]
    fn hashes_depend_on_key_kind_and_content_only() {
        let a = text(BlockKind::UserText, "x", 0);
        assert_eq!(a.hash, text(BlockKind::UserText, "x", 0).hash);
        assert_ne!(a.hash, text(BlockKind::UserText, "x", 1).hash);
        assert_ne!(a.hash, text(BlockKind::AssistantText, "x", 0).hash);
        assert_ne!(thinking("", 400, false, 0).hash, thinking("", 404, false, 0).hash);
    }

    #[test]
    fn call_ids_become_file_names() {
        let lengths = |id: &str| (call_id(id).id_utf16, call_id(id).safe_utf16);
        assert_eq!(lengths("toolu_01"), (8, 8));
        assert_eq!(lengths("call//x|fc y"), (12, 11));
        assert_eq!(lengths("-/é-"), (4, 7));
        assert_eq!(lengths(&"x".repeat(100)), (100, 80));
    }

    #[test]
    fn results_of_several_parts_get_a_row() {
        let image = Image { base64_chars: 4_000, size_px: Some((750, 10)), hash: 7 };
        let parts = [
            ResultPart::Text("ab".into()),
            ResultPart::Image(image),
            ResultPart::Text("c".into()),
            ResultPart::ToolReference("WebFetch".into()),
        ];
        let m = result(&parts, true, Tokenizer::ClaudeOlder, 0);
        assert_eq!((m.size.utf16, m.size.lines(), m.fixed_tokens), (3, 2, 10 + 700));
        let row = m.parts.expect("not one plain text");
        assert_eq!((row.texts, row.images, row.image_base64_chars, row.image_tokens), (2, 1, 4_000, 10));
        assert!(m.flags.has(Flags::ERROR));
        assert!(result(&parts[..1], false, Tokenizer::ClaudeOlder, 0).parts.is_none());
        assert!(result(&[], false, Tokenizer::ClaudeOlder, 0).parts.is_none());
    }
}
