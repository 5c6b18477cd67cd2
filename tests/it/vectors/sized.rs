//! A session of stated sizes: what `strategy.run` runs a preset on. Nothing is text, so every number that a
//! derivation needs stands in the vector.

use std::ops::Range;

use ctxsim::session::roles::Role;
use ctxsim::session::{
    Block, BlockKind, Blocks, Call, Event, EventKind, Flags, NONE, Origin, Prefix, PrefixBlock, ResultParts,
    Session, Step, Tool,
};
use ctxsim::tokens::Tokenizer;
use serde_json::{Map, Value};

use super::grammar::expand;

type Fields = Map<String, Value>;

/// A session, and the names that the vector gives its blocks.
pub struct Sized {
    pub session: Session,
    /// Per block.
    pub names: Vec<Option<String>>,
}

/// Numbers that the session refers to by name.
pub struct Values<'a>(pub Option<&'a Fields>);

impl Values<'_> {
    /// A number, `"$name"`, or sums and differences of both.
    fn number(&self, value: &Value) -> u32 {
        let total = match value {
            Value::String(sum) => self.sum(sum),
            other => other.as_i64().unwrap_or_else(|| panic!("no number: {other}")),
        };
        u32::try_from(total).unwrap_or_else(|_| panic!("{value} is {total}"))
    }

    fn sum(&self, sum: &str) -> i64 {
        let mut total = 0;
        let mut sign = 1;
        let mut rest = sum;
        loop {
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            total += sign * self.term(rest[..end].trim());
            let Some(operator) = rest[end..].chars().next() else { return total };
            sign = if operator == '+' { 1 } else { -1 };
            rest = &rest[end + 1..];
        }
    }

    fn term(&self, term: &str) -> i64 {
        match term.strip_prefix('$') {
            Some(name) => self.0.and_then(|v| v.get(name)?.as_i64()).unwrap_or_else(|| panic!("${name}?")),
            None => term.parse().unwrap_or_else(|_| panic!("no number: {term}")),
        }
    }
}

struct Builder<'a> {
    sized: Sized,
    values: Values<'a>,
    /// Calls of the last answer, with their names and tools.
    open: Vec<OpenCall>,
    message: u32,
}

struct OpenCall {
    name: Option<String>,
    call: u32,
    tool: u32,
}

