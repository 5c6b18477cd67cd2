//! What is typed. [`super::resolve`] says what it means.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Compared when no policy is given; the help of `simulate` says so.
pub const DEFAULT_POLICIES: [&str; 2] = ["none", "arcturn"];

/// Replays LLM-agent sessions through context strategies against a mock provider: cost, cache misses by
/// cause, and token curves.
#[derive(Debug, Parser)]
#[command(name = "ctxsim", version, max_term_width = 110, after_help = ROOT_EXAMPLES)]
pub struct Cli {
    /// Print results only: no progress and no remarks on stderr
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub quiet: bool,
    /// Say more about what is read and written
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub verbose: bool,
    /// Colour on stdout; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = EVERYWHERE)]
    pub color: clap::ColorChoice,
    #[command(subcommand)]
    pub command: Command,
}

/// Heading of what every command takes, so that it does not stand among its own options.
const EVERYWHERE: &str = "Global options";

const ROOT_EXAMPLES: &str = "Examples:
  ctxsim run scenarios/quickstart.toml
  ctxsim simulate ~/.claude/projects -p none -p arcturn

Exit codes: 0 done, 1 a gate failed, 2 wrong arguments or configuration, 3 no input could be read, 4 nothing matched, \
5 finished but some inputs were skipped, 70 a bug in ctxsim, 130 interrupted (what was finished is kept).";

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Do everything a scenario file asks for, into reports/<scenario>/
    #[command(after_help = "Examples:
  ctxsim run scenarios/quickstart.toml
  ctxsim run scenarios/*.toml --out studies --jobs 8")]
    Run(super::scenario::RunArgs),
    /// Compare strategies: one row per session, policy and model, and totals
    #[command(after_help = "Examples:
  ctxsim simulate session.jsonl -p none -p arcturn -p low=arcturn:minCharsPerPass=0
  ctxsim simulate ~/.claude/projects --project api -m claude-opus-5-5 --format json > results.json

Without INPUT, the sessions that agents keep on this machine are read. Without -p, `none` and `arcturn` are \
compared. The first policy is the baseline of the relative columns. -o writes results.json, requests.csv, \
events.jsonl, report.md, report.html and pictures.")]
    Simulate(Box<super::simulate::SimulateArgs>),
    /// Run a full grid of parameters: one row per strategy and model, the cheapest one marked
    #[command(after_help = "Examples:
  ctxsim sweep ~/.claude/projects -p none -p arcturn --grid minCharsPerPass=10000..200000:log:9
  ctxsim sweep traces -p arcturn --grid keepRecentTurns=1,3,5 --grid minCharsPerPass=0..90000:30000 -o out

A SPEC is a list (1,3,5), a range with a step (0..10:2), or a range of so many values, each the same factor above \
the one before (10000..200000:log:9); both ends belong to it. Every policy runs at every point of the grids that it \
has parameters for; those without any come first and as they are, and the first one is the baseline. -o writes \
results.json, sweep.csv, report.md, report.html and pictures.")]
    Sweep(Box<super::sweep::SweepArgs>),
    /// Search a policy's own parameters: the best values, the flat region around them, and whether to trust them
    #[command(after_help = super::tune::EXAMPLES)]
    Tune(Box<super::tune::TuneArgs>),
    /// Compare with a committed baseline, and end with 1 on a regression
    #[command(after_help = "Examples:
  ctxsim gate scenarios/quickstart.toml --baseline ci/baseline.json --update
  ctxsim gate reports/quickstart --baseline ci/baseline.json --rule 'hit_rate drop <= 0.5pp' --rule 'overflows == 0'

A rule is METRIC OP NUMBER (>= <= == != > <) or METRIC rise|drop <= NUMBER. After a number, % is of the baseline and \
pp are points of a rate; any rise from 0 breaks a % rule. Rises and drops are checked for every cell and total, values \
for totals. `ctxsim metrics` lists the metrics. Rules typed here replace those of the scenario ([gate] rules). \
Without rules: hit_rate drop <= 0.3pp, cost_usd rise <= 1%, and no rise of binding_rejections, overflows and \
violations. A missing cell, or a run that now stops early, always fails.")]
    Gate(super::gate::GateArgs),
    /// Make synthetic sessions from a profile, or fit a profile to recordings
    #[command(after_help = super::generate::EXAMPLES)]
    Generate(Box<super::generate::GenerateArgs>),
    /// Join the results of all shards of a run
    #[command(after_help = "Examples:
  ctxsim join shard-1 shard-2 shard-3 -o joined
  ctxsim join ci/shard-* -o reports/all --force

Files are those of a run without --shard, but for pictures. Missing or doubled shards and cells, interrupted runs, and mixed \
versions or recipes are refused.")]
    Join(super::join::JoinArgs),
    /// Explain the recorded cache misses, in tokens and dollars, without any policy
    #[command(after_help = super::audit::EXAMPLES)]
    Audit(Box<super::audit::AuditArgs>),
    /// Write content-free traces of recordings: sizes and hashes, no text
    #[command(after_help = "Examples:
  ctxsim trace ~/.claude/projects/api -o traces
  ctxsim trace session.jsonl -o share --anonymise")]
    Trace(super::trace::TraceArgs),
    /// Show what is in a recording: steps, tokens, tools, gaps, largest results, events
    #[command(after_help = "Examples:
  ctxsim inspect session.jsonl
  ctxsim inspect traces/ --format json")]
    Inspect(super::inspect::InspectArgs),
    /// Compare recorded usage with what is predicted from the recording
    #[command(after_help = super::validate::EXAMPLES)]
    Validate(super::validate::ValidateArgs),
    /// List the policies, show one with its parameters, or check a policy file
    #[command(after_help = "Examples:
  ctxsim policies arcturn
  ctxsim policies --check my-strategy.toml")]
    Policies(super::list::PoliciesArgs),
    /// List the models, or show one with its prices, window, cache rules and sources
    #[command(after_help = "Examples:
  ctxsim models
  ctxsim models claude-opus-5-5 --format json")]
    Models(super::models::ModelsArgs),
    /// List the metrics that results and rules know
    #[command(after_help = "Examples:
  ctxsim metrics
  ctxsim metrics --format csv > metrics.csv")]
    Metrics(super::list::ListArgs),
    /// List the recording formats that are read, and where agents keep their sessions
    #[command(after_help = "Examples:
  ctxsim formats
  ctxsim formats --format markdown")]
    Formats(super::list::ListArgs),
    /// Draw one picture of a results folder
    #[command(after_help = super::plot::EXAMPLES)]
    Plot(super::plot::PlotArgs),
    /// Write one self-contained page of a results folder
    #[command(after_help = super::report::EXAMPLES)]
    Report(super::report::ReportArgs),
    /// Print the JSON Schema of a file format
    #[command(after_help = "Examples:
  ctxsim schema scenario > scenario.schema.json
  ctxsim schema policy > policy.schema.json")]
    Schema(super::schema::SchemaArgs),
    /// Print a shell's completion script
    #[command(after_help = "Examples:
  ctxsim completions bash > ~/.local/share/bash-completion/completions/ctxsim
  ctxsim completions fish > ~/.config/fish/completions/ctxsim.fish")]
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them
    #[command(after_help = super::man::EXAMPLES)]
    Man(super::man::ManArgs),
}

/// What to read.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Files, folders (searched recursively), globs, or `-`; .gz and .zst too
    #[arg(value_name = "INPUT", help_heading = None::<&'static str>)]
    pub inputs: Vec<String>,
    /// Read as this format instead of looking at the content (see `ctxsim formats`)
    #[arg(long, value_name = "NAME")]
    pub input_format: Option<String>,
    /// Only sessions that were active on or after this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Only recordings that lie in a folder with this in its name, or say that they were made in one
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// Stop at the first bad file, with exit code 3
    #[arg(long)]
    pub strict: bool,
}

/// Most threads that can be asked for; starting many more can exhaust a machine.
const MAX_JOBS: usize = 1_024;

/// Reads `--jobs`.
pub fn jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| *jobs <= MAX_JOBS);
    jobs.ok_or_else(|| format!("write a number from 0 to {MAX_JOBS}"))
}

/// How recordings become sessions, and how many threads work.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sessions")]
pub struct SessionArgs {
    /// Count tokens: `auto` (calibrated on the recording's own usage) or `chars:N` (N characters a token)
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub tokens: String,
    /// Only this part of the sessions, by id: hash:i/n, 1 <= i <= n
    #[arg(long, value_name = "hash:i/n")]
    pub shard: Option<ctxsim::sweep::Shard>,
    /// Threads; 0 means one per core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = jobs)]
    pub jobs: usize,
}

/// `--recorded-compactions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compactions {
    /// The history is what it would have been without them
    Undo,
    /// They happen as recorded
    Keep,
}

/// What to run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Strategies and models")]
pub struct ReplayArgs {
    /// A preset, a TOML file, or either with parameters: [LABEL=]NAME[:KEY=VALUE,...]
    #[arg(short, long = "policy", value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Set a parameter of every policy that has it
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Take parameters from an agent's own configuration file
    #[arg(long, value_name = "FILE")]
    pub agent_config: Vec<PathBuf>,
    /// A model id, or a TOML file; default: the recording's own
    #[arg(short, long = "model", value_name = "MODEL")]
    pub models: Vec<String>,
    /// More models, or other prices (TOML, or LiteLLM's JSON)
    #[arg(long, value_name = "FILE")]
    pub models_file: Vec<PathBuf>,
    /// Use the prices of this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE")]
    pub price_date: Option<String>,
    #[command(flatten)]
    pub service: super::service::ServiceArgs,
    /// For models whose thinking check depends on the account
    #[arg(long, value_name = "KIND", default_value = "enforced")]
    pub account: AccountKind,
    /// When the provider refuses bound thinking; default: what the strategy does
    #[arg(long, value_name = "WHAT")]
    pub on_binding_error: Option<BindingError>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub cache: super::resolve::CacheArgs,
}

/// `--account`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AccountKind {
    /// The provider checks that thinking matches its history
    #[default]
    Enforced,
    /// It lets mismatches through
    Unenforced,
}

/// `--on-binding-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum BindingError {
    /// Remove all thinking in the history, and retry once
    Strip,
    /// Ask the provider to drop the blocks that fail
    DropBlock,
    /// End the run
    Fail,
}

/// Where results go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// Write all files into this folder
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite a non-empty folder that ctxsim did not write
    #[arg(long)]
    pub force: bool,
}

/// `--format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs; of results, what results.json holds
    Json,
    /// For spreadsheets
    Csv,
    /// For a pull request
    Markdown,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}
