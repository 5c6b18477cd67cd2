//! What a compaction folds, and what it leaves: which messages stay behind the summary.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Ends, Level, Until};
use super::estimate::EstimateLaw;
pub use super::file::{NativeForm, Place};
use super::laws::TranscriptLaw;
pub use super::reinject::{Reinject, UserMessages};
use super::replace;
use super::strategy::{Threshold, Turn};
use super::stubs::{Firing, is_replaced};
use super::sums::Sums;
use super::turns;
use super::view::{Stored, View};
use crate::provider::ModelSpec;
use crate::session::BlockKind;

/// Replace history by a summary, or by nothing but a marker.
#[derive(Debug, Clone)]
pub struct SummarizeRule {
    /// What stays behind the summary.
    pub keep: Keep,
    /// Summarizers in the order in which they are tried.
    pub models: Vec<Summarizer>,
    /// What they read.
    pub input: SummaryInput,
    /// Calls made; 0: the messages are left out without a summary.
    pub calls: u64,
    /// UTF-16 units around the summary in its message.
    pub wrap_utf16: u64,
    /// How many of them JSON escapes.
    pub wrap_json_escapes: u64,
    /// Output limit of the call, in tokens: no summary is longer.
    pub max_output_tokens: u64,
    /// Length of the summary as a share of the summarizer's prompt, in millionths; `None`: the law of
    /// docs/decisions.md 15.
    pub output_share: Option<i64>,
    /// A fixed length.
    pub output_tokens: Option<u64>,
    /// Where it stands.
    pub place: Place,
    /// What stays or comes besides it.
    pub reinject: Reinject,
    /// The summaries before it stay in front of it, and are not folded again.
    pub accumulates: bool,
    /// Only if what is folded is larger than the newest summary; not when the user asked.
    pub larger_than_last_summary: bool,
    /// A summary that does not make the history smaller is thrown away.
    pub reject_if_larger: bool,
    /// Messages that stay where an input too long for the summarizer loses its oldest; `None`: it is sent
    /// as it is.
    pub drop_oldest_leaving: Option<u64>,
    /// Results left out of an input that is refused for its length, in hundredths of them: one more try each.
    pub leave_out_percent: Vec<u64>,
    /// The summarizer sees the newest so many estimated tokens of what is folded.
    pub input_last: Option<u64>,
    /// What it sees begins at a user message; where there is none, no call is made.
    pub input_starts_at_user: bool,
    /// Characters of what stands for a summary where there is nothing to read.
    pub empty_utf16: u64,
    /// And so many turns once more that earlier summaries stand for.
    pub overlap_turns: u64,
    /// The call writes to the cache.
    pub writes_cache: bool,
    /// Where the tail begins inside a turn, the head of that turn has a call of its own.
    pub split_turn: Option<SplitTurn>,
    /// Old results are cut in the same action.
    pub truncate_results: Option<TruncateResults>,
    /// Requests until the summary is there; the session goes on meanwhile.
    pub latency_steps: u64,
    /// Once it is there: it waits until this holds too.
    pub place_when: Option<Threshold>,
    /// One that comes after what it stands for was changed is thrown away.
    pub discard_if_stale: bool,
    /// Folded messages go to a file.
    pub archive: Option<Archive>,
    /// The agent reports the summary as it streams.
    pub progress: bool,
    /// A fold of a smaller share of the history, in hundredths, is left out; not when the user asked.
    pub min_fold_percent: u64,
    /// What the history must come to; else nothing happens.
    pub must_reach: Option<Level>,
    /// So many messages at the front stay.
    pub keep_first: u64,
    /// Stop replaying the thinking of the turns that are kept.
    pub withhold_kept_thinking: bool,
}

/// A call about the head of a turn that the tail cuts in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitTurn {
    /// UTF-16 units of the instruction behind what it reads.
    pub prompt_utf16: u64,
    /// Output limit of the call, in tokens.
    pub max_output_tokens: u64,
    /// Characters between the two summaries.
    pub wrap_utf16: u64,
}

/// Results that are cut if a summary is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncateResults {
    /// The newest results that come to so many estimated tokens stay whole, those cut counted as cut.
    pub beyond: u64,
    /// What is left of each of the others.
    pub ends: Ends,
    /// The summarizer is given them whole where what is folded is below so many estimated tokens.
    pub whole_under: u64,
}

