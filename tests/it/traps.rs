//! Words that agents share and mean different things by: each meaning on one session. The five turns, both meanings
//! of `clear_at_least` and both tests of a threshold are vectors (`fixtures/vectors/traps.json`).

use ctxsim::generate::ConstantGrowth;

use crate::policy_support::{SHORT, base, compactions, passes, run_with, simulate, summarize};

const CHARS_BY_FOUR: &str = "[estimate]\nunit = \"utf16\"\nchars_per_token = 4\n";

/// "Keep 3": tool uses, messages, answers, tokens, or what a boundary that moves in steps leaves.
#[test]
fn what_is_kept_depends_on_what_is_counted() {
    let session = ConstantGrowth { requests: 20, calls_per_request: 2, ..base() }.session();
    let replaced = |keep: &str, more: &str| {
        let rules = format!(
            "{CHARS_BY_FOUR}[[rule]]\nid = \"clear\"\nat = \"request\"\nstub = {{ fixed = 0 }}\n{more}\n\
             select = {{ tool_results = {{ {keep} }} }}\n"
        );
        simulate(&session, &rules).0.elided_results
    };
    // Before request 20 there are 38 results of 100 tokens, two to an answer.
    assert_eq!(replaced("keep_recent = { results = 3 }", ""), 38 - 3);
    // The two newest, and the answer before them.
    assert_eq!(replaced("keep_recent = { messages = 3 }", ""), 38 - 2);
    assert_eq!(replaced("keep_recent = { turns = 3, turn = \"assistant\" }", ""), 38 - 6);
    // The one that crosses stays, or does not.
    assert_eq!(replaced("keep_recent = { tokens = 3 }", ""), 38 - 1);
    assert_eq!(replaced("keep_recent = { tokens = 3, crossing = \"drop\" }", ""), 38);
    // The task counts as the first observation: floor(39 / 10) × 10 − 3 of 39 are old, it among them.
    let polling = "hidden_items = 1, keep_recent = { results = 3 }, quantum = 10";
    assert_eq!(replaced(polling, "view = \"stateless\""), 26);
}

/// "Tokens" of one history: reported for the last call, its prompt alone, with an estimate of what came since, or
/// characters by 4, by 3.3, by 4 with a third on top.
#[test]
fn a_limit_in_tokens_fires_by_whose_tokens_they_are() {
    let session = ConstantGrowth { requests: 100, thinking_tokens: 0, ..base() }.session();
    let fires = |estimate: &str, limit: u64| {
        let over = format!("{{ of = \"messages\", unit = \"estimate\", over = {limit} }}");
        let rules = format!("{estimate}{}", summarize("\"request\"", &over, "", ""));
        compactions(&run_with(10_000_000, &session, &rules, SHORT).1).first().copied()
    };
    let anchored = |anchor: &str| format!("{CHARS_BY_FOUR}anchor = \"{anchor}\"\n");
    // The prompt of request k has 15,200 + 120 (k - 1) tokens, its answer 20, the result that follows 300 characters.
    // At request 9 the last prompt is 16,040 and comes to 16,060 with its answer, at request 8 to 15,940.
    assert_eq!(fires(&anchored("last_prompt"), 16_050), Some(10));
    assert_eq!(fires(&anchored("last_usage"), 16_050), Some(9));
    // 15,940 and 75.
    assert_eq!(fires(&anchored("last_usage"), 16_010), Some(9));
    assert_eq!(fires(&anchored("last_usage_total"), 16_010), Some(8));
    // An estimate of the messages knows neither system prompt nor tools.
    assert_eq!(fires(CHARS_BY_FOUR, 16_010), None);
    let by = |estimate: &str| fires(&format!("[estimate]\nunit = \"utf16\"\n{estimate}\n"), 5_000).unwrap();
    let (four, fewer) = (by("chars_per_token = 4"), by("chars_per_token = 3.3"));
    let more = by("chars_per_token = 4\nper = \"all\"\nfactor_percent = 130");
    assert!(more < fewer && fewer < four, "{more}, {fewer}, {four}");
    // 130 % of a quarter against 10/33: the requests are in the ratio of the rates, but for the prompt.
    assert!((four * 33).abs_diff(fewer * 40) <= 80 && (four * 100).abs_diff(more * 130) <= 260);
}

/// A view: history that is rewritten is measured as it then is; a ledger and a copy for each request are measured
/// as they were, so the trigger goes on firing.
#[test]
fn a_trigger_sees_the_edit_only_where_the_history_itself_changed() {
    let growth = ConstantGrowth { requests: 30, result_utf16: 10_000, result_tokens: 2_500, ..base() };
    let session = growth.session();
    let passes = |view: &str| {
        let rules = format!(
            r#"
            [[rule]]
            id = "clear"
            at = "request"
            view = "{view}"
            when = [{{ of = "tool_results", unit = "utf16", over = 100000 }}]
            stub = {{ fixed = 0 }}
            select = {{ tool_results = {{ keep_recent = {{ results = 3 }} }} }}
            "#
        );
        passes(&simulate(&session, &rules).1)
    };
    // Eleven results at request 12; three are left, and eight more come.
    assert_eq!(passes("destructive"), [12, 20, 28]);
    assert_eq!(passes("ledger"), (12..=30).collect::<Vec<_>>());
    assert_eq!(passes("stateless"), (12..=30).collect::<Vec<_>>());
}
