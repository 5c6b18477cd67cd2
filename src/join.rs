//! Results of shards become the results of one run.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::report::{Cell, Recipe, ResultSet, Skipped};
use crate::sweep::Shard;

/// Joins the results of all shards of one run; each comes with the name that errors call it.
///
/// # Errors
/// A part that is no shard, is interrupted, or is of another version or recipe, or that knows another window of a
/// model; a shard that is missing or there twice; a cell that is missing, there twice, or in a shard that it does
/// not belong to.
pub fn join(parts: Vec<(String, ResultSet)>) -> Result<ResultSet> {
    let fail = |name: &str, reason: String| Err(Error::Config { origin: name.to_owned(), reason });
    let Some((first_name, first)) = parts.first() else {
        return fail("join", "there is nothing to join; name the folders of all shards".to_owned());
    };
    let recipe = first.recipe.clone();
    let mut seen: BTreeMap<u64, &str> = BTreeMap::new();
    let mut count = 0;
    for (name, part) in &parts {
        let shard = shard_of(name, &part.recipe)?;
        if let Some(field) = difference(&recipe, &part.recipe) {
            return fail(
                name,
                format!("its `{field}` is not that of {first_name}; join shards of one command"),
            );
        }
        if seen.is_empty() {
            count = shard.count();
        }
        if shard.count() != count {
            return fail(
                name,
                format!("it is one of {} shards, and {first_name} is one of {count}", shard.count()),
            );
        }
        if part.interrupted {
            return fail(name, "it was interrupted, so cells are missing; run this shard again".to_owned());
        }
        if let Some(before) = seen.insert(shard.index(), name) {
            return fail(name, format!("shard {shard} is in {before} too"));
        }
        if let Some(cell) = part.cells.iter().find(|c| !shard.contains(&c.session)) {
            return fail(name, format!("session {} does not belong to shard {shard}", cell.session));
        }
        check_cells(name, part)?;
    }
    let missing: Vec<String> =
        (1..=count).filter(|i| !seen.contains_key(i)).map(|i| format!("hash:{i}/{count}")).collect();
    if !missing.is_empty() {
        return fail("join", format!("no folder has shard {}", missing.join(", ")));
    }
    let mut skipped: Vec<Skipped> = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    let windows = windows(&parts)?;
    let command_line = command_line(&parts);
    for (_, part) in parts {
        // Every shard reads every file, so each has the same list but for what changed meanwhile.
        let new: Vec<Skipped> = part.skipped.into_iter().filter(|s| !skipped.contains(s)).collect();
        skipped.extend(new);
        cells.extend(part.cells);
    }
    let mut results = ResultSet::new(Recipe { shard: None, ..recipe }, skipped, cells);
    results.windows = windows;
    results.command_line = command_line;
    Ok(results)
}

/// Those of all parts, each of which knows its own models.
fn windows(parts: &[(String, ResultSet)]) -> Result<BTreeMap<String, u64>> {
    let mut known: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (name, part) in parts {
        for (model, tokens) in &part.windows {
            let (before, other) = *known.entry(model).or_insert((*tokens, name));
            if before != *tokens {
                let reason = format!(
                    "its window of {model} has {tokens} tokens, and that of {other} has {before}; run both shards with the \
                     same models"
                );
                return Err(Error::Config { origin: name.clone(), reason });
            }
        }
    }
    Ok(known.into_iter().map(|(model, (tokens, _))| (model.to_owned(), tokens)).collect())
}

/// What was typed, the shard left out; nothing where parts differ, since none of their commands gives the whole.
fn command_line(parts: &[(String, ResultSet)]) -> Vec<String> {
    let all_agree = parts.windows(2).all(|two| two[0].1.command_line == two[1].1.command_line);
    parts.first().filter(|_| all_agree).map(|(_, part)| part.command_line.clone()).unwrap_or_default()
}

fn shard_of(name: &str, recipe: &Recipe) -> Result<Shard> {
    let fail = |reason: String| Error::Config { origin: name.to_owned(), reason };
    let text = recipe
        .shard
        .as_ref()
        .ok_or_else(|| fail("these are the results of a whole run, not of a --shard".to_owned()))?;
    text.parse().map_err(fail)
}

/// The first field of the recipes that differs, the shard left out.
pub fn difference(a: &Recipe, b: &Recipe) -> Option<String> {
    let fields = |recipe: &Recipe| {
        let recipe = Recipe { shard: None, ..recipe.clone() };
        let value = serde_json::to_value(recipe).expect("numbers and strings always serialise");
        value.as_object().cloned().unwrap_or_default()
    };
    let (a, b) = (fields(a), fields(b));
    a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key)).cloned()
}

