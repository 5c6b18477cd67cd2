//! `ctxsim simulate`.

use std::path::PathBuf;

use clap::Args;
use ctxsim::sweep::Detail;

use super::args::{Compactions, Format, InputArgs, OutputArgs, ReplayArgs, SessionArgs};
use super::exit::Outcome;
use super::output::Terminal;
use super::resolve::Replay;
use super::study::{self, Files, Study};
use super::{explain, load, progress, stream};

#[derive(Debug, Args)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
    #[command(flatten)]
    pub session: SessionArgs,
    /// The recording's own compactions: undo them, or keep them
    #[arg(long, value_name = "WHAT", default_value = "undo", help_heading = "Sessions")]
    pub recorded_compactions: Compactions,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub resume: super::resume::ResumeArgs,
    /// Write one row per request to this CSV file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub requests: Option<PathBuf>,
    /// Tell the story of this session (its id, or how it begins), request by request; with -v also where nothing happened
    #[arg(long, value_name = "SESSION", help_heading = "Output")]
    pub explain: Option<String>,
}

/// Runs the command.
pub fn run(args: &SimulateArgs, terminal: &Terminal) -> Outcome {
    let replay = Replay::resolve(&args.replay, terminal)?;
    let options = load::LoadOptions::resolve(&args.input, &args.session, Some(args.recorded_compactions))?;
    let control = progress::control(terminal);
    let study = Study::typed("simulate", &replay, &args.session, args.recorded_compactions, &control);
    let earlier = study.earlier(args.resume, args.output.out.as_deref(), terminal)?;
    let files = Files::open(args.output.out.as_deref(), args.output.force, args.requests.as_deref())?;
    if files.is_empty() && args.explain.is_none() {
        let detail = if args.output.format == Format::Table { Detail::Curve } else { Detail::Summary };
        let (results, corpus) = stream::run(&study, &options, &earlier, detail, terminal)?;
        study::print(&results, args.output.format, terminal)?;
        return Ok(study::end(&results, &corpus, terminal));
    }
    let corpus = load::load(&options, &control, terminal)?;
    let wanted = explain::Wanted { session: args.explain.as_deref(), format: args.output.format };
    let results = explain::run(&study, &corpus, &earlier, files, wanted, terminal)?;
    study::print(&results, args.output.format, terminal)?;
    Ok(study::end(&results, &corpus, terminal))
}
