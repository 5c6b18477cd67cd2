//! Cache breaks in a recorded series of usage, from the numbers alone.
//!
//! A healthy request reads what the one before read and wrote. Reading less is a break; what was expected
//! and not read is wasted (docs/decisions.md 28, 29). Text, parameters and causes are not needed, so this
//! works on any recording that has usage.
//!
//! # Divergence from the real API
//!
//! A break says that the prefix was not read, not why: expiry is told from a gap only where times are
//! given, and everything else from the prompt is out of sight.

/// Input side of one recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageRow {
    /// Tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Tokens written to it.
    pub cache_write_tokens: u64,
    /// Plain tokens.
    pub uncached_tokens: u64,
    /// Start, where known.
    pub at_ms: Option<i64>,
}

impl UsageRow {
    /// Tokens of the whole prompt.
    pub fn prompt_tokens(&self) -> u64 {
        self.cache_read_tokens + self.cache_write_tokens + self.uncached_tokens
    }

    /// What the next request is expected to read.
    pub fn cached_tokens(&self) -> u64 {
        self.cache_read_tokens + self.cache_write_tokens
    }
}

/// What a request's numbers say about the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Previous read + previous write; `None` for the first request.
    pub expected_read_tokens: Option<u64>,
    /// It read less than expected.
    pub is_break: bool,
    /// `max(0, min(expected, prompt) − read)`.
    pub wasted_tokens: u64,
    /// It read no more than the floor: the part of the prompt that survives every change of messages.
    pub at_floor: bool,
    /// It read more than expected: another conversation had cached more of the prompt.
    pub side_read: bool,
    /// Time since the request before, where both are known.
    pub gap_ms: Option<i64>,
}

/// Judges each request of a conversation, in order.
///
/// The floor is the most frequent non-zero read among the breaks (the smaller of equally frequent ones),
/// else the first request's read (docs/decisions.md 4).
pub fn classify(rows: &[UsageRow]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let Some(previous) = i.checked_sub(1).map(|before| &rows[before]) else {
            verdicts.push(Verdict::default());
            continue;
        };
        let expected = previous.cached_tokens();
        let read = row.cache_read_tokens;
        verdicts.push(Verdict {
            expected_read_tokens: Some(expected),
            is_break: read < expected,
            wasted_tokens: expected.min(row.prompt_tokens()).saturating_sub(read),
            at_floor: false,
            side_read: read > expected,
            gap_ms: row.at_ms.zip(previous.at_ms).map(|(at, before)| at - before),
        });
    }
    let floor = floor_tokens(rows, &verdicts);
    for (row, verdict) in rows.iter().zip(&mut verdicts) {
        verdict.at_floor = verdict.is_break && row.cache_read_tokens <= floor;
    }
    verdicts
}

/// The part of the prompt that survives breaks: see [`classify`].
pub fn floor_tokens(rows: &[UsageRow], verdicts: &[Verdict]) -> u64 {
    let mut reads: Vec<u64> = rows
        .iter()
        .zip(verdicts)
        .filter(|(row, verdict)| verdict.is_break && row.cache_read_tokens > 0)
        .map(|(row, _)| row.cache_read_tokens)
        .collect();
    reads.sort_unstable();
    let most_frequent =
        reads.chunk_by(|a, b| a == b).max_by(|a, b| a.len().cmp(&b.len()).then(b[0].cmp(&a[0])));
    most_frequent.map_or(rows.first().map_or(0, |r| r.cache_read_tokens), |run| run[0])
}
