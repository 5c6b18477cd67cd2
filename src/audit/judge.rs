//! One cause for every miss of a recorded series.
//!
//! What was not read splits into new content and a rest with exactly one cause (docs/decisions.md 27).
//! New content is the growth of the prompt since the last breakpoint of the one before: what lay behind that
//! (plain input) is sent anew.
//!
//! What gives a row its cause is [`Series::why`].
//!
//! # Divergence from the real API
//!
//! * A vendor that caches without being asked reports no writes. Its entries are taken to live five minutes
//!   and to hold whole blocks of up to 1,024 tokens: less than a block is no miss.
//! * That the prompt did not change is what the recording shows; a client may have changed what is not
//!   recorded (system prompt, tools). Such breaks are told from the provider's by where the read ends.

use super::account::{Account, Request};
use super::signs::Signs;
use crate::cause::Cause;
use crate::provider::ModelSpec;
use crate::provider::classify::{UsageRow, Verdict, classify, floor_tokens};
use crate::provider::price::{Date, Price};
use crate::tokens::Tokenizer;
use crate::usage::Usage;

/// Blocks of vendors that cache by themselves; more than this behind the read is a miss.
const IMPLICIT_BLOCK_TOKENS: u64 = 1_024;
/// Life of their entries while unused.
const SHORT_LIFE_MS: i64 = 300_000;
const LONG_LIFE_MS: i64 = 3_600_000;
/// Requests that read the same while the prompt grows are pinned from this number on.
pub(super) const PINNED_REQUESTS: usize = 3;

/// One request with usage, judged.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Index of the request.
    pub request: usize,
    /// What the recording shows since the row before: also of requests without usage in between.
    pub signs: Signs,
    /// What was billed.
    pub usage: Usage,
    /// Expected read, break, gap.
    pub verdict: Verdict,
    /// Life of the entry that was to be read.
    pub life_ms: i64,
    /// Tokens that no earlier prompt held.
    pub new_tokens: u64,
    /// The rest of what was not read.
    pub missed_tokens: u64,
    /// Most that was in the cache before it.
    pub(super) cached_before_tokens: u64,
    /// Most that was read before it.
    pub(super) read_before_tokens: u64,
    /// Its cause; also of a break that missed nothing.
    pub cause: Option<Cause>,
}

/// What is known of a recorded model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Its rules.
    pub spec: Option<&'a ModelSpec>,
    /// Its price on that day, whatever the hour.
    pub price: Option<&'a Price>,
    /// The day its prices are taken of.
    pub price_day: Option<Date>,
}

/// A session's requests with usage, judged.
#[derive(Debug)]
pub struct Series<'a> {
    /// The facts.
    pub account: &'a Account,
    /// What is known of each of its models.
    pub models: Vec<Known<'a>>,
    /// In order.
    pub rows: Vec<Row>,
    /// The client chose what is cached: some request paid for a write.
    pub explicit: bool,
    /// What survives a break: the most frequent read among them.
    pub floor_tokens: u64,
    /// Whether each row's read is stuck.
    pub(super) pins: Vec<Pin>,
    /// The reads of breaks keep coming back to the floor.
    pub(super) floor_recurs: bool,
}

impl Series<'_> {
    /// The facts of row `i`.
    pub fn request(&self, i: usize) -> &Request {
        &self.account.requests[self.rows[i].request]
    }

    /// What is known of the model of row `i`.
    pub fn model(&self, i: usize) -> Option<&ModelSpec> {
        self.models.get(self.request(i).model as usize).and_then(|known| known.spec)
    }

    /// The price of row `i`.
    pub fn price(&self, i: usize) -> Option<&Price> {
        let request = self.request(i);
        let known = self.models.get(request.model as usize)?;
        let price = known.spec.and_then(|spec| spec.prices.when(known.price_day, request.start_ms));
        price.or(known.price)
    }

    /// What row `i` paid for wasted tokens above reading them.
    pub fn wasted_pusd(&self, i: usize) -> Option<u128> {
        let row = &self.rows[i];
        self.price(i).map(|price| price.wasted_pusd(&row.usage, row.verdict.wasted_tokens))
    }

    /// Whether row `i` missed something for a reason that nobody chose: not an entry's end of life, the
    /// first request, another model, a compaction, or the user's own act.
    pub fn is_unforced(&self, i: usize) -> bool {
        use Cause::{BelowMinimum, ColdStart, PrefixCompaction, PrefixModel, PrefixRewind, TtlExpired};
        let forced = [ColdStart, TtlExpired, PrefixCompaction, PrefixModel, PrefixRewind, BelowMinimum];
        self.rows[i].cause.is_some_and(|cause| !forced.contains(&cause))
    }

    /// Whether row `i` is a break that findings speak of: it wasted a hundredth of its prompt.
    pub fn is_notable(&self, i: usize) -> bool {
        let verdict = &self.rows[i].verdict;
        verdict.is_break && verdict.wasted_tokens * 100 >= self.prompt(i)
    }

    /// The number of row `i`'s request, from 1.
    pub fn number(&self, i: usize) -> u32 {
        u32::try_from(self.rows[i].request + 1).unwrap_or(u32::MAX)
    }

    /// Prompt tokens of row `i`.
    pub fn prompt(&self, i: usize) -> u64 {
        self.rows[i].usage.prompt_tokens()
    }

    /// What row `i` read.
    pub fn read(&self, i: usize) -> u64 {
        self.rows[i].usage.cache_read_tokens
    }

    /// Rows whose read is the same as that of the row before, as ranges that begin with the first of
    /// each run, over which the prompt grows; where it fell at first, from its smallest on. A replaced history
    /// ends a run.
    pub fn plateaus(&self) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        let mut start = 0;
        for i in 1..=self.rows.len() {
            let goes_on = i < self.rows.len() && !self.rows[i].signs.any(REPLACED);
            if goes_on && self.read(i) == self.read(start) {
                continue;
            }
            let last = self.prompt(i - 1);
            let from = if last > self.prompt(start) {
                start
            } else {
                (start..i).min_by_key(|row| self.prompt(*row)).unwrap_or(start)
            };
            if last > self.prompt(from) {
                found.push(from..i);
            }
            start = i;
        }
        found
    }
}

