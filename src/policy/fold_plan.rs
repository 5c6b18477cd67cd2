//! From a rule that folds messages to its plan.

use std::ops::Range;

use super::estimate::EstimateLaw;
use super::fold::{Keep, NativeForm, SummarizeRule, SummaryInput, UserMessages, last_user_message};
use super::occasion::Occasion;
use super::plan::{Plan, SummarizePlan};
use super::reads::Reads;
use super::strategy::{Hook, Rule};
use super::stubs::Firing;
use super::sums::Sums;
use super::view::{SummaryMessage, View};
use super::{summarize, turns};
use crate::session::BlockKind;

impl SummarizeRule {
    /// Whether the provider is asked for the summary by a request of its own.
    pub fn is_on_demand(&self) -> bool {
        matches!(self.input, SummaryInput::Native { form: NativeForm::OnDemand, .. })
    }
}

/// What a rule that fires folds.
pub(super) fn decide<'p>(
    fold: &'p SummarizeRule,
    rule: &Rule,
    law: Option<&EstimateLaw>,
    sums: &Sums,
    view: &View<'_>,
    occasion: &Occasion,
    (firing, tokens_before): (&Firing, u64),
) -> Option<Plan<'p>> {
    let is_manual = occasion.hook == Hook::Manual;
    if is_manual && summarize::round_is_open(view) {
        return Some(Plan::Notice {
            text: "Not compacting now: a tool call is still waiting on its result.",
        });
    }
    let fold_to = cut(fold, law, sums, view, occasion, firing);
    let (keep, reinjected_tokens) =
        fold_to.map_or_else(|| (Vec::new(), 0), |to| kept_in_front(fold, view, law, to));
    let messages = |range: Range<u32>| summarize::messages_in(view, range, rule.scope.merged);
    let kept: u64 = keep.iter().map(|r| messages(r.clone())).sum();
    // Where summaries accumulate, those before are not folded again.
    let stays = view.summary.filter(|_| fold.accumulates);
    let kept = kept + u64::from(stays.is_some());
    let folded = fold_to.map(|to| (to, messages(view.live_from..to).saturating_sub(kept)));
    let Some((fold_to, folded_messages)) = folded.filter(|(_, messages)| *messages > 0) else {
        let silent = matches!(fold.keep, Keep::Tail(_) | Keep::Until(..)) && !is_manual;
        return (!silent && !occasion.is_forced)
            .then_some(Plan::Notice { text: "There is nothing to compact before the part that is kept." });
    };
    let of_summary = |s: &SummaryMessage| law.map_or(0, |law| view.milli_of_summary(law, s));
    let new_milli = sums.milli_before(fold_to) - view.summary.as_ref().map_or(0, of_summary);
    let last_milli = view.last_summary.as_ref().map_or(0, of_summary);
    // Where summaries do not accumulate, the old one leaves too.
    let folded_milli = if stays.is_some() { new_milli } else { sums.milli_before(fold_to) };
    if fold.larger_than_last_summary && !occasion.asks_no_trigger() && folded_milli <= last_milli {
        return None;
    }
    let folded_estimate = law.map_or(0, |law| law.total(folded_milli));
    let whole_estimate = law.map_or(0, |law| law.total(sums.milli_before(u32::MAX)));
    if fold.min_fold_percent > 0
        && !occasion.asks_no_trigger()
        && u128::from(folded_estimate) * 100 < u128::from(whole_estimate) * u128::from(fold.min_fold_percent)
    {
        return None;
    }
    let must_reach =
        fold.must_reach.map(|level| u64::try_from(level.value(firing.limit, firing.growth)).unwrap_or(0));
    let reads = reads(fold, rule, law, view, fold_to, folded_messages);
    Some(Plan::Summarize(SummarizePlan {
        fold_to,
        prompt_utf16: prompt_utf16(fold, view, &reads),
        tokens_before,
        folded_messages,
        kept_turns: turns_from(view, rule, fold_to),
        keep,
        folded_estimate,
        whole_estimate,
        reinjected_tokens,
        must_reach,
        split_at: fold.split_turn.and_then(|_| turn_cut_in_two(view, fold_to)),
        reads,
        truncated: Vec::new(),
        reads_cut: false,
        spec: fold,
    }))
}

/// UTF-16 units of the prompt, the system prompt left out.
fn prompt_utf16(fold: &SummarizeRule, view: &View<'_>, reads: &Reads) -> u64 {
    match &fold.input {
        SummaryInput::Native { .. } => 0,
        SummaryInput::Messages { prompt_utf16 } | SummaryInput::Fork { prompt_utf16 } => *prompt_utf16,
        SummaryInput::Transcript { law, prompt_utf16, .. } => {
            prompt_utf16 + summarize::transcript(law, view, reads).utf16
        }
    }
}

/// What the summarizer is given.
fn reads(
    fold: &SummarizeRule,
    rule: &Rule,
    law: Option<&EstimateLaw>,
    view: &View<'_>,
    fold_to: u32,
    messages: u64,
) -> Reads {
    let again = match fold.overlap_turns {
        0 => 0..0,
        turns => turns::boundary_of_folded(view, rule.scope.turn, turns, view.live_from)..view.live_from,
    };
    let summary = view.summary.is_some() && !fold.accumulates;
    let mut reads = Reads { summary, from: view.live_from, to: fold_to, messages, again, ..Reads::default() };
    if let (Some(tokens), Some(law)) = (fold.input_last, law) {
        reads.keep_newest(view, law, tokens);
    }
    if fold.input_starts_at_user {
        reads.start_at_user(view);
    }
    reads
}

