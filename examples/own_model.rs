//! A model of one's own: other prices and another cache, from a TOML text, beside the one it is like.
//!
//! `cargo run --example own_model`

mod support;

use ctxsim::metrics::Usd;
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, Summary, run};

/// Fields that are not named are those of the model it is like. Prices are dollars per million tokens.
const MODELS: &str = r#"
[[model]]
id = "house-model"
like = "claude-opus-5-5"
window_tokens = 200_000
price = { input = 1.0, output = 4.0, cache_read = 0.25, cache_write_short = 1.0, cache_write_long = 1.0 }
cache.short_ttl_ms = 600_000
"#;

fn main() -> anyhow::Result<()> {
    let mut models = Models::builtin()?;
    let added = models.add_toml(MODELS, "house models")?;
    let sessions = support::sessions(std::env::args().skip(1))?;
    let mut scratch = Scratch::default();
    for id in ["claude-opus-5-5", &added[0]] {
        let model = models.get(id)?;
        let strategy = "arcturn".parse::<PolicySpec>()?.load(&[], &[])?.strategy(model, &models)?;
        let mut total = Summary::default();
        for session in &sessions {
            let session = session.scaled_to(model.tokenizer);
            let options = RunOptions::default();
            total.add(&run(&session, &strategy, model, &options, &mut scratch, &mut NoRecorder));
        }
        let cost = Usd(total.cost.total()).rounded(2);
        println!("{id}: ${cost}, {} compactions, {} overflows", total.compactions, total.overflows);
    }
    Ok(())
}
