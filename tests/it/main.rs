//! The one integration-test binary.

mod classify;
mod cli;
mod cli_files;
mod compile;
mod compile_properties;
mod compile_recordings;
mod folded;
mod ingest_claude_code;
mod ingest_corpus;
mod ingest_input;
mod ingest_sketch;
mod prices;
mod prompt_totals;
mod provider;
mod provider_misses;
mod provider_support;
mod quickstart;
mod readme;
mod reference;
mod runner;
mod sim;
mod support;
mod tidy;
mod trace;
mod transcripts;
mod vectors;
