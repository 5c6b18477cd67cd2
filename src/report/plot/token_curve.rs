//! Prompt tokens per request, one line per strategy.

use crate::cause::Cause;
use crate::error::Result;
use crate::sim::{FullRecorder, SimEventKind};

use super::axis::{downsample, short_number, step};
use super::canvas::{Anchor, Canvas, Shape};
use super::chart::{Legend, MARGIN, Sample, title};
use super::{Look, PictureFormat, palette};

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Its number, from 1.
    pub request: u64,
    /// Its prompt.
    pub prompt_tokens: u64,
}

/// What is marked on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// History was edited.
    Pass,
    /// A summary replaced history.
    Compaction,
    /// The provider refused a request.
    Rejection,
    /// The cache entry's life had ended.
    Expiry,
    /// The run ended before the session.
    Stop,
}

impl MarkKind {
    const ALL: [MarkKind; 5] = [Self::Expiry, Self::Pass, Self::Compaction, Self::Rejection, Self::Stop];

    fn shape(self) -> Shape {
        match self {
            Self::Pass => Shape::Triangle,
            Self::Compaction => Shape::Square,
            Self::Rejection => Shape::Cross,
            Self::Expiry => Shape::Diamond,
            Self::Stop => Shape::Circle,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Compaction => "compaction",
            Self::Rejection => "rejection",
            Self::Expiry => "cache life over",
            Self::Stop => "stopped",
        }
    }
}

/// A mark at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Number of the request it happened before, from 1.
    pub request: u64,
    /// What happened.
    pub kind: MarkKind,
}

/// One strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// Its place among all strategies of the study, which gives its look in every picture.
    pub place: usize,
    /// Requests in order.
    pub points: Vec<Point>,
    /// Marks in order.
    pub marks: Vec<Mark>,
}

impl Series {
    /// The line of a run.
    pub fn of(label: &str, place: usize, record: &FullRecorder) -> Series {
        let points = record
            .requests
            .iter()
            .map(|row| Point { request: u64::from(row.request), prompt_tokens: row.usage.prompt_tokens() });
        let marks = record.events.iter().filter_map(|event| {
            let kind = match event.kind {
                SimEventKind::Pass { .. } => MarkKind::Pass,
                SimEventKind::CompactionDone { .. } => MarkKind::Compaction,
                SimEventKind::Rejection { .. } => MarkKind::Rejection,
                _ => return None,
            };
            Some(Mark { request: u64::from(event.request), kind })
        });
        let expired = record.requests.iter().filter(|row| row.miss_cause == Some(Cause::TtlExpired));
        let expiries = expired.map(|row| Mark { request: u64::from(row.request), kind: MarkKind::Expiry });
        let marks = marks.chain(expiries).collect();
        Series { label: label.to_owned(), place, points: points.collect(), marks }
    }

    /// Where a mark stands: what shortened the prompt at the height that the prompt had before, so that
    /// it points at the drop; the rest at the request itself.
    fn place_of(&self, mark: &Mark) -> Option<&Point> {
        let index = self.points.partition_point(|p| p.request < mark.request);
        let index = match mark.kind {
            MarkKind::Pass | MarkKind::Compaction => index.saturating_sub(1),
            MarkKind::Rejection | MarkKind::Expiry | MarkKind::Stop => index,
        };
        self.points.get(index.min(self.points.len().saturating_sub(1)))
    }
}

/// Everything in the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCurve {
    /// Session.
    pub session: String,
    /// Model.
    pub model: String,
    /// The model's window.
    pub window_tokens: u64,
    /// Strategies; the first is the baseline.
    pub series: Vec<Series>,
}

/// Where the data stands.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    first: u64,
    last: u64,
    max: u64,
}

/// Marks of one kind on one line are at least this far apart; further where there are very many.
const MARK_GAP: f64 = 8.0;
const SPARSE_MARK_GAP: f64 = 24.0;
/// More marks than this are very many.
const MANY_MARKS: usize = 60;
/// With more lines than this, marks are sparse, and lives that ended are marked on the first line only.
const MANY_LINES: usize = 10;
/// Width of lines with more requests than pixels: they go up and down too often for dashes.
const DENSE_WIDTH: f64 = 1.0;

