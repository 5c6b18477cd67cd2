//! What a search found, as a table, Markdown, CSV and JSON.

use std::io;

use crate::config::agents::{self, Configuration};
use crate::metrics::{self, MetricRef, Value};
use crate::policy::ParamValue;
use crate::report::grid::{Grid, GridColumn, counted};
use crate::stats::Interval;

use super::{Reproduction, Tried, Tuned};

/// Candidates shown in the table besides the policies as typed.
const SHOWN: usize = 12;

/// The metrics that every candidate is shown with.
pub(super) const SHOWN_METRICS: [&str; 4] =
    ["cost_usd", "hit_rate", "peak_prompt_tokens", "summarizer_calls"];

/// A number for people: four significant digits where it is small.
fn number(metric: MetricRef, value: f64) -> String {
    match metric.metric().unit {
        "usd" => format!("{}${:.4}", if value < 0.0 { "-" } else { "" }, value.abs()),
        "rate" => format!("{:.2}%", value * 100.0),
        _ => format!("{value:.0}"),
    }
}

fn shown(metric: MetricRef, value: Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |x| number(metric, x))
}

/// The candidate's own settings in its agent's form: what was set, and what was searched.
pub fn configuration(tried: &Tried) -> Option<Configuration> {
    let params: Vec<(String, ParamValue)> =
        tried.config.set.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    (!params.is_empty()).then(|| agents::configuration(&tried.config.preset.name, &params)).flatten()
}

/// Candidates in the order of a report: by the objective, those that do not count last, then those that were given up.
pub fn ranked(tuned: &Tuned) -> Vec<usize> {
    let higher = tuned.settings.objective.metric().better == metrics::Better::Higher;
    let key = |i: usize| {
        let tried = &tuned.tried[i];
        let value = tried.training.value.unwrap_or(f64::INFINITY);
        (!tried.is_full, tried.broken.is_some(), if higher { -value } else { value })
    };
    let mut order: Vec<usize> = (0..tuned.tried.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (key(*a), key(*b));
        (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
    });
    order
}

