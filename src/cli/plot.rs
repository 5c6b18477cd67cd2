//! `ctxsim plot`: one picture from the files of a study.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ctxsim::provider::model::Models;
use ctxsim::report::plot::token_curve::{Mark, MarkKind, Point, Series, TokenCurve};
use ctxsim::report::plot::{Look, PictureFormat};

use super::exit::{self, Failure, Outcome};
use super::explain::find_id;
use super::output::Terminal;

/// For the help.
pub const EXAMPLES: &str = "Examples:
  ctxsim plot reports/quickstart --kind token-curve -o curve.svg
  ctxsim plot reports/quickstart --kind token-curve --session 0b1c2d -o curve.png";

#[derive(Debug, Args)]
pub struct PlotArgs {
    /// A folder written with --out or by `run`
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Which picture
    #[arg(long, value_name = "KIND", default_value = "token-curve")]
    pub kind: PlotKind,
    /// Session to draw (its id, or how the id begins); default: the one with the most requests
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The file, .svg or .png
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

/// `plot --kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlotKind {
    /// Prompt tokens per request, one line per policy
    TokenCurve,
}

/// Columns of requests.csv that a token curve needs.
#[derive(serde::Deserialize)]
struct Row {
    session: String,
    policy: String,
    model: String,
    request: u64,
    prompt_tokens: u64,
    passes: u64,
    compactions: u64,
    rejections: u64,
}

/// Runs the command.
pub fn run(args: &PlotArgs, terminal: &Terminal) -> Outcome {
    let format = PictureFormat::of_path(&args.out)?;
    let csv = match args.results.is_dir() {
        true => args.results.join("requests.csv"),
        false => args.results.with_file_name("requests.csv"),
    };
    let rows = read(&csv)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *counts.entry(&row.session).or_default() += 1;
    }
    let ids: Vec<&str> = counts.keys().copied().collect();
    let session = match &args.session {
        Some(wanted) => find_id(wanted, &ids, "--session")?,
        None => ids
            .iter()
            .rev()
            .max_by_key(|id| counts[*id])
            .ok_or_else(|| Failure::new(exit::NO_MATCH, format!("{}: no requests", csv.display())))?,
    };
    let curve = curve(session, &rows)?;
    let bytes = curve.draw(format, Look::default())?;
    std::fs::write(&args.out, bytes)
        .map_err(|e| Failure::new(exit::USAGE, format!("{}: {e}", args.out.display())))?;
    terminal.note(&format!("written to {}", args.out.display()));
    Ok(exit::DONE)
}

fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    let wrong = |e: csv::Error| Failure::new(exit::NO_INPUT, format!("{}: {e}", path.display()));
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    reader.deserialize().collect::<Result<_, _>>().map_err(wrong)
}

fn curve(session: &str, rows: &[Row]) -> Result<TokenCurve, Failure> {
    let mine: Vec<&Row> = rows.iter().filter(|r| r.session == session).collect();
    let model = mine.first().map(|r| r.model.clone()).unwrap_or_default();
    let mut series: Vec<Series> = Vec::new();
    for row in mine.iter().filter(|r| r.model == model) {
        if series.last().is_none_or(|s| s.label != row.policy) {
            series.push(Series { label: row.policy.clone(), points: Vec::new(), marks: Vec::new() });
        }
        let Some(line) = series.last_mut() else { continue };
        line.points.push(Point { request: row.request, prompt_tokens: row.prompt_tokens });
        let marks = [
            (row.passes, MarkKind::Pass),
            (row.compactions, MarkKind::Compaction),
            (row.rejections, MarkKind::Rejection),
        ];
        let happened = marks.into_iter().filter(|(n, _)| *n > 0);
        line.marks.extend(happened.map(|(_, kind)| Mark { request: row.request, kind }));
    }
    let models = Models::builtin()?;
    let window_tokens = models.get(&model).map(|m| m.window_tokens).unwrap_or(0);
    Ok(TokenCurve { session: session.to_owned(), model, window_tokens, series })
}
