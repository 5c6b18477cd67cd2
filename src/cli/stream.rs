//! Sessions in flight: read, run and let go, a few files at a time, so that memory does not grow with the bytes of a
//! corpus.
//!
//! What a session has in common with others is known only once all are read. So each is run as if it shared nothing;
//! at the end the cells of copies are dropped, and the few sessions that are a part of their recording are read and run
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ctxsim::ingest::dedupe::{Fingerprint, Share, compare};
use ctxsim::report::curve::Curves;
use ctxsim::report::grid::counted;
use ctxsim::report::{Cell, ResultSet};
use ctxsim::session::Session;
use ctxsim::sweep::{CellResult, Control, Detail, corpus, runner};

use super::exit::{self, Failure};
use super::find;
use super::load::{self, Corpus, LoadOptions, Part, Reading, Wanted};
use super::output::Terminal;
use super::progress::Progress;
use super::resume::Earlier;
use super::study::{self, Files, Study, Warned};

/// Files that are read before their sessions are run: enough to keep many cores busy.
const FILES_IN_FLIGHT: usize = 64;

/// A place among the parts, as it is kept of each cell.
fn owner(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

struct Stream<'a> {
    study: &'a Study<'a>,
    options: &'a LoadOptions,
    earlier: &'a Earlier,
    terminal: &'a Terminal,
    reading: Reading,
    parts: Vec<Part>,
    cells: Vec<Cell>,
    /// Of each cell the place of its part.
    owners: Vec<u32>,
    warned: Warned,
    complete: bool,
    /// Curves are kept with [`Detail::Curve`] alone.
    detail: Detail,
    curves: Curves,
}

/// Runs every cell of INPUT to its summary, or with [`Detail::Curve`] its curve too. The sessions of the corpus that
/// comes back are gone.
///
/// # Errors
/// As [`load::load`] and [`study::run`].
pub fn run(
    study: &Study<'_>,
    options: &LoadOptions,
    earlier: &Earlier,
    detail: Detail,
    terminal: &Terminal,
) -> Result<(ResultSet, Corpus), Failure> {
    if study.replay.options.shared_cache {
        // Every session is needed at once: what one writes another reads.
        let corpus = load::load(options, study.control, terminal)?;
        let results = study::run(study, &corpus, earlier, Files::default(), terminal, None)?;
        return Ok((results, corpus));
    }
    let files = find::find(options, terminal)?;
    terminal.detail(&format!("reading {}", counted(files.len() as u64, "file")));
    let mut stream = Stream {
        study,
        options,
        earlier,
        terminal,
        reading: Reading::default(),
        parts: Vec::new(),
        cells: Vec::new(),
        owners: Vec::new(),
        warned: Warned::default(),
        complete: true,
        detail,
        curves: Curves::default(),
    };
    // How many cells there are shows as files are read; until then a file counts as a session.
    let per_session = (study.replay.policies.len() * study.replay.model_ids.len().max(1)) as u64;
    let progress = Progress::start(terminal, study.control, "cells", files.len() as u64 * per_session);
    for (i, wave) in files.chunks(FILES_IN_FLIGHT).enumerate() {
        stream.wave(wave)?;
        let left = files.len() - (i * FILES_IN_FLIGHT + wave.len());
        let done = study.control.done.load(Ordering::Relaxed);
        study.control.total.store(done + left as u64 * per_session, Ordering::Relaxed);
    }
    stream.reading.check(options, !stream.parts.is_empty())?;
    stream.settle()?;
    drop(progress);
    let Stream { cells, mut reading, complete, curves, .. } = stream;
    reading.corpus.check(!cells.is_empty())?;
    let corpus = std::mem::take(&mut reading.corpus);
    let mut results = study.results(corpus.skipped.clone(), cells)?;
    results.interrupted = !complete || corpus.interrupted;
    results.curves = curves;
    Ok((results, corpus))
}

