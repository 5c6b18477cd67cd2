//! When a rule that fires holds back: what an agent remembers of its own actions.

use super::action::Growth;
use super::occasion::Occasion;
use super::strategy::{Cadence, WhenCache};
use super::stubs::Firing;
use super::view::View;

/// Requests between two actions below which the second is a refill.
const REFILL_REQUESTS: u64 = 3;

/// What a rule did last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memo {
    /// Request and human turn of the last action; 0: none yet.
    request: u32,
    turn: u32,
    /// Answers that were in the history then.
    answers: usize,
    /// Actions in a row, each soon after the one before.
    refills: u64,
    failures: u64,
    /// What the last action left of the measure.
    floor: u64,
}

impl Memo {
    pub(super) fn requests_since(&self, occasion: &Occasion) -> u64 {
        u64::from(occasion.request.saturating_sub(self.request))
    }

    pub(super) fn turns_since(&self, occasion: &Occasion) -> u64 {
        u64::from(occasion.turn.saturating_sub(self.turn))
    }

    /// What the measure has grown by since the last action, or from nothing.
    pub(super) fn growth(&self, value: u64, occasion: &Occasion) -> Growth {
        Growth { by: value.saturating_sub(self.floor), requests: self.requests_since(occasion) }
    }

    fn has_acted(&self) -> bool {
        self.request > 0
    }

    /// Whether the rule is off for the rest of the run.
    pub(super) fn is_broken(&self, cadence: &Cadence) -> bool {
        (cadence.breaker_failures > 0 && self.failures >= cadence.breaker_failures)
            || (cadence.breaker_refills > 0 && self.refills >= cadence.breaker_refills)
    }

    pub(super) fn holds_back(
        &self,
        cadence: &Cadence,
        firing: &Firing,
        occasion: &Occasion,
        view: &View<'_>,
    ) -> bool {
        let since = || {
            if cadence.interval_in_turns { self.turns_since(occasion) } else { self.requests_since(occasion) }
        };
        let limit = || u64::try_from(firing.limit).unwrap_or(0);
        let too_soon = || cadence.min_interval > 0 && self.has_acted() && since() < cadence.min_interval;
        let again = || cadence.not_after_self && self.has_acted() && view.answered.len() <= self.answers;
        let above_floor = || {
            cadence.no_refire_above_floor
                && self.floor > limit()
                && firing.value < self.floor + self.floor / 10
        };
        let waits_for_cold = || match cadence.when_cache {
            WhenCache::Any => false,
            WhenCache::Cold => !occasion.is_cold,
            WhenCache::PreferCold => {
                let until = cadence.prefer_cold_until.unwrap_or_else(|| limit() + limit() / 4);
                !occasion.is_cold && firing.value < until
            }
        };
        too_soon() || again() || above_floor() || self.is_broken(cadence) || waits_for_cold()
    }

    pub(super) fn acted(&mut self, cadence: &Cadence, occasion: &Occasion, view: &View<'_>, floor: u64) {
        let soon = self.has_acted() && self.requests_since(occasion) < REFILL_REQUESTS;
        self.refills = if soon { self.refills + 1 } else { u64::from(cadence.breaker_refills > 0) };
        self.failures = 0;
        self.request = occasion.request;
        self.turn = occasion.turn;
        self.answers = view.answered.len();
        self.floor = floor;
    }

    pub(super) fn failed(&mut self, cadence: &Cadence) {
        if cadence.breaker_failures > 0 {
            self.failures += 1;
        }
    }
}
