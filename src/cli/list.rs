//! `ctxsim policies`, `models`, `metrics` and `formats`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ctxsim::policy::{
    Param, ParamValue, PolicyConfig, Preset, Strategy, common_params, load_preset, preset_names, words,
};
use ctxsim::provider::cache_spec::{CacheKind, CacheSpec};
use ctxsim::provider::model::SUBSTITUTE;
use ctxsim::provider::price::{Date, Price, Rates};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::report::grid::Grid;
use ctxsim::report::json;
use ctxsim::{ingest, metrics};
use serde_json::json;

use super::args::Format;
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::resolve;

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

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Show this model
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// More models, or other prices (TOML)
    #[arg(long, value_name = "FILE")]
    pub models_file: Vec<PathBuf>,
    /// Show the prices of this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE")]
    pub price_date: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct ListArgs {
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

fn left(title: &str) -> (String, bool) {
    (title.to_owned(), false)
}

fn right(title: &str) -> (String, bool) {
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

/// `ctxsim models`.
pub fn models(args: &ModelsArgs, terminal: &Terminal) -> Outcome {
    let models = resolve::load_models(&args.models_file)?;
    let date = args.price_date.as_deref().map(str::parse::<Date>).transpose()?;
    if let Some(name) = &args.name {
        return model(models.get(name)?, date, args.list.format, terminal);
    }
    let columns = [
        left("model"),
        right("window"),
        right("input"),
        right("write 5m"),
        right("write 1h"),
        right("read"),
        right("output"),
        right("minimum"),
        left("TTL"),
        left("price of"),
        left("simulated"),
    ];
    let mut grid = Grid::new(columns);
    for (i, rank) in [(9, 5), (8, 4), (7, 3), (4, 2), (3, 1)] {
        grid.columns[i].rank = rank;
    }
    for model in models.iter() {
        let price = model.price(date);
        let rate = |read: fn(&Rates) -> u64| price.map(|p| per_million(read(&p.rates))).unwrap_or_default();
        grid.rows.push(vec![
            model.id.clone(),
            metrics::group_digits(u128::from(model.window_tokens)),
            rate(|r| r.input),
            rate(|r| r.write_short),
            rate(|r| r.write_long),
            rate(|r| r.read),
            rate(|r| r.output),
            model.cache.as_ref().map(|c| c.minimum_tokens.to_string()).unwrap_or_default(),
            model.cache.as_ref().map(|c| ttls(c.short_ttl_ms, c.long_ttl_ms)).unwrap_or_default(),
            price.map(|p| p.as_of.clone()).unwrap_or_default(),
            if model.is_simulated() { "yes".to_owned() } else { "price only".to_owned() },
        ]);
    }
    terminal.print_grid(grid, args.list.format)?;
    if args.list.format == Format::Table {
        terminal.print("\nPrices are USD per million tokens.\n")?;
    }
    Ok(exit::DONE)
}

/// Pico-dollars per token are millionths of dollars per million tokens.
fn per_million(rate: u64) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = metrics::write_decimal(&mut text, u128::from(rate), 6);
    text
}

fn ttls(short_ms: i64, long_ms: i64) -> String {
    format!("{}, {}", duration(short_ms), duration(long_ms))
}

/// A duration in its largest whole unit.
pub fn duration(ms: i64) -> String {
    match ms {
        ms if ms % 3_600_000 == 0 => format!("{} h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms => ctxsim::report::story::time_span(ms),
    }
}

fn model(model: &ModelSpec, date: Option<Date>, format: Format, terminal: &Terminal) -> Outcome {
    let price = model.price(date);
    if format == Format::Json {
        terminal.print_bytes(&json::pretty(&model_json(model, price)))?;
        return Ok(exit::DONE);
    }
    let mut grid = Grid::new([left("property"), left("value")]);
    for (name, value) in facts(model, price) {
        grid.rows.push(vec![name.to_owned(), value]);
    }
    for source in &model.sources {
        grid.rows.push(vec![format!("source: {}", source.what), format!("{} ({})", source.url, source.date)]);
    }
    terminal.print_grid(grid, format)?;
    Ok(exit::DONE)
}

/// Lower-case word of an enum, as its data files spell it.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn facts(model: &ModelSpec, price: Option<&Price>) -> Vec<(&'static str, String)> {
    let tokens = |n: u64| format!("{} tokens", metrics::group_digits(u128::from(n)));
    let mut facts = vec![
        ("model", model.id.clone()),
        ("also called", model.aliases.join(", ")),
        ("vendor", model.vendor.clone()),
        ("window", tokens(model.window_tokens)),
        ("largest output", tokens(model.max_output_tokens)),
        ("tokenizer", word(model.tokenizer)),
    ];
    if let Some(price) = price {
        facts.push(("price, USD per million tokens", rates(&price.rates)));
        if let Some(tier) = &price.tier {
            let at = if tier.inclusive { "from" } else { "above" };
            let above = metrics::group_digits(u128::from(tier.above_prompt_tokens));
            facts.push(("price of long prompts", format!("{at} {above} tokens: {}", rates(&tier.rates))));
        }
        facts.push(("price as of", price.as_of.clone()));
    }
    if let Some(cache) = &model.cache {
        facts.extend([
            ("cached from", tokens(cache.minimum_tokens)),
            ("cache life", ttls(cache.short_ttl_ms, cache.long_ttl_ms)),
        ]);
        facts.extend(cache_facts(&cache.kind));
    }
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    facts.extend([
        ("earlier thinking", word(model.thinking)),
        ("thinking is bound", word(model.binding)),
        ("adaptive thinking", yes_no(model.adaptive_thinking)),
        ("edits on the server", yes_no(model.server_editing)),
        ("compacts on the server", yes_no(model.server_compaction)),
    ]);
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// What a cache of this kind is like.
fn cache_facts(kind: &CacheKind) -> Vec<(&'static str, String)> {
    let tokens = |n: u64| format!("{} tokens", metrics::group_digits(u128::from(n)));
    match kind {
        CacheKind::Breakpoints(c) => vec![
            ("look-back", format!("{} positions, the breakpoint included", c.lookback_positions)),
            ("breakpoints", format!("at most {}", c.max_markers)),
            ("a hit refreshes", word(c.refresh)),
        ],
        CacheKind::MessageEnds(c) => vec![
            ("can be read", "where messages end, and at explicit breakpoints".to_owned()),
            ("look-back", format!("{} earlier ends of messages", c.lookback_endings)),
            ("breakpoints", format!("at most {} written, the implicit one included", c.max_writes)),
        ],
        CacheKind::Prefix(c) => vec![
            ("can be read", "any prefix served before".to_owned()),
            ("in steps of", tokens(c.grid.step_tokens)),
            ("answers are cached", if c.covers_answers { "yes" } else { "no" }.to_owned()),
            ("reuse", if c.retention.is_some() { "by chance" } else { "always" }.to_owned()),
        ],
        CacheKind::PrefixUnits(c) => vec![
            ("can be read", "ends of prompts and answers, and prefixes that requests shared".to_owned()),
            ("in steps of", c.interval_tokens.map(tokens).unwrap_or_default()),
        ],
        CacheKind::Blocks(c) => vec![
            ("can be read", "whole blocks".to_owned()),
            ("in steps of", tokens(u64::from(c.block_tokens))),
            ("holds", c.capacity_blocks.map_or("everything".to_owned(), |n| format!("{n} blocks"))),
        ],
    }
}

fn rates(r: &Rates) -> String {
    let [input, short, long, read, output] =
        [r.input, r.write_short, r.write_long, r.read, r.output].map(per_million);
    format!("input {input}, write 5m {short}, write 1h {long}, read {read}, output {output}")
}

fn model_json(model: &ModelSpec, price: Option<&Price>) -> serde_json::Value {
    let rates = |r: &Rates| {
        let number = |n: u64| per_million(n).parse::<serde_json::Number>().ok();
        json!({
            "input": number(r.input), "cache_write_5m": number(r.write_short),
            "cache_write_1h": number(r.write_long), "cache_read": number(r.read), "output": number(r.output),
        })
    };
    let tier = |p: &Price| {
        p.tier
            .as_ref()
            .map(|t| json!({"above_prompt_tokens": t.above_prompt_tokens, "rates": rates(&t.rates)}))
    };
    json!({
        "id": model.id, "aliases": model.aliases, "vendor": model.vendor,
        "window_tokens": model.window_tokens, "max_output_tokens": model.max_output_tokens,
        "tokenizer": word(model.tokenizer),
        "price_usd_per_million_tokens": price.map(|p| rates(&p.rates)),
        "long_prompts": price.and_then(tier),
        "price_as_of": price.map(|p| &p.as_of),
        "cache": model.cache.as_ref().map(cache_json),
        "thinking": word(model.thinking), "binding": word(model.binding),
        "adaptive_thinking": model.adaptive_thinking, "server_editing": model.server_editing,
        "server_compaction": model.server_compaction, "sources": model.sources,
    })
}

fn cache_json(cache: &CacheSpec) -> serde_json::Value {
    let mut json = json!({
        "kind": cache.kind.name(), "minimum_tokens": cache.minimum_tokens,
        "short_ttl_ms": cache.short_ttl_ms, "long_ttl_ms": cache.long_ttl_ms,
    });
    let own = match &cache.kind {
        CacheKind::Breakpoints(c) => {
            json!({"lookback_positions": c.lookback_positions, "max_markers": c.max_markers})
        }
        CacheKind::MessageEnds(c) => {
            json!({"lookback_endings": c.lookback_endings, "max_writes": c.max_writes})
        }
        CacheKind::Prefix(c) => json!({
            "grid_tokens": c.grid.step_tokens, "grid_offset_tokens": c.grid.offset_tokens,
            "covers_answers": c.covers_answers, "by_chance": c.retention.is_some(),
        }),
        CacheKind::PrefixUnits(c) => json!({"interval_tokens": c.interval_tokens}),
        CacheKind::Blocks(c) => {
            json!({"block_tokens": c.block_tokens, "capacity_blocks": c.capacity_blocks})
        }
    };
    if let (Some(json), serde_json::Value::Object(own)) = (json.as_object_mut(), own) {
        json.extend(own);
    }
    json
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Failure {
        Failure { code: exit::USAGE, error: error.into() }
    }
}
