//! Claude Code: one JSONL file per session (docs/sources.md).
//!
//! One line holds one content block; all lines of a response repeat its id and usage. Sub-agents are
//! lines of their own kind in the file of their parent, or files of their own; each becomes a
//! transcript of its own.
//!
//! # Divergence from the real API
//!
//! System prompt and tool definitions are not recorded, nor is the request that writes a compaction's
//! summary. Content that the client sends without recording it is missing from the inputs, and shows
//! only in the recorded prompt totals. Going back to a branch that was left before is not followed.

#![expect(clippy::disallowed_types, reason = "looked up by id and never walked through")]

mod attachment;
mod chain;
mod content;
mod lenient;
mod tree;
mod usage;
mod wire;

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::path::Path;

use serde_json::{Deserializer, Value};

use crate::ingest::time::parse_ms;
use crate::ingest::{Detail, json_lines};
use crate::transcript::{Content, EventKind, Marker, Notice, Transcript};
use crate::{Error, Result};
use chain::{At, Chain, Key, key};
use lenient::Object;
use tree::Tree;
use wire::{AgentLine, Line, Message, Progress};

/// Name of the format.
pub const NAME: &str = "claude-code";

/// Model of messages that the client made up (errors, interruptions).
const SYNTHETIC_MODEL: &str = "<synthetic>";

/// Stands in what the user typed to clear the history.
const CLEAR_COMMAND: &str = "<command-name>/clear</command-name>";

/// The text of a skill opens with where the skill lies.
const SKILL_OPENING: &str = "Base directory for this skill";

/// Reads a recording: the session, then its sub-agents in the order of their first line. Transcripts
/// without a response are left out.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    read_detail(source, label, Detail::Full)
}

/// The same without texts ([`Detail::Facts`]).
///
/// # Errors
///
/// As [`read`].
pub fn read_facts(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    read_detail(source, label, Detail::Facts)
}

fn read_detail(source: &mut dyn BufRead, label: &Path, detail: Detail) -> Result<Vec<Transcript>> {
    let main = Chain::new(Transcript::default(), detail);
    let mut reader = Reader { main, detail, ..Reader::default() };
    let mut notices = Vec::new();
    let object = |number, text: &str, notices: &mut Vec<Notice>| {
        let mut stream = Deserializer::from_str(text).into_iter::<Line<'_>>();
        reader.line(number, stream.next()?.ok()?, notices);
        Some(stream.byte_offset())
    };
    json_lines::for_each(source, &mut notices, object)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    // Where nothing is left, what could not be read is likely why.
    let first = notices.first().cloned();
    let transcripts = reader.finish(notices);
    if transcripts.is_empty() {
        let (line, because) = first.map_or((0, String::new()), |n| (n.line, format!("; {}", n.reason)));
        let reason = format!("this recording holds no response of a model{because}");
        return Err(Error::Input { path: label.to_owned(), line, reason });
    }
    Ok(transcripts)
}

/// Whether an object, parsed from one of the first lines, is a line of this format.
pub fn recognise(object: &serde_json::Map<String, Value>) -> bool {
    let has = |name: &str| object.contains_key(name);
    match object.get("type").and_then(Value::as_str) {
        Some("user" | "assistant") => object.get("message").is_some_and(Value::is_object),
        Some("summary") => has("leafUuid"),
        Some("file-history-snapshot" | "file-history-delta") => has("messageId") || has("snapshot"),
        Some("message" | "session") | None => false,
        Some(_) => has("sessionId") && !has("payload"),
    }
}

/// The state of reading one file.
#[derive(Default)]
struct Reader {
    detail: Detail,
    main: Chain,
    tree: Tree,
    seen: HashSet<Key>,
    agents: Vec<Chain>,
    /// Sub-agents by agent id, and by the lines of those without one.
    agent_of: HashMap<Key, usize>,
}

