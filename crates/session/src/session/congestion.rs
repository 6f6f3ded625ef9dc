//! What the two ends of a path tell each other for congestion control: a receiver of pictures when packets arrived, over any transport
//! but one of a byte stream. Each party of a call over a group tells it of the packets of all others, to the group.

use std::time::Duration;

use antiphon_core::{Instant, Received, Wire};
use antiphon_media::rtcp::ArrivalReport;

use super::Session;
use super::end::State;
use crate::associations::AssociationId;
use crate::manager::PathFigures;
use crate::packet_arrivals::{LATEST, PacketArrivals};

/// The arrivals at a receiver of pictures.
#[derive(Default)]
pub(super) struct Arrivals {
    packets: PacketArrivals,
    /// The peer whose pictures came last, and when.
    pictures: Option<(usize, Instant)>,
    /// The association over which they, or data, last came as datagrams, and when: there it is told.
    over: Option<(AssociationId, Instant)>,
    /// When a receiver of ours last told of its own.
    heard: Option<Instant>,
}

/// What a packet of a party of a call is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OfParty {
    Sound,
    Pictures,
    /// Pictures that are sent again beside those.
    Repeats,
}

impl Arrivals {
    /// The streams of another sender begin.
    pub fn begin(&mut self) {
        self.packets.begin();
    }

    /// When a receiver of ours last told when packets arrived.
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// The peer whose pictures come.
    pub fn pictures_from(&self) -> Option<usize> {
        self.pictures.map(|(at, _)| at)
    }

    /// A packet of sound of the peer at `at` came.
    pub fn on_sound(&mut self, now: Instant, at: usize, name: (u32, u16), received: Received) {
        if self.pictures.is_some_and(|(from, _)| from == at) {
            self.packets.on_packet(now, name, received, received.len);
        }
    }

    /// A packet of pictures of the peer at `at` came. `is_told`: as a datagram. `repeating`: so many streams may come that repeat pictures.
    pub fn on_picture(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        (is_told, repeating): (bool, usize),
        name: (u32, u16),
        received: Received,
    ) {
        if self.pictures.is_none_or(|(from, _)| from != at) {
            self.packets.begin();
            self.over = None;
        }
        self.pictures = Some((at, now));
        if is_told {
            self.over = Some((id, now));
            self.packets.on_packet(now, name, received, received.len);
            self.packets.hold_ready(repeating);
        }
    }

    /// A packet of pictures that repeats another one to the group at `at`, where they come as datagrams.
    pub fn on_repeat(&mut self, now: Instant, at: usize, name: (u32, u16), received: Received) {
        if self.pictures.is_some_and(|(from, _)| from == at) && self.over.is_some() {
            self.packets.on_repeat(now, name, received, received.len);
        }
    }

    /// A packet of another party of the group at `at` came. So many parties tell of theirs, and share what reports may have.
    pub fn on_party(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        (what, parties): (OfParty, usize),
        name: (u32, u16),
        received: Received,
    ) {
        if what == OfParty::Pictures {
            (self.pictures, self.over) = (Some((at, now)), Some((id, now)));
            self.packets.hold_ready(parties);
        }
        // Where nobody sends pictures, nobody needs to know.
        if self.pictures.is_none() {
            return;
        }
        let share = received.len / parties.max(1);
        match what {
            OfParty::Repeats => self.packets.on_repeat(now, name, received, share),
            OfParty::Sound | OfParty::Pictures => self.packets.on_packet(now, name, received, share),
        }
    }

    /// A piece of data of the peer at `at` came: it is told of where pictures are, if there are any.
    pub fn on_data(
        &mut self,
        now: Instant,
        (at, id): (usize, AssociationId),
        is_told: bool,
        name: (u32, u16),
        received: Received,
    ) {
        let is_same_peer = self.pictures.is_some_and(|(from, _)| from == at);
        let is_beside = self.over.is_some_and(|(over, last)| over != id && now.since(last) < SILENCE);
        if !is_same_peer || !is_beside {
            self.on_picture(now, (at, id), (is_told, 0), name, received);
        } else if is_told {
            self.packets.on_packet(now, name, received, received.len);
        }
    }
}

