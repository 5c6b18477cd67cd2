//! A session built from a vector's message list: sizes are counted from the text, so the laws are called
//! with exact values.

use ctxsim::policy::view::Stored;
use ctxsim::session::compile::json_utf16;
use ctxsim::session::roles::Role;
use ctxsim::session::{
    Block, BlockKind, Blocks, Call, Facts, Flags, NONE, Origin, Prefix, ResultParts, Session, Step, Tool,
};
use ctxsim::sim::context::{Context, Memory};
use ctxsim::tokens::Tokenizer;
use serde_json::Value;

use super::grammar::{expand, text};

/// Digits of the timestamps of user messages, answers and results, where a message gives none.
pub const TIMESTAMP_DIGITS: [u64; 3] = [13, 1, 1];

/// A session and what the vector says of its messages.
pub struct Conversation {
    pub session: Session,
    /// First block of each message.
    pub message_start: Vec<u32>,
    /// Results that the history holds as offloaded.
    pub stored: Vec<Stored>,
    /// Total and digits of the usage of each assistant message.
    pub usage: Vec<(u64, u8)>,
    /// Step of each assistant message, by message index.
    pub step_of: Vec<Option<u32>>,
}

/// The message list with its repetitions written out.
pub fn messages(list: &Value) -> Vec<Value> {
    if list.is_null() {
        Vec::new()
    } else {
        expand(list, "repeat_messages").into_iter().map(Value::Object).collect()
    }
}

struct Builder {
    conversation: Conversation,
    default_args: Value,
}

impl Conversation {
    /// Builds from an expanded message list; `default_args` are those of calls without any.
    pub fn new(list: &[Value], default_args: &Value) -> Conversation {
        let session = Session {
            id: "vector".into(),
            parent: None,
            origin: Origin::default(),
            model: "claude-opus-5-5".into(),
            tokenizer: Tokenizer::ClaudeNewer,
            coefficients: Tokenizer::ClaudeNewer.coefficients(),
            prefix: Prefix::default(),
            prefix_is_measured: false,
            warm_prefix_tokens: 0,
            tools: Vec::new(),
            calls: Vec::new(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        let conversation = Conversation {
            session,
            message_start: Vec::new(),
            stored: Vec::new(),
            usage: Vec::new(),
            step_of: Vec::new(),
        };
        let mut builder = Builder { conversation, default_args: default_args.clone() };
        let mut input_from = 0;
        for message in list {
            let start = builder.blocks();
            builder.conversation.message_start.push(start);
            match message["role"].as_str().unwrap() {
                "assistant" => {
                    let step = u32::try_from(builder.conversation.session.steps.len()).unwrap();
                    builder.conversation.step_of.push(Some(step));
                    builder.assistant(message);
                    builder.step(input_from..start, start..builder.blocks());
                    input_from = builder.blocks();
                }
                role => {
                    builder.conversation.step_of.push(None);
                    if role == "user" { builder.user(message) } else { builder.result(message) }
                }
            }
        }
        let end = builder.blocks();
        builder.step(input_from..end, end..end);
        builder.conversation
    }

    /// A context in which the first `count` messages are in the history.
    pub fn context(&self, count: usize) -> Context<'_> {
        let mut context = Context::new(&self.session, 10, Memory::default());
        self.reveal(&mut context, 0..count);
        context
    }

    /// Adds messages to the history.
    pub fn reveal(&self, context: &mut Context<'_>, range: std::ops::Range<usize>) {
        for message in range {
            let end = self.message_start.get(message + 1).copied().unwrap_or(self.blocks());
            let range = self.message_start[message]..end;
            context.reveal(range.clone());
            for stored in self.stored.iter().filter(|s| range.contains(&s.block)) {
                context.restore_stored(*stored);
            }
            context.send(range);
            if let Some(step) = self.step_of[message] {
                let (total, digits) = self.usage[step as usize];
                context.answered(step, total, digits);
            }
        }
    }

    pub fn blocks(&self) -> u32 {
        u32::try_from(self.session.blocks.len()).unwrap()
    }

    /// Index of the message that block `block` starts, the number of messages at the end.
    pub fn message_of(&self, block: u32) -> usize {
        self.message_start.partition_point(|start| *start < block)
    }

    pub fn call_id(&self, list: &[Value], block: u32) -> String {
        list[self.message_of(block)]["id"].as_str().unwrap().to_owned()
    }
}

/// One row without links.
pub fn row(kind: BlockKind, body: &str) -> Block {
    let len = |n: usize| u32::try_from(n).unwrap();
    Block {
        kind,
        flags: Flags::default(),
        message: 0,
        tool: NONE,
        call: NONE,
        hash: xxhash_rust::xxh3::xxh3_64(body.as_bytes()),
        tokens: len(body.len() / 3),
        utf16: len(body.encode_utf16().count()),
        bytes: len(body.len()),
        lines: if body.is_empty() { 0 } else { 1 + len(body.matches('\n').count()) },
        json_utf16: u32::try_from(json_utf16(body)).unwrap(),
        ascii: len(body.chars().filter(char::is_ascii).count()),
        args_utf16: 0,
    }
}

impl Builder {
    fn blocks(&self) -> u32 {
        self.conversation.blocks()
    }

    fn push(&mut self, mut block: Block) -> u32 {
        block.message = u32::try_from(self.conversation.message_start.len() - 1).unwrap();
        self.conversation.session.blocks.push(block)
    }

