//! results.json: writing and reading.

use std::path::Path;

use crate::error::{Error, Result};

use super::grid::Grid;
use super::results::{FORMAT_VERSION, ResultSet};
use super::wire::ResultsWire;

/// Pretty JSON with a final line feed.
pub fn write(results: &ResultSet) -> Vec<u8> {
    let mut bytes = ResultsWire::of(results)
        .and_then(|wire| serde_json::to_vec_pretty(&wire))
        .expect("a tree of numbers and strings, with strings for keys, always serialises");
    bytes.push(b'\n');
    bytes
}

/// Reads results.json. Fields it does not know are ignored.
///
/// # Errors
/// [`Error::Input`] naming line and field if the file is no result file, or of a later format.
pub fn read(path: &Path, bytes: &[u8]) -> Result<ResultSet> {
    let fail = |line, reason| Error::Input { path: path.to_owned(), line, reason };
    let wire: ResultsWire = serde_json::from_slice(bytes)
        .map_err(|e| fail(e.line() as u64, format!("not a results.json of ctxsim ({e})")))?;
    if wire.format_version() > FORMAT_VERSION {
        let version = wire.format_version();
        let reason = format!(
            "format_version {version} is newer than this ctxsim reads ({FORMAT_VERSION}); update ctxsim"
        );
        return Err(fail(0, reason));
    }
    Ok(wire.into_results())
}

/// Any grid as an array of objects; columns of numbers hold numbers where they can.
pub fn grid(grid: &Grid) -> Vec<u8> {
    let cell = |text: &String, right: bool| {
        let number = if right { text.replace(',', "").parse::<serde_json::Number>().ok() } else { None };
        number.map_or_else(|| serde_json::Value::from(text.as_str()), serde_json::Value::Number)
    };
    let object = |row: &Vec<String>| -> serde_json::Map<String, serde_json::Value> {
        let cells = row.iter().zip(&grid.columns);
        cells.map(|(text, column)| (column.title.clone(), cell(text, column.right))).collect()
    };
    let rows: Vec<_> = grid.rows.iter().map(object).collect();
    pretty(&rows)
}

/// Pretty JSON with a final line feed.
pub fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .expect("a tree of numbers and strings, with strings for keys, always serialises");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    #[test]
    fn writing_then_reading_gives_the_same_results() {
        let results = sample();
        let bytes = write(&results);
        let again = read(Path::new("r.json"), &bytes).expect("own output");
        assert_eq!(again, results);
        assert_eq!(write(&again), bytes);
    }

    #[test]
    fn unknown_fields_are_tolerated_and_newer_formats_refused() {
        let text = String::from_utf8(write(&sample())).expect("UTF-8");
        let extended = text.replacen("\"seed\": 0", "\"seed\": 0, \"later\": {\"x\": 1}", 1);
        assert_ne!(text, extended);
        assert_eq!(read(Path::new("r.json"), extended.as_bytes()).expect("tolerated"), sample());
        let newer = text.replacen("\"format_version\": 1", "\"format_version\": 99", 1);
        let error = read(Path::new("r.json"), newer.as_bytes()).expect_err("newer").to_string();
        assert!(error.contains("format_version 99"), "{error}");
    }

    #[test]
    fn a_broken_file_names_its_line() {
        let error =
            read(Path::new("r.json"), b"{\n\"format_version\": \"x\"}").expect_err("broken").to_string();
        assert!(error.starts_with("r.json, line 2: not a results.json"), "{error}");
    }

    #[test]
    fn results_json() {
        let mut results = sample();
        results.cells.truncate(1);
        results.totals.truncate(0);
        insta::assert_snapshot!(String::from_utf8(write(&results)).expect("UTF-8"));
    }
}
