//! "The prompt does not fit": the vendors' own texts, written and read.
//!
//! Texts and numbers: docs/sources.md C6 and I (vendor error and context-window pages, August 2026;
//! pi-ai 1.6.0 `utils/overflow.js`, 2026-11-20; vendor forums).
//!
//! # Divergence from the real API
//!
//! * Some vendors cut the prompt silently instead of refusing it; here every overflow is refused.
//! * Claude 4.5 and later accept input plus `max_tokens` above the window and stop early; the early stop
//!   is not modelled, since outputs are as recorded.
//! * Limits in bytes (413) are not modelled: a prompt here has no bytes.

use super::model::{ModelSpec, OverflowStyle};

/// What an error text says. `used` and `limit` are there only if both are and `used > limit > 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Tokens the request would take, requested output included where the vendor counts it.
    pub used: Option<u64>,
    /// Tokens there are.
    pub limit: Option<u64>,
    /// By how many tokens it is too long.
    pub deficit: Option<u64>,
}

/// Meaning of a number in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Used,
    Input,
    Output,
    Limit,
    Deficit,
}

use Part::{Deficit, Input, Limit, Output, Used};

/// Shapes of error texts in lower case: `#` is a number, `…` anything. The first that fits counts.
const SHAPES: &[(&str, &[Part])] = &[
    ("# tokens > #", &[Used, Limit]),
    ("# + # > #", &[Input, Output, Limit]),
    (
        "maximum context length is #…requested # output tokens…at least # input tokens",
        &[Limit, Output, Input],
    ),
    ("maximum context length is #…requested about #", &[Limit, Used]),
    ("maximum context length is #…requested ~#", &[Limit, Used]),
    ("maximum context length is #…requested #", &[Limit, Used]),
    ("maximum context length is #…resulted in #", &[Limit, Used]),
    ("token count (#)…(#)", &[Used, Limit]),
    ("token count of # exceeds the limit of #", &[Used, Limit]),
    ("token limit: # (requested: #)", &[Limit, Used]),
    ("prompt length is #…contains #", &[Limit, Used]),
    ("passed # input tokens and requested # output tokens…context length is only #", &[Input, Output, Limit]),
    ("passed # input tokens…context length is only #", &[Used, Limit]),
    ("prompt contains # tokens…with # maximum context length", &[Used, Limit]),
    ("input (# tokens)…context length (# tokens)", &[Used, Limit]),
    ("input length (#)…context length (#)", &[Used, Limit]),
    ("context length by # tokens", &[Deficit]),
];

/// Phrases, in lower case, by which an error is about length although it may hold no numbers.
const PHRASES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "context_length_exceeded",
    "exceeds the context window",
    "context window exceeds limit",
    "maximum context length",
    "maximum prompt length",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "prompt too long",
    "prompt exceeds max length",
    "prompt 超长",
    "prompt超长",
    "输入长度超限",
    "上下文长度超",
    "range of input length should be",
    "input is too long",
    "is longer than the model's context length",
    "exceeds model's maximum context length",
    "prompt token count of",
    "exceeded max context length",
    "exceeds the available context size",
    "greater than the context length",
    "reduce the length of the messages",
    "request_too_large",
];

/// Reads the numbers of an overflow error, whatever vendor wrote it and however it is wrapped (JSON,
/// thousands separators).
pub fn parse(text: &str) -> Numbers {
    let text = normalised(text);
    SHAPES
        .iter()
        .find_map(|(shape, parts)| find(&text, shape).map(|n| numbers(&n, parts)))
        .unwrap_or_default()
}

/// Whether an error says that the prompt is too long.
pub fn is_overflow(text: &str) -> bool {
    let text = normalised(text);
    PHRASES.iter().any(|phrase| text.contains(phrase)) || parse(&text).deficit.is_some()
}

/// The text of `model`'s vendor for a prompt of `input_tokens` against `limit_tokens`.
pub fn render(model: &ModelSpec, input_tokens: u64, max_output_tokens: u64, limit_tokens: u64) -> String {
    render_style(model.overflow, input_tokens, max_output_tokens, limit_tokens)
}

fn render_style(style: OverflowStyle, input: u64, output: u64, limit: u64) -> String {
    match style {
        OverflowStyle::AnthropicBefore45 if input <= limit => format!(
            "input length and `max_tokens` exceed context limit: {input} + {output} > {limit}, decrease input length or \
             `max_tokens` and try again"
        ),
        OverflowStyle::Anthropic | OverflowStyle::AnthropicBefore45 => {
            format!("prompt is too long: {input} tokens > {limit} maximum")
        }
        OverflowStyle::Openai => {
            "Your input exceeds the context window of this model. Please adjust your input and try again."
                .into()
        }
        OverflowStyle::Gemini => {
            format!("The input token count ({input}) exceeds the maximum number of tokens allowed ({limit}).")
        }
        OverflowStyle::Deepseek => format!(
            "This model's maximum context length is {limit} tokens. However, you requested {} tokens ({input} in the \
             messages, {output} in the completion). Please reduce the length of the messages or completion.",
            input + output
        ),
        OverflowStyle::Xai => {
            format!("This model's maximum prompt length is {limit} but the request contains {input} tokens")
        }
        OverflowStyle::Kimi => {
            format!("Your request exceeded model token limit: {limit} (requested: {input})")
        }
        OverflowStyle::Zai => "Prompt exceeds max length".into(),
        OverflowStyle::Qwen => format!("Range of input length should be [1, {limit}]"),
        OverflowStyle::Minimax => "invalid params, context window exceeds limit".into(),
        OverflowStyle::Mistral => {
            format!("Prompt contains {input} tokens, too large for model with {limit} maximum context length")
        }
    }
}

