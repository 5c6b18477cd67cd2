//! What a vendor wants done with reasoning, as data: what must come back with a call, and what of it is removed.
//!
//! * Claude checks the prefix that thinking was made behind ([`super::model::Binding`]) and which model made it.
//! * GPT-6.2 removes reasoning silently after an edit of its prefix: the request succeeds, and its response lists
//!   what was removed (docs/sources.md D3, page of 2026-11-17). Earlier GPT models drop reasoning at the next user
//!   turn.
//! * Gemini 3 refuses a current turn whose first call of a step has lost its thought signature; earlier turns and
//!   rewritten results are not checked (docs/sources.md E, autumn 2026).
//! * DeepSeek refuses messages with calls whose `reasoning_content` is missing (docs/sources.md F, October 2026).
//!
//! # Divergence from the real API
//!
//! * A call must come back with reasoning only if its answer had some: recordings of other models are not refused
//!   for what they never had.
//! * Error texts name the call by its number, since names of tools do not reach the provider.
//! * Gemini's values that switch its check off are not modelled, nor are altered signatures.
//! * Organisation and end-user mismatches do not occur: there is one of each.

use serde::{Deserialize, Serialize};

use super::{SentBlock, SentKind};

/// Which calls must come back with the reasoning that led to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// None.
    #[default]
    Free,
    /// The first of each step since the user last spoke (Gemini 3).
    FirstCallOfTurn,
    /// All (DeepSeek).
    WithCalls,
}

/// Why reasoning was removed from a request, or would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// What stands before it is not what it was made behind.
    PrefixMismatch,
    /// The model cannot read what made it.
    ModelMismatch,
    /// The user spoke after it.
    TurnBoundary,
}

/// One entry of the `input_transformations` of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformation {
    /// Index of the block in the request.
    pub block: u32,
    /// Its path on the wire, `messages.{i}.content.{j}`.
    pub path: String,
    /// It was removed; if not, it was let through and only reported.
    pub removed: bool,
    /// Why.
    pub reason: Reason,
}

/// First call of each answer that had reasoning, and the last of it, by call.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(u32, u32)>);

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// An answer's first call followed this reasoning.
    pub(crate) fn learn(&mut self, call: u32, reasoning: u32) {
        match self.0.binary_search_by_key(&call, |(call, _)| *call) {
            Ok(at) => self.0[at].1 = reasoning,
            Err(at) => self.0.insert(at, (call, reasoning)),
        }
    }

    fn of(&self, call: u32) -> Option<u32> {
        self.0.binary_search_by_key(&call, |(call, _)| *call).ok().map(|at| self.0[at].1)
    }
}

/// The first call, among those at or behind `changed_from`, that lacks the reasoning it must come with, and the
/// vendor's text about it.
pub(crate) fn missing(
    replay: Replay,
    pairs: &Pairs,
    blocks: &[SentBlock],
    changed_from: usize,
) -> Option<(usize, String)> {
    if replay == Replay::Free {
        return None;
    }
    // A message that lost a block is looked at as a whole.
    let start_of = |at: usize| {
        let message = blocks[at].message;
        let same = |b: &&SentBlock| b.message == message && b.kind.is_assistant();
        at - blocks[..at].iter().rev().take_while(same).count()
    };
    let from = if changed_from < blocks.len() { start_of(changed_from) } else { return None };
    let lacks = |at: &usize| {
        let block = &blocks[*at];
        let wanted = (block.kind == SentKind::ToolUse).then(|| pairs.of(block.link)).flatten();
        let has =
            |id: u32| blocks[start_of(*at)..*at].iter().any(|b| b.kind == SentKind::Thinking && b.link == id);
        wanted.is_some_and(|id| !has(id))
    };
    let spoke_after = |at: usize| blocks[at..].iter().any(|b| b.kind == SentKind::Text);
    let checked = |at: &usize| replay == Replay::WithCalls || !spoke_after(*at);
    let at = (from..blocks.len()).find(|at| lacks(at) && checked(at))?;
    let (call, position) = (blocks[at].link, blocks[at].message + 1);
    Some((
        at,
        match replay {
            Replay::FirstCallOfTurn => format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                 correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
                 function call `default_api:call_{call}`, position {position}."
            ),
            _ => "The reasoning_content in the thinking mode must be passed back to the API.".to_owned(),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::NO_LINK;
    use super::*;

    fn block(kind: SentKind, link: u32, message: u32) -> SentBlock {
        SentBlock { hash: 0, tokens: 1, link, message, kind, deferred: false, placeholder: false }
    }

    /// A user text, then two steps of thinking, call and result.
    fn two_steps() -> (Vec<SentBlock>, Pairs) {
        let mut pairs = Pairs::default();
        pairs.learn(8, 21);
        pairs.learn(7, 20);
        let blocks = vec![
            block(SentKind::Text, NO_LINK, 0),
            block(SentKind::Thinking, 20, 1),
            block(SentKind::ToolUse, 7, 1),
            block(SentKind::ToolResult, 7, 2),
            block(SentKind::Thinking, 21, 3),
            block(SentKind::ToolUse, 8, 3),
            block(SentKind::ToolUse, 9, 3),
            block(SentKind::ToolResult, 8, 4),
            block(SentKind::ToolResult, 9, 4),
        ];
        (blocks, pairs)
    }

    #[test]
    fn only_the_current_turn_needs_its_signatures() {
        let (mut blocks, pairs) = two_steps();
        let missing_at =
            |replay, blocks: &[SentBlock], from| missing(replay, &pairs, blocks, from).map(|(at, _)| at);
        for replay in [Replay::Free, Replay::FirstCallOfTurn, Replay::WithCalls] {
            assert_eq!(missing_at(replay, &blocks, 0), None, "all there");
        }
        blocks.remove(1);
        for (replay, expected) in
            [(Replay::Free, None), (Replay::FirstCallOfTurn, Some(1)), (Replay::WithCalls, Some(1))]
        {
            assert_eq!(missing_at(replay, &blocks, 1), expected, "{replay:?}");
        }
        assert_eq!(
            missing_at(Replay::WithCalls, &blocks, 2),
            None,
            "what was admitted is not looked at again"
        );
        blocks.push(block(SentKind::Text, NO_LINK, 5));
        assert_eq!(missing_at(Replay::FirstCallOfTurn, &blocks, 0), None, "the user spoke");
        assert_eq!(missing_at(Replay::WithCalls, &blocks, 0), Some(1));
    }

    #[test]
    fn a_second_call_and_one_without_reasoning_need_none() {
        let (blocks, mut pairs) = two_steps();
        pairs.clear();
        pairs.learn(8, 21);
        let without: Vec<SentBlock> = blocks.iter().filter(|b| b.link != 20).copied().collect();
        assert_eq!(missing(Replay::WithCalls, &pairs, &without, 0), None);
        let without: Vec<SentBlock> = blocks.iter().filter(|b| b.link != 21).copied().collect();
        let (at, text) = missing(Replay::FirstCallOfTurn, &pairs, &without, 0).unwrap();
        assert_eq!(without[at].link, 8);
        assert!(
            text.starts_with("Function call is missing a thought_signature") && text.contains("position 4.")
        );
    }
}
