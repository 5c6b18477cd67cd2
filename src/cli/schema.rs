//! `ctxsim schema`.

use clap::{Args, ValueEnum};
use ctxsim::config::scenario::Scenario;
use ctxsim::policy::preset;
use ctxsim::report::json;
use ctxsim::report::wire::ResultsWire;
use ctxsim::session::trace;
use ctxsim::tune::wire::TuneWire;

use super::exit::{self, Outcome};
use super::output::Terminal;

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which file
    #[arg(value_name = "WHAT")]
    pub what: SchemaKind,
}

/// `schema`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// scenarios/*.toml
    Scenario,
    /// A strategy's TOML file
    Policy,
    /// results.json
    Results,
    /// *.trace.jsonl: each of its lines
    Trace,
    /// tune.json
    Tune,
}

/// Runs the command.
pub fn run(args: &SchemaArgs, terminal: &Terminal) -> Outcome {
    let schema = match args.what {
        SchemaKind::Scenario => schemars::schema_for!(Scenario).to_value(),
        SchemaKind::Policy => preset::json_schema(),
        SchemaKind::Results => schemars::schema_for!(ResultsWire).to_value(),
        SchemaKind::Trace => trace::json_schema(),
        SchemaKind::Tune => schemars::schema_for!(TuneWire).to_value(),
    };
    terminal.print_bytes(&json::pretty(&schema))?;
    Ok(exit::DONE)
}
