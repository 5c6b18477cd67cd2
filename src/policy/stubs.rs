//! Which items a rule replaces, and when.
//!
//! Each rule keeps a cursor over the items it has looked at, so a rule that does not act costs what is
//! new. A ledger or destructive rule acts on what has become eligible since its last pass; a stateless or
//! server rule on everything eligible now, and takes back what no longer is.

use super::action::{EditView, Growth, Items, StubRule, StubSize, Until};
use super::estimate::EstimateLaw;
pub use super::items::Candidate;
use super::items::{boundary, first_free, needs_law, stub_for};
use super::live::Seen;
use super::plan::{Plan, ReplacePlan, StubPlan};
use super::replace;
use super::strategy::{Turn, Unit};
use super::twins::{Repeated, Twins};
use super::view::{State, Stored, View};
use crate::session::{BlockKind, Flags, NONE, Session};

/// How a rule came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Firing {
    /// What was measured.
    pub value: u64,
    /// The limit it crossed.
    pub limit: i64,
    /// Passes over the cadence.
    pub hard: bool,
    /// Of the measure, where the rule wants to know.
    pub growth: Growth,
}

/// What a rule remembers within a run. All of it can be worked out again from the client's state, so a
/// resumed run decides as the live one does.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleState {
    /// Per tool of the session: the rule leaves it alone.
    excepted: Vec<bool>,
    /// Live results of the tools that the rule is about, where it is not about all, and how many results were
    /// looked at for them.
    of_tools: Vec<u32>,
    of_tools_seen: usize,
    /// Items before this one have been looked at: an index into [`View::results`], or a block.
    cursor: usize,
    has_looked: bool,
    /// Changes of the history that are taken in.
    seen: Seen,
    /// UTF-16 units of the results that were looked at, and the changes of the history until then; where they bound
    /// what the others can save.
    unseen: Option<(u64, usize)>,
    /// Eligible items not yet replaced, ascending.
    pending: Vec<Candidate>,
    pending_saved: u64,
    /// Replaced items (stateless and server rules).
    replaced: Vec<Candidate>,
    replaced_saved: u64,
    replaced_saved_utf16: u64,
    /// Stubs of items that are recent again, because the user went back.
    recent_again: Vec<u32>,
    /// Results that say the same, where the rule asks for them.
    twins: Twins,
}

impl RuleState {
    pub(super) fn new((except, only): (&[String], &[String]), session: &Session) -> RuleState {
        let named = |list: &[String], t: &crate::session::Tool| list.iter().any(|p| t.matches(p));
        let excepted =
            session.tools.iter().map(|t| named(except, t) || (!only.is_empty() && !named(only, t))).collect();
        RuleState { excepted, ..RuleState::default() }
    }

    pub(super) fn is_excepted(&self, session: &Session, block: u32) -> bool {
        let tool = session.blocks.tool[block as usize];
        tool != NONE && self.excepted.get(tool as usize).copied().unwrap_or(false)
    }

