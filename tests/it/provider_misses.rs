//! Every cause of a miss the provider can tell, the window, and what a refusal leaves behind.

use ctxsim::cause::Cause;
use ctxsim::provider::{
    Account, Answer, Done, Marker, Miss, Models, Params, Provider, RejectionKind, Request, SentBlock,
    SentKind, Ttl,
};

use super::provider_support::{Talk, block, classes, model, thinking};

fn opus() -> Talk<'static> {
    Talk::new(model("claude-opus-5-5"), Account::Enforced)
}

fn texts(count: u64) -> Vec<SentBlock> {
    let mut blocks = vec![block(SentKind::System, 2_000, 1)];
    blocks.extend((0..count).map(|i| block(SentKind::Text, 1_000, 10 + i)));
    blocks
}

fn missed(done: &Done) -> (u64, u64, Option<Cause>) {
    let Miss { new_tokens, missed_tokens, cause } = done.miss;
    (new_tokens, missed_tokens, cause)
}

#[test]
fn a_first_request_is_a_cold_start_and_growth_is_new_content() {
    let mut talk = opus();
    talk.tail_tokens = 120;
    assert_eq!(missed(&talk.served(0, &texts(3), &[0, 3])), (0, 5_120, Some(Cause::ColdStart)));
    assert_eq!(
        missed(&talk.served(1_000, &texts(5), &[0, 5])),
        (2_120, 0, None),
        "the tail is new each time"
    );
    let mut unmarked = opus();
    unmarked.served(0, &texts(1), &[]);
    assert_eq!(missed(&unmarked.served(1_000, &texts(2), &[])), (1_000, 3_000, Some(Cause::ColdStart)));
}

#[test]
fn a_warm_prefix_is_read_by_the_first_request() {
    let mut talk = opus();
    talk.provider.warm(&texts(0), Params::default(), Ttl::Short, -1_000);
    let done = talk.served(0, &texts(1), &[0, 1]);
    assert_eq!((classes(&done), missed(&done)), ([2_000, 1_000, 0, 0], (0, 1_000, Some(Cause::ColdStart))));
}

#[test]
fn an_ended_life_comes_before_a_changed_prefix() {
    let mut talk = opus();
    talk.served(0, &texts(3), &[0, 3]);
    assert_eq!(missed(&talk.served(300_000, &texts(4), &[0, 4])), (1_000, 5_000, Some(Cause::TtlExpired)));
    let mut edited = texts(4);
    edited[2].hash = 77;
    talk.change = Some(Cause::PrefixRule);
    assert_eq!(missed(&talk.served(599_999, &edited, &[0, 4])), (0, 4_000, Some(Cause::PrefixRule)));
    edited[2].hash = 78;
    talk.change = Some(Cause::PrefixRule);
    assert_eq!(missed(&talk.served(900_000, &edited, &[0, 4])), (0, 6_000, Some(Cause::TtlExpired)));
}

#[test]
fn a_changed_prefix_is_named_by_the_caller_or_by_its_first_block() {
    let mut talk = opus();
    let mut blocks = texts(3);
    blocks.insert(0, block(SentKind::Tool, 500, 2));
    talk.served(0, &blocks, &[0, 1, 4]);
    for (at, cause) in [(0, Cause::PrefixTools), (1, Cause::PrefixSystem), (3, Cause::PrefixUnknown)] {
        blocks[at].hash += 1_000;
        assert_eq!(talk.served(1_000, &blocks, &[0, 1, 4]).miss.cause, Some(cause));
    }
    talk.params.messages_key = 1;
    let done = talk.served(2_000, &blocks, &[0, 1, 4]);
    assert_eq!((done.usage.cache_read_tokens, done.miss.cause), (2_500, Some(Cause::PrefixParameters)));
    talk.provider.set_model(model("claude-opus-5"));
    let done = talk.served(3_000, &blocks, &[0, 1, 4]);
    assert_eq!((done.usage.cache_read_tokens, done.miss.cause), (0, Some(Cause::PrefixModel)));
    talk.provider.set_model(model("claude-opus-5-5"));
    let done = talk.served(4_000, &blocks, &[0, 1, 4]);
    assert_eq!(missed(&done), (0, 0, None), "back on the first model everything is still there");
}

