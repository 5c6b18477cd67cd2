//! Every row of the price table, recomputed from its decimal strings, how a price is chosen and changed, and public
//! bug reports about prices with the dollars they give.

use ctxsim::provider::price::{Date, Price, TierName};
use ctxsim::provider::service::{Region, Service, Speed};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::usage::Usage;

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::PolicySpec;
use ctxsim::session::Session;
use ctxsim::sim::{FullRecorder, RunOptions, Scratch, Summary, run};

const HOUR_MS: i64 = 3_600_000;

const PICO: u128 = 1_000_000_000_000;

/// The table by another route than the product's: split by hand, quotes respected.
fn rows() -> Vec<Vec<String>> {
    let text = include_str!("../../src/provider/models/prices.csv");
    text.lines().map(split).collect()
}

fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// `tokens × price`, the price in USD per million tokens as its decimal string: digits times tokens, then
/// the point moved. One USD per million is 10^6 pico-dollars a token.
fn pusd(tokens: u64, price: &str) -> u128 {
    let digits: u128 = price.replace('.', "").parse().unwrap();
    let places = price.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u32);
    let scaled = u128::from(tokens) * digits * 1_000_000;
    assert_eq!(scaled % 10u128.pow(places), 0);
    scaled / 10u128.pow(places)
}

fn usage(uncached: u64, read: u64, short: u64, long: u64, output: u64) -> Usage {
    Usage {
        uncached_tokens: uncached,
        cache_read_tokens: read,
        cache_write_5m_tokens: short,
        cache_write_1h_tokens: long,
        output_tokens: output,
    }
}

/// Every row of the table, priced by the product on the row's own day and hour.
#[test]
fn every_row_costs_what_the_table_says() {
    let models = Models::builtin().unwrap();
    let table = rows();
    let column = |row: &[String], name: &str| {
        row[table[0].iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}"))].clone()
    };
    let mut checked = 0;
    for row in table.iter().skip(1) {
        let price = price_of_row(&models, row, &column);
        let (edge, inclusive) =
            (column(row, "tier_above_prompt_tokens").parse::<u64>(), column(row, "tier_inclusive") == "yes");
        let sizes: Vec<(u64, bool)> = match edge {
            Ok(edge) => vec![(7, false), (edge - 1, false), (edge, inclusive), (edge + 1, true)],
            Err(_) => vec![(7, false), (272_001, false), (1_000_000, false)],
        };
        for (tokens, long) in sizes {
            let name = |base: &str| if long { format!("tier_{base}") } else { base.to_owned() };
            for (class, base) in
                ["input", "cache_read", "cache_write_short", "cache_write_long"].iter().enumerate()
            {
                let mut of_class = [0; 4];
                of_class[class] = tokens;
                let [uncached, read, short, write_long] = of_class;
                let cost = price.cost(&usage(uncached, read, short, write_long, 333));
                let output = pusd(333, &column(row, &name("output")));
                // A class without a price of its own pays the input price.
                let own = column(row, &name(base));
                let rate = if own.is_empty() { column(row, &name("input")) } else { own };
                assert_eq!(cost.total(), pusd(tokens, &rate) + output, "{} {base} {tokens}", row[1]);
                assert_eq!(cost.output, output);
                assert_eq!(cost.tier == TierName::Long, long, "{} {tokens}", row[1]);
                checked += 1;
            }
        }
        let fast = price.fast.map(|fast| (fast.input, fast.output));
        let named = |name: &str| (!column(row, name).is_empty()).then(|| pusd(1, &column(row, name)) as u64);
        assert_eq!(fast, named("fast_input").zip(named("fast_output")), "{}", row[1]);
        assert_eq!(price.source, column(row, "source_url"));
        assert!(!price.as_of.is_empty());
    }
    assert!(checked >= (table.len() - 1) * 12, "{checked}");
}

