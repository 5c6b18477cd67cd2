//! Colours and dashes that stay apart for colour-blind readers, and in grey; the same in pictures and on pages.

use plotters::style::RGBColor;

use crate::cause::Cause;
use crate::sim::CostPusd;

/// On white or on black paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// White paper.
    #[default]
    Light,
    /// Dark paper.
    Dark,
}

/// A colour on white and on dark paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    light: u32,
    dark: u32,
}

impl Ink {
    const fn new(light: u32, dark: u32) -> Ink {
        Ink { light, dark }
    }

    /// The same on both.
    const fn same(rgb: u32) -> Ink {
        Ink { light: rgb, dark: rgb }
    }

    /// The colour on `theme`.
    pub fn on(self, theme: Theme) -> RGBColor {
        let rgb = self.rgb(theme);
        RGBColor((rgb >> 16) as u8, (rgb >> 8 & 0xff) as u8, (rgb & 0xff) as u8)
    }

    /// As style sheets write it.
    pub fn css(self, theme: Theme) -> String {
        format!("#{:06x}", self.rgb(theme))
    }

    fn rgb(self, theme: Theme) -> u32 {
        match theme {
            Theme::Light => self.light,
            Theme::Dark => self.dark,
        }
    }
}

/// Look of a line.
#[derive(Debug, Clone, Copy)]
pub struct LineLook {
    /// Colour.
    pub ink: Ink,
    /// Lengths of dash, gap, dash, gap …; empty means solid.
    pub dashes: &'static [f64],
    /// Width.
    pub width: f64,
}

/// Okabe and Ito's set, its yellow (too pale on white) replaced by a brown; the first is the baseline's. On dark paper
/// the same hues, lighter.
const COLOURS: [Ink; 8] = [
    Ink::new(0x33_3333, 0xd8_d8d8),
    Ink::new(0xd5_5e00, 0xf5_8540),
    Ink::new(0x00_72b2, 0x4b_a7e8),
    Ink::new(0x00_9e73, 0x2c_c498),
    Ink::new(0xcc_79a7, 0xe2_97c2),
    Ink::new(0xe6_9f00, 0xf2_bd45),
    Ink::new(0x56_b4e9, 0xa3_dcff),
    Ink::new(0x8a_5a20, 0xc4_9a62),
];

/// Dashes of the first eight lines: the two that matter most are solid.
const DASHES: [&[f64]; 8] = [
    &[],
    &[],
    &[8.0, 3.0],
    &[2.5, 2.5],
    &[12.0, 3.0, 2.5, 3.0],
    &[5.0, 5.0],
    &[14.0, 4.0],
    &[8.0, 3.0, 2.5, 3.0, 2.5, 3.0],
];

/// Look of the `index`-th line. Colours repeat after eight, with other dashes; after 32 all repeats.
pub fn look(index: usize) -> LineLook {
    let (round, place) = (index / COLOURS.len(), index % COLOURS.len());
    let width = match index {
        0 => 1.4,
        1 => 2.4,
        2..8 => 2.0,
        _ => 1.4,
    };
    LineLook { ink: COLOURS[place], dashes: DASHES[(place + 2 * round) % DASHES.len()], width }
}

/// Number of looks before they repeat.
#[cfg(test)]
const LOOKS: usize = 32;

/// What one class of a cost comes to, in pico-dollars.
pub type Amount = fn(&CostPusd) -> u128;

/// What is paid for: name, colour and amount of each class of cost, in the order of bars. Together they are the whole cost.
pub const CLASSES: [(&str, Ink, Amount); 6] = [
    ("cache read", Ink::new(0x56_b4e9, 0x4b_a7e8), |cost| cost.cache_read),
    ("cache write", Ink::new(0xe6_9f00, 0xf2_bd45), |cost| cost.cache_write),
    ("uncached input", Ink::new(0xd5_5e00, 0xf5_8540), |cost| cost.uncached),
    ("output", Ink::new(0x00_9e73, 0x2c_c498), |cost| cost.output),
    ("summarizer", Ink::new(0xcc_79a7, 0xe2_97c2), |cost| cost.summarizer),
    ("pings", Ink::new(0x8a_5a20, 0xc4_9a62), |cost| cost.keep_alive),
];

