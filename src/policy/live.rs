//! Which blocks are in the history, and what changed in it: what has left is never gone through again.

use std::ops::Range;

use super::view::View;

/// Runs of blocks that are in the history, ascending; no two touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    runs: Vec<Range<u32>>,
    len: u64,
}

impl Live {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.len = 0;
    }

    /// Number of blocks.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Blocks behind all others come in.
    pub fn push(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        self.len += u64::from(range.end - range.start);
        match self.runs.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.runs.push(range),
        }
    }

    /// Whether all of these blocks are there, and in the last run.
    pub fn ends_with(&self, range: &Range<u32>) -> bool {
        self.runs.last().is_some_and(|last| last.start <= range.start && range.end <= last.end)
    }

    /// What is in the history of these blocks, as runs.
    pub fn runs_in(&self, range: Range<u32>) -> impl DoubleEndedIterator<Item = Range<u32>> + Clone {
        let first = self.runs.partition_point(|r| r.end <= range.start);
        let end = if range.is_empty() { first } else { self.runs.partition_point(|r| r.start < range.end) };
        let runs = self.runs.get(first..end).unwrap_or_default();
        runs.iter().map(move |r| r.start.max(range.start)..r.end.min(range.end))
    }

    /// The first block at or behind `from`.
    pub fn first_from(&self, from: u32) -> Option<u32> {
        self.runs.get(self.runs.partition_point(|r| r.end <= from)).map(|r| r.start.max(from))
    }

    /// The last block before `end`.
    pub fn last_before(&self, end: u32) -> Option<u32> {
        let run = self.runs[..self.runs.partition_point(|r| r.start < end)].last()?;
        Some(run.end.min(end) - 1)
    }

    /// Takes out `gaps`, ascending by their start; gives what of them was there.
    pub fn take(&mut self, gaps: &[Range<u32>]) -> Vec<Range<u32>> {
        let Some(first) = gaps.first() else { return Vec::new() };
        let behind = self.runs.split_off(self.runs.partition_point(|r| r.end <= first.start));
        self.len -= behind.iter().map(|r| u64::from(r.end - r.start)).sum::<u64>();
        let mut gaps = gaps;
        let mut taken = Vec::new();
        for Range { start: mut from, end } in behind {
            while let Some(gap) = gaps.first().filter(|gap| gap.start < end) {
                let out = gap.start.max(from)..gap.end.min(end);
                if !out.is_empty() {
                    self.push(from..out.start);
                    from = out.end;
                    taken.push(out);
                }
                if gap.end > end {
                    break;
                }
                gaps = &gaps[1..];
            }
            self.push(from..end);
        }
        taken
    }

    /// Puts blocks back, none of which is there.
    pub fn put_back(&mut self, ranges: &[Range<u32>]) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(ranges.iter().filter(|r| !r.is_empty()).cloned());
        runs.sort_unstable_by_key(|r| r.start);
        self.len = 0;
        for run in runs {
            self.push(run);
        }
    }
}

impl View<'_> {
    /// The blocks of a range that are in the history.
    pub fn live_in(&self, range: Range<u32>) -> impl DoubleEndedIterator<Item = u32> + Clone {
        self.live.runs_in(range).flatten().inspect(|_| self.work.add(1))
    }

    /// The client messages of which a block is in the history, from block `from` on; the first begins there
    /// or later.
    pub fn messages_from(&self, from: u32, merged: bool) -> impl Iterator<Item = Range<u32>> {
        let mut from = from;
        std::iter::from_fn(move || {
            let mut start = self.live.first_from(from)?;
            while start > from && self.are_one_message(start - 1, start, merged) {
                start -= 1;
            }
            let message = self.message_from(start, merged);
            from = message.end;
            Some(message)
        })
    }
}

