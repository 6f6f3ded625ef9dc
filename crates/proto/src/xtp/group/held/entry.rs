//! What is noted of a packet that is held.

use antiphon_core::{Instant, Tag};

use super::super::blocks::Place;

/// A data packet, without its bytes. Of numbers that differ by little from one packet to another only the low half is noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub deadline: Instant,
    /// Number of its latest transmission, repairs included.
    pub sent: u64,
    /// What the caller knows its message by, and the message's number.
    pub tag: Tag,
    pub message: u32,
    pub from: u32,
    pub place: Place,
    pub len: u16,
    pub priority: u8,
    pub marks: u8,
}

/// Bytes of memory that a packet takes besides its data.
pub(in super::super) const ENTRY: usize = size_of::<Entry>();
const _: () = assert!(ENTRY == 40);

/// It begins, and ends, its message.
pub(super) const BEGINS: u8 = 1;
pub(super) const ENDS: u8 = 2;
/// A repair of it waits to be sent.
pub(super) const QUEUED: u8 = 4;
/// It was past its deadline when a member passed over packets, and may be one of them.
pub(super) const GIVEN_UP: u8 = 8;
/// The deadline of a packet without one.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Entry {
    pub fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    pub fn mark(&mut self, mark: u8, on: bool) {
        self.marks = self.marks & !mark | if on { mark } else { 0 };
    }
}

/// The number with these low bits that is `latest` or the nearest before it.
pub(super) fn widened(low: u32, latest: u64) -> u64 {
    latest - u64::from((latest as u32).wrapping_sub(low))
}
