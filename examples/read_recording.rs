//! What is in a recording: its requests, what was billed for them, and its largest results. No strategy, no model.
//!
//! `cargo run --example read_recording -- ~/.claude/projects/x/y.jsonl`

mod support;

use ctxsim::metrics::group_digits;
use ctxsim::session::BlockKind;
use ctxsim::usage::Usage;

fn main() -> anyhow::Result<()> {
    for session in support::sessions(std::env::args().skip(1))? {
        let mut billed = Usage::default();
        session.steps.iter().filter_map(|step| step.recorded.as_ref()).for_each(|usage| billed.add(usage));
        println!(
            "{}: {} requests on {}, {} prompt tokens billed, {} of them read from the cache",
            session.id,
            session.steps.len(),
            session.model,
            group_digits(u128::from(billed.prompt_tokens())),
            group_digits(u128::from(billed.cache_read_tokens)),
        );
        // Blocks are kept as columns; text ended when the recording was compiled, sizes and hashes are left.
        let blocks = &session.blocks;
        let results = (0..blocks.len()).filter(|&i| blocks.kind[i] == BlockKind::ToolResult);
        if let Some(largest) = results.max_by_key(|&i| blocks.utf16[i]) {
            let tool = session.tools.get(blocks.tool[largest] as usize).map_or("?", |tool| &tool.name);
            println!("  largest result: {tool}, {} characters", blocks.utf16[largest]);
        }
    }
    Ok(())
}
