//! `--resume`: what an interrupted command wrote counts, and only the rest is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use ctxsim::report::requests::{self, CellKey};
use ctxsim::report::{Cell, Recipe, json};
use ctxsim::sim::{FullRecorder, SimEvent};
use ctxsim::{Error, join};

use super::exit::{self, Failure};
use super::output::Terminal;

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ResumeArgs {
    /// Continue an interrupted run of the same command in its --out folder
    #[arg(long, help_heading = "Output")]
    pub resume: bool,
}

/// The finished sessions of an interrupted run.
#[derive(Debug, Default)]
pub struct Earlier {
    folder: PathBuf,
    cells: BTreeMap<String, Vec<Cell>>,
}

/// Requests and events by session, policy and model.
pub type Records = BTreeMap<CellKey, FullRecorder>;

impl ResumeArgs {
    /// Reads what `folder` holds; nothing without `--resume`. Only sessions with all `cells_per_session` count.
    ///
    /// # Errors
    /// No folder; results of another version or recipe.
    pub fn earlier(
        self,
        folder: Option<&Path>,
        recipe: &Recipe,
        cells_per_session: usize,
        terminal: &Terminal,
    ) -> Result<Earlier, Failure> {
        if !self.resume {
            return Ok(Earlier::default());
        }
        let folder =
            folder.ok_or_else(|| Failure::new(exit::USAGE, "--resume needs the --out folder to continue"))?;
        let file = folder.join("results.json");
        if !file.is_file() {
            terminal.note(&format!("{}: nothing to continue, so all is run", folder.display()));
            return Ok(Earlier::default());
        }
        let bytes = std::fs::read(&file).map_err(|source| Error::Io { path: file.clone(), source })?;
        let results = json::read(&file, &bytes)?;
        let differs = join::difference(recipe, &results.recipe)
            .or_else(|| (recipe.shard != results.recipe.shard).then(|| "shard".to_owned()));
        if let Some(field) = differs {
            let message = format!(
                "{}: its `{field}` is not that of this command; repeat the command that was interrupted, or leave \
                 --resume out to start anew",
                file.display()
            );
            return Err(Failure::new(exit::USAGE, message));
        }
        let mut cells: BTreeMap<String, Vec<Cell>> = BTreeMap::new();
        for cell in results.cells {
            cells.entry(cell.session.clone()).or_default().push(cell);
        }
        cells.retain(|_, of_session| of_session.len() == cells_per_session);
        terminal.note(&format!("{}: {} finished sessions are kept", folder.display(), cells.len()));
        Ok(Earlier { folder: folder.to_owned(), cells })
    }
}

impl Earlier {
    /// The cells of a session, if it was finished.
    pub fn cells(&self, session: &str) -> Option<&[Cell]> {
        self.cells.get(session).map(Vec::as_slice)
    }

    /// Whether no session is kept.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The requests and events of the finished sessions, as far as they were written.
    ///
    /// # Errors
    /// Files that are not what ctxsim wrote.
    pub fn records(&self) -> Result<Records, Failure> {
        let mut records = Records::new();
        if self.is_empty() {
            return Ok(records);
        }
        let read = |name: &str| {
            let path = self.folder.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => Ok((path, bytes)),
                Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok((path, Vec::new())),
                Err(source) => Err(Error::Io { path, source }),
            }
        };
        let (path, bytes) = read("requests.csv")?;
        let rows = if bytes.is_empty() { Vec::new() } else { requests::read(&path, &bytes)? };
        for (key, row) in rows {
            records.entry(key).or_default().requests.push(row);
        }
        let (path, bytes) = read("events.jsonl")?;
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        for (i, line) in lines.enumerate() {
            let fail = |reason: String| Error::Input { path: path.clone(), line: i as u64 + 1, reason };
            let event: serde_json::Value = serde_json::from_slice(line).map_err(|e| fail(e.to_string()))?;
            let name = |key: &str| event.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
            let key = (name("session"), name("policy"), name("model"));
            let event: SimEvent = serde_json::from_value(event.clone()).map_err(|e| fail(e.to_string()))?;
            records.entry(key).or_default().events.push(event);
        }
        Ok(records)
    }
}