impl Frame {
    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn x(&self, request: u64) -> f64 {
        let span = (self.last - self.first).max(1) as f64;
        self.left + (self.right - self.left) * (request.saturating_sub(self.first)) as f64 / span
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels")]
    fn columns(&self) -> usize {
        (self.right - self.left).max(1.0) as usize
    }

    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn y(&self, tokens: u64) -> f64 {
        self.bottom - (self.bottom - self.top) * tokens as f64 / self.max.max(1) as f64
    }
}

impl TokenCurve {
    /// Draws the picture.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn draw(&self, format: PictureFormat, look: Look) -> Result<Vec<u8>> {
        let mut canvas = Canvas::new(look);
        let (width, height) = canvas.size();
        let subtitle = format!("{}, replayed as recorded", self.model);
        title(&mut canvas, &format!("Prompt tokens per request: session {}", self.session), &subtitle)?;
        let legend = self.legend(width)?;
        canvas.set_height(height + legend.excess());
        let frame = self.frame(legend.end() + 14.0, width, canvas.size().1);
        legend.draw(&mut canvas);
        draw_axes(&mut canvas, &frame);
        self.window(&mut canvas, &frame);
        self.lines(&mut canvas, &frame);
        canvas.encode(format)
    }

    fn peak(&self) -> u64 {
        self.series.iter().flat_map(|s| &s.points).map(|p| p.prompt_tokens).max().unwrap_or(0)
    }

    /// The window is in range when some prompt fills at least two thirds of it.
    fn shows_window(&self) -> bool {
        self.window_tokens > 0 && 3 * self.peak() >= 2 * self.window_tokens
    }

    fn frame(&self, top: f64, width: f64, height: f64) -> Frame {
        let requests = || self.series.iter().flat_map(|s| &s.points).map(|p| p.request);
        let peak = self.peak().max(if self.shows_window() { self.window_tokens } else { 0 }).max(1);
        let tick = step(peak, 6);
        // Room above the peak for marks, up to half a tick: not a whole empty one.
        let max = (peak + peak / 16).min(peak.div_ceil(tick) * tick).max(peak + peak / 24);
        Frame {
            left: MARGIN + 40.0,
            right: width - MARGIN - 8.0,
            top,
            bottom: height - 48.0,
            first: requests().min().unwrap_or(1),
            last: requests().max().unwrap_or(1),
            max,
        }
    }

    /// Lines, then the marks that occur.
    fn legend(&self, width: f64) -> Result<Legend> {
        let lines = self.series.iter().map(|s| (Sample::Line(palette::look(s.place)), s.label.clone()));
        let occurs = |kind: &MarkKind| self.series.iter().any(|s| s.marks.iter().any(|m| m.kind == *kind));
        let marks = MarkKind::ALL.into_iter().filter(occurs);
        let marks = marks.map(|kind| (Sample::Mark(kind.shape(), palette::MUTED), kind.label().to_owned()));
        Legend::new(lines.chain(marks), width)
    }

    fn window(&self, canvas: &mut Canvas, frame: &Frame) {
        if !self.shows_window() {
            return;
        }
        let y = frame.y(self.window_tokens);
        canvas.dashed(&[(frame.left, y), (frame.right, y)], &[3.0, 4.0], palette::LIMIT, 1.0);
        let label = format!("window {}", short_number(self.window_tokens));
        canvas.text((frame.left + 6.0, y - 9.0), label, 11.0, palette::LIMIT, Anchor::Left);
    }

    fn lines(&self, canvas: &mut Canvas, frame: &Frame) {
        for series in self.series.iter().rev() {
            let look = palette::look(series.place);
            let points: Vec<(u64, u64)> =
                series.points.iter().map(|p| (p.request, p.prompt_tokens)).collect();
            let thin = downsample(&points, frame.first, frame.last, frame.columns());
            let path: Vec<(f64, f64)> = thin.iter().map(|&(x, y)| (frame.x(x), frame.y(y))).collect();
            match path.as_slice() {
                [only] => canvas.mark(*only, Shape::Circle, look.ink, 3.0),
                _ if thin.len() < points.len() => canvas.path(path, look.ink, DENSE_WIDTH),
                _ => canvas.dashed(&path, look.dashes, look.ink, look.width),
            }
        }
        // Marks lie above all lines, and rare ones above frequent ones.
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.series[i].marks.len()));
        let many = self.series.len() > MANY_LINES;
        for i in order {
            let kinds = MarkKind::ALL.into_iter().filter(|kind| !many || i == 0 || *kind != MarkKind::Expiry);
            draw_marks(canvas, frame, &self.series[i], many, kinds);
        }
    }
}

fn draw_marks(
    canvas: &mut Canvas,
    frame: &Frame,
    series: &Series,
    many: bool,
    kinds: impl Iterator<Item = MarkKind>,
) {
    let ink = palette::look(series.place).ink;
    for kind in kinds {
        let marks = || series.marks.iter().filter(|m| m.kind == kind);
        let gap = if many || marks().count() > MANY_MARKS { SPARSE_MARK_GAP } else { MARK_GAP };
        let mut last_x = f64::NEG_INFINITY;
        for mark in marks() {
            let Some(point) = series.place_of(mark) else { continue };
            let (x, y) = (frame.x(point.request), frame.y(point.prompt_tokens));
            if x - last_x >= gap {
                canvas.mark((x, y), kind.shape(), ink, if many { 3.8 } else { 4.5 });
                last_x = x;
            }
        }
    }
}

