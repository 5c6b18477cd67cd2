//! Transcript → Session: where text ends.

use crate::session::Session;
use crate::transcript::Transcript;

/// How tokens are counted (`--tokens`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenMode {
    /// Calibrated on the recording's own usage, else per-model coefficients.
    #[default]
    Auto,
    /// One token per this many thousandths of a character (`chars:4` = 4000).
    CharsMilli(u32),
}

/// What becomes of the recording's own compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordedCompactions {
    /// The history is what it would have been without them.
    #[default]
    Undo,
    /// They happen as recorded.
    Keep,
}

/// Options of [`compile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompileOptions {
    pub tokens: TokenMode,
    /// Key of the content hashes; 0 is the constant key, `--anonymise` draws one.
    pub hash_key: u64,
}

/// Compiles a transcript. A transcript always compiles: what cannot be used was named by the reader.
pub fn compile(_transcript: &Transcript, _options: &CompileOptions) -> Session {
    unimplemented!()
}
