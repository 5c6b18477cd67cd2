//! The rules of a strategy in words, from what a run reads: every number is the resolved one.

use super::fold::{Front, FrontUnit, Keep, Place, SummarizeRule, SummaryInput, Tail};
use super::recovery::{Newest, Recovery, RecoveryStep};
use super::strategy::{
    Action, Cadence, EditView, Ends, Hook, Hooks, Items, KeepRecent, Level, Measure, MessageUnit,
    OffloadRule, Rule, Strategy, StubRule, StubSize, Threshold, Turn, Unit, Until, WhenCache,
};

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

const HOOKS: [(Hook, &str); 9] = [
    (Hook::ToolResult, "when a tool result comes back"),
    (Hook::TurnStart, "when a human turn begins"),
    (Hook::AfterTools, "after a batch of tool results"),
    (Hook::Request, "before each request"),
    (Hook::Response, "after each answer"),
    (Hook::TurnEnd, "after an answer without calls"),
    (Hook::Idle, "between requests"),
    (Hook::Overflow, "when the prompt does not fit"),
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
    format!("{what} {than} {}{ago}{at}{hard}", counted(threshold.limit, one))
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

fn tools_words(only: &[String], except: &[String]) -> Vec<String> {
    let names = |list: &[String]| {
        list.iter().map(|p| p.strip_prefix("exact:").unwrap_or(p)).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    if !only.is_empty() {
        lines.push(format!("only of {}", names(only)));
    }
    if !except.is_empty() {
        lines.push(format!("never of {}", names(except)));
    }
    lines
}

fn offload_words(offload: &OffloadRule) -> Vec<String> {
    let (head, tail) = (number(offload.keep_head), number(offload.keep_tail));
    let mut lines = vec![format!(
        "writes it to a file; {head} {}s from the start and {tail} from the end stay, with a note of {} \
         characters and what it names",
        unit_word(offload.unit),
        number(offload.stub.fixed),
    )];
    lines.extend(tools_words(&offload.only, &offload.except));
    lines
}

fn ends_words(ends: &Ends) -> String {
    let unit = unit_word(ends.unit);
    match ends.budget {
        Some(budget) => format!("both ends and a marker come to {}", counted(budget, unit)),
        None => format!(
            "{} from the start and {} from the end stay, with a marker of {} characters",
            counted(ends.head, unit),
            number(ends.tail),
            number(ends.marker.fixed),
        ),
    }
}

fn items_word(items: Items) -> &'static str {
    match items {
        Items::Results => "tool results",
        Items::Inputs => "arguments of calls",
        Items::Pairs => "calls with their results",
        Items::Thinking => "thinking",
    }
}

fn stub_words(stub: &StubRule, rule: &Rule) -> Vec<String> {
    let items = items_word(stub.items);
    let does = match &stub.stub {
        StubSize::Law(law) => {
            format!("replaces old {items} by a stub of {} characters and what it names", number(law.fixed))
        }
        StubSize::Tokens(tokens) => {
            format!("clears old {items}: a placeholder of {}", counted(*tokens, "token"))
        }
        StubSize::Ends(ends) => format!("cuts old {items}: {}", ends_words(ends)),
        StubSize::Nothing => format!("leaves old {items} out"),
    };
    let mut lines = vec![does];
    lines.extend(tools_words(&stub.only, &stub.except));
    if stub.min > 0 {
        lines.push(format!("not those under {}", counted(stub.min, unit_word(stub.min_unit))));
    }
    if stub.keep_first > 0 {
        lines.push(format!("keeps the oldest {}", number(stub.keep_first)));
    }
    lines.extend(keep_recent_words(&stub.keep));
    if stub.quantum > 1 {
        lines.push(format!("its boundary moves in steps of {}", number(stub.quantum)));
    }
    if let Some(until) = stub.until {
        lines.extend(until_words(until, stub, rule));
    }
    if let Some(target) = stub.target {
        lines.push(format!("goes on until {}", level_words(target, rule)));
    }
    if stub.savings.min > 0 {
        let unit = match stub.stub {
            StubSize::Tokens(_) => "token",
            _ => unit_word(stub.savings.unit),
        };
        lines.push(format!("only if it saves at least {}", counted(stub.savings.min, unit)));
    }
    lines.push(view_words(stub.view).to_owned());
    if stub.withhold_thinking {
        lines.push("thinking behind the first of them is no longer replayed".to_owned());
    }
    lines
}

fn view_words(view: EditView) -> &'static str {
    match view {
        EditView::Ledger => "recorded: later requests carry the same edits",
        EditView::Stateless => "on a copy of the request: worked out anew each time",
        EditView::Destructive => "in the stored history",
        EditView::Server => "the provider edits its own copy",
    }
}

fn keep_recent_words(keep: &KeepRecent) -> Vec<String> {
    let mut kept = Vec::new();
    if let Some(turns) = keep.turns.filter(|turns| *turns > 0) {
        kept.push(turns_words(turns, keep.turn));
    }
    if let Some(results) = keep.results {
        kept.push(counted(results, "result"));
    }
    if let Some(messages) = keep.messages {
        kept.push(counted(messages, "message"));
    }
    kept.extend(keep.sizes.iter().map(|(unit, n)| counted(*n, unit_word(*unit))));
    let mut lines = Vec::new();
    if !kept.is_empty() {
        lines.push(format!("keeps the newest {}", kept.join(" and ")));
    }
    let beyond: Vec<String> = keep.beyond.iter().map(|(unit, n)| counted(*n, unit_word(*unit))).collect();
    if !beyond.is_empty() {
        lines.push(format!("and behind them {} more", beyond.join(" and ")));
    }
    lines
}

