//! What all pictures share: titles, legends, axes.
//!
//! Logarithms are those of `libm`, so that a picture is the same on every machine.

use crate::error::Result;
use crate::report::layout;

use super::canvas::{Anchor, Canvas, Shape};
use super::palette::{self, Ink, LineLook};

pub(super) const MARGIN: f64 = 16.0;
/// Height of a row of the legend.
pub(super) const LEGEND_ROW: f64 = 18.0;
/// Length of a line in the legend.
const SAMPLE: f64 = 30.0;
/// Where the legend begins, below title and subtitle.
pub(super) const LEGEND_TOP: f64 = 66.0;

/// Where the data stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A number line between two ends of the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
    /// Each step is a factor.
    pub log: bool,
}

impl Scale {
    /// Where a value stands.
    pub fn at(&self, value: f64) -> f64 {
        let bent = |x: f64| if self.log { libm::log(x.max(f64::MIN_POSITIVE)) } else { x };
        let (low, high) = (bent(self.low), bent(self.high));
        let share = if high > low { (bent(value) - low) / (high - low) } else { 0.5 };
        self.from + (self.to - self.from) * share
    }

    /// Round values, about `count` of them.
    pub fn ticks(&self, count: f64) -> Vec<f64> {
        if self.log {
            return self.log_ticks(count);
        }
        let step = round_step((self.high - self.low) / count);
        let first = (self.low / step - 1e-9).ceil();
        (0..100)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|tick| *tick <= self.high + step * 1e-9)
            .map(|tick| if tick.abs() < step * 1e-9 { 0.0 } else { tick })
            .collect()
    }

    fn log_ticks(&self, count: f64) -> Vec<f64> {
        let decades = libm::log10(self.high / self.low);
        let factors: &[f64] = if decades * 3.0 <= count { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = libm::log10(self.low).floor();
        let powers = (0..40).map(|i| libm::pow(10.0, first + f64::from(i)));
        let all = powers.flat_map(|power| factors.iter().map(move |factor| power * factor));
        all.skip_while(|tick| *tick < self.low * 0.999)
            .take_while(|tick| *tick <= self.high * 1.001)
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = libm::pow(10.0, libm::log10(least).floor());
    [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= least * 0.999).unwrap_or(10.0 * power)
}

/// How numbers of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Dollars,
    /// A share, shown in per cent.
    Rate,
    /// A change, in per cent with its sign.
    Change,
    Count,
}

impl Unit {
    /// Of a metric's unit.
    pub fn of(unit: &str) -> Unit {
        match unit {
            "usd" => Unit::Dollars,
            "rate" => Unit::Rate,
            _ => Unit::Count,
        }
    }

    /// Enough digits to tell steps of `step` apart.
    pub fn text(self, value: f64, step: f64) -> String {
        let decimals = |step: f64| (-libm::log10(step.abs().max(1e-9)).floor()).clamp(0.0, 6.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 6")]
        let digits = |step: f64| decimals(step) as usize;
        match self {
            Unit::Dollars => format!("${:.*}", digits(step), value),
            Unit::Rate => format!("{:.*}%", digits(step * 100.0), value * 100.0),
            Unit::Change if value == 0.0 => "0%".to_owned(),
            Unit::Change => format!("{:+.*}%", digits(step * 100.0), value * 100.0),
            Unit::Count => short(value),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole and not negative"
)]
fn short(value: f64) -> String {
    match value {
        v if v < 0.0 => format!("-{}", short(-v)),
        v if v.fract().abs() > 1e-9 && v < 1_000.0 => format!("{v:.1}"),
        v => super::axis::short_number(v.round() as u64),
    }
}

/// Title and subtitle, cut to the width.
pub(super) fn title(canvas: &mut Canvas, title: &str, subtitle: &str) -> Result<()> {
    let width = canvas.size().0 - 2.0 * MARGIN;
    canvas.text((MARGIN, 24.0), fit(title, 16.0, width)?, 16.0, palette::INK, Anchor::Left);
    canvas.text((MARGIN, 44.0), fit(subtitle, 12.0, width)?, 12.0, palette::MUTED, Anchor::Left);
    Ok(())
}

/// What stands before a name in a legend.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sample {
    Line(LineLook),
    Box(Ink),
    Mark(Shape, Ink),
}

impl Sample {
    fn width(self) -> f64 {
        match self {
            Sample::Line(_) => SAMPLE + 6.0,
            Sample::Box(_) => 16.0,
            Sample::Mark(..) => 14.0,
        }
    }
}

/// A legend in rows above the data.
#[derive(Debug, Default)]
pub(super) struct Legend {
    entries: Vec<(Sample, String, (f64, f64))>,
    end: f64,
}

impl Legend {
    /// Lays the entries out.
    pub fn new(entries: impl IntoIterator<Item = (Sample, String)>, width: f64) -> Result<Legend> {
        let (mut x, mut y) = (MARGIN, LEGEND_TOP);
        let mut placed = Vec::new();
        for (sample, label) in entries {
            let label = fit(&label, 12.0, width - 2.0 * MARGIN - sample.width())?;
            let advance = sample.width() + Canvas::text_width(&label, 12.0)? + 18.0;
            if x > MARGIN && x + advance > width - MARGIN + 18.0 {
                (x, y) = (MARGIN, y + LEGEND_ROW);
            }
            placed.push((sample, label, (x, y)));
            x += advance;
        }
        let end = if placed.is_empty() { LEGEND_TOP - LEGEND_ROW } else { y + LEGEND_ROW / 2.0 };
        Ok(Legend { entries: placed, end })
    }

