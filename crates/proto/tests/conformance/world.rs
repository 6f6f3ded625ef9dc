//! Two endpoints and a wire with impairments between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{BrokenReason, CloseMode, Input, Instant, PathId, Rng, Role};
use antiphon_link::Direction;
use antiphon_testkit::{Party, Served, datagram, message, numbers_in};

pub use crate::common::MAX_DATAGRAM;
use crate::common::endpoint;

/// A caller and a listener.
pub type World = antiphon_testkit::World<Served<Party>, Served<Party>>;

/// Delay of everything on the wire.
pub const ONE_WAY: Duration = Duration::from_millis(10);

/// Impairments of datagrams; byte streams are only cut into pieces.
#[derive(Clone, Copy, Default)]
pub struct Impairments {
    pub loss: f64,
    pub duplication: f64,
    pub reordering: f64,
    /// The wire accepts nothing before this instant, like a full socket.
    pub stalled_until: Option<Instant>,
}

/// A world for `scheme`, which may carry a query: `name?key=value`.
pub fn open(scheme: &str, impairments: Impairments, seed: u64) -> World {
    let end = |role, seed| Served::new(Party::new(endpoint(scheme, role, seed)));
    let (near, far) = (end(Role::Caller, seed), end(Role::Listener, seed ^ 1));
    let mut world = if near.is_byte_stream() {
        let mut world = World::piped(near, far, ONE_WAY, 1 << 20);
        world.pipe().pieces = Some((Rng::fork(seed, "weather"), 700));
        world
    } else {
        let Impairments { loss, duplication, reordering, .. } = impairments;
        let impaired = format!(
            "{LINK},loss={}%,duplicate={}%,reorder={}%/{}ms",
            100.0 * loss,
            100.0 * duplication,
            100.0 * reordering,
            ONE_WAY.as_millis()
        );
        World::linked(near, far, &impaired, seed)
    };
    for trouble in [&mut world.up, &mut world.down] {
        trouble.full_until = impairments.stalled_until;
    }
    world.near_path = PathId(0);
    world
}

/// When each of the caller's datagrams with the beginning of a message was sent.
pub type Departures = Rc<RefCell<BTreeMap<u32, Vec<Instant>>>>;

/// Loses the first transmissions of these messages; records when the caller's messages are sent.
pub fn lose(world: &mut World, numbers: BTreeSet<u32>) -> Departures {
    let departures = Departures::default();
    let noted = departures.clone();
    world.leaves = Some(Box::new(move |leaving| {
        if leaving.direction == Direction::Down {
            return true;
        }
        let mut lost = false;
        for number in numbers_in(leaving.bytes) {
            let mut noted = noted.borrow_mut();
            let times = noted.entry(number).or_default();
            lost |= times.is_empty() && numbers.contains(&number);
            times.push(leaving.at);
        }
        !lost
    }));
    departures
}

/// Queues messages of the caller's with these numbers, without deadlines.
pub fn queue(world: &mut World, numbers: Range<u32>, len: usize) {
    for n in numbers {
        world.near.send(world.now, &message(n, len), None).unwrap();
    }
}

/// Closes both ends.
pub fn close(world: &mut World, mode: CloseMode) {
    world.near.endpoint.close(world.now, mode);
    world.far.endpoint.close(world.now, mode);
}

/// Breaks the path: packets in flight are lost, and both sides are told.
pub fn break_path(world: &mut World) {
    if world.near.is_byte_stream() {
        return world.break_pipe();
    }
    world.relink(&[LINK], 1);
    for side in [&mut world.near, &mut world.far] {
        side.endpoint.handle_input(world.now, Input::Broken(BrokenReason::Refused));
    }
}

/// Restores the path; the driver of a byte stream has connected again.
pub fn mend_path(world: &mut World) {
    if world.near.is_byte_stream() {
        world.connect();
    }
}

/// Lets the caller write into `room` bytes and delivers them at once; returns their number.
pub fn transmit_by_hand(world: &mut World, room: usize) -> usize {
    let mut buf = vec![0; room];
    let Some(transmit) = world.near.endpoint.poll_transmit(world.now, &mut buf) else { return 0 };
    let stream = world.near.is_byte_stream();
    world.far.endpoint.handle_input(world.now, input(&mut buf[..transmit.len], stream, world.now));
    transmit.len
}

/// The bytes as an input from the driver of such a wire.
pub fn input(bytes: &mut [u8], stream: bool, now: Instant) -> Input<'_> {
    if stream { Input::Stream { bytes, received_at: now } } else { datagram(bytes, PathId::default(), now) }
}

/// A link without impairments.
const LINK: &str = "delay=10ms";
