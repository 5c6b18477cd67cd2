//! What other vendors do with reasoning and with prompts that do not fit.

use ctxsim::cause::Cause;
use ctxsim::provider::model::OverflowStyle;
use ctxsim::provider::reasoning::{Reason, Replay};
use ctxsim::provider::{
    Account, Answer, ModelSpec, Models, PrefixMismatch, Rejection, RejectionKind, SentBlock, SentKind, Ttl,
};

use super::provider_support::{Talk, block, model, numbered, thinking};

fn call(id: u32) -> SentBlock {
    SentBlock { link: id, ..block(SentKind::ToolUse, 50, u64::from(id) + 9_000) }
}

fn result(id: u32, version: u64) -> SentBlock {
    SentBlock { link: id, ..block(SentKind::ToolResult, 2_000, version) }
}

/// Tools, system and a question, then `steps` of thinking, call and result; the thinking of step n is n, its call
/// n + 100.
fn steps(steps: u32) -> Vec<SentBlock> {
    let mut blocks = vec![
        block(SentKind::Tool, 3_000, 1),
        block(SentKind::System, 2_000, 2),
        block(SentKind::Text, 100, 3),
    ];
    for n in 1..=steps {
        blocks.extend([thinking(400, n), call(n + 100), result(n + 100, u64::from(n) + 5_000)]);
    }
    blocks
}

/// Sends the conversation step by step, as it came about.
fn lived_through<'m>(model: &'m ModelSpec, count: u32) -> Talk<'m> {
    let mut talk = Talk::new(model, Account::Enforced);
    for n in 0..=count {
        let blocks = steps(n);
        talk.served(i64::from(n) * 1_000, &blocks, &[blocks.len() - 1]);
        talk.provider.answered(&[n + 1]);
        talk.provider.called(n + 101, n + 1);
    }
    talk
}

fn reasons(talk: &Talk<'_>, blocks: &[SentBlock]) -> Vec<(u32, bool, Reason)> {
    let listed = talk.provider.transformations(&numbered(blocks));
    listed.into_iter().map(|t| (blocks[t.block as usize].link, t.removed, t.reason)).collect()
}

/// A tool output of step 3 is shortened: the reasoning of steps 4 to 6 is removed, and the request succeeds.
#[test]
fn gpt_removes_reasoning_behind_an_edit_and_says_so() {
    let model = model("gpt-6.2-sol");
    let mut talk = lived_through(model, 6);
    let mut blocks = steps(6);
    let at = blocks.iter().position(|b| b.link == 103 && b.kind == SentKind::ToolResult).unwrap();
    blocks[at] = SentBlock { hash: 77, tokens: 20, ..blocks[at] };
    let done = talk.served(7_000, &blocks, &[]);
    assert_eq!(done.dropped_thinking, 3);
    let expected: Vec<_> = (4..=6).map(|n| (n, true, Reason::PrefixMismatch)).collect();
    assert_eq!(reasons(&talk, &blocks), expected);
    let visible: u64 = blocks.iter().map(|b| u64::from(b.tokens)).sum();
    assert_eq!(done.usage.prompt_tokens(), visible - 3 * 400, "what is removed is not billed");
    let before_edit: u64 = blocks[..at].iter().map(|b| u64::from(b.tokens)).sum();
    assert!(done.usage.cache_read_tokens <= before_edit, "the cache ends before the edit");
    // Another system prompt is no prefix change, since instructions stand behind the input; other tools are one.
    let mut talk = lived_through(model, 2);
    let mut blocks = steps(2);
    blocks[1].hash = 99;
    assert_eq!(talk.served(3_000, &blocks, &[]).dropped_thinking, 0);
    blocks[0].hash = 99;
    assert_eq!(talk.served(4_000, &blocks, &[]).dropped_thinking, 2);
    assert_eq!(reasons(&talk, &blocks).len(), 2);
    // What Claude would call an error of the order is none here.
    let mut talk = lived_through(model, 3);
    let without: Vec<SentBlock> = steps(3).into_iter().filter(|b| b.link != 2).collect();
    assert_eq!(talk.served(4_000, &without, &[]).dropped_thinking, 0);
}

/// What a client asks for does not turn the removal into an error.
#[test]
fn gpt_never_refuses_for_its_reasoning() {
    let mut talk = lived_through(model("gpt-6.2-sol"), 2);
    talk.params.prefix_mismatch = Some(PrefixMismatch::Error);
    let mut blocks = steps(2);
    blocks[2].hash = 99;
    assert_eq!(talk.served(3_000, &blocks, &[]).dropped_thinking, 2);
    let mut talk = lived_through(model("gpt-6.1-sol"), 2);
    assert_eq!(talk.served(3_000, &blocks, &[]).dropped_thinking, 0, "older models do not check");
}

