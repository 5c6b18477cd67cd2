//! Bytes → session.

use std::io::BufRead;
use std::path::Path;

use serde_json::Value;

use super::lines::{AnyLine, BlockLine, EventLine, Header, StepLine};
use super::{FORMAT_VERSION, names_known_blocks};
use crate::session::{Blocks, NONE, Session};
use crate::{Error, Result};

/// Reads one trace. `label` names it in errors.
///
/// # Errors
///
/// If the source cannot be read, a line is not what its key says, the format is newer than this
/// program, an index names nothing, or lines are missing. Each names line and field.
pub fn read(mut source: impl BufRead, label: &Path) -> Result<Session> {
    let mut buffer = Vec::new();
    let mut number = 0;
    let mut reader: Option<Reader> = None;
    loop {
        buffer.clear();
        number += 1;
        let read = source.read_until(b'\n', &mut buffer);
        if read.map_err(|source| Error::Io { path: label.to_owned(), source })? == 0 {
            break;
        }
        if buffer.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let result = match &mut reader {
            None => header(&buffer).map(|header| reader = Some(Reader::new(&header))),
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
    let calls: u64 = header.calls.iter().map(|[count, ..]| u64::from(*count)).sum();
    if calls > header.blocks {
        return Err(format!(
            "field `calls` counts {calls} calls, but there are only {} blocks",
            header.blocks
        ));
    }
    Ok(header)
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
    /// Blocks, steps and events that the header promises.
    promised: [(&'static str, u64); 3],
    first_block_of_step: u32,
}

impl Reader {
    fn new(header: &Header) -> Reader {
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
            calls: header.calls(),
            blocks: Blocks::default(),
            result_parts: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        let promised = [("blocks", header.blocks), ("steps", header.steps), ("events", header.events)];
        Reader { session, promised, first_block_of_step: 0 }
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
        in_table("t", block.tool, self.session.tools.len(), "tools")?;
        in_table("c", block.call, self.session.calls.len(), "calls")?;
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
        let last = self.session.steps.last().and_then(|s| s.start_ms);
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
        let session = self.session;
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
            None => Ok(session),
        }
    }
}

fn in_table(field: &str, index: u32, length: usize, table: &str) -> Checked<()> {
    if index == NONE || (index as usize) < length {
        return Ok(());
    }
    Err(format!("field `{field}` is {index}, but the header has {length} {table}"))
}
