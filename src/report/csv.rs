//! Cells as CSV: what they are, then one column per metric. An empty field is a ratio over 0.

use std::io;

use crate::metrics::{self, MetricRef, Rate, Value};

use super::grid::Grid;
use super::results::ResultSet;

/// One row per cell; totals are left to the reader, who has the rows.
///
/// # Errors
/// None in memory; the signature is that of the CSV writer.
pub fn write(results: &ResultSet) -> io::Result<Vec<u8>> {
    let columns: Vec<MetricRef> = metrics::all().collect();
    let mut csv = csv::Writer::from_writer(Vec::new());
    let keys = ["session", "policy", "model", "model_substituted", "stopped_at_request", "stop_reason"];
    csv.write_record(keys.map(str::to_owned).into_iter().chain(columns.iter().map(MetricRef::name)))?;
    for cell in &results.cells {
        let stopped = cell.summary.stopped_at_request.map(|n| n.to_string()).unwrap_or_default();
        let reason = cell.summary.stop_reason.map(|r| r.name()).unwrap_or_default();
        let keys = [
            cell.session.clone(),
            cell.policy.clone(),
            cell.model.clone(),
            cell.model_substituted.clone().unwrap_or_default(),
            stopped,
            reason.to_owned(),
        ];
        let values = columns.iter().map(|m| match m.value(&cell.summary) {
            Value::Rate(Rate(None)) => String::new(),
            value => value.to_string(),
        });
        csv.write_record(keys.into_iter().chain(values))?;
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// Any grid as CSV; numbers without thousands separators.
///
/// # Errors
/// As [`write()`].
pub fn grid(grid: &Grid) -> io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(grid.columns.iter().map(|c| c.title.as_str()))?;
    for row in &grid.rows {
        let cells = row.iter().zip(&grid.columns);
        csv.write_record(cells.map(|(cell, c)| if c.right { cell.replace(',', "") } else { cell.clone() }))?;
    }
    csv.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    #[test]
    fn every_row_has_every_metric() {
        let bytes = write(&sample()).expect("memory");
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let header = reader.headers().expect("a header").clone();
        let column = |name: &str| header.iter().position(|h| h == name).expect("a column");
        let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.expect("even rows")).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(&rows[0][column("cost_usd")], "0.1");
        assert_eq!(&rows[0][column("hit_rate")], "0.8");
        assert_eq!(&rows[0][column("misses.ttl_expired.tokens")], "80");
        assert_eq!(&rows[3][column("stop_reason")], "overflow");
        assert_eq!(&rows[3][column("stopped_at_request")], "3");
    }
}
