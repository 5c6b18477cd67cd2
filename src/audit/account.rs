//! What an audit needs of a recording: one row per request, and no text.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::signs::Signs;
use crate::session::compile::times::{StepTimes, spans};
use crate::session::roles::Role;
use crate::tokens::image_tokens;
use crate::transcript::{
    Content, Entry, Event, EventKind, Image, Input, Marker, Response, ResultPart, Transcript,
};
use crate::usage::Usage;

/// The facts of one recorded session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The session's id.
    pub session_id: String,
    /// The session that started this one.
    pub parent: Option<String>,
    /// Recording format.
    pub format: String,
    /// Program that made the recording.
    pub agent: String,
    /// Model ids as recorded, in order of first use.
    pub models: Vec<String>,
    /// Every request, in order.
    pub requests: Vec<Request>,
    /// Every tool call, in order.
    pub calls: Vec<Call>,
    /// Calls and results that do not pair, by request.
    pub flaws: Vec<Flaw>,
    /// What the recording says the session cost, in pico-dollars; `None` where it says nothing, or 0,
    /// which agents write for prices they do not know.
    pub recorded_cost_pusd: Option<u64>,
}

/// One request and what came before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// Start, Unix epoch in milliseconds, monotone (docs/decisions.md 9).
    pub start_ms: Option<i64>,
    /// When the first part of its answer was written.
    pub answered_ms: Option<i64>,
    /// Index into [`Account::models`].
    pub model: u32,
    /// What was billed; `None` where the recording does not say.
    pub usage: Option<Usage>,
    /// What happened since the request before, and what is odd about this one.
    pub signs: Signs,
    /// Blocks of the prompt that the request before did not send: its answer, and the input since.
    pub new_blocks: u32,
    /// Tokens of images that came in with it.
    pub image_tokens: u32,
    /// Tokens that the agent says it cleared before it.
    pub cleared_tokens: u64,
    /// What the recording says that it cost, in pico-dollars.
    pub recorded_cost_pusd: Option<u64>,
}

/// One tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Index of the request whose answer made it.
    pub request: u32,
    /// What it fetches: equal for calls of one tool on one target.
    pub target: u64,
    /// What the tool does.
    pub role: Role,
    /// Index of the request before which its result was cleared in place.
    pub cleared_before: Option<u32>,
}

/// A call without result, or a result without call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flaw {
    /// Index of the request that shows it.
    pub request: u32,
    /// What it is.
    pub kind: FlawKind,
}

/// Kinds of [`Flaw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlawKind {
    /// A result that answers no call of the response before it.
    ResultWithoutCall,
    /// A call without a result although the conversation went on.
    CallWithoutResult,
    /// Two calls of one response with the same id, or none.
    DoubledCall,
}

impl Account {
    /// The facts of a transcript. Texts may have been left out of it (`ingest::Detail::Facts`): nothing
    /// here depends on them.
    pub fn of(transcript: &Transcript) -> Account {
        let mut builder = Builder::default();
        builder.account.session_id.clone_from(&transcript.session_id);
        builder.account.parent.clone_from(&transcript.parent_session_id);
        builder.account.format = transcript.format.to_owned();
        builder.account.agent.clone_from(&transcript.agent);
        for entry in &transcript.entries {
            match entry {
                Entry::Input(input) => builder.input(input),
                Entry::Response(response) => builder.response(response),
                Entry::Event(event) => builder.event(event),
            }
        }
        builder.finish(transcript.recorded_cost_pusd)
    }

    /// Model id of the first request.
    pub fn model(&self) -> &str {
        self.models.first().map_or("", String::as_str)
    }
}

/// What has been seen since the last response.
#[derive(Default)]
struct Pending {
    signs: Signs,
    times: StepTimes,
    new_blocks: u32,
    image_tokens: u32,
    cleared_tokens: u64,
    cleared: Vec<usize>,
    flaws: Vec<FlawKind>,
}

#[derive(Default)]
struct Builder {
    account: Account,
    times: Vec<StepTimes>,
    pending: Pending,
    /// Unanswered calls of the last response, by id.
    open: Vec<u64>,
    /// The last call of each id, as an index into the calls.
    call_of: BTreeMap<u64, usize>,
    /// Some call has a result: this format records them.
    has_results: bool,
}

impl Builder {
    fn input(&mut self, input: &Input) {
        let pending = &mut self.pending;
        pending.times.input(input.at_ms, input.injected);
        for content in &input.content {
            match content {
                Content::Text(text) if text.is_empty() => continue,
                Content::Text(_) => pending.signs.set(Signs::PROMPT, !input.injected),
                Content::Image(image) => {
                    pending.signs.set(Signs::PROMPT, !input.injected);
                    pending.image(image);
                }
                Content::ToolResult { call_id, parts, .. } => {
                    for part in parts {
                        match part {
                            ResultPart::Image(image) => pending.image(image),
                            ResultPart::ToolReference(_) => pending.signs.set(Signs::LOADED_TOOLS, true),
                            ResultPart::Text(_) => {}
                        }
                    }
                    self.has_results = true;
                    let id = key(call_id);
                    match self.open.iter().position(|open| *open == id) {
                        Some(at) => {
                            self.open.swap_remove(at);
                        }
                        None => pending.flaws.push(FlawKind::ResultWithoutCall),
                    }
                }
                Content::Thinking { .. } | Content::ToolUse { .. } => continue,
            }
            pending.new_blocks = pending.new_blocks.saturating_add(1);
        }
    }

