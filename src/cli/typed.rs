//! What was typed, for whoever wants the same numbers again.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::parser::ValueSource;

use super::args::Cli;

/// Arguments that change no number, and the shard, which the recipe names.
const LEFT_OUT: [&str; 12] = [
    "out", "force", "format", "requests", "explain", "resume", "jobs", "strict", "shard", "quiet", "verbose",
    "color",
];

/// The command and what it was given, as [`ResultSet::command_line`](ctxsim::report::ResultSet::command_line) has it.
pub fn words() -> Vec<String> {
    let command = Cli::command();
    // They were parsed before: what is wrong ended the program then.
    let Ok(matches) = command.clone().try_get_matches() else { return Vec::new() };
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let (mut inputs, mut flags): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let places = Places::now();
    for arg in command.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments) {
        let id = arg.get_id().as_str();
        if LEFT_OUT.contains(&id) || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let raw = matches.get_raw(id).into_iter().flatten();
        let values = raw.map(|value| places.portable(&value.to_string_lossy()));
        let flag = match (arg.get_short(), arg.get_long()) {
            (Some(short), _) => format!("-{short}"),
            (None, Some(long)) => format!("--{long}"),
            (None, None) => {
                inputs.extend(values);
                continue;
            }
        };
        match arg.get_action().takes_values() {
            true => flags.extend(values.flat_map(|value| [flag.clone(), value])),
            false => flags.push(flag),
        }
    }
    [name.to_owned()].into_iter().chain(inputs).chain(flags).collect()
}

/// The words that run a scenario.
pub fn words_for(scenario: &Path) -> Vec<String> {
    vec!["run".to_owned(), Places::now().portable(&scenario.to_string_lossy())]
}

/// Folders that must not show: whoever reads the words has others.
struct Places {
    here: PathBuf,
    home: Option<PathBuf>,
}

impl Places {
    fn now() -> Places {
        let home = std::env::home_dir().filter(|home| home.parent().is_some());
        Places { here: std::env::current_dir().unwrap_or_default(), home }
    }

    /// A word with every path in it relative to here or, below home, to `~`.
    fn portable(&self, word: &str) -> String {
        let path = Path::new(word);
        if path.is_absolute() {
            return self.relative(path).to_string_lossy().into_owned();
        }
        // A file behind a label, as in `own=/x/own.toml:keep=3`, where no shell replaces a tilde.
        let climbed = self.home.as_ref().and_then(|home| self.here.strip_prefix(home).ok());
        let home = climbed.map_or_else(|| "~/".to_owned(), |below| "../".repeat(below.components().count()));
        let folders = [(Some(&self.here), ""), (self.home.as_ref(), home.as_str())];
        let known = folders.into_iter().filter_map(|(folder, short)| Some((folder?.to_str()?, short)));
        known.filter(|(folder, _)| folder.len() > 1).fold(word.to_owned(), |word, (folder, short)| {
            word.replace(&format!("{folder}{}", std::path::MAIN_SEPARATOR), short)
        })
    }

    fn relative(&self, path: &Path) -> PathBuf {
        if let Ok(below) = path.strip_prefix(&self.here) {
            return if below.as_os_str().is_empty() { PathBuf::from(".") } else { below.to_owned() };
        }
        if let Some(Ok(below)) = self.home.as_ref().map(|home| path.strip_prefix(home)) {
            return Path::new("~").join(below);
        }
        let shared = path.components().zip(self.here.components()).take_while(|(a, b)| a == b).count();
        let up = self.here.components().skip(shared).map(|_| Path::new(".."));
        up.map(Path::as_os_str).chain(path.components().skip(shared).map(|part| part.as_os_str())).collect()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_folder_of_the_machine_shows() {
        let places = Places { here: "/home/jo/src/api".into(), home: Some("/home/jo".into()) };
        for (word, shown) in [
            ("/home/jo/src/api/traces/a.jsonl", "traces/a.jsonl"),
            ("/home/jo/src/api", "."),
            ("/home/jo/.claude/projects", "~/.claude/projects"),
            ("/home/sam/traces", "../../../sam/traces"),
            ("own=/home/jo/src/api/own.toml:keep=3", "own=own.toml:keep=3"),
            ("own=/home/jo/own.toml", "own=../../own.toml"),
            ("../x", "../x"),
            ("minCharsPerPass=10000..200000:log:9", "minCharsPerPass=10000..200000:log:9"),
        ] {
            assert_eq!(places.portable(word), shown, "{word}");
        }
    }
}
