//! Whether a packet continues the stream that was followed, however long it was silent and whatever association it comes
//! over.
//!
//! A sender keeps its SSRC, and its sequence numbers and time stamps go on together. Numbers alone wrap after six minutes of
//! packets of 5 ms; with the time stamp it is known how many packets are missing.

use antiphon_media::packet::RtpView;

use super::{ReceiveTrack, Tell, Told};
use crate::part::Part;

/// The packet of a channel group that was sent last, of those that have come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    /// Sample frames in a full packet.
    frames: u32,
}

/// How a packet relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Continues {
    /// It is of another stream, or cannot be judged.
    Not,
    /// It is one of those before the newest.
    Before,
    /// It comes later; so many packets are missing that the sequence number alone does not show.
    After { packets: u64 },
}

impl ReceiveTrack {
    /// How a packet relates to the stream that was followed last.
    pub(super) fn continues(&self, view: &RtpView<'_>, part: &Part) -> Continues {
        let stream = self.stream.as_ref().filter(|stream| stream.format() == (part.format, part.coding));
        if stream.is_none_or(|stream| stream.groups != part.groups) {
            return Continues::Not;
        }
        let group = part.origin.group;
        match self.newest.get(group) {
            Some(Some(newest)) if newest.ssrc == view.ssrc => {
                if self.recoverer.remembers(group, view.sequence, view.timestamp) {
                    return Continues::Before;
                }
                newest.relation(view.sequence, view.timestamp)
            }
            _ => Continues::Not,
        }
    }

    /// The stream goes on after a gap, of which its sequence numbers hide so many packets.
    pub(super) fn go_on_after(&mut self, view: &RtpView<'_>, group: usize, packets: u64, tell: Tell<'_>) {
        if packets == 0 {
            return;
        }
        if let Some(stream) = &mut self.stream {
            stream.depacketiser.skip_packets(group, packets);
            stream.playout.buffer_mut().expect_jump();
        }
        self.recoverer.restart(group);
        tell(Told::Skipped { ssrc: view.ssrc, packets });
    }

    /// Remembers a packet that was sent after those before.
    pub(super) fn note_newest(&mut self, view: &RtpView<'_>, part: &Part) {
        let Some(newest) = self.newest.get_mut(part.origin.group) else { return };
        let frames = part.frames_in(view) as u32;
        let is_newer = |before: &Newest| (view.timestamp.wrapping_sub(before.timestamp) as i32) > 0;
        match newest {
            Some(before) if before.ssrc == view.ssrc && !is_newer(before) => {}
            _ => {
                let longest =
                    newest.filter(|before| before.ssrc == view.ssrc).map_or(0, |before| before.frames);
                let (ssrc, sequence, timestamp) = (view.ssrc, view.sequence, view.timestamp);
                *newest = Some(Newest { ssrc, sequence, timestamp, frames: frames.max(longest) });
            }
        }
    }
}

impl Newest {
    fn relation(&self, sequence: u16, timestamp: u32) -> Continues {
        let ticks = timestamp.wrapping_sub(self.timestamp);
        let back = self.timestamp.wrapping_sub(timestamp);
        let low = sequence.wrapping_sub(self.sequence);
        if ticks == 0 || self.frames == 0 {
            return if low == 0 { Continues::Before } else { Continues::Not };
        }
        if ticks >= 1 << 31 {
            let packets = u64::from(back / self.frames);
            let near = packets.abs_diff(u64::from(low.wrapping_neg())) <= 2;
            return if near { Continues::Before } else { Continues::Not };
        }
        // So many packets fit into the time; a pause makes it longer than its packets, and never shorter.
        let most = u64::from(ticks).div_ceil(u64::from(self.frames));
        let cycles = (most.saturating_sub(u64::from(low)) + TOLERANCE) >> 16;
        let packets = u64::from(low) + (cycles << 16);
        let slack = TOLERANCE + most / 100;
        if packets == 0 || packets.abs_diff(most) > slack {
            return Continues::Not;
        }
        // What numbers alone show is up to half of their circle.
        let hidden = if packets > NEAR { packets - 1 } else { 0 };
        Continues::After { packets: hidden }
    }
}

/// Packets by which a stream may differ from packets of equal length: the last one before a pause is often shorter.
const TOLERANCE: u64 = 2;
/// Missing packets up to which numbers alone are followed (RFC 3550 A.1).
const NEAR: u64 = 2999;

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: Newest = Newest { ssrc: 1, sequence: 65_000, timestamp: u32::MAX - 5, frames: 256 };

    fn after(packets: u64, ticks: u64) -> Continues {
        NEWEST.relation((65_000 + packets) as u16, (u64::from(NEWEST.timestamp) + ticks) as u32)
    }

    #[test]
    fn a_stream_goes_on_after_any_silence() {
        assert_eq!(after(1, 256), Continues::After { packets: 0 });
        assert_eq!(after(2_999, 2_999 * 256), Continues::After { packets: 0 });
        for packets in [3_000, 5_625, 32_768, 65_535, 65_536, 65_537, 112_500, 1_000_000, 8_000_000] {
            assert_eq!(after(packets, packets * 256), Continues::After { packets: packets - 1 }, "{packets}");
        }
    }

    #[test]
    fn earlier_packets_are_those_whose_numbers_and_times_go_back_together() {
        let before = |packets: u16, ticks: u32| {
            NEWEST.relation(NEWEST.sequence - packets, NEWEST.timestamp.wrapping_sub(ticks))
        };
        assert_eq!(before(0, 0), Continues::Before);
        assert_eq!(before(40, 40 * 256), Continues::Before);
        assert_eq!(before(9_000, 9_000 * 256), Continues::Before);
        assert_eq!((before(40, 90 * 256), before(40, 0)), (Continues::Not, Continues::Not));
    }

    #[test]
    fn other_numbers_are_another_stream() {
        // A sender that restarted under the same SSRC draws both anew.
        for (packets, ticks) in [(30_000, 256), (5_000, 9_000_000), (4_000, 4_000 * 128), (0, 256_000)] {
            assert_eq!(after(packets, ticks), Continues::Not, "{packets}, {ticks}");
        }
    }
}
