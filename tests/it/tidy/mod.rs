//! The house rules that a search can enforce. Each exception is on a list, with its reason.

mod rooms;
mod source;

pub use source::root;
use source::{Source, files, functions, library};

/// Fails with all findings at once.
fn none(findings: Vec<String>, rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n{}", findings.join("\n"));
}

/// Rust files of the project: library, program, tests and benches.
fn all_rust() -> Vec<Source> {
    ["src", "tests", "benches", "examples"]
        .iter()
        .flat_map(|folder| files(folder, &["rs"]))
        .map(|(path, text)| Source::of(path, text))
        .collect()
}

/// Text that people wrote: code, presets, scenarios, documents, scripts.
fn all_prose() -> Vec<(String, String)> {
    let kinds = ["rs", "toml", "md", "yml"];
    let mut found: Vec<_> = ["src", "tests", "benches", "scenarios", "docs", "examples"]
        .iter()
        .filter(|f| root().join(f).is_dir())
        .flat_map(|folder| files(folder, &kinds))
        .collect();
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "Cargo.toml",
        "clippy.toml",
        "rustfmt.toml",
        ".gitignore",
        ".ci/run",
        ".ci/regenerate",
    ] {
        found.push((name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    }
    found
}

/// Whether `word` stands in `line` with no letter or digit on either side, whatever the case.
fn has_word(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    line.match_indices(word)
        .any(|(at, _)| edge(line[..at].chars().next_back()) && edge(line[at + word.len()..].chars().next()))
}

const AGENTS: &[&str] = &[
    "arcturn",
    "octo",
    "claude code",
    "claude-code",
    "claude_code",
    "claudecode",
    "codex",
    "gemini cli",
    "gemini-cli",
    "opencode",
    "openhands",
    "cline",
    "aider",
    "qwen code",
    "qwen-code",
    "kimi cli",
    "kimi-cli",
];

/// Where agents may be named, and why.
const MAY_NAME_AGENTS: &[(&str, &str)] = &[
    ("src/policy/presets/", "a preset is the agent's strategy"),
    ("src/policy/preset.rs", "the list of presets in the binary"),
    ("src/config/agents.rs", "reads agents' own configurations"),
    ("src/ingest/claude_code/", "reads that agent's recordings"),
    ("src/ingest/codex.rs", "reads that agent's recordings"),
    ("src/ingest/opencode.rs", "reads that agent's recordings"),
    ("src/ingest/gemini_cli.rs", "reads that agent's recordings"),
    ("src/ingest/atif.rs", "a converter of that agent's recordings"),
    ("src/ingest/http/responses.rs", "items of responses are read as in that agent's recordings"),
    ("src/ingest/openhands/", "reads that agent's recordings"),
    ("src/ingest/mod.rs", "the list of formats"),
    ("src/ingest/arcturn.rs", "reads that agent's recordings"),
    ("src/ingest/octo.rs", "reads that agent's recordings"),
    ("src/ingest/cline/", "reads that agent's recordings"),
    ("src/ingest/aider.rs", "reads that agent's recordings"),
    ("src/session/roles.rs", "tool names by format"),
    ("src/validate/rules.rs", "habits of one client's versions"),
    ("src/cli/args.rs", "examples in the help, and the two policies compared by default"),
    ("src/cli/tune.rs", "examples in the help"),
    ("src/tokens/generation.rs", "models whose ids begin with it"),
];

#[test]
fn agents_are_named_in_data_only() {
    let mut findings = Vec::new();
    for source in library() {
        if MAY_NAME_AGENTS.iter().any(|(path, _)| source.path.starts_with(path)) {
            continue;
        }
        for (i, line) in source.text.lines().enumerate().filter(|(i, _)| !source.is_test[*i]) {
            findings.extend(
                AGENTS
                    .iter()
                    .filter(|a| has_word(line, a))
                    .map(|a| format!("{}:{}: {a}", source.path, i + 1)),
            );
        }
    }
    none(findings, "an agent's name outside presets, formats and configuration readers");
}

/// What the calculating rooms may not use: (what, why).
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "no files"),
    ("std::io", "no input or output"),
    ("std::env", "no environment"),
    ("std::process", "no processes"),
    ("println!", "no printing"),
    ("print!", "no printing"),
    ("dbg!", "no printing"),
    ("Instant", "no clock but the session's"),
    ("SystemTime", "no clock but the session's"),
    ("std::thread", "no threads"),
    ("rayon", "no threads"),
    ("rand::", "randomness comes from seed.rs"),
];

const PURE_ROOMS: &[&str] = &["sim", "policy", "provider", "session", "transcript", "tokens"];

const IMPURE_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("src/policy/preset.rs", "std::fs", "a policy file is read when it is named"),
    ("src/session/trace/mod.rs", "std::io", "writes lines to any sink"),
    ("src/session/trace/reading.rs", "std::io", "reads lines from any source"),
];

