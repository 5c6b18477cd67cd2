//! Models as data.

use crate::tokens::Tokenizer;

/// One model.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Normalised id.
    pub id: String,
    /// Tokenizer generation.
    pub tokenizer: Tokenizer,
    /// Context window.
    pub window_tokens: u64,
    /// Largest output.
    pub max_output_tokens: u64,
    /// Whether its thinking is adaptive.
    pub adaptive_thinking: bool,
    /// Whether the provider can clear tool results on its side.
    pub server_editing: bool,
    /// Whether the provider can compact on its side.
    pub server_compaction: bool,
}
