//! When a request does not read what the one before it left: one table, of which reports and documents are made.
//!
//! Rules are keyed by client version, model, markers and the recording's own past, never by a file. They are
//! asked in the order of the table, and the first that speaks is heard.
//!
//! # Divergence from the real API
//!
//! A floor is what conversations of an organisation share, and lives as long as any of them uses it. One recording
//! does not show the others, so a floor that was seen is taken to live; whether it does is the largest part of
//! what `ttl_expired` gets wrong. What a client's versions do is known where recordings of them were at hand.

use super::account::{Request, Turn};
use super::explicit::Past;
use crate::audit::Signs;
use crate::session::{Marks, Origin};

/// Tokens that the system prompt of [`task_tools`]' clients grows by.
const TASK_SECTION_TOKENS: u64 = 93;
/// Clients that change their prefix when the tools of the task list are loaded.
const TASK_SECTION_CLIENTS: [Version; 2] = [[2, 1, 136], [2, 1, 199]];
/// Last client seen to change its prefix when a skill is loaded.
const SKILL_CLIENTS_UNTIL: Version = [2, 1, 36];
/// First client whose summaries for absent users extend the conversation's own entry.
const AWAY_CLIENTS_FROM: Version = [2, 1, 150];
/// Tokens at the end of an answer that a side request leaves uncached, by what the model's id holds.
const SIDE_TAILS: &[(&str, u64)] = &[("opus-4-7", 4), ("opus-4-5", 5)];
/// The same of any other model.
const SIDE_TAIL_TOKENS: u64 = 2;

/// Major, minor, patch.
type Version = [u32; 3];

/// One reason to expect another read.
#[derive(Debug)]
pub struct Rule {
    /// Name in reports and of `--without`.
    pub id: &'static str,
    /// What it predicts.
    pub doc: &'static str,
    /// What it goes by.
    pub evidence: &'static str,
    /// The read, where the rule speaks.
    pub(super) predict: fn(&Case<'_>) -> Option<u64>,
}

/// What a rule may know.
pub(super) struct Case<'a> {
    /// The earlier request, with everything recorded of it.
    pub before: &'a Request<'a>,
    /// The later one: its prompt, plain input, life bought and markers, and no more.
    pub now: &'a Request<'a>,
    /// What the recording showed up to the earlier one.
    pub past: &'a Past,
    /// The client.
    pub client: &'a Client,
}

/// Every rule, in the order in which they are asked.
pub const RULES: &[Rule] = &[
    Rule {
        id: "compaction",
        doc: "After a compaction the request reads what the last one after a compaction read, else the last \
              floor, else what the first request read.",
        evidence: "the boundary that the client wrote down",
        predict: compaction,
    },
    Rule {
        id: "ttl_expired",
        doc: "Once the life bought last is over, from start to start, the request reads nothing if the first \
              request read nothing, else the last floor seen, else what the first request read.",
        evidence: "the gap between the starts, and the life that was billed; a summary for an absent user is a \
                   use",
        predict: ttl_expired,
    },
    Rule {
        id: "resume",
        doc: "Another process builds another prompt: the request reads the last floor that was not 0, else \
              what the first request read.",
        evidence: "the hook that ran as the process began",
        predict: resume,
    },
    Rule {
        id: "task_tools",
        doc: "Clients 2.1.136 to 2.1.199 add 93 tokens to their system prompt when the tools of the task list \
              are loaded: the request reads what the first one read, and those.",
        evidence: "a tool search that returned them, and the client's version",
        predict: task_tools,
    },
    Rule {
        id: "skill",
        doc: "Clients up to 2.1.36 change their prefix when a skill is loaded: the request reads the last floor \
              that was not 0, else what the first request read.",
        evidence: "the skill's text in the input, and the client's version",
        predict: skill,
    },
    Rule {
        id: "side_away",
        doc: "Clients from 2.1.150 sum a session up for an absent user by a request that extends the \
              conversation: the next one reads the whole prompt before it and its answer, but for the \
              answer's last 2 tokens (4 on Opus 4.7, 5 on Opus 4.5, or as seen last).",
        evidence: "the summary that the client wrote down, and its version",
        predict: side_away,
    },
    Rule {
        id: "side_repeat",
        doc: "Where the last turn of the same kind, typed or reported by a task, showed such a request without \
              a summary, so does this one.",
        evidence: "the recording's previous turn of the same kind",
        predict: side_repeat,
    },
];

