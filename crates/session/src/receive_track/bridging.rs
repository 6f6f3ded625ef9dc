//! Gaps in a recording that are longer than its buffer: silence takes their place, so that it is as long as the
//! performance.

use std::time::Duration;

use antiphon_core::{Instant, Received};
use antiphon_media::packet::{ExtensionIds, MediaPacket, parse_rtp};

use super::{Came, ReceiveTrack};
use crate::part::Part;
use crate::player::{Bridge, Stream};

/// The packet with which the sound goes on.
pub(super) struct BehindGap {
    received: Received,
    part: Part,
    bytes: Box<[u8]>,
}

impl BehindGap {
    pub fn new(received: Received, part: Part, bytes: &[u8]) -> Self {
        BehindGap { received, part, bytes: bytes.into() }
    }
}

impl ReceiveTrack {
    /// Whether what comes has to wait: the sink has no room, and nothing may be lost.
    pub fn is_full(&self) -> bool {
        self.error.is_none() && self.stream.as_ref().is_some_and(Stream::is_full)
    }

    /// The same, once what has gathered has been played.
    pub(crate) fn has_no_room(&mut self, now: Instant) -> bool {
        if self.stream.as_ref().is_some_and(Stream::has_gathered) {
            self.advance(now);
        }
        self.is_full()
    }

    /// The longest gap that a sender on time can leave, in sample frames: media time does not run faster than ours. A longer
    /// one is a jump of its clock, or forged, and would only fill the disk.
    pub(super) fn most_gap(&self, now: Instant) -> u64 {
        let Some(stream) = &self.stream else { return 0 };
        let time = now.since(self.began) + SLACK;
        let rate = u128::from(stream.format().0.rate());
        let due = u64::try_from(time.as_nanos() * rate / 1_000_000_000).unwrap_or(u64::MAX);
        due.saturating_sub(stream.written + stream.playout.buffer().level())
    }

    /// Writes the silence of a gap once all before it has been written, and takes the packet behind it.
    pub(super) fn cross(&mut self, now: Instant) {
        let Some(stream) = &mut self.stream else { return };
        let Some(Bridge { frames, .. }) = stream.bridge else { return };
        self.counters.overrun_frames += stream.play(now, &mut self.error);
        if !stream.cross_bridge(&mut self.error) {
            return;
        }
        self.counters.gap_frames += frames;
        if let Some(BehindGap { received, part, bytes }) = self.behind_gap.take()
            && let Ok(view) = parse_rtp(&bytes, ExtensionIds::default())
        {
            self.insert(Came { now, received, view: &view, bytes: &bytes }, part);
        }
    }
}

impl Stream {
    /// The gap before a packet that no buffer spans, up to `most` sample frames.
    pub(super) fn gap_before(&self, packet: &MediaPacket<'_>, most: u64) -> Option<Bridge> {
        if self.playout.is_clocked() {
            return None;
        }
        let frames = self.playout.buffer().gap_before(packet)?;
        (frames <= most).then_some(Bridge { frames, until: packet.timestamp })
    }
}

/// What a sender may be ahead of its time: a buffer of ours, played at once.
const SLACK: Duration = Duration::from_secs(20);
