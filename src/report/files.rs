//! The folder that a command writes: opened before work begins, complete or absent file by file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Marks a folder as ours: it may be written again without `--force`.
const MARKER: &str = ".ctxsim";

/// An output folder.
#[derive(Debug)]
pub struct OutputDir {
    path: PathBuf,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Io { path: path.to_owned(), source }
}

impl OutputDir {
    /// Creates the folder, or takes one that is empty, was written by ctxsim, or is `force`d.
    ///
    /// # Errors
    /// [`Error::Config`] if it holds something else, [`Error::Io`] if it cannot be written.
    pub fn open(path: &Path, force: bool) -> Result<OutputDir> {
        fs::create_dir_all(path).map_err(io_error(path))?;
        let ours = path.join(MARKER);
        let empty = fs::read_dir(path).map_err(io_error(path))?.next().is_none();
        if !empty && !force && !ours.exists() {
            return Err(Error::Config {
                origin: path.display().to_string(),
                reason: "the folder is not empty and was not written by ctxsim; choose another one with \
                         --out, or overwrite with --force"
                    .into(),
            });
        }
        fs::write(&ours, format!("format_version = {}\n", super::results::FORMAT_VERSION))
            .map_err(io_error(&ours))?;
        Ok(OutputDir { path: path.to_owned() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `name` inside the folder under a temporary name; [`OutputFile::commit`] renames it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(&self, name: &str) -> Result<OutputFile> {
        OutputFile::create(&self.path.join(name))
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name)?;
        file.write_all(bytes).map_err(io_error(&file.target))?;
        file.commit()
    }
}

/// A file that appears under its name only when it is complete.
#[derive(Debug)]
pub struct OutputFile {
    writer: BufWriter<File>,
    target: PathBuf,
    temporary: PathBuf,
    committed: bool,
}

impl OutputFile {
    /// Opens `target` under a temporary name beside it; folders on the way are made.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(target: &Path) -> Result<OutputFile> {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(io_error(parent))?;
        }
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".tmp");
        let temporary = target.with_file_name(name);
        let file = File::create(&temporary).map_err(io_error(target))?;
        Ok(OutputFile {
            writer: BufWriter::new(file),
            target: target.to_owned(),
            temporary,
            committed: false,
        })
    }

    /// Completes the file under its own name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn commit(mut self) -> Result<()> {
        self.writer.flush().map_err(io_error(&self.target))?;
        fs::rename(&self.temporary, &self.target).map_err(io_error(&self.target))?;
        self.committed = true;
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing to do about a temporary file that will not go away: the error being reported matters more.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_folder_is_refused_unless_forced_and_our_own_is_taken_again() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).expect("new");
        fs::write(foreign.join("thesis.doc"), "x").expect("new");
        let error = OutputDir::open(&foreign, false).expect_err("foreign").to_string();
        assert!(error.contains("--force"), "{error}");
        OutputDir::open(&foreign, true).expect("forced");

        let own = dir.path().join("own");
        OutputDir::open(&own, false).expect("new").write("results.json", b"{}").expect("writable");
        OutputDir::open(&own, false).expect("ours");
    }

    #[test]
    fn an_unfinished_file_is_not_there() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let out = OutputDir::open(dir.path(), false).expect("empty");
        let mut file = out.create("plots/a.csv").expect("writable");
        file.write_all(b"half").expect("writable");
        drop(file);
        assert_eq!(fs::read_dir(dir.path().join("plots")).expect("made").count(), 0);
        let mut file = out.create("plots/a.csv").expect("writable");
        file.write_all(b"whole").expect("writable");
        file.commit().expect("renamed");
        assert_eq!(fs::read(dir.path().join("plots/a.csv")).expect("there"), b"whole");
    }
}