/// The rules that are not left out.
pub(super) fn active(without: &[String]) -> Vec<&'static Rule> {
    RULES.iter().filter(|rule| !without.iter().any(|id| id == rule.id)).collect()
}

/// What is known of the program that made the recording.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Client {
    /// Version of the one client whose habits the rules know; `None` for every other.
    version: Option<Version>,
}

impl Client {
    /// The client of a recording. Versions of other agents count from elsewhere.
    pub fn of(origin: &Origin) -> Client {
        let mut parts = origin.agent_version.split('.').map(|part| part.parse::<u32>().ok());
        let mut part = || parts.next().flatten();
        let version = match (part(), part(), part()) {
            (Some(major), Some(minor), Some(patch)) => Some([major, minor, patch]),
            _ => None,
        };
        Client { version: version.filter(|_| origin.format == "claude-code") }
    }

    fn is_from(&self, first: Version) -> bool {
        self.version.is_some_and(|version| version >= first)
    }

    fn is_until(&self, last: Version) -> bool {
        self.version.is_some_and(|version| version <= last)
    }
}

fn compaction(case: &Case<'_>) -> Option<u64> {
    let past = case.past;
    let seen = past.compaction_floor_tokens.or_else(|| shared_floor(past));
    case.now.signs.any(Signs::COMPACTION).then(|| seen.unwrap_or(past.first_read_tokens))
}

fn ttl_expired(case: &Case<'_>) -> Option<u64> {
    let life = case.past.life_ms?;
    let (before, start) = case.before.start_ms.zip(case.now.start_ms)?;
    // A summary that came too late found nothing to refresh.
    let away = case.now.facts.away_at_ms.filter(|away| (before..=before + life).contains(away));
    let last_use = away.unwrap_or(before);
    let past = case.past;
    let floor = match past.first_read_tokens {
        0 => 0,
        first => past.floor_tokens.unwrap_or(first),
    };
    (start - last_use > life).then_some(floor)
}

fn resume(case: &Case<'_>) -> Option<u64> {
    case.now.signs.any(Signs::RESUMED).then(|| rebuilt(case.past))
}

fn task_tools(case: &Case<'_>) -> Option<u64> {
    let [from, until] = TASK_SECTION_CLIENTS;
    let is_client = case.client.is_from(from) && case.client.is_until(until);
    let first = case.past.first_read_tokens;
    let read = if first == 0 { 0 } else { first + TASK_SECTION_TOKENS };
    (is_client && case.now.facts.marks.has(Marks::TASK_TOOLS_LOADED)).then_some(read)
}

fn skill(case: &Case<'_>) -> Option<u64> {
    let loaded = case.now.facts.marks.has(Marks::SKILL_LOADED);
    (loaded && case.client.is_until(SKILL_CLIENTS_UNTIL)).then(|| rebuilt(case.past))
}

fn side_away(case: &Case<'_>) -> Option<u64> {
    case.now.turn?;
    let is_away = case.now.facts.marks.has(Marks::AWAY_SUMMARY) && case.client.is_from(AWAY_CLIENTS_FROM);
    is_away.then(|| after_side_request(case)).flatten()
}

fn side_repeat(case: &Case<'_>) -> Option<u64> {
    let turn: Turn = case.now.turn?;
    let repeats = !case.now.facts.marks.has(Marks::AWAY_SUMMARY) && case.past.side_request_seen(turn);
    repeats.then(|| after_side_request(case)).flatten()
}

/// Prompt and answer of the earlier request, but for the answer's tail.
fn after_side_request(case: &Case<'_>) -> Option<u64> {
    let before = case.before;
    let of_model = SIDE_TAILS.iter().find(|(id, _)| before.model.contains(id));
    let usual = of_model.map_or(SIDE_TAIL_TOKENS, |(_, tail)| *tail);
    let tail = case.past.side_tail_tokens.unwrap_or(usual);
    let whole = before.usage.prompt_tokens() + before.usage.output_tokens;
    before.output_is_whole.then(|| whole.saturating_sub(tail))
}

/// The last floor that was something.
fn shared_floor(past: &Past) -> Option<u64> {
    past.floor_tokens.filter(|tokens| *tokens > 0)
}

fn rebuilt(past: &Past) -> u64 {
    shared_floor(past).unwrap_or(past.first_read_tokens)
}
