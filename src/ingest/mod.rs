//! Readers: one file per recording format, each from bytes to [`crate::transcript::Transcript`].
//!
//! [`input`] finds the files, [`read`] sniffs the format of one and reads it, [`dedupe`] leaves out
//! what several recordings of a corpus have in common.

mod chat;
pub mod claude_code;
pub mod codex;
mod conversation;
pub mod dedupe;
mod document;
pub mod gemini_cli;
mod image;
pub mod input;
mod json_lines;
mod money;
pub mod opencode;
pub mod pi;
pub mod swe_agent;
mod time;
mod totals;
mod value;

pub use totals::Totals;

use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::lines::MAX_LINE_BYTES;
use crate::session::{Session, trace};
use crate::transcript::Transcript;
use crate::{Error, Result};

/// What a file holds.
#[derive(Debug, Clone)]
pub enum Recording {
    /// A recorded conversation.
    Transcript(Box<Transcript>),
    /// A session without its text: one that ctxsim wrote.
    Session(Box<Session>),
}

/// Options of [`read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Name of the format (`--input-format`); sniffed where there is none.
    pub format: Option<String>,
}

/// How much of a recording is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    #[default]
    Full,
    /// What accounting needs. Texts may be cut short: what is empty stays empty, and the rest keeps its
    /// beginning. Everything else is as in [`Detail::Full`], and readers that gain nothing leave nothing out.
    Facts,
}

/// A format that can be read.
#[derive(Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub what: &'static str,
    /// Folders where agents keep such files; `~` is the user's home.
    pub folders: &'static [&'static str],
    /// How names of such files end. A hint for searching folders; the content decides.
    pub extensions: &'static [&'static str],
    recognise: fn(&Map<String, Value>) -> bool,
    read: fn(&mut dyn BufRead, &Path) -> Result<Vec<Recording>>,
}

/// All formats, in the order in which they are tried.
pub static FORMATS: &[Format] = &[
    Format {
        name: "ctxsim-trace",
        what: "content-free session written by `ctxsim trace`",
        folders: &[],
        extensions: &["jsonl"],
        recognise: is_trace_header,
        read: |source, label| Ok(vec![Recording::Session(Box::new(trace::read(source, label)?))]),
    },
    Format {
        name: claude_code::NAME,
        what: "Claude Code session, one JSON object a line",
        folders: &["~/.claude/projects"],
        extensions: &["jsonl"],
        recognise: claude_code::recognise,
        read: |source, label| claude_code::read(source, label).map(conversations),
    },
    Format {
        name: codex::NAME,
        what: "Codex rollout, one JSON object a line",
        folders: &["~/.codex/sessions"],
        extensions: &["jsonl"],
        recognise: codex::recognise,
        read: |source, label| codex::read(source, label).map(conversations),
    },
    Format {
        name: pi::NAME,
        what: "Pi session, one JSON object a line",
        folders: &["~/.pi/agent/sessions"],
        extensions: &["jsonl"],
        recognise: pi::recognise,
        read: |source, label| pi::read(source, label).map(conversations),
    },
    Format {
        name: opencode::NAME,
        what: "OpenCode session, as `opencode export` prints it",
        folders: &[],
        extensions: &["json"],
        recognise: opencode::recognise,
        read: |source, label| opencode::read(source, label).map(conversations),
    },
    Format {
        name: gemini_cli::NAME,
        what: "Gemini CLI chat, a JSON document or one JSON object a line",
        folders: &["~/.gemini/tmp"],
        extensions: &["json", "jsonl"],
        recognise: gemini_cli::recognise,
        read: |source, label| gemini_cli::read(source, label).map(conversations),
    },
    Format {
        name: swe_agent::MINI_NAME,
        what: "mini-SWE-agent trajectory, a JSON document",
        folders: &[],
        extensions: &["json"],
        recognise: swe_agent::recognise_mini,
        read: |source, label| swe_agent::read_mini(source, label).map(conversations),
    },
    Format {
        name: swe_agent::NAME,
        what: "SWE-agent trajectory, a JSON document",
        folders: &[],
        extensions: &["traj"],
        recognise: swe_agent::recognise,
        read: |source, label| swe_agent::read(source, label).map(conversations),
    },
];

