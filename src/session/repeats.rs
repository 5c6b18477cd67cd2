//! Calls that a recording makes again, told by the hash of tool and arguments.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::{BlockKind, Blocks, Flags, NONE};

/// Requests behind a compaction in which a repeated call counts as fetching again what it removed.
pub const REFETCH_REQUESTS: u32 = 20;

/// A call like one whose result had come before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The call.
    pub call: u32,
    /// Newest result of such a call before it; for those before that, see [`Blocks::result_before`].
    pub earlier: u32,
    /// What it brought.
    pub result: Option<u32>,
}

/// The repeats among blocks, looked for when they are first asked for.
#[derive(Debug, Default)]
pub(super) struct Repeats(OnceLock<Found>);

#[derive(Debug, Default)]
struct Found {
    repeats: Vec<Repeat>,
    /// Results, ascending, each with the one before it of an equal call.
    older: Vec<(u32, u32)>,
}

/// A copy may be changed before it is asked.
impl Clone for Repeats {
    fn clone(&self) -> Repeats {
        Repeats::default()
    }
}

/// They follow from the blocks.
impl PartialEq for Repeats {
    fn eq(&self, _: &Repeats) -> bool {
        true
    }
}

impl Eq for Repeats {}

impl Blocks {
    /// Calls of which an equal one (same tool, same arguments) had brought a result before, in order. Results that
    /// stand for missing ones are none. Worked out once: the blocks are complete when they are first asked for.
    pub fn repeated_calls(&self) -> &[Repeat] {
        &self.found().repeats
    }

    /// The newest result in front of `result` of a call equal to its own.
    pub fn result_before(&self, result: u32) -> Option<u32> {
        let older = &self.found().older;
        older.binary_search_by_key(&result, |(block, _)| *block).ok().map(|at| older[at].1)
    }

    fn found(&self) -> &Found {
        self.repeats.0.get_or_init(|| self.find_repeats())
    }

    fn find_repeats(&self) -> Found {
        let Found { mut repeats, mut older } = Found::default();
        // By call: what it asks for, and which repeat it is.
        let mut asked: BTreeMap<u32, (u64, Option<usize>)> = BTreeMap::new();
        let mut newest: BTreeMap<u64, u32> = BTreeMap::new();
        for (block, i) in (0_u32..).zip(0..self.len()) {
            let (call, hash) = (self.call[i], self.hash[i]);
            match self.kind[i] {
                BlockKind::ToolUse if call != NONE => {
                    let repeat = newest.get(&hash).map(|earlier| {
                        repeats.push(Repeat { call: block, earlier: *earlier, result: None });
                        repeats.len() - 1
                    });
                    asked.insert(call, (hash, repeat));
                }
                BlockKind::ToolResult if !self.flags[i].has(Flags::SYNTHETIC) => {
                    let Some((hash, repeat)) = asked.get(&call).copied() else { continue };
                    if let Some(repeat) = repeat {
                        repeats[repeat].result = Some(block);
                    }
                    older.extend(newest.insert(hash, block).map(|before| (block, before)));
                }
                _ => {}
            }
        }
        Found { repeats, older }
    }
}

#[cfg(test)]
mod tests {
    use crate::generate::ConstantGrowth;
    use crate::session::{BlockKind, Session};

    fn blocks_of(session: &Session, kind: BlockKind) -> Vec<u32> {
        (0..session.blocks.len() as u32).filter(|b| session.blocks.kind[*b as usize] == kind).collect()
    }

    #[test]
    fn a_repeat_needs_a_result_before_it() {
        let mut session =
            ConstantGrowth { requests: 5, calls_per_request: 2, ..Default::default() }.session();
        assert_eq!(session.clone().blocks.repeated_calls(), []);
        let calls = blocks_of(&session, BlockKind::ToolUse);
        let results = blocks_of(&session, BlockKind::ToolResult);
        // The second of two in one answer repeats nothing that has come; the last comes back to none.
        for again in [1, 4, 7, 8] {
            session.blocks.hash[calls[again] as usize] = session.blocks.hash[calls[0] as usize];
        }
        let found: Vec<_> =
            session.blocks.repeated_calls().iter().map(|r| (r.call, r.earlier, r.result)).collect();
        let expected = [
            (calls[4], results[1], Some(results[4])),
            (calls[7], results[4], Some(results[7])),
            (calls[8], results[7], None),
        ];
        assert_eq!(found, expected);
        let before = |result: usize| session.blocks.result_before(results[result]);
        assert_eq!([7, 4, 1, 0].map(before), [Some(results[4]), Some(results[1]), Some(results[0]), None]);
    }
}
