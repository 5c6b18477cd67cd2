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
        ms => super::explain::time_span(ms),
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
            ("look-back", format!("{} positions, the breakpoint included", cache.lookback_positions)),
            ("breakpoints", format!("at most {}", cache.max_markers)),
            ("a hit refreshes", word(cache.refresh)),
        ]);
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
        "cache": model.cache.as_ref().map(|c| json!({
            "minimum_tokens": c.minimum_tokens, "lookback_positions": c.lookback_positions,
            "max_markers": c.max_markers, "short_ttl_ms": c.short_ttl_ms, "long_ttl_ms": c.long_ttl_ms,
        })),
        "thinking": word(model.thinking), "binding": word(model.binding),
        "adaptive_thinking": model.adaptive_thinking, "server_editing": model.server_editing,
        "server_compaction": model.server_compaction, "sources": model.sources,
    })
}

