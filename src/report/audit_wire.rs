//! The audit as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::report::Sums;
use crate::audit::{Audit, Break, Finding, Lives, SessionAudit};
use crate::cause::Cause;
use crate::metrics::Rate;

use super::results::{FORMAT_VERSION, Recipe, Skipped};
use super::wire::Decimal;

type Dollars = Decimal<12>;

#[derive(Serialize)]
struct AuditWire<'a> {
    format_version: u32,
    recipe: &'a Recipe,
    /// xxh3-64 of the compact JSON of sessions and total.
    digest: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    skipped: &'a [Skipped],
    /// Sessions whose dollars are unknown.
    skipped_prices: Vec<SkippedPrice<'a>>,
    #[serde(flatten)]
    body: &'a Body<'a>,
}

/// What the digest covers.
#[derive(Serialize)]
struct Body<'a> {
    sessions: Vec<SessionWire<'a>>,
    total: TotalWire<'a>,
}

#[derive(Serialize)]
struct SkippedPrice<'a> {
    session: &'a str,
    model: &'a str,
}

#[derive(Serialize)]
struct SumsWire {
    requests: u64,
    #[serde(skip_serializing_if = "is_zero")]
    requests_without_usage: u64,
    tokens: TokensWire,
    /// cache_read / prompt, weighted by tokens; null without a prompt.
    hit_rate: Option<Decimal<6>>,
    cost_usd: Option<Dollars>,
    wasted_tokens: u64,
    wasted_usd: Option<Dollars>,
    misses: BTreeMap<&'static str, MissWire>,
    /// What either life would have cost; not of sessions whose client does not choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_what_if: Option<LivesWire>,
}

#[derive(Serialize)]
struct LivesWire {
    /// Requests that follow another, and those that come after the short life and before the end of the long one.
    requests: u64,
    late_requests: u64,
    late_share: Option<Decimal<6>>,
    /// Share of late requests from which the long life pays.
    break_even_share: Option<Decimal<6>>,
    #[serde(rename = "5m")]
    short: LifeWire,
    #[serde(rename = "1h")]
    long: LifeWire,
    /// Recorded writes for the long life, and those of them that the short one would have lost.
    writes_1h: u64,
    writes_1h_needed: u64,
}

#[derive(Serialize)]
struct LifeWire {
    /// Input side of the bill if everything is written for this life.
    input_usd: Dollars,
    /// What its writes cost above the other life, where that is the cheaper one for the write.
    regret_usd: Dollars,
}

#[derive(Serialize)]
struct TokensWire {
    prompt: u64,
    uncached: u64,
    cache_read: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
    cache_write: u64,
    output: u64,
}

#[derive(Serialize)]
struct MissWire {
    requests: u64,
    tokens: u64,
    usd: Option<Dollars>,
}

#[derive(Serialize)]
struct SessionWire<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    format: &'a str,
    agent: &'a str,
    model: &'a str,
    #[serde(flatten)]
    sums: SumsWire,
    breaks: Vec<BreakWire<'a>>,
    findings: Vec<FindingWire<'a>>,
}

#[derive(Serialize)]
struct TotalWire<'a> {
    sessions: usize,
    #[serde(flatten)]
    sums: SumsWire,
    breaks: Vec<BreakWire<'a>>,
    findings: Vec<FindingWire<'a>>,
}

#[derive(Serialize)]
struct BreakWire<'a> {
    /// In the total only.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    request: u32,
    at_ms: Option<i64>,
    gap_ms: Option<i64>,
    cause: &'static str,
    cache_read: u64,
    expected_read: u64,
    wasted_tokens: u64,
    wasted_usd: Option<Dollars>,
}

#[derive(Serialize)]
struct FindingWire<'a> {
    /// In the total only.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    detector: &'static str,
    requests: &'a [u32],
    detail: &'a str,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The JSON that `audit --format json` prints. Breaks and findings stand with their session and, named by
