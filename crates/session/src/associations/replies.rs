//! Replies of a validator that wait to be sent.

use std::collections::VecDeque;

use antiphon_core::{PathId, Transmit};

/// A bounded queue of replies in memory held ready.
#[derive(Debug, Default)]
pub(super) struct Replies {
    waiting: VecDeque<(PathId, usize, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    made: usize,
}

impl Replies {
    /// A buffer for the next reply; `None` while the queue is full.
    pub fn buffer(&mut self) -> Option<Vec<u8>> {
        self.spare.pop().or_else(|| {
            self.made += 1;
            (self.made <= MOST).then(|| vec![0; ROOM])
        })
    }

    /// Returns a buffer that was not needed.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// The first `len` bytes of the buffer are a reply to `path`.
    pub fn push(&mut self, path: PathId, len: usize, buffer: Vec<u8>) {
        self.waiting.push_back((path, len, buffer));
    }

    /// Writes the next reply into `buf`.
    pub fn poll_transmit(&mut self, buf: &mut [u8]) -> Option<Transmit> {
        let (path, len, buffer) = self.waiting.pop_front()?;
        buf[..len].copy_from_slice(&buffer[..len]);
        self.spare.push(buffer);
        Some(Transmit { path, len })
    }
}

/// The most replies that wait: those to the datagrams of two batches of the driver's.
const MOST: usize = 32;
/// More than a datagram of an Ethernet path.
const ROOM: usize = 2048;
