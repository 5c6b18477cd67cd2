//! Rules that each do something, one for every action, hook and selector.

/// What a rule does, and the rule.
pub const RULES: &[(&str, &str)] = &[
    (
        "stub by results",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "estimate", over = 20000 }]
select = { tool_results = { min = 100, min_unit = "bytes", keep_recent = { results = 4 } } }
stub = { fixed = 20 }
cadence = { min_savings = 2000, savings_unit = "estimate" }
"#,
    ),
    (
        "replaced for good, newest by size, the crossing one too",
        r#"[[rule]]
id = "r"
at = ["turn_end", "after_tools"]
when = [{ of = "tool_results", unit = "estimate", over = 5000 }]
select = { tool_results = { keep_recent = { tokens = 9000, crossing = "drop" }, except = ["Skill"] } }
stub = { fixed = 40, digits = ["chars"] }
cadence = { savings_over = 3000, savings_unit = "tokens" }
view = "destructive"
"#,
    ),
    (
        "stateless with a stop rule",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 15000 }]
select = { tool_results = { keep_recent = { results = 3 }, until = { saved = 8000 } } }
stub = { fixed = 9 }
cadence = { savings_unit = "tokens" }
view = "stateless"
"#,
    ),
    (
        "polling",
        r#"[[rule]]
id = "r"
at = "request"
select = { tool_results = { keep_first = 1, hidden_items = 1, keep_recent = { results = 5 }, quantum = 4 } }
stub = { fixed = 45, digits = ["lines"] }
view = "stateless"
"#,
    ),
    (
        "old results are cut",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "bytes", over = 30000 }]
select = { tool_results = { min = 1000, keep_recent = { turns = 2, turn = "boundary" } } }
truncate = { head = 200, tail = 200, marker = { fixed = 30, digits = ["omitted_chars"] } }
view = "destructive"
"#,
    ),
    (
        "old results are cut, recorded",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "count", at_least = 8 }]
select = { tool_results = { min = 1000, keep_recent = { messages = 6 } } }
truncate = { head = 10, tail = 10, unit = "lines", marker = { fixed = 30 } }
"#,
    ),
    (
        "fresh results are cut",
        r#"[[rule]]
id = "r"
at = "tool_result"
when = [{ of = "block", unit = "lines", over = 40 }, { of = "block", unit = "bytes", over = 5000 }]
select = { tool_results = {} }
truncate = { budget = 4000, unit = "bytes", head_percent = 20, marker = { fixed = 60, digits = ["omitted_bytes"] } }
"#,
    ),
    (
        "arguments are emptied",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 12 }]
select = { tool_inputs = { min = 40, keep_recent = { turns = 3 } } }
clear_inputs = { chars = 2 }
"#,
    ),
    (
        "arguments are emptied for good",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 12 }]
select = { tool_inputs = { min = 40, keep_recent = { turns = 3 } } }
clear_inputs = { chars = 2 }
cadence = { min_interval = 5 }
view = "destructive"
"#,
    ),
    (
        "pairs leave",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "count", over = 8 }]
select = { pairs = { keep_recent = { results = 5 } } }
drop = {}
cadence = { min_savings = 4000 }
"#,
    ),
    (
        "pairs are left out of each request",
        r#"[[rule]]
id = "r"
at = "request"
select = { pairs = { keep_recent = { results = 5 } } }
drop = {}
view = "stateless"
"#,
    ),
    (
        "thinking leaves",
        r#"[[rule]]
id = "r"
at = "request"
select = { thinking = { keep_recent = { turns = 2 } } }
strip_thinking = {}
"#,
    ),
    (
        "messages leave, a marker stays",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "count", over = 24 }]
select = { messages = { keep_first = 1, keep_recent = { messages = 10 }, snap = "assistant" } }
drop = { marker_chars = 80 }
"#,
    ),
    (
        "messages leave without a trace",
        r#"[[rule]]
id = "r"
at = "turn_start"
when = [{ of = "messages", unit = "turns", over = 2 }]
select = { messages = { keep_recent = { turns = 1, turn = "user" } } }
drop = {}
"#,
    ),
    (
        "a middle is summarized in place, to half of what fired",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "events", over = 40 }]
