//! When a strategy acts, and whether it should (reports 53 to 68 of the collection).

use ctxsim::generate::ConstantGrowth;
use ctxsim::metrics::find;
use ctxsim::policy::laws::{offload_file_name, offload_path, written_path};
use ctxsim::session::compile::{CompileOptions, compile};
use ctxsim::session::{BlockKind, Session};
use ctxsim::sim::SimEventKind;
use ctxsim::sim::summary::StopReason;
use ctxsim::transcript::{Content, Image, ResultPart};
use proptest::prelude::*;

use crate::policy_support::{
    SHORT, base, compactions, model, run_in, run_with, simulate, strategy_on, summarize, with_prompt,
};
use crate::transcripts::{call, input, response, text, transcript};

/// anomalyco/opencode#4416: 184,704 tokens, 183,936 of them cached, are 184,704 and not 368,640.
#[test]
fn cached_tokens_count_once() {
    let rules = summarize("\"request\"", r#"{ of = "last_usage", unit = "tokens", over = 200000 }"#, "", "");
    // 15,000 before the conversation; prompt of request 2 is that of the report.
    let growth = ConstantGrowth { requests: 3, result_tokens: 748, ..base() };
    let session = with_prompt(growth.session(), 184_704 - 15_000 - 60 - 748);
    let (summary, record) = run_with(400_000, &session, &rules, SHORT);
    let usage = &record.requests[1].usage;
    assert_eq!(usage.prompt_tokens(), 184_704);
    assert!(usage.cache_read_tokens >= 183_890 && usage.prompt_tokens() + usage.cache_read_tokens > 368_000);
    assert_eq!(summary.compactions, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// openclaw/openclaw#66520: 305,102 tokens in a window of 200,000 with 30,000 in reserve, and nothing
    /// happened, since 305,000 of them came from the cache. Whatever the cache does, the decision is the same.
    #[test]
    fn a_trigger_does_not_depend_on_the_cache(
        prompt in 1_000_u32..60_000,
        result_tokens in 500_u32..9_000,
        gaps in prop::collection::vec(0_i64..600_000, 40),
    ) {
        let over = r#"{ of = "last_usage", unit = "tokens", over = { reserve = 30000 } }"#;
        let rules = summarize("\"request\"", over, "", "");
        let growth = ConstantGrowth { requests: 40, result_tokens, ..base() };
        let warm = with_prompt(growth.session(), prompt);
        let mut cold = warm.clone();
        let mut late = 0;
        for (step, gap) in cold.steps.iter_mut().zip(&gaps) {
            late += gap;
            step.start_ms = step.start_ms.map(|ms| ms + late);
        }
        let unmarked = format!("{rules}\n[params]\n\"cache.markers\" = {{ default = [], doc = \"d\" }}\n");
        let [a, b, c] = [(&warm, &rules), (&cold, &rules), (&warm, &unmarked)]
            .map(|(session, rules)| run_with(200_000, session, rules, SHORT));
        prop_assert_eq!(compactions(&a.1), compactions(&b.1));
        prop_assert_eq!(compactions(&a.1), compactions(&c.1));
        // It fires at the first request whose predecessor came to more than 170,000.
        let used = |row: &ctxsim::sim::RequestRow| row.usage.prompt_tokens() + row.usage.output_tokens;
        let first = c.1.requests.iter().find(|row| used(row) > 170_000).map(|row| row.request + 1);
        let expected = first.filter(|request| *request <= 40);
        prop_assert_eq!(compactions(&c.1).first().copied(), expected);
    }

    /// CyberStrikeus/CyberStrike#146: 2,007,602 characters of base64 were taken for 573,600 tokens, a fresh
    /// chat of justrach/codegraff#260 for 398,389. The size of an image in pixels counts, and its base64 never.
    #[test]
    fn an_image_does_not_count_by_its_base64(chars in 1_u32..4_000_000, width in 1_u32..4_000, height in 1_u32..4_000) {
        let tokens = |chars: u32, size_px| {
            let image = Image { base64_chars: chars, size_px, hash: 1 };
            let part = vec![ResultPart::Image(image)];
            let shown = Content::ToolResult { call_id: "a".into(), parts: part, is_error: false };
            let entries = vec![
                input(vec![text(15)]),
                response(vec![call("a")]),
                input(vec![shown, Content::Image(image)]),
                response(vec![text(5)]),
            ];
            let session = compile(&transcript(entries), &CompileOptions::default());
            session.blocks.tokens[2..4].to_vec()
        };
        prop_assert_eq!(tokens(chars, Some((width, height))), tokens(2 * chars, Some((width, height))));
        prop_assert_eq!(tokens(chars, None), [1_500, 1_500]);
        prop_assert!(tokens(2_007_602, Some((width, height))).iter().all(|t| *t <= 1_600));
    }

    /// xDarkicex/openclaw-memory-libravdb#330: passes that each must save a budget are at most growth / budget.
    #[test]
    fn passes_are_at_most_growth_by_budget(budget in 1_000_u64..60_000, chars in 100_u32..9_000) {
        let rules = format!(
            "[[rule]]\nid = \"clear\"\nat = \"request\"\nstub = {{ fixed = 0 }}\n\
             select = {{ tool_results = {{}} }}\ncadence = {{ min_savings = {budget} }}\n"
        );
        let growth = ConstantGrowth { requests: 80, result_utf16: chars, ..base() };
        let (summary, _) = simulate(&growth.session(), &rules);
        prop_assert!(summary.passes <= 79 * u64::from(chars) / budget);
        prop_assert!(summary.passes + 1 >= 79 * u64::from(chars) / (budget + u64::from(chars)));
    }
}

/// anthropics/claude-code#94481: a window of a million compacted at 12 % of it, again and again. Eleven
/// times in 400 requests; at 80 % once.
#[test]
fn a_trigger_far_below_the_window_compacts_all_the_time() {
    let rules = |share: &str| {
        let over = format!("{{ of = \"last_usage\", unit = \"tokens\", over = {{ window = {share} }} }}");
        summarize("\"request\"", &over, "", "")
    };
    let session = ConstantGrowth { requests: 400, result_tokens: 3_000, ..base() }.session();
    let (early, record) = run_with(1_000_000, &session, &rules("0.12"), SHORT);
    // Used after request k: 15,260 + 3,060 (k - 1); 15,360 after a compaction. Either passes 120,000 35
    // requests later.
    assert_eq!(compactions(&record), (37..=400).step_by(36).collect::<Vec<_>>());
    assert_eq!(early.compactions, 11);
    let (late, record) = run_with(1_000_000, &session, &rules("0.8"), SHORT);
    assert_eq!(compactions(&record), [259]);
    assert!(early.cost.summarizer > 0 && late.usage.cache_write_tokens() < early.usage.prompt_tokens());
}

/// openai/codex#40095: 90 % of a window of 272,000 are 244,800, which is 94.7 % of the 258,400 that are
/// usable.
#[test]
fn a_share_of_the_window_says_of_which_window() {
    let rules = r#"
        [[rule]]
        id = "a"
        at = "request"
        when = [{ of = "request", unit = "tokens", over = { window = 0.9 } }]
        native_compact = { max_output_tokens = 100 }
        [[rule]]
        id = "b"
        at = "request"
        when = [{ of = "request", unit = "tokens", over = { window = 0.95 } }]
        native_compact = { max_output_tokens = 100 }
    "#;
    let strategy = strategy_on(&model(272_000), rules, &[]);
    let limits: Vec<i64> = strategy.rules.iter().map(|r| r.when[0].limit).collect();
    assert_eq!(limits, [244_800, 258_400]);
    assert_eq!(limits[0] * 1_000 / limits[1], 947);
}

/// openai/codex#36664: 2,607 turns with 74 compactions, 70 of them followed by a call that had been made before:
/// what was compacted away is fetched again.
#[test]
fn what_a_compaction_took_is_fetched_again() {
    let over = r#"{ of = "messages", unit = "count", over = 70 }"#;
    let estimate = "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\n";
    let rules = format!("{estimate}{}", summarize("\"request\"", over, "", ""));
    let mut session = ConstantGrowth { requests: 2_607, ..base() }.session();
    let (_, record) = simulate(&session.clone(), &rules);
    // 71 messages before request 36; a summary and two for each request before the 35th behind it.
    let at = compactions(&record);
    assert_eq!(at, (36..=2_607).step_by(35).collect::<Vec<_>>());
    let call_of = |session: &Session, request: u32| {
        let mut output = session.steps[request as usize - 1].output.clone();
        output.find(|b| session.blocks.kind[*b as usize] == BlockKind::ToolUse).unwrap() as usize
    };
    // 69 at once, one with the 19th request behind the compaction, and one, too late to be laid to it, with the
    // 20th.
    let again = at[..69].iter().map(|at| (*at, *at)).chain([(at[70], at[70] + 19), (at[71], at[71] + 20)]);
    for (compacted, request) in again {
        let earlier = session.blocks.hash[call_of(&session, compacted - 3)];
        let call = call_of(&session, request);
        session.blocks.hash[call] = earlier;
    }
    let (summary, _) = simulate(&session, &rules);
    assert_eq!((summary.compactions, summary.refetched_compactions), (74, 70));
    assert_eq!((summary.refetched_calls, summary.refetched_tokens), (71, 71 * 100));
    assert_eq!(find("compaction_refetch_rate").unwrap().value(&summary).to_string(), "0.945946");
    assert_eq!(summary.repeated_calls, 0);
    let (none, _) = simulate(&session, "");
    assert_eq!((none.repeated_calls, none.refetched_calls), (71, 0), "nothing had left");
}

/// can1357/oh-my-pi#8887: 308 messages became 28, and the check right after still read the 363,095 tokens of
/// before. A usage older than the edit is not one.
#[test]
fn usage_from_before_an_edit_is_no_anchor() {
    let rules = {
        let estimate = "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\nanchor = \"last_usage_total\"\n\
                        anchor_until_edit = true\n";
        let over = r#"{ of = "messages", unit = "estimate", over = 350000 }"#;
        let first = summarize(
            r#"["response", "request"]"#,
            over,
            "keep_recent = { messages = 28 }, snap = \"message\"",
            "",
        );
        format!("{estimate}{first}")
    };
    // 2,300 a request: past 350,000 with 300 messages.
    let growth = ConstantGrowth { requests: 160, result_tokens: 2_240, result_utf16: 8_960, ..base() };
    let session = growth.session();
    let (_, fresh) = run_with(1_000_000, &session, &rules, SHORT);
    let at = compactions(&fresh);
    assert_eq!(at.len(), 1, "{at:?}");
    let after = fresh.requests[at[0] as usize].usage.prompt_tokens();
    assert!(after < 60_000, "{after}");
}

/// cline/cline#9510 and others: what cannot be shrunk is tried again at every request, up to four times in a
/// row. A breaker stops it.
#[test]
fn a_breaker_ends_a_thrash() {
    // A first message of 130,000 tokens that stays verbatim, in a window of 200,000 with a trigger at 60 %.
    let over = r#"{ of = "last_usage", unit = "tokens", over = { window = 0.6 } }"#;
    let rules = |more: &str| {
        let select = "keep_first = 1, keep_recent = { messages = 2 }, snap = \"message\"";
        let rule = summarize("\"request\"", over, select, more);
        format!("[estimate]\nunit = \"utf16\"\nchars_per_token = 4\n{rule}")
    };
    let session = with_prompt(ConstantGrowth { requests: 30, ..base() }.session(), 130_000);
    let (_, free) = run_with(200_000, &session, &rules(""), SHORT);
    assert!(compactions(&free).len() > 20, "{:?}", compactions(&free));
    let breaker = "cadence = { breaker = { failures = 3, refills = 3 } }";
    let (_, stopped) = run_with(200_000, &session, &rules(breaker), SHORT);
    assert_eq!(compactions(&stopped).len(), 3);
    let floor = "cadence = { no_refire_above_floor = true }";
    let (_, waiting) = run_with(200_000, &session, &rules(floor), SHORT);
    // It waits until a tenth more has come: 13,000 and more tokens, at 160 a request.
    assert_eq!(compactions(&waiting).len(), 1, "{:?}", compactions(&waiting));
}

/// can1357/oh-my-pi#10023, google-gemini/gemini-cli#3574: 661 tokens became 1,752. Such a summary is thrown
/// away, and paid for.
#[test]
fn a_summary_that_is_larger_is_thrown_away() {
    let over = r#"{ of = "messages", unit = "count", over = 4 }"#;
    let rules = format!(
        "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\n{}",
        summarize("\"request\"", over, "keep_recent = { messages = 1 }, snap = \"message\"", "")
    );
    let rejecting = format!("{rules}\nreject_if_larger = true\n");
    let session = ConstantGrowth { requests: 3, ..base() }.session();
    for (tokens, kept) in [(1_752, 0), (100, 1)] {
        let (summary, record) = run_with(1_000_000, &session, &rejecting, &[("summary_tokens", tokens)]);
        assert_eq!(compactions(&record).len(), kept, "{tokens}");
        assert!(summary.cost.summarizer > 0, "billed all the same");
        let grown = record.requests[2].usage.prompt_tokens() > record.requests[1].usage.prompt_tokens();
        assert_eq!(grown, kept == 0, "{tokens}");
    }
    let (taken, _) = run_with(1_000_000, &session, &rules, &[("summary_tokens", 1_752)]);
    assert_eq!(taken.compactions, 1, "without the check it is taken");
}

/// open-webui/open-webui#27599: request 1 had 16,426 tokens, its three results 669,426 characters together,
/// and request 2 did not fit 131,072. A check between the results and the request sees them; the usage
/// reported last does not.
#[test]
fn a_check_before_the_request_sees_the_results_that_just_came() {
    let growth = ConstantGrowth { requests: 3, calls_per_request: 3, result_tokens: 45_348, ..base() };
    let mut session = with_prompt(growth.session(), 1_426);
    let results: Vec<usize> =
        (0..session.blocks.len()).filter(|i| session.blocks.kind[*i] == BlockKind::ToolResult).collect();
    for (result, chars) in results.into_iter().zip([270_503, 210_173, 188_750, 4, 4, 4]) {
        session.blocks.utf16[result] = chars;
        session.blocks.tokens[result] = if chars > 4 { 45_348 } else { 1 };
    }
    let rules = |of: &str| {
        format!(
            "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\nanchor = \"last_usage_total\"\n{}",
            summarize("\"request\"", &format!("{of}, over = {{ window = 0.9 }} }}"), "", "")
        )
    };
    let (blind, record) =
        run_with(131_072, &session, &rules("{ of = \"last_usage\", unit = \"tokens\""), SHORT);
    assert_eq!(record.requests[0].usage.prompt_tokens(), 16_426);
    assert_eq!((blind.stopped_at_request, blind.stop_reason), (Some(2), Some(StopReason::Overflow)));
    // 16,426 + output + 669,426 / 4 is above 90 % of the window. The summarizer cannot read 152,533 either,
    // but it is asked.
    let (_, seen) = run_with(400_000, &session, &rules("{ of = \"messages\", unit = \"estimate\""), SHORT);
    assert_eq!(compactions(&seen), [0_u32; 0], "a larger window has room");
    let (_, seen) = run_in(131_072, &session, &rules("{ of = \"messages\", unit = \"estimate\""));
    let asked = seen.events.iter().any(|e| {
        e.request == 2 && matches!(e.kind, SimEventKind::CompactionStart { .. } | SimEventKind::Notice { .. })
    });
    assert!(asked, "{:?}", seen.events);
}

/// cline/cline#13333: a first tier that saved 31 % of the characters is not enough where 2,000 tokens of
/// head-room are left: the second must run. What decides is what is left, not what was saved.
#[test]
fn a_tier_stops_at_what_is_left_and_not_at_what_it_saved() {
    let rules = |stop: i64| {
        format!(
            r#"
            [estimate]
            unit = "utf16"
            chars_per_token = 4
            [[rule]]
            id = "first"
            at = "request"
            view = "destructive"
            when = [{{ of = "messages", unit = "plain_estimate", over = 180000 }}]
            stub = {{ fixed = 0 }}
            select = {{ tool_results = {{ until = {{ share = 0.34 }} }} }}
            stop_if_under = {{ unit = "plain_estimate", under = {stop} }}
            [[rule]]
            id = "second"
            at = "request"
            follows = "first"
            select = {{ messages = {{ keep_first = 1, keep_recent = {{ messages = 4 }}, snap = "message" }} }}
            drop = {{ marker_chars = 100 }}
            "#
        )
    };
    // Ten results of 18,000: the tenth comes to 183,000 with prompt and calls; a third of them is 31 %.
    let growth = ConstantGrowth { requests: 11, result_tokens: 18_000, result_utf16: 72_000, ..base() };
    let ran = |stop: i64| {
        let (_, record) = simulate(&with_prompt(growth.session(), 3_000), &rules(stop));
        let mut rules: Vec<String> = record
            .events
            .iter()
            .filter_map(|e| match &e.kind {
                SimEventKind::Pass { rule, .. } => Some(rule.clone()),
                _ => None,
            })
            .collect();
        rules.dedup();
        (rules, record.requests[10].usage.prompt_tokens())
    };
    let (enough, _) = ran(150_000);
    assert_eq!(enough, ["first"]);
    let (_, left) = ran(100_000);
    assert!(left < 100_000, "{left}");
}

/// langchain-ai/langchain#34664: 50 tokens of messages were estimated, 10,000 reported with system prompt
/// and tools. Scaling the estimate by 200 sees 200,000 in the next 1,000; adding what is new to what was
/// reported sees 11,000.
#[test]
fn calibration_adds_what_is_new_to_what_was_reported() {
    let rules = |limit: u64| {
        let over = format!("{{ of = \"messages\", unit = \"estimate\", over = {limit} }}");
        format!(
            "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\nanchor = \"last_usage_total\"\n{}",
            summarize("\"request\"", &over, "", "")
        )
    };
    let growth = ConstantGrowth {
        requests: 2,
        tools_tokens: 8_950,
        system_tokens: 1_000,
        result_tokens: 1_000,
        result_utf16: 4_000,
        ..base()
    };
    let session = with_prompt(growth.session(), 50);
    let (_, record) = run_with(1_000_000, &session, &rules(900_000), SHORT);
    assert_eq!(record.requests[0].usage.prompt_tokens(), 10_000);
    // 10,000 + 60 of output + 1,000.
    assert_eq!(compactions(&run_with(1_000_000, &session, &rules(11_060), SHORT).1), [0_u32; 0]);
    assert_eq!(compactions(&run_with(1_000_000, &session, &rules(11_059), SHORT).1), [2]);
}

/// HKUDS/nanobot#4153, OpenMinis/OpenMinis#343: reading an offloaded file gives a result that is offloaded
/// again. Exempting the tool that reads ends the chain; its own limit below the offload's does too.
#[test]
fn what_reads_an_offloaded_file_is_not_offloaded_again() {
    let rules = |except: &str| {
        format!(
            r#"
            [[rule]]
            id = "offload"
            at = "tool_result"
            when = [{{ of = "block", unit = "utf16", over = 16000 }}]
            select = {{ tool_results = {{ except = [{except}] }} }}
            offload = {{ head = 1000, tail = 1000, limit = 16000, stub = {{ fixed = 200 }}, path = {{ home = "", folder = "/o", session_id = 0 }} }}
            "#
        )
    };
    let offloads = |chars: u32, except: &str| {
        let growth = ConstantGrowth { requests: 2, result_utf16: chars, ..base() };
        simulate(&growth.session(), &rules(except)).0.offloads
    };
    // The file tool gives 128,000 characters at most, the offload takes all above 16,000.
    assert_eq!((offloads(128_000, ""), offloads(128_000, "\"Bash\"")), (1, 0));
    assert_eq!((offloads(16_000, ""), offloads(16_001, "")), (0, 1));
}

/// langchain-ai/deepagents#5560, #6302: ids of a kilobyte and empty ids still give distinct names that a
/// file system takes; where both names are taken, the failure is seen.
#[test]
fn offloaded_files_have_distinct_and_short_names() {
    let long = "s".repeat(1_500);
    for id in ["", "///", &long, "call_1", "\u{20ac}\u{20ac}"] {
        let name = offload_file_name("read_file", id);
        assert!(name.len() <= 255 && !name.contains('/'), "{name}");
    }
    let mut taken: Vec<String> = Vec::new();
    for suffix in ["a1", "b2"] {
        let path = offload_path("/d", "read_file", "", suffix, &|p| taken.iter().any(|t| t == p));
        let path = written_path(path, None).unwrap();
        assert!(!taken.contains(&path), "the second result does not overwrite the first");
        taken.push(path);
    }
    assert_eq!(offload_path("/d", "read_file", "", "b2", &|p| taken.iter().any(|t| t == p)), None);
}
