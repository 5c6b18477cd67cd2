//! What a rule folds, in words.

use super::items::ends_words;
use super::{counted, level_text, percent, threshold_words, turns_words};
use crate::policy::fold::{
    Front, FrontUnit, Keep, NativeForm, Place, SummarizeRule, SummaryInput, Tail, UserMessages,
};
use crate::policy::strategy::Until;

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
        Until::Total(level) => format!("until {} are left", level_text(level, unit)),
        Until::Count(n) => format!("the oldest {}", counted(n, "message")),
        Until::Share(millionths) => format!("the oldest {} of the messages", percent(millionths)),
        Until::Growing { share, step, under } => {
            let under = level_text(under, unit);
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

pub(super) fn fold_words(fold: &SummarizeRule) -> Vec<String> {
    let reads = match &fold.input {
        SummaryInput::Transcript { .. } => "a transcript of it",
        SummaryInput::Messages { .. } => "its messages",
        SummaryInput::Fork { .. } => "the request as it stands, and so the warm cache",
        SummaryInput::Native { form, .. } => native_words(*form),
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
    lines.extend(fold.accumulates.then(|| "the summaries before it stay in front of it".to_owned()));
    if fold.reinject.last_user {
        lines.push("keeps the last user message word for word".to_owned());
    }
    if let SummaryInput::Native { instructions_tokens: 1.., .. } = fold.input {
        lines.push("instructions of one's own take the place of the provider's".to_owned());
    }
    match fold.reinject.user_messages {
        UserMessages::None => {}
        UserMessages::All => lines.push("keeps all user messages, in front of the summary".to_owned()),
        UserMessages::Newest(most) => {
            let most = counted(most, "estimated token");
            lines.push(format!("keeps user messages, newest first, up to {most}"));
        }
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

/// How a provider is asked.
fn native_words(form: NativeForm) -> &'static str {
    match form {
        NativeForm::Inline => "what it was sent: the provider compacts by itself",
        NativeForm::Paused => "what it was sent: the provider compacts by itself and stops",
        NativeForm::OnDemand => "what is folded: the provider compacts when it is asked to",
        NativeForm::Endpoint => "what it was sent, at an endpoint of its own",
    }
}

/// How much of what is folded the summarizer sees.
fn input_words(fold: &SummarizeRule) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(tokens) = fold.input_last {
        lines.push(format!("the summarizer sees the newest {} of it", counted(tokens, "estimated token")));
    }
    if fold.input_starts_at_user {
        lines.push("from a user message on; where there is none, nobody is asked".to_owned());
    }
    if fold.overlap_turns > 0 {
        let turns = counted(fold.overlap_turns, "turn");
        lines.push(format!("the summarizer reads {turns} again that earlier summaries stand for"));
    }
    if let Some(least) = fold.drop_oldest_leaving {
        let stays = if least > 0 { format!("; {} stay", counted(least, "message")) } else { String::new() };
        lines.push(format!("an input that is too long loses its oldest messages{stays}"));
    }
    if !fold.leave_out_percent.is_empty() {
        let percents: Vec<String> = fold.leave_out_percent.iter().map(|p| format!("{p} %")).collect();
        let percents = percents.join(", ");
        lines.push(format!(
            "an input that is refused for its length loses {percents} of its results, from the middle on"
        ));
    }
    lines
}

/// Where a summary stands, who writes it and what becomes of it.
pub(super) fn summary_words(fold: &SummarizeRule) -> Vec<String> {
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
    lines.extend(input_words(fold));
    if let Some(split) = fold.split_turn {
        let most = counted(split.max_output_tokens, "token");
        lines.push(format!("the head of a turn that is cut in two has a call of its own, of at most {most}"));
    }
    if !fold.writes_cache {
        lines.push("the call writes nothing to the cache".to_owned());
    }
    if let Some(cut) = &fold.truncate_results {
        let beyond = counted(cut.beyond, "estimated token");
        lines.push(format!(
            "with it results beyond the newest {beyond} of them are cut: {}",
            ends_words(&cut.ends)
        ));
    }
    if fold.latency_steps > 0 {
        let stale =
            if fold.discard_if_stale { ", unless what it stands for was changed meanwhile" } else { "" };
        lines.push(format!("the summary is there {} later{stale}", counted(fold.latency_steps, "request")));
        lines.extend(fold.place_when.as_ref().map(|t| format!("and waits until {}", threshold_words(t))));
    }
    if fold.reject_if_larger {
        lines.push("a summary that is no smaller is thrown away, and billed".to_owned());
    }
    if fold.archive.is_some() {
        lines.push("what is folded goes to a file that the summary names".to_owned());
    }
    lines
}
