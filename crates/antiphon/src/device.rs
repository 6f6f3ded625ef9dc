//! What a sound server did to a stream, apart from what the network did.

use antiphon_sound::{DeviceFigures, DeviceMeter};

/// A sound server or sound card at one end of a stream: totals since the stream began, and its state now.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct DeviceStatus {
    /// The kind of sound server: `JACK` or `PulseAudio`, which may be PipeWire's; `ALSA` for a card without one.
    pub server: &'static str,
    /// Whether it runs now; its server may be gone for a while.
    pub connected: bool,
    /// Its rate in Hz.
    pub rate_hz: u32,
    /// Sample frames of its period.
    pub period_frames: u32,
    /// Cycles that the sound server did not finish in time (xruns), as it reports them.
    pub xruns: u64,
    /// Of a sink: cycles that came before enough sound had been handed over. Of a source: how often the server lost cycles.
    pub underruns: u64,
    /// Sample frames of silence in place of that sound.
    pub missing_frames: u64,
    /// Captured sample frames that were not fetched in time.
    pub dropped_frames: u64,
    /// How often its server was lost.
    pub lost_servers: u64,
    /// Sound that waits for the device beyond the playout delay, in milliseconds; without the device's own buffers.
    pub queue_ms: f64,
    /// How long sound takes in the server and its device, in milliseconds, as the server says; `None` if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

impl From<DeviceFigures> for DeviceStatus {
    fn from(figures: DeviceFigures) -> Self {
        DeviceStatus {
            server: figures.server,
            connected: figures.connected,
            rate_hz: figures.rate,
            period_frames: figures.period,
            xruns: figures.xruns,
            underruns: figures.underruns,
            missing_frames: figures.missing_frames,
            dropped_frames: figures.dropped_frames,
            lost_servers: figures.lost,
            queue_ms: f64::from(figures.queue) * 1e3 / f64::from(figures.rate.max(1)),
            latency_ms: figures.latency_micros.map(|micros| f64::from(micros) / 1e3),
        }
    }
}

impl DeviceStatus {
    /// The state of a device, if there is one.
    pub(crate) fn of(meter: Option<&DeviceMeter>) -> Option<Self> {
        meter.map(|meter| meter.figures().into())
    }
}

/// Tells what has happened to a device, as it happens.
pub(crate) fn tell(meter: Option<&DeviceMeter>, notice: &mut dyn FnMut(String)) {
    meter.into_iter().flat_map(DeviceMeter::take_events).for_each(notice);
}