/// The user message whose turn a tail begins in the middle of.
fn turn_cut_in_two(view: &View<'_>, fold_to: u32) -> Option<u32> {
    let kept = (fold_to..view.revealed).find(|b| view.is_live(*b))?;
    if matches!(view.session.blocks.kind[kept as usize], BlockKind::UserText | BlockKind::Image) {
        return None;
    }
    last_user_message(view, fold_to).map(|message| message.start)
}

/// The first block that stays; `None`: nothing is folded.
fn cut(
    fold: &SummarizeRule,
    law: Option<&EstimateLaw>,
    sums: &Sums,
    view: &View<'_>,
    occasion: &Occasion,
    firing: &Firing,
) -> Option<u32> {
    let end = occasion.end.min(view.revealed);
    let fold_to = match &fold.keep {
        Keep::Nothing => Some(end),
        Keep::UnansweredUser => Some(summarize::first_unanswered_user(view).min(end)),
        Keep::RecentTokens(keep) => law.and_then(|law| summarize::cut_before_tail(view, law, *keep)),
        Keep::Tail(tail) => law.and_then(|law| tail.cut(view, law, sums, end)),
        Keep::Until(front, tail) => law.and_then(|law| {
            let cut = front.cut(view, law, sums, end, fold.keep_first, firing)?;
            tail.as_ref().map_or(Some(cut), |tail| tail.cut(view, law, sums, end).map(|most| cut.min(most)))
        }),
    };
    let open = summarize::round_is_open(view);
    let fold_to = fold_to.map(|to| if open { to.min(open_round(view)) } else { to });
    // A tail may begin right behind an old summary, which is an ordinary message to be folded again.
    let has_tail = matches!(fold.keep, Keep::RecentTokens(_) | Keep::Tail(_) | Keep::Until(..));
    let may_refold = view.summary.is_some() && has_tail;
    // A provider that is asked for a summary refuses where there is nothing besides the last.
    let has_new = |to: u32| !fold.is_on_demand() || view.live.last_before(to).is_some();
    fold_to.filter(|to| (*to > view.live_from || may_refold) && has_new(*to))
}

/// First block of the answer whose calls are still open.
fn open_round(view: &View<'_>) -> u32 {
    view.answered.last().map_or(view.revealed, |s| view.session.steps[*s as usize].output.start)
}

/// Turns that begin at `from` or later.
fn turns_from(view: &View<'_>, rule: &Rule, from: u32) -> u64 {
    let all = turns::count(view, rule.scope.turn, view.revealed);
    all - turns::count(view, rule.scope.turn, from)
}

/// Blocks before `fold_to` that stay: messages at the front, user messages, the last of them.
fn kept_in_front(
    fold: &SummarizeRule,
    view: &View<'_>,
    law: Option<&EstimateLaw>,
    fold_to: u32,
) -> (Vec<Range<u32>>, u64) {
    let mut keep: Vec<Range<u32>> = Vec::new();
    let mut reinjected_tokens = 0;
    let merged = law.is_some_and(|l| l.merged);
    let mut at = view.live_from;
    for _ in 0..fold.keep_first {
        let Some(first) = view.live.first_from(at).filter(|b| *b < fold_to) else { break };
        let message = view.message_from(first, merged);
        at = message.end.min(fold_to);
        keep.push(message.start..at);
    }
    // A call stays only with its result.
    while keep.last().is_some_and(|r| view.session.blocks.kind[(r.end - 1) as usize] == BlockKind::ToolUse) {
        keep.pop();
    }
    let users_from = |at: u32| {
        let starts = &view.user_messages[..view.user_messages.partition_point(|b| *b < fold_to)];
        starts.iter().rev().copied().take_while(move |b| *b >= at)
    };
    if fold.reinject.user_messages == UserMessages::All {
        keep.extend(users_from(at).map(|start| view.message_from(start, false)));
    } else if let (UserMessages::Newest(most), Some(law)) = (fold.reinject.user_messages, law) {
        let mut left = most;
        for start in users_from(at) {
            let message = view.message_from(start, false);
            let tokens = view.message_tokens(law, message.clone());
            if tokens > left {
                // The message that crosses is cut, and comes again with the summary.
                let own: u64 = message.map(|b| view.text_size(b).tokens).sum();
                reinjected_tokens = crate::tokens::scale_ratio(own, left, tokens);
                break;
            }
            left -= tokens;
            keep.push(message);
        }
    } else if fold.reinject.last_user
        && let Some(message) = last_user_message(view, fold_to).filter(|m| m.start >= at)
    {
        let none_behind = last_user_message(view, view.revealed).is_some_and(|m| m.start < fold_to);
        if none_behind {
            keep.push(message);
        }
    }
    keep.sort_by_key(|r| r.start);
    (keep, reinjected_tokens)
}
