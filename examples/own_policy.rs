//! A strategy of one's own, from a TOML file: checked, and beside doing nothing on the same sessions.
//!
//! `cargo run --example own_policy`

mod support;

use ctxsim::metrics::{Usd, hit_rate};
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, SimEventKind, Summary, run};

/// As `-p` takes it: a preset's name or a file, and parameters.
const POLICIES: [&str; 3] = ["none", "examples/mask.toml", "rarely=examples/mask.toml:gain=200000"];

fn main() -> anyhow::Result<()> {
    let models = Models::builtin()?;
    let model = models.get("claude-opus-5-5")?;
    let sessions = support::sessions(std::env::args().skip(1))?;
    let mut scratch = Scratch::default();
    for text in POLICIES {
        // An unknown parameter or a rule that cannot be is an error that names file, line and field.
        let config = text.parse::<PolicySpec>()?.load(&[], &[])?;
        let strategy = config.strategy(model, &models)?;
        let (mut total, mut passes) = (Summary::default(), 0);
        for session in &sessions {
            let session = session.scaled_to(model.tokenizer);
            // A recorder sees every request and event; `NoRecorder` is faster where the summary is enough.
            let mut record = FullRecorder::default();
            let options = RunOptions::default();
            total.add(&run(&session, &strategy, model, &options, &mut scratch, &mut record));
            passes += record.events.iter().filter(|e| matches!(e.kind, SimEventKind::Pass { .. })).count();
        }
        let (cost, rate) = (Usd(total.cost.total()).rounded(2), hit_rate(&total).percent());
        println!("{:8} ${cost}, hit rate {rate}, {passes} passes", config.label);
    }
    Ok(())
}
