//! OpenHands: a list of events, alone or as a line of an evaluation's output, and the events of its SDK
//! (spec/formats.md section 7).
//!
//! A request is an id of a response; every event of its parallel calls repeats it. Prompt counts include what
//! was read from the cache or written to it.
//!
//! # Divergence from the real API
//!
//! What the client makes of an observation before it is sent (wrapping, truncation, knowledge of
//! microagents) is taken as it stands in the event. Requests for the summary of a condensation are in the
//! metrics only: each is a session of its own, of which only the usage is known (docs/decisions.md 36). The
//! events of the SDK are not checked against a recording (docs/decisions.md 33).

mod events;
mod sdk;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use serde_json::{Map, Value};

use super::conversation::{At, Conversation};
use super::value::{self, Counts, items, text};
use super::{document, inclusive, money};
use crate::transcript::{Content, Notice, Transcript};
use crate::usage::Usage;
use crate::{Error, Result};

/// Name of the format of event lists.
pub const NAME: &str = "openhands";

/// Name of the format of the SDK's events.
pub const SDK_NAME: &str = "openhands-sdk";

/// Whether the first fields of a document are those of an event, or of a line of an evaluation's output.
pub fn recognise(object: &Map<String, Value>) -> bool {
    let has = |name: &str| object.contains_key(name);
    let is_event = has("source") && has("timestamp") && (has("action") || has("observation")) && !has("kind");
    is_event || (has("instance_id") && ["history", "test_result"].iter().all(|name| has(name)))
}

/// Whether an object is an event of the SDK.
pub fn recognise_sdk(object: &Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_event = sdk::KINDS.contains(&kind);
    is_event && object.contains_key("id") && object.contains_key("source")
}

/// Reads event lists.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let stem = name_of(label);
    let mut conversations = Vec::new();
    // One event a line, or a file, is one list. Files come by name, where 10 is before 9.
    let is_event = |document: &Value| document.get("source").is_some();
    let mut loose: Vec<&Value> = documents.iter().filter(|document| is_event(document)).collect();
    loose.sort_by_key(|event| event.get("id").and_then(Value::as_u64));
    if !loose.is_empty() {
        conversations.extend(events::read(&loose, &Value::Null, &stem, &mut notices));
    }
    for document in documents.iter().filter(|document| !is_event(document)) {
        let (list, id) = match document {
            Value::Array(list) => (list.as_slice(), &*stem),
            _ => (items(document, "history"), text(document, "instance_id")),
        };
        // Older lists hold pairs of an action and its observation.
        let list: Vec<&Value> = list
            .iter()
            .flat_map(|item| item.as_array().map_or(std::slice::from_ref(item), Vec::as_slice))
            .collect();
        conversations.extend(events::read(&list, document, id, &mut notices));
    }
    finish(NAME, conversations, notices, label)
}

/// Reads the events of a conversation of the SDK.
///
/// # Errors
///
/// If the source fails, or holds no response.
pub fn read_sdk(source: &mut dyn BufRead, label: &Path) -> Result<Vec<Transcript>> {
    let mut notices = Vec::new();
    let documents = document::read(source, &mut notices)
        .map_err(|source| Error::Io { path: label.to_owned(), source })?;
    let conversations = sdk::read(&documents, label, &mut notices);
    finish(SDK_NAME, conversations, notices, label)
}

/// What a conversation is called after: its file, or the folder of its events.
fn name_of(label: &Path) -> String {
    let mut names = label.iter().rev().map(|name| Path::new(name).file_stem().unwrap_or(name));
    names.find(|name| *name != "events").unwrap_or_default().to_string_lossy().into_owned()
}

/// Transcripts of the conversations that have a response; an error if none has.
fn finish(
    format: &'static str,
    mut conversations: Vec<Conversation>,
    mut notices: Vec<Notice>,
    label: &Path,
) -> Result<Vec<Transcript>> {
    conversations.retain(|conversation| conversation.responses() > 0);
    if conversations.is_empty() {
        return Conversation::default().finish(format, notices, label);
    }
    let mut transcripts = Vec::new();
    for conversation in conversations {
        transcripts.extend(conversation.finish(format, std::mem::take(&mut notices), label)?);
    }
    Ok(transcripts)
}

/// The usage that metrics state for a response.
#[derive(Debug, Clone, Default)]
struct Billed {
    model: String,
    usage: Option<Usage>,
    cost_pusd: Option<u64>,
    is_used: bool,
}

/// Usage by id of the response.
#[derive(Debug, Default)]
struct Metrics(BTreeMap<String, Billed>);

impl Metrics {
    /// Adds what `metrics` list. Costs stand in a list of their own, which is as long where each request has
    /// one.
    fn add(&mut self, metrics: &Value, notices: &mut Vec<Notice>) {
        let usages = items(metrics, "token_usages");
        let costs = items(metrics, "costs");
        for (index, listed) in usages.iter().enumerate() {
            let mut counts = Counts::default();
            let usage = inclusive::usage(&inclusive::OPENHANDS, listed, &mut counts);
            if counts.is_bad() {
                notices.push(Notice { line: 0, reason: value::BAD_USAGE.to_owned() });
            }
            let cost = costs.get(index).filter(|_| costs.len() == usages.len());
            let billed = Billed {
                model: text(listed, "model").to_owned(),
                usage: counts.finish(usage),
                cost_pusd: cost.and_then(|cost| money::pusd(cost.get("cost"))),
                is_used: false,
            };
            self.0.insert(text(listed, "response_id").to_owned(), billed);
        }
    }

    /// What was billed for a response, which has an event.
    fn take(&mut self, id: &str) -> Billed {
        let Some(billed) = self.0.get_mut(id) else { return Billed::default() };
        billed.is_used = true;
        billed.clone()
    }

    /// Requests that no event tells of, as sessions beside `main`.
    fn others(self, main: &Transcript) -> impl Iterator<Item = Conversation> {
        let (parent, version) = (main.session_id.clone(), main.agent_version.clone());
        let others = self.0.into_iter().filter(|(id, billed)| !billed.is_used && !id.is_empty());
        others.zip(1..).map(move |((id, billed), number)| {
            let mut conversation = Conversation::default();
            conversation.transcript.session_id = format!("{parent}-other-{number}");
            conversation.transcript.parent_session_id = Some(parent.clone());
            conversation.transcript.agent_version.clone_from(&version);
            conversation.open_response(At::default(), &id, &billed.model);
            if let Some(response) = conversation.last_response() {
                response.usage = billed.usage;
                response.output_is_final = billed.usage.is_some();
                response.recorded_cost_pusd = billed.cost_pusd;
            }
            conversation
        })
    }
}

/// What events put into the conversation, by their ids, so that a condensation can keep a part of it.
#[derive(Debug, Default)]
struct Kept(Vec<(String, Vec<Content>)>);

impl Kept {
    fn add(&mut self, id: String, content: &[Content]) {
        self.0.push((id, content.iter().map(value::as_text).collect()));
    }

    /// Forgets events, and gives the content of the others.
    fn forget(&mut self, is_forgotten: impl Fn(&str) -> bool) -> Vec<Content> {
        self.0.retain(|(id, _)| !is_forgotten(id));
        self.0.iter().flat_map(|(_, content)| content.iter().cloned()).collect()
    }
}
