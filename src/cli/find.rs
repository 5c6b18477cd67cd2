//! Which files are read: those of INPUT, or those that agents keep on this machine.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ctxsim::Error;
use ctxsim::ingest::{self, input};
use ctxsim::report::grid::counted;

use super::exit::{self, Failure};
use super::load::LoadOptions;
use super::output::Terminal;

/// The files of INPUT, or those that agents keep.
///
/// # Errors
/// With exit code 3 if there are none, 4 if none is left.
pub(super) fn find(options: &LoadOptions, terminal: &Terminal) -> Result<Vec<PathBuf>, Failure> {
    let failed = |e: Error| Failure { code: exit::NO_INPUT, error: e.into() };
    let format = options.read.format.as_ref().map(|name| ingest::format(name)).transpose().map_err(failed)?;
    let mut files = match options.inputs.is_empty() {
        true => kept_by_agents(format, terminal)?,
        false => named(input::resolve_as(&options.inputs, format).map_err(failed)?, terminal),
    };
    if let Some(project) = &options.project {
        let (folders, homes) = (searched(&options.inputs), homes());
        files.retain(|file| is_of_project(file, &folders, &homes, project));
    }
    if let Some(since) = options.since_ms {
        files.retain(|f| changed_since(f, since));
    }
    if files.is_empty() {
        return Err(Failure::new(exit::NO_MATCH, "no file matches --since and --project"));
    }
    Ok(files)
}

/// The files that were found; says which others look as if they were recordings, as a damaged one might.
fn named(found: input::Found, terminal: &Terminal) -> Vec<PathBuf> {
    if let Some(other) = found.passed_over.first() {
        let many = counted(found.passed_over.len() as u64, "file");
        let such_as = other.display();
        terminal.note(&format!("{many} passed over: no known format begins like that, such as {such_as}"));
    }
    found.files
}

/// What lies in the folders where agents keep their sessions.
fn kept_by_agents(format: Option<&ingest::Format>, terminal: &Terminal) -> Result<Vec<PathBuf>, Failure> {
    let folders = agent_folders()?;
    let files = input::below(&folders, format);
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let names = names.join(", ");
    if files.is_empty() {
        return Err(Failure::new(exit::NO_INPUT, format!("no INPUT given, and no recording below {names}")));
    }
    terminal.note(&format!("no INPUT given: {} below {names}", counted(files.len() as u64, "file")));
    Ok(files)
}

/// Names of the field in which agents record the folder that they work in.
const WORKING_FOLDERS: [&str; 3] = ["\"cwd\"", "\"working_dir\"", "\"directory\""];

/// Bytes of a recording in which that is looked for.
const HEAD_BYTES: u64 = 64 << 10;

/// What stands in front of the names that belong to a file: the folders that were searched, or where those lie.
fn searched(inputs: &[String]) -> Vec<PathBuf> {
    let inputs = inputs.iter().map(PathBuf::from).filter(|input| input.is_dir());
    let above = inputs.filter_map(|input| input.parent().map(Path::to_owned));
    above.chain(agent_folders().unwrap_or_default()).collect()
}

/// Whether a file lies in a folder called like a project, or says at its beginning that it was recorded in one. Of
/// what was found in a folder, only names from that folder on count, and none above the user's home: those are of all
/// files.
fn is_of_project(file: &Path, folders: &[PathBuf], homes: &[String], project: &str) -> bool {
    let below = folders.iter().filter_map(|folder| file.strip_prefix(folder).ok());
    let name = below.min_by_key(|name| name.components().count()).unwrap_or(file);
    let is_there = |text: &str| {
        let text = homes.iter().fold(text.to_lowercase(), |text, home| text.replace(home, ""));
        text.contains(project)
    };
    name.parent().is_some_and(|folder| is_there(&folder.to_string_lossy()))
        || working_folders(file).iter().any(|folder| is_there(folder))
}

/// The user's home in lower case, as a path and with dashes as some agents write it; nothing where it is the root.
fn homes() -> Vec<String> {
    let home = std::env::home_dir().unwrap_or_default().display().to_string().to_lowercase();
    let homes = [home.replace(['/', '\\', '.', '_'], "-"), home].into_iter().filter(|home| home.len() > 1);
    homes.collect()
}

fn working_folders(file: &Path) -> Vec<String> {
    let mut head = Vec::new();
    // A folder that is one recording would be read as a whole.
    if file.is_file()
        && let Ok(source) = input::open(file)
    {
        // What cannot be read is said where it is.
        let _ = source.take(HEAD_BYTES).read_to_end(&mut head);
    }
    let head = String::from_utf8_lossy(&head);
    let values =
        WORKING_FOLDERS.iter().flat_map(|name| head.match_indices(name).map(|(at, _)| at + name.len()));
    let texts = values.filter_map(|at| {
        let value = head[at..].trim_start().strip_prefix(':')?;
        serde_json::Deserializer::from_str(value).into_iter::<String>().next()?.ok()
    });
    texts.collect()
}

/// A file that was last written before a day holds nothing of that day; saves reading old ones. What is new in a
/// database may be in the log beside it.
fn changed_since(path: &Path, since_ms: i64) -> bool {
    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(since_ms).unwrap_or(0));
    let changed = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified());
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    changed(path).map_or(true, |at| at >= since) || changed(Path::new(&log)).is_ok_and(|at| at >= since)
}

/// Folders where agents keep sessions and that exist on this machine.
fn agent_folders() -> Result<Vec<PathBuf>, Failure> {
    let home = std::env::home_dir().unwrap_or_default();
    let known: Vec<&str> = ingest::FORMATS.iter().flat_map(|f| f.folders).copied().collect();
    let moved = |folder: &str| {
        let (rest, variable) =
            ingest::MOVED_FOLDERS.iter().find_map(|(from, to)| Some((folder.strip_prefix(from)?, to)))?;
        let to = std::env::var_os(variable).filter(|to| !to.is_empty())?;
        Some(PathBuf::from(to).join(rest.trim_start_matches('/')))
    };
    let expand = |folder: &&str| match folder.strip_prefix("~/") {
        Some(rest) => moved(folder).unwrap_or_else(|| home.join(rest)),
        None => PathBuf::from(folder),
    };
    let there: Vec<PathBuf> = known.iter().map(expand).filter(|folder| folder.is_dir()).collect();
    if there.is_empty() {
        let message =
            format!("no INPUT given, and there is no {}; name a file or a folder", known.join(", no "));
        return Err(Failure::new(exit::NO_INPUT, message));
    }
    Ok(there)
}
