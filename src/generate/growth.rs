//! Sessions that grow by the same amount at every request.

use crate::session::roles::Role;
use crate::session::{
    Block, BlockKind, Blocks, Call, Facts, Flags, NONE, Origin, Prefix, PrefixBlock, Session, Step, Tool,
};
use crate::tokens::Tokenizer;

/// A session that grows by the same amount at every request: thinking, text and tool calls, whose results
/// come with the next request, followed by an injected reminder. Blocks of 0 tokens are left out. What closed forms and benchmarks are checked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantGrowth {
    /// Number of requests.
    pub requests: u32,
    /// From start to start.
    pub gap_ms: u32,
    /// Calls in each answer; as many results come with the next request.
    pub calls_per_request: u32,
    /// Tokens of the tool definitions, which are one block.
    pub tools_tokens: u32,
    /// Tokens of the system prompt, which is one block.
    pub system_tokens: u32,
    /// Tokens of the user's message before the first request.
    pub prompt_tokens: u32,
    /// Tokens of the thinking in each answer; 0: it does not think.
    pub thinking_tokens: u32,
    /// Text before the calls.
    pub text_tokens: u32,
    /// Tokens of each call.
    pub call_tokens: u32,
    /// Injected behind the results.
    pub reminder_tokens: u32,
    /// Tokens of each result.
    pub result_tokens: u32,
    /// UTF-16 units of each result.
    pub result_utf16: u32,
    /// Model the session counts as recorded on.
    pub model: String,
    /// Tokenizer that all these tokens are of.
    pub tokenizer: Tokenizer,
}

impl Default for ConstantGrowth {
    fn default() -> ConstantGrowth {
        ConstantGrowth {
            requests: 100,
            gap_ms: 10_000,
            calls_per_request: 1,
            tools_tokens: 12_000,
            system_tokens: 3_000,
            prompt_tokens: 200,
            thinking_tokens: 40,
            text_tokens: 0,
            call_tokens: 20,
            reminder_tokens: 0,
            result_tokens: 100,
            result_utf16: 300,
            model: "claude-opus-5-5".to_owned(),
            tokenizer: Tokenizer::ClaudeNewer,
        }
    }
}

impl ConstantGrowth {
    /// Builds the session.
    pub fn session(&self) -> Session {
        let prefix = Prefix {
            tools: vec![PrefixBlock { hash: 1, tokens: self.tools_tokens }],
            system: vec![PrefixBlock { hash: 2, tokens: self.system_tokens }],
            injected: Vec::new(),
        };
        let mut session = Session {
            id: format!("constant-growth-{}", self.requests),
            parent: None,
            origin: Origin { format: "synthetic".to_owned(), ..Origin::default() },
            model: self.model.clone(),
            tokenizer: self.tokenizer,
            coefficients: self.tokenizer.coefficients(),
            prefix,
            prefix_is_measured: true,
            warm_prefix_tokens: 0,
            tools: vec![Tool { name: "Bash".to_owned(), role: Role::Shell }],
            calls: Vec::new(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        let mut message = 0;
        let mut open_calls = 0..0;
        for request in 0..self.requests {
            let input = self.input(&mut session, &mut message, open_calls);
            let (output, calls) = self.output(&mut session, message);
            message += 1;
            open_calls = calls;
            session.steps.push(Step {
                input,
                output,
                start_ms: Some(i64::from(request) * i64::from(self.gap_ms)),
                duration_ms: 1_000,
                tail_tokens: 0,
                tail_hash: 0,
                output_tokens: self.thinking_tokens
                    + self.text_tokens
                    + self.calls_per_request * self.call_tokens,
                human_turn: request == 0,
                recorded: None,
                facts: Facts::default(),
            });
        }
        session
    }

    fn input(
        &self,
        session: &mut Session,
        message: &mut u32,
        calls: std::ops::Range<u32>,
    ) -> std::ops::Range<u32> {
        let start = len(session);
        if start == 0 {
            let block = row(BlockKind::UserText, *message, self.prompt_tokens, self.prompt_tokens * 3);
            push(session, block);
            *message += 1;
        }
        for call in calls {
            let mut block = row(BlockKind::ToolResult, *message, self.result_tokens, self.result_utf16);
            block.tool = 0;
            block.call = call;
            push(session, block);
            *message += 1;
        }
        if start > 0 && self.reminder_tokens > 0 {
            let mut block =
                row(BlockKind::UserText, *message, self.reminder_tokens, self.reminder_tokens * 3);
            block.flags = Flags::INJECTED;
            push(session, block);
            *message += 1;
        }
        start..len(session)
    }

    fn output(&self, session: &mut Session, message: u32) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
        let start = len(session);
        let mut thinking = row(BlockKind::Thinking, message, self.thinking_tokens, self.thinking_tokens * 3);
        thinking.flags = Flags::SIGNED;
        push(session, thinking);
        if self.text_tokens > 0 {
            push(session, row(BlockKind::AssistantText, message, self.text_tokens, self.text_tokens * 3));
        }
        let first_call = u32::try_from(session.calls.len()).unwrap_or(u32::MAX);
        for call in first_call..first_call + self.calls_per_request {
            session.calls.push(Call { id_utf16: 30, safe_utf16: 30 });
            let mut block = row(BlockKind::ToolUse, message, self.call_tokens, self.call_tokens * 3);
            block.tool = 0;
            block.call = call;
            block.args_utf16 = block.utf16;
            push(session, block);
        }
        (start..len(session), first_call..first_call + self.calls_per_request)
    }
}

fn len(session: &Session) -> u32 {
    u32::try_from(session.blocks.len()).unwrap_or(u32::MAX)
}

/// Contents differ from block to block: the hash is made of the position.
fn push(session: &mut Session, mut block: Block) {
    block.hash = xxhash_rust::xxh3::xxh3_64(&session.blocks.len().to_le_bytes());
    session.blocks.push(block);
}

fn row(kind: BlockKind, message: u32, tokens: u32, utf16: u32) -> Block {
    Block {
        kind,
        flags: Flags::default(),
        message,
        tool: NONE,
        call: NONE,
        hash: 0,
        tokens,
        utf16,
        bytes: utf16,
        lines: 1 + utf16 / 80,
        json_utf16: utf16,
        ascii: utf16,
        args_utf16: 0,
    }
}
