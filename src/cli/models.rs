//! `ctxsim models`.

use std::path::PathBuf;

use clap::Args;
use ctxsim::metrics;
use ctxsim::provider::ModelSpec;
use ctxsim::provider::cache_spec::{CacheKind, CacheSpec};
use ctxsim::provider::price::{Date, Hours, Price, Rates, Tier};
use ctxsim::report::grid::Grid;
use ctxsim::report::json;
use serde_json::json;

use super::args::Format;
use super::exit::{self, Outcome};
use super::list::{ListArgs, left, right};
use super::output::Terminal;
use super::resolve;

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Show this model
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// More models, or other prices (TOML, or LiteLLM's JSON)
    #[arg(long, value_name = "FILE")]
    pub models_file: Vec<PathBuf>,
    /// Show the prices of this day (YYYY-MM-DD)
    #[arg(long, value_name = "DATE")]
    pub price_date: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Runs the command.
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
        left("valid"),
        right("minimum"),
        left("TTL"),
        left("price of"),
        left("simulated"),
        left("source"),
    ];
    let mut grid = Grid::new(columns);
    for (i, rank) in [(12, 7), (9, 6), (8, 5), (7, 1), (4, 4), (3, 3), (10, 2)] {
        grid.columns[i].rank = rank;
    }
    for model in models.iter() {
        let prices = shown(model, date);
        if prices.is_empty() {
            grid.rows.push(row(model, None));
        }
        grid.rows.extend(prices.into_iter().map(|price| row(model, Some(price))));
    }
    terminal.print_grid(grid, args.list.format)?;
    if args.list.format == Format::Table {
        terminal.print("\nPrices are USD per million tokens.\n")?;
    }
    for found in models.lint() {
        terminal.warn(&format!("price table: {found}"));
    }
    Ok(exit::DONE)
}

/// The prices of a day, or all of them.
fn shown(model: &ModelSpec, date: Option<Date>) -> Vec<&Price> {
    let valid = |price: &&Price| {
        let date = |limit: Option<Date>, inside: fn(&Date, &Date) -> bool| {
            limit.zip(date).is_none_or(|(limit, date)| inside(&limit, &date))
        };
        date(price.from, |from, day| from <= day) && date(price.to, |to, day| day <= to)
    };
    model.prices.rows().iter().filter(valid).collect()
}

fn row(model: &ModelSpec, price: Option<&Price>) -> Vec<String> {
    let rate = |read: fn(&Rates) -> u64| price.map(|p| per_million(read(&p.rates))).unwrap_or_default();
    vec![
        model.id.clone(),
        metrics::group_digits(u128::from(model.window_tokens)),
        rate(|r| r.input),
        rate(|r| r.write_short),
        rate(|r| r.write_long),
        rate(|r| r.read),
        rate(|r| r.output),
        price.map(validity).unwrap_or_default(),
        model.cache.as_ref().map(|c| c.minimum_tokens.to_string()).unwrap_or_default(),
        model.cache.as_ref().map(|c| ttls(c.short_ttl_ms, c.long_ttl_ms)).unwrap_or_default(),
        price.map(|p| p.as_of.clone()).unwrap_or_default(),
        if model.is_simulated() { "yes".to_owned() } else { "price only".to_owned() },
        price.map(|p| p.source.clone()).unwrap_or_default(),
    ]
}