#[test]
fn calculating_rooms_do_nothing_else() {
    let mut findings = Vec::new();
    for source in library().iter().filter(|s| PURE_ROOMS.contains(&rooms::room(&s.path))) {
        for (i, line) in source.lines() {
            for (what, why) in IMPURE.iter().filter(|(what, _)| line.contains(what)) {
                if !IMPURE_EXCEPTIONS.iter().any(|(path, w, _)| source.path == *path && w == what) {
                    findings.push(format!("{}:{i}: {what}: {why}", source.path));
                }
            }
        }
    }
    none(findings, "what sim, policy, provider, session, transcript and tokens may not do");
}

/// (what, where it may be, why only there)
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("rayon", &["src/sweep/"], "threads live in one place"),
    ("rand::", &["src/seed.rs"], "one source of randomness"),
    ("anyhow", &["src/cli/", "src/main.rs"], "library errors are typed"),
    (
        "HashMap",
        &[
            "src/provider/cache.rs",
            "src/session/compile/build.rs",
            "src/ingest/claude_code/chain.rs",
            "src/ingest/claude_code/mod.rs",
            "src/ingest/claude_code/tree.rs",
            "src/ingest/dedupe.rs",
        ],
        "looked up there and never walked through, so no order reaches an output",
    ),
    (
        "HashSet",
        &["src/ingest/claude_code/chain.rs", "src/ingest/claude_code/mod.rs", "src/ingest/dedupe.rs"],
        "asked there and never walked through",
    ),
    (
        "f64",
        &[
            "src/metrics.rs",
            "src/stats.rs",
            "src/tune/",
            "src/report/",
            // Draws and fits; a session holds whole numbers.
            "src/generate/",
            "src/validate/fit.rs",
            "src/cli/",
            // Spacing of a grid, rounded to whole numbers where it is made.
            "src/sweep/axis.rs",
            // Numbers as written in files, turned into integers where they are read.
            "src/provider/models_toml.rs",
            "src/provider/price_toml.rs",
            "src/policy/value.rs",
            "src/config/agents.rs",
            "src/ingest/claude_code/lenient.rs",
        ],
        "money and tokens are integers; floats first appear in metrics",
    ),
    ("f32", &["src/report/"], "money and tokens are integers; floats first appear in metrics"),
];

#[test]
fn what_is_confined_stays_there() {
    let mut findings = Vec::new();
    for source in library() {
        for (what, allowed, why) in CONFINED {
            if !allowed.iter().any(|path| source.path.starts_with(path)) {
                let lines = source.lines().filter(|(_, line)| line.contains(what));
                findings.extend(lines.map(|(i, _)| format!("{}:{i}: {what}: {why}", source.path)));
            }
        }
    }
    none(findings, "used outside its place");
}

#[test]
fn nothing_is_silenced_or_left_for_later() {
    let mut findings = Vec::new();
    for source in all_rust() {
        for (i, line) in source.code.lines().enumerate() {
            let silenced = line.contains("#[allow(") || line.contains("#![allow(");
            let words = ["unsafe", "todo!", "unimplemented!", "dbg!"];
            let word = words.iter().find(|w| {
                line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '!').any(|t| t == **w)
            });
            if silenced || word.is_some() {
                findings.push(format!("{}:{}: {}", source.path, i + 1, line.trim()));
            }
        }
        for (i, line) in source.text.lines().enumerate() {
            if [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")]
                .iter()
                .any(|w| line.contains(w))
            {
                findings.push(format!("{}:{}: {}", source.path, i + 1, line.trim()));
            }
        }
    }
    none(findings, "write #[expect(lint, reason = \"…\")], no unsafe, nothing for later");
}

#[test]
fn expectations_say_why_they_hold() {
    let mut findings = Vec::new();
    for source in library() {
        let texts: Vec<&str> = source.text.lines().collect();
        for (i, line) in source.lines() {
            let expects = line.contains(".expect(") || line.contains(".expect_err(");
            let reasons = ["always", "never", "cannot"];
            let reason =
                texts[i - 1..texts.len().min(i + 1)].iter().any(|t| reasons.iter().any(|r| t.contains(r)));
            if line.contains(".unwrap()") || line.contains(".unwrap_err()") || (expects && !reason) {
                findings.push(format!("{}:{i}: {}", source.path, texts[i - 1].trim()));
            }
        }
    }
    none(findings, "outside tests no unwrap, and an expect says why it always holds");
}

#[test]
fn files_and_functions_stay_small() {
    let mut findings = Vec::new();
    for source in all_rust() {
        let lines = source.text.lines().count();
        if lines > 500 {
            findings.push(format!("{}: {lines} lines; 500 are enough for one thing", source.path));
        }
        for (at, name, lines) in functions(&source.code).iter().filter(|(_, _, lines)| *lines > 70) {
            findings.push(format!("{}:{at}: fn {name} has {lines} lines; 70 are enough", source.path));
        }
    }
    none(findings, "too long");
}

#[test]
fn nothing_names_the_machine_it_was_made_on() {
    let places = [concat!("/t", "mp/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/u")];
    let mut findings = Vec::new();
    for (path, text) in all_prose() {
        for (i, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place)) {
                findings.push(format!("{path}:{}: a path of one machine", i + 1));
            }
            if line.chars().count() > 400 {
                findings.push(format!("{path}:{}: {} characters", i + 1, line.chars().count()));
            }
        }
    }
    none(findings, "paths of a machine, and lines that nobody reads");
}
