//! What `validate` found, as JSON, CSV and grids.

use std::collections::BTreeMap;

use serde::Serialize;

use super::grid::{Grid, counted};
use super::results::{Change, FORMAT_VERSION, Recipe, Skipped};
use super::wire::{ChangeWire, Decimal};
use crate::metrics::{Rate, Usd, group_digits};
use crate::validate::rules::RULES;
use crate::validate::{HoldOut, SessionReport, Total, total};

/// Every recording compared, and what reproduces it.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Version and options.
    pub recipe: Recipe,
    /// Inputs that could not be used.
    pub skipped: Vec<Skipped>,
    /// By session id.
    pub sessions: Vec<SessionReport>,
    /// The rules on recordings that they were not chosen on, if that was asked for.
    pub hold_out: Option<HoldOut>,
    /// The command was stopped before every recording was compared.
    pub interrupted: bool,
}

impl Validation {
    /// Formats in the order of their names, each with its recordings added up.
    pub fn formats(&self) -> Vec<(&str, Total)> {
        let mut names: Vec<&str> = self.sessions.iter().map(|session| session.format.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let of = |name: &str| total(self.sessions.iter().filter(|session| session.format == name));
        names.into_iter().map(|name| (name, of(name))).collect()
    }

    /// Everything added up.
    pub fn total(&self) -> Total {
        total(&self.sessions)
    }
}

type Micro = Option<Decimal<6>>;
type Dollars = Option<Decimal<12>>;

#[derive(Debug, Serialize)]
struct Envelope<'a> {
    format_version: u32,
    recipe: &'a Recipe,
    digest: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    skipped: &'a [Skipped],
    /// Sessions with a model whose price is not known.
    skipped_prices: Vec<&'a str>,
    sessions: Vec<Row<'a>>,
    /// By recording format.
    formats: Vec<Row<'a>>,
    total: Row<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_out: Option<HoldOutRow>,
}

/// What the digest covers.
#[derive(Serialize)]
struct Digested<'a> {
    sessions: &'a [Row<'a>],
    total: &'a Row<'a>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    session: &'a str,
    format: &'a str,
    agent: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent_version: &'a str,
    model: &'a str,
    sessions: u64,
    requests: u64,
    pairs: u64,
    exact_read_share: Micro,
    exact_write_share: Micro,
    /// The share of `read + write` without any rule.
    plain_read_share: Micro,
    read_abs_error_mean: Micro,
    read_abs_error_p50: Option<u64>,
    read_abs_error_p90: Option<u64>,
    read_abs_error_p99: Option<u64>,
    unexplained_share: Micro,
    causes: BTreeMap<&'static str, u64>,
    cost_recorded_usd: Dollars,
    cost_simulated_usd: Dollars,
    cost_error: ChangeWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_error_abs_p50: Micro,
    open_loop: OpenLoopRow,
    rules: BTreeMap<&'static str, RuleRow>,
}

#[derive(Debug, Serialize)]
struct OpenLoopRow {
    runs: u64,
    prompt_error_p50: Micro,
    prompt_error_p90: Micro,
    /// The median over the runs.
    final_prompt_error: Micro,
    final_prompt_error_p50: Micro,
    final_prompt_error_p90: Micro,
}

/// Pairs that are exact by a rule alone, and pairs that would have been exact without it.
#[derive(Debug, Serialize)]
struct RuleRow {
    won: u64,
    lost: u64,
}

#[derive(Debug, Serialize)]
struct HoldOutRow {
    pairs: u64,
    exact_read_share: Micro,
    plain_read_share: Micro,
    sessions_below_plain: u64,
}

/// The JSON of `validate --format json`, pretty, with a final line feed.
pub fn json(validation: &Validation) -> Vec<u8> {
    let sessions: Vec<Row<'_>> = validation.sessions.iter().map(session_row).collect();
    let all = validation.total();
    let one = |field: fn(&SessionReport) -> &str| same(validation.sessions.iter().map(field));
    let total_row = Row {
        cost_error_abs_p50: micros(all.cost_error_abs.percentile(50)),
        ..row("total", [one(|s| &s.format), one(|s| &s.agent), "", one(|s| &s.model)], &all)
    };
    let formats = validation.formats();
    let format_rows = formats.iter().map(|(name, sum)| Row {
        cost_error_abs_p50: micros(sum.cost_error_abs.percentile(50)),
        ..row("total", [name, "", "", ""], sum)
    });
    let canonical = serde_json::to_vec(&Digested { sessions: &sessions, total: &total_row });
    let canonical = canonical.expect("numbers and strings, with strings for keys, always serialise");
    super::json::pretty(&Envelope {
        format_version: FORMAT_VERSION,
        recipe: &validation.recipe,
        digest: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&canonical)),
        interrupted: validation.interrupted,
        skipped: &validation.skipped,
        skipped_prices: validation
            .sessions
            .iter()
            .filter(|s| s.is_unpriced)
            .map(|s| s.session.as_str())
            .collect(),
        formats: format_rows.collect(),
        sessions,
        total: total_row,
        held_out: validation.hold_out.map(|held| HoldOutRow {
            pairs: held.pairs,
            exact_read_share: rate(Rate::of(held.exact_reads.into(), held.pairs.into())),
            plain_read_share: rate(Rate::of(held.plain_exact_reads.into(), held.pairs.into())),
            sessions_below_plain: held.sessions_below_plain,
        }),
    })
}

