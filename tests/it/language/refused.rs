//! Rules whose parts do not go together.

/// A rule, and a word of what is said of it.
pub const REFUSED: &[(&str, &str)] = &[
    (
        r#"select = { tool_results = {} }
stub = { fixed = 20 }
cadence = { target = 5, headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
when = [{ of = "messages", unit = "estimate", over = 20000 }]"#,
        "cadence.target",
    ),
    (
        r#"select = { tool_results = {} }
stub = { fixed = 20 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }"#,
        "`when`",
    ),
    (
        r#"select = { messages = { until = { count = 3 } } }
drop = { marker_chars = 40 }
cadence = { headroom = { requests = 20, floor = 0.3, ceiling = 0.8 } }
when = [{ of = "messages", unit = "estimate", over = 20000 }]"#,
        "`until`",
    ),
    (
        r#"select = { messages = {} }
drop = { marker_chars = 40 }
cadence = { larger_than_last_summary = true }"#,
        "`summarize`",
    ),
    (
        r#"select = { messages = { keep_recent = { thinking_turns = 2 } } }
drop = { marker_chars = 40 }"#,
        "messages are kept by",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", accumulate = true, place = "last" }"#,
        "`accumulate`",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", input_last = 5 }"#,
        "`input_last`",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", on_overflow = "middle_out", leave_out_percent = [10] }"#,
        "middle_out",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", leave_out_percent = [10] }"#,
        "`leave_out_percent`",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", discard_if_stale = true }"#,
        "`latency_steps`",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", place_over = 5 }"#,
        "`latency_steps`",
    ),
    (
        r#"select = { messages = {} }
when = [{ of = "messages", unit = "estimate", over = 5 }]
cadence = { target = 3, target_required = true }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", latency_steps = 1 }"#,
        "`target_required`",
    ),
    (
        r#"select = { pairs = {} }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", per = "pair" }"#,
        r#"`view = "destructive"`"#,
    ),
    (
        r#"select = { pairs = {} }
view = "destructive"
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same", per = "pair" }"#,
        "`transcript`",
    ),
    (
        r#"select = { messages = { keep_last_user = true } }
summarize = { input = "messages", prompt_chars = 1, max_output_tokens = 1, model = "same" }"#,
        "`keep_last_user`",
    ),
    (
        r#"select = { tool_results = { superseded = true, duplicates = "later" } }
stub = { fixed = 20 }"#,
        "exclude each other",
    ),
    (
        r#"select = { thinking = { superseded = true } }
strip_thinking = {}"#,
        "`tool_results` and `pairs`",
    ),
    (
        r#"select = { tool_results = {} }
when = [{ of = "last_prompt", unit = "tokens", state = "sent", over = 5 }]
stub = { fixed = 20 }"#,
        "`state`",
    ),
    (
        r#"select = { tool_results = {} }
if_broken = "q"
stub = { fixed = 20 }"#,
        "`if_broken`",
    ),
    (
        r#"select = { messages = {} }
summarize = { input = "fork", prompt_chars = 1, max_output_tokens = 1, model = "same", truncate_results = { beyond = 5, head = 1 } }"#,
        "`truncate_results`",
    ),
];
