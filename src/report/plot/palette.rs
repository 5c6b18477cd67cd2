//! Colours and dashes that stay apart for colour-blind readers, and in grey.

use plotters::style::RGBColor;

/// Look of a line.
#[derive(Debug, Clone, Copy)]
pub struct LineLook {
    /// Colour: Okabe and Ito's set, its yellow (too pale on white) replaced by a brown.
    pub colour: RGBColor,
    /// Lengths of dash, gap, dash, gap …; empty means solid.
    pub dashes: &'static [f64],
    /// Width.
    pub width: f64,
}

const LOOKS: [LineLook; 8] = [
    LineLook { colour: RGBColor(0x33, 0x33, 0x33), dashes: &[], width: 1.4 },
    LineLook { colour: RGBColor(0xd5, 0x5e, 0x00), dashes: &[], width: 2.4 },
    LineLook { colour: RGBColor(0x00, 0x72, 0xb2), dashes: &[8.0, 3.0], width: 2.0 },
    LineLook { colour: RGBColor(0x00, 0x9e, 0x73), dashes: &[2.5, 2.5], width: 2.0 },
    LineLook { colour: RGBColor(0xcc, 0x79, 0xa7), dashes: &[12.0, 3.0, 2.5, 3.0], width: 2.0 },
    LineLook { colour: RGBColor(0xe6, 0x9f, 0x00), dashes: &[5.0, 5.0], width: 2.0 },
    LineLook { colour: RGBColor(0x56, 0xb4, 0xe9), dashes: &[14.0, 4.0], width: 2.0 },
    LineLook { colour: RGBColor(0x8a, 0x5a, 0x20), dashes: &[8.0, 3.0, 2.5, 3.0, 2.5, 3.0], width: 2.0 },
];

/// Look of the `index`-th line; they repeat after eight.
pub fn look(index: usize) -> LineLook {
    LOOKS[index % LOOKS.len()]
}

/// Text and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Secondary text.
pub const MUTED: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Grid lines.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// The window.
pub const LIMIT: RGBColor = RGBColor(0xa0, 0x1c, 0x1c);
/// Paper.
pub const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
