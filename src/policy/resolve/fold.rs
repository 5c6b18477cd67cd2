//! What a rule folds, with numbers in it.

use super::{Bound, Resolved};
use crate::policy::file::{
    CrossingForm, InputForm, KeepRecentToml, MeasureToml, MeasureUnit, MessagesToml, NativeCompactToml,
    OnSummaryOverflow, RuleToml, SelectToml, SplitTurnToml, SummarizeToml, SummaryPer, TruncateResultsToml,
    TruncateToml,
};
use crate::policy::fold::{
    Archive, Front, FrontUnit, Keep, NativeForm, Place, Reinject, SplitTurn, SummarizeRule, Summarizer,
    SummaryInput, Tail, TruncateResults, UserMessages,
};
use crate::policy::strategy::{Action, StubRule, StubSize, Threshold, Until};
use crate::policy::value::Value;
use crate::provider::Models;

/// A fold that keeps nothing and calls nobody.
fn bare(keep: Keep) -> SummarizeRule {
    SummarizeRule {
        keep,
        models: vec![Summarizer { model: None, window_tokens: u64::MAX }],
        input: SummaryInput::Native { form: NativeForm::Inline, instructions_tokens: 0 },
        calls: 1,
        wrap_utf16: 0,
        wrap_json_escapes: 0,
        max_output_tokens: 0,
        output_share: None,
        output_tokens: None,
        place: Place::Head,
        reinject: Reinject::default(),
        accumulates: false,
        larger_than_last_summary: false,
        reject_if_larger: false,
        drop_oldest_leaving: None,
        leave_out_percent: Vec::new(),
        input_last: None,
        input_starts_at_user: false,
        empty_utf16: 0,
        overlap_turns: 0,
        writes_cache: true,
        split_turn: None,
        truncate_results: None,
        latency_steps: 0,
        place_when: None,
        discard_if_stale: false,
        archive: None,
        progress: false,
        min_fold_percent: 0,
        must_reach: None,
        keep_first: 0,
        withhold_kept_thinking: false,
    }
}

