//! The rule interpreter: trigger, selector, cadence → plan. One strategy, one run.
//!
//! Cost follows what is new: totals are running sums of the context, and each selector keeps a cursor
//! over the results it has already looked at, so a rule that does not fire costs a few comparisons.

use super::Policy;
use super::laws::{Facts, excerpt, lines_in_part};
use super::plan::{Offload, Plan, SummarizePlan};
use super::strategy::{
    Action, Hook, Keep, Measure, OffloadRule, Rule, Strategy, SummarizeRule, SummaryInput,
};
use super::stubs::RuleState;
use super::summarize;
use super::view::View;
use crate::session::{Flags, Session};

/// Runs the rules of a [`Strategy`].
#[derive(Debug)]
pub struct Interpreter<'p> {
    strategy: &'p Strategy,
    rules: Vec<RuleState>,
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
                RuleState::new(except, session)
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
                decide_offload(spec, offload, &self.rules[rule], view, result)
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
        let uses_estimate = spec.when.iter().any(|t| t.measure == Measure::MessagesEstimate);
        let law = strategy.estimate.as_ref().filter(|_| uses_estimate || manual);
        let estimate = law.map_or(0, |law| view.estimate_tokens(law));
        let fires = manual || fires(spec, view, estimate);
        match &spec.action {
            Action::Offload(_) => None,
            Action::Stub(stub) => self.rules[rule].decide(stub, view, fires),
            Action::Summarize(summarize) if fires => {
                decide_summary(summarize, strategy, view, estimate, manual)
            }
            Action::Summarize(_) => None,
        }
    }

    fn resumed(&mut self, session: &Session) {
        *self = Interpreter::new(self.strategy, session);
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

fn decide_offload(
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
    if !spec.when.iter().any(|t| t.crossed(chars)) || state.is_excepted(view.session, result) {
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

fn decide_summary<'p>(
    spec: &'p SummarizeRule,
    strategy: &'p Strategy,
    view: &View<'_>,
    tokens_before: u64,
    manual: bool,
) -> Option<Plan<'p>> {
    if manual && summarize::round_is_open(view) {
        return Some(Plan::Notice {
            text: "Not compacting now: a tool call is still waiting on its result.",
        });
    }
    let fold_to = match spec.keep {
        Keep::Nothing => Some(view.revealed),
        Keep::UnansweredUser => Some(summarize::first_unanswered_user(view)),
        Keep::RecentTokens(keep) => {
            strategy.estimate.as_ref().and_then(|law| summarize::cut_before_tail(view, law, keep))
        }
    };
    // A tail may begin right behind an old summary, which is an ordinary message to be folded again.
    let may_refold = view.summary.is_some() && matches!(spec.keep, Keep::RecentTokens(_));
    let fold_to = fold_to.filter(|to| *to > view.live_from || may_refold);
    let folded = fold_to.map(|to| (to, summarize::messages_in(view, view.live_from..to)));
    let Some((fold_to, folded_messages)) = folded.filter(|(_, messages)| *messages > 0) else {
        return Some(Plan::Notice { text: "There is nothing to compact before the part that is kept." });
    };
    let prompt_utf16 = match &spec.input {
        SummaryInput::PrefixFork => 0,
        SummaryInput::Transcript { law, prompt_utf16, .. } => {
            prompt_utf16 + summarize::transcript(law, view, fold_to).utf16
        }
    };
    Some(Plan::Summarize(SummarizePlan { fold_to, prompt_utf16, tokens_before, folded_messages, spec }))
}
