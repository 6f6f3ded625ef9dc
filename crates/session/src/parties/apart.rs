//! Where the parties of a group are heard: all mixed in one sink, or each in a sink of its own, with its pictures.
//!
//! Pictures are not decoded here, so those of several can't be put into one. A party's sound and pictures go together, by the code of a
//! call of two: its own playout, clock and place for each picture.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use antiphon_core::{Instant, PathId};
use antiphon_media::{Sink, pushed_through};

use super::{Parties, Party};
use crate::mixer::{Input, Mixer};
use crate::receive_track::{OpenSink, ReceiveError, Told, Written};
use crate::video_in::{VideoIn, VideoInCounters, VideoSink};

/// Gives each party a sink of its own, for its sound and its pictures. Called on the media thread: what takes long, such as finishing a
/// sink, is left to others.
pub trait PartySinks {
    /// A party begins to stream, on this path: what opens its sink once the format is known, and where its pictures go.
    fn open(&mut self, now: Instant, ssrc: u32, path: PathId) -> (OpenSink, Box<dyn VideoSink>);

    /// Its sink could not be opened, has failed, or was closed: the party is not heard any more.
    fn on_error(&mut self, ssrc: u32, error: &ReceiveError);

    /// The party is gone, or the call is over: its sink is to be finished, if one was opened, and what it was given.
    fn close(&mut self, ssrc: u32, sink: Option<Box<dyn Sink>>, written: Option<Written>);
}

/// Where all parties are heard.
pub(super) enum Hearing {
    Mixed(Mixer),
    Apart(Box<dyn PartySinks>),
}

/// Where one party is heard.
pub(super) enum Output {
    Mixed(Input),
    Apart(Box<Apart>),
}

/// A sink of its own.
pub(super) struct Apart {
    pub video: VideoIn,
    /// The SSRC of its pictures.
    pub pictures: Option<u32>,
    /// Bits of the highest sample.
    peak: Arc<AtomicU32>,
    /// The owner of the sinks was told that this one is none any more.
    pub told_error: bool,
}

impl Hearing {
    /// The output of a new party, and what opens its sink. Allocates its memory.
    pub fn output(&mut self, now: Instant, ssrc: u32, path: PathId) -> (Output, OpenSink) {
        match self {
            Hearing::Mixed(mixer) => {
                let (input, open) = mixer.input();
                (Output::Mixed(input), open)
            }
            Hearing::Apart(sinks) => {
                let (open, video) = sinks.open(now, ssrc, path);
                let peak = Arc::<AtomicU32>::default();
                let open = measured(open, peak.clone());
                let video = VideoIn::new(video);
                (Output::Apart(Box::new(Apart { video, pictures: None, peak, told_error: false })), open)
            }
        }
    }

    pub fn mixer(&self) -> Option<&Mixer> {
        match self {
            Hearing::Mixed(mixer) => Some(mixer),
            Hearing::Apart(_) => None,
        }
    }

    /// When there is something to do, with or without parties.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.mixer().map(Mixer::poll_timeout)
    }

    /// A party is gone, or the call is over.
    pub fn close(&mut self, party: &mut Party) {
        if let Hearing::Apart(sinks) = self {
            let written = party.track.take_written();
            sinks.close(party.ssrc, party.track.take_sink(), written);
        }
    }
}

impl Output {
    /// The highest sample since this was last called.
    pub fn take_peak(&self) -> f32 {
        match self {
            Output::Mixed(input) => input.take_peak(),
            Output::Apart(apart) => f32::from_bits(apart.peak.swap(0, Ordering::Relaxed)),
        }
    }

    /// Counts of its pictures.
    pub fn pictures(&self) -> Option<VideoInCounters> {
        match self {
            Output::Mixed(_) => None,
            Output::Apart(apart) => Some(apart.video.counters),
        }
    }

    /// Its sound ties the pictures to their places.
    pub fn note_sound(&mut self, now: Instant, told: &Told<'_>) {
        let Output::Apart(apart) = self else { return };
        match told {
            Told::Began { rate } => apart.video.on_sound(*rate),
            Told::Arrived { arrived, .. } => apart.video.on_arrived(now, arrived),
            Told::Skipped { .. } => {}
        }
    }
}

impl Parties {
    /// Tells the owner of the sinks which of them are none any more. When the last one was lost, so is the call.
    pub(super) fn look_for_errors(&mut self) {
        let Hearing::Apart(sinks) = &mut self.hearing else { return };
        for party in &mut self.list {
            let ssrc = party.ssrc;
            if let Some(error) = party.takes_error() {
                sinks.on_error(ssrc, error);
            }
        }
        let is_last = !self.list.is_empty() && self.list.iter().all(Party::has_lost_sink);
        if is_last && self.error.is_none() {
            let mut errors = self.list.iter().filter_map(|party| party.track.error());
            let closed = errors.any(|error| *error == ReceiveError::SinkClosed);
            self.error = Some(if closed { ReceiveError::SinkClosed } else { ReceiveError::SinkFailed });
        }
    }
}

impl Party {
    /// Why it is not heard in its own sink any more, when that is new.
    fn takes_error(&mut self) -> Option<&ReceiveError> {
        let Output::Apart(apart) = &mut self.output else { return None };
        let error = self.track.error().filter(|_| !apart.told_error)?;
        apart.told_error = true;
        Some(error)
    }

    /// Whether its own sink was there and is none any more.
    fn has_lost_sink(&self) -> bool {
        let lost = matches!(self.track.error(), Some(ReceiveError::SinkFailed | ReceiveError::SinkClosed));
        lost && matches!(self.output, Output::Apart(_))
    }
}

/// The sinks of `open`, whose highest sample is kept.
fn measured(mut open: OpenSink, peak: Arc<AtomicU32>) -> OpenSink {
    Box::new(move |format, sample| {
        let (sink, peak) = (open(format, sample)?, peak.clone());
        Ok(pushed_through(sink, move |sink, block| {
            let highest = block.iter().fold(0.0_f32, |highest, sample| highest.max(sample.abs()));
            // Of numbers that are not negative the larger one has the larger bits.
            peak.fetch_max(highest.to_bits(), Ordering::Relaxed);
            sink.push(block)
        }))
    })
}
