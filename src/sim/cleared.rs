//! What a provider leaves out of its own copy of a history, as a response reports it.

use super::context::{Context, Stub};
use crate::session::{BlockKind, NONE};

/// The numbers of `context_management.applied_edits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cleared {
    /// Calls whose result or arguments are left out.
    pub(super) tool_uses: u64,
    /// Tokens that left, less those of the placeholders.
    pub(super) input_tokens: u64,
    /// Answers whose thinking is left out.
    pub(super) thinking_turns: u64,
}

impl Cleared {
    /// Of what is in the history now: of thinking, or of results and inputs.
    pub(super) fn of(context: &Context<'_>, of_thinking: bool) -> Cleared {
        let view = context.view();
        let blocks = &view.session.blocks;
        let is_thinking = |block: u32| blocks.kind[block as usize] == BlockKind::Thinking;
        let is_cleared = |s: &&Stub| s.server && is_thinking(s.block) == of_thinking && view.is_live(s.block);
        let cleared = view.stubs.iter().filter(is_cleared);
        let left = |s: &Stub| context.client_tokens(s.block).saturating_sub(u64::from(s.tokens));
        let owners = if of_thinking { &blocks.message } else { &blocks.call };
        let mut owners: Vec<u32> = cleared.clone().map(|s| owners[s.block as usize]).collect();
        owners.retain(|owner| *owner != NONE);
        owners.sort_unstable();
        owners.dedup();
        let count = owners.len() as u64;
        let (tool_uses, thinking_turns) = if of_thinking { (0, count) } else { (count, 0) };
        Cleared { tool_uses, input_tokens: cleared.map(left).sum(), thinking_turns }
    }
}
