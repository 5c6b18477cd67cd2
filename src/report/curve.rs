//! The size of the prompt over a run, as a line of bars: `▁▂▃▅▇▂▃▅`.

use std::collections::BTreeMap;

use crate::sim::Curve;

use super::results::Cell;

/// Heights from lowest to highest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A curve as text; a bar of full height has `highest` tokens.
pub fn line(curve: &Curve, highest: u64) -> String {
    let last = HEIGHTS.len() as u64 - 1;
    let height = |tokens: &u64| (tokens * last + highest / 2).checked_div(highest).unwrap_or(0).min(last);
    curve.tokens().iter().map(|tokens| HEIGHTS[usize::try_from(height(tokens)).unwrap_or(0)]).collect()
}

/// Curves by session, policy and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Curves(BTreeMap<[String; 3], Curve>);

impl Curves {
    /// Keeps the curve of a cell.
    pub fn keep(&mut self, cell: &Cell, curve: Curve) {
        self.0.insert(key(cell), curve);
    }

    /// The curve of a cell, if it was kept.
    pub fn get(&self, cell: &Cell) -> Option<&Curve> {
        self.0.get(&key(cell))
    }
}

fn key(cell: &Cell) -> [String; 3] {
    [&cell.session, &cell.policy, &cell.model].map(String::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_prompts_are_long() {
        assert_eq!(line(&Curve::of(&(1..=8).collect::<Vec<_>>()), 8), "▂▃▄▅▅▆▇█");
        assert_eq!(line(&Curve::of(&[10, 0, 5]), 20), "▅▁▃");
        assert_eq!(line(&Curve::of(&[0, 0]), 0), "▁▁");
        assert_eq!(line(&Curve::of(&[]), 0), "");
    }
}
