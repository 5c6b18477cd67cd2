//! results.json as it is on disk, and the way back.
//!
//! Numbers of money and rates are written as plain decimals made from integers; no float is involved,
//! so reading a file back gives the very sums it was made from. Readers ignore fields they do not know.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::cause::Cause;
use crate::metrics::{self, Rate};
use crate::sim::summary::StopReason;
use crate::sim::{CostPusd, MissTotal, Summary};
use crate::usage::Usage;

use super::decimal;
pub use super::decimal::Decimal;
use super::pings::KeepAliveWire;
use super::results::{Cell, Change, FORMAT_VERSION, Recipe, Relative, ResultSet, Skipped, Total};

/// A signed relative change with six decimals, or null; written, never read back.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeWire(pub(super) Change);

impl Serialize for ChangeWire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        decimal::raw(&self.0.to_string(), serializer)
    }
}

impl JsonSchema for ChangeWire {
    fn schema_name() -> Cow<'static, str> {
        "Change".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "null"], "description": "(value - baseline) / baseline"})
    }
}

type Dollars = Decimal<12>;
type Fraction = Decimal<6>;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct TokensWire {
    /// uncached + cache_read + cache_write.
    prompt: u64,
    uncached: u64,
    cache_read: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
    cache_write: u64,
    output: u64,
    summarizer_prompt: u64,
    summarizer_output: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct CostWire {
    uncached: Dollars,
    cache_read: Dollars,
    cache_write: Dollars,
    output: Dollars,
    /// Input and output of summarizer calls.
    summarizer: Dollars,
    /// Pings that keep the cache alive.
    #[serde(default, skip_serializing_if = "is_nothing")]
    keep_alive: Dollars,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct MissWire {
    requests: u64,
    tokens: u64,
    /// What was paid for these tokens.
    usd: Dollars,
}

fn is_nothing(usd: &Dollars) -> bool {
    usd.0 == 0
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

macro_rules! numbers {
    ($(#[$doc:meta])* struct $name:ident { $($head:tt)* } tail { $($tail:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Serialize, Deserialize, JsonSchema)]
        struct $name {
            $($head)*
            requests: u64,
            tokens: TokensWire,
            cost_usd: Dollars,
            cost: CostWire,
            /// cache_read / prompt, weighted by tokens; null without a prompt.
            hit_rate: Option<Fraction>,
            /// Mean over requests of cache_read / prompt.
            #[serde(default)]
            request_hit_rate: Option<Fraction>,
            /// Sum over requests of cache_read / prompt: what exact totals are made from.
            #[serde(default)]
            request_hit_rate_sum: Decimal<9>,
            peak_prompt_tokens: u64,
            /// Missed tokens by cause; they sum to uncached + cache_write.
            misses: BTreeMap<String, MissWire>,
            #[serde(default)]
            summarizer_calls: u64,
            offloads: u64,
            passes: u64,
            elided_results: u64,
            chars_saved: u64,
            compactions: u64,
            withheld_thinking_blocks: u64,
            binding_rejections: u64,
            dropped_thinking_blocks: u64,
            overflows: u64,
            recoveries: u64,
            violations: u64,
            #[serde(default, skip_serializing_if = "is_zero")]
            allowed_mismatches: u64,
            /// Recorded calls made again after the strategy had taken their result out of the request.
            #[serde(default, skip_serializing_if = "is_zero")]
            refetched_calls: u64,
            #[serde(default, skip_serializing_if = "is_zero")]
            refetched_tokens: u64,
            /// Recorded calls made again while their result was there in full.
            #[serde(default, skip_serializing_if = "is_zero")]
            repeated_calls: u64,
            /// Compactions that took out what one of the next requests fetched again.
            #[serde(default, skip_serializing_if = "is_zero")]
            refetched_compactions: u64,
            #[serde(default, skip_serializing_if = "is_zero")]
            truncated_requests: u64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            keep_alive: Option<KeepAliveWire>,
            #[serde(default, skip_serializing_if = "is_zero")]
            recorded_compactions_undone: u64,
            /// Tokens in front of the conversation that the recording does not show.
            #[serde(default)]
            hidden_prefix_tokens: u64,
            $($tail)*
        }
    };
}

/// Fills the fields that cells and totals share.
macro_rules! numbers_of {
    ($name:ident, $summary:expr, { $($field:ident: $value:expr,)* }) => {{
        let s: &Summary = $summary;
        $name {
            $($field: $value,)*
            requests: s.requests,
            tokens: TokensWire::of(s),
            cost_usd: Decimal(s.cost.total()),
            cost: CostWire::of(&s.cost),
            hit_rate: fraction(metrics::hit_rate(s)),
            request_hit_rate: fraction(metrics::request_hit_rate(s)),
            request_hit_rate_sum: Decimal(u128::from(s.hit_rate_sum_nano)),
            peak_prompt_tokens: s.peak_prompt_tokens,
            misses: misses_of(s),
            summarizer_calls: s.summarizer_calls,
            offloads: s.offloads,
            passes: s.passes,
            elided_results: s.elided_results,
            chars_saved: s.chars_saved,
            compactions: s.compactions,
            withheld_thinking_blocks: s.withheld_thinking_blocks,
            binding_rejections: s.binding_rejections,
            dropped_thinking_blocks: s.dropped_thinking_blocks,
            overflows: s.overflows,
            recoveries: s.recoveries,
            violations: s.violations,
            allowed_mismatches: s.allowed_mismatches,
            refetched_calls: s.refetched_calls,
            refetched_tokens: s.refetched_tokens,
            repeated_calls: s.repeated_calls,
            refetched_compactions: s.refetched_compactions,
            truncated_requests: s.truncated_requests,
            keep_alive: KeepAliveWire::of(&s.keep_alive),
            recorded_compactions_undone: s.recorded_compactions_undone,
            hidden_prefix_tokens: s.hidden_prefix_tokens,
        }
    }};
}

numbers! {
    /// One session under one policy on one model.
    struct CellWire {
        session: String,
        policy: String,
        model: String,
    } tail {
        /// Request, from 1, at which the run ended before its session did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped_at_request: Option<u64>,
        /// `overflow`, `binding_rejection`, `rejected_again` or `invalid_request`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        stop_reason: Option<StopReason>,
        /// The recorded model id, where it is unknown and `model` stands in for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_substituted: Option<String>,
    }
}

numbers! {
    /// All sessions of one policy on one model.
    struct TotalWire {
        policy: String,
        model: String,
        sessions: u64,
        #[serde(default)]
        finished_sessions: u64,
    } tail {
        /// Against the first policy, over the sessions that both finished.
        #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
        relative: Option<RelativeWire>,
    }
}

impl CellWire {
    fn summary(&self) -> Summary {
        Summary {
            requests: self.requests,
            usage: self.tokens.usage(),
            summarizer: Usage {
                uncached_tokens: self.tokens.summarizer_prompt,
                output_tokens: self.tokens.summarizer_output,
                ..Usage::default()
            },
            summarizer_calls: self.summarizer_calls,
            cost: self.cost.pusd(),
            hit_rate_sum_nano: u64::try_from(self.request_hit_rate_sum.0).unwrap_or(u64::MAX),
            peak_prompt_tokens: self.peak_prompt_tokens,
            misses: misses_from(&self.misses),
            offloads: self.offloads,
            passes: self.passes,
            elided_results: self.elided_results,
            chars_saved: self.chars_saved,
            compactions: self.compactions,
            withheld_thinking_blocks: self.withheld_thinking_blocks,
            binding_rejections: self.binding_rejections,
            dropped_thinking_blocks: self.dropped_thinking_blocks,
            allowed_mismatches: self.allowed_mismatches,
            truncated_requests: self.truncated_requests,
            keep_alive: self.keep_alive.as_ref().map(KeepAliveWire::total).unwrap_or_default(),
            overflows: self.overflows,
            recoveries: self.recoveries,
            violations: self.violations,
            refetched_calls: self.refetched_calls,
            refetched_tokens: self.refetched_tokens,
            repeated_calls: self.repeated_calls,
            refetched_compactions: self.refetched_compactions,
            recorded_compactions_undone: self.recorded_compactions_undone,
            stopped_at_request: None,
            stop_reason: None,
            hidden_prefix_tokens: self.hidden_prefix_tokens,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct RelativeWire {
    baseline: String,
    /// Sessions that both finished.
    sessions: u64,
    cost_usd: Dollars,
    baseline_cost_usd: Dollars,
    cost_change: ChangeWire,
    prompt_change: ChangeWire,
    hit_rate: Option<Fraction>,
    baseline_hit_rate: Option<Fraction>,
}

impl RelativeWire {
    fn of(r: &Relative) -> RelativeWire {
        RelativeWire {
            baseline: r.baseline.clone(),
            sessions: r.sessions,
            cost_usd: Decimal(r.own.cost.total()),
            baseline_cost_usd: Decimal(r.base.cost.total()),
            cost_change: ChangeWire(r.cost_change()),
            prompt_change: ChangeWire(r.prompt_change()),
            hit_rate: fraction(metrics::hit_rate(&r.own)),
            baseline_hit_rate: fraction(metrics::hit_rate(&r.base)),
        }
    }
}

impl TokensWire {
    fn of(s: &Summary) -> TokensWire {
        TokensWire {
            prompt: s.usage.prompt_tokens(),
            uncached: s.usage.uncached_tokens,
            cache_read: s.usage.cache_read_tokens,
            cache_write_5m: s.usage.cache_write_5m_tokens,
            cache_write_1h: s.usage.cache_write_1h_tokens,
            cache_write: s.usage.cache_write_tokens(),
            output: s.usage.output_tokens,
            summarizer_prompt: s.summarizer.prompt_tokens(),
            summarizer_output: s.summarizer.output_tokens,
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            uncached_tokens: self.uncached,
            cache_read_tokens: self.cache_read,
            cache_write_5m_tokens: self.cache_write_5m,
            cache_write_1h_tokens: self.cache_write_1h,
            output_tokens: self.output,
        }
    }
}

impl CostWire {
    fn of(cost: &CostPusd) -> CostWire {
        CostWire {
            uncached: Decimal(cost.uncached),
            cache_read: Decimal(cost.cache_read),
            cache_write: Decimal(cost.cache_write),
            output: Decimal(cost.output),
            summarizer: Decimal(cost.summarizer),
            keep_alive: Decimal(cost.keep_alive),
        }
    }

    fn pusd(&self) -> CostPusd {
        CostPusd {
            uncached: self.uncached.0,
            cache_read: self.cache_read.0,
            cache_write: self.cache_write.0,
            output: self.output.0,
            summarizer: self.summarizer.0,
            keep_alive: self.keep_alive.0,
        }
    }
}

fn fraction(rate: Rate) -> Option<Fraction> {
    rate.0.map(|micro| Decimal(u128::from(micro)))
}

fn misses_of(s: &Summary) -> BTreeMap<String, MissWire> {
    let row = |m: &MissTotal| MissWire { requests: m.requests, tokens: m.tokens, usd: Decimal(m.cost_pusd) };
    Cause::ALL.iter().map(|&cause| (cause.name().to_owned(), row(s.miss(cause)))).collect()
}

fn misses_from(wire: &BTreeMap<String, MissWire>) -> [MissTotal; crate::cause::CAUSE_COUNT] {
    let mut misses = [MissTotal::default(); crate::cause::CAUSE_COUNT];
    for cause in Cause::ALL {
        if let Some(m) = wire.get(cause.name()) {
            misses[cause.index()] = MissTotal { requests: m.requests, tokens: m.tokens, cost_pusd: m.usd.0 };
        }
    }
    misses
}

/// results.json.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "ctxsim results")]
pub struct ResultsWire {
    format_version: u32,
    recipe: Recipe,
    /// xxh3-64 of the compact JSON of cells and totals, 16 hex digits.
    digest: String,
    /// The command was stopped before every cell was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// What was typed behind `ctxsim`, without what changes no number. Paths are relative to the folder it was typed in,
    /// or begin with `~` or `$HOME`; of others, `…` and the file's name are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    command_line: Vec<String>,
    /// The models of the cells, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    models: Vec<ModelWire>,
    skipped: Vec<Skipped>,
    cells: Vec<CellWire>,
    totals: Vec<TotalWire>,
}

/// What a reader of results cannot look up: the model may come from a file of the user's.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct ModelWire {
    model: String,
    /// Tokens that a prompt may have.
    window_tokens: u64,
}

/// What the digest covers.
#[derive(Serialize)]
struct Digested<'a> {
    cells: &'a [CellWire],
    totals: &'a [TotalWire],
}

impl ResultsWire {
    /// The file of `results`.
    ///
    /// # Errors
    /// Serialisation errors of `serde_json`.
    pub fn of(results: &ResultSet) -> serde_json::Result<ResultsWire> {
        let cells: Vec<CellWire> = results.cells.iter().map(cell_of).collect();
        let totals: Vec<TotalWire> = results.totals.iter().map(total_of).collect();
        let canonical = serde_json::to_vec(&Digested { cells: &cells, totals: &totals })?;
        Ok(ResultsWire {
            format_version: FORMAT_VERSION,
            recipe: results.recipe.clone(),
            digest: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&canonical)),
            interrupted: results.interrupted,
            command_line: results.command_line.clone(),
            models: results
                .windows
                .iter()
                .map(|(model, window_tokens)| ModelWire {
                    model: model.clone(),
                    window_tokens: *window_tokens,
                })
                .collect(),
            skipped: results.skipped.clone(),
            cells,
            totals,
        })
    }

    /// The results of this file. Totals are made anew from the cells.
    pub fn into_results(self) -> ResultSet {
        let cells = self.cells.into_iter().map(|wire| {
            let mut summary = wire.summary();
            summary.stopped_at_request = wire.stopped_at_request;
            summary.stop_reason = wire.stop_reason;
            Cell {
                session: wire.session,
                policy: wire.policy,
                model: wire.model,
                model_substituted: wire.model_substituted,
                summary,
            }
        });
        let mut results = ResultSet::new(self.recipe, self.skipped, cells.collect());
        results.interrupted = self.interrupted;
        results.command_line = self.command_line;
        results.windows = self.models.into_iter().map(|m| (m.model, m.window_tokens)).collect();
        results
    }

    /// Version that the file declares.
    pub fn format_version(&self) -> u32 {
        self.format_version
    }

    /// Digest that the file declares.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn cell_of(cell: &Cell) -> CellWire {
    let s = &cell.summary;
    numbers_of!(CellWire, s, {
        session: cell.session.clone(),
        policy: cell.policy.clone(),
        model: cell.model.clone(),
        stopped_at_request: s.stopped_at_request,
        stop_reason: s.stop_reason,
        model_substituted: cell.model_substituted.clone(),
    })
}

fn total_of(total: &Total) -> TotalWire {
    numbers_of!(TotalWire, &total.summary, {
        policy: total.policy.clone(),
        model: total.model.clone(),
        sessions: total.sessions,
        finished_sessions: total.finished_sessions,
        relative: total.relative.as_ref().map(RelativeWire::of),
    })
}

/// The digest of the results' cells and totals.
pub fn digest(results: &ResultSet) -> String {
    ResultsWire::of(results).map(|wire| wire.digest).expect("numbers and strings always serialise")
}
