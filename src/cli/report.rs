//! `ctxsim report`: one self-contained page from the files of a study.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use ctxsim::provider::model::Models;
use ctxsim::report::files::{OutputDir, OutputFile};
use ctxsim::report::html::{self, Heading, Runs};
use ctxsim::report::requests::{self, CellKey, RunRecord};
use ctxsim::report::{ResultSet, wire};
use ctxsim::sim::{FullRecorder, SimEvent};
use ctxsim::{Error, Result};

use super::exit::{self, Failure, Outcome};
use super::join;
use super::output::Terminal;

/// For the help.
pub const EXAMPLES: &str = "Examples:
  ctxsim report reports/quickstart -o report.html
  ctxsim report joined/results.json -o study.html

The page needs no network and no other file. Requests and events are on it where requests.csv and events.jsonl lie beside \
results.json.";

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A folder written with --out or by `run`, or its results.json
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// The file
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Runs the command.
pub fn run(args: &ReportArgs, terminal: &Terminal) -> Outcome {
    if args.out.extension().is_none_or(|e| !e.eq_ignore_ascii_case("html")) {
        let message = format!("{}: the page is a .html file; name it so", args.out.display());
        return Err(Failure::new(exit::USAGE, message));
    }
    let results = join::read(&args.results)?;
    let folder = match args.results.is_dir() {
        true => args.results.clone(),
        false => args.results.parent().unwrap_or(Path::new("")).to_owned(),
    };
    let runs = read_runs(&folder, &results)?;
    let digest = wire::digest(&results);
    let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
    let heading = Heading { title, description: "", digest: &digest };
    let mut file = OutputFile::create(&args.out)?;
    file.write_all(&html::write(&heading, &results, &runs))?;
    file.commit()?;
    terminal.note(&format!("written to {}", args.out.display()));
    Ok(exit::DONE)
}

/// Writes report.html from the requests and events that are in a folder already.
///
/// # Errors
/// Files that cannot be read or written.
pub fn write(results: &ResultSet, description: &str, dir: &OutputDir) -> Result<()> {
    let runs = read_runs(dir.path(), results)?;
    let digest = wire::digest(results);
    let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
    dir.write("report.html", &html::write(&Heading { title, description, digest: &digest }, results, &runs))
}

/// The requests and events of a folder, in the order of its cells; none where there is no requests.csv.
///
/// # Errors
/// Files that cannot be read.
pub fn read_runs(folder: &Path, results: &ResultSet) -> Result<Runs> {
    let mut runs = Runs::default();
    let mut records = read_records(folder)?;
    if records.is_empty() {
        return Ok(runs);
    }
    let windows = windows(results)?;
    for cell in &results.cells {
        let key = (cell.session.clone(), cell.policy.clone(), cell.model.clone());
        let Some(record) = records.remove(&key) else { continue };
        let run = RunRecord {
            session: &cell.session,
            policy: &cell.policy,
            model: &cell.model,
            record: &record,
            stopped_at_request: cell.summary.stopped_at_request,
        };
        let window_tokens = windows.get(&cell.model).copied().unwrap_or(0);
        runs.add(&run, window_tokens);
    }
    Ok(runs)
}

/// Windows of the models in tokens: as the results have them, else as the models in the binary do. A model that is in
/// neither has none.
///
/// # Errors
/// None: the models in the binary are read by every test.
pub fn windows(results: &ResultSet) -> Result<BTreeMap<String, u64>> {
    let mut windows = results.windows.clone();
    if results.totals.iter().any(|total| !windows.contains_key(&total.model)) {
        let models = Models::builtin()?;
        for total in &results.totals {
            let built_in = models.get(&total.model).ok().map(|model| model.window_tokens);
            if let (None, Some(window_tokens)) = (windows.get(&total.model), built_in) {
                windows.insert(total.model.clone(), window_tokens);
            }
        }
    }
    Ok(windows)
}

/// A line of events.jsonl.
#[derive(serde::Deserialize)]
struct Line {
    session: String,
    policy: String,
    model: String,
    #[serde(flatten)]
    event: SimEvent,
}

/// Requests and events of a folder by cell.
///
/// # Errors
/// Files that cannot be read.
pub fn read_records(folder: &Path) -> Result<BTreeMap<CellKey, FullRecorder>> {
    let mut records: BTreeMap<CellKey, FullRecorder> = BTreeMap::new();
    let path = folder.join("requests.csv");
    if path.is_file() {
        let bytes = std::fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        for (key, row) in requests::read(&path, &bytes)? {
            records.entry(key).or_default().requests.push(row);
        }
    }
    let path = folder.join("events.jsonl");
    if path.is_file() {
        let io = |source| Error::Io { path: path.clone(), source };
        for (i, line) in BufReader::new(File::open(&path).map_err(io)?).lines().enumerate() {
            let line: Line = serde_json::from_str(&line.map_err(io)?).map_err(|e| Error::Input {
                path: path.clone(),
                line: i as u64 + 1,
                reason: format!("not an event of this ctxsim ({e}); run the study again"),
            })?;
            let key = (line.session, line.policy, line.model);
            if let Some(record) = records.get_mut(&key) {
                record.events.push(line.event);
            }
        }
    }
    Ok(records)
}