cadence = { min_fold_percent = 10 }
[rule.select.messages]
keep_first = 1
snap = "assistant"
hidden_events = 1
until = { total = { fired = 0.5 } }
[rule.summarize]
input = "messages"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 2000
model = "same"
place = "in_place"
"#,
    ),
    (
        "user messages stay, the summary is last, the cache is read",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "estimate", at_least = 20000 }]
select = { messages = {} }
[rule.summarize]
input = "fork"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 2000
model = "same"
place = "last"
reinject = { user_messages = 20000, tokens = 100 }
"#,
    ),
    (
        "two calls, a share of the text stays, a larger summary is thrown away",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "last_usage", unit = "tokens", at_least = 30000 }]
select = { messages = { keep_recent = { share = 0.3 }, toward = "older" } }
cadence = { not_after_self = true, breaker = { failures = 3, refills = 4 } }
[rule.summarize]
input = "fork"
prompt_chars = 500
max_output_tokens = 2000
model = "lite"
fallback_model = "same"
calls = 2
output = { share = 0.05 }
reject_if_larger = true
"#,
    ),
    (
        "a target with head-room",
        r#"[[rule]]
id = "r"
at = "response"
when = [{ of = "tool_results", unit = "utf16", over = 40000 }]
select = { tool_results = { min = 500, keep_recent = { results = 2 } } }
stub = { fixed = 30 }
cadence = { target = 25000 }
view = "destructive"
"#,
    ),
    (
        "in the cold",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "tool_results", unit = "utf16", over = 10000 }]
select = { tool_results = { keep_recent = { turns = 2 } } }
stub = { fixed = 30 }
cadence = { when_cache = "prefer_cold" }
"#,
    ),
    (
        "tiers with their own stubs",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "eligible", unit = "tokens", at_least = 5000 }]
select = { tool_results = { keep_recent = { estimate = 6000 } } }
stub = { fixed = 60, path = 0 }
stub_by_tool = [{ only = ["shell"], stub = { fixed = 60 }, head = 5, tail = 5, unit = "lines" }]
cadence = { savings = "gross", savings_unit = "tokens", no_refire_above_floor = true }
"#,
    ),
    (
        "the provider leaves old thinking out of its own copy",
        r#"[[rule]]
id = "r"
at = "request"
view = "server"
select = { thinking = { keep_recent = { thinking_turns = 2 } } }
strip_thinking = {}
"#,
    ),
    (
        "summaries accumulate, each of more than the last one holds",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", at_least = 8000 }]
select = { messages = { keep_recent = { turns = 3 }, snap = "assistant" } }
cadence = { larger_than_last_summary = true }
[rule.summarize]
input = "messages"
prompt_chars = 500
wrap_chars = 10
max_output_tokens = 500
model = "same"
accumulate = true
"#,
    ),
    (
        "results and messages leave until there is room for growth",
        r#"[[rule]]
id = "r"
at = "request"
view = "destructive"
when = [{ of = "messages", unit = "plain_estimate", over = 15000 }]
select = { tool_results = { keep_recent = { results = 2 } } }
stub = { fixed = 20 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 }, savings_unit = "estimate" }
[[rule]]
id = "s"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 20000 }]
select = { messages = { snap = "assistant" } }
drop = { marker_chars = 40 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
"#,
    ),
];

/// The same, of what summaries can do besides.
pub const OF_SUMMARIES: &[(&str, &str)] = &[
    (
        "a summary that is there three requests later",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 8000 }]
