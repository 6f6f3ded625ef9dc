//! What a running stream shows of itself: level, bit rate, buffer and peer.
//!
//! The media thread only counts: it keeps the peak of what passes in an atomic ([`PeakMeter`]), and its snapshots contain that
//! ([`Look`]). The thread that displays them computes figures from those of the last second ([`Recent`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_core::{Instant, MediaTime};
use antiphon_media::{Pull, Source, pulled_through, pushed_through};
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
    /// The level of each channel; none before there is sound, and of a whole stream.
    #[serde(skip)]
    pub levels: Vec<ChannelLevel>,
}

/// The level of a channel, in decibels below full scale; `None` for silence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChannelLevel {
    /// Its highest sample since the state before, a tenth of a second ago.
    pub peak_dbfs: Option<f64>,
    /// Its highest sample of the last second.
    pub held_dbfs: Option<f64>,
}

/// The highest sample of each channel since it was last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeakMeter(Arc<Meters>);

#[derive(Debug)]
struct Meters {
    channels: AtomicUsize,
    /// Bits of the highest samples.
    peaks: [AtomicU32; MOST_CHANNELS],
}

impl Default for Meters {
    fn default() -> Self {
        Meters { channels: AtomicUsize::new(0), peaks: [const { AtomicU32::new(0) }; MOST_CHANNELS] }
    }
}

/// Highest samples, of each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peaks {
    channels: usize,
    peaks: [f32; MOST_CHANNELS],
}

impl Default for Peaks {
    fn default() -> Self {
        Peaks { channels: 0, peaks: [0.0; MOST_CHANNELS] }
    }
}

impl Peaks {
    /// The highest of all channels.
    pub fn highest(&self) -> f32 {
        self.peaks.iter().fold(0.0, |peak, channel| peak.max(*channel))
    }

    fn raise(&mut self, other: &Peaks) {
        self.channels = self.channels.max(other.channels);
        self.peaks.iter_mut().zip(other.peaks).for_each(|(peak, other)| *peak = peak.max(other));
    }
}

impl PeakMeter {
    /// `block` has samples of so many channels, interleaved.
    fn hear(&self, block: &[f32], channels: usize) {
        let channels = channels.clamp(1, MOST_CHANNELS);
        let mut peaks = [0.0_f32; MOST_CHANNELS];
        for frame in block.chunks(channels) {
            peaks.iter_mut().zip(frame).for_each(|(peak, sample)| *peak = peak.max(sample.abs()));
        }
        self.0.channels.store(channels, Ordering::Relaxed);
        for (meter, peak) in self.0.peaks.iter().zip(&peaks[..channels]) {
            // Of numbers that are not negative the larger one has the larger bits.
            meter.fetch_max(peak.to_bits(), Ordering::Relaxed);
        }
    }

    /// The peaks, and begins anew.
    pub fn take(&self) -> Peaks {
        let mut taken = Peaks { channels: self.0.channels.load(Ordering::Relaxed), ..Peaks::default() };
        for (peak, meter) in taken.peaks.iter_mut().zip(&self.0.peaks) {
            *peak = f32::from_bits(meter.swap(0, Ordering::Relaxed));
        }
        taken
    }

    /// Measures what `source` gives.
    pub fn source(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        let (meter, channels) = (self.clone(), source.format().channels());
        pulled_through(source, move |source, block| {
            let pulled = source.pull(block);
            if let Pull::Frames(frames) = pulled {
                meter.hear(&block[..frames * channels], channels);
            }
            pulled
        })
    }

    /// Measures what is given to the sinks that `open` opens.
    pub fn sink(&self, mut open: OpenSink) -> OpenSink {
        let meter = self.clone();
        Box::new(move |format, sample| {
            let (sink, meter) = (open(format, sample)?, meter.clone());
            let channels = sink.format().channels();
            Ok(pushed_through(sink, move |sink, block| {
                meter.hear(block, channels);
                sink.push(block)
            }))
        })
    }
}

/// What the media thread saw at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    at: Instant,
    /// Bytes of RTP packets so far.
    bytes: u64,
    /// Since the look before.
    peaks: Peaks,
    buffer: Duration,
    peer: Option<SocketAddr>,
}

impl Look {
    /// Of `buffered` sample frames and so many bytes of packets. On the media thread.
    pub fn new(now: Instant, meter: &PeakMeter, buffered: MediaTime, bytes: u64) -> Self {
        Look { at: now, bytes, peaks: meter.take(), buffer: buffered.duration(), peer: None }
    }

    /// When it was taken.
    pub fn at(&self) -> Instant {
        self.at
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
        self.peak = self.peak.max(look.peaks.highest());
        self.peer = look.peer.or(self.peer);
        self.looks.push_back(look);
        // One remains that is a second old: the rate is counted from it.
        while self.looks.get(1).is_some_and(|second| look.at.since(second.at) >= WINDOW) {
            self.looks.pop_front();
        }
        let oldest = self.looks.front().copied();
        let newer = self.looks.iter().skip(usize::from(self.looks.len() > 1));
        let mut held = Peaks::default();
        newer.for_each(|look| held.raise(&look.peaks));
        let level =
            |(peak, held): (&f32, &f32)| ChannelLevel { peak_dbfs: dbfs(*peak), held_dbfs: dbfs(*held) };
        let levels = look.peaks.peaks.iter().zip(&held.peaks).take(held.channels).map(level).collect();
        LiveFigures { levels, ..self.figures(held.highest(), oldest, look, look.buffer) }
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
            peak_dbfs: dbfs(peak),
            kbit_per_s: from.and_then(rate),
            buffer_ms: buffer.as_secs_f64() * 1e3,
            levels: Vec::new(),
        }
    }
}

/// A peak in decibels below full scale; none for silence.
pub(crate) fn dbfs(peak: f32) -> Option<f64> {
    (peak > 0.0).then(|| 20.0 * f64::from(peak.min(f32::MAX)).log10())
}

/// As many channels as a stream may have.
const MOST_CHANNELS: usize = 64;

/// What "now" means in a display.
const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
