//! A session being written, block by block.

use crate::generate::Profile;
use crate::seed;
use crate::session::roles::Role;
use crate::session::{
    Block, BlockKind, Blocks, Call, Event, EventKind, Flags, NONE, Origin, Prefix, PrefixBlock, ResultParts,
    Session, Tool,
};
use crate::tokens::{SIGNATURE_MILLI, Tokenizer};

/// Most tokens of one text.
pub const MAX_BLOCK_TOKENS: u32 = 100_000_000;

/// Base64 characters of an image per token: a screenshot of a megapixel is about 200 kB.
const IMAGE_BASE64_CHARS_PER_TOKEN: u32 = 200;

/// Characters of a call id, `toolu_` and 24 more.
const CALL_ID_UTF16: u32 = 30;

/// The session and what is counted while it grows.
pub struct Writer {
    pub session: Session,
    message: u32,
    content_seed: u64,
    contents: u64,
}

impl Writer {
    /// An empty session; `prefix_tokens` of tools, system prompt and injected text.
    pub fn new(profile: &Profile, id: String, prefix_tokens: [u32; 3], content_seed: u64) -> Writer {
        let tokenizer = Tokenizer::of_model(&profile.model);
        let [tools, system, injected] = prefix_tokens;
        // All sessions of a profile have the same prefix, if it has the same size.
        let prefix = |what: &str, tokens: u32| match tokens {
            0 => Vec::new(),
            _ => vec![PrefixBlock { hash: seed::derive(0, what, &[u64::from(tokens)]), tokens }],
        };
        let tool = |(name, _): &(String, f64)| Tool { name: name.clone(), role: Role::of_any(name) };
        let session = Session {
            id,
            parent: None,
            origin: Origin {
                format: "synthetic".to_owned(),
                agent: profile.name.clone(),
                ..Origin::default()
            },
            model: profile.model.clone(),
            tokenizer,
            coefficients: tokenizer.coefficients(),
            prefix: Prefix {
                tools: prefix("generate/prefix/tools", tools),
                system: prefix("generate/prefix/system", system),
                injected: prefix("generate/prefix/injected", injected),
            },
            prefix_is_measured: true,
            warm_prefix_tokens: 0,
            tools: profile.tools.iter().map(tool).collect(),
            calls: Vec::new(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        Writer { session, message: 0, content_seed, contents: 0 }
    }

    pub fn finish(self) -> Session {
        self.session
    }

    /// Number of blocks.
    pub fn len(&self) -> u32 {
        u32::try_from(self.session.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Milli-tokens per character of a kind of text.
    pub fn milli(&self, kind: BlockKind) -> f64 {
        let c = self.session.coefficients;
        f64::from(match kind {
            BlockKind::UserText | BlockKind::AssistantText | BlockKind::Image => c.text_milli,
            BlockKind::ToolResult => c.tool_result_milli,
            BlockKind::ToolUse => c.tool_use_milli,
            BlockKind::Thinking => c.thinking_milli,
        })
    }

    /// Hash of a content that no other block has.
    pub fn new_hash(&mut self) -> u64 {
        self.contents += 1;
        seed::derive(self.content_seed, "content", &[self.contents])
    }

    /// A call of its own id.
    pub fn new_call(&mut self) -> u32 {
        self.session.calls.push(Call { id_utf16: CALL_ID_UTF16, safe_utf16: CALL_ID_UTF16 });
        u32::try_from(self.session.calls.len() - 1).unwrap_or(NONE)
    }

    /// Adds a block to the current message. One without a hash is a content of its own.
    pub fn push(&mut self, mut block: Block, parts: Option<ResultParts>) {
        block.message = self.message;
        if block.hash == 0 {
            block.hash = self.new_hash();
        }
        let index = self.session.blocks.push(block);
        self.session.result_parts.extend(parts.map(|parts| ResultParts { block: index, ..parts }));
    }

    /// As [`Writer::push`], without parts.
    pub fn push_new(&mut self, block: Block) {
        self.push(block, None);
    }

    /// What comes next is another message.
    pub fn end_message(&mut self) {
        self.message += 1;
    }

    /// Something happens before the step at hand.
    pub fn event(&mut self, kind: EventKind) {
        let before_step = u32::try_from(self.session.steps.len()).unwrap_or(u32::MAX);
        self.session.events.push(Event { before_step, kind });
    }
}

/// A block whose sizes are all `utf16`, on one line.
pub fn plain(kind: BlockKind, tokens: u32, utf16: u32) -> Block {
    Block {
        kind,
        flags: Flags::default(),
        message: 0,
        tool: NONE,
        call: NONE,
        hash: 0,
        tokens,
        utf16,
        bytes: utf16,
        lines: 1,
        json_utf16: utf16,
        ascii: utf16,
        args_utf16: 0,
    }
}

/// An image of its own: what a client that estimates from its JSON counts are the characters.
pub fn image(tokens: u32) -> Block {
    let empty = plain(BlockKind::Image, tokens, 0);
    Block { utf16: base64_chars(tokens), lines: 0, ..empty }
}

/// Length of an image as base64.
pub fn base64_chars(image_tokens: u32) -> u32 {
    image_tokens.saturating_mul(IMAGE_BASE64_CHARS_PER_TOKEN)
}

/// Length of the signature of so much thinking.
pub fn signature_chars(thinking_tokens: u32) -> u32 {
    let chars = u64::from(thinking_tokens) * 1_000 / u64::from(SIGNATURE_MILLI);
    u32::try_from(chars).unwrap_or(u32::MAX)
}