/// The row again, found by what makes it valid.
fn price_of_row<'m>(
    models: &'m Models,
    row: &[String],
    column: &impl Fn(&[String], &str) -> String,
) -> &'m Price {
    let model = models.get(&row[1]).unwrap();
    let limits = [column(row, "effective_from"), column(row, "effective_to")];
    let date: Option<Date> = limits.iter().find(|day| !day.is_empty()).map(|day| day.parse().unwrap());
    // 2026-11-30 was a Monday.
    let monday = "2026-11-30".parse::<Date>().unwrap().start_ms();
    let at_ms = match column(row, "hours").as_str() {
        "" => None,
        "peak" => Some(monday + 2 * HOUR_MS),
        "off_peak" => Some(monday + 12 * HOUR_MS),
        other => panic!("{other}"),
    };
    model.prices.when(date, at_ms).unwrap()
}

#[test]
fn the_table_keeps_the_published_multiples() {
    let models = Models::builtin().unwrap();
    assert_eq!(models.lint(), Vec::<String>::new());
    let claude: Vec<_> =
        models.iter().filter(|m| m.vendor == "anthropic" && m.price(None).is_some()).collect();
    assert!(claude.len() >= 18 && claude.iter().all(|m| m.read_multiple_millionths.is_some()));
    let reads = |id: &str| models.get(id).unwrap().read_multiple_millionths;
    for (id, millionths) in [
        ("claude-fable-5-2", 25_000),
        ("claude-fable-5-1", 25_000),
        ("claude-opus-5-5", 50_000),
        ("claude-sonnet-5-5", 50_000),
        ("claude-haiku-5-5", 100_000),
        ("claude-fable-5", 100_000),
    ] {
        assert_eq!(reads(id), Some(millionths), "{id}");
    }
    let mut models = Models::builtin().unwrap();
    let text = r#"{"claude-opus-5": {"litellm_provider": "anthropic", "input_cost_per_token": 5e-6,
        "output_cost_per_token": 2.5e-5, "cache_creation_input_token_cost": 6.25e-6,
        "cache_creation_input_token_cost_above_1hr": 6.25e-6, "cache_read_input_token_cost": 5e-7}}"#;
    models.add_text(text, "list.json").unwrap();
    assert_eq!(
        models.lint(),
        ["claude-opus-5: long write costs 1.25 and not 2 times the input price"],
        "an hour at the price of five minutes"
    );
}

#[test]
fn a_session_is_priced_at_its_day_and_hour() {
    let models = Models::builtin().unwrap();
    let rates = models.get("gpt-5.4").unwrap().price(None).unwrap().rates;
    assert_eq!((rates.write_short, rates.write_long), (rates.input, rates.input), "no write fee of its own");
    let on = |id: &str, date: &str| {
        models.get(id).unwrap().price(Some(date.parse().unwrap())).unwrap().rates.input
    };
    assert_eq!(
        (on("gemini-4-argon", "2026-11-30"), on("gemini-4-argon", "2026-12-01")),
        (2_000_000, 4_000_000)
    );
    assert_eq!(
        (on("gemini-3.8-flash", "2026-12-31"), on("gemini-3.8-flash", "2027-01-01")),
        (750_000, 1_500_000)
    );
    assert_eq!((on("gpt-5.6-sol", "2026-08-20"), on("gpt-5.6-sol", "2026-08-21")), (5_000_000, 4_000_000));
    let seek = models.get("deepseek-v4-pro").unwrap();
    let at = |day: &str, hour: i64| {
        let at_ms = day.parse::<Date>().unwrap().start_ms() + hour * HOUR_MS;
        seek.prices.when(None, Some(at_ms)).unwrap().rates.input
    };
    let (peak, off_peak) = (1_320_000, 660_000);
    for (day, hour, rate) in [
        ("2026-11-30", 1, peak),
        ("2026-11-30", 4, off_peak),
        ("2026-11-30", 9, peak),
        ("2026-11-30", 10, off_peak),
        ("2026-11-29", 2, off_peak),
        ("2026-10-01", 2, off_peak),
        ("2026-10-08", 2, peak),
    ] {
        assert_eq!(at(day, hour), rate, "{day} {hour}:00");
    }
    assert_eq!(seek.price(None).unwrap().rates.input, peak, "without a time, the dearer one");
}

