//! Readers: one file per recording format, each from bytes to [`crate::transcript::Transcript`].
//!
//! [`input`] finds the files, [`read`] sniffs the format of one and reads it, [`dedupe`] leaves out
//! what several recordings of a corpus have in common.

pub mod aider;
pub mod arcturn;
pub mod atif;
mod chat;
pub mod claude_code;
pub mod cline;
pub mod codex;
mod conversation;
pub mod copilot_cli;
pub mod crush;
pub mod dedupe;
mod document;
mod exchange;
pub mod gemini_cli;
pub mod goose;
pub mod hash_trace;
pub mod http;
mod image;
mod inclusive;
pub mod input;
pub mod inspect;
mod json_lines;
mod money;
pub mod octo;
pub mod opencode;
pub mod openhands;
pub mod otel;
pub mod pi;
mod sqlite;
pub mod swe_agent;
mod time;
mod totals;
mod tree;
mod value;

pub use totals::Totals;

use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::lines::{self, MAX_LINE_BYTES};
use crate::session::{Session, trace};
use crate::transcript::{Notice, Transcript};
use crate::{Error, Result};

/// What a file holds.
#[derive(Debug, Clone)]
pub enum Recording {
    /// A recorded conversation.
    Transcript(Box<Transcript>),
    /// A session without its text: one that ctxsim wrote.
    Session(Box<Session>),
    /// A session that was recorded without text.
    Hashed {
        /// The session.
        session: Box<Session>,
        /// What could not be used of its file.
        notices: Vec<Notice>,
    },
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
    Format {
        name: arcturn::NAME,
        what: "Arcturn session, one JSON object a line",
        folders: &["~/.arcturn/sessions"],
        extensions: &["jsonl"],
        recognise: arcturn::recognise,
        read: |source, label| arcturn::read(source, label).map(conversations),
    },
    Format {
        name: octo::NAME,
        what: "octo session, one JSON object a line",
        folders: &["~/.octo/sessions"],
        extensions: &["jsonl"],
        recognise: octo::recognise,
        read: |source, label| octo::read(source, label).map(conversations),
    },
    Format {
        name: copilot_cli::NAME,
        what: "Copilot CLI event log, one JSON object a line",
        folders: &["~/.copilot/session-state"],
        extensions: &["jsonl"],
        recognise: copilot_cli::recognise,
        read: |source, label| copilot_cli::read(source, label).map(conversations),
    },
    Format {
        name: cline::NAME,
        what: "Cline or Roo task folder: api_conversation_history.json with the files beside it",
        folders: &[
            "~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
            "~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
            "~/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
            "~/Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
        ],
        extensions: &["json"],
        recognise: cline::recognise,
        read: |source, label| cline::read(source, label).map(conversations),
    },
    Format {
        name: crush::NAME,
        what: "Crush database of a project, SQLite",
        folders: &[".crush"],
        extensions: &["db"],
        recognise: crush::recognise,
        read: |source, label| crush::read(source, label).map(conversations),
    },
    Format {
        name: goose::NAME,
        what: "Goose session, one JSON object a line, or the SQLite database with all of them",
        folders: &["~/.local/share/goose/sessions"],
        extensions: &["jsonl", "db"],
        recognise: goose::recognise,
        read: |source, label| goose::read(source, label).map(conversations),
    },
    Format {
        name: aider::NAME,
        what: "Aider chat history of a project, Markdown",
        folders: &[],
        extensions: &["chat.history.md"],
        recognise: aider::recognise,
        read: |source, label| aider::read(source, label).map(conversations),
    },
    Format {
        name: hash_trace::MOONCAKE,
        what: "Mooncake trace: requests as lists of block hashes, one JSON object a line",
        folders: &[],
        extensions: &["jsonl"],
        recognise: hash_trace::recognise_mooncake,
        read: hash_trace::read_mooncake,
    },
    Format {
        name: hash_trace::KV_CACHE_TESTER,
        what: "kv-cache-tester trace: a conversation as lists of block hashes, a JSON document",
        folders: &[],
        extensions: &["json"],
        recognise: hash_trace::recognise_kv_cache_tester,
        read: hash_trace::read_kv_cache_tester,
    },
    Format {
        name: openhands::NAME,
        what: "OpenHands events: a list, a folder with one a file, or evaluation output with one conversation a line",
        folders: &["~/.openhands/sessions"],
        extensions: &["json", "jsonl"],
        recognise: openhands::recognise,
        read: |source, label| openhands::read(source, label).map(conversations),
    },
    Format {
        name: openhands::SDK_NAME,
        what: "OpenHands SDK conversation, a folder with a JSON document for each event",
        folders: &["~/.openhands/conversations"],
        extensions: &["json", "jsonl"],
        recognise: openhands::recognise_sdk,
        read: |source, label| openhands::read_sdk(source, label).map(conversations),
    },
    Format {
        name: inspect::NAME,
        what: "Inspect evaluation log, a JSON document or a zip archive",
        folders: &[],
        extensions: &["eval", "json"],
        recognise: inspect::recognise,
        read: |source, label| inspect::read(source, label).map(conversations),
    },
    Format {
        name: atif::NAME,
        what: "ATIF trajectory (Harbor), a JSON document",
        folders: &[],
        extensions: &["json"],
        recognise: atif::recognise,
        read: |source, label| atif::read(source, label).map(conversations),
    },
    Format {
        name: otel::NAME,
        what: "OpenTelemetry spans of requests to models, OTLP JSON",
        folders: &[],
        extensions: &["json", "jsonl"],
        recognise: otel::recognise,
        read: |source, label| otel::read(source, label).map(conversations),
    },
    Format {
        name: http::LITELLM,
        what: "completion logs of LiteLLM, a folder with a JSON document for each request",
        folders: &[],
        extensions: &["json"],
        recognise: http::recognise_litellm,
        read: |source, label| http::read_litellm(source, label).map(conversations),
    },
    Format {
        name: http::CASSETTE,
        what: "cassette of an HTTP recorder (go-vcr, VCR, vcrpy, nock), YAML or JSON",
        folders: &[],
        extensions: &["yaml", "yml", "json"],
        recognise: http::recognise_cassette,
        read: |source, label| http::read_cassette(source, label).map(conversations),
    },
    Format {
        name: http::CLAUDE_TRACE,
        what: "claude-trace log of requests and responses, one pair a line",
        folders: &[".claude-trace"],
        extensions: &["jsonl"],
        recognise: http::recognise_claude_trace,
        read: |source, label| http::read_claude_trace(source, label).map(conversations),
    },
    Format {
        name: http::PAIRS,
        what: "pairs of request and response bodies: Anthropic Messages, OpenAI Chat or Responses",
        folders: &[],
        extensions: &["json", "jsonl"],
        recognise: http::recognise_pair,
        read: |source, label| http::read_pairs(source, label).map(conversations),
    },
];