/// it, in the total.
pub fn write(audit: &Audit, recipe: &Recipe, skipped: &[Skipped], interrupted: bool) -> Vec<u8> {
    let body = Body { sessions: audit.sessions.iter().map(session).collect(), total: total(audit) };
    let canonical = serde_json::to_vec(&body).expect("numbers and strings always serialise");
    let skipped_prices = audit
        .sessions
        .iter()
        .filter_map(|s| Some(SkippedPrice { session: &s.session, model: s.unpriced_model.as_deref()? }));
    super::json::pretty(&AuditWire {
        format_version: FORMAT_VERSION,
        recipe,
        digest: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&canonical)),
        interrupted,
        skipped,
        skipped_prices: skipped_prices.collect(),
        body: &body,
    })
}

fn session(session: &SessionAudit) -> SessionWire<'_> {
    SessionWire {
        session: &session.session,
        parent: session.parent.as_deref(),
        format: &session.format,
        agent: &session.agent,
        model: &session.model,
        sums: sums(&session.sums),
        breaks: session.breaks.iter().map(|b| break_of(None, b)).collect(),
        findings: session.findings.iter().map(|f| finding(None, f)).collect(),
    }
}

fn total(audit: &Audit) -> TotalWire<'_> {
    TotalWire {
        sessions: audit.sessions.len(),
        sums: sums(&audit.total),
        breaks: audit
            .sessions
            .iter()
            .flat_map(|s| s.breaks.iter().map(move |b| break_of(Some(s.session.as_str()), b)))
            .collect(),
        findings: audit
            .sessions
            .iter()
            .flat_map(|s| s.findings.iter().map(move |f| finding(Some(s.session.as_str()), f)))
            .collect(),
    }
}

fn sums(sums: &Sums) -> SumsWire {
    let usage = &sums.usage;
    let hit_rate = Rate::of(u128::from(usage.cache_read_tokens), u128::from(usage.prompt_tokens()));
    let miss = |cause: &Cause| {
        let miss = sums.miss(*cause);
        let usd = sums.misses_priced.then_some(Decimal(miss.cost_pusd));
        (cause.name(), MissWire { requests: miss.requests, tokens: miss.tokens, usd })
    };
    SumsWire {
        requests: sums.requests,
        requests_without_usage: sums.without_usage,
        tokens: TokensWire {
            prompt: usage.prompt_tokens(),
            uncached: usage.uncached_tokens,
            cache_read: usage.cache_read_tokens,
            cache_write_5m: usage.cache_write_5m_tokens,
            cache_write_1h: usage.cache_write_1h_tokens,
            cache_write: usage.cache_write_tokens(),
            output: usage.output_tokens,
        },
        hit_rate: hit_rate.0.map(|micro| Decimal(u128::from(micro))),
        cost_usd: sums.cost_pusd.map(Decimal),
        wasted_tokens: sums.wasted_tokens,
        wasted_usd: sums.wasted_pusd.map(Decimal),
        misses: Cause::ALL.iter().map(miss).collect(),
        ttl_what_if: sums.lives.as_ref().map(lives),
    }
}

fn lives(lives: &Lives) -> LivesWire {
    let late = Rate::of(u128::from(lives.late_requests), u128::from(lives.requests));
    let life = |i: usize| LifeWire {
        input_usd: Decimal(lives.cost_pusd[i]),
        regret_usd: Decimal(lives.regret_pusd[i]),
    };
    LivesWire {
        requests: lives.requests,
        late_requests: lives.late_requests,
        late_share: late.0.map(|micro| Decimal(u128::from(micro))),
        break_even_share: lives.break_even_millionths().map(|micro| Decimal(u128::from(micro))),
        short: life(0),
        long: life(1),
        writes_1h: lives.long_writes,
        writes_1h_needed: lives.long_writes_needed,
    }
}

fn break_of<'a>(session: Option<&'a str>, b: &Break) -> BreakWire<'a> {
    BreakWire {
        session,
        request: b.request,
        at_ms: b.at_ms,
        gap_ms: b.gap_ms,
        cause: b.cause.name(),
        cache_read: b.cache_read_tokens,
        expected_read: b.expected_read_tokens,
        wasted_tokens: b.wasted_tokens,
        wasted_usd: b.wasted_pusd.map(Decimal),
    }
}

fn finding<'a>(session: Option<&'a str>, finding: &'a Finding) -> FindingWire<'a> {
    FindingWire { session, detector: finding.detector, requests: &finding.requests, detail: &finding.detail }
}
