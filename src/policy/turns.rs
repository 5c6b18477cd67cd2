//! What the word "turn" means to a client, and where its last ones begin.

use super::strategy::Turn;
use super::view::{State, View};
use crate::session::BlockKind;

/// First block of the `turns`-th turn from the end of the blocks before `end`: what is before it is older
/// than so many turns. `end` if `turns` is 0 or less, the beginning if there are fewer.
pub fn boundary(view: &View<'_>, turn: Turn, turns: i64, end: u32) -> u32 {
    let Ok(turns @ 1..) = usize::try_from(turns) else { return end };
    starts_from_end(view, turn, end).nth(turns - 1).unwrap_or(view.live_from)
}

/// First block of the `turns`-th turn from the end of those before `end` that summaries stand for; the beginning if
/// there are fewer.
pub fn boundary_of_folded(view: &View<'_>, turn: Turn, turns: u64, end: u32) -> u32 {
    let Some(last) = usize::try_from(turns).ok().and_then(|n| n.checked_sub(1)) else { return end };
    let kinds = &view.session.blocks.kind;
    let is_user = |b: &u32| matches!(kinds[*b as usize], BlockKind::UserText | BlockKind::Image);
    let is_folded = |b: &u32| {
        let state = view.states[*b as usize];
        *b < end && state.has(State::FOLDED) && !state.has(State::GONE)
    };
    let known = view.session.steps.partition_point(|s| s.output.start < end);
    let starts = view.session.steps[..known].iter().rev().filter_map(|step| match turn {
        Turn::User => step.input.clone().find(is_user),
        Turn::Invocation => step.input.clone().find(is_user).filter(|_| step.human_turn),
        Turn::Assistant => Some(step.output.start),
        Turn::Boundary | Turn::Pair => Some(step.input.start),
    });
    starts.filter(is_folded).nth(last).unwrap_or(0)
}

/// Turns that begin before `end` and are in the history.
pub fn count(view: &View<'_>, turn: Turn, end: u32) -> u64 {
    let steps = &view.session.steps;
    let count = match turn {
        Turn::User => view.user_messages.partition_point(|b| *b < end),
        Turn::Assistant => view.answered.partition_point(|s| steps[*s as usize].output.start < end),
        Turn::Boundary | Turn::Pair | Turn::Invocation => starts_from_end(view, turn, end).count(),
    };
    count as u64
}

/// Whether there are at least so many.
pub fn are_at_least(view: &View<'_>, turn: Turn, turns: u64, end: u32) -> bool {
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    starts_from_end(view, turn, end).take(turns).count() == turns
}

/// First blocks of the live turns that begin before `end`, the newest first.
fn starts_from_end<'v>(view: &'v View<'_>, turn: Turn, end: u32) -> Box<dyn Iterator<Item = u32> + 'v> {
    let steps = &view.session.steps;
    let live = move |b: &u32| *b < end && *b >= view.live_from && view.is_live(*b);
    match turn {
        Turn::User => Box::new(view.user_messages.iter().rev().copied().filter(move |b| *b < end)),
        Turn::Assistant => {
            let starts = view.answered.iter().rev().map(|s| steps[*s as usize].output.start);
            Box::new(starts.filter(move |b| *b < end))
        }
        Turn::Boundary | Turn::Pair => {
            // An answer that nothing was said to is part of the assistant message before it.
            let begins = move |s: &&crate::session::Step| turn == Turn::Boundary || !s.input.is_empty();
            let answered = view.answered.iter().rev().map(|s| &steps[*s as usize]).filter(begins);
            let pending_from = view.answered.last().map_or(0, |s| steps[*s as usize].output.end);
            let pending = (pending_from < view.revealed.min(end)).then_some(pending_from);
            let starts = answered.map(|s| if s.input.is_empty() { s.output.start } else { s.input.start });
            Box::new(pending.into_iter().chain(starts).filter(move |b| *b < end && *b >= view.live_from))
        }
        Turn::Invocation => {
            let kinds = &view.session.blocks.kind;
            let known = steps.partition_point(|s| s.input.start < end.min(view.revealed));
            let starts = steps[..known].iter().rev().filter(|s| s.human_turn).filter_map(|s| {
                s.input.clone().find(|b| matches!(kinds[*b as usize], BlockKind::UserText | BlockKind::Image))
            });
            Box::new(starts.filter(live))
        }
    }
}
