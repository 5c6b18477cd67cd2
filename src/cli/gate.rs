//! `ctxsim gate`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ctxsim::Error;
use ctxsim::gate::baseline::RequestMark;
use ctxsim::gate::{Baseline, DEFAULT_RULES, Requests, Rule, Verdict, check, output};
use ctxsim::report::files::OutputFile;
use ctxsim::report::requests::{self, RunRecord};
use ctxsim::report::{ResultSet, json, table};

use super::args::jobs;
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::{join, scenario};

#[derive(Debug, Args)]
pub struct GateArgs {
    /// A folder of results, a results.json, or a scenario file to run
    #[arg(value_name = "RESULTS-or-SCENARIO")]
    pub subject: PathBuf,
    /// The baseline
    #[arg(long, value_name = "FILE")]
    pub baseline: PathBuf,
    /// What must hold, such as 'cost_usd rise <= 1%'
    #[arg(long = "rule", value_name = "RULE")]
    pub rules: Vec<String>,
    /// Write the baseline instead of comparing with it
    #[arg(long)]
    pub update: bool,
    /// Threads, for a scenario; 0 means one per core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = jobs)]
    pub jobs: usize,
    /// Write JUnit XML: a case for each cell and total
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub junit: Option<PathBuf>,
    /// Write SARIF: a result for each broken rule
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub sarif: Option<PathBuf>,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub markdown: Option<PathBuf>,
    /// Print annotations for GitHub, and add the table to the summary of the job
    #[arg(long, help_heading = "Output")]
    pub github: bool,
}

/// What is compared with the baseline.
struct Subject {
    results: ResultSet,
    requests: Requests,
    /// Rules of the scenario.
    rules: Vec<String>,
    /// How the run itself ended.
    code: u8,
}

/// Runs the command.
pub fn run(args: &GateArgs, terminal: &Terminal) -> Outcome {
    let typed = args.rules.iter().map(|rule| rule.parse()).collect::<Result<Vec<Rule>, _>>()?;
    let baseline = if args.update { None } else { Some(read_baseline(&args.baseline)?) };
    let subject = match args.subject.extension().is_some_and(|e| e == "toml") {
        true => of_scenario(args, terminal)?,
        false => of_results(&args.subject)?,
    };
    if subject.results.interrupted {
        let message =
            format!("{}: the run was interrupted, so there is nothing to judge", args.subject.display());
        return Err(Failure::new(exit::INTERRUPTED, message));
    }
    let Some(baseline) = baseline else {
        write(&args.baseline, &Baseline::of(&subject.results, &subject.requests).write())?;
        terminal.note(&format!("baseline written to {}", args.baseline.display()));
        return Ok(subject.code);
    };
    let rules = match (typed.is_empty(), subject.rules.is_empty()) {
        (false, _) => typed,
        (true, false) => subject.rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?,
        (true, true) => DEFAULT_RULES.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?,
    };
    let verdict = check(&baseline, &subject.results, &subject.requests, &rules);
    report(args, &verdict, terminal)?;
    Ok(if verdict.passed() { subject.code } else { exit::GATE })
}

fn report(args: &GateArgs, verdict: &Verdict, terminal: &Terminal) -> Result<(), Failure> {
    let baseline = args.baseline.display().to_string();
    let grid = output::grid(verdict);
    let mut text =
        if grid.rows.is_empty() { String::new() } else { table::draw(grid, terminal.style) + "\n" };
    for line in verdict.notes.iter().chain([&output::headline(verdict)]) {
        text.push_str(&table::harmless(line));
        text.push('\n');
    }
    terminal.print(&text)?;
    if let Some(path) = &args.junit {
        write(path, output::junit(verdict).map_err(|why| Failure::new(exit::USAGE, why))?.as_bytes())?;
    }
    if let Some(path) = &args.sarif {
        write(path, &json::pretty(&output::sarif(verdict, &baseline)))?;
    }
    if let Some(path) = &args.markdown {
        write(path, output::markdown(verdict).as_bytes())?;
    }
    if args.github {
        terminal.print(&output::github(verdict, &baseline))?;
        if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
            // The summary belongs to the job: other steps write to it too.
            let mut summary = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
            summary.write_all(output::markdown(verdict).as_bytes())?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes)?;
    Ok(file.commit()?)
}

fn read_baseline(path: &Path) -> Result<Baseline, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Baseline::read(path, &bytes)?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("there is no baseline {}; write it with --update", path.display());
            Err(Failure::new(exit::USAGE, message))
        }
        Err(source) => Err(Error::Io { path: path.to_owned(), source }.into()),
    }
}

fn of_scenario(args: &GateArgs, terminal: &Terminal) -> Result<Subject, Failure> {
    let mut requests = Requests::new();
    let mut watch = |run: &RunRecord<'_>| {
        let key = (run.session.to_owned(), run.policy.to_owned(), run.model.to_owned());
        requests.insert(key, run.record.requests.iter().map(RequestMark::of).collect());
    };
    let (results, rules, code) = scenario::results(&args.subject, args.jobs, &mut watch, terminal)?;
    Ok(Subject { results, requests, rules, code })
}

/// Results in a folder come with their requests.
fn of_results(path: &Path) -> Result<Subject, Failure> {
    let results = join::read(path)?;
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let mut requests = Requests::new();
    let file = folder.join("requests.csv");
    if file.is_file() {
        let bytes = std::fs::read(&file).map_err(|source| Error::Io { path: file.clone(), source })?;
        for (key, row) in requests::read(&file, &bytes)? {
            requests.entry(key).or_default().push(RequestMark::of(&row));
        }
    }
    Ok(Subject { results, requests, rules: Vec::new(), code: exit::DONE })
}
