//! The rules of a strategy in words, from what a run reads: every number is the resolved one.

mod folds;
mod items;

use super::recovery::{Newest, Recovery, RecoveryStep};
use super::sent::MeasuredState;
use super::strategy::{
    Action, Cadence, Hook, Hooks, Level, Measure, MessageUnit, Rule, Strategy, Threshold, Turn, Unit,
    WhenCache,
};
use folds::fold_words;
use items::{ends_words, offload_words, stub_words, tools_words};

/// A limit of at least this stands for a trigger that is switched off.
const NEVER: i64 = 1_000_000_000;

/// One rule in words.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RuleWords {
    /// Its name in events.
    pub id: String,
    /// When it is asked.
    pub at: String,
    /// What it does, and under which conditions: a phrase each.
    pub lines: Vec<String>,
}

/// Every rule of `strategy`, in the order in which they run.
pub fn rules(strategy: &Strategy) -> Vec<RuleWords> {
    strategy.rules.iter().map(|rule| words_of(rule, strategy)).collect()
}

/// The recovery ladder, a line a step; none where the run ends at the first overflow.
pub fn recovery(strategy: &Strategy) -> Vec<String> {
    let Some(recovery) = &strategy.recovery else { return Vec::new() };
    recovery.steps.iter().map(|step| step_words(step, recovery, strategy)).collect()
}

fn words_of(rule: &Rule, strategy: &Strategy) -> RuleWords {
    let mut lines = Vec::new();
    if let Some(first) = rule.follows.and_then(|i| strategy.rules.get(i)) {
        lines.push(format!("if `{}` fired and did not suffice", first.id));
    }
    if let Some(broken) = rule.if_broken.and_then(|i| strategy.rules.get(i)) {
        lines.push(format!("only once `{}` is off for its failures or refills", broken.id));
    }
    lines.extend(when_words(rule));
    match &rule.action {
        Action::Offload(offload) => lines.extend(offload_words(offload)),
        Action::Truncate(cut) => {
            lines.push(format!("cuts the result: {}", ends_words(&cut.ends)));
            lines.extend(tools_words(&cut.only, &cut.except));
        }
        Action::Stub(stub) => lines.extend(stub_words(stub, rule)),
        Action::Summarize(fold) => lines.extend(fold_words(fold)),
    }
    lines.extend(cadence_words(&rule.cadence));
    if let Some(stop) = rule.stop_if_under {
        lines.push(format!("under {} estimated tokens what follows it does not run", number(stop.under)));
    }
    if let Some(share) = rule.stop_if_saved {
        lines.push(format!("if it takes {} of the history what follows it does not run", percent(share)));
    }
    RuleWords { id: rule.id.clone(), at: hooks_words(rule.at), lines }
}

