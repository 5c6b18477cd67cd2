//! The one integration-test binary.

mod compile;
mod compile_properties;
mod compile_recordings;
mod prompt_totals;
mod trace;
mod transcripts;