/// Without a strategy.
fn simulate_on(model: &ModelSpec, session: &Session) -> (Summary, FullRecorder) {
    let strategy = "none".parse::<PolicySpec>().unwrap().load(&[], &[]).unwrap();
    let strategy = strategy.strategy(model, &Models::builtin().unwrap()).unwrap();
    let mut record = FullRecorder::default();
    let options = RunOptions::default();
    let summary = run(session, &strategy, model, &options, &mut Scratch::default(), &mut record);
    (summary, record)
}

#[test]
fn a_run_pays_the_price_of_its_day_and_of_each_hour() {
    let models = Models::builtin().unwrap();
    let mut model = models.get("claude-opus-5").unwrap().clone();
    model.prices = models.get("deepseek-v4-pro").unwrap().prices.clone();
    let monday = "2026-11-30".parse::<Date>().unwrap().start_ms();
    let costs = |hours: [i64; 2]| -> Vec<u128> {
        let mut session = ConstantGrowth { requests: 2, ..ConstantGrowth::default() }.session();
        for (step, hour) in session.steps.iter_mut().zip(hours) {
            step.start_ms = Some(monday + hour * HOUR_MS);
        }
        let (_, record) = simulate_on(&model, &session);
        record.requests.iter().map(|row| row.cost_pusd).collect()
    };
    // The second request is too late to read what the first wrote, whatever the hour.
    let [peak, off_peak] = [costs([1, 7]), costs([4, 11])];
    assert!(peak.iter().zip(&off_peak).all(|(peak, off_peak)| *peak == 2 * off_peak && *off_peak > 0));
    let mixed = costs([3, 4]);
    assert_eq!((mixed[0], mixed[1]), (peak[0], off_peak[1]));
}

#[test]
fn a_price_list_in_json_adds_and_overrides() {
    let mut models = Models::builtin().unwrap();
    let text = r#"{
        "anthropic/claude-opus-5-5": {"litellm_provider": "anthropic", "input_cost_per_token": 9e-6,
            "output_cost_per_token": 9e-6},
        "claude-opus-5-5": {"litellm_provider": "anthropic", "input_cost_per_token": 4.1e-6,
            "output_cost_per_token": 2e-5, "cache_read_input_token_cost": 2e-7},
        "xai/grok-4.5": {"litellm_provider": "xai", "input_cost_per_token": 2.5e-6, "output_cost_per_token": 6e-6},
        "gpt-7": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6,
            "max_input_tokens": 2000000, "max_output_tokens": 1000},
        "azure/gpt-5.4": {"litellm_provider": "azure", "input_cost_per_token": 2.75e-6,
            "output_cost_per_token": 1.65e-5},
        "deepseek/deepseek-v4-pro": {"litellm_provider": "deepseek", "input_cost_per_token": 2e-6,
            "output_cost_per_token": 4e-6, "off_peak_pricing": {"input_cost_per_token": 1e-6}}}"#;
    let ids = models.add_text(text, "list.json").unwrap();
    assert_eq!(ids.len(), 5);
    let input = |id: &str| models.get(id).unwrap().price(None).unwrap().rates.input;
    assert_eq!(input("claude-opus-5-5"), 4_100_000, "the plain id counts");
    assert_eq!(
        (input("grok-4.5"), input("gpt-5.4"), input("azure/gpt-5.4")),
        (2_500_000, 2_500_000, 2_750_000)
    );
    let new = models.get("gpt-7").unwrap();
    assert_eq!((new.vendor.as_str(), new.window_tokens, new.max_output_tokens), ("openai", 2_000_000, 1_000));
    let azure = models.get("azure/gpt-5.4").unwrap();
    assert_eq!(
        azure.window_tokens,
        models.get("gpt-5.4").unwrap().window_tokens,
        "the rules of what it serves"
    );
    let seek = models.get("deepseek-v4-pro").unwrap();
    let monday = "2026-11-30".parse::<Date>().unwrap().start_ms();
    let at = |hour: i64| seek.prices.when(None, Some(monday + hour * HOUR_MS)).unwrap().rates.input;
    assert_eq!((at(2), at(12)), (2_000_000, 1_000_000));
    let opus = models.get("claude-opus-5-5").unwrap();
    assert!(opus.is_simulated() && opus.price_factors.batch_percent == Some(50), "its rules stay");
}

