//! "The prompt does not fit": reading the vendors' texts, whoever wrote them.
//!
//! [`super::overflow_text`] writes them; both follow docs/sources.md C6 and I.
//!
//! # Divergence from the real API
//!
//! * Claude 4.5 and later accept input plus `max_tokens` above the window and stop early; the early stop
//!   is not modelled, since outputs are as recorded.
//! * Limits in bytes (413) are read and never written: a prompt here has no bytes.
//! * Z.ai and Ollama, which may also serve such a prompt without a word, refuse it here; a model file with
//!   `overflow = "truncates"` makes them do that.

use super::model::ModelSpec;
use super::overflow_text::Sizes;

/// What an error text says. `used` and `limit` are there only if both are and `used > limit > 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Tokens the request would take, requested output included where the vendor counts it.
    pub used: Option<u64>,
    /// Tokens there are.
    pub limit: Option<u64>,
    /// By how many tokens it is too long.
    pub deficit: Option<u64>,
    /// How far the numbers can be trusted.
    pub exactness: Exactness,
}

/// What a text says of its own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exactness {
    /// They are so.
    #[default]
    Exact,
    /// It is too long by this much or more.
    AtLeast,
    /// They are an estimate.
    About,
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
        .find_map(|(shape, parts)| find(&text, shape).map(|n| numbers(&n, parts, shape)))
        .unwrap_or_default()
}

/// Whether an error says that the prompt is too long.
pub fn is_overflow(text: &str) -> bool {
    let text = normalised(text);
    PHRASES.iter().any(|phrase| text.contains(phrase)) || parse(&text).deficit.is_some()
}

/// The text of `model`'s vendor for a prompt of `input_tokens` against `limit_tokens`.
pub fn render(model: &ModelSpec, input_tokens: u64, max_output_tokens: u64, limit_tokens: u64) -> String {
    model.overflow.text(&Sizes { input_tokens, output_tokens: max_output_tokens, limit_tokens })
}

fn numbers(values: &[u64], parts: &[Part], shape: &str) -> Numbers {
    let exactness = match shape {
        shape if shape.contains("at least") => Exactness::AtLeast,
        shape if shape.contains("about") || shape.contains('~') => Exactness::About,
        _ => Exactness::Exact,
    };
    let sum = |wanted: &[Part]| {
        values
            .iter()
            .zip(parts)
            .filter(|(_, part)| wanted.contains(part))
            .map(|(value, _)| *value)
            .fold(0, u64::saturating_add)
    };
    if parts == [Deficit] {
        let deficit = sum(&[Deficit]);
        return Numbers { deficit: (deficit > 0).then_some(deficit), exactness, ..Numbers::default() };
    }
    let (used, limit) = (sum(&[Used, Input, Output]), sum(&[Limit]));
    if used > limit && limit > 0 {
        Numbers { used: Some(used), limit: Some(limit), deficit: Some(used - limit), exactness }
    } else {
        Numbers::default()
    }
}

