//! `ctxsim policies`, `metrics` and `formats`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ctxsim::policy::{
    Param, ParamValue, PolicyConfig, Preset, Strategy, common_params, load_preset, preset_names, words,
};
use ctxsim::provider::Models;
use ctxsim::provider::model::SUBSTITUTE;
use ctxsim::report::grid::Grid;
use ctxsim::report::json;
use ctxsim::{ingest, metrics};
use serde_json::json;

use super::args::Format;
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;

#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// Show this policy
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Check a policy file
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub check: Option<PathBuf>,
    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct ListArgs {
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

pub fn left(title: &str) -> (String, bool) {
    (title.to_owned(), false)
}

pub fn right(title: &str) -> (String, bool) {
    (title.to_owned(), true)
}

/// `ctxsim metrics`.
pub fn metrics(args: ListArgs, terminal: &Terminal) -> Outcome {
    let mut grid = Grid::new([left("metric"), left("unit"), left("better"), left("meaning")]);
    for m in metrics::METRICS {
        grid.rows.push([m.name, m.unit, m.better.name(), m.doc].map(str::to_owned).to_vec());
    }
    terminal.print_grid(grid, args.format)?;
    if args.format == Format::Table {
        let causes: Vec<&str> = ctxsim::cause::Cause::ALL.iter().map(|c| c.name()).collect();
        terminal.print(&format!("\n{{cause}} is one of {}.\n", causes.join(", ")))?;
    }
    Ok(exit::DONE)
}

/// `ctxsim formats`.
pub fn formats(args: ListArgs, terminal: &Terminal) -> Outcome {
    let mut grid = Grid::new([left("format"), left("files"), left("kept in"), left("what")]);
    for f in ingest::FORMATS {
        let files: Vec<String> = f.extensions.iter().map(|e| format!("*.{e}")).collect();
        grid.rows.push(vec![f.name.to_owned(), files.join(" "), f.folders.join(" "), f.what.to_owned()]);
    }
    terminal.print_grid(grid, args.format)?;
    Ok(exit::DONE)
}

/// `ctxsim policies`.
pub fn policies(args: &PoliciesArgs, terminal: &Terminal) -> Outcome {
    if let Some(file) = &args.check {
        let preset = load_preset(&file.to_string_lossy())?;
        check(&preset, &file.to_string_lossy())?;
        let config = with_defaults(&preset, &preset.name);
        super::check::warn_of(&config, &Models::builtin()?, terminal)?;
        let (name, count) = (&preset.name, preset.params.len());
        terminal.print(&format!("{}: policy {name} is right, with {count} parameters\n", file.display()))?;
        return Ok(exit::DONE);
    }
    if let Some(name) = &args.name {
        return policy(&load_preset(name)?, args.list.format, terminal);
    }
    let mut grid = Grid::new([left("policy"), right("parameters"), left("what"), left("version")]);
    for name in preset_names() {
        let preset = load_preset(name)?;
        let count = preset.params.len().to_string();
        grid.rows.push(vec![preset.name.clone(), count, preset.summary.clone(), preset.version.clone()]);
    }
    terminal.print_grid(grid, args.list.format)?;
    if args.list.format == Format::Table {
        let mut text = "\nEvery policy also takes:\n".to_owned();
        for param in common_params() {
            let _ = writeln!(text, "  {} = {}: {}", param.name, param.default, param.doc);
        }
        terminal.print(&text)?;
    }
    Ok(exit::DONE)
}

/// The preset with nothing set.
fn with_defaults(preset: &Arc<Preset>, label: &str) -> PolicyConfig {
    let (set, common, warnings) = Default::default();
    PolicyConfig { label: label.to_owned(), preset: preset.clone(), set, common, warnings }
}

/// A rule is worked out only where its conditions hold, so a slip in it shows with the right parameters
/// and model only: binds the preset to every model, with its defaults and with each of its words in turn.
fn check(preset: &Arc<Preset>, label: &str) -> ctxsim::Result<()> {
    let models = Models::builtin()?;
    let mut settings = vec![BTreeMap::new()];
    for param in &preset.params {
        let values: Vec<ParamValue> = match &param.default {
            ParamValue::Text(_) => param.choices.iter().cloned().map(ParamValue::Text).collect(),
            ParamValue::Bool(_) => vec![ParamValue::Bool(false), ParamValue::Bool(true)],
            ParamValue::Int(_) | ParamValue::Decimal(_) | ParamValue::List(_) => Vec::new(),
        };
        settings.extend(values.into_iter().map(|value| BTreeMap::from([(param.name.clone(), value)])));
    }
    for set in settings {
        let (common, warnings) = (BTreeMap::new(), Vec::new());
        let config = PolicyConfig { label: label.to_owned(), preset: preset.clone(), set, common, warnings };
        models.iter().filter(|m| m.is_simulated()).try_for_each(|m| config.strategy(m, &models).map(drop))?;
    }
    Ok(())
}

fn policy(preset: &Arc<Preset>, format: Format, terminal: &Terminal) -> Outcome {
    let models = Models::builtin()?;
    let model = models.get(SUBSTITUTE)?;
    let strategy = with_defaults(preset, &preset.name).strategy(model, &models)?;
    if format == Format::Json {
        let value = json!({
            "name": preset.name, "version": preset.version, "summary": preset.summary,
            "sources": preset.sources, "params": preset.params, "model": model.id,
            "rules": words::rules(&strategy), "recovery": words::recovery(&strategy),
        });
        terminal.print_bytes(&json::pretty(&value))?;
        return Ok(exit::DONE);
    }
    if format != Format::Table {
        let columns = [left("parameter"), left("default"), left("unit"), left("allowed"), left("meaning")];
        let mut grid = Grid::new(columns);
        grid.rows.extend(
            preset
                .params
                .iter()
                .map(|p| vec![p.name.clone(), default_of(p), p.unit.clone(), allowed(p), p.doc.clone()]),
        );
        terminal.print_grid(grid, format)?;
        return Ok(exit::DONE);
    }
    let mut text = format!("{}: {}\n{}\n", preset.name, preset.summary, preset.version);
    for param in &preset.params {
        let unit = if param.unit.is_empty() { String::new() } else { format!(" {}", param.unit) };
        let allowed = allowed(param);
        let allowed = if allowed.is_empty() { allowed } else { format!("  [{allowed}]") };
        let _ = writeln!(text, "\n{} = {}{unit}{allowed}\n    {}", param.name, default_of(param), param.doc);
    }
    text.push_str(&rules_text(&strategy, &model.id));
    if !preset.sources.is_empty() {
        let _ = writeln!(text, "\nSources:");
    }
    for source in &preset.sources {
        let _ = writeln!(text, "  {source}");
    }
    terminal.print(&text)?;
    Ok(exit::DONE)
}

/// The rules with their numbers on a model, and what happens at an overflow.
fn rules_text(strategy: &Strategy, model: &str) -> String {
    let mut text = String::new();
    if !strategy.rules.is_empty() {
        let _ = writeln!(text, "\nRules, with these defaults on {model}:");
    }
    for rule in words::rules(strategy) {
        let _ = writeln!(text, "  {}: {}", rule.id, rule.at);
        for line in rule.lines {
            let _ = writeln!(text, "    {line}");
        }
    }
    let recovery = words::recovery(strategy);
    if !recovery.is_empty() {
        let _ = writeln!(text, "\nWhen the prompt does not fit:");
    }
    for step in recovery {
        let _ = writeln!(text, "  {step}");
    }
    text
}

fn default_of(param: &Param) -> String {
    match &param.default_if {
        None => param.default.to_string(),
        Some((ability, value)) => {
            let ability = serde_json::to_value(ability).ok();
            let words = ability.as_ref().and_then(|v| v.as_str()).unwrap_or_default().replace('_', " ");
            format!("{} ({value} with {words})", param.default)
        }
    }
}

fn allowed(param: &Param) -> String {
    match param.range {
        Some((low, high)) => format!("{low} to {high}"),
        None => param.choices.join(", "),
    }
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Failure {
        Failure { code: exit::USAGE, error: error.into() }
    }
}
