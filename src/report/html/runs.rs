//! The requests that a page shows, collected while a study runs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::report::requests::RunRecord;
use crate::sim::{SimEvent, SimEventKind};

use super::pack::{self, Packed};

/// Characters of requests and events that a page may hold. With the rest of it this stays well below 20 MB.
const ROOM: usize = 13_000_000;

/// One policy on a session and a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    /// Policy label.
    pub policy: String,
    /// Its requests.
    pub packed: Packed,
    /// Its events, as `[request, kind, numbers or words]`.
    pub events: String,
}

/// One session on one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Session {
    /// Session id.
    pub session: String,
    /// Model id.
    pub model: String,
    /// The model's window.
    pub window_tokens: u64,
    /// Policies as they came.
    pub runs: Vec<Run>,
}

impl Session {
    fn size(&self) -> usize {
        self.runs.iter().map(|run| run.packed.text.len() + run.events.len()).sum()
    }

    fn requests(&self) -> usize {
        self.runs.iter().map(|run| run.packed.requests).max().unwrap_or(0)
    }
}

/// Requests and events by session, of as many sessions as there is room for: those with the most requests.
#[derive(Debug, Default)]
pub struct Runs {
    pub(super) sessions: Vec<Session>,
    size: usize,
    /// Sessions that there was no room for.
    pub(super) left_out: usize,
}

impl Runs {
    /// Takes a run; runs of a session come one after the other.
    pub fn add(&mut self, run: &RunRecord<'_>, window_tokens: u64) {
        let new = Run {
            policy: run.policy.to_owned(),
            packed: pack::pack(&run.record.requests),
            events: events(&run.record.events),
        };
        let known = self.sessions.iter_mut().rev().find(|s| s.session == run.session && s.model == run.model);
        self.size += new.packed.text.len() + new.events.len();
        match known {
            Some(session) => session.runs.push(new),
            None => {
                // Only here, so that no session is left out while its runs come in.
                self.make_room();
                self.sessions.push(Session {
                    session: run.session.to_owned(),
                    model: run.model.to_owned(),
                    window_tokens,
                    runs: vec![new],
                });
            }
        }
    }

    /// Leaves out the shortest sessions until the rest fits; the earlier of two equal ones stays.
    pub(super) fn make_room(&mut self) {
        while self.size > ROOM && !self.sessions.is_empty() {
            let shortest = (0..self.sessions.len()).rev().min_by_key(|&i| self.sessions[i].requests());
            if let Some(i) = shortest {
                self.size -= self.sessions.remove(i).size();
                self.left_out += 1;
            }
        }
    }
}

/// Kinds of events in the order in which the page knows them.
pub(super) const KINDS: [&str; 11] = [
    "offload",
    "pass",
    "cut",
    "reclaimed",
    "dropped",
    "compaction",
    "compaction failed",
    "thinking withheld",
    "rejection",
    "recovery",
    "violation",
];

/// Events by request and kind; those of one kind at one request are added up.
fn events(events: &[SimEvent]) -> String {
    let mut sums: BTreeMap<(u32, usize), Vec<Value>> = BTreeMap::new();
    for event in events {
        let Some((kind, values)) = facts(&event.kind) else { continue };
        let Some(kind) = KINDS.iter().position(|k| *k == kind) else { continue };
        let sum = sums.entry((event.request, kind)).or_default();
        match sum.is_empty() {
            true => *sum = values,
            false => sum.iter_mut().zip(values).for_each(|(sum, value)| {
                if let (Some(a), Some(b)) = (sum.as_u64(), value.as_u64()) {
                    *sum = json!(a + b);
                }
            }),
        }
    }
    let lines = sums.into_iter().map(|((request, kind), values)| {
        let mut line = vec![json!(request), json!(kind)];
        line.extend(values);
        Value::Array(line)
    });
    Value::Array(lines.collect()).to_string()
}

