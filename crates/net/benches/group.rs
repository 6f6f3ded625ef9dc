//! Cost of a reliable multicast at its sender: the time that it spends on packets to the group and on its members' reports, as a share of
//! a processor core, and what its members lack. In virtual time, so that a thousand members need no machine; only the sender's own calls are timed.
//!
//! Prints one JSON object a line. Without arguments: 10, 100 and 1000 members at 2 % loss. With: `-- MEMBERS LOSS_PERCENT SECONDS`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use antiphon_core::uri::Query;
use antiphon_core::{Endpoint, Input, Instant, Message, PathId, Rng, Role, Tag, handle_due};
use antiphon_net::OsClock;
use antiphon_proto::StackArgs;

/// A packet of stereo sound: 5 ms of 16 bits at 48 kHz.
const LEN: usize = 960;
const BETWEEN_PACKETS: Duration = Duration::from_millis(5);
const PLAYOUT_DELAY: Duration = Duration::from_millis(80);
/// To each member and back.
const ONE_WAY: Duration = Duration::from_millis(10);
const STEP: Duration = Duration::from_millis(1);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let [members, loss, seconds] = &args[..] {
        let number = |text: &str| text.parse::<f64>().expect("MEMBERS LOSS_PERCENT SECONDS");
        return run(number(members) as usize, number(loss) / 100.0, number(seconds) as u64);
    }
    for members in [10, 100, 1000] {
        run(members, 0.02, 10);
    }
}

fn endpoint(role: Role, seed: u64, now: Instant) -> Box<dyn Endpoint> {
    let query: Query = "members=0".parse().expect("a query");
    let args = StackArgs { group: true, ..StackArgs::new(&query, seed, 1452, PLAYOUT_DELAY) };
    antiphon_proto::stack("xtp", &args).expect("the settings are there").open(now, role)
}

/// On its way: when it arrives, at which member or at the sender from which one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    at: Instant,
    number: u64,
    to_member: bool,
    member: usize,
    bytes: Vec<u8>,
}

struct World {
    clock: OsClock,
    sender: Box<dyn Endpoint>,
    members: Vec<Box<dyn Endpoint>>,
    rng: Rng,
    loss: f64,
    way: BinaryHeap<Reverse<Packet>>,
    number: u64,
    /// What the sender's calls took.
    spent: Duration,
    to_group: [u64; 2],
    from_members: [u64; 2],
    delivered: u64,
    buf: Vec<u8>,
}

impl World {
    fn put(&mut self, at: Instant, to_member: bool, member: usize, bytes: Vec<u8>) {
        if !self.rng.chance(self.loss) {
            self.number += 1;
            self.way.push(Reverse(Packet { at, number: self.number, to_member, member, bytes }));
        }
    }

    fn timed<R>(&mut self, call: impl FnOnce(&mut dyn Endpoint, &mut [u8]) -> R) -> R {
        let began = self.clock.now();
        let result = call(&mut *self.sender, &mut self.buf);
        self.spent += self.clock.now().since(began);
        result
    }

    fn step(&mut self, now: Instant, sound: bool) {
        while self.way.peek().is_some_and(|Reverse(packet)| packet.at <= now) {
            let Some(Reverse(mut packet)) = self.way.pop() else { break };
            let input = |path, bytes| Input::Datagram { path, bytes, received_at: now };
            if packet.to_member {
                self.members[packet.member].handle_input(now, input(PathId(0), &mut packet.bytes));
            } else {
                let path = PathId(packet.member as u32 + 1);
                self.timed(|sender, _| sender.handle_input(now, input(path, &mut packet.bytes)));
            }
        }
        if sound {
            let message = Message::new(Tag::NONE, &[7; LEN], Some(now + PLAYOUT_DELAY));
            self.timed(|sender, _| sender.send(now, message)).expect("room");
        }
        self.timed(|sender, _| handle_due(sender, now));
        while let Some(sent) = self.timed(|sender, buf| sender.poll_transmit(now, buf)) {
            let bytes = self.buf[..sent.len].to_vec();
            if sent.path == PathId(0) {
                self.to_group = [self.to_group[0] + 1, self.to_group[1] + sent.len as u64];
                for member in 0..self.members.len() {
                    self.put(now + ONE_WAY, true, member, bytes.clone());
                }
            } else {
                self.put(now + ONE_WAY, true, sent.path.0 as usize - 1, bytes);
            }
        }
        while self.timed(|sender, _| sender.poll_event()).is_some() {}
        while self.timed(|sender, buf| sender.poll_message(buf)).is_some() {}
        for at in 0..self.members.len() {
            handle_due(&mut *self.members[at], now);
            while let Some(sent) = self.members[at].poll_transmit(now, &mut self.buf) {
                let bytes = self.buf[..sent.len].to_vec();
                self.from_members = [self.from_members[0] + 1, self.from_members[1] + sent.len as u64];
                self.put(now + ONE_WAY, false, at, bytes);
            }
            while self.members[at].poll_message(&mut self.buf).is_some() {
                self.delivered += 1;
            }
            while self.members[at].poll_event().is_some() {}
        }
    }
}

fn run(members: usize, loss: f64, seconds: u64) {
    let mut now = Instant::from_millis(1);
    let open = |seed| endpoint(Role::Listener, seed + 1, now);
    let mut world = World {
        clock: OsClock::new(),
        sender: endpoint(Role::Caller, 0, now),
        members: (0..members as u64).map(open).collect(),
        rng: Rng::new(3),
        loss,
        way: BinaryHeap::new(),
        number: 0,
        spent: Duration::ZERO,
        to_group: [0; 2],
        from_members: [0; 2],
        delivered: 0,
        buf: vec![0; 2048],
    };
    let every = (BETWEEN_PACKETS.as_millis() / STEP.as_millis()) as u64;
    // All join, and the sender learns how fast the sound is.
    for step in 0..5_000 {
        now += STEP;
        world.step(now, step % every == 0);
    }
    (world.spent, world.to_group, world.from_members, world.delivered) = (Duration::ZERO, [0; 2], [0; 2], 0);
    for step in 0..seconds * 1000 {
        now += STEP;
        world.step(now, step % every == 0);
    }
    let sound = seconds * 1000 / every;
    let whole = (sound * members as u64) as f64;
    println!(
        "{{\"bench\":\"group\",\"members\":{members},\"loss_percent\":{},\"sender_core_share\":{:.4},\"sender_us_per_packet_or_report\":{:.2},\
         \"packets_to_group\":{},\"kbit_per_s_to_group\":{:.0},\"reports\":{},\"kbit_per_s_of_reports\":{:.0},\"missing_percent\":{:.3}}}",
        loss * 100.0,
        world.spent.as_secs_f64() / seconds as f64,
        world.spent.as_secs_f64() * 1e6 / (world.to_group[0] + world.from_members[0]) as f64,
        world.to_group[0],
        world.to_group[1] as f64 * 0.008 / seconds as f64,
        world.from_members[0],
        world.from_members[1] as f64 * 0.008 / seconds as f64,
        (1.0 - world.delivered as f64 / whole) * 100.0,
    );
}
