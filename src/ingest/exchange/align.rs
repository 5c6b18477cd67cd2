//! Which blocks of a prompt are those of a history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Mark;

/// A block that was sent or received before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub mark: Mark,
    /// Of blocks of an answer: its number, from 0.
    pub response: Option<usize>,
}

/// How a prompt lies on a history.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// For each block of the prompt its place in the history.
    pub places: Vec<Option<usize>>,
    /// Number of blocks that the history has.
    pub known: usize,
    /// Index behind the last block that the history has.
    pub fresh_from: usize,
    /// Blocks of the prompt, by index, whose result has another content now.
    pub changed: Vec<usize>,
    /// Answers of which no block is left, before the last one that is.
    pub lost_inside: usize,
    /// Answers that are left, up to and with the last one.
    pub kept_responses: usize,
    /// Answers behind those.
    pub lost_behind: usize,
}

/// Walks through both in order; a block that the history has further on is taken for that one.
pub(super) fn align(history: &[Known], prompt: &[Mark]) -> Alignment {
    // Most requests have all of their history in front.
    let same = history.iter().zip(prompt).take_while(|(known, mark)| known.mark.identity == mark.identity);
    let same = same.count();
    let mut later: BTreeMap<u64, VecDeque<usize>> = BTreeMap::new();
    for (place, known) in history.iter().enumerate().skip(same) {
        later.entry(known.mark.identity).or_default().push_back(place);
    }
    let mut alignment = Alignment { places: vec![None; prompt.len()], ..Alignment::default() };
    let mut next = same;
    for (index, mark) in prompt.iter().enumerate() {
        let place = if index < same { Some(index) } else { take(&mut later, mark.identity, next) };
        let Some(place) = place else { continue };
        next = next.max(place + 1);
        alignment.places[index] = Some(place);
        alignment.known += 1;
        alignment.fresh_from = index + 1;
        if history[place].mark.body != mark.body {
            alignment.changed.push(index);
        }
    }
    alignment.count_answers(history);
    alignment
}

/// The first place of a block from `next` on.
fn take(later: &mut BTreeMap<u64, VecDeque<usize>>, identity: u64, next: usize) -> Option<usize> {
    let places = later.get_mut(&identity)?;
    while places.front().is_some_and(|place| *place < next) {
        places.pop_front();
    }
    places.pop_front()
}

impl Alignment {
    fn count_answers(&mut self, history: &[Known]) {
        let all: BTreeSet<usize> = history.iter().filter_map(|known| known.response).collect();
        let left = self.places.iter().flatten().filter_map(|place| history[*place].response);
        let left: BTreeSet<usize> = left.collect();
        let last = left.last().copied();
        self.kept_responses = last.map_or(0, |last| last + 1);
        self.lost_behind = all.iter().filter(|response| last.is_none_or(|last| **response > last)).count();
        self.lost_inside = all.len() - left.len() - self.lost_behind;
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Mark, align};

    fn mark(identity: u64) -> Mark {
        Mark { identity, body: 0 }
    }

    /// Blocks from 100 on are of the answers.
    fn history(blocks: &[u64]) -> Vec<Known> {
        let known = |identity: &u64| Known {
            mark: mark(*identity),
            response: identity.checked_sub(100).map(|n| usize::try_from(n).unwrap()),
        };
        blocks.iter().map(known).collect()
    }

    #[test]
    fn what_was_lost_is_told_from_what_is_new() {
        let before = history(&[1, 2, 100, 3, 101, 4, 102]);
        for (prompt, known, fresh_from, lost_inside, kept, lost_behind) in [
            (&[1, 2, 100, 3, 101, 4, 102, 5][..], 7, 7, 0, 3, 0),
            (&[1, 2, 100, 3, 7], 4, 4, 0, 1, 2),
            (&[1, 9, 4, 102, 5], 3, 4, 2, 3, 0),
            (&[2, 100, 3, 101, 4, 102, 5], 6, 6, 0, 3, 0),
            (&[8, 9], 0, 0, 0, 0, 3),
        ] {
            let prompt: Vec<Mark> = prompt.iter().map(|identity| mark(*identity)).collect();
            let found = align(&before, &prompt);
            let found =
                (found.known, found.fresh_from, found.lost_inside, found.kept_responses, found.lost_behind);
            assert_eq!(found, (known, fresh_from, lost_inside, kept, lost_behind), "{prompt:?}");
        }
    }

    #[test]
    fn a_result_may_change_and_is_still_known() {
        let mut before = history(&[1, 100, 2]);
        before[2].mark.body = 7;
        let found = align(&before, &[mark(1), mark(100), mark(2)]);
        assert_eq!((found.known, found.changed), (3, vec![2]));
    }
}
