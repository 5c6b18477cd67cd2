//! `ctxsim inspect`: what is in a recording.

use std::fmt::Write as _;

use clap::Args;
use ctxsim::metrics::{Rate, group_digits};
use ctxsim::report::grid::Grid;
use ctxsim::report::{json, table};
use ctxsim::session::{BlockKind, EventKind, Flags, NONE, Session};
use ctxsim::usage::Usage;
use serde::Serialize;

use super::args::{Compactions, Format, InputArgs, SessionArgs};
use super::exit::{self, Outcome};
use super::explain::time_span;
use super::output::Terminal;
use super::{load, progress, study};

#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub session: SessionArgs,
    /// The recording's own compactions: undo them, or keep them
    #[arg(long, value_name = "WHAT", default_value = "keep", help_heading = "Sessions")]
    pub recorded_compactions: Compactions,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// How many of the largest results to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub largest: usize,
}

/// Gaps shown: the longest ones.
const GAPS_SHOWN: usize = 5;

/// What is in one session.
#[derive(Debug, Serialize)]
struct Inspection {
    session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    format: String,
    agent: String,
    agent_version: String,
    model: String,
    requests: usize,
    human_turns: usize,
    /// Requests whose usage was recorded.
    requests_with_usage: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at_ms: Option<i64>,
    prefix: PrefixTokens,
    /// Sums of the recorded usage.
    recorded: Usage,
    recorded_peak_prompt_tokens: u64,
    blocks: Vec<KindRow>,
    tools: Vec<ToolRow>,
    gaps: Gaps,
    largest_results: Vec<ResultRow>,
    events: Vec<EventRow>,
}

#[derive(Debug, Serialize)]
struct PrefixTokens {
    tools: u64,
    system: u64,
    injected: u64,
    /// Sized from recorded usage; if not, it is 0.
    measured: bool,
}

#[derive(Debug, Serialize)]
struct KindRow {
    kind: &'static str,
    blocks: u64,
    tokens: u64,
    chars: u64,
}

#[derive(Debug, Serialize)]
struct ToolRow {
    tool: String,
    role: &'static str,
    calls: u64,
    results: u64,
    errors: u64,
    chars: u64,
    tokens: u64,
    largest_chars: u64,
}

#[derive(Debug, Default, Serialize)]
struct Gaps {
    /// From start to start.
    count: usize,
    p50_ms: i64,
    max_ms: i64,
    over_5_min: usize,
    over_1_h: usize,
    longest: Vec<GapRow>,
}

#[derive(Debug, Serialize)]
struct GapRow {
    request: usize,
    gap_ms: i64,
}

#[derive(Debug, Serialize)]
struct ResultRow {
    request: usize,
    tool: String,
    chars: u64,
    lines: u64,
    tokens: u64,
}

#[derive(Debug, Serialize)]
struct EventRow {
    /// Request that it happened before, from 1.
    request: u32,
    event: String,
}

/// Runs the command.
pub fn run(args: &InspectArgs, terminal: &Terminal) -> Outcome {
    let options = load::LoadOptions::resolve(&args.input, &args.session, Some(args.recorded_compactions))?;
    let control = progress::control(terminal);
    let corpus = load::load(&options, &control, terminal)?;
    let found: Vec<Inspection> = corpus.sessions.iter().map(|s| inspect(s, args.largest)).collect();
    match args.format {
        Format::Json => {
            let value = serde_json::json!({
                "format_version": ctxsim::report::results::FORMAT_VERSION,
                "skipped": corpus.skipped,
                "sessions": found,
            });
            terminal.print_bytes(&json::pretty(&value))?;
        }
        Format::Table if found.len() == 1 => terminal.print(&page(&found[0], terminal))?,
        format => {
            terminal.print_grid(overview(&found), format)?;
            if format == Format::Table {
                terminal.note("\nname one file, or use --format json, to see what is in each session");
            }
        }
    }
    study::report_skipped(&corpus.skipped, terminal);
    Ok(match corpus.interrupted {
        true => exit::INTERRUPTED,
        false if corpus.skipped_files > 0 => exit::SKIPPED,
        false => exit::DONE,
    })
}

