//! ctxsim replays recorded or synthetic LLM-agent sessions through any context strategy, against a
//! mock provider that models prompt caching, thinking signatures, windows and prices.
//!
//! Data flows one way: bytes → [`ingest`] → [`transcript`] → [`session`] → [`sim`] → [`report`]. Text ends where a
//! recording is compiled to a session: what runs afterwards knows sizes and hashes only.
//!
//! ```
//! use ctxsim::policy::PolicySpec;
//! use ctxsim::provider::Models;
//! use ctxsim::session::Session;
//! use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};
//!
//! /// What `session` costs under `policy`, in pico-dollars.
//! fn cost(session: &Session, policy: &str) -> ctxsim::Result<u128> {
//!     let models = Models::builtin()?;
//!     let model = models.get("claude-opus-5-5")?;
//!     let strategy = policy.parse::<PolicySpec>()?.load(&[], &[])?.strategy(model, &models)?;
//!     let session = session.scaled_to(model.tokenizer);
//!     let (options, mut scratch) = (RunOptions::default(), Scratch::default());
//!     Ok(run(&session, &strategy, model, &options, &mut scratch, &mut NoRecorder).cost.total())
//! }
//! ```
//!
//! Money is whole pico-dollars (1 USD per million tokens is 1,000,000 a token) and tokens are whole numbers; floats first
//! appear in [`metrics`]. The same input gives the same result on any machine and for any number of threads. Many cells
//! run in [`sweep`], files carry versions ([`report::results::FORMAT_VERSION`], [`session::trace::FORMAT_VERSION`]), and
//! the `examples` folder has a program for each main use.

#![deny(missing_docs)]

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
