//! A metric over the values of one parameter, and the flat region around the best of them.

use serde_json::Value;

use crate::error::Result;
use crate::stats::Interval;

use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Frame, Legend, MARGIN, Sample, Scale, Unit, capital, title, x_axis, y_axis};
use super::palette::{self, LineLook};
use super::trials::{Trial, Trials, words};
use super::{Look, PictureFormat};

/// A strategy at a value of the parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    x: f64,
    value: f64,
    interval: Option<Interval>,
    is_flat: bool,
    is_sound: bool,
}

/// Strategies that differ in the parameter alone.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    label: String,
    look: LineLook,
    points: Vec<Point>,
}

/// Everything in the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepCurve {
    metric: String,
    unit: Unit,
    subtitle: String,
    param: String,
    /// Values that are no numbers, in the order of the axis.
    words: Vec<String>,
    lines: Vec<Line>,
    /// Strategies without the parameter.
    others: Vec<(String, LineLook, f64)>,
}

impl PartialEq for LineLook {
    fn eq(&self, other: &LineLook) -> bool {
        self.ink == other.ink && self.dashes == other.dashes
    }
}

impl SweepCurve {
    /// The curve over `param`; `None` where no two strategies differ in it.
    pub fn new(trials: &Trials, param: &str) -> Option<SweepCurve> {
        let mut values: Vec<&Value> = Vec::new();
        for value in trials.trials.iter().filter_map(|t| t.params.get(param)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.len() < 2 {
            return None;
        }
        let numeric = values.iter().all(|v| v.is_number());
        let names = if numeric { Vec::new() } else { values.iter().map(|v| word(v)).collect() };
        let place = |value: &Value| match numeric {
            true => value.as_f64(),
            #[expect(clippy::cast_precision_loss, reason = "few words")]
            false => names.iter().position(|w| *w == word(value)).map(|i| i as f64),
        };
        let mut lines: Vec<(String, Line)> = Vec::new();
        let mut others = Vec::new();
        for trial in &trials.trials {
            let Some(x) = trial.params.get(param).and_then(place) else {
                others.push((trial.label.clone(), palette::look(trial.place), trial.value));
                continue;
            };
            let point = point(trial, x);
            let mut rest = trial.params.clone();
            rest.retain(|name, _| name != param && trials.varied.contains(name));
            let key = format!("{} {rest:?}", trial.family);
            match lines.iter_mut().find(|(k, _)| *k == key) {
                Some((_, line)) => line.points.push(point),
                None => {
                    let label = line_label(trial, &rest);
                    let look = palette::look(others.len() + lines.len());
                    lines.push((key, Line { label, look, points: vec![point] }));
                }
            }
        }
        let mut lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
        lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
        Some(SweepCurve {
            metric: words(trials.metric),
            unit: Unit::of(trials.metric.metric().unit),
            subtitle: trials.subtitle.clone(),
            param: param.to_owned(),
            words: names,
            lines,
            others,
        })
    }

    /// Draws the picture.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(look);
        let (width, height) = canvas.size();
        let lines = self.lines.iter().map(|line| (Sample::Line(line.look), line.label.clone()));
        let others = self.others.iter().map(|(label, look, _)| (Sample::Line(*look), label.clone()));
        let region = self.flat_region();
        let flat = region.map(|_| (Sample::Box(palette::FLAT), "cannot be told from the best".to_owned()));
        let legend = Legend::new(others.chain(lines).chain(flat), width)?;
        canvas.set_height(height + legend.excess());
        let height = canvas.size().1;
        let frame = Frame {
            left: MARGIN + 52.0,
            top: legend.end() + 22.0,
            right: width - MARGIN - 14.0,
            bottom: height - 48.0,
        };
        title(&mut canvas, &format!("{} over {}", capital(&self.metric), self.param), &self.subtitle_text())?;
        legend.draw(&mut canvas);
        let (x, y) = (self.x_scale(&frame), self.y_scale(&frame));
        if let Some((low, high)) = region {
            let (from, to) = (x.at(low).max(frame.left), x.at(high).min(frame.right));
            canvas.rect((from - 3.0, frame.top), (to + 3.0, frame.bottom), palette::FLAT);
        }
        y_axis(&mut canvas, &frame, &y, self.unit);
        canvas.text((MARGIN, frame.top - 12.0), self.metric.clone(), 11.0, palette::MUTED, Anchor::Left);
        self.axis(&mut canvas, &frame, &x);
        for (_, look, value) in &self.others {
            let at = y.at(*value);
            canvas.dashed(&[(frame.left, at), (frame.right, at)], look.dashes, look.ink, look.width);
        }
        for line in &self.lines {
            draw_line(&mut canvas, line, &x, &y);
        }
        canvas.encode(format)
    }

