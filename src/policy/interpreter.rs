//! The rule interpreter: trigger, selector, cadence → plan. One strategy, one run.
//!
//! Cost follows what is new: totals are running sums of the context, and each selector keeps a cursor
//! over the results it has already looked at, so a rule that does not fire costs a few comparisons.

use super::Policy;
use super::laws::{Facts, PART_SEPARATOR, excerpt, lines_in_part};
use super::plan::{Offload, Plan, StubPlan, StubTokens, SummarizePlan};
use super::strategy::{
    Action, EditView, Hook, Keep, Measure, OffloadRule, Rule, Strategy, StubRule, StubSize, SummarizeRule,
    SummaryInput,
};
use super::summarize;
use super::view::{State, View};
use crate::session::{BlockKind, Flags, NONE, Session};

/// Runs the rules of a [`Strategy`].
#[derive(Debug)]
pub struct Interpreter<'p> {
    strategy: &'p Strategy,
    rules: Vec<RuleState>,
}

/// What a rule remembers within a run. All of it can be worked out again from the context, so a resumed
/// run decides as the live one does.
#[derive(Debug, Clone, Default)]
struct RuleState {
    /// Per tool of the session: the rule leaves it alone.
    excepted: Vec<bool>,
    /// Blocks before this one have been looked at.
    cursor: u32,
    /// The epoch they were looked at in.
    epoch: u32,
    /// Eligible results not yet replaced, ascending, with the size of their stub.
    pending: Vec<(u32, StubTokens)>,
    pending_saved: u64,
    /// Replaced results and what they save (stateless and server rules).
    replaced: Vec<u32>,
    replaced_saved: u64,
}

impl<'p> Interpreter<'p> {
    /// An interpreter for one run over `session`.
    pub fn new(strategy: &'p Strategy, session: &Session) -> Interpreter<'p> {
        let rules = strategy
            .rules
            .iter()
            .map(|rule| {
                let except = match &rule.action {
                    Action::Offload(a) => a.except.as_slice(),
                    Action::Stub(a) => a.except.as_slice(),
                    Action::Summarize(_) => &[],
                };
                let excepted = session.tools.iter().map(|t| except.iter().any(|p| t.matches(p))).collect();
                RuleState { excepted, ..RuleState::default() }
            })
            .collect();
        Interpreter { strategy, rules }
    }
}

impl<'p> Policy<'p> for Interpreter<'p> {
    fn rule_count(&self) -> usize {
        self.strategy.rules.len()
    }

    fn rule_id(&self, rule: usize) -> &str {
        &self.strategy.rules[rule].id
    }

    fn at_tool_result(&mut self, rule: usize, view: &View<'_>, result: u32) -> Option<Offload> {
        let spec = &self.strategy.rules[rule];
        match &spec.action {
            Action::Offload(offload) if spec.hook == Hook::ToolResult => {
                decide_offload(rule, spec, offload, &self.rules[rule], view, result)
            }
            _ => None,
        }
    }

