//! Horizontal bars made of parts: cost by class, misses by cause, lives of the cache.

use crate::cause::Cause;
use crate::error::Result;
use crate::metrics::Usd;
use crate::report::results::{Change, ResultSet, Total};
use crate::sim::CostPusd;

use super::canvas::{Anchor, Canvas};
use super::chart::{Frame, Legend, MARGIN, Sample, Scale, Unit, fit, title, widest, x_axis};
use super::palette::{self, Ink};
use super::{Look, PictureFormat};

/// Height of a bar and the gap below it.
const ROW: f64 = 26.0;
/// Bars of a picture; of more, the cheapest are drawn.
const ROWS: usize = 40;

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Sizes, in the order of [`Bars::parts`].
    pub sizes: Vec<f64>,
    /// Written behind it.
    pub note: String,
    /// A gap above it: another group begins.
    pub gap: bool,
}

/// Everything in the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Below it.
    pub subtitle: String,
    /// Title of the axis.
    pub axis: String,
    /// Name and colour of each part.
    pub parts: Vec<(String, Ink)>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

fn classes(cost: &CostPusd) -> Vec<f64> {
    palette::CLASSES.iter().map(|(_, _, pusd)| Usd(pusd(cost)).as_f64()).collect()
}

fn class_parts() -> Vec<(String, Ink)> {
    palette::CLASSES.iter().map(|(name, ink, _)| ((*name).to_owned(), *ink)).collect()
}

fn dollars(pusd: u128) -> String {
    format!("${}", Usd(pusd).rounded(2))
}

/// What a total is called beside others.
pub(super) fn name(total: &Total, many_models: bool) -> String {
    match many_models {
        true => format!("{} on {}", total.policy, total.model),
        false => total.policy.clone(),
    }
}

fn shown(results: &ResultSet) -> Vec<&Total> {
    let mut totals: Vec<(usize, &Total)> = results.totals.iter().enumerate().collect();
    if totals.len() > ROWS {
        totals.sort_by_key(|(i, t)| (t.summary.cost.total(), *i));
        totals.truncate(ROWS);
        totals.sort_by_key(|(i, _)| *i);
    }
    totals.into_iter().map(|(_, total)| total).collect()
}

/// Behind a subtitle: which strategies are drawn, where there are too many.
fn left_out(results: &ResultSet) -> String {
    match results.totals.len() {
        0..=ROWS => String::new(),
        all => format!("; the {ROWS} cheapest of {all}"),
    }
}

/// How many of what a picture is about.
pub(super) fn subtitle(results: &ResultSet) -> String {
    let sessions = results.totals.iter().map(|t| t.sessions).max().unwrap_or(0);
    let mut models: Vec<&str> = results.totals.iter().map(|t| t.model.as_str()).collect();
    models.sort_unstable();
    models.dedup();
    let models = if models.len() > 3 { format!("{} models", models.len()) } else { models.join(", ") };
    format!("{} on {models}, replayed as recorded", crate::report::grid::counted(sessions, "session"))
}

impl Bars {
    /// Cost of each strategy by class.
    pub fn cost(results: &ResultSet) -> Bars {
        let many_models = results.has_many_models();
        let bar = |total: &Total| {
            let change = total.relative.as_ref().map(|r| format!("  {}", r.cost_change().percent()));
            let note = dollars(total.summary.cost.total()) + &change.unwrap_or_default();
            Bar { label: name(total, many_models), sizes: classes(&total.summary.cost), note, gap: false }
        };
        Bars {
            title: "Cost by strategy".into(),
            subtitle: subtitle(results) + &left_out(results),
            axis: "US dollars".into(),
            parts: class_parts(),
            bars: shown(results).into_iter().map(bar).collect(),
        }
    }

    /// What each strategy paid for tokens that were not read from the cache, by cause.
    pub fn misses(results: &ResultSet) -> Bars {
        let many_models = results.has_many_models();
        let bar = |total: &Total| {
            let sizes: Vec<u128> = Cause::ALL.iter().map(|c| total.summary.miss(*c).cost_pusd).collect();
            let note = dollars(sizes.iter().sum());
            let sizes = sizes.into_iter().map(|pusd| Usd(pusd).as_f64()).collect();
            Bar { label: name(total, many_models), sizes, note, gap: false }
        };
        Bars {
            title: "Paid for tokens not read from the cache, by cause".into(),
            subtitle: subtitle(results) + &left_out(results),
            axis: "US dollars".into(),
            parts: Cause::ALL.iter().map(|c| (c.name().replace('_', " "), palette::cause(*c))).collect(),
            bars: shown(results).into_iter().map(bar).collect(),
        }
    }

