//! One cause for every miss of a recorded series.
//!
//! What was not read splits into new content and a rest with exactly one cause (docs/decisions.md 27).
//! New content is the growth of the prompt since the last breakpoint of the one before: what lay behind that
//! (plain input) is sent anew.
//!
//! A cause is named by what the recording shows besides the read: its order in time (life of an entry),
//! marks (compaction, clearing, rewind, resume), another model, a human turn on a model that strips
//! thinking, an image, another day, a step wider than the provider looks back, the same prompt sent again.
//! Where nothing of this is there, the place where the read ended decides: at the end of an earlier entry
//! the prompt must have changed right behind it (`prefix_unknown`), anywhere else is `unknown`, and an
//! entry that is gone altogether before its time is `provider_side`.
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
use crate::provider::model::ThinkingRetention;
use crate::provider::price::{Date, Price};
use crate::usage::Usage;

/// Blocks of vendors that cache by themselves; more than this behind the read is a miss.
const IMPLICIT_BLOCK_TOKENS: u64 = 1_024;
/// Life of their entries while unused.
const SHORT_LIFE_MS: i64 = 300_000;
const LONG_LIFE_MS: i64 = 3_600_000;
/// Positions that one breakpoint looks at, itself included.
const LOOKBACK_POSITIONS: u32 = 20;
/// A prompt that is smaller by more than this, and by a hundredth, had something taken out: agents drop
/// reminders and reasoning all the time.
const SHRINK_TOKENS: u64 = 1_024;
/// Requests that read the same while the prompt grows are pinned from this number on.
pub(super) const PINNED_REQUESTS: usize = 3;
/// The same prompt within this time was sent before the answer to the first one could begin.
const PARALLEL_MS: i64 = 10_000;
const DAY_MS: i64 = 86_400_000;

/// One request with usage, judged.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Index of the request.
    pub request: usize,
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
    /// The client asked for the cache: writes are reported.
    pub explicit: bool,
    /// What survives a break: the most frequent read among them.
    pub floor_tokens: u64,
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
    /// each run, over which the prompt grows. A replaced history ends a run.
    pub fn plateaus(&self) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        let mut start = 0;
        for i in 1..=self.rows.len() {
            let goes_on = i < self.rows.len() && !self.request(i).signs.any(REPLACED);
            if goes_on && self.read(i) == self.read(start) {
                continue;
            }
            if i - start > 1 && self.prompt(i - 1) > self.prompt(start) {
                found.push(start..i);
            }
            start = i;
        }
        found
    }
}

/// Judges every request with usage.
pub fn judge<'a>(account: &'a Account, models: Vec<Known<'a>>) -> Series<'a> {
    let billed = account.requests.iter().enumerate();
    let billed = billed.filter_map(|(i, r)| Some((i, r.usage.filter(|u| u.prompt_tokens() > 0)?)));
    let billed: Vec<(usize, Usage)> = billed.collect();
    let usage_rows: Vec<UsageRow> = billed
        .iter()
        .map(|(i, usage)| UsageRow {
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens(),
            uncached_tokens: usage.uncached_tokens,
            at_ms: account.requests[*i].start_ms,
        })
        .collect();
    let verdicts = classify(&usage_rows);
    let floor_tokens = floor_tokens(&usage_rows, &verdicts);
    let explicit = billed.iter().any(|(_, usage)| usage.cache_write_tokens() > 0);
    let rows = billed.iter().zip(verdicts).map(|((request, usage), verdict)| Row {
        request: *request,
        usage: *usage,
        verdict,
        life_ms: SHORT_LIFE_MS,
        new_tokens: 0,
        missed_tokens: 0,
        cause: None,
    });
    let mut series = Series { account, models, rows: rows.collect(), explicit, floor_tokens };
    split(&mut series);
    name(&mut series);
    series
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

fn name(series: &mut Series<'_>) {
    let pinned = pinned(series);
    let floor_visits = (0..series.rows.len()).filter(|i| series.rows[*i].verdict.at_floor).count();
    let mut seen = Seen { floor_recurs: floor_visits >= PINNED_REQUESTS, ..Seen::default() };
    for (i, pin) in pinned.into_iter().enumerate() {
        let row = &series.rows[i];
        let usage = row.usage;
        if row.missed_tokens > 0 || row.verdict.is_break {
            let cause = cause(series, i, &seen, pin);
            series.rows[i].cause = Some(cause);
        }
        seen.cached_tokens = seen.cached_tokens.max(usage.cache_read_tokens + usage.cache_write_tokens());
        seen.read_tokens = seen.read_tokens.max(usage.cache_read_tokens);
    }
}

/// What was seen before a request.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Most that was ever in the cache.
    cached_tokens: u64,
    /// Most that was ever read.
    read_tokens: u64,
    /// The reads of breaks keep coming back to the floor.
    floor_recurs: bool,
}

