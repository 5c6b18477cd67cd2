//! `ctxsim sweep`.

use clap::Args;
use ctxsim::policy::{PolicySpec, common_params, find_param};
use ctxsim::report::files::OutputDir;
use ctxsim::report::{ResultSet, grid, json, markdown, sweep, table};
use ctxsim::sweep::axis::{Axis, expand};

use super::args::{Compactions, Format, InputArgs, OutputArgs, ReplayArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::resolve::Replay;
use super::study::{self, Study};
use super::{load, progress, stream};

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
    let compactions = super::resolve::compactions_word(args.recorded_compactions);
    let study = Study {
        replay: &replay,
        recipe: study::recipe_of(&replay, "sweep", &args.session.tokens, compactions, args.session.shard),
        description: "",
        jobs: args.session.jobs,
        control: &control,
    };
    let earlier = study.earlier(args.resume, args.output.out.as_deref(), terminal)?;
    let (results, corpus) = stream::run(&study, &options, &earlier, terminal)?;
    if let Some(dir) = &dir {
        write(dir, &results)?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    print(&results, args.output.format, terminal)?;
    Ok(study::end(&results, &corpus, terminal))
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
    dir.write("report.md", format!("# sweep\n\n{}", text(results)).as_bytes())?;
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
    let notes: String = grid::notes(results).iter().map(|note| format!("- {note}\n")).collect();
    format!("{}\n{notes}", markdown::grid(&sweep::grid(results)))
}
