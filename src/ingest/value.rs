//! Looking into JSON values whose fields may be of any type: an odd one is as good as none.
//!
//! For formats of moderate size; one of which there are gigabytes has a parser of its own.

use serde_json::Value;

use super::image;
use super::time::parse_ms;
use crate::transcript::{Content, ResultPart};
use crate::usage::Usage;

/// Counts above this are no counts (docs/decisions.md 30).
const MAX_TOKENS: u64 = 1_000_000_000;

/// Why a response whose counts cannot be is one without usage.
pub const BAD_USAGE: &str = "a token count is negative, no number, over 1e9, or larger than the one it is part of: this request counts as one without usage";

/// The text of field `name`; empty where there is none.
pub fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of field `name`; none where it is no array.
pub fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether field `name` is true.
pub fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A time as text or as a number of milliseconds.
pub fn time_ms(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => parse_ms(text),
        Value::Number(number) => parse_ms(&number.to_string()),
        _ => None,
    }
}

/// A time as a number of seconds, or of milliseconds where it is too large for seconds.
pub fn seconds_or_ms(value: Option<&Value>) -> Option<i64> {
    // Seconds of the year 5138; as milliseconds a day of 1973.
    const LAST_SECOND: i64 = 100_000_000_000;
    match value?.as_i64()? {
        seconds @ 0..LAST_SECOND => Some(seconds * 1000),
        _ => time_ms(value),
    }
}

/// Number of characters of a signature.
pub fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// Token counts of one usage object.
#[derive(Debug, Default)]
pub struct Counts {
    bad: bool,
}

impl Counts {
    /// The count in field `name`, 0 where there is none; a text that holds a number is one.
    pub fn field(&mut self, usage: &Value, name: &str) -> u64 {
        let count = match usage.get(name) {
            None | Some(Value::Null) => Some(0),
            Some(Value::String(text)) => text.trim().parse().ok(),
            // Some writers know no integers.
            Some(value) => value.as_u64().or_else(|| value.to_string().strip_suffix(".0")?.parse().ok()),
        };
        let count = count.filter(|count| *count <= MAX_TOKENS);
        self.bad |= count.is_none();
        count.unwrap_or(0)
    }

    /// Takes no count for good unless `is_good`.
    pub fn reject_unless(&mut self, is_good: bool) {
        self.bad |= !is_good;
    }

    /// What `whole` leaves when `part` is taken out of it.
    pub fn without(&mut self, whole: u64, part: u64) -> u64 {
        self.bad |= part > whole;
        whole.saturating_sub(part)
    }

    /// Whether a count so far was none.
    pub fn is_bad(&self) -> bool {
        self.bad
    }

    /// `usage`, unless a count of it was none or it is all zero: that was never billed.
    pub fn finish(&self, usage: Usage) -> Option<Usage> {
        (!self.bad && usage != Usage::default()).then_some(usage)
    }
}

/// Whether a field, if it is there, is a sum of counts: over a long session they are more than one can be.
pub fn is_total(value: Option<&Value>) -> bool {
    const MAX_TOTAL: u64 = 1_000_000_000_000_000;
    let total = match value {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_u64(),
    };
    total.is_some_and(|total| total <= MAX_TOTAL)
}

/// A block of content as a part of a result; blocks that are neither text nor image keep their size as
/// JSON.
pub fn result_part(block: &Value) -> ResultPart {
    if let Some(data) = image_data(block) {
        return ResultPart::Image(image::describe(data));
    }
    ResultPart::Text(text_of(block))
}

/// A block of content of a user.
pub fn user_block(block: &Value) -> Content {
    match result_part(block) {
        ResultPart::Text(text) | ResultPart::ToolReference(text) => Content::Text(text),
        ResultPart::Image(image) => Content::Image(image),
    }
}

/// A text, or a list of blocks, as content of a user; empty texts are left out.
pub fn user_content(content: &Value) -> Vec<Content> {
    let blocks = match content {
        Value::Null => return Vec::new(),
        Value::Array(blocks) => blocks.as_slice(),
        other => std::slice::from_ref(other),
    };
    blocks.iter().map(user_block).filter(|c| !matches!(c, Content::Text(text) if text.is_empty())).collect()
}

/// A text, or a list of blocks, as the parts of a result.
pub fn result_parts(content: &Value) -> Vec<ResultPart> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(blocks) => blocks.iter().map(result_part).collect(),
        other => vec![result_part(other)],
    }
}

/// Base64 text of a block that is an image, in any of the dialects.
fn image_data(block: &Value) -> Option<&str> {
    let url = match block.get("image_url") {
        Some(Value::Object(object)) => object.get("url"),
        other => other,
    };
    let inline = block.get("inlineData").filter(|data| text(data, "mimeType").starts_with("image/"));
    let plain = (text(block, "type") == "image").then_some(block);
    let plain = |path: &str| plain.and_then(|p| p.pointer(path));
    let data =
        [url, inline.and_then(|i| i.get("data")), plain("/data"), plain("/source/data"), plain("/image")];
    data.into_iter().flatten().find_map(Value::as_str)
}

fn text_of(block: &Value) -> String {
    match block {
        Value::String(text) => text.clone(),
        block => block.get("text").and_then(Value::as_str).map_or_else(|| block.to_string(), str::to_owned),
    }
}

/// What is kept of a conversation across a compaction, as the text that the compaction puts in: only
/// sizes and hashes matter there, and the originals stand in the transcript already (docs/decisions.md 37).
pub fn as_text(content: &Content) -> Content {
    match content {
        Content::Text(_) | Content::Image(_) => content.clone(),
        Content::Thinking { text, .. } => Content::Text(text.clone()),
        Content::ToolUse { name, input, .. } => Content::Text(format!("{name} {input}")),
        Content::ToolResult { parts, .. } => {
            let texts =
                parts.iter().filter_map(|p| if let ResultPart::Text(t) = p { Some(&**t) } else { None });
            Content::Text(texts.collect::<Vec<_>>().join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Counts, items, text, time_ms, user_content};
    use crate::transcript::Content;

    #[test]
    fn odd_fields_are_as_good_as_none() {
        let odd = json!({"a": 1, "b": {"c": []}, "t": true});
        assert_eq!((text(&odd, "a"), items(&odd, "b").len(), time_ms(odd.get("t"))), ("", 0, None));
        assert_eq!(time_ms(Some(&json!(1_770_949_151_604_i64))), Some(1_770_949_151_604));
    }

    #[test]
    fn counts_that_cannot_be_are_seen() {
        let good = json!({"a": 3, "b": "4", "c": 5.0, "d": null});
        let mut counts = Counts::default();
        let read: Vec<u64> = ["a", "b", "c", "d", "e"].iter().map(|n| counts.field(&good, n)).collect();
        assert_eq!((read, counts.is_bad()), (vec![3, 4, 5, 0, 0], false));
        for bad in [json!(-1), json!("NaN"), json!(1.5), json!(1_000_000_001), json!([])] {
            let mut counts = Counts::default();
            counts.field(&json!({"a": bad}), "a");
            assert!(counts.is_bad(), "{bad}");
        }
        let mut counts = Counts::default();
        assert_eq!((counts.without(5, 6), counts.is_bad()), (0, true));
    }

    #[test]
    fn images_of_every_dialect_are_images() {
        for image in [
            json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
            json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
            json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
            json!({"type": "image", "image": "data:image/png;base64,AAAA"}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}),
        ] {
            let content = user_content(&json!([image]));
            assert!(matches!(&content[..], [Content::Image(i)] if i.base64_chars == 4), "{image}");
        }
    }
}
