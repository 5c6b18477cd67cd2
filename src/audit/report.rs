//! What an audit comes to: sums per session and over all sessions.

use super::detect::DETECTORS;
use super::judge::Series;
use super::lives::{self, Lives};
use crate::cause::{CAUSE_COUNT, Cause};
use crate::usage::Usage;

/// Missed tokens of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Miss {
    /// Requests with such a miss.
    pub requests: u64,
    /// Tokens that were not read.
    pub tokens: u64,
    /// What was paid for them, of sessions whose price is known.
    pub cost_pusd: u128,
}

/// A request that read less than the one before it left to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    /// Its number, from 1.
    pub request: u32,
    /// Its start, Unix epoch in milliseconds.
    pub at_ms: Option<i64>,
    /// Time since the start of the request before.
    pub gap_ms: Option<i64>,
    /// Why.
    pub cause: Cause,
    /// What it read.
    pub cache_read_tokens: u64,
    /// What the request before had read and written.
    pub expected_read_tokens: u64,
    /// What of that was not read.
    pub wasted_tokens: u64,
    /// What they cost above reading them; `None` where the price is unknown.
    pub wasted_pusd: Option<u128>,
}

/// What a detector found in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the detector.
    pub detector: &'static str,
    /// Numbers of the requests that show it, from 1.
    pub requests: Vec<u32>,
    /// Tokens that it is about: wasted, or paid again; 0 where it is about none.
    pub tokens: u64,
    /// One sentence.
    pub detail: String,
}

/// Sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requests.
    pub requests: u64,
    /// Of these, requests without usable usage.
    pub without_usage: u64,
    /// Token classes over all requests.
    pub usage: Usage,
    /// What was paid.
    pub cost_pusd: Option<u128>,
    /// Tokens wasted by breaks.
    pub wasted_tokens: u64,
    /// What they cost above reading them.
    pub wasted_pusd: Option<u128>,
    /// Missed tokens by [`Cause::index`]; they sum to uncached + written.
    pub misses: [Miss; CAUSE_COUNT],
    /// What was paid for missed tokens is known.
    pub misses_priced: bool,
    /// What either life of cache entries would have cost the sessions whose client chooses one.
    pub lives: Option<Lives>,
}

impl Sums {
    /// Adds another's. Money that is not known is left out of a sum; of nothing but unknowns it is unknown.
    pub fn add(&mut self, other: &Sums) {
        self.requests += other.requests;
        self.without_usage += other.without_usage;
        self.usage.add(&other.usage);
        self.wasted_tokens += other.wasted_tokens;
        self.cost_pusd = sum(self.cost_pusd, other.cost_pusd);
        self.wasted_pusd = sum(self.wasted_pusd, other.wasted_pusd);
        self.misses_priced |= other.misses_priced;
        if let Some(lives) = &other.lives {
            self.lives.get_or_insert_default().add(lives);
        }
        for (own, other) in self.misses.iter_mut().zip(&other.misses) {
            own.requests += other.requests;
            own.tokens += other.tokens;
            own.cost_pusd += other.cost_pusd;
        }
    }

    /// Missed tokens of a cause.
    pub fn miss(&self, cause: Cause) -> &Miss {
        &self.misses[cause.index()]
    }

    fn book(&mut self, cause: Cause, tokens: u64, cost_pusd: u128) {
        if tokens > 0 {
            let miss = &mut self.misses[cause.index()];
            miss.requests += 1;
            miss.tokens += tokens;
            miss.cost_pusd += cost_pusd;
        }
    }
}

fn sum(a: Option<u128>, b: Option<u128>) -> Option<u128> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// The audit of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAudit {
    /// Session id.
    pub session: String,
    /// The session that started this one.
    pub parent: Option<String>,
    /// Recording format.
    pub format: String,
    /// Agent that recorded it.
    pub agent: String,
    /// Model id of the first request, as recorded.
    pub model: String,
    /// A recorded model whose price is not known: dollars are unknown.
    pub unpriced_model: Option<String>,
    /// The numbers.
    pub sums: Sums,
    /// Every break, in order.
    pub breaks: Vec<Break>,
    /// What the detectors found, in their order.
    pub findings: Vec<Finding>,
}

