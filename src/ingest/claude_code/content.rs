//! Content blocks of the recording → content blocks of the transcript.

use std::borrow::Cow;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::chain::{Key, key};
use super::lenient::Body;
use super::wire::{Block, Source};
use crate::ingest::{Detail, image};
use crate::transcript::{Content, Image, ResultPart};

/// Content of a user line.
pub fn of_user(body: Body<'_>, detail: Detail) -> Vec<Content> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![Content::Text(kept(text, detail))],
        Body::Blocks(blocks) => each(blocks, |block| user_block(block, detail)),
    }
}

/// Content of an assistant line, each with its identity: what is the same in every line that repeats a
/// block. That is the id of a call, else all of it, whatever is kept.
pub fn of_assistant(body: Body<'_>, detail: Detail) -> Vec<(Key, Content)> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![text_block(text, detail)],
        Body::Blocks(blocks) => each(blocks, |block| assistant_block(block, detail)),
    }
}

/// Whether a text of the user is `wanted`.
pub fn any_user_text(body: &Body<'_>, wanted: impl Fn(&str) -> bool) -> bool {
    match body {
        Body::None => false,
        Body::Text(text) => wanted(text),
        Body::Blocks(blocks) => blocks.iter().any(|block| wanted(&block.text)),
    }
}

/// As much of a text as is wanted. Of facts the first character, so that nothing can be told from it but
/// that there is one.
fn kept(text: Cow<'_, str>, detail: Detail) -> String {
    match detail {
        Detail::Full => text.into_owned(),
        Detail::Facts => text.chars().take(1).collect(),
    }
}

/// Leaves out of content what is not wanted.
pub fn cut(content: &mut [Content], detail: Detail) {
    for content in content {
        if let Content::Text(text) = content {
            *text = kept(Cow::Borrowed(text), detail);
        }
    }
}

/// Converts blocks into a vector of its own: `collect` would reuse the much larger one of the blocks.
fn each<'a, T>(blocks: Vec<Block<'a>>, convert: impl Fn(Block<'a>) -> T) -> Vec<T> {
    let mut converted = Vec::with_capacity(blocks.len());
    converted.extend(blocks.into_iter().map(convert));
    converted
}

fn user_block(block: Block<'_>, detail: Detail) -> Content {
    match &*block.kind {
        "text" => Content::Text(kept(block.text.0, detail)),
        "image" => Content::Image(image_of(block.source.0.as_ref())),
        "tool_result" => Content::ToolResult {
            call_id: block.tool_use_id.0.into_owned(),
            parts: result_parts(block.content, detail),
            is_error: block.is_error.0,
        },
        _ => Content::Text(kept(text_of(block).into(), detail)),
    }
}

fn assistant_block(block: Block<'_>, detail: Detail) -> (Key, Content) {
    match &*block.kind {
        "text" => text_block(block.text.0, detail),
        "thinking" => thinking_block(block.thinking.0, chars(&block.signature), false, detail),
        "redacted_thinking" => thinking_block(Cow::default(), chars(&block.data), true, detail),
        "tool_use" => {
            let input = arguments(block.input);
            let identity = match &*block.id {
                "" => key(&format!("unnamed call {} {input}", &*block.name)),
                id => xxh3_64_with_seed(id.as_bytes(), 0xca11),
            };
            let (id, name) = (block.id.0.into_owned(), block.name.0.into_owned());
            (identity, Content::ToolUse { input, id, name })
        }
        _ => text_block(text_of(block).into(), detail),
    }
}

fn text_block(text: Cow<'_, str>, detail: Detail) -> (Key, Content) {
    (xxh3_64_with_seed(text.as_bytes(), 1), Content::Text(kept(text, detail)))
}

fn thinking_block(
    text: Cow<'_, str>,
    signature_chars: u32,
    redacted: bool,
    detail: Detail,
) -> (Key, Content) {
    let seed = 2 + (u64::from(signature_chars) << 2 | u64::from(redacted));
    let identity = xxh3_64_with_seed(text.as_bytes(), seed);
    (identity, Content::Thinking { text: kept(text, detail), signature_chars, redacted })
}

fn result_parts(body: Body<'_>, detail: Detail) -> Vec<ResultPart> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![ResultPart::Text(kept(text, detail))],
        Body::Blocks(blocks) => each(blocks, |block| result_part(block, detail)),
    }
}

fn result_part(block: Block<'_>, detail: Detail) -> ResultPart {
    match &*block.kind {
        "image" => ResultPart::Image(image_of(block.source.0.as_ref())),
        "tool_reference" => ResultPart::ToolReference(block.tool_name.0.into_owned()),
        "text" => ResultPart::Text(kept(block.text.0, detail)),
        _ => ResultPart::Text(kept(text_of(block).into(), detail)),
    }
}

/// What there is to read in a block of another type (tools run by the provider, documents): it is
/// part of the prompt, so its size must not be lost.
fn text_of(block: Block<'_>) -> String {
    let mut text = [&*block.text, &*block.name].concat();
    text.push_str(block.input.map_or("", RawValue::get));
    text.push_str(block.source.0.as_ref().map_or("", |source| &source.data));
    match block.content {
        Body::None => {}
        Body::Text(content) => text.push_str(&content),
        Body::Blocks(blocks) => text.extend(blocks.into_iter().map(text_of)),
    }
    text
}

fn image_of(source: Option<&Source<'_>>) -> Image {
    image::describe(source.map_or("", |source| &source.data))
}

/// Arguments as JSON text. Some proxies write them as a string that holds the JSON.
fn arguments(input: Option<&RawValue>) -> String {
    let raw = input.map_or("{}", RawValue::get);
    if raw.starts_with('"')
        && let Ok(inside) = serde_json::from_str::<String>(raw)
        && inside.trim_start().starts_with('{')
        && serde_json::from_str::<&RawValue>(&inside).is_ok()
    {
        return inside;
    }
    raw.to_owned()
}

fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}
