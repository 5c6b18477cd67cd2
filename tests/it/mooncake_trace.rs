//! The conversation trace that was published with Mooncake (FAST 2025), as the prompts' blocks.
//!
//! `fixtures/published/mooncake_conversation.csv` keeps of each request the number of the last block it shares with an
//! earlier one; its other blocks get the next numbers, as in the original.

/// Tokens of a block.
pub const BLOCK_TOKENS: u64 = 512;

/// A request: its start, its blocks, and the tokens of its prompt.
pub struct Prompt {
    pub at_ms: u64,
    pub blocks: Vec<u32>,
    pub tokens: u64,
}

/// All requests, in the order of the file.
pub fn prompts() -> Vec<Prompt> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/published/mooncake_conversation.csv");
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut before: Vec<Option<u32>> = Vec::new();
    text.lines().skip(1).map(|line| prompt(line, &mut before)).collect()
}

/// `before` holds, for each block so far, the one in front of it.
fn prompt(line: &str, before: &mut Vec<Option<u32>>) -> Prompt {
    let fields: Vec<&str> = line.split(',').collect();
    let tokens: u64 = fields[1].parse().expect("input_tokens");
    let mut last: Option<u32> = fields[3].parse().ok();
    let shared = std::iter::successors(last, |&block| before[block as usize]);
    let mut blocks: Vec<u32> = shared.collect();
    blocks.reverse();
    while (blocks.len() as u64) < tokens.div_ceil(BLOCK_TOKENS) {
        let block = u32::try_from(before.len()).expect("fewer blocks than 2^32");
        before.push(last);
        blocks.push(block);
        last = Some(block);
    }
    let at_ms = fields[0].parse().expect("at_ms");
    Prompt { at_ms, blocks, tokens }
}
