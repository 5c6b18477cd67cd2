//! Random sessions of the sizes that agents work with: long results, errors, images, open calls, steering, and
//! all that a recording can say happened between two requests.

use ctxsim::generate::ConstantGrowth;
use ctxsim::session::roles::Role;
use ctxsim::session::{
    Block, BlockKind, Blocks, Call, DropReason, Event, EventKind, Facts, Flags, NONE, PrefixBlock,
    ResultParts, Session, Step, Tool,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// One request: what comes before it, what goes in, what comes out. Numbers pick modulo what there is.
#[derive(Debug, Clone)]
pub struct Act {
    gap_ms: u32,
    before: Option<Happening>,
    /// Size of each result, and whether it reports an error.
    results: Vec<(u32, bool)>,
    /// The user says something although results go in.
    steers: bool,
    says_tokens: u32,
    has_image: bool,
    thinking_tokens: u32,
    is_signed: bool,
    text_tokens: u32,
    /// Tool and size of each call.
    calls: Vec<(u32, u32)>,
}

#[derive(Debug, Clone)]
enum Happening {
    Manual,
    Clear,
    Rewind(usize),
    Cleared(usize),
    Tools,
    System,
    Parameters(u64),
}

fn size() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1..200_u32, 3 => 200..4_000_u32, 2 => 4_000..30_000_u32]
}

fn happening() -> impl Strategy<Value = Option<Happening>> {
    prop_oneof![
        24 => Just(None),
        2 => Just(Some(Happening::Manual)),
        1 => Just(Some(Happening::Clear)),
        2 => any::<usize>().prop_map(|n| Some(Happening::Rewind(n))),
        1 => any::<usize>().prop_map(|n| Some(Happening::Cleared(n))),
        1 => Just(Some(Happening::Tools)),
        1 => Just(Some(Happening::System)),
        1 => any::<u64>().prop_map(|n| Some(Happening::Parameters(n))),
    ]
}

pub fn act() -> impl Strategy<Value = Act> {
    let gap_ms = prop_oneof![6 => Just(10_000_u32), 1 => Just(400_000), 1 => Just(4_000_000)];
    let input = (
        vec((size(), prop::bool::weighted(0.1)), 4),
        prop::bool::weighted(0.1),
        size(),
        prop::bool::weighted(0.1),
    );
    let thinking = (prop_oneof![1 => Just(0_u32), 1 => 20..2_000_u32], prop::bool::weighted(0.8));
    let text = prop_oneof![2 => Just(0_u32), 1 => 10..2_000_u32];
    let calls = prop_oneof![1 => Just(Vec::new()), 5 => vec((0..5_u32, size()), 1..4)];
    (gap_ms, happening(), input, thinking, text, calls).prop_map(
        |(gap_ms, before, (results, steers, says_tokens, has_image), thinking, text_tokens, calls)| Act {
            gap_ms,
            before,
            results,
            steers,
            says_tokens,
            has_image,
            thinking_tokens: thinking.0,
            is_signed: thinking.1,
            text_tokens,
            calls,
        },
    )
}

/// A session in the making.
struct Building {
    session: Session,
    message: u32,
    open: Vec<(u32, u32)>,
    /// Steps of the history at which the user speaks to no open call.
    prompts: Vec<usize>,
    clock_ms: i64,
}

pub fn session(acts: &[Act]) -> Session {
    let mut session = ConstantGrowth { requests: 0, ..ConstantGrowth::default() }.session();
    session.tools = [("Bash", Role::Shell), ("Read", Role::Read), ("Edit", Role::Edit), ("Fetch", Role::Web)]
        .map(|(name, role)| Tool { name: name.to_owned(), role })
        .into();
    session.tools.push(Tool { name: "TodoWrite".to_owned(), role: Role::Todo });
    let mut building = Building { session, message: 0, open: Vec::new(), prompts: Vec::new(), clock_ms: 0 };
    for act in acts {
        building.step(act);
    }
    building.session
}

impl Building {
    fn len(&self) -> u32 {
        u32::try_from(self.session.blocks.len()).unwrap()
    }

    /// Contents differ from block to block, and so do the figures of each.
    fn push(&mut self, kind: BlockKind, tokens: u32, (tool, call): (u32, u32), flags: Flags) {
        let at = self.len();
        let utf16 = tokens * 3 + at % 7;
        self.session.blocks.push(Block {
            kind,
            flags,
            message: self.message,
            tool,
            call,
            hash: u64::from(at) + 1_000,
            tokens,
            utf16,
            bytes: utf16 + at % 11,
            lines: 1 + utf16 / 60,
            json_utf16: utf16 + utf16 / 40 + 2,
            ascii: utf16 - utf16 % 11,
            args_utf16: if kind == BlockKind::ToolUse { utf16 } else { 0 },
        });
    }