impl Sized {
    /// Builds the session `input` describes, for a model with this tokenizer.
    pub fn new(input: &Value, values: Values<'_>, model: &str, tokenizer: Tokenizer) -> Sized {
        let session = Session {
            id: "vector".into(),
            parent: None,
            origin: Origin::default(),
            model: model.to_owned(),
            tokenizer,
            coefficients: tokenizer.coefficients(),
            prefix: prefix(&input["prefix"], &values),
            prefix_is_measured: true,
            warm_prefix_tokens: 0,
            tools: Vec::new(),
            calls: Vec::new(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        let sized = Sized { session, names: Vec::new() };
        let mut builder = Builder { sized, values, open: Vec::new(), message: 0 };
        let gap_ms = input.get("gap_ms").and_then(Value::as_i64).unwrap_or(10_000);
        let mut at_ms = 0;
        for (i, step) in expand(&input["steps"], "repeat_steps").iter().enumerate() {
            if i > 0 {
                at_ms += step.get("gap_ms").map_or(gap_ms, |v| i64::from(builder.values.number(v)));
            }
            builder.step(step, at_ms);
        }
        builder.sized
    }
}

fn prefix(input: &Value, values: &Values<'_>) -> Prefix {
    let block = |name: &str, hash: u64| {
        let tokens = input.get(name).map_or(0, |v| values.number(v));
        if tokens > 0 { vec![PrefixBlock { hash, tokens }] } else { Vec::new() }
    };
    Prefix { tools: block("tools", 1), system: block("system", 2), injected: block("injected", 3) }
}

impl Builder<'_> {
    fn step(&mut self, step: &Fields, at_ms: i64) {
        let before_step = u32::try_from(self.sized.session.steps.len()).unwrap();
        for event in step.get("events").and_then(Value::as_array).into_iter().flatten() {
            let kind = match event.as_str() {
                Some("manual_compaction") => EventKind::ManualCompaction,
                Some("resumed") => EventKind::Resumed,
                _ => panic!("event {event}"),
            };
            self.sized.session.events.push(Event { before_step, kind });
        }
        let input = blocks(step, "input");
        let human_turn = input.iter().any(|b| b["kind"] == "user");
        let input = self.input(&input);
        let answer = blocks(step, "output");
        assert!(!answer.is_empty(), "every step needs an answer");
        let output = self.output(&answer);
        let tokens = &self.sized.session.blocks.tokens[output.start as usize..output.end as usize];
        let output_tokens = tokens.iter().sum();
        self.sized.session.steps.push(Step {
            facts: ctxsim::session::Facts::default(),
            input,
            output,
            start_ms: Some(at_ms),
            duration_ms: 1_000,
            tail_tokens: 0,
            tail_hash: 0,
            output_tokens,
            human_turn,
            recorded: None,
        });
    }

    /// Results come first, a message each; everything else is one message.
    fn input(&mut self, input: &[Fields]) -> Range<u32> {
        let start = self.len();
        let is_result = |b: &&Fields| b["kind"] == "result";
        for block in input.iter().filter(is_result) {
            let row = self.row(block, BlockKind::ToolResult);
            self.result(block, row);
            self.message += 1;
        }
        let rest: Vec<_> = input.iter().filter(|b| !is_result(b)).collect();
        for block in &rest {
            let (kind, flags) = match block["kind"].as_str().unwrap() {
                // Typed while the agent works: no human turn begins.
                "user" | "steer" => (BlockKind::UserText, Flags::default()),
                "injected" => (BlockKind::UserText, Flags::INJECTED),
                "image" => (BlockKind::Image, Flags::default()),
                other => panic!("kind {other} in an input"),
            };
            let row = self.row(block, kind);
            self.push(block, Block { flags, ..row });
        }
        self.message += u32::from(!rest.is_empty());
        start..self.len()
    }

    fn result(&mut self, block: &Fields, mut row: Block) {
        let named = block.get("of").map(|of| self.open.iter().position(|c| c.name.as_deref() == of.as_str()));
        let at = named.unwrap_or(if self.open.is_empty() { None } else { Some(0) });
        let open = self.open.remove(at.unwrap_or_else(|| panic!("no call for the result {block:?}")));
        (row.call, row.tool) = (open.call, open.tool);
        if block.get("is_error").and_then(Value::as_bool) == Some(true) {
            row.flags = Flags::ERROR;
        }
        let images = block.get("image_chars").map_or(0, |v| self.values.number(v));
        let index = self.push(block, row);
        if images > 0 {
            self.sized.session.result_parts.push(ResultParts {
                block: index,
                texts: 1,
                images: 1,
                image_base64_chars: images,
                image_tokens: 0,
            });
        }
    }

    fn output(&mut self, output: &[Fields]) -> Range<u32> {
        let start = self.len();
        assert!(self.open.is_empty(), "a call has no result");
        for block in output {
            let flag = |name: &str| block.get(name).and_then(Value::as_bool) == Some(true);
            match block["kind"].as_str().unwrap() {
                "thinking" => {
                    let flags = if flag("unsigned") { Flags::default() } else { Flags::SIGNED };
                    let row = self.row(block, BlockKind::Thinking);
                    self.push(block, Block { flags, ..row });
                }
                "text" => {
                    let row = self.row(block, BlockKind::AssistantText);
                    self.push(block, row);
                }
                "call" => self.call(block),
                other => panic!("kind {other} in an output"),
            }
        }
        self.message += 1;
        start..self.len()
    }

    fn call(&mut self, block: &Fields) {
        let mut row = self.row(block, BlockKind::ToolUse);
        row.args_utf16 = block.get("args_chars").map_or(row.utf16, |v| self.values.number(v));
        row.tool = self.tool(block.get("tool").and_then(Value::as_str).unwrap_or("Bash"));
        let calls = &mut self.sized.session.calls;
        calls.push(Call { id_utf16: 30, safe_utf16: 30 });
        row.call = u32::try_from(calls.len() - 1).unwrap();
        let name = block.get("id").and_then(Value::as_str).map(str::to_owned);
        self.open.push(OpenCall { name, call: row.call, tool: row.tool });
        self.push(block, row);
    }

    fn tool(&mut self, name: &str) -> u32 {
        let tools = &mut self.sized.session.tools;
        let at = tools.iter().position(|t| t.name == name).unwrap_or_else(|| {
            tools.push(Tool { name: name.to_owned(), role: Role::of("", name) });
            tools.len() - 1
        });
        u32::try_from(at).unwrap()
    }

    /// A row with the sizes a block gives; 4 characters per token where it does not.
    fn row(&self, block: &Fields, kind: BlockKind) -> Block {
        let size = |name: &str, default: u32| block.get(name).map_or(default, |v| self.values.number(v));
        let tokens = size("tokens", 0);
        let utf16 = size("chars", 4 * tokens);
        Block {
            kind,
            flags: Flags::default(),
            message: self.message,
            tool: NONE,
            call: NONE,
            // Contents differ from block to block, but where the vector says what they are.
            hash: match block.get("content").and_then(Value::as_str) {
                Some(content) => xxhash_rust::xxh3::xxh3_64(content.as_bytes()),
                None => xxhash_rust::xxh3::xxh3_64(&self.len().to_le_bytes()),
            },
            tokens,
            utf16,
            bytes: size("bytes", utf16),
            lines: size("lines", 1),
            json_utf16: size("json_chars", utf16),
            ascii: utf16,
            args_utf16: 0,
        }
    }

    fn push(&mut self, block: &Fields, row: Block) -> u32 {
        self.sized.names.push(block.get("id").and_then(Value::as_str).map(str::to_owned));
        self.sized.session.blocks.push(row)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.sized.names.len()).unwrap()
    }
}

fn blocks(step: &Fields, side: &str) -> Vec<Fields> {
    step.get(side).map_or_else(Vec::new, |list| expand(list, "repeat_blocks"))
}

#[test]
fn sizes_of_vectors_are_sums_of_named_numbers() {
    let values: Fields = serde_json::from_str(r#"{"a": 10, "b": 3}"#).unwrap();
    let values = Values(Some(&values));
    assert_eq!(values.number(&Value::from("$a+$b-2")), 11);
    assert_eq!(values.number(&Value::from("7")), 7);
    assert_eq!(values.number(&Value::from(7)), 7);
}