/// Whether a request of these sizes is refused, with the numbers its text holds.
pub(crate) fn exceeds(model: &ModelSpec, input_tokens: u64, max_output_tokens: u64) -> bool {
    let limit = model.window_tokens;
    let counts_output = matches!(model.overflow, OverflowStyle::AnthropicBefore45 | OverflowStyle::Deepseek);
    input_tokens > limit || (counts_output && input_tokens + max_output_tokens > limit)
}

fn numbers(values: &[u64], parts: &[Part]) -> Numbers {
    let sum = |wanted: &[Part]| {
        values
            .iter()
            .zip(parts)
            .filter(|(_, part)| wanted.contains(part))
            .map(|(value, _)| *value)
            .sum::<u64>()
    };
    if parts == [Deficit] {
        let deficit = sum(&[Deficit]);
        return Numbers { deficit: (deficit > 0).then_some(deficit), ..Numbers::default() };
    }
    let (used, limit) = (sum(&[Used, Input, Output]), sum(&[Limit]));
    if used > limit && limit > 0 {
        Numbers { used: Some(used), limit: Some(limit), deficit: Some(used - limit) }
    } else {
        Numbers::default()
    }
}

/// Lower case, one space between words, and the one JSON escape that hides a sign.
fn normalised(text: &str) -> String {
    let text = text.to_lowercase().replace("\\u003e", ">").replace("\\n", " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The numbers of the first place in `text` that has `shape`.
fn find(text: &str, shape: &str) -> Option<Vec<u64>> {
    text.char_indices().find_map(|(at, _)| {
        let inside_number = shape.starts_with('#') && ends_in_digit(&text[..at]);
        let mut values = Vec::new();
        (!inside_number && fits(&text[at..], shape, &mut values)).then_some(values)
    })
}

fn ends_in_digit(text: &str) -> bool {
    text.trim_end_matches([',', '_']).ends_with(|c: char| c.is_ascii_digit()) && !text.ends_with(' ')
}

/// Whether `text` begins with `shape`; pushes its numbers.
fn fits(text: &str, shape: &str, values: &mut Vec<u64>) -> bool {
    let Some(first) = shape.chars().next() else { return true };
    let rest = &shape[first.len_utf8()..];
    match first {
        '#' => match leading_number(text) {
            Some((value, after)) => {
                values.push(value);
                fits(after, rest, values)
            }
            None => false,
        },
        '…' => {
            let found = values.len();
            text.char_indices().any(|(at, _)| {
                values.truncate(found);
                fits(&text[at..], rest, values)
            })
        }
        literal => text.strip_prefix(literal).is_some_and(|after| fits(after, rest, values)),
    }
}

/// A whole number, thousands separators allowed, and what follows it.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let mut digits = text[..end].to_owned();
    while let Some(group) = text[end..].strip_prefix([',', '_']) {
        let length = group.find(|c| !is_digit(c)).unwrap_or(group.len());
        if length != 3 {
            break;
        }
        digits.push_str(&group[..3]);
        end += 4;
    }
    Some((digits.parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_that_is_written_with_numbers_is_read_back() {
        use OverflowStyle as S;
        for style in [S::Anthropic, S::Gemini, S::Deepseek, S::Xai, S::Kimi, S::Mistral] {
            let output = if style == S::Deepseek { 8_192 } else { 0 };
            let text = render_style(style, 213_462, output, 200_000);
            let expected = Numbers {
                used: Some(213_462 + output),
                limit: Some(200_000),
                deficit: Some(13_462 + output),
            };
            assert_eq!(parse(&text), expected, "{text}");
            assert!(is_overflow(&text));
        }
        for style in [S::Openai, S::Zai, S::Qwen, S::Minimax] {
            let text = render_style(style, 213_462, 0, 200_000);
            assert_eq!(parse(&text), Numbers::default(), "{text}");
            assert!(is_overflow(&text), "{text}");
        }
    }

    #[test]
    fn wrapped_texts_of_other_servers_are_read() {
        for (text, deficit) in [
            (
                r#"400 {"type":"error","error":{"message":"prompt is too long: 213,462 tokens \u003e 200,000 maximum"}}"#,
                13_462,
            ),
            (
                "This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains at least 40861 input tokens, for a total",
                1,
            ),
            (
                "This model's maximum context length is 120000 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion)",
                2_946,
            ),
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input)",
                10_064,
            ),
            ("The input (131073 tokens) is longer than the model's context length (131072 tokens).", 1),
            ("Input length (265330) exceeds model's maximum context length (262144).", 3_186),
            ("prompt token count of 130000 exceeds the limit of 128000", 2_000),
            ("prompt too long; exceeded max context length by 77 tokens", 77),
            ("input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease", 7_951),
        ] {
            assert_eq!(parse(text).deficit, Some(deficit), "{text}");
            assert!(is_overflow(text), "{text}");
        }
    }

    #[test]
    fn other_errors_are_not_taken_for_it() {
        for text in [
            "ThrottlingException: Too many tokens",
            "rate limit exceeded",
            "max_tokens: expected <= 32768, got 65536",
        ] {
            assert!(!is_overflow(text) && parse(text) == Numbers::default(), "{text}");
        }
    }
}
