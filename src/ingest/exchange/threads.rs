//! The conversations of a log.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::align::{Alignment, Known, align};
use super::{By, Exchange, Mark, Sent};
use crate::Result;
use crate::ingest::conversation::{At, Conversation};
use crate::ingest::value;
use crate::transcript::{Content, EventKind, Notice, Transcript};

/// Shortest line that tells where a text comes from.
const QUOTED_CHARS: usize = 30;
/// Share of an answer's long lines, in percent, that a summary put in elsewhere still has.
const QUOTED_PERCENT: usize = 80;

/// Conversations, of one name or of all, that a request is compared with: those that went on last. A log may hold
/// many thousands.
const COMPARED: usize = 256;

/// All conversations, in the order in which they began.
#[derive(Default)]
pub struct Threads {
    threads: Vec<Thread>,
    seen: BTreeSet<String>,
    /// Threads by the number of the request that each went on with last.
    recent: BTreeMap<u64, usize>,
    /// The same for each name of a conversation.
    recent_of: BTreeMap<Option<String>, BTreeMap<u64, usize>>,
    /// The thread that an answer belongs to, by its id.
    answered: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Thread {
    conversation: Conversation,
    name: Option<String>,
    tools: BTreeSet<String>,
    /// The last prompt and the answer to it.
    history: Vec<Known>,
    last_id: String,
    answer: Vec<Content>,
    /// Of all of its prompts.
    prompt_tokens: u64,
    /// The thread whose history this one began with, or whose call it answers.
    parent: Option<usize>,
    /// Threads that took over its history: one may be its summarizer.
    shared_with: Vec<usize>,
    /// Number of the request that it went on with last.
    last_request: u64,
}

/// How a request goes on from a history; the first is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Extends,
    Compacts,
    Rewinds,
    /// The block with the summary.
    Summarizes(usize),
}

impl Threads {
    /// Adds the next request of the log; one whose answer was there before counts once.
    pub fn add(&mut self, mut exchange: Exchange) {
        let prompt: Vec<Mark> = exchange.prompt.iter().map(|sent| Mark::of(sent.by, &sent.content)).collect();
        if exchange.id.is_empty() {
            let what = format!("{:?} {prompt:?} {:?} {:?}", exchange.at.ms, exchange.answer, exchange.usage);
            exchange.id = format!("request-{:016x}", xxh3_64(what.as_bytes()));
        }
        if !self.seen.insert(exchange.id.clone()) {
            return;
        }
        let index = if let Some(index) = self.continued_by_id(&exchange) {
            self.threads[index].append(&exchange, &prompt);
            index
        } else if let Some((index, step, alignment)) = self.best(&exchange, &prompt) {
            self.threads[index].go_on(&exchange, step, &alignment);
            self.threads[index].remember(&exchange, &prompt, &alignment);
            index
        } else {
            self.begin(&exchange, &prompt)
        };
        self.went_on(index, exchange);
    }

    fn went_on(&mut self, index: usize, exchange: Exchange) {
        let number = self.seen.len() as u64;
        let before = std::mem::replace(&mut self.threads[index].last_request, number);
        let of_name = self.recent_of.entry(self.threads[index].name.clone()).or_default();
        for recent in [&mut self.recent, of_name] {
            recent.remove(&before);
            recent.insert(number, index);
        }
        self.answered.insert(exchange.id, index);
    }

    /// Where the provider keeps the history, only what is new was sent.
    fn continued_by_id(&self, exchange: &Exchange) -> Option<usize> {
        let id = exchange.previous_id.as_ref()?;
        self.answered.get(id).copied().filter(|index| self.threads[*index].last_id == *id)
    }

    fn best(&self, exchange: &Exchange, prompt: &[Mark]) -> Option<(usize, Step, Alignment)> {
        let of_name = self.recent_of.get(&exchange.conversation)?;
        let like = of_name.values().rev().take(COMPARED).copied();
        let like = like.filter(|index| self.threads[*index].is_like(exchange));
        let candidates = like.filter_map(|index| {
            let alignment = align(&self.threads[index].history, prompt);
            let step = self.step(index, exchange, &alignment)?;
            Some((index, step, alignment))
        });
        // Of equals the one that went on last.
        candidates.min_by_key(|(index, step, alignment)| {
            let is_same_system = self.threads[*index].system() == exchange.system;
            (*step, !is_same_system, Reverse((alignment.known, *index)))
        })
    }

