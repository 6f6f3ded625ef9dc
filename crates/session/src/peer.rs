//! The other party of a session, whatever association leads to it: its playout delay, its reports, and the outcomes of
//! messages sent to it.

use std::time::Duration;

use antiphon_core::{BrokenReason, CloseReason, Instant, Outcome, WireId};
use antiphon_media::rtcp::{ClockAnswer, PlayoutDelay, RemoteReport, RtcpSession};

use crate::associations::AssociationId;
use crate::delivery::Delivery;
use crate::members::{Member, Members};
use crate::session::{Answered, Apart, MOST_VIDEO_TRACKS, PictureFlow, Served};

/// Counts of what a peer's associations did with the messages sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounters {
    /// Messages that its transport took, copies of one counted once.
    pub accepted: u64,
    /// Bytes in them.
    pub accepted_bytes: u64,
    /// Messages that its transport refused.
    pub refused: u64,
    /// Messages that the transport gave up since their deadline had passed.
    pub expired: u64,
    /// Messages that have an outcome.
    pub settled: u64,
    /// Messages to a recording that were sent again after a break.
    pub repeated: u64,
    /// Messages to a recording that could not be kept until it confirmed them.
    pub dropped: u64,
    /// Messages to a recording which neither it nor, if it sends no receipts, the transport has confirmed yet.
    pub unconfirmed: u64,
    /// Whether a recording confirms what it has.
    pub receipts: bool,
}

impl std::ops::AddAssign for PeerCounters {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.accepted_bytes += other.accepted_bytes;
        self.refused += other.refused;
        self.expired += other.expired;
        self.settled += other.settled;
        self.repeated += other.repeated;
        self.dropped += other.dropped;
        self.unconfirmed += other.unconfirmed;
        self.receipts |= other.receipts;
    }
}

/// Why a stream that is sent ended before all of it was, or without its receiver's confirming it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerEnd {
    /// The receiver said goodbye.
    Left,
    /// The association ended.
    Closed(CloseReason),
    /// A recording confirmed nothing more for the patience.
    Silent,
}

/// The other party, or a group.
pub struct Peer {
    /// `None` while no peer is connected, at a session that waits for one.
    pub(crate) association: Option<AssociationId>,
    /// The wire that it used at its beginning.
    pub(crate) wire: Option<WireId>,
    pub(crate) connected: bool,
    pub(crate) broken: Option<BrokenReason>,
    /// When that was last told, if nothing tells that it is over: each datagram that is refused tells it again. A connection is
    /// broken until there is another: `None`.
    pub(crate) broken_at: Option<Instant>,
    /// Whether anything was ever received from it.
    pub(crate) answered: bool,
    pub(crate) rtcp: RtcpSession,
    /// Its receivers: one, or those of a group.
    pub(crate) members: Members,
    /// The playout delay that it reported; of a group the longest.
    pub(crate) playout_delay: Option<PlayoutDelay>,
    /// Its last report on each channel group.
    pub(crate) reports: Vec<Option<RemoteReport>>,
    /// The goodbye packets sent to it at the end of each group.
    pub(crate) goodbyes: Vec<Vec<u8>>,
    pub(crate) outcomes: Outcomes,
    pub(crate) counters: PeerCounters,
    /// Of a peer that is to get every message.
    pub(crate) delivery: Option<Delivery>,
    /// Its associations beside the first one.
    pub(crate) further: Vec<Further>,
    /// Answers to its questions for the time that were not sent yet.
    pub(crate) answers: Vec<ClockAnswer>,
    /// Of a receiver that has called.
    pub(crate) served: Served,
    /// What it gets of each track of pictures.
    pub(crate) pictures: Vec<PictureFlow>,
    /// When its questions for a key frame were answered.
    pub(crate) answered_losses: Answered,
}

/// What a further association with a peer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joining {
    /// Everything is sent over both, for good.
    Beside,
    /// It takes the place of the first one.
    Instead,
}

/// An association with a peer beside the first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Further {
    pub id: AssociationId,
    /// The wire that it used at its beginning.
    pub wire: Option<WireId>,
    /// `None` for one that is ending, or whose sender goes on over another.
    pub joining: Option<Joining>,
    pub connected: bool,
    pub began: Instant,
    /// When the receiver said that it takes it.
    pub accepted: Option<Instant>,
    /// What it carries instead of sound.
    pub apart: Option<Apart>,
}

