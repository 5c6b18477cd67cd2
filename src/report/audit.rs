//! The audit for people: causes, the worst breaks, findings in words.

use std::fmt::Write as _;
use std::io;

use crate::audit::detect::span;
use crate::audit::{Audit, Break, DETECTORS, Detector, Finding, SessionAudit};
use crate::cause::Cause;
use crate::metrics::{Rate, Usd, group_digits};

use super::grid::{Grid, counted, short_ids};
use super::{csv, markdown, table};

/// Breaks shown; all of them are in JSON and CSV.
const BREAKS_SHOWN: usize = 10;
/// Findings shown, and requests named of each.
const FINDINGS_SHOWN: usize = 20;
const REQUESTS_SHOWN: usize = 8;

/// The text for a terminal.
pub fn text(audit: &Audit, style: table::TableStyle) -> String {
    let mut out = format!("{}\n", headline(audit));
    for grid in grids(audit) {
        let _ = write!(out, "\n{}", table::draw(grid, style));
    }
    let findings = findings(audit);
    if !findings.is_empty() {
        out.push('\n');
        let lines = findings.iter().map(|line| wrap(&table::harmless(line), style.width));
        lines.for_each(|line| _ = writeln!(out, "{line}"));
    }
    notes(audit).iter().for_each(|note| _ = writeln!(out, "\n{}", table::harmless(note)));
    out
}

/// The same as Markdown.
pub fn markdown(audit: &Audit) -> String {
    let mut out = format!("{}\n", headline(audit));
    for grid in grids(audit) {
        let _ = write!(out, "\n{}", markdown::grid(&grid));
    }
    let lines: Vec<String> = findings(audit).into_iter().chain(notes(audit)).collect();
    if !lines.is_empty() {
        out.push('\n');
        lines.iter().for_each(|line| _ = writeln!(out, "- {line}"));
    }
    out
}

/// Every break as CSV.
///
/// # Errors
/// None in memory; the signature is that of the CSV writer.
pub fn breaks_csv(audit: &Audit) -> io::Result<Vec<u8>> {
    let mut grid = titled(&[
        ("session", false),
        ("model", false),
        ("request", true),
        ("at_ms", true),
        ("gap_ms", true),
        ("cause", false),
        ("cache_read", true),
        ("expected_read", true),
        ("wasted_tokens", true),
        ("wasted_usd", true),
    ]);
    let of_session = |s: &'_ SessionAudit| s.breaks.iter().map(|b| csv_row(s, b)).collect::<Vec<_>>();
    grid.rows.extend(audit.sessions.iter().flat_map(of_session));
    csv::grid(&grid)
}

fn csv_row(session: &SessionAudit, b: &Break) -> Vec<String> {
    let optional = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
    vec![
        session.session.clone(),
        session.model.clone(),
        b.request.to_string(),
        optional(b.at_ms),
        optional(b.gap_ms),
        b.cause.name().to_owned(),
        b.cache_read_tokens.to_string(),
        b.expected_read_tokens.to_string(),
        b.wasted_tokens.to_string(),
        b.wasted_pusd.map(|pusd| Usd(pusd).to_string()).unwrap_or_default(),
    ]
}

/// Misses of every session as CSV: a row for each cause that occurs.
///
/// # Errors
/// As [`breaks_csv`].
pub fn misses_csv(audit: &Audit) -> io::Result<Vec<u8>> {
    let mut grid = titled(&[
        ("session", false),
        ("model", false),
        ("cause", false),
        ("requests", true),
        ("tokens", true),
        ("usd", true),
    ]);
    for session in &audit.sessions {
        for cause in Cause::ALL.iter().filter(|cause| session.sums.miss(**cause).requests > 0) {
            let miss = session.sums.miss(*cause);
            let usd = session.sums.misses_priced.then(|| Usd(miss.cost_pusd).to_string());
            let keys = [&session.session, &session.model].map(String::clone);
            let numbers = [miss.requests.to_string(), miss.tokens.to_string(), usd.unwrap_or_default()];
            grid.rows.push(keys.into_iter().chain([cause.name().to_owned()]).chain(numbers).collect());
        }
    }
    csv::grid(&grid)
}

/// What is looked for.
pub fn detectors(table: &[Detector]) -> Grid {
    let mut grid = titled(&[("detector", false), ("finds", false)]);
    grid.rows = table.iter().map(|d| vec![d.name.to_owned(), d.doc.to_owned()]).collect();
    grid
}

fn titled(columns: &[(&str, bool)]) -> Grid {
    Grid::new(columns.iter().map(|(title, right)| ((*title).to_owned(), *right)))
}

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

