//! Warnings about configurations that cannot do what they say.

use ctxsim::Error;
use ctxsim::policy::check::{Surroundings, check};
use ctxsim::policy::{PolicyConfig, Strategy};
use ctxsim::provider::model::SUBSTITUTE;
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::session::Session;

use super::output::Terminal;

/// Most warnings that are worth reading at once.
const SHOWN: usize = 10;

/// Names on stderr what is odd about each strategy on its model, given what the recordings hold.
/// `strategies` are by model.
pub fn warn<'s>(
    strategies: &[Vec<Strategy>],
    models: &[ModelSpec],
    sessions: impl IntoIterator<Item = &'s Session>,
    terminal: &Terminal,
) {
    let Some(first) = models.first() else { return };
    let mut around = Surroundings::of(first, sessions);
    let mut found: Vec<String> = Vec::new();
    for of_models in strategies {
        for (strategy, model) in of_models.iter().zip(models) {
            around.window_tokens = model.window_tokens;
            let new = check(strategy, &around).into_iter();
            found.extend(new.map(|sentence| format!("policy {}, {sentence}", strategy.label)));
        }
    }
    say(&found, terminal);
}

/// The same without recordings, on the model that stands in for unknown ones.
///
/// # Errors
/// A rule that cannot be resolved.
pub fn warn_of(config: &PolicyConfig, models: &Models, terminal: &Terminal) -> Result<(), Error> {
    let model = models.get(SUBSTITUTE)?;
    let found = check(&config.strategy(model, models)?, &Surroundings::assumed(model));
    let found: Vec<String> = found.into_iter().map(|s| format!("policy {}, {s}", config.label)).collect();
    say(&found, terminal);
    Ok(())
}

/// Each sentence once.
fn say(found: &[String], terminal: &Terminal) {
    let mut distinct: Vec<&str> = Vec::new();
    for sentence in found {
        if !distinct.contains(&sentence.as_str()) {
            distinct.push(sentence);
        }
    }
    for sentence in distinct.iter().take(SHOWN) {
        terminal.warn(sentence);
    }
    if distinct.len() > SHOWN {
        terminal.warn(&format!("{} more such warnings", distinct.len() - SHOWN));
    }
}
