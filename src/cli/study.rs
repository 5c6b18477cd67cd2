//! What `simulate` and `run` share: sessions through strategies, and the files of a study.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ctxsim::policy::{ParamValue, PolicyConfig, Strategy};
use ctxsim::provider::ModelSpec;
use ctxsim::report::curve::Curves;
use ctxsim::report::files::{OutputDir, OutputFile};
use ctxsim::report::requests::{RequestsWriter, RunRecord};
use ctxsim::report::{
    self, Cell, Recipe, RecipePolicy, ResultSet, Skipped, events, html, json, markdown, wire,
};
use ctxsim::session::Session;
use ctxsim::sim::FullRecorder;
use ctxsim::sweep::{CellResult, Control, Detail, ModelChoice, Plan, Planned, runner};

use super::args::{Compactions, Format, SessionArgs};
use super::exit::{self, Failure};
use super::load::Corpus;
use super::output::Terminal;
use super::parquet;
use super::pictures::Pictures;
use super::progress::Progress;
use super::resolve::{Replay, compactions_word};
use super::resume::{Earlier, Records, ResumeArgs};
use super::typed;

/// How a study runs, besides its strategies.
pub struct Study<'a> {
    /// Strategies, models and options.
    pub replay: &'a Replay,
    /// What the recipe says besides these.
    pub recipe: Recipe,
    /// What was typed for it: see [`ResultSet::command_line`].
    pub command_line: Vec<String>,
    /// What the study is about, in a line.
    pub description: &'a str,
    /// Threads.
    pub jobs: usize,
    /// Stops the work.
    pub control: &'a Arc<Control>,
}

impl<'a> Study<'a> {
    /// A study as it was typed; its recipe names `command`.
    pub fn typed(
        command: &str,
        replay: &'a Replay,
        session: &SessionArgs,
        recorded_compactions: Compactions,
        control: &'a Arc<Control>,
    ) -> Study<'a> {
        let recipe = recipe_of(command, replay, session, recorded_compactions);
        let command_line = typed::words();
        Study { replay, recipe, command_line, description: "", jobs: session.jobs, control }
    }

    /// The results of its cells.
    ///
    /// # Errors
    /// As [`recipe`].
    pub fn results(&self, skipped: Vec<Skipped>, cells: Vec<Cell>) -> Result<ResultSet, Failure> {
        let mut results = ResultSet::new(recipe(self)?, skipped, cells);
        let known = |model: &str| Some((model.to_owned(), self.replay.models.get(model).ok()?.window_tokens));
        results.windows = results.totals.iter().filter_map(|total| known(&total.model)).collect();
        results.command_line.clone_from(&self.command_line);
        Ok(results)
    }

    /// What an interrupted run of the same command left in `folder`; nothing without `--resume`.
    ///
    /// # Errors
    /// As [`ResumeArgs::earlier`].
    pub fn earlier(
        &self,
        args: ResumeArgs,
        folder: Option<&Path>,
        terminal: &Terminal,
    ) -> Result<Earlier, Failure> {
        if args.resume && self.replay.options.shared_cache {
            let message = "--resume cannot go on with --shared-cache: what is left would meet an empty cache; leave \
                           one of them out";
            return Err(Failure::new(exit::USAGE, message));
        }
        let cells_per_session = self.replay.policies.len() * self.replay.model_ids.len().max(1);
        args.earlier(folder, &recipe(self)?, cells_per_session, terminal)
    }
}

/// Which files to write, opened before the work begins.
#[derive(Default)]
pub struct Files {
    /// The folder.
    pub dir: Option<OutputDir>,
    /// requests.csv.
    pub requests: Option<RequestsWriter<OutputFile>>,
    /// requests.parquet.
    pub parquet: Option<parquet::Requests>,
    /// events.jsonl.
    pub events: Option<OutputFile>,
    /// Pictures to draw into the folder.
    pub pictures: Option<Pictures>,
    /// Requests for report.html.
    pub page: Option<html::Runs>,
}

