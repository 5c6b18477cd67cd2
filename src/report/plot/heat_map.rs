//! A metric over the values of two parameters; what cannot be told from the best has a frame.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Result;

use super::axis::rounded_number;
use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Frame, LEGEND_TOP, MARGIN, Unit, capital, fit, title, widest};
use super::trials::{Trial, Trials, words};
use super::{Look, PictureFormat, palette};

/// Everything in the picture.
#[derive(Debug)]
pub struct HeatMap<'a> {
    trials: &'a Trials,
    best: &'a Trial,
    x: String,
    y: String,
    xs: Vec<Value>,
    ys: Vec<Value>,
    /// The best trial at each pair of values, row by row.
    cells: Vec<Option<&'a Trial>>,
}

impl<'a> HeatMap<'a> {
    /// The map over two parameters, of the strategies that have both; `None` where there is no grid.
    pub fn new(trials: &'a Trials, x: &str, y: &str) -> Option<HeatMap<'a>> {
        // Of several presets or models the best one's; of several at one pair of values the best.
        let order = trials.ranked();
        let has = |t: &Trial| t.params.contains_key(x) && t.params.contains_key(y);
        let ranked = || order.iter().map(|i| &trials.trials[*i]).filter(|t| has(t));
        let best = ranked().next()?;
        let own: Vec<&Trial> = ranked().filter(|t| t.family == best.family).collect();
        let (xs, ys) = (values(&own, x), values(&own, y));
        if xs.len() < 2 || ys.len() < 2 {
            return None;
        }
        let mut places: BTreeMap<(String, String), &Trial> = BTreeMap::new();
        for trial in &own {
            places.entry((trial.params[y].to_string(), trial.params[x].to_string())).or_insert(trial);
        }
        let cells = ys.iter().flat_map(|yv| xs.iter().map(move |xv| (yv.to_string(), xv.to_string())));
        let cells = cells.map(|place| places.get(&place).copied()).collect();
        Some(HeatMap { trials, best, x: x.to_owned(), y: y.to_owned(), xs, ys, cells })
    }

    /// Draws the picture.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(look);
        let (width, height) = canvas.size();
        title(
            &mut canvas,
            &format!("{} over {} and {}", capital(&words(self.trials.metric)), self.x, self.y),
            &format!(
                "{}; outlined: cannot be told from the best, which has a dot{}",
                self.trials.subtitle,
                if self.cells.contains(&None) { "; blank: not tried" } else { "" }
            ),
        )?;
        let labels = ticks(&self.ys);
        let left = MARGIN + widest(labels.iter().map(String::as_str), 11.0, 160.0)? + 8.0;
        let frame =
            Frame { left, top: LEGEND_TOP + 14.0, right: width - MARGIN - 86.0, bottom: height - 48.0 };
        canvas.text((MARGIN, frame.top - 12.0), self.y.clone(), 11.0, palette::MUTED, Anchor::Left);
        let values = || self.cells.iter().flatten().map(|t| t.value);
        let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        #[expect(clippy::cast_precision_loss, reason = "a grid has few values")]
        let (columns, rows) = (self.xs.len() as f64, self.ys.len() as f64);
        let (w, h) = ((frame.right - frame.left) / columns, (frame.bottom - frame.top) / rows);
        let corner = |i: usize| {
            #[expect(clippy::cast_precision_loss, reason = "a grid has few values")]
            let (column, row) = ((i % self.xs.len()) as f64, (i / self.xs.len()) as f64);
            // The lowest value of the upward parameter is at the bottom.
            (frame.left + column * w, frame.bottom - (row + 1.0) * h)
        };
        for (i, trial) in self.cells.iter().enumerate() {
            let Some(trial) = trial else { continue };
            let share = if high > low { (trial.value - low) / (high - low) } else { 0.0 };
            self.cell(&mut canvas, corner(i), (w, h), trial, share)?;
        }
        self.outline_flat(&mut canvas, &corner, (w, h));
        self.axes(&mut canvas, &frame, &labels, (w, h))?;
        self.key(&mut canvas, &frame, low, high);
        canvas.encode(format)
    }

    fn cell(
        &self,
        canvas: &mut Canvas,
        (x, y): (f64, f64),
        (w, h): (f64, f64),
        trial: &Trial,
        share: f64,
    ) -> Result<()> {
        let (fill, ink) = palette::scale(share);
        canvas.rect((x + 0.5, y + 0.5), (x + w - 0.5, y + h - 0.5), fill);
        let unit = Unit::of(self.trials.metric.metric().unit);
        let text = unit.text(trial.value, if unit == Unit::Dollars { 0.01 } else { 0.001 });
        let middle = (x + w / 2.0, y + h / 2.0);
        let is_best = trial == self.best;
        if Canvas::text_width(&text, 11.0)? < w - 6.0 && h > 13.0 {
            canvas.text(middle, text, 11.0, ink, Anchor::Centre);
            if is_best && h > 30.0 {
                canvas.mark((middle.0, middle.1 + 12.0), Shape::Circle, ink, 2.5);
            }
        } else if is_best {
            canvas.mark(middle, Shape::Circle, ink, 2.5);
        }
        if !trial.is_sound {
            canvas.mark((x + w - 8.0, y + 8.0), Shape::Cross, ink, 3.0);
        }
        Ok(())
    }