fn session_row(report: &SessionReport) -> Row<'_> {
    let names = [&report.format, &report.agent, &report.agent_version, &report.model].map(String::as_str);
    row(&report.session, names, &total([report]))
}

fn row<'a>(session: &'a str, [format, agent, agent_version, model]: [&'a str; 4], sum: &Total) -> Row<'a> {
    let errors = &sum.read_abs_error;
    let ends = &sum.final_prompt_error;
    Row {
        session,
        format,
        agent,
        agent_version,
        model,
        sessions: sum.sessions,
        requests: sum.requests,
        pairs: sum.pairs,
        exact_read_share: rate(sum.share(sum.exact_reads)),
        exact_write_share: rate(sum.share(sum.exact_writes)),
        plain_read_share: rate(sum.share(sum.plain_exact_reads)),
        read_abs_error_mean: rate(Rate::of(errors.sum(), errors.len() as u128)),
        read_abs_error_p50: errors.percentile(50),
        read_abs_error_p90: errors.percentile(90),
        read_abs_error_p99: errors.percentile(99),
        unexplained_share: rate(sum.share(sum.unexplained)),
        causes: sum.causes.clone(),
        cost_recorded_usd: sum.cost_pusd.map(|(recorded, _)| Decimal(recorded)),
        cost_simulated_usd: sum.cost_pusd.map(|(_, simulated)| Decimal(simulated)),
        cost_error: ChangeWire(cost_error(sum)),
        cost_error_abs_p50: None,
        open_loop: OpenLoopRow {
            runs: ends.len() as u64,
            prompt_error_p50: micros(sum.prompt_error.percentile(50)),
            prompt_error_p90: micros(sum.prompt_error.percentile(90)),
            final_prompt_error: micros(ends.percentile(50)),
            final_prompt_error_p50: micros(ends.percentile(50)),
            final_prompt_error_p90: micros(ends.percentile(90)),
        },
        rules: sum.rules.iter().map(|(id, (won, lost))| (*id, RuleRow { won: *won, lost: *lost })).collect(),
    }
}

/// The one value that all have, else `mixed`.
fn same<'a>(mut values: impl Iterator<Item = &'a str>) -> &'a str {
    let first = values.next().unwrap_or_default();
    if values.all(|value| value == first) { first } else { "mixed" }
}

fn rate(rate: Rate) -> Micro {
    micros(rate.0)
}

fn micros(value: Option<u64>) -> Micro {
    value.map(|value| Decimal(value.into()))
}

fn cost_error(sum: &Total) -> Change {
    sum.cost_pusd.map_or(Change(None), |(recorded, simulated)| Change::of(simulated, recorded))
}

/// A rate in percent with so many decimals, for people.
pub(super) fn percent(micros: Option<u64>) -> String {
    micros.map_or_else(
        || "-".to_owned(),
        |micros| format!("{}.{:02} %", micros / 10_000, micros % 10_000 / 100),
    )
}