    pub(super) fn decide<'p>(
        &mut self,
        stub: &StubRule,
        view: &View<'_>,
        law: Option<&EstimateLaw>,
        firing: Option<Firing>,
    ) -> Option<Plan<'p>> {
        match stub.view {
            EditView::Ledger | EditView::Destructive => {
                let firing = firing?;
                let boundary = self.look_at_new(stub, view, law);
                self.note_unseen(stub, view);
                if self.pending_saved < stub.savings.min {
                    return None;
                }
                self.drop_stale(stub, view);
                let (count, saved) = self.pending_before(boundary);
                if count == 0 || saved < stub.savings.min {
                    return None;
                }
                let taken = self.taken(stub, &firing, count)?;
                (taken > 0).then(|| self.replace(stub, view, law, taken))
            }
            EditView::Stateless | EditView::Server => {
                self.look_at_new(stub, view, law);
                let eligible = |state: &Self| state.pending_saved + state.replaced_saved >= stub.savings.min;
                // What waits is looked through only where the rule is about to act on it.
                if let Some(firing) = firing.filter(|_| eligible(self)) {
                    self.drop_stale(stub, view);
                    if eligible(self) {
                        return self.show(stub, view, law, &firing);
                    }
                }
                self.take_back(view)
            }
        }
    }

    /// What the rule would take now: savings in its own unit, and how many.
    pub(super) fn eligible(
        &mut self,
        stub: &StubRule,
        view: &View<'_>,
        law: Option<&EstimateLaw>,
    ) -> (u64, u64) {
        let boundary = self.look_at_new(stub, view, law);
        self.drop_stale(stub, view);
        let (count, saved) = self.pending_before(boundary);
        (saved + self.replaced_saved, (count + self.replaced.len()) as u64)
    }

    /// First item that would be taken, and what all of them save.
    pub(super) fn pending(&self) -> Option<(u32, u64)> {
        self.pending.first().map(|c| (c.block(), self.pending.iter().map(|c| c.saved_utf16).sum()))
    }

    /// Whether the rule cannot act, whatever is found in what it has not looked at since it last did. Stateless and
    /// server rules never know: they also take back what they did.
    #[inline]
    pub(super) fn falls_short(&self, stub: &StubRule, view: &View<'_>) -> bool {
        let Some((looked_utf16, changes)) = self.unseen else { return false };
        if changes != view.changed.count() {
            return false;
        }
        let unseen_utf16 = view.tool_results_utf16.saturating_sub(looked_utf16);
        let may_save = self.pending_saved + unseen_utf16;
        may_save < stub.savings.min || may_save.saturating_sub(recent_utf16(stub, view)) < stub.savings.min
    }

    /// Everything up to the boundary was looked at. No result saves more than it holds, so how much has come since
    /// tells later whether it is worth while to look again.
    fn note_unseen(&mut self, stub: &StubRule, view: &View<'_>) {
        let is_bounded = stub.savings.unit == Unit::Utf16
            && stub.repeated.is_none()
            && stub.by_tool.is_empty()
            && matches!((&stub.stub, stub.items), (StubSize::Law(_), Items::Results));
        // A rule that leaves more alone than this is looked at as ever: no request may cost what there is.
        let ahead = view.results.get(self.cursor..).filter(|ahead| is_bounded && ahead.len() <= RECENT_MAX);
        self.unseen = ahead.map(|ahead| {
            view.work.add(ahead.len());
            let ahead: u64 = ahead.iter().map(|b| view.result_utf16(*b)).sum();
            (view.tool_results_utf16 - ahead, view.changed.count())
        });
    }

    /// Everything eligible is to be a stub now.
    fn show<'p>(
        &mut self,
        stub: &StubRule,
        view: &View<'_>,
        law: Option<&EstimateLaw>,
        firing: &Firing,
    ) -> Option<Plan<'p>> {
        if !self.recent_again.is_empty() {
            // The rule is asked again, for what is new.
            let blocks = std::mem::take(&mut self.recent_again);
            return Some(Plan::Restore { blocks });
        }
        if !self.pending.is_empty() {
            let taken = self.taken(stub, firing, self.pending.len())?;
            if taken > 0 {
                return Some(self.replace(stub, view, law, taken));
            }
        }
        let same = stub.view == EditView::Stateless && !self.replaced.is_empty();
        same.then(|| Plan::SameStubs { reported: self.reported() })
    }

    /// How many of the first `waiting` are taken, oldest first; `None` where a target must be met and cannot be.
    fn taken(&self, stub: &StubRule, firing: &Firing, waiting: usize) -> Option<usize> {
        let measure = i64::try_from(firing.value).unwrap_or(i64::MAX);
        let level = |l: super::action::Level| l.value(firing.limit, firing.growth);
        let total = match stub.until {
            Some(Until::Total(l)) => Some(level(l)),
            _ => stub.target.map(level),
        };
        let mut saved = self.replaced_saved;
        let count = self.replaced.len();
        let all = count + waiting;
        let share = |millionths: i64| {
            usize::try_from(all as u128 * u128::from(millionths.unsigned_abs()) / 1_000_000)
                .unwrap_or(usize::MAX)
        };
        let enough = |saved: u64, taken: usize| {
            let stops = match stub.until {
                None | Some(Until::Total(_) | Until::Growing { .. }) => false,
                Some(Until::Saved(amount)) => saved >= amount,
                Some(Until::Count(n)) => taken as u64 >= n,
                Some(Until::Share(millionths)) => taken >= share(millionths),
            };
            stops || total.is_some_and(|t| measure.saturating_sub_unsigned(saved) <= t)
        };
        let mut taken = 0;
        for candidate in &self.pending[..waiting] {
            if enough(saved, count + taken) {
                break;
            }
            saved += candidate.saved;
            taken += 1;
        }
        if stub.target_required && !enough(saved, count + taken) { None } else { Some(taken) }
    }

    /// A rule whose trigger no longer holds sends the raw history again.
    fn take_back<'p>(&mut self, view: &View<'_>) -> Option<Plan<'p>> {
        let mut blocks = std::mem::take(&mut self.recent_again);
        blocks.extend(self.replaced.iter().map(|c| c.block()));
        blocks.retain(|b| is_stubbed_by_rule(view, *b));
        blocks.sort_unstable();
        self.pending.splice(0..0, self.replaced.drain(..));
        self.pending_saved += std::mem::take(&mut self.replaced_saved);
        self.replaced_saved_utf16 = 0;
        if blocks.is_empty() { None } else { Some(Plan::Restore { blocks }) }
    }

    fn replace<'p>(
        &mut self,
        stub: &StubRule,
        view: &View<'_>,
        law: Option<&EstimateLaw>,
        taken: usize,
    ) -> Plan<'p> {
        let new = &self.pending[..taken];
        let saved: u64 = new.iter().map(|c| c.saved).sum();
        let mut reported = (new.len() as u64, new.iter().map(|c| c.saved_utf16).sum());
        let saved_utf16 = reported.1;
        let first = new.first().map_or(view.revealed, |c| c.block());
        let withhold = stub.withhold_thinking.then_some(first..view.revealed);
        self.pending_saved -= saved;
        if stub.items == Items::Thinking && stub.view != EditView::Server {
            return Plan::Strip { blocks: self.pending.drain(..taken).map(|c| c.block()).collect() };
        }
        if stub.view == EditView::Destructive && stub.items == Items::Pairs {
            return Plan::DropPairs {
                results: self.pending.drain(..taken).map(|c| c.block()).collect(),
                saved_utf16,
            };
        }
        if stub.view == EditView::Destructive {
            let stored: Vec<Stored> = new.iter().map(|c| replace::stored(stub, view, c.block())).collect();
            let freed = |s: &Stored| {
                law.map_or(0, |law| {
                    let old = view.text_tokens(law, &view.text_size(s.block));
                    old.saturating_sub(view.text_tokens(law, &replace::text_of(s)))
                })
            };
            let saved_estimate = stored.iter().map(freed).sum();
            self.pending.drain(..taken);
            return Plan::Replace(ReplacePlan { stored, saved_utf16, saved_estimate, withhold });
        }
        let stubs = new.iter().map(|c| c.stub).collect();
        if stub.view == EditView::Ledger {
            self.pending.drain(..taken);
        } else {
            self.replaced.extend(self.pending.drain(..taken));
            self.replaced_saved += saved;
            self.replaced_saved_utf16 += saved_utf16;
            reported = self.reported();
        }
        Plan::Stub(StubPlan { stubs, saved_utf16, withhold, server: stub.view == EditView::Server, reported })
    }

    /// What an agent without a ledger reports at every request: all its stubs.
    fn reported(&self) -> (u64, u64) {
        (self.replaced.len() as u64, self.replaced_saved_utf16)
    }

    /// What waits before a boundary, and what it saves. A boundary by sizes can move back over items that it had
    /// passed, when newer ones are replaced and count no more.
    fn pending_before(&self, boundary: u32) -> (usize, u64) {
        match self.pending.partition_point(|c| c.block() < boundary) {
            all if all == self.pending.len() => (all, self.pending_saved),
            some => (some, self.pending[..some].iter().map(|c| c.saved).sum()),
        }
    }

    /// Something else may have replaced or removed what this rule was waiting for.
    fn drop_stale(&mut self, stub: &StubRule, view: &View<'_>) {
        let before = self.pending.len();
        if let Some(oldest) = self.pending.first().filter(|_| stub.stop_at_stubbed) {
            let newer = &view.results[view.results.partition_point(|b| *b < oldest.block())..];
            let stubbed = newer.iter().rev().find(|b| is_replaced(view, **b));
            let stop = stubbed.map_or(0, |stop| self.pending.partition_point(|c| c.block() <= *stop));
            self.pending.drain(..stop);
        }
        let twins = &self.twins;
        let is_repeated = |b: u32| stub.repeated.is_none_or(|kind| twins.is_repeated(kind, view, b));
        self.pending
            .retain(|c| view.is_live(c.block()) && !is_replaced(view, c.block()) && is_repeated(c.block()));
        if self.pending.len() != before {
            self.pending_saved = self.pending.iter().map(|c| c.saved).sum();
        }
    }

    /// Looks at the items that crossed the boundary since the last time, and anew at those behind a block that
    /// left the history or came back. Gives the boundary.
    fn look_at_new(&mut self, stub: &StubRule, view: &View<'_>, law: Option<&EstimateLaw>) -> u32 {
        let changed = self.seen.left(&view.changed);
        let boundary = boundary(stub, view, law, self.counted(stub, view, changed));
        let cumulative = matches!(stub.view, EditView::Stateless | EditView::Server);
        if let Some(first) = changed.or((!self.has_looked).then_some(0)) {
            self.has_looked = true;
            self.go_back_to(first.min(boundary), stub, view);
            self.recent_again.clear();
            self.twins = Twins::default();
            if cumulative {
                let stubbed = |b: &u32| is_stubbed_by_rule(view, *b);
                self.recent_again.extend(view.live_in(boundary..view.revealed).filter(stubbed));
            }
        }
        let law = law.filter(|_| needs_law(stub));
        let free_from = first_free(stub, view);
        if let Some(kind) = stub.repeated {
            self.look_again(kind, stub, view, law, free_from);
        }
        while let Some(block) = self.next_item(stub, view, boundary) {
            if block < free_from || !self.is_of_interest(stub, view, block) {
                continue;
            }
            if stub.repeated.is_some_and(|kind| !self.twins.is_repeated(kind, view, block)) {
                continue;
            }
            let Some(candidate) = stub_for(stub, view, law, block) else { continue };
            if !is_replaced(view, block) {
                self.pending_saved += candidate.saved;
                self.pending.push(candidate);
            } else if cumulative && is_stubbed_by_rule(view, block) {
                self.replaced_saved += candidate.saved;
                self.replaced_saved_utf16 += candidate.saved_utf16;
                self.replaced.push(candidate);
            }
        }
        boundary
    }

    /// Items that were passed, and that a new result repeats now.
    fn look_again(
        &mut self,
        kind: Repeated,
        stub: &StubRule,
        view: &View<'_>,
        law: Option<&EstimateLaw>,
        free_from: u32,
    ) {
        for block in self.twins.refresh(kind, view) {
            let was_passed = view.results.partition_point(|b| *b < block) < self.cursor;
            let is_free =
                was_passed && block >= free_from && view.is_live(block) && !is_replaced(view, block);
            let Err(at) = self.pending.binary_search_by_key(&block, Candidate::block) else { continue };
            if !is_free || !self.is_of_interest(stub, view, block) {
                continue;
            }
            if let Some(candidate) = stub_for(stub, view, law, block) {
                self.pending_saved += candidate.saved;
                self.pending.insert(at, candidate);
            }
        }
    }

    /// The live results that `keep_recent.results` counts.
    fn counted<'v>(&'v mut self, stub: &StubRule, view: &'v View<'_>, changed: Option<u32>) -> &'v [u32] {
        if stub.only.is_empty() || stub.keep.results.is_none() {
            return &view.results;
        }
        if let Some(first) = changed {
            self.of_tools.truncate(self.of_tools.partition_point(|b| *b < first));
            self.of_tools_seen = self.of_tools_seen.min(view.results.partition_point(|b| *b < first));
        }
        let is_counted = |b: &u32| view.tool(*b).is_some_and(|t| stub.only.iter().any(|p| t.matches(p)));
        let new = &view.results[self.of_tools_seen..];
        self.of_tools.extend(new.iter().copied().filter(is_counted));
        self.of_tools_seen = view.results.len();
        &self.of_tools
    }

    /// Forgets the items from block `first` on, to look at them anew.
    #[cold]
    fn go_back_to(&mut self, first: u32, stub: &StubRule, view: &View<'_>) {
        let cursor = match stub.items {
            Items::Results | Items::Pairs => view.results.partition_point(|b| *b < first),
            Items::Inputs | Items::Thinking => first as usize,
        };
        self.cursor = self.cursor.min(cursor);
        self.pending.retain(|c| c.block() < first);
        self.pending_saved = self.pending.iter().map(|c| c.saved).sum();
        self.replaced.retain(|c| c.block() < first);
        self.replaced_saved = self.replaced.iter().map(|c| c.saved).sum();
        self.replaced_saved_utf16 = self.replaced.iter().map(|c| c.saved_utf16).sum();
    }

    /// The next item before `boundary` that was not looked at.
    fn next_item(&mut self, stub: &StubRule, view: &View<'_>, boundary: u32) -> Option<u32> {
        if matches!(stub.items, Items::Results | Items::Pairs) {
            let block = view.results.get(self.cursor).copied().filter(|b| *b < boundary)?;
            self.cursor += 1;
            return Some(block);
        }
        let wanted = if stub.items == Items::Inputs { BlockKind::ToolUse } else { BlockKind::Thinking };
        let kinds = &view.session.blocks.kind;
        let cursor = u32::try_from(self.cursor).unwrap_or(u32::MAX);
        let found = view.live_in(cursor..boundary).find(|b| kinds[*b as usize] == wanted);
        self.cursor = found.map_or(cursor.max(boundary), |block| block + 1) as usize;
        found
    }

    fn is_of_interest(&self, stub: &StubRule, view: &View<'_>, block: u32) -> bool {
        let flags = view.session.blocks.flags[block as usize];
        let is_there = stub.items != Items::Thinking || flags.is_replayable();
        is_there && stub.errors.takes(flags.has(Flags::ERROR)) && !self.is_excepted(view.session, block)
    }
}