impl Files {
    /// Opens everything of an output folder, and `requests` if it is wanted by itself.
    ///
    /// # Errors
    /// A foreign folder without `--force`; anything that cannot be written.
    pub fn open(out: Option<&Path>, force: bool, requests: Option<&Path>) -> Result<Files, Failure> {
        let mut files = Files::default();
        if let Some(path) = out {
            let dir = OutputDir::open(path, force)?;
            files.requests = Some(RequestsWriter::new(dir.create("requests.csv")?)?);
            files.parquet = parquet::Requests::create(&dir)?;
            files.events = Some(dir.create("events.jsonl")?);
            files.pictures = Some(Pictures::default());
            files.page = Some(html::Runs::default());
            files.dir = Some(dir);
        }
        if let Some(path) = requests {
            files.requests = Some(RequestsWriter::new(OutputFile::create(path)?)?);
        }
        Ok(files)
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.dir.is_none() && self.detail() == Detail::Summary
    }

    fn detail(&self) -> Detail {
        let streams =
            [self.requests.is_some(), self.parquet.is_some(), self.events.is_some(), self.page.is_some()];
        if streams.contains(&true) || self.pictures.is_some() { Detail::Full } else { Detail::Summary }
    }
}

/// Where finished cells go.
struct Sink<'a, 'w> {
    files: Files,
    watch: Option<&'w mut dyn FnMut(&RunRecord<'_>)>,
    cells: Vec<Cell>,
    curves: Curves,
    study: &'a Study<'a>,
    /// Sessions that an earlier run finished, the next one last, and their requests.
    kept: Vec<&'a [Cell]>,
    records: Records,
}

impl Sink<'_, '_> {
    /// Writes a cell down.
    fn take(&mut self, cell: Cell, record: &FullRecorder, window_tokens: u64) -> Result<(), Failure> {
        let run = RunRecord {
            session: &cell.session,
            policy: &cell.policy,
            model: &cell.model,
            record,
            stopped_at_request: cell.summary.stopped_at_request,
        };
        write_record(&mut self.files, &run, window_tokens)?;
        if let Some(watch) = &mut self.watch {
            watch(&run);
        }
        self.cells.push(cell);
        Ok(())
    }

    /// Writes down what is kept of sessions before `session`, or of all.
    fn take_kept(&mut self, session: Option<&str>) -> Result<(), Failure> {
        let before =
            |cells: &[Cell]| session.is_none_or(|s| cells.first().is_some_and(|c| c.session.as_str() < s));
        while let Some(cells) = self.kept.pop_if(|cells| before(cells)) {
            for cell in cells {
                let key = (cell.session.clone(), cell.policy.clone(), cell.model.clone());
                let record = self.records.remove(&key).unwrap_or_default();
                let window_tokens = self.study.replay.own_model(&cell.model)?.0.window_tokens;
                self.take(cell.clone(), &record, window_tokens)?;
            }
        }
        Ok(())
    }
}