    /// Around what is flat, a line of ink on one of paper, so that it shows on every colour.
    fn outline_flat(&self, canvas: &mut Canvas, corner: &dyn Fn(usize) -> (f64, f64), (w, h): (f64, f64)) {
        let columns = self.xs.len();
        let is_flat = |i: Option<usize>| {
            i.and_then(|i| self.cells.get(i)).is_some_and(|c| c.is_some_and(|t| t.is_flat))
        };
        let mut sides: Vec<Vec<(f64, f64)>> = Vec::new();
        for i in (0..self.cells.len()).filter(|i| is_flat(Some(*i))) {
            let (x, y) = corner(i);
            let (left, right) = (i % columns > 0, i % columns + 1 < columns);
            let neighbours = [
                (left.then(|| i - 1), [(x, y), (x, y + h)]),
                (right.then_some(i + 1), [(x + w, y), (x + w, y + h)]),
                (i.checked_sub(columns), [(x, y + h), (x + w, y + h)]),
                (Some(i + columns), [(x, y), (x + w, y)]),
            ];
            sides.extend(neighbours.into_iter().filter(|(n, _)| !is_flat(*n)).map(|(_, side)| side.to_vec()));
        }
        for (ink, width) in [(palette::PAPER, 4.0), (palette::INK, 2.0)] {
            sides.iter().for_each(|side| canvas.path(side.clone(), ink, width));
        }
    }

    fn axes(&self, canvas: &mut Canvas, frame: &Frame, labels: &[String], (w, h): (f64, f64)) -> Result<()> {
        let mut lowest = f64::INFINITY;
        for (text, i) in labels.iter().zip(0_u32..) {
            let y = frame.bottom - (f64::from(i) + 0.5) * h;
            if lowest - y < 13.0 {
                continue;
            }
            lowest = y;
            let text = fit(text, 11.0, frame.left - MARGIN - 8.0)?;
            canvas.text((frame.left - 8.0, y), text, 11.0, palette::MUTED, Anchor::Right);
        }
        let mut free = f64::NEG_INFINITY;
        for (text, i) in ticks(&self.xs).into_iter().zip(0_u32..) {
            let x = frame.left + (f64::from(i) + 0.5) * w;
            let half = Canvas::text_width(&text, 11.0)? / 2.0;
            if x - half > free {
                canvas.text((x, frame.bottom + 14.0), text, 11.0, palette::MUTED, Anchor::Centre);
                free = x + half + 4.0;
            }
        }
        let middle = f64::midpoint(frame.left, frame.right);
        canvas.text((middle, frame.bottom + 34.0), self.x.clone(), 12.0, palette::MUTED, Anchor::Centre);
        Ok(())
    }

    /// What the colours mean.
    fn key(&self, canvas: &mut Canvas, frame: &Frame, low: f64, high: f64) {
        const STEPS: u32 = 64;
        let (x, height) = (frame.right + 18.0, frame.bottom - frame.top);
        let unit = Unit::of(self.trials.metric.metric().unit);
        let step = (high - low) / 4.0;
        for i in 0..STEPS {
            let share = f64::from(i) / f64::from(STEPS);
            let top = frame.bottom - height * (share + 1.0 / f64::from(STEPS));
            canvas.rect((x, top - 0.5), (x + 14.0, frame.bottom - height * share), palette::scale(share).0);
        }
        for i in 0..=4 {
            let share = f64::from(i) / 4.0;
            let text = unit.text(low + (high - low) * share, (step / 4.0).max(1e-6));
            canvas.text((x + 20.0, frame.bottom - height * share), text, 11.0, palette::MUTED, Anchor::Left);
        }
    }
}

/// Numbers are rounded where that leaves them different.
fn ticks(values: &[Value]) -> Vec<String> {
    let with = |number: fn(u64) -> String| -> Vec<String> {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        values.iter().map(|value| value.as_u64().map_or_else(|| word(value), number)).collect()
    };
    let rounded = with(rounded_number);
    let differ = (1..rounded.len()).all(|i| !rounded[..i].contains(&rounded[i]));
    if differ { rounded } else { with(|n| n.to_string()) }
}

/// Values of a parameter, numbers in their order.
fn values(trials: &[&Trial], name: &str) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for value in trials.iter().filter_map(|t| t.params.get(name)) {
        if !out.contains(value) {
            out.push(value.clone());
        }
    }
    if out.iter().all(Value::is_number) {
        out.sort_by(|a, b| a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)));
    }
    out
}
