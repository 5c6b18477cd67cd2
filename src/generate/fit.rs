//! From recordings to a profile, and how well it describes recordings it was not fitted to.
//!
//! Each parameter gets the simplest of a few families that comes close to what was seen: a constant, single values with a
//! geometric tail, one or two log-normals behind a single value. What is seen of the sessions held out is compared with
//! draws from the result, made as sessions are.
//!
//! # Divergence from the real API
//!
//! - Draws of a profile are independent, those of recordings are not: where sessions differ much from each other, sums
//!   over a session (the rows `requests` and `session_tokens` of a report) spread less than recorded ones.
//! - `result_utf16`, `start_s` and `growth_scale` are not fitted.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::dist::{Core, Term};
use super::observe::{Observations, REQUESTS, SESSION_TOKENS};
use super::{Dist, Parameter, Profile, family};
use crate::error::{Error, Result};
use crate::seed;
use crate::session::Session;
use crate::stats::{ks_distance, quantile};

/// Quantiles of a report.
pub const QUANTILES: [f64; 6] = [0.10, 0.25, 0.50, 0.75, 0.90, 0.99];

/// Draws from a fitted distribution that stand for it.
const DRAWS: usize = 20_000;

/// Sessions made from the fitted profile to check whole sessions on.
const CHECK_SESSIONS: u64 = 200;

/// Parts of a whole that the share held out is counted in.
const MILLION: u64 = 1_000_000;

/// Parameters that stay as the profile fitted from has them.
const NOT_FITTED: [&str; 3] = ["result_utf16", "start_s", "growth_scale"];

/// A fitted profile, and how well it fits.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// Sessions it was fitted to.
    pub training_sessions: usize,
    /// Sessions it is compared with; 0 if there is only one session, which is then compared with itself.
    pub held_out_sessions: usize,
    /// One for each fitted parameter, then the checks on whole sessions.
    pub rows: Vec<FitRow>,
}

/// How one parameter fits.
#[derive(Debug, Clone, PartialEq)]
pub struct FitRow {
    /// The parameter, or what of whole sessions is compared.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What was fitted; empty for whole sessions.
    pub distribution: String,
    /// Values it was fitted to.
    pub training_values: usize,
    /// Values it is compared with.
    pub held_out_values: usize,
    /// Of the recordings, then of the profile, at [`QUANTILES`].
    pub quantiles: Vec<(Option<f64>, Option<f64>)>,
    /// Greatest distance between the distribution functions (Kolmogorov and Smirnov); `None` without values.
    pub ks: Option<f64>,
}

/// Whether a session is held out: by its id alone, so that it stays so in every run.
fn holds_out(session_id: &str, millionths: u64) -> bool {
    xxh3_64(session_id.as_bytes()) % MILLION < millionths
}

/// Fits `base`, whose parameters stay where nothing was seen of them, to `sessions`, as loaded with both replays of
/// recorded compactions. A share of the sessions is held out.
///
/// # Errors
/// Without sessions.
pub fn fit(sessions: &[&Session], base: &Profile, holdout_millionths: u64, root_seed: u64) -> Result<Fitted> {
    let (held_out, training) = split(sessions, holdout_millionths);
    let seen = Observations::of(training.iter().copied());
    if seen.sessions == 0 {
        return Err(Error::Config {
            origin: "--fit".to_owned(),
            reason: "there is no session to fit to".to_owned(),
        });
    }
    let compared = match held_out.is_empty() {
        true => seen.clone(),
        false => Observations::of(held_out.iter().copied()),
    };
    let mut profile = base.clone();
    "fitted".clone_into(&mut profile.name);
    profile.summary = format!("fitted to {} recorded sessions", seen.sessions);
    profile.sources = vec![format!("ctxsim generate --fit, from profile {}", base.name)];
    if let Some((model, _)) = seen.models.iter().max_by_key(|(_, count)| **count) {
        profile.model.clone_from(model);
    }
    if !seen.tools.is_empty() {
        profile.tools = tool_weights(&seen.tools);
    }
    for param in &mut profile.params {
        let name = param.name.as_str();
        match seen.values.get(name) {
            _ if NOT_FITTED.contains(&name) => {}
            Some(values) => param.value = family::fit(values, param.range, is_chance(param)),
            // Of these, nothing seen means that there was none.
            None if ["compact_above_tokens", "injected_tokens"].contains(&name) => {
                param.value = Dist::constant(0.0);
            }
            None => {}
        }
    }
    let mut rows = rows(&profile, &compared, root_seed);
    for row in &mut rows {
        row.training_values = seen.of_name(&row.name).len();
    }
    Ok(Fitted { profile, training_sessions: seen.sessions, held_out_sessions: held_out.len(), rows })
}