/// Runs every cell that `earlier` does not have, streams the files, and returns the results.
///
/// `watch` sees every cell with its requests.
///
/// # Errors
/// Strategies that do not fit a model; files that cannot be written.
pub fn run(
    study: &Study<'_>,
    corpus: &Corpus,
    earlier: &Earlier,
    files: Files,
    terminal: &Terminal,
    watch: Option<&mut dyn FnMut(&RunRecord<'_>)>,
) -> Result<ResultSet, Failure> {
    let detail = if watch.is_some() { Detail::Full } else { files.detail() };
    let usable = |id: &str| earlier.cells(id).filter(|_| !corpus.shared.contains(id));
    let (kept, fresh): (Vec<_>, Vec<_>) =
        corpus.sessions.iter().cloned().partition(|session| usable(&session.id).is_some());
    let plan = plan(study.replay, &study.replay.model_ids, &fresh)?;
    warn(&plan, &mut Warned::default(), terminal);
    let records = if detail == Detail::Full { earlier.records()? } else { Records::new() };
    let kept = kept.iter().rev().filter_map(|session| usable(&session.id)).collect();
    let mut sink = Sink { files, watch, cells: Vec::new(), curves: Curves::default(), study, kept, records };
    let progress = Progress::start(terminal, study.control, "cells", plan.cells());
    let complete = runner::run(&plan, detail, study.jobs, study.control, |block: Vec<CellResult>| {
        for mut result in block {
            let window_tokens = plan.models[result.model.model].window_tokens;
            let curve = std::mem::take(&mut result.curve);
            let (cell, record) = cell(&plan, study.replay, result);
            sink.take_kept(Some(&cell.session))?;
            sink.curves.keep(&cell, curve);
            sink.take(cell, &record, window_tokens)?;
        }
        Ok::<(), Failure>(())
    })?;
    drop(progress);
    sink.take_kept(None)?;
    let mut results = study.results(corpus.skipped.clone(), sink.cells)?;
    results.interrupted = !complete || corpus.interrupted;
    results.curves = sink.curves;
    finish(sink.files, &results, study.description, terminal)?;
    Ok(results)
}

/// A finished cell, and its requests and events.
pub fn cell(plan: &Plan, replay: &Replay, result: CellResult) -> (Cell, FullRecorder) {
    let cell = Cell {
        session: plan.sessions[result.session].session.id.clone(),
        policy: replay.policies[result.policy].label.clone(),
        model: plan.models[result.model.model].id.clone(),
        model_substituted: result.model.substituted,
        summary: result.summary,
    };
    (cell, result.record)
}

fn write_record(files: &mut Files, run: &RunRecord<'_>, window_tokens: u64) -> Result<(), Failure> {
    if let Some(requests) = &mut files.requests {
        requests.write(run)?;
    }
    if let Some(rows) = &mut files.parquet {
        rows.write(run)?;
    }
    if let Some(out) = &mut files.events {
        events::write(out, run)?;
    }
    if let Some(pictures) = &mut files.pictures {
        pictures.add(run, window_tokens);
    }
    if let Some(page) = &mut files.page {
        page.add(run, window_tokens);
    }
    Ok(())
}

fn finish(files: Files, results: &ResultSet, description: &str, terminal: &Terminal) -> Result<(), Failure> {
    if let Some(requests) = files.requests {
        requests.finish()?.commit()?;
    }
    if let Some(rows) = files.parquet {
        rows.commit()?;
    }
    if let Some(events) = files.events {
        events.commit()?;
    }
    let Some(dir) = files.dir else { return Ok(()) };
    dir.write("results.json", &json::write(results))?;
    parquet::write_results(&dir, results)?;
    let drawn = match &files.pictures {
        Some(pictures) => pictures.write(&dir, results)?,
        None => Vec::new(),
    };
    let digest = wire::digest(results);
    let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
    dir.write("report.md", markdown::report(title, description, results, &digest, &drawn).as_bytes())?;
    let heading = html::Heading { title, description, digest: &digest };
    dir.write("report.html", &html::write(&heading, results, &files.page.unwrap_or_default()))?;
    terminal.note(&format!("written to {}", dir.path().display()));
    Ok(())
}

/// The plan of all cells: each session on the models asked for, else on its own.
///
/// # Errors
/// Models without a price on the day asked for; strategies that do not fit a model.
pub fn plan(replay: &Replay, model_ids: &[String], from: &[Arc<Session>]) -> Result<Plan, Failure> {
    let mut models: Vec<ModelSpec> = Vec::new();
    let mut sessions: Vec<Planned> = Vec::new();
    for id in model_ids {
        models.push(replay.asked_model(id)?);
    }
    for session in from {
        let choices = match model_ids.is_empty() {
            true => vec![own_choice(replay, session, &mut models)?],
            false => (0..model_ids.len()).map(|model| ModelChoice { model, substituted: None }).collect(),
        };
        sessions.push(Planned { session: Arc::clone(session), models: choices });
    }
    let mut strategies: Vec<Vec<Strategy>> = Vec::new();
    for config in &replay.policies {
        let of_models = models.iter().map(|model| config.strategy(model, &replay.models));
        strategies.push(of_models.collect::<Result<_, _>>()?);
    }
    Ok(Plan { sessions, models, strategies, options: replay.options.clone() })
}

/// A session's own model.
fn own_choice(
    replay: &Replay,
    session: &Session,
    models: &mut Vec<ModelSpec>,
) -> Result<ModelChoice, Failure> {
    let (model, substituted) = replay.own_model(&session.model)?;
    let index = models.iter().position(|m| m.id == model.id).unwrap_or_else(|| {
        models.push(model);
        models.len() - 1
    });
    Ok(ModelChoice { model: index, substituted: substituted.then(|| session.model.clone()) })
}

/// What the user was warned of already.
#[derive(Debug, Default)]
pub struct Warned {
    substitutes: BTreeSet<(String, String)>,
    /// Configurations were looked at, on the sessions that came first.
    configurations: bool,
}

/// Says what is odd about a plan: models that stand in for unknown ones, and configurations that cannot do
/// what they say.
pub fn warn(plan: &Plan, warned: &mut Warned, terminal: &Terminal) {
    let choices = plan.sessions.iter().flat_map(|s| &s.models);
    let pairs = choices.filter_map(|c| Some((c.substituted.clone()?, plan.models[c.model].id.clone())));
    for (id, model) in pairs.collect::<BTreeSet<_>>() {
        if warned.substitutes.insert((id.clone(), model.clone())) {
            let text = format!("unknown model `{id}` is simulated as {model}; choose another one with -m");
            terminal.warn(&text);
        }
    }
    if !std::mem::replace(&mut warned.configurations, true) {
        let sessions = plan.sessions.iter().map(|s| &*s.session);
        super::check::warn(&plan.strategies, &plan.models, sessions, terminal);
    }
}

/// The recipe does not depend on the corpus, so that all shards of a run have the same one.
///
/// # Errors
/// Models without a price on the day asked for.
pub fn recipe(study: &Study<'_>) -> Result<Recipe, Failure> {
    let model = match study.replay.model_ids.first() {
        Some(id) => study.replay.asked_model(id)?,
        None => study.replay.own_model("")?.0,
    };
    let policies = study.replay.policies.iter().map(|config| RecipePolicy {
        label: config.label.clone(),
        preset: config.preset.name.clone(),
        params: params(config, &model),
    });
    Ok(Recipe { policies: policies.collect(), ..study.recipe.clone() })
}

fn params(config: &PolicyConfig, model: &ModelSpec) -> serde_json::Map<String, serde_json::Value> {
    let value = |v: &ParamValue| match v {
        ParamValue::Bool(b) => (*b).into(),
        ParamValue::Int(n) => (*n).into(),
        ParamValue::Decimal(d) => serde_json::json!(d),
        ParamValue::Text(text) => text.as_str().into(),
        ParamValue::List(words) => words.clone().into(),
    };
    let own = config.resolved_params(model);
    own.iter()
        .chain(&config.common.clone().into_iter().collect::<Vec<_>>())
        .map(|(k, v)| (k.clone(), value(v)))
        .collect()
}

/// The part of a recipe that does not depend on the corpus.
fn recipe_of(
    command: &str,
    replay: &Replay,
    session: &SessionArgs,
    recorded_compactions: Compactions,
) -> Recipe {
    Recipe {
        ctxsim: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        scenario: None,
        seed: replay.seed,
        tokens: session.tokens.clone(),
        account: replay.account.to_owned(),
        on_binding_error: replay.on_binding_error.map(str::to_owned),
        recorded_compactions: compactions_word(recorded_compactions).to_owned(),
        models: replay.model_ids.clone(),
        price_date: replay.price_date.map(|d| d.to_string()),
        shared_cache: replay.options.shared_cache,
        service: replay.service.words(),
        shard: session.shard.map(|s| s.to_string()),
        policies: Vec::new(),
    }
}

/// Prints results in the format asked for.
///
/// # Errors
/// Those of stdout.
pub fn print(results: &ResultSet, format: Format, terminal: &Terminal) -> Result<(), Failure> {
    match format {
        Format::Table => terminal.print(&report::table::write(results, terminal.style)),
        Format::Json => terminal.print_bytes(&json::write(results)),
        Format::Csv => terminal.print_bytes(&report::csv::write(results)?),
        Format::Markdown => terminal.print(&markdown::write(results)),
    }
}

/// Names what was skipped on stderr, and gives the exit code of a finished command.
pub fn end(results: &ResultSet, corpus: &Corpus, terminal: &Terminal) -> u8 {
    report_skipped(&corpus.skipped, terminal);
    if results.interrupted {
        terminal.warn(&format!("interrupted; the {} cells that were finished are kept", results.cells.len()));
        return exit::INTERRUPTED;
    }
    if corpus.skipped_files > 0 { exit::SKIPPED } else { exit::DONE }
}

/// Names skipped inputs on stderr, the first few of many.
pub fn report_skipped(skipped: &[Skipped], terminal: &Terminal) {
    const SHOWN: usize = 10;
    for s in skipped.iter().take(SHOWN) {
        let line = if s.line == 0 { String::new() } else { format!(", line {}", s.line) };
        terminal.warn(&format!("skipped {}{line}: {}", s.path, s.reason));
    }
    if skipped.len() > SHOWN {
        terminal.warn(&format!("skipped {} more; results.json names them", skipped.len() - SHOWN));
    }
}
