//! A surface to draw on: paths, shapes and text in points of the final picture.
//!
//! PNG is drawn at twice its size and averaged down, so that lines and small text are smooth. The font is
//! embedded, and is registered here and nowhere else.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::prelude::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle, register_font};

use crate::error::Result;

use super::palette::{Ink, PAPER, Theme};
use super::{Look, PictureFormat, drawing_error};

/// Apache-2.0; the licence is beside the file.
const FONT: &[u8] = include_bytes!("../../../assets/Roboto-Regular.ttf");
/// The name under which SVG viewers look for a font, and we for the embedded one.
const FONT_NAME: &str = "sans-serif";
/// A PNG is drawn this many times larger in each direction, then averaged.
const OVERSAMPLING: u32 = 2;
/// An SVG has this many units per point, since the backend writes whole units.
const SVG_UNITS: u32 = 4;

/// Where a text stands in relation to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Left,
    /// It is centred there.
    Centre,
    /// It ends there.
    Right,
}

/// Shape of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A triangle that points down.
    Triangle,
    /// A square.
    Square,
    /// A cross.
    Cross,
    /// A circle.
    Circle,
    /// A square on its corner, not filled.
    Diamond,
}

/// What is drawn, in order, in points.
#[derive(Debug, Clone)]
enum Item {
    Path { points: Vec<(f64, f64)>, ink: Ink, width: f64 },
    Area { points: Vec<(f64, f64)>, ink: Ink },
    Mark { at: (f64, f64), shape: Shape, ink: Ink, radius: f64 },
    Text { at: (f64, f64), text: String, size: f64, ink: Ink, anchor: Anchor },
}

/// A picture in the making: what is drawn is collected, then written in either format.
#[derive(Debug)]
pub struct Canvas {
    look: Look,
    items: Vec<Item>,
}

impl Canvas {
    /// An empty picture.
    pub fn new(look: Look) -> Canvas {
        Canvas { look, items: Vec::new() }
    }

    /// Makes the picture as high as its content.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a picture is at most some thousand pixels high"
    )]
    pub fn set_height(&mut self, height: f64) {
        self.look.size.1 = height.ceil().max(1.0) as u32;
    }

    /// Width and height in points.
    pub fn size(&self) -> (f64, f64) {
        (f64::from(self.look.size.0), f64::from(self.look.size.1))
    }

    /// A line through `points`.
    pub fn path(&mut self, points: Vec<(f64, f64)>, ink: Ink, width: f64) {
        for points in split_at_sharp_corners(&points) {
            self.items.push(Item::Path { points, ink, width });
        }
    }

    /// A filled shape with these corners.
    pub fn area(&mut self, points: Vec<(f64, f64)>, ink: Ink) {
        self.items.push(Item::Area { points, ink });
    }

    /// A filled rectangle between two corners.
    pub fn rect(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), ink: Ink) {
        self.area(vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)], ink);
    }

    /// A dashed line through `points`; without dashes a solid one.
    pub fn dashed(&mut self, points: &[(f64, f64)], dashes: &[f64], ink: Ink, width: f64) {
        if dashes.is_empty() {
            self.path(points.to_vec(), ink, width);
            return;
        }
        for dash in cut(points, dashes) {
            self.path(dash, ink, width);
        }
    }

    /// A shape with a rim of paper, so that it stands out from the lines below it.
    pub fn mark(&mut self, at: (f64, f64), shape: Shape, ink: Ink, radius: f64) {
        self.items.push(Item::Mark { at, shape, ink, radius });
    }

    /// Text with its middle line at `at`.
    pub fn text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64, ink: Ink, anchor: Anchor) {
        self.items.push(Item::Text { at, text: text.into(), size, ink, anchor });
    }

    /// Width of a text in points.
    ///
    /// # Errors
    /// If the embedded font cannot be read.
    pub fn text_width(text: &str, size: f64) -> Result<f64> {
        register()?;
        // Measured large, since boxes are whole pixels.
        let (width, _) = (FONT_NAME, 10.0 * size).into_font().box_size(text).map_err(drawing_error)?;
        Ok(f64::from(width) / 10.0)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// If a backend fails.
    pub fn encode(&self, format: PictureFormat) -> Result<Vec<u8>> {
        register()?;
        match format {
            PictureFormat::Svg => {
                let (width, height) = self.look.size;
                let (units_x, units_y) = (width * SVG_UNITS, height * SVG_UNITS);
                let mut svg = String::new();
                let backend = SVGBackend::with_string(&mut svg, (units_x, units_y));
                self.draw(&backend.into_drawing_area(), f64::from(SVG_UNITS))?;
                let in_units = format!("width=\"{units_x}\" height=\"{units_y}\"");
                let in_points = format!("width=\"{width}\" height=\"{height}\"");
                svg = svg.replacen(&in_units, &in_points, 1);
                svg.push('\n');
                Ok(svg.into_bytes())
            }
            PictureFormat::Png => {
                let (width, height) = (self.look.size.0 * OVERSAMPLING, self.look.size.1 * OVERSAMPLING);
                let mut pixels = vec![0; 3 * width as usize * height as usize];
                let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
                self.draw(&backend.into_drawing_area(), f64::from(OVERSAMPLING))?;
                png(&average(&pixels, self.look.size), self.look.size)
            }
        }
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Result<()> {
        area.fill(&PAPER.on(self.look.theme)).map_err(drawing_error)?;
        for item in &self.items {
            draw_item(area, item, self.look.theme, scale)?;
        }
        area.present().map_err(drawing_error)
    }
}

fn register() -> Result<()> {
    register_font(FONT_NAME, FontStyle::Normal, FONT)
        .map_err(|_| drawing_error("the embedded font is broken"))
}

#[expect(clippy::cast_possible_truncation, reason = "a picture is at most some thousand pixels wide")]
fn pixel(at: (f64, f64), scale: f64) -> (i32, i32) {
    ((at.0 * scale).round() as i32, (at.1 * scale).round() as i32)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "widths are a few pixels")]
