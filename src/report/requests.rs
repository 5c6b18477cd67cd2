//! requests.csv: one row per served request.

use std::io::{self, Write};

use std::path::Path;

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::metrics::Usd;
use crate::sim::{FullRecorder, RequestRow};
use crate::usage::Usage;

/// Header of the file.
pub const HEADER: [&str; 19] = [
    "session",
    "policy",
    "model",
    "request",
    "at_ms",
    "gap_ms",
    "prompt_tokens",
    "uncached_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "cost_usd",
    "miss_cause",
    "missed_tokens",
    "estimate_tokens",
    "passes",
    "compactions",
    "rejections",
];

/// The requests and events of one cell.
#[derive(Debug, Clone, Copy)]
pub struct RunRecord<'a> {
    /// Session id.
    pub session: &'a str,
    /// Policy label.
    pub policy: &'a str,
    /// Model id.
    pub model: &'a str,
    /// What happened.
    pub record: &'a FullRecorder,
    /// Request at which the run ended before its session did.
    pub stopped_at_request: Option<u64>,
}

/// Session, policy and model of a request.
pub type CellKey = (String, String, String);

/// Reads requests.csv, as far as requests are compared: what was used, missed and refused.
///
/// # Errors
/// [`Error::Input`] naming the line if a field is not what it should be.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Vec<(CellKey, RequestRow)>> {
    let mut reader = csv::Reader::from_reader(bytes);
    let mut rows = Vec::new();
    let fail = |line: u64, reason: String| Error::Input { path: path.to_owned(), line, reason };
    let header = reader.headers().map_err(|e| fail(1, e.to_string()))?.clone();
    if header.iter().ne(HEADER) {
        return Err(fail(1, "not a requests.csv of this ctxsim; run the study again".to_owned()));
    }
    for (i, record) in reader.records().enumerate() {
        let line = i as u64 + 2;
        let record = record.map_err(|e| fail(line, e.to_string()))?;
        let text = |name: &str| {
            HEADER.iter().position(|h| *h == name).and_then(|i| record.get(i)).unwrap_or_default()
        };
        let number = |name: &str| {
            text(name).parse::<u64>().map_err(|_| fail(line, format!("field `{name}` is no whole number")))
        };
        let small = |name: &str| number(name).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let cause = Cause::ALL.iter().copied().find(|c| c.name() == text("miss_cause"));
        let row = RequestRow {
            request: small("request")?,
            at_ms: text("at_ms").parse().ok(),
            gap_ms: text("gap_ms").parse().ok(),
            usage: Usage {
                uncached_tokens: number("uncached_tokens")?,
                cache_read_tokens: number("cache_read_tokens")?,
                cache_write_5m_tokens: number("cache_write_5m_tokens")?,
                cache_write_1h_tokens: number("cache_write_1h_tokens")?,
                output_tokens: number("output_tokens")?,
            },
            cost_pusd: text("cost_usd").parse::<Usd>().map_err(|why| fail(line, why))?.0,
            miss_cause: cause,
            missed_tokens: number("missed_tokens")?,
            estimate_tokens: number("estimate_tokens")?,
            passes: small("passes")?,
            compactions: small("compactions")?,
            rejections: small("rejections")?,
        };
        let key = [text("session"), text("policy"), text("model")].map(str::to_owned);
        rows.push((key.into(), row));
    }
    Ok(rows)
}

/// Writes the header and, cell by cell, the rows.
#[derive(Debug)]
pub struct RequestsWriter<W: Write> {
    csv: csv::Writer<W>,
}

impl<W: Write> RequestsWriter<W> {
    /// Starts the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(HEADER)?;
        Ok(RequestsWriter { csv })
    }

    /// Adds the requests of a cell.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&mut self, run: &RunRecord<'_>) -> io::Result<()> {
        for row in &run.record.requests {
            self.csv.write_record(fields(run, row))?;
        }
        Ok(())
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(self) -> io::Result<W> {
        self.csv.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

fn fields(run: &RunRecord<'_>, row: &RequestRow) -> [String; HEADER.len()] {
    let optional = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
    let usage = &row.usage;
    [
        run.session.to_owned(),
        run.policy.to_owned(),
        run.model.to_owned(),
        row.request.to_string(),
        optional(row.at_ms),
        optional(row.gap_ms),
        usage.prompt_tokens().to_string(),
        usage.uncached_tokens.to_string(),
        usage.cache_read_tokens.to_string(),
        usage.cache_write_5m_tokens.to_string(),
        usage.cache_write_1h_tokens.to_string(),
        usage.output_tokens.to_string(),
        Usd(row.cost_pusd).to_string(),
        row.miss_cause.map(|c| c.name()).unwrap_or_default().to_owned(),
        row.missed_tokens.to_string(),
        row.estimate_tokens.to_string(),
        row.passes.to_string(),
        row.compactions.to_string(),
        row.rejections.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::usage::Usage;

    #[test]
    fn rows_have_the_documented_columns() {
        let row = RequestRow {
            request: 2,
            at_ms: Some(1_700_000_000_000),
            gap_ms: None,
            usage: Usage {
                uncached_tokens: 1,
                cache_read_tokens: 20,
                cache_write_5m_tokens: 300,
                cache_write_1h_tokens: 4_000,
                output_tokens: 5,
            },
            cost_pusd: 1_250_000,
            miss_cause: Some(Cause::TtlExpired),
            missed_tokens: 6,
            estimate_tokens: 7,
            passes: 1,
            compactions: 0,
            rejections: 2,
        };
        let record = FullRecorder { requests: vec![row], events: Vec::new() };
        let mut writer = RequestsWriter::new(Vec::new()).expect("memory");
        let run =
            RunRecord { session: "s,1", policy: "p", model: "m", record: &record, stopped_at_request: None };
        writer.write(&run).expect("memory");
        let text = String::from_utf8(writer.finish().expect("memory")).expect("UTF-8");
        assert_eq!(
            text,
            "session,policy,model,request,at_ms,gap_ms,prompt_tokens,uncached_tokens,cache_read_tokens,\
             cache_write_5m_tokens,cache_write_1h_tokens,output_tokens,cost_usd,miss_cause,missed_tokens,\
             estimate_tokens,passes,compactions,rejections\n\
             \"s,1\",p,m,2,1700000000000,,4321,1,20,300,4000,5,0.00000125,ttl_expired,6,7,1,0,2\n"
        );
    }
}