    /// Where it ends.
    pub fn end(&self) -> f64 {
        self.end
    }

    /// How much higher it is than one of two rows: pictures grow by as much, so that data keeps its room.
    pub fn excess(&self) -> f64 {
        (self.end - LEGEND_TOP - 1.5 * LEGEND_ROW).max(0.0)
    }

    /// Draws it.
    pub fn draw(self, canvas: &mut Canvas) {
        for (sample, label, (x, y)) in self.entries {
            match sample {
                Sample::Line(look) => {
                    canvas.dashed(&[(x, y), (x + SAMPLE, y)], look.dashes, look.ink, look.width)
                }
                Sample::Box(ink) => canvas.rect((x, y - 5.0), (x + 10.0, y + 5.0), ink),
                Sample::Mark(shape, ink) => canvas.mark((x + 5.0, y), shape, ink, 4.5),
            }
            canvas.text((x + sample.width(), y), label, 12.0, palette::INK, Anchor::Left);
        }
    }
}

/// Horizontal grid lines with their values on the left; the title of the axis above.
pub(super) fn y_axis(canvas: &mut Canvas, frame: &Frame, scale: &Scale, unit: Unit) {
    let ticks = scale.ticks(6.0);
    let step = least_step(&ticks);
    for tick in ticks {
        let y = scale.at(tick);
        let ink = if tick == 0.0 { palette::MUTED } else { palette::GRID };
        canvas.path(vec![(frame.left, y), (frame.right, y)], ink, 1.0);
        canvas.text((frame.left - 6.0, y), unit.text(tick, step), 11.0, palette::MUTED, Anchor::Right);
    }
}

/// Vertical grid lines with their values below.
pub(super) fn x_axis(canvas: &mut Canvas, frame: &Frame, scale: &Scale, unit: Unit, title: &str) {
    let ticks = scale.ticks(8.0);
    let step = least_step(&ticks);
    for tick in ticks {
        let x = scale.at(tick);
        let ink = if tick == 0.0 { palette::MUTED } else { palette::GRID };
        canvas.path(vec![(x, frame.top), (x, frame.bottom)], ink, 1.0);
        canvas.text((x, frame.bottom + 14.0), unit.text(tick, step), 11.0, palette::MUTED, Anchor::Centre);
    }
    let middle = f64::midpoint(frame.left, frame.right);
    canvas.text((middle, frame.bottom + 34.0), title, 12.0, palette::MUTED, Anchor::Centre);
}

fn least_step(ticks: &[f64]) -> f64 {
    ticks.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min).min(1e12)
}

/// A title begins with a capital.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Shortens a text to a width, with an ellipsis: a sentence loses its end, a name what tells least.
pub(super) fn fit(text: &str, size: f64, width: f64) -> Result<String> {
    let mut kept: String = text.to_owned();
    let mut shown = kept.clone();
    while Canvas::text_width(&shown, size)? > width && kept.pop().is_some() {
        shown = match text.contains(' ') {
            true => format!("{}…", kept.trim_end()),
            false => layout::cut(text, kept.chars().count()),
        };
    }
    Ok(shown)
}

/// Width of the widest of some labels, at most `most`.
pub(super) fn widest<'a>(labels: impl Iterator<Item = &'a str>, size: f64, most: f64) -> Result<f64> {
    let mut widest: f64 = 0.0;
    for label in labels {
        widest = widest.max(Canvas::text_width(label, size)?);
    }
    Ok(widest.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_labels_tell_them_apart() {
        let linear = Scale { low: 0.0, high: 0.47, from: 0.0, to: 1.0, log: false };
        let ticks = linear.ticks(6.0);
        assert_eq!(ticks.len(), 5);
        let labels: Vec<String> = ticks.iter().map(|t| Unit::Dollars.text(*t, 0.1)).collect();
        assert_eq!(labels, ["$0.0", "$0.1", "$0.2", "$0.3", "$0.4"]);
        let log = Scale { low: 10_000.0, high: 200_000.0, from: 0.0, to: 1.0, log: true };
        assert_eq!(log.ticks(8.0), [10_000.0, 20_000.0, 50_000.0, 100_000.0, 200_000.0]);
        assert!((log.at(44_721.36) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn changes_have_signs_and_rates_are_per_cent() {
        assert_eq!(Unit::Change.text(-0.25, 0.05), "-25%");
        assert_eq!(Unit::Change.text(0.1, 0.1), "+10%");
        assert_eq!(Unit::Rate.text(0.955, 0.005), "95.5%");
        assert_eq!(Unit::Count.text(50_000.0, 10_000.0), "50k");
    }
}
