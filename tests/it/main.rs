//! The one integration-test binary.

mod cli;
mod cli_files;
mod compile;
mod compile_recordings;
mod prompt_totals;
mod runner;
mod support;
mod trace;
mod transcripts;
