//! The command line: what is typed becomes library calls and files.

mod args;
mod audit;
mod check;
mod exit;
mod explain;
mod find;
mod gate;
mod generate;
mod generate_fit;
mod inspect;
mod join;
mod kept;
mod list;
mod load;
mod man;
mod models;
mod output;
mod parquet;
mod pictures;
mod plot;
mod progress;
mod report;
mod resolve;
mod resume;
mod scenario;
mod schema;
mod service;
mod simulate;
mod stream;
mod study;
mod sweep;
mod trace;
mod tune;
mod typed;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use exit::{Failure, Outcome};
use output::Terminal;

/// Runs the command line, and turns every end into its exit code.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        output::say(&format!(
            "ctxsim: this is a bug in ctxsim{place}: {message}; please report it with the command you ran"
        ));
    }));
    let cli = Cli::parse();
    match std::panic::catch_unwind(|| dispatch(cli)) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => ExitCode::from(report(&failure)),
        Err(_) => ExitCode::from(exit::BUG),
    }
}

fn report(failure: &Failure) -> u8 {
    if failure.is_closed_pipe() {
        return exit::DONE;
    }
    output::say(&format!("ctxsim: {}", failure.sentence()));
    failure.code
}

fn dispatch(cli: Cli) -> Outcome {
    let terminal = Terminal::new(cli.quiet, cli.verbose, cli.color);
    match cli.command {
        Command::Run(args) => scenario::run(&args, &terminal),
        Command::Simulate(args) => simulate::run(&args, &terminal),
        Command::Sweep(args) => sweep::run(&args, &terminal),
        Command::Tune(args) => tune::run(&args, &terminal),
        Command::Gate(args) => gate::run(&args, &terminal),
        Command::Generate(args) => generate::run(&args, &terminal),
        Command::Join(args) => join::run(&args, &terminal),
        Command::Audit(args) => audit::run(&args, &terminal),
        Command::Trace(args) => trace::run(&args, &terminal),
        Command::Validate(args) => validate::run(&args, &terminal),
        Command::Inspect(args) => inspect::run(&args, &terminal),
        Command::Policies(args) => list::policies(&args, &terminal),
        Command::Models(args) => models::models(&args, &terminal),
        Command::Metrics(args) => list::metrics(args, &terminal),
        Command::Formats(args) => list::formats(args, &terminal),
        Command::Plot(args) => plot::run(&args, &terminal),
        Command::Report(args) => report::run(&args, &terminal),
        Command::Schema(args) => schema::run(&args, &terminal),
        Command::Man(args) => man::run(&args, &terminal),
        Command::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "ctxsim", &mut script);
            terminal.print_bytes(&script)?;
            Ok(exit::DONE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_two_examples() {
        for command in Cli::command().get_subcommands().chain([&Cli::command()]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert_eq!(help.matches("\n  ctxsim ").count(), 2, "{}", command.get_name());
        }
    }
}