    fn at_request(&mut self, rule: usize, view: &View<'_>, manual: bool) -> Option<Plan<'p>> {
        let strategy = self.strategy;
        let spec = &strategy.rules[rule];
        if spec.hook != Hook::Request || (manual && !spec.manual) {
            return None;
        }
        match &spec.action {
            Action::Offload(_) => None,
            Action::Stub(stub) => self.rules[rule].decide_stub(rule, spec, stub, view),
            Action::Summarize(summarize) => {
                let tokens = strategy.estimate.as_ref().map_or(0, |law| view.estimate_tokens(law));
                if manual || fires(spec, view, tokens) {
                    decide_summary(rule, summarize, strategy, view, tokens, manual)
                } else {
                    None
                }
            }
        }
    }

    fn has_tool_result_rules(&self) -> bool {
        self.strategy.rules.iter().any(|r| r.hook == Hook::ToolResult)
    }
}

/// Whether any threshold is crossed. `estimate` is the client's estimate of its history.
pub fn fires(rule: &Rule, view: &View<'_>, estimate: u64) -> bool {
    rule.when.is_empty()
        || rule.when.iter().any(|t| {
            t.crossed(match t.measure {
                Measure::ToolResultsUtf16 => view.tool_results_utf16,
                Measure::RequestTokens => view.raw_tokens,
                Measure::MessagesEstimate => estimate,
                // Looked at where the block is known, in `decide_offload`.
                Measure::BlockUtf16 => 0,
            })
        })
}

fn is_excepted(state: &RuleState, session: &Session, block: u32) -> bool {
    let tool = session.blocks.tool[block as usize];
    tool != NONE && state.excepted.get(tool as usize).copied().unwrap_or(false)
}

fn decide_offload(
    rule: usize,
    spec: &Rule,
    offload: &OffloadRule,
    state: &RuleState,
    view: &View<'_>,
    result: u32,
) -> Option<Offload> {
    let blocks = &view.session.blocks;
    let i = result as usize;
    let separators = view.session.parts_of(result).map_or(0, |p| u64::from(p.texts.saturating_sub(1)));
    let chars = u64::from(blocks.utf16[i]) + separators;
    if !spec.when.iter().any(|t| t.crossed(chars)) || is_excepted(state, view.session, result) {
        return None;
    }
    let kept = excerpt(chars, offload.keep_head, offload.keep_tail);
    let lines = u64::from(blocks.lines[i]);
    let (safe_tool, safe_call) = safe_names(view, result);
    let path_utf16 = offload.path.utf16(safe_tool, safe_call);
    let facts = Facts {
        tool_utf16: view.tool_name_utf16(result),
        path_utf16,
        chars,
        bytes: u64::from(blocks.bytes[i]) + separators,
        lines,
        limit: offload.limit,
        omitted_chars: kept.omitted,
        omitted_lines: lines_in_part(lines, kept.omitted, chars),
        is_error: blocks.flags[i].has(Flags::ERROR),
        ..Facts::default()
    };
    Some(Offload {
        rule,
        block: result,
        envelope_utf16: offload.stub.utf16(&facts),
        envelope_json_escapes: offload.stub.json_escapes,
        kept_utf16: kept.head + kept.tail,
        path_utf16,
    })
}

/// File-name lengths of a result's tool and call; without a call, that of `unknown`.
fn safe_names(view: &View<'_>, result: u32) -> (u64, u64) {
    let call = view.session.calls.get(view.session.blocks.call[result as usize] as usize);
    (u64::from(view.tool_name(result).safe_utf16), call.map_or(7, |c| u64::from(c.safe_utf16)))
}

impl RuleState {
    fn decide_stub<'p>(
        &mut self,
        rule: usize,
        spec: &Rule,
        stub: &StubRule,
        view: &View<'_>,
    ) -> Option<Plan<'p>> {
        if !fires(spec, view, 0) {
            return self.take_back(rule, stub, view);
        }
        self.look_at_new(stub, view);
        let cumulative = stub.view != EditView::Ledger;
        let judged = self.pending_saved + if cumulative { self.replaced_saved } else { 0 };
        if self.pending.is_empty() || judged < stub.min_savings {
            return None;
        }
        let stubs = std::mem::take(&mut self.pending);
        let saved = std::mem::take(&mut self.pending_saved);
        let first = stubs.first().map_or(view.revealed, |(block, _)| *block);
        let mut reported = (stubs.len() as u64, saved);
        if cumulative {
            self.replaced.extend(stubs.iter().map(|(block, _)| *block));
            self.replaced_saved += saved;
            reported = (self.replaced.len() as u64, self.replaced_saved);
        }
        Some(Plan::Stub(StubPlan {
            rule,
            stubs,
            saved,
            withhold: stub.withhold_thinking.then_some(first..view.revealed),
            server: stub.view == EditView::Server,
            reported,
        }))
    }

    /// A stateless rule whose trigger no longer holds sends the raw history again.
    fn take_back<'p>(&mut self, rule: usize, stub: &StubRule, view: &View<'_>) -> Option<Plan<'p>> {
        if stub.view == EditView::Ledger || self.replaced.is_empty() {
            return None;
        }
        let blocks: Vec<u32> =
            std::mem::take(&mut self.replaced).into_iter().filter(|b| view.is_live(*b)).collect();
        self.start_over(view);
        if blocks.is_empty() { None } else { Some(Plan::Restore { rule, blocks }) }
    }

    fn start_over(&mut self, view: &View<'_>) {
        self.cursor = view.live_from;
        self.epoch = view.epoch;
        self.pending.clear();
        self.pending_saved = 0;
        self.replaced.clear();
        self.replaced_saved = 0;
    }

    /// Looks at the results that crossed the boundary since the last time.
    fn look_at_new(&mut self, stub: &StubRule, view: &View<'_>) {
        if self.epoch != view.epoch || self.cursor < view.live_from {
            self.start_over(view);
        }
        let boundary = view.turn_boundary(stub.keep_recent_turns);
        while self.cursor < boundary {
            let block = self.cursor;
            self.cursor += 1;
            let is_result = view.session.blocks.kind[block as usize] == BlockKind::ToolResult;
            if !is_result || !view.is_live(block) || is_excepted(self, view.session, block) {
                continue;
            }
            if let Some((size, saved)) = stub_for(stub, view, block) {
                if view.states[block as usize].has(State::ELIDED) {
                    self.replaced.push(block);
                    self.replaced_saved += saved;
                } else {
                    self.pending.push((block, size));
                    self.pending_saved += saved;
                }
            }
        }
    }
}