impl TruncateResults {
    /// What is left of the results that are cut, ascending; the crossing one is.
    pub fn cuts(&self, view: &View<'_>, law: &EstimateLaw) -> Vec<Stored> {
        let first = view.results.partition_point(|b| *b < view.live_from);
        let mut counted = 0;
        let mut cuts = Vec::new();
        for block in view.results[first..].iter().rev().copied().filter(|b| view.is_live(*b)) {
            let whole = view.text_tokens(law, &view.text_size(block));
            let is_over = counted + whole > self.beyond && !is_replaced(view, block);
            let cut = if is_over { replace::cut(view, block, &self.ends) } else { None };
            counted += cut.as_ref().map_or(whole, |cut| view.text_tokens(law, &replace::text_of(cut)));
            cuts.extend(cut);
        }
        cuts.reverse();
        cuts
    }
}

/// A model that summarizes.
#[derive(Debug, Clone)]
pub struct Summarizer {
    /// `None`: the session's own.
    pub model: Option<Box<ModelSpec>>,
    /// The window that the client believes it has.
    pub window_tokens: u64,
}

/// Where folded messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archive {
    /// Characters of the folder's path.
    pub folder_utf16: u64,
    /// Characters of the note in the summary, the path left out.
    pub note_utf16: u64,
}

impl Archive {
    /// Name of the file after so many others.
    pub fn file(existing: u64) -> String {
        format!("chunk-{:03}.md", existing + 1)
    }

    /// Characters of the note, the path included.
    pub fn note_utf16(&self, existing: u64) -> u64 {
        self.note_utf16 + self.folder_utf16 + 1 + Archive::file(existing).len() as u64
    }
}

/// What a summary leaves in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The user messages at the end that no assistant message has answered.
    UnansweredUser,
    /// The shortest tail of at least so many estimated tokens, lengthened back to the user message
    /// before it.
    RecentTokens(u64),
    /// Nothing.
    Nothing,
    /// A tail.
    Tail(Tail),
    /// What is left once enough has been folded, and at least a tail, where there is one.
    Until(Front, Option<Tail>),
}

/// Messages at the front are folded until a level is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// Where folding stops.
    pub until: Until,
    /// Unit of the level: that of the rule's own measure.
    pub unit: FrontUnit,
    /// Where what stays may begin.
    pub snap: Tail,
}

/// What the folding of messages is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontUnit {
    /// Tokens of the client's estimate.
    Estimate,
    /// Client messages.
    Messages,
    /// Blocks of messages, as [`MessageUnit::Events`](super::strategy::MessageUnit::Events) counts them.
    Events,
}

/// Messages at the end that stay: all limits hold, and the largest tail of them stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// Estimated tokens.
    pub estimate: Option<u64>,
    /// Share of the estimated tokens of the history, in millionths.
    pub share: Option<i64>,
    /// Client messages; `None`: their number is no limit.
    pub messages: Option<u64>,
    /// Turns; `None`: their number is no limit.
    pub turns: Option<i64>,
    /// What a turn is.
    pub turn: Turn,
    /// A size is an upper bound: the message that crosses it does not stay.
    pub drop_crossing: bool,
    /// So many turns stay whatever they weigh.
    pub at_least_turns: i64,
    /// Nothing happens with fewer turns in the history.
    pub needs_turns: u64,
    /// Where it may begin.
    pub snap: Snap,
    /// Where its beginning moves from a place where it may not be.
    pub toward: Toward,
    /// Nothing happens where the tail has no place to begin; else it is empty.
    pub needs_a_place: bool,
}

/// Where a tail may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Snap {
    /// At a plain user message.
    #[default]
    User,
    /// At a plain user message or an answer.
    Assistant,
    /// The same: a message that is no result.
    Message,
}

/// Where the beginning of a tail moves to reach a place where it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Toward {
    /// The tail grows.
    #[default]
    Older,
    /// The tail shrinks.
    Newer,
}

/// What a summarizer reads.
#[derive(Debug, Clone)]
pub enum SummaryInput {
    /// A rendered transcript under a system prompt of its own: shares no cache with the conversation.
    Transcript {
        /// How messages are rendered.
        law: TranscriptLaw,
        /// UTF-16 units of the system prompt.
        system_utf16: u64,
        /// UTF-16 units of the instruction around the transcript.
        prompt_utf16: u64,
    },
    /// The folded messages as they are, then one instruction; no system prompt, no tools.
    Messages {
        /// UTF-16 units of the instruction.
        prompt_utf16: u64,
    },
    /// The request as it stands, then one instruction.
    Fork {
        /// UTF-16 units of the instruction.
        prompt_utf16: u64,
    },
    /// The conversation itself: the provider summarizes what it was sent.
    Native {
        /// What the provider is asked for, and what it gives back.
        form: NativeForm,
        /// Prompt tokens of the instructions that take the place of the provider's own; 0: its own.
        instructions_tokens: u64,
    },
}

