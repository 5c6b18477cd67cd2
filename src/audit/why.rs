//! The cause of one row. Audits and comparisons of recorded with predicted usage both ask here, so that a break has
//! one name.
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
//! That something is *evident* means that the recording shows it, not that it was the reason: a life that was over
//! and tools that changed at the same request are told apart by precedence alone (docs/decisions.md 27).

use super::judge::{Pin, Row, Series};
use super::signs::Signs;
use crate::cause::Cause;
use crate::provider::model::ThinkingRetention;

/// Positions that one breakpoint looks at, itself included.
const LOOKBACK_POSITIONS: u32 = 20;
/// A prompt that is smaller by more than this, and by a hundredth, had something taken out: agents drop
/// reminders and reasoning all the time.
const SHRINK_TOKENS: u64 = 1_024;
/// The same prompt within this time was sent before the answer to the first one could begin.
const PARALLEL_MS: i64 = 10_000;
const DAY_MS: i64 = 86_400_000;

/// Why a request did not read what was there to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// The cause.
    pub cause: Cause,
    /// Something besides the read tells of it: a mark, a gap over the life that was bought, thinking that
    /// left the prompt, or an earlier entry of exactly this size while the prompt grew.
    pub is_evident: bool,
}

impl Judgement {
    fn evident(cause: Cause) -> Judgement {
        Judgement { cause, is_evident: true }
    }

    fn by_numbers(cause: Cause) -> Judgement {
        Judgement { cause, is_evident: false }
    }
}

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

impl Series<'_> {
    /// Why row `i` did not read what was there, whether or not it missed anything.
    pub fn why(&self, i: usize) -> Judgement {
        let row = &self.rows[i];
        let Some(before) = i.checked_sub(1) else { return Judgement::evident(Cause::ColdStart) };
        if row.cached_before_tokens == 0 && self.read(i) == 0 {
            let minimum = self.model(i).and_then(|model| model.cache).map_or(0, |cache| cache.minimum_tokens);
            let is_below = self.prompt(before) < minimum;
            return Judgement::by_numbers(if is_below { Cause::BelowMinimum } else { Cause::ColdStart });
        }
        let marked = self.marked(i);
        if is_expired(row) {
            // Nobody bought a life where the vendor caches by itself.
            return Judgement { cause: Cause::TtlExpired, is_evident: self.explicit || marked.is_some() };
        }
        match (marked, strips_thinking(self, i)) {
            (Some((cause, true)), _) => Judgement::evident(cause),
            (_, Some(true)) => Judgement::evident(Cause::PrefixThinking),
            (Some((cause, false)), _) => Judgement::evident(cause),
            (None, Some(false)) => Judgement::by_numbers(Cause::PrefixThinking),
            (None, None) => unmarked(self, i),
        }
    }

    /// What a mark says of row `i`, and whether it goes before stripped thinking.
    fn marked(&self, i: usize) -> Option<(Cause, bool)> {
        let signs = self.rows[i].signs;
        let of = |table: &[(Signs, Cause)]| table.iter().find(|(s, _)| signs.any(*s)).map(|(_, c)| *c);
        if let Some(cause) = of(MARKED) {
            return Some((cause, true));
        }
        if self.request(i).model != self.request(i - 1).model {
            return Some((Cause::PrefixModel, true));
        }
        if signs.any(Signs::PARAMETERS) {
            return Some((Cause::PrefixParameters, true));
        }
        if signs.with(self.rows[i - 1].signs).any(Signs::IMAGE) {
            return Some((Cause::PrefixImage, true));
        }
        of(MARKED_LATER).map(|cause| (cause, false))
    }
}

/// The entry's life was over, and most of it was not there.
fn is_expired(row: &Row) -> bool {
    let expected = row.verdict.expected_read_tokens.unwrap_or(0);
    let most_is_there = expected > 0 && row.usage.cache_read_tokens * 10 >= expected * 9;
    row.verdict.gap_ms.is_some_and(|gap| gap >= row.life_ms) && !(row.verdict.is_break && most_is_there)
}

/// A human turn on a model that keeps the reasoning of the current turn only: `Some(true)` where the prompt did
/// not grow although something was said, `Some(false)` where only the reasoning of the turn before tells of it.
fn strips_thinking(series: &Series<'_>, i: usize) -> Option<bool> {
    let strips = series.model(i).is_some_and(|m| m.thinking == ThinkingRetention::CurrentTurn);
    if !strips || !series.rows[i].signs.any(Signs::PROMPT) {
        return None;
    }
    let (now, before) = (series.prompt(i), series.prompt(i - 1));
    if now <= before && !began_anew(series, i) {
        return Some(true);
    }
    let turn = (0..i).rev().find(|j| series.rows[*j].signs.any(Signs::PROMPT)).unwrap_or(0);
    (turn + 1..=i).any(|j| series.rows[j].signs.any(Signs::THINKING)).then_some(false)
}

/// What the numbers themselves say.
fn unmarked(series: &Series<'_>, i: usize) -> Judgement {
    let row = &series.rows[i];
    let pin = series.pins[i];
    if row.verdict.is_break && day_changed(series, i) && row.verdict.at_floor {
        return Judgement::by_numbers(Cause::PrefixSystem);
    }
    if pin == Pin::No && is_not_yet_readable(series, i) {
        return Judgement::evident(Cause::NotYetReadable);
    }
    if pin == Pin::No && is_parallel(series, i) {
        return Judgement::by_numbers(Cause::NotYetReadable);
    }
    Judgement::by_numbers(match (series.explicit, pin) {
        (true, _) => explicit(series, i, pin),
        (false, Pin::FreedByPrompt) => Cause::PrefixUnknown,
        (false, _) => implicit(series, i),
    })
}

/// The client told what to cache.
fn explicit(series: &Series<'_>, i: usize, pin: Pin) -> Cause {
    let row = &series.rows[i];
    let read = series.read(i);
    if pin != Pin::No && read > 0 && read == series.read(0) {
        // Nothing that this session wrote is ever read, only what others share with it.
        return Cause::PrefixSystem;
    }
    if row.verdict.at_floor && read > 0 && series.floor_recurs {
        return Cause::PrefixUnknown;
    }
    if shrank(series, i) {
        return if began_anew(series, i) { Cause::PrefixRewind } else { Cause::PrefixRule };
    }
    if read == 0 && row.read_before_tokens > 0 {
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

/// The user said something, and most of the prompt was gone.
fn began_anew(series: &Series<'_>, i: usize) -> bool {
    series.prompt(i) * 2 < series.prompt(i - 1) && series.rows[i].signs.any(Signs::PROMPT)
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

/// The prompt grew, and it read what an earlier request had read or should have read, not what the one before
/// wrote.
fn is_not_yet_readable(series: &Series<'_>, i: usize) -> bool {
    let read = series.read(i);
    if read == 0 || series.prompt(i) <= series.prompt(i - 1) {
        return false;
    }
    if !series.explicit {
        // What such a vendor holds of a prompt is told by reads alone.
        let earlier = series.rows[..i].iter().rev();
        return read < series.prompt(i - 1)
            && earlier.map(|row| row.usage.cache_read_tokens).any(|r| r == read);
    }
    let reads_on = series.rows.get(i + 1).is_none_or(|next| next.usage.cache_read_tokens > read);
    let older = i.checked_sub(2).map(|j| &series.rows[j].usage);
    let older = older.map(|usage| usage.cache_read_tokens + usage.cache_write_tokens());
    reads_on && (read == series.read(i - 1) || Some(read) == older)
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