#[test]
fn a_models_file_gives_prices_with_dates_and_hours() {
    let mut models = Models::builtin().unwrap();
    let text = r#"
        [[model]]
        id = "own"
        like = "claude-opus-5"
        peak_hours = { hours_utc = ["12:00-13:00"] }
        price_factors = { batch_percent = 40 }
        [[model.prices]]
        input = 1
        output = 2
        to = "2026-06-30"
        [[model.prices]]
        input = 3
        output = 4
        from = "2026-07-01"
        hours = "peak"
        fast = { input = 6, output = 8 }
        long = { above_prompt_tokens = 10, counts = "input+cache_write", input = 5, output = 6 }
        [[model.prices]]
        input = 2
        output = 4
        from = "2026-07-01"
        hours = "off_peak"
        "#;
    models.add_text(text, "my.toml").unwrap();
    let own = models.get("own").unwrap();
    let day = |text: &str| Some(text.parse::<Date>().unwrap());
    let noon = day("2026-11-30").unwrap().start_ms() + 12 * HOUR_MS;
    let input = |date, at_ms| own.prices.when(date, at_ms).unwrap().rates.input;
    assert_eq!(input(day("2026-06-30"), Some(noon)), 1_000_000);
    assert_eq!(
        (input(day("2026-07-01"), Some(noon)), input(day("2026-07-01"), Some(0))),
        (3_000_000, 2_000_000)
    );
    let tier = own.prices.at(day("2026-07-01")).unwrap().tier.unwrap();
    assert!(tier.applies_to(&usage(5, 100, 6, 0, 0)) && !tier.applies_to(&usage(5, 100, 5, 0, 0)));
    let batch = Service { batch: true, ..Service::default() };
    assert_eq!(own.priced(day("2026-06-30"), &batch).unwrap().price(None).unwrap().rates.output, 800_000);
    let fast = Service { speed: Speed::Fast, ..Service::default() };
    let error = own.priced(None, &fast).unwrap_err().to_string();
    assert!(error.contains("model `own`") && error.contains("fast mode"), "{error}");
    for (bad, message) in [
        ("price = { input = 1, output = 1, from = \"soon\" }", "date `soon`"),
        ("price = { input = 1, output = 1 }\nprices = []", "both given"),
        ("read_multiple = 0.0000001", "read_multiple"),
        (
            "price = { input = 1, output = 1, long = { above_prompt_tokens = 1, counts = \"all\", input = 1, output = 1 } }",
            "`all` is no class",
        ),
    ] {
        let error = models.add_text(&format!("[[model]]\nid = \"bad\"\n{bad}\n"), "my.toml").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn batches_fast_mode_and_regions_have_their_factors() {
    let models = Models::builtin().unwrap();
    let opus = models.get("claude-opus-5-5").unwrap();
    let bought = |service: Service| opus.priced(None, &service).unwrap().price(None).unwrap().rates;
    let standard = Service::default();
    // Docs: fast mode of Opus 5.5 costs 8 and 40; batches half; the United States only a tenth more.
    let fast = bought(Service { speed: Speed::Fast, ..standard });
    assert_eq!(
        (fast.input, fast.output, fast.write_short, fast.read),
        (8_000_000, 40_000_000, 10_000_000, 400_000)
    );
    let both = bought(Service { batch: true, region: Region::Us, ..standard });
    assert_eq!((both.input, both.read), (2_200_000, 110_000));
    let haiku = models.get("claude-haiku-5-5").unwrap();
    let batch = Service { batch: true, ..standard };
    let cost = haiku.priced(None, &batch).unwrap().price(None).unwrap().cost(&usage(100_001, 0, 0, 0, 1_000));
    assert_eq!(
        (cost.total(), cost.tier),
        (525_005 * PICO / 20_000_000, TierName::Long),
        "half of a long prompt"
    );
    for service in [Service { speed: Speed::Fast, ..standard }, Service { speed: Speed::Fast, ..batch }] {
        assert!(haiku.priced(None, &service).is_err());
    }
    assert!(models.get("gpt-5.4").unwrap().priced(None, &batch).is_err(), "not known is not free");
    assert!(models.get("gpt-6-cyber").unwrap().priced("2020-01-01".parse().ok(), &standard).is_ok());
}

fn own_price(toml: &str) -> Price {
    let mut models = Models::builtin().unwrap();
    models.add_toml(&format!("[[model]]\nid = \"own\"\nprice = {toml}\n"), "test").unwrap();
    models.get("own").unwrap().price(None).unwrap().clone()
}

#[test]
fn long_lived_writes_have_their_own_price() {
    let models = Models::builtin().unwrap();
    let opus = models.get("claude-opus-4-8").unwrap().price(None).unwrap();
    assert_eq!(opus.cost(&usage(0, 0, 600_000, 400_000, 0)).total(), 775 * PICO / 100);
    assert_eq!(opus.cost(&usage(0, 0, 1_000_000, 0, 0)).total(), 625 * PICO / 100);
    let opus = models.get("claude-opus-5").unwrap().price(None).unwrap();
    assert_eq!(opus.cost(&usage(0, 0, 0, 344_139, 0)).total(), 344_139 * PICO / 100_000);
    assert_eq!(opus.cost(&usage(0, 0, 344_139, 0, 0)).total(), 215_086_875 * PICO / 100_000_000);
    let sonnet = models.get("claude-sonnet-4-6").unwrap().price(None).unwrap();
    assert_eq!(sonnet.cost(&usage(0, 0, 0, 2_000_000, 0)).total(), 12 * PICO);
    let haiku =
        own_price("{ input = 0.25, output = 1.25, cache_write_short = 0.3125, cache_write_long = 0.5 }");
    assert_eq!(haiku.cost(&usage(0, 0, 0, 9_628, 0)).total(), 4_814 * PICO / 1_000_000);
}

#[test]
fn the_tier_is_chosen_by_the_whole_prompt_and_covers_writes() {
    let sonnet = own_price(
        "{ input = 3, output = 15, cache_write_short = 3.75, cache_write_long = 6, cache_read = 0.3, \
         long = { above_prompt_tokens = 200000, input = 6, output = 22.5, cache_write_short = 7.5, \
         cache_write_long = 12, cache_read = 0.6 } }",
    );
    let cost = sonnet.cost(&usage(0, 195_001, 5_000, 0, 0));
    assert_eq!((cost.cache_write, cost.tier), (375 * PICO / 10_000, TierName::Long));
    let cost = sonnet.cost(&usage(0, 195_000, 5_000, 0, 0));
    assert_eq!((cost.cache_write, cost.tier), (1_875 * PICO / 100_000, TierName::Base));
    let tiered = own_price(
        "{ input = 5, output = 30, cache_read = 0.5, long = { above_prompt_tokens = 272000, input = 10, \
         output = 45, cache_read = 1 } }",
    );
    let cost = tiered.cost(&usage(100_000, 200_000, 0, 0, 0));
    assert_eq!((cost.uncached, cost.cache_read), (PICO, 2 * PICO / 10), "neither bucket is long by itself");
    for (inclusive, expected) in [(true, TierName::Long), (false, TierName::Base)] {
        let price = own_price(&format!(
            "{{ input = 2, output = 6, long = {{ above_prompt_tokens = 200000, inclusive = {inclusive}, input = 4, \
             output = 12 }} }}"
        ));
        assert_eq!(price.cost(&usage(199_999, 0, 0, 0, 0)).tier, TierName::Base);
        assert_eq!(price.cost(&usage(200_000, 0, 0, 0, 0)).tier, expected);
        assert_eq!(price.cost(&usage(200_001, 0, 0, 0, 0)).tier, TierName::Long);
    }
}

/// junhoyeo/tokscale#862, BerriAI/litellm#30207 and #40174: reads and writes count towards the threshold, and the
/// rates of the long tier hold for every class.
#[test]
fn cached_tokens_count_towards_the_threshold() {
    let tiered = own_price(
        "{ input = 5, output = 30, cache_read = 0.5, long = { above_prompt_tokens = 272000, input = 10, output = 45, \
         cache_read = 1 } }",
    );
    for (uncached, read, long) in
        [(72_000, 200_000, false), (72_001, 200_000, true), (1, 272_000, true), (272_000, 0, false)]
    {
        assert_eq!(tiered.cost(&usage(uncached, read, 0, 0, 0)).tier == TierName::Long, long, "{uncached}");
    }
    // 250k in, 200k read, 10k written, 1k out: 1.53 at the base rate is the reported fault.
    let base = tiered.rates;
    let wrong = 250_000 * base.input + 200_000 * base.read + 10_000 * base.input + 1_000 * base.output;
    let right = tiered.cost(&usage(250_000, 200_000, 10_000, 0, 1_000)).total();
    assert_eq!(right, (250_000 * 10 + 200_000 + 10_000 * 10 + 1_000 * 45) * PICO / 1_000_000);
    assert!(right > u128::from(wrong));
}

/// earendil-works/pi#2148 and anomalyco/opencode#42910: one physical request, whatever the dialect.
#[test]
fn cached_tokens_are_billed_once() {
    let models = Models::builtin().unwrap();
    let flash = models.get("gemini-3-flash-preview").unwrap().price(None).unwrap();
    let cost = flash.cost(&usage(20_212 - 16_298, 16_298, 0, 0, 931)).total();
    assert_eq!(cost, 5_564_900_000, "0.0056 dollars");
    let twice = flash.cost(&usage(20_212, 16_298, 0, 0, 931)).total();
    assert_eq!(twice, 13_713_900_000, "the fault: 0.0137");
    let sol = models.get("gpt-6.2-sol").unwrap().price(None).unwrap();
    let split = sol.cost(&usage(200, 2_000, 400, 0, 0));
    assert_eq!(split.total(), (200 * 2_000_000) + (2_000 * 100_000) + (400 * 2_500_000));
}

/// anomalyco/opencode#28494 and #17154: a read without a price costs input; only an explicit 0 is free.
#[test]
fn a_read_without_a_price_is_not_free() {
    let unknown = own_price("{ input = 3, output = 15 }");
    let free = own_price("{ input = 3, output = 15, cache_read = 0 }");
    let read = usage(0, 564_382, 0, 0, 0);
    assert_eq!(unknown.cost(&read).total(), 564_382 * 3_000_000);
    assert_eq!(free.cost(&read).total(), 0);
}

#[test]
fn the_rent_of_explicit_caches_is_data_and_in_no_cost() {
    let models = Models::builtin().unwrap();
    let rent = |id: &str| models.get(id).unwrap().storage_pusd_per_token_hour;
    for id in ["gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.8-flash"] {
        assert_eq!(rent(id), Some(500_000), "{id}: half a dollar for a million tokens and an hour");
    }
    for id in ["gemini-4-argon", "gemini-3.5-flash", "claude-opus-5"] {
        assert_eq!(rent(id), None, "{id}: none is known");
    }
    let mut own = Models::builtin().unwrap();
    own.add_toml("[[model]]\nid = \"gemini-2.5-pro\"\nstorage_usd_per_mtok_hour = 4.5\n", "own.toml")
        .unwrap();
    assert_eq!(own.get("gemini-2.5-pro").unwrap().storage_pusd_per_token_hour, Some(4_500_000));
    let error =
        own.add_toml("[[model]]\nid = \"x\"\nstorage_usd_per_mtok_hour = -1\n", "own.toml").unwrap_err();
    assert!(error.to_string().contains("storage_usd_per_mtok_hour"), "{error}");
}