fn draw_axes(canvas: &mut Canvas, frame: &Frame) {
    let y_step = step(frame.max, 7);
    for tokens in (0..=frame.max).step_by(usize::try_from(y_step).unwrap_or(usize::MAX)) {
        let y = frame.y(tokens);
        let colour = if tokens == 0 { palette::MUTED } else { palette::GRID };
        canvas.path(vec![(frame.left, y), (frame.right, y)], colour, 1.0);
        canvas.text((frame.left - 6.0, y), short_number(tokens), 11.0, palette::MUTED, Anchor::Right);
    }
    let x_step = step(frame.last, 9);
    let ticks = (0..=frame.last).step_by(usize::try_from(x_step).unwrap_or(usize::MAX));
    for request in ticks.map(|r| r.max(frame.first)).filter(|r| *r <= frame.last) {
        let x = frame.x(request);
        canvas.path(vec![(x, frame.bottom), (x, frame.bottom + 4.0)], palette::MUTED, 1.0);
        canvas.text((x, frame.bottom + 14.0), short_number(request), 11.0, palette::MUTED, Anchor::Centre);
    }
    let middle = f64::midpoint(frame.left, frame.right);
    canvas.text((middle, frame.bottom + 34.0), "request", 12.0, palette::MUTED, Anchor::Centre);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saw-tooth per strategy; `index` shifts when it is cut.
    fn series(index: u64, requests: u64) -> Series {
        let cut = 40 + 15 * index;
        let mut tokens = 20_000;
        let mut points = Vec::new();
        let mut marks = Vec::new();
        for request in 1..=requests {
            if index > 0 && request % cut == 0 {
                tokens = tokens * 6 / 10;
                let kind = if index % 2 == 1 { MarkKind::Pass } else { MarkKind::Compaction };
                marks.push(Mark { request, kind });
                if index == 2 && request % (3 * cut) == 0 {
                    marks.push(Mark { request: request + 3, kind: MarkKind::Rejection });
                }
            }
            tokens += 300 + (request * 7_919 + index * 31) % 600;
            points.push(Point { request, prompt_tokens: tokens.min(190_000 + index) });
        }
        let label = match index {
            0 => "none".to_owned(),
            1 => "passes".to_owned(),
            _ => format!("candidate-{index}:minCharsPerPass={}", 10_000 * index),
        };
        Series { label, place: usize::try_from(index).expect("small"), points, marks }
    }

    fn curve(count: u64, requests: u64) -> TokenCurve {
        TokenCurve {
            session: "0b1c2d3e-5f60-4718-9a2b-c3d4e5f60718".to_owned(),
            model: "claude-opus-5-5".to_owned(),
            window_tokens: 200_000,
            series: (0..count).map(|i| series(i, requests)).collect(),
        }
    }

    #[test]
    fn every_size_draws_in_both_formats_and_twice_the_same() {
        for (count, requests) in
            [(1, 10), (3, 300), (8, 300), (30, 300), (3, 10_000), (30, 10_000), (1, 1), (0, 0)]
        {
            let curve = curve(count, requests);
            for format in PictureFormat::ALL {
                let bytes = curve.draw(format, Look::default()).expect("drawn");
                assert_eq!(bytes, curve.draw(format, Look::default()).expect("drawn"));
                if let Some(dir) = std::env::var_os("CTXSIM_SHOW_PICTURES") {
                    let name = format!("{count}-{requests}.{}", format.extension());
                    std::fs::write(std::path::Path::new(&dir).join(name), bytes).expect("writable");
                }
            }
        }
    }

    #[test]
    fn the_window_is_drawn_only_in_range() {
        let mut curve = curve(1, 300);
        let svg = |c: &TokenCurve| {
            String::from_utf8(c.draw(PictureFormat::Svg, Look::default()).expect("drawn")).expect("UTF-8")
        };
        assert!(svg(&curve).contains("window 200k"));
        curve.window_tokens = 1_000_000;
        assert!(!svg(&curve).contains("window"));
    }

    #[test]
    fn long_sessions_draw_few_points() {
        let bytes = curve(3, 10_000).draw(PictureFormat::Svg, Look::default()).expect("drawn");
        assert!(bytes.len() < 400_000, "{}", bytes.len());
    }
}
