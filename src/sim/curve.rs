//! The size of the prompt over a run, in a few numbers.

use super::{Recorder, RequestRow};

/// Most numbers of a curve: bars in a line of text.
const PARTS: usize = 12;

/// Of each part of a run the largest prompt, in tokens; a part is one request or more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Curve(Box<[u64]>);

impl Curve {
    /// Of prompts in order, in tokens.
    pub fn of(prompts: &[u64]) -> Curve {
        let parts = prompts.len().min(PARTS);
        let part = |i: usize| &prompts[i * prompts.len() / parts..(i + 1) * prompts.len() / parts];
        Curve((0..parts).map(|i| part(i).iter().copied().max().unwrap_or(0)).collect())
    }

    /// The numbers, in order.
    pub fn tokens(&self) -> &[u64] {
        &self.0
    }
}

/// Keeps the size of each prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptRecorder {
    /// In tokens, in order.
    pub prompts: Vec<u64>,
}

impl Recorder for PromptRecorder {
    fn request(&mut self, row: &RequestRow) {
        self.prompts.push(row.usage.prompt_tokens());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_the_largest_prompt_of_its_part() {
        let curve = |last: u64| Curve::of(&(1..=last).collect::<Vec<_>>());
        assert_eq!(curve(24).tokens(), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]);
        assert_eq!(curve(3).tokens(), [1, 2, 3]);
        assert_eq!(curve(10_000).tokens().len(), PARTS);
        assert!(curve(0).tokens().is_empty());
    }
}
