//! Bytes → session.

use std::io::BufRead;
use std::path::Path;

use serde_json::Value;

use super::lines::{AnyLine, BlockLine, EventLine, Header, StepLine};
use super::{FORMAT_VERSION, names_known_blocks};
use crate::lines::{self, Found, MAX_LINE_BYTES};
use crate::session::{BlockKind, Blocks, NONE, Session};
use crate::{Error, Result};

/// Most tokens of one request that are taken for real (docs/decisions.md 30).
const MAX_TOKENS: u64 = 1_000_000_000;
/// Largest coefficient: a thousand tokens a character, as `--tokens chars:0.001` has it.
const MAX_MILLI: u64 = 1_000_000;
/// Times from year 0 to year 9999, in which sums cannot overflow.
const TIMES_MS: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// Reads one trace. `label` names it in errors.
///
/// # Errors
///
/// If the source cannot be read, a line is not what its key says, the format is newer than this
/// program, an index names nothing, a number is beyond what is possible, or lines are missing. Each names line and field.
pub fn read(mut source: impl BufRead, label: &Path) -> Result<Session> {
    let mut buffer = Vec::new();
    let mut number = 0;
    let mut reader: Option<Reader> = None;
    loop {
        number += 1;
        let found = lines::read(&mut source, &mut buffer, MAX_LINE_BYTES);
        match found.map_err(|source| Error::Io { path: label.to_owned(), source })? {
            Found::End => break,
            Found::Line => {}
            Found::TooLong => {
                return Err(Error::Input { path: label.to_owned(), line: number, reason: lines::too_long() });
            }
        }
        if buffer.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let result = match &mut reader {
            None => header(&buffer).map(|header| reader = Some(Reader::new(header))),
            Some(reader) => parse(&buffer).and_then(|line| reader.line(line)),
        };
        result.map_err(|reason| Error::Input { path: label.to_owned(), line: number, reason })?;
    }
    let fail = |reason| Error::Input { path: label.to_owned(), line: 0, reason };
    let reader =
        reader.ok_or_else(|| fail("the trace is empty: write it again with `ctxsim trace`".into()))?;
    reader.finish().map_err(fail)
}

type Checked<T> = std::result::Result<T, String>;

fn header(line: &[u8]) -> Checked<Header> {
    let value: Value = serde_json::from_slice(line).map_err(|e| format!("not JSON ({e})"))?;
    let Some(header) = value.get("ctxsim_trace") else {
        return Err("the first line of a trace is its header, an object with the field `ctxsim_trace`".into());
    };
    match header.get("format_version").and_then(Value::as_u64) {
        Some(version) if version > u64::from(FORMAT_VERSION) => {
            return Err(format!(
                "format_version {version} is newer than {FORMAT_VERSION}, the newest that this ctxsim reads: \
                 update ctxsim"
            ));
        }
        Some(1..) => {}
        _ => return Err("field `format_version` must be a number from 1 on".into()),
    }
    let header = parse(line)?.header.ok_or("field `ctxsim_trace` is null")?;
    at_most("warm_prefix_tokens", header.warm_prefix_tokens, MAX_TOKENS)?;
    let c = header.coefficients;
    for (field, milli) in [
        ("text_milli", c.text_milli),
        ("tool_use_milli", c.tool_use_milli),
        ("thinking_milli", c.thinking_milli),
        ("tool_result_milli", c.tool_result_milli),
    ] {
        at_most(field, milli.into(), MAX_MILLI)?;
    }
    let calls = count_calls(&header);
    if calls > header.blocks {
        return Err(format!(
            "field `calls` counts {calls} calls, but there are only {} blocks",
            header.blocks
        ));
    }
    Ok(header)
}

fn count_calls(header: &Header) -> u64 {
    header.calls.iter().map(|[count, ..]| u64::from(*count)).sum()
}

fn at_most(field: &str, value: u64, most: u64) -> Checked<()> {
    if value <= most {
        Ok(())
    } else {
        Err(format!("field `{field}` is {value}, more than the possible {most}"))
    }
}

fn parse(line: &[u8]) -> Checked<AnyLine> {
    serde_json::from_slice(line).map_err(|error| {
        let field = culprit(line).map_or_else(String::new, |name| format!("field `{name}`: "));
        // The position inside the line stays, its line number (always 1) says nothing.
        let text = error.to_string().replace(" at line 1 column ", " at column ");
        format!("{field}{text}")
    })
}

/// The field without which a line that does not parse would, or would fail for lack of it.
fn culprit(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let (key, inner) = value.as_object()?.iter().next()?;
    let inner = inner.as_object()?;
    inner.keys().find_map(|field| {
        let mut without = inner.clone();
        without.shift_remove(field);
        let rebuilt = serde_json::json!({ key: without }).to_string();
        let is_culprit = match serde_json::from_str::<AnyLine>(&rebuilt) {
            Ok(_) => true,
            Err(error) => error.to_string().contains(&format!("missing field `{field}`")),
        };
        is_culprit.then(|| field.clone())
    })
}

