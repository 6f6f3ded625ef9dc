use antiphon_core::Rng;

use super::*;

const PACKETS: QueueLimit = QueueLimit::Packets(100);
/// UDP and IPv4.
const HEADERS: usize = 28;

fn port(rate: BitRate) -> Port<Vec<u8>> {
    Port::new(rate, PACKETS, 1)
}

/// When a packet that is sent at once has been sent.
fn alone(rate: BitRate, payload: usize) -> u64 {
    let mut port = port(rate);
    assert!(port.offer(Instant::ZERO, vec![0; payload + HEADERS]).is_none());
    port.poll_timeout().expect("one on the way").as_nanos()
}

#[test]
fn frames_take_what_the_standard_says() {
    // 1300 bytes of UDP: 1354 bytes with preamble. Leaving out preamble, FCS or header is 0.3 to 1 %; exact here.
    assert_eq!(frame_len(1300 + HEADERS), 1354);
    assert_eq!(
        [ETHERNET_10, ETHERNET_100, ETHERNET_1000].map(|rate| alone(rate, 1300)),
        [1_083_200, 108_320, 10_832]
    );
    // A block of Medusa: 960 bytes of UDP, 1014 on the wire: 81.1 µs at 100 Mbit/s.
    assert_eq!(alone(ETHERNET_100, 960), 81_120);
    // The shortest frame: 64 bytes and preamble, up to 18 bytes of UDP payload.
    assert_eq!([0, 18, 19].map(|payload| frame_len(payload + HEADERS)), [72, 72, 73]);
    assert_eq!(frame_len(usize::MAX), usize::MAX);
}

#[test]
fn a_gap_parts_frames_but_delays_none() {
    let mut port = port(ETHERNET_100);
    for _ in 0..4 {
        assert!(port.offer(Instant::ZERO, vec![0; 960 + HEADERS]).is_none());
    }
    // 1014 + 12 bytes from frame to frame: 82.08 µs.
    for n in 0..4 {
        let due = port.poll_timeout().expect("more");
        assert_eq!(due, Instant::from_nanos(81_120 + n * 82_080));
        assert!(port.poll_at(due).is_some());
    }
    // A frame that comes within the gap of the last waits for its end; one that comes later does not.
    let free = 4 * 82_080;
    for (offered, through) in [(free - 500, free + 81_120), (free + 90_000, free + 90_000 + 81_120)] {
        port.offer(Instant::from_nanos(offered), vec![0; 960 + HEADERS]);
        assert_eq!(port.poll_timeout(), Some(Instant::from_nanos(through)));
        assert!(port.poll_at(Instant::from_nanos(through)).is_some());
    }
    // The counters are those of frames.
    assert_eq!(port.counters().delivered_bytes, 6 * 1014);
}

#[test]
fn full_frames_fill_the_wire_as_far_as_overhead_allows() {
    // UDP payload per second in full frames: 1472/(1500 + 18 + 8 + 12) = 95.7 % of the rate, in the shortest 18/84 =
    // 21.4 %. Without the gap it would be 96.5 % and 25 %.
    for (payload, share) in [(1472, 1472.0 / 1538.0), (18, 18.0 / 84.0)] {
        let mut port = port(ETHERNET_1000);
        let (mut now, mut through) = (Instant::ZERO, 0u64);
        while now < Instant::from_millis(100) {
            while port.counters().queued < 50 {
                assert!(port.offer(now, vec![0; payload + HEADERS]).is_none());
            }
            now = port.poll_timeout().expect("it is never empty");
            through += u64::from(port.poll_at(now).is_some()) * payload as u64;
        }
        let rate = through as f64 * 8.0 / 0.1 / 1e9;
        // One frame more or less is at most 0.012 %.
        assert!((rate / share - 1.0).abs() < 2e-4, "{payload}: {rate}, not {share}");
    }
}

/// One packet through port, switch (a latency of `micros`) and back the same way: the round trip in nanoseconds.
fn round_trip(payload: usize, rate: BitRate, hops: usize, micros: u64) -> u64 {
    let mut now = Instant::ZERO;
    let mut packet = vec![0; payload + HEADERS];
    for to in [1, 0] {
        let mut host = port(rate);
        assert!(host.offer(now, packet).is_none());
        (now, packet) = host.poll_at(Instant::from_millis(1000)).expect("it is through");
        for _ in 0..hops {
            let mut switch = Switch::new(&[rate, rate], PACKETS, Duration::from_micros(micros), 1);
            assert!(switch.offer(now, to, packet).is_none());
            let (at, port, through) = switch.poll_at(Instant::from_millis(1000)).expect("it is through");
            assert_eq!(port, to);
            (now, packet) = (at, through);
        }
    }
    now.as_nanos()
}

#[test]
fn a_switch_adds_a_frame_time_and_its_latency_each_way() {
    // Crossover against switch, 960 bytes at 100 Mbit/s: + 2 × 81.12 µs = 0.162 ms (the paper: + 0.16 ms). A switch that
    // cut through would add nothing.
    let crossover = round_trip(960, ETHERNET_100, 0, 0);
    assert_eq!(crossover, 162_240);
    assert_eq!(round_trip(960, ETHERNET_100, 1, 0) - crossover, 162_240);
    assert_eq!(round_trip(960, ETHERNET_100, 1, 10) - crossover, 162_240 + 20_000);
    assert_eq!(round_trip(1300, ETHERNET_1000, 2, 5), 6 * 10_832 + 4 * 5_000);
}

