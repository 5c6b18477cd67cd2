//! The one integration-test binary.

mod ingest_claude_code;
mod ingest_corpus;
mod ingest_input;
mod ingest_sketch;
