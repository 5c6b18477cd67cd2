//! Trajectories that hold with each step what was sent.
//!
//! An answer that could not be used (no command, a forbidden one, one with an error of syntax) is asked for again with
//! that answer and a rebuke behind the history, which are not kept: in a history such answers are missing, though they
//! were billed. They are requests here, taken back by the next one (SWE-agent `sweagent/agent/agents.py`, version
//! 1.1).
//!
//! # Divergence from the real API
//!
//! The second request is read as the first one again: the answer that could not be used and the rebuke are not counted
//! in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{NAME, Reader, Said, said};
use crate::Result;
use crate::ingest::chat;
use crate::ingest::conversation::At;
use crate::ingest::exchange::{By, Exchange, Threads};
use crate::ingest::value::{flag, items, text};
use crate::transcript::{Content, Notice, Transcript};

/// The requests of a file, and of each attempt what is known beside them.
#[derive(Default)]
pub(super) struct Queries {
    threads: Threads,
    heads: BTreeMap<String, Transcript>,
    /// Number of the last step.
    number: u64,
}

impl Queries {
    /// Adds the requests of an attempt; false if it does not hold what was sent.
    pub(super) fn add(&mut self, reader: &Reader, attempt: &Value) -> bool {
        let steps = items(attempt, "trajectory");
        if steps.iter().all(|step| items(step, "query").is_empty()) {
            return false;
        }
        let head = &reader.conversation.transcript;
        let is_answer = |message: &&Value| text(message, "role") == "assistant" && !flag(message, "is_demo");
        let mut answers = items(attempt, "history").iter().filter(is_answer).peekable();
        for (index, step) in steps.iter().enumerate() {
            self.number += 1;
            let query = Query::of(step);
            // What the agent did by itself has none.
            if query.kept.is_empty() {
                continue;
            }
            let at = At { line: self.number, ms: None };
            let mut exchange = Exchange {
                at,
                id: format!("{}-step-{}", head.session_id, self.number),
                model: reader.model.clone(),
                conversation: Some(head.session_id.clone()),
                ..Exchange::default()
            };
            let answered = send(&mut exchange, query.kept);
            // The history has the calls of an answer, the step only its words.
            let is_kept = !steps.get(index + 1).is_some_and(|next| Query::of(next).has_rebuke);
            let kept = answers.next_if(|message| is_kept && text_of(message) == text(step, "response"));
            let own = || {
                let words = ["response", "thought", "action"].map(|name| text(step, name));
                json!({"content": words[0], "thought": words[1], "action": words[2]})
            };
            exchange.answer = match kept {
                Some(message) => answer(message, answered).content,
                None => answer(&own(), answered).content,
            };
            self.threads.add(exchange);
        }
        self.heads.insert(head.session_id.clone(), head.clone());
        true
    }

    /// Nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The finished transcripts.
    pub(super) fn finish(self, notices: Vec<Notice>, label: &Path) -> Result<Vec<Transcript>> {
        let mut transcripts = self.threads.finish(NAME, notices, label)?;
        for transcript in &mut transcripts {
            if let Some(head) = self.heads.get(&transcript.session_id) {
                transcript.agent_version.clone_from(&head.agent_version);
                transcript.recorded_cost_pusd = head.recorded_cost_pusd;
            }
        }
        Ok(transcripts)
    }
}

/// What was sent with a step.
struct Query<'v> {
    /// What stays in the history.
    kept: &'v [Value],
    /// Behind it stood an answer that could not be used, and what was said about it.
    has_rebuke: bool,
}

impl Query<'_> {
    fn of(step: &Value) -> Query<'_> {
        let kind = |message| text(message, "message_type");
        match items(step, "query") {
            [kept @ .., answer, rebuke] if kind(answer) == "assistant" && kind(rebuke) == "user" => {
                Query { kept, has_rebuke: true }
            }
            kept => Query { kept, has_rebuke: false },
        }
    }
}

/// Adds the messages of a query to a request, and returns how many of them are answers.
fn send(exchange: &mut Exchange, query: &[Value]) -> usize {
    let mut answered = 0;
    let mut open_command: Option<String> = None;
    for message in query {
        let command = open_command.take();
        match text(message, "role") {
            "system" => exchange.instruct(message.get("content").unwrap_or(&Value::Null)),
            _ if flag(message, "is_demo") => exchange.send(By::Client, chat::content(message)),
            "assistant" => {
                let said = answer(message, answered);
                answered += 1;
                open_command = said.command_id;
                exchange.send(By::Model, said.content);
            }
            "tool" => {
                exchange.send(By::User, vec![chat::result(message, super::call_id(message).to_owned())])
            }
            _ => match command {
                Some(id) => exchange.send(By::User, vec![chat::result(message, id)]),
                // Behind the first answer the client speaks, not the user.
                None if answered > 0 => exchange.send(By::Client, chat::content(message)),
                None => exchange.send(By::User, chat::content(message)),
            },
        }
    }
    answered
}

/// What an answer says; a command is known by its place and its words.
fn answer(message: &Value, place: usize) -> Said {
    said(message, |command| format!("command-{place}-{:016x}", xxh3_64(command.as_bytes())))
}

/// The words of a message.
fn text_of(message: &Value) -> String {
    let texts = chat::content(message).into_iter().filter_map(|content| match content {
        Content::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}
