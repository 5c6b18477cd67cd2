//! The story of one run, request by request: what fired, what it cost, where the cache broke and why, and when it was
//! paid back.

use crate::cause::Cause;
use crate::metrics::{Rate, Usd, group_digits};
use crate::sim::{FullRecorder, RequestRow, SimEventKind, Summary};

use super::grid::{Grid, counted};
use super::layout;
use super::results::Change;
use super::table::{self, TableStyle, harmless};

/// So many requests in a row in which nothing happened become one line.
const QUIET_RUN: usize = 3;

/// What is told.
pub struct Story<'a> {
    /// Session id.
    pub session: &'a str,
    /// Policy label.
    pub policy: &'a str,
    /// Model id.
    pub model: &'a str,
    /// Requests and events.
    pub record: &'a FullRecorder,
    /// The run's numbers.
    pub summary: &'a Summary,
    /// Label and requests of the baseline on the same model; `None` where this is the baseline.
    pub baseline: Option<(&'a str, &'a [RequestRow])>,
    /// What the missed tokens of a request cost, in pico-dollars, where the price is known.
    pub missed_pusd: &'a dyn Fn(&RequestRow) -> Option<u128>,
    /// Each request has its line.
    pub every_request: bool,
}

impl Story<'_> {
    /// The text for a terminal.
    pub fn write(&self, style: TableStyle) -> String {
        let width = style.width.unwrap_or(usize::MAX);
        let sentence = |text: &str| layout::wrap(&harmless(text), width).join("\n") + "\n";
        let head = format!("{} under {} on {}: {}", self.session, self.policy, self.model, self.headline());
        let balance = self.balance();
        let mut out = format!("{}\n{}\n", sentence(&head), table::draw(self.grid(&balance), style));
        self.endings(&balance).iter().for_each(|line| out.push_str(&sentence(line)));
        out
    }

    fn headline(&self) -> String {
        let (s, requests) = (self.summary, &self.record.requests);
        let time = requests.first().and_then(|r| r.at_ms).zip(requests.last().and_then(|r| r.at_ms));
        let over = time.map(|(from, to)| format!(" over {}", time_span(to - from))).unwrap_or_default();
        format!(
            "{}{over}, {}, hit rate {}, prompts up to {} tokens",
            counted(s.requests, "request"),
            dollars(s.cost.total()),
            crate::metrics::hit_rate(s).percent(),
            number(s.peak_prompt_tokens)
        )
    }

    /// After each request, what has been paid more than under the baseline (summarizer calls left out); empty without
    /// one, and shorter where the baseline's run is.
    fn balance(&self) -> Vec<i128> {
        let Some((_, base)) = self.baseline else { return Vec::new() };
        let signed = |row: &RequestRow| i128::try_from(row.cost_pusd).unwrap_or(i128::MAX);
        let each = self.record.requests.iter().zip(base).map(|(own, base)| signed(own) - signed(base));
        each.scan(0, |sum, more| {
            *sum += more;
            Some(*sum)
        })
        .collect()
    }

    fn grid(&self, balance: &[i128]) -> Grid {
        let versus = self.baseline.map(|(label, _)| (format!("vs {label}"), 0, true));
        let columns = [("request", 0), ("gap", 3), ("prompt", 2), ("hit rate", 1), ("cost", 0)];
        let columns = columns.map(|(title, rank)| (title.to_owned(), rank, true));
        let all = columns.into_iter().chain(versus).chain([("what happened".to_owned(), 0, false)]);
        let mut grid = Grid::default();
        for (title, rank, right) in all {
            grid.columns.push(super::grid::GridColumn { title, right, rank });
        }
        let rows = &self.record.requests;
        let mut at = 0;
        while at < rows.len() {
            let quiet = rows[at..].iter().take_while(|row| self.is_quiet(row)).count();
            let (length, text) = match (quiet, self.again(at)) {
                _ if self.every_request => (1, self.words(at, balance)),
                (QUIET_RUN.., _) => (quiet, format!("{quiet} requests: only new content is not read")),
                (_, QUIET_RUN..) => {
                    (self.again(at), format!("{} requests: the same each time", self.again(at)))
                }
                _ => (1, self.words(at, balance)),
            };
            grid.rows.push(self.line(at, length, text, balance));
            at += length;
        }
        grid
    }

    /// How many requests from here on only repeat what happened at the one before them.
    fn again(&self, at: usize) -> usize {
        let rows = &self.record.requests;
        let Some(before) = at.checked_sub(1).map(|i| &rows[i]) else { return 0 };
        if self.is_quiet(before) {
            return 0;
        }
        let same = |row: &&RequestRow| row.miss_cause.is_none() && self.events(row).eq(self.events(before));
        rows[at..].iter().take_while(same).count()
    }

    /// One request, or a run of them.
    fn line(&self, at: usize, length: usize, text: String, balance: &[i128]) -> Vec<String> {
        let rows = &self.record.requests[at..at + length];
        let (first, last) = (&rows[0], &rows[length - 1]);
        let sum = |of: fn(&RequestRow) -> u64| -> u128 { rows.iter().map(|row| u128::from(of(row))).sum() };
        let read = Rate::of(sum(|row| row.usage.cache_read_tokens), sum(|row| row.usage.prompt_tokens()));
        let (name, gap) = match length {
            1 => (first.request.to_string(), first.gap_ms),
            _ => (format!("{}-{}", first.request, last.request), None),
        };
        let mut cells = vec![
            name,
            gap.map(time_span).unwrap_or_default(),
            number(last.usage.prompt_tokens()),
            read.percent(),
            dollars(rows.iter().map(|row| row.cost_pusd).sum()),
        ];
        if self.baseline.is_some() {
            cells.push(balance.get(at + length - 1).map(|more| signed_dollars(*more)).unwrap_or_default());
        }
        cells.push(text);
        cells
    }

    fn is_quiet(&self, row: &RequestRow) -> bool {
        row.miss_cause.is_none() && self.events(row).all(|kind| event_words(kind).is_none())
    }

    fn events(&self, row: &RequestRow) -> impl Iterator<Item = &SimEventKind> {
        let request = row.request;
        self.record.events.iter().filter(move |event| event.request == request).map(|event| &event.kind)
    }

    /// What happened before and at a request.
    fn words(&self, at: usize, balance: &[i128]) -> String {
        let row = &self.record.requests[at];
        let mut parts: Vec<String> = Vec::new();
        let (mut more_offloads, mut chars_left_out) = (0_u64, 0_u64);
        for kind in self.events(row) {
            if let SimEventKind::Offload { chars, stub_chars, .. } = kind
                && parts.iter().filter(|text| text.starts_with("offloaded")).count() >= 2
            {
                more_offloads += 1;
                chars_left_out += chars.saturating_sub(*stub_chars);
                continue;
            }
            parts.extend(event_words(kind));
        }
        if more_offloads > 0 {
            parts.push(format!("{more_offloads} more offloaded, {} characters less", number(chars_left_out)));
        }
        if let Some(cause) = row.miss_cause {
            parts.push(self.miss(row, cause));
        }
        let fired = row.passes + row.compactions > 0;
        if fired && let Some(text) = paid_back(&self.record.requests, at, balance) {
            parts.push(text);
        }
        match parts.is_empty() {
            true => "only new content is not read".to_owned(),
            false => parts.join("; "),
        }
    }

    fn miss(&self, row: &RequestRow, cause: Cause) -> String {
        let cost = (self.missed_pusd)(row).map(|pusd| format!(", {}", dollars(pusd))).unwrap_or_default();
        let missed = number(row.missed_tokens);
        match cause {
            Cause::ColdStart => format!("cold start: {missed} tokens for the first time{cost}"),
            _ => {
                let place = match row.usage.cache_read_tokens {
                    0 => "nothing was read from the cache".to_owned(),
                    tokens => format!("the cache broke behind token {}", number(tokens)),
                };
                format!("{place} ({}: {}), {missed} tokens paid again{cost}", cause.name(), why(cause, row))
            }
        }
    }

    /// What it came to.
    fn endings(&self, balance: &[i128]) -> Vec<String> {
        let (s, mut lines) = (self.summary, Vec::new());
        if let Some(reason) = s.stop_reason {
            let at = s.stopped_at_request.unwrap_or_default();
            lines.push(format!("The run ended at request {at}: {}.", reason.name()));
        }
        let broken: Vec<(Cause, u64, u128)> = Cause::ALL
            .iter()
            .filter(|cause| !matches!(cause, Cause::NewContent | Cause::ColdStart))
            .map(|cause| (*cause, s.miss(*cause).requests, s.miss(*cause).cost_pusd))
            .filter(|(_, requests, _)| *requests > 0)
            .collect();
        if !broken.is_empty() {
            let of = |(cause, requests, pusd): &(Cause, u64, u128)| {
                format!("{} in {} ({})", cause.name(), counted(*requests, "request"), dollars(*pusd))
            };
            lines.push(format!("The cache broke: {}.", broken.iter().map(of).collect::<Vec<_>>().join(", ")));
        }
        if s.cost.summarizer > 0 {
            let cost = dollars(s.cost.summarizer);
            lines.push(format!("Summarizer calls cost {cost} more; they are in no row above."));
        }
        if let Some(((label, base), last)) = self.baseline.zip(balance.last()) {
            let total: u128 = base.iter().map(|row| row.cost_pusd).sum();
            let own = s.cost.total();
            let more = *last + i128::try_from(s.cost.summarizer).unwrap_or_default();
            let change = match base.len() == self.record.requests.len() {
                true => format!(" ({})", Change::of(own, total).percent()),
                false => format!(", over the {} that both served", counted(balance.len() as u64, "request")),
            };
            lines.push(match more {
                0 => format!("All in all it costs what {label} costs."),
                _ => {
                    let word = if more < 0 { "less" } else { "more" };
                    format!("All in all {} {word} than {label}{change}.", dollars(more.unsigned_abs()))
                }
            });
        }
        lines
    }
}