fn usd(pusd: Option<u128>, decimals: u32) -> String {
    pusd.map_or_else(|| "-".to_owned(), |pusd| format!("${}", Usd(pusd).rounded(decimals)))
}

fn percent(part: u64, whole: u64) -> String {
    Rate::of(u128::from(part), u128::from(whole)).percent()
}

fn headline(audit: &Audit) -> String {
    let total = &audit.total;
    let wasted_share = match (total.wasted_pusd, total.cost_pusd) {
        (Some(wasted), Some(cost)) if cost > 0 => format!(" ({})", Rate::of(wasted, cost).percent()),
        _ => String::new(),
    };
    let breaks: usize = audit.sessions.iter().map(|s| s.breaks.len()).sum();
    format!(
        "{}, {}, hit rate {}, cost {}; {} wasted {} tokens, {}{wasted_share}",
        counted(audit.sessions.len() as u64, "session"),
        counted(total.requests, "request"),
        percent(total.usage.cache_read_tokens, total.usage.prompt_tokens()),
        usd(total.cost_pusd, 2),
        counted(breaks as u64, "break"),
        number(total.wasted_tokens),
        usd(total.wasted_pusd, 2),
    )
}

/// Causes, the worst breaks, and of many sessions what was found how often; those that hold something.
fn grids(audit: &Audit) -> impl Iterator<Item = Grid> {
    let detected = if audit.sessions.len() > 1 { detected(audit) } else { Grid::default() };
    let grids = [causes(audit), breaks(audit, BREAKS_SHOWN), lives(audit), detected];
    grids.into_iter().filter(|grid| !grid.rows.is_empty())
}

/// How often each detector found something.
fn detected(audit: &Audit) -> Grid {
    let mut grid = titled(&[("findings", false), ("sessions", true), ("requests", true), ("tokens", true)]);
    for detector in DETECTORS {
        let of = |s: &'_ SessionAudit| s.findings.iter().any(|f| f.detector == detector.name);
        let sessions = audit.sessions.iter().filter(|s| of(s)).count() as u64;
        let found =
            || audit.sessions.iter().flat_map(|s| &s.findings).filter(|f| f.detector == detector.name);
        let requests: usize = found().map(|f| f.requests.len()).sum();
        let tokens: u64 = found().map(|f| f.tokens).sum();
        if sessions > 0 {
            let numbers = [sessions, requests as u64, tokens].map(number);
            grid.rows.push([detector.name.to_owned()].into_iter().chain(numbers).collect());
        }
    }
    grid
}

/// What was not read, by cause.
fn causes(audit: &Audit) -> Grid {
    let mut grid = titled(&[
        ("tokens not read", false),
        ("requests", true),
        ("tokens", true),
        ("share", true),
        ("paid", true),
        ("share paid", true),
    ]);
    let total = &audit.total;
    let tokens: u64 = total.misses.iter().map(|miss| miss.tokens).sum();
    let paid: u128 = total.misses.iter().map(|miss| miss.cost_pusd).sum();
    for cause in Cause::ALL.iter().filter(|cause| total.miss(**cause).tokens > 0) {
        let miss = total.miss(*cause);
        grid.rows.push(vec![
            cause.name().to_owned(),
            number(miss.requests),
            number(miss.tokens),
            percent(miss.tokens, tokens),
            usd(total.misses_priced.then_some(miss.cost_pusd), 2),
            if total.misses_priced { Rate::of(miss.cost_pusd, paid).percent() } else { "-".to_owned() },
        ]);
    }
    grid
}

fn breaks(audit: &Audit, shown: usize) -> Grid {
    let mut grid = titled(&[
        ("worst breaks", false),
        ("request", true),
        ("gap", true),
        ("cause", false),
        ("read", true),
        ("expected", true),
        ("wasted", true),
        ("cost", true),
    ]);
    for (i, rank) in [(2, 1), (5, 2), (4, 3)] {
        grid.columns[i].rank = rank;
    }
    let short = short_ids(audit.sessions.iter().map(|s| s.session.as_str()).collect());
    for (session, b) in audit.worst_breaks().into_iter().take(shown) {
        grid.rows.push(vec![
            short(&session.session),
            b.request.to_string(),
            b.gap_ms.map(span).unwrap_or_default(),
            b.cause.name().to_owned(),
            number(b.cache_read_tokens),
            number(b.expected_read_tokens),
            number(b.wasted_tokens),
            usd(b.wasted_pusd, 4),
        ]);
    }
    grid
}

