//! `ctxsim tune`.

use std::sync::atomic::Ordering;

use clap::Args;
use ctxsim::metrics::parse_decimal;
use ctxsim::report::files::OutputDir;
use ctxsim::report::plot::Trials;
use ctxsim::report::{json, markdown, table};
use ctxsim::tune::{self, Cells, Reproduction, Settings, Space, Tuned, Wish, output, wire::TuneWire};

use super::args::{Compactions, Format, InputArgs, OutputArgs, ReplayArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::load;
use super::output::Terminal;
use super::progress::{self, Progress};
use super::resolve::Replay;
use super::study::{self, Study};

/// For the help.
pub const EXAMPLES: &str = "Examples:
  ctxsim tune ~/.claude/projects -p arcturn --param minCharsPerPass --param keepRecentTurns --subject-to 'hit_rate >= 0.95'
  ctxsim tune traces -p arcturn --param minCharsPerPass=10000..200000:log:15 --format json -o tuned

A parameter without a SPEC is searched around its default, within its range and on its scale, and closer and closer to \
the best value; a SPEC (as of `sweep --grid`) names all values that may be taken. The first policy, as typed, is the \
baseline. What is recommended lies in the middle of the values that cannot be told from the best one, and must be \
better than the baseline beyond the noise between sessions, also on those held out; otherwise nothing is recommended, \
and the reason is printed.";

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// A parameter to search, with the values it may take or without
    #[arg(long, value_name = "KEY[=SPEC]", required = true, help_heading = "Search")]
    pub param: Vec<String>,
    /// The metric to make small, or large if that is better (see `ctxsim metrics`)
    #[arg(long, value_name = "METRIC", default_value = "cost_usd", help_heading = "Search")]
    pub objective: String,
    /// What must hold besides, such as 'hit_rate >= 0.95'
    #[arg(long, value_name = "RULE", help_heading = "Search")]
    pub subject_to: Vec<String>,
    /// Most candidates to run
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Search")]
    pub trials: usize,
    /// Share of the sessions, by hash of their id, that is held out to check the result on
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share, help_heading = "Search")]
    pub holdout: u64,
    #[command(flatten)]
    pub session: SessionArgs,
    /// The recording's own compactions: undo them, or keep them
    #[arg(long, value_name = "WHAT", default_value = "undo", help_heading = "Sessions")]
    pub recorded_compactions: Compactions,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A share in millionths.
pub(super) fn share(text: &str) -> Result<u64, String> {
    let millionths = parse_decimal(text, 6).ok().and_then(|n| u64::try_from(n).ok());
    millionths
        .filter(|n| *n < 1_000_000)
        .ok_or_else(|| "write a number from 0 to below 1, such as 0.3".to_owned())
}