    fn step(&mut self, act: &Act) {
        self.clock_ms += i64::from(act.gap_ms);
        let step = self.session.steps.len();
        let start = self.len();
        let is_prompt = self.open.is_empty();
        if let Some(happening) = act.before.as_ref().filter(|_| step > 0) {
            self.happens(happening, step, is_prompt);
        }
        for (i, open) in std::mem::take(&mut self.open).into_iter().enumerate() {
            let (tokens, is_error) = act.results[i % act.results.len()];
            let image = 700 * u32::from(act.has_image && i == 0);
            let block = self.len();
            let flags = if is_error { Flags::ERROR } else { Flags::default() };
            self.push(BlockKind::ToolResult, tokens + image, open, flags);
            if image > 0 {
                self.session.result_parts.push(ResultParts {
                    block,
                    texts: 1,
                    images: 1,
                    image_base64_chars: 90_000,
                    image_tokens: image,
                });
            }
            self.message += 1;
        }
        if is_prompt || act.steers {
            self.push(BlockKind::UserText, act.says_tokens, (NONE, NONE), Flags::default());
            self.message += 1;
        }
        if is_prompt {
            self.prompts.push(step);
        }
        let end = self.len();
        self.answer(act);
        self.session.steps.push(Step {
            input: start..end,
            output: end..self.len(),
            start_ms: Some(self.clock_ms),
            duration_ms: 2_000,
            tail_tokens: 0,
            tail_hash: 0,
            output_tokens: act.thinking_tokens + act.text_tokens + 30,
            human_turn: is_prompt,
            recorded: None,
            facts: Facts::default(),
        });
    }

    fn answer(&mut self, act: &Act) {
        if act.thinking_tokens > 0 {
            let flags = if act.is_signed { Flags::SIGNED } else { Flags::default() };
            self.push(BlockKind::Thinking, act.thinking_tokens, (NONE, NONE), flags);
        }
        if act.text_tokens > 0 || act.calls.is_empty() {
            self.push(BlockKind::AssistantText, act.text_tokens + 1, (NONE, NONE), Flags::default());
        }
        for (tool, tokens) in &act.calls {
            let call = u32::try_from(self.session.calls.len()).unwrap();
            self.session.calls.push(Call { id_utf16: 30, safe_utf16: 30 });
            let open = (*tool, call);
            self.push(BlockKind::ToolUse, tokens / 4 + 20, open, Flags::default());
            self.open.push(open);
        }
        self.message += 1;
    }

    fn happens(&mut self, happening: &Happening, step: usize, is_prompt: bool) {
        let to = self.len();
        let kind = match happening {
            Happening::Manual => EventKind::ManualCompaction,
            Happening::Clear if is_prompt => {
                self.prompts.clear();
                EventKind::BlocksDropped { from: 0, to, reason: DropReason::Clear }
            }
            Happening::Rewind(n) if is_prompt && !self.prompts.is_empty() => {
                let at = n % self.prompts.len();
                let from = self.session.steps[self.prompts[at]].input.start;
                self.prompts.truncate(at);
                EventKind::BlocksDropped { from, to, reason: DropReason::Rewind }
            }
            Happening::Clear | Happening::Rewind(_) => return,
            Happening::Cleared(n) => {
                let kinds = &self.session.blocks.kind;
                let results = (0..to).filter(|b| kinds[*b as usize] == BlockKind::ToolResult);
                EventKind::RecordedClearing { blocks: results.step_by(1 + n % 5).collect(), applied: true }
            }
            Happening::Tools => {
                EventKind::ToolsChanged { tools: vec![PrefixBlock { hash: u64::from(to), tokens: 9_000 }] }
            }
            Happening::System => {
                EventKind::SystemChanged { system: vec![PrefixBlock { hash: u64::from(to), tokens: 4_000 }] }
            }
            Happening::Parameters(hash) => EventKind::ParametersChanged { hash: *hash },
        };
        self.session.events.push(Event { before_step: u32::try_from(step).unwrap(), kind });
    }
}

/// The session as it was when it had so many requests.
pub fn first_steps(session: &Session, count: usize) -> Session {
    let mut first = session.clone();
    first.steps.truncate(count);
    first.events.retain(|e| (e.before_step as usize) < count);
    let blocks = first.steps.last().map_or(0, |s| s.output.end as usize);
    first.blocks = Blocks::default();
    for block in 0..blocks {
        first.blocks.push(session.blocks.get(block));
    }
    first.result_parts.retain(|p| (p.block as usize) < blocks);
    first
}
