//! What the scripts of a page work on: names, totals, cells in columns, and where to find the requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::metrics::{self, Usd};
use crate::report::plot::palette;
use crate::report::results::{Cell, ResultSet};
use crate::sim::Summary;

use super::runs::{KINDS, Runs};
use super::{Heading, tables};

/// Cells that a page lists. A study of more has them in results.json.
const CELLS: usize = 15_000;

type Read = fn(&Summary) -> u128;

/// Numbers of a cell, column by column. Money is in pico-dollars: whole, and exact in a browser up to $9,007.
const COLUMNS: &[(&str, Read)] = &[
    ("requests", |s| s.requests.into()),
    ("prompt", |s| s.usage.prompt_tokens().into()),
    ("uncached", |s| s.usage.uncached_tokens.into()),
    ("read", |s| s.usage.cache_read_tokens.into()),
    ("written", |s| s.usage.cache_write_tokens().into()),
    ("output", |s| s.usage.output_tokens.into()),
    ("peak", |s| s.peak_prompt_tokens.into()),
    ("cost_pusd", |s| s.cost.total()),
    ("offloads", |s| s.offloads.into()),
    ("passes", |s| s.passes.into()),
    ("compactions", |s| s.compactions.into()),
    ("rejections", |s| s.binding_rejections.into()),
    ("overflows", |s| s.overflows.into()),
    ("violations", |s| s.violations.into()),
];

struct Index<'a>(BTreeMap<&'a str, usize>);

impl<'a> Index<'a> {
    fn of(names: &[&'a str]) -> Index<'a> {
        Index(names.iter().enumerate().map(|(i, name)| (*name, i)).collect())
    }

    fn get(&self, name: &str) -> Value {
        self.0.get(name).map_or(Value::Null, |i| json!(i))
    }
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    all.filter(|name| seen.insert(*name)).collect()
}

/// The data of a page.
pub(super) fn json(heading: &Heading<'_>, results: &ResultSet, runs: &Runs) -> Value {
    let policies = names(results.totals.iter().map(|t| t.policy.as_str()));
    let models = names(results.totals.iter().map(|t| t.model.as_str()));
    let sessions = names(results.cells.iter().map(|c| c.session.as_str()));
    let (policy, model, session) = (Index::of(&policies), Index::of(&models), Index::of(&sessions));
    let lines: Vec<Value> =
        (0..policies.len()).map(|i| json!({"colour": i % 8, "dashes": palette::look(i).dashes})).collect();
    let totals: Vec<Value> = results
        .totals
        .iter()
        .map(|t| {
            json!({
                "policy": policy.get(&t.policy), "model": model.get(&t.model), "sessions": t.sessions,
                "finished_sessions": t.finished_sessions, "cost_usd": Usd(t.summary.cost.total()).to_string(),
                "hit_rate": metrics::hit_rate(&t.summary).as_f64(), "prompt": t.summary.usage.prompt_tokens(),
                "cost": tables::dollars(t.summary.cost.total()),
            })
        })
        .collect();
    let cells = if results.cells.len() > CELLS { &[] } else { results.cells.as_slice() };
    let run_list: Vec<Value> = runs
        .sessions
        .iter()
        .flat_map(|s| s.runs.iter().map(move |run| (s, run)))
        .map(|(s, run)| {
            json!([
                session.get(&s.session),
                policy.get(&run.policy),
                model.get(&s.model),
                run.packed.requests,
                run.packed.cost_unit_pusd,
                run.packed.first_at_ms,
                s.window_tokens,
            ])
        })
        .collect();
    json!({
        "format_version": 1,
        "digest": heading.digest,
        "baseline": results.baseline().map(|b| policy.get(b)),
        "baseline_word": results.baseline_word(),
        "policies": policies,
        "lines": lines,
        "models": models,
        "sessions": sessions,
        "causes": Cause::ALL.iter().map(|c| c.name()).collect::<Vec<_>>(),
        "events": KINDS,
        "totals": totals,
        "cells": columns(cells, &policy, &model, &session),
        "cells_left_out": results.cells.len() - cells.len(),
        "runs": run_list,
    })
}

fn columns(cells: &[Cell], policy: &Index<'_>, model: &Index<'_>, session: &Index<'_>) -> Value {
    let column = |value: &dyn Fn(&Cell) -> Value| Value::Array(cells.iter().map(value).collect());
    let whole = |n: u128| json!(u64::try_from(n).unwrap_or(u64::MAX));
    let mut out = serde_json::Map::new();
    out.insert("session".into(), column(&|c| session.get(&c.session)));
    out.insert("policy".into(), column(&|c| policy.get(&c.policy)));
    out.insert("model".into(), column(&|c| model.get(&c.model)));
    for (name, read) in COLUMNS {
        out.insert((*name).into(), column(&|c| whole(read(&c.summary))));
    }
    let stop =
        |c: &Cell| c.summary.stop_reason.map(|reason| json!([c.summary.stopped_at_request, reason.name()]));
    out.insert("stopped".into(), column(&|c| stop(c).unwrap_or(Value::Null)));
    out.insert("substituted".into(), column(&|c| json!(c.model_substituted)));
    let misses = |c: &Cell| {
        let there = Cause::ALL.iter().filter(|cause| c.summary.miss(**cause).tokens > 0);
        let rows = there.map(|cause| {
            let miss = c.summary.miss(*cause);
            json!([cause.index(), miss.requests, miss.tokens, whole(miss.cost_pusd)])
        });
        Value::Array(rows.collect())
    };
    out.insert("misses".into(), column(&misses));
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::tests::sample;

    #[test]
    fn titles_name_the_baseline_as_those_of_every_report_do() {
        let mut results = sample();
        for label in ["none", "a label of more characters"] {
            results.recipe.policies[0].label = label.to_owned();
            let heading = Heading { title: "", description: "", digest: "" };
            let data = json(&heading, &results, &Runs::default());
            assert_eq!(data["baseline_word"], results.baseline_word());
        }
        assert_eq!(results.baseline_word(), "baseline");
        let scripts = include_str!("sessions.js");
        assert!(scripts.contains("data.baseline_word") && !scripts.contains(".length > 16"));
    }
}
