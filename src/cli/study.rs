//! What `simulate` and `run` share: sessions through strategies, and the files of a study.

use std::path::Path;
use std::sync::Arc;

use ctxsim::policy::{ParamValue, PolicyConfig, Strategy};
use ctxsim::provider::ModelSpec;
use ctxsim::report::files::{OutputDir, OutputFile};
use ctxsim::report::requests::{RequestsWriter, RunRecord};
use ctxsim::report::{self, Cell, Recipe, RecipePolicy, ResultSet, Skipped, events, json, markdown, wire};
use ctxsim::session::Session;
use ctxsim::sweep::{CellResult, Control, Detail, ModelChoice, Plan, Planned, Shard, runner};

use super::exit::{self, Failure};
use super::load::Corpus;
use super::output::Terminal;
use super::pictures::Pictures;
use super::progress::Progress;
use super::resolve::Replay;

/// How a study runs, besides its strategies.
pub struct Study<'a> {
    /// Strategies, models and options.
    pub replay: &'a Replay,
    /// What the recipe says besides these.
    pub recipe: Recipe,
    /// What the study is about, in a line.
    pub description: &'a str,
    /// Threads.
    pub jobs: usize,
    /// Stops the work.
    pub control: &'a Arc<Control>,
}

/// Which files to write, opened before the work begins.
#[derive(Default)]
pub struct Files {
    /// The folder.
    pub dir: Option<OutputDir>,
    /// requests.csv.
    pub requests: Option<RequestsWriter<OutputFile>>,
    /// events.jsonl.
    pub events: Option<OutputFile>,
    /// Pictures to draw into the folder.
    pub pictures: Option<Pictures>,
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
            files.events = Some(dir.create("events.jsonl")?);
            files.pictures = Some(Pictures::default());
            files.dir = Some(dir);
        }
        if let Some(path) = requests {
            files.requests = Some(RequestsWriter::new(OutputFile::create(path)?)?);
        }
        Ok(files)
    }

    fn detail(&self) -> Detail {
        let any = self.requests.is_some() || self.events.is_some() || self.pictures.is_some();
        if any { Detail::Full } else { Detail::Summary }
    }
}