    fn step(&mut self, input: std::ops::Range<u32>, output: std::ops::Range<u32>) {
        self.conversation.session.steps.push(Step {
            input,
            output,
            start_ms: None,
            duration_ms: 0,
            tail_tokens: 0,
            tail_hash: 0,
            output_tokens: 0,
            human_turn: false,
            recorded: None,
            facts: Facts::default(),
        });
    }

    fn tool(&mut self, name: &str) -> u32 {
        let tools = &mut self.conversation.session.tools;
        let at = tools.iter().position(|t| t.name == name).unwrap_or_else(|| {
            tools.push(Tool { name: name.to_owned(), role: Role::of("arcturn", name) });
            tools.len() - 1
        });
        u32::try_from(at).unwrap()
    }

    fn call(&mut self, id: &str) -> u32 {
        let calls = &mut self.conversation.session.calls;
        let safe = ctxsim::policy::laws::safe_name(id);
        calls.push(Call {
            id_utf16: u32::try_from(id.encode_utf16().count()).unwrap(),
            safe_utf16: u32::try_from(safe.len()).unwrap(),
        });
        u32::try_from(calls.len() - 1).unwrap()
    }

    /// A timestamp of another length makes the message's JSON that much longer or shorter.
    fn timestamp(&mut self, message: &Value, default_digits: u64) {
        let digits = message.get("timestamp_digits").and_then(Value::as_u64).unwrap_or(default_digits);
        if let Some(json) = self.conversation.session.blocks.json_utf16.last_mut() {
            *json = u32::try_from(u64::from(*json) + digits - default_digits).unwrap();
        }
    }

    fn user(&mut self, message: &Value) {
        self.push(row(BlockKind::UserText, &text(&message["text"])));
        self.timestamp(message, TIMESTAMP_DIGITS[0]);
    }

    fn assistant(&mut self, message: &Value) {
        for thinking in message.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            let body = thinking.get("text").and_then(Value::as_str).unwrap_or("");
            let signature = thinking.get("signature").and_then(Value::as_str).unwrap_or("");
            let mut block = row(BlockKind::Thinking, body);
            block.json_utf16 += u32::try_from(signature.len()).unwrap();
            if !signature.is_empty() {
                block.flags = block.flags.with(Flags::SIGNED);
            }
            if thinking.get("redacted").and_then(Value::as_bool) == Some(true) {
                block.flags = block.flags.with(Flags::REDACTED);
            }
            self.push(block);
        }
        if let Some(body) = message.get("text") {
            self.push(row(BlockKind::AssistantText, &text(body)));
        }
        for call in message.get("calls").and_then(Value::as_array).into_iter().flatten() {
            let args = call.get("args").unwrap_or(&self.default_args).clone();
            let mut block = row(BlockKind::ToolUse, &args.to_string());
            block.json_utf16 = block.utf16;
            block.args_utf16 = rendered_arguments(&args);
            block.tool = self.tool(call["tool"].as_str().unwrap());
            block.call = self.call(call["id"].as_str().unwrap());
            self.push(block);
        }
        self.timestamp(message, TIMESTAMP_DIGITS[1]);
        let usage = message.get("usage").cloned().unwrap_or_default();
        let counts: Vec<u64> = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"]
            .iter()
            .map(|k| usage.get(*k).and_then(Value::as_u64).unwrap_or(0))
            .collect();
        let digits = counts.iter().map(|n| ctxsim::policy::laws::digits(*n)).sum::<u64>();
        self.conversation.usage.push((counts.iter().sum(), u8::try_from(digits).unwrap()));
    }

    fn result(&mut self, message: &Value) {
        let body = text(message.get("text").unwrap_or(&Value::String(String::new())));
        let mut block = row(BlockKind::ToolResult, &body);
        if message.get("is_error").and_then(Value::as_bool) == Some(true) {
            block.flags = Flags::ERROR;
        }
        block.tool = self.tool(message["tool"].as_str().unwrap());
        block.call = self.call(message["id"].as_str().unwrap());
        let index = self.push(block);
        if let Some(image) = message.get("image_base64") {
            self.conversation.session.result_parts.push(ResultParts {
                block: index,
                texts: u32::from(message.get("text").is_some()),
                images: 1,
                image_base64_chars: u32::try_from(text(image).len()).unwrap(),
                image_tokens: 1_500,
            });
        }
        let details = message.get("details").cloned().unwrap_or_default();
        let path = details.get("path").and_then(Value::as_str).unwrap_or("");
        if details.get("offloaded") == Some(&Value::Bool(true)) && !path.is_empty() {
            let block = self.conversation.session.blocks.get(index as usize);
            self.conversation.stored.push(Stored {
                block: index,
                utf16: block.utf16,
                bytes: block.bytes,
                json_utf16: block.json_utf16,
                lines: block.lines,
                tokens: block.tokens,
                path_utf16: u32::try_from(path.encode_utf16().count()).unwrap(),
                ascii: block.ascii,
                is_text: false,
            });
        }
        self.timestamp(message, TIMESTAMP_DIGITS[2]);
    }
}

fn rendered_arguments(args: &Value) -> u32 {
    let parts: Vec<String> =
        args.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={v}")).collect();
    u32::try_from(parts.join(", ").encode_utf16().count()).unwrap()
}
