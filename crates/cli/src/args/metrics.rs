//! The option of commands that serve metrics.

use std::net::SocketAddr;

use antiphon::{Error, MetricsServer};
use clap::Args;

use crate::values;

/// Where metrics are served.
#[derive(Args, Debug)]
pub struct MetricsArgs {
    /// Serve figures for Prometheus and others (OpenMetrics) at
    /// http://HOST:PORT/metrics; without HOST for this machine only
    #[arg(long, value_name = "[HOST]:PORT", value_parser = values::serve_here, help_heading = "General")]
    pub metrics: Option<SocketAddr>,
}

impl MetricsArgs {
    /// Begins to serve them, if that was asked for.
    pub fn start(&self) -> Result<Option<MetricsServer>, Error> {
        self.metrics.map(MetricsServer::start).transpose()
    }
}
