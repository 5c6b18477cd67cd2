//! `ctxsim trace`.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use ctxsim::report::files::OutputDir;
use ctxsim::session::{Session, trace};

use super::args::TraceArgs;
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::{load, pictures, progress, study};

/// Runs the command.
pub fn run(args: &TraceArgs, terminal: &Terminal) -> Outcome {
    let mut options = load::LoadOptions::resolve(&args.input, &args.session)?;
    if args.anonymise {
        options.set_hash_key(random_key());
    }
    let dir = OutputDir::open(&args.out, args.force)?;
    let control = progress::control(terminal);
    let corpus = load::load(&options, &control, terminal)?;
    for (i, session) in corpus.sessions.iter().enumerate() {
        let mut session = session.as_ref().clone();
        if args.anonymise {
            anonymise(&mut session, i + 1);
        }
        write(&dir, &session)?;
    }
    let count = corpus.sessions.len();
    terminal.note(&format!("{count} traces written to {}", dir.path().display()));
    study::report_skipped(&corpus.skipped, terminal);
    Ok(match corpus.interrupted {
        true => exit::INTERRUPTED,
        false if corpus.skipped_files > 0 => exit::SKIPPED,
        false => exit::DONE,
    })
}

fn write(dir: &OutputDir, session: &Session) -> Result<(), Failure> {
    let mut file = dir.create(&format!("{}.trace.jsonl", pictures::file_name(&session.id)))?;
    trace::write(session, &mut file)?;
    file.flush()?;
    file.commit()?;
    Ok(())
}

/// A key that nobody knows, so that hashes of guessed contents match nothing. Never 0: that is the
/// constant key.
fn random_key() -> u64 {
    RandomState::new().hash_one(std::process::id()) | 1
}

/// Removes what names a person or a place: the session's id becomes its number.
fn anonymise(session: &mut Session, number: usize) {
    session.id = format!("session-{number:04}");
    session.parent = None;
}
