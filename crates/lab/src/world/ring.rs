//! A ring as a part of a medium: frames take time from the sender to each receiver.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use antiphon_core::Instant;
use antiphon_link::{Packet, Ring};

use super::packet::{GROUP, Parcel};

/// A ring, and the frames between their sender and their receivers.
pub struct RingPart {
    pub ring: Ring<Parcel>,
    travelling: BinaryHeap<Reverse<Travelling>>,
    sent: u64,
}

struct Travelling {
    at: Instant,
    order: u64,
    to: usize,
    parcel: Parcel,
}

impl RingPart {
    /// A ring without frames.
    pub fn new(ring: Ring<Parcel>) -> Self {
        RingPart { ring, travelling: BinaryHeap::new(), sent: 0 }
    }

    /// When the token or a frame arrives at a station.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let travelling = self.travelling.peek().map(|Reverse(travelling)| travelling.at);
        [travelling, self.ring.poll_timeout()].into_iter().flatten().min()
    }

    /// What has arrived at a station by `now`.
    pub fn poll_at<'e>(
        &mut self,
        now: Instant,
        exits: impl Fn(&Parcel) -> &'e [u16],
    ) -> Option<(Instant, usize, Parcel)> {
        while let Some(sent) = self.ring.poll(now) {
            let mut travel = |to: usize, parcel: Parcel| {
                self.sent += 1;
                let at = sent.at + self.ring.travel(sent.from, to);
                self.travelling.push(Reverse(Travelling { at, order: self.sent, to, parcel }));
            };
            if sent.packet.exit == GROUP {
                for to in exits(&sent.packet).iter().copied() {
                    travel(usize::from(to), sent.packet.duplicate());
                }
            } else {
                travel(usize::from(sent.packet.exit), sent.packet);
            }
        }
        let due = self.travelling.peek().is_some_and(|Reverse(first)| first.at <= now);
        let Reverse(arrived) = if due { self.travelling.pop()? } else { return None };
        Some((arrived.at, arrived.to, arrived.parcel))
    }
}

impl PartialEq for Travelling {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Travelling {}

impl PartialOrd for Travelling {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Travelling {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