impl Further {
    /// Whether it is sent sound.
    pub(crate) fn carries_sound(&self) -> bool {
        self.connected && self.joining.is_some() && self.apart.is_none()
    }
}

impl Peer {
    pub(crate) fn new(rtcp: RtcpSession, groups: usize, outcomes: Outcomes) -> Self {
        Peer {
            association: None,
            wire: None,
            connected: false,
            broken: None,
            broken_at: None,
            answered: false,
            rtcp,
            members: Members::default(),
            playout_delay: None,
            reports: vec![None; groups],
            goodbyes: Vec::new(),
            outcomes,
            counters: PeerCounters::default(),
            delivery: None,
            further: Vec::new(),
            answers: Vec::new(),
            served: Served::default(),
            pictures: vec![PictureFlow::default(); MOST_VIDEO_TRACKS],
            answered_losses: Answered::default(),
        }
    }

    /// What it gets of the track of pictures at `track`.
    pub(crate) fn pictures_of(&mut self, track: usize) -> &mut PictureFlow {
        if self.pictures.len() <= track {
            self.pictures.resize(track + 1, PictureFlow::default());
        }
        &mut self.pictures[track]
    }

    /// The associations over which it is sent messages, the first one first.
    pub(crate) fn associations(&self) -> impl Iterator<Item = AssociationId> {
        let further = self.further.iter().filter(|one| one.carries_sound());
        self.association.filter(|_| self.connected).into_iter().chain(further.map(|one| one.id))
    }

    /// `next` becomes the first association; returns the one that was, which is sent nothing any more.
    pub(crate) fn take_place(&mut self, next: Further) -> Option<Further> {
        let before = self.association.replace(next.id);
        let wire = std::mem::replace(&mut self.wire, next.wire);
        (self.connected, self.broken) = (true, None);
        before.map(|id| Further { id, wire, joining: None, ..next })
    }

    /// The association that carries what `apart` names and no sound, if there is one.
    pub(crate) fn apart(&self, apart: Apart) -> Option<&Further> {
        self.further.iter().find(|one| one.apart == Some(apart))
    }

    pub(crate) fn apart_mut(&mut self, apart: Apart) -> Option<&mut Further> {
        self.further.iter_mut().find(|one| one.apart == Some(apart))
    }

    /// The same, if it may be sent over now.
    pub(crate) fn way(&self, apart: Apart) -> Option<AssociationId> {
        self.apart(apart).filter(|one| one.connected && one.accepted.is_some()).map(|one| one.id)
    }

    /// Whether an association of its carries sound.
    pub(crate) fn is_of_sound(&self, id: AssociationId) -> bool {
        self.further.iter().all(|one| one.apart.is_none() || one.id != id)
    }

    /// Associations that carry its sound, or will, beside the first one.
    pub(crate) fn further_of_sound(&self) -> impl Iterator<Item = &Further> {
        self.further.iter().filter(|one| one.apart.is_none())
    }

    pub(crate) fn further_mut(&mut self, id: AssociationId) -> Option<&mut Further> {
        self.further.iter_mut().find(|one| one.id == id)
    }

    /// Its last report on each channel group.
    pub fn reports(&self) -> &[Option<RemoteReport>] {
        &self.reports
    }

    /// Its receivers, by their reports: of a group there are many.
    pub fn members(&self) -> &[Member] {
        self.members.list()
    }

    /// The playout delay that it reported, of a group the longest; `None` before it has.
    pub fn playout_delay(&self) -> Option<PlayoutDelay> {
        self.playout_delay
    }

    /// Outcomes of the messages sent to it.
    pub fn counters(&self) -> PeerCounters {
        self.counters
    }

    /// The same with what is known of a recording, of a track with so many messages.
    pub(crate) fn counted(&self, messages: u64) -> PeerCounters {
        let Some(delivery) = &self.delivery else { return self.counters };
        let receipts = delivery.has_receipts();
        let unconfirmed = messages.saturating_sub(delivery.arrived());
        PeerCounters { dropped: delivery.lost(), unconfirmed, receipts, ..self.counters }
    }

    /// Reports sent and received.
    pub fn rtcp(&self) -> &RtcpSession {
        &self.rtcp
    }

    /// Why it could not be reached at the end, if it could not: at `now` or shortly before.
    pub(crate) fn broken_lately(&self, now: Instant) -> Option<BrokenReason> {
        let lately = self.broken_at.is_none_or(|at| now.since(at) <= LATELY);
        self.broken.filter(|_| !self.connected || lately)
    }