#[test]
fn a_change_behind_what_was_cached_is_no_miss() {
    let mut talk = opus();
    talk.served(0, &texts(3), &[0, 2]);
    let mut blocks = texts(3);
    blocks[3].hash = 55;
    talk.change = Some(Cause::PrefixRule);
    let done = talk.served(1_000, &blocks, &[0, 2]);
    assert_eq!(classes(&done), [4_000, 0, 0, 1_000]);
    assert_eq!(missed(&done), (0, 1_000, Some(Cause::Unknown)), "it lies behind the last marker");
}

#[test]
fn distance_size_and_time_have_causes_of_their_own() {
    let mut talk = opus();
    talk.served(0, &texts(3), &[0, 3]);
    assert_eq!(talk.served(1_000, &texts(23), &[0, 23]).miss.cause, Some(Cause::Lookback));
    let short = |tokens| vec![block(SentKind::Text, tokens, 1), block(SentKind::Text, 300, 2)];
    let mut talk = opus();
    assert_eq!(talk.served(0, &short(511)[..1], &[0]).miss.cause, Some(Cause::ColdStart));
    assert_eq!(missed(&talk.served(1_000, &short(511), &[1])), (300, 511, Some(Cause::BelowMinimum)));
    assert_eq!(missed(&talk.served(2_000, &short(511), &[1])), (0, 0, None));
    let mut talk = opus();
    talk.ttft_ms = 2_000;
    talk.served(0, &texts(3), &[0, 3]);
    assert_eq!(missed(&talk.served(1_999, &texts(3), &[0, 3])), (0, 5_000, Some(Cause::NotYetReadable)));
    assert_eq!(missed(&talk.served(2_000, &texts(3), &[0, 3])), (0, 0, None));
}

#[test]
fn a_model_that_strips_old_thinking_breaks_at_a_new_user_turn_only() {
    let mut talk = Talk::new(model("claude-haiku-4-5"), Account::Enforced);
    let mut blocks = vec![block(SentKind::System, 5_000, 1), block(SentKind::Text, 50, 2)];
    assert_eq!(classes(&talk.served(0, &blocks, &[0, 1])), [0, 5_050, 0, 0]);
    blocks.extend([thinking(400, 1), SentBlock { link: 5, ..block(SentKind::ToolUse, 100, 3) }]);
    blocks.push(SentBlock { link: 5, ..block(SentKind::ToolResult, 2_000, 4) });
    let done = talk.served(1_000, &blocks, &[0, 4]);
    assert_eq!((classes(&done), done.miss.cause), ([5_050, 2_500, 0, 0], None));
    blocks.extend([thinking(300, 2), block(SentKind::AssistantText, 150, 5), block(SentKind::Text, 60, 6)]);
    let done = talk.served(2_000, &blocks, &[0, 7]);
    assert_eq!((classes(&done), done.miss.cause), ([5_050, 2_310, 0, 0], Some(Cause::PrefixThinking)));
    let mut keeps = opus();
    keeps.served(0, &blocks[..2], &[0, 1]);
    keeps.served(1_000, &blocks[..5], &[0, 4]);
    assert_eq!(classes(&keeps.served(2_000, &blocks, &[0, 7])), [7_550, 510, 0, 0]);
}

#[test]
fn images_are_a_switch() {
    for (switch, first, second) in [("never", true, true), ("first", false, true), ("any", false, false)] {
        let mut models = Models::builtin().unwrap();
        let text =
            format!("[[model]]\nid = \"claude-opus-5-5\"\ncache.image_toggle_invalidates = \"{switch}\"\n");
        models.add_toml(&text, "test").unwrap();
        let mut talk = Talk::new(models.get("claude-opus-5-5").unwrap(), Account::Enforced);
        let mut blocks = texts(2);
        talk.served(0, &blocks, &[0, 2]);
        for (step, kept) in [first, second].into_iter().enumerate() {
            let cached: u64 = blocks.iter().map(|b| u64::from(b.tokens)).sum();
            blocks.push(block(SentKind::Image, 1_500, 50 + step as u64));
            let done = talk.served(1_000, &blocks, &[0, blocks.len() - 1]);
            assert_eq!(
                done.usage.cache_read_tokens,
                if kept { cached } else { 2_000 },
                "{switch}, image {step}"
            );
            assert_eq!(done.miss.cause, (!kept).then_some(Cause::PrefixImage));
        }
    }
}

