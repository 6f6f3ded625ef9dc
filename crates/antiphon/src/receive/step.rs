//! How a receiver stands to its sender's clock, as users see it.

use std::time::Duration;

use antiphon_core::MediaTime;
use antiphon_session::InStep;
use antiphon_sound::DeviceFigures;

/// How a receiver stands to its sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct StepStatus {
    /// Whether it plays when the sender wishes, as the other receivers do.
    pub in_step: bool,
    /// From a sample's capture to its playout, in milliseconds, without the device that captures it.
    pub capture_to_playout_ms: f64,
    /// By how much that may be wrong on a path that takes alike both ways, in milliseconds. `None` by a PTP clock, as this host can't
    /// tell how far it is off that.
    pub error_ms: Option<f64>,
    /// How far the PTP clock of this host is from what packets show, in milliseconds, where it can't be the sender's and is not followed.
    pub clocks_apart_ms: Option<f64>,
}

impl From<InStep> for StepStatus {
    fn from(step: InStep) -> Self {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        StepStatus {
            in_step: step.kept,
            capture_to_playout_ms: millis(step.delay),
            error_ms: step.error.map(millis),
            clocks_apart_ms: step.apart.map(millis),
        }
    }
}

/// How long sound takes from a device's sink until it is heard, as far as its server says.
pub(crate) fn playback(device: &DeviceFigures) -> Duration {
    let server = Duration::from_micros(device.latency_micros.unwrap_or(0).into());
    server + MediaTime::new(device.queue.into(), device.rate.max(1)).duration()
}