impl Session {
    /// What the congestion manager knows of the path.
    pub fn path_figures(&self) -> PathFigures {
        self.manager.figures()
    }

    /// Whether the manager is not asked about an association: bytes of a stream come when the stream lets them, which tells nothing of the
    /// path. What other transports have of their own control fills the queue before it slows down, or leaves packets out, and a picture
    /// of which one is left out is of no use.
    pub(super) fn is_unmanaged(&self, id: AssociationId) -> bool {
        self.associations.profile(id).is_none_or(|profile| profile.wire == Wire::ByteStream)
    }

    /// Tells a sender of pictures when its packets arrived.
    pub(super) fn tell_arrivals(&mut self, now: Instant) {
        if self.next_arrivals().is_none_or(|due| due > now) {
            return;
        }
        if self.conference.is_some() && self.state != State::Open {
            // It has said goodbye, so nobody is to count it any more.
            return self.arrivals.pictures = None;
        }
        let written = self.config.epoch.ntp(now).middle_bits();
        let Some(len) = self.arrivals.packets.write(now, self.ssrc, written, &mut self.report[..MOST_BYTES])
        else {
            return;
        };
        let Some((at, last)) = self.arrivals.pictures else { return };
        if now.since(last) >= SILENCE {
            self.arrivals.pictures = None;
            return;
        }
        let Some((id, last)) = self.arrivals.over else { return };
        let peer = self.peers.get(at).and_then(Option::as_ref).filter(|peer| peer.connected);
        if peer.is_none() || self.peer_at(id) != Some(at) {
            return;
        }
        if now.since(last) >= SILENCE {
            self.arrivals.over = None;
        } else if self.config.reflected.is_some() {
            // What came back has its round trip behind it: it need not go another one.
            let is_managed = !self.is_unmanaged(id);
            if let Some(report) = ArrivalReport::parse(&self.report[..len]).filter(|_| is_managed) {
                self.manager.on_report(now, id, &report);
            }
        } else if !self.is_unmanaged(id) && self.associations.may_tell(now, id, len, SILENCE) {
            // The next ones tell it again.
            self.associations.send_control_until(now, id, None, &self.report[..len], now + LATEST);
        }
    }

    /// Whether we send a stream under this SSRC.
    fn is_sent_by_us(&self, ssrc: u32) -> bool {
        self.video.has_ssrc(ssrc)
            || self.send.as_ref().is_some_and(|track| track.ssrcs().any(|own| own == ssrc))
    }

    pub(super) fn next_arrivals(&self) -> Option<Instant> {
        self.arrivals.pictures.and_then(|_| self.arrivals.packets.due())
    }

    /// A message of an association: returns whether it tells when packets arrived.
    pub(super) fn on_arrivals_told(&mut self, now: Instant, id: AssociationId, bytes: &[u8]) -> bool {
        let Some(report) = ArrivalReport::parse(bytes) else { return false };
        // What is told to a group comes back, and what others tell of each other is no path of ours.
        let is_call = self.conference.is_some();
        if is_call
            && (report.ssrc == self.ssrc || !report.packets().any(|(ssrc, ..)| self.is_sent_by_us(ssrc)))
        {
            return true;
        }
        self.arrivals.heard = Some(now);
        let peer = self.peer_at(id).and_then(|at| self.peers[at].as_ref());
        let path = peer.and_then(|peer| Self::path_of(&self.associations, peer, id));
        self.manager.on_report(now, path.unwrap_or(id), &report);
        true
    }
}

/// Pictures that have not come for so long are none of the stream any more.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// A report, with what transports put around it, fits every path.
const MOST_BYTES: usize = 1100;