#[test]
fn outputs_queue_apart_and_two_inputs_share_one() {
    let mut switch = Switch::new(&[ETHERNET_100, ETHERNET_100, ETHERNET_10], PACKETS, Duration::ZERO, 1);
    // Two inputs send full frames to port 0, 1 to port 1; all in at once.
    let full = || vec![0u8; 1500];
    for to in [0, 0, 1, 2] {
        assert!(switch.offer(Instant::ZERO, to, full()).is_none());
    }
    let mut out = Vec::new();
    while let Some(due) = switch.poll_timeout() {
        while let Some((at, port, _)) = switch.poll_at(due) {
            out.push((at.as_nanos(), port));
        }
    }
    // 1526 bytes are 122.08 µs; the second at port 0 waits for the first and the gap of 0.96 µs.
    assert_eq!(out, [(122_080, 0), (122_080, 1), (245_120, 0), (1_220_800, 2)]);
    assert_eq!(switch.offer(Instant::from_millis(9), 3, full()), Some(full()));
    assert_eq!((switch.misdirected(), switch.counters(3)), (1, None));
}

#[test]
fn a_switch_that_is_polled_late_keeps_its_own_time() {
    let mut switch = Switch::new(&[ETHERNET_100; 2], PACKETS, Duration::from_micros(10), 1);
    for at in [0, 5_000_000] {
        assert!(switch.offer(Instant::from_nanos(at), 1, vec![0; 1500]).is_none());
    }
    // The fabric takes 10 µs, then 122.08 µs; what came 5 ms later has not delayed what came before.
    for through in [132_080, 5_132_080] {
        let out = switch.poll_at(Instant::from_millis(900)).expect("it is through");
        assert_eq!((out.0, out.1), (Instant::from_nanos(through), 1));
    }
}

#[test]
fn two_poisson_inputs_wait_as_pollaczek_khinchine_say() {
    // M/D/1 at ρ = 0.8 at the output: S = 123.04 µs from frame to frame, mean wait S ρ/(2 (1-ρ)) = 2 S.
    let service = 123_040.0;
    let mut switch =
        Switch::new(&[ETHERNET_100; 3], QueueLimit::Packets(10_000), Duration::from_micros(10), 1);
    let mut inputs = ["left", "right"].map(|name| (Rng::fork(4, name), 0.0f64));
    let (mut wait, n) = (0.0, 400_000);
    let mut collect = |switch: &mut Switch<Vec<u8>>, now| {
        while let Some((at, port, packet)) = switch.poll_at(now) {
            let sent = u64::from_be_bytes(packet[..8].try_into().expect("eight bytes"));
            wait += at.as_nanos() as f64 - sent as f64 - 10_000.0 - 122_080.0;
            assert_eq!(port, 2);
        }
    };
    for _ in 0..n {
        let next = usize::from(inputs[1].1 < inputs[0].1);
        let (rng, at) = &mut inputs[next];
        let now = Instant::from_nanos(*at as u64);
        *at += rng.exponential() * service / 0.4;
        collect(&mut switch, now);
        let mut packet = vec![0; 1500];
        packet[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        assert!(switch.offer(now, 2, packet).is_none());
    }
    collect(&mut switch, Instant::from_nanos(u64::MAX));
    let mean = wait / f64::from(n) / service;
    // Standard error about 1 % (see theory.rs); one queue per input, each at ρ = .4, would wait a third of S.
    assert!((mean / 2.0 - 1.0).abs() < 0.03, "{mean} services");
}

#[test]
fn a_switch_that_is_full_drops_and_counts() {
    let mut switch = Switch::new(&[ETHERNET_10; 2], QueueLimit::Packets(5), Duration::from_micros(10), 1);
    for n in 0..200u64 {
        let now = Instant::from_micros(n * 100);
        assert!(switch.offer(now, 1, vec![0; 1500]).is_none());
        while switch.poll_at(now).is_some() {}
        assert!(switch.counters(1).expect("a port").balances());
    }
    // 20 ms at 1.2304 ms a frame: 16 sent, one being sent, five wait, the last is still in the fabric.
    let counters = switch.counters(1).expect("a port");
    assert_eq!((counters.delivered, counters.queued, counters.in_flight), (16, 6, 1));
    assert_eq!(counters.overflowed, 200 - 16 - 6 - 1);
}

#[test]
fn ports_of_a_switch_that_drop_early_draw_apart() {
    let limit = QueueLimit::Drd(crate::spec::DrdSpec { min: 2, max: 20 });
    let mut switch = Switch::new(&[ETHERNET_10; 2], limit, Duration::ZERO, 1);
    let mut left = [Vec::new(), Vec::new()];
    for n in 0..2000u32 {
        let now = Instant::from_micros(u64::from(n) * 600);
        for to in [0, 1] {
            assert!(switch.offer(now, to, n.to_be_bytes().to_vec().repeat(300)).is_none());
        }
        while let Some((_, port, packet)) = switch.poll_at(now) {
            left[port].push(packet);
        }
    }
    assert!(left[0].len() > 1000 && left[0] != left[1]);
}
