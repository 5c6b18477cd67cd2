//! `ctxsim join`.

use std::path::Path;

use ctxsim::report::files::OutputDir;
use ctxsim::report::grid::counted;
use ctxsim::report::{ResultSet, json, markdown, wire};
use ctxsim::{Error, join};

use super::args::JoinArgs;
use super::exit::{self, Outcome};
use super::output::Terminal;
use super::sweep;

/// Runs the command.
pub fn run(args: &JoinArgs, terminal: &Terminal) -> Outcome {
    let read = |path: &std::path::PathBuf| Ok((path.display().to_string(), read(path)?));
    let parts = args.shards.iter().map(read).collect::<ctxsim::Result<Vec<_>>>()?;
    let results = join::join(parts)?;
    let dir = OutputDir::open(&args.out, args.force)?;
    if results.recipe.command == "sweep" {
        sweep::write(&dir, &results)?;
    } else {
        dir.write("results.json", &json::write(&results))?;
        let title = results.recipe.scenario.as_ref().unwrap_or(&results.recipe.command);
        let report = markdown::report(title, "", &results, &wire::digest(&results), &[]);
        dir.write("report.md", report.as_bytes())?;
    }
    let shards = counted(args.shards.len() as u64, "shard");
    terminal.note(&format!("{shards} joined in {}", dir.path().display()));
    Ok(exit::DONE)
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
