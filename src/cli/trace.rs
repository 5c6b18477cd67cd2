//! `ctxsim trace`.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use clap::Args;
use ctxsim::report::files::OutputDir;
use ctxsim::report::grid::counted;
use ctxsim::session::{Session, trace};

use super::args::{InputArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::{load, pictures, progress, study};

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub session: SessionArgs,
    /// Folder of the traces
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Overwrite a non-empty folder that ctxsim did not write
    #[arg(long)]
    pub force: bool,
    /// Hash ids and contents again with a random key that is kept nowhere, and name tools by what they do
    #[arg(long)]
    pub anonymise: bool,
}

/// Runs the command.
pub fn run(args: &TraceArgs, terminal: &Terminal) -> Outcome {
    let options = load::LoadOptions::resolve(&args.input, &args.session, None)?;
    let key = args.anonymise.then(random_key);
    let dir = OutputDir::open(&args.out, args.force)?;
    let control = progress::control(terminal);
    let corpus = load::load(&options, &control, terminal)?;
    for session in &corpus.sessions {
        match key {
            Some(key) => write(&dir, &session.anonymised(key))?,
            None => {
                let nameless = session.nameless();
                if nameless.id != session.id {
                    terminal.detail(&format!("{} is the trace of session {}", nameless.id, session.id));
                }
                write(&dir, &nameless)?;
            }
        }
    }
    let count = counted(corpus.sessions.len() as u64, "trace");
    terminal.note(&format!("{count} written to {}", dir.path().display()));
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
    file.commit()?;
    Ok(())
}

/// A key that nobody knows, so that hashes of guessed contents match nothing.
fn random_key() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
