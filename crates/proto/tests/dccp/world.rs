//! Connections of `dccp://` over one modelled link, in virtual time.

use std::cell::{Ref, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Endpoint, Input, Instant, Outcome, PathId, Role};
use antiphon_link::Direction;
use antiphon_proto::dccp::Checksum;
use antiphon_proto::dccp::wire::{DccpOption, Packet};
use antiphon_testkit::{Crossing, Leaving, Parties, Party, Shape, Talk};

/// Messages of so many bytes, one in every interval, useless when older than the budget.
pub fn paced(starts: Instant, len: usize, every: Duration, budget: Duration) -> Talk {
    Talk::paced(starts, every, u64::MAX, move |_, _| Shape::new(len, Some(budget)))
}

/// The same, but no larger than the endpoint takes at that moment.
pub fn fitting(starts: Instant, len: usize, every: Duration, budget: Duration) -> Talk {
    Talk::paced(starts, every, u64::MAX, move |_, now| Shape::new(len.min(now.max_message), Some(budget)))
}

/// A datagram that set out.
#[derive(Clone, Copy)]
pub struct Sent {
    pub at: Instant,
    pub from: Direction,
    pub len: usize,
    /// Its type (RFC 4340 §5.1).
    pub kind: u8,
    /// Whether it says how many without data came before: an NDP Count.
    pub counts: bool,
}

/// Connections, data going up.
pub struct World {
    world: antiphon_testkit::World<Parties, Parties>,
    log: Rc<RefCell<Vec<Sent>>>,
}

impl Deref for World {
    type Target = antiphon_testkit::World<Parties, Parties>;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.world
    }
}

pub fn endpoint(query: &str, role: Role, seed: u64) -> Box<dyn Endpoint> {
    crate::common::endpoint(&format!("dccp?{query}"), role, seed)
}

pub fn datagram(bytes: &mut [u8], now: Instant) -> Input<'_> {
    antiphon_testkit::datagram(bytes, PathId::default(), now)
}

impl World {
    /// One connection.
    pub fn new(link: &str, query: &str, talk: Talk, seed: u64) -> Self {
        World::shared(link, [(query, talk, seed)], seed)
    }

    /// Several, each with what its caller sends and a seed.
    pub fn shared<'a>(link: &str, flows: impl IntoIterator<Item = (&'a str, Talk, u64)>, seed: u64) -> Self {
        let end = |query, role, seed| Party::new(endpoint(query, role, seed)).keeping(8);
        let pair = |(query, talk, seed)| {
            (end(query, Role::Caller, seed).talking(talk), end(query, Role::Listener, seed + 1000))
        };
        let (near, far): (Vec<Party>, Vec<Party>) = flows.into_iter().map(pair).unzip();
        let mut world = antiphon_testkit::World::side_by_side(near, far, &[link], seed);
        (world.now, world.headers) = (Instant::ZERO, IP_UDP);
        let log = world.log(Sent::new);
        World { world, log }
    }

    pub fn log(&self) -> Ref<'_, Vec<Sent>> {
        self.log.borrow()
    }

    /// Syncs get no answer.
    pub fn mute(&mut self) {
        for trouble in [&mut self.world.up, &mut self.world.down] {
            trouble.taken = Some(Box::new(|_, bytes| kind(bytes) == SYNC_ACK));
        }
    }

    /// The messages that arrived; none was refused.
    pub fn arrivals(&self) -> Vec<Crossing> {
        self.assert_none_refused(0);
        self.far[0].crossings(&self.near[0])
    }

    /// Messages of a connection that arrived in a time; none was refused.
    pub fn arrived(&self, n: usize, from: Instant, until: Instant) -> usize {
        self.assert_none_refused(n);
        self.far[n].messages.iter().filter(|came| from <= came.at && came.at < until).count()
    }

    fn assert_none_refused(&self, n: usize) {
        assert_eq!(self.near[n].refused, [], "a queue that is drained takes all");
    }

    /// The largest message that the caller takes now.
    pub fn max_message(&self) -> usize {
        self.near[0].endpoint.profile().max_message
    }

    /// Messages that were given up before they were sent, and not for their deadline.
    pub fn aborted(&self) -> usize {
        self.near[0].count_outcomes(|outcome| *outcome == Outcome::Aborted)
    }
}

impl Sent {
    fn new(leaving: &Leaving<'_>) -> Self {
        let packet = Packet::parse(leaving.bytes, Checksum::Udp).expect("a packet");
        let counts = packet.options().any(|option| matches!(option.read(), DccpOption::NdpCount(_)));
        let (len, kind) = (leaving.bytes.len(), kind(leaving.bytes));
        Sent { at: leaving.at, from: leaving.direction, len, kind, counts }
    }
}

/// Position of the type in the generic header (RFC 4340 §5.1).
fn kind(bytes: &[u8]) -> u8 {
    bytes[8] >> 1 & 0x0f
}

/// Packet types (RFC 4340 §5.1).
pub const SYNC: u8 = 8;
pub const SYNC_ACK: u8 = 9;
/// IP and UDP headers, which count on the link (RFC 791, RFC 768).
pub const IP_UDP: usize = 28;
