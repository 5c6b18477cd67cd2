//! The one integration-test binary.

mod ingest_claude_code;
mod ingest_sketch;
