//! Pictures, SVG and PNG, the same bytes on any machine.

mod axis;
pub mod bars;
mod canvas;
mod chart;
pub mod heat_map;
pub(crate) mod palette;
pub mod pareto;
pub mod ranking;
pub mod sweep_curve;
pub mod token_curve;
pub mod trials;
pub mod usage;

use crate::error::{Error, Result};

pub use bars::Bars;
pub use canvas::Canvas;
pub use heat_map::HeatMap;
pub use palette::Theme;
pub use pareto::Pareto;
pub use ranking::Ranking;
pub use sweep_curve::SweepCurve;
pub use token_curve::{Mark, MarkKind, Point, Series, TokenCurve};
pub use trials::{Trial, Trials};
pub use usage::{UsagePanel, UsageStack};

/// Width and height of a picture unless another size is asked for.
pub const DEFAULT_SIZE: (u32, u32) = (800, 500);

/// Size and colours of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Width and height in points.
    pub size: (u32, u32),
    /// Colours.
    pub theme: Theme,
}

impl Default for Look {
    fn default() -> Look {
        Look { size: DEFAULT_SIZE, theme: Theme::Light }
    }
}

/// File format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureFormat {
    /// Vector.
    Svg,
    /// Pixels.
    Png,
}

impl PictureFormat {
    /// Every format.
    pub const ALL: [PictureFormat; 2] = [PictureFormat::Svg, PictureFormat::Png];

    /// How file names end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }

    /// The format of a file by its name.
    ///
    /// # Errors
    /// [`Error::Config`] if it ends neither in `.svg` nor in `.png`.
    pub fn of_path(path: &std::path::Path) -> Result<PictureFormat> {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        Self::ALL.into_iter().find(|f| f.extension() == extension).ok_or_else(|| Error::Config {
            origin: path.display().to_string(),
            reason: "a picture is a .svg or a .png file".into(),
        })
    }
}

fn drawing_error(reason: impl std::fmt::Display) -> Error {
    Error::Config { origin: "picture".into(), reason: format!("cannot be drawn: {reason}") }
}
