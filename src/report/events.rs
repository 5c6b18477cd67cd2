//! events.jsonl: one line per offload, pass, compaction, rejection, recovery.

use std::io::{self, Write};

use serde::Serialize;

use crate::sim::SimEvent;

use super::requests::RunRecord;

#[derive(Serialize)]
struct Line<'a> {
    session: &'a str,
    policy: &'a str,
    model: &'a str,
    #[serde(flatten)]
    event: &'a SimEvent,
}

/// Writes the events of a cell.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, run: &RunRecord<'_>) -> io::Result<()> {
    let RunRecord { session, policy, model, record, .. } = *run;
    for event in &record.events {
        serde_json::to_writer(&mut *out, &Line { session, policy, model, event })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{FullRecorder, SimEventKind};

    #[test]
    fn a_line_names_its_cell_and_carries_the_numbers() {
        let kind = SimEventKind::Pass {
            rule: "edit".into(),
            elided_count: 3,
            chars_saved: 60_000,
            elided_calls: vec![1, 2, 5],
            withheld_thinking_blocks: 4,
        };
        let events = vec![SimEvent { request: 17, at_ms: None, kind }];
        let record = FullRecorder { requests: Vec::new(), events };
        let mut out = Vec::new();
        let run =
            RunRecord { session: "s", policy: "p", model: "m", record: &record, stopped_at_request: None };
        write(&mut out, &run).expect("memory");
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "{\"session\":\"s\",\"policy\":\"p\",\"model\":\"m\",\"request\":17,\"at_ms\":null,\"kind\":\"pass\",\
             \"rule\":\"edit\",\"elided_count\":3,\"chars_saved\":60000,\"elided_calls\":[1,2,5],\
             \"withheld_thinking_blocks\":4}\n"
        );
    }
}
