//! Data flows one way: a lower room never imports a higher one.

use super::source::{Source, library};

/// Each room and what it may import.
const ROOMS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("cause", &[]),
    ("usage", &[]),
    ("seed", &[]),
    ("lines", &[]),
    ("tokens", &[]),
    ("transcript", &["usage"]),
    ("session", &["transcript", "tokens", "usage", "lines", "error"]),
    // `trace` files are sessions already, and sessions seen twice are told apart by what they hold.
    ("ingest", &["transcript", "session", "usage", "lines", "error"]),
    ("generate", &["session", "tokens", "seed", "stats", "error"]),
    ("provider", &["tokens", "usage", "cause", "seed", "error"]),
    ("policy", &["session", "provider", "tokens", "error"]),
    ("sim", &["policy", "provider", "session", "tokens", "usage", "cause", "error"]),
    // A row of the table reads its number from a summary.
    ("audit", &["transcript", "session", "tokens", "provider", "usage", "cause", "metrics"]),
    ("metrics", &["sim", "cause", "error"]),
    ("config", &["policy", "error"]),
    ("stats", &["metrics", "seed"]),
    ("sweep", &["sim", "policy", "provider", "session", "error"]),
    ("validate", &["audit", "session", "provider", "tokens", "usage", "cause", "metrics", "stats"]),
    ("gate", &["report", "metrics", "sim", "cause", "error"]),
    ("join", &["report", "sweep", "error"]),
    (
        "tune",
        &[
            "sweep", "stats", "gate", "report", "metrics", "config", "sim", "policy", "provider", "session",
            "seed", "usage", "error",
        ],
    ),
    ("report", &["audit", "metrics", "sim", "stats", "validate", "usage", "cause", "error"]),
];

/// What a policy may know of the provider: the vocabulary of requests and the client's model table, never
/// an answer or the state of a cache.
const POLICY_KNOWS: &[&str] = &["ModelSpec", "Models", "PrefixMismatch", "Ttl"];

/// Room of a file: the folder or file right under `src`.
pub fn room(path: &str) -> &str {
    let inner = path.strip_prefix("src/").unwrap_or(path);
    inner.split(['/', '.']).next().unwrap_or(inner)
}

/// Rooms named after `crate::`, in groups too.
fn imports(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let group = rest.strip_prefix('{').and_then(|r| r.split_once('}')).map(|(group, _)| group);
        for item in group.unwrap_or(rest).split(',').take(if group.is_some() { usize::MAX } else { 1 }) {
            let name = item.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
            found.extend(name.filter(|n| n.starts_with(char::is_lowercase)));
        }
    }
    found
}

#[test]
fn no_room_imports_a_higher_one() {
    let mut findings = Vec::new();
    for source in library() {
        let room = room(&source.path);
        if ["lib", "main", "cli"].contains(&room) {
            continue;
        }
        let Some((_, may)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            findings.push(format!("{}: room `{room}` has no row in ROOMS", source.path));
            continue;
        };
        for name in imports(&source.production()).into_iter().filter(|n| *n != room && !may.contains(n)) {
            findings.push(format!("{}: imports {name}", source.path));
        }
    }
    super::none(findings, "an import against the flow");
}

#[test]
fn no_two_rooms_import_each_other() {
    let may = |from: &str, to: &str| ROOMS.iter().any(|(room, may)| *room == from && may.contains(&to));
    for (room, imports) in ROOMS {
        for other in *imports {
            assert!(!may(other, room), "{room} and {other} may import each other");
        }
    }
}

#[test]
fn policies_know_no_truth_of_the_provider() {
    let mut findings = Vec::new();
    for source in library().iter().filter(|s| room(&s.path) == "policy") {
        for name in names_of_provider(&source.production()) {
            if !POLICY_KNOWS.contains(&name.as_str()) {
                findings.push(format!("{}: provider::{name}", source.path));
            }
        }
    }
    super::none(findings, "a policy sees what a client sees");
}

fn names_of_provider(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, matched) in code.match_indices("crate::provider::") {
        let rest = &code[at + matched.len()..];
        let list = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        found.extend(list.split(',').map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()));
    }
    found
}

#[test]
fn imports_are_found() {
    let text = "use crate::error::Result;\nuse crate::{Error, sim::run, policy};\n// use crate::report::x;\n";
    let source = Source::of("src/x.rs".to_owned(), text.to_owned());
    assert_eq!(imports(&source.production()), ["error", "sim", "policy"]);
    assert_eq!(names_of_provider("use crate::provider::{A, B};\ncrate::provider::C::new()"), ["A", "B", "C"]);
}
