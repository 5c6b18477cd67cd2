//! Tokens from characters: coefficients per class and tokenizer generation (docs/decisions.md 11).
//!
//! Money and tokens are integers, so coefficients are milli-tokens per character and every product is
//! rounded half up.
//!
//! # Divergence from the real API
//!
//! A tokenizer counts pieces, not characters; these are least-squares fits over recordings
//! (docs/sources.md). Where a recording reports its totals, `compile` scales to them and the
//! coefficients only share a total out among the blocks of one step.

mod generation;

pub use generation::{ThinkingRetention, thinking_retention};

use serde::{Deserialize, Serialize};

/// Tokenizer generation of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Coefficients {
    /// Texts of the user and of answers.
    pub text_milli: u32,
    /// Calls, by the length of their arguments as JSON.
    pub tool_use_milli: u32,
    /// Visible thinking; what is hidden goes by its signature ([`SIGNATURE_MILLI`]).
    pub thinking_milli: u32,
    /// Results, images left out.
    pub tool_result_milli: u32,
    /// Tokens per request besides its blocks.
    pub request_tokens: u32,
}

/// Milli-tokens of hidden thinking per character of its signature.
pub const SIGNATURE_MILLI: u32 = 275;

impl Tokenizer {
    /// Tokenizer of a model by its id as recorded. Unknown ids are taken for the newer generation
    /// (docs/decisions.md 11).
    pub fn of_model(id: &str) -> Tokenizer {
        generation::tokenizer(id)
    }

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

/// The ratio by which a token count grows from one tokenizer to another, as a fraction. Between the
/// Claude generations 13/10 (docs/decisions.md 12); to and from OpenAI the ratio of the text
/// coefficients, for want of a measurement.
pub fn conversion_ratio(from: Tokenizer, to: Tokenizer) -> (u64, u64) {
    use Tokenizer::{ClaudeNewer, ClaudeOlder, Openai};
    match (from, to) {
        (ClaudeOlder, ClaudeNewer) => (13, 10),
        (ClaudeNewer, ClaudeOlder) => (10, 13),
        (ClaudeOlder, Openai) => (25, 27),
        (Openai, ClaudeOlder) => (27, 25),
        (ClaudeNewer, Openai) => (25, 33),
        (Openai, ClaudeNewer) => (33, 25),
        (ClaudeOlder, ClaudeOlder) | (ClaudeNewer, ClaudeNewer) | (Openai, Openai) => (1, 1),
    }
}

/// Tokens of an image: `min(1600, ceil(w × h / 750))`, 1,500 where the size is not known
/// (docs/decisions.md 5).
pub fn image_tokens(size_px: Option<(u32, u32)>) -> u32 {
    const MAX: u64 = 1_600;
    match size_px {
        Some((w, h)) => {
            let tokens = (u64::from(w) * u64::from(h)).div_ceil(750).min(MAX);
            u32::try_from(tokens).unwrap_or(1_600)
        }
        None => 1_500,
    }
}

/// Shares `total` out in proportion to `weights`, exactly: floors first, then one more for the largest
/// remainders, ties by position. All weights zero count as equal.
pub fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|w| u128::from(*w)).sum();
    let of = |w: u64| if sum == 0 { 1 } else { u128::from(w) };
    let sum = if sum == 0 { weights.len() as u128 } else { sum };
    if sum == 0 {
        return Vec::new();
    }
    let mut shares = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    let mut left = total;
    for (i, w) in weights.iter().enumerate() {
        let product = u128::from(total) * of(*w);
        // A share is at most `total`.
        let share = (product / sum) as u64;
        left -= share;
        shares.push(share);
        remainders.push((std::cmp::Reverse(product % sum), i));
    }
    remainders.sort_unstable();
    for (_, i) in remainders.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        shares[i] += 1;
    }
    shares
}

/// `units × milli / 1000`, half up.
pub fn scale_milli(units: u64, milli: u64) -> u64 {
    (units * milli + 500) / 1_000
}

/// `value × num / den`, half up.
pub fn scale_ratio(value: u64, num: u64, den: u64) -> u64 {
    if den == 0 { 0 } else { (2 * value * num + den) / (2 * den) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_round_half_up() {
        assert_eq!(scale_milli(5, 300), 2);
        assert_eq!(scale_milli(1, 499), 0);
        assert_eq!(scale_ratio(5, 13, 10), 7);
        assert_eq!(scale_ratio(5, 10, 13), 4);
        assert_eq!(scale_ratio(7, 1, 0), 0);
    }

    #[test]
    fn shares_sum_to_the_total_and_ties_go_to_the_first() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(7, &[0, 0]), [4, 3]);
        assert_eq!(apportion(5, &[900, 90, 10]), [5, 0, 0]);
        assert_eq!(apportion(0, &[3, 4]), [0, 0]);
        assert!(apportion(9, &[]).is_empty());
    }

    #[test]
    fn images_are_sized_by_pixels_and_capped() {
        assert_eq!(image_tokens(Some((750, 1))), 1);
        assert_eq!(image_tokens(Some((751, 1))), 2);
        assert_eq!(image_tokens(Some((4_000, 4_000))), 1_600);
        assert_eq!(image_tokens(None), 1_500);
    }
}
