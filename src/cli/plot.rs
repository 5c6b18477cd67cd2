//! `ctxsim plot`: one picture from the files of a study.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ctxsim::Error;
use ctxsim::metrics::{self, MetricRef};
use ctxsim::report::files::OutputFile;
use ctxsim::report::plot::{
    Bars, DEFAULT_SIZE, HeatMap, Look, Mark, MarkKind, Pareto, PictureFormat, Ranking, Series, SweepCurve,
    Theme, TokenCurve, Trials, UsagePanel, UsageStack,
};
use ctxsim::report::requests::CellKey;
use ctxsim::report::{Cell, ResultSet};
use ctxsim::sim::FullRecorder;

use super::exit::{self, Failure, Outcome};
use super::explain::find_id;
use super::output::Terminal;
use super::{join, report};

/// For the help.
pub const EXAMPLES: &str = "Examples:
  ctxsim plot reports/quickstart --kind token-curve --session f82fa48e -o curve.svg
  ctxsim plot swept --kind sweep --param minCharsPerPass --metric cost_usd --dark -o sweep.png

A results folder is what --out, `run`, `sweep`, `tune` or `join` wrote; of a search, `sweep`, `pareto` and `ranking` can \
be drawn. A strategy has the same colour in every picture of a study.";

#[derive(Debug, Args)]
pub struct PlotArgs {
    /// A folder written with --out or by `run`
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Which picture
    #[arg(long, value_name = "KIND", default_value = "token-curve")]
    pub kind: PlotKind,
    /// Session to draw (its id, or how the id begins); default: the one with the most requests
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Draw only this policy; repeatable (token-curve, usage)
    #[arg(short, long, value_name = "POLICY")]
    pub policy: Vec<String>,
    /// Metric of sweep and ranking (default cost_usd), or what pareto weighs cost against (default hit_rate)
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Parameter of a sweep's axis; two make a heat map; default: those that differ
    #[arg(long, value_name = "KEY")]
    pub param: Vec<String>,
    /// On dark paper
    #[arg(long)]
    pub dark: bool,
    /// Width and height in points; bars grow with what they show
    #[arg(long, value_name = "WxH", value_parser = size)]
    pub size: Option<(u32, u32)>,
    /// The file, .svg or .png
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

/// `plot --kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlotKind {
    /// Prompt tokens per request, one line per policy, with what happened
    TokenCurve,
    /// What each request read, wrote and paid in full, one panel per policy
    Usage,
    /// Cost of each policy by class
    Cost,
    /// What was paid for tokens that were not read, by cause
    Misses,
    /// A metric over one parameter, or a heat map over two, and the flat region
    Sweep,
    /// Cost against another metric, and what nothing beats in both
    Pareto,
    /// Policies from best to worst, with intervals over sessions
    Ranking,
    /// Policies that differ in the life of the cache they buy
    Ttl,
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| text.parse().ok().filter(|n| (200..=4_000).contains(n));
    let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
    sides.ok_or_else(|| "write width x height from 200x200 to 4000x4000, such as 800x500".to_owned())
}

/// Runs the command.
pub fn run(args: &PlotArgs, terminal: &Terminal) -> Outcome {
    let format = PictureFormat::of_path(&args.out)?;
    let theme = if args.dark { Theme::Dark } else { Theme::Light };
    let look = Look { size: args.size.unwrap_or(DEFAULT_SIZE), theme };
    let bytes = match args.kind {
        PlotKind::TokenCurve => token_curve(args)?.draw(format, look)?,
        PlotKind::Usage => usage(args)?.draw(format, look)?,
        PlotKind::Cost => Bars::cost(&join::read(&args.results)?).draw(format, look)?,
        PlotKind::Misses => Bars::misses(&join::read(&args.results)?).draw(format, look)?,
        PlotKind::Ttl => {
            let none = "no two policies differ in `cache.ttl` alone; sweep it with --grid cache.ttl=5m,1h";
            let bars = Bars::ttl(&join::read(&args.results)?);
            bars.ok_or_else(|| nothing(args, none))?.draw(format, look)?
        }
        PlotKind::Sweep => sweep(args, &trials(args, "cost_usd")?, format, look)?,
        PlotKind::Pareto => Pareto { trials: &trials(args, "hit_rate")? }.draw(format, look)?,
        PlotKind::Ranking => Ranking { trials: &trials(args, "cost_usd")? }.draw(format, look)?,
    };
    let mut file = OutputFile::create(&args.out)?;
    file.write_all(&bytes)?;
    file.commit()?;
    terminal.note(&format!("written to {}", args.out.display()));
    Ok(exit::DONE)
}

fn nothing(args: &PlotArgs, why: &str) -> Failure {
    Failure::new(exit::NO_MATCH, format!("{}: {why}", args.results.display()))
}

