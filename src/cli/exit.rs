//! Exit codes, and errors that carry one.

use std::fmt;

/// Everything was done.
pub const DONE: u8 = 0;
/// A gate failed.
pub const GATE: u8 = 1;
/// Wrong arguments or configuration.
pub const USAGE: u8 = 2;
/// No input could be read.
pub const NO_INPUT: u8 = 3;
/// Nothing matched.
pub const NO_MATCH: u8 = 4;
/// Finished, but some inputs were skipped.
pub const SKIPPED: u8 = 5;
/// A bug in ctxsim.
pub const BUG: u8 = 70;
/// Interrupted; results so far are kept.
pub const INTERRUPTED: u8 = 130;

/// An error and the exit code it ends with.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants of this module.
    pub code: u8,
    /// What to tell the user.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure with a message of its own.
    pub fn new(code: u8, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Failure {
        Failure { code, error: anyhow::Error::msg(message) }
    }

    /// The error and its causes; a cause whose words are there already is not said again.
    pub fn sentence(&self) -> String {
        let mut sentence = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if sentence.is_empty() {
                sentence = cause;
            } else if !sentence.contains(&cause) {
                sentence = format!("{sentence}: {cause}");
            }
        }
        sentence
    }

    /// Whether the reader of stdout went away, which is a normal end.
    pub fn is_closed_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            let io = cause.downcast_ref::<std::io::Error>();
            io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }
}

impl From<ctxsim::Error> for Failure {
    fn from(error: ctxsim::Error) -> Failure {
        Failure { code: USAGE, error: error.into() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure { code: USAGE, error: error.into() }
    }
}

/// Result of a command: its exit code.
pub type Outcome = Result<u8, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let source = std::io::Error::from_raw_os_error(2);
        let cause = source.to_string();
        let failure = Failure::from(ctxsim::Error::Io { path: "x".into(), source });
        assert_eq!(failure.sentence(), format!("x: {cause}"));
        let within = Failure { code: USAGE, error: failure.error.context("s.toml") };
        assert_eq!(within.sentence(), format!("s.toml: x: {cause}"));
    }
}