/// Judges every request with usage.
pub fn judge<'a>(account: &'a Account, models: Vec<Known<'a>>) -> Series<'a> {
    let mut series = series(account, models);
    for i in 0..series.rows.len() {
        let row = &series.rows[i];
        if row.missed_tokens > 0 || row.verdict.is_break {
            series.rows[i].cause = Some(series.why(i).cause);
        }
    }
    series
}

/// The same before anything is judged: [`Series::why`] does that for one row.
pub fn series<'a>(account: &'a Account, models: Vec<Known<'a>>) -> Series<'a> {
    let mut rows: Vec<Row> = Vec::new();
    let mut signs = Signs::default();
    for (index, request) in account.requests.iter().enumerate() {
        signs = signs.with(request.signs);
        let Some(usage) = request.usage.filter(|usage| usage.prompt_tokens() > 0) else { continue };
        rows.push(Row { signs: std::mem::take(&mut signs), ..Row::of(index, usage) });
    }
    let usage_rows: Vec<UsageRow> = rows
        .iter()
        .map(|row| UsageRow {
            cache_read_tokens: row.usage.cache_read_tokens,
            cache_write_tokens: row.usage.cache_write_tokens(),
            uncached_tokens: row.usage.uncached_tokens,
            at_ms: account.requests[row.request].start_ms,
        })
        .collect();
    let verdicts = classify(&usage_rows);
    let floor_tokens = floor_tokens(&usage_rows, &verdicts);
    // OpenAI's models that report writes cache by themselves all the same.
    let explicit = Tokenizer::of_model(account.model()) != Tokenizer::Openai
        && rows.iter().any(|row| row.usage.cache_write_tokens() > 0);
    let (mut cached, mut read) = (0, 0);
    for (row, verdict) in rows.iter_mut().zip(verdicts) {
        (row.verdict, row.cached_before_tokens, row.read_before_tokens) = (verdict, cached, read);
        cached = cached.max(row.usage.cache_read_tokens + row.usage.cache_write_tokens());
        read = read.max(row.usage.cache_read_tokens);
    }
    let floor_recurs = rows.iter().filter(|row| row.verdict.at_floor).count() >= PINNED_REQUESTS;
    let mut series = Series { account, models, rows, explicit, floor_tokens, pins: Vec::new(), floor_recurs };
    split(&mut series);
    series.pins = pinned(&series);
    series
}

impl Row {
    fn of(request: usize, usage: Usage) -> Row {
        Row {
            request,
            signs: Signs::default(),
            usage,
            verdict: Verdict::default(),
            life_ms: SHORT_LIFE_MS,
            new_tokens: 0,
            missed_tokens: 0,
            cached_before_tokens: 0,
            read_before_tokens: 0,
            cause: None,
        }
    }
}

/// Sets lives, and splits what was not read.
fn split(series: &mut Series<'_>) {
    let mut life_ms = SHORT_LIFE_MS;
    let mut previous_body: Option<u64> = None;
    for i in 0..series.rows.len() {
        let (short, long) = series
            .model(i)
            .and_then(|model| model.cache)
            .map_or((SHORT_LIFE_MS, LONG_LIFE_MS), |cache| (cache.short_ttl_ms, cache.long_ttl_ms));
        let explicit = series.explicit;
        let row = &mut series.rows[i];
        row.life_ms = life_ms;
        let usage = row.usage;
        if usage.cache_write_5m_tokens > 0 {
            life_ms = short;
        } else if usage.cache_write_1h_tokens > 0 {
            life_ms = long;
        }
        let prompt = usage.prompt_tokens();
        let unread = prompt - usage.cache_read_tokens;
        let block = if explicit { 0 } else { usage.uncached_tokens.min(IMPLICIT_BLOCK_TOKENS) };
        let grown = previous_body.map_or(0, |before| prompt.saturating_sub(before) + block);
        // Without any breakpoint nothing lies behind the last one.
        let has_breakpoint = explicit && prompt > usage.uncached_tokens;
        let body = if has_breakpoint { prompt - usage.uncached_tokens } else { prompt };
        row.new_tokens = unread.min(grown);
        row.missed_tokens = unread - row.new_tokens;
        previous_body = Some(body);
    }
}

/// Whether a row's read is stuck, and what freed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pin {
    No,
    /// Nothing that the client did ended it.
    Stays,
    /// A compaction or a clear did: what was in the prompt was the reason.
    FreedByPrompt,
}

fn pinned(series: &Series<'_>) -> Vec<Pin> {
    let mut pins = vec![Pin::No; series.rows.len()];
    for run in series.plateaus().into_iter().filter(|run| run.len() >= PINNED_REQUESTS) {
        let replaced = run.end < series.rows.len() && series.rows[run.end].signs.any(REPLACED);
        let recovers = || (run.end..series.rows.len()).any(|i| series.read(i) > series.read(run.start));
        let freed = replaced && recovers();
        pins[run].fill(if freed { Pin::FreedByPrompt } else { Pin::Stays });
    }
    pins
}

/// Marks of a history that is not the one before.
pub(super) const REPLACED: Signs = Signs::COMPACTION.with(Signs::CLEARED).with(Signs::REWOUND);