/// The kind and its numbers or words. What only announces another event, or repeats an earlier one, has none.
fn facts(kind: &SimEventKind) -> Option<(&'static str, Vec<Value>)> {
    Some(match kind {
        SimEventKind::Offload { chars, stub_chars, .. } => {
            ("offload", vec![json!(1), json!(chars.saturating_sub(*stub_chars))])
        }
        SimEventKind::Pass { elided_count, chars_saved, .. } => {
            ("pass", vec![json!(elided_count), json!(chars_saved)])
        }
        SimEventKind::Truncate { chars, kept_chars, .. } => {
            ("cut", vec![json!(1), json!(chars.saturating_sub(*kept_chars))])
        }
        SimEventKind::Reclaimed { reclaimed_tokens, .. } => ("reclaimed", vec![json!(reclaimed_tokens)]),
        SimEventKind::Dropped { messages, tokens_after, .. } => {
            ("dropped", vec![json!(messages), json!(tokens_after)])
        }
        SimEventKind::CompactionDone { tokens_before, tokens_after, .. } => {
            ("compaction", vec![json!(tokens_before), json!(tokens_after)])
        }
        SimEventKind::CompactionFailed { reason, .. } => ("compaction failed", vec![json!(reason)]),
        SimEventKind::PrefixChangeNoticed { withheld_thinking_blocks } => {
            ("thinking withheld", vec![json!(withheld_thinking_blocks)])
        }
        SimEventKind::Rejection { reason, .. } => ("rejection", vec![json!(reason)]),
        SimEventKind::Recovery { action } => ("recovery", vec![json!(action)]),
        SimEventKind::Violation { rule, .. } => ("violation", vec![json!(rule)]),
        SimEventKind::SameStubs { .. }
        | SimEventKind::AppliedEdits { .. }
        | SimEventKind::CompactionStart { .. }
        | SimEventKind::CompactionProgress { .. }
        | SimEventKind::Notice { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::FullRecorder;

    fn record(requests: usize) -> FullRecorder {
        let row = |request| crate::sim::RequestRow {
            request,
            at_ms: None,
            gap_ms: None,
            usage: crate::usage::Usage {
                uncached_tokens: u64::from(request) * 1_000_003,
                ..Default::default()
            },
            cost_pusd: 1,
            miss_cause: None,
            missed_tokens: u64::from(request) * 7_000_001,
            estimate_tokens: 0,
            passes: 0,
            compactions: 0,
            rejections: 0,
        };
        FullRecorder {
            requests: (1..=requests).map(|i| row(u32::try_from(i).expect("small"))).collect(),
            events: vec![],
        }
    }

    #[test]
    fn events_of_a_kind_at_a_request_are_added_up() {
        let offload = |request, chars| SimEvent {
            request,
            at_ms: None,
            kind: SimEventKind::Offload {
                rule: "r".into(),
                call: 1,
                tool: "t".into(),
                chars,
                stub_chars: 10,
            },
        };
        let rejected = SimEvent {
            request: 3,
            at_ms: None,
            kind: SimEventKind::Rejection { reason: "overflow".into(), message: "m".into(), path: None },
        };
        let text = events(&[offload(2, 110), offload(2, 60), rejected, offload(4, 20)]);
        assert_eq!(text, r#"[[2,0,2,150],[3,8,"overflow"],[4,0,1,10]]"#);
    }

    #[test]
    fn the_shortest_sessions_leave_when_there_is_no_room() {
        let mut runs = Runs::default();
        let long = record(400_000);
        for (session, record) in [("a", &record(5)), ("b", &long), ("c", &long), ("d", &record(9))] {
            for policy in ["p", "q"] {
                let run = RunRecord { session, policy, model: "m", record, stopped_at_request: None };
                runs.add(&run, 200_000);
            }
        }
        runs.make_room();
        let kept: Vec<&str> = runs.sessions.iter().map(|s| s.session.as_str()).collect();
        assert!(runs.size <= ROOM && runs.left_out > 0, "{kept:?}");
        assert_eq!(kept.len() + runs.left_out, 4);
        assert!(!kept.contains(&"a"), "{kept:?}");
    }
}
