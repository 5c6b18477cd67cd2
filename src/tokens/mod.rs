//! Tokens from characters: coefficients per class and tokenizer generation (spec/decisions.md 11).
//!
//! Money and tokens are integers, so coefficients are milli-tokens per character and every product is
//! rounded half up.
//!
//! # Divergence from the real API
//!
//! A tokenizer counts pieces, not characters; these are least-squares fits over recordings
//! (spec/formats.md section 0). Where a recording reports its totals, `compile` scales to them and the
//! coefficients only share a total out among the blocks of one step.

use serde::{Deserialize, Serialize};

/// Tokenizer generation of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// Claude up to 4.6.
    ClaudeOlder,
    /// Claude 4.7 on, Claude 5; also what unknown models are taken for.
    ClaudeNewer,
    /// OpenAI.
    Openai,
}

/// Milli-tokens per UTF-16 unit, by class of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coefficients {
    pub text_milli: u32,
    pub tool_use_milli: u32,
    pub thinking_milli: u32,
    pub tool_result_milli: u32,
    /// Tokens per request besides its blocks.
    pub request_tokens: u32,
}

/// Milli-tokens of hidden thinking per character of its signature.
pub const SIGNATURE_MILLI: u32 = 275;

impl Tokenizer {
    /// The generation's own coefficients.
    pub fn coefficients(self) -> Coefficients {
        match self {
            Self::ClaudeOlder => Coefficients {
                text_milli: 270,
                tool_use_milli: 300,
                thinking_milli: 280,
                tool_result_milli: 340,
                request_tokens: 120,
            },
            Self::ClaudeNewer => Coefficients {
                text_milli: 330,
                tool_use_milli: 405,
                thinking_milli: 330,
                tool_result_milli: 450,
                request_tokens: 120,
            },
            Self::Openai => Coefficients {
                text_milli: 250,
                tool_use_milli: 250,
                thinking_milli: 250,
                tool_result_milli: 265,
                request_tokens: 0,
            },
        }
    }

    /// Tokens of one `tool_reference` part of a result.
    pub fn tool_reference_tokens(self) -> u32 {
        match self {
            Self::ClaudeOlder => 700,
            Self::ClaudeNewer | Self::Openai => 1_090,
        }
    }
}

/// `units × milli / 1000`, half up.
pub fn scale_milli(units: u64, milli: u64) -> u64 {
    (units * milli + 500) / 1_000
}

/// `value × num / den`, half up.
pub fn scale_ratio(value: u64, num: u64, den: u64) -> u64 {
    if den == 0 { 0 } else { (2 * value * num + den) / (2 * den) }
}