fn stroke(colour: RGBColor, width: f64) -> ShapeStyle {
    ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: width.round().max(1.0) as u32 }
}

fn draw_item<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    item: &Item,
    theme: Theme,
    scale: f64,
) -> Result<()> {
    let pixels = |points: &[(f64, f64)]| points.iter().map(|p| pixel(*p, scale)).collect::<Vec<_>>();
    match item {
        Item::Path { points, ink, width } => {
            let element = PathElement::new(pixels(points), stroke(ink.on(theme), width * scale));
            area.draw(&element).map_err(drawing_error)
        }
        Item::Area { points, ink } => {
            area.draw(&Polygon::new(pixels(points), ink.on(theme).filled())).map_err(drawing_error)
        }
        Item::Mark { at, shape, ink, radius } => {
            draw_mark(area, *at, *shape, PAPER.on(theme), radius + 1.0, scale)?;
            if *shape == Shape::Diamond {
                draw_mark(area, *at, *shape, ink.on(theme), *radius, scale)?;
                return draw_mark(area, *at, *shape, PAPER.on(theme), radius - 1.8, scale);
            }
            draw_mark(area, *at, *shape, ink.on(theme), *radius, scale)
        }
        Item::Text { at, text, size, ink, anchor } => {
            let horizontal = match anchor {
                Anchor::Left => HPos::Left,
                Anchor::Centre => HPos::Center,
                Anchor::Right => HPos::Right,
            };
            let colour = ink.on(theme);
            let style = TextStyle::from((FONT_NAME, size * scale).into_font())
                .color(&colour)
                .pos(Pos::new(horizontal, VPos::Center));
            area.draw(&Text::new(text.as_str(), pixel(*at, scale), style)).map_err(drawing_error)
        }
    }
}