    /// Why it cannot be reached now, if it cannot.
    pub fn broken(&self) -> Option<BrokenReason> {
        self.broken
    }
}

/// A port at which no program listens refuses each packet: after a second without that, one does.
const LATELY: Duration = Duration::from_secs(1);

/// Merges the outcomes of the copies of each message: the message has the best of them.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    copies: u8,
    /// By number, where there are several copies, or several associations.
    open: Vec<Open>,
    /// The first message with an entry in `open`.
    first: u64,
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    left: u8,
    best: Option<Outcome>,
}

impl Outcomes {
    /// For messages of `copies` copies each; at most `open` messages wait for outcomes at once.
    pub fn new(copies: u32, open: usize) -> Self {
        let mut outcomes = Outcomes { copies: copies as u8, open: Vec::new(), first: 0, room: open };
        if copies > 1 {
            outcomes.merge_from(0);
        }
        outcomes
    }

    /// Messages from `number` on may be handed to several associations.
    pub fn merge_from(&mut self, number: u64) {
        if self.open.is_empty() {
            self.open = vec![Open { number: u64::MAX, left: 0, best: None }; self.room];
            self.first = number;
        }
    }

    /// The first copy of a message is handed to so many associations.
    pub fn begin(&mut self, number: u64, associations: usize) {
        if !self.open.is_empty() {
            let at = (number % self.open.len() as u64) as usize;
            let left = self.copies.saturating_mul(associations as u8);
            self.open[at] = Open { number, left, best: None };
        }
    }

    /// A copy has an outcome, or (`None`) was refused. Returns the message's outcome once all copies have one.
    pub fn settle(&mut self, number: u64, outcome: Option<Outcome>) -> Option<Outcome> {
        if self.open.is_empty() || number < self.first {
            return outcome;
        }
        let at = (number % self.open.len() as u64) as usize;
        let open = Some(&mut self.open[at]).filter(|open| open.number == number && open.left > 0)?;
        open.left -= 1;
        if let Some(outcome) = outcome
            && open.best.is_none_or(|best| rank(outcome) < rank(best))
        {
            open.best = Some(outcome);
        }
        open.best.filter(|_| open.left == 0)
    }

    /// So many copies of a message were refused. Returns whether it has an outcome now: 1, or 0 if copies are open, or
    /// all of them were refused.
    pub fn refuse(&mut self, number: u64, copies: usize) -> u64 {
        (0..copies).filter(|_| self.settle(number, None).is_some()).count() as u64
    }
}

/// Order of outcomes: the higher, the worse.
pub(crate) fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Acked => 0,
        Outcome::Released => 1,
        Outcome::Expired { .. } => 2,
        Outcome::RetriesExhausted => 3,
        Outcome::Aborted => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_fares_as_its_best_copy() {
        let mut outcomes = Outcomes::new(3, 8);
        let expired = Outcome::Expired { maybe_received: true };
        outcomes.begin(5, 1);
        assert_eq!(outcomes.settle(5, Some(expired)), None);
        assert_eq!(outcomes.settle(5, Some(Outcome::Acked)), None);
        assert_eq!(outcomes.settle(5, None), Some(Outcome::Acked), "the third was refused");
        assert_eq!(outcomes.settle(5, Some(expired)), None, "no outcome twice");
        // Its entry is reused for a later message.
        outcomes.begin(6, 1);
        outcomes.begin(14, 1);
        assert_eq!(outcomes.settle(6, Some(expired)), None);
        let mut single = Outcomes::new(1, 8);
        single.begin(1, 1);
        assert_eq!(single.settle(1, Some(expired)), Some(expired));
    }

    #[test]
    fn a_message_sent_over_two_associations_has_one_outcome() {
        let mut outcomes = Outcomes::new(1, 8);
        outcomes.begin(4, 1);
        outcomes.merge_from(5);
        outcomes.begin(5, 2);
        assert_eq!(outcomes.settle(4, Some(Outcome::Released)), Some(Outcome::Released), "sent before");
        assert_eq!(outcomes.settle(5, Some(Outcome::Aborted)), None);
        assert_eq!(outcomes.settle(5, Some(Outcome::Released)), Some(Outcome::Released));
        outcomes.begin(6, 1);
        assert_eq!(outcomes.settle(6, Some(Outcome::Acked)), Some(Outcome::Acked), "one again");
    }
}
