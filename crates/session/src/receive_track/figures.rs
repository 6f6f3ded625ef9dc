//! Figures of a receive track.

use std::time::Duration;

use antiphon_core::{Instant, MediaTime, Ppm};
use antiphon_media::playout::{AdaptedFigures, GapsBegun, PlayoutCounters};
use antiphon_media::{ChannelGroups, SourceCounters, StreamFormat};

use super::{GroupFigures, ReceiveTrack, ReceiveTrackCounters};
use crate::latency::Latency;
use crate::observer::Arrived;
use crate::player::Stream;

impl ReceiveTrack {
    /// The SSRC of the sender that is followed.
    pub fn followed(&self) -> Option<u32> {
        self.tracker.ssrc()
    }

    /// Whether a source is the sender that is followed, or one of its channel groups.
    pub fn is_of(&self, ssrc: u32) -> bool {
        self.tracker.ssrc() == Some(ssrc) || self.tracker.group_of(ssrc).is_some()
    }

    /// When that sender was last heard.
    pub fn last_heard(&self) -> Option<Instant> {
        self.tracker.last_heard()
    }

    /// What the playout buffer counted; `None` before the stream begins.
    pub fn playout(&self) -> Option<PlayoutCounters> {
        self.stream.as_ref().map(Stream::counters)
    }

    /// Figures of each channel group, in order; none before the stream begins.
    pub fn groups(&self) -> impl Iterator<Item = GroupFigures> {
        let stream = self.stream.as_ref();
        stream.into_iter().flat_map(|stream| {
            let counters = stream.playout.buffer().group_counters();
            stream.groups.ranges().zip(counters).map(|(channels, playout)| GroupFigures { channels, playout })
        })
    }

    /// How the stream's channels are divided, once known.
    pub fn division(&self) -> Option<ChannelGroups> {
        self.stream.as_ref().map(|stream| stream.groups)
    }

    /// What an adaptive playout delay has done; `None` before the stream begins, and if the delay is fixed.
    pub fn adapted(&self) -> Option<AdaptedFigures> {
        self.stream.as_ref()?.playout.buffer().adapted()
    }

    /// What playout delays would have done: each with the share of packets that come later than that, as far as enough packets
    /// have come to tell.
    pub fn lateness(&self) -> [Option<Duration>; LATENESS.len()] {
        let delays = self.stream.as_ref().and_then(|stream| stream.playout.buffer().delays());
        LATENESS.map(|late| delays.and_then(|delays| delays.quantile_of_all(late)))
    }

    /// The gaps that began last, and why; none before the stream begins.
    pub fn gaps_begun(&self) -> GapsBegun {
        self.stream.as_ref().map_or_else(GapsBegun::default, |stream| stream.playout.buffer().gaps_begun())
    }

    /// Whether packets come more than a thousand times a second, as many channels make them short.
    pub(crate) fn in_short_packets(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.in_short_packets)
    }

    /// Whether the playout delay adapts.
    pub(crate) fn adapts(&self) -> bool {
        matches!(self.config.latency, Some(Latency::Auto(_)))
    }

    /// How long the transport needs to send a lost packet again; `None` if it does not.
    pub(crate) fn set_repair(&mut self, time: Option<Duration>) {
        if let Some(stream) = &mut self.stream {
            stream.playout.buffer_mut().set_repair(time);
        }
    }

    /// Sound that waits to be played, in sample frames: in the playout buffer, and what was handed to the sink before it was due. 0 before the stream begins.
    pub fn playout_level(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| stream.playout.buffer().level() + stream.handed_early())
    }

    /// When the last sample frame that was captured before a packet was made is handed to the sink; `None` where sound has no time, as in a recording.
    pub(crate) fn sink_time(&self, arrived: &Arrived) -> Option<Instant> {
        let stream = self.stream.as_ref()?;
        let (format, coding) = stream.format();
        let begins = stream.playout.buffer().deadline_at(arrived.timestamp)?;
        // What was captured last before the packet was made may be in the next one.
        let frames = arrived.frames + coding.look_ahead();
        let ends = begins + MediaTime::new(frames as u64, format.rate()).duration();
        Some(ends.offset_nanos(stream.playout.lag_nanos()))
    }

    /// Rate and channels, once known.
    pub fn format(&self) -> Option<StreamFormat> {
        self.stream.as_ref().map(|stream| stream.depacketiser.format())
    }

    /// How much faster the sender's sampling clock runs than ours, once known.
    pub fn drift(&self) -> Option<Ppm> {
        self.stream.as_ref().map(|stream| stream.playout.buffer().clock().drift())
    }

    /// Counters of the sources of packets.
    pub fn sources(&self) -> SourceCounters {
        self.tracker.counters()
    }

    /// Totals.
    pub fn counters(&self) -> ReceiveTrackCounters {
        self.counters
    }
}

/// The shares of late packets that [`ReceiveTrack::lateness`] answers for.
pub const LATENESS: [f64; 3] = [1e-2, 1e-3, 1e-4];
