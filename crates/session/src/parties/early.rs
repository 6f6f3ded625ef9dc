//! Pictures of parties that are not there yet: a party is heard once its sound has shown its format, and its first picture, without which
//! those up to the next key frame can't be decoded, comes with the first sound.

use std::collections::VecDeque;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Received};

/// Packets that wait for their party. The oldest make room.
#[derive(Debug, Default)]
pub(super) struct Early {
    packets: VecDeque<EarlyPacket>,
    bytes: usize,
}

/// A packet of a picture.
#[derive(Debug)]
pub(super) struct EarlyPacket {
    pub sound: u32,
    pub path: PathId,
    pub received: Received,
    pub bytes: Vec<u8>,
}

impl Early {
    /// A packet of pictures that were captured with the sound of this SSRC.
    pub fn keep(&mut self, (sound, path): (u32, PathId), received: Received, bytes: &[u8]) {
        self.packets.push_back(EarlyPacket { sound, path, received, bytes: bytes.into() });
        self.bytes += bytes.len();
        while self.bytes > MOST_BYTES || self.packets.len() > MOST_PACKETS {
            self.drop_oldest();
        }
    }

    /// The next packet of a party that is there now.
    pub fn take(&mut self, sound: u32, path: PathId) -> Option<EarlyPacket> {
        let at = self.packets.iter().position(|one| one.sound == sound && one.path == path)?;
        let packet = self.packets.remove(at)?;
        self.bytes -= packet.bytes.len();
        Some(packet)
    }

    /// Leaves out what has waited for longer than a party takes to show its format.
    pub fn forget_old(&mut self, now: Instant) {
        while self.packets.front().is_some_and(|oldest| now.since(oldest.received.received_at) > LONGEST) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.packets.pop_front() {
            self.bytes -= oldest.bytes.len();
        }
    }
}

/// Bytes that wait: twice as many as MJPEG has in a picture of 640×480, so that one flood of packets does not make it much.
const MOST_BYTES: usize = 256 * 1024;
const MOST_PACKETS: usize = 512;
/// The format is told in one packet of sixteen: 340 ms of the longest packets that are usual, of 20 ms.
const LONGEST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use antiphon_core::StreamId;

    use super::*;

    fn received(ms: u64, len: usize) -> Received {
        let received_at = Instant::from_millis(ms);
        Received { len, path: PathId(1), stream: StreamId::default(), received_at, repaired: false }
    }

    #[test]
    fn packets_wait_for_their_party_in_order() {
        let mut early = Early::default();
        for n in 0..6u8 {
            early.keep((u32::from(n % 2), PathId(1)), received(0, 1), &[n]);
        }
        assert!(early.take(0, PathId(2)).is_none(), "from elsewhere");
        let taken: Vec<u8> =
            std::iter::from_fn(|| early.take(1, PathId(1))).map(|one| one.bytes[0]).collect();
        assert_eq!(taken, [1, 3, 5]);
        assert_eq!((early.packets.len(), early.bytes), (3, 3));
    }

    #[test]
    fn a_flood_is_bounded_and_what_is_old_is_left_out() {
        let mut early = Early::default();
        for n in 0..10_000 {
            early.keep((n, PathId(1)), received(u64::from(n), 1400), &[0; 1400]);
        }
        assert!(early.bytes <= MOST_BYTES && early.packets.len() <= MOST_BYTES / 1400);
        (0..10_000).for_each(|n| early.keep((n, PathId(1)), received(10_000, 1), &[0]));
        assert_eq!(early.packets.len(), MOST_PACKETS);
        early.forget_old(Instant::from_millis(10_500));
        assert_eq!(early.packets.len(), MOST_PACKETS);
        early.forget_old(Instant::from_millis(10_501));
        assert_eq!((early.packets.len(), early.bytes), (0, 0));
    }
}
