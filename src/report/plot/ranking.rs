//! Strategies from the best to the worst, each with the interval of its change against the baseline.

use crate::error::Result;

use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Frame, LEGEND_TOP, MARGIN, Scale, Unit, fit, title, widest, x_axis};
use super::trials::{Trial, Trials, words};
use super::{Look, PictureFormat, palette};

/// Height of a row.
const ROW: f64 = 24.0;
/// Rows of a picture; of more strategies, the best are drawn.
const ROWS: usize = 40;

/// Everything in the picture.
#[derive(Debug)]
pub struct Ranking<'a> {
    /// The strategies.
    pub trials: &'a Trials,
}

impl Ranking<'_> {
    /// Draws the picture; it is as high as its rows need.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let all = self.trials;
        let metric = words(all.metric);
        let rows: Vec<&Trial> = all.ranked().into_iter().take(ROWS).map(|i| &all.trials[i]).collect();
        let mut canvas = Canvas::new(look);
        let width = canvas.size().0;
        let unit = Unit::of(all.metric.metric().unit);
        let notes: Vec<String> = rows.iter().map(|t| note(t, unit)).collect();
        let label_width = widest(rows.iter().map(|t| t.label.as_str()), 12.0, width * 0.36)?;
        let note_width = widest(notes.iter().map(String::as_str), 12.0, width * 0.3)?;
        let top = LEGEND_TOP;
        #[expect(clippy::cast_precision_loss, reason = "at most 40 rows")]
        let bottom = top + rows.len().max(1) as f64 * ROW;
        let frame = Frame {
            left: MARGIN + label_width + 12.0,
            top,
            right: width - MARGIN - note_width - 12.0,
            bottom,
        };
        canvas.set_height(bottom + 52.0);
        let with_interval = rows.iter().any(|t| t.change.is_some_and(|(_, interval)| interval.is_some()));
        let whiskers = if with_interval {
            "; whiskers: 95 % over resampled sessions"
        } else {
            "; too few sessions for intervals"
        };
        let left_out = match all.trials.len() {
            0..=ROWS => String::new(),
            count => format!("; the best {ROWS} of {count}"),
        };
        title(
            &mut canvas,
            &format!("Strategies by {metric}, best first"),
            &format!("{}{whiskers}{left_out}", all.subtitle),
        )?;
        let scale = scale(&rows, &frame);
        x_axis(
            &mut canvas,
            &frame,
            &scale,
            Unit::Change,
            &format!("change of {metric} against {}", all.baseline),
        );
        for ((trial, note), i) in rows.iter().zip(notes).zip(0_u32..) {
            let y = top + (f64::from(i) + 0.5) * ROW;
            row(&mut canvas, &frame, &scale, trial, y)?;
            canvas.text((width - MARGIN, y), note, 12.0, palette::MUTED, Anchor::Right);
        }
        canvas.encode(format)
    }
}

fn note(trial: &Trial, unit: Unit) -> String {
    let value = unit.text(trial.value, if unit == Unit::Dollars { 0.01 } else { 0.001 });
    let change = trial.change.map(|(change, _)| format!("  {}", Unit::Change.text(change, 0.001)));
    let mark = if trial.is_sound { "" } else { "  (stopped)" };
    value + &change.unwrap_or_default() + mark
}

fn scale(rows: &[&Trial], frame: &Frame) -> Scale {
    let ends = rows.iter().filter_map(|t| t.change).flat_map(|(change, interval)| {
        [Some(change), interval.map(|i| i.low), interval.map(|i| i.high)].into_iter().flatten()
    });
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let room = ((high - low) * 0.06).max(0.005);
    Scale { low: low - room, high: high + room, from: frame.left, to: frame.right, log: false }
}

fn row(canvas: &mut Canvas, frame: &Frame, scale: &Scale, trial: &Trial, y: f64) -> Result<()> {
    let ink = palette::look(trial.place).ink;
    let label = fit(&trial.label, 12.0, frame.left - MARGIN - 10.0)?;
    canvas.text((frame.left - 10.0, y), label, 12.0, palette::INK, Anchor::Right);
    let (change, interval) = trial.change.unwrap_or((0.0, None));
    if let Some(interval) = interval {
        let (low, high) = (scale.at(interval.low), scale.at(interval.high));
        canvas.path(vec![(low, y), (high, y)], ink, 2.0);
        for end in [low, high] {
            canvas.path(vec![(end, y - 4.0), (end, y + 4.0)], ink, 2.0);
        }
    }
    let shape = if trial.change.is_none() { Shape::Diamond } else { Shape::Circle };
    canvas.mark((scale.at(change), y), shape, ink, 4.5);
    Ok(())
}
