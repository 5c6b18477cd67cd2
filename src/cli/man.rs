//! `ctxsim man`: manual pages, from the same table as `--help`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use ctxsim::report::files::OutputDir;

use super::args::Cli;
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;

pub const EXAMPLES: &str = "Examples:
  ctxsim man | man -l -
  ctxsim man -o ~/.local/share/man/man1 --force";

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The page of this command; default: that of ctxsim
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
    /// Write all pages into this folder
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
    /// Write into a non-empty folder that ctxsim did not write
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: &ManArgs, terminal: &Terminal) -> Outcome {
    let root = built();
    if let Some(path) = &args.out {
        let dir = OutputDir::open(path, args.force)?;
        for command in [&root].into_iter().chain(root.get_subcommands()) {
            let name = page_name(command);
            dir.write(&format!("{name}.1"), &page(command, &name)?)?;
        }
        terminal.note(&format!("written to {}", dir.path().display()));
        return Ok(exit::DONE);
    }
    let command = match &args.command {
        None => &root,
        Some(name) => root.find_subcommand(name).ok_or_else(|| unknown(&root, name))?,
    };
    terminal.print_bytes(&page(command, &page_name(command))?)?;
    Ok(exit::DONE)
}

/// The commands as they are run; `help` is none to have a page of.
fn built() -> clap::Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    // Global flags reach the commands only once all is built.
    root.build();
    root
}

fn unknown(root: &clap::Command, name: &str) -> Failure {
    ctxsim::Error::unknown("command", name, root.get_subcommands().map(clap::Command::get_name)).into()
}

fn page_name(command: &clap::Command) -> String {
    match command.get_name() {
        "ctxsim" => "ctxsim".to_owned(),
        name => format!("ctxsim-{name}"),
    }
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    // What stands after the help begins with examples, and has no better name for the generator.
    let text = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let root = built();
        for command in root.get_subcommands() {
            let text = String::from_utf8(page(command, &page_name(command)).expect("memory")).expect("UTF-8");
            assert!(text.contains(".SH OPTIONS") && text.contains(r"\-\-quiet"), "{}", command.get_name());
            assert!(text.contains(".SH NAME") && text.contains(".SH EXAMPLES"), "{}", command.get_name());
        }
    }
}
