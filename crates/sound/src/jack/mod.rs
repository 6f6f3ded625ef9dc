//! JACK: playing to its ports and capturing from them.
//!
//! A client's ports `out_1`, `out_2`, … or `in_1`, `in_2`, … are the device's end of a ring ([`crate::device`]), in JACK's
//! real-time thread.

mod client;
mod library;
mod patch;
mod ports;
mod server;
mod spec;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::{Sink, Source, StreamFormat};

pub use spec::{Connect, JackSpec};

use crate::device::{self, Counters, DeviceMeter, Direction, shorten};
use crate::{Notes, OpenError};
use client::Opened;
use ports::PortKind;
use server::{JackServer, refuse};

/// Ports of a source if nobody says how many.
const USUAL_CHANNELS: u32 = 2;

impl JackSpec {
    /// Whether a client could be opened now.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        Opened::open(&self.name).map(drop).map_err(refuse)
    }

    /// Begins to capture.
    pub(crate) fn capture(&self, notes: &Notes) -> Result<(Box<dyn Source>, DeviceMeter), OpenError> {
        let opened = Opened::open(&self.name).map_err(refuse)?;
        let stream = StreamFormat::new(opened.rate(), self.channels.unwrap_or(USUAL_CHANNELS))?;
        let counters = Arc::new(Counters::default());
        let server = JackServer::new(self, Direction::In, stream, &counters);
        device::capture(server, stream, counters, notes, |server, end| server.activate(opened, end))
    }

    /// Begins to play, silence at first, with `channels` ports unless it says how many.
    pub(crate) fn play(
        &self,
        channels: u32,
        notes: &Notes,
    ) -> Result<(Box<dyn Sink>, DeviceMeter), OpenError> {
        let opened = Opened::open(&self.name).map_err(refuse)?;
        let stream = StreamFormat::new(opened.rate(), self.channels.unwrap_or(channels))?;
        let (period, counters) = (opened.period(), Arc::new(Counters::default()));
        if let Some(margin) = self.margin {
            // No margin in whole sample frames is none.
            let frames = margin.as_micros() as u64 * u64::from(stream.rate()) / 1_000_000;
            counters.margin_asked.store((frames as u32).max(1), Ordering::Relaxed);
        }
        let server = JackServer::new(self, Direction::Out, stream, &counters);
        device::play(server, stream, period, counters, notes, |server, end| server.activate(opened, end))
    }
}

/// The rate of the JACK server and what it offers now, in a sentence for `antiphon devices`; or why it can't be used.
pub(crate) fn describe() -> Result<(u32, String), OpenError> {
    let opened = Opened::open("antiphon-devices").map_err(refuse)?;
    let ports = |inputs| {
        let all = opened.ports(None, PortKind { inputs, physical: false });
        if all.is_empty() { "none".to_string() } else { shorten(&all) }
    };
    let rate = opened.rate();
    let about = format!(
        "a server runs at {rate} Hz with a period of {} sample frames; captures from {}; plays to {}",
        opened.period(),
        ports(false),
        ports(true)
    );
    Ok((rate, about))
}