/// A session being put together.
struct Reader {
    session: Session,
    header: Header,
    /// Number of calls. They are put into the session once as many blocks are there, so that no number
    /// in a header can fill the memory.
    calls: u64,
    /// Blocks, steps and events that the header promises.
    promised: [(&'static str, u64); 3],
    first_block_of_step: u32,
}

impl Reader {
    fn new(header: Header) -> Reader {
        let session = Session {
            id: header.id.clone(),
            parent: header.parent.clone(),
            origin: header.origin.clone(),
            model: header.model.clone(),
            tokenizer: header.tokenizer,
            coefficients: header.coefficients,
            prefix: header.prefix.clone(),
            prefix_is_measured: header.prefix_is_measured,
            warm_prefix_tokens: header.warm_prefix_tokens,
            tools: header.tools.clone(),
            calls: Vec::new(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        let promised = [("blocks", header.blocks), ("steps", header.steps), ("events", header.events)];
        Reader { session, calls: count_calls(&header), header, promised, first_block_of_step: 0 }
    }

    fn line(&mut self, line: AnyLine) -> Checked<()> {
        match line {
            AnyLine { b: Some(block), .. } => self.block(&block),
            AnyLine { s: Some(step), .. } => self.step(&step),
            AnyLine { e: Some(event), .. } => self.event(event),
            AnyLine { header: Some(_), .. } => {
                Err("a second header: a trace holds one session, split the file".into())
            }
            // A kind of line of a later version.
            _ => Ok(()),
        }
    }

    fn block(&mut self, line: &BlockLine) -> Checked<()> {
        let block = line.block();
        in_table("t", block.tool, self.session.tools.len() as u64, "tools")?;
        in_table("c", block.call, self.calls, "calls")?;
        if matches!(block.kind, BlockKind::ToolUse | BlockKind::ToolResult) && block.tool == NONE {
            return Err("field `t` is missing: a call or result names its tool".into());
        }
        let last = self.session.blocks.message.last();
        if last.is_some_and(|last| block.message < *last) {
            return Err("field `m` goes back behind the block before".into());
        }
        let index = self.session.blocks.push(block);
        self.session.result_parts.extend(line.parts(index));
        Ok(())
    }

    fn step(&mut self, line: &StepLine) -> Checked<()> {
        let first = self.first_block_of_step;
        let given = self.session.blocks.len() as u64 - u64::from(first);
        let step = line.step(first).filter(|_| u64::from(line.i) + u64::from(line.o) == given);
        let Some(step) = step else {
            return Err(format!(
                "fields `i` and `o` count {} blocks, but {given} stand before this step",
                u64::from(line.i) + u64::from(line.o)
            ));
        };
        if step.start_ms.is_some_and(|ms| !TIMES_MS.contains(&ms)) {
            return Err("field `t` is no time of the years 0 to 9999".into());
        }
        if step.facts.away_at_ms.is_some_and(|ms| !TIMES_MS.contains(&ms)) {
            return Err("field `w` is no time of the years 0 to 9999".into());
        }
        for tokens in line.u.iter().flatten() {
            at_most("u", *tokens, MAX_TOKENS)?;
        }
        let before = self.session.steps.last();
        if before.is_some_and(|before| before.start_ms.is_some() != step.start_ms.is_some()) {
            return Err("field `t` is in some steps and not in others: a session has times or none".into());
        }
        let last = before.and_then(|s| s.start_ms);
        if last.zip(step.start_ms).is_some_and(|(before, now)| now < before) {
            return Err("field `t` goes back behind the step before".into());
        }
        self.first_block_of_step = step.output.end;
        self.session.steps.push(step);
        Ok(())
    }

    fn event(&mut self, line: EventLine) -> Checked<()> {
        let event = line.event();
        let (last, steps) = (self.session.events.last().map(|e| e.before_step), self.promised[1].1);
        if last.is_some_and(|last| event.before_step < last) || u64::from(event.before_step) > steps {
            return Err(format!("field `s` must not go back, and not be above {steps}, the number of steps"));
        }
        self.session.events.push(event);
        Ok(())
    }

    fn finish(self) -> Checked<Session> {
        let mut session = self.session;
        let found = [session.blocks.len(), session.steps.len(), session.events.len()];
        for ((what, promised), found) in self.promised.into_iter().zip(found) {
            if promised != found as u64 {
                return Err(format!(
                    "the header promises {promised} {what}, the file has {found}: it is cut or was put \
                     together by hand"
                ));
            }
        }
        let blocks = u32::try_from(session.blocks.len()).unwrap_or(u32::MAX);
        match session.events.iter().find(|event| !names_known_blocks(&event.kind, blocks)) {
            Some(event) => {
                Err(format!("an event before step {} names blocks that are not there", event.before_step))
            }
            None => {
                session.calls = self.header.calls();
                Ok(session)
            }
        }
    }
}

fn in_table(field: &str, index: u32, length: u64, table: &str) -> Checked<()> {
    if index == NONE || u64::from(index) < length {
        return Ok(());
    }
    Err(format!("field `{field}` is {index}, but the header has {length} {table}"))
}
