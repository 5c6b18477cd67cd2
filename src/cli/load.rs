//! INPUT to sessions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctxsim::Error;
use ctxsim::ingest::dedupe::{Copied, Fingerprint, Share, compare};
use ctxsim::ingest::{self, Detail, ReadOptions, Recording, input};
use ctxsim::provider::price::Date;
use ctxsim::report::Skipped;
use ctxsim::report::grid::counted;
use ctxsim::session::Session;
use ctxsim::session::compile::{CompileOptions, RecordedCompactions};
use ctxsim::sweep::{Control, Shard, corpus};

use super::args::{Compactions, InputArgs, SessionArgs};
use super::exit::{self, Failure};
use super::find;
use super::kept::Kept;
use super::output::Terminal;
use super::progress::Progress;
use super::resolve;

/// What to read and how.
#[derive(Debug)]
pub struct LoadOptions {
    pub(super) inputs: Vec<String>,
    pub(super) read: ReadOptions,
    pub(super) since_ms: Option<i64>,
    pub(super) project: Option<String>,
    pub(super) strict: bool,
    shard: Option<Shard>,
    pub(super) jobs: usize,
    pub(super) compile: CompileOptions,
    pub(super) view: Option<RecordedCompactions>,
}

/// Sessions, and what could not be read.
#[derive(Debug)]
pub struct Corpus<T = Session> {
    /// By id.
    pub sessions: Vec<Arc<T>>,
    /// Inputs and lines that could not be used.
    pub skipped: Vec<Skipped>,
    /// Whole files among them.
    pub skipped_files: usize,
    /// Sessions left to other shards.
    pub elsewhere: usize,
    /// Ids of sessions that are a part of their recording: which part depends on the whole corpus.
    pub shared: BTreeSet<String>,
    /// Not everything was read.
    pub interrupted: bool,
}

impl<T> Default for Corpus<T> {
    fn default() -> Corpus<T> {
        Corpus {
            sessions: Vec::new(),
            skipped: Vec::new(),
            skipped_files: 0,
            elsewhere: 0,
            shared: BTreeSet::new(),
            interrupted: false,
        }
    }
}

impl LoadOptions {
    /// Resolves what was typed. Without `view`, sessions keep both what recorded compactions removed and
    /// what they put there.
    ///
    /// # Errors
    /// Unknown formats, malformed dates and token modes.
    pub fn resolve(
        input: &InputArgs,
        session: &SessionArgs,
        view: Option<Compactions>,
    ) -> Result<LoadOptions, Failure> {
        if let Some(name) = &input.input_format {
            ingest::format(name)?;
        }
        let since = input.since.as_deref().map(str::parse::<Date>).transpose()?;
        Ok(LoadOptions {
            inputs: input.inputs.clone(),
            read: ReadOptions { format: input.input_format.clone() },
            since_ms: since.map(Date::start_ms),
            project: input.project.as_ref().map(|p| p.to_lowercase()),
            strict: input.strict,
            shard: session.shard,
            jobs: session.jobs,
            compile: CompileOptions { tokens: resolve::token_mode(&session.tokens)?, hash_key: 0 },
            view: view.map(resolve::recorded_compactions),
        })
    }
}

/// Reads everything, in parallel; sessions come by id.
///
/// # Errors
/// With exit code 3 if nothing could be read, or a file is bad and `--strict` is set; 4 if no session
/// is left.
pub fn load(options: &LoadOptions, control: &Arc<Control>, terminal: &Terminal) -> Result<Corpus, Failure> {
    load_as(options, control, terminal)
}

