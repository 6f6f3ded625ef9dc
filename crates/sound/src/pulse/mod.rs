//! PulseAudio, and PipeWire through the server that speaks PulseAudio's protocol: playing to sinks and capturing from
//! sources.
//!
//! The protocol's messages are those of the crate `pulseaudio`, which needs no C library. Each stream has a connection and a
//! thread of its own ([`client`]), which is the device's end of a ring ([`crate::device`]).

mod address;
mod client;
mod connection;
mod devices;
mod latency;
mod server;
mod spec;
mod stream;
mod text;

use std::sync::Arc;

use antiphon_media::{Sink, Source, StreamFormat};

pub use spec::PulseSpec;

use crate::device::{self, Counters, DeviceMeter, Direction};
use crate::devices::{Device, device as entry};
use crate::{Notes, OpenError};
use devices::{Listing, PulseDevice};
use server::{Opened, PATIENCE, PulseServer, refuse};
use spec::check_channels;

impl PulseSpec {
    /// Whether a stream to the sink could be opened now.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        self.opened(Direction::Out).map(drop)
    }

    /// Begins to capture.
    pub(crate) fn capture(&self, notes: &Notes) -> Result<(Box<dyn Source>, DeviceMeter), OpenError> {
        let opened = self.opened(Direction::In)?;
        let stream = StreamFormat::new(rate(&opened), self.channels.unwrap_or(opened.device.channels))?;
        let counters = Arc::new(Counters::default());
        let server = PulseServer::new(self, Direction::In, stream, &counters);
        device::capture(server, stream, counters, notes, |server, end| server.start(opened, PATIENCE, || end))
    }

    /// Begins to play, silence at first, `channels` channels unless it says how many.
    pub(crate) fn play(
        &self,
        channels: u32,
        notes: &Notes,
    ) -> Result<(Box<dyn Sink>, DeviceMeter), OpenError> {
        let channels = self.channels.unwrap_or(channels);
        check_channels(channels)?;
        let opened = self.opened(Direction::Out)?;
        let stream = StreamFormat::new(rate(&opened), channels)?;
        let period = (self.buffer.as_secs_f64() * f64::from(stream.rate())) as u32;
        let counters = Arc::new(Counters::default());
        let server = PulseServer::new(self, Direction::Out, stream, &counters);
        device::play(server, stream, period, counters, notes, |server, end| {
            server.start(opened, PATIENCE, || end)
        })
    }

    fn opened(&self, direction: Direction) -> Result<Opened, OpenError> {
        Opened::open(self, direction, PATIENCE).map_err(|failure| refuse(failure, direction))
    }
}

/// The rate of the stream: the device's, or one that the server converts.
fn rate(opened: &Opened) -> u32 {
    const CONVERTED: u32 = 48_000;
    let rate = opened.device.rate;
    if StreamFormat::new(rate, 1).is_ok() { rate } else { CONVERTED }
}

/// The server and its sinks and sources, for `antiphon devices`; or why there is none.
pub(crate) fn describe() -> Vec<Device> {
    let (source, sink) = ("pulse:?buffer=20ms&name=antiphon", "pulse:?buffer=20ms&name=antiphon");
    let server = |available, about: String| Device {
        available,
        clocked: true,
        ..entry("pulse", &about, Some(source), Some(sink))
    };
    match Listing::ask("antiphon-devices", PATIENCE) {
        Err(failure) => {
            vec![server(false, format!("PulseAudio, PipeWire: {}", refuse(failure, Direction::Out)))]
        }
        Ok(listing) => {
            let about = format!(
                "{}: captures from '{}' and plays to '{}', its defaults; pulse:NAME for others",
                listing.server, listing.default_source, listing.default_sink
            );
            let named = listing.devices.iter().map(|one| listing.entry(one));
            std::iter::once(server(true, about)).chain(named).collect()
        }
    }
}

impl Listing {
    fn entry(&self, one: &PulseDevice) -> Device {
        let (default, does) = match one.direction {
            Direction::Out => (&self.default_sink, "plays"),
            Direction::In => (&self.default_source, "captures"),
        };
        let is_default = *default == one.name;
        let (rate, channels, more) = (one.rate, one.channels, if is_default { ", the default" } else { "" });
        let about = format!("{}: {does} {channels} channels at {rate} Hz{more}", one.about);
        let uri = one.uri();
        let (source, sink) = match one.direction {
            Direction::Out => (None, Some(uri.as_str())),
            Direction::In => (Some(uri.as_str()), None),
        };
        Device {
            clocked: true,
            rate: Some(rate),
            channels: Some(channels),
            default: is_default,
            ..entry(&uri, &about, source, sink)
        }
    }
}
