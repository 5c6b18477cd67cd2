//! `ctxsim generate`: synthetic sessions, and profiles fitted to recordings.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use clap::Args;
use ctxsim::generate::{Profile, profile_names, session, session_id};
use ctxsim::policy::{Param, ParamValue, PolicySpec};
use ctxsim::report::files::OutputDir;
use ctxsim::report::grid::{Grid, counted};
use ctxsim::report::json;
use ctxsim::session::trace;
use ctxsim::sweep::{Control, corpus};

use super::args::{Format, InputArgs, OutputArgs, SessionArgs};
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::progress::{self, Progress};
use super::{generate_fit, pictures};

/// End of the command's help.
pub const EXAMPLES: &str = "Examples:
  ctxsim generate --profile interactive-coding --sessions 100 --set turns=3 --set 'result_tokens=ln(6, 1.2) in 1..20000' -o synthetic
  ctxsim generate --fit ~/.claude/projects -o fitted

A parameter's value is a number or a distribution: ln(MU, SIGMA), uniform(LOW, HIGH), geometric(P), cycle(A, B, ...), \
OFFSET + one of these, or a mixture WEIGHT: VALUE | WEIGHT: VALUE, cut off by `in LOW..HIGH`. `--list` shows the \
profiles, `--list --profile NAME` the parameters of one. --against makes sessions for the edges of a policy's thresholds. The same profile, seed and number give the same bytes on every \
machine, and the first sessions are the same however many there are. --fit compares the fitted profile with recordings \
that it was not fitted to; -o writes it as fitted.toml, which --profile takes.";

/// Profile of `--against` without another.
const AGAINST: &str = "adversarial-thresholds";

/// A client that does not count tokens takes so many characters for one.
const UTF16_PER_TOKEN: i64 = 4;

/// Larger sizes are windows, not results.
const MAX_AIMED_UTF16: i64 = 2_000_000;

/// Profile whose parameters stay where a fit sees nothing of them.
const FIT_FROM: &str = "interactive-coding";

#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// What kind of sessions: a name of --list, or a TOML file
    #[arg(long, value_name = "NAME", help_heading = "Generate")]
    pub profile: Option<String>,
    /// How many sessions
    #[arg(long, value_name = "N", help_heading = "Generate")]
    pub sessions: Option<u64>,
    /// Set a parameter of the profile
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "fit", help_heading = "Generate")]
    pub set: Vec<String>,
    /// Results one character below, at and above every size that this policy's parameters name
    #[arg(long, value_name = "POLICY", conflicts_with = "fit", help_heading = "Generate")]
    pub against: Option<String>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Generate")]
    pub seed: u64,
    /// List the profiles, or the parameters of --profile
    #[arg(long, conflicts_with_all = ["fit", "sessions"], help_heading = "Generate")]
    pub list: bool,
    /// Fit a profile to INPUT
    #[arg(long, help_heading = "Fit")]
    pub fit: bool,
    /// Share of the recordings, by hash of their id, that the fit is compared with instead
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = super::tune::share, help_heading = "Fit")]
    pub holdout: u64,
    #[command(flatten)]
    pub session: SessionArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Most sessions of a run; more is a slip.
const MAX_SESSIONS: u64 = 10_000_000;

/// Runs the command.
pub fn run(args: &GenerateArgs, terminal: &Terminal) -> Outcome {
    if !args.fit && !args.input.inputs.is_empty() {
        let message = format!("INPUT is what --fit reads; write --fit {}", args.input.inputs.join(" "));
        return Err(Failure::new(exit::USAGE, message));
    }
    if args.sessions.is_some_and(|n| n == 0 || n > MAX_SESSIONS) {
        return Err(Failure::new(exit::USAGE, format!("--sessions is a number from 1 to {MAX_SESSIONS}")));
    }
    let name = args.profile.as_deref().or(args.against.as_ref().map(|_| AGAINST));
    let mut profile = name.map(|name| resolve(name, &args.set)).transpose()?;
    if let (Some(policy), Some(profile)) = (&args.against, &mut profile) {
        aim(profile, policy)?;
    }
    if args.list {
        return list(profile.as_ref(), args.output.format, terminal);
    }
    if args.fit {
        let base = profile.map_or_else(|| resolve(FIT_FROM, &args.set), Ok)?;
        return generate_fit::run(args, &base, terminal);
    }
    let missing = |what: &str| {
        Failure::new(exit::USAGE, format!("{what} is missing; `ctxsim generate --help` shows how"))
    };
    let profile = profile.ok_or_else(|| {
        Failure::new(
            exit::USAGE,
            format!("--profile is missing; write one of {}", profile_names().join(", ")),
        )
    })?;
    let sessions = args.sessions.ok_or_else(|| missing("--sessions N"))?;
    let out = args.output.out.as_deref().ok_or_else(|| missing("-o DIR"))?;
    let dir = OutputDir::open(out, args.output.force)?;
    let control = progress::control(terminal);
    write_sessions(args, &profile, sessions, &dir, &control, terminal)
}

fn resolve(name: &str, set: &[String]) -> Result<Profile, Failure> {
    let mut profile = Profile::load(name)?;
    for pair in set {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::new(exit::USAGE, format!("--set {pair}: write KEY=VALUE")))?;
        profile.set(key.trim(), value.trim())?;
    }
    Ok(profile)
}