/// Runs every cell, streams the files, and returns the results.
///
/// `watch` sees every cell with its requests.
///
/// # Errors
/// Strategies that do not fit a model; files that cannot be written.
pub fn run(
    study: &Study<'_>,
    corpus: &Corpus,
    mut files: Files,
    terminal: &Terminal,
    mut watch: Option<&mut dyn FnMut(&RunRecord<'_>)>,
) -> Result<ResultSet, Failure> {
    let plan = plan(study.replay, corpus, terminal)?;
    let labels: Vec<&str> = study.replay.policies.iter().map(|p| p.label.as_str()).collect();
    let detail = if watch.is_some() { Detail::Full } else { files.detail() };
    let mut cells: Vec<Cell> = Vec::new();
    let progress = Progress::start(terminal, study.control, "cells", plan.cells());
    let complete = runner::run(&plan, detail, study.jobs, study.control, |block: Vec<CellResult>| {
        for result in block {
            let model = &plan.models[result.model.model];
            let run = RunRecord {
                session: &plan.sessions[result.session].session.id,
                policy: labels[result.policy],
                model: &model.id,
                record: &result.record,
                stopped_at_request: result.summary.stopped_at_request,
            };
            write_record(&mut files, &run, model)?;
            if let Some(watch) = &mut watch {
                watch(&run);
            }
            cells.push(Cell {
                session: run.session.to_owned(),
                policy: run.policy.to_owned(),
                model: model.id.clone(),
                model_substituted: result.model.substituted,
                summary: result.summary,
            });
        }
        Ok::<(), Failure>(())
    })?;
    drop(progress);
    let recipe = recipe(study)?;
    let mut results = ResultSet::new(recipe, corpus.skipped.clone(), cells);
    results.interrupted = !complete || corpus.interrupted;
    finish(files, &results, study.description, terminal)?;
    Ok(results)
}

fn write_record(files: &mut Files, run: &RunRecord<'_>, model: &ModelSpec) -> Result<(), Failure> {
    if let Some(requests) = &mut files.requests {
        requests.write(run)?;
    }
    if let Some(out) = &mut files.events {
        events::write(out, run)?;
    }
    if let Some(pictures) = &mut files.pictures {
        pictures.add(run, model.window_tokens);
    }
    Ok(())
}

fn finish(files: Files, results: &ResultSet, description: &str, terminal: &Terminal) -> Result<(), Failure> {
    if let Some(requests) = files.requests {
        requests.finish()?.commit()?;
    }
    if let Some(events) = files.events {
        events.commit()?;
    }
    let Some(dir) = files.dir else { return Ok(()) };
    dir.write("results.json", &json::write(results))?;
    let drawn = match &files.pictures {
        Some(pictures) => pictures.write(&dir)?,
        None => Vec::new(),
    };
    let digest = wire::digest(results);
    let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
    dir.write("report.md", markdown::report(title, description, results, &digest, &drawn).as_bytes())?;
    terminal.note(&format!("written to {}", dir.path().display()));
    Ok(())
}

/// The plan of all cells: sessions by id, each with its models.
fn plan(replay: &Replay, corpus: &Corpus, terminal: &Terminal) -> Result<Plan, Failure> {
    let mut models: Vec<ModelSpec> = Vec::new();
    let mut sessions: Vec<Planned> = Vec::new();
    for id in &replay.model_ids {
        models.push(replay.asked_model(id)?);
    }
    for session in &corpus.sessions {
        let choices = match models_of(replay, session, &mut models)? {
            Some(own) => vec![own],
            None => {
                (0..replay.model_ids.len()).map(|model| ModelChoice { model, substituted: None }).collect()
            }
        };
        sessions.push(Planned { session: Arc::clone(session), models: choices });
    }
    sessions.sort_by(|a, b| a.session.id.cmp(&b.session.id));
    warn_of_substitutes(&sessions, &models, terminal);
    let mut strategies: Vec<Vec<Strategy>> = Vec::new();
    for config in &replay.policies {
        let of_models = models.iter().map(|model| config.strategy(model, &replay.models));
        strategies.push(of_models.collect::<Result<_, _>>()?);
    }
    Ok(Plan { sessions, models, strategies, options: replay.options.clone() })
}

/// A session's own model, where none was asked for.
fn models_of(
    replay: &Replay,
    session: &Session,
    models: &mut Vec<ModelSpec>,
) -> Result<Option<ModelChoice>, Failure> {
    if !replay.model_ids.is_empty() {
        return Ok(None);
    }
    let (model, substituted) = replay.own_model(&session.model)?;
    let index = models.iter().position(|m| m.id == model.id).unwrap_or_else(|| {
        models.push(model);
        models.len() - 1
    });
    let substituted = substituted.then(|| session.model.clone());
    Ok(Some(ModelChoice { model: index, substituted }))
}

fn warn_of_substitutes(sessions: &[Planned], models: &[ModelSpec], terminal: &Terminal) {
    let choices = sessions.iter().flat_map(|s| &s.models);
    let mut pairs: Vec<(&str, &str)> =
        choices.filter_map(|c| Some((c.substituted.as_deref()?, models[c.model].id.as_str()))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (id, model) in pairs {
        terminal.warn(&format!("unknown model `{id}` is simulated as {model}; choose another one with -m"));
    }
}

/// The recipe does not depend on the corpus, so that all shards of a run have the same one.
fn recipe(study: &Study<'_>) -> Result<Recipe, Failure> {
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
pub fn recipe_of(
    replay: &Replay,
    command: &str,
    tokens: &str,
    recorded_compactions: &str,
    shard: Option<Shard>,
) -> Recipe {
    Recipe {
        ctxsim: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        scenario: None,
        seed: replay.seed,
        tokens: tokens.to_owned(),
        account: replay.account.to_owned(),
        on_binding_error: replay.on_binding_error.map(str::to_owned),
        recorded_compactions: recorded_compactions.to_owned(),
        models: replay.model_ids.clone(),
        price_date: replay.price_date.map(|d| d.to_string()),
        shard: shard.map(|s| s.to_string()),
        policies: Vec::new(),
    }
}

/// Prints results in the format asked for.
///
/// # Errors
/// Those of stdout.
pub fn print(results: &ResultSet, format: super::args::Format, terminal: &Terminal) -> Result<(), Failure> {
    use super::args::Format;
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
