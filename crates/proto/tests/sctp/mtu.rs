//! Paths that carry less than the driver says, from the start or from some time on, without reporting it.

use std::ops::Range;
use std::time::Duration;

use antiphon_core::{Endpoint, Instant};
use antiphon_testkit::Crossing;

use crate::common::ends::{packets, say};
use crate::common::hear;
use crate::hostile::{NOW, connected, packet_with, repaired};
use crate::world::{Flow, Plan, run};

/// The largest packet that passes: the IPv6 minimum, as in a tunnel.
const TUNNEL: usize = 1280;
/// The search ends this close to a size that fails; packets are built in words of 4 bytes.
const NEAR: Range<usize> = TUNNEL - 8..TUNNEL + 1;
const EVER: Instant = Instant::from_millis(1_000_000_000);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Messages of 1400 bytes, one every 5 ms.
fn stream(query: &str, tunnel: Range<Instant>, budget: Option<u64>, ends: u64) -> Flow {
    let plan = Plan {
        query,
        messages: (ends - 1000) / 5,
        budget: budget.map(Duration::from_millis),
        len: 1400,
        ends: at(ends),
        tunnel: (tunnel, TUNNEL),
        ..Plan::PLAIN
    };
    run(&plan).pop().unwrap()
}

/// The longest packet with payload sent in this time.
fn longest(flow: &Flow, when: Range<Instant>) -> usize {
    let payload = flow.packets.iter().filter(|(sent, _, probe)| when.contains(sent) && !probe);
    payload.map(|(_, len, _)| *len).max().expect("packets")
}

/// Per second, the longest packet with payload; the shortest of these over several seconds.
fn shortest(flow: &Flow) -> usize {
    (4..19).map(|second| longest(flow, at(second * 1000)..at(second * 1000 + 1000))).min().expect("seconds")
}

/// How many of the messages handed in during this time arrived.
fn came(flow: &Flow, when: Range<Instant>) -> (usize, Duration) {
    let arrivals = flow.arrivals.iter().filter(|crossing| when.contains(&crossing.sent));
    let ages = arrivals.map(Crossing::age);
    ages.fold((0, Duration::ZERO), |(count, oldest), age| (count + 1, oldest.max(age)))
}

#[test]
fn messages_go_on_within_a_second_of_a_path_becoming_smaller() {
    for (query, budget) in
        [("", Some(80)), ("", Some(200)), ("reliability=full", None), ("retransmissions=1", None)]
    {
        for change in [0, 3000] {
            let flow = stream(query, at(change)..EVER, budget, 20_000);
            // Messages begin at half a second.
            let begins = at(change.max(500));
            let first =
                flow.arrivals.iter().map(|crossing| crossing.came).find(|came| *came > begins + MOMENT);
            let silence = first.expect("goes on").since(begins);
            println!(
                "{query} {budget:?} from {change} ms: silence of {silence:?}, {} messages of {}, {} bytes",
                flow.arrivals.len(),
                flow.outcomes.len(),
                longest(&flow, at(17_000)..EVER)
            );
            assert!(silence <= Duration::from_millis(1000), "{query} {budget:?}: {silence:?}");
            let (count, oldest) = came(&flow, at(6000)..at(18_000));
            assert_eq!(count, 2400, "{query} {budget:?}: all of them, in two pieces each");
            assert!(oldest <= Duration::from_millis(80), "{query} {budget:?}: {oldest:?}");
            assert!(NEAR.contains(&longest(&flow, at(17_000)..EVER)));
            assert!(!flow.closed && flow.outcomes.len() > 3750, "those before are told of as well");
        }
    }
}

/// Messages in flight before a change arrive after it.
const MOMENT: Duration = Duration::from_millis(45);

#[test]
fn too_large_packets_under_way_are_not_waited_for() {
    let change = at(3000);
    let flow = stream("reliability=full", change..EVER, None, 6000);
    let after = |wanted: bool| {
        let packets = flow.packets.iter().filter(move |(sent, len, probe)| {
            *sent > change && *probe == wanted && (1000..1400).contains(len)
        });
        packets.map(|(sent, ..)| *sent).next().expect("goes on")
    };
    // The first probe of a smaller size shows when the path was reduced to it. If the association were not told, full
    // packets in flight would hold the window until their time-out, at least 70 ms later.
    assert_eq!(after(false), after(true), "smaller packets with payload set out with the search");
    let first = flow.arrivals.iter().map(|crossing| crossing.came).find(|came| *came > change + MOMENT);
    let silence = first.expect("goes on").since(change);
    // Three probes of 70 ms each, after three losses: 335 ms here, 445 ms with a time-out.
    assert!(silence <= Duration::from_millis(350), "{silence:?}");
}

