//! A transcript in a few short lines, for exact expectations.

use std::path::{Path, PathBuf};

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::transcript::{Content, Entry, EventKind, ResultPart, Transcript};

/// Path of a hand-made recording.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ingest").join(name)
}

/// Reads bytes that hold conversations only.
pub fn read_bytes(bytes: &[u8]) -> ctxsim::Result<Vec<Transcript>> {
    let recordings = ingest::read(bytes, Path::new("test"), &ReadOptions::default())?;
    Ok(recordings.into_iter().map(transcript).collect())
}

/// Reads a hand-made recording.
pub fn read_fixture(name: &str) -> Vec<Transcript> {
    let path = fixture(&format!("{name}.jsonl"));
    let source = ingest::input::open(&path).unwrap();
    let recordings = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    recordings.into_iter().map(transcript).collect()
}

/// Reads a hand-made recording of any ending.
pub fn read_path(name: &str) -> Vec<Transcript> {
    let path = fixture(name);
    let source = ingest::input::open(&path).unwrap();
    let recordings = ingest::read(source, &path, &ReadOptions::default()).unwrap();
    recordings.into_iter().map(transcript).collect()
}

/// The conversation of a recording.
pub fn transcript(recording: Recording) -> Transcript {
    match recording {
        Recording::Transcript(transcript) => *transcript,
        Recording::Session(_) | Recording::Hashed { .. } => panic!("a session without text"),
    }
}

/// One line per entry: `line kind content`.
pub fn sketch(transcript: &Transcript) -> Vec<String> {
    transcript.entries.iter().map(entry).collect()
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Input(input) => {
            let kind = if input.injected { "inject" } else { "input" };
            format!("{} {kind} {}", input.line, contents(&input.content))
        }
        Entry::Response(response) => {
            let usage = response.usage.map_or("no usage".to_owned(), |u| {
                let output = if response.output_is_final { "" } else { "?" };
                format!(
                    "{}+{}+{}+{}>{}{output}",
                    u.uncached_tokens,
                    u.cache_read_tokens,
                    u.cache_write_5m_tokens,
                    u.cache_write_1h_tokens,
                    u.output_tokens
                )
            });
            format!("{} {} {usage} {}", response.line, response.id, contents(&response.content))
        }
        Entry::Event(event) => format!("{} {}", event.line, kind(&event.kind)),
    }
}

fn kind(kind: &EventKind) -> String {
    match kind {
        EventKind::Compaction { automatic, pre_tokens, post_tokens } => {
            let trigger = if *automatic { "auto" } else { "manual" };
            format!("compaction {trigger} {} {}", pre_tokens.unwrap_or(0), post_tokens.unwrap_or(0))
        }
        EventKind::ResultsCleared { call_ids, tokens_saved } => {
            format!("results cleared {} {}", call_ids.join(","), tokens_saved.unwrap_or(0))
        }
        EventKind::Cleared => "cleared".to_owned(),
        EventKind::Rewound { keep_responses } => format!("rewound to {keep_responses}"),
        EventKind::Resumed => "resumed".to_owned(),
        EventKind::Marker(marker) => format!("{marker:?}").to_lowercase(),
    }
}

fn contents(contents: &[Content]) -> String {
    contents.iter().map(content).collect::<Vec<_>>().join(" | ")
}

fn content(content: &Content) -> String {
    match content {
        Content::Text(text) => {
            let inside =
                text.strip_prefix("<system-reminder>\n").and_then(|t| t.strip_suffix("\n</system-reminder>"));
            inside.map_or_else(|| text.clone(), |inside| format!("reminder {inside:?}"))
        }
        Content::Thinking { text, signature_chars, redacted } => {
            format!("{} {text:?} {signature_chars}", if *redacted { "redacted" } else { "thinking" })
        }
        Content::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        Content::ToolResult { call_id, parts, is_error } => {
            let parts: Vec<String> = parts.iter().map(part).collect();
            format!("{} {call_id} [{}]", if *is_error { "error" } else { "result" }, parts.join(", "))
        }
        Content::Image(image) => format!("image {:?} {}", image.size_px, image.base64_chars),
    }
}

fn part(part: &ResultPart) -> String {
    match part {
        ResultPart::Text(text) => text.clone(),
        ResultPart::Image(image) => format!("image {:?} {}", image.size_px, image.base64_chars),
        ResultPart::ToolReference(name) => format!("reference {name}"),
    }
}