    /// How the request goes on from a thread, if it does.
    fn step(&self, index: usize, exchange: &Exchange, alignment: &Alignment) -> Option<Step> {
        let is_retry = alignment.known == exchange.prompt.len() && alignment.known > 0;
        if alignment.known == 0 || (alignment.kept_responses == 0 && !is_retry) {
            return self.summary(index, exchange, alignment).map(Step::Summarizes);
        }
        if alignment.lost_inside > 0 {
            Some(Step::Compacts)
        } else if alignment.lost_behind == 0 {
            Some(Step::Extends)
        } else {
            Some(self.summary(index, exchange, alignment).map_or(Step::Rewinds, Step::Summarizes))
        }
    }

    /// The block of the prompt that has the last answer of a thread, or of its summarizer, as a text put in.
    /// One that was there before is no news.
    fn summary(&self, index: usize, exchange: &Exchange, alignment: &Alignment) -> Option<usize> {
        let shared_with = self.threads[index].shared_with.iter().rev().take(COMPARED);
        let mut sources = std::iter::once(&index).chain(shared_with).map(|index| &self.threads[*index]);
        let block = sources.find_map(|thread| quoting(&exchange.prompt, &thread.answer))?;
        alignment.places[block].is_none().then_some(block)
    }

    fn begin(&mut self, exchange: &Exchange, prompt: &[Mark]) -> usize {
        let (parent, shares_history) = self.origin(exchange, prompt);
        let index = self.threads.len();
        if let Some(parent) = parent.filter(|_| shares_history) {
            self.threads[parent].shared_with.push(index);
        }
        let mut thread = Thread { name: exchange.conversation.clone(), parent, ..Thread::default() };
        let transcript = &mut thread.conversation.transcript;
        transcript.system = Some(exchange.system.clone()).filter(|system| !system.is_empty());
        transcript.tools.clone_from(&exchange.tools);
        thread.tools = exchange.tools.iter().map(|tool| tool.name.clone()).collect();
        thread.put_in(exchange.at, &exchange.prompt);
        thread.answered(exchange);
        thread.remember(exchange, prompt, &align(&[], prompt));
        self.threads.push(thread);
        index
    }

    /// The thread that a new one comes from: the one that called it, or the one whose answers it begins with.
    fn origin(&self, exchange: &Exchange, prompt: &[Mark]) -> (Option<usize>, bool) {
        let recent = || self.recent.values().rev().take(COMPARED).copied();
        let called = recent().filter(|index| self.threads[*index].calls(exchange)).max();
        if called.is_some() {
            return (called, false);
        }
        let kept = |index: usize| align(&self.threads[index].history, prompt).kept_responses;
        let most = recent().map(|index| (kept(index), index)).max();
        let shared = most.filter(|(kept, _)| *kept > 0).map(|(_, index)| index);
        (shared, shared.is_some())
    }

    /// The finished transcripts: of each conversation the longest thread first, under the conversation's id or
    /// the file's name.
    ///
    /// # Errors
    ///
    /// If there is no response at all.
    pub fn finish(
        mut self,
        format: &'static str,
        mut notices: Vec<Notice>,
        label: &Path,
    ) -> Result<Vec<Transcript>> {
        if self.threads.is_empty() {
            return Conversation::default().finish(format, notices, label);
        }
        let stem = label.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let ids = self.ids(&stem);
        let mut order: Vec<usize> = (0..self.threads.len()).collect();
        order.sort_by_key(|index| Reverse(self.threads[*index].prompt_tokens));
        let mut transcripts = Vec::new();
        for index in order {
            let thread = std::mem::take(&mut self.threads[index]);
            let mut conversation = thread.conversation;
            conversation.transcript.session_id.clone_from(&ids[index]);
            conversation.transcript.parent_session_id = thread.parent.map(|parent| ids[parent].clone());
            // What could not be read belongs to no conversation.
            transcripts.extend(conversation.finish(format, std::mem::take(&mut notices), label)?);
        }
        Ok(transcripts)
    }

    /// The longest thread of a conversation has its name, the others a number behind it.
    fn ids(&self, stem: &str) -> Vec<String> {
        let name = |thread: &Thread| thread.name.clone().unwrap_or_else(|| stem.to_owned());
        let mut longest: BTreeMap<String, (u64, Reverse<usize>)> = BTreeMap::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let rank = (thread.prompt_tokens, Reverse(index));
            let most = longest.entry(name(thread)).or_insert(rank);
            *most = rank.max(*most);
        }
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        let id = |(index, thread)| {
            let name = name(thread);
            if longest.get(&name).is_some_and(|(_, first)| first.0 == index) {
                return name;
            }
            let number = others.entry(name.clone()).or_insert(1);
            *number += 1;
            format!("{name}-{number}")
        };
        self.threads.iter().enumerate().map(id).collect()
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }
}

