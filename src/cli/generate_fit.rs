//! `ctxsim generate --fit`: a profile from recordings, and how well it fits.

use ctxsim::generate::Profile;
use ctxsim::generate::fit::{self, FitRow, Fitted, QUANTILES};
use ctxsim::report::files::OutputDir;
use ctxsim::report::grid::Grid;
use ctxsim::report::{csv, json, markdown, table};
use ctxsim::session::Session;
use serde_json::{Value, json};

use super::args::Format;
use super::exit::{self, Failure, Outcome};
use super::generate::{GenerateArgs, profile_json, write_sessions};
use super::output::Terminal;
use super::{load, progress, study};

/// Version of fit.json.
const FORMAT_VERSION: u32 = 1;

/// Fits `base` to INPUT.
pub fn run(args: &GenerateArgs, base: &Profile, terminal: &Terminal) -> Outcome {
    if args.sessions.is_some() && args.output.out.is_none() {
        return Err(Failure::new(exit::USAGE, "--sessions needs -o DIR to write them to"));
    }
    let options = load::LoadOptions::resolve(&args.input, &args.session, None)?;
    let dir = args.output.out.as_deref().map(|path| OutputDir::open(path, args.output.force)).transpose()?;
    let control = progress::control(terminal);
    let corpus = load::load(&options, &control, terminal)?;
    let sessions: Vec<&Session> = corpus.sessions.iter().map(AsRef::as_ref).collect();
    if sessions.is_empty() {
        return Err(Failure::new(exit::NO_MATCH, "no session was read, so there is nothing to fit to"));
    }
    let fitted = fit::fit(&sessions, base, args.holdout, args.seed)?;
    let document = document(args, base, &fitted, &corpus.skipped);
    if let Some(dir) = &dir {
        dir.write("fitted.toml", fitted.toml().as_bytes())?;
        dir.write("fit.json", &json::pretty(&document))?;
        dir.write("fit.csv", &csv::grid(&grid(&fitted, QUANTILES.len()))?)?;
        terminal.note(&format!("written to {}", dir.path().display()));
    }
    print(&fitted, &document, args.output.format, terminal)?;
    study::report_skipped(&corpus.skipped, terminal);
    let code = match (&dir, args.sessions) {
        (Some(dir), Some(sessions)) => {
            write_sessions(args, &fitted.profile, sessions, dir, &control, terminal)?
        }
        _ => exit::DONE,
    };
    Ok(match code {
        _ if corpus.interrupted => exit::INTERRUPTED,
        exit::DONE if corpus.skipped_files > 0 => exit::SKIPPED,
        code => code,
    })
}

fn print(fitted: &Fitted, document: &Value, format: Format, terminal: &Terminal) -> Result<(), Failure> {
    match format {
        Format::Json => terminal.print_bytes(&json::pretty(document)),
        Format::Csv => terminal.print_bytes(&csv::grid(&grid(fitted, QUANTILES.len()))?),
        Format::Markdown => {
            terminal.print(&format!("{}\n{}\n", markdown::grid(&grid(fitted, 0)), said(fitted)))
        }
        Format::Table => {
            terminal.print(&table::draw(grid(fitted, 0), terminal.style))?;
            terminal.print(&format!("\n{}\n", said(fitted)))
        }
    }
}

/// What the table compares.
fn said(fitted: &Fitted) -> String {
    let training = fitted.training_sessions;
    match fitted.held_out_sessions {
        0 => format!("Fitted to {training} sessions and compared with the same: too few to hold any out."),
        held => format!(
            "Fitted to {training} sessions; quantiles (recorded | fitted) and KS, the greatest distance between the \
             distribution functions, are of {held} others. The last two rows compare whole sessions made from the profile."
        ),
    }
}

/// A row for each parameter. Quantiles stand in one column each, or in two for `split` of them.
fn grid(fitted: &Fitted, split: usize) -> Grid {
    let mut titles: Vec<(String, bool)> = vec![("parameter".to_owned(), false), ("unit".to_owned(), false)];
    titles.extend(["values", "held out", "KS"].map(|title| (title.to_owned(), true)));
    for (i, q) in QUANTILES.iter().enumerate() {
        let name = quantile_name(*q);
        match i < split {
            true => titles.extend(["recorded", "fitted"].map(|side| (format!("{name} {side}"), true))),
            false => titles.push((name, true)),
        }
    }
    if split > 0 {
        titles.push(("distribution".to_owned(), false));
    }
    let mut grid = Grid::new(titles);
    for (i, column) in grid.columns.iter_mut().enumerate() {
        // Of the quantiles, the quartiles go first where space is short.
        column.rank = if split == 0 && (i == 6 || i == 8) { 1 } else { 0 };
    }
    grid.rows.extend(fitted.rows.iter().map(|row| cells(row, split)));
    grid
}

fn cells(row: &FitRow, split: usize) -> Vec<String> {
    let ks = row.ks.map_or(String::new(), |ks| format!("{ks:.3}"));
    let mut cells = vec![
        row.name.clone(),
        row.unit.clone(),
        row.training_values.to_string(),
        row.held_out_values.to_string(),
        ks,
    ];
    for (i, (recorded, fitted)) in row.quantiles.iter().enumerate() {
        let (recorded, fitted) = (short(*recorded), short(*fitted));
        match i < split {
            true => cells.extend([recorded, fitted]),
            false => cells.push(format!("{recorded} | {fitted}")),
        }
    }
    if split > 0 {
        cells.push(row.distribution.clone());
    }
    cells
}

fn quantile_name(q: f64) -> String {
    format!("p{:.0}", 100.0 * q)
}

/// About three digits.
fn short(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(x) if x >= 100.0 || x.fract() == 0.0 => format!("{x:.0}"),
        Some(x) if x >= 1.0 => format!("{x:.1}"),
        Some(x) => format!("{x:.3}"),
    }
}

/// Six decimals, as rates in results have.
fn exact(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |x| ((x * 1_000_000.0 + 0.5).floor() / 1_000_000.0).into())
}

fn document(
    args: &GenerateArgs,
    base: &Profile,
    fitted: &Fitted,
    skipped: &[ctxsim::report::Skipped],
) -> Value {
    let parameters = fitted.rows.iter().map(|row| {
        let quantiles: serde_json::Map<String, Value> = QUANTILES
            .iter()
            .zip(&row.quantiles)
            .map(|(q, (recorded, fitted))| {
                (quantile_name(*q), json!({ "recorded": exact(*recorded), "fitted": exact(*fitted) }))
            })
            .collect();
        json!({
            "name": row.name, "unit": row.unit, "distribution": row.distribution,
            "training_values": row.training_values, "held_out_values": row.held_out_values,
            "ks": exact(row.ks), "quantiles": quantiles,
        })
    });
    json!({
        "format_version": FORMAT_VERSION,
        "recipe": {
            "ctxsim": env!("CARGO_PKG_VERSION"), "command": "generate --fit", "seed": args.seed, "profile": base.name,
            "holdout_millionths": args.holdout, "tokens": args.session.tokens,
        },
        "skipped": skipped,
        "training_sessions": fitted.training_sessions,
        "held_out_sessions": fitted.held_out_sessions,
        "parameters": parameters.collect::<Vec<_>>(),
        "profile": profile_json(&fitted.profile),
    })
}
