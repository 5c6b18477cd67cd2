//! Sums over a transcript: an aid for tests and for comparing readers.

use crate::transcript::{Content, Entry, Event, EventKind, Transcript};
use crate::usage::Usage;

/// What a transcript holds, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sum of the usage of all responses.
    pub usage: Usage,
    /// Responses, with or without usage.
    pub responses: u64,
    /// Responses without usable usage.
    pub without_usage: u64,
    /// Tool calls in responses.
    pub tool_calls: u64,
    /// Tool results in inputs.
    pub tool_results: u64,
    /// Inputs, injected ones included.
    pub inputs: u64,
    /// Injected inputs.
    pub injected: u64,
    /// Events, without what only marks a request.
    pub events: u64,
}

impl Transcript {
    /// Sums usage and counts entries.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in &self.entries {
            match entry {
                Entry::Input(input) => {
                    totals.inputs += 1;
                    totals.injected += u64::from(input.injected);
                    totals.tool_results += count(&input.content, |c| matches!(c, Content::ToolResult { .. }));
                }
                Entry::Response(response) => {
                    totals.responses += 1;
                    totals.tool_calls += count(&response.content, |c| matches!(c, Content::ToolUse { .. }));
                    match &response.usage {
                        Some(usage) => totals.usage.add(usage),
                        None => totals.without_usage += 1,
                    }
                }
                Entry::Event(Event { kind: EventKind::Marker(_), .. }) => {}
                Entry::Event(_) => totals.events += 1,
            }
        }
        totals
    }
}

fn count(content: &[Content], of: impl Fn(&Content) -> bool) -> u64 {
    content.iter().map(|c| u64::from(of(c))).sum()
}