/// Whether a row's read is stuck, and what freed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pin {
    No,
    /// Nothing that the client did ended it.
    Stays,
    /// A compaction or a clear did: what was in the prompt was the reason.
    FreedByPrompt,
}

fn pinned(series: &Series<'_>) -> Vec<Pin> {
    let mut pins = vec![Pin::No; series.rows.len()];
    for run in series.plateaus().into_iter().filter(|run| run.len() >= PINNED_REQUESTS) {
        let replaced = run.end < series.rows.len() && series.request(run.end).signs.any(REPLACED);
        let recovers = || (run.end..series.rows.len()).any(|i| series.read(i) > series.read(run.start));
        let freed = replaced && recovers();
        pins[run].fill(if freed { Pin::FreedByPrompt } else { Pin::Stays });
    }
    pins
}

/// Marks of a history that is not the one before.
pub(super) const REPLACED: Signs = Signs::COMPACTION.with(Signs::CLEARED).with(Signs::REWOUND);

/// Causes that a mark in the recording names, in order of precedence.
const MARKED: &[(Signs, Cause)] = &[
    (Signs::RESULTS_CLEARED, Cause::PrefixRule),
    (Signs::COMPACTION, Cause::PrefixCompaction),
    (Signs::TOOLS, Cause::PrefixTools),
    (Signs::SYSTEM, Cause::PrefixSystem),
];

/// The same, behind the causes that other evidence names.
const MARKED_LATER: &[(Signs, Cause)] = &[
    (Signs::RESUMED, Cause::PrefixResume),
    (Signs::CLEARED.with(Signs::REWOUND), Cause::PrefixRewind),
    (Signs::LOADED_TOOLS, Cause::PrefixTools),
    (Signs::SKILL, Cause::PrefixSkill),
];

fn cause(series: &Series<'_>, i: usize, seen: &Seen, pin: Pin) -> Cause {
    let row = &series.rows[i];
    let Some(before) = i.checked_sub(1) else { return Cause::ColdStart };
    let prompt_before = series.prompt(before);
    if seen.cached_tokens == 0 && series.read(i) == 0 {
        let minimum = series.model(i).and_then(|model| model.cache).map_or(0, |cache| cache.minimum_tokens);
        return if prompt_before < minimum { Cause::BelowMinimum } else { Cause::ColdStart };
    }
    if is_expired(row) {
        return Cause::TtlExpired;
    }
    let signs = series.request(i).signs;
    let marked = |table: &[(Signs, Cause)]| table.iter().find(|(s, _)| signs.any(*s)).map(|(_, c)| *c);
    if let Some(cause) = marked(MARKED) {
        return cause;
    }
    if series.request(i).model != series.request(before).model {
        return Cause::PrefixModel;
    }
    if signs.any(Signs::PARAMETERS) {
        return Cause::PrefixParameters;
    }
    if signs.any(Signs::IMAGE) || series.request(before).signs.any(Signs::IMAGE) {
        return Cause::PrefixImage;
    }
    if strips_thinking(series, i) {
        return Cause::PrefixThinking;
    }
    marked(MARKED_LATER).unwrap_or_else(|| unmarked(series, i, seen, pin))
}

/// The entry's life was over, and most of it was not there.
fn is_expired(row: &Row) -> bool {
    let expected = row.verdict.expected_read_tokens.unwrap_or(0);
    let most_is_there = expected > 0 && row.usage.cache_read_tokens * 10 >= expected * 9;
    row.verdict.gap_ms.is_some_and(|gap| gap >= row.life_ms) && !(row.verdict.is_break && most_is_there)
}

/// A human turn on a model that keeps the reasoning of the current turn only, and the turn before had some.
fn strips_thinking(series: &Series<'_>, i: usize) -> bool {
    let strips = series.model(i).is_some_and(|m| m.thinking == ThinkingRetention::CurrentTurn);
    if !strips || !series.request(i).signs.any(Signs::PROMPT) {
        return false;
    }
    let turn = (0..=i).rev().skip(1).find(|j| series.request(*j).signs.any(Signs::PROMPT)).unwrap_or(0);
    (turn + 1..=i).any(|j| series.request(j).signs.any(Signs::THINKING))
}

