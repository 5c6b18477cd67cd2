//! Lines of a trace. Keys are short because there is a line per block; each is documented here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FORMAT_VERSION;
use crate::session::{
    Block, BlockKind, Call, Event, EventKind, Facts, Flags, Marks, NONE, Origin, Prefix, ResultParts,
    Session, Step, Tool,
};
use crate::tokens::{Coefficients, Tokenizer};
use crate::usage::Usage;

/// Hashes as 16 hex digits: a JSON number cannot hold them everywhere.
pub(in crate::session) mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{hash:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(|_| {
            serde::de::Error::invalid_value(serde::de::Unexpected::Str(&text), &"a hash of 16 hex digits")
        })
    }
}

/// First line.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Version of the trace format.
    pub format_version: u32,
    /// Session id.
    pub id: String,
    /// Id of the session that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Recording it comes from.
    pub origin: Origin,
    /// Model id of the first response.
    pub model: String,
    /// Tokenizer that all token counts are on.
    pub tokenizer: Tokenizer,
    /// Milli-tokens per UTF-16 unit.
    pub coefficients: Coefficients,
    /// Blocks in front of the conversation.
    pub prefix: Prefix,
    /// Whether the prefix was sized from recorded usage.
    pub prefix_is_measured: bool,
    /// Cache read of the first request.
    pub warm_prefix_tokens: u64,
    /// Tools, in the order of their indexes.
    pub tools: Vec<Tool>,
    /// Calls in the order of their indexes, equal neighbours together: [count, UTF-16 units of the id,
    /// of the id as part of a file name].
    pub calls: Vec<[u32; 3]>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of steps.
    pub steps: u64,
    /// Number of events.
    pub events: u64,
}

impl Header {
    pub(super) fn of(session: &Session) -> Header {
        Header {
            format_version: FORMAT_VERSION,
            id: session.id.clone(),
            parent: session.parent.clone(),
            origin: session.origin.clone(),
            model: session.model.clone(),
            tokenizer: session.tokenizer,
            coefficients: session.coefficients,
            prefix: session.prefix.clone(),
            prefix_is_measured: session.prefix_is_measured,
            warm_prefix_tokens: session.warm_prefix_tokens,
            tools: session.tools.clone(),
            calls: session
                .calls
                .chunk_by(|a, b| a == b)
                .map(|run| [as_u32(run.len()), run[0].id_utf16, run[0].safe_utf16])
                .collect(),
            blocks: session.blocks.len() as u64,
            steps: session.steps.len() as u64,
            events: session.events.len() as u64,
        }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        let repeat = |[count, id_utf16, safe_utf16]: &[u32; 3]| {
            std::iter::repeat_n(Call { id_utf16: *id_utf16, safe_utf16: *safe_utf16 }, *count as usize)
        };
        self.calls.iter().flat_map(repeat).collect()
    }
}

/// A content block.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BlockLine {
    /// Kind.
    pub k: BlockKind,
    /// Properties, as bits: 1 injected, 2 error, 4 signed, 8 redacted, 16 synthetic, 32 put there by a
    /// recorded compaction, 64 folded by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub f: u8,
    /// Message.
    pub m: u32,
    /// Tool index, of calls and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t: Option<u32>,
    /// Call index, of calls and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c: Option<u32>,
    /// Keyed hash of the content.
    #[serde(with = "hex")]
    #[schemars(with = "String")]
    pub h: u64,
    /// Tokens.
    pub n: u32,
    /// UTF-16 units.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub u: u32,
    /// Lines.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub l: u32,
    /// UTF-8 bytes, if not `u`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<u32>,
    /// UTF-16 units inside a JSON string, if not `u`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub j: Option<u32>,
    /// ASCII characters, if not `u`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<u32>,
    /// Of a call: UTF-16 units of its arguments as `key=json, key2=json`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub g: u32,
    /// Of a result that is not one plain text: [texts, images, base64 characters of the images, their
    /// tokens].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<[u32; 4]>,
    /// Reserved: indexes of the blocks whose content this one uses. Not read yet.
    #[serde(default, skip_serializing)]
    pub uses: Option<Vec<u32>>,
}

impl BlockLine {
    pub(super) fn of(block: &Block, parts: Option<&ResultParts>) -> BlockLine {
        let unless_same = |value: u32| (value != block.utf16).then_some(value);
        let index = |value: u32| (value != NONE).then_some(value);
        BlockLine {
            k: block.kind,
            f: block.flags.0,
            m: block.message,
            t: index(block.tool),
            c: index(block.call),
            h: block.hash,
            n: block.tokens,
            u: block.utf16,
            l: block.lines,
            b: unless_same(block.bytes),
            j: unless_same(block.json_utf16),
            a: unless_same(block.ascii),
            g: block.args_utf16,
            p: parts.map(|p| [p.texts, p.images, p.image_base64_chars, p.image_tokens]),
            uses: None,
        }
    }

