//! Many cells: the only place with threads.

pub mod axis;
pub mod corpus;
pub mod runner;
pub mod shard;

pub use axis::Axis;
pub use runner::{CellResult, Control, Detail, ModelChoice, Plan, Planned};
pub use shard::Shard;
