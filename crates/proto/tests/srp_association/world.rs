//! Two endpoints on a path of 10 ms in each direction with given losses.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use antiphon_core::{Endpoint, Instant, Message, PathId, Role, Tag};
use antiphon_link::Direction;
use antiphon_proto::srp::wire::extended::Extended;
use antiphon_proto::srp::{Mode, Settings, SrpEndpoint};
use antiphon_testkit::{Parties, Party, World, datagram};

const LATENCY: Duration = Duration::from_millis(100);

pub struct Pair {
    pub world: World<Parties, Parties>,
    path: Rc<Path>,
}

#[derive(Default)]
struct Path {
    /// How many of the first side's next datagrams are lost.
    lose: Cell<usize>,
    /// Added to the times in the first side's messages, as if its clock had been changed.
    warp: Cell<u32>,
}

impl Path {
    /// Whether a datagram of the first side arrives.
    fn carries(&self, bytes: &mut [u8]) -> bool {
        if bytes[3] & 0x0f == 1 {
            let time = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            bytes[4..8].copy_from_slice(&time.wrapping_add(self.warp.get()).to_be_bytes());
        }
        self.lose.replace(self.lose.get().saturating_sub(1)) == 0
    }
}

pub fn open(mode: Mode, role: Role, seed: u64, now: Instant) -> Box<dyn Endpoint> {
    Box::new(SrpEndpoint::new(&Settings::new(mode, LATENCY), role, 1472, seed, now))
}

/// Epoch and first id of an endpoint that was opened with this seed: for forgers who see its packets.
pub fn identity(seed: u64) -> (u32, u32) {
    let mut twin = open(Mode::Improved, Role::Caller, seed, Instant::ZERO);
    twin.send(Instant::ZERO, Message::new(Tag(0), b"x", None)).expect("room");
    let mut buf = [0; 1472];
    let sent = twin.poll_transmit(Instant::ZERO, &mut buf).expect("a packet");
    let Ok(Extended::Data(part)) = Extended::parse(&buf[..sent.len]) else { panic!("no data") };
    (part.epoch, part.id)
}

impl Pair {
    pub fn new(mode: Mode) -> Self {
        let end = |role| [Party::new(open(mode, role, 1, Instant::ZERO))];
        let mut world = World::side_by_side(end(Role::Caller), end(Role::Listener), &["delay=10ms"], 1);
        (world.now, world.most) = (Instant::ZERO, 65_535);
        let path = Rc::new(Path::default());
        let carrier = path.clone();
        world.leaves = Some(Box::new(move |leaving| {
            leaving.direction == Direction::Down || carrier.carries(leaving.bytes)
        }));
        Pair { world, path }
    }

    /// Loses the next `count` datagrams of the first side.
    pub fn lose(&self, count: usize) {
        self.path.lose.set(count);
    }

    /// Advances the first side's clock by `micros`.
    pub fn warp(&self, micros: u32) {
        self.path.warp.set(self.path.warp.get().wrapping_add(micros));
    }

    pub fn side(&mut self, at: usize) -> &mut Party {
        if at == 0 { &mut self.world.near[0] } else { &mut self.world.far[0] }
    }

    /// Messages received by the second side.
    pub fn got(&self) -> Vec<&[u8]> {
        self.world.far[0].contents()
    }

    /// Bytes that each side sent.
    pub fn sent(&self) -> [u64; 2] {
        [self.world.up.bytes, self.world.down.bytes]
    }

    pub fn send(&mut self, from: usize, message: &[u8]) {
        let now = self.world.now;
        // Half a second, longer than any wait in these tests.
        self.side(from).send(now, message, Some(now + Duration::from_millis(500))).expect("accepted");
    }

    pub fn inject(&mut self, to: usize, packet: &[u8]) {
        let now = self.world.now;
        hear(&mut *self.side(to).endpoint, now, packet);
    }

    pub fn run(&mut self, time: Duration) {
        self.world.run_until(self.world.now + time);
    }

    /// Sends a message every 20 ms, in one or both directions.
    pub fn stream(&mut self, count: u8, both_ways: bool) {
        for n in 0..count {
            self.send(0, &[n; 200]);
            if both_ways {
                self.send(1, &[n; 200]);
            }
            self.run(Duration::from_millis(20));
        }
    }
}

pub fn hear(side: &mut dyn Endpoint, now: Instant, bytes: &[u8]) {
    side.handle_input(now, datagram(&mut bytes.to_vec(), PathId::default(), now));
}