/// What either life of cache entries would have cost.
fn lives(audit: &Audit) -> Grid {
    let mut grid =
        titled(&[("all written for", false), ("input would cost", true), ("regret of its writes", true)]);
    if let Some(lives) = &audit.total.lives {
        for (i, name) in ["5m", "1h"].into_iter().enumerate() {
            let money = [lives.cost_pusd[i], lives.regret_pusd[i]].map(|pusd| usd(Some(pusd), 2));
            grid.rows.push([name.to_owned()].into_iter().chain(money).collect());
        }
    }
    grid
}

/// When the long life pays.
fn lives_note(audit: &Audit) -> Option<String> {
    let lives = audit.total.lives.as_ref()?;
    let late = Rate::of(u128::from(lives.late_requests), u128::from(lives.requests)).percent();
    let [short, long] = lives.cost_pusd;
    let verdict = match long.cmp(&short) {
        std::cmp::Ordering::Less => "A life of an hour would have paid",
        std::cmp::Ordering::Equal => "Both lives would have cost the same",
        std::cmp::Ordering::Greater => "A life of an hour would not have paid",
    };
    let (late_requests, requests) = (number(lives.late_requests), number(lives.requests));
    let mut note = format!(
        "{verdict}: {late_requests} of {requests} requests came after five minutes and within the hour ({late})"
    );
    match lives.break_even_millionths().filter(|share| *share < 1_000_000) {
        Some(share) => {
            let share = Rate::of(u128::from(share), 1_000_000).percent();
            let _ = write!(note, "; of requests as long as the others it takes more than {share}.");
        }
        None => note.push_str("; with so much that is written anyway no number of them would do."),
    }
    if lives.long_writes > 0 {
        let needed = number(lives.long_writes_needed);
        let _ = write!(note, " Of {} for an hour, {needed} needed it.", counted(lives.long_writes, "write"));
    }
    Some(note)
}

/// Findings in words, those about the most tokens first.
fn findings(audit: &Audit) -> Vec<String> {
    let mut all: Vec<(&SessionAudit, &Finding)> =
        audit.sessions.iter().flat_map(|s| s.findings.iter().map(move |f| (s, f))).collect();
    all.sort_by_key(|(_, finding)| std::cmp::Reverse((finding.tokens, finding.requests.len())));
    let left_out = all.len().saturating_sub(FINDINGS_SHOWN);
    all.truncate(FINDINGS_SHOWN);
    let short = short_ids(audit.sessions.iter().map(|s| s.session.as_str()).collect());
    let line = |(session, finding): (&SessionAudit, &Finding)| {
        let named: Vec<String> = finding.requests.iter().take(REQUESTS_SHOWN).map(u32::to_string).collect();
        let more = finding.requests.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let noun = if finding.requests.len() == 1 { "request" } else { "requests" };
        let (detector, session) = (finding.detector, short(&session.session));
        format!("{detector} in {session} ({noun} {}{more}): {}", named.join(", "), finding.detail)
    };
    let mut lines: Vec<String> = all.into_iter().map(line).collect();
    if left_out > 0 {
        lines.push(format!("{left_out} more: see --format json"));
    }
    lines
}

/// What a reader must know to read the numbers right.
fn notes(audit: &Audit) -> Vec<String> {
    let mut notes: Vec<String> = lives_note(audit).into_iter().collect();
    let unpriced: Vec<&SessionAudit> = audit.sessions.iter().filter(|s| s.unpriced_model.is_some()).collect();
    if !unpriced.is_empty() {
        let mut models: Vec<&str> = unpriced.iter().filter_map(|s| s.unpriced_model.as_deref()).collect();
        models.sort_unstable();
        models.dedup();
        notes.push(format!(
            "No price is known of {}: {} left out of dollars, not of tokens.",
            models.iter().map(|m| format!("`{m}`")).collect::<Vec<_>>().join(", "),
            counted(unpriced.len() as u64, "session"),
        ));
    }
    if audit.total.without_usage > 0 {
        notes.push(format!(
            "Without recorded usage, and in no sum: {}.",
            counted(audit.total.without_usage, "request")
        ));
    }
    notes
}

/// Breaks a line at spaces to fit `width`; what follows is indented.
fn wrap(line: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return line.to_owned() };
    let (mut out, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > width {
            out.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_break_at_spaces_and_nothing_is_lost() {
        let line = "read_gap_expiry in s (request 3): 1 request came after a pause of 12 min";
        let text = wrap(line, Some(30));
        assert!(text.lines().count() > 2 && text.lines().all(|l| l.chars().count() <= 30), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), line);
        assert_eq!(wrap(line, None), line);
    }
}
