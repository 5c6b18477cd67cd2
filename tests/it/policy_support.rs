//! Policies and sessions of known sizes, for tests of what a strategy does.

use ctxsim::session::{BlockKind, Session};

/// `session` with something said by a person at every so many requests, where there were results: the calls in
/// front of it become text.
pub fn with_human_turns(mut session: Session, every: usize) -> Session {
    let blocks = &mut session.blocks;
    for step in (every..session.steps.len()).step_by(every) {
        for block in session.steps[step - 1].output.clone() {
            let kind = &mut blocks.kind[block as usize];
            if *kind == BlockKind::ToolUse {
                *kind = BlockKind::AssistantText;
            }
        }
        for block in session.steps[step].input.clone() {
            blocks.kind[block as usize] = BlockKind::UserText;
        }
        session.steps[step].human_turn = true;
    }
    session
}
