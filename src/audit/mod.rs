//! The audit: why a recorded session paid for tokens again, from what it recorded and nothing else.
//!
//! [`Account`] holds the facts of a session, [`judge()`] gives every miss its cause, [`detect`] looks for
//! patterns over the whole session, [`report`] is what comes out. Nothing is simulated and no strategy is
//! run.
//!
//! # Divergence from the real API
//!
//! * Recordings are judged request by request in the order of their main chain; requests that an agent
//!   makes without recording them are not there.
//! * A price is that of the session's day unless another is asked for. What a recording itself says it cost goes
//!   before that.

pub mod account;
pub mod detect;
pub mod judge;
pub mod lives;
mod of_session;
pub mod report;
pub mod signs;
mod why;

pub use account::Account;
pub use detect::{DETECTORS, Detector};
pub use judge::{Known, Series, judge, series};
pub use lives::Lives;
pub use report::{Audit, Break, Finding, Miss, SessionAudit};
pub use signs::Signs;
pub use why::Judgement;

use crate::provider::model::Models;
use crate::provider::price::Date;

/// Audits one session.
pub fn audit(account: &Account, models: &Models, price_date: Option<Date>) -> SessionAudit {
    report::session(&judge(account, known(account, models, price_date)))
}

/// What is known of each of a session's models.
pub fn known<'m>(account: &Account, models: &'m Models, price_date: Option<Date>) -> Vec<Known<'m>> {
    let own_day = account.requests.iter().find_map(|request| request.start_ms).and_then(Date::of_ms);
    let price_day = price_date.or(own_day);
    let known = account.models.iter().map(|id| {
        let spec = models.get(id).ok();
        Known { spec, price_day, price: spec.and_then(|spec| spec.price(price_day)) }
    });
    known.collect()
}
