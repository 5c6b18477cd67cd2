//! What each request of a session read, wrote and paid in full: one panel per strategy, on the same scales.

use crate::error::Result;
use crate::sim::RequestRow;
use crate::usage::Usage;

use super::axis::{short_number, step};
use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Legend, MARGIN, Sample, fit, title};
use super::{Look, PictureFormat, palette};
use crate::cause::Cause;

/// Panels of a picture; of more strategies, the first.
const PANELS: usize = 8;
/// Height of a panel and the gap above it.
const PANEL: f64 = 120.0;
const GAP: f64 = 26.0;

/// A request in a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsagePoint {
    /// Its number, from 1.
    pub request: u64,
    /// Its tokens.
    pub usage: Usage,
    /// Its cache entry's life had ended.
    pub expired: bool,
}

/// One strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsagePanel {
    /// Its name.
    pub label: String,
    /// Requests in order.
    pub points: Vec<UsagePoint>,
}

impl UsagePanel {
    /// The panel of a run.
    pub fn of(label: &str, rows: &[RequestRow]) -> UsagePanel {
        let point = |row: &RequestRow| UsagePoint {
            request: u64::from(row.request),
            usage: row.usage,
            expired: row.miss_cause == Some(Cause::TtlExpired),
        };
        UsagePanel { label: label.to_owned(), points: rows.iter().map(point).collect() }
    }
}

/// Everything in the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageStack {
    /// Session.
    pub session: String,
    /// Model.
    pub model: String,
    /// Strategies.
    pub panels: Vec<UsagePanel>,
}

struct Axes {
    left: f64,
    right: f64,
    last: u64,
    most: u64,
}

impl Axes {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn x(&self, request: u64) -> f64 {
        self.left
            + (self.right - self.left) * (request.saturating_sub(1)) as f64
                / self.last.saturating_sub(1).max(1) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn height(&self, tokens: u64) -> f64 {
        PANEL * tokens as f64 / self.most.max(1) as f64
    }
}

impl UsageStack {
    /// Draws the picture; it is as high as its panels.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(look);
        let width = canvas.size().0;
        let classes = ["read from the cache", "written to the cache", "uncached"];
        let boxes = classes
            .iter()
            .zip(palette::CLASSES)
            .map(|(name, (_, ink, _))| (Sample::Box(ink), (*name).to_owned()));
        let expired = self.panels.iter().any(|p| p.points.iter().any(|p| p.expired));
        let mark =
            expired.then(|| (Sample::Mark(Shape::Diamond, palette::INK), "cache life over".to_owned()));
        let legend = Legend::new(boxes.chain(mark), width)?;
        let panels: Vec<&UsagePanel> = self.panels.iter().take(PANELS).collect();
        let points = || panels.iter().flat_map(|p| &p.points);
        let axes = Axes {
            left: MARGIN + 40.0,
            right: width - MARGIN - 8.0,
            last: points().map(|p| p.request).max().unwrap_or(1),
            most: points().map(|p| p.usage.prompt_tokens()).max().unwrap_or(1),
        };
        title(&mut canvas, &format!("Prompt tokens by their price: session {}", self.session), &self.model)?;
        let mut bottom = legend.end() + 4.0;
        legend.draw(&mut canvas);
        for panel in &panels {
            bottom += GAP + PANEL;
            draw_panel(&mut canvas, &axes, panel, bottom)?;
        }
        let x_step = step(axes.last, 9);
        let ticks = (0..=axes.last).step_by(usize::try_from(x_step).unwrap_or(usize::MAX));
        for request in ticks.map(|r| r.max(1)) {
            canvas.text(
                (axes.x(request), bottom + 14.0),
                short_number(request),
                11.0,
                palette::MUTED,
                Anchor::Centre,
            );
        }
        canvas.text(
            (f64::midpoint(axes.left, axes.right), bottom + 34.0),
            "request",
            12.0,
            palette::MUTED,
            Anchor::Centre,
        );
        canvas.set_height(bottom + 48.0);
        canvas.encode(format)
    }
}

fn draw_panel(canvas: &mut Canvas, axes: &Axes, panel: &UsagePanel, bottom: f64) -> Result<()> {
    let label = fit(&panel.label, 12.0, axes.right - axes.left)?;
    canvas.text((axes.left, bottom - PANEL - 9.0), label, 12.0, palette::INK, Anchor::Left);
    let y_step = step(axes.most, 3);
    for tokens in (0..=axes.most).step_by(usize::try_from(y_step).unwrap_or(usize::MAX)) {
        let y = bottom - axes.height(tokens);
        let ink = if tokens == 0 { palette::MUTED } else { palette::GRID };
        canvas.path(vec![(axes.left, y), (axes.right, y)], ink, 1.0);
        canvas.text((axes.left - 6.0, y), short_number(tokens), 11.0, palette::MUTED, Anchor::Right);
    }
    let points = thinned(&panel.points, axes);
    let mut below: Vec<f64> = vec![bottom; points.len()];
    let parts: [fn(&Usage) -> u64; 3] =
        [|u| u.cache_read_tokens, |u| u.cache_write_tokens(), |u| u.uncached_tokens];
    for (part, (_, ink, _)) in parts.iter().zip(palette::CLASSES) {
        let above: Vec<f64> =
            points.iter().zip(&below).map(|(p, y)| y - axes.height(part(&p.usage))).collect();
        let xs: Vec<f64> = points.iter().map(|p| axes.x(p.request)).collect();
        let forth = xs.iter().copied().zip(above.iter().copied());
        let back = xs.iter().copied().zip(below.iter().copied()).rev();
        if points.len() > 1 {
            canvas.area(forth.chain(back).collect(), ink);
        } else if let Some(x) = xs.first() {
            canvas.rect((*x, above[0]), (x + 4.0, below[0]), ink);
        }
        below = above;
    }
    let mut last_x = f64::NEG_INFINITY;
    for point in panel.points.iter().filter(|p| p.expired) {
        let x = axes.x(point.request);
        if x - last_x >= 9.0 {
            canvas.mark(
                (x, bottom - axes.height(point.usage.prompt_tokens())),
                Shape::Diamond,
                palette::INK,
                4.0,
            );
            last_x = x;
        }
    }
    Ok(())
}

/// Of each column of pixels the request that read least: what was missed is what one looks for.
fn thinned(points: &[UsagePoint], axes: &Axes) -> Vec<UsagePoint> {
    let column = |p: &UsagePoint| axes.x(p.request).floor();
    let chunks = points.chunk_by(|a, b| column(a).total_cmp(&column(b)).is_eq());
    chunks.filter_map(|chunk| chunk.iter().min_by_key(|p| p.usage.cache_read_tokens)).copied().collect()
}