/// What the numbers themselves say.
fn unmarked(series: &Series<'_>, i: usize, seen: &Seen, pin: Pin) -> Cause {
    let row = &series.rows[i];
    let (read, prompt) = (series.read(i), series.prompt(i));
    let prompt_before = series.prompt(i - 1);
    if row.verdict.is_break && day_changed(series, i) && row.verdict.at_floor {
        return Cause::PrefixSystem;
    }
    if pin == Pin::No && is_parallel(series, i) {
        return Cause::NotYetReadable;
    }
    if !series.explicit {
        return if pin == Pin::FreedByPrompt { Cause::PrefixUnknown } else { implicit(series, i) };
    }
    if pin == Pin::No && is_not_yet_readable(series, i) {
        return Cause::NotYetReadable;
    }
    if pin != Pin::No && read > 0 && read == series.read(0) {
        // Nothing that this session wrote is ever read, only what others share with it.
        return Cause::PrefixSystem;
    }
    if row.verdict.at_floor && read > 0 && seen.floor_recurs {
        return Cause::PrefixUnknown;
    }
    if shrank(series, i) {
        let began_anew = prompt * 2 < prompt_before && series.request(i).signs.any(Signs::PROMPT);
        return if began_anew { Cause::PrefixRewind } else { Cause::PrefixRule };
    }
    if read == 0 && seen.read_tokens > 0 {
        // Not even what never changes was there, although it had been read before and its life was not over.
        return Cause::ProviderSide;
    }
    if series.request(i).new_blocks >= LOOKBACK_POSITIONS && is_known_entry(series, i) {
        return Cause::Lookback;
    }
    match row.verdict.at_floor || is_known_entry(series, i) {
        true => Cause::PrefixUnknown,
        false => Cause::Unknown,
    }
}

/// The prompt lost something.
fn shrank(series: &Series<'_>, i: usize) -> bool {
    let before = series.prompt(i - 1);
    series.prompt(i) + SHRINK_TOKENS.max(before / 100) < before
}

/// Nobody told the vendor what to cache: a prompt that lost something was changed, any other was not.
fn implicit(series: &Series<'_>, i: usize) -> Cause {
    match shrank(series, i) {
        true => Cause::PrefixRule,
        false => Cause::ProviderSide,
    }
}

/// The calendar day changed since the request before: system prompts name it.
fn day_changed(series: &Series<'_>, i: usize) -> bool {
    let day = |i: usize| series.request(i).start_ms.map(|ms| ms.div_euclid(DAY_MS));
    day(i).zip(day(i - 1)).is_some_and(|(now, before)| now != before)
}

/// The request before had not begun to answer, or the same prompt was sent again at once.
fn is_parallel(series: &Series<'_>, i: usize) -> bool {
    let started_before_its_answer = series
        .request(i)
        .start_ms
        .zip(series.request(i - 1).answered_ms)
        .is_some_and(|(start, answered)| start < answered);
    let at_once = series.rows[i].verdict.gap_ms.is_some_and(|gap| gap < PARALLEL_MS);
    started_before_its_answer || (at_once && series.prompt(i) == series.prompt(i - 1))
}

/// It read what the request before had read or should have read, not what that one wrote, and the one after
/// reads on.
fn is_not_yet_readable(series: &Series<'_>, i: usize) -> bool {
    let (read, prompt) = (series.read(i), series.prompt(i));
    let reads_on = series.rows.get(i + 1).is_none_or(|next| next.usage.cache_read_tokens > read);
    let older = i.checked_sub(2).map(|j| &series.rows[j].usage);
    let older = older.map(|usage| usage.cache_read_tokens + usage.cache_write_tokens());
    let is_older = read == series.read(i - 1) || Some(read) == older;
    read > 0 && is_older && prompt > series.prompt(i - 1) && reads_on
}

/// The read ends where an earlier request's read or write ended.
fn is_known_entry(series: &Series<'_>, i: usize) -> bool {
    let read = series.read(i);
    let ends_there = |row: &Row| {
        row.usage.cache_read_tokens == read
            || row.usage.cache_read_tokens + row.usage.cache_write_tokens() == read
    };
    read == 0 || series.rows[..i].iter().rev().any(ends_there)
}
