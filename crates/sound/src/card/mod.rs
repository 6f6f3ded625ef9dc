//! Devices of the system through the crate `cpal`: ALSA on Linux, Core Audio on macOS, WASAPI on Windows.
//!
//! Each stream is called by a thread of `cpal`'s, in cycles of a period, and is the device's end of a ring ([`crate::device`]).

mod client;
mod server;
mod spec;

use std::sync::Arc;

use antiphon_media::{Sink, Source, StreamFormat};
use cpal::traits::{DeviceTrait, HostTrait};

pub use spec::CardSpec;

use crate::device::{self, Counters, DeviceMeter, Direction};
use crate::devices::{Device, device as entry};
use crate::{Notes, OpenError};
use server::{CardServer, Found};

/// The scheme of this system's devices.
pub(crate) const SCHEME: &str = SYSTEM.0;
/// Its name in sentences.
const NAME: &str = SYSTEM.1;
#[cfg(target_os = "linux")]
const SYSTEM: (&str, &str) = ("alsa", "ALSA");
#[cfg(target_os = "macos")]
const SYSTEM: (&str, &str) = ("coreaudio", "Core Audio");
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const SYSTEM: (&str, &str) = ("card", "the system");

impl CardSpec {
    /// Whether the device could be opened now.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        Found::look_up(self, Direction::Out).map(drop)
    }

    /// Begins to capture.
    pub(crate) fn capture(&self, notes: &Notes) -> Result<(Box<dyn Source>, DeviceMeter), OpenError> {
        let found = Found::look_up(self, Direction::In)?;
        let stream = StreamFormat::new(found.rate, self.channels.unwrap_or(found.channels))?;
        let counters = Arc::new(Counters::default());
        let server = CardServer::new(self, Direction::In, stream, &counters);
        device::capture(server, stream, counters, notes, |server, end| server.start(&found, || end))
    }

    /// Begins to play, silence at first, `channels` channels unless it says how many.
    pub(crate) fn play(
        &self,
        channels: u32,
        notes: &Notes,
    ) -> Result<(Box<dyn Sink>, DeviceMeter), OpenError> {
        let found = Found::look_up(self, Direction::Out)?;
        let stream = StreamFormat::new(found.rate, self.channels.unwrap_or(channels))?;
        let counters = Arc::new(Counters::default());
        let server = CardServer::new(self, Direction::Out, stream, &counters);
        let period = server.period();
        device::play(server, stream, period, counters, notes, |server, end| server.start(&found, || end))
    }
}

/// The devices of the system, the default ones first, for `antiphon devices`; or that there is none.
pub(crate) fn describe() -> Vec<Device> {
    let host = cpal::default_host();
    let default = |direction| Found::look_up(&CardSpec::default(), direction).ok();
    let (input, output) = (default(Direction::In), default(Direction::Out));
    let uri = format!("{SCHEME}:?buffer=20ms");
    let usable = |there: bool| there.then_some(uri.as_str());
    let about = match (&input, &output) {
        (None, None) => format!("{NAME}: no device can be opened: connect a sound card, or use a pipe"),
        _ => format!("{NAME}: the default devices; {SCHEME}:NAME for others"),
    };
    let any = input.is_some() || output.is_some();
    let (source, sink) =
        if any { (usable(input.is_some()), usable(output.is_some())) } else { (Some(&*uri), Some(&*uri)) };
    let of_default = input.as_ref().or(output.as_ref());
    let defaults = Device {
        available: any,
        clocked: true,
        rate: of_default.map(|found| found.rate),
        channels: of_default.map(|found| found.channels),
        default: any,
        ..entry(SCHEME, &about, source, sink)
    };
    let named = host.devices().into_iter().flatten().filter_map(|device| named(&device));
    std::iter::once(defaults).chain(named).collect()
}

/// A device by its name, if it can be opened.
fn named(device: &cpal::Device) -> Option<Device> {
    let id = device.id().ok()?;
    // It takes and gives sound as fast as a program likes.
    if id.id() == "null" {
        return None;
    }
    let spec = CardSpec { device: Some(id.id().into()), ..CardSpec::default() };
    let input = if device.supports_input() { Found::look_up(&spec, Direction::In).ok() } else { None };
    let output = if device.supports_output() { Found::look_up(&spec, Direction::Out).ok() } else { None };
    let found = output.as_ref().or(input.as_ref())?;
    let (rate, channels) = (found.rate, found.channels);
    let does = match (&input, &output) {
        (Some(_), Some(_)) => "captures and plays",
        (Some(_), None) => "captures",
        _ => "plays",
    };
    // A device without a description is listed by its identifier alone.
    let name = device.description().ok().map(|about| about.name().to_string()).unwrap_or_default();
    let uri = spec.uri();
    let about = format!("{NAME}, {name}: {does} {channels} channels at {rate} Hz");
    let (source, sink) = (input.is_some().then_some(&*uri), output.is_some().then_some(&*uri));
    Some(Device {
        clocked: true,
        rate: Some(rate),
        channels: Some(channels),
        ..entry(&uri, &about, source, sink)
    })
}