impl Tail {
    /// The first block of the tail of the messages before block `end`; `None`: nothing is folded.
    pub fn cut(&self, view: &View<'_>, law: &EstimateLaw, sums: &Sums, end: u32) -> Option<u32> {
        let needed = self.needs_turns.saturating_sub(u64::from(view.summary.is_some()));
        if !turns::are_at_least(view, self.turn, needed, end) {
            return None;
        }
        let starts = sums.starts_before(end);
        let raw = self.raw_cut(view, law, sums, starts, end)?;
        let mut cut = self.moved(view, starts, raw, end)?;
        if self.at_least_turns > 0 {
            cut = cut.min(turns::boundary(view, self.turn, self.at_least_turns, end));
        }
        Some(cut)
    }

    /// Index of the message at which the tail begins, before it is moved to a place where it may.
    fn raw_cut(
        &self,
        view: &View<'_>,
        law: &EstimateLaw,
        sums: &Sums,
        starts: &[u32],
        end: u32,
    ) -> Option<usize> {
        let whole = sums.milli_before(end);
        let share = self.share.map(|millionths| {
            u64::try_from(u128::from(whole) * millionths.unsigned_abs() as u128 / 1_000_000)
                .unwrap_or(u64::MAX)
        });
        let sized = |milli: u64| {
            let before = sums.milli_before_each(end);
            if self.drop_crossing {
                let first = before.partition_point(|before| whole - before > milli);
                // Everything fits, the summary too: there is nothing to fold.
                if first == 0 && whole <= milli { None } else { Some(first) }
            } else {
                before.partition_point(|before| whole - before >= milli).checked_sub(1)
            }
        };
        let mut raw = starts.len();
        if let Some(tokens) = self.estimate {
            raw = raw.min(sized(milli_of(law, tokens))?);
        }
        if let Some(milli) = share {
            raw = raw.min(sized(milli)?);
        }
        if let Some(messages) = self.messages {
            let messages = usize::try_from(messages).unwrap_or(usize::MAX);
            raw = raw.min(starts.len().checked_sub(messages)?);
        }
        if let Some(turns) = self.turns {
            let from = turns::boundary(view, self.turn, turns, end);
            raw = raw.min(starts.partition_point(|s| *s < from));
        }
        Some(raw)
    }

    /// Whether there is a place in the history where a tail may begin, whatever the messages weigh.
    pub fn has_places(&self, view: &View<'_>) -> bool {
        let Some(front) = view.live.first_from(view.live_from) else { return false };
        if self.at_least_turns > 0
            && turns::boundary(view, self.turn, self.at_least_turns, view.revealed) <= front
        {
            return false;
        }
        let needs_none = self.toward == Toward::Newer && !self.needs_a_place;
        self.snap != Snap::User
            || needs_none
            || view.has_texts_for_pairs
            || view.user_messages.last().is_some_and(|user| *user > front)
    }

    /// Whether a tail may begin at this message.
    fn may_begin(&self, view: &View<'_>, start: u32) -> bool {
        view.work.add(1);
        match view.session.blocks.kind[start as usize] {
            BlockKind::UserText | BlockKind::Image => true,
            BlockKind::AssistantText | BlockKind::Thinking | BlockKind::ToolUse => self.snap != Snap::User,
            // A text for a pair, unless a result behind it still has its call in front.
            BlockKind::ToolResult => {
                let kinds = &view.session.blocks.kind;
                let is_result = |block: &u32| kinds[*block as usize] == BlockKind::ToolResult;
                let batch = view.message_from(start, true);
                view.live_in(batch).filter(is_result).all(|block| view.is_text_for_pair(block))
            }
        }
    }

