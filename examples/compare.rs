//! The cost of one session under two strategies, with the library alone.
//!
//! `cargo run --example compare -- fixtures/traces/f1681958-e329-492a-bece-56ac78ecaa08.trace.jsonl`

use std::path::PathBuf;

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::metrics::Usd;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).map(PathBuf::from);
    let path = path.ok_or_else(|| anyhow::anyhow!("name a recording or a trace"))?;
    let recordings = ingest::read(ingest::input::open(&path)?, &path, &ReadOptions::default())?;
    let models = Models::builtin()?;
    let model = models.get("claude-opus-5-5")?;
    let mut scratch = Scratch::default();
    for recording in recordings {
        let session: Session = match recording {
            Recording::Transcript(transcript) => compile(&transcript, &CompileOptions::default()),
            Recording::Session(session) | Recording::Hashed { session, .. } => *session,
        };
        // As it would have been without the recording's own compactions, in the model's own tokens.
        let session = session.view(RecordedCompactions::Undo);
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
