//! Devices with a clock of their own, whatever sound server they are behind: rings between the device's thread and the
//! media thread, and a thread that keeps them connected.
//!
//! ```text
//!                media thread                  the server's, or its client's, thread
//! sink:    player ─ DeviceSink ─ ring ─ PlayEnd ─ Cycle of the server
//! source:  sender ─ DeviceSource ─ ring ─ CaptureEnd ─ Cycle of the server
//! ```
//!
//! The rings are `rtrb`'s; besides them the threads share single atomic words. A third thread ([`keeper`]) opens clients of
//! the server ([`Server`]), watches them and, while there is none, stands in for the device. Each client gets a ring of its
//! own, made there, so that neither of the other two threads allocates.

mod beat;
mod capture;
mod keeper;
mod meter;
mod pacing;
mod play;
mod rate;
mod replaced;
mod sink;
mod sync;
mod timeline;
mod uncalled;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use antiphon_media::{Sink, Source, StreamFormat};

pub(crate) use keeper::Server;
pub(crate) use meter::Counters;
pub use meter::{DeviceFigures, DeviceMeter};
pub(crate) use pacing::Pacing;
pub(crate) use rate::AtRate;

use crate::os::Clock;
use crate::{Notes, OpenError};
use capture::{CaptureParts, DeviceSource};
use keeper::Keeper;
use play::PlayParts;
use sink::DeviceSink;

/// Which way sound goes, seen from Antiphon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From the device.
    In,
    /// To the device.
    Out,
}

/// One cycle of a server, as its client sees it. Sound is `[sample_frame][channel]`.
pub(crate) trait Cycle {
    /// Sample frames of this cycle.
    fn frames(&self) -> usize;

    /// Sample frames that the next cycle takes at most, as far as is known: the period.
    fn next(&self) -> usize;

    /// Whether cycles run without a clock.
    fn freewheels(&self) -> bool;

    /// Sample frames that have passed since the cycle began by the server's clock.
    fn late(&self) -> u32;

    /// Sample frames of the server's clock before this cycle, wrapping: they go on by a cycle, or by more if cycles were lost.
    fn position(&self) -> u32;

    /// Whether the server may lose time between two cycles and go on as if none had passed, so that only the clock tells.
    fn slips(&self) -> bool;

    /// Plays `sound` from the sample frame `from` of this cycle on.
    fn play(&mut self, from: usize, sound: &[f32]);

    /// Plays silence from the sample frame `from` of this cycle to its end.
    fn play_silence(&mut self, from: usize);

    /// Fills `sound`, which holds silence, with what was captured from the sample frame `from` of this cycle on.
    fn capture(&mut self, from: usize, sound: &mut [f32]);
}

/// The device's end of a ring: in a client's thread or, without a server, on the thread that watches for one. It neither
/// allocates nor waits.
pub(crate) trait End: Send {
    /// Handles the sound of a cycle.
    fn process(&mut self, cycle: &mut dyn Cycle);

    /// Takes or gives what is due at `now`, in microseconds, without a device.
    fn idle(&mut self, now: u64);

    /// How many sample frames a cycle of `frames` would lack now, while sound is being handed over; for a server that can wait
    /// for them.
    #[cfg_attr(
        not(any(unix, feature = "cpal")),
        allow(dead_code, reason = "for PulseAudio and the system's devices")
    )]
    fn lacks(&self, frames: usize) -> usize;
}

/// Makes a new ring for each client, and hands the media thread its end.
trait Side: Send {
    /// The device's end of a new ring.
    fn link(&mut self) -> Box<dyn End>;

    /// Frees what the media thread has no use for any more.
    fn collect(&mut self);
}

/// Begins to capture `stream`: `open` opens the first client of `server`.
pub(crate) fn capture<S: Server>(
    mut server: S,
    stream: StreamFormat,
    counters: Arc<Counters>,
    notes: &Notes,
    open: impl FnOnce(&mut S, Box<dyn End>) -> Result<S::Client, OpenError>,
) -> Result<(Box<dyn Source>, DeviceMeter), OpenError> {
    let clock = Clock::new();
    let CaptureParts { side, end, rest } = CaptureParts::new(stream, &counters, clock.clone());
    let client = open(&mut server, Box::new(end))?;
    counters.connected.store(true, Ordering::Relaxed);
    let keeper = Keeper::start(server, client, Box::new(side), clock, counters.clone(), notes)?;
    let source = DeviceSource::new(stream, S::PACING, rest, counters.clone(), keeper);
    Ok((Box::new(source), DeviceMeter { counters, server: S::NAME }))
}

/// Begins to play `stream`, silence at first: `open` opens the first client of `server`, in cycles of `period` sample
/// frames.
pub(crate) fn play<S: Server>(
    mut server: S,
    stream: StreamFormat,
    period: u32,
    counters: Arc<Counters>,
    notes: &Notes,
    open: impl FnOnce(&mut S, Box<dyn End>) -> Result<S::Client, OpenError>,
) -> Result<(Box<dyn Sink>, DeviceMeter), OpenError> {
    let clock = Clock::new();
    counters.period.store(period, Ordering::Relaxed);
    let PlayParts { side, end, rest } = PlayParts::new(stream, S::PACING, &counters, clock.clone());
    let client = open(&mut server, Box::new(end))?;
    counters.connected.store(true, Ordering::Relaxed);
    let period = counters.period.load(Ordering::Relaxed);
    let keeper = Keeper::start(server, client, Box::new(side), clock.clone(), counters.clone(), notes)?;
    let sink = DeviceSink::new(stream, (S::PACING, period), rest, counters.clone(), clock, keeper);
    Ok((Box::new(sink), DeviceMeter { counters, server: S::NAME }))
}

/// The first names of a list that may be long.
pub(crate) fn shorten(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
