//! `--explain SESSION`: the story of one session under each policy.

use ctxsim::provider::price::Price;
use ctxsim::report::ResultSet;
use ctxsim::report::requests::RunRecord;
use ctxsim::report::story::Story;
use ctxsim::sim::FullRecorder;

use super::exit::{self, Failure};
use super::load::Corpus;
use super::output::Terminal;
use super::resolve::Replay;

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

    /// The stories, one per policy and model. With `-v` each request has its line.
    pub fn finish(self, results: &ResultSet, replay: &Replay, terminal: &Terminal) -> String {
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
