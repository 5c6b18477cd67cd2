//! Usage in dialects whose prompt count includes what was read from the cache and what was written to it: one
//! formula, and a table of the names that each dialect has for its counts (spec/formats.md).

use serde_json::Value;

use super::value::Counts;
use crate::usage::Usage;

/// Names of the counts of one dialect; a dot leads into an object.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Counts that sum to the prompt.
    prompt: &'static [&'static str],
    /// Tokens read from the cache. Of several names the largest count is taken: they say the same.
    read: &'static [&'static str],
    /// Counts that sum to the tokens written to it.
    written: &'static [&'static str],
    /// Counts that sum to the output.
    output: &'static [&'static str],
    /// The prompt includes what was written.
    includes_written: bool,
}

impl Names {
    /// The same where prompts leave out what was written, if `yes`.
    pub fn leaving_out_written(self, yes: bool) -> Names {
        Names { includes_written: self.includes_written && !yes, ..self }
    }
}

/// OpenAI Chat Completions, and what gateways add to them; the completion includes the reasoning.
pub const CHAT: Names = Names {
    prompt: &["prompt_tokens"],
    read: &["prompt_tokens_details.cached_tokens", "cache_read_input_tokens"],
    written: &["cache_creation_input_tokens"],
    output: &["completion_tokens"],
    includes_written: true,
};

/// OpenAI Responses.
pub const RESPONSES: Names = Names {
    prompt: &["input_tokens"],
    read: &["input_tokens_details.cached_tokens"],
    written: &["input_tokens_details.cache_write_tokens"],
    output: &["output_tokens"],
    includes_written: true,
};

/// Codex rollouts.
pub const CODEX: Names = Names {
    prompt: &["input_tokens"],
    read: &["cached_input_tokens"],
    written: &["cache_write_input_tokens"],
    output: &["output_tokens"],
    includes_written: true,
};

/// Copilot CLI.
pub const COPILOT: Names = Names {
    prompt: &["inputTokens"],
    read: &["cacheReadTokens"],
    written: &["cacheWriteTokens"],
    output: &["outputTokens"],
    includes_written: true,
};

/// Metrics of OpenHands.
pub const OPENHANDS: Names = Names {
    prompt: &["prompt_tokens"],
    read: &["cache_read_tokens"],
    written: &["cache_write_tokens"],
    output: &["completion_tokens"],
    includes_written: true,
};

/// Gemini CLI: prompts of tools and thoughts are counted apart, and nothing is written.
pub const GEMINI: Names = Names {
    prompt: &["input", "tool"],
    read: &["cached"],
    written: &[],
    output: &["output", "thoughts"],
    includes_written: true,
};

/// ATIF.
pub const ATIF: Names = Names {
    prompt: &["prompt_tokens"],
    read: &["cached_tokens"],
    written: &["extra.cache_creation_input_tokens"],
    output: &["completion_tokens"],
    includes_written: true,
};

/// The usage that `counted` states in the dialect of `names`. None of these says for how long it was written.
pub fn usage(names: &Names, counted: &Value, counts: &mut Counts) -> Usage {
    let mut sum = |names: &[&str]| names.iter().map(|name| count(name, counted, counts)).sum();
    let (prompt, written, output_tokens) = (sum(names.prompt), sum(names.written), sum(names.output));
    let read = names.read.iter().map(|name| count(name, counted, counts)).max().unwrap_or(0);
    let inside = if names.includes_written { read + written } else { read };
    Usage {
        uncached_tokens: counts.without(prompt, inside),
        cache_read_tokens: read,
        cache_write_5m_tokens: written,
        cache_write_1h_tokens: 0,
        output_tokens,
    }
}

fn count(name: &str, counted: &Value, counts: &mut Counts) -> u64 {
    match name.split_once('.') {
        Some((outer, name)) => count(name, counted.get(outer).unwrap_or(&Value::Null), counts),
        None => counts.field(counted, name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ATIF, CHAT, CODEX, COPILOT, GEMINI, Names, OPENHANDS, RESPONSES, usage};
    use crate::ingest::value::Counts;
    use crate::usage::Usage;

    /// 2,600 tokens of a prompt: 2,000 read, 400 written, 200 plain (anomalyco/opencode#42910).
    fn same_request() -> [(Names, Value); 6] {
        let details = json!({"cached_tokens": 2000, "cache_write_tokens": 400});
        [
            (
                CHAT,
                json!({"prompt_tokens": 2600, "prompt_tokens_details": details, "cache_creation_input_tokens": 400, "completion_tokens": 9}),
            ),
            (RESPONSES, json!({"input_tokens": 2600, "input_tokens_details": details, "output_tokens": 9})),
            (
                CODEX,
                json!({"input_tokens": 2600, "cached_input_tokens": 2000, "cache_write_input_tokens": 400, "output_tokens": 9}),
            ),
            (
                COPILOT,
                json!({"inputTokens": 2600, "cacheReadTokens": 2000, "cacheWriteTokens": 400, "outputTokens": 9}),
            ),
            (
                OPENHANDS,
                json!({"prompt_tokens": 2600, "cache_read_tokens": 2000, "cache_write_tokens": 400, "completion_tokens": 9}),
            ),
            (
                ATIF,
                json!({"prompt_tokens": 2600, "cached_tokens": 2000, "extra": {"cache_creation_input_tokens": 400}, "completion_tokens": 9}),
            ),
        ]
    }

    #[test]
    fn one_request_is_the_same_in_every_dialect() {
        let expected = Usage {
            uncached_tokens: 200,
            cache_read_tokens: 2_000,
            cache_write_5m_tokens: 400,
            cache_write_1h_tokens: 0,
            output_tokens: 9,
        };
        for (names, counted) in same_request() {
            let mut counts = Counts::default();
            assert_eq!(usage(&names, &counted, &mut counts), expected, "{names:?}");
            assert!(!counts.is_bad());
        }
    }

    #[test]
    fn what_a_dialect_counts_apart_is_added() {
        let counted = json!({"input": 100, "tool": 20, "cached": 30, "output": 5, "thoughts": 7});
        let found = usage(&GEMINI, &counted, &mut Counts::default());
        assert_eq!((found.uncached_tokens, found.cache_read_tokens, found.output_tokens), (90, 30, 12));
    }

    #[test]
    fn more_cached_than_sent_is_no_usage() {
        for (names, mut counted) in same_request() {
            let text = counted.to_string().replace("2600", "2399");
            counted = serde_json::from_str(&text).expect("JSON");
            let mut counts = Counts::default();
            usage(&names, &counted, &mut counts);
            assert!(counts.is_bad(), "{names:?}");
            let apart = names.leaving_out_written(true);
            let mut counts = Counts::default();
            assert_eq!(usage(&apart, &counted, &mut counts).uncached_tokens, 399);
            assert!(!counts.is_bad(), "{names:?}");
        }
    }
}
