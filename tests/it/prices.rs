//! Every Claude row of the price table, recomputed from its decimal strings, and public bug reports about
//! prices with the dollars they give.

use ctxsim::provider::Models;
use ctxsim::provider::price::{Price, TierName};
use ctxsim::usage::Usage;

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

#[test]
fn every_claude_row_costs_what_the_table_says() {
    let models = Models::builtin().unwrap();
    let table = rows();
    let column = |row: &[String], name: &str| {
        row[table[0].iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}"))].clone()
    };
    let mut checked = 0;
    for row in table.iter().skip(1).filter(|r| r[0] == "anthropic") {
        let model = models.get(&row[1]).unwrap();
        assert!(model.is_simulated());
        let price = model.price(None).unwrap();
        let threshold = column(row, "tier_above_prompt_tokens");
        let sizes: Vec<(u64, bool)> = match threshold.parse::<u64>() {
            Ok(edge) => vec![(7, false), (edge, false), (edge + 1, true)],
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
                let input = pusd(tokens, &column(row, &name(base)));
                assert_eq!(cost.total(), input + output, "{} {base} {tokens}", row[1]);
                assert_eq!(cost.output, output);
                assert_eq!(cost.tier == TierName::Long, long);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 18 * 3 * 4);
}

#[test]
fn every_claude_row_keeps_the_documented_multipliers() {
    let models = Models::builtin().unwrap();
    let priced = models.iter().filter(|m| m.vendor == "anthropic" && m.price(None).is_some());
    for model in priced {
        let price = model.price(None).unwrap();
        let read_share = match model.id.as_str() {
            "claude-opus-5-5" | "claude-sonnet-5-5" => 20,
            "claude-fable-5-1" | "claude-fable-5-2" | "claude-mythos-5-1" | "claude-mythos-5-2" => 40,
            _ => 10,
        };
        for rates in [Some(price.rates), price.tier.map(|t| t.rates)].into_iter().flatten() {
            assert_eq!(rates.write_short * 4, rates.input * 5, "{}", model.id);
            assert_eq!(rates.write_long, rates.input * 2, "{}", model.id);
            assert_eq!(rates.read * read_share, rates.input, "{}", model.id);
        }
    }
}

#[test]
fn other_vendors_rows_parse_and_fall_back_to_input() {
    let models = Models::builtin().unwrap();
    let rates = models.get("gpt-5.4").unwrap().price(None).unwrap().rates;
    assert_eq!((rates.write_short, rates.write_long), (rates.input, rates.input), "no write fee of its own");
    let argon = models.get("gemini-4-argon").unwrap();
    let on = |date: &str| argon.price(Some(date.parse().unwrap())).unwrap().rates.input;
    assert_eq!((on("2026-11-30"), on("2026-12-01")), (2_000_000, 4_000_000));
    assert_eq!(models.get("MiniMax-M3").unwrap().price(None).unwrap().rates.read, 60_000);
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
