//! The texts of "the prompt does not fit", one row per vendor: what it counts, what it says, and in what it is wrapped.
//!
//! Texts: docs/sources.md I (vendor error pages, August 2026; pi-ai 1.6.0 `utils/overflow.js`, 2026-11-20;
//! vendor forums).
//!
//! # Divergence from the real API
//!
//! * Where only the sentence is published, and not the JSON around it, the body is the sentence.
//! * Ids of requests are made up.

use serde_json::json;

use super::model::OverflowStyle;

/// What a vendor holds against the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The prompt.
    Input,
    /// The prompt and the output asked for.
    InputAndOutput,
}

/// What a sentence stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Bare,
    Anthropic,
    /// OpenAI's, with the parameter that is blamed.
    Openai(&'static str),
    Gemini,
    /// An error with a code of the vendor's own.
    Coded(&'static str),
    /// Nothing at all.
    Empty,
}

/// One vendor. In a text `{in}`, `{out}`, `{sum}`, `{limit}` and `{over}` are numbers.
struct Row {
    style: OverflowStyle,
    counts: Counts,
    text: &'static str,
    status: u16,
    body: Body,
}

const fn row(style: OverflowStyle, counts: Counts, text: &'static str, body: Body) -> Row {
    Row { style, counts, text, status: 400, body }
}

use Counts::{Input, InputAndOutput};
use OverflowStyle as S;

const ROWS: &[Row] = &[
    row(S::Anthropic, Input, "prompt is too long: {in} tokens > {limit} maximum", Body::Anthropic),
    row(
        S::AnthropicBefore45,
        InputAndOutput,
        "input length and `max_tokens` exceed context limit: {in} + {out} > {limit}, decrease input length or \
         `max_tokens` and try again",
        Body::Anthropic,
    ),
    row(
        S::Openai,
        Input,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        Body::Openai("input"),
    ),
    row(
        S::OpenaiChat,
        Input,
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {in} tokens. Please \
         reduce the length of the messages.",
        Body::Openai("messages"),
    ),
    row(
        S::Gemini,
        Input,
        "The input token count ({in}) exceeds the maximum number of tokens allowed ({limit}).",
        Body::Gemini,
    ),
    row(
        S::Deepseek,
        InputAndOutput,
        "This model's maximum context length is {limit} tokens. However, you requested {sum} tokens ({in} in the \
         messages, {out} in the completion). Please reduce the length of the messages or completion.",
        Body::Bare,
    ),
    row(
        S::Xai,
        Input,
        "This model's maximum prompt length is {limit} but the request contains {in} tokens",
        Body::Bare,
    ),
    row(S::Kimi, Input, "Your request exceeded model token limit: {limit} (requested: {in})", Body::Bare),
    row(S::Zai, Input, "Prompt exceeds max length", Body::Coded("1261")),
    row(S::Qwen, Input, "Range of input length should be [1, {limit}]", Body::Bare),
    row(
        S::QwenPassed,
        InputAndOutput,
        "You passed {in} input tokens and requested {out} output tokens. However, the model's context length is only \
         {limit} tokens.",
        Body::Bare,
    ),
    row(S::Minimax, Input, "invalid params, context window exceeds limit", Body::Bare),
    row(
        S::Mistral,
        Input,
        "Prompt contains {in} tokens, too large for model with {limit} maximum context length",
        Body::Bare,
    ),
    row(S::Bedrock, Input, "ValidationException: Input is too long for requested model.", Body::Bare),
    row(
        S::Vllm,
        InputAndOutput,
        "This model's maximum context length is {limit} tokens. However, you requested {out} output tokens and your \
         prompt contains at least {in} input tokens, for a total of at least {sum} tokens.",
        Body::Bare,
    ),
    row(
        S::Openrouter,
        Input,
        "This endpoint's maximum context length is {limit} tokens. However, you requested about {in} tokens ({in} of \
         text input).",
        Body::Bare,
    ),
    row(
        S::Together,
        Input,
        "The input ({in} tokens) is longer than the model's context length ({limit} tokens).",
        Body::Bare,
    ),
    row(
        S::Sglang,
        Input,
        "Input length ({in}) exceeds model's maximum context length ({limit}).",
        Body::Bare,
    ),
    row(S::Copilot, Input, "prompt token count of {in} exceeds the limit of {limit}", Body::Bare),
    row(S::Ollama, Input, "prompt too long; exceeded max context length by {over} tokens", Body::Bare),
    row(S::LlamaCpp, Input, "the request exceeds the available context size, try increasing it", Body::Bare),
    row(
        S::LmStudio,
        Input,
        "tokens to keep from the initial prompt is greater than the context length",
        Body::Bare,
    ),
    row(S::Groq, Input, "Please reduce the length of the messages or completion", Body::Bare),
    Row { style: S::Cerebras, counts: Input, text: "", status: 413, body: Body::Empty },
    Row { style: S::Truncates, counts: Input, text: "", status: 200, body: Body::Empty },
];

/// Sizes of a request that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Prompt.
    pub input_tokens: u64,
    /// Output asked for.
    pub output_tokens: u64,
    /// Tokens there are.
    pub limit_tokens: u64,
}

