//! Which results a stub rule replaces, and when.
//!
//! Each rule keeps a cursor over the results it has looked at, so a rule that does not act costs what is
//! new. A ledger rule acts on what has become eligible since its last pass; a stateless or server rule on
//! everything eligible now, and takes back what no longer is.

use super::laws::Facts;
use super::plan::{Plan, StubPlan, StubTokens};
use super::strategy::{EditView, StubRule, StubSize};
use super::view::{State, View};
use crate::session::{Flags, NONE, Session};

/// A result that may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub block: u32,
    pub size: StubTokens,
    /// In the rule's own unit.
    pub saved: u64,
    /// UTF-16 units that leave the request.
    pub saved_utf16: u64,
}

/// What a rule remembers within a run. All of it can be worked out again from the client's state, so a
/// resumed run decides as the live one does.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleState {
    /// Per tool of the session: the rule leaves it alone.
    excepted: Vec<bool>,
    /// Results of [`View::results`] before this one have been looked at.
    cursor: usize,
    /// The epoch they were looked at in, plus 1; 0: not yet.
    looked_in: u32,
    /// Eligible results not yet replaced, ascending.
    pending: Vec<Candidate>,
    pending_saved: u64,
    /// Replaced results (stateless and server rules).
    replaced: Vec<Candidate>,
    replaced_saved: u64,
    replaced_saved_utf16: u64,
    /// Stubs of results that are recent again, because the user went back.
    recent_again: Vec<u32>,
}

impl RuleState {
    pub(super) fn new(except: &[String], session: &Session) -> RuleState {
        let excepted = session.tools.iter().map(|t| except.iter().any(|p| t.matches(p))).collect();
        RuleState { excepted, ..RuleState::default() }
    }

    pub(super) fn is_excepted(&self, session: &Session, block: u32) -> bool {
        let tool = session.blocks.tool[block as usize];
        tool != NONE && self.excepted.get(tool as usize).copied().unwrap_or(false)
    }

