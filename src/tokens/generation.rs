//! What a model id tells of its generation: its tokenizer, and whether earlier thinking is kept.

use super::Tokenizer;

/// What the provider does with thinking of earlier human turns (docs/sources.md A8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingRetention {
    /// It stays in the prompt.
    All,
    /// At the first user message with anything but tool results, all earlier thinking is removed.
    CurrentTurn,
}

/// Retention of the model with this id; ids that are not Claude's keep all.
pub fn thinking_retention(id: &str) -> ThinkingRetention {
    let Some(claude) = Claude::parse(id) else { return ThinkingRetention::All };
    let first_that_keeps = match claude.family {
        Family::Opus => (4, 5),
        Family::Sonnet => (4, 6),
        Family::Haiku => (5, 0),
        Family::Other => (0, 0),
    };
    if claude.version >= first_that_keeps { ThinkingRetention::All } else { ThinkingRetention::CurrentTurn }
}

pub(super) fn tokenizer(id: &str) -> Tokenizer {
    if let Some(claude) = Claude::parse(id) {
        return if claude.version >= (4, 7) { Tokenizer::ClaudeNewer } else { Tokenizer::ClaudeOlder };
    }
    let name = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase();
    let openai = ["gpt-", "chatgpt-", "o1", "o3", "o4", "codex"];
    if openai.iter().any(|p| name.starts_with(p)) { Tokenizer::Openai } else { Tokenizer::ClaudeNewer }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Opus,
    Sonnet,
    Haiku,
    /// Fable, Mythos, and whatever comes.
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Claude {
    family: Family,
    version: (u32, u32),
}

impl Claude {
    /// Reads `claude-opus-4-5-20251101`, `claude-3-5-sonnet@…`, `us.anthropic.claude-…-v1:0` alike:
    /// the words after `claude`, of which numbers of at most two digits are the version. A Claude id
    /// without a version is of no known generation.
    fn parse(id: &str) -> Option<Claude> {
        let id = id.to_ascii_lowercase();
        let (_, rest) = id.split_once("claude")?;
        let rest = rest.split(['[', '@', ':']).next().unwrap_or(rest);
        let mut family = Family::Other;
        let mut version = Vec::new();
        for word in rest.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
            match word {
                "opus" => family = Family::Opus,
                "sonnet" => family = Family::Sonnet,
                "haiku" => family = Family::Haiku,
                _ if word.len() <= 2 => version.extend(word.parse::<u32>().ok()),
                _ => {}
            }
        }
        let major = *version.first()?;
        Some(Claude { family, version: (major, version.get(1).copied().unwrap_or(0)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_of_known_ids() {
        for (id, tokenizer, retention) in [
            ("claude-opus-4-5-20251101", Tokenizer::ClaudeOlder, ThinkingRetention::All),
            ("claude-opus-4-1", Tokenizer::ClaudeOlder, ThinkingRetention::CurrentTurn),
            ("claude-sonnet-4-20250514", Tokenizer::ClaudeOlder, ThinkingRetention::CurrentTurn),
            ("claude-sonnet-4-5-20250929", Tokenizer::ClaudeOlder, ThinkingRetention::CurrentTurn),
            ("claude-sonnet-4-6[1m]", Tokenizer::ClaudeOlder, ThinkingRetention::All),
            ("claude-haiku-4-5-20251001", Tokenizer::ClaudeOlder, ThinkingRetention::CurrentTurn),
            ("us.anthropic.claude-opus-4-7-v1:0", Tokenizer::ClaudeNewer, ThinkingRetention::All),
            ("anthropic/claude-opus-4.7", Tokenizer::ClaudeNewer, ThinkingRetention::All),
            ("claude-3-5-sonnet-20241022", Tokenizer::ClaudeOlder, ThinkingRetention::CurrentTurn),
            ("claude-fable-5", Tokenizer::ClaudeNewer, ThinkingRetention::All),
            ("openai/gpt-5.4", Tokenizer::Openai, ThinkingRetention::All),
            ("qwen3-coder", Tokenizer::ClaudeNewer, ThinkingRetention::All),
        ] {
            assert_eq!(Tokenizer::of_model(id), tokenizer, "{id}");
            assert_eq!(thinking_retention(id), retention, "{id}");
        }
    }
}
