//! What most examples begin with: recordings or traces become sessions.

use ctxsim::ingest::{self, ReadOptions, Recording};
use ctxsim::session::Session;
use ctxsim::session::compile::{CompileOptions, RecordedCompactions, compile};

/// Content-free traces that come with the project.
const TRACES: &str = "fixtures/traces";

/// Reads files, folders and globs, or without any the traces that come with the project. The sessions are as they would
/// have been without their recordings' own compactions.
pub fn sessions(inputs: impl Iterator<Item = String>) -> anyhow::Result<Vec<Session>> {
    let typed: Vec<String> = inputs.collect();
    let inputs = if typed.is_empty() { vec![TRACES.to_owned()] } else { typed };
    let mut sessions = Vec::new();
    for path in ingest::input::resolve(&inputs)? {
        for recording in ingest::read(ingest::input::open(&path)?, &path, &ReadOptions::default())? {
            let session = match recording {
                Recording::Transcript(transcript) => compile(&transcript, &CompileOptions::default()),
                Recording::Session(session) | Recording::Hashed { session, .. } => *session,
            };
            sessions.push(session.view(RecordedCompactions::Undo).into_owned());
        }
    }
    Ok(sessions)
}
