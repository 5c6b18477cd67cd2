//! Errors of the library: each names the file, line and field, and says what to do.

use std::path::PathBuf;

/// Result of library calls.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong outside a run. (A run itself cannot fail: a refused request is a result.)
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder, as given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A recording, trace or result file is not what it should be.
    #[error("{path}{}: {reason}", line_suffix(*.line))]
    Input {
        /// The file, as given.
        path: PathBuf,
        /// Line, from 1; 0 where it is about the whole file.
        line: u64,
        /// What is wrong and what to do, in one sentence.
        reason: String,
    },
    /// A policy, model, scenario or configuration is wrong.
    #[error("{origin}: {reason}")]
    Config {
        /// The file, flag or preset it stands in.
        origin: String,
        /// What is wrong and what to do, in one sentence.
        reason: String,
    },
    /// A name that does not exist.
    #[error("there is no {what} `{name}`{}", nearest_suffix(.nearest))]
    Unknown {
        /// Kind of the thing, such as `policy` or `metric`.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The known name that is most like it; `None`: none is like enough.
        nearest: Option<String>,
    },
}

fn line_suffix(line: u64) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}

fn nearest_suffix(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
}

impl Error {
    /// A mistake in a TOML text, in one sentence with its line and column.
    pub fn toml(path: impl Into<PathBuf>, text: &str, error: &toml::de::Error) -> Error {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let reason = format!("column {column}: {}", error.message().trim_end().replace('\n', "; "));
        Error::Input { path: path.into(), line, reason }
    }

    /// An unknown name, with the nearest of `known` if one is near enough.
    pub fn unknown<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        Error::Unknown { what, name: name.to_owned(), nearest: nearest(name, known) }
    }
}

/// The nearest of `known` to `name`, if it is near enough to be a likely slip.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&lower, &k.to_lowercase()), k))
        .min()
        .filter(|(distance, k)| *distance <= 2.max(k.len() / 3))
        .map(|(_, k)| k.to_owned())
}
