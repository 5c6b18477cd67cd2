//! `ctxsim schema`.

use ctxsim::config::scenario::Scenario;
use ctxsim::report::json;
use ctxsim::report::wire::ResultsWire;

use super::args::{SchemaArgs, SchemaKind};
use super::exit::{self, Outcome};
use super::output::Terminal;

/// Runs the command.
pub fn run(args: &SchemaArgs, terminal: &Terminal) -> Outcome {
    let schema = match args.what {
        SchemaKind::Scenario => schemars::schema_for!(Scenario),
        SchemaKind::Results => schemars::schema_for!(ResultsWire),
    };
    terminal.print_bytes(&json::pretty(&schema))?;
    Ok(exit::DONE)
}