/// One row per recording, then one per format, then the total.
pub fn grid(validation: &Validation) -> Grid {
    let columns = [
        ("session", false, 0),
        ("client", false, 3),
        ("model", false, 1),
        ("pairs", true, 0),
        ("exact", true, 0),
        ("read exact", true, 0),
        ("read + write", true, 0),
        ("write exact", true, 5),
        ("unexplained", true, 2),
        ("cost error", true, 1),
        ("runs", true, 6),
        ("open loop", true, 4),
    ];
    let mut grid = Grid::new(columns.map(|(title, right, _)| (title.to_owned(), right)));
    for (column, (_, _, rank)) in grid.columns.iter_mut().zip(columns) {
        column.rank = rank;
    }
    for report in &validation.sessions {
        let client = format!("{} {}", report.agent, report.agent_version);
        let names = [report.session.clone(), client.trim().to_owned(), report.model.clone()];
        grid.rows.push(cells(names, &total([report])));
    }
    grid.rows.push(vec![String::new(); columns.len()]);
    let formats = validation.formats();
    for (name, sum) in &formats {
        let names = [(*name).to_owned(), String::new(), counted(sum.sessions, "recording")];
        grid.rows.push(cells(names, sum));
    }
    if formats.len() > 1 {
        let sum = validation.total();
        let names = ["total".to_owned(), String::new(), counted(sum.sessions, "recording")];
        grid.rows.push(cells(names, &sum));
    }
    grid
}

fn cells(names: [String; 3], sum: &Total) -> Vec<String> {
    let numbers = [
        group_digits(sum.pairs.into()),
        group_digits(sum.exact_reads.into()),
        percent(sum.share(sum.exact_reads).0),
        percent(sum.share(sum.plain_exact_reads).0),
        percent(sum.share(sum.exact_writes).0),
        group_digits(sum.unexplained.into()),
        cost_error(sum).percent(),
        group_digits(sum.final_prompt_error.len() as u128),
        percent(sum.final_prompt_error.percentile(50)),
    ];
    names.into_iter().chain(numbers).collect()
}

/// Every pair, as CSV.
///
/// # Errors
/// None in memory; the signature is that of the CSV writer.
pub fn pairs_csv(validation: &Validation) -> std::io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record([
        "session",
        "request",
        "cache_read_tokens",
        "predicted_read_tokens",
        "cache_write_tokens",
        "predicted_write_tokens",
        "plain_read_tokens",
        "rule",
        "cause",
        "input_usd",
        "predicted_input_usd",
    ])?;
    for report in &validation.sessions {
        for pair in &report.pairs {
            let dollars = |cost: Option<u128>| cost.map(|cost| Usd(cost).to_string()).unwrap_or_default();
            csv.write_record([
                report.session.clone(),
                pair.request.to_string(),
                pair.read_tokens.to_string(),
                pair.predicted_read_tokens.to_string(),
                pair.write_tokens.to_string(),
                pair.predicted_write_tokens.to_string(),
                pair.plain_read_tokens.to_string(),
                pair.rule.unwrap_or_default().to_owned(),
                pair.cause.unwrap_or_default().to_owned(),
                dollars(pair.cost_pusd.map(|cost| cost.0)),
                dollars(pair.cost_pusd.map(|cost| cost.1)),
            ])?;
        }
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// Pairs by cause, one column per format.
pub fn causes_grid(validation: &Validation) -> Grid {
    let formats = validation.formats();
    let columns = [("cause".to_owned(), false)];
    let mut grid = Grid::new(columns.into_iter().chain(formats.iter().map(|(f, _)| ((*f).to_owned(), true))));
    let mut names: Vec<&str> = validation.total().causes.into_keys().collect();
    names.sort_unstable();
    for name in names {
        let count = |sum: &Total| sum.causes.get(name).copied().unwrap_or(0);
        let counts = formats.iter().map(|(_, sum)| match count(sum) {
            0 => String::new(),
            pairs => group_digits(pairs.into()),
        });
        grid.rows.push([name.to_owned()].into_iter().chain(counts).collect());
    }
    grid
}

/// What each rule buys and costs, per recording on which one was heard.
pub fn rules_grid(validation: &Validation) -> Grid {
    let heard: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    let columns = ["session", "client", "model"].map(|title| (title.to_owned(), false));
    let columns = columns.into_iter().chain(heard.iter().map(|id| ((*id).to_owned(), true)));
    let mut grid = Grid::new(columns);
    let effects = |sum: &Total| -> Vec<String> {
        let effect = |id: &&str| match sum.rules.get(*id) {
            None => String::new(),
            Some((won, 0)) => format!("+{won}"),
            Some((won, lost)) => format!("+{won} −{lost}"),
        };
        heard.iter().map(effect).collect()
    };
    for report in validation.sessions.iter().filter(|report| report.is_explicit) {
        let sum = total([report]);
        if !sum.rules.is_empty() {
            let names = [report.session.clone(), report.agent_version.clone(), report.model.clone()];
            grid.rows.push(names.into_iter().chain(effects(&sum)).collect());
        }
    }
    let all = ["all".to_owned(), String::new(), String::new()];
    grid.rows.push(all.into_iter().chain(effects(&validation.total())).collect());
    grid
}
