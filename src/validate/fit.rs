//! Tokens of a step from sizes alone: coefficients fitted to other recordings.
//!
//! Least squares on the growth of the prompt from request to request, each step weighted by the inverse of its
//! own size, and drawn towards the coefficients of the tokenizer generation (docs/decisions.md 11) where there
//! is little to go by. Sums are whole numbers, so that the share of one recording can be taken out exactly and
//! no order of adding matters; floats appear where the equations are solved.

use std::collections::BTreeMap;

use crate::session::Session;
use crate::tokens::{SIGNATURE_MILLI, Tokenizer};

/// What tokens are counted from.
pub(super) const FEATURES: usize = 7;

/// One step: what it says, and by how much the prompt grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Row {
    /// One request; UTF-16 units of text and visible thinking, of arguments of calls; calls; characters of
    /// signatures of hidden thinking; units of results, and of results of reading files.
    pub features: [i64; FEATURES],
    /// Tokens known without counting: images, tool definitions that were loaded.
    pub fixed_tokens: i64,
}

/// Scale of the whole-number weights.
const WEIGHT: i64 = 20_000_000;
/// Drawn towards the generation's coefficients as by so much of the squared feature.
const PULL: [f64; FEATURES] = [0.1, 2e4, 2e4, 0.1, 1e5, 1e5, 1e5];

/// Sums of the normal equations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    rows: u64,
    products: [[i128; FEATURES]; FEATURES],
    targets: [i128; FEATURES],
}

impl Sums {
    /// Adds a step by which the prompt grew by `grown_tokens`.
    pub(super) fn add(&mut self, row: &Row, grown_tokens: i64, tokenizer: Tokenizer) {
        let base = base_milli(tokenizer);
        let milli: i64 = row.features.iter().zip(base).map(|(x, c)| x * c).sum();
        let weight = i128::from(WEIGHT / (4_000 + 3 * (milli / 1_000).max(0)));
        let target = i128::from(grown_tokens - row.fixed_tokens);
        self.rows += 1;
        for (i, x) in row.features.iter().enumerate() {
            let weighted = weight * i128::from(*x);
            self.targets[i] += weighted * target;
            for (product, y) in self.products[i].iter_mut().zip(&row.features) {
                *product += weighted * i128::from(*y);
            }
        }
    }

    fn merge(&mut self, other: &Sums, sign: i128) {
        for i in 0..FEATURES {
            self.targets[i] += sign * other.targets[i];
            for j in 0..FEATURES {
                self.products[i][j] += sign * other.products[i][j];
            }
        }
    }
}

/// Sums of all recordings, by format and tokenizer generation: what a client adds of its own belongs to it.
#[derive(Debug, Clone, Default)]
pub struct Fits {
    groups: BTreeMap<(String, usize), Sums>,
}

impl Fits {
    /// Adds a recording.
    pub fn add(&mut self, session: &Session, sums: &Sums) {
        let all = self.groups.entry(group(session)).or_default();
        all.rows += sums.rows;
        all.merge(sums, 1);
    }

    /// Tokens per unit of each feature, fitted to all recordings of the kind but the one with the sums `own`.
    pub(super) fn without(&self, session: &Session, own: &Sums) -> Coefficients {
        let all = self.groups.get(&group(session)).filter(|all| all.rows >= own.rows);
        // Where it was never added, nothing is known of others.
        let others = all.cloned().map_or_else(Sums::default, |mut all| {
            all.rows -= own.rows;
            all.merge(own, -1);
            all
        });
        Coefficients(solve(&others, session.tokenizer))
    }
}

fn group(session: &Session) -> (String, usize) {
    (session.origin.format.clone(), session.tokenizer as usize)
}

/// Tokens per unit of each feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coefficients(pub [f64; FEATURES]);

impl Coefficients {
    /// Tokens by which a step makes the prompt grow; never negative.
    pub fn tokens(&self, row: &Row) -> u64 {
        let sum: f64 = self.0.iter().zip(row.features).map(|(c, x)| c * x as f64).sum();
        (sum + row.fixed_tokens as f64).round().max(0.0) as u64
    }
}

/// The generation's own coefficients, in thousandths. What a signature weighs was measured on the newer
/// generation; the older has 10 tokens where the newer has 13.
fn base_milli(tokenizer: Tokenizer) -> [i64; FEATURES] {
    let c = tokenizer.coefficients();
    let signature = match tokenizer {
        Tokenizer::ClaudeOlder => SIGNATURE_MILLI * 10 / 13,
        Tokenizer::ClaudeNewer | Tokenizer::Openai => SIGNATURE_MILLI,
    };
    let [request, text, call, signature, result] =
        [1_000 * c.request_tokens, c.text_milli, c.tool_use_milli, signature, c.tool_result_milli]
            .map(i64::from);
    [request, text, call, 0, signature, result, result]
}

/// Solves the equations by elimination with pivots.
fn solve(sums: &Sums, tokenizer: Tokenizer) -> [f64; FEATURES] {
    let scale = WEIGHT as f64 / 20.0;
    let base = base_milli(tokenizer).map(|milli| milli as f64 / 1_000.0);
    let mut rows: Vec<[f64; FEATURES + 1]> = (0..FEATURES)
        .map(|i| {
            let mut row = [0.0; FEATURES + 1];
            for (value, product) in row.iter_mut().zip(&sums.products[i]) {
                *value = *product as f64 / scale;
            }
            row[i] += PULL[i];
            row[FEATURES] = sums.targets[i] as f64 / scale + PULL[i] * base[i];
            row
        })
        .collect();
    for column in 0..FEATURES {
        let pivot =
            (column..FEATURES).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        rows.swap(column, pivot.unwrap_or(column));
        let pivot = rows[column];
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = row[column] / pivot[column];
            for (value, from) in row.iter_mut().zip(pivot) {
                *value -= factor * from;
            }
        }
    }
    std::array::from_fn(|i| rows[i][FEATURES] / rows[i][i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::ConstantGrowth;

    fn row(text: i64, result: i64) -> Row {
        Row { features: [1, text, 0, 0, 0, result, 0], fixed_tokens: 0 }
    }

    fn session() -> Session {
        ConstantGrowth::default().session()
    }

    #[test]
    fn without_others_the_generation_speaks() {
        let session = session();
        let coefficients = Fits::default().without(&session, &Sums::default());
        for (fitted, base) in coefficients.0.iter().zip(base_milli(session.tokenizer)) {
            assert!((fitted - base as f64 / 1_000.0).abs() < 1e-9, "{coefficients:?}");
        }
    }

    #[test]
    fn others_are_fitted_and_the_own_share_is_taken_out() {
        let session = session();
        let (mut own, mut other) = (Sums::default(), Sums::default());
        for i in 1..400 {
            let row = row(1_000 * (i % 7), 3_000 * (i % 11));
            other.add(&row, 50 + 200 * (i % 7) + 1_500 * (i % 11), session.tokenizer);
            own.add(&row, 9_000, session.tokenizer);
        }
        let mut fits = Fits::default();
        fits.add(&session, &own);
        fits.add(&session, &other);
        let predicted = fits.without(&session, &own).tokens(&row(10_000, 30_000));
        assert!(predicted.abs_diff(50 + 2_000 + 15_000) < 100, "{predicted}");
        let mut alone = Fits::default();
        alone.add(&session, &other);
        assert_eq!(fits.without(&session, &own), alone.without(&session, &Sums::default()));
    }
}