#[test]
fn an_overflow_is_refused_in_the_words_of_the_models_age_and_leaves_no_trace() {
    let mut blocks = texts(0);
    let mut talk = opus();
    talk.max_output_tokens = 128_000;
    talk.served(0, &blocks, &[0]);
    blocks.push(block(SentKind::Text, 998_001, 7));
    let rejection = talk.refused(290_000, &blocks);
    assert_eq!(rejection.message, "prompt is too long: 1000001 tokens > 1000000 maximum");
    let numbers = RejectionKind::Overflow { input_tokens: Some(1_000_001), limit_tokens: Some(1_000_000) };
    assert_eq!((rejection.kind, rejection.block), (numbers, None));
    blocks[1].tokens = 998_000;
    blocks[1].hash = 8;
    assert_eq!(
        classes(&talk.served(290_000, &blocks, &[0, 1])),
        [2_000, 998_000, 0, 0],
        "served at the same instant"
    );
    let mut talk = opus();
    talk.served(0, &blocks[..1], &[0]);
    blocks[1].tokens = 999_999;
    talk.refused(290_000, &blocks);
    assert_eq!(
        talk.served(300_000, &blocks[..1], &[0]).usage.cache_read_tokens,
        0,
        "a refusal refreshes nothing"
    );

    let mut talk = Talk::new(model("claude-sonnet-4"), Account::Enforced);
    talk.max_output_tokens = 8_192;
    let blocks = [block(SentKind::Text, 199_759, 1)];
    let rejection = talk.refused(0, &blocks);
    assert_eq!(
        rejection.message,
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or \
         `max_tokens` and try again"
    );
    talk.max_output_tokens = 241;
    talk.served(0, &blocks, &[0]);
}

#[test]
fn unpaired_calls_and_results_are_refused_at_the_first_offender() {
    let link = |link, b: SentBlock| SentBlock { link, ..b };
    let call = |id| link(id, block(SentKind::ToolUse, 10, 100 + u64::from(id)));
    let result = |id| link(id, block(SentKind::ToolResult, 10, 200 + u64::from(id)));
    let base = texts(1);
    let with = |more: &[SentBlock]| [&base[..], more].concat();
    let mut talk = opus();
    let rejection = talk.refused(0, &with(&[call(1), call(2), result(1), block(SentKind::Text, 5, 9)]));
    assert_eq!((rejection.block, rejection.path.as_deref()), (Some(3), Some("messages.1.content.1")));
    assert!(
        rejection.message.contains("without `tool_result` blocks immediately after: 2"),
        "{}",
        rejection.message
    );
    let rejection = talk.refused(0, &with(&[call(1), result(1), result(3)]));
    assert_eq!((rejection.block, rejection.path.as_deref()), (Some(4), Some("messages.2.content.1")));
    assert!(rejection.message.contains("unexpected `tool_use_id`"), "{}", rejection.message);
    assert_eq!(classes(&talk.served(0, &with(&[call(1), result(1)]), &[0, 3])), [0, 3_020, 0, 0]);
}

#[test]
fn a_summarizer_shares_the_cache_but_not_the_conversation() {
    let mut provider = Provider::new(model("claude-opus-5-5"), Account::Enforced);
    let blocks = texts(3);
    let prompt = block(SentKind::Text, 200, 999);
    let with_prompt = [&blocks[..], &[prompt]].concat();
    let request = |at_ms, blocks, changed_from, markers| Request {
        at_ms,
        ttft_ms: 0,
        blocks,
        changed_from,
        change: None,
        markers,
        automatic: None,
        params: Params::default(),
        tail_tokens: 0,
        max_output_tokens: 0,
    };
    let mark = |after| Marker { after, ttl: Ttl::Short };
    let done = |answer| match answer {
        Answer::Done(done) => done,
        Answer::Rejected(rejection) => panic!("{}", rejection.message),
    };
    let own = [mark(0), mark(3)];
    done(provider.send(&request(0, &blocks, 0, &own)));
    let aside = [mark(0), mark(4)];
    let sum = done(provider.send_aside(model("claude-opus-5-5"), &request(200_000, &with_prompt, 0, &aside)));
    assert_eq!(classes(&sum), [5_000, 200, 0, 0]);
    let other =
        done(provider.send_aside(model("claude-haiku-5-5"), &request(200_000, &with_prompt, 0, &aside)));
    assert_eq!(classes(&other), [0, 5_200, 0, 0], "another model shares nothing");
    let next = done(provider.send(&request(499_999, &blocks, 4, &own)));
    assert_eq!(
        (classes(&next), missed(&next)),
        ([5_000, 0, 0, 0], (0, 0, None)),
        "the summarizer kept it alive"
    );
}
