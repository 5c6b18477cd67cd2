//! What was typed, for whoever wants the same numbers again.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

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

/// What stands for folders that are not shown.
const ELSEWHERE: &str = "…";

/// Folders whose children are named after users.
const FOLDERS_OF_USERS: [&str; 2] = ["home", "Users"];

/// What a path can follow within a word, as in `own=own.toml:keep=3`.
const BEFORE_PATH: [char; 9] = ['=', ':', ',', '[', '{', '(', ' ', '"', '\''];

impl Places {
    fn now() -> Places {
        let home = std::env::home_dir().filter(|home| home.parent().is_some());
        Places { here: std::env::current_dir().unwrap_or_default(), home }
    }

    /// A word in which every path is relative to here or to the home folder, or else is a file's name.
    fn portable(&self, word: &str) -> String {
        let Some(start) = starts(word).find(|start| is_far(&word[*start..])) else { return word.to_owned() };
        let (before, rest) = word.split_at(start);
        let file_end = rest.find(".toml:").map(|i| i + ".toml".len());
        let next = starts(rest).skip(1).find(|next| Path::new(&rest[*next..]).is_absolute());
        let (path, after) = rest.split_at(file_end.into_iter().chain(next).min().unwrap_or(rest.len()));
        format!("{before}{}{}", self.shown(Path::new(path), start > 0), self.portable(after))
    }

    /// Behind something else in its word no shell replaces a tilde.
    fn shown(&self, typed: &Path, is_behind: bool) -> String {
        let path = without_dots(&self.here.join(typed));
        let holds_home =
            self.home.as_ref().is_some_and(|home| home.starts_with(&self.here) && *home != self.here);
        if path.starts_with(&self.here) && self.here.parent().is_some() && !holds_home {
            return self.climb(&path);
        }
        if let Some((home, Ok(below))) = self.home.as_ref().map(|home| (home, path.strip_prefix(home))) {
            if (is_behind || typed.is_relative()) && self.here.starts_with(home) {
                return self.climb(&path);
            }
            let short = Path::new(if is_behind { "$HOME" } else { "~" });
            return if below.as_os_str().is_empty() { short.to_owned() } else { short.join(below) }
                .to_string_lossy()
                .into_owned();
        }
        if self.here.starts_with(&path) {
            return self.climb(&path);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return ELSEWHERE.to_owned();
        };
        let of_users = |name: &OsStr| FOLDERS_OF_USERS.iter().any(|users| name == *users);
        let beside_home = self.home.as_ref().is_some_and(|home| home.parent() == Some(parent));
        if beside_home || parent.file_name().is_some_and(of_users) {
            return ELSEWHERE.to_owned();
        }
        // Beside a folder that here is in, the climb says no more than the name.
        if self.here.starts_with(parent) {
            return self.climb(&path);
        }
        Path::new(ELSEWHERE).join(name).to_string_lossy().into_owned()
    }

    /// The way from here.
    fn climb(&self, path: &Path) -> String {
        let shared = path.components().zip(self.here.components()).take_while(|(a, b)| a == b).count();
        let up = self.here.components().skip(shared).map(|_| Component::ParentDir);
        let way: PathBuf = up.chain(path.components().skip(shared)).collect();
        if way.as_os_str().is_empty() { ".".to_owned() } else { way.to_string_lossy().into_owned() }
    }
}

/// Where in a word a path can begin.
fn starts(word: &str) -> impl Iterator<Item = usize> {
    let behind = word.char_indices().filter(|(_, c)| BEFORE_PATH.contains(c)).map(|(i, c)| i + c.len_utf8());
    std::iter::once(0).chain(behind)
}

/// Whether a path that is absolute, or climbs, stands at the beginning.
fn is_far(text: &str) -> bool {
    let mut parts = text.split(std::path::is_separator).take_while(|part| !part.contains(BEFORE_PATH));
    Path::new(text).is_absolute() || parts.any(|part| part == "..")
}

