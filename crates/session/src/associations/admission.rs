//! Who may begin an association on a listening wire. An admission exists before its associations and outlives them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Instant, PathId, Stack, Validator, Verdict};

use super::AssociationId;
use super::replies::Replies;

/// How many peers a listening wire serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// One peer at a time. Another peer takes over when the current one has been silent for `silence`, has ended its
    /// stream (was released), or was heard only once while the other was heard twice. One whose address is validated takes
    /// over after half of `silence`, and after 0.2 s behind the address of the current one. A peer whose stream comes from
    /// another address goes on after 0.1 s.
    ///
    /// Of several connections the one serves that first sends anything of use ([`Associations::on_used`]), until it is
    /// silent; the next one after it has broken continues the same association.
    ///
    /// [`Associations::on_used`]: super::Associations::on_used
    Single {
        /// Silence after which another may take over.
        silence: Duration,
        /// Whether peers send streams: one that sends a packet now and then is then silent, if another one comes and
        /// comes again.
        streams: bool,
    },
    /// Many peers, each with an association of its own.
    ///
    /// A peer that is not proved (neither by its validator nor by being heard for a while; a connection by anything of use
    /// that it sends) is in a pool of its own. When that is full, a peer that was heard only once is replaced by a source
    /// that was turned away and came again: a flood from forged addresses uses each address only once. The oldest
    /// connection that is not proved makes room for the next.
    Many {
        /// The most peers. Those not proved may have half of the places (8 at least).
        most: usize,
        /// Silence after which a peer makes room for another; 4 s for a peer that is not proved.
        idle: Duration,
    },
}

impl Policy {
    pub(super) fn most(self) -> usize {
        match self {
            Policy::Single { .. } => 1,
            Policy::Many { most, .. } => most,
        }
    }
}

/// What an admission has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdmissionCounters {
    /// Associations begun.
    pub admitted: u64,
    /// Associations ended after silence, to make room.
    pub idle: u64,
    /// Datagrams of unknown sources that the validator replied to; no state is kept for them.
    pub answered: u64,
    /// Datagrams of unknown sources that begin no association.
    pub not_admitted: u64,
    /// Datagrams and connections for which there was no room.
    pub no_room: u64,
}

/// The admission of one listening wire.
pub(super) struct Admission {
    pub stack: Rc<dyn Stack>,
    pub validator: Box<dyn Validator>,
    pub policy: Policy,
    /// The association of a single peer.
    pub current: Option<AssociationId>,
    /// Associations that began here and are still there.
    here: usize,
    /// Those of them that are not proved.
    unproved: usize,
    /// Those of the unproved that were heard only once, the oldest first.
    once: BTreeSet<(Instant, AssociationId)>,
    /// Paths that were turned away not long ago, each at its number modulo [`TURNED_AWAY`].
    turned_away: Vec<Option<TurnedAway>>,
    pub replies: Replies,
    /// What begins the association accepted last, where that is a validator's output and not the datagram itself.
    pub block: Vec<u8>,
    /// Before this instant no peer can have been idle long enough to be removed.
    pub no_peer_idle_before: Instant,
    pub counters: AdmissionCounters,
}

/// What is decided about a datagram from an unknown source.
pub(super) enum Decision {
    Ignore,
    Answered,
    /// The datagram begins an association, by itself or by the block.
    Accept {
        with_block: bool,
        /// The peer has shown that it receives what is sent to its address.
        proved: bool,
    },
}

impl Admission {
    pub fn new(now: Instant, stack: Rc<dyn Stack>, policy: Policy) -> Self {
        Admission {
            validator: stack.validator(now),
            stack,
            policy,
            current: None,
            here: 0,
            unproved: 0,
            once: BTreeSet::new(),
            turned_away: vec![None; TURNED_AWAY],
            replies: Replies::default(),
            block: Vec::new(),
            no_peer_idle_before: Instant::ZERO,
            counters: AdmissionCounters::default(),
        }
    }

