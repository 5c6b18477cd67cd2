//! How requests are bought, as flags.

use clap::{Args, ValueEnum};
use ctxsim::config::scenario::{RegionSpec, ServiceSpec, SpeedSpec};
use ctxsim::provider::service::{Region, Service, Speed};

/// Speed, batches, region.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ServiceArgs {
    /// Pay for this speed, where the model has a price of it
    #[arg(long, value_name = "SPEED", default_value = "standard")]
    pub speed: SpeedKind,
    /// Pay for batches
    #[arg(long)]
    pub batch: bool,
    /// Pay for where requests are served: in the US only, or at a cloud's regional endpoint
    #[arg(long, value_name = "WHERE", default_value = "global")]
    pub region: RegionKind,
}

/// `--speed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SpeedKind {
    #[default]
    Standard,
    Fast,
}

/// `--region`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RegionKind {
    #[default]
    Global,
    Us,
    Regional,
}

impl ServiceArgs {
    /// What it means.
    pub fn service(self) -> Service {
        Service {
            speed: match self.speed {
                SpeedKind::Standard => Speed::Standard,
                SpeedKind::Fast => Speed::Fast,
            },
            batch: self.batch,
            region: match self.region {
                RegionKind::Global => Region::Global,
                RegionKind::Us => Region::Us,
                RegionKind::Regional => Region::Regional,
            },
        }
    }
}

impl From<ServiceSpec> for ServiceArgs {
    fn from(service: ServiceSpec) -> ServiceArgs {
        ServiceArgs {
            speed: match service.speed {
                SpeedSpec::Standard => SpeedKind::Standard,
                SpeedSpec::Fast => SpeedKind::Fast,
            },
            batch: service.batch,
            region: match service.region {
                RegionSpec::Global => RegionKind::Global,
                RegionSpec::Us => RegionKind::Us,
                RegionSpec::Regional => RegionKind::Regional,
            },
        }
    }
}