/// Colour of a cause of misses. Frequent ones have one of their own; what is nobody's fault is grey.
pub fn cause(cause: Cause) -> Ink {
    match cause {
        Cause::NewContent => Ink::new(0xc4_c8cc, 0x4a_5058),
        Cause::ColdStart => Ink::new(0x8d_949c, 0x7c_858f),
        Cause::TtlExpired => COLOURS[5],
        Cause::PrefixRule => COLOURS[1],
        Cause::PrefixCompaction => COLOURS[2],
        Cause::PrefixThinking => COLOURS[4],
        Cause::PrefixTools | Cause::PrefixToolOrder | Cause::PrefixSystem => COLOURS[3],
        Cause::Lookback | Cause::BelowMinimum => COLOURS[6],
        Cause::PrefixModel | Cause::PrefixParameters => COLOURS[7],
        Cause::PrefixResume | Cause::PrefixRewind | Cause::PrefixSkill | Cause::PrefixImage => {
            Ink::new(0x6a_51a3, 0xb0_9cf0)
        }
        Cause::PrefixUnknown
        | Cause::Evicted
        | Cause::NotYetReadable
        | Cause::ProviderSide
        | Cause::Unknown => Ink::new(0x5c_4a4a, 0xb9_a3a3),
    }
}

/// Text and axes.
pub const INK: Ink = Ink::new(0x22_2222, 0xe6_e8eb);
/// Secondary text.
pub const MUTED: Ink = Ink::new(0x66_6666, 0x9a_a3ad);
/// Grid lines.
pub const GRID: Ink = Ink::new(0xe4_e4e4, 0x2d_333b);
/// The window.
pub const LIMIT: Ink = Ink::new(0xa0_1c1c, 0xff_8f8f);
/// What cannot be told from the best.
pub const FLAT: Ink = Ink::new(0xe3_f3ec, 0x17_3a2f);
/// Paper.
pub const PAPER: Ink = Ink::new(0xff_ffff, 0x14_171c);

/// Low to high, readable in every kind of sight and in grey: from deep blue over grey to yellow (cividis, a few of its
/// colours).
const SCALE: [(f64, f64, f64); 5] = [
    (0.0, 34.0, 78.0),
    (66.0, 78.0, 108.0),
    (124.0, 123.0, 120.0),
    (188.0, 175.0, 111.0),
    (254.0, 232.0, 56.0),
];

/// Colour of a share between 0 and 1 on the scale, and of text on it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares are clamped, colours are bytes"
)]
pub fn scale(share: f64) -> (Ink, Ink) {
    let place = share.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let part = place - below as f64;
    let ((r0, g0, b0), (r1, g1, b1)) = (SCALE[below], SCALE[below + 1]);
    let mix = |a: f64, b: f64| (a + (b - a) * part).round() as u32;
    let rgb = mix(r0, r1) << 16 | mix(g0, g1) << 8 | mix(b0, b1);
    (Ink::same(rgb), Ink::same(if share > 0.5 { 0x10_1010 } else { 0xff_ffff }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_are_the_whole_cost() {
        let cost = CostPusd {
            uncached: 1,
            cache_read: 2,
            cache_write: 4,
            output: 8,
            summarizer: 16,
            keep_alive: 32,
        };
        assert_eq!(CLASSES.iter().map(|(_, _, pusd)| pusd(&cost)).sum::<u128>(), cost.total());
    }

    #[test]
    fn thirty_two_lines_look_different_from_each_other() {
        for theme in [Theme::Light, Theme::Dark] {
            let mut looks: Vec<String> =
                (0..LOOKS).map(|i| format!("{} {:?}", look(i).ink.css(theme), look(i).dashes)).collect();
            looks.sort();
            looks.dedup();
            assert_eq!(looks.len(), LOOKS);
        }
    }

    #[test]
    fn the_scale_gets_lighter_all_the_way() {
        let grey = |share: f64| {
            let RGBColor(r, g, b) = scale(share).0.on(Theme::Light);
            0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
        };
        assert!((0..10).all(|i| grey(f64::from(i) / 10.0) < grey(f64::from(i + 1) / 10.0)));
    }
}
