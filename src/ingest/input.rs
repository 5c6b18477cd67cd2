//! INPUT of the command line → files, and files → bytes.
//!
//! Some recordings are a folder of files, one request or event each: the folder stands for them, and its bytes
//! are theirs in a row. A zip archive is the documents in it in a row.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;
use walkdir::WalkDir;

use super::{FORMATS, Format};
use crate::lines::MAX_LINE_BYTES;
use crate::{Error, Result};

/// What stands for standard input.
pub const STDIN: &str = "-";

/// Size of the read buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// What inputs name.
#[derive(Debug)]
pub struct Found {
    /// Sorted and without doubles.
    pub files: Vec<PathBuf>,
    /// Files in folders that are called like recordings and begin like none.
    pub passed_over: Vec<PathBuf>,
}

/// Resolves files, folders (searched recursively), globs and `-` to files, sorted and without
/// doubles. In a folder only names count that end as a known format's do, and of those in `.json`, `.yaml` and
/// `.db` only recordings; files of which a folder makes one recording count as that folder. A file that is named, or that
/// a glob names, counts whatever it is called.
///
/// # Errors
///
/// If an input names nothing, is no valid glob, or cannot be searched.
pub fn resolve(inputs: &[impl AsRef<str>]) -> Result<Vec<PathBuf>> {
    Ok(resolve_as(inputs, None)?.files)
}

/// The same where a format is given, which is that of all files in folders that have its endings; also tells of
/// files that do not count.
///
/// # Errors
///
/// As [`resolve`].
pub fn resolve_as(inputs: &[impl AsRef<str>], format: Option<&Format>) -> Result<Found> {
    let mut all = Search { format, ..Search::default() };
    for input in inputs {
        let mut search = Search { format, ..Search::default() };
        search.input(input.as_ref())?;
        if search.paths.is_empty() {
            return Err(Error::Input { path: input.as_ref().into(), line: 0, reason: search.why_nothing() });
        }
        all.paths.append(&mut search.paths);
        all.others.append(&mut search.others);
    }
    let passed_over = all.others.difference(&all.paths).cloned().collect();
    Ok(Found { files: single(all.paths), passed_over })
}

/// The recordings below folders, of which any may hold none.
pub fn below(folders: &[PathBuf], format: Option<&Format>) -> Vec<PathBuf> {
    let mut search = Search { format, ..Search::default() };
    folders.iter().for_each(|folder| search.folder(folder));
    single(search.paths)
}

/// Paths without those that lead to the same file as one before.
fn single(paths: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut same: BTreeSet<PathBuf> = BTreeSet::new();
    let is_new = |path: &PathBuf| same.insert(path.canonicalize().unwrap_or_else(|_| path.clone()));
    paths.into_iter().filter(is_new).collect()
}

/// Endings that name files of anything.
const COMMON_EXTENSIONS: &[&str] = &["json", "yaml", "yml", "db"];

/// What is looked for, and what was found.
#[derive(Default)]
struct Search<'f> {
    format: Option<&'f Format>,
    paths: BTreeSet<PathBuf>,
    /// Files in folders that are called like recordings and are none.
    others: BTreeSet<PathBuf>,
}

