//! `ctxsim audit`: why a recorded session paid for tokens again.

use std::path::PathBuf;

use clap::Args;
use ctxsim::audit::{self, Account, Audit, DETECTORS};
use ctxsim::ingest::{Detail, Recording};
use ctxsim::provider::price::Date;
use ctxsim::provider::service::Service;
use ctxsim::report::files::OutputDir;
use ctxsim::report::{Recipe, Skipped, audit as text, audit_wire};
use ctxsim::sweep::corpus;

use super::args::{Format, InputArgs, OutputArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::kept::Kept;
use super::load::{self, LoadOptions};
use super::output::Terminal;
use super::service::ServiceArgs;
use super::{progress, resolve, study};

/// Shown by `--help`.
pub const EXAMPLES: &str = "Examples:
  ctxsim audit session.jsonl
  ctxsim audit ~/.claude/projects --since 2026-11-01 --format json > audit.json

Without INPUT, the sessions that agents keep on this machine are read. --format csv prints every break; -o writes \
audit.json, misses.csv, breaks.csv and report.md.";

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub session: SessionArgs,
    /// More models, or other prices (TOML)
    #[arg(long, value_name = "FILE", help_heading = "Prices")]
    pub models_file: Vec<PathBuf>,
    /// Use the prices of this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE", help_heading = "Prices")]
    pub price_date: Option<String>,
    /// List what is looked for, and read nothing
    #[arg(long)]
    pub detectors: bool,
    #[command(flatten, next_help_heading = "Prices")]
    pub service: ServiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl Kept for Account {
    const DETAIL: Detail = Detail::Facts;

    fn of(recording: &Recording, _: &LoadOptions) -> Account {
        match recording {
            Recording::Transcript(transcript) => Account::of(transcript),
            Recording::Session(session) | Recording::Hashed { session, .. } => Account::of_session(session),
        }
    }

    fn id(&self) -> &str {
        &self.session_id
    }

    fn requests(&self) -> usize {
        self.requests.len()
    }

    fn last_ms(&self) -> Option<i64> {
        self.requests.iter().rev().find_map(|request| request.start_ms)
    }
}

/// Runs the command.
pub fn run(args: &AuditArgs, terminal: &Terminal) -> Outcome {
    if args.detectors {
        terminal.print_grid(text::detectors(DETECTORS), args.output.format)?;
        return Ok(exit::DONE);
    }
    let service = args.service.service();
    let models = resolve::load_models(&args.models_file)?.bought(&service)?;
    let price_date = args.price_date.as_deref().map(str::parse::<Date>).transpose()?;
    let options = LoadOptions::resolve(&args.input, &args.session, None)?;
    let out = &args.output;
    let dir = out.out.as_deref().map(|path| OutputDir::open(path, out.force)).transpose()?;
    let control = progress::control(terminal);
    let found: load::Corpus<Account> = load::load_as(&options, &control, terminal)?;
    let audits = corpus::map_inputs(&found.sessions, args.session.jobs, &control, |account| {
        // What a recording states was paid in the way it was bought then.
        let restated = (service != Service::default())
            .then(|| Account { recorded_cost_pusd: None, ..Account::clone(account) });
        audit::audit(restated.as_ref().unwrap_or(account), &models, price_date)
    })?;
    let interrupted = found.interrupted || audits.iter().any(Option::is_none);
    let audit = Audit::new(audits.into_iter().flatten().collect());
    let recipe = recipe(args, price_date);
    if let Some(dir) = &dir {
        write(dir, &audit, &recipe, &found.skipped, interrupted)?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    match out.format {
        Format::Table => terminal.print(&text::text(&audit, terminal.style))?,
        Format::Markdown => terminal.print(&text::markdown(&audit))?,
        Format::Csv => terminal.print_bytes(&text::breaks_csv(&audit)?)?,
        Format::Json => {
            terminal.print_bytes(&audit_wire::write(&audit, &recipe, &found.skipped, interrupted))?;
        }
    }
    study::report_skipped(&found.skipped, terminal);
    Ok(match interrupted {
        true => exit::INTERRUPTED,
        false if found.skipped_files > 0 => exit::SKIPPED,
        false => exit::DONE,
    })
}

fn recipe(args: &AuditArgs, price_date: Option<Date>) -> Recipe {
    Recipe {
        ctxsim: env!("CARGO_PKG_VERSION").to_owned(),
        command: "audit".to_owned(),
        tokens: "recorded".to_owned(),
        price_date: price_date.map(|date| date.to_string()),
        service: args.service.service().words(),
        shard: args.session.shard.map(|shard| shard.to_string()),
        ..Recipe::default()
    }
}

/// Writes every file of an audit.
fn write(
    dir: &OutputDir,
    audit: &Audit,
    recipe: &Recipe,
    skipped: &[Skipped],
    interrupted: bool,
) -> Result<(), Failure> {
    dir.write("audit.json", &audit_wire::write(audit, recipe, skipped, interrupted))?;
    dir.write("misses.csv", &text::misses_csv(audit)?)?;
    dir.write("breaks.csv", &text::breaks_csv(audit)?)?;
    dir.write("report.md", format!("# audit\n\n{}", text::markdown(audit)).as_bytes())?;
    Ok(())
}
