//! A ring as a part of a medium: frames take time from the sender to each receiver.

use antiphon_core::{Instant, sooner};
use antiphon_link::{Packet, Ring, Travelling};

use super::packet::{GROUP, Parcel};

/// A ring, and the frames between their sender and their receivers.
pub struct RingPart {
    pub ring: Ring<Parcel>,
    /// With the index of the receiver.
    travelling: Travelling<(usize, Parcel)>,
}

impl RingPart {
    /// A ring without frames.
    pub fn new(ring: Ring<Parcel>) -> Self {
        RingPart { ring, travelling: Travelling::default() }
    }

    /// When the token or a frame arrives at a station.
    pub fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.travelling.next_due(), self.ring.poll_timeout())
    }

    /// What has arrived at a station by `now`. Nothing is offered until after `alone_until`, unless something arrives or a
    /// frame leaves its station: the token moves on as far as neither happens.
    pub fn poll_at<'e>(
        &mut self,
        now: Instant,
        alone_until: Instant,
        exits: impl Fn(&Parcel) -> &'e [u16],
    ) -> Option<(Instant, usize, Parcel)> {
        let mut is_left = false;
        while let Some(sent) = self.ring.poll(now) {
            is_left = true;
            let mut travel = |to: u16, parcel: Parcel| {
                let to = usize::from(to);
                self.travelling.push(sent.at + self.ring.travel(sent.from, to), (to, parcel));
            };
            if sent.packet.exit == GROUP {
                exits(&sent.packet).iter().for_each(|to| travel(*to, sent.packet.duplicate()));
            } else {
                travel(sent.packet.exit, sent.packet);
            }
        }
        if let Some((at, (to, parcel))) = self.travelling.pop(now) {
            return Some((at, to, parcel));
        }
        if !is_left {
            self.ring.run_ahead(self.travelling.next_due().map_or(alone_until, |due| due.min(alone_until)));
        }
        None
    }
}
