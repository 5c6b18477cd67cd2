//! The one integration-test binary.

mod classify;
mod cli;
mod cli_files;
mod compile;
mod compile_properties;
mod compile_recordings;
mod hostile_input;
mod hostile_traces;
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
mod reference;
mod runner;
mod support;
mod trace;
mod transcripts;
mod vectors;