/// When what an edit cost had come back: the first request at which the balance is no higher than before the edit.
fn paid_back(rows: &[RequestRow], at: usize, balance: &[i128]) -> Option<String> {
    let before = if at == 0 { 0 } else { *balance.get(at - 1)? };
    let after = balance.get(at..)?;
    if *after.first()? <= before {
        return Some("paid back at once".to_owned());
    }
    match after.iter().position(|sum| *sum <= before) {
        Some(n) => Some(format!("paid back by request {}", rows[at + n].request)),
        None => Some("never paid back".to_owned()),
    }
}

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

fn dollars(pusd: u128) -> String {
    format!("${}", Usd(pusd).rounded(4))
}

fn signed_dollars(pusd: i128) -> String {
    let text = Usd(pusd.unsigned_abs()).rounded(4);
    match pusd {
        _ if text == "0.0000" => "$0.0000".to_owned(),
        ..0 => format!("-${text}"),
        0.. => format!("+${text}"),
    }
}

/// A time span in its two largest units.
pub fn time_span(ms: i64) -> String {
    match ms {
        ..60_000 => format!("{}.{} s", ms / 1_000, (ms % 1_000).abs() / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000.. => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Why the cache broke, as the end of a sentence.
fn why(cause: Cause, row: &RequestRow) -> String {
    let text = match cause {
        Cause::TtlExpired => {
            let gap = row.gap_ms.map(|ms| format!(" after a pause of {}", time_span(ms)));
            return format!("the entry had expired{}", gap.unwrap_or_default());
        }
        Cause::PrefixRule => "a rule changed what had been sent",
        Cause::PrefixCompaction => "a summary took the place of what had been sent",
        Cause::PrefixTools => "the tools changed",
        Cause::PrefixToolOrder => "the tools came in another order",
        Cause::PrefixSystem => "the system prompt changed",
        Cause::PrefixModel => "another model answered",
        Cause::PrefixParameters => "effort, tool choice or thinking parameters changed",
        Cause::PrefixImage => "an image came or went",
        Cause::PrefixThinking => "thinking was left out",
        Cause::PrefixResume => "a resume wrote the history anew",
        Cause::PrefixRewind => "the user went back",
        Cause::PrefixSkill => "a skill or memory changed",
        Cause::Lookback => "the last entry lies more blocks back than the provider looks",
        Cause::BelowMinimum => "the prefix was too short to be cached",
        Cause::Evicted => "the entry had been evicted",
        Cause::NotYetReadable => "the entry was still being written",
        _ => "nothing explains it",
    };
    text.to_owned()
}

/// As much of a provider's answer as tells what is wrong.
fn first_sentences(reason: &str) -> String {
    const ENOUGH: usize = 80;
    let end = reason.match_indices(". ").map(|(at, _)| at + 1).find(|end| *end >= ENOUGH);
    reason[..end.unwrap_or(reason.len())].to_owned()
}

/// What an event is to a reader; `None` for those that say the same at every request, and parts of a compaction.
fn event_words(event: &SimEventKind) -> Option<String> {
    let text = match event {
        SimEventKind::SameStubs { .. }
        | SimEventKind::AppliedEdits { .. }
        | SimEventKind::CompactionStart { .. }
        | SimEventKind::CompactionProgress { .. } => return None,
        SimEventKind::Offload { tool, chars, stub_chars, .. } => {
            format!("offloaded a result of {tool}, {} to {} characters", number(*chars), number(*stub_chars))
        }
        SimEventKind::Pass { rule, elided_count, chars_saved, withheld_thinking_blocks, .. } => {
            let withheld = match withheld_thinking_blocks {
                0 => String::new(),
                n => format!(", {} withheld", counted(*n, "thinking block")),
            };
            let results = counted(*elided_count, "result");
            format!(
                "pass of `{rule}`: {results} replaced, {} characters less{withheld}",
                number(*chars_saved)
            )
        }
        SimEventKind::Truncate { tool, chars, kept_chars, .. } => {
            format!("cut a result of {tool} from {} to {} characters", number(*chars), number(*kept_chars))
        }
        SimEventKind::Reclaimed { rule, tokens_before, tokens_after, .. } => {
            format!(
                "`{rule}` reclaimed old output, {} to {} tokens",
                number(*tokens_before),
                number(*tokens_after)
            )
        }
        SimEventKind::Dropped { rule, messages, tokens_after, .. } => {
            let messages = counted(*messages, "message");
            format!("`{rule}` left out {messages}, {} tokens stay", number(*tokens_after))
        }
        SimEventKind::CompactionFailed { rule, reason, .. } => {
            format!("no summary by `{rule}`: {}", first_sentences(reason))
        }
        SimEventKind::CompactionDone {
            rule,
            tokens_before,
            tokens_after,
            summarizer_prompt_tokens,
            summarizer_output_tokens,
            ..
        } => format!(
            "compaction by `{rule}`: {} to {} tokens by the client's count; the summarizer read {} and wrote {}",
            number(*tokens_before),
            number(*tokens_after),
            number(*summarizer_prompt_tokens),
            number(*summarizer_output_tokens)
        ),
        SimEventKind::Notice { text, .. } => text.clone(),
        SimEventKind::PrefixChangeNoticed { withheld_thinking_blocks } => {
            format!("prefix changed: {} withheld", counted(*withheld_thinking_blocks, "thinking block"))
        }
        SimEventKind::Rejection { reason, .. } => format!("refused by the provider: {reason}"),
        SimEventKind::Recovery { action } => format!("recovered: {action}"),
        SimEventKind::Violation { rule, reason } => format!("plan of `{rule}` not applied: {reason}"),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimEvent;
    use crate::usage::Usage;

    const DOLLAR: u128 = 1_000_000_000_000;

    fn rows(costs: &[u128]) -> Vec<RequestRow> {
        let row = |(request, dollars): (u32, &u128)| RequestRow {
            request,
            at_ms: Some(i64::from(request) * 1_000),
            gap_ms: (request > 1).then_some(1_000),
            usage: Usage { cache_read_tokens: 90, uncached_tokens: 10, ..Usage::default() },
            cost_pusd: dollars * DOLLAR,
            miss_cause: None,
            missed_tokens: 0,
            estimate_tokens: 0,
            passes: 0,
            compactions: 0,
            rejections: 0,
        };
        (1..).zip(costs).map(row).collect()
    }

    /// Nine requests with a pass before the fifth, which breaks the cache.
    fn record() -> FullRecorder {
        let mut requests = rows(&[2, 2, 2, 2, 5, 1, 1, 1, 1]);
        requests[4].passes = 1;
        requests[4].miss_cause = Some(Cause::PrefixRule);
        requests[4].missed_tokens = 1_234;
        let pass = SimEventKind::Pass {
            rule: "edit".to_owned(),
            elided_count: 3,
            chars_saved: 60_000,
            elided_calls: vec![1, 2, 3],
            withheld_thinking_blocks: 0,
        };
        FullRecorder { requests, events: vec![SimEvent { request: 5, at_ms: None, kind: pass }] }
    }

    fn tell(every_request: bool, width: Option<usize>) -> String {
        let (record, base) = (record(), rows(&[2; 9]));
        let mut summary = Summary { requests: 9, ..Summary::default() };
        summary.cost.uncached = 17 * DOLLAR;
        let story = Story {
            session: "s",
            policy: "own",
            model: "m",
            record: &record,
            summary: &summary,
            baseline: Some(("none", &base)),
            missed_pusd: &|_| Some(3 * DOLLAR),
            every_request,
        };
        story.write(TableStyle { width, colour: false })
    }

    #[test]
    fn quiet_requests_are_one_line_and_a_pass_says_when_it_is_paid_back() {
        let text = tell(false, None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[4].starts_with("    1-4") && lines[6].starts_with("    6-9"), "{text}");
        assert!(lines[5].contains("pass of `edit`: 3 results replaced, 60,000 characters less"), "{text}");
        assert!(lines[5].contains("the cache broke behind token 90 (prefix_rule: a rule changed"), "{text}");
        assert!(lines[5].contains("1,234 tokens paid again, $3.0000"), "{text}");
        assert!(lines[5].contains("+$3.0000") && lines[5].ends_with("paid back by request 8"), "{text}");
        assert!(text.ends_with("All in all $1.0000 less than none (-5.6%).\n"), "{text}");
    }

    #[test]
    fn every_request_has_its_line_where_asked_for() {
        assert_eq!(tell(true, None).lines().count(), tell(false, None).lines().count() + 6);
    }

    #[test]
    fn what_repeats_itself_is_told_once() {
        let mut record = record();
        let failed = |request| SimEvent {
            request,
            at_ms: None,
            kind: SimEventKind::CompactionFailed {
                rule: "fold".into(),
                tokens_before: 1,
                reason: "no".into(),
            },
        };
        record.events.extend((6..=9).map(failed));
        let summary = Summary::default();
        let story = Story {
            session: "s",
            policy: "own",
            model: "m",
            record: &record,
            summary: &summary,
            baseline: None,
            missed_pusd: &|_| None,
            every_request: false,
        };
        let text = story.write(TableStyle::default());
        assert!(text.contains("no summary by `fold`: no\n    7-9"), "{text}");
        assert!(text.contains("3 requests: the same each time"), "{text}");
    }

    #[test]
    fn it_fits_a_narrow_terminal() {
        let text = tell(false, Some(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
}
