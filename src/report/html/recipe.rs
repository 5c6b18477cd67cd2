//! How to get the same numbers again.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::report::results::{Recipe, RecipePolicy, ResultSet};

use super::escape::escape;

/// Policies that a command line still shows.
const SHOWN: usize = 12;

/// Inputs that a command line still shows.
const INPUTS: usize = 12;

/// The command, and the whole recipe.
pub(super) fn html(results: &ResultSet) -> String {
    let recipe = &results.recipe;
    let whole = serde_json::to_string_pretty(recipe).unwrap_or_default();
    let (command, hint) = match results.command_line.is_empty() {
        true => (command(recipe), ""),
        false => (
            typed(&results.command_line, recipe),
            "<p class=\"hint\">In the folder in which it was run: paths are relative to it, and … stands for folders \
             elsewhere.</p>\n",
        ),
    };
    format!(
        "{hint}<pre id=\"command\" tabindex=\"0\">{}</pre>\n<details><summary>The whole recipe: version, seed, every parameter of every \
         policy</summary><pre tabindex=\"0\">{}</pre></details>",
        escape(&command),
        escape(&whole)
    )
}

/// What was typed, a flag on each line.
fn typed(words: &[String], recipe: &Recipe) -> String {
    let is_flag = |word: &String| word.len() > 1 && word.starts_with('-');
    let inputs = words.iter().skip(1).take_while(|word| !is_flag(word)).count();
    let mut out = "ctxsim".to_owned();
    for (i, word) in words.iter().enumerate() {
        match i {
            _ if is_flag(word) => out.push_str(" \\\n  "),
            i if i == INPUTS + 1 && i <= inputs => {
                let _ = write!(out, " … {} more inputs, in results.json", inputs - INPUTS);
                continue;
            }
            i if i > INPUTS && i <= inputs => continue,
            _ => out.push(' '),
        }
        out.push_str(&quoted(word));
    }
    if let Some(shard) = &recipe.shard {
        let _ = write!(out, " \\\n  --shard {}", quoted(shard));
    }
    out
}

/// What to type, where only the recipe is known. It does not name the recordings, so that shards of one study share it.
fn command(recipe: &Recipe) -> String {
    if let Some(scenario) = &recipe.scenario {
        return format!("ctxsim run {scenario}.toml");
    }
    let mut out =
        format!("ctxsim {} INPUT", if recipe.command == "sweep" { "simulate" } else { &recipe.command });
    for policy in recipe.policies.iter().take(SHOWN) {
        let _ = write!(out, " \\\n  -p {}", quoted(&argument(policy)));
    }
    if recipe.policies.len() > SHOWN {
        let _ = write!(out, " \\\n  … {} more policies, in the recipe", recipe.policies.len() - SHOWN);
    }
    for model in &recipe.models {
        let _ = write!(out, " \\\n  -m {}", quoted(model));
    }
    let options = [
        ("--seed", Some(recipe.seed.to_string()), "0"),
        ("--tokens", Some(recipe.tokens.clone()), "auto"),
        ("--account", Some(recipe.account.clone()), "enforced"),
        ("--recorded-compactions", Some(recipe.recorded_compactions.clone()), "undo"),
        ("--on-binding-error", recipe.on_binding_error.clone(), ""),
        ("--price-date", recipe.price_date.clone(), ""),
        ("--shard", recipe.shard.clone(), ""),
    ];
    for (flag, value, usual) in options {
        if let Some(value) = value.filter(|v| !v.is_empty() && v != usual) {
            let _ = write!(out, " \\\n  {flag} {}", quoted(&value));
        }
    }
    out
}

/// A policy as `-p` takes it. A label that is no preset with parameters needs all of them.
fn argument(policy: &RecipePolicy) -> String {
    let preset = &policy.preset;
    if policy.label == *preset || policy.label.starts_with(&format!("{preset}:")) || preset.is_empty() {
        return policy.label.clone();
    }
    format!("{}={preset}:{}", policy.label, params(&policy.params))
}

fn params(params: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let simple = params.iter().filter(|(_, value)| !value.is_array() && !value.is_object());
    simple.map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(",")
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:=,/@…".contains(c);
    let rest = |text: &str| if text.is_empty() { String::new() } else { quoted(text) };
    // The shell replaces the tilde only where it is not quoted.
    if text == "~" || text.starts_with("~/") {
        let (home, below) = text.split_at(text.len().min(2));
        return format!("{home}{}", rest(below));
    }
    // A home folder's name can have spaces.
    if let Some((before, below)) = text.split_once("$HOME/") {
        return format!("{}\"$HOME\"/{}", rest(before), rest(below));
    }
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    #[test]
    fn the_command_names_what_is_not_usual() {
        let mut recipe = sample().recipe;
        recipe.seed = 7;
        recipe.models = vec!["m 1".into()];
        recipe.policies[1].label = "own".into();
        assert_eq!(
            command(&recipe),
            "ctxsim simulate INPUT \\\n  -p none \\\n  -p own=arc:keep=3 \\\n  -m 'm 1' \\\n  --seed 7"
        );
        recipe.scenario = Some("quickstart".into());
        assert_eq!(command(&recipe), "ctxsim run quickstart.toml");
    }

    #[test]
    fn what_was_typed_can_be_typed_again() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut recipe = sample().recipe;
        let mut line = words("sweep ~/a traces -p none --grid keep=1,3 --shared-cache");
        line[1] = "~/a b".to_owned();
        assert_eq!(
            typed(&line, &recipe),
            "ctxsim sweep ~/'a b' traces \\\n  -p none \\\n  --grid keep=1,3 \\\n  --shared-cache"
        );
        for (word, shown) in [
            ("~", "~"),
            ("~/", "~/"),
            ("~/a", "~/a"),
            ("~b", "'~b'"),
            ("own=$HOME/p.toml:keep=3", "own=\"$HOME\"/p.toml:keep=3"),
            ("own=$HOME/a b.toml", "own=\"$HOME\"/'a b.toml'"),
            ("$HOMES", "'$HOMES'"),
            ("…/p.toml", "…/p.toml"),
        ] {
            assert_eq!(quoted(word), shown);
        }
        recipe.shard = Some("hash:1/2".into());
        let many: Vec<String> =
            ["simulate".to_owned()].into_iter().chain((0..15).map(|i| format!("f{i}"))).collect();
        let shown = typed(&many, &recipe);
        assert!(shown.contains(" f11 … 3 more inputs, in results.json \\\n  --shard hash:1/2"), "{shown}");
        assert!(!shown.contains("f12"));
        let dash = typed(&words("simulate - -p none"), &sample().recipe);
        assert_eq!(dash, "ctxsim simulate - \\\n  -p none");
    }
}
