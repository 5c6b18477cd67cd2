//! The hidden prefix: what stands in front of the conversation and is in no recording
//! (docs/decisions.md 4).

use crate::session::{Prefix, PrefixBlock, Step};
use crate::tokens::{Coefficients, apportion, scale_milli, scale_ratio};
use crate::transcript::Transcript;

use super::measure::{HIDDEN_TAG, Hasher, PREFIX_TAG, Size, clamp};

/// Cache read of the first request that reports usage.
pub(super) fn first_read(steps: &[Step]) -> u64 {
    steps.iter().find_map(|s| s.recorded).map_or(0, |usage| usage.cache_read_tokens)
}

/// Floor F: the most frequent non-zero read among the requests that read less than the request before
/// them left in the cache, else the first request's read, else half of H. A floor lies inside the
/// prefix, so reads above H are none; of equally frequent reads the smaller.
pub(super) fn floor(steps: &[Step], hidden_tokens: u64) -> u64 {
    let usages = || steps.iter().filter_map(|s| s.recorded);
    let mut reads: Vec<u64> = usages()
        .zip(usages().skip(1))
        .filter(|(before, now)| {
            now.cache_read_tokens < before.cache_read_tokens + before.cache_write_tokens()
        })
        .map(|(_, now)| now.cache_read_tokens)
        .filter(|read| (1..=hidden_tokens).contains(read))
        .collect();
    reads.sort_unstable();
    let most_frequent = reads
        .chunk_by(|a, b| a == b)
        .max_by_key(|run| (run.len(), std::cmp::Reverse(run[0])))
        .map(|run| run[0]);
    most_frequent.unwrap_or_else(|| match first_read(steps) {
        0 => hidden_tokens / 2,
        read => read.min(hidden_tokens),
    })
}

/// The prefix of a recording whose first reported total leaves `hidden_tokens` for it (`None`: nothing
/// is reported). Where the recording has the text of tools or system, that text is the prefix: sized by
/// coefficient, and scaled to H if both are there; if only one is, the rest of H is the other.
pub(super) fn prefix(
    transcript: &Transcript,
    steps: &[Step],
    hidden_tokens: Option<u64>,
    coefficients: &Coefficients,
    key: u64,
) -> Prefix {
    let mut tools: Vec<PrefixBlock> =
        transcript.tools.iter().map(|tool| visible(&tool.json, coefficients.tool_use_milli, key)).collect();
    let mut system: Vec<PrefixBlock> = transcript
        .system
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| visible(text, coefficients.text_milli, key))
        .collect();
    let Some(hidden_tokens) = hidden_tokens else { return Prefix { tools, system, injected: Vec::new() } };
    let hidden = |part: u64, tokens: u64| {
        let hash = Hasher::new(key, HIDDEN_TAG)
            .number(part)
            .number(tokens)
            .text(transcript.format)
            .text(&transcript.agent_version);
        PrefixBlock { hash: hash.finish(), tokens: clamp(tokens) }
    };
    let some = |block: PrefixBlock| (block.tokens > 0).then_some(block).into_iter().collect::<Vec<_>>();
    let mut injected = Vec::new();
    match (tools.is_empty(), system.is_empty()) {
        (true, true) => {
            let floor = floor(steps, hidden_tokens);
            let tool_tokens = scale_ratio(floor, 4, 5);
            tools = some(hidden(0, tool_tokens));
            system = some(hidden(1, floor - tool_tokens));
            // Unlike tools and system it belongs to a project, which the recording does not name.
            let tokens = hidden_tokens - floor;
            let hash = Hasher::new(key, HIDDEN_TAG).number(2).number(tokens).text(&transcript.session_id);
            injected = some(PrefixBlock { hash: hash.finish(), tokens: clamp(tokens) });
        }
        (false, false) => scale_to(tools.iter_mut().chain(&mut system), hidden_tokens),
        (no_tools, _) => {
            let shown = if no_tools { &mut system } else { &mut tools };
            let sum: u64 = shown.iter().map(|b| u64::from(b.tokens)).sum();
            if sum > hidden_tokens {
                scale_to(shown.iter_mut(), hidden_tokens);
            }
            let rest = some(hidden(u64::from(!no_tools), hidden_tokens.saturating_sub(sum)));
            if no_tools { tools = rest } else { system = rest }
        }
    }
    Prefix { tools, system, injected }
}

fn visible(text: &str, milli: u32, key: u64) -> PrefixBlock {
    let tokens = scale_milli(u64::from(Size::of(text).utf16), u64::from(milli));
    PrefixBlock { hash: Hasher::new(key, PREFIX_TAG).text(text).finish(), tokens: clamp(tokens) }
}

fn scale_to<'a>(blocks: impl Iterator<Item = &'a mut PrefixBlock>, total: u64) {
    let blocks: Vec<&mut PrefixBlock> = blocks.collect();
    let weights: Vec<u64> = blocks.iter().map(|b| u64::from(b.tokens)).collect();
    for (block, tokens) in blocks.into_iter().zip(apportion(total, &weights)) {
        block.tokens = clamp(tokens);
    }
}
