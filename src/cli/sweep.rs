//! `ctxsim sweep`.

use std::collections::BTreeSet;

use clap::Args;
use ctxsim::policy::{PolicySpec, common_params, find_param};
use ctxsim::report::files::OutputDir;
use ctxsim::report::{ResultSet, grid, html, json, markdown, sweep, table, wire};
use ctxsim::sweep::Detail;
use ctxsim::sweep::axis::{Axis, expand};

use super::args::{Compactions, Format, InputArgs, OutputArgs, ReplayArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::explain::Explainer;
use super::output::Terminal;
use super::resolve::Replay;
use super::study::{self, Files, Study};
use super::{explain, load, progress, stream};

#[derive(Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// Values of a parameter; several make a full grid
    #[arg(long, value_name = "KEY=SPEC", required = true, help_heading = "Strategies and models")]
    pub grid: Vec<String>,
    #[command(flatten)]
    pub session: SessionArgs,
    /// The recording's own compactions: undo them, or keep them
    #[arg(long, value_name = "WHAT", default_value = "undo", help_heading = "Sessions")]
    pub recorded_compactions: Compactions,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub resume: super::resume::ResumeArgs,
    /// Tell the story of this session (its id, or how it begins) under the baseline and the best of the others, request
    /// by request; with -v also where nothing happened
    #[arg(long, value_name = "SESSION", help_heading = "Output")]
    pub explain: Option<String>,
}

/// Runs the command.
pub fn run(args: &SweepArgs, terminal: &Terminal) -> Outcome {
    let axes = args.grid.iter().map(|text| text.parse()).collect::<Result<Vec<Axis>, _>>()?;
    let mut replay = Replay::resolve(&args.replay, terminal)?;
    check_overrides(&args.replay.policies, &replay, &axes)?;
    replay.policies = expand(&replay.policies, &axes)?;
    let options = load::LoadOptions::resolve(&args.input, &args.session, Some(args.recorded_compactions))?;
    let dir = args.output.out.as_deref().map(|path| OutputDir::open(path, args.output.force)).transpose()?;
    let control = progress::control(terminal);
    let study = Study::typed("sweep", &replay, &args.session, args.recorded_compactions, &control);
    let earlier = study.earlier(args.resume, args.output.out.as_deref(), terminal)?;
    let wanted = explain::Wanted { session: args.explain.as_deref(), format: args.output.format };
    let (results, corpus, explainer) = match wanted.explained(terminal) {
        None => {
            let (results, corpus) = stream::run(&study, &options, &earlier, Detail::Summary, terminal)?;
            (results, corpus, None)
        }
        // All is read first: a slip in the id shows before the work.
        Some(session) => {
            let corpus = load::load(&options, &control, terminal)?;
            let explainer = Explainer::new(session, &corpus)?;
            let results = study::run(&study, &corpus, &earlier, Files::default(), terminal, None)?;
            (results, corpus, Some(explainer))
        }
    };
    if let Some(dir) = &dir {
        write(dir, &results)?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    if let Some(explainer) = explainer.filter(|_| !results.interrupted) {
        let labels = explained(&results);
        replay.policies.retain(|config| labels.contains(config.label.as_str()));
        explainer
            .replay(&replay, &corpus, (args.session.jobs, &control))?
            .print(&results, &replay, terminal)?;
    }
    print(&results, args.output.format, terminal)?;
    Ok(study::end(&results, &corpus, terminal))
}

/// Strategies of a grid that have a story: the baseline, and of each model the best other one.
fn explained(results: &ResultSet) -> BTreeSet<&str> {
    let baseline = results.baseline().unwrap_or_default();
    let best = sweep::best_of(results, |total| total.policy != baseline);
    let best = results.totals.iter().zip(best).filter(|(_, is_best)| *is_best);
    best.map(|(total, _)| total.policy.as_str()).chain([baseline]).collect()
}

/// A parameter that stands in a policy and in the grid has two values.
fn check_overrides(typed: &[String], replay: &Replay, axes: &[Axis]) -> Result<(), Failure> {
    let common = common_params();
    for (text, config) in typed.iter().zip(&replay.policies) {
        let name = |key: &str| {
            let found = find_param(&config.preset.params, key).or_else(|_| find_param(&common, key));
            found.ok().map(|param| param.name.clone())
        };
        let own: Vec<String> =
            text.parse::<PolicySpec>()?.overrides.iter().filter_map(|(key, _)| name(key)).collect();
        if let Some(axis) = axes.iter().find(|a| name(&a.key).is_some_and(|n| own.contains(&n))) {
            let message = format!("-p {text} sets {}, and so does --grid; leave one of them out", axis.key);
            return Err(Failure::new(exit::USAGE, message));
        }
    }
    Ok(())
}

/// Writes the files of a grid into a folder.
///
/// # Errors
/// Files that cannot be written.
pub fn write(dir: &OutputDir, results: &ResultSet) -> Result<(), Failure> {
    dir.write("results.json", &json::write(results))?;
    super::parquet::write_results(dir, results)?;
    dir.write("sweep.csv", &sweep::csv(results)?)?;
    let mut report = format!("# sweep\n\n{}", text(results));
    for (caption, path) in super::pictures::write_sweep(dir, results)? {
        report.push_str(&format!("\n![{caption}]({path})\n"));
    }
    dir.write("report.md", report.as_bytes())?;
    let heading = html::Heading { title: "sweep", description: "", digest: &wire::digest(results) };
    dir.write("report.html", &html::write(&heading, results, &html::Runs::default()))?;
    Ok(())
}

/// Prints a grid in the format asked for.
///
/// # Errors
/// Those of stdout.
pub fn print(results: &ResultSet, format: Format, terminal: &Terminal) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let mut out = table::draw(sweep::grid(results), terminal.style);
            out.push('\n');
            for note in grid::notes(results) {
                out.push_str(&table::harmless(&note));
                out.push('\n');
            }
            terminal.print(&out)
        }
        Format::Json => terminal.print_bytes(&json::write(results)),
        Format::Csv => terminal.print_bytes(&sweep::csv(results)?),
        Format::Markdown => terminal.print(&text(results)),
    }
}

fn text(results: &ResultSet) -> String {
    markdown::sweep(results)
}