/// Every session has a cell of each policy on each of its models, once.
fn check_cells(name: &str, part: &ResultSet) -> Result<()> {
    let fail = |session: &str, policy: &str, model: &str, what: &str| Error::Config {
        origin: name.to_owned(),
        reason: format!("the cell of session {session}, policy {policy} and model {model} is {what}"),
    };
    for cells in part.cells.chunk_by(|a, b| a.session == b.session) {
        let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
        for cell in cells {
            if !seen.insert((&cell.policy, &cell.model)) {
                return Err(fail(&cell.session, &cell.policy, &cell.model, "there twice"));
            }
        }
        let own: BTreeSet<&str> = cells.iter().map(|c| c.model.as_str()).collect();
        let asked: BTreeSet<&str> = part.recipe.models.iter().map(String::as_str).collect();
        let models = if asked.is_empty() { own } else { asked };
        for policy in part.recipe.policies.iter().map(|p| p.label.as_str()) {
            if let Some(model) = models.iter().find(|model| !seen.contains(&(policy, **model))) {
                return Err(fail(&cells[0].session, policy, model, "missing"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::{cell, sample};

    const SESSIONS: u64 = 40;

    fn whole() -> ResultSet {
        let ids = (0..SESSIONS).map(|i| format!("s{i}"));
        let cells = ids.flat_map(|id| ["none", "arc"].map(|p| cell(&id, p, 3, 1_000, 90)));
        let mut whole = ResultSet::new(sample().recipe, sample().skipped, cells.collect());
        whole.windows = [("claude-opus-5-5".to_owned(), 200_000)].into();
        whole.command_line = ["simulate", "traces"].map(str::to_owned).to_vec();
        whole
    }

    fn parts(count: u64) -> Vec<(String, ResultSet)> {
        let part = |i: u64| {
            let text = format!("hash:{i}/{count}");
            let shard: Shard = text.parse().expect("a shard");
            let cells = whole().cells.into_iter().filter(|c| shard.contains(&c.session)).collect();
            let recipe = Recipe { shard: Some(text), ..whole().recipe };
            let mut part = ResultSet::new(recipe, whole().skipped, cells);
            (part.windows, part.command_line) = (whole().windows, whole().command_line);
            (format!("part{i}"), part)
        };
        (1..=count).map(part).collect()
    }

    fn error(parts: Vec<(String, ResultSet)>) -> String {
        join(parts).expect_err("refused").to_string()
    }

    #[test]
    fn joined_shards_are_the_whole_in_any_order() {
        let mut shards = parts(3);
        assert!(shards.iter().all(|(_, part)| !part.cells.is_empty()));
        shards.reverse();
        assert_eq!(join(shards).expect("whole"), whole());
    }

    #[test]
    fn what_is_missing_or_double_is_named() {
        let mut without = parts(3);
        without.remove(1);
        assert!(error(without).contains("hash:2/3"));
        let mut twice = parts(3);
        twice.push(("again".into(), twice[0].1.clone()));
        assert!(error(twice).contains("again: shard hash:1/3 is in part1 too"));
        let mut hole = parts(3);
        let gone = hole[1].1.cells.remove(0);
        let message = error(hole);
        assert!(
            message.contains(&gone.session) && message.contains("policy none") && message.contains("missing")
        );
        let mut double = parts(3);
        let again = double[2].1.cells[0].clone();
        double[2].1.cells.insert(1, again);
        assert!(error(double).contains("there twice"));
        let mut stray = parts(3);
        let moved = stray[0].1.cells[0].clone();
        stray[1].1.cells.push(moved);
        assert!(error(stray).contains("does not belong"));
        let mut stopped = parts(3);
        stopped[2].1.interrupted = true;
        assert!(error(stopped).contains("interrupted"));
    }

    #[test]
    fn windows_that_differ_are_refused_in_any_order() {
        let mut shards = parts(2);
        shards[1].1.windows.insert("claude-opus-5-5".to_owned(), 1_000_000);
        let message = error(shards.clone());
        assert!(message.contains("part2: its window of claude-opus-5-5 has 1000000 tokens"), "{message}");
        assert!(message.contains("part1 has 200000"), "{message}");
        shards.reverse();
        assert!(error(shards.clone()).contains("part1: its window of claude-opus-5-5 has 200000 tokens"));
        shards[0].1.windows = [("other".to_owned(), 8_000)].into();
        assert_eq!(join(shards).expect("each knows its own models").windows.len(), 2);
    }

    #[test]
    fn the_command_is_that_of_all_shards_or_of_none() {
        let mut shards = parts(3);
        shards[2].1.command_line.push("elsewhere".to_owned());
        let forwards = join(shards.clone()).expect("whole");
        shards.reverse();
        assert_eq!(forwards, join(shards).expect("whole"));
        assert!(forwards.command_line.is_empty());
    }

    #[test]
    fn other_versions_and_recipes_are_refused() {
        let changed = |change: fn(&mut Recipe)| {
            let mut parts = parts(2);
            change(&mut parts[1].1.recipe);
            error(parts)
        };
        assert!(changed(|r| r.ctxsim = "9.9.9".into()).contains("`ctxsim`"));
        assert!(changed(|r| r.seed = 7).contains("`seed`"));
        assert!(changed(|r| r.policies[1].params["keep"] = 9.into()).contains("`policies`"));
        assert!(changed(|r| r.shard = None).contains("whole run"));
        assert!(changed(|r| r.shard = Some("hash:1/5".into())).contains("one of 5 shards"));
        assert!(error(Vec::new()).contains("nothing to join"));
    }
}