/// Days and hours of a price, where it has not all of them.
fn validity(price: &Price) -> String {
    let hours = match price.hours {
        Hours::Always => None,
        Hours::Peak => Some("peak hours".to_owned()),
        Hours::OffPeak => Some("other hours".to_owned()),
    };
    let from = price.from.map(|day| format!("from {day}"));
    let to = price.to.map(|day| format!("to {day}"));
    [from, to, hours].into_iter().flatten().collect::<Vec<_>>().join(" ")
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
        terminal.print_bytes(&json::pretty(&model_json(model, price, &shown(model, date))))?;
        return Ok(exit::DONE);
    }
    let mut grid = Grid::new([left("property"), left("value")]);
    for (name, value) in facts(model, &shown(model, date)) {
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

fn facts(model: &ModelSpec, prices: &[&Price]) -> Vec<(&'static str, String)> {
    let tokens = |n: u64| format!("{} tokens", metrics::group_digits(u128::from(n)));
    let mut facts = vec![
        ("model", model.id.clone()),
        ("also called", model.aliases.join(", ")),
        ("vendor", model.vendor.clone()),
        ("window", tokens(model.window_tokens)),
        ("largest output", tokens(model.max_output_tokens)),
        ("tokenizer", word(model.tokenizer)),
    ];
    for price in prices {
        facts.extend(price_facts(price));
    }
    facts.push(("other prices", factors(model)));
    let rent = model.storage_pusd_per_token_hour.map(per_million);
    let rent = rent.map(|usd| format!("{usd} USD per million tokens and hour, in no cost"));
    facts.push(("explicit caches", rent.unwrap_or_default()));
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
            ("reads at most", c.cacheable_max_tokens.map(tokens).unwrap_or_default()),
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

fn price_facts(price: &Price) -> Vec<(&'static str, String)> {
    let valid = match validity(price) {
        valid if valid.is_empty() => valid,
        valid => format!("{valid}: "),
    };
    let mut facts = vec![("price, USD per million tokens", format!("{valid}{}", rates(&price.rates)))];
    if let Some(tier) = &price.tier {
        let at = if tier.inclusive { "from" } else { "above" };
        let above = metrics::group_digits(u128::from(tier.above_prompt_tokens));
        let of = counted(tier);
        facts.push(("price of long prompts", format!("{at} {above} tokens{of}: {}", rates(&tier.rates))));
    }
    if let Some(fast) = &price.fast {
        let [input, output] = [fast.input, fast.output].map(per_million);
        facts.push(("price in fast mode", format!("input {input}, output {output}")));
    }
    facts.push(("price as of", format!("{} ({})", price.as_of, price.source)));
    facts.push(("doubts about the price", price.notes.clone()));
    facts
}

/// What a tier counts, where that is not the whole prompt.
fn counted(tier: &Tier) -> String {
    let classes = [
        ("plain", tier.counts.input),
        ("read", tier.counts.cache_read),
        ("written", tier.counts.cache_write),
    ];
    let named: Vec<&str> = classes.iter().filter(|(_, counts)| *counts).map(|(name, _)| *name).collect();
    if named.len() == classes.len() { String::new() } else { format!(" ({})", named.join(" and ")) }
}

fn factors(model: &ModelSpec) -> String {
    let f = &model.price_factors;
    let factors = [("batches", f.batch_percent), ("US only", f.us_percent), ("regional", f.regional_percent)];
    let known = factors.iter().filter_map(|(name, percent)| percent.map(|p| format!("{name} {p} %")));
    known.collect::<Vec<_>>().join(", ")
}

fn rates(r: &Rates) -> String {
    let [input, short, long, read, output] =
        [r.input, r.write_short, r.write_long, r.read, r.output].map(per_million);
    format!("input {input}, write 5m {short}, write 1h {long}, read {read}, output {output}")
}

fn number(pusd: u64) -> Option<serde_json::Number> {
    per_million(pusd).parse().ok()
}

fn rates_json(r: &Rates) -> serde_json::Value {
    json!({
        "input": number(r.input), "cache_write_5m": number(r.write_short),
        "cache_write_1h": number(r.write_long), "cache_read": number(r.read), "output": number(r.output),
    })
}

fn tier_json(tier: &Tier) -> serde_json::Value {
    let classes = [
        ("input", tier.counts.input),
        ("cache_read", tier.counts.cache_read),
        ("cache_write", tier.counts.cache_write),
    ];
    let counts: Vec<&str> = classes.iter().filter(|(_, counts)| *counts).map(|(name, _)| *name).collect();
    json!({
        "above_prompt_tokens": tier.above_prompt_tokens, "inclusive": tier.inclusive, "counts": counts,
        "rates": rates_json(&tier.rates),
    })
}

fn price_json(price: &Price) -> serde_json::Value {
    json!({
        "usd_per_million_tokens": rates_json(&price.rates),
        "long_prompts": price.tier.as_ref().map(tier_json),
        "fast": price.fast.map(|f| json!({"input": number(f.input), "output": number(f.output)})),
        "hours": price.hours, "from": price.from.map(|d| d.to_string()), "to": price.to.map(|d| d.to_string()),
        "as_of": price.as_of, "source": price.source, "notes": price.notes,
    })
}

fn model_json(model: &ModelSpec, price: Option<&Price>, prices: &[&Price]) -> serde_json::Value {
    json!({
        "id": model.id, "aliases": model.aliases, "vendor": model.vendor,
        "window_tokens": model.window_tokens, "max_output_tokens": model.max_output_tokens,
        "tokenizer": word(model.tokenizer),
        "price_usd_per_million_tokens": price.map(|p| rates_json(&p.rates)),
        "long_prompts": price.and_then(|p| p.tier.as_ref()).map(tier_json),
        "price_as_of": price.map(|p| &p.as_of),
        "prices": prices.iter().map(|p| price_json(p)).collect::<Vec<_>>(),
        "price_factors": model.price_factors,
        "storage_usd_per_million_token_hours": model.storage_pusd_per_token_hour.and_then(number),
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
            "cacheable_max_tokens": c.cacheable_max_tokens,
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