fn level_words(level: Level, rule: &Rule) -> String {
    let unit = rule.when.first().map_or("", |t| measure_words(t.measure).1);
    match level {
        Level::At(n) => format!("{} are left", counted(n, unit)),
        Level::OfFired(millionths) => format!("{} of the limit that fired are left", percent(millionths)),
    }
}

fn until_words(until: Until, stub: &StubRule, rule: &Rule) -> Option<String> {
    Some(match until {
        Until::Saved(n) if n >= NEVER.unsigned_abs() => return None,
        Until::Saved(n) => format!("stops once it has saved {}", counted(n, unit_word(stub.savings.unit))),
        Until::Total(level) => format!("oldest first, until {}", level_words(level, rule)),
        Until::Count(n) => format!("the oldest {} at a time", number(n)),
        Until::Share(millionths) | Until::Growing { share: millionths, .. } => {
            format!("the oldest {}", percent(millionths))
        }
    })
}

fn keep_words(keep: &Keep) -> Option<String> {
    Some(match keep {
        Keep::Nothing => return None,
        Keep::UnansweredUser => "keeps user messages that no answer follows".to_owned(),
        Keep::RecentTokens(n) => {
            format!("keeps the newest {} from a user message on", counted(*n, "estimated token"))
        }
        Keep::Tail(tail) => return tail_words(tail),
        Keep::Until(front, None) => front_words(front),
        Keep::Until(front, Some(tail)) => match tail_words(tail) {
            Some(kept) => format!("{}; {kept}", front_words(front)),
            None => front_words(front),
        },
    })
}

fn front_words(front: &Front) -> String {
    let unit = match front.unit {
        FrontUnit::Estimate => "estimated token",
        FrontUnit::Messages => "message",
        FrontUnit::Events => "event",
    };
    match front.until {
        Until::Saved(n) => format!("until {} are folded", counted(n, "estimated token")),
        Until::Total(Level::At(n)) => format!("until {} are left", counted(n, unit)),
        Until::Total(Level::OfFired(millionths)) => {
            format!("until {} of the limit that fired are left", percent(millionths))
        }
        Until::Count(n) => format!("the oldest {}", counted(n, "message")),
        Until::Share(millionths) => format!("the oldest {} of the messages", percent(millionths)),
        Until::Growing { share, step, under } => {
            let under = match under {
                Level::At(n) => counted(n, unit),
                Level::OfFired(millionths) => format!("{} of the limit that fired", percent(millionths)),
            };
            let (share, step) = (percent(share), percent(step));
            format!("the oldest {share} of the messages, and {step} more until the rest is under {under}")
        }
    }
}

fn tail_words(tail: &Tail) -> Option<String> {
    let bound = if tail.drop_crossing { "at most " } else { "" };
    let mut kept = Vec::new();
    kept.extend(tail.turns.map(|n| turns_words(n, tail.turn)));
    kept.extend(tail.messages.map(|n| counted(n, "message")));
    kept.extend(tail.estimate.map(|n| format!("{bound}{}", counted(n, "estimated token"))));
    kept.extend(tail.share.map(|n| format!("{bound}{} of the history", percent(n))));
    if kept.is_empty() {
        return None;
    }
    Some(format!("keeps the newest {}", kept.join(" and ")))
}

fn fold_words(fold: &SummarizeRule) -> Vec<String> {
    let reads = match &fold.input {
        SummaryInput::Transcript { .. } => "a transcript of it",
        SummaryInput::Messages { .. } => "its messages",
        SummaryInput::Fork { .. } => "the request as it stands, and so the warm cache",
        SummaryInput::PrefixFork => "what it was sent: the provider compacts by itself",
    };
    let does = match (fold.calls, fold.wrap_utf16) {
        (0, 0) => "leaves messages out, oldest first".to_owned(),
        (0, n) => format!("leaves messages out, oldest first, with a marker of {}", counted(n, "character")),
        _ => format!("replaces the history by a summary; the summarizer reads {reads}"),
    };
    let mut lines = vec![does];
    lines.extend(keep_words(&fold.keep));
    if fold.keep_first > 0 {
        lines.push(format!("keeps the oldest {}", counted(fold.keep_first, "message")));
    }
    if fold.reinject.last_user {
        lines.push("keeps the last user message word for word".to_owned());
    }
    if fold.reinject.user_messages_tokens > 0 {
        let most = counted(fold.reinject.user_messages_tokens, "estimated token");
        lines.push(format!("keeps user messages, newest first, up to {most}"));
    }
    if fold.min_fold_percent > 0 {
        lines.push(format!("not if it folds less than {} % of the history", fold.min_fold_percent));
    }
    if fold.calls > 0 {
        lines.extend(summary_words(fold));
    }
    if fold.withhold_kept_thinking {
        lines.push("thinking of what is kept is no longer replayed".to_owned());
    }
    lines
}

/// Where a summary stands, who writes it and what becomes of it.
fn summary_words(fold: &SummarizeRule) -> Vec<String> {
    let mut lines = Vec::new();
    match fold.place {
        Place::Head => {}
        Place::InPlace => lines.push("the summary stands where the messages were".to_owned()),
        Place::Last => lines.push("the summary comes last".to_owned()),
    }
    if fold.calls > 1 {
        lines.push(counted(fold.calls, "call"));
    }
    let own = "the session's model";
    let models: Vec<&str> = fold.models.iter().map(|m| m.model.as_ref().map_or(own, |m| &m.id)).collect();
    if models.iter().any(|m| *m != own) {
        lines.push(format!("summarized by {}", models.join(", else ")));
    }
    if fold.reject_if_larger {
        lines.push("a summary that is no smaller is thrown away, and billed".to_owned());
    }
    if fold.archive.is_some() {
        lines.push("what is folded goes to a file that the summary names".to_owned());
    }
    lines
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
