//! Configuration files of agents, read as they are, and scenarios.

pub mod agents;
pub mod scenario;