/// The stub of a result and what it saves; `None` where it is too small or the stub no shorter.
pub fn stub_for(stub: &StubRule, view: &View<'_>, block: u32) -> Option<(StubTokens, u64)> {
    let i = block as usize;
    let chars = view.result_utf16(block);
    if chars < stub.min_utf16 {
        return None;
    }
    match &stub.stub {
        StubSize::Tokens(tokens) => {
            let full = view.stored_of(block).map_or(view.session.blocks.tokens[i], |s| s.tokens);
            let saved = u64::from(full).checked_sub(*tokens).filter(|s| *s > 0)?;
            Some((StubTokens::Tokens(*tokens), saved))
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
            Some((StubTokens::Utf16(utf16), saved))
        }
    }
}

fn decide_summary<'p>(
    rule: usize,
    spec: &'p SummarizeRule,
    strategy: &'p Strategy,
    view: &View<'_>,
    tokens_before: u64,
    manual: bool,
) -> Option<Plan<'p>> {
    if manual && summarize::round_is_open(view) {
        return Some(Plan::Notice {
            rule,
            text: "Not compacting now: a tool call is still waiting on its result.",
        });
    }
    let fold_to = match spec.keep {
        Keep::Nothing => view.revealed,
        Keep::UnansweredUser => summarize::first_unanswered_user(view),
        Keep::RecentTokens(keep) => match strategy.estimate.as_ref() {
            Some(law) => summarize::cut_before_tail(view, law, keep),
            None => view.live_from,
        },
    };
    let folded_messages = summarize::messages_in(view, view.live_from..fold_to);
    if fold_to <= view.live_from || folded_messages == 0 {
        return Some(Plan::Notice {
            rule,
            text: "There is nothing to compact before the part that is kept.",
        });
    }
    let prompt_utf16 = match &spec.input {
        SummaryInput::PrefixFork => 0,
        SummaryInput::Transcript { law, prompt_utf16, .. } => {
            let (utf16, parts) = summarize::transcript_utf16(law, view, view.live_from..fold_to);
            prompt_utf16 + utf16 + PART_SEPARATOR * parts.saturating_sub(1)
        }
    };
    Some(Plan::Summarize(SummarizePlan { rule, fold_to, prompt_utf16, tokens_before, folded_messages, spec }))
}
