//! Trajectories that hold with each step what was sent.
//!
//! An answer that could not be used (no command, a forbidden one, an error of syntax, a tool that asks for another try)
//! is asked for again, with that answer and a rebuke behind the history, which are not kept: in a history such answers
//! are missing, though they were billed. They are requests here, taken back by the next one. What the client does
//! itself when it gives up has no query (SWE-agent `sweagent/agent/agents.py`, version 1.1).
//!
//! # Divergence from the real API
//!
//! The second request is read as the first one again: the answer that could not be used and the rebuke are not counted
//! in it. Of answers that are sampled several times, and of those that are asked for again without a word, only the
//! one that was taken is recorded.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{NAME, Reader, Said, demonstration, said};
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
        let steps: Vec<Step<'_>> =
            (self.number + 1..).zip(items(attempt, "trajectory")).filter_map(Step::of).collect();
        let head = &reader.conversation.transcript;
        for (index, step) in steps.iter().enumerate() {
            let mut exchange = Exchange {
                at: At { line: step.number, ms: None },
                id: format!("{}-step-{}", head.session_id, step.number),
                model: reader.model.clone(),
                conversation: Some(head.session_id.clone()),
                ..Exchange::default()
            };
            let answered = send(&mut exchange, step.query);
            let own = step.answer();
            let kept = match steps.get(index + 1) {
                Some(next) => next.kept_answer(step),
                None => last_answer(items(attempt, "history"), text(step.value, "response")),
            };
            exchange.answer = answer(kept.unwrap_or(&own), answered).content;
            self.threads.add(exchange);
        }
        self.number += items(attempt, "trajectory").len() as u64;
        if !steps.is_empty() {
            self.heads.insert(head.session_id.clone(), head.clone());
        }
        !steps.is_empty()
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
                transcript.recorded_cost_pusd = head.recorded_cost_pusd;
            }
            // One program wrote the file.
            if let Some(head) = self.heads.values().next() {
                transcript.agent_version.clone_from(&head.agent_version);
            }
        }
        Ok(transcripts)
    }
}

/// A step for which the model was asked.
struct Step<'v> {
    number: u64,
    value: &'v Value,
    /// What was sent, but for an answer that could not be used and what was said about it.
    query: &'v [Value],
    has_rebuke: bool,
}

impl<'v> Step<'v> {
    /// `None` of what the client did by itself.
    fn of((number, value): (u64, &'v Value)) -> Option<Step<'v>> {
        let kind = |message| text(message, "message_type");
        let (query, has_rebuke) = match items(value, "query") {
            [kept @ .., answer, rebuke] if kind(answer) == "assistant" && kind(rebuke) == "user" => {
                (kept, true)
            }
            query => (query, false),
        };
        let is_asked = query.iter().any(|message| !text(message, "role").is_empty());
        is_asked.then_some(Step { number, value, query, has_rebuke })
    }

    /// The answer as the step has it: its words, and the command that was found in them.
    fn answer(&self) -> Value {
        let [words, thought, action] = ["response", "thought", "action"].map(|name| text(self.value, name));
        json!({"content": words, "thought": thought, "action": action})
    }

    /// The answer of the step before as the history has it from this one on, with its calls.
    fn kept_answer(&self, before: &Step<'_>) -> Option<&'v Value> {
        let kept = self.query.get(before.query.len()).filter(|_| !self.has_rebuke);
        kept.filter(|message| text(message, "role") == "assistant")
    }
}

/// The last answer of a history, if its words are these.
fn last_answer<'v>(history: &'v [Value], words: &str) -> Option<&'v Value> {
    let is_answer = |message: &&Value| text(message, "role") == "assistant" && !flag(message, "is_demo");
    history.iter().rfind(is_answer).filter(|message| text_of(message) == words)
}

/// Adds the messages of a query to a request, and returns how many of them are answers.
fn send(exchange: &mut Exchange, query: &[Value]) -> usize {
    let mut answered = 0;
    let mut open_command: Option<String> = None;
    for message in query {
        let command = open_command.take();
        match text(message, "role") {
            "system" => exchange.instruct(message.get("content").unwrap_or(&Value::Null)),
            _ if flag(message, "is_demo") => exchange.send(By::Client, demonstration(message)),
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