/// What a candidate is, in a word or two.
pub fn marks(tuned: &Tuned, i: usize) -> String {
    let words = [
        (i == 0, "baseline"),
        (tuned.best == Some(i), "best"),
        (tuned.recommended == Ok(i), "recommended"),
        (tuned.flat.contains(&i) && tuned.best != Some(i), "flat"),
        (tuned.tried[i].broken.is_some(), "not allowed"),
    ];
    words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

/// The table of candidates: the best of them, and the policies as typed.
pub fn grid(tuned: &Tuned) -> Grid {
    let objective = tuned.settings.objective;
    let others: Vec<MetricRef> = SHOWN_METRICS
        .iter()
        .filter_map(|name| metrics::find(name).ok())
        .filter(|metric| metric.name() != objective.name())
        .collect();
    let head = |title: &str, right, rank| GridColumn { title: title.to_owned(), right, rank };
    let mut columns = vec![
        head("policy", false, 0),
        head(&objective.name(), true, 0),
        head("95% interval", true, 3),
        head("vs baseline", true, 0),
        head("95% interval", true, 2),
        head("wins", true, 4),
        head("held out vs baseline", true, 1),
    ];
    columns.extend(others.iter().map(|metric| head(&metric.name(), true, 5)));
    columns.push(head("", false, 0));
    let mut grid = Grid { columns, rows: Vec::new() };
    let order = ranked(tuned);
    let first = order.iter().take(SHOWN).copied();
    let rest =
        order.iter().skip(SHOWN).copied().filter(|i| !marks(tuned, *i).is_empty() && !tuned.flat.contains(i));
    let typed = rest.filter(|i| *i == 0 || tuned.recommended == Ok(*i));
    for i in first.chain(typed) {
        let tried = &tuned.tried[i];
        let mut row = vec![tried.label.clone()];
        row.extend(measured(tuned, i));
        row.extend(others.iter().map(|metric| shown(*metric, metric.value(&tried.total))));
        row.push(marks(tuned, i));
        grid.rows.push(row);
    }
    grid
}

fn measured(tuned: &Tuned, i: usize) -> [String; 6] {
    let objective = tuned.settings.objective;
    let tried = &tuned.tried[i];
    let text = |value: Option<f64>| value.map(|x| number(objective, x)).unwrap_or_default();
    let range = |interval: Option<Interval>| {
        interval
            .map(|r| format!("{} to {}", number(objective, r.low), number(objective, r.high)))
            .unwrap_or_default()
    };
    let versus = tried.training.versus;
    let base = &tuned.tried[0];
    let change = |own: Option<f64>, base: Option<f64>| {
        let (own, base) = (own?, base.filter(|base| *base != 0.0)?);
        (i > 0).then(|| format!("{:+.1}%", 100.0 * (own / base - 1.0)))
    };
    let held_out = |tried: &Tried| tried.held_out.as_ref().and_then(|score| score.value);
    [
        text(tried.training.value),
        range(tried.training.interval),
        change(tried.training.value.filter(|_| tried.is_full), base.training.value).unwrap_or_default(),
        range(versus.map(|v| v.difference_interval)),
        versus.map(|v| format!("{:.0}%", 100.0 * v.win_rate)).unwrap_or_default(),
        change(held_out(tried), held_out(base)).unwrap_or_default(),
    ]
}

/// What the table does not show, one sentence each, first what is recommended.
pub fn sentences(tuned: &Tuned, reproduction: &Reproduction) -> Vec<String> {
    let settings = &tuned.settings;
    let mut out = Vec::new();
    match &tuned.recommended {
        Ok(i) => out.push(format!("Recommended: {}.", tuned.tried[*i].label)),
        Err(why) => out.push(format!("Nothing is recommended: {why}.")),
    }
    for flat in &tuned.flat_values {
        let values: Vec<String> = flat.values.iter().map(ToString::to_string).collect();
        out.push(format!(
            "As good as the best within the noise: {} with {} = {}.",
            flat.policy,
            flat.param,
            values.join(", ")
        ));
    }
    for front in &tuned.fronts {
        let labels: Vec<&str> = front.members.iter().map(|i| tuned.tried[*i].label.as_str()).collect();
        let metric = front.metric.name();
        out.push(format!("Beaten by none in both cost and {metric}: {}.", labels.join("; ")));
    }
    let constraints: Vec<String> = settings.constraints.iter().map(ToString::to_string).collect();
    let subject = if constraints.is_empty() {
        String::new()
    } else {
        format!(" subject to {}", constraints.join(", "))
    };
    out.push(format!(
        "{} against {}{subject}: {} on {}, {} held out; intervals by bootstrap over sessions.",
        settings.objective.name(),
        tuned.tried.first().map_or("", |t| t.label.as_str()),
        counted(tuned.tried.len() as u64, "candidate"),
        counted(tuned.training_sessions as u64, "session"),
        tuned.held_out_sessions,
    ));
    out.extend(doubts(tuned, reproduction));
    out
}

fn doubts(tuned: &Tuned, reproduction: &Reproduction) -> Vec<String> {
    let mut out = Vec::new();
    if tuned.left_out_sessions > 0 {
        let sessions = counted(tuned.left_out_sessions as u64, "session");
        out.push(format!("{sessions} that the baseline does not finish are left out."));
    }
    if tuned.held_out_sessions == 0 {
        out.push("No session was held out: the score of the best is the score it was chosen by.".to_owned());
    }
    if reproduction.sessions_without_usage > 0 {
        let sessions = counted(reproduction.sessions_without_usage, "session");
        out.push(format!(
            "{sessions} have no recorded usage, so whether the replay is right was not checked there."
        ));
    }
    if reproduction.requests > 0 {
        let [recorded, simulated] = [reproduction.recorded_pusd, reproduction.simulated_pusd]
            .map(|pusd| metrics::Usd(pusd).rounded(4));
        out.push(format!(
            "The recorded run comes out at ${simulated}, against ${recorded} recorded, over {}.",
            counted(reproduction.requests, "request")
        ));
    }
    out
}

/// One row per candidate.
///
/// # Errors
/// None in memory; the signature is that of the CSV writer.
pub fn csv(tuned: &Tuned) -> io::Result<Vec<u8>> {
    let mut params: Vec<&str> = Vec::new();
    for (name, _) in tuned.tried.iter().flat_map(|t| &t.params) {
        if !params.contains(&name.as_str()) {
            params.push(name);
        }
    }
    let columns: Vec<MetricRef> = SHOWN_METRICS.iter().filter_map(|name| metrics::find(name).ok()).collect();
    let keys = [
        "policy",
        "marks",
        "sessions",
        "objective",
        "low",
        "high",
        "difference",
        "difference_low",
        "difference_high",
        "win_rate",
        "held_out_sessions",
        "held_out",
        "held_out_difference",
        "not_allowed",
    ];
    let mut csv = csv::Writer::from_writer(Vec::new());
    let names = keys.iter().map(|k| (*k).to_owned()).chain(params.iter().map(|p| (*p).to_owned()));
    csv.write_record(names.chain(columns.iter().map(MetricRef::name)))?;
    for i in ranked(tuned) {
        let tried = &tuned.tried[i];
        let text =
            |value: Option<f64>| value.map(|x| super::wire::rounded(x).to_string()).unwrap_or_default();
        let (interval, versus) = (tried.training.interval, tried.training.versus);
        let held_out = tried.held_out.as_ref();
        let own = [
            tried.label.clone(),
            marks(tuned, i),
            tried.training.sessions.to_string(),
            text(tried.training.value),
            text(interval.map(|r| r.low)),
            text(interval.map(|r| r.high)),
            text(versus.map(|v| v.difference)),
            text(versus.map(|v| v.difference_interval.low)),
            text(versus.map(|v| v.difference_interval.high)),
            text(versus.map(|v| v.win_rate)),
            held_out.map(|s| s.sessions.to_string()).unwrap_or_default(),
            text(held_out.and_then(|s| s.value)),
            text(held_out.and_then(|s| s.versus).map(|v| v.difference)),
            tried.broken.clone().unwrap_or_default(),
        ];
        let param = |name: &&str| tried.params.iter().find(|(n, _)| n == name).map(|(_, v)| v.to_string());
        let params = params.iter().map(|name| param(name).unwrap_or_default());
        let values = columns.iter().map(|metric| match metric.value(&tried.total) {
            Value::Rate(metrics::Rate(None)) => String::new(),
            value => value.to_string(),
        });
        csv.write_record(own.into_iter().chain(params).chain(values))?;
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}
