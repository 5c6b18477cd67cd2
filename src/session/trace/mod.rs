//! The content-free trace format, both ways.

use std::io::BufRead;
use std::path::Path;

use crate::session::Session;
use crate::{Error, Result};

/// Reads one trace.
pub fn read(_source: impl BufRead, label: &Path) -> Result<Session> {
    Err(Error::Input { path: label.to_owned(), line: 0, reason: "traces are not read yet".to_owned() })
}

/// Writes one trace.
pub fn write(_session: &Session, _out: &mut impl std::io::Write) -> std::io::Result<()> {
    Ok(())
}
