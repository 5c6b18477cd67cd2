//! ctxsim replays recorded or synthetic LLM-agent sessions through any context strategy, against a
//! mock provider that models prompt caching, thinking signatures, windows and prices.
//!
//! Data flows one way: bytes → [`ingest`] → [`transcript`] → [`session`] → [`sim`] → [`report`].

pub mod audit;
pub mod cause;
pub mod config;
pub mod error;
pub mod gate;
pub mod generate;
pub mod ingest;
pub mod join;
mod lines;
pub mod metrics;
pub mod policy;
pub mod provider;
pub mod report;
pub mod seed;
pub mod session;
pub mod sim;
pub mod stats;
pub mod sweep;
pub mod tokens;
pub mod transcript;
pub mod tune;
pub mod usage;
pub mod validate;

pub use error::{Error, Result};
