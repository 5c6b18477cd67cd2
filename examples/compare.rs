//! The cost of each session under two strategies, with the library alone.
//!
//! `cargo run --example compare -- fixtures/traces/f1681958-e329-492a-bece-56ac78ecaa08.trace.jsonl`

mod support;

use ctxsim::metrics::Usd;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};

fn main() -> anyhow::Result<()> {
    let models = Models::builtin()?;
    let model = models.get("claude-opus-5-5")?;
    let mut scratch = Scratch::default();
    for session in support::sessions(std::env::args().skip(1))? {
        // In the model's own tokens.
        let session = session.scaled_to(model.tokenizer);
        println!("session {}", session.id);
        for name in ["none", "arcturn:minCharsPerPass=30000"] {
            let strategy = name.parse::<PolicySpec>()?.load(&[], &[])?.strategy(model, &models)?;
            let summary =
                run(&session, &strategy, model, &RunOptions::default(), &mut scratch, &mut NoRecorder);
            println!("  {name}: {} requests, ${}", summary.requests, Usd(summary.cost.total()));
        }
    }
    Ok(())
}