impl Reader {
    fn line(&mut self, number: u64, line: Line<'_>, notices: &mut Vec<Notice>) {
        let at = At { line: number, ms: parse_ms(&line.timestamp) };
        if at.ms.is_none() && !line.timestamp.is_empty() {
            let reason =
                "field `timestamp` is no time of the years 0 to 9999: the line counts as one without time";
            notices.push(Notice { line: number, reason: reason.to_owned() });
        }
        if line.is_sidechain.0 || !line.agent_id.is_empty() {
            let agent = self.agent_of_line(&line);
            if self.is_new(&line.uuid) || &*line.kind == "assistant" {
                add(&mut self.agents[agent], at, line, notices);
            }
            return;
        }
        if &*line.kind == "progress" {
            self.progress(at, &line);
        } else {
            self.session(at, &line);
        }
        let (uuid, parent) = (key(&line.uuid), Some(&*line.parent_uuid).filter(|p| !p.is_empty()).map(key));
        let (has_uuid, is_new) = (!line.uuid.is_empty(), self.is_new(&line.uuid));
        let mut response = None;
        if let Some(progress) = line.data.0.filter(|_| &*line.kind == "progress") {
            self.agent_progress(at, progress, &line.session_id);
        } else if is_new || &*line.kind == "assistant" {
            let line = Line { data: Object(None), ..line };
            response = add(&mut self.main, at, line, notices);
        }
        if has_uuid && is_new {
            self.tree.add(number, uuid, parent, response);
        }
    }

    /// Whether a line was not there before: resumed sessions copy lines. Lines without identity are
    /// always new.
    fn is_new(&mut self, uuid: &str) -> bool {
        uuid.is_empty() || self.seen.insert(key(uuid))
    }

    /// Keeps the head up to date, and sees another session id: the history before it was copied.
    fn session(&mut self, at: At, line: &Line<'_>) {
        if !matches!(&*line.kind, "user" | "assistant") {
            return;
        }
        let head = self.main.head();
        if head.agent_version.is_empty() {
            head.agent_version = line.version.0.to_string();
        }
        if !line.session_id.is_empty() && head.session_id != *line.session_id {
            let is_first = head.session_id.is_empty();
            head.session_id = line.session_id.0.to_string();
            if !is_first {
                self.main.event_once(at, EventKind::Resumed);
            }
        }
    }

    /// Session hooks tell how a process began.
    fn progress(&mut self, at: At, line: &Line<'_>) {
        if let Some(kind) = line.data.0.as_ref().and_then(|data| started_by(&data.hook_name)) {
            self.main.event_once(at, kind);
        }
    }

    fn agent_of_line(&mut self, line: &Line<'_>) -> usize {
        if !line.agent_id.is_empty() {
            return self.agent(&line.agent_id, &line.session_id, &line.version);
        }
        // The first line of a side chain names it.
        let agent = match self.agent_of.get(&key(&line.parent_uuid)) {
            Some(agent) if !line.parent_uuid.is_empty() => *agent,
            _ => self.agent(&line.uuid, &line.session_id, &line.version),
        };
        self.agent_of.insert(key(&line.uuid), agent);
        agent
    }

    fn agent(&mut self, id: &str, parent: &str, version: &str) -> usize {
        *self.agent_of.entry(key(id)).or_insert_with(|| {
            let head = Transcript {
                session_id: id.to_owned(),
                parent_session_id: Some(parent.to_owned()).filter(|p| !p.is_empty()),
                agent_version: version.to_owned(),
                ..Transcript::default()
            };
            self.agents.push(Chain::new(head, self.detail));
            self.agents.len() - 1
        })
    }

    /// A progress line that carries a line of a sub-agent.
    fn agent_progress(&mut self, at: At, progress: Progress<'_>, parent: &str) {
        let Some(AgentLine { kind, uuid, request_id, timestamp, is_meta, is_api_error_message, message }) =
            progress
                .message
                .0
                .filter(|_| &*progress.kind == "agent_progress" && !progress.agent_id.is_empty())
        else {
            return;
        };
        let agent = self.agent(&progress.agent_id, parent, "");
        let is_new = self.is_new(&uuid);
        let at = At { ms: parse_ms(&timestamp).or(at.ms), ..at };
        let chain = &mut self.agents[agent];
        if chain.is_empty() && &*kind == "assistant" && !progress.prompt.is_empty() {
            chain.input(at, vec![Content::Text(progress.prompt.0.into_owned())], false);
        }
        let Some(message) = message.0 else { return };
        match &*kind {
            "assistant" if !is_made_up(&message, is_api_error_message.0) => {
                chain.response(at, message, &request_id, &uuid);
            }
            "user" if is_new => chain.input(at, content::of_user(message.content, self.detail), is_meta.0),
            _ => {}
        }
    }

