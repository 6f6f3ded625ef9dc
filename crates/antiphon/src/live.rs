//! What a running stream shows of itself: level, bit rate, buffer and peer.
//!
//! The media thread only counts: it keeps the peak of what passes in an atomic ([`PeakMeter`]), and its snapshots contain that
//! ([`Look`]). The thread that displays them computes figures from those of the last second ([`Recent`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use antiphon_core::{Instant, MediaTime};
use antiphon_media::{Pull, Ready, SampleFormat, Sink, SinkError, Source, StreamFormat, Wake};
use antiphon_net::Lines;
use antiphon_session::{OpenSink, Session};

/// Live figures of a stream, of the last second; at its end, of the whole stream.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LiveFigures {
    /// Address and port of the peer, or of the group; `None` while nobody is there.
    pub peer: Option<String>,
    /// Highest sample, in decibels below full scale; `None` for silence.
    pub peak_dbfs: Option<f64>,
    /// Rate of the stream's RTP packets, in kbit/s; `None` before there are two looks.
    pub kbit_per_s: Option<f64>,
    /// Sound that waits: at a receiver to be played; at a sender until it has left or, where the transport acknowledges, is
    /// acknowledged. In milliseconds.
    pub buffer_ms: f64,
}

/// The highest sample since it was last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeakMeter(Arc<AtomicU32>);

impl PeakMeter {
    fn hear(&self, block: &[f32]) {
        let peak = block.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        // Of numbers that are not negative the larger one has the larger bits.
        self.0.fetch_max(peak.to_bits(), Ordering::Relaxed);
    }

    /// The peak, and begins anew.
    pub fn take(&self) -> f32 {
        f32::from_bits(self.0.swap(0, Ordering::Relaxed))
    }

    /// Measures what `source` gives.
    pub fn source(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Metered { inner: source, meter: self.clone() })
    }

    /// Measures what is given to the sinks that `open` opens.
    pub fn sink(&self, mut open: OpenSink) -> OpenSink {
        let meter = self.clone();
        Box::new(move |format, sample| {
            Ok(Box::new(Metered { inner: open(format, sample)?, meter: meter.clone() }))
        })
    }
}

/// A source or a sink with a meter.
struct Metered<T> {
    inner: T,
    meter: PeakMeter,
}

impl Source for Metered<Box<dyn Source>> {
    fn format(&self) -> StreamFormat {
        self.inner.format()
    }

    fn sample_format(&self) -> SampleFormat {
        self.inner.sample_format()
    }

    fn pull(&mut self, block: &mut [f32]) -> Pull {
        let pulled = self.inner.pull(block);
        if let Pull::Frames(frames) = pulled {
            let samples = frames * self.inner.format().channels();
            self.meter.hear(&block[..samples]);
        }
        pulled
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn ready(&self) -> Ready {
        self.inner.ready()
    }

    fn keep_newest(&mut self, frames: usize) -> u64 {
        self.inner.keep_newest(frames)
    }

    fn set_waker(&mut self, wake: Wake) {
        self.inner.set_waker(wake);
    }
}

impl Sink for Metered<Box<dyn Sink>> {
    fn format(&self) -> StreamFormat {
        self.inner.format()
    }

    fn push(&mut self, block: &[f32]) -> Result<(), SinkError> {
        self.meter.hear(block);
        self.inner.push(block)
    }

    fn clocked(&self) -> bool {
        self.inner.clocked()
    }

    fn wants(&self) -> Option<usize> {
        self.inner.wants()
    }

    fn period(&self) -> Option<usize> {
        self.inner.period()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn silence(&mut self, frames: u64) -> Result<(), SinkError> {
        self.inner.silence(frames)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}

/// What the media thread saw at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    at: Instant,
    /// Bytes of RTP packets so far.
    bytes: u64,
    /// Since the look before.
    peak: f32,
    buffer: Duration,
    peer: Option<SocketAddr>,
}

impl Look {
    /// Of `buffered` sample frames and so many bytes of packets. On the media thread.
    pub fn new(now: Instant, meter: &PeakMeter, buffered: MediaTime, bytes: u64) -> Self {
        Look { at: now, bytes, peak: meter.take(), buffer: buffered.duration(), peer: None }
    }

    /// Also where the peer of `session` is.
    pub fn with_peer(self, session: &Session, lines: &Lines<'_>) -> Self {
        let peer = session.peer_path().and_then(|(wire, path)| lines.peer_address(wire, path));
        Look { peer, ..self }
    }
}

/// The looks of the last second, and what remains of those before.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    looks: VecDeque<Look>,
    /// The first look at which packets had passed.
    first: Option<Look>,
    /// The look at which the last packets had passed.
    last: Option<Look>,
    peak: f32,
    peer: Option<SocketAddr>,
}

impl Recent {
    /// Adds a look; returns the figures of the last second.
    pub fn on_look(&mut self, look: Look) -> LiveFigures {
        if look.bytes > 0 {
            self.first.get_or_insert(look);
        }
        if self.last.is_none_or(|last| last.bytes != look.bytes) {
            self.last = Some(look);
        }
        self.peak = self.peak.max(look.peak);
        self.peer = look.peer.or(self.peer);
        self.looks.push_back(look);
        // One remains that is a second old: the rate is counted from it.
        while self.looks.get(1).is_some_and(|second| look.at.since(second.at) >= WINDOW) {
            self.looks.pop_front();
        }
        let oldest = self.looks.front().copied();
        let newer = self.looks.iter().skip(usize::from(self.looks.len() > 1));
        let peak = newer.fold(0.0, |peak: f32, look| peak.max(look.peak));
        self.figures(peak, oldest, look, look.buffer)
    }

    /// Figures of the whole stream.
    pub fn whole(&self) -> LiveFigures {
        match self.last {
            Some(last) => self.figures(self.peak, self.first, last, Duration::ZERO),
            None => LiveFigures::default(),
        }
    }

    fn figures(&self, peak: f32, from: Option<Look>, to: Look, buffer: Duration) -> LiveFigures {
        let rate = |from: Look| {
            let seconds = to.at.since(from.at).as_secs_f64();
            (seconds > 0.0).then(|| to.bytes.saturating_sub(from.bytes) as f64 * 8e-3 / seconds)
        };
        LiveFigures {
            peer: self.peer.map(|peer| peer.to_string()),
            peak_dbfs: (peak > 0.0).then(|| 20.0 * f64::from(peak.min(f32::MAX)).log10()),
            kbit_per_s: from.and_then(rate),
            buffer_ms: buffer.as_secs_f64() * 1e3,
        }
    }
}

/// What "now" means in a display.
const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
