//! What is kept of a recording once it is read: its text is gone.

use std::borrow::Cow;

use ctxsim::ingest::{Detail, Recording};
use ctxsim::session::Session;
use ctxsim::session::compile::compile;

use super::load::LoadOptions;

/// What a recording becomes.
pub trait Kept: Send + Sync + Sized {
    /// How much of a recording it needs.
    const DETAIL: Detail = Detail::Full;

    /// Makes it.
    fn of(recording: &Recording, options: &LoadOptions) -> Self;

    /// Its session's id.
    fn id(&self) -> &str;

    /// Number of requests.
    fn requests(&self) -> usize;

    /// Start of the last request whose time is known.
    fn last_ms(&self) -> Option<i64>;
}

impl Kept for Session {
    fn of(recording: &Recording, options: &LoadOptions) -> Session {
        let session = match recording {
            Recording::Transcript(transcript) => compile(transcript, &options.compile),
            Recording::Session(session) | Recording::Hashed { session, .. } => session.as_ref().clone(),
        };
        match options.view {
            Some(how) => match session.view(how) {
                Cow::Borrowed(_) => session,
                Cow::Owned(view) => view,
            },
            None => session,
        }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn requests(&self) -> usize {
        self.steps.len()
    }

    fn last_ms(&self) -> Option<i64> {
        self.steps.iter().rev().find_map(|s| s.start_ms)
    }
}