    pub(super) fn decide<'p>(&mut self, stub: &StubRule, view: &View<'_>, fires: bool) -> Option<Plan<'p>> {
        match stub.view {
            EditView::Ledger if !fires => None,
            EditView::Ledger => {
                self.look_at_new(stub, view);
                if self.pending_saved < stub.min_savings {
                    return None;
                }
                self.drop_stale(view);
                let enough = !self.pending.is_empty() && self.pending_saved >= stub.min_savings;
                enough.then(|| self.replace(stub, view))
            }
            EditView::Stateless | EditView::Server => {
                self.look_at_new(stub, view);
                let eligible = |state: &Self| state.pending_saved + state.replaced_saved >= stub.min_savings;
                // What waits is looked through only where the rule is about to act on it.
                if fires && eligible(self) {
                    self.drop_stale(view);
                    if eligible(self) {
                        return self.show(stub, view);
                    }
                }
                self.take_back(view)
            }
        }
    }

    /// Everything eligible is to be a stub now.
    fn show<'p>(&mut self, stub: &StubRule, view: &View<'_>) -> Option<Plan<'p>> {
        if !self.recent_again.is_empty() {
            // The rule is asked again, for what is new.
            let blocks = std::mem::take(&mut self.recent_again);
            return Some(Plan::Restore { blocks });
        }
        if !self.pending.is_empty() {
            return Some(self.replace(stub, view));
        }
        let same = stub.view == EditView::Stateless && !self.replaced.is_empty();
        same.then(|| Plan::SameStubs { reported: self.reported() })
    }

    /// A rule whose trigger no longer holds sends the raw history again.
    fn take_back<'p>(&mut self, view: &View<'_>) -> Option<Plan<'p>> {
        let mut blocks = std::mem::take(&mut self.recent_again);
        blocks.extend(self.replaced.iter().map(|c| c.block));
        blocks.retain(|b| view.is_live(*b) && view.states[*b as usize].has(State::ELIDED));
        blocks.sort_unstable();
        self.pending.splice(0..0, self.replaced.drain(..));
        self.pending_saved += std::mem::take(&mut self.replaced_saved);
        self.replaced_saved_utf16 = 0;
        if blocks.is_empty() { None } else { Some(Plan::Restore { blocks }) }
    }

    fn replace<'p>(&mut self, stub: &StubRule, view: &View<'_>) -> Plan<'p> {
        let new = &self.pending;
        let saved = std::mem::take(&mut self.pending_saved);
        let mut reported = (new.len() as u64, new.iter().map(|c| c.saved_utf16).sum());
        let saved_utf16 = reported.1;
        let first = new.first().map_or(view.revealed, |c| c.block);
        let stubs = new.iter().map(|c| (c.block, c.size)).collect();
        if stub.view == EditView::Ledger {
            self.pending.clear();
        } else {
            self.replaced.append(&mut self.pending);
            self.replaced_saved += saved;
            self.replaced_saved_utf16 += saved_utf16;
            reported = self.reported();
        }
        Plan::Stub(StubPlan {
            stubs,
            saved_utf16,
            withhold: stub.withhold_thinking.then_some(first..view.revealed),
            server: stub.view == EditView::Server,
            reported,
        })
    }

    /// What an agent without a ledger reports at every request: all its stubs.
    fn reported(&self) -> (u64, u64) {
        (self.replaced.len() as u64, self.replaced_saved_utf16)
    }

    /// Something else may have replaced or removed what this rule was waiting for.
    fn drop_stale(&mut self, view: &View<'_>) {
        let before = self.pending.len();
        self.pending.retain(|c| view.is_live(c.block) && !view.states[c.block as usize].has(State::ELIDED));
        if self.pending.len() != before {
            self.pending_saved = self.pending.iter().map(|c| c.saved).sum();
        }
    }

    /// Looks at the results that crossed the boundary since the last time; at all of them once blocks have
    /// left the history.
    fn look_at_new(&mut self, stub: &StubRule, view: &View<'_>) {
        let boundary = view.turn_boundary(stub.keep_recent_turns);
        let cumulative = stub.view != EditView::Ledger;
        if self.looked_in != view.epoch + 1 {
            self.looked_in = view.epoch + 1;
            self.cursor = view.results.partition_point(|b| *b < view.live_from);
            self.pending.clear();
            self.pending_saved = 0;
            self.replaced.clear();
            self.replaced_saved = 0;
            self.replaced_saved_utf16 = 0;
            let stubbed = |b: &u32| view.is_live(*b) && view.states[*b as usize].has(State::ELIDED);
            self.recent_again.clear();
            if cumulative {
                self.recent_again.extend((boundary..view.revealed).filter(stubbed));
            }
        }
        while let Some(block) = view.results.get(self.cursor).copied().filter(|b| *b < boundary) {
            self.cursor += 1;
            if !view.is_live(block) || self.is_excepted(view.session, block) {
                continue;
            }
            let Some(candidate) = stub_for(stub, view, block) else { continue };
            if !view.states[block as usize].has(State::ELIDED) {
                self.pending_saved += candidate.saved;
                self.pending.push(candidate);
            } else if cumulative {
                self.replaced_saved += candidate.saved;
                self.replaced_saved_utf16 += candidate.saved_utf16;
                self.replaced.push(candidate);
            }
        }
    }
}

/// The stub of a result and what it saves; `None` where it is too small or the stub no shorter.
pub fn stub_for(stub: &StubRule, view: &View<'_>, block: u32) -> Option<Candidate> {
    let i = block as usize;
    let chars = view.result_utf16(block);
    if chars < stub.min_utf16 {
        return None;
    }
    match &stub.stub {
        StubSize::Tokens(tokens) => {
            let full = view.stored_of(block).map_or(view.session.blocks.tokens[i], |s| s.tokens);
            let saved = u64::from(full).checked_sub(*tokens).filter(|s| *s > 0)?;
            Some(Candidate { block, size: StubTokens::Tokens(*tokens), saved, saved_utf16: chars })
        }
        StubSize::Law(law) => {
            let facts = Facts {
                tool_utf16: view.tool_name_utf16(block),
                tool_json_utf16: u64::from(view.tool_name(block).json_utf16),
                path_utf16: view.stored_of(block).map_or(0, |s| u64::from(s.path_utf16)),
                chars,
                bytes: u64::from(view.session.blocks.bytes[i]),
                lines: u64::from(view.session.blocks.lines[i]),
                is_error: view.session.blocks.flags[i].has(Flags::ERROR),
                ..Facts::default()
            };
            let utf16 = law.utf16(&facts);
            let saved = chars.checked_sub(utf16).filter(|s| *s > 0)?;
            Some(Candidate { block, size: StubTokens::Utf16(utf16), saved, saved_utf16: saved })
        }
    }
}