#[test]
fn reasoning_of_another_vendor_is_removed_and_comes_back() {
    let (ours, theirs) = (model("claude-opus-5"), model("gpt-6.2-sol"));
    let mut talk = lived_through(ours, 2);
    let blocks = steps(2);
    talk.provider.set_model(theirs);
    talk.served(3_000, &blocks, &[]);
    let expected = [(1, true, Reason::ModelMismatch), (2, true, Reason::ModelMismatch)];
    assert_eq!(reasons(&talk, &blocks), expected);
    talk.provider.set_model(ours);
    assert_eq!(talk.served(4_000, &blocks, &[blocks.len() - 1]).dropped_thinking, 0);
    assert_eq!(reasons(&talk, &blocks), []);
}

/// Before 5.6, reasoning of earlier turns is dropped when the user speaks; from 5.6 on it stays.
#[test]
fn old_reasoning_ends_at_a_turn_where_the_model_says_so() {
    for (id, kept) in [("gpt-5.4", false), ("gpt-5", false), ("gpt-5.6-sol", true), ("gpt-6-sol", true)] {
        let mut talk = lived_through(model(id), 2);
        let mut blocks = steps(2);
        blocks.extend([block(SentKind::AssistantText, 30, 800), block(SentKind::Text, 60, 801)]);
        let done = talk.served(3_000, &blocks, &[]);
        let visible: u64 = blocks.iter().map(|b| u64::from(b.tokens)).sum();
        let expected = if kept { visible } else { visible - 2 * 400 };
        assert_eq!(done.usage.prompt_tokens(), expected, "{id}");
        let listed = reasons(&talk, &blocks);
        assert!(
            listed.iter().all(|(_, removed, reason)| *removed && *reason == Reason::TurnBoundary),
            "{id}"
        );
        assert_eq!(listed.len(), if kept { 0 } else { 2 }, "{id}");
    }
}

fn refused_without(id: &str, thinking: u32, spoke: bool) -> Option<Rejection> {
    let mut talk = lived_through(model(id), 2);
    let mut blocks: Vec<SentBlock> =
        steps(2).into_iter().filter(|b| b.kind != SentKind::Thinking || b.link != thinking).collect();
    if spoke {
        blocks.extend([block(SentKind::AssistantText, 30, 800), block(SentKind::Text, 60, 801)]);
    }
    match talk.send(3_000, &blocks, &[blocks.len() - 1], Ttl::Short) {
        Answer::Done(_) => None,
        Answer::Rejected(rejection) => Some(*rejection),
    }
}

/// Gemini wants the signatures of the current turn back, DeepSeek all reasoning of messages with calls, others none.
#[test]
fn calls_come_back_with_what_led_to_them() {
    let gemini = refused_without("gemini-3.8-flash", 2, false).unwrap();
    assert_eq!(gemini.kind, RejectionKind::InvalidRequest);
    assert!(
        gemini.message.starts_with("Function call is missing a thought_signature in functionCall parts.")
    );
    assert!(gemini.path.is_some());
    assert!(refused_without("gemini-3.8-flash", 1, false).is_some());
    assert!(refused_without("gemini-3.8-flash", 2, true).is_none(), "earlier turns are not checked");
    for spoke in [false, true] {
        let seek = refused_without("deepseek-v4-pro", 1, spoke).unwrap();
        assert_eq!(
            seek.message,
            "The reasoning_content in the thinking mode must be passed back to the API."
        );
    }
    for free in ["gemini-2.5-pro", "gpt-6.2-sol", "claude-opus-5", "grok-4.5", "kimi-k3"] {
        assert_eq!(model(free).replay, Replay::Free);
        assert!(refused_without(free, 1, false).is_none(), "{free}");
    }
}

/// Gemini binds no signature to its prefix: a rewritten result is accepted.
#[test]
fn gemini_accepts_rewritten_results() {
    let mut talk = lived_through(model("gemini-3.8-flash"), 2);
    let mut blocks = steps(2);
    blocks[5] = SentBlock { hash: 77, tokens: 20, ..blocks[5] };
    assert_eq!(talk.served(3_000, &blocks, &[]).dropped_thinking, 0);
}

/// The table of who reads whose thinking (preserved-thinking page of 2026-10-08), cell by cell.
#[test]
fn the_reader_matrix_is_the_published_one() {
    let claude: Vec<&str> = vec![
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-fable-5-1",
        "claude-mythos-5-1",
        "claude-fable-5",
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-sonnet-5-5",
        "claude-sonnet-5",
        "claude-haiku-5-5",
        "claude-haiku-4-5",
    ];
    // One column per producer, in the order above.
    let rows = [
        ("claude-fable-5-2", "111111111111"),
        ("claude-mythos-5-2", "111111111111"),
        ("claude-fable-5-1", "001111110101"),
        ("claude-mythos-5-1", "001111110101"),
        ("claude-fable-5", "000010110101"),
        ("claude-opus-5-5", "000001111111"),
        ("claude-opus-5", "000010111111"),
        ("claude-opus-4-8", "000010111111"),
        ("claude-sonnet-5-5", "000000011111"),
        ("claude-sonnet-5", "000010111111"),
        ("claude-haiku-5-5", "000000000010"),
        ("claude-haiku-4-5", "000010111111"),
    ];
    for (reader, row) in rows {
        for (producer, expected) in claude.iter().zip(row.chars()) {
            let reads = model(reader).can_read(model(producer));
            // What earlier models make of 5.5 Sonnet and Haiku is not published.
            let unpublished = ["claude-sonnet-5-5", "claude-haiku-5-5"].contains(producer)
                && !reader.ends_with("5-5")
                && !reader.contains("5-1")
                && !reader.contains("5-2");
            assert!(unpublished || reads == (expected == '1'), "{reader} {producer}");
        }
        assert!(!model(reader).can_read(model("gpt-6.2-sol")), "{reader} reads nobody else's");
    }
}