/// How well a profile describes sessions: a row for each parameter that is seen in them, then those on whole sessions.
pub fn compare(profile: &Profile, sessions: &[&Session], root_seed: u64) -> Vec<FitRow> {
    rows(profile, &Observations::of(sessions.iter().copied()), root_seed)
}

fn rows(profile: &Profile, seen: &Observations, root_seed: u64) -> Vec<FitRow> {
    let is_compared = |param: &&Parameter| {
        !NOT_FITTED.contains(&param.name.as_str()) && !seen.of_name(&param.name).is_empty()
    };
    let mut rows: Vec<FitRow> = profile
        .params
        .iter()
        .filter(is_compared)
        .map(|param| {
            let draws = match param.value.fixed_values().as_deref() {
                Some([chance]) if is_chance(param) => outcomes(*chance),
                _ => drawn(param, root_seed),
            };
            FitRow {
                distribution: param.value.to_string(),
                ..row(&param.name, &param.unit, seen.of_name(&param.name), draws)
            }
        })
        .collect();
    // Sums over sessions, which no parameter states: what the independence of draws costs.
    let made: Vec<Session> = (0..CHECK_SESSIONS).map(|i| super::session(profile, root_seed, i)).collect();
    let made = Observations::of(&made);
    for (name, unit) in [(REQUESTS, "requests"), (SESSION_TOKENS, "tokens")] {
        rows.push(row(name, unit, seen.of_name(name), made.of_name(name).to_vec()));
    }
    rows
}

/// A chance is seen as 0s and 1s.
fn is_chance(param: &Parameter) -> bool {
    param.name.ends_with("_chance")
}

/// Held-out sessions and the others. There is one of each kind as soon as there are two sessions.
fn split<'s>(sessions: &[&'s Session], millionths: u64) -> (Vec<&'s Session>, Vec<&'s Session>) {
    let mut sorted = sessions.to_vec();
    sorted.sort_by_key(|s| (xxh3_64(s.id.as_bytes()) % MILLION, s.id.clone()));
    let by_share = sorted.iter().filter(|s| holds_out(&s.id, millionths)).count();
    let least = usize::from(sorted.len() > 1 && millionths > 0);
    let count = by_share.clamp(least, sorted.len().saturating_sub(1).max(least));
    let training = sorted.split_off(count);
    (sorted, training)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of calls are far below 2^53")]
fn tool_weights(tools: &BTreeMap<String, u64>) -> Vec<(String, f64)> {
    let mut weights: Vec<(String, f64)> =
        tools.iter().map(|(name, calls)| (name.clone(), *calls as f64)).collect();
    weights.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    weights
}

/// Draws of a parameter, as sessions have them.
fn drawn(param: &Parameter, root_seed: u64) -> Vec<f64> {
    let mut rng = seed::stream(root_seed, &format!("fit/{}", param.name), &[]);
    let (low, high) = param.range;
    let is_whole = family::WHOLE_UNITS.contains(&param.unit.as_str());
    let one = |nth| {
        let value = param.value.draw(&mut rng, nth).max(low).min(high);
        if is_whole { (value + 0.5).floor() } else { value }
    };
    (0..DRAWS).map(one).collect()
}

/// What a chance comes to in [`DRAWS`] tries.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn outcomes(chance: f64) -> Vec<f64> {
    (0..DRAWS).map(|i| if (i as f64 + 0.5) / (DRAWS as f64) < chance { 1.0 } else { 0.0 }).collect()
}

fn row(name: &str, unit: &str, recorded: &[f64], mut fitted: Vec<f64>) -> FitRow {
    let mut recorded = recorded.to_vec();
    recorded.sort_by(f64::total_cmp);
    fitted.sort_by(f64::total_cmp);
    FitRow {
        name: name.to_owned(),
        unit: unit.to_owned(),
        distribution: String::new(),
        training_values: 0,
        held_out_values: recorded.len(),
        quantiles: QUANTILES.iter().map(|q| (quantile(&recorded, *q), quantile(&fitted, *q))).collect(),
        ks: ks_distance(&recorded, &fitted),
    }
}

impl Fitted {
    /// The profile as a file, with the fit of each parameter beside it.
    pub fn toml(&self) -> String {
        let compared_with = match self.held_out_sessions {
            0 => "the same".to_owned(),
            n => format!("{n} others"),
        };
        let head = format!(
            "# Fitted to {} sessions. KS: greatest distance between distribution functions, on {compared_with}.\n",
            self.training_sessions
        );
        self.profile.toml(&head, |name| match self.rows.iter().find(|row| row.name == name) {
            None => "  # not fitted".to_owned(),
            Some(FitRow { training_values, ks: Some(ks), .. }) => {
                format!("  # {training_values} values, KS {ks:.3}")
            }
            Some(row) => format!("  # {} values, none held out", row.training_values),
        })
    }
}

/// A term without offset.
pub(super) fn term(weight: f64, core: Core) -> Term {
    Term { weight, offset: 0.0, core }
}
