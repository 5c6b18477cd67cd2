//! What a client is told when its thinking is not accepted.

use super::binding::rejection_text;
use super::pairing::{invalid, wire_path};
use super::path::Refused;
use super::{Rejection, RejectionKind, Request, SentBlock};

/// The refusal of a request one of whose thinking blocks fails.
pub(crate) fn refusal(request: &Request<'_>, refused: Refused) -> Rejection {
    let blocks = request.blocks;
    match refused {
        Refused::Binding { index, changed, explanation } => {
            let path = wire_path(blocks, index);
            Rejection {
                kind: RejectionKind::Binding { changed },
                message: rejection_text(&path, &explanation, request.params.binding_beta),
                block: Some(index as u32),
                path: Some(path),
            }
        }
        Refused::Altered { index } => {
            let path = wire_path(blocks, index);
            let later = |b: &SentBlock| b.kind.is_assistant() && b.message != blocks[index].message;
            let latest = !blocks[index..].iter().any(later);
            let message = if latest {
                format!(
                    "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
                     modified. These blocks must remain as they were in the original response."
                )
            } else {
                format!("{path}: Invalid `signature` in `thinking` block")
            };
            invalid(blocks, Some(index), message)
        }
    }
}