/// Every strategy of a study or of a search with one metric.
fn trials(args: &PlotArgs, metric: &str) -> Result<Trials, Failure> {
    let metric: MetricRef = metrics::find(args.metric.as_deref().unwrap_or(metric))?;
    let tune = args.results.join("tune.json");
    if !tune.is_file() {
        return Ok(Trials::of_results(&join::read(&args.results)?, metric));
    }
    let bytes = std::fs::read(&tune).map_err(|source| Error::Io { path: tune.clone(), source })?;
    let document = serde_json::from_slice(&bytes).map_err(|e| Error::Input {
        path: tune.clone(),
        line: e.line() as u64,
        reason: format!("not a tune.json of ctxsim ({e})"),
    })?;
    Ok(Trials::of_tune(&document, args.metric.is_some().then_some(metric), args.kind == PlotKind::Pareto)?)
}

fn sweep(args: &PlotArgs, trials: &Trials, format: PictureFormat, look: Look) -> Result<Vec<u8>, Failure> {
    let none = "no two policies differ in a parameter; sweep one with --grid KEY=SPEC";
    let params = match args.param.as_slice() {
        [] => trials.varied.clone(),
        typed => typed.iter().map(|name| varied(trials, name)).collect::<Result<_, _>>()?,
    };
    match params.as_slice() {
        [] => Err(nothing(args, none)),
        [only] => Ok(SweepCurve::new(trials, only).ok_or_else(|| nothing(args, none))?.draw(format, look)?),
        [x, y, ..] => match HeatMap::new(trials, x, y) {
            Some(map) => Ok(map.draw(format, look)?),
            None => Ok(SweepCurve::new(trials, x).ok_or_else(|| nothing(args, none))?.draw(format, look)?),
        },
    }
}

/// A parameter that differs, by its name or the last part of it.
fn varied(trials: &Trials, typed: &str) -> Result<String, Failure> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let found = trials.varied.iter().find(|name| *name == typed);
    let found = found.or_else(|| trials.varied.iter().find(|name| last(name) == typed)).cloned();
    let known: Vec<String> = trials.varied.iter().flat_map(|name| [name.clone(), last(name)]).collect();
    Ok(found.ok_or_else(|| Error::unknown("swept parameter", typed, known.iter().map(String::as_str)))?)
}

/// The requests of one session on its model, by policy in the order of the results.
struct Chosen {
    session: String,
    model: String,
    /// 0: not known.
    window_tokens: u64,
    /// Cell, place of its policy, requests and events.
    runs: Vec<(Cell, usize, FullRecorder)>,
}

fn choose(args: &PlotArgs) -> Result<Chosen, Failure> {
    let results = join::read(&args.results)?;
    let folder = match args.results.is_dir() {
        true => args.results.as_path(),
        false => args.results.parent().unwrap_or(Path::new("")),
    };
    let mut records = report::read_records(folder)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((session, _, _), record) in &records {
        *counts.entry(session).or_default() += record.requests.len();
    }
    let ids: Vec<&str> = counts.keys().copied().collect();
    let none = || nothing(args, "there is no requests.csv with requests beside the results");
    let session = match &args.session {
        Some(wanted) => find_id(wanted, &ids, "--session")?,
        None => ids.iter().rev().max_by_key(|id| counts[*id]).ok_or_else(none)?,
    }
    .to_owned();
    let places = places(&results);
    let mut policies: Vec<&str> = Vec::new();
    for name in &args.policy {
        let known = places.iter().find(|p| *p == name);
        policies
            .push(known.ok_or_else(|| Error::unknown("policy", name, places.iter().map(String::as_str)))?);
    }
    let wanted = |cell: &&Cell| policies.is_empty() || policies.contains(&cell.policy.as_str());
    let own: Vec<&Cell> = results.cells.iter().filter(|c| c.session == session).filter(wanted).collect();
    let model = own.first().map(|cell| cell.model.clone()).ok_or_else(none)?;
    let mut runs = Vec::new();
    for cell in own.into_iter().filter(|cell| cell.model == model) {
        let key: CellKey = (cell.session.clone(), cell.policy.clone(), cell.model.clone());
        let place = places.iter().position(|p| *p == cell.policy).unwrap_or(0);
        runs.push((cell.clone(), place, records.remove(&key).unwrap_or_default()));
    }
    let window_tokens = report::windows(&results)?.get(&model).copied().unwrap_or(0);
    Ok(Chosen { session, model, window_tokens, runs })
}

/// Policies in the order of the results.
fn places(results: &ResultSet) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for total in &results.totals {
        if !places.contains(&total.policy) {
            places.push(total.policy.clone());
        }
    }
    places
}

fn token_curve(args: &PlotArgs) -> Result<TokenCurve, Failure> {
    let Chosen { session, model, window_tokens, runs } = choose(args)?;
    let series = runs.iter().map(|(cell, place, record)| {
        let mut series = Series::of(&cell.policy, *place, record);
        let stop = cell.summary.stopped_at_request;
        series.marks.extend(stop.map(|request| Mark { request, kind: MarkKind::Stop }));
        series
    });
    let series = series.collect();
    Ok(TokenCurve { session, model, window_tokens, series })
}

fn usage(args: &PlotArgs) -> Result<UsageStack, Failure> {
    let Chosen { session, model, runs, .. } = choose(args)?;
    let panels = runs.iter().map(|(cell, _, record)| UsagePanel::of(&cell.policy, &record.requests));
    Ok(UsageStack { session, model, panels: panels.collect() })
}
