//! Cost against another metric: which strategies no other one beats in both.

use crate::error::Result;
use crate::metrics::{Better, MetricRef};

use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Frame, LEGEND_TOP, MARGIN, Scale, Unit, fit, title, x_axis, y_axis};
use super::trials::{Trials, words};
use super::{Look, PictureFormat, palette};

/// With more strategies than this only those on the front are named and have colours.
const FEW: usize = 10;
/// With more than this their points are small.
const MANY: usize = 100;

/// Everything in the picture: the metric of the trials against their cost.
#[derive(Debug)]
pub struct Pareto<'a> {
    /// The strategies; their value is drawn upwards.
    pub trials: &'a Trials,
}

/// Indices of those that no other sound one beats in cost and in the metric, by ascending cost.
pub fn front(trials: &Trials) -> Vec<usize> {
    let sign = if trials.metric.metric().better == Better::Higher { -1.0 } else { 1.0 };
    let mut order: Vec<usize> = (0..trials.trials.len()).filter(|i| trials.trials[*i].is_sound).collect();
    let key = |i: usize| (trials.trials[i].cost_usd, sign * trials.trials[i].value);
    order.sort_by(|a, b| key(*a).0.total_cmp(&key(*b).0).then(key(*a).1.total_cmp(&key(*b).1)));
    let mut best = f64::INFINITY;
    order.retain(|i| {
        let loss = key(*i).1;
        let is_better = loss < best;
        best = best.min(loss);
        is_better
    });
    order
}

impl Pareto<'_> {
    /// Draws the picture.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let all = self.trials;
        let metric: MetricRef = all.metric;
        let mut canvas = Canvas::new(look);
        let (width, height) = canvas.size();
        let frame = Frame {
            left: MARGIN + 48.0,
            top: LEGEND_TOP + 6.0,
            right: width - MARGIN - 10.0,
            bottom: height - 48.0,
        };
        let better = if all.higher_is_better() { "up" } else { "down" };
        title(
            &mut canvas,
            &format!("Cost against {}", words(metric)),
            &format!(
                "{}; better is left and {better}; the line joins what nothing beats in both",
                all.subtitle
            ),
        )?;
        let of = |value: &dyn Fn(usize) -> f64| (0..all.trials.len()).map(value).collect::<Vec<f64>>();
        let mut x = padded(&of(&|i| all.trials[i].cost_usd), frame.left, frame.right);
        spread(&mut x, &of(&|i| all.trials[i].cost_usd));
        let y = padded(&of(&|i| all.trials[i].value), frame.bottom, frame.top);
        y_axis(&mut canvas, &frame, &y, Unit::of(metric.metric().unit));
        x_axis(&mut canvas, &frame, &x, Unit::Dollars, "cost in US dollars");
        canvas.text((MARGIN, frame.top - 10.0), words(metric), 11.0, palette::MUTED, Anchor::Left);
        let front = front(all);
        let point = |i: usize| (x.at(all.trials[i].cost_usd), y.at(all.trials[i].value));
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for i in &front {
            let at = point(*i);
            // The front runs in steps: between two of them nothing is known to be had.
            steps.extend(steps.last().map(|before| (at.0, before.1)));
            steps.push(at);
        }
        canvas.path(steps.clone(), palette::MUTED, 1.5);
        let points: Vec<(f64, f64)> = (0..all.trials.len()).map(point).collect();
        let is_baseline = |i: &usize| all.trials[*i].label == all.baseline;
        let mut named = front.clone();
        named.extend((0..all.trials.len()).filter(|i| is_baseline(i) && !front.contains(i)));
        let few = all.trials.len() <= FEW;
        let radius = if all.trials.len() > MANY { 2.5 } else { 4.0 };
        // What is named lies above all others.
        let others = (0..all.trials.len()).rev().filter(|i| !named.contains(i));
        for (i, is_named) in others.map(|i| (i, false)).chain(named.iter().map(|i| (*i, true))) {
            let trial = &all.trials[i];
            let shape = match trial.is_sound {
                true if is_baseline(&i) => Shape::Diamond,
                true => Shape::Circle,
                false => Shape::Cross,
            };
            let ink = if few || is_named { palette::look(trial.place).ink } else { palette::MUTED };
            canvas.mark(points[i], shape, ink, if is_named { 6.0 } else { radius });
        }
        if few {
            let rest: Vec<usize> = all.ranked().into_iter().filter(|i| !named.contains(i)).collect();
            named.extend(rest);
        }
        self.names(&mut canvas, &frame, &named, &steps, &points)?;
        canvas.encode(format)
    }

    /// Writes names beside their points where they cover neither one another, nor a point, nor the front. A name that
    /// stands further away has a line to its point.
    fn names(
        &self,
        canvas: &mut Canvas,
        frame: &Frame,
        named: &[usize],
        steps: &[(f64, f64)],
        points: &[(f64, f64)],
    ) -> Result<()> {
        let mut taken: Vec<[f64; 4]> =
            points.iter().map(|(x, y)| [x - 6.0, y - 6.0, x + 6.0, y + 6.0]).collect();
        taken.extend(steps.windows(2).map(|w| {
            let ((x0, y0), (x1, y1)) = (w[0], w[1]);
            [x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)]
        }));
        for i in named {
            let (x, y) = points[*i];
            let label = fit(&self.trials.trials[*i].label, 12.0, 280.0)?;
            let width = Canvas::text_width(&label, 12.0)?;
            let near = [
                (10.0, 0.0),
                (-10.0 - width, 0.0),
                (-width / 2.0, -15.0),
                (-width / 2.0, 15.0),
                (4.0, -15.0),
                (4.0, 15.0),
                (-width - 4.0, -15.0),
                (-width - 4.0, 15.0),
            ];
            let rows = (2..=8_u32).flat_map(|row| [15.0, -15.0].map(|dy| f64::from(row) * dy));
            let far = rows.flat_map(|dy| [(8.0, dy), (-width - 8.0, dy), (-width / 2.0, dy)]);
            let places = near.into_iter().chain(far);
            let mut boxes = places.map(|(dx, dy)| [x + dx, y + dy - 7.0, x + dx + width, y + dy + 7.0]);
            let fits = |b: &[f64; 4]| {
                let inside = b[0] > frame.left
                    && b[2] < frame.right + 12.0
                    && b[1] > frame.top - 4.0
                    && b[3] < frame.bottom;
                inside && taken.iter().all(|t| b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3])
            };
            if let Some(found) = boxes.find(fits) {
                let middle = f64::midpoint(found[1], found[3]);
                if (middle - y).abs() > 20.0 {
                    let end = if middle < y { found[3] } else { found[1] };
                    canvas.path(vec![(x.clamp(found[0], found[2]), end), (x, y)], palette::MUTED, 0.75);
                }
                canvas.text((found[0], middle), label, 12.0, palette::INK, Anchor::Left);
                taken.push(found);
            }
        }
        Ok(())
    }
}