/// How a file of a format is read.
type Reader = fn(&mut dyn BufRead, &Path) -> Result<Vec<Recording>>;

/// Readers that leave texts out, for formats of which people have gigabytes.
const FACTS: &[(&str, Reader)] =
    &[(claude_code::NAME, |source, label| claude_code::read_facts(source, label).map(conversations))];

fn conversations(transcripts: Vec<Transcript>) -> Vec<Recording> {
    transcripts.into_iter().map(|t| Recording::Transcript(Box::new(t))).collect()
}

/// Lines, and bytes, that are looked at before a file is given up: heads of real files are a few
/// lines, but one of them may be as long as lines can be.
const SNIFFED_LINES: usize = 200;
const SNIFFED_BYTES: usize = MAX_LINE_BYTES;

/// Reads a recording: a session, and its sub-agents where the file holds them. `label` names it in
/// errors.
///
/// # Errors
///
/// If the source cannot be read, is empty, is of no known format, or holds nothing to replay.
pub fn read(source: impl BufRead, label: &Path, options: &ReadOptions) -> Result<Vec<Recording>> {
    read_detail(source, label, options, Detail::Full)
}

/// The same with as much of it as is wanted.
///
/// # Errors
///
/// As [`read`].
pub fn read_detail(
    mut source: impl BufRead,
    label: &Path,
    options: &ReadOptions,
    detail: Detail,
) -> Result<Vec<Recording>> {
    let mut head = Vec::new();
    let format = match &options.format {
        Some(name) => format(name)?,
        None => sniff(&mut source, label, &mut head)?,
    };
    let facts = FACTS.iter().find(|(name, _)| detail == Detail::Facts && *name == format.name);
    let read = facts.map_or(format.read, |(_, read)| *read);
    read(&mut Cursor::new(head).chain(source), label)
}

/// Whether `source` begins like a recording.
pub fn is_known(mut source: impl BufRead) -> bool {
    sniff(&mut source, Path::new(""), &mut Vec::new()).is_ok()
}

/// The format of that name.
///
/// # Errors
///
/// If there is none.
pub fn format(name: &str) -> Result<&'static Format> {
    let known = || FORMATS.iter().map(|f| f.name);
    FORMATS.iter().find(|f| f.name == name).ok_or_else(|| Error::unknown("input format", name, known()))
}

/// Finds the format by the first lines, which are left in `head`: each may be an object of its own, or all
/// of them the beginning of one.
fn sniff(source: &mut impl BufRead, label: &Path, head: &mut Vec<u8>) -> Result<&'static Format> {
    let fail = |reason: String| Error::Input { path: label.to_owned(), line: 0, reason };
    for _ in 0..SNIFFED_LINES {
        let start = head.len();
        let limit = (SNIFFED_BYTES - start.min(SNIFFED_BYTES)) as u64;
        let read = source.take(limit).read_until(b'\n', head);
        if read.map_err(|source| Error::Io { path: label.to_owned(), source })? == 0 {
            break;
        }
        let line = head[start..].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head[start..]);
        // Only the first object counts: others may be glued to it.
        let first = serde_json::Deserializer::from_slice(line).into_iter::<Map<String, Value>>().next();
        if let Some(Ok(object)) = first
            && let Some(format) = FORMATS.iter().find(|f| (f.recognise)(&object))
        {
            return Ok(format);
        }
    }
    if head.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
        return Err(fail("the file is empty".to_owned()));
    }
    let document = document::beginning(head);
    if let Some(format) = FORMATS.iter().find(|f| (f.recognise)(&document)) {
        return Ok(format);
    }
    let known: Vec<String> = FORMATS.iter().map(|f| format!("{} ({})", f.name, f.what)).collect();
    Err(fail(format!("no recording of a known format; known are {}", known.join(", "))))
}

/// The first line of a trace names the program that wrote it.
fn is_trace_header(object: &Map<String, Value>) -> bool {
    let names_us = |text: &str| text.starts_with("ctxsim");
    object.iter().any(|(name, value)| names_us(name) || value.as_str().is_some_and(names_us))
}
