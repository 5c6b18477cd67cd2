//! The committed baseline: small enough to be read in a pull request.
//!
//! Each cell and total has the metrics that are not 0. `metrics` lists those that were known when it was
//! written, so that a metric added later is told from one that was 0. `requests` has three characters for
//! each request: enough to find the first one that differs, and not what it was.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::metrics;
use crate::report::results::FORMAT_VERSION;
use crate::report::wire::Decimal;
use crate::report::{RecipePolicy, ResultSet, json};
use crate::sim::{RequestRow, Summary};

use super::rule::{Exact, exact};

/// Characters of [`BaselineCell::requests`] for each request.
const MARK_CHARS: usize = 3;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What is remembered of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMark {
    /// Hash of what was sent and billed, prices left out.
    mark: [u8; MARK_CHARS],
    /// Cause of what was missed, apart from new content.
    pub cause: Option<Cause>,
    /// Tokens missed for that cause.
    pub missed_tokens: u64,
}

impl RequestMark {
    /// The mark of a request.
    pub fn of(row: &RequestRow) -> RequestMark {
        let u = &row.usage;
        let numbers = [
            u.uncached_tokens,
            u.cache_read_tokens,
            u.cache_write_5m_tokens,
            u.cache_write_1h_tokens,
            u.output_tokens,
            u64::from(row.rejections),
        ];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
        let mark = [0, 6, 12].map(|shift| ALPHABET[(hash >> shift) as usize % ALPHABET.len()]);
        RequestMark { mark, cause: row.miss_cause, missed_tokens: row.missed_tokens }
    }
}

/// Requests of cells, by session, policy and model.
pub type Requests = BTreeMap<(String, String, String), Vec<RequestMark>>;

/// Metrics of a cell or a total; those that are 0 are left out, a ratio over 0 is null.
pub type Metrics = BTreeMap<String, Option<Decimal<12>>>;

/// A baseline file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    format_version: u32,
    /// Version that wrote it.
    pub ctxsim: String,
    /// Strategies: what tells a renamed one from another one.
    pub policies: Vec<RecipePolicy>,
    /// Metrics that were known.
    pub metrics: Vec<String>,
    /// By policy and model.
    pub totals: Vec<BaselineTotal>,
    /// By session, policy and model.
    pub cells: Vec<BaselineCell>,
}

/// One session under one policy on one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineCell {
    /// Session id.
    pub session: String,
    /// Policy label.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// Request at which the run ended before its session did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at_request: Option<u64>,
    /// Its numbers.
    pub values: Metrics,
    /// Marks of its requests, where they were at hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requests: String,
}

/// All sessions of one policy on one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineTotal {
    /// Policy label.
    pub policy: String,
    /// Model id.
    pub model: String,
    /// Its numbers.
    pub values: Metrics,
}

fn values(summary: &Summary) -> Metrics {
    let all = metrics::all().map(|m| (m.name(), exact(m.value(summary)).map(Decimal)));
    all.filter(|(_, value)| *value != Some(Decimal(0))).collect()
}

impl Baseline {
    /// The baseline that `results` pass without any change.
    pub fn of(results: &ResultSet, requests: &Requests) -> Baseline {
        let marks = |key: &(String, String, String)| {
            let marks = requests.get(key).into_iter().flatten().flat_map(|r| r.mark);
            marks.map(char::from).collect()
        };
        let cells = results.cells.iter().map(|c| BaselineCell {
            session: c.session.clone(),
            policy: c.policy.clone(),
            model: c.model.clone(),
            stopped_at_request: c.summary.stopped_at_request,
            values: values(&c.summary),
            requests: marks(&(c.session.clone(), c.policy.clone(), c.model.clone())),
        });
        let totals = results.totals.iter().map(|t| BaselineTotal {
            policy: t.policy.clone(),
            model: t.model.clone(),
            values: values(&t.summary),
        });
        Baseline {
            format_version: FORMAT_VERSION,
            ctxsim: results.recipe.ctxsim.clone(),
            policies: results.recipe.policies.clone(),
            metrics: metrics::all().map(|m| m.name()).collect(),
            totals: totals.collect(),
            cells: cells.collect(),
        }
    }

    /// Pretty JSON with a final line feed.
    pub fn write(&self) -> Vec<u8> {
        json::pretty(self)
    }