    /// Lets the validator examine a datagram. Without room for a reply the datagram is dropped, as on the wire; the
    /// peer repeats it.
    pub fn decide(&mut self, now: Instant, path: PathId, datagram: &[u8]) -> Decision {
        let Some(mut buffer) = self.replies.buffer() else { return Decision::Ignore };
        match self.validator.validate(now, path, datagram, &mut buffer) {
            Verdict::Reply { len } => {
                self.counters.answered += 1;
                self.replies.push(path, len, buffer);
                Decision::Answered
            }
            Verdict::AcceptWith { len } => {
                self.block.clear();
                self.block.extend_from_slice(&buffer[..len]);
                self.replies.give_back(buffer);
                Decision::Accept { with_block: true, proved: true }
            }
            Verdict::Accept => {
                self.replies.give_back(buffer);
                // A validator that replies accepts only peers to whom it has replied.
                Decision::Accept { with_block: false, proved: self.counters.answered > 0 }
            }
            Verdict::Ignore => {
                self.replies.give_back(buffer);
                Decision::Ignore
            }
        }
    }

    /// `path` is turned away: returns how often it was since `since` or a while before.
    pub fn turn_away(&mut self, now: Instant, path: PathId, since: Instant) -> u32 {
        let place = &mut self.turned_away[path.0 as usize % TURNED_AWAY];
        let known = place.filter(|known| known.path == path && known.first >= since);
        let first = known.map_or(now, |known| known.first);
        let times = known.map_or(0, |known| known.times).saturating_add(1);
        *place = Some(TurnedAway { path, first, times });
        times
    }

    /// Whether there is a place for one more connection that may have to wait.
    pub fn has_place_to_wait(&self) -> bool {
        self.unproved < MOST_WAITING
    }

    /// Whether there is a place for one more of many peers, proved or not.
    pub fn has_place(&self, proved: bool) -> bool {
        let most = self.policy.most();
        self.here < most && (proved || self.unproved < most_unproved(most))
    }

    /// The oldest of the unproved associations that were heard only once; connections are not counted as heard.
    pub fn oldest_heard_once(&self) -> Option<AssociationId> {
        self.once.first().map(|(_, id)| *id)
    }

    /// An association has begun at `began`, which may have to wait for the place of a single peer.
    pub fn add(&mut self, id: AssociationId, began: Instant, proved: bool, waits: bool) {
        self.counters.admitted += 1;
        self.here += 1;
        if !proved {
            self.unproved += 1;
            self.once.insert((began, id));
        }
        if let (Policy::Single { .. }, false) = (self.policy, waits) {
            self.current = Some(id);
        }
    }

    /// An association that began at `began` was heard again.
    pub fn heard_again(&mut self, id: AssociationId, began: Instant) {
        self.once.remove(&(began, id));
    }

    /// An unproved association that began at `began` is proved now.
    pub fn prove(&mut self, id: AssociationId, began: Instant) {
        self.once.remove(&(began, id));
        self.unproved -= 1;
    }

    /// An association is gone.
    pub fn remove(&mut self, id: AssociationId, began: Instant, proved: bool) {
        self.here -= 1;
        if !proved {
            self.prove(id, began);
        }
        if self.current == Some(id) {
            self.current = None;
            self.turned_away.fill(None);
        }
    }
}

/// A path whose datagrams were not taken.
#[derive(Clone, Copy, Debug)]
struct TurnedAway {
    path: PathId,
    first: Instant,
    times: u32,
}

/// The most associations that may be unproved: half of the places, 8 at least.
fn most_unproved(most: usize) -> usize {
    (most / 2).max(8).min(most)
}

/// The most connections that wait for the place of a single peer: at a hundred new ones a second each has 0.3 s to send its
/// first packet.
const MOST_WAITING: usize = 32;
/// Number of remembered paths that were turned away: as many as a flood of 48 000 datagrams a second has between two
/// packets of a stream of 5.3 ms, where a driver numbers addresses as they come.
const TURNED_AWAY: usize = 256;
