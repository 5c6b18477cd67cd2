//! Random small sessions, biased to the edges: gaps at a life ± 1 ms, 18 to 21 and 38 to 41 new blocks,
//! prompts at the minimum ± 1, one to four markers of either life, edits and their undoing.

use ctxsim::provider::{Marker, NO_LINK, Params, PrefixMismatch, SentBlock, SentKind, Ttl};
use proptest::collection::vec;
use proptest::prelude::*;

/// Shortest cached prefix of the test models.
pub const MINIMUM_TOKENS: u64 = 100;

/// One change of history before a request. Numbers pick a block, modulo those eligible.
#[derive(Debug, Clone, Copy)]
pub enum Edit {
    Rewrite(usize),
    Shorten(usize),
    Undo,
    Remove(usize),
    RemoveThinking(usize),
    RemoveAllThinking,
    PutBack,
    ChangeTool,
    SwapTools,
    AddTool,
    DeferredTool,
    ChangeSystem,
    Placeholder(usize),
    Rewind(usize),
}

/// One step: gap, edits, a response to the request before, new user blocks, and how it is sent.
#[derive(Debug, Clone)]
pub struct Step {
    pub gap_ms: i64,
    pub edits: Vec<Edit>,
    pub response: u8,
    pub new_blocks: usize,
    /// Sizes the last block so that the prompt has the minimum plus this many tokens, where it can.
    pub at_minimum: Option<i64>,
    pub markers: Vec<Place>,
    pub long_markers: usize,
    pub wrong_order: bool,
    pub automatic: Option<Ttl>,
    pub params: Params,
    pub tail_tokens: u32,
    pub ttft_ms: u32,
    /// `changed_from` is this much lower than it could be.
    pub caution: usize,
    pub other_model: bool,
    pub aside: bool,
}

/// Where a marker stands.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Tools,
    System,
    Last,
    Lagging(usize),
    Any(usize),
}

fn gaps() -> impl Strategy<Value = i64> {
    let (short, long) = (300_000, 3_600_000);
    prop_oneof![
        8 => Just(10_000),
        2 => Just(0),
        2 => Just(1_000),
        3 => Just(short / 2),
        6 => (-1..=1i64).prop_map(move |d| short + d),
        2 => (-1..=1i64).prop_map(move |d| long + d),
        1 => Just(2 * short),
    ]
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = 0..64usize;
    let edit = prop_oneof![
        2 => at.clone().prop_map(Edit::Rewrite),
        2 => at.clone().prop_map(Edit::Shorten),
        4 => Just(Edit::Undo),
        1 => at.clone().prop_map(Edit::Remove),
        3 => at.clone().prop_map(Edit::RemoveThinking),
        1 => Just(Edit::RemoveAllThinking),
        3 => Just(Edit::PutBack),
        1 => Just(Edit::ChangeTool),
        2 => Just(Edit::SwapTools),
        1 => Just(Edit::AddTool),
        1 => Just(Edit::DeferredTool),
        1 => Just(Edit::ChangeSystem),
        2 => at.clone().prop_map(Edit::Placeholder),
        1 => at.prop_map(Edit::Rewind),
    ];
    prop_oneof![5 => Just(Vec::new()), 4 => vec(edit.clone(), 1), 1 => vec(edit, 2..4)]
}

fn markers() -> impl Strategy<Value = Vec<Place>> {
    let place = prop_oneof![
        Just(Place::Tools),
        Just(Place::System),
        (1..40usize).prop_map(Place::Lagging),
        (0..64usize).prop_map(Place::Any),
    ];
    prop_oneof![
        2 => Just(vec![Place::Last]),
        3 => Just(vec![Place::System, Place::Last]),
        2 => Just(vec![Place::Tools, Place::System, Place::Last]),
        1 => Just(vec![Place::Lagging(20), Place::Last]),
        2 => (vec(place.clone(), 0..3)).prop_map(|mut p| { p.push(Place::Last); p }),
        1 => vec(place, 0..5),
    ]
}