    /// Reads a baseline; fields it does not know are ignored.
    ///
    /// # Errors
    /// [`Error::Input`] naming the line if it is none, or of a later format.
    pub fn read(path: &Path, bytes: &[u8]) -> Result<Baseline> {
        let fail = |line, reason| Error::Input { path: path.to_owned(), line, reason };
        let baseline: Baseline = serde_json::from_slice(bytes).map_err(|e| {
            fail(e.line() as u64, format!("not a baseline of ctxsim ({e}); write one with --update"))
        })?;
        if baseline.format_version > FORMAT_VERSION {
            let version = baseline.format_version;
            let reason = format!("format_version {version} is newer than this ctxsim reads; update ctxsim");
            return Err(fail(0, reason));
        }
        Ok(baseline)
    }

    /// Whether the metric was known when it was written.
    pub fn knows(&self, metric: &str) -> bool {
        self.metrics.iter().any(|m| m == metric)
    }
}

/// A value of `values`; what is left out is 0.
pub fn value(values: &Metrics, metric: &str) -> Exact {
    values.get(metric).map_or(Some(0), |value| value.map(|decimal| decimal.0))
}

/// The first request, from 1, that differs from what the baseline has; `None` if none does or either
/// side is not at hand.
pub fn first_difference(baseline: &str, now: &[RequestMark]) -> Option<usize> {
    if baseline.is_empty() || now.is_empty() {
        return None;
    }
    let before: Vec<&[u8]> = baseline.as_bytes().chunks(MARK_CHARS).collect();
    let differs = |i: &usize| before.get(*i).copied() != now.get(*i).map(|r| r.mark.as_slice());
    (0..before.len().max(now.len())).find(differs).map(|i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{results, rules, two};
    use super::super::{DEFAULT_RULES, check};
    use super::*;
    use crate::report::results::tests::sample;
    use crate::usage::Usage;

    fn marks(reads: &[u64]) -> Requests {
        let row = |(i, read): (usize, &u64)| RequestRow {
            request: u32::try_from(i + 1).expect("few"),
            at_ms: None,
            gap_ms: None,
            usage: Usage { cache_read_tokens: *read, ..Usage::default() },
            cost_pusd: 0,
            miss_cause: (*read < 50).then_some(Cause::PrefixSystem),
            missed_tokens: 100 - read,
            estimate_tokens: 0,
            passes: 0,
            compactions: 0,
            rejections: 0,
        };
        let rows: Vec<_> = reads.iter().enumerate().map(row).map(|r| RequestMark::of(&r)).collect();
        let cells = two();
        let key = (cells[3].session.clone(), cells[3].policy.clone(), cells[3].model.clone());
        Requests::from([(key, rows)])
    }

    #[test]
    fn the_first_request_that_differs_is_named_with_its_cause() {
        let baseline = Baseline::of(&results(two()), &marks(&[90, 91, 92]));
        let found = |reads: &[u64]| {
            let verdict = check(&baseline, &results(two()), &marks(reads), &rules(&DEFAULT_RULES));
            let found: Vec<String> =
                verdict.places.iter().filter_map(|p| p.divergence.map(|d| d.to_string())).collect();
            found.join("; ")
        };
        assert_eq!(found(&[90, 91, 92]), "");
        assert_eq!(found(&[90, 40, 41]), "2: prefix_system, 60 tokens");
        assert_eq!(found(&[90, 91]), "3: no cache miss");
        assert_eq!(found(&[90, 91, 92, 10]), "4: prefix_system, 90 tokens");
        assert_eq!(found(&[]), "");
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let baseline = Baseline::of(&sample(), &marks(&[1, 2]));
        let bytes = baseline.write();
        let path = std::path::Path::new("b.json");
        assert_eq!(Baseline::read(path, &bytes).expect("own output"), baseline);
        let text = String::from_utf8(bytes).expect("UTF-8");
        let newer = text.replacen("\"format_version\": 1", "\"format_version\": 9", 1);
        assert!(Baseline::read(path, newer.as_bytes()).expect_err("newer").to_string().contains("newer"));
        let wrong = Baseline::read(path, b"{\n\"cells\": 3}").expect_err("wrong").to_string();
        assert!(wrong.starts_with("b.json, line 2: not a baseline"), "{wrong}");
    }
}
