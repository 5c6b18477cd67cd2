//! The one integration-test binary.

mod compile;
mod compile_properties;
mod compile_recordings;
mod ingest_claude_code;
mod ingest_corpus;
mod ingest_input;
mod ingest_sketch;
mod prompt_totals;
mod trace;
mod transcripts;
mod vectors;
