//! A gate in a test of one's own: the strategy in use must not get worse on recorded sessions.
//!
//! `cargo run --example gate`, or `cargo test --example gate`

mod support;

use ctxsim::gate::{Baseline, DEFAULT_RULES, Requests, Rule, Verdict, check, output};
use ctxsim::policy::PolicySpec;
use ctxsim::provider::Models;
use ctxsim::report::{Cell, Recipe, ResultSet};
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, run};

fn main() -> anyhow::Result<()> {
    let verdict = judge("arcturn:minCharsPerPass=0")?;
    println!("{}", output::headline(&verdict));
    for place in verdict.places.iter().filter(|place| place.session.is_none()) {
        for broken in place.checks.iter().filter(|check| check.failed) {
            println!("{}: {} ({})", place.name(), broken.rule, broken.change);
        }
    }
    Ok(())
}

/// Compares a policy with what is in use. A baseline is usually a file that is committed and read by
/// [`Baseline::read`]; here it is made on the spot.
fn judge(candidate: &str) -> anyhow::Result<Verdict> {
    let baseline = Baseline::of(&results("arcturn")?, &Requests::new());
    let rules = DEFAULT_RULES.iter().map(|rule| rule.parse()).collect::<ctxsim::Result<Vec<Rule>>>()?;
    Ok(check(&baseline, &results(candidate)?, &Requests::new(), &rules))
}

fn results(policy: &str) -> anyhow::Result<ResultSet> {
    let models = Models::builtin()?;
    let model = models.get("claude-opus-5-5")?;
    let strategy = policy.parse::<PolicySpec>()?.load(&[], &[])?.strategy(model, &models)?;
    let mut scratch = Scratch::default();
    let mut cells = Vec::new();
    for session in support::sessions(std::iter::empty())? {
        let scaled = session.scaled_to(model.tokenizer);
        let options = RunOptions::default();
        cells.push(Cell {
            session: session.id.clone(),
            policy: "in use".to_owned(),
            model: model.id.clone(),
            model_substituted: None,
            summary: run(&scaled, &strategy, model, &options, &mut scratch, &mut NoRecorder),
        });
    }
    Ok(ResultSet::new(Recipe::default(), Vec::new(), cells))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn what_is_in_use_passes() {
        assert!(judge("arcturn").expect("runs").passed());
    }

    #[test]
    fn editing_at_every_chance_does_not() {
        assert!(!judge("arcturn:minCharsPerPass=0").expect("runs").passed());
    }
}