impl Thread {
    fn system(&self) -> &str {
        self.conversation.transcript.system.as_deref().unwrap_or_default()
    }

    /// Whether system prompt or tools are those of this thread.
    fn is_like(&self, exchange: &Exchange) -> bool {
        if self.tools.is_empty() || exchange.tools.is_empty() {
            let are_both_empty = self.tools.is_empty() == exchange.tools.is_empty();
            return are_both_empty && is_similar(self.system().as_bytes(), exchange.system.as_bytes());
        }
        let common = exchange.tools.iter().filter(|tool| self.tools.contains(&tool.name)).count();
        common * 2 >= self.tools.len().max(exchange.tools.len())
    }

    /// Whether the last answer has a call with a text that the request begins with.
    fn calls(&self, exchange: &Exchange) -> bool {
        let is_prompt = |text: &str| {
            text.len() >= QUOTED_CHARS
                && exchange
                    .prompt
                    .iter()
                    .any(|sent| matches!(&sent.content, Content::Text(t) if t.trim() == text))
        };
        let inputs = self.answer.iter().filter_map(|content| match content {
            Content::ToolUse { input, .. } => serde_json::from_str::<serde_json::Value>(input).ok(),
            _ => None,
        });
        inputs.into_iter().any(|input| strings(&input).iter().any(|text| is_prompt(text.trim())))
    }

    fn append(&mut self, exchange: &Exchange, prompt: &[Mark]) {
        self.put_in(exchange.at, &exchange.prompt);
        self.answered(exchange);
        let response = self.conversation.responses().checked_sub(1);
        self.history.extend(prompt.iter().map(|mark| Known { mark: *mark, response: None }));
        self.history.extend(answer_marks(exchange, response));
    }

    fn go_on(&mut self, exchange: &Exchange, step: Step, alignment: &Alignment) {
        let at = exchange.at;
        match step {
            Step::Extends => {
                self.clear_results(exchange, alignment);
                let is_new = |index: &usize| alignment.places[*index].is_none();
                let new: Vec<Sent> =
                    (0..exchange.prompt.len()).filter(is_new).map(|i| exchange.prompt[i].clone()).collect();
                self.put_in(at, &new);
            }
            Step::Rewinds => {
                // A request that was sent again takes back its answer.
                let kept = alignment.kept_responses;
                let keep_responses = u32::try_from(kept).unwrap_or(u32::MAX);
                self.conversation.event(at, EventKind::Rewound { keep_responses });
                let is_kept = |place: &Option<usize>| {
                    place.is_some_and(|place| self.history[place].response.is_some_and(|r| r < kept))
                };
                let places = &alignment.places;
                let from = places.iter().rposition(is_kept).map_or(0, |last| last + 1);
                // The results of the last answer that is kept stay where they are.
                let stays =
                    |index: usize| kept > 0 && places[index].is_some() && exchange.prompt[index].is_result();
                let again = (from..exchange.prompt.len()).filter(|index| !stays(*index));
                let again: Vec<Sent> = again.map(|index| exchange.prompt[index].clone()).collect();
                if kept > 0 {
                    self.clear_results(exchange, alignment);
                }
                self.put_in(at, &again);
            }
            Step::Compacts => {
                let (before, fresh) = exchange.prompt.split_at(alignment.fresh_from);
                let places = &alignment.places;
                let (kept, put_in): (Vec<_>, Vec<_>) =
                    before.iter().zip(places).partition(|(_, place)| place.is_some());
                let as_text = |part: Vec<(&Sent, &Option<usize>)>| {
                    part.into_iter().map(|(s, _)| value::as_text(&s.content)).collect()
                };
                self.compacted(at, [as_text(put_in), as_text(kept)], fresh);
            }
            Step::Summarizes(summary) => {
                // It ends what the compaction put in.
                let (before, fresh) = exchange.prompt.split_at(summary + 1);
                let mut before: Vec<Content> = before.iter().map(|s| value::as_text(&s.content)).collect();
                let summary = before.pop().into_iter().collect();
                self.compacted(at, [summary, before], fresh);
            }
        }
        self.answered(exchange);
    }

