//! Figures of a receive track.

use antiphon_core::{Instant, Ppm};
use antiphon_media::playout::PlayoutCounters;
use antiphon_media::{ChannelGroups, SourceCounters, StreamFormat};

use super::{GroupFigures, ReceiveTrack, ReceiveTrackCounters};
use crate::player::Stream;

impl ReceiveTrack {
    /// The SSRC of the sender that is followed.
    pub fn followed(&self) -> Option<u32> {
        self.tracker.ssrc()
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

    /// Sound that waits in the playout buffer, in sample frames; 0 before the stream begins.
    pub fn playout_level(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| stream.playout.buffer().level())
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