fn inspect(session: &Session, largest: usize) -> Inspection {
    let sum = |blocks: &[ctxsim::session::PrefixBlock]| blocks.iter().map(|b| u64::from(b.tokens)).sum();
    let usages = || session.steps.iter().filter_map(|s| s.recorded);
    let mut recorded = Usage::default();
    usages().for_each(|u| recorded.add(&u));
    let starts: Vec<i64> = session.steps.iter().filter_map(|s| s.start_ms).collect();
    Inspection {
        session: session.id.clone(),
        parent: session.parent.clone(),
        format: session.origin.format.clone(),
        agent: session.origin.agent.clone(),
        agent_version: session.origin.agent_version.clone(),
        model: session.model.clone(),
        requests: session.steps.len(),
        human_turns: session.steps.iter().filter(|s| s.human_turn).count(),
        requests_with_usage: usages().count(),
        first_at_ms: starts.first().copied(),
        last_at_ms: starts.last().copied(),
        prefix: PrefixTokens {
            tools: sum(&session.prefix.tools),
            system: sum(&session.prefix.system),
            injected: sum(&session.prefix.injected),
            measured: session.prefix_is_measured,
        },
        recorded,
        recorded_peak_prompt_tokens: usages().map(|u| u.prompt_tokens()).max().unwrap_or(0),
        blocks: kinds(session),
        tools: tools(session),
        gaps: gaps(session),
        largest_results: largest_results(session, largest),
        events: session
            .events
            .iter()
            .map(|e| EventRow { request: e.before_step + 1, event: event_words(&e.kind) })
            .collect(),
    }
}

fn kinds(session: &Session) -> Vec<KindRow> {
    const KINDS: [(BlockKind, &str); 6] = [
        (BlockKind::UserText, "user text"),
        (BlockKind::ToolResult, "tool result"),
        (BlockKind::Image, "image"),
        (BlockKind::AssistantText, "assistant text"),
        (BlockKind::Thinking, "thinking"),
        (BlockKind::ToolUse, "tool call"),
    ];
    let rows = KINDS.map(|(kind, name)| {
        let of_kind = || (0..session.blocks.len()).filter(|&i| session.blocks.kind[i] == kind);
        KindRow {
            kind: name,
            blocks: of_kind().count() as u64,
            tokens: of_kind().map(|i| u64::from(session.blocks.tokens[i])).sum(),
            chars: of_kind().map(|i| u64::from(session.blocks.utf16[i])).sum(),
        }
    });
    rows.into_iter().filter(|row| row.blocks > 0).collect()
}

fn tools(session: &Session) -> Vec<ToolRow> {
    let mut rows: Vec<ToolRow> = session
        .tools
        .iter()
        .map(|tool| ToolRow {
            tool: tool.name.clone(),
            role: tool.role.word(),
            calls: 0,
            results: 0,
            errors: 0,
            chars: 0,
            tokens: 0,
            largest_chars: 0,
        })
        .collect();
    let blocks = &session.blocks;
    for i in 0..blocks.len() {
        let Some(row) = rows.get_mut(blocks.tool[i] as usize) else { continue };
        match blocks.kind[i] {
            BlockKind::ToolUse => row.calls += 1,
            BlockKind::ToolResult => {
                let chars = u64::from(blocks.utf16[i]);
                row.results += 1;
                row.errors += u64::from(blocks.flags[i].has(Flags::ERROR));
                row.chars += chars;
                row.tokens += u64::from(blocks.tokens[i]);
                row.largest_chars = row.largest_chars.max(chars);
            }
            _ => {}
        }
    }
    rows.retain(|row| row.calls + row.results > 0);
    rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.tool.cmp(&b.tool)));
    rows
}