impl Search<'_> {
    fn input(&mut self, input: &str) -> Result<()> {
        let path = Path::new(input);
        if input == STDIN || path.is_file() {
            self.paths.insert(path.to_owned());
        } else if path.is_dir() {
            self.folder(path);
        } else if input.contains(['*', '?', '[', '{']) {
            self.matching(input)?;
        } else if path.exists() {
            // A pipe, as from a shell's process substitution.
            self.paths.insert(path.to_owned());
        }
        Ok(())
    }

    fn why_nothing(&self) -> String {
        match self.others.first() {
            None => "there is no such file, and nothing to read below it or matching it".to_owned(),
            Some(other) => format!(
                "nothing to read below it: {} of its files are called like recordings and begin like none of \
                 a known format, such as {}; known are {}",
                self.others.len(),
                other.display(),
                super::known_formats()
            ),
        }
    }

    /// Collects the files below `folder` whose name may be one of a recording.
    fn folder(&mut self, folder: &Path) {
        for entry in walk(folder, &mut self.paths) {
            if entry.file_type().is_file() && self.has_known_extension(entry.path()) {
                match self.recording_of(entry.path()) {
                    Some(path) => self.paths.insert(path),
                    None => self.others.insert(entry.path().to_owned()),
                };
            }
        }
    }

    fn has_known_extension(&self, path: &Path) -> bool {
        match self.format {
            Some(format) => has_extension_of(path, std::slice::from_ref(format)),
            None => has_extension_of(path, FORMATS),
        }
    }

    /// The recording that a file is, or is a part of: where its name is that of anything, the content must be one
    /// of a known format, or unreadable.
    fn recording_of(&self, path: &Path) -> Option<PathBuf> {
        let is_of_anything = COMMON_EXTENSIONS.iter().any(|common| has_extension(path, common));
        let is_part = match self.format {
            Some(format) => format.is_grouped() && path.extension().is_some_and(|e| e == "json"),
            None if !is_of_anything => false,
            None => match open(path) {
                Ok(source) => known_part(source, path)?.1,
                Err(_) => false,
            },
        };
        Some(path.parent().filter(|_| is_part).unwrap_or(path).to_owned())
    }

    /// Collects what matches the glob `pattern`; folders that match are searched.
    fn matching(&mut self, pattern: &str) -> Result<()> {
        let invalid = |e: globset::Error| Error::Input {
            path: pattern.into(),
            line: 0,
            reason: format!("not a valid glob: {e}"),
        };
        let glob =
            GlobBuilder::new(pattern).literal_separator(true).build().map_err(invalid)?.compile_matcher();
        let has_magic = |c: &Component<'_>| c.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
        let base: PathBuf = Path::new(pattern).components().take_while(|c| !has_magic(c)).collect();
        let root = if base.as_os_str().is_empty() { Path::new(".") } else { base.as_path() };
        if !root.exists() {
            return Ok(());
        }
        for entry in walk(root, &mut self.paths) {
            // The walk puts `./` before names where the pattern has no folder.
            let path = if root == Path::new(".") {
                entry.path().strip_prefix(root).unwrap_or(entry.path())
            } else {
                entry.path()
            };
            if !glob.is_match(path) {
                continue;
            }
            if entry.file_type().is_dir() {
                self.folder(path);
            } else {
                self.paths.insert(path.to_owned());
            }
        }
        Ok(())
    }
}

/// The format that a document begins like, and whether it is a part of what its folder holds: a list is whole
/// by itself.
fn known_part(mut source: impl BufRead, path: &Path) -> Option<(&'static Format, bool)> {
    let head = source.fill_buf().ok()?;
    // Other databases may be of any size and have no lines.
    if has_extension(path, "db") && !head.starts_with(super::sqlite::MAGIC) {
        return None;
    }
    let is_list = head.trim_ascii_start().starts_with(b"[");
    let format = super::known(source, path)?;
    Some((format, format.is_grouped() && !is_list))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// Walks a folder in the order of names; links are followed, and those that lead in a circle left out.
/// What cannot be looked into goes to `paths`: reading it fails with the reason, and names it like any
/// other file that cannot be read.
fn walk(folder: &Path, paths: &mut BTreeSet<PathBuf>) -> Vec<walkdir::DirEntry> {
    let mut entries = Vec::new();
    for entry in WalkDir::new(folder).follow_links(true).sort_by_file_name() {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(e) if e.loop_ancestor().is_some() => {}
            // A link to nothing, or a file that went away meanwhile.
            Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {}
            Err(e) => paths.extend(e.path().map(Path::to_owned)),
        }
    }
    entries
}

/// Whether a name ends as those of these formats do.
fn has_extension_of(path: &Path, formats: &[Format]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let mut extensions = formats.iter().flat_map(|f| f.extensions);
    extensions.any(|e| name.strip_suffix(e).is_some_and(|stem| stem.ends_with('.')))
}