    fn finish(mut self, mut notices: Vec<Notice>) -> Vec<Transcript> {
        let mut main = std::mem::take(&mut self.main).finish();
        self.tree.mark(&mut main);
        notices.append(&mut main.notices);
        notices.sort_by_key(|notice| notice.line);
        let agents = self.agents.into_iter().map(Chain::finish);
        let has_response =
            |t: &Transcript| t.entries.iter().any(|e| matches!(e, crate::transcript::Entry::Response(_)));
        let mut transcripts: Vec<Transcript> =
            std::iter::once(main).chain(agents).filter(has_response).collect();
        for transcript in &mut transcripts {
            transcript.format = NAME;
            transcript.agent = NAME.to_owned();
        }
        // What could not be read belongs to the file: to whatever comes first of it.
        if let Some(first) = transcripts.first_mut() {
            notices.append(&mut first.notices);
            first.notices = notices;
        }
        transcripts
    }
}

/// Adds a line to its conversation, and gives the index of its response if it is a line of one.
fn add(chain: &mut Chain, at: At, line: Line<'_>, notices: &mut Vec<Notice>) -> Option<usize> {
    match &*line.kind {
        "assistant" => {
            let message = line.message.0.filter(|m| !is_made_up(m, line.is_api_error_message.0))?;
            return Some(chain.response(at, message, &line.request_id, &line.uuid));
        }
        "user" => user(chain, at, line),
        "attachment" => attached(chain, at, &line, notices),
        "system" => system(chain, at, line),
        _ => {}
    }
    None
}

fn is_made_up(message: &Message<'_>, is_api_error: bool) -> bool {
    is_api_error || &*message.model == SYNTHETIC_MODEL
}

fn user(chain: &mut Chain, at: At, line: Line<'_>) {
    let Some(message) = line.message.0 else { return };
    let clears = content::any_user_text(&message.content, |text| text.contains(CLEAR_COMMAND));
    let loads_skill = content::any_user_text(&message.content, |text| text.starts_with(SKILL_OPENING));
    let content = content::of_user(message.content, chain.detail());
    if line.is_compact_summary.0 {
        chain.summary(at, content);
    } else if !line.is_visible_in_transcript_only.0 {
        if clears {
            chain.event_once(at, EventKind::Cleared);
        }
        let by_client = line.origin.0.is_some_and(|origin| &*origin.kind == "task-notification");
        if by_client {
            chain.marker(at, Marker::Notification);
        } else if line.is_meta.0 && loads_skill {
            chain.marker(at, Marker::SkillLoaded);
        }
        chain.input(at, content, line.is_meta.0 || by_client);
    }
}

fn attached(chain: &mut Chain, at: At, line: &Line<'_>, notices: &mut Vec<Notice>) {
    let Some(raw) = line.attachment else { return };
    // Escapes inside are not looked at before.
    let value = serde_json::from_str(raw.get())
        .or_else(|_| serde_json::from_str::<Value>(&json_lines::repair(raw.get())));
    match value {
        Ok(value) => {
            let hook = value.get("hookName").and_then(Value::as_str).and_then(started_by);
            if let Some(kind) = hook {
                chain.event_once(at, kind);
            }
            let mut content = attachment::sent_content(&value);
            content::cut(&mut content, chain.detail());
            chain.input(at, content, true);
        }
        Err(e) => {
            notices.push(Notice { line: at.line, reason: format!("an attachment is not readable: {e}") })
        }
    }
}

fn system(chain: &mut Chain, at: At, line: Line<'_>) {
    match &*line.subtype {
        "compact_boundary" => {
            let metadata = line.compact_metadata.0.unwrap_or_default();
            let automatic = &*metadata.trigger != "manual";
            let (pre_tokens, post_tokens) = (metadata.pre_tokens.tokens(), metadata.post_tokens.tokens());
            chain.event(at, EventKind::Compaction { automatic, pre_tokens, post_tokens });
        }
        "microcompact_boundary" => {
            let metadata = line.microcompact_metadata.0.unwrap_or_default();
            let call_ids = metadata.compacted_tool_ids.0.into_iter().map(|id| id.0.into_owned()).collect();
            chain.event(
                at,
                EventKind::ResultsCleared { call_ids, tokens_saved: metadata.tokens_saved.tokens() },
            );
        }
        "local_command" if line.content.contains(CLEAR_COMMAND) => chain.event_once(at, EventKind::Cleared),
        "away_summary" => chain.marker(at, Marker::AwaySummary),
        _ => {}
    }
}

/// What a hook that runs when a session starts tells of the start.
fn started_by(hook_name: &str) -> Option<EventKind> {
    match hook_name {
        "SessionStart:resume" => Some(EventKind::Resumed),
        "SessionStart:clear" => Some(EventKind::Cleared),
        _ => None,
    }
}