/// Blocks gone through, counted where debug assertions are on: tests hold it against the length of a session.
#[derive(Debug, Clone, Default)]
pub struct Work(#[cfg(debug_assertions)] std::cell::Cell<u64>);

impl Work {
    /// So many more.
    #[inline]
    pub fn add(&self, blocks: usize) {
        #[cfg(debug_assertions)]
        self.0.set(self.0.get() + blocks as u64);
        #[cfg(not(debug_assertions))]
        let _ = blocks;
    }

    /// All of them, where they are counted.
    #[cfg(debug_assertions)]
    pub fn blocks(&self) -> u64 {
        self.0.get()
    }
}

/// First block of each change of one kind: what was worked out before it still holds in front of it.
#[derive(Debug, Clone, Default)]
pub struct Changes(Vec<u32>);

impl Changes {
    /// Something changed from block `first` on.
    pub fn note(&mut self, first: u32) {
        self.0.push(first);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The first block of the changes behind the first `seen`, if there are any; all are seen from now on.
    fn since(&self, seen: &mut usize) -> Option<u32> {
        let new = self.0.get(*seen..).unwrap_or_default();
        *seen = self.0.len();
        new.iter().min().copied()
    }
}

/// What changed in a history, besides what was appended.
#[derive(Debug, Clone, Default)]
pub struct Changed {
    /// Blocks left or came back.
    pub left: Changes,
    /// Stored content was replaced.
    pub edited: Changes,
}

impl Changed {
    /// How many there were.
    pub fn count(&self) -> usize {
        self.left.0.len() + self.edited.0.len()
    }
}

/// The changes that somebody who keeps running totals has taken in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    left: usize,
    edited: usize,
}

impl Seen {
    /// From where on blocks left or came back since the last time.
    pub fn left(&mut self, changed: &Changed) -> Option<u32> {
        changed.left.since(&mut self.left)
    }

    /// The same, or were replaced.
    pub fn changed(&mut self, changed: &Changed) -> Option<u32> {
        let (left, edited) = (self.left(changed), changed.edited.since(&mut self.edited));
        left.into_iter().chain(edited).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_gap_may_span_runs_and_lie_within_one() {
        let mut live = Live::default();
        live.push(0..10);
        assert_eq!((live.runs_in(5..5).count(), live.runs_in(4..5).count()), (0, 1));
        assert_eq!(live.take(&[2..4, 6..7]), [2..4, 6..7]);
        assert_eq!(live.take(&[3..9, 9..9]), [4..6, 7..9]);
        assert_eq!(live.runs, [0..2, 9..10]);
        assert_eq!((live.len(), live.first_from(1), live.first_from(2)), (3, Some(1), Some(9)));
        assert_eq!(
            (live.last_before(9), live.last_before(0), live.last_before(99)),
            (Some(1), None, Some(9))
        );
    }

    #[test]
    fn changes_are_told_once() {
        let (mut changed, mut seen) = (Changed::default(), Seen::default());
        changed.left.note(7);
        changed.left.note(5);
        changed.edited.note(3);
        assert_eq!(seen.left(&changed), Some(5));
        assert_eq!(seen.changed(&changed), Some(3));
        assert_eq!(seen.changed(&changed), None);
    }

    proptest! {
        #[test]
        fn runs_are_what_a_list_of_flags_says(
            steps in vec((1..5_u32, vec((0..60_u32, 0..9_u32), 0..4), any::<bool>()), 1..12),
        ) {
            let mut live = Live::default();
            let mut flags: Vec<bool> = Vec::new();
            for (grows, gaps, comes_back) in steps {
                let end = flags.len() as u32;
                live.push(end..end + grows);
                flags.resize((end + grows) as usize, true);
                let mut gaps: Vec<Range<u32>> = gaps.iter().map(|(at, len)| *at..at + len).collect();
                gaps.sort_by_key(|gap| gap.start);
                let taken = live.take(&gaps);
                let mut gone = Vec::new();
                for block in gaps.into_iter().flatten().filter(|b| *b < end + grows) {
                    if std::mem::replace(&mut flags[block as usize], false) {
                        gone.push(block);
                    }
                }
                gone.sort_unstable();
                prop_assert_eq!(taken.iter().cloned().flatten().collect::<Vec<_>>(), gone.clone());
                if comes_back {
                    live.put_back(&taken);
                    gone.iter().for_each(|block| flags[*block as usize] = true);
                }
                let end = flags.len() as u32;
                let there: Vec<u32> = (0..end).filter(|b| flags[*b as usize]).collect();
                prop_assert_eq!(live.runs_in(0..end).flatten().collect::<Vec<_>>(), there.clone());
                prop_assert_eq!(live.len(), there.len() as u64);
                prop_assert!(live.runs.windows(2).all(|w| w[0].end < w[1].start));
                let middle = end / 2;
                prop_assert_eq!(live.first_from(middle), there.iter().find(|b| **b >= middle).copied());
                prop_assert_eq!(live.last_before(middle), there.iter().rfind(|b| **b < middle).copied());
            }
        }
    }
}