impl Bound<'_> {
    /// Messages leave, and a marker of so many characters stands for them.
    pub(super) fn drop_messages(&mut self, rule: &RuleToml, marker_chars: u64) -> Resolved<Action> {
        let (keep, keep_first) = self.kept(rule)?;
        let place = if keep_first > 0 { Place::InPlace } else { Place::Head };
        let last_user = matches!(&rule.select, Some(SelectToml::Messages(select)) if select.keep_last_user);
        let min_fold_percent = self.min_fold_percent(rule)?;
        let withhold_kept_thinking = self.withholds(rule.withhold_thinking.as_ref())?;
        Ok(Action::Summarize(SummarizeRule {
            calls: 0,
            wrap_utf16: marker_chars,
            place,
            reinject: Reinject { last_user, ..Reinject::default() },
            keep_first,
            min_fold_percent,
            withhold_kept_thinking,
            ..bare(keep)
        }))
    }

    /// What a rule with a summarizer does: fold messages, or put a text in the place of each pair.
    pub(super) fn summarize(&mut self, rule: &RuleToml, models: &Models) -> Resolved<Action> {
        let of_pairs = rule.summarize.as_ref().is_some_and(|s| s.per == SummaryPer::Pair);
        if !of_pairs {
            return Ok(Action::Summarize(self.summary_of(rule, models)?));
        }
        if !matches!(&rule.select, Some(SelectToml::Pairs(_))) {
            return Err("a summary of each pair needs `select = { pairs = … }`".to_owned());
        }
        let summary = self.summary_of(rule, models)?;
        match self.stub(rule, StubSize::Nothing)? {
            Action::Stub(stub) => Ok(Action::Stub(StubRule { summary: Some(Box::new(summary)), ..stub })),
            other => Ok(other),
        }
    }

    fn summary_of(&mut self, rule: &RuleToml, models: &Models) -> Resolved<SummarizeRule> {
        if let Some(native) = &rule.native_compact {
            return self.native(rule, native);
        }
        let Some(toml) = &rule.summarize else { return Err("no action".to_owned()) };
        if toml.accumulate && toml.place != Place::Head {
            return Err("summaries that `accumulate` stand in front of the conversation".to_owned());
        }
        check_input(toml)?;
        if matches!(&rule.select, Some(SelectToml::Messages(select)) if select.keep_last_user) {
            return Err(
                "`keep_last_user` is of `drop`: a summary has `reinject = { last_user = true }`".to_owned()
            );
        }
        let of_pairs = toml.per == SummaryPer::Pair;
        let (keep, keep_first) = if of_pairs { (Keep::Nothing, 0) } else { self.kept(rule)? };
        let mut summarizers = vec![self.summarizer(&toml.model, models)?];
        if let Some(fallback) = &toml.fallback_model {
            let second = self.summarizer(fallback, models)?;
            if second.model.as_ref().map(|m| &m.id) != summarizers[0].model.as_ref().map(|m| &m.id) {
                summarizers.push(second);
            }
        }
        let output = toml.output.as_ref();
        Ok(SummarizeRule {
            models: summarizers,
            input: input(toml)?,
            calls: toml.calls.as_ref().map_or(Ok(1), |v| self.count(v))?.max(1),
            wrap_utf16: toml.wrap_chars,
            wrap_json_escapes: toml.wrap_json_escapes,
            max_output_tokens: self.count(&toml.max_output_tokens)?,
            output_share: output.and_then(|o| o.share).map(|d| d.0),
            output_tokens: output.and_then(|o| o.tokens.as_ref()).map(|v| self.count(v)).transpose()?,
            place: toml.place,
            reinject: Reinject {
                last_user: toml.reinject.last_user,
                user_messages: UserMessages::up_to(
                    toml.reinject.user_messages.as_ref().map_or(Ok(0), |v| self.count(v))?,
                ),
                tokens: toml.reinject.tokens.as_ref().map_or(Ok(0), |v| self.count(v))?,
            },
            accumulates: toml.accumulate,
            larger_than_last_summary: rule.cadence.larger_than_last_summary,
            reject_if_larger: toml.reject_if_larger,
            drop_oldest_leaving: (toml.on_overflow == OnSummaryOverflow::DropOldest)
                .then_some(toml.min_messages),
            leave_out_percent: toml.leave_out_percent.clone(),
            archive: toml
                .archive
                .as_ref()
                .map(|a| Archive { folder_utf16: a.folder_chars, note_utf16: a.note_chars }),
            progress: toml.progress,
            min_fold_percent: self.min_fold_percent(rule)?,
            must_reach: match (&rule.cadence.target, rule.cadence.target_required) {
                (Some(target), true) => Some(self.level(target)?),
                _ => None,
            },
            keep_first,
            withhold_kept_thinking: self.withholds(rule.withhold_thinking.as_ref())?,
            ..self.read_and_placed(rule, toml, keep)?
        })
    }

    /// The provider summarizes.
    fn native(&mut self, rule: &RuleToml, native: &NativeCompactToml) -> Resolved<SummarizeRule> {
        let (keep, keep_first) = match rule.select {
            Some(_) => self.kept(rule)?,
            None => (Keep::Nothing, 0),
        };
        if keep_first > 0 {
            return Err("`native_compact` summarizes from the start: leave `keep_first` out".to_owned());
        }
        let may_keep = matches!(native.form, NativeForm::Paused | NativeForm::OnDemand);
        if keep != Keep::Nothing && !may_keep {
            return Err(
                "of `native_compact` only the forms `paused` and `on_demand` leave something behind the summary: \
                 leave what `select` keeps out, or say `form = \"paused\"`"
                    .to_owned(),
            );
        }
        let is_endpoint = native.form == NativeForm::Endpoint;
        let user_messages = if is_endpoint { UserMessages::All } else { UserMessages::None };
        let instructions = native.instructions_tokens.as_ref();
        let instructions_tokens = instructions.map_or(Ok(0), |v| self.count(v))?;
        Ok(SummarizeRule {
            max_output_tokens: self.count(&native.max_output_tokens)?,
            input: SummaryInput::Native { form: native.form, instructions_tokens },
            place: if is_endpoint { Place::Last } else { Place::Head },
            reinject: Reinject { user_messages, ..Reinject::default() },
            withhold_kept_thinking: self.withholds(rule.withhold_thinking.as_ref())?,
            ..bare(keep)
        })
    }

    /// How much a summarizer reads, and when what it writes is put in place.
    fn read_and_placed(&self, rule: &RuleToml, toml: &SummarizeToml, keep: Keep) -> Resolved<SummarizeRule> {
        let count = |v: &Option<Value>| v.as_ref().map(|v| self.count(v)).transpose();
        let latency_steps = count(&toml.latency_steps)?.unwrap_or(0);
        if latency_steps > 0 && rule.cadence.target_required {
            return Err(
                "a summary with `latency_steps` cannot be held to a target: leave `target_required` out"
                    .to_owned(),
            );
        }
        let (input_last, overlap_turns) =
            (count(&toml.input_last)?, count(&toml.overlap_turns)?.unwrap_or(0));
        let split_turn = toml.split_turn.as_ref().map(|s| self.split_turn(s)).transpose()?;
        let truncate_results =
            toml.truncate_results.as_ref().map(|t| self.truncate_results(t)).transpose()?;
        Ok(SummarizeRule {
            input_last,
            input_starts_at_user: toml.input_starts_at_user,
            empty_utf16: toml.empty_chars,
            overlap_turns,
            writes_cache: toml.cache_writes.unwrap_or(true),
            split_turn,
            truncate_results,
            latency_steps,
            place_when: self.place_when(rule, toml)?,
            discard_if_stale: toml.discard_if_stale,
            ..bare(keep)
        })
    }

    /// What a summary that is written waits for.
    fn place_when(&self, rule: &RuleToml, toml: &SummarizeToml) -> Resolved<Option<Threshold>> {
        let (over, at_least) = (toml.place_over.as_ref(), toml.place_at_least.as_ref());
        if over.is_none() && at_least.is_none() {
            return Ok(None);
        }
        let Some(first) = rule.when.first().filter(|_| toml.latency_steps.is_some()) else {
            return Err("`place_over` and `place_at_least` go with `latency_steps`, and are of the first measure of `when`"
                .to_owned());
        };
        let (over, at_least) = (over.cloned(), at_least.cloned());
        self.threshold(
            rule,
            &MeasureToml { over, at_least, at: None, off_if_negative: false, ..first.clone() },
        )
    }

    fn split_turn(&self, toml: &SplitTurnToml) -> Resolved<SplitTurn> {
        Ok(SplitTurn {
            prompt_utf16: toml.prompt_chars,
            max_output_tokens: self.count(&toml.max_output_tokens)?,
            wrap_utf16: toml.wrap_chars,
        })
    }

    fn truncate_results(&self, toml: &TruncateResultsToml) -> Resolved<TruncateResults> {
        let ends = TruncateToml {
            head: toml.head.clone(),
            tail: toml.tail.clone(),
            budget: None,
            head_percent: None,
            unit: toml.unit,
            marker: toml.marker.clone(),
        };
        Ok(TruncateResults {
            beyond: self.count(&toml.beyond)?,
            ends: self.ends(&ends)?,
            whole_under: toml.whole_under.as_ref().map_or(Ok(0), |v| self.count(v))?,
        })
    }

    fn min_fold_percent(&self, rule: &RuleToml) -> Resolved<u64> {
        rule.cadence.min_fold_percent.as_ref().map_or(Ok(0), |v| self.count(v))
    }

    /// What stays, and how many messages at the front do.
    fn kept(&self, rule: &RuleToml) -> Resolved<(Keep, u64)> {
        let Some(SelectToml::Messages(select)) = &rule.select else {
            return Err("this action needs `select = { messages = … }`".to_owned());
        };
        let keep_first = select.keep_first.as_ref().map_or(Ok(0), |v| self.count(v))?;
        let measures =
            select.until.is_some() || select.keep_recent.is_some() || rule.cadence.headroom.is_some();
        if measures && rule.scope.estimate.is_none() && self.config.preset.file.estimate.is_none() {
            return Err(
                "messages are measured by the table `estimate`, which the file does not have".to_owned()
            );
        }
        let room = rule.cadence.headroom.as_ref().map(|_| self.target(rule)).transpose()?.flatten();
        let until = match (&select.until, room) {
            (Some(_), Some(_)) => return Err("`cadence.headroom` stands in place of `until`".to_owned()),
            (until, None) => until.as_ref().map(|until| self.until(until)).transpose()?,
            (None, Some(level)) => Some(Until::Total(level)),
        };
        if let Some(until) = until {
            if select.keep_recent_tokens.is_some() || select.keep_unanswered {
                return Err("`until` goes with `keep_recent` or with nothing".to_owned());
            }
            let tail =
                select.keep_recent.as_ref().map(|recent| self.tail(rule, select, recent)).transpose()?;
            let unit = match rule.when.first().map(|m| m.unit) {
                Some(MeasureUnit::Count) => FrontUnit::Messages,
                Some(MeasureUnit::Events) => FrontUnit::Events,
                _ => FrontUnit::Estimate,
            };
            let needs_a_place = rule.drop.is_some();
            let snap = Tail { snap: select.snap, toward: select.toward, needs_a_place, ..Tail::default() };
            return Ok((Keep::Until(Front { until, unit, snap }, tail), keep_first));
        }
        let keep = match (&select.keep_recent_tokens, &select.keep_recent, select.keep_unanswered) {
            (Some(tokens), None, false) => Keep::RecentTokens(self.count(tokens)?),
            (None, Some(recent), false) => Keep::Tail(self.tail(rule, select, recent)?),
            (None, None, true) => Keep::UnansweredUser,
            (None, None, false) => Keep::Nothing,
            _ => {
                return Err(
                    "`keep_recent`, `keep_recent_tokens` and `keep_unanswered` exclude each other".to_owned()
                );
            }
        };
        Ok((keep, keep_first))
    }

    fn tail(&self, rule: &RuleToml, select: &MessagesToml, recent: &KeepRecentToml) -> Resolved<Tail> {
        if recent.results.is_some()
            || recent.bytes.is_some()
            || recent.utf16.is_some()
            || recent.requests.is_some()
            || recent.thinking_turns.is_some()
            || recent.history_estimate.is_some()
        {
            return Err(
                "messages are kept by turns, messages, estimated tokens or a share of them".to_owned()
            );
        }
        let count = |v: &Option<_>| v.as_ref().map(|v| self.count(v)).transpose();
        let file_turn = rule.scope.turn.or(self.config.preset.file.turn);
        let estimate = match (count(&recent.estimate)?, count(&recent.tokens)?) {
            (Some(_), Some(_)) => return Err("`estimate` and `tokens` of messages are the same".to_owned()),
            (a, b) => a.or(b),
        };
        Ok(Tail {
            estimate,
            share: recent.share.map(|d| d.0),
            messages: count(&recent.messages)?,
            turns: recent.turns.as_ref().map(|v| v.resolve(self)).transpose()?,
            turn: recent.turn.or(file_turn).unwrap_or_default(),
            drop_crossing: recent.crossing == CrossingForm::Drop,
            at_least_turns: select.at_least_turns.as_ref().map_or(Ok(0), |v| v.resolve(self))?,
            needs_turns: count(&select.needs_turns)?.unwrap_or(0),
            snap: select.snap,
            toward: select.toward,
            needs_a_place: rule.drop.is_some(),
        })
    }
}

