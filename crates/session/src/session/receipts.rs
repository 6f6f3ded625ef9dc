//! Receipts of a session that records: what has arrived, told to the sender so that it sends the rest again.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_media::rtcp::{PlayoutDelay, Receipt};

use super::Session;
use crate::arrived::ArrivedPackets;

/// What is told, and when.
#[derive(Default)]
pub(super) struct Receipts {
    /// One for each source of the stream.
    sources: Vec<ArrivedPackets>,
    /// When to tell it next, and how often it is still told if nothing comes.
    due: Option<(Instant, u32)>,
    /// Packets that have come since it was told.
    untold: u32,
}

impl Receipts {
    /// A stream begins.
    pub fn begin(&mut self) {
        self.sources.clear();
    }

    /// A packet of the stream has come, for the first time or again.
    pub fn on_packet(&mut self, now: Instant, ssrc: u32, sequence: u16) {
        let at = self.sources.iter().position(|source| source.ssrc() == ssrc).unwrap_or_else(|| {
            self.sources.push(ArrivedPackets::new(ssrc));
            self.sources.len() - 1
        });
        self.sources[at].on_packet(sequence);
        self.untold += 1;
        let soon = if self.untold >= MOST_UNTOLD { now } else { now + TELL_EVERY };
        let due = self.due.map_or(soon, |(due, _)| due.min(soon));
        self.due = Some((due, REPEATS));
    }

    /// Packets of a source did not come, more than its sequence numbers alone show.
    pub fn skip(&mut self, ssrc: u32, packets: u64) {
        if let Some(source) = self.sources.iter_mut().find(|source| source.ssrc() == ssrc) {
            source.skip(packets);
        }
    }

    /// Writes nothing, but says whether it is time to tell.
    fn is_due(&mut self, now: Instant) -> bool {
        let Some((due, left)) = self.due.filter(|(due, _)| *due <= now) else { return false };
        self.untold = 0;
        self.due = left.checked_sub(1).map(|left| (due.max(now) + TELL_AGAIN, left));
        true
    }
}

impl Session {
    /// Whether the peer at `at` is told what has arrived: this session records, over a transport that loses nothing.
    pub(super) fn tells_receipts(&self, at: usize) -> bool {
        let association = self.peers[at].as_ref().and_then(|peer| peer.association);
        let profile = association.and_then(|id| self.associations.profile(id));
        self.config.tells == Some(PlayoutDelay::Unbounded) && profile.is_some_and(|profile| profile.reliable)
    }

    /// Sends receipts that are due.
    pub(super) fn send_receipts(&mut self, now: Instant) {
        if !self.receipts.is_due(now) {
            return;
        }
        let Some(at) = self.peers.iter().position(Option::is_some) else { return };
        let Some(id) =
            self.peers[at].as_ref().filter(|peer| peer.connected).and_then(|peer| peer.association)
        else {
            return;
        };
        let mut bytes = [0; Receipt::MOST];
        for source in &self.receipts.sources {
            let Some(receipt) = source.receipt(self.ssrc) else { continue };
            let len = receipt.write(&mut bytes);
            if self.associations.may_tell(now, id, len, Duration::MAX) {
                self.associations.send_control(now, id, None, &bytes[..len]);
            }
        }
    }

    pub(super) fn next_receipt(&self) -> Option<Instant> {
        self.receipts.due.map(|(due, _)| due)
    }
}

/// How often a receipt is sent while packets come: what a sender keeps grows with it.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Packets after which one is sent at once: what a sender may send before it is confirmed is not what limits it.
const MOST_UNTOLD: u32 = 256;
/// How soon the last one is repeated, since an association may break as it is sent.
const TELL_AGAIN: Duration = Duration::from_millis(500);
/// How often.
const REPEATS: u32 = 3;