/// Lower case, one space between words, and the JSON escapes that hide a sign, a quote or a break, however
/// often they were escaped.
fn normalised(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let escaped = rest[at..].trim_start_matches('\\');
        let mut chars = escaped.chars();
        match chars.next() {
            Some('n' | 'r' | 't') => {
                plain.push(' ');
                rest = chars.as_str();
            }
            Some('u') => match escaped.get(1..5).and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
                Some(code) => {
                    plain.extend(char::from_u32(code));
                    rest = &escaped[5..];
                }
                None => rest = escaped,
            },
            _ => rest = escaped,
        }
    }
    plain.push_str(rest);
    plain.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
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
    use super::super::model::OverflowStyle;
    use super::*;
    use proptest::prelude::*;

    /// What the text of a style says of a request that does not fit; `None` if it holds no numbers.
    fn said(style: OverflowStyle, sizes: &Sizes) -> Option<Numbers> {
        use OverflowStyle as S;
        let Sizes { input_tokens: input, output_tokens: output, limit_tokens: limit } = *sizes;
        let used = match style {
            S::Openai | S::Zai | S::Qwen | S::Minimax | S::Bedrock | S::LlamaCpp | S::LmStudio | S::Groq => {
                None
            }
            S::Cerebras | S::Truncates => None,
            S::Deepseek | S::QwenPassed | S::Vllm => Some(input + output),
            S::AnthropicBefore45 if input <= limit => Some(input + output),
            _ => Some(input),
        }?;
        let exactness = match style {
            S::Vllm => Exactness::AtLeast,
            S::Openrouter => Exactness::About,
            _ => Exactness::Exact,
        };
        let deficit = Some(used - limit);
        Some(match style {
            S::Ollama => Numbers { deficit, exactness, ..Numbers::default() },
            _ => Numbers { used: Some(used), limit: Some(limit), deficit, exactness },
        })
    }

    /// The numbers of a text with thousands separators.
    fn separated(text: &str, separator: char) -> String {
        let mut out = String::new();
        let mut digits = String::new();
        for c in text.chars().chain(Some('\0')) {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i).is_multiple_of(3) {
                    out.push(separator);
                }
                out.push(digit);
            }
            digits.clear();
            out.push(c);
        }
        out.pop();
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a vendor writes is read back to the number, bare, with separators, and wrapped in JSON once
        /// and twice.
        #[test]
        fn every_text_is_read_back(limit in 1_u64..3_000_000, over in 1_u64..2_000_000, output in 1_u64..200_000) {
            for style in OverflowStyle::all() {
                let fits_alone = style == OverflowStyle::AnthropicBefore45 && over % 2 == 0 && output <= limit;
                let input = if fits_alone { limit - output + over.min(output) } else { limit + over };
                let sizes = Sizes { input_tokens: input, output_tokens: output, limit_tokens: limit };
                prop_assert!(style.exceeds(&sizes));
                let expected = said(style, &sizes).unwrap_or_default();
                let text = style.text(&sizes);
                let body = style.response(&sizes).body;
                let twice = serde_json::json!({ "error": body.clone() }).to_string();
                let escaped = twice.replace('>', "\\u003e");
                for text in
                    [separated(&text, ','), separated(&text, '_'), format!("API Error: 400 {text}"), text, body, twice, escaped]
                {
                    prop_assert_eq!(parse(&text), expected, "{}", text);
                    let silent = matches!(style, OverflowStyle::Cerebras | OverflowStyle::Truncates);
                    prop_assert!(is_overflow(&text) != silent || text.contains("API Error"), "{}", text);
                }
            }
        }

        /// No text at all makes the reader stumble, and none of it is ever a deficit of 0.
        #[test]
        fn any_text_is_read(text in "[ -~\\n“”]{0,120}", n in 0_u64..10) {
            for text in [text.clone(), format!("{text} maximum context length is {n}{text} requested {n}")] {
                prop_assert!(parse(&text).deficit != Some(0));
                is_overflow(&text);
            }
        }
    }

    #[test]
    fn every_style_has_one_row() {
        let mut all: Vec<String> = OverflowStyle::all().map(|style| format!("{style:?}")).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (count, 25));
    }

    #[test]
    fn responses_have_the_shape_of_their_vendor() {
        let sizes = Sizes { input_tokens: 213_462, output_tokens: 0, limit_tokens: 200_000 };
        for (style, body) in [
            (
                OverflowStyle::Anthropic,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_simulated"}"#,
            ),
            (
                OverflowStyle::Openai,
                r#"{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model. Please adjust your input and try again.","param":"input"}}"#,
            ),
            (
                OverflowStyle::Gemini,
                r#"{"error":{"code":400,"message":"The input token count (213462) exceeds the maximum number of tokens allowed (200000).","status":"INVALID_ARGUMENT"}}"#,
            ),
            (OverflowStyle::Zai, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#),
        ] {
            assert_eq!(
                style.response(&sizes),
                super::super::overflow_text::Response { status: 400, body: body.into() }
            );
        }
        assert_eq!(OverflowStyle::Cerebras.response(&sizes).status, 413);
    }

    #[test]
    fn texts_of_other_servers_are_read() {
        for (text, deficit, exactness) in [
            (
                r#"400 {"type":"error","error":{"message":"prompt is too long: 213,462 tokens \u003e 200,000 maximum"}}"#,
                13_462,
                Exactness::Exact,
            ),
            (
                "This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains at least 40861 input tokens, for a total",
                1,
                Exactness::AtLeast,
            ),
            (
                "This model's maximum context length is 120000 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion)",
                2_946,
                Exactness::Exact,
            ),
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input)",
                10_064,
                Exactness::About,
            ),
            (
                "You passed 117345 input tokens and requested 8192 output tokens. However, the model's context length is only 125536 tokens",
                1,
                Exactness::Exact,
            ),
            (
                "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease",
                7_951,
                Exactness::Exact,
            ),
        ] {
            let read = parse(text);
            assert_eq!((read.deficit, read.exactness), (Some(deficit), exactness), "{text}");
            assert!(is_overflow(text), "{text}");
        }
    }

    #[test]
    fn without_numbers_there_is_no_deficit() {
        for text in [
            "Range of input length should be [1, 202752]",
            "Input is too long for requested model.",
            "context_length_exceeded",
            "Prompt 超长",
            "prompt is too long: 200000 tokens > 200000 maximum",
            "prompt is too long: 100 tokens > 200000 maximum",
            r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ] {
            assert!(is_overflow(text), "{text}");
            assert_eq!(parse(text), Numbers::default(), "{text}");
        }
    }

    #[test]
    fn other_errors_are_not_taken_for_it() {
        for text in [
            "ThrottlingException: Too many tokens",
            "rate limit exceeded",
            "max_tokens: expected <= 32768, got 65536",
            "",
        ] {
            assert!(!is_overflow(text) && parse(text) == Numbers::default(), "{text}");
        }
    }
}