/// [`load`], keeping of each session what is wanted.
///
/// # Errors
/// As [`load`].
pub fn load_as<T: Kept>(
    options: &LoadOptions,
    control: &Arc<Control>,
    terminal: &Terminal,
) -> Result<Corpus<T>, Failure> {
    let files = find::find(options, terminal)?;
    terminal.detail(&format!("reading {}", counted(files.len() as u64, "file")));
    let progress = Progress::start(terminal, control, "files", files.len() as u64);
    let read = corpus::map_inputs(&files, options.jobs, control, |path| {
        let result = read_file(path, options);
        if options.strict && result.is_err() {
            control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        result
    })?;
    drop(progress);
    let mut reading = Reading::default();
    let mut parts: Vec<(Part, T)> = Vec::new();
    for (path, result) in files.iter().zip(read) {
        parts.extend(reading.take(path, result));
    }
    reading.check(options, !parts.is_empty())?;
    let mut corpus = reading.corpus;
    leave_out_copies(options, parts, control, terminal, &mut corpus)?;
    let any = !corpus.sessions.is_empty();
    corpus.check(any)?;
    Ok(corpus)
}

impl<T> Corpus<T> {
    /// A shard may be empty: it is one of several, and all are joined.
    ///
    /// # Errors
    /// With exit code 4 if there is no session.
    pub(super) fn check(&self, any: bool) -> Result<(), Failure> {
        match any || self.elsewhere > 0 || self.interrupted {
            true => Ok(()),
            false => Err(Failure::new(
                exit::NO_MATCH,
                "no session matches: nothing is left after --since and --project",
            )),
        }
    }
}

/// What became of the files read so far.
#[derive(Debug)]
pub(super) struct Reading<T = Session> {
    pub(super) corpus: Corpus<T>,
    first_error: Option<Error>,
}

impl<T> Default for Reading<T> {
    fn default() -> Reading<T> {
        Reading { corpus: Corpus::default(), first_error: None }
    }
}

impl<T> Reading<T> {
    /// Takes a file; `None` is one that was not read since the work was interrupted.
    pub(super) fn take(
        &mut self,
        path: &Path,
        result: Option<ctxsim::Result<Vec<(Part, T)>>>,
    ) -> Vec<(Part, T)> {
        match result {
            None => self.corpus.interrupted = true,
            Some(Ok(mut parts)) => {
                let notices = parts.iter_mut().flat_map(|(part, _)| std::mem::take(&mut part.notices));
                self.corpus.skipped.extend(notices);
                return parts;
            }
            Some(Err(error)) => {
                self.corpus.skipped.push(skipped(path, &error));
                self.corpus.skipped_files += 1;
                self.first_error.get_or_insert(error);
            }
        }
        Vec::new()
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// With exit code 3 if nothing could be read, or a file is bad and `--strict` is set.
    pub(super) fn check(&mut self, options: &LoadOptions, any: bool) -> Result<(), Failure> {
        let Some(error) = self.first_error.take_if(|_| options.strict || !any) else { return Ok(()) };
        let many = self.corpus.skipped_files > 1 && !options.strict;
        let others = match many {
            true => format!(" ({} files, none could be read)", self.corpus.skipped_files),
            false => String::new(),
        };
        Err(Failure::new(exit::NO_INPUT, format!("{error}{others}")))
    }
}

/// A recording once it is compiled: its text is gone.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Its place among those of its file.
    index: usize,
    pub(super) print: Fingerprint,
    notices: Vec<Skipped>,
    /// The recording itself, where its source cannot be read again.
    kept: Option<Recording>,
}

fn read_recordings(path: &Path, options: &LoadOptions, detail: Detail) -> ctxsim::Result<Vec<Recording>> {
    ingest::read_detail(input::open(path)?, path, &options.read, detail)
}

/// Reads a file: its recordings, and what is kept of each.
///
/// # Errors
/// A file that cannot be read as a recording.
pub(super) fn read_file<T: Kept>(path: &Path, options: &LoadOptions) -> ctxsim::Result<Vec<(Part, T)>> {
    let parts =
        read_recordings(path, options, T::DETAIL)?.into_iter().enumerate().map(|(index, recording)| {
            let session = T::of(&recording, options);
            let part = Part {
                path: path.to_owned(),
                index,
                print: Fingerprint::of(path, &recording),
                notices: notices(path, &recording),
                kept: (!path.is_file()).then_some(recording),
            };
            (part, session)
        });
    Ok(parts.collect())
}

/// What is in several recordings counts once. The few that share something are read again: keeping the
/// text of all would take as much memory as the corpus has bytes.
fn leave_out_copies<T: Kept>(
    options: &LoadOptions,
    parts: Vec<(Part, T)>,
    control: &Control,
    terminal: &Terminal,
    corpus: &mut Corpus<T>,
) -> Result<(), Failure> {
    let prints: Vec<Fingerprint> = parts.iter().map(|(part, _)| part.print.clone()).collect();
    let (shares, copied) = compare(&prints);
    tell_of_copies(&copied, terminal);
    let mut again: Vec<(Part, Share)> = Vec::new();
    for ((part, session), share) in parts.into_iter().zip(shares) {
        match share {
            Share::All => keep(options, session, corpus),
            Share::Part { .. } => again.push((part, share)),
            Share::Nothing => {}
        }
    }
    let compiled =
        corpus::map_inputs(&again, options.jobs, control, |(part, share)| part.again::<T>(share, options))?;
    for ((part, _), session) in again.iter().zip(compiled) {
        match session {
            None => corpus.interrupted = true,
            Some(Ok(session)) => {
                corpus.shared.insert(session.id().to_owned());
                keep(options, session, corpus);
            }
            Some(Err(error)) if options.strict => {
                return Err(Failure { code: exit::NO_INPUT, error: error.into() });
            }
            Some(Err(error)) => {
                corpus.skipped.push(skipped(&part.path, &error));
                corpus.skipped_files += 1;
            }
        }
    }
    corpus.sessions.sort_by(|a, b| a.id().cmp(b.id()));
    Ok(())
}

/// Says with `-v` what is in several files.
pub(super) fn tell_of_copies(copied: &[Copied], terminal: &Terminal) {
    for copied in copied {
        terminal.detail(&format!(
            "{}: {} responses of session {} are in another file too and count once",
            copied.path.display(),
            copied.responses,
            copied.session_id
        ));
    }
}

impl Part {
    /// The session of what counts of it, from its recording.
    ///
    /// # Errors
    /// A file that cannot be read again, or has changed.
    pub(super) fn again<T: Kept>(&self, share: &Share, options: &LoadOptions) -> ctxsim::Result<T> {
        let mut recording = match &self.kept {
            Some(recording) => recording.clone(),
            None => self.read_again(options, T::DETAIL)?,
        };
        share.apply(&mut recording);
        Ok(T::of(&recording, options))
    }

    fn read_again(&self, options: &LoadOptions, detail: Detail) -> ctxsim::Result<Recording> {
        let recording = read_recordings(&self.path, options, detail)?.into_iter().nth(self.index);
        let same = |recording: &Recording| Fingerprint::of(&self.path, recording) == self.print;
        recording.filter(same).ok_or_else(|| Error::Input {
            path: self.path.clone(),
            line: 0,
            reason: "the file was changed while it was read; run the command again".to_owned(),
        })
    }
}

fn keep<T: Kept>(options: &LoadOptions, session: T, corpus: &mut Corpus<T>) {
    match wanted(options, &session) {
        Wanted::Here => corpus.sessions.push(Arc::new(session)),
        Wanted::Elsewhere => corpus.elsewhere += 1,
        Wanted::No => {}
    }
}

/// Whether a session is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Yes.
    Here,
    /// By another shard.
    Elsewhere,
    /// It is empty, or too old.
    No,
}