fn gaps(session: &Session) -> Gaps {
    let starts = |i: usize| session.steps[i].start_ms;
    let mut rows: Vec<GapRow> = (1..session.steps.len())
        .filter_map(|i| Some(GapRow { request: i + 1, gap_ms: starts(i)? - starts(i - 1)? }))
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.gap_ms), row.request));
    let over = |ms: i64| rows.iter().filter(|row| row.gap_ms > ms).count();
    Gaps {
        count: rows.len(),
        p50_ms: rows.get(rows.len() / 2).map_or(0, |row| row.gap_ms),
        max_ms: rows.first().map_or(0, |row| row.gap_ms),
        over_5_min: over(300_000),
        over_1_h: over(3_600_000),
        longest: rows.into_iter().take(GAPS_SHOWN).collect(),
    }
}

fn largest_results(session: &Session, count: usize) -> Vec<ResultRow> {
    let blocks = &session.blocks;
    let mut results: Vec<usize> =
        (0..blocks.len()).filter(|&i| blocks.kind[i] == BlockKind::ToolResult).collect();
    results.sort_by_key(|&i| (std::cmp::Reverse(blocks.utf16[i]), i));
    let request_of = |block: usize| {
        let sent = |step: &ctxsim::session::Step| step.input.contains(&u32::try_from(block).unwrap_or(NONE));
        session.steps.iter().position(sent).map_or(0, |i| i + 1)
    };
    let row = |i: usize| ResultRow {
        request: request_of(i),
        tool: session.tools.get(blocks.tool[i] as usize).map(|t| t.name.clone()).unwrap_or_default(),
        chars: u64::from(blocks.utf16[i]),
        lines: u64::from(blocks.lines[i]),
        tokens: u64::from(blocks.tokens[i]),
    };
    results.into_iter().take(count).map(row).collect()
}

fn event_words(kind: &EventKind) -> String {
    match kind {
        EventKind::ToolsChanged { tools } => format!("tool definitions change ({} tools)", tools.len()),
        EventKind::SystemChanged { .. } => "system prompt changes".to_owned(),
        EventKind::ModelChanged { model } => format!("model becomes {model}"),
        EventKind::ParametersChanged { .. } => "request parameters change".to_owned(),
        EventKind::Resumed => "resumed".to_owned(),
        EventKind::ManualCompaction => "the user asks for a compaction".to_owned(),
        EventKind::RecordedCompaction { automatic, pre_tokens, post_tokens } => {
            let how = if *automatic { "automatic" } else { "manual" };
            let number = |n: &Option<u64>| n.map_or("?".to_owned(), |n| group_digits(u128::from(n)));
            format!("the agent compacted ({how}, {} to {} tokens)", number(pre_tokens), number(post_tokens))
        }
        EventKind::RecordedClearing { blocks, .. } => format!("the agent cleared {} results", blocks.len()),
        EventKind::BlocksDropped { from, to, reason } => {
            format!("{} blocks leave the conversation ({reason:?})", to - from).to_lowercase()
        }
    }
}

fn number(n: u64) -> String {
    group_digits(u128::from(n))
}

fn hit_rate(usage: &Usage) -> String {
    Rate::of(u128::from(usage.cache_read_tokens), u128::from(usage.prompt_tokens())).percent()
}

fn overview(found: &[Inspection]) -> Grid {
    let columns = [
        ("session", false),
        ("agent", false),
        ("model", false),
        ("requests", true),
        ("turns", true),
        ("tool calls", true),
        ("prompt", true),
        ("peak", true),
        ("hit rate", true),
        ("longest gap", true),
        ("events", true),
    ];
    let mut grid = Grid::new(columns.map(|(title, right)| (title.to_owned(), right)));
    for (i, rank) in [(4, 3), (5, 2), (6, 4), (10, 5)] {
        grid.columns[i].rank = rank;
    }
    for one in found {
        grid.rows.push(vec![
            one.session.clone(),
            format!("{} {}", one.agent, one.agent_version).trim().to_owned(),
            one.model.clone(),
            number(one.requests as u64),
            number(one.human_turns as u64),
            number(one.tools.iter().map(|t| t.calls).sum()),
            number(one.recorded.prompt_tokens()),
            number(one.recorded_peak_prompt_tokens),
            hit_rate(&one.recorded),
            time_span(one.gaps.max_ms),
            one.events.len().to_string(),
        ]);
    }
    grid
}