impl Stream<'_> {
    fn wave(&mut self, files: &[std::path::PathBuf]) -> Result<(), Failure> {
        let control = self.study.control.beside();
        let read = corpus::map_inputs(files, self.options.jobs, &control, |path| {
            load::read_file(path, self.options)
        })?;
        let mut sessions: Vec<(usize, Arc<Session>)> = Vec::new();
        for (path, result) in files.iter().zip(read) {
            for (part, session) in self.reading.take(path, result) {
                let place = self.parts.len();
                self.parts.push(part);
                self.admit(place, session, &mut sessions);
            }
        }
        if self.options.strict {
            self.reading.check(self.options, true)?;
        }
        self.run(&sessions)
    }

    /// Takes the earlier cells of a session, or notes that it is to be run.
    fn admit(&mut self, place: usize, session: Session, sessions: &mut Vec<(usize, Arc<Session>)>) {
        match (load::wanted(self.options, &session), self.earlier.cells(&session.id)) {
            (Wanted::Here, Some(cells)) => {
                self.owners.extend(cells.iter().map(|_| owner(place)));
                self.cells.extend_from_slice(cells);
            }
            (Wanted::Here, None) => sessions.push((place, Arc::new(session))),
            (Wanted::Elsewhere, _) => self.reading.corpus.elsewhere += 1,
            (Wanted::No, _) => {}
        }
    }

    fn run(&mut self, sessions: &[(usize, Arc<Session>)]) -> Result<(), Failure> {
        let study = self.study;
        let of: Vec<Arc<Session>> = sessions.iter().map(|(_, session)| Arc::clone(session)).collect();
        let plan = study::plan(study.replay, &study.replay.model_ids, &of)?;
        study::warn(&plan, &mut self.warned, self.terminal);
        let (cells, owners, curves) = (&mut self.cells, &mut self.owners, &mut self.curves);
        let detail = self.detail;
        let sink = |block: Vec<CellResult>| {
            for mut result in block {
                owners.push(owner(sessions[result.session].0));
                let curve = std::mem::take(&mut result.curve);
                let cell = study::cell(&plan, study.replay, result).0;
                if detail == Detail::Curve {
                    curves.keep(&cell, curve);
                }
                cells.push(cell);
            }
            Ok::<(), Failure>(())
        };
        self.complete &= runner::run(&plan, detail, study.jobs, study.control, sink)?;
        Ok(())
    }

    /// Leaves out what is there twice, now that all is known.
    fn settle(&mut self) -> Result<(), Failure> {
        let prints: Vec<Fingerprint> = self.parts.iter().map(|part| part.print.clone()).collect();
        let (shares, copied) = compare(&prints);
        load::tell_of_copies(&copied, self.terminal);
        let mut owners = self.owners.iter();
        self.cells.retain(|_| owners.next().is_some_and(|place| shares[*place as usize] == Share::All));
        self.owners.retain(|place| shares[*place as usize] == Share::All);
        let parts = shares.into_iter().enumerate();
        let again: Vec<(usize, Share)> =
            parts.filter(|(_, share)| !matches!(share, Share::All | Share::Nothing)).collect();
        for wave in again.chunks(FILES_IN_FLIGHT) {
            self.again(wave)?;
        }
        Ok(())
    }

    fn again(&mut self, wave: &[(usize, Share)]) -> Result<(), Failure> {
        let control: Control = self.study.control.beside();
        let (parts, options) = (&self.parts, self.options);
        let compiled = corpus::map_inputs(wave, options.jobs, &control, |(place, share)| {
            parts[*place].again(share, options)
        })?;
        let mut sessions: Vec<(usize, Arc<Session>)> = Vec::new();
        for ((place, _), session) in wave.iter().zip(compiled) {
            match session {
                None => self.reading.corpus.interrupted = true,
                Some(Ok(session)) if load::wanted(options, &session) == Wanted::Here => {
                    sessions.push((*place, Arc::new(session)));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) if options.strict => {
                    return Err(Failure { code: exit::NO_INPUT, error: error.into() });
                }
                Some(Err(error)) => {
                    let skipped = load::skipped(&self.parts[*place].path, &error);
                    self.reading.corpus.skipped.push(skipped);
                    self.reading.corpus.skipped_files += 1;
                }
            }
        }
        self.run(&sessions)
    }
}
