//! Content blocks of the recording → content blocks of the transcript.

use serde_json::value::RawValue;

use super::lenient::Body;
use super::wire::{Block, Source};
use crate::ingest::image;
use crate::transcript::{Content, Image, ResultPart};

/// Content of a user line.
pub fn of_user(body: Body<'_>) -> Vec<Content> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![Content::Text(text.into_owned())],
        Body::Blocks(blocks) => each(blocks, user_block),
    }
}

/// Content of an assistant line.
pub fn of_assistant(body: Body<'_>) -> Vec<Content> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![Content::Text(text.into_owned())],
        Body::Blocks(blocks) => each(blocks, assistant_block),
    }
}

/// Converts blocks into a vector of its own: `collect` would reuse the much larger one of the blocks.
fn each<'a, T>(blocks: Vec<Block<'a>>, convert: impl Fn(Block<'a>) -> T) -> Vec<T> {
    let mut converted = Vec::with_capacity(blocks.len());
    converted.extend(blocks.into_iter().map(convert));
    converted
}

fn user_block(block: Block<'_>) -> Content {
    match &*block.kind {
        "text" => Content::Text(block.text.0.into_owned()),
        "image" => Content::Image(image_of(block.source.0.as_ref())),
        "tool_result" => Content::ToolResult {
            call_id: block.tool_use_id.0.into_owned(),
            parts: result_parts(block.content),
            is_error: block.is_error.0,
        },
        _ => Content::Text(text_of(block)),
    }
}

fn assistant_block(block: Block<'_>) -> Content {
    match &*block.kind {
        "text" => Content::Text(block.text.0.into_owned()),
        "thinking" => Content::Thinking {
            signature_chars: chars(&block.signature),
            text: block.thinking.0.into_owned(),
            redacted: false,
        },
        "redacted_thinking" => {
            Content::Thinking { text: String::new(), signature_chars: chars(&block.data), redacted: true }
        }
        "tool_use" => Content::ToolUse {
            input: arguments(block.input),
            id: block.id.0.into_owned(),
            name: block.name.0.into_owned(),
        },
        _ => Content::Text(text_of(block)),
    }
}

fn result_parts(body: Body<'_>) -> Vec<ResultPart> {
    match body {
        Body::None => Vec::new(),
        Body::Text(text) => vec![ResultPart::Text(text.into_owned())],
        Body::Blocks(blocks) => each(blocks, result_part),
    }
}

fn result_part(block: Block<'_>) -> ResultPart {
    match &*block.kind {
        "image" => ResultPart::Image(image_of(block.source.0.as_ref())),
        "tool_reference" => ResultPart::ToolReference(block.tool_name.0.into_owned()),
        "text" => ResultPart::Text(block.text.0.into_owned()),
        _ => ResultPart::Text(text_of(block)),
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
