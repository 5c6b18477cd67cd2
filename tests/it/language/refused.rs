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
];
