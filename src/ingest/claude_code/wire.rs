//! The lines as they are written, parsed in one pass and borrowed where possible.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Body, Count, Flag, List, Object, Str};

/// One object of a recording.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Str<'a>,
    #[serde(borrow)]
    pub subtype: Str<'a>,
    #[serde(borrow)]
    pub uuid: Str<'a>,
    #[serde(borrow)]
    pub parent_uuid: Str<'a>,
    #[serde(borrow)]
    pub session_id: Str<'a>,
    #[serde(borrow)]
    pub agent_id: Str<'a>,
    #[serde(borrow)]
    pub request_id: Str<'a>,
    #[serde(borrow)]
    pub timestamp: Str<'a>,
    #[serde(borrow)]
    pub version: Str<'a>,
    /// Of system lines: their text.
    #[serde(borrow)]
    pub content: Str<'a>,
    pub is_sidechain: Flag,
    pub is_meta: Flag,
    pub is_compact_summary: Flag,
    pub is_visible_in_transcript_only: Flag,
    pub is_api_error_message: Flag,
    #[serde(borrow)]
    pub origin: Object<Origin<'a>>,
    #[serde(borrow)]
    pub message: Object<Message<'a>>,
    #[serde(borrow)]
    pub attachment: Option<&'a RawValue>,
    #[serde(borrow)]
    pub data: Object<Progress<'a>>,
    #[serde(borrow)]
    pub compact_metadata: Object<CompactMetadata<'a>>,
    #[serde(borrow)]
    pub microcompact_metadata: Object<MicrocompactMetadata<'a>>,
}

/// Who wrote a user line.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Origin<'a> {
    #[serde(borrow)]
    pub kind: Str<'a>,
}

/// The `message` of user and assistant lines.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Message<'a> {
    #[serde(borrow)]
    pub id: Str<'a>,
    #[serde(borrow)]
    pub model: Str<'a>,
    #[serde(borrow)]
    pub stop_reason: Str<'a>,
    #[serde(borrow)]
    pub content: Body<'a>,
    pub usage: Object<Usage>,
}

/// The `data` of progress lines.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Str<'a>,
    #[serde(borrow)]
    pub agent_id: Str<'a>,
    #[serde(borrow)]
    pub prompt: Str<'a>,
    #[serde(borrow)]
    pub hook_name: Str<'a>,
    #[serde(borrow)]
    pub message: Object<AgentLine<'a>>,
}

/// A line of a sub-agent, inside the progress line of its parent.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentLine<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Str<'a>,
    #[serde(borrow)]
    pub uuid: Str<'a>,
    #[serde(borrow)]
    pub request_id: Str<'a>,
    #[serde(borrow)]
    pub timestamp: Str<'a>,
    pub is_meta: Flag,
    pub is_api_error_message: Flag,
    #[serde(borrow)]
    pub message: Object<Message<'a>>,
}

/// Of a compaction boundary.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactMetadata<'a> {
    #[serde(borrow)]
    pub trigger: Str<'a>,
    pub pre_tokens: Count,
    pub post_tokens: Count,
}

/// Of a clearing of old tool results.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MicrocompactMetadata<'a> {
    pub tokens_saved: Count,
    #[serde(borrow)]
    pub compacted_tool_ids: List<Str<'a>>,
}

/// One content block of either role, or one part of a tool result.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Str<'a>,
    #[serde(borrow)]
    pub text: Str<'a>,
    #[serde(borrow)]
    pub thinking: Str<'a>,
    #[serde(borrow)]
    pub signature: Str<'a>,
    /// Of redacted thinking.
    #[serde(borrow)]
    pub data: Str<'a>,
    #[serde(borrow)]
    pub id: Str<'a>,
    #[serde(borrow)]
    pub name: Str<'a>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_use_id: Str<'a>,
    #[serde(borrow)]
    pub content: Body<'a>,
    pub is_error: Flag,
    #[serde(borrow)]
    pub source: Object<Source<'a>>,
    #[serde(borrow)]
    pub tool_name: Str<'a>,
}

/// Where an image's data are.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Source<'a> {
    #[serde(borrow)]
    pub data: Str<'a>,
}

/// Token counts as reported.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: Count,
    pub cache_creation_input_tokens: Count,
    pub cache_read_input_tokens: Count,
    pub output_tokens: Count,
    pub cache_creation: Object<CacheCreation>,
    pub iterations: List<Object<Iteration>>,
}

/// Cache writes by their life.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct CacheCreation {
    pub ephemeral_5m_input_tokens: Count,
    pub ephemeral_1h_input_tokens: Count,
}

/// One of several passes of the provider over one request.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Iteration {
    pub input_tokens: Count,
    pub cache_creation_input_tokens: Count,
    pub cache_read_input_tokens: Count,
    pub output_tokens: Count,
    pub cache_creation: Object<CacheCreation>,
}