/// Makes every result of a size at which the policy may decide the other way.
fn aim(profile: &mut Profile, policy: &str) -> Result<(), Failure> {
    let config = policy.parse::<PolicySpec>()?.load(&[], &[])?;
    let size = |param: &Param| {
        let factor = match param.unit.as_str() {
            "utf16" | "bytes" => 1,
            "tokens" => UTF16_PER_TOKEN,
            _ => return None,
        };
        match config.set.get(&param.name).unwrap_or(&param.default) {
            ParamValue::Int(n) => n.checked_mul(factor).filter(|n| (2..=MAX_AIMED_UTF16).contains(n)),
            _ => None,
        }
    };
    let sizes: BTreeSet<i64> =
        config.preset.params.iter().filter_map(size).flat_map(|n| n - 1..=n + 1).collect();
    if sizes.is_empty() {
        let message = format!(
            "--against {policy}: no parameter of it is a size, so there is nothing to aim at; for counts and shares of the \
             window there are --profile adversarial-tiny-results and adversarial-window"
        );
        return Err(Failure::new(exit::USAGE, message));
    }
    let list: Vec<String> = sizes.iter().map(i64::to_string).collect();
    Ok(profile.set("result_utf16", &format!("cycle({})", list.join(", ")))?)
}

/// Writes the traces of a profile, and the profile itself, which makes them again.
pub(super) fn write_sessions(
    args: &GenerateArgs,
    profile: &Profile,
    sessions: u64,
    dir: &OutputDir,
    control: &Arc<Control>,
    terminal: &Terminal,
) -> Outcome {
    let is_here = |index: &u64| {
        args.session.shard.is_none_or(|shard| shard.contains(&session_id(profile, args.seed, *index)))
    };
    let indexes: Vec<u64> = (0..sessions).filter(is_here).collect();
    let names: BTreeSet<String> =
        indexes.iter().map(|i| trace_name(&session_id(profile, args.seed, *i))).collect();
    let head = format!(
        "# Made by `ctxsim generate --profile FILE --seed {} --sessions {sessions}`, FILE being this one.\n",
        args.seed
    );
    dir.write("profile.toml", profile.toml(&head, |_| String::new()).as_bytes())?;
    let bar = Progress::start(terminal, control, "sessions", indexes.len() as u64);
    let written = corpus::map_inputs(&indexes, args.session.jobs, control, |index| {
        let session = session(profile, args.seed, *index);
        let mut file = dir.create(&trace_name(&session.id))?;
        trace::write(&session, &mut file)?;
        file.commit()?;
        Ok::<usize, Failure>(session.steps.len())
    })?;
    drop(bar);
    let interrupted = written.iter().any(Option::is_none);
    let requests = written.into_iter().flatten().sum::<Result<usize, Failure>>()?;
    let others = other_traces(dir, &names)?;
    if others > 0 {
        let what = counted(others, "trace");
        terminal
            .warn(&format!("{}: {what} of other runs were there before and still are", dir.path().display()));
    }
    terminal.note(&format!(
        "{} with {} of profile {} written to {}",
        counted(indexes.len() as u64, "session"),
        counted(requests as u64, "request"),
        profile.name,
        dir.path().display()
    ));
    Ok(if interrupted { exit::INTERRUPTED } else { exit::DONE })
}

fn trace_name(session_id: &str) -> String {
    format!("{}.trace.jsonl", pictures::file_name(session_id))
}

/// Traces in the folder that this run did not write.
fn other_traces(dir: &OutputDir, names: &BTreeSet<String>) -> io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(dir.path())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        count += u64::from(name.ends_with(".trace.jsonl") && !names.contains(&name));
    }
    Ok(count)
}

fn list(profile: Option<&Profile>, format: Format, terminal: &Terminal) -> Outcome {
    let left = |title: &str| (title.to_owned(), false);
    let grid = match profile {
        None => {
            let mut grid = Grid::new([left("profile"), left("what")]);
            for name in profile_names() {
                grid.rows.push(vec![name.to_owned(), Profile::load(name)?.summary]);
            }
            grid
        }
        Some(profile) if format == Format::Json => {
            terminal.print_bytes(&json::pretty(&profile_json(profile)))?;
            return Ok(exit::DONE);
        }
        Some(profile) => {
            let mut grid = Grid::new(["parameter", "value", "unit", "range", "meaning"].map(left));
            let tools: Vec<String> =
                profile.tools.iter().map(|(name, weight)| format!("{name}:{weight}")).collect();
            let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
            grid.rows.push(row(["model", &profile.model, "", "", "model the sessions count as recorded on"]));
            grid.rows.push(row([
                "tools",
                &tools.join(","),
                "",
                "",
                "how often each tool is called, relative to the others",
            ]));
            for param in &profile.params {
                let range = format!("{}..{}", param.range.0, param.range.1);
                grid.rows.push(row([&param.name, &param.value.to_string(), &param.unit, &range, &param.doc]));
            }
            grid
        }
    };
    terminal.print_grid(grid, format)?;
    if let (Some(profile), Format::Table) = (profile, format) {
        let sources: Vec<String> = profile.sources.iter().map(|source| format!("  {source}\n")).collect();
        terminal.print(&format!(
            "\n{}: {}\nSources:\n{}",
            profile.name,
            profile.summary,
            sources.concat()
        ))?;
    }
    Ok(exit::DONE)
}

/// A profile for programs.
pub(super) fn profile_json(profile: &Profile) -> serde_json::Value {
    let params = profile.params.iter().map(|param| {
        serde_json::json!({
            "name": param.name, "value": param.value.to_string(), "unit": param.unit,
            "range": [param.range.0, param.range.1], "doc": param.doc,
        })
    });
    let tools: serde_json::Map<String, serde_json::Value> =
        profile.tools.iter().map(|(name, weight)| (name.clone(), (*weight).into())).collect();
    serde_json::json!({
        "name": profile.name, "summary": profile.summary, "sources": profile.sources, "model": profile.model,
        "tools": tools, "params": params.collect::<Vec<_>>(),
    })
}
