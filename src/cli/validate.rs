//! `ctxsim validate`: simulated against recorded usage.

use std::path::PathBuf;

use clap::Args;
use ctxsim::Error;
use ctxsim::provider::price::Date;
use ctxsim::report::files::OutputDir;
use ctxsim::report::validate::{Validation, causes_grid, grid, json, pairs_csv, rules_grid};
use ctxsim::report::{Recipe, csv, table, validate_document};
use ctxsim::session::Session;
use ctxsim::sweep::corpus;
use ctxsim::validate::rules::RULES;
use ctxsim::validate::{Fits, Options, Sums, hold_out, is_comparable, validate};

use super::args::{Compactions, Format, InputArgs, OutputArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::service::ServiceArgs;
use super::{load, progress, resolve, study};

/// End of the command's help.
pub const EXAMPLES: &str = "Examples:
  ctxsim validate session.jsonl
  ctxsim validate ~/.claude/projects --rules --format markdown > fidelity.md

A pair is two consecutive requests of the main chain with usage. exact: the predicted cache read is the billed one to the \
token; read + write: what the request before left, without any rule. open loop: median error of the last prompt of \
unbroken runs, from the first prompt and sizes alone, by coefficients of the other recordings. -o writes \
validate.json, sessions.csv, pairs.csv and report.md.";

#[derive(Debug, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub session: SessionArgs,
    /// Leave a rule out: compaction, ttl_expired, resume, task_tools, skill, side_away or side_repeat
    #[arg(long, value_name = "RULE", help_heading = "Comparison")]
    pub without: Vec<String>,
    /// Show what each rule wins and loses per recording, and the rules on recordings they were not chosen on
    #[arg(long, help_heading = "Comparison")]
    pub rules: bool,
    /// More models, or other prices (TOML)
    #[arg(long, value_name = "FILE", help_heading = "Comparison")]
    pub models_file: Vec<PathBuf>,
    /// Use the prices of this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE", help_heading = "Comparison")]
    pub price_date: Option<String>,
    #[command(flatten, next_help_heading = "Prices")]
    pub service: ServiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &ValidateArgs, terminal: &Terminal) -> Outcome {
    let options = options(args)?;
    let service = args.service.service();
    let models = resolve::load_models(&args.models_file)?.bought(&service)?;
    let load = load::LoadOptions::resolve(&args.input, &args.session, Some(Compactions::Keep))?;
    let dir = match &args.output.out {
        Some(path) => Some(OutputDir::open(path, args.output.force)?),
        None => None,
    };
    let control = progress::control(terminal);
    let read = load::load(&load, &control, terminal)?;
    let sessions: Vec<&Session> =
        read.sessions.iter().map(AsRef::as_ref).filter(|s| is_comparable(s)).collect();
    if sessions.is_empty() && !read.interrupted {
        let message = "no recording has two requests with usage: there is nothing to compare";
        return Err(Failure::new(exit::NO_MATCH, message));
    }
    let bar = progress::Progress::start(terminal, &control, "recordings", 2 * sessions.len() as u64);
    let mut fits = Fits::default();
    let sums = corpus::map_inputs(&sessions, args.session.jobs, &control, |session| Sums::of(session))?;
    for (session, sums) in sessions.iter().zip(sums.iter().flatten()) {
        fits.add(session, sums);
    }
    let reports = corpus::map_inputs(&sessions, args.session.jobs, &control, |session| {
        validate(session, &models, &fits, &options)
    })?;
    drop(bar);
    let complete = reports.iter().all(Option::is_some);
    let reports: Vec<_> = reports.into_iter().flatten().collect();
    let wants_rules = args.rules || args.output.format == Format::Markdown;
    let hold_out = (wants_rules && complete).then(|| hold_out(&sessions, &reports, &models, &options));
    let validation = Validation {
        recipe: recipe(args, &options),
        skipped: read.skipped.clone(),
        sessions: reports,
        hold_out,
        interrupted: !complete || read.interrupted,
    };
    if let Some(dir) = dir {
        dir.write("validate.json", &json(&validation))?;
        dir.write("sessions.csv", &csv::grid(&grid(&validation))?)?;
        dir.write("pairs.csv", &pairs_csv(&validation)?)?;
        dir.write("report.md", validate_document::write(&validation).as_bytes())?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    print(&validation, args, terminal)?;
    study::report_skipped(&validation.skipped, terminal);
    for session in validation.sessions.iter().filter(|session| session.is_unpriced) {
        terminal.note(&format!(
            "session {}: no price of {} is known, so no dollars",
            session.session, session.model
        ));
    }
    Ok(match validation.interrupted {
        true => exit::INTERRUPTED,
        false if read.skipped_files > 0 => exit::SKIPPED,
        false => exit::DONE,
    })
}

fn options(args: &ValidateArgs) -> Result<Options, Failure> {
    for id in &args.without {
        if !RULES.iter().any(|rule| rule.id == id) {
            return Err(Error::unknown("rule", id, RULES.iter().map(|rule| rule.id)).into());
        }
    }
    let price_date = args.price_date.as_deref().map(str::parse::<Date>).transpose()?;
    Ok(Options { price_date, without: args.without.clone() })
}

fn recipe(args: &ValidateArgs, options: &Options) -> Recipe {
    Recipe {
        ctxsim: env!("CARGO_PKG_VERSION").to_owned(),
        command: "validate".to_owned(),
        tokens: args.session.tokens.clone(),
        recorded_compactions: "keep".to_owned(),
        price_date: options.price_date.map(|date| date.to_string()),
        service: args.service.service().words(),
        shard: args.session.shard.map(|shard| shard.to_string()),
        ..Recipe::default()
    }
}

fn print(validation: &Validation, args: &ValidateArgs, terminal: &Terminal) -> Result<(), Failure> {
    match args.output.format {
        Format::Json => return terminal.print_bytes(&json(validation)),
        Format::Csv => return terminal.print_bytes(&csv::grid(&grid(validation))?),
        Format::Markdown => return terminal.print(&validate_document::write(validation)),
        Format::Table => {}
    }
    let mut grids = vec![grid(validation), causes_grid(validation)];
    if args.rules {
        grids.push(rules_grid(validation));
    }
    let drawn =
        grids.into_iter().filter(|grid| !grid.rows.is_empty()).map(|grid| table::draw(grid, terminal.style));
    let mut text = drawn.collect::<Vec<_>>().join("\n");
    if let Some(held) = &validation.hold_out {
        text.push_str(&format!(
            "\nrules held out: {} of {} exact, read + write {}\n",
            held.exact_reads, held.pairs, held.plain_exact_reads
        ));
    }
    terminal.print(&text)
}