/// A few that cost many times as much must not push all others into a corner: then each step is a factor.
fn spread(scale: &mut Scale, costs: &[f64]) {
    let (low, high) = costs.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    if low > 0.0 && high > 4.0 * low {
        *scale = Scale { low: low / 1.2, high: high * 1.2, log: true, ..*scale };
    }
}

/// A scale around some values, with room on both sides.
fn padded(values: &[f64], from: f64, to: f64) -> Scale {
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let (low, high) = if low.is_finite() { (low, high) } else { (0.0, 1.0) };
    let room = ((high - low) * 0.1).max(high.abs() * 0.01).max(1e-9);
    Scale { low: low - room, high: high + room, from, to, log: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::trials::Trial;

    fn trial(label: &str, cost_usd: f64, value: f64, is_sound: bool) -> Trial {
        Trial {
            label: label.into(),
            place: 0,
            family: "f m".into(),
            params: serde_json::Map::new(),
            value,
            change: None,
            is_flat: false,
            cost_usd,
            is_sound,
        }
    }

    #[test]
    fn the_front_is_what_nothing_sound_beats_in_both() {
        let trials = vec![
            trial("dear and good", 9.0, 0.99, true),
            trial("beaten", 5.0, 0.80, true),
            trial("cheap", 2.0, 0.90, true),
            trial("stopped", 1.0, 0.999, false),
            trial("as good, dearer", 3.0, 0.90, true),
        ];
        let metric = crate::metrics::find("hit_rate").expect("known");
        let all =
            Trials { metric, baseline: "cheap".into(), subtitle: String::new(), varied: Vec::new(), trials };
        let labels: Vec<&str> = front(&all).iter().map(|i| all.trials[*i].label.as_str()).collect();
        assert_eq!(labels, ["cheap", "dear and good"]);
    }
}