#[test]
fn a_path_that_is_whole_again_is_used_as_far_as_it_takes() {
    let flow = stream("", at(0)..at(20_000), Some(80), 640_000);
    assert!(NEAR.contains(&longest(&flow, at(17_000)..at(600_000))));
    // The raise timer is ten minutes; messages of 1400 bytes make packets of 1428.
    assert_eq!(longest(&flow, at(620_000)..at(640_000)), 1428);
}

#[test]
fn a_good_path_is_probed_once_whatever_is_lost() {
    let probes = |plan: &Plan<'_>| {
        let flow = run(plan).pop().unwrap();
        let probes = flow.packets.iter().filter(|(_, len, probe)| *probe && *len > 1000);
        (probes.count(), shortest(&flow))
    };
    let plan = Plan { len: 1400, messages: 3800, budget: Some(Duration::from_millis(80)), ..Plan::PLAIN };
    assert_eq!(probes(&plan), (1, 1428));
    let (count, len) = probes(&Plan { outage: at(5000)..at(12_000), ..plan.clone() });
    assert!(count < 20 && len >= 1428, "an outage: {count}, {len}");
    for seed in 1..6 {
        let (count, len) = probes(&Plan { link: "delay=20ms,loss=10%", seed, ..plan.clone() });
        println!("10 % loss: {count} probes, {len} bytes");
        assert!(count < 30 && len >= 1428, "losses: {count}, {len}");
    }
    let greedy = Plan { query: "reliability=full", interval: None, budget: None, messages: u64::MAX, ..plan };
    let (count, len) = probes(&Plan { link: "rate=10Mbit/s,queue=64packets,delay=20ms", ..greedy });
    println!("congestion: {count} probes");
    assert!(count < 20 && len >= 1428, "congestion: {count}, {len}");
}

#[test]
fn answers_to_no_probe_are_counted_and_change_nothing() {
    let (mut caller, mut listener) = connected();
    let silent = |endpoint: &mut dyn Endpoint, millis: u64| {
        let now = NOW + Duration::from_millis(millis);
        endpoint.handle_timeout(now);
        packets(endpoint, now)
    };
    packet_with(&mut *caller, &[0x80; 100]);
    // The listener's answers stop at the size of heartbeats: the caller reduces its size to 1200 bytes.
    let (mut last, mut probe) = (Vec::new(), Vec::new());
    for step in 0..400 {
        let now = NOW + Duration::from_millis(5 * step);
        for packet in silent(&mut *caller, 5 * step) {
            if packet.len() <= 1200 {
                hear(&mut *listener, now, &packet);
            } else {
                probe = packet;
            }
        }
        for packet in packets(&mut *listener, now) {
            if packet[12] == HEARTBEAT_ACK {
                last = packet.clone();
            }
            hear(&mut *caller, now, &packet);
        }
    }
    assert_eq!((probe[12], last[12]), (4, HEARTBEAT_ACK), "a probe is under way");
    let now = NOW + Duration::from_millis(2001);
    let before = caller.stats().counters.malformed;
    // The right size with a wrong number.
    let mut forged = last;
    forged[28..32].copy_from_slice(&1452u32.to_be_bytes());
    hear(&mut *caller, now, &repaired(forged.clone()));
    // A wrong size with the right number.
    forged[20..28].copy_from_slice(&probe[20..28]);
    hear(&mut *caller, now, &repaired(forged));
    assert_eq!(caller.stats().counters.malformed, before + 2);
    say(&mut *caller, now, &[0x80; 1400]);
    let sizes: Vec<usize> = packets(&mut *caller, now).iter().map(Vec::len).collect();
    assert!(sizes.len() >= 2 && sizes.iter().all(|len| *len <= 1200), "{sizes:?}");
}

const HEARTBEAT_ACK: u8 = 5;
