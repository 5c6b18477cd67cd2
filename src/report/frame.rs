//! Results as polars data frames, and as Parquet.
//!
//! Counts are unsigned 64-bit integers; dollars and rates are 64-bit floats, null for a ratio over 0. The exact dollars
//! are in results.json and requests.csv. No thread is started here, and the same rows give the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use polars::prelude::{Column, DataFrame, IntoColumn, NamedFrom, Schema, Series};
use polars_io::parquet::write::{BatchedWriter, ParquetCompression, ParquetWriter};

use crate::metrics::{self, Usd};
use crate::sim::RequestRow;

use super::requests::RunRecord;
use super::results::ResultSet;

/// Requests written at once: a row group of the file, and what is held in memory.
const BATCH_ROWS: usize = 65_536;

fn column<T, Phantom: ?Sized>(name: &str, values: T) -> Column
where
    Series: NamedFrom<T, Phantom>,
{
    Series::new(name.into(), values).into_column()
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// One row per cell: what it is, the parameters in which the strategies differ, then one column per metric.
///
/// # Errors
/// Those of polars, which has none for columns of one length with different names.
pub fn cells(results: &ResultSet) -> io::Result<DataFrame> {
    let cells = &results.cells;
    let text =
        |name: &str, of: fn(&super::Cell) -> &str| column(name, cells.iter().map(of).collect::<Vec<&str>>());
    let mut columns = vec![
        text("session", |c| &c.session),
        text("policy", |c| &c.policy),
        text("model", |c| &c.model),
        column("model_substituted", cells.iter().map(|c| c.model_substituted.as_deref()).collect::<Vec<_>>()),
        column("stopped_at_request", cells.iter().map(|c| c.summary.stopped_at_request).collect::<Vec<_>>()),
        column(
            "stop_reason",
            cells.iter().map(|c| c.summary.stop_reason.map(|r| r.name())).collect::<Vec<_>>(),
        ),
    ];
    columns.extend(super::sweep::varied(&results.recipe).iter().map(|name| parameter(results, name)));
    for metric in metrics::all() {
        let values = cells.iter().map(|cell| metric.value(&cell.summary));
        columns.push(match metric.metric().unit {
            "usd" | "rate" => column(&metric.name(), values.map(metrics::Value::as_f64).collect::<Vec<_>>()),
            _ => column(&metric.name(), values.map(count).collect::<Vec<u64>>()),
        });
    }
    DataFrame::new(cells.len(), columns).map_err(failed)
}

/// A parameter of each cell's strategy: whole numbers where all are, else text; null where the strategy has none.
fn parameter(results: &ResultSet, name: &str) -> Column {
    let of_policy: BTreeMap<&str, &serde_json::Value> = results
        .recipe
        .policies
        .iter()
        .filter_map(|policy| Some((policy.label.as_str(), policy.params.get(name)?)))
        .collect();
    let values: Vec<Option<&serde_json::Value>> =
        results.cells.iter().map(|cell| of_policy.get(cell.policy.as_str()).copied()).collect();
    if values.iter().flatten().all(|value| value.is_i64()) {
        return column(
            name,
            values.iter().map(|v| v.and_then(serde_json::Value::as_i64)).collect::<Vec<_>>(),
        );
    }
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    column(name, values.iter().map(|v| v.map(text)).collect::<Vec<_>>())
}

fn count(value: metrics::Value) -> u64 {
    if let metrics::Value::Count(n) = value { n } else { 0 }
}

/// results.parquet: the frame of [`cells`].
///
/// # Errors
/// As [`cells`].
pub fn parquet(results: &ResultSet) -> io::Result<Vec<u8>> {
    let mut frame = cells(results)?;
    let mut bytes = Vec::new();
    writer(&mut bytes).finish(&mut frame).map_err(failed)?;
    Ok(bytes)
}

fn writer<W: Write>(out: W) -> ParquetWriter<W> {
    ParquetWriter::new(out).with_compression(ParquetCompression::Zstd(None)).set_parallel(false)
}

/// The writer of polars keeps its output to itself; this one can be taken back.
struct Shared<W>(Arc<Mutex<W>>);

impl<W> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// A request and its cell.
struct Row {
    names: Arc<[String; 3]>,
    row: RequestRow,
}

/// requests.parquet: the columns of requests.csv, written a batch at a time.
pub struct RequestsParquet<W: Write> {
    out: Shared<W>,
    batches: BatchedWriter<Shared<W>>,
    rows: Vec<Row>,
}

impl<W: Write> std::fmt::Debug for RequestsParquet<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestsParquet").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl<W: Write> RequestsParquet<W> {
    /// Starts the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<RequestsParquet<W>> {
        let out = Shared(Arc::new(Mutex::new(out)));
        let schema: Schema = requests(&[])?.schema().as_ref().clone();
        let batches = writer(out.clone()).batched(&schema).map_err(failed)?;
        Ok(RequestsParquet { out, batches, rows: Vec::new() })
    }

    /// Adds the requests of a cell.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&mut self, run: &RunRecord<'_>) -> io::Result<()> {
        let names = Arc::new([run.session, run.policy, run.model].map(str::to_owned));
        self.rows.extend(run.record.requests.iter().map(|row| Row { names: Arc::clone(&names), row: *row }));
        while self.rows.len() >= BATCH_ROWS {
            let rest = self.rows.split_off(BATCH_ROWS);
            self.batch()?;
            self.rows = rest;
        }
        Ok(())
    }

    fn batch(&mut self) -> io::Result<()> {
        let frame = requests(&self.rows)?;
        self.rows.clear();
        self.batches.write_batch(&frame).map_err(failed)
    }

    /// Writes the rest, and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.rows.is_empty() {
            self.batch()?;
        }
        self.batches.finish().map_err(failed)?;
        drop(self.batches);
        let out = Arc::into_inner(self.out.0).ok_or_else(|| failed("the output is still in use"))?;
        Ok(out.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn requests(rows: &[Row]) -> io::Result<DataFrame> {
    let name = |title: &str, i: usize| {
        column(title, rows.iter().map(|r| r.names[i].as_str()).collect::<Vec<&str>>())
    };
    let number = |title: &str, of: fn(&RequestRow) -> u64| {
        column(title, rows.iter().map(|r| of(&r.row)).collect::<Vec<u64>>())
    };
    let time = |title: &str, of: fn(&RequestRow) -> Option<i64>| {
        column(title, rows.iter().map(|r| of(&r.row)).collect::<Vec<Option<i64>>>())
    };
    let columns = vec![
        name("session", 0),
        name("policy", 1),
        name("model", 2),
        number("request", |r| u64::from(r.request)),
        time("at_ms", |r| r.at_ms),
        time("gap_ms", |r| r.gap_ms),
        number("prompt_tokens", |r| r.usage.prompt_tokens()),
        number("uncached_tokens", |r| r.usage.uncached_tokens),
        number("cache_read_tokens", |r| r.usage.cache_read_tokens),
        number("cache_write_5m_tokens", |r| r.usage.cache_write_5m_tokens),
        number("cache_write_1h_tokens", |r| r.usage.cache_write_1h_tokens),
        number("output_tokens", |r| r.usage.output_tokens),
        column("cost_usd", rows.iter().map(|r| Usd(r.row.cost_pusd).as_f64()).collect::<Vec<f64>>()),
        column("miss_cause", rows.iter().map(|r| r.row.miss_cause.map(|c| c.name())).collect::<Vec<_>>()),
        number("missed_tokens", |r| r.missed_tokens),
        number("estimate_tokens", |r| r.estimate_tokens),
        number("passes", |r| u64::from(r.passes)),
        number("compactions", |r| u64::from(r.compactions)),
        number("rejections", |r| u64::from(r.rejections)),
    ];
    DataFrame::new(rows.len(), columns).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use polars::prelude::ChunkAgg;
    use polars_io::prelude::{ParquetReader, SerReader};

    use super::*;
    use crate::report::requests::HEADER;
    use crate::report::results::tests::sample;
    use crate::sim::FullRecorder;
    use crate::usage::Usage;

    fn read(bytes: Vec<u8>) -> DataFrame {
        ParquetReader::new(Cursor::new(bytes)).finish().expect("own output")
    }

    #[test]
    fn cells_survive_the_way_to_parquet_and_can_be_asked() {
        let results = sample();
        let frame = read(parquet(&results).expect("memory"));
        assert!(frame.equals_missing(&cells(&results).expect("memory")));
        assert_eq!(frame.height(), 4);
        let costs = frame.column("cost_usd").expect("there").f64().expect("floats");
        let policies = frame.column("policy").expect("there").str().expect("text");
        let mut sums = std::collections::BTreeMap::<&str, f64>::new();
        for i in 0..frame.height() {
            let policy = policies.get(i).expect("no cell is without one");
            *sums.entry(policy).or_default() += costs.get(i).expect("priced");
        }
        let sums: Vec<f64> = sums.into_values().collect();
        assert_eq!(sums, [0.11, 0.18]);
        assert_eq!(parquet(&results).expect("memory"), parquet(&results).expect("memory"));
    }

    #[test]
    fn parameters_that_differ_are_columns() {
        let mut results = sample();
        results.recipe.policies[1].preset = "none".into();
        results.recipe.policies[1].params["keep"] = 5.into();
        let frame = cells(&results).expect("memory");
        let keep = frame.column("keep").expect("it varies").i64().expect("integers");
        assert_eq!(keep.into_no_null_iter().collect::<Vec<i64>>(), [3, 5, 3, 5]);
        results.recipe.policies[1].params["keep"] = "all".into();
        let frame = cells(&results).expect("memory");
        let keep = frame.column("keep").expect("it varies").str().expect("text");
        assert_eq!([0, 1, 2, 3].map(|i| keep.get(i)), ["3", "all", "3", "all"].map(Some));
    }

    #[test]
    fn requests_come_in_batches_with_the_columns_of_the_csv() {
        let row = |request| RequestRow {
            request,
            at_ms: None,
            gap_ms: Some(5),
            usage: Usage { cache_read_tokens: u64::from(request), ..Usage::default() },
            cost_pusd: 2_500_000_000_000,
            miss_cause: None,
            missed_tokens: 0,
            estimate_tokens: 0,
            passes: 0,
            compactions: 0,
            rejections: 0,
        };
        let many = u32::try_from(BATCH_ROWS).expect("fits") + 10;
        let record = FullRecorder { requests: (1..=many).map(row).collect(), events: Vec::new() };
        let run =
            RunRecord { session: "s", policy: "p", model: "m", record: &record, stopped_at_request: None };
        let mut out = RequestsParquet::new(Vec::new()).expect("memory");
        out.write(&run).expect("memory");
        out.write(&run).expect("memory");
        let frame = read(out.finish().expect("memory"));
        assert_eq!(frame.height(), 2 * many as usize);
        assert!(frame.get_column_names().iter().map(|name| name.as_str()).eq(HEADER));
        let read = frame.column("cache_read_tokens").expect("there").u64().expect("integers").sum();
        assert_eq!(read, Some(u64::from(many) * u64::from(many + 1)));
        assert_eq!(frame.column("at_ms").expect("there").null_count(), frame.height());
        let empty = RequestsParquet::new(Vec::new()).expect("memory").finish().expect("memory");
        assert_eq!(self::read(empty).height(), 0);
    }
}