/// Everything of one session.
fn page(one: &Inspection, terminal: &Terminal) -> String {
    let mut out = String::new();
    let agent = format!("{} {}", one.agent, one.agent_version);
    let _ = writeln!(out, "{}: {}, {}, {}", one.session, one.format, agent.trim(), one.model);
    if let Some(parent) = &one.parent {
        let _ = writeln!(out, "sub-agent of {parent}");
    }
    let _ = writeln!(
        out,
        "{} requests in {} human turns; usage recorded for {}",
        one.requests, one.human_turns, one.requests_with_usage
    );
    let r = &one.recorded;
    let _ = writeln!(
        out,
        "billed: prompt {}, read {}, written {}, uncached {}, output {}, hit rate {}, largest prompt {}",
        number(r.prompt_tokens()),
        number(r.cache_read_tokens),
        number(r.cache_write_tokens()),
        number(r.uncached_tokens),
        number(r.output_tokens),
        hit_rate(r),
        number(one.recorded_peak_prompt_tokens)
    );
    let p = &one.prefix;
    let how = if p.measured { "from recorded usage" } else { "not shown by the recording, taken as 0" };
    let _ = writeln!(
        out,
        "in front of the conversation: tools {}, system {}, injected {} tokens ({how})",
        number(p.tools),
        number(p.system),
        number(p.injected)
    );
    let g = &one.gaps;
    let _ = writeln!(
        out,
        "gaps from start to start: median {}, longest {}, {} over 5 min, {} over 1 h",
        time_span(g.p50_ms),
        time_span(g.max_ms),
        g.over_5_min,
        g.over_1_h
    );
    let mut out = table::harmless(&out).into_owned();
    for (title, grid) in sections(one) {
        if !grid.rows.is_empty() {
            let _ = write!(out, "\n{title}\n\n{}", table::draw(grid, terminal.style));
        }
    }
    out
}

fn sections(one: &Inspection) -> [(&'static str, Grid); 5] {
    let grid = |columns: &[(&str, bool)], rows: Vec<Vec<String>>| {
        let mut grid = Grid::new(columns.iter().map(|(title, right)| ((*title).to_owned(), *right)));
        grid.rows = rows;
        grid
    };
    let blocks = one
        .blocks
        .iter()
        .map(|b| vec![b.kind.to_owned(), number(b.blocks), number(b.tokens), number(b.chars)]);
    let tools = one.tools.iter().map(|t| {
        let numbers = [t.calls, t.results, t.errors, t.chars, t.tokens, t.largest_chars].map(number);
        [t.tool.clone(), t.role.to_owned()].into_iter().chain(numbers).collect()
    });
    let gaps = one.gaps.longest.iter().map(|g| vec![g.request.to_string(), time_span(g.gap_ms)]);
    let results = one.largest_results.iter().map(|r| {
        vec![r.request.to_string(), r.tool.clone(), number(r.chars), number(r.lines), number(r.tokens)]
    });
    let events = one.events.iter().map(|e| vec![e.request.to_string(), e.event.clone()]);
    [
        (
            "Blocks",
            grid(&[("kind", false), ("blocks", true), ("tokens", true), ("chars", true)], blocks.collect()),
        ),
        (
            "Tools",
            grid(
                &[
                    ("tool", false),
                    ("role", false),
                    ("calls", true),
                    ("results", true),
                    ("errors", true),
                    ("chars", true),
                    ("tokens", true),
                    ("largest", true),
                ],
                tools.collect(),
            ),
        ),
        ("Longest gaps", grid(&[("before request", true), ("gap", true)], gaps.collect())),
        (
            "Largest results",
            grid(
                &[("request", true), ("tool", false), ("chars", true), ("lines", true), ("tokens", true)],
                results.collect(),
            ),
        ),
        ("Events", grid(&[("before request", true), ("event", false)], events.collect())),
    ]
}
