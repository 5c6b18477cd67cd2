//! The one integration-test binary.

mod compile_recordings;
mod prompt_totals;