/// The audit of many sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// By session id.
    pub sessions: Vec<SessionAudit>,
    /// Over all of them.
    pub total: Sums,
}

impl Audit {
    /// Sorts sessions by id, and sums them.
    pub fn new(mut sessions: Vec<SessionAudit>) -> Audit {
        sessions.sort_by(|a, b| a.session.cmp(&b.session));
        let mut total = Sums::default();
        sessions.iter().for_each(|session| total.add(&session.sums));
        Audit { sessions, total }
    }

    /// Breaks with the session of each, the most wasteful first: by dollars where they are known, by
    /// tokens else.
    pub fn worst_breaks(&self) -> Vec<(&SessionAudit, &Break)> {
        let mut all: Vec<_> =
            self.sessions.iter().flat_map(|s| s.breaks.iter().map(move |b| (s, b))).collect();
        all.sort_by_key(|(_, b)| std::cmp::Reverse((b.wasted_pusd.unwrap_or(0), b.wasted_tokens)));
        all
    }
}

/// Sums up a judged session, and lets the detectors look at it.
pub(super) fn session(series: &Series<'_>) -> SessionAudit {
    let account = series.account;
    let used =
        |model: &usize| series.rows.iter().any(|row| account.requests[row.request].model as usize == *model);
    let unpriced = (0..account.models.len()).filter(used).find(|model| series.models[*model].price.is_none());
    let mut sums = Sums {
        requests: account.requests.len() as u64,
        without_usage: (account.requests.len() - series.rows.len()) as u64,
        ..Sums::default()
    };
    let mut breaks = Vec::new();
    let (mut cost, mut wasted) = (0, 0);
    for (i, row) in series.rows.iter().enumerate() {
        sums.usage.add(&row.usage);
        let price = series.price(i);
        let unread = price.map(|price| price.split_unread(&row.usage, row.missed_tokens)).unwrap_or_default();
        sums.book(Cause::NewContent, row.new_tokens, unread.new);
        if let Some(cause) = row.cause {
            sums.book(cause, row.missed_tokens, unread.missed);
        }
        cost += price.map_or(0, |price| price.cost(&row.usage).total());
        if let Some(found) = break_of(series, i) {
            sums.wasted_tokens += found.wasted_tokens;
            wasted += found.wasted_pusd.unwrap_or(0);
            breaks.push(found);
        }
    }
    sums.lives = lives::of(series);
    sums.misses_priced = unpriced.is_none();
    sums.wasted_pusd = unpriced.is_none().then_some(wasted);
    sums.cost_pusd =
        account.recorded_cost_pusd.map(u128::from).or_else(|| unpriced.is_none().then_some(cost));
    SessionAudit {
        session: account.session_id.clone(),
        parent: account.parent.clone(),
        format: account.format.clone(),
        agent: account.agent.clone(),
        model: account.model().to_owned(),
        unpriced_model: unpriced.map(|model| account.models[model].clone()),
        sums,
        breaks,
        findings: DETECTORS.iter().flat_map(|detector| detector.run(series)).collect(),
    }
}

fn break_of(series: &Series<'_>, i: usize) -> Option<Break> {
    let row = &series.rows[i];
    let (cause, expected) =
        row.cause.zip(row.verdict.expected_read_tokens.filter(|_| row.verdict.is_break))?;
    Some(Break {
        request: series.number(i),
        at_ms: series.request(i).start_ms,
        gap_ms: row.verdict.gap_ms,
        cause,
        cache_read_tokens: row.usage.cache_read_tokens,
        expected_read_tokens: expected,
        wasted_tokens: row.verdict.wasted_tokens,
        wasted_pusd: series.wasted_pusd(i),
    })
}