fn params() -> impl Strategy<Value = Params> {
    let key = prop_oneof![9 => Just(0u64), 1 => Just(1)];
    let mismatch = prop_oneof![
        5 => Just(None),
        4 => Just(Some(PrefixMismatch::DropBlock)),
        1 => Just(Some(PrefixMismatch::Error)),
    ];
    (key, mismatch, any::<bool>()).prop_map(|(messages_key, prefix_mismatch, binding_beta)| Params {
        messages_key,
        prefix_mismatch,
        binding_beta,
        truncates: false,
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    let count = prop_oneof![6 => 1..4usize, 3 => 18..=21usize, 2 => 38..=41usize];
    let minimum = prop_oneof![6 => Just(None), 1 => (-1..=1i64).prop_map(Some)];
    let automatic = prop_oneof![8 => Just(None), 1 => Just(Some(Ttl::Short)), 1 => Just(Some(Ttl::Long))];
    let ttft = prop_oneof![4 => Just(0u32), 1 => Just(1_000), 1 => Just(1_001)];
    let rare = || prop_oneof![12 => Just(false), 1 => Just(true)];
    let (long, caution) = (0..5usize, prop_oneof![4 => Just(0usize), 1 => 1..50usize]);
    let sending = (markers(), long, rare(), automatic, params(), 0..2u32, ttft, caution);
    (gaps(), edits(), 0..8u8, count, minimum, sending, rare(), rare()).prop_map(
        |(gap_ms, edits, response, new_blocks, at_minimum, sending, other_model, aside)| {
            let (markers, long_markers, wrong_order, automatic, params, tail, ttft_ms, caution) = sending;
            Step {
                gap_ms,
                edits,
                response,
                new_blocks,
                at_minimum,
                markers,
                long_markers,
                wrong_order,
                automatic,
                params,
                tail_tokens: 7 * tail,
                ttft_ms,
                caution,
                other_model,
                aside,
            }
        },
    )
}

#[derive(Clone, Copy)]
struct Held {
    block: SentBlock,
    original: SentBlock,
    removed: bool,
}

/// The client's history.
#[derive(Default)]
pub struct Client {
    held: Vec<Held>,
    next: u64,
    message: u32,
}

impl Client {
    pub fn new(system_tokens: u32) -> Client {
        let mut client = Client::default();
        for (kind, tokens) in [(SentKind::Tool, 20), (SentKind::Tool, 15), (SentKind::System, system_tokens)]
        {
            client.push(kind, tokens, NO_LINK);
        }
        client
    }

    fn push(&mut self, kind: SentKind, tokens: u32, link: u32) -> SentBlock {
        self.next += 1;
        let (hash, message) = (self.next, self.message);
        let block = SentBlock { hash, tokens, link, message, kind, deferred: false, placeholder: false };
        let held = Held { block, original: block, removed: false };
        let prefix = self.held.iter().filter(|h| h.block.kind.is_prefix()).count();
        let at = if kind == SentKind::Tool {
            0
        } else if kind.is_prefix() {
            prefix
        } else {
            self.held.len()
        };
        self.held.insert(at, held);
        block
    }

    pub fn wire(&self) -> Vec<SentBlock> {
        self.held.iter().filter(|h| !h.removed).map(|h| h.block).collect()
    }

    /// The model answers; returns its blocks.
    pub fn respond(&mut self, shape: u8) -> Vec<SentBlock> {
        use SentKind::{AssistantText, Thinking, ToolUse};
        let shape: &[SentKind] = match shape {
            0 => &[AssistantText],
            1 | 2 => &[Thinking, ToolUse],
            3 => &[Thinking, AssistantText],
            4 => &[AssistantText, Thinking, ToolUse, ToolUse],
            5 => &[Thinking, Thinking, AssistantText],
            6 => &[Thinking, AssistantText, Thinking, ToolUse],
            _ => &[Thinking, ToolUse, ToolUse, ToolUse],
        };
        self.message += 1;
        let blocks = shape.iter().map(|&kind| {
            let link = if kind == AssistantText { NO_LINK } else { self.next as u32 + 1 };
            self.push(kind, 6 + (self.next % 5) as u32, link)
        });
        let blocks = blocks.collect();
        self.message += 1;
        blocks
    }

    /// The user's side: results of the open calls, then text until `count` new blocks are there.
    pub fn say(&mut self, response: &[SentBlock], count: usize, at_minimum: Option<i64>) {
        let mut new = response.len();
        for call in response.iter().filter(|b| b.kind == SentKind::ToolUse) {
            self.push(SentKind::ToolResult, 9, call.link);
            new += 1;
        }
        let answered = new > response.len();
        while new < count || (new == response.len() && !answered) {
            let kind = if self.next.is_multiple_of(11) { SentKind::Image } else { SentKind::Text };
            self.push(kind, 3 + (self.next % 7) as u32, NO_LINK);
            new += 1;
        }
        let sizes = self.held.iter().filter(|h| !h.removed).map(|h| i64::from(h.block.tokens));
        let rest = sizes.sum::<i64>() - self.held.last().map_or(0, |h| i64::from(h.block.tokens));
        let wanted = at_minimum.and_then(|delta| u32::try_from(MINIMUM_TOKENS as i64 + delta - rest).ok());
        if let (Some(tokens @ 1..), Some(last)) = (wanted, self.held.last_mut()) {
            last.block.tokens = tokens;
            last.original.tokens = tokens;
        }
    }

    pub fn edit(&mut self, edit: Edit) {
        self.next += 1;
        let fresh = self.next;
        match edit {
            Edit::Rewrite(n) => self.pick(n, rewritable, |h| h.block.hash = fresh),
            Edit::Shorten(n) => self.pick(
                n,
                |h| h.block.kind == SentKind::ToolResult,
                |h| {
                    h.block.hash = fresh;
                    h.block.tokens = 2;
                },
            ),
            Edit::Undo => self.held.iter_mut().filter(|h| !h.removed).for_each(|h| h.block = h.original),
            Edit::Remove(n) => {
                self.pick(n, |h| rewritable(h) || h.block.kind == SentKind::ToolUse, |h| h.removed = true)
            }
            Edit::RemoveThinking(n) => {
                self.pick(n, |h| h.block.kind == SentKind::Thinking, |h| h.removed = true)
            }
            Edit::RemoveAllThinking => self
                .held
                .iter_mut()
                .filter(|h| h.block.kind == SentKind::Thinking)
                .for_each(|h| h.removed = true),
            Edit::PutBack => self.held.iter_mut().for_each(|h| h.removed = false),
            Edit::ChangeTool => self.pick(0, |h| h.block.kind == SentKind::Tool, |h| h.block.hash = fresh),
            Edit::SwapTools => self.held.swap(0, 1),
            Edit::AddTool => drop(self.push(SentKind::Tool, 11, NO_LINK)),
            Edit::DeferredTool => {
                self.push(SentKind::Tool, 11, NO_LINK);
                self.held[0].block.deferred = true;
                self.held[0].original.deferred = true;
            }
            Edit::ChangeSystem => {
                self.pick(0, |h| h.block.kind == SentKind::System, |h| h.block.hash = fresh)
            }
            Edit::Placeholder(n) => self.pick(
                n,
                |h| h.block.kind == SentKind::ToolResult,
                |h| {
                    h.block.placeholder = !h.block.placeholder;
                    h.block.tokens = if h.block.placeholder { 4 } else { h.original.tokens };
                },
            ),
            Edit::Rewind(n) => {
                let texts = self.held.iter().enumerate().filter(|(_, h)| h.block.kind == SentKind::Text);
                let ends: Vec<usize> = texts.map(|(i, _)| i + 1).collect();
                if !ends.is_empty() {
                    self.held.truncate(ends[ends.len().saturating_sub(1 + n % 6)]);
                }
            }
        }
    }

    fn pick(&mut self, n: usize, eligible: impl Fn(&Held) -> bool, change: impl FnOnce(&mut Held)) {
        let eligible: Vec<usize> =
            (0..self.held.len()).filter(|&i| !self.held[i].removed && eligible(&self.held[i])).collect();
        if !eligible.is_empty() {
            change(&mut self.held[eligible[n % eligible.len()]]);
        }
    }
}

/// What may change without touching a response whose own content is still to be learned.
fn rewritable(held: &Held) -> bool {
    matches!(held.block.kind, SentKind::Text | SentKind::ToolResult | SentKind::Image)
}

/// The step's markers on these blocks, ascending.
pub fn place_markers(step: &Step, blocks: &[SentBlock]) -> Vec<Marker> {
    let last_of = |kind| blocks.iter().rposition(|b| b.kind == kind && !b.deferred);
    let at = |place: &Place| match place {
        Place::Tools => last_of(SentKind::Tool),
        Place::System => last_of(SentKind::System),
        Place::Last => blocks.len().checked_sub(1),
        Place::Lagging(n) => blocks.len().checked_sub(1 + n),
        Place::Any(n) => Some(n % blocks.len()),
    };
    let mut at: Vec<usize> = step.markers.iter().filter_map(at).filter(|&i| !blocks[i].deferred).collect();
    at.sort_unstable();
    at.dedup();
    let ttl = |i: usize| if (i < step.long_markers) != step.wrong_order { Ttl::Long } else { Ttl::Short };
    at.into_iter().enumerate().map(|(i, after)| Marker { after: after as u32, ttl: ttl(i) }).collect()
}
