//! What a rule does to single items, in words.

use super::folds::summary_words;
use super::{NEVER, counted, level_words, number, percent, turns_words, unit_word};
use crate::policy::strategy::{
    EditView, Ends, Items, KeepRecent, OffloadRule, Repeated, Rule, StubRule, StubSize, Until,
};

/// Tools of a list, by name.
fn names_words(tools: &[String]) -> String {
    tools.iter().map(|p| p.strip_prefix("exact:").unwrap_or(p)).collect::<Vec<_>>().join(", ")
}

pub(super) fn tools_words(only: &[String], except: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    if !only.is_empty() {
        lines.push(format!("only of {}", names_words(only)));
    }
    if !except.is_empty() {
        lines.push(format!("never of {}", names_words(except)));
    }
    lines
}

pub(super) fn offload_words(offload: &OffloadRule) -> Vec<String> {
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

pub(super) fn ends_words(ends: &Ends) -> String {
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

/// What stands for an item.
fn size_words(size: &StubSize, what: &str) -> String {
    match size {
        StubSize::Law(law) => {
            format!("replaces {what} by a stub of {} characters and what it names", number(law.fixed))
        }
        StubSize::Tokens(0) => format!("removes {what}"),
        StubSize::Tokens(tokens) => {
            format!("clears {what}: a placeholder of {}", counted(*tokens, "token"))
        }
        StubSize::Ends(ends) => format!("cuts {what}: {}", ends_words(ends)),
        StubSize::Nothing => format!("leaves {what} out"),
    }
}

pub(super) fn stub_words(stub: &StubRule, rule: &Rule) -> Vec<String> {
    let does = match &stub.summary {
        Some(_) => "a summarizer puts a text of its own in the place of each call and its result".to_owned(),
        None => size_words(&stub.stub, &format!("old {}", items_word(stub.items))),
    };
    let mut lines = vec![does];
    for (only, size) in &stub.by_tool {
        lines.push(format!("of {}: {}", names_words(only), size_words(size, "them")));
    }
    lines.extend(tools_words(&stub.only, &stub.except));
    lines.extend(stub.repeated.map(|repeated| repeated_words(repeated).to_owned()));
    if let Some(summary) = &stub.summary {
        lines.extend(summary_words(summary));
    }
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

fn repeated_words(repeated: Repeated) -> &'static str {
    match repeated {
        Repeated::Superseded => "only where the same call was made again later",
        Repeated::EarlierCopy => "only where a later result has the same content",
        Repeated::LaterCopy => "only where an earlier result has the same content",
    }
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
    if let Some(turns) = keep.thinking_turns {
        kept.push(counted(turns, "thinking answer"));
    }
    if let Some(results) = keep.results {
        kept.push(counted(results, "result"));
    }
    if let Some(messages) = keep.messages {
        kept.push(counted(messages, "message"));
    }
    if let Some(tokens) = keep.history_estimate {
        kept.push(format!("messages of {}", counted(tokens, "estimated token")));
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