    /// Results that came meanwhile are older than the compaction.
    fn compacted(&mut self, at: At, put_in: [Vec<Content>; 2], fresh: &[Sent]) {
        let (results, fresh): (Vec<&Sent>, Vec<&Sent>) = fresh.iter().partition(|sent| sent.is_result());
        let results: Vec<Content> = results.into_iter().map(|sent| sent.content.clone()).collect();
        let as_text: Vec<Content> = results.iter().map(value::as_text).collect();
        self.conversation.input(at, results, false);
        let kind = EventKind::Compaction { automatic: true, pre_tokens: None, post_tokens: None };
        self.conversation.event(at, kind);
        for content in put_in.into_iter().chain([as_text]) {
            self.conversation.input(at, content, true);
        }
        let fresh: Vec<Sent> = fresh.into_iter().cloned().collect();
        self.put_in(at, &fresh);
    }

    fn clear_results(&mut self, exchange: &Exchange, alignment: &Alignment) {
        let ids = alignment.changed.iter().filter_map(|index| match &exchange.prompt[*index].content {
            Content::ToolResult { call_id, .. } => Some(call_id.clone()),
            _ => None,
        });
        let call_ids: Vec<String> = ids.collect();
        if !call_ids.is_empty() {
            self.conversation.event(exchange.at, EventKind::ResultsCleared { call_ids, tokens_saved: None });
        }
    }

    /// Adds blocks as inputs: neighbours of one kind are one input.
    fn put_in(&mut self, at: At, blocks: &[Sent]) {
        let kind = |sent: &Sent| (sent.by == By::User, sent.is_result());
        for run in blocks.chunk_by(|a, b| kind(a) == kind(b)) {
            let content = run.iter().map(|sent| match sent.by {
                By::Model => value::as_text(&sent.content),
                By::User | By::Client => sent.content.clone(),
            });
            self.conversation.input(at, content.collect(), run[0].by != By::User);
        }
    }

    fn answered(&mut self, exchange: &Exchange) {
        let at = At { line: exchange.at.line, ms: exchange.answered_ms.or(exchange.at.ms) };
        self.conversation.open_response(at, &exchange.id, &exchange.model);
        if let Some(response) = self.conversation.last_response() {
            response.content.clone_from(&exchange.answer);
            response.usage = exchange.usage;
            response.output_is_final = exchange.output_is_final && exchange.usage.is_some();
            response.recorded_cost_pusd = exchange.cost_pusd;
        }
        self.prompt_tokens += exchange.usage.map_or(0, |usage| usage.prompt_tokens());
        self.last_id.clone_from(&exchange.id);
        self.answer.clone_from(&exchange.answer);
    }

    /// What was sent and answered is the history now.
    fn remember(&mut self, exchange: &Exchange, prompt: &[Mark], alignment: &Alignment) {
        let of = |place: &Option<usize>| place.and_then(|place| self.history[place].response);
        let known = prompt.iter().zip(&alignment.places);
        let mut history: Vec<Known> =
            known.map(|(mark, place)| Known { mark: *mark, response: of(place) }).collect();
        history.extend(answer_marks(exchange, self.conversation.responses().checked_sub(1)));
        self.history = history;
    }
}

fn answer_marks(exchange: &Exchange, response: Option<usize>) -> impl Iterator<Item = Known> {
    let sent = exchange.answer.iter().filter(|content| super::is_sent(content));
    sent.map(move |content| Known { mark: Mark::of(By::Model, content), response })
}

/// The block in which the user's side has most of the lines of `answer`; short lines tell nothing.
fn quoting(prompt: &[Sent], answer: &[Content]) -> Option<usize> {
    let texts = answer.iter().filter_map(|c| if let Content::Text(text) = c { Some(text) } else { None });
    let lines = texts.flat_map(|text| text.lines()).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| line.chars().count() >= QUOTED_CHARS).collect();
    if lines.is_empty() {
        return None;
    }
    prompt.iter().position(|sent| {
        let Content::Text(text) = &sent.content else { return false };
        let quoted = lines.iter().filter(|line| text.contains(**line)).count();
        sent.by != By::Model && quoted * 100 >= lines.len() * QUOTED_PERCENT
    })
}

/// Whether at least half of the longer text is what both begin or end with: the date in a system prompt may
/// change.
fn is_similar(a: &[u8], b: &[u8]) -> bool {
    let begin = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a[begin..].iter().rev().zip(b[begin..].iter().rev()).take_while(|(a, b)| a == b).count();
    (begin + end) * 2 >= a.len().max(b.len())
}

/// All texts inside of a value.
fn strings(value: &serde_json::Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::String(text) => found.push(text.as_str()),
            serde_json::Value::Array(items) => open.extend(items),
            serde_json::Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    found
}
