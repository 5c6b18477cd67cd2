//! Printing: stdout for results, stderr for everything else.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use ctxsim::report::grid::Grid;
use ctxsim::report::layout;
use ctxsim::report::table::{self, TableStyle};

use super::args::Format;
use super::exit::Failure;

/// What stdout and stderr can show.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// How tables are drawn on stdout.
    pub style: TableStyle,
    /// Progress bars may be drawn on stderr.
    pub progress: bool,
    quiet: bool,
    verbose: bool,
}

/// Writes a line to stderr. Nobody there to read it is no reason to end.
pub fn say(text: &str) {
    // A progress bar may stand in the line; it draws itself anew below.
    let clear = if io::stderr().is_terminal() { "\r\u{1b}[2K" } else { "" };
    let _ = writeln!(io::stderr(), "{clear}{}", table::harmless(text));
}

impl Terminal {
    /// Looks at stdout, stderr and, unless `--color` says it, NO_COLOR.
    pub fn new(quiet: bool, verbose: bool, color: clap::ColorChoice) -> Terminal {
        let colour = match color {
            clap::ColorChoice::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
        };
        let width = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
        Terminal {
            style: TableStyle { width: width.map(|(w, _)| usize::from(w.0)), colour },
            progress: !quiet && io::stderr().is_terminal(),
            quiet,
            verbose,
        }
    }

    /// Prints results. On a terminal, sentences wrap between words.
    ///
    /// # Errors
    /// Also if the reader went away, which ends the command normally.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        match self.style.width {
            Some(width) => self.print_bytes(layout::fold(text, width).as_bytes()),
            None => self.print_bytes(text.as_bytes()),
        }
    }

    /// Prints results.
    ///
    /// # Errors
    /// As [`Terminal::print`].
    pub fn print_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    /// Prints a grid in the format asked for.
    ///
    /// # Errors
    /// As [`Terminal::print`].
    pub fn print_grid(&self, grid: Grid, format: Format) -> Result<(), Failure> {
        match format {
            Format::Table => self.print(&table::draw(grid, self.style)),
            Format::Markdown => self.print(&ctxsim::report::markdown::grid(&grid)),
            Format::Csv => self.print_bytes(&ctxsim::report::csv::grid(&grid)?),
            Format::Json => self.print_bytes(&ctxsim::report::json::grid(&grid)),
        }
    }

    /// Says something that the user should know, unless `-q`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Whether `-v` was given.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Says something only with `-v`.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            say(text);
        }
    }

    /// Says what is wrong but does not end the command; also with `-q`.
    pub fn warn(&self, text: &str) {
        say(&format!("ctxsim: {text}"));
    }
}