/// The path with each `..` carried out.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::ParentDir => _ = out.pop(),
            part => out.push(part),
        }
        out
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn places(here: &str, home: &str) -> Places {
        Places { here: here.into(), home: Some(home.into()) }
    }

    #[test]
    fn no_folder_of_the_machine_shows() {
        let places = places("/home/jo/src/api", "/home/jo");
        for (word, shown) in [
            ("/home/jo/src/api/traces/a.jsonl", "traces/a.jsonl"),
            ("/home/jo/src/api", "."),
            ("/home/jo", "~"),
            ("/home/jo/.claude/projects", "~/.claude/projects"),
            ("/home/jo/../sam/traces", "…/traces"),
            ("/home/sam/traces", "…/traces"),
            ("/home/sam", "…"),
            ("/Users/sam/", "…"),
            ("/net/rv/other/sam/p.toml:keep=3", "…/p.toml:keep=3"),
            ("/mnt/sam/*/a=b/*.jsonl", "…/*.jsonl"),
            ("x=/net/rv/other/sam/p.toml", "x=…/p.toml"),
            ("x=/net/rv/other/sam/p.toml:keep=3,file=/net/sam/f", "x=…/p.toml:keep=3,file=…/f"),
            ("none:a=/home/jo/b,c=/home/sam/d", "none:a=../../b,c=…/d"),
            ("files=[/home/sam/a,/home/sam/b]", "files=[…/a,…/b]"),
            ("../../../sam/traces", "…/traces"),
            ("traces/../../../../sam/p.toml", "…/p.toml"),
            ("own=a/../../../../sam/p.toml", "own=…/p.toml"),
            ("own=/home/jo/src/api/own.toml:keep=3", "own=own.toml:keep=3"),
            ("own=/home/jo/own.toml", "own=../../own.toml"),
            ("own=/home/jo/src/own.toml", "own=../own.toml"),
            ("../x", "../x"),
            ("../../../jo/x", "../../x"),
            ("../../..", "../../.."),
            ("minCharsPerPass=10000..200000:log:9", "minCharsPerPass=10000..200000:log:9"),
            ("hit_rate drop <= 0.5pp", "hit_rate drop <= 0.5pp"),
        ] {
            let portable = places.portable(word);
            assert_eq!(portable, shown, "{word}");
            let paths = starts(&portable).map(|start| Path::new(&portable[start..]));
            assert!(!portable.contains("sam") && paths.into_iter().all(Path::is_relative), "{portable}");
        }
    }

    #[test]
    fn a_folder_is_replaced_only_where_a_path_begins() {
        let places = places("/data", "/home/jo");
        for word in ["backup/data/a.jsonl", "x=backup/data/p.toml", "backup/home/jo/p.toml"] {
            assert_eq!(places.portable(word), word);
        }
        assert_eq!(places.portable("x=/mnt/data/p.toml"), "x=…/p.toml");
        assert_eq!(places.portable("x=/database/p.toml"), "x=…/p.toml");
        assert_eq!(places.portable("x=/data/p.toml"), "x=p.toml");
    }

    #[test]
    fn behind_a_label_stands_what_every_shell_replaces() {
        let places = places("/srv/study", "/home/jo");
        for (word, shown) in [
            ("x=/home/jo/p.toml:keep=3", "x=$HOME/p.toml:keep=3"),
            ("/home/jo/p.toml", "~/p.toml"),
            ("x=../p.toml", "x=../p.toml"),
            ("/srv/traces", "../traces"),
            ("..", ".."),
        ] {
            assert_eq!(places.portable(word), shown, "{word}");
        }
    }

    #[test]
    fn nothing_is_below_a_folder_that_holds_every_home() {
        for here in ["/", "/home"] {
            let places = places(here, "/home/jo");
            assert_eq!(places.portable("/home/sam/a.jsonl"), "…/a.jsonl", "{here}");
            assert_eq!(places.portable("/home/jo/a.jsonl"), "~/a.jsonl", "{here}");
        }
    }

    #[test]
    fn what_is_left_out_is_an_argument_of_some_command() {
        let root = Cli::command();
        let commands = std::iter::once(&root).chain(root.get_subcommands());
        let ids: Vec<&str> =
            commands.flat_map(|c| c.get_arguments()).map(|arg| arg.get_id().as_str()).collect();
        for id in LEFT_OUT {
            assert!(ids.contains(&id), "no argument is called {id}: a renamed one would show");
        }
    }
}