    fn event(&mut self, event: &Event) {
        let pending = &mut self.pending;
        match &event.kind {
            EventKind::Compaction { .. } => pending.signs.set(Signs::COMPACTION, true),
            EventKind::ResultsCleared { call_ids, tokens_saved } => {
                pending.signs.set(Signs::RESULTS_CLEARED, true);
                pending.cleared_tokens += tokens_saved.unwrap_or(0);
                pending.cleared.extend(call_ids.iter().filter_map(|id| self.call_of.get(&key(id)).copied()));
            }
            EventKind::Cleared => {
                pending.signs.set(Signs::CLEARED, true);
                self.open.clear();
            }
            EventKind::Rewound { .. } => {
                pending.signs.set(Signs::REWOUND, true);
                self.open.clear();
            }
            EventKind::Resumed => pending.signs.set(Signs::RESUMED, true),
            EventKind::Marker(Marker::SkillLoaded) => pending.signs.set(Signs::SKILL, true),
            EventKind::Marker(Marker::AwaySummary | Marker::Notification) => {}
        }
    }

    fn response(&mut self, response: &Response) {
        let index = u32::try_from(self.account.requests.len()).unwrap_or(u32::MAX);
        let mut pending = std::mem::take(&mut self.pending);
        let unanswered = std::mem::take(&mut self.open).len();
        pending.flaws.extend(std::iter::repeat_n(FlawKind::CallWithoutResult, unanswered));
        for call in std::mem::take(&mut pending.cleared) {
            self.account.calls[call].cleared_before.get_or_insert(index);
        }
        pending.times.response(response.first_at_ms, response.last_at_ms);
        self.times.push(pending.times);
        let mut answer_blocks = 0;
        for content in &response.content {
            match content {
                Content::Text(text) if text.is_empty() => continue,
                Content::ToolUse { id, name, input } => {
                    let doubled = !self.call(index, id, name, input);
                    pending.flaws.extend(doubled.then_some(FlawKind::DoubledCall));
                }
                Content::Thinking { signature_chars, .. } => {
                    self.pending.signs.set(Signs::THINKING, true);
                    if *signature_chars == 0 {
                        continue;
                    }
                }
                _ => {}
            }
            answer_blocks += 1;
        }
        self.pending.new_blocks = answer_blocks;
        let model = self.model(&response.model);
        self.account.flaws.extend(pending.flaws.into_iter().map(|kind| Flaw { request: index, kind }));
        pending.signs.set(Signs::SPLIT_DIFFERS, response.doubts.split_differs);
        pending.signs.set(Signs::LINES_DIFFER, response.doubts.lines_differ);
        self.account.requests.push(Request {
            start_ms: None,
            answered_ms: response.first_at_ms,
            model,
            usage: response.usage,
            signs: pending.signs,
            new_blocks: pending.new_blocks,
            image_tokens: pending.image_tokens,
            cleared_tokens: pending.cleared_tokens,
            recorded_cost_pusd: response.recorded_cost_pusd,
        });
    }

    /// Adds a call, and says whether its id is one of its own in this response.
    fn call(&mut self, request: u32, id: &str, name: &str, input: &str) -> bool {
        let role = Role::of(&self.account.format, name);
        let target = xxh3_64_with_seed(target_of(role, input).as_bytes(), xxh3_64(name.as_bytes()));
        let is_new = !id.is_empty() && !self.open.contains(&key(id));
        self.call_of.insert(key(id), self.account.calls.len());
        self.open.push(key(id));
        self.account.calls.push(Call { request, target, role, cleared_before: None });
        is_new
    }

    fn model(&mut self, id: &str) -> u32 {
        let models = &mut self.account.models;
        // Responses without a model are of the one before.
        let last = self.account.requests.last().map(|r| r.model as usize);
        let known = match id.is_empty() {
            true => last,
            false => models.iter().position(|m| m == id),
        };
        let index = known.unwrap_or_else(|| {
            models.push(id.to_owned());
            models.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// What each request cost goes before what the session cost: copied requests are left out of the one,
    /// not of the other. Where some do not say, the session's cost goes before their sum.
    fn finish(mut self, session_cost_pusd: Option<u64>) -> Account {
        let stated = || self.account.requests.iter().map(|request| request.recorded_cost_pusd);
        let sum = stated().flatten().sum();
        let of_session = session_cost_pusd.filter(|_| stated().any(|cost| cost.is_none()));
        self.account.recorded_cost_pusd = Some(of_session.unwrap_or(sum)).filter(|cost| *cost > 0);
        for (request, (start, _)) in self.account.requests.iter_mut().zip(spans(self.times.iter())) {
            request.start_ms = Some(start);
        }
        if !self.has_results {
            self.account.flaws.retain(|flaw| flaw.kind != FlawKind::CallWithoutResult);
        }
        self.account
    }
}

impl Pending {
    fn image(&mut self, image: &Image) {
        self.signs.set(Signs::IMAGE, true);
        self.image_tokens = self.image_tokens.saturating_add(image_tokens(image.size_px));
    }
}

fn key(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// What a call fetches: of a file that is read the file, whatever part of it; else all arguments.
fn target_of(role: Role, input: &str) -> String {
    const PATHS: [&str; 4] = ["file_path", "path", "filename", "filePath"];
    if role == Role::Read
        && let Ok(arguments) = serde_json::from_str::<serde_json::Value>(input)
        && let Some(path) = PATHS.iter().find_map(|name| arguments.get(name)?.as_str())
    {
        return path.to_owned();
    }
    input.to_owned()
}