    pub(super) fn block(&self) -> Block {
        Block {
            kind: self.k,
            flags: Flags(self.f),
            message: self.m,
            tool: self.t.unwrap_or(NONE),
            call: self.c.unwrap_or(NONE),
            hash: self.h,
            tokens: self.n,
            utf16: self.u,
            bytes: self.b.unwrap_or(self.u),
            lines: self.l,
            json_utf16: self.j.unwrap_or(self.u),
            ascii: self.a.unwrap_or(self.u),
            args_utf16: self.g,
        }
    }

    pub(super) fn parts(&self, block: u32) -> Option<ResultParts> {
        let [texts, images, image_base64_chars, image_tokens] = self.p?;
        Some(ResultParts { block, texts, images, image_base64_chars, image_tokens })
    }
}

/// A request and its response.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepLine {
    /// Number of input blocks: the first of those since the previous step.
    pub i: u32,
    /// Number of output blocks.
    pub o: u32,
    /// Start, Unix epoch in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t: Option<i64>,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub d: u32,
    /// Tokens behind the last block.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub x: u32,
    /// Hash of these tokens, where other prompts may end in the same.
    #[serde(default, skip_serializing_if = "is_zero", with = "hex")]
    #[schemars(with = "String")]
    pub y: u64,
    /// Tokens generated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub g: u32,
    /// A human turn starts here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub h: bool,
    /// Recorded usage: [uncached, cache read, 5-minute write, 1-hour write, output].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub u: Option<[u64; 5]>,
    /// Facts, as bits: 1 the output count is final, 2 summed up for an absent user, 4 a background task
    /// reported, 8 a skill was loaded, 16 the tools of the task list were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub f: u8,
    /// Tool definitions that were loaded into the input.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub l: u32,
    /// Time of the last summary for an absent user, Unix epoch in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub w: Option<i64>,
}

impl StepLine {
    pub(super) fn of(step: &Step) -> StepLine {
        StepLine {
            i: step.input.end - step.input.start,
            o: step.output.end - step.output.start,
            t: step.start_ms,
            d: step.duration_ms,
            x: step.tail_tokens,
            y: step.tail_hash,
            g: step.output_tokens,
            h: step.human_turn,
            u: step.recorded.map(|u| {
                [
                    u.uncached_tokens,
                    u.cache_read_tokens,
                    u.cache_write_5m_tokens,
                    u.cache_write_1h_tokens,
                    u.output_tokens,
                ]
            }),
            f: step.facts.marks.0,
            l: step.facts.loaded_tools,
            w: step.facts.away_at_ms,
        }
    }

    /// The step whose blocks begin at `first`; `None` if it has more blocks than can be counted.
    pub(super) fn step(&self, first: u32) -> Option<Step> {
        let middle = first.checked_add(self.i)?;
        let end = middle.checked_add(self.o)?;
        let usage = |[uncached, read, short, long, output]: [u64; 5]| Usage {
            uncached_tokens: uncached,
            cache_read_tokens: read,
            cache_write_5m_tokens: short,
            cache_write_1h_tokens: long,
            output_tokens: output,
        };
        Some(Step {
            input: first..middle,
            output: middle..end,
            start_ms: self.t,
            duration_ms: self.d,
            tail_tokens: self.x,
            tail_hash: self.y,
            output_tokens: self.g,
            human_turn: self.h,
            recorded: self.u.map(usage),
            facts: Facts { marks: Marks(self.f), loaded_tools: self.l, away_at_ms: self.w },
        })
    }
}

/// Something between requests.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventLine {
    /// Step that it comes before.
    pub s: u32,
    /// What it is.
    pub k: EventKind,
}

impl EventLine {
    pub(super) fn of(event: &Event) -> EventLine {
        EventLine { s: event.before_step, k: event.kind.clone() }
    }

    pub(super) fn event(self) -> Event {
        Event { before_step: self.s, kind: self.k }
    }
}

/// Header line as written.
#[derive(Serialize)]
pub(super) struct HeaderOut {
    #[serde(rename = "ctxsim_trace")]
    pub header: Header,
}

/// Block line as written.
#[derive(Serialize)]
pub(super) struct BlockOut {
    pub b: BlockLine,
}

/// Step line as written.
#[derive(Serialize)]
pub(super) struct StepOut {
    pub s: StepLine,
}

/// Event line as written.
#[derive(Serialize)]
pub(super) struct EventOut {
    pub e: EventLine,
}

/// Any line as read: one key, others ignored.
#[derive(Deserialize, JsonSchema)]
pub(super) struct AnyLine {
    #[serde(rename = "ctxsim_trace")]
    pub header: Option<Header>,
    pub b: Option<BlockLine>,
    pub s: Option<StepLine>,
    pub e: Option<EventLine>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn as_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
