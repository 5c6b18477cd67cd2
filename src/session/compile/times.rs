//! When requests start and how long they take (docs/decisions.md 9).

use crate::session::Step;

/// Times of one step as recorded, Unix epoch in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepTimes {
    /// Last tool result or user message.
    input_ms: Option<i64>,
    /// Last injected text.
    injected_ms: Option<i64>,
    first_ms: Option<i64>,
    last_ms: Option<i64>,
}

impl StepTimes {
    pub fn input(&mut self, at_ms: Option<i64>, injected: bool) {
        let slot = if injected { &mut self.injected_ms } else { &mut self.input_ms };
        *slot = at_ms.or(*slot);
    }

    pub fn response(&mut self, first_ms: Option<i64>, last_ms: Option<i64>) {
        self.first_ms = first_ms;
        self.last_ms = last_ms.or(first_ms);
    }

    fn start(&self) -> Option<i64> {
        self.input_ms.or(self.first_ms).or(self.injected_ms)
    }
}

/// Start and end of every request, or nothing if no time is known at all: a request starts at its last tool
/// result or user message, else at the first line of its response, and ends at its last line; starts and
/// ends never go back. A request without any time starts where the one before it ended (the first ones:
/// where the first known one starts).
pub(crate) fn spans<'a>(times: impl Iterator<Item = &'a StepTimes> + Clone) -> Vec<(i64, i64)> {
    let Some(first) = times.clone().find_map(|t| t.start().or(t.last_ms)) else { return Vec::new() };
    let (mut last_start, mut last_end) = (first, first);
    let span = |t: &StepTimes| {
        let start = t.start().unwrap_or(last_end).max(last_start);
        let end = t.last_ms.unwrap_or(start).max(start).max(last_end);
        (last_start, last_end) = (start, end);
        (start, end)
    };
    times.map(span).collect()
}

/// Sets start and duration as [`spans`] gives them.
pub(super) fn set_times<'a>(steps: &mut [Step], times: impl Iterator<Item = &'a StepTimes> + Clone) {
    for (step, (start, end)) in steps.iter_mut().zip(spans(times)) {
        step.start_ms = Some(start);
        step.duration_ms = u32::try_from(end - start).unwrap_or(u32::MAX);
    }
}
