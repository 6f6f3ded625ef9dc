//! Where messages to a recording wait that memory has no room for.

use antiphon_core::{Instant, MediaTime};
use antiphon_media::packet::PacketInfo;

use crate::store::Stored;

/// A queue of messages outside memory, such as a file: first in, first out. Called on the media thread, which it neither
/// delays nor makes allocate: what has been put comes out again a while later.
pub trait Spool: Send {
    /// Takes a message. When there is no room, the oldest ones are dropped.
    fn put(&mut self, stored: &Stored, bytes: &[u8]);

    /// The oldest message, copied into `buf`, if it is at hand.
    fn take(&mut self, buf: &mut [u8]) -> Option<(Stored, usize)>;

    /// Messages that were put and neither taken nor dropped.
    fn waiting(&self) -> u64;
}

/// A message's description as bytes, for spools.
pub const RECORD_HEADER: usize = 56;

impl Stored {
    /// Writes the description.
    pub fn write(&self, out: &mut [u8; RECORD_HEADER]) {
        let Stored { number, group, index, info, due } = *self;
        let words = [
            number,
            group as u64,
            index,
            due.as_nanos(),
            info.media.frames,
            u64::from(info.media.rate) << 32 | (info.payload as u64) << 16 | info.frames as u64,
            u64::from(info.timestamp) << 32 | u64::from(info.sequence) << 1 | u64::from(info.marker),
        ];
        for (out, word) in out.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads it.
    pub fn read(bytes: &[u8; RECORD_HEADER]) -> Self {
        let mut words = [0; RECORD_HEADER / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        let [number, group, index, due, media, sizes, numbers] = words;
        Stored {
            number,
            group: group as usize,
            index,
            due: Instant::from_nanos(due),
            info: PacketInfo {
                sequence: (numbers >> 1) as u16,
                timestamp: (numbers >> 32) as u32,
                media: MediaTime::new(media, (sizes >> 32) as u32),
                frames: usize::from(sizes as u16),
                payload: usize::from((sizes >> 16) as u16),
                marker: numbers & 1 == 1,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn descriptions_are_read_as_written(
            (number, index, due, media) in any::<(u64, u64, u64, u64)>(),
            (group, frames) in (0usize..64, 0usize..4097),
            (rate, timestamp, sequence, marker, payload) in any::<(u32, u32, u16, bool, u16)>(),
        ) {
            let payload = usize::from(payload);
            let info = PacketInfo { sequence, timestamp, media: MediaTime::new(media, rate), frames, payload, marker };
            let stored = Stored { number, group, index, info, due: Instant::from_nanos(due) };
            let mut bytes = [0; RECORD_HEADER];
            stored.write(&mut bytes);
            prop_assert_eq!(Stored::read(&bytes), stored);
        }
    }
}