/// `claude-opus-5` with a window of this size that deals with overflow in this way.
fn narrow(window_tokens: u64, overflow: OverflowStyle) -> ModelSpec {
    let mut model = Models::builtin().unwrap().get("claude-opus-5").unwrap().clone();
    model.window_tokens = window_tokens;
    model.overflow = overflow;
    model
}

fn turns(count: u64) -> Vec<SentBlock> {
    let mut blocks = vec![block(SentKind::Tool, 600, 1), block(SentKind::System, 400, 2)];
    for n in 0..count {
        let id = n as u32;
        blocks.extend([block(SentKind::Text, 100, 100 + n), call(id), result(id, 300 + n)]);
        blocks.push(block(SentKind::AssistantText, 50, 600 + n));
    }
    blocks.push(block(SentKind::Text, 100, 99));
    blocks
}

/// A vendor that truncates serves what fits: tools and system prompt, and the newest whole messages.
#[test]
fn a_vendor_that_truncates_serves_the_newest() {
    let model = narrow(6_000, OverflowStyle::Truncates);
    let mut talk = Talk::new(&model, Account::Enforced);
    let fits = turns(2);
    let done = talk.served(0, &fits, &[1, fits.len() - 1]);
    assert_eq!((done.usage.prompt_tokens(), done.left_out_blocks), (1_000 + 2 * 2_200 + 100, 0));
    // 1,000 + 4 × 2,200 + 100 = 9,900: all of two turns leaves but the answer, and no result without its call.
    let long = turns(4);
    let done = talk.served(1_000, &long, &[1, long.len() - 1]);
    assert_eq!((done.usage.prompt_tokens(), done.left_out_blocks), (5_550, 7));
    assert_eq!((done.usage.cache_read_tokens, done.miss.cause), (1_000, Some(Cause::ProviderSide)));
    let again = talk.served(2_000, &long, &[1, long.len() - 1]);
    assert_eq!(
        (again.usage.cache_read_tokens, again.left_out_blocks),
        (5_550, 7),
        "the same cut reads all of it"
    );
    let longer = turns(5);
    let moved = talk.served(3_000, &longer, &[1, longer.len() - 1]);
    assert_eq!((moved.usage.cache_read_tokens, moved.left_out_blocks), (1_000, 11), "the cut moved");
    let short = talk.served(4_000, &fits, &[1, fits.len() - 1]);
    assert_eq!(
        (short.usage.cache_read_tokens, short.left_out_blocks),
        (5_500, 0),
        "what once fitted is still there"
    );
}

/// `truncation: "auto"` does so for a request; without it the request is refused.
#[test]
fn a_client_can_ask_for_truncation() {
    let model = narrow(6_000, OverflowStyle::Openai);
    let mut talk = Talk::new(&model, Account::Enforced);
    let long = turns(4);
    let refused = talk.refused(0, &long);
    assert_eq!(refused.kind, RejectionKind::Overflow { input_tokens: None, limit_tokens: None });
    talk.params.truncates = true;
    assert_eq!(talk.served(1_000, &long, &[]).left_out_blocks, 7);
    // A last message that is too large by itself cannot be helped.
    let huge = vec![block(SentKind::Tool, 600, 1), block(SentKind::Text, 9_000, 2)];
    assert!(matches!(talk.send(2_000, &huge, &[], Ttl::Short), Answer::Rejected(_)));
}

#[test]
fn every_vendor_refuses_in_its_own_words() {
    for (id, words) in [
        ("claude-opus-5-5", "prompt is too long: "),
        ("gpt-6.2-sol", "Your input exceeds the context window"),
        ("gemini-3.8-flash", "The input token count ("),
        ("deepseek-v4-pro", "This model's maximum context length is "),
        ("grok-4.5", "This model's maximum prompt length is "),
        ("kimi-k3", "Your request exceeded model token limit: "),
        ("glm-5.3", "Prompt exceeds max length"),
        ("qwen3.8-max", "Range of input length should be [1, "),
        ("MiniMax-M3", "invalid params, context window exceeds limit"),
        ("mistral-large-4", "Prompt contains "),
        ("vllm", "This model's maximum context length is "),
        ("sglang", "Input length ("),
    ] {
        let model = model(id);
        let tokens = u32::try_from(model.window_tokens + 1).unwrap();
        let blocks = [block(SentKind::Text, tokens, 1)];
        let rejection = Talk::new(model, Account::Enforced).refused(0, &blocks);
        assert!(rejection.message.starts_with(words), "{id}: {}", rejection.message);
        let numbers = ctxsim::provider::overflow::parse(&rejection.message);
        assert!(numbers.deficit.is_none_or(|deficit| deficit == 1), "{id}: {numbers:?}");
    }
}
