//! What a client does when the provider says that the prompt does not fit: an ordered ladder of steps.
//!
//! The provider room reads the deficit from the error text; a ladder gets the number.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Uses until it is reset.
    pub attempts: u64,
    /// When it may be used again.
    pub reset: Reset,
    /// What follows where a request that was made to fit is refused again.
    pub on_retry_failure: OnRetryFailure,
    /// In the order in which they are tried.
    pub steps: Vec<RecoveryStep>,
}

/// What makes a used ladder usable again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// An answer, and the start of a human turn.
    #[default]
    Success,
    /// Each request.
    Round,
    /// The start of a human turn.
    Turn,
    /// Nothing: once its attempts are used up, the next overflow ends the run.
    Never,
}

/// What a refused retry leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRetryFailure {
    /// The end.
    #[default]
    Stop,
    /// The next step.
    Next,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryStep {
    /// Rules by index, in this order.
    pub rules: Vec<usize>,
    /// Messages that the rules do not see; `None`: they see all.
    pub set_aside: Option<SetAside>,
    /// Skipped with fewer messages in the history.
    pub needs_messages: u64,
    /// Sent again only if the step freed the deficit and this margin.
    pub retry_margin: Option<u64>,
}

/// Messages taken off the end while the rules of a step run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetAside {
    /// How many of the newest messages are taken off.
    pub newest: Newest,
    /// Never fewer than these, where there are so many.
    pub at_least: u64,
    /// So many stay for the rules to work on; this wins over `at_least`.
    pub leave: u64,
}

/// How many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    /// So many messages.
    Count(u64),
    /// Half of all, rounded down.
    Half,
}

impl SetAside {
    /// Messages to take off a history of `messages`. `leave` wins over `at_least`.
    pub fn count(&self, messages: u64) -> u64 {
        let wanted = match self.newest {
            Newest::Count(n) => n,
            Newest::Half => messages / 2,
        };
        wanted.max(self.at_least).min(messages.saturating_sub(self.leave))
    }
}

impl RecoveryStep {
    /// Messages to set aside of a history of `messages`; `None`: the step cannot run on it.
    pub fn pull_back(&self, messages: u64) -> Option<u64> {
        if messages < self.needs_messages {
            return None;
        }
        let Some(aside) = &self.set_aside else { return Some(0) };
        Some(aside.count(messages)).filter(|k| *k > 0 && *k + 1 < messages)
    }

    /// Whether the request is sent again after a step that freed so many tokens of the client's estimate.
    pub fn retries(&self, freed_tokens: u64, deficit_tokens: Option<u64>) -> bool {
        match (self.retry_margin, deficit_tokens) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(margin), Some(deficit)) => freed_tokens >= deficit.saturating_add(margin),
        }
    }
}

/// A ladder in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ladder {
    used: u64,
    next_step: usize,
    /// A step of the present use has led to a retry.
    retried: bool,
}

impl Ladder {
    /// Whether it was used since its last reset.
    pub fn is_used(&self) -> bool {
        self.used > 0
    }

    /// An answer came.
    pub fn succeeded(&mut self, recovery: &Recovery) {
        self.next_step = 0;
        self.retried = false;
        if matches!(recovery.reset, Reset::Success | Reset::Round) {
            self.used = 0;
        }
    }

    /// A human turn begins.
    pub fn turn_starts(&mut self, recovery: &Recovery) {
        if recovery.reset != Reset::Never {
            self.used = 0;
        }
    }

    /// The prompt did not fit: whether there is anything left to try.
    pub fn refused(&mut self, recovery: &Recovery) -> bool {
        if std::mem::take(&mut self.retried) && recovery.on_retry_failure == OnRetryFailure::Next {
            return self.next_step < recovery.steps.len();
        }
        if self.used >= recovery.attempts {
            return false;
        }
        self.used += 1;
        self.next_step = 0;
        true
    }

    /// The next step to try.
    pub fn step<'r>(&mut self, recovery: &'r Recovery) -> Option<&'r RecoveryStep> {
        let step = recovery.steps.get(self.next_step)?;
        self.next_step += 1;
        Some(step)
    }

    /// The request is sent again.
    pub fn retries(&mut self) {
        self.retried = true;
    }
}

impl<'de> Deserialize<'de> for Newest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Newest, D::Error> {
        deserializer.deserialize_any(NewestVisitor)
    }
}

impl JsonSchema for Newest {
    fn schema_name() -> Cow<'static, str> {
        "Newest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "half"}]})
    }
}

struct NewestVisitor;

impl Visitor<'_> for NewestVisitor {
    type Value = Newest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of messages or \"half\"")
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Newest, E> {
        u64::try_from(n).map(Newest::Count).map_err(|_| E::custom("a number of messages is not below 0"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Newest, E> {
        if text == "half" { Ok(Newest::Half) } else { Err(E::custom(format!("`{text}` is not \"half\""))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(newest: Newest, at_least: u64, leave: u64) -> RecoveryStep {
        RecoveryStep {
            rules: vec![0],
            set_aside: Some(SetAside { newest, at_least, leave }),
            needs_messages: 4,
            retry_margin: None,
        }
    }

    #[test]
    fn half_is_bounded_and_the_upper_bound_wins() {
        let half = step(Newest::Half, 4, 2);
        assert_eq!(half.pull_back(20), Some(10));
        assert_eq!(half.pull_back(6), Some(4));
        assert_eq!(half.pull_back(5), Some(3));
        assert_eq!(half.pull_back(3), None);
        assert_eq!(step(Newest::Count(1), 0, 0).pull_back(4), Some(1));
    }

    #[test]
    fn a_gate_needs_the_deficit_and_the_margin() {
        let gated = RecoveryStep { retry_margin: Some(4_000), ..step(Newest::Count(1), 0, 0) };
        assert!(!gated.retries(1_000_000, None));
        assert!(!gated.retries(22_848, Some(18_849)));
        assert!(gated.retries(22_849, Some(18_849)));
    }

    #[test]
    fn one_use_until_an_answer_comes() {
        let recovery = Recovery {
            attempts: 1,
            reset: Reset::Success,
            on_retry_failure: OnRetryFailure::Stop,
            steps: vec![step(Newest::Count(1), 0, 0)],
        };
        let mut ladder = Ladder::default();
        assert!(
            ladder.refused(&recovery) && ladder.step(&recovery).is_some() && ladder.step(&recovery).is_none()
        );
        ladder.retries();
        assert!(!ladder.refused(&recovery));
        ladder.succeeded(&recovery);
        assert!(ladder.refused(&recovery));
    }
}
