//! Counters balance in every element under all operations, and no packet is invented.

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_link::{
    Direction, Duplex, DuplexSpec, ETHERNET_10, ETHERNET_100, QueueLimit, Ring, RingClass, RingSpec,
    StationSpec, Switch,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Command {
    Offer(Direction, usize),
    /// Polls once without letting time pass.
    Poll,
    /// Lets time pass without polling.
    Advance(u64),
    /// Polls until nothing is due.
    Drain,
}

fn command() -> impl Strategy<Value = Command> {
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down)];
    prop_oneof![
        4 => (direction, 0usize..2000).prop_map(|(direction, len)| Command::Offer(direction, len)),
        2 => Just(Command::Poll),
        2 => (0u64..20_000).prop_map(Command::Advance),
        1 => Just(Command::Drain),
    ]
}

fn check(duplex: &Duplex<Vec<u8>>, delivered: [u64; 2]) -> Result<(), TestCaseError> {
    for (direction, delivered) in Direction::ALL.into_iter().zip(delivered) {
        let link = duplex.direction(direction);
        let total = link.counters();
        prop_assert!(total.balances(), "{:?}", total);
        prop_assert_eq!(total.delivered, delivered);
        let stages = link.stages();
        for (name, counters) in stages {
            prop_assert!(counters.balances(), "{}: {:?}", name, counters);
        }
        // Each element's output is the next one's input.
        for pair in stages.windows(2) {
            prop_assert_eq!(pair[0].1.delivered, pair[1].1.offered, "{} {}", pair[0].0, pair[1].0);
        }
        prop_assert_eq!(total.dropped(), stages.iter().map(|(_, counters)| counters.dropped()).sum::<u64>());
        let early = stages.iter().map(|(_, counters)| counters.dropped_early).sum::<u64>();
        prop_assert_eq!(total.dropped_early, early);
        prop_assert!(total.dropped_early <= total.overflowed);
        prop_assert_eq!(link.poll_timeout().is_none(), total.queued + total.in_flight == 0);
    }
    Ok(())
}

proptest! {
    #[test]
    fn counters_balance_under_any_commands(
        commands in prop::collection::vec(command(), 1..200),
        seed: u64,
        sender in prop::sample::select(vec![
            "queue=3000B",
            "queue=3000B,rate=2Mbit/s",
            "queue=3000B,rate=2Mbit/s/1800B",
            "queue=0packets,rate=2Mbit/s/5kB",
            "queue=red/1/3/50%,rate=2Mbit/s",
            "queue=red/1/3/50%/gentle,rate=2Mbit/s/1800B",
            "queue=drd/1/4,rate=2Mbit/s",
            "queue=drd/1/4",
        ]),
    ) {
        let place = if seed % 2 == 0 { "" } else { "/before-queue" };
        let mut text = format!("{sender},delay=2ms,jitter=2ms/pareto,stall=2ms/20ms,loss=20%/3{place}");
        text += ",reorder=20%/3ms,duplicate=20%,corrupt=20%";
        let spec: DuplexSpec = text.parse().expect("a possible link");
        let mut duplex = Duplex::new(&spec, seed).expect("a possible link");
        let (mut now, mut delivered) = (Instant::ZERO, [0u64; 2]);
        for command in commands {
            match command {
                Command::Offer(direction, len) => drop(duplex.offer(now, direction, vec![0; len])),
                Command::Advance(micros) => now += Duration::from_micros(micros),
                Command::Poll => {
                    if let Some((direction, _)) = duplex.poll(now) {
                        delivered[direction as usize] += 1;
                    }
                }
                Command::Drain => {
                    while let Some((direction, _)) = duplex.poll(now) {
                        delivered[direction as usize] += 1;
                    }
                    prop_assert!(duplex.poll_timeout().is_none_or(|due| due > now));
                }
            }
            check(&duplex, delivered)?;
        }
        while let Some(due) = duplex.poll_timeout() {
            while let Some((direction, _)) = duplex.poll(due) {
                delivered[direction as usize] += 1;
            }
        }
        check(&duplex, delivered)?;
    }
}

/// Destination, length, time since the last packet, and whether the link is polled before it.
type Offer = (usize, usize, u64, bool);

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec((0usize..4, 0usize..5000, 0u64..2000, any::<bool>()), 1..200)
}

proptest! {
    #[test]
    fn a_switch_keeps_account_of_every_packet(offers in offers()) {
        let rates = [ETHERNET_100, ETHERNET_10, ETHERNET_10];
        let mut switch = Switch::new(&rates, QueueLimit::Packets(3), Duration::from_micros(300), 1);
        let (mut now, mut sent, mut out) = (Instant::ZERO, [0u64; 4], [0u64; 4]);
        for (to, len, gap, polled) in offers {
            prop_assert_eq!(switch.offer(now, to, vec![0; len]).is_some(), to == 3);
            sent[to] += 1;
            now += Duration::from_micros(gap);
            while polled && let Some((at, port, _)) = switch.poll_at(now) {
                prop_assert!(at <= now);
                out[port] += 1;
            }
            for port in 0..3 {
                let counters = switch.counters(port).expect("a port");
                prop_assert!(counters.balances(), "{:?}", counters);
                prop_assert_eq!((counters.offered, counters.delivered), (sent[port], out[port]));
            }
        }
        prop_assert_eq!(switch.misdirected(), sent[3]);
        while let Some(due) = switch.poll_timeout() {
            while switch.poll_at(due).is_some() {}
        }
        prop_assert!((0..3).all(|port| switch.counters(port).expect("a port").queued == 0));
    }

    #[test]
    fn a_ring_keeps_account_of_every_frame(offers in offers(), limit in prop::option::of(1u32..4)) {
        let synchronous = Some(Duration::from_millis(1));
        let station = StationSpec { synchronous, frames_per_token: limit, queue: 5, ..StationSpec::default() };
        let spec = RingSpec { ttrt: Duration::from_millis(8), stations: vec![station; 4] };
        let mut ring = Ring::new(&spec).expect("a possible ring");
        let (mut now, mut last, mut taken, mut out) = (Instant::ZERO, Instant::ZERO, 0, 0);
        for (from, len, gap, polled) in offers {
            let class = if len % 2 == 0 { RingClass::Synchronous } else { RingClass::Asynchronous };
            taken += u64::from(ring.offer(now, from, class, vec![0; len]).is_none());
            now += Duration::from_micros(gap);
            while polled && let Some(sent) = ring.poll(now) {
                prop_assert!(sent.at <= now && sent.at > last, "one frame at a time");
                (last, out) = (sent.at, out + 1);
            }
            for from in 0..4 {
                let counters = ring.counters(from).expect("a station");
                prop_assert!(counters.balances(), "{:?}", counters);
            }
        }
        while let Some(due) = ring.poll_timeout() {
            while ring.poll(due).is_some() {
                out += 1;
            }
        }
        prop_assert_eq!(out, taken);
        prop_assert_eq!((0..4).map(|from| ring.counters(from).expect("a station").delivered).sum::<u64>(), out);
    }
}