    /// Cost of strategies that differ in the life of the cache entries they buy. `None` where none do.
    pub fn ttl(results: &ResultSet) -> Option<Bars> {
        const LIFE: &str = "cache.ttl";
        let life = |total: &Total| {
            let policy = results.recipe.policies.iter().find(|p| p.label == total.policy)?;
            let mut others = policy.params.clone();
            let life = others.shift_remove(LIFE)?.as_str()?.to_owned();
            Some((format!("{} {} {others:?}", total.model, policy.preset), policy.preset.clone(), life))
        };
        // What is the same of the members, then each with its preset and life.
        type Group<'a> = (String, Vec<(&'a Total, String, String)>);
        let mut groups: Vec<Group<'_>> = Vec::new();
        for total in &results.totals {
            let Some((key, preset, life)) = life(total) else { continue };
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, members)) => members.push((total, preset, life)),
                None => groups.push((key, vec![(total, preset, life)])),
            }
        }
        groups.retain(|(_, members)| members.len() > 1);
        let mut bars = Vec::new();
        for (_, members) in &groups {
            let first = members[0].0.summary.cost.total();
            for (i, (total, preset, life)) in members.iter().enumerate() {
                let cost = total.summary.cost.total();
                let change = format!("  {} against {}", Change::of(cost, first).percent(), members[0].2);
                let note = dollars(cost) + if i == 0 { "" } else { &change };
                let model =
                    if results.totals.iter().any(|t| t.model != total.model) { &total.model } else { "" };
                let label = format!("{preset} {life} {model}").trim_end().to_owned();
                bars.push(Bar { label, sizes: classes(&total.summary.cost), note, gap: i == 0 });
            }
        }
        bars.truncate(ROWS);
        (!bars.is_empty()).then(|| Bars {
            title: "What a longer life of the cache costs and saves".into(),
            subtitle: subtitle(results),
            axis: "US dollars".into(),
            parts: class_parts(),
            bars,
        })
    }

    /// Draws the picture; it is as high as its bars need.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(look);
        let width = canvas.size().0;
        let occurs = |i: usize| self.bars.iter().any(|bar| bar.sizes.get(i).is_some_and(|size| *size > 0.0));
        let parts = self.parts.iter().enumerate().filter(|(i, _)| occurs(*i));
        let legend = Legend::new(parts.map(|(_, (name, ink))| (Sample::Box(*ink), name.clone())), width)?;
        let label_width = widest(self.bars.iter().map(|bar| bar.label.as_str()), 12.0, width * 0.34)?;
        let note_width = widest(self.bars.iter().map(|bar| bar.note.as_str()), 12.0, width * 0.3)?;
        let top = legend.end() + 16.0;
        let gaps = self.bars.iter().skip(1).filter(|bar| bar.gap).count();
        #[expect(clippy::cast_precision_loss, reason = "at most 40 bars")]
        let bottom = top + self.bars.len().max(1) as f64 * ROW + gaps as f64 * ROW / 2.0;
        let frame = Frame {
            left: MARGIN + label_width + 10.0,
            top,
            right: width - MARGIN - note_width - 8.0,
            bottom,
        };
        canvas.set_height(bottom + 52.0);
        title(&mut canvas, &self.title, &self.subtitle)?;
        legend.draw(&mut canvas);
        let sum = |bar: &Bar| bar.sizes.iter().sum::<f64>();
        let high = self.bars.iter().map(sum).fold(0.0, f64::max).max(1e-9);
        let scale = Scale { low: 0.0, high, from: frame.left, to: frame.right, log: false };
        x_axis(&mut canvas, &frame, &scale, Unit::Dollars, &self.axis);
        let mut y = top;
        for (i, bar) in self.bars.iter().enumerate() {
            if bar.gap && i > 0 {
                y += ROW / 2.0;
            }
            self.bar(&mut canvas, &frame, &scale, bar, y)?;
            y += ROW;
        }
        canvas.encode(format)
    }

    fn bar(&self, canvas: &mut Canvas, frame: &Frame, scale: &Scale, bar: &Bar, y: f64) -> Result<()> {
        let middle = y + ROW / 2.0;
        let label = fit(&bar.label, 12.0, frame.left - MARGIN - 8.0)?;
        canvas.text((frame.left - 8.0, middle), label, 12.0, palette::INK, Anchor::Right);
        let mut at = 0.0;
        for ((_, ink), size) in self.parts.iter().zip(&bar.sizes).filter(|(_, size)| **size > 0.0) {
            let (from, to) = (scale.at(at), scale.at(at + size));
            // A line of paper between parts, where there is room for one.
            let to = if to - from > 3.0 { to - 0.75 } else { to };
            canvas.rect((from, y + 4.0), (to, y + ROW - 4.0), *ink);
            at += size;
        }
        let note = scale.at(at) + 6.0;
        // No line of the grid goes through a number.
        let end = note + Canvas::text_width(&bar.note, 12.0)?;
        canvas.rect((note - 2.0, middle - 8.0), (end + 2.0, middle + 8.0), palette::PAPER);
        canvas.text((note, middle), bar.note.clone(), 12.0, palette::INK, Anchor::Left);
        Ok(())
    }
}
