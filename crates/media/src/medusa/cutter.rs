//! The ring of bytes between packets and blocks.

use std::collections::VecDeque;

use super::header::{HEADER, Header, MAX_DATA};

/// Packets go in, blocks come out.
#[derive(Debug)]
pub struct Cutter {
    ring: VecDeque<u8>,
    capacity: usize,
    /// Bytes written since the beginning.
    written: u64,
}

/// The ring has no room for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a packet of {len} bytes finds room for {room} in the ring")]
pub struct CutterFull {
    /// Of the packet, header included.
    pub len: usize,
    /// Free bytes.
    pub room: usize,
}

impl Cutter {
    /// Allocates a ring of `capacity` bytes; at least one packet of the largest size fits.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(HEADER + MAX_DATA);
        Cutter { ring: VecDeque::with_capacity(capacity), capacity, written: 0 }
    }

    /// Appends a packet of the size of `data`, whatever `header` says; appends nothing if not all of it fits.
    ///
    /// `data` has 1 to [`MAX_DATA`] bytes; a receiver skips packets of any other size.
    pub fn push(&mut self, header: Header, data: &[u8]) -> Result<(), CutterFull> {
        let (len, room) = (HEADER + data.len(), self.capacity - self.ring.len());
        if len > room {
            return Err(CutterFull { len, room });
        }
        self.ring.extend(Header { size: data.len() as u32, ..header }.to_bytes());
        self.ring.extend(data);
        self.written += len as u64;
        Ok(())
    }

    /// Takes the next block: as many bytes as wait and `block` holds.
    pub fn cut(&mut self, block: &mut [u8]) -> usize {
        let len = self.peek(block);
        self.skip(len);
        len
    }

    /// As [`Self::cut`], but leaves the block in the ring.
    pub fn peek(&self, block: &mut [u8]) -> usize {
        let len = block.len().min(self.ring.len());
        let (front, back) = self.ring.as_slices();
        let from_front = len.min(front.len());
        block[..from_front].copy_from_slice(&front[..from_front]);
        block[from_front..len].copy_from_slice(&back[..len - from_front]);
        len
    }

    /// Drops the next `bytes` bytes, or all that wait.
    pub fn skip(&mut self, bytes: usize) {
        self.ring.drain(..bytes.min(self.ring.len()));
    }

    /// Bytes waiting.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Position in the stream, counted from its beginning, at which the next packet is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Position in the stream at which the next block begins.
    pub fn position(&self) -> u64 {
        self.written - self.ring.len() as u64
    }

    /// Discards waiting bytes.
    pub fn clear(&mut self) {
        self.ring.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medusa::BLOCK;

    #[test]
    fn two_channels_are_a_full_block_and_the_rest() {
        let mut cutter = Cutter::new(4 * BLOCK);
        let mut block = [0; BLOCK];
        for round in 1..=5u32 {
            for channel in 0..2 {
                let header = Header { channel, seq: round, timestamp: 0, size: 0 };
                cutter.push(header, &[channel; 940]).unwrap();
            }
            assert_eq!(cutter.cut(&mut block), 1024);
            assert_eq!(Header::parse(&block).unwrap().size, 940);
            assert_eq!(Header::parse(&block[960..]).unwrap().channel, 1);
            assert_eq!((cutter.cut(&mut block), cutter.cut(&mut block)), (896, 0));
            assert_eq!(cutter.position(), u64::from(round) * 1920);
        }
    }

    #[test]
    fn a_full_ring_takes_nothing_of_a_packet() {
        let mut cutter = Cutter::new(0);
        let header = Header { channel: 0, seq: 1, timestamp: 0, size: 0 };
        cutter.push(header, &[0; 3000]).unwrap();
        assert_eq!(cutter.push(header, &[0; 1100]), Err(CutterFull { len: 1120, room: 1096 }));
        assert_eq!((cutter.len(), cutter.written(), cutter.is_empty()), (3020, 3020, false));
        cutter.clear();
        assert_eq!((cutter.position(), cutter.push(header, &[0; MAX_DATA])), (3020, Ok(())));
    }
}
