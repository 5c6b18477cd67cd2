//! Prompt of every request of a session replayed without a strategy, recomputed naively: from the
//! blocks that are there, by the rules of the session's documentation alone.

use std::ops::Range;

use ctxsim::session::{BlockKind, EventKind, Session};
use ctxsim::tokens::{ThinkingRetention, thinking_retention};

/// Prompt tokens of each request, thinking stripped where the model keeps the current turn only.
pub fn prompt_totals(session: &Session) -> Vec<u64> {
    let mut present = vec![false; session.blocks.len()];
    let mut model = session.model.as_str();
    let mut totals = Vec::new();
    for (k, step) in session.steps.iter().enumerate() {
        for event in session.events.iter().filter(|e| e.before_step as usize == k) {
            match &event.kind {
                EventKind::BlocksDropped { from, to, .. } => present[range(&(*from..*to))].fill(false),
                EventKind::ModelChanged { model: next } => model = next,
                _ => {}
            }
        }
        let is_user = |kind| matches!(kind, BlockKind::UserText | BlockKind::Image);
        let new_turn = session.blocks.kind[range(&step.input)].iter().any(|k| is_user(*k));
        if new_turn && thinking_retention(model) == ThinkingRetention::CurrentTurn {
            for (i, kind) in session.blocks.kind.iter().enumerate() {
                present[i] &= *kind != BlockKind::Thinking;
            }
        }
        present[range(&step.input)].fill(true);
        let sent = session.blocks.tokens.iter().zip(&present).filter(|(_, present)| **present);
        let sum: u64 = sent.map(|(tokens, _)| u64::from(*tokens)).sum();
        totals.push(session.prefix.tokens() + sum + u64::from(step.tail_tokens));
        present[range(&step.output)].fill(true);
    }
    totals
}

/// As indexes.
pub fn range(blocks: &Range<u32>) -> Range<usize> {
    blocks.start as usize..blocks.end as usize
}

/// First request (from 0) in which a call has not exactly one result, or a result no call.
pub fn first_unpaired(session: &Session) -> Option<usize> {
    let mut present = vec![false; session.blocks.len()];
    for (k, step) in session.steps.iter().enumerate() {
        for event in session.events.iter().filter(|e| e.before_step as usize == k) {
            if let EventKind::BlocksDropped { from, to, .. } = event.kind {
                present[range(&(from..to))].fill(false);
            }
        }
        present[range(&step.input)].fill(true);
        let mut counts = vec![(0, 0); session.calls.len()];
        for (i, call) in session.blocks.call.iter().enumerate().filter(|(i, _)| present[*i]) {
            match session.blocks.kind[i] {
                BlockKind::ToolUse => counts[*call as usize].0 += 1,
                BlockKind::ToolResult => counts[*call as usize].1 += 1,
                _ => {}
            }
        }
        if counts.iter().any(|(calls, results)| *calls > 1 || calls != results) {
            return Some(k);
        }
        present[range(&step.output)].fill(true);
    }
    None
}
