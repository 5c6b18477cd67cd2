//! Expected numbers as data: every vector of `fixtures/vectors`, and of the folder that the variable
//! `CTXSIM_VECTORS` names, is run by its `mechanism` and compared field by field.

mod client;
mod compare;
mod conversation;
mod folding;
mod grammar;
mod offload;
mod policy;
mod provider;
mod requests;
mod server;
mod sized;
mod strategy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// One vector, or one case of it, ready to run.
pub struct Case<'a> {
    /// What is modelled (`anthropic-api`, `arcturn@0.6.0`, …).
    pub system: &'a str,
    /// Preset or model the vector names.
    pub preset: &'a str,
    /// Its input, case fields laid over the common ones.
    pub input: &'a Map<String, Value>,
    /// The file's defaults.
    pub defaults: &'a Value,
}

/// Runs a case and returns every output field it knows; `None` if the case is another room's.
pub type Run = fn(&Case<'_>) -> Option<Value>;

/// Rooms register their mechanisms here, one line each.
const ROOMS: &[&[(&str, Run)]] =
    &[provider::MECHANISMS, server::MECHANISMS, policy::MECHANISMS, strategy::MECHANISMS];

/// What is not built yet, and why: (system, mechanism, reason). Nothing else may be skipped.
const PENDING: &[(&str, &str, &str)] = &[];

/// Reads every JSON file of a folder, in the order of their names.
fn read_folder(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, json)
    };
    paths.into_iter().map(read).collect()
}

fn all_files() -> Vec<(PathBuf, Value)> {
    let mut files = read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors"));
    if let Some(folder) = std::env::var_os("CTXSIM_VECTORS") {
        files.extend(read_folder(Path::new(&folder)));
    }
    files
}

/// Input and expectation of each case; a vector without cases is one.
fn cases(vector: &Value) -> Vec<(Map<String, Value>, &Value)> {
    let mut input = vector["input"].as_object().unwrap().clone();
    let Some(cases) = input.shift_remove("cases") else { return vec![(input, &vector["expect"])] };
    let (cases, expected) =
        (cases.as_array().unwrap().clone(), vector["expect"]["cases"].as_array().unwrap());
    assert_eq!(cases.len(), expected.len(), "vector {}: cases and expectations", vector["id"]);
    let over = |case: &Value| {
        let mut merged = input.clone();
        merged.extend(case.as_object().unwrap().clone());
        merged
    };
    cases.iter().map(over).zip(expected).collect()
}

fn run(case: &Case<'_>, mechanism: &str) -> Option<Value> {
    let registered = ROOMS.iter().flat_map(|room| room.iter());
    registered.filter(|(name, _)| *name == mechanism).find_map(|(_, run)| run(case))
}

#[test]
fn every_one_of_the_vectors_holds() {
    let (mut vectors, mut fields) = (0, 0);
    let mut skipped: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let files = all_files();
    for (path, file) in &files {
        for vector in file["vectors"].as_array().unwrap() {
            let text =
                |field: &str| vector[field].as_str().unwrap_or_else(|| panic!("{}: {field}", path.display()));
            let (id, system, mechanism) = (text("id"), text("system"), text("mechanism"));
            let pending = PENDING.iter().find(|(s, m, _)| *s == system && *m == mechanism);
            if let Some((system, mechanism, _)) = pending {
                *skipped.entry((*system, *mechanism)).or_default() += 1;
                continue;
            }
            vectors += 1;
            for (i, (input, expected)) in cases(vector).iter().enumerate() {
                let case = Case { system, preset: text("preset"), input, defaults: &file["defaults"] };
                let place = format!("{} {id} [{i}]", path.file_name().unwrap().display());
                match run(&case, mechanism) {
                    Some(actual) => fields += compare::compare(&place, expected, &actual, &mut wrong),
                    None => wrong.push(format!("{place}: nothing runs mechanism `{mechanism}` of {system}")),
                }
            }
        }
    }
    let count: usize = skipped.values().sum();
    println!("compared {fields} fields of {vectors} vectors; {count} pending: {skipped:?}");
    assert!(wrong.is_empty(), "{} fields differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(vectors > 0 && fields > vectors, "nothing was compared");
}

#[test]
fn no_source_file_knows_the_id_of_one_of_the_vectors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ids: Vec<String> = all_files()
        .iter()
        .flat_map(|(_, file)| file["vectors"].as_array().unwrap().clone())
        .map(|vector| vector["id"].as_str().unwrap().to_owned())
        .filter(|id| id.len() > 2)
        .collect();
    let mut folders = vec![root.join("src"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let known = ids.iter().find(|id| has_word(&text, id));
                assert!(known.is_none(), "{} holds the vector id {known:?}", path.display());
            }
        }
    }
}

/// Whether `word` stands in `text` as a word of its own.
fn has_word(text: &str, word: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_' || c == '.');
    text.match_indices(word).any(|(at, _)| {
        !inner(text[..at].chars().next_back()) && !inner(text[at + word.len()..].chars().next())
    })
}