select = { messages = { keep_recent = { turns = 2 }, snap = "assistant" } }
summarize = { input = "messages", prompt_chars = 500, max_output_tokens = 500, model = "same", latency_steps = 3 }
"#,
    ),
    (
        "a summary that waits, and goes if an edit came between",
        r#"[[rule]]
id = "r"
at = "response"
when = [{ of = "messages", unit = "plain_estimate", over = 6000 }]
select = { messages = { keep_recent = { turns = 2 }, snap = "assistant" } }
summarize = { input = "messages", prompt_chars = 500, max_output_tokens = 500, model = "same", latency_steps = 2, place_over = 9000, discard_if_stale = true }
[[rule]]
id = "s"
at = "request"
select = { tool_results = { keep_recent = { results = 4 } } }
stub = { fixed = 20 }
view = "destructive"
cadence = { min_interval = 7 }
"#,
    ),
    (
        "old results are cut with the summary",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 9000 }]
select = { messages = { keep_recent = { estimate = 5000 }, snap = "assistant" } }
[rule.summarize]
input = "messages"
prompt_chars = 500
max_output_tokens = 500
model = "same"
truncate_results = { beyond = 1500, head = 200, tail = 200, marker = { fixed = 40 } }
"#,
    ),
    (
        "a text for each old pair",
        r#"[[rule]]
id = "r"
at = "request"
view = "destructive"
when = [{ of = "eligible", unit = "count", at_least = 6 }]
select = { pairs = { keep_recent = { turns = 3 }, until = { count = 4 } } }
[rule.summarize]
per = "pair"
prompt_chars = 300
max_output_tokens = 60
model = "same"
output = { tokens = 30 }
transcript = { user_label = 7, assistant_label = 4, calls_label = 4, call_fixed = 2, call_separator = 2, result_label = 6, result_error = 0, result_cap = 100000, result_note = 0 }
[[rule]]
id = "s"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 12000 }]
select = { messages = { keep_first = 2, keep_recent = { estimate = 6000 }, snap = "message" } }
drop = { marker_chars = 30 }
"#,
    ),
    (
        "the summarizer reads the newest part, and a turn again",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 7000 }]
select = { messages = { keep_recent = { turns = 2 }, snap = "assistant" } }
[rule.summarize]
prompt_chars = 300
max_output_tokens = 400
model = "same"
input_last = 3000
overlap_turns = 2
accumulate = true
cache_writes = false
on_overflow = "middle_out"
leave_out_percent = [50, 100]
transcript = { user_label = 7, assistant_label = 4, calls_label = 4, call_fixed = 2, call_separator = 2, result_label = 6, result_error = 0, result_cap = 100000, result_note = 0 }
"#,
    ),
    (
        "a turn that is cut in two has two calls",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 7000 }]
select = { messages = { keep_recent = { turns = 2 }, snap = "assistant" } }
[rule.summarize]
prompt_chars = 300
max_output_tokens = 400
model = "same"
split_turn = { prompt_chars = 200, max_output_tokens = 200, wrap_chars = 30 }
transcript = { user_label = 7, assistant_label = 4, calls_label = 4, call_fixed = 2, call_separator = 2, result_label = 6, result_error = 0, result_cap = 100000, result_note = 0 }
"#,
    ),
    (
        "repeated calls, and what is measured as it is sent",
        r#"[[rule]]
id = "r"
at = "request"
select = { tool_results = { superseded = true } }
stub = { fixed = 20 }
[[rule]]
id = "s"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", state = "sent", over = 9000 }, { of = "tool_results", unit = "count", state = "original", over = 40 }]
select = { tool_results = { keep_recent = { history_estimate = 3000 } } }
stub = { fixed = 20 }
"#,
    ),
    (
        "the last user message stays where all else leaves",
        r#"[[rule]]
id = "r"
at = "request"
when = [{ of = "messages", unit = "plain_estimate", over = 9000 }]
select = { messages = { keep_recent = { messages = 4 }, snap = "assistant", keep_last_user = true } }
drop = { marker_chars = 30 }
stop_if_saved = 0.9
[[rule]]
id = "s"
at = "request"
follows = "r"
select = { tool_results = { keep_recent = { results = 1 } } }
stub = { fixed = 20 }
"#,
    ),
];
