//! What a tool does, whatever an agent calls it.

use serde::{Deserialize, Serialize};

/// Role of a tool (spec/decisions.md 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Read,
    Shell,
    Edit,
    Write,
    Search,
    Web,
    Todo,
    Plan,
    Agent,
    Other,
}
