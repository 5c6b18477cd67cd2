//! `--explain SESSION`: every request of one session, with what happened before it.

use std::fmt::Write as _;

use ctxsim::metrics::{Rate, Usd, group_digits};
use ctxsim::report::grid::Grid;
use ctxsim::report::requests::RunRecord;
use ctxsim::report::table::{self, TableStyle};
use ctxsim::sim::{RequestRow, SimEventKind};

use super::exit::{self, Failure};
use super::load::Corpus;

/// Collects the requests of one session.
pub struct Explainer {
    session: String,
    grids: Vec<(String, Grid)>,
}

impl Explainer {
    /// Finds the session whose id is, or begins with, `wanted`.
    ///
    /// # Errors
    /// None, or more than one, such session.
    pub fn new(wanted: &str, corpus: &Corpus) -> Result<Explainer, Failure> {
        let ids: Vec<&str> = corpus.sessions.iter().map(|s| s.id.as_str()).collect();
        Ok(Explainer { session: find_id(wanted, &ids, "--explain")?.to_owned(), grids: Vec::new() })
    }

    /// Takes a cell if it is of the session.
    pub fn see(&mut self, run: &RunRecord<'_>) {
        if run.session == self.session {
            self.grids.push((format!("{} on {}", run.policy, run.model), grid(run)));
        }
    }

    /// The tables, one per policy and model.
    pub fn finish(self, style: TableStyle) -> String {
        let mut out = String::new();
        for (title, grid) in self.grids {
            let _ =
                writeln!(out, "{}: {title}\n\n{}", table::harmless(&self.session), table::draw(grid, style));
        }
        out
    }
}

/// The one id that is, or begins with, `wanted`.
///
/// # Errors
/// None, or more than one.
pub fn find_id<'a>(wanted: &str, ids: &[&'a str], flag: &str) -> Result<&'a str, Failure> {
    if let Some(id) = ids.iter().find(|id| **id == wanted) {
        return Ok(id);
    }
    let matching: Vec<&str> = ids.iter().filter(|id| id.starts_with(wanted)).copied().collect();
    match matching.as_slice() {
        [id] => Ok(id),
        [] => {
            let error = ctxsim::Error::unknown("session", wanted, ids.iter().copied());
            Err(Failure::new(exit::NO_MATCH, format!("{flag}: {error}")))
        }
        many => {
            let count = many.len();
            Err(Failure::new(
                exit::USAGE,
                format!("{flag}: {count} sessions begin with `{wanted}`; type more of the id"),
            ))
        }
    }
}

fn grid(run: &RunRecord<'_>) -> Grid {
    let columns = ["request", "gap", "prompt", "read", "written", "uncached", "output", "hit rate", "cost"];
    let mut grid = Grid::new(columns.into_iter().map(|title| (title.to_owned(), true)).chain([
        ("miss".to_owned(), false),
        ("missed".to_owned(), true),
        ("before it".to_owned(), false),
    ]));
    for row in &run.record.requests {
        let events = run.record.events.iter().filter(|e| e.request == row.request);
        let words: Vec<String> = events.map(|e| words(&e.kind)).collect();
        grid.rows.push(cells(row, words.join("; ")));
    }
    grid
}

fn cells(row: &RequestRow, events: String) -> Vec<String> {
    let number = |n: u64| group_digits(u128::from(n));
    let usage = &row.usage;
    vec![
        row.request.to_string(),
        row.gap_ms.map(time_span).unwrap_or_default(),
        number(usage.prompt_tokens()),
        number(usage.cache_read_tokens),
        number(usage.cache_write_tokens()),
        number(usage.uncached_tokens),
        number(usage.output_tokens),
        Rate::of(u128::from(usage.cache_read_tokens), u128::from(usage.prompt_tokens())).percent(),
        format!("${}", Usd(row.cost_pusd).rounded(4)),
        row.miss_cause.map(|c| c.name()).unwrap_or_default().to_owned(),
        if row.missed_tokens == 0 { String::new() } else { number(row.missed_tokens) },
        events,
    ]
}

/// A time span in its two largest units.
pub fn time_span(ms: i64) -> String {
    match ms {
        ..60_000 => format!("{}.{} s", ms / 1_000, (ms % 1_000).abs() / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000.. => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

fn words(event: &SimEventKind) -> String {
    match event {
        SimEventKind::Offload { tool, chars, .. } => format!("offload {tool} {chars} chars"),
        SimEventKind::Pass { elided_count, chars_saved, .. } => {
            format!("pass: {elided_count} results, {chars_saved} chars")
        }
        SimEventKind::Truncate { tool, chars, kept_chars, .. } => {
            format!("cut {tool} from {chars} to {kept_chars} chars")
        }
        SimEventKind::Reclaimed { tokens_before, tokens_after, .. } => {
            format!("reclaimed stale tool output, {tokens_before} to {tokens_after} tokens")
        }
        SimEventKind::Dropped { messages, tokens_after, .. } => {
            format!("left out {messages} messages, {tokens_after} tokens stay")
        }
        SimEventKind::CompactionProgress { summary_tokens, .. } => {
            format!("the summary has {summary_tokens} tokens")
        }
        SimEventKind::CompactionFailed { reason, .. } => format!("no compaction: {reason}"),
        SimEventKind::SameStubs { elided_count, .. } => format!("the same {elided_count} stubs"),
        SimEventKind::CompactionStart { tokens_before, .. } => {
            format!("compaction of {tokens_before} tokens")
        }
        SimEventKind::CompactionDone { tokens_after, .. } => format!("compacted to {tokens_after} tokens"),
        SimEventKind::Notice { text, .. } => text.clone(),
        SimEventKind::PrefixChangeNoticed { withheld_thinking_blocks } => {
            format!("prefix changed: {withheld_thinking_blocks} thinking blocks withheld")
        }
        SimEventKind::Rejection { reason, .. } => format!("rejected: {reason}"),
        SimEventKind::Recovery { action } => format!("recovery: {action}"),
        SimEventKind::Violation { rule, reason } => format!("violation of {rule}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_show_two_units() {
        let spans = [(0, "0.0 s"), (59_999, "59.9 s"), (60_000, "1 min 0 s"), (5_400_000, "1 h 30 min")];
        for (ms, text) in spans {
            assert_eq!(time_span(ms), text);
        }
    }

    #[test]
    fn a_session_is_found_by_the_beginning_of_its_id() {
        let ids = ["abc1", "abc2", "xyz"];
        assert_eq!(find_id("x", &ids, "--explain").expect("one"), "xyz");
        assert_eq!(find_id("abc1", &ids, "--explain").expect("exact"), "abc1");
        assert_eq!(find_id("abc", &ids, "--explain").expect_err("two").code, exit::USAGE);
        assert_eq!(find_id("q", &ids, "--explain").expect_err("none").code, exit::NO_MATCH);
    }
}
