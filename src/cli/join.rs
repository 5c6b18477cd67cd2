//! `ctxsim join`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use ctxsim::report::files::OutputDir;
use ctxsim::report::grid::counted;
use ctxsim::report::{ResultSet, json, markdown, wire};
use ctxsim::{Error, join};

use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::sweep;

#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Folders written with --out and --shard
    #[arg(value_name = "DIR", required = true)]
    pub shards: Vec<PathBuf>,
    /// Folder of the joined results
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Overwrite a non-empty folder that ctxsim did not write
    #[arg(long)]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: &JoinArgs, terminal: &Terminal) -> Outcome {
    let read = |path: &PathBuf| Ok((path.display().to_string(), read(path)?));
    let parts = args.shards.iter().map(read).collect::<ctxsim::Result<Vec<_>>>()?;
    let results = join::join(parts)?;
    let dir = OutputDir::open(&args.out, args.force)?;
    if results.recipe.command == "sweep" {
        sweep::write(&dir, &results)?;
    } else {
        dir.write("results.json", &json::write(&results))?;
        super::parquet::write_results(&dir, &results)?;
        let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
        let report = markdown::report(title, "", &results, &wire::digest(&results), &[]);
        dir.write("report.md", report.as_bytes())?;
    }
    for (name, header, session) in STREAMS {
        let paths: Vec<PathBuf> = args.shards.iter().map(|shard| shard.join(name)).collect();
        if paths.iter().all(|path| path.is_file()) {
            let mut out = dir.create(name)?;
            merge(&paths, header, session, &mut out)?;
            out.commit()?;
        }
    }
    let shards = counted(args.shards.len() as u64, "shard");
    terminal.note(&format!("{shards} joined in {}", dir.path().display()));
    Ok(exit::DONE)
}

/// Session of a line; `None` where there is none.
type SessionOf = fn(&str) -> Option<String>;

/// Files with lines in the order of the sessions: name, whether there is a header, session of a line.
const STREAMS: [(&str, bool, SessionOf); 2] =
    [("requests.csv", true, session_of_row), ("events.jsonl", false, session_of_event)];

fn session_of_row(line: &str) -> Option<String> {
    let row =
        csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes()).into_records().next()?;
    row.ok()?.get(0).map(str::to_owned)
}

fn session_of_event(line: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    event.get("session")?.as_str().map(str::to_owned)
}

/// Lines of files, each in the order of its sessions, in the order of all sessions. A session is in one
/// file only.
fn merge(
    paths: &[PathBuf],
    header: bool,
    session_of: SessionOf,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let open = |path: &PathBuf| Ok(BufReader::new(File::open(path)?).lines());
    let mut files = paths.iter().map(open).collect::<std::io::Result<Vec<_>>>()?;
    if header {
        let heads = files.iter_mut().filter_map(Iterator::next).collect::<std::io::Result<Vec<String>>>()?;
        heads.first().map_or(Ok(()), |head| writeln!(out, "{head}"))?;
    }
    let mut heads: Vec<Option<(String, String)>> = Vec::new();
    let mut next = |file: usize| -> Result<Option<(String, String)>, Failure> {
        let Some(line) = files[file].next().transpose()? else { return Ok(None) };
        let wrong = || Error::Input {
            path: paths[file].clone(),
            line: 0,
            reason: "a line names no session; run this shard again".to_owned(),
        };
        let session = session_of(&line).ok_or_else(wrong)?;
        Ok(Some((session, line)))
    };
    for file in 0..paths.len() {
        heads.push(next(file)?);
    }
    while let Some(file) = first_session(&heads) {
        let head = heads[file].take();
        heads[file] = next(file)?;
        if let Some((_, line)) = head {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn first_session(heads: &[Option<(String, String)>]) -> Option<usize> {
    let there = heads.iter().enumerate().filter_map(|(file, head)| Some((&head.as_ref()?.0, file)));
    there.min().map(|(_, file)| file)
}

/// Reads the results of a folder, or a results.json.
///
/// # Errors
/// Files that cannot be read or are no results.
pub fn read(path: &Path) -> ctxsim::Result<ResultSet> {
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let bytes = std::fs::read(&file).map_err(|source| Error::Io { path: file.clone(), source })?;
    json::read(&file, &bytes)
}
