//! `--explain SESSION`: the story of one session under each policy.

use std::sync::Arc;

use ctxsim::provider::price::Price;
use ctxsim::report::ResultSet;
use ctxsim::report::requests::RunRecord;
use ctxsim::report::story::Story;
use ctxsim::session::Session;
use ctxsim::sim::FullRecorder;
use ctxsim::sweep::{CellResult, Control, Detail, runner};

use super::args::Format;
use super::exit::{self, Failure};
use super::load::Corpus;
use super::output::Terminal;
use super::resolve::Replay;
use super::resume::Earlier;
use super::study::{self, Files, Study};

/// Whose story is told, and whether the output has room for one.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The session's id, or how it begins; `None` means no story.
    pub session: Option<&'a str>,
    /// How results are printed: a story is for people.
    pub format: Format,
}

impl<'a> Wanted<'a> {
    /// The session whose story is told. In formats for programs none is, and that is said.
    pub fn explained(self, terminal: &Terminal) -> Option<&'a str> {
        let session = self.session?;
        if self.format == Format::Table {
            return Some(session);
        }
        terminal.warn("--explain is left out: its text is no part of this --format; use the default one");
        None
    }
}

/// Runs a study as [`study::run`] does, and prints the stories of the session that is wanted, if one is.
///
/// # Errors
/// No such session, before anything is run; those of [`study::run`].
pub fn run(
    study: &Study<'_>,
    corpus: &Corpus,
    earlier: &Earlier,
    files: Files,
    wanted: Wanted<'_>,
    terminal: &Terminal,
) -> Result<ResultSet, Failure> {
    let Some(session) = wanted.explained(terminal) else {
        return study::run(study, corpus, earlier, files, terminal, None);
    };
    let mut explainer = Explainer::new(session, corpus)?;
    let results = study::run(study, corpus, earlier, files, terminal, Some(&mut |run| explainer.see(run)))?;
    explainer.print(&results, study.replay, terminal)?;
    Ok(results)
}

/// Collects the requests of one session.
pub struct Explainer {
    session: String,
    runs: Vec<Run>,
}

struct Run {
    policy: String,
    model: String,
    record: FullRecorder,
}

impl Explainer {
    /// Finds the session whose id is, or begins with, `wanted`.
    ///
    /// # Errors
    /// None, or more than one, such session.
    pub fn new(wanted: &str, corpus: &Corpus) -> Result<Explainer, Failure> {
        let ids: Vec<&str> = corpus.sessions.iter().map(|s| s.id.as_str()).collect();
        Ok(Explainer { session: find_id(wanted, &ids, "--explain")?.to_owned(), runs: Vec::new() })
    }

    /// Runs the session again under the strategies of `replay`, which were run before on all of `corpus`, and takes
    /// its cells. `work` is how many threads do it, and what stops them.
    ///
    /// # Errors
    /// Strategies that do not fit a model.
    pub fn replay(
        mut self,
        replay: &Replay,
        corpus: &Corpus,
        work: (usize, &Arc<Control>),
    ) -> Result<Explainer, Failure> {
        // Sessions that share a cache are what they are only together.
        let needed = |session: &&Arc<Session>| replay.options.shared_cache || session.id == self.session;
        let sessions: Vec<Arc<Session>> = corpus.sessions.iter().filter(needed).cloned().collect();
        let plan = study::plan(replay, &replay.model_ids, &sessions)?;
        runner::run(&plan, Detail::Full, work.0, work.1, |block: Vec<CellResult>| {
            for result in block {
                let (cell, record) = study::cell(&plan, replay, result);
                self.see(&RunRecord {
                    session: &cell.session,
                    policy: &cell.policy,
                    model: &cell.model,
                    record: &record,
                    stopped_at_request: cell.summary.stopped_at_request,
                });
            }
            Ok::<(), Failure>(())
        })?;
        Ok(self)
    }

    /// Takes a cell if it is of the session.
    pub fn see(&mut self, run: &RunRecord<'_>) {
        if run.session == self.session {
            self.runs.push(Run {
                policy: run.policy.to_owned(),
                model: run.model.to_owned(),
                record: run.record.clone(),
            });
        }
    }

    /// Prints the stories, one per policy and model. With `-v` each request has its line.
    ///
    /// # Errors
    /// Those of stdout.
    pub fn print(&self, results: &ResultSet, replay: &Replay, terminal: &Terminal) -> Result<(), Failure> {
        terminal.print(&self.stories(results, replay, terminal))?;
        terminal.print("\n")
    }

    fn stories(&self, results: &ResultSet, replay: &Replay, terminal: &Terminal) -> String {
        let baseline = results.baseline().unwrap_or_default();
        let mut stories: Vec<String> = Vec::new();
        for run in &self.runs {
            let is_run = |c: &&ctxsim::report::Cell| {
                c.session == self.session && c.policy == run.policy && c.model == run.model
            };
            let Some(cell) = results.cells.iter().find(is_run) else { continue };
            let base = self.runs.iter().find(|other| other.policy == baseline && other.model == run.model);
            let base = base.filter(|_| run.policy != baseline);
            let model = replay.own_model(&run.model).ok();
            let price: Option<&Price> = model.as_ref().and_then(|(model, _)| model.price(None));
            let story = Story {
                session: &self.session,
                policy: &run.policy,
                model: &run.model,
                record: &run.record,
                summary: &cell.summary,
                baseline: base.map(|other| (baseline, other.record.requests.as_slice())),
                missed_pusd: &|row| Some(price?.split_unread(&row.usage, row.missed_tokens).missed),
                every_request: terminal.is_verbose(),
            };
            stories.push(story.write(terminal.style));
        }
        stories.join("\n")
    }
}

/// The one id that is, or begins with, `wanted`.
///
/// # Errors
/// None, or more than one.
pub fn find_id<'a>(wanted: &str, ids: &[&'a str], flag: &str) -> Result<&'a str, Failure> {
    if let Some(id) = ids.iter().find(|id| **id == wanted) {
        return Ok(id);
    }
    let matching: Vec<&str> = ids.iter().filter(|id| id.starts_with(wanted)).copied().collect();
    match matching.as_slice() {
        [id] => Ok(id),
        [] => {
            let error = ctxsim::Error::unknown("session", wanted, ids.iter().copied());
            Err(Failure::new(exit::NO_MATCH, format!("{flag}: {error}")))
        }
        many => {
            let count = many.len();
            Err(Failure::new(
                exit::USAGE,
                format!("{flag}: {count} sessions begin with `{wanted}`; type more of the id"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_the_beginning_of_its_id() {
        let ids = ["abc1", "abc2", "xyz"];
        assert_eq!(find_id("x", &ids, "--explain").expect("one"), "xyz");
        assert_eq!(find_id("abc1", &ids, "--explain").expect("exact"), "abc1");
        assert_eq!(find_id("abc", &ids, "--explain").expect_err("two").code, exit::USAGE);
        assert_eq!(find_id("q", &ids, "--explain").expect_err("none").code, exit::NO_MATCH);
    }
}