/// Formats whose files hold one request or event each: those of a folder are one recording.
const GROUPED: &[&str] = &[http::LITELLM, openhands::NAME, openhands::SDK_NAME];

impl Format {
    /// Whether all files of a folder are one recording.
    pub fn is_grouped(&self) -> bool {
        GROUPED.contains(&self.name)
    }
}

/// How a file of a format is read.
type Reader = fn(&mut dyn BufRead, &Path) -> Result<Vec<Recording>>;

/// Folders in `Format::folders` that users move by a variable.
pub const MOVED_FOLDERS: [(&str, &str); 2] = [("~/.claude", "CLAUDE_CONFIG_DIR"), ("~/.codex", "CODEX_HOME")];

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

/// Bytes of a document over many lines that are looked at: what tells may stand behind a field with much in it.
const SNIFFED_DOCUMENT_BYTES: usize = 4 << 20;

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

/// The format that `source`, the file `label`, begins like.
pub fn known(mut source: impl BufRead, label: &Path) -> Option<&'static Format> {
    sniff(&mut source, label, &mut Vec::new()).ok()
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
    if let Some(outline) = outline(source, label, head)? {
        let known = FORMATS.iter().find(|f| (f.recognise)(&outline));
        return known.ok_or_else(|| fail("a database, and none of a known format".to_owned()));
    }
    for _ in 0..SNIFFED_LINES {
        let start = head.len();
        let limit = (SNIFFED_BYTES - start.min(SNIFFED_BYTES)) as u64;
        let read = source.take(limit).read_until(b'\n', head);
        if read.map_err(|source| Error::Io { path: label.to_owned(), source })? == 0 {
            break;
        }
        let line = head[start..].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head[start..]);
        // Only the first object counts: others may be glued to it.
        let text = lines::text(line);
        let first = serde_json::Deserializer::from_str(&text).into_iter::<Map<String, Value>>().next();
        if let Some(Ok(object)) = first
            && let Some(format) = FORMATS.iter().find(|f| (f.recognise)(&object))
        {
            return Ok(format);
        }
    }
    if head.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
        return Err(fail("the file is empty".to_owned()));
    }
    loop {
        let document = document::beginning(head);
        if let Some(format) = FORMATS.iter().find(|f| (f.recognise)(&document)) {
            return Ok(format);
        }
        let limit = SNIFFED_DOCUMENT_BYTES.saturating_sub(head.len()) as u64;
        let more = source.take(limit).read_to_end(head);
        if more.map_err(|source| Error::Io { path: label.to_owned(), source })? == 0 {
            break;
        }
    }
    Err(fail(format!("no recording of a known format; known are {}", known_formats())))
}

/// Names of all formats, and where to learn more.
pub fn known_formats() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
    format!("{} (`ctxsim formats` tells what each is)", names.join(", "))
}

/// What formats that are not JSON are recognised by, if `source` begins like one of them.
fn outline(
    source: &mut impl BufRead,
    label: &Path,
    head: &mut Vec<u8>,
) -> Result<Option<Map<String, Value>>> {
    let fail = |source| Error::Io { path: label.to_owned(), source };
    let start = source.fill_buf().map_err(fail)?;
    if start.starts_with(sqlite::MAGIC) {
        return sqlite::outline(source, head, label).map(Some).map_err(fail);
    }
    Ok(aider::outline(start))
}

/// The first line of a trace names the program that wrote it.
fn is_trace_header(object: &Map<String, Value>) -> bool {
    let names_us = |text: &str| text.starts_with("ctxsim");
    object.iter().any(|(name, value)| names_us(name) || value.as_str().is_some_and(names_us))
}