/// Runs the command.
pub fn run(args: &TuneArgs, terminal: &Terminal) -> Outcome {
    let wishes = args.param.iter().map(|text| text.parse()).collect::<Result<Vec<Wish>, _>>()?;
    let settings = Settings {
        trials: args.trials.max(1),
        holdout_millionths: args.holdout,
        seed: args.replay.seed,
        ..Settings::new(&args.objective, &args.subject_to)?
    };
    let replay = Replay::resolve(&args.replay, terminal)?;
    if replay.model_ids.len() > 1 {
        return Err(Failure::new(
            exit::USAGE,
            "tune runs each session on one model; leave all but one -m out",
        ));
    }
    let space = Space::new(&replay.policies, &wishes)?;
    let options = load::LoadOptions::resolve(&args.input, &args.session, Some(args.recorded_compactions))?;
    let dir = args.output.out.as_deref().map(|path| OutputDir::open(path, args.output.force)).transpose()?;
    let control = progress::control(terminal);
    let corpus = load::load(&options, &control, terminal)?;
    let study = Study::typed("tune", &replay, &args.session, args.recorded_compactions, &control);
    let recipe = study::recipe(&study)?;
    let own = study::plan(&replay, &[], &corpus.sessions)?;
    let found = tune::reproduce(&own, &replay.models, study.jobs, &control)?;
    let plan = study::plan(&replay, &replay.model_ids, &corpus.sessions)?;
    study::warn(&plan, &mut study::Warned::default(), terminal);
    let ids: Vec<String> = plan.sessions.iter().map(|p| p.session.id.clone()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    // Every trial may run on every session; a search that ends sooner ends the bar sooner.
    let cells = (settings.trials as u64).saturating_mul(ids.len() as u64);
    let progress = Progress::start(terminal, &control, "cells, at most", cells);
    let mut evaluate = Cells { plan, models: &replay.models, jobs: study.jobs, control: &control };
    let mut tuned = tune::tune(space, settings, &ids, &mut evaluate)?;
    drop(progress);
    let reproduction = found.unwrap_or_default();
    doubt(&mut tuned, &reproduction, control.stop.load(Ordering::Relaxed) || corpus.interrupted);
    let warnings = warnings(&reproduction, ids.len());
    warnings.iter().for_each(|warning| terminal.warn(warning));
    let wire = TuneWire::of(&tuned, &recipe, &reproduction, &corpus.skipped, &warnings)
        .map_err(|error| Failure::new(exit::BUG, error.to_string()))?;
    if let Some(dir) = &dir {
        write(dir, &wire, &tuned, markdown_text(&tuned, &reproduction))?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    match args.output.format {
        Format::Table => terminal.print(&table_text(&tuned, &reproduction, terminal))?,
        Format::Json => terminal.print_bytes(&json::pretty(&wire))?,
        Format::Csv => terminal.print_bytes(&output::csv(&tuned)?)?,
        Format::Markdown => terminal.print(&markdown_text(&tuned, &reproduction))?,
    }
    study::report_skipped(&corpus.skipped, terminal);
    if !tuned.complete || corpus.interrupted {
        terminal.warn("interrupted; what was run until then is shown, and nothing is recommended");
        return Ok(exit::INTERRUPTED);
    }
    Ok(if corpus.skipped_files > 0 { exit::SKIPPED } else { exit::DONE })
}

/// Writes the files of a search into a folder.
fn write(dir: &OutputDir, wire: &TuneWire, tuned: &Tuned, text: String) -> Result<(), Failure> {
    dir.write("tune.json", &json::pretty(wire))?;
    dir.write("tune.csv", &output::csv(tuned)?)?;
    let document = serde_json::to_value(wire).map_err(|error| Failure::new(exit::BUG, error.to_string()))?;
    let [searched, hits] = [false, true].map(|against_cost| Trials::of_tune(&document, None, against_cost));
    let mut report = format!("# tune\n\n{text}");
    for (caption, path) in super::pictures::write_trials(dir, &searched?, &hits?)? {
        report.push_str(&format!("\n![{caption}]({path})\n"));
    }
    Ok(dir.write("report.md", report.as_bytes())?)
}

/// Takes a recommendation back that rests on nothing.
fn doubt(tuned: &mut Tuned, reproduction: &Reproduction, interrupted: bool) {
    tuned.complete &= !interrupted;
    if interrupted {
        tuned.recommended = Err("the search was interrupted".to_owned());
    } else if !reproduction.is_near() {
        let [recorded, simulated] = [reproduction.recorded_pusd, reproduction.simulated_pusd]
            .map(|pusd| ctxsim::metrics::Usd(pusd).rounded(4));
        tuned.recommended = Err(format!(
            "the recorded run cannot be reproduced: replayed as it was, it costs ${simulated}, and ${recorded} was billed"
        ));
    }
}

fn warnings(reproduction: &Reproduction, sessions: usize) -> Vec<String> {
    let without = reproduction.sessions_without_usage;
    let text = format!(
        "{without} of {sessions} recordings have no usage; whether the replay is right cannot be checked on them"
    );
    (without > 0).then_some(text).into_iter().collect()
}

fn table_text(tuned: &Tuned, reproduction: &Reproduction, terminal: &Terminal) -> String {
    let mut out = table::draw(output::grid(tuned), terminal.style);
    out.push('\n');
    for sentence in output::sentences(tuned, reproduction) {
        out.push_str(&table::harmless(&sentence));
        out.push('\n');
    }
    if let Some(configuration) = chosen(tuned) {
        out.push_str(&format!(
            "\nFor {}:\n\n{}",
            configuration.goes_into,
            table::harmless(&configuration.text)
        ));
    }
    out
}

fn markdown_text(tuned: &Tuned, reproduction: &Reproduction) -> String {
    let sentences: String =
        output::sentences(tuned, reproduction).iter().map(|sentence| format!("- {sentence}\n")).collect();
    let mut out = format!("{}\n{sentences}", markdown::grid(&output::grid(tuned)));
    if let Some(configuration) = chosen(tuned) {
        out.push_str(&format!("\nFor {}:\n\n```\n{}```\n", configuration.goes_into, configuration.text));
    }
    out
}

fn chosen(tuned: &Tuned) -> Option<ctxsim::config::agents::Configuration> {
    tuned.recommended.as_ref().ok().and_then(|i| output::configuration(&tuned.tried[*i]))
}
