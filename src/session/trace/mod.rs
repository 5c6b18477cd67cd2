//! The content-free trace format, both ways: `*.trace.jsonl`, one session a file.
//!
//! The first line is the header ([`Header`]); each further line is one object with one key: `b` a block
//! ([`BlockLine`]), `s` a step ([`StepLine`]), `e` an event ([`EventLine`]). Lines stand in the order of
//! the session: events before a step, its input blocks, its output blocks, the step. A new request
//! therefore adds lines at the end, and a diff shows what changed.
//!
//! A trace has no text but names of tools, models and agent, and the session's id, which the program writes as
//! a hash where somebody made it up ([`Session::nameless`]). Content is there as sizes and keyed hashes; a
//! call id as its length.
//!
//! It holds the session as compiled: with what recorded compactions injected and what they folded
//! ([`super::view`]), so that it can be replayed both ways.
//!
//! **Versions.** A reader refuses a newer `format_version` and ignores fields and line kinds it does not
//! know. Optional field `uses` of a block is reserved for edges: indexes of the blocks whose content
//! this one uses.

mod anonymise;
mod lines;
mod reading;

pub(super) use lines::hex;
pub use lines::{BlockLine, EventLine, Header, StepLine};
pub use reading::read;

use std::io::{self, Write};

use super::{EventKind, Session};
use lines::{BlockOut, EventOut, HeaderOut, StepOut};

/// Version of the format that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Writes a session.
///
/// # Errors
///
/// Those of the writer.
pub fn write(session: &Session, mut out: impl Write) -> io::Result<()> {
    line(&mut out, &HeaderOut { header: Header::of(session) })?;
    let mut parts = session.result_parts.iter().peekable();
    let mut events = session.events.iter().peekable();
    let mut block_lines = |out: &mut dyn Write, blocks: std::ops::Range<u32>| {
        for i in blocks {
            let row = parts.next_if(|row| row.block == i);
            line(&mut *out, &BlockOut { b: BlockLine::of(&session.blocks.get(i as usize), row) })?;
        }
        io::Result::Ok(())
    };
    let mut next_block = 0;
    for (k, step) in session.steps.iter().enumerate() {
        while let Some(event) = events.next_if(|e| e.before_step as usize <= k) {
            line(&mut out, &EventOut { e: EventLine::of(event) })?;
        }
        block_lines(&mut out, next_block..step.output.end)?;
        next_block = step.output.end;
        line(&mut out, &StepOut { s: StepLine::of(step) })?;
    }
    block_lines(&mut out, next_block..u32::try_from(session.blocks.len()).unwrap_or(u32::MAX))?;
    for event in events {
        line(&mut out, &EventOut { e: EventLine::of(event) })?;
    }
    out.flush()
}

fn line(mut out: impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")
}

/// JSON Schema of the four kinds of lines.
pub fn json_schema() -> serde_json::Value {
    let mut generator = schemars::SchemaGenerator::default();
    let schema = generator.root_schema_for::<lines::AnyLine>();
    schema.to_value()
}

/// Whether an event names blocks that a session of `blocks` blocks has.
fn names_known_blocks(kind: &EventKind, blocks: u32) -> bool {
    match kind {
        EventKind::BlocksDropped { from, to, .. } => from <= to && *to <= blocks,
        EventKind::RecordedClearing { blocks: cleared, .. } => cleared.iter().all(|i| *i < blocks),
        _ => true,
    }
}
