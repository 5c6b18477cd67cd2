//! When a rule is asked: the hook, and what the client's own clock says.

use super::strategy::Hook;

/// An occasion to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occasion {
    /// What has just happened, or is about to.
    pub hook: Hook,
    /// Number of the request to come, from 1.
    pub request: u32,
    /// Number of the human turn, from 1.
    pub turn: u32,
    /// From the start of the last request, where there was one and times are known.
    pub gap_ms: Option<i64>,
    /// What the client bought in the cache has expired, or it has not bought anything yet.
    pub is_cold: bool,
    /// Run by the recovery ladder: neither trigger nor cadence is asked.
    pub is_forced: bool,
    /// Only messages before this block are looked at; the others are set aside.
    pub end: u32,
    /// Files that earlier summaries were archived to.
    pub archived: u64,
}

impl Occasion {
    /// Nothing is known but the hook.
    pub fn at(hook: Hook) -> Occasion {
        Occasion {
            hook,
            request: 1,
            turn: 1,
            gap_ms: None,
            is_cold: false,
            is_forced: false,
            end: u32::MAX,
            archived: 0,
        }
    }

    /// The user, the ladder or a refusal asks, so triggers do not count.
    pub fn asks_no_trigger(&self) -> bool {
        self.is_forced || matches!(self.hook, Hook::Manual | Hook::Binding)
    }
}

/// A rule measured again after it had acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// The rules that follow it do not run.
    pub stops: bool,
    /// The client's measure at the trigger.
    pub tokens_before: u64,
    /// And after.
    pub tokens_after: u64,
}
