//! What a summary costs and what it leaves (reports 52 and 61 of the collection).

use ctxsim::generate::ConstantGrowth;

use crate::policy_support::{SHORT, base, compactions, run_with, summarize};

/// anomalyco/opencode#25120, #48542; aaif-goose/goose#11257: a summarizer that is sent the messages without tools and
/// system prompt reads nothing of what is cached, and 70 of them wrote 1,278,055 tokens that nobody read. One that
/// is sent the conversation and an instruction reads it at a tenth.
#[test]
fn a_summarizer_that_is_sent_the_conversation_reads_it_from_the_cache() {
    // The report's own sizes: 2,000 of system prompt, 3,000 of tools, 40,000 to be folded.
    let growth = ConstantGrowth {
        requests: 21,
        tools_tokens: 3_000,
        system_tokens: 2_000,
        thinking_tokens: 0,
        result_tokens: 1_980,
        ..base()
    };
    let session = growth.session();
    let over = "{ of = \"request\", unit = \"tokens\", over = 44000 }";
    let flattened = summarize("\"request\"", over, "", "");
    let (start, _) = flattened.split_once("input = ").unwrap();
    let fork =
        format!("{start}input = \"fork\"\nprompt_chars = 100\nmax_output_tokens = 4000\nmodel = \"same\"\n");
    let ran = [&flattened, &fork].map(|rules| run_with(1_000_000, &session, rules, SHORT));
    for (summary, record) in &ran {
        // 5,200 and 2,000 for each request.
        assert_eq!((compactions(record), summary.summarizer.output_tokens), (vec![21], 300));
    }
    let [flattened, fork] = ran.map(|(summary, _)| summary);
    assert_eq!(flattened.summarizer.cache_read_tokens, 0);
    assert!(flattened.summarizer.prompt_tokens() > 40_000);
    let fresh = fork.summarizer.prompt_tokens() - fork.summarizer.cache_read_tokens;
    // The last result and the instruction.
    assert!((1_980..2_100).contains(&fresh), "{fresh}");
    // 45,000 tokens: a tenth, and the part that is new.
    let rates = run_rates();
    let output = u128::from(300 * rates.output);
    let input = |cost: u128| cost - output;
    assert!(input(fork.cost.summarizer) * 6 < input(flattened.cost.summarizer));
}

fn run_rates() -> ctxsim::provider::price::Rates {
    crate::policy_support::model(1_000_000).price(None).unwrap().rates
}

/// k0valik/pi-blackhole#69: summaries that are only ever appended to are a floor that grows: 22 of them held 38,037
/// tokens. One that takes the last one in stays where it is.
#[test]
fn summaries_that_accumulate_raise_the_floor() {
    let over = r#"{ of = "messages", unit = "count", over = 20 }"#;
    let estimate = "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\n";
    let rebased = format!("{estimate}{}", summarize("\"request\"", over, "", ""));
    let appended = format!("{rebased}\naccumulate = true\n");
    let session = ConstantGrowth { requests: 225, ..base() }.session();
    let floors = |rules: &str| -> Vec<u64> {
        let (_, record) = run_with(10_000_000, &session, rules, &[("summary_tokens", 1_729)]);
        // 21 messages before request 11; a summary and twenty before each tenth behind it.
        assert_eq!(compactions(&record), (11..=221).step_by(10).collect::<Vec<_>>());
        let at = compactions(&record);
        at.iter().map(|at| record.requests[*at as usize - 1].usage.prompt_tokens() - 15_000).collect()
    };
    assert_eq!(floors(&rebased), [1_729; 22]);
    let growing: Vec<u64> = (1..=22).map(|k| k * 1_729).collect();
    assert_eq!(floors(&appended), growing);
    assert!(growing[21].abs_diff(38_037) <= 1);
}