fn draw_mark<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    (x, y): (f64, f64),
    shape: Shape,
    colour: RGBColor,
    r: f64,
    scale: f64,
) -> Result<()> {
    let corners = |corners: &[(f64, f64)]| -> Vec<(i32, i32)> {
        corners.iter().map(|(dx, dy)| pixel((x + dx * r, y + dy * r), scale)).collect()
    };
    let fill = colour.filled();
    let polygon =
        |points: &[(f64, f64)]| area.draw(&Polygon::new(corners(points), fill)).map_err(drawing_error);
    match shape {
        Shape::Triangle => polygon(&[(-1.0, -0.8), (1.0, -0.8), (0.0, 1.0)]),
        Shape::Square => polygon(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
        Shape::Diamond => polygon(&[(0.0, -1.1), (1.1, 0.0), (0.0, 1.1), (-1.1, 0.0)]),
        Shape::Circle => {
            area.draw(&Circle::new(pixel((x, y), scale), r * scale, fill)).map_err(drawing_error)
        }
        Shape::Cross => {
            let line = stroke(colour, 2.0 * scale);
            for ends in [[(-0.9, -0.9), (0.9, 0.9)], [(-0.9, 0.9), (0.9, -0.9)]] {
                area.draw(&PathElement::new(corners(&ends), line)).map_err(drawing_error)?;
            }
            Ok(())
        }
    }
}

/// Cuts a line where it turns back: the backends' mitred corners would end in long spikes there.
fn split_at_sharp_corners(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let mut out = Vec::new();
    let mut start = 0;
    for i in 1..points.len().saturating_sub(1) {
        let (a, b, c) = (points[i - 1], points[i], points[i + 1]);
        if (b.0 - a.0) * (c.0 - b.0) + (b.1 - a.1) * (c.1 - b.1) <= 0.0 {
            out.push(points[start..=i].to_vec());
            start = i;
        }
    }
    if points.len() > start + 1 {
        out.push(points[start..].to_vec());
    }
    out
}

/// Cuts a line into dashes; the pattern runs on around corners.
fn cut(points: &[(f64, f64)], dashes: &[f64]) -> Vec<Vec<(f64, f64)>> {
    let mut out = Vec::new();
    let (mut index, mut left) = (0, dashes[0]);
    let mut dash: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let ((mut x, mut y), (x1, y1)) = (pair[0], pair[1]);
        loop {
            let length = ((x1 - x) * (x1 - x) + (y1 - y) * (y1 - y)).sqrt();
            let is_drawn = index % 2 == 0;
            if length <= left {
                left -= length;
                if is_drawn {
                    dash.push((x1, y1));
                }
                break;
            }
            let share = left / length;
            (x, y) = (x + (x1 - x) * share, y + (y1 - y) * share);
            if is_drawn {
                dash.push((x, y));
                out.push(std::mem::take(&mut dash));
            } else {
                dash = vec![(x, y)];
            }
            index = (index + 1) % dashes.len();
            left = dashes[index];
        }
    }
    if dash.len() > 1 {
        out.push(dash);
    }
    out
}

/// Averages squares of pixels into one.
fn average(pixels: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let (width, height, n) = (width as usize, height as usize, OVERSAMPLING as usize);
    let stride = width * n * 3;
    let mut out = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let cells = (0..n).flat_map(|dy| (0..n).map(move |dx| (dy, dx)));
                let sum: u32 = cells
                    .map(|(dy, dx)| u32::from(pixels[(y * n + dy) * stride + (x * n + dx) * 3 + channel]))
                    .sum();
                out.push(u8::try_from(sum / (OVERSAMPLING * OVERSAMPLING)).unwrap_or(u8::MAX));
            }
        }
    }
    out
}

fn png(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(drawing_error)?;
    writer.write_image_data(pixels).map_err(drawing_error)?;
    writer.finish().map_err(drawing_error)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_run_on_around_corners() {
        let dashes = cut(&[(0.0, 0.0), (3.0, 0.0), (3.0, 5.0)], &[4.0, 2.0]);
        assert_eq!(dashes, [vec![(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)], vec![(3.0, 3.0), (3.0, 5.0)]]);
    }

    #[test]
    fn lines_are_split_where_they_turn_back() {
        let parts = split_at_sharp_corners(&[(0.0, 0.0), (1.0, 1.0), (1.1, 9.0), (1.2, 0.0), (2.0, 0.0)]);
        assert_eq!(
            parts,
            [vec![(0.0, 0.0), (1.0, 1.0), (1.1, 9.0)], vec![(1.1, 9.0), (1.2, 0.0), (2.0, 0.0)]]
        );
    }

    #[test]
    fn averaging_halves_both_sides() {
        let pixels = [[0_u8, 0, 0], [255, 255, 255], [0, 0, 0], [255, 255, 255]].concat();
        assert_eq!(average(&pixels, (1, 1)), [127, 127, 127]);
    }
}
