//! The one integration-test binary.

mod cli;
mod cli_files;
mod compile;
mod compile_recordings;
mod ingest_claude_code;
mod ingest_corpus;
mod ingest_input;
mod ingest_sketch;
mod prompt_totals;
mod quickstart;
mod runner;
mod support;
mod trace;
mod transcripts;
mod vectors;
