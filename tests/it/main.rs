//! The one integration-test binary.

mod compile;
mod compile_recordings;
mod prompt_totals;
mod vectors;
mod trace;
mod transcripts;
