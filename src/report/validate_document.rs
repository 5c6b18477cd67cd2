//! What `validate` found, as a document: every figure with how it is made.

use std::fmt::Write as _;

use super::grid::Grid;
use super::markdown;
use super::validate::{Validation, causes_grid, grid, percent, rules_grid};
use crate::metrics::{Rate, group_digits};
use crate::validate::Total;
use crate::validate::rules::RULES;

/// A column of the table of figures.
struct Figure {
    /// Its head.
    title: &'static str,
    /// How it is made, in two sentences.
    method: &'static str,
    /// Its value for one format.
    value: fn(&Total) -> String,
}

const FIGURES: &[Figure] = &[
    Figure {
        title: "pairs",
        method: "Two consecutive requests of the main chain of one recording, both with usage. Sub-agents, \
                 messages that the client made up, and requests without a prompt are left out.",
        value: |sum| group_digits(sum.pairs.into()),
    },
    Figure {
        title: "read exact",
        method: "Closed loop: of the later request its prompt, plain input, life bought and markers are known, and \
                 all that was recorded of earlier ones. The predicted read equals the billed one to the token.",
        value: |sum| percent(sum.share(sum.exact_reads).0),
    },
    Figure {
        title: "read + write",
        method: "The same, where the later request is taken to read what the earlier one read and wrote. No rule is \
                 asked; this is what a replay without any knowledge of clients reaches.",
        value: |sum| percent(sum.share(sum.plain_exact_reads).0),
    },
    Figure {
        title: "write exact",
        method: "The prompt less its plain input and the predicted read equals the tokens billed as written. Where \
                 a provider caches by itself and bills no writes, it is 100 %.",
        value: |sum| percent(sum.share(sum.exact_writes).0),
    },
    Figure {
        title: "unexplained",
        method: "Pairs that did not read what was left, or predicted by a grid, and of whose cause nothing but the read \
                 tells. What tells is a mark, a gap over the life bought, thinking that left the prompt, or an earlier \
                 entry of that very size while the prompt grew; causes are those of `audit`.",
        value: |sum| percent(sum.share(sum.unexplained).0),
    },
    Figure {
        title: "input cost, median error",
        method: "Closed loop: the input side of each pair's later request, priced as billed and as predicted, summed \
                 per recording. The size of the relative difference; the middle one of all recordings with prices.",
        value: |sum| percent(sum.cost_error_abs.percentile(50)),
    },
    Figure {
        title: "open loop, median",
        method: "Runs of five requests or more without a compaction or a fall of the prompt by over 200 tokens: only \
                 the first prompt is known, and what was said is counted by coefficients fitted to the other \
                 recordings of its format (alone, those of its tokenizer). The error of the run's last prompt; the middle one of all runs.",
        value: |sum| percent(sum.final_prompt_error.percentile(50)),
    },
    Figure {
        title: "open loop, p90",
        method: "The same error, which nine of ten runs do not exceed. Percentiles are by nearest rank.",
        value: |sum| percent(sum.final_prompt_error.percentile(90)),
    },
];

/// The document.
pub fn write(validation: &Validation) -> String {
    let mut out = String::from("# Simulated against recorded usage\n\n");
    out.push_str(&markdown::grid(&figures(validation)));
    if let Some(held) = &validation.hold_out {
        let share = |pairs: u64| percent(Rate::of(pairs.into(), held.pairs.into()).0);
        let _ = writeln!(
            out,
            "\nRules held out: recordings with explicit breakpoints are dealt into two halves by the order of their ids, \
             the rules that pay\non one half are chosen, and the other half is predicted with those alone. Of {} pairs {} \
             are exact, against {} by\n`read + write`; recordings below `read + write`: {}. What the rules hold of client \
             versions and of the tails of answers\nwas seen on all of these recordings.",
            group_digits(held.pairs.into()),
            share(held.exact_reads),
            share(held.plain_exact_reads),
            held.sessions_below_plain
        );
    }
    out.push_str("\n## How each figure is made\n\n");
    for figure in FIGURES {
        let _ = writeln!(out, "- **{}**: {}", figure.title, figure.method);
    }
    out.push_str("\n## Recordings\n\n");
    out.push_str(&markdown::grid(&grid(validation)));
    out.push_str(
        "\n## Causes\n\nPairs that did not read what was left, or predicted by a grid, by cause.\n\n",
    );
    out.push_str(&markdown::grid(&causes_grid(validation)));
    out.push_str(
        "\n## What each rule buys\n\nPairs that are exact by the rule alone (+), and pairs that would have been exact \
         without it (−). `+0` was heard and changed no count.\n\n",
    );
    out.push_str(&markdown::grid(&rules_grid(validation)));
    out.push('\n');
    for rule in RULES {
        let _ = writeln!(out, "- `{}`: {} Goes by {}.", rule.id, rule.doc, rule.evidence);
    }
    out
}

fn figures(validation: &Validation) -> Grid {
    let heads = ["format", "recordings"].into_iter().zip([false, true]);
    let columns = heads.chain(FIGURES.iter().map(|figure| (figure.title, true)));
    let mut grid = Grid::new(columns.map(|(title, right)| (title.to_owned(), right)));
    for (name, sum) in validation.formats() {
        let values = FIGURES.iter().map(|figure| (figure.value)(&sum));
        grid.rows.push([name.to_owned(), sum.sessions.to_string()].into_iter().chain(values).collect());
    }
    grid
}