/// Results that are added up at a request to tell whether a rule need be asked.
const RECENT_MAX: usize = 32;

/// UTF-16 units of the newest results, [`RECENT_MAX`] at most, that are too recent for the rule by their turns; it may
/// leave more alone. None of them was looked at before: what was in front of a boundary stays there while the history
/// only grows.
fn recent_utf16(stub: &StubRule, view: &View<'_>) -> u64 {
    let Some(turns) = stub.keep.turns.filter(|_| stub.keep.turn == Turn::Assistant) else { return 0 };
    let boundary = view.turn_boundary(turns);
    let recent = view.results.iter().rev().take(RECENT_MAX).take_while(|b| **b >= boundary);
    recent.inspect(|_| view.work.add(1)).map(|b| view.result_utf16(*b)).sum()
}

/// Whether a rule put a stub in the place of the item.
fn is_stubbed_by_rule(view: &View<'_>, block: u32) -> bool {
    let state = view.states[block as usize];
    view.is_live(block) && state.has(State::ELIDED) && !state.has(State::CLEARED)
}

/// Whether something stands for the item already.
pub(super) fn is_replaced(view: &View<'_>, block: u32) -> bool {
    let state = view.states[block as usize];
    state.has(State::ELIDED)
        || state.has(State::REPLACED)
        || state.has(State::HIDDEN)
        || state.has(State::WITHHELD)
}