    fn subtitle_text(&self) -> String {
        let has_intervals = self.lines.iter().flat_map(|l| &l.points).any(|p| p.interval.is_some());
        let bars = if has_intervals { "; whiskers: 95 % of the difference to the baseline" } else { "" };
        format!("{}{bars}", self.subtitle)
    }

    /// From the lowest to the highest value of the parameter that is flat on the best line.
    fn flat_region(&self) -> Option<(f64, f64)> {
        let flat = self.lines.iter().flat_map(|line| &line.points).filter(|p| p.is_flat).map(|p| p.x);
        let (low, high) = flat.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        (low <= high && self.words.is_empty()).then_some((low, high))
    }

    fn axis(&self, canvas: &mut Canvas, frame: &Frame, x: &Scale) {
        if self.words.is_empty() {
            x_axis(canvas, frame, x, Unit::Count, &self.param);
            return;
        }
        for (word, i) in self.words.iter().zip(0_u32..) {
            canvas.text(
                (x.at(f64::from(i)), frame.bottom + 14.0),
                word.clone(),
                11.0,
                palette::MUTED,
                Anchor::Centre,
            );
        }
        let middle = f64::midpoint(frame.left, frame.right);
        canvas.text((middle, frame.bottom + 34.0), self.param.clone(), 12.0, palette::MUTED, Anchor::Centre);
    }

    /// Spaced by factors where the values are.
    fn x_scale(&self, frame: &Frame) -> Scale {
        let mut xs: Vec<f64> = self.lines.iter().flat_map(|line| &line.points).map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (low, high) = (xs.first().copied().unwrap_or(0.0), xs.last().copied().unwrap_or(1.0));
        let widest = xs.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
        let narrowest = xs.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        let log = low > 0.0 && xs.len() > 2 && widest > 4.0 * narrowest && high > 4.0 * low;
        let (low, high) = match log {
            true => {
                let room = libm::pow(high / low, 0.03);
                (low / room, high * room)
            }
            false => (low - (high - low) * 0.03, high + (high - low) * 0.03),
        };
        Scale { low, high, from: frame.left, to: frame.right, log }
    }

    fn y_scale(&self, frame: &Frame) -> Scale {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let ends = points.flat_map(|p| {
            [Some(p.value), p.interval.map(|i| i.low), p.interval.map(|i| i.high)].into_iter().flatten()
        });
        let all = ends.chain(self.others.iter().map(|o| o.2));
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let room = ((high - low) * 0.08).max(high.abs() * 0.01).max(1e-9);
        // Zero belongs to the axis where it is near.
        let low = if low >= 0.0 && low < (high - low) * 0.6 { 0.0 } else { low - room };
        Scale { low, high: high + room, from: frame.bottom, to: frame.top, log: false }
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn point(trial: &Trial, x: f64) -> Point {
    // A change and its interval, as values of the metric.
    let interval = trial.change.and_then(|(change, interval)| {
        let base = trial.value / (1.0 + change);
        interval.map(|i| Interval { low: base * (1.0 + i.low), high: base * (1.0 + i.high) })
    });
    Point { x, value: trial.value, interval, is_flat: trial.is_flat, is_sound: trial.is_sound }
}

fn line_label(trial: &Trial, rest: &serde_json::Map<String, Value>) -> String {
    let preset = trial.family.split(' ').next().unwrap_or_default();
    let on_model =
        trial.label.split_once(" on ").map(|(_, model)| format!(" on {model}")).unwrap_or_default();
    let rest: Vec<String> = rest.iter().map(|(name, value)| format!("{name}={}", word(value))).collect();
    match rest.is_empty() {
        true => format!("{preset}{on_model}"),
        false => format!("{preset}:{}{on_model}", rest.join(",")),
    }
}

fn draw_line(canvas: &mut Canvas, line: &Line, x: &Scale, y: &Scale) {
    let path: Vec<(f64, f64)> = line.points.iter().map(|p| (x.at(p.x), y.at(p.value))).collect();
    for (p, (px, _)) in line.points.iter().zip(&path) {
        if let Some(interval) = p.interval {
            let (low, high) = (y.at(interval.low), y.at(interval.high));
            canvas.path(vec![(*px, low), (*px, high)], line.look.ink, 1.0);
            for end in [low, high] {
                canvas.path(vec![(px - 3.0, end), (px + 3.0, end)], line.look.ink, 1.0);
            }
        }
    }
    canvas.dashed(&path, line.look.dashes, line.look.ink, line.look.width);
    for (p, at) in line.points.iter().zip(&path) {
        let shape = if p.is_sound { Shape::Circle } else { Shape::Cross };
        canvas.mark(*at, shape, line.look.ink, 3.5);
    }
}
