//! Results that repeat one another: with the same call, or with the same content.

use std::collections::BTreeMap;

use super::items::call_of;
use super::stubs::is_replaced;
use super::view::View;

/// Results that a rule is limited to: another one, which stands in full, says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// Their call, tool and arguments, was made again later.
    Superseded,
    /// A later one has the same content.
    EarlierCopy,
    /// An earlier one has.
    LaterCopy,
}

impl Repeated {
    /// What is equal between those that repeat one another.
    fn key(self, view: &View<'_>, result: u32) -> Option<u64> {
        let of = match self {
            Repeated::Superseded => call_of(view, result)?,
            Repeated::EarlierCopy | Repeated::LaterCopy => result,
        };
        Some(view.session.blocks.hash[of as usize])
    }
}

/// Results by what they say.
#[derive(Debug, Clone, Default)]
pub(super) struct Twins {
    /// Results before this one are known: an index into [`View::results`].
    known: usize,
    of_key: BTreeMap<u64, Vec<u32>>,
}

impl Twins {
    /// Takes in the results that are new; gives the older ones that one of them repeats, where those are of interest.
    pub(super) fn refresh(&mut self, repeated: Repeated, view: &View<'_>) -> Vec<u32> {
        let mut repeated_now = Vec::new();
        for result in &view.results[self.known..] {
            let Some(key) = repeated.key(view, *result) else { continue };
            let same = self.of_key.entry(key).or_default();
            if repeated != Repeated::LaterCopy {
                repeated_now.extend_from_slice(same);
            }
            same.push(*result);
        }
        self.known = view.results.len();
        repeated_now.sort_unstable();
        repeated_now.dedup();
        repeated_now
    }

    /// Whether one that stands in full says the same as `result`.
    pub(super) fn is_repeated(&self, repeated: Repeated, view: &View<'_>, result: u32) -> bool {
        let same = repeated.key(view, result).and_then(|key| self.of_key.get(&key));
        let stands_for_it = |other: u32| {
            let is_behind = match repeated {
                Repeated::Superseded | Repeated::EarlierCopy => other > result,
                Repeated::LaterCopy => other < result,
            };
            is_behind && view.is_live(other) && !is_replaced(view, other)
        };
        same.is_some_and(|same| same.iter().any(|other| stands_for_it(*other)))
    }
}