/// An answer to a request that does not fit, as it comes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: String,
}

fn of(style: OverflowStyle) -> &'static Row {
    // Every style has a row, which a test counts; the first stands for none.
    ROWS.iter().find(|row| row.style == style).unwrap_or(&ROWS[0])
}

impl OverflowStyle {
    /// Every style.
    pub fn all() -> impl Iterator<Item = OverflowStyle> {
        ROWS.iter().map(|row| row.style)
    }

    /// Whether a request of these sizes does not fit.
    pub fn exceeds(self, sizes: &Sizes) -> bool {
        let wanted = match of(self).counts {
            Counts::Input => sizes.input_tokens,
            Counts::InputAndOutput => sizes.input_tokens.saturating_add(sizes.output_tokens),
        };
        wanted > sizes.limit_tokens
    }

    /// Whether the prompt is shortened from its start and served, and nothing is said.
    pub fn truncates(self) -> bool {
        self == OverflowStyle::Truncates
    }

    /// The sentence.
    pub fn text(self, sizes: &Sizes) -> String {
        let alone = self == OverflowStyle::AnthropicBefore45 && sizes.input_tokens > sizes.limit_tokens;
        let style = if alone { OverflowStyle::Anthropic } else { self };
        let over = sizes.input_tokens.saturating_sub(sizes.limit_tokens);
        let sum = sizes.input_tokens.saturating_add(sizes.output_tokens);
        let mut text = of(style).text.to_owned();
        for (name, number) in [
            ("{in}", sizes.input_tokens),
            ("{out}", sizes.output_tokens),
            ("{sum}", sum),
            ("{limit}", sizes.limit_tokens),
            ("{over}", over),
        ] {
            text = text.replace(name, &number.to_string());
        }
        text
    }

    /// The sentence in what it comes in.
    pub fn response(self, sizes: &Sizes) -> Response {
        let Row { status, body, .. } = of(self);
        let message = self.text(sizes);
        let json = match body {
            Body::Bare => return Response { status: *status, body: message },
            Body::Empty => return Response { status: *status, body: String::new() },
            Body::Anthropic => json!({
                "type": "error",
                "error": {"type": "invalid_request_error", "message": message},
                "request_id": "req_simulated",
            }),
            Body::Openai(param) => json!({"error": {
                "type": "invalid_request_error", "code": "context_length_exceeded", "message": message,
                "param": param,
            }}),
            Body::Gemini => {
                json!({"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}})
            }
            Body::Coded(code) => json!({"error": {"code": code, "message": message}}),
        };
        Response { status: *status, body: json.to_string() }
    }
}