/// Whether a session is run here.
pub(super) fn wanted<T: Kept>(options: &LoadOptions, session: &T) -> Wanted {
    match (keeps(options, session), options.shard.is_none_or(|shard| shard.contains(session.id()))) {
        (false, _) => Wanted::No,
        (true, true) => Wanted::Here,
        (true, false) => Wanted::Elsewhere,
    }
}

fn keeps<T: Kept>(options: &LoadOptions, session: &T) -> bool {
    let is_recent = options.since_ms.is_none_or(|since| session.last_ms().is_some_and(|last| last >= since));
    session.requests() > 0 && is_recent
}

fn notices(path: &Path, recording: &Recording) -> Vec<Skipped> {
    let notices = match recording {
        Recording::Transcript(transcript) => &transcript.notices,
        Recording::Hashed { notices, .. } => notices,
        Recording::Session(_) => return Vec::new(),
    };
    let notices = notices.iter().map(|notice| Skipped {
        path: path.display().to_string(),
        line: notice.line,
        reason: notice.reason.clone(),
    });
    notices.collect()
}

pub(super) fn skipped(path: &Path, error: &Error) -> Skipped {
    let (line, reason) = match error {
        Error::Input { line, reason, .. } => (*line, reason.clone()),
        Error::Io { source, .. } => (0, source.to_string()),
        other => (0, other.to_string()),
    };
    Skipped { path: path.display().to_string(), line, reason }
}
