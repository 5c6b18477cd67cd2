//! Simulated against recorded usage: what a recording was billed, predicted from the recording itself.
//!
//! A **pair** is two consecutive requests of the main chain of one recording with usage; requests without
//! any prompt, and sub-agents, are left out.
//!
//! - **Closed loop**: of the later request its prompt, its plain input, the life it bought and its markers are
//!   known, and of every earlier one all that was recorded; never its own read or write. Where breakpoints are
//!   explicit (`explicit`) a request reads what the one before left, unless a rule ([`rules`]) says
//!   otherwise; where the cache works by itself it reads as much of the previous prompt as the
//!   provider's grid has held so far (`automatic`).
//! - **Open loop** (`open_loop`): only the first prompt of an unbroken run is known, and the sizes of what was
//!   said since.
//!
//! A difference is *named* (`causes`) on evidence other than the read itself; what is not, counts as
//! unexplained.
//!
//! # Divergence from the real API
//!
//! Providers decide when an entry becomes readable, and when an automatic cache forgets: neither can be
//! predicted from a recording. Requests that a client makes besides the conversation are known by their effect
//! only.

mod account;
mod automatic;
mod causes;
mod explicit;
mod fit;
mod holdout;
mod open_loop;
pub mod rules;
mod totals;

use crate::provider::model::Models;
use crate::provider::price::{Date, Price};
use crate::session::Session;
use crate::tokens::Tokenizer;
use crate::usage::Usage;

pub use crate::stats::Quantiles;
use account::Request;
pub use causes::SIDE_REQUEST;
pub use fit::{Fits, Sums};
pub use holdout::{HoldOut, hold_out};
pub use open_loop::{OpenLoop, RunEnd};
pub use totals::{Total, cost_of, total};

/// What is compared, and with what.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Day whose prices are used; without one, those that were valid last.
    pub price_date: Option<Date>,
    /// Ids of the rules that are left out.
    pub without: Vec<String>,
}

/// One pair: what its later request was billed, and what was predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Number of the later request in its session, from 1.
    pub request: u32,
    /// Tokens read, as billed.
    pub read_tokens: u64,
    /// Tokens read, as predicted.
    pub predicted_read_tokens: u64,
    /// Tokens written, as billed.
    pub write_tokens: u64,
    /// Tokens written, as predicted.
    pub predicted_write_tokens: u64,
    /// What `read + write` of the earlier request predicts.
    pub plain_read_tokens: u64,
    /// The rule that predicted the read; `None` where none spoke.
    pub rule: Option<&'static str>,
    /// With explicit breakpoints, why the read is not what the earlier request left, whether or not a rule
    /// foresaw it; else why it is not what was predicted. `None` where it is.
    pub cause: Option<&'static str>,
    /// Input side of the bill in pico-dollars, as recorded and as predicted; `None` without a price.
    pub cost_pusd: Option<(u128, u128)>,
}

impl Pair {
    /// The read is predicted to the token.
    pub fn is_exact(&self) -> bool {
        self.read_tokens == self.predicted_read_tokens
    }

    /// The write is predicted to the token.
    pub fn is_write_exact(&self) -> bool {
        self.write_tokens == self.predicted_write_tokens
    }

    /// `read + write` of the earlier request alone would have been exact.
    pub fn is_plain_exact(&self) -> bool {
        self.read_tokens == self.plain_read_tokens
    }

    /// Nothing but the read tells of the difference.
    pub fn is_unexplained(&self) -> bool {
        self.cause.is_some_and(causes::is_unexplained)
    }
}

/// One recording, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    /// Session id.
    pub session: String,
    /// Recording format.
    pub format: String,
    /// The agent that recorded it.
    pub agent: String,
    /// Its version.
    pub agent_version: String,
    /// Model of the first response, as recorded.
    pub model: String,
    /// The client chose what is cached; else the provider does.
    pub is_explicit: bool,
    /// Requests with usage.
    pub requests: u64,
    /// Every pair, in order.
    pub pairs: Vec<Pair>,
    /// A model's price is not known, so dollars are left out.
    pub is_unpriced: bool,
    /// Runs of the open loop.
    pub open_loop: OpenLoop,
}

/// Whether a session is one that can be compared: of the main chain, with at least one pair.
pub fn is_comparable(session: &Session) -> bool {
    let with_usage = session.steps.iter().filter(|s| s.recorded.is_some_and(|u| u.prompt_tokens() > 0));
    session.parent.is_none() && with_usage.take(2).count() == 2
}

/// Compares one recording. `fits` holds the coefficients of all recordings for the open loop; its own share is
/// taken out.
pub fn validate(session: &Session, models: &Models, fits: &Fits, options: &Options) -> SessionReport {
    let requests = account::requests(session);
    let active = rules::active(&options.without);
    let is_explicit = is_explicit(session, &requests);
    let predicted = if is_explicit {
        explicit::predict(&requests, &rules::Client::of(&session.origin), &active)
    } else {
        automatic::predict(&requests)
    };
    let own_day = || requests.iter().find_map(|request| request.start_ms).and_then(Date::of_ms);
    let day = options.price_date.or_else(own_day);
    let prices: Vec<Option<&Price>> = requests
        .iter()
        .map(|request| models.get(request.model).ok().and_then(|m| m.prices.when(day, request.start_ms)))
        .collect();
    let is_unpriced = prices.iter().skip(1).any(Option::is_none);
    let pairs = requests.windows(2).zip(predicted).zip(&prices[requests.len().min(1)..]);
    let pairs = pairs.map(|((two, guess), price)| {
        let (before, now) = (&two[0], &two[1]);
        let usage = guess.usage;
        Pair {
            request: now.number,
            read_tokens: now.usage.cache_read_tokens,
            predicted_read_tokens: usage.cache_read_tokens,
            write_tokens: now.usage.cache_write_tokens(),
            predicted_write_tokens: usage.cache_write_tokens(),
            plain_read_tokens: before.left_tokens(),
            rule: guess.rule,
            cause: guess.cause,
            cost_pusd: price.filter(|_| !is_unpriced).map(|price| {
                let input = |usage: Usage| price.cost(&Usage { output_tokens: 0, ..usage }).total();
                (input(now.usage), input(usage))
            }),
        }
    });
    SessionReport {
        session: session.id.clone(),
        format: session.origin.format.clone(),
        agent: session.origin.agent.clone(),
        agent_version: session.origin.agent_version.clone(),
        model: session.model.clone(),
        is_explicit,
        requests: requests.len() as u64,
        pairs: pairs.collect(),
        is_unpriced,
        open_loop: open_loop::evaluate(session, fits),
    }
}

/// What is predicted of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess {
    usage: Usage,
    rule: Option<&'static str>,
    cause: Option<&'static str>,
}

/// Whether the client chose what is cached: some request paid for a write. OpenAI's models that report writes
/// cache by themselves all the same.
fn is_explicit(session: &Session, requests: &[Request<'_>]) -> bool {
    session.tokenizer != Tokenizer::Openai && requests.iter().any(|r| r.usage.cache_write_tokens() > 0)
}