/// Thousands with commas.
fn number(n: impl Into<i128>) -> String {
    let n: i128 = n.into();
    let digits = n.unsigned_abs().to_string();
    let mut out = if n < 0 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 result`, `3 results`.
fn counted(n: impl Into<i128>, one: &str) -> String {
    let n: i128 = n.into();
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", number(n)) }
}

/// Millionths as a percentage.
fn percent(millionths: i64) -> String {
    let (whole, rest) = (millionths / 10_000, millionths % 10_000);
    let decimals = format!("{rest:04}");
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() { format!("{whole} %") } else { format!("{whole}.{decimals} %") }
}

const HOOKS: [(Hook, &str); 10] = [
    (Hook::ToolResult, "when a tool result comes back"),
    (Hook::TurnStart, "when a human turn begins"),
    (Hook::AfterTools, "after a batch of tool results"),
    (Hook::Request, "before each request"),
    (Hook::Response, "after each answer"),
    (Hook::TurnEnd, "after an answer without calls"),
    (Hook::Idle, "between requests"),
    (Hook::Overflow, "when the prompt does not fit"),
    (Hook::Binding, "when bound thinking is refused"),
    (Hook::Manual, "when the user asks"),
];

fn hook_words(hook: Hook) -> &'static str {
    HOOKS.iter().find(|(h, _)| *h == hook).map_or("", |(_, words)| words)
}

fn hooks_words(at: Hooks) -> String {
    HOOKS.iter().filter(|(hook, _)| at.has(*hook)).map(|(_, words)| *words).collect::<Vec<_>>().join(", ")
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Utf16 => "character",
        Unit::Bytes => "byte",
        Unit::Lines => "line",
        Unit::Estimate => "estimated token",
        Unit::Tokens => "token",
        Unit::Count => "item",
    }
}

fn turns_words(turns: i64, turn: Turn) -> String {
    let meaning = match turn {
        Turn::Assistant => "an assistant message each",
        Turn::User => "a user message to the next",
        Turn::Boundary => "a request each",
        Turn::Invocation => "a human prompt to the next",
        Turn::Pair => "a user and an assistant message",
    };
    format!("{} ({meaning})", counted(turns, "turn"))
}

/// What is measured, and the word for one of its unit.
fn measure_words(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::Block(unit) => ("the result has", unit_word(unit)),
        Measure::ToolResults(Unit::Count) => ("there are", "tool result"),
        Measure::ToolResults(unit) => ("all tool results together have", unit_word(unit)),
        Measure::Messages(MessageUnit::Estimate) => ("the history has", "estimated token"),
        Measure::Messages(MessageUnit::PlainEstimate) => ("its messages have", "estimated token"),
        Measure::Messages(MessageUnit::Count) => ("the history has", "message"),
        Measure::Messages(MessageUnit::Turns) => ("the history has", "turn"),
        Measure::Messages(MessageUnit::Events(_)) => ("the history has", "event"),
        Measure::RequestTokens => ("the request has", "token"),
        Measure::LastPrompt => ("the last answer reports a prompt of", "token"),
        Measure::LastUsage => ("the last answer reports", "token"),
        Measure::Eligible(unit) => ("what it would take has", unit_word(unit)),
        Measure::SinceRequests => ("its last action was", "request"),
        Measure::SinceTurns => ("its last action was", "human turn"),
        Measure::IdleSeconds => ("the last request was", "second"),
    }
}

fn threshold_words(threshold: &Threshold) -> String {
    let (what, one) = measure_words(threshold.measure);
    let than = if threshold.inclusive { "at least" } else { "more than" };
    let ago = match threshold.measure {
        Measure::SinceRequests | Measure::SinceTurns | Measure::IdleSeconds => " ago",
        _ => "",
    };
    let at = threshold.at.map(|hook| format!(", {}", hook_words(hook))).unwrap_or_default();
    let hard = if threshold.hard { ", whatever the cadence says" } else { "" };
    let state = match threshold.state {
        MeasuredState::Stored => "",
        MeasuredState::Sent => " as it is sent",
        MeasuredState::Original => " as it came",
    };
    format!("{what} {than} {}{ago}{state}{at}{hard}", counted(threshold.limit, one))
}

fn when_words(rule: &Rule) -> Option<String> {
    let on: Vec<String> = rule.when.iter().filter(|t| t.limit < NEVER).map(threshold_words).collect();
    let join = if rule.all { " and " } else { " or " };
    match (rule.when.is_empty(), on.is_empty()) {
        (true, _) => None,
        (false, true) => Some("never: it has no trigger until one is set".to_owned()),
        (false, false) => Some(format!("if {}", on.join(join))),
    }
}

fn level_words(level: Level, rule: &Rule) -> String {
    format!("{} are left", level_text(level, rule.when.first().map_or("", |t| measure_words(t.measure).1)))
}

fn level_text(level: Level, unit: &str) -> String {
    match level {
        Level::At(n) => counted(n, unit),
        Level::OfFired(millionths) => format!("{} of the limit that fired", percent(millionths)),
        Level::Headroom { requests, floor, ceiling } => {
            let (floor, ceiling) = (percent(floor), percent(ceiling));
            format!("{floor} to {ceiling} of the limit that fired, with {requests} requests' growth of room,")
        }
    }
}

fn cadence_words(cadence: &Cadence) -> Vec<String> {
    let mut lines = Vec::new();
    if cadence.min_interval > 1 {
        let one = if cadence.interval_in_turns { "human turn" } else { "request" };
        lines.push(format!("at most once in {}", counted(cadence.min_interval, one)));
    }
    if cadence.not_after_self {
        lines.push("not again before a new answer".to_owned());
    }
    if cadence.no_refire_above_floor {
        lines.push("waits for a tenth more where its last action left too much".to_owned());
    }
    if cadence.breaker_failures > 0 {
        lines.push(format!("off after {} in a row", counted(cadence.breaker_failures, "failure")));
    }
    if cadence.breaker_refills > 0 {
        lines.push(format!("off after {} refills in a row", number(cadence.breaker_refills)));
    }
    match cadence.when_cache {
        WhenCache::Any => {}
        WhenCache::Cold => lines.push("only when the cache is cold".to_owned()),
        WhenCache::PreferCold => lines.push("rather when the cache is cold".to_owned()),
    }
    if let Some(steps) = cadence.break_even_steps {
        lines.push(format!("only if it pays within {}", counted(steps, "request")));
    }
    lines
}

fn step_words(step: &RecoveryStep, recovery: &Recovery, strategy: &Strategy) -> String {
    let ids: Vec<String> = step
        .rules
        .iter()
        .filter_map(|i| strategy.rules.get(*i))
        .map(|rule| format!("`{}`", rule.id))
        .collect();
    let aside = match step.set_aside.map(|aside| aside.newest) {
        None => String::new(),
        Some(Newest::Count(n)) => format!("without the newest {}: ", counted(n, "message")),
        Some(Newest::Half) => "without the newest half of the messages: ".to_owned(),
    };
    let gate = match step.retry_margin {
        None => String::new(),
        Some(margin) => format!(", again if the deficit and {} are freed", counted(margin, "token")),
    };
    format!(
        "{aside}{}{gate} (at most {} before it is reset)",
        ids.join(", "),
        counted(recovery.attempts, "attempt")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_are_written() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!((counted(1, "line"), counted(2_000, "line")), ("1 line".into(), "2,000 lines".into()));
        assert_eq!(
            [850_000, 125_000, 1_000_000, 999_999].map(percent),
            ["85 %", "12.5 %", "100 %", "99.9999 %"]
        );
    }
}