    /// A message start, moved to a place where a tail may begin.
    fn moved(&self, view: &View<'_>, starts: &[u32], raw: usize, end: u32) -> Option<u32> {
        // A tail of nothing has no beginning to move.
        if raw >= starts.len() {
            return Some(end);
        }
        // Where nobody speaks, no place is looked for among all that is said: the user's messages are listed.
        let users = &view.user_messages;
        let is_start = |start: &&u32| {
            view.work.add(1);
            starts.binary_search(*start).is_ok()
        };
        let place = match (self.toward, self.snap) {
            (Toward::Newer, Snap::User) if !view.has_texts_for_pairs => users
                [users.partition_point(|b| *b < starts[raw])..]
                .iter()
                .find(is_start)
                .filter(|b| **b < end),
            (Toward::Older, Snap::User) if !view.has_texts_for_pairs => {
                users[..users.partition_point(|b| *b <= starts[raw])].iter().rev().find(is_start)
            }
            (Toward::Newer, _) => starts[raw..].iter().find(|start| self.may_begin(view, **start)),
            (Toward::Older, _) => starts[..=raw].iter().rev().find(|start| self.may_begin(view, **start)),
        };
        let needs_none = self.toward == Toward::Newer && !self.needs_a_place;
        place.copied().or(needs_none.then_some(end))
    }
}

impl Front {
    /// The first block that stays, where `kept` messages at the front stay too.
    pub fn cut(
        &self,
        view: &View<'_>,
        law: &EstimateLaw,
        sums: &Sums,
        end: u32,
        kept: u64,
        firing: &Firing,
    ) -> Option<u32> {
        let starts = sums.starts_before(end);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(starts.len());
        let excess = |level: &Level| {
            let level = u64::try_from(level.value(firing.limit, firing.growth)).unwrap_or(0);
            firing.value.saturating_sub(level)
        };
        let estimated = |tokens: u64| {
            let front = starts.get(kept).map_or(0, |s| sums.milli_before(*s));
            let front = if kept == 0 { 0 } else { front };
            let wanted = front + milli_of(law, tokens);
            sums.milli_before_each(end).partition_point(|before| *before < wanted)
        };
        let counted = |messages: u64| kept.saturating_add(usize::try_from(messages).unwrap_or(usize::MAX));
        // The summary is a message too, the first, where no others stay in front of it.
        let summary = usize::from(view.summary.is_some() && kept == 0);
        let shared = |share: i64| {
            let messages = share_of(starts.len() - kept + summary, share);
            counted(messages.saturating_sub(summary as u64))
        };
        let raw = match (&self.until, self.unit) {
            (Until::Saved(tokens), _) => estimated(*tokens),
            (Until::Total(level), FrontUnit::Estimate) => estimated(excess(level)),
            (Until::Total(level), FrontUnit::Messages) => counted(excess(level)),
            (Until::Total(level), FrontUnit::Events) => {
                let from = starts.get(kept).copied().unwrap_or(end);
                let mut left = excess(level);
                let mut blocks = view.live_in(from..end);
                let last = loop {
                    match (left, blocks.next()) {
                        (0, Some(block)) => break block,
                        (0, None) | (_, None) => break end,
                        (_, Some(_)) => left -= 1,
                    }
                };
                starts.partition_point(|s| *s < last)
            }
            (Until::Count(messages), _) => counted(*messages),
            (Until::Share(millionths), _) => shared(*millionths),
            (Until::Growing { share, step, under }, _) => {
                let under =
                    milli_of(law, u64::try_from(under.value(firing.limit, firing.growth)).unwrap_or(0));
                let whole = sums.milli_before(end);
                let mut share = *share;
                loop {
                    let raw = shared(share).min(starts.len());
                    let cut = self.snap.moved(view, starts, raw, end)?;
                    if share >= 1_000_000 || *step <= 0 || whole - sums.milli_before(cut) < under {
                        return Some(cut);
                    }
                    share += step;
                }
            }
        };
        self.snap.moved(view, starts, raw.min(starts.len()), end)
    }
}

/// A share, in millionths, of so many messages, rounded down.
fn share_of(messages: usize, millionths: i64) -> u64 {
    u64::try_from(messages as u128 * u128::from(millionths.unsigned_abs()) / 1_000_000).unwrap_or(u64::MAX)
}

/// Thousandths of tokens whose total is at most (so that `<=` on them is `<=` on tokens) so many tokens.
fn milli_of(law: &EstimateLaw, tokens: u64) -> u64 {
    let factor = law.texts.map_or(100, |t| t.factor_percent.max(1));
    tokens.saturating_mul(100_000) / factor
}

/// Blocks of the last user message before `end` that is live.
pub fn last_user_message(view: &View<'_>, end: u32) -> Option<Range<u32>> {
    let starts = &view.user_messages[..view.user_messages.partition_point(|b| *b < end)];
    Some(view.message_from(*starts.last()?, false))
}