/// Whether what is said of the input goes with its form.
fn check_input(toml: &SummarizeToml) -> Resolved<()> {
    let is_transcript = matches!(toml.input, None | Some(InputForm::Transcript));
    let of_transcript = [
        ("input_last", toml.input_last.is_some()),
        ("input_starts_at_user", toml.input_starts_at_user),
        ("overlap_turns", toml.overlap_turns.is_some()),
        ("split_turn", toml.split_turn.is_some()),
        ("on_overflow = \"middle_out\"", toml.on_overflow == OnSummaryOverflow::MiddleOut),
    ];
    if let Some((key, _)) = of_transcript.iter().find(|(_, given)| *given && !is_transcript) {
        return Err(format!("`{key}` belongs to `input = \"transcript\"`: messages are sent whole"));
    }
    if toml.truncate_results.is_some() && toml.input == Some(InputForm::Fork) {
        return Err(
            "`truncate_results` does not go with `input = \"fork\"`, which sends the request as it stands"
                .to_owned(),
        );
    }
    let is_middle_out = toml.on_overflow == OnSummaryOverflow::MiddleOut;
    let percents = &toml.leave_out_percent;
    if is_middle_out == percents.is_empty() || percents.iter().any(|p| *p == 0 || *p > 100) {
        return Err(
            "`on_overflow = \"middle_out\"` goes with `leave_out_percent`, a list of numbers from 1 to 100"
                .to_owned(),
        );
    }
    let of_range = [
        ("latency_steps", toml.latency_steps.is_some()),
        ("truncate_results", toml.truncate_results.is_some()),
        ("accumulate", toml.accumulate),
        ("archive", toml.archive.is_some()),
        ("input_last", toml.input_last.is_some()),
        ("overlap_turns", toml.overlap_turns.is_some()),
        ("split_turn", toml.split_turn.is_some()),
    ];
    if toml.per == SummaryPer::Pair {
        if let Some((key, _)) = of_range.iter().find(|(_, given)| *given) {
            return Err(format!("`{key}` is of a summary of messages, not of each pair"));
        }
        if !is_transcript {
            return Err(
                "a pair is read as a transcript: `per = \"pair\"` needs the table `transcript`".to_owned()
            );
        }
    }
    if toml.discard_if_stale && toml.latency_steps.is_none() {
        return Err("`discard_if_stale` goes with `latency_steps`".to_owned());
    }
    Ok(())
}

fn input(toml: &SummarizeToml) -> Resolved<SummaryInput> {
    match (toml.input, &toml.transcript) {
        (None | Some(InputForm::Transcript), Some(law)) => Ok(SummaryInput::Transcript {
            law: law.clone(),
            system_utf16: toml.system_chars,
            prompt_utf16: toml.prompt_chars,
        }),
        (Some(InputForm::Messages), None) => Ok(SummaryInput::Messages { prompt_utf16: toml.prompt_chars }),
        (Some(InputForm::Fork), None) => Ok(SummaryInput::Fork { prompt_utf16: toml.prompt_chars }),
        (None | Some(InputForm::Transcript), None) => {
            Err("`summarize` needs a table `transcript`, or `input = \"messages\"` or `\"fork\"`".to_owned())
        }
        (Some(_), Some(_)) => Err("`transcript` belongs to `input = \"transcript\"`".to_owned()),
    }
}
