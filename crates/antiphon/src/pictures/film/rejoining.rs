//! A member of a group that has no key frame is sent what came since the last one again, while other packets go on coming: these wait here until it has come up to them.

use std::collections::VecDeque;

use antiphon_media::packet::{ExtensionIds, parse_rtp};
use antiphon_video::{Frame, MARKING_ID, VideoCounters};

use super::incoming::Track;
use crate::pictures::queue::About;

/// What is sent again, and what comes meanwhile.
#[derive(Default)]
pub(super) struct Rejoining {
    /// Packets that came since nothing can be decoded, in the order of coming, and their bytes.
    held: VecDeque<(About, Vec<u8>)>,
    bytes: usize,
    /// What was counted before the last key frame: what came since comes again.
    counted: VideoCounters,
    /// Packets that are sent again are taken: where the sound stood at the last one.
    last: Option<i64>,
}

impl Rejoining {
    fn hold(&mut self, about: &About, packet: &[u8]) {
        self.bytes += packet.len();
        self.held.push_back((*about, packet.to_vec()));
        // Where what is sent again does not come up to them, something is missing, and it is asked for once more.
        while self.bytes > MOST_HELD {
            let Some((_, oldest)) = self.held.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }

    /// The number of the first packet that waits.
    fn first(&self) -> Option<u16> {
        self.held.front().and_then(|(_, packet)| number(packet))
    }

    fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
    }
}

impl Track {
    /// Whether it would use what came since the last key frame.
    pub fn wants_repeats(&self) -> bool {
        self.chain.is_broken() && self.rejoining.last.is_none()
    }

    /// Whether a packet that is sent again is the first that is of use.
    pub fn begins_repeats(&self, packet: &[u8]) -> bool {
        let ids = ExtensionIds { marking: Some(MARKING_ID), ..ExtensionIds::NONE };
        let marking = parse_rtp(packet, ids).ok().and_then(|packet| packet.marking);
        self.wants_repeats() && marking.is_some_and(|marking| marking.start && marking.independent)
    }

    /// `next`, which has seen nothing, goes on from the last key frame, when the sound stands at this place. Returns the pictures that came before and wait, and what was counted
    /// before that key frame.
    pub fn rejoin(&mut self, position: i64, mut next: Track) -> (Vec<Frame>, VideoCounters) {
        std::mem::swap(&mut next.rejoining, &mut self.rejoining);
        next.rejoining.last = Some(position);
        let mut before = std::mem::replace(self, next);
        (before.placed(), std::mem::take(&mut self.rejoining.counted))
    }

    /// A packet that is sent again, when the sound stands at this place.
    pub fn on_repeat(&mut self, position: i64, about: &About, packet: &[u8]) {
        if self.rejoining.last.is_none() {
            return;
        }
        self.rejoining.last = Some(position);
        let (Some(sent), first) = (number(packet), self.rejoining.first()) else { return };
        // What comes later is there already.
        let is_before = |first: u16| first.wrapping_sub(sent).wrapping_sub(1) < 1 << 15;
        if first.is_none_or(is_before) {
            self.on_packet(about, packet);
        }
        if first.is_some_and(|first| !is_before(first) || first == sent.wrapping_add(1)) {
            self.come_up();
        }
    }

    /// A packet that is due.
    pub fn on_due(&mut self, position: i64, about: &About, packet: &[u8]) {
        match self.rejoining.last {
            Some(last) if position.saturating_sub(last) < REPEATS_END => self.rejoining.hold(about, packet),
            Some(_) => {
                self.rejoining.hold(about, packet);
                self.come_up();
            }
            None => {
                if self.chain.is_broken() {
                    self.rejoining.hold(about, packet);
                }
                self.on_packet(about, packet);
            }
        }
    }

    /// Goes on with what came meanwhile.
    fn come_up(&mut self) {
        self.rejoining.last = None;
        let held = std::mem::take(&mut self.rejoining.held);
        self.rejoining.clear();
        held.iter().for_each(|(about, packet)| self.on_packet(about, packet));
    }

    /// A whole key frame came, which was counted.
    pub fn on_key_frame(&mut self) {
        let counted = self.depacketiser.counters();
        self.rejoining.counted = VideoCounters { whole: counted.whole.saturating_sub(1), ..counted };
    }

    /// Notes whether something can be decoded now.
    pub fn watch_chain(&mut self) {
        if !self.chain.is_broken() && self.rejoining.last.is_none() {
            self.rejoining.clear();
        }
    }
}

/// RTP's number of a packet.
fn number(packet: &[u8]) -> Option<u16> {
    packet.get(2..4).map(|number| u16::from_be_bytes([number[0], number[1]]))
}

/// Bytes of packets that wait: as much as a sender sends again.
const MOST_HELD: usize = 2 << 20;
/// After so much sound without any, in nanoseconds, no more is sent again.
const REPEATS_END: i64 = 500_000_000;