/// Opens a file, a folder that is one recording, or standard input for `-`, and unpacks gzip, Zstandard and
/// zip by their magic bytes. A file that is still written to is read to the length that it has now.
///
/// # Errors
///
/// If it cannot be opened.
pub fn open(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let fail = |source: io::Error| Error::Io { path: path.to_owned(), source };
    if path.is_dir() {
        return Ok(Box::new(Cursor::new(gather(path)?)));
    }
    if path == Path::new(STDIN) {
        return unpack(BufReader::with_capacity(BUFFER_BYTES, io::stdin())).map_err(fail);
    }
    let file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    // The length of a pipe is 0 and says nothing.
    let limit = if metadata.is_file() { metadata.len() } else { u64::MAX };
    unpack(BufReader::with_capacity(BUFFER_BYTES, file.take(limit))).map_err(fail)
}

/// What agents write beside a folder of events: the state of the conversation.
const STATE_FILE: &str = "base_state.json";

/// The files of a folder that are one recording, in the order of their names, in a row.
fn gather(folder: &Path) -> Result<Vec<u8>> {
    let fail = |source: io::Error| Error::Io { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(fail)?.filter_map(io::Result::ok);
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| has_extension(path, "json")).collect();
    files.sort();
    let mut first: Option<&str> = None;
    files.retain(|file| {
        let part =
            open(file).ok().and_then(|source| known_part(source, file)).filter(|(_, is_part)| *is_part);
        part.is_some_and(|(format, _)| *first.get_or_insert(format.name) == format.name)
    });
    let state = folder.parent().map(|parent| parent.join(STATE_FILE)).filter(|state| state.is_file());
    let mut bytes = Vec::new();
    // Last, as the first one is what the format is recognised by.
    for file in files.iter().chain(&state) {
        let limit = (MAX_LINE_BYTES + 1).saturating_sub(bytes.len()) as u64;
        open(file)?.take(limit).read_to_end(&mut bytes).map_err(fail)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// The documents of an archive that make up a log, its header first, in a row; the archive itself where there
/// are none.
fn unzip(mut source: impl BufRead) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    source.by_ref().take(MAX_LINE_BYTES as u64).read_to_end(&mut packed)?;
    let mut archive = zip::ZipArchive::new(Cursor::new(&packed))?;
    let names = archive.file_names().filter_map(std::result::Result::ok);
    let mut names: Vec<String> =
        names.filter(|name| is_part_of_log(name)).map(std::borrow::Cow::into_owned).collect();
    names.sort();
    let mut bytes = Vec::new();
    for name in names {
        let limit = (MAX_LINE_BYTES + 1).saturating_sub(bytes.len()) as u64;
        archive.by_name(&name)?.take(limit).read_to_end(&mut bytes)?;
        bytes.push(b'\n');
    }
    Ok(if bytes.is_empty() { packed } else { bytes })
}

fn is_part_of_log(name: &str) -> bool {
    name == "header.json" || (name.starts_with("samples/") && name.ends_with(".json"))
}

/// Unpacks `source` if it is packed.
///
/// # Errors
///
/// If its first bytes cannot be read.
pub fn unpack<'a>(mut source: impl BufRead + Send + 'a) -> io::Result<Box<dyn BufRead + Send + 'a>> {
    let magic = source.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        let unpacked = flate2::bufread::MultiGzDecoder::new(source);
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let unpacked = zstd::stream::read::Decoder::with_buffer(source)?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
    } else if magic.starts_with(b"PK\x03\x04") {
        Ok(Box::new(Cursor::new(unzip(source)?)))
    } else {
        Ok(Box::new(source))
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMATS, has_extension_of};
    use std::path::Path;

    #[test]
    fn packed_names_end_as_unpacked_ones_do() {
        for name in ["a.jsonl", "a.JSONL", "a.trace.jsonl.gz", "a.jsonl.zst"] {
            assert!(has_extension_of(Path::new(name), FORMATS), "{name}");
        }
        for name in ["jsonl", "a.txt", "a.txt.gz", "ajsonl", ".jsonl.bak"] {
            assert!(!has_extension_of(Path::new(name), FORMATS), "{name}");
        }
    }
}
