//! The user-space TCP compared with theory and with measurements of a kernel's.

#[path = "common/pair.rs"]
mod pair;

use std::time::Duration;

use antiphon_core::Instant;
use antiphon_lab::tcp::{LossDetection, Profile, Segment, Stats, Tcp};
use antiphon_link::{DuplexSpec, Packet, Queue, QueueLimit};
use pair::Pair;
use proptest::prelude::*;

fn spec(text: &str) -> DuplexSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Waits an hour: at 13 % loss a handshake whose last acknowledgement is lost takes 93 s with a first RTO of 3 s, doubled.
fn connected(near: Profile, far: Profile, link: &str, seed: u64) -> Pair {
    let mut pair = Pair::new(near, far, &spec(link), seed).expect("a link");
    for ms in (100..3_600_000).step_by(100) {
        pair.run_until(Instant::from_millis(ms));
        if pair.near.is_established() && pair.far.is_established() {
            return pair;
        }
    }
    panic!("no connection over {link}, seed {seed}");
}

/// Delays, ms, of `count` frames of `len` bytes, one each 5 ms, read as soon as they are there.
fn frame_delays(profile: Profile, link: &str, seed: u64, len: usize, count: usize) -> Vec<f64> {
    let mut pair = connected(profile, profile, link, seed);
    let start = pair.now();
    let due = |k: usize| start + Duration::from_millis(5) * k as u32;
    let (frame, mut buf) = (vec![7u8; len], vec![0u8; 65_536]);
    let (mut written, mut read, mut delays) = (0, 0, Vec::new());
    while delays.len() < count {
        let next_message = (written < count).then(|| due(written));
        let at = pair.poll_timeout().into_iter().chain(next_message).min().expect("something happens");
        pair.step(at);
        if next_message.is_some_and(|next| next <= at) {
            assert_eq!(pair.near.write(at, &frame), len, "the buffer holds it");
            written += 1;
        }
        read += pair.far.read(at, &mut buf);
        pair.transmit();
        while delays.len() < read / len {
            delays.push(at.since(due(delays.len())).as_secs_f64() * 1e3);
        }
    }
    delays
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

fn delays_over_seeds(profile: Profile, loss: &str, len: usize, seeds: u64) -> Vec<f64> {
    let link = format!("delay=20ms,up.loss={loss}");
    (1..=seeds).flat_map(|seed| frame_delays(profile, &link, seed, len, 2000)).collect()
}

#[test]
fn small_frames_wait_as_long_as_with_a_kernel() {
    // 160 bytes every 5 ms, 20 ms each way, losses in the direction of the data. The figures are of a Linux kernel over
    // a router with the same settings: two measurements, 25 and 23.3 ms at 1 % (CUBIC), 41 and 53 ms at 5 %, and
    // 48 ms for Reno at 5 %. (One run of 20 s varies by its losses: ours from 36 to 55 ms over 16 seeds.) Within 25 % of the nearer of the two; a TCP that waits for a time-out at each loss is at
    // 84 and 156 ms (see below).
    for (profile, loss, least, most) in [
        (Profile::linux(), "1%", 23.3 * 0.75, 25.0 * 1.25),
        (Profile::linux(), "5%", 41.0 * 0.75, 53.0 * 1.25),
        (Profile::linux_reno(), "5%", 48.0 * 0.75, 48.0 * 1.25),
    ] {
        let delays = delays_over_seeds(profile, loss, 160, 8);
        let mean = mean(&delays);
        println!(
            "{:?} {loss}: mean {mean:.1} p50 {:.1} p95 {:.1} p99 {:.1} max {:.1} ms",
            profile.algorithm,
            quantile(&delays, 0.5),
            quantile(&delays, 0.95),
            quantile(&delays, 0.99),
            quantile(&delays, 1.0)
        );
        assert!((least..most).contains(&mean), "{:?} {loss}: {mean}", profile.algorithm);
    }
}

#[test]
fn breaking_the_recovery_would_be_noticed() {
    // Test of the instrument: a TCP that detects losses by time-outs alone is far outside the bounds above.
    let broken = Profile {
        loss_detection: LossDetection::DupAcks,
        dup_threshold: u32::MAX,
        tail_loss_probe: false,
        ..Profile::linux()
    };
    for (loss, bound) in [("1%", 25.0 * 1.25), ("5%", 53.0 * 1.25)] {
        let mean = mean(&delays_over_seeds(broken, loss, 160, 4));
        println!("time-outs alone, {loss}: mean {mean:.1} ms");
        assert!(mean > 1.2 * bound, "{loss}: {mean}");
    }
}

#[test]
fn large_frames_collapse_under_cubic_at_five_per_cent() {
    // 960 bytes every 5 ms (1.5 Mbit/s of PCM): the kernel's mean delay grew to seconds, with the window too small.
    let delays = delays_over_seeds(Profile::linux(), "5%", 960, 4);
    println!("960 bytes, CUBIC, 5 %: mean {:.0} ms, p99 {:.0}", mean(&delays), quantile(&delays, 0.99));
    assert!(mean(&delays) > 500.0, "{}", mean(&delays));
}

/// Segments per second, and the mean window, of a greedy flow in `seconds` after `warm` seconds.
fn bulk(profile: Profile, link: &str, seed: u64, warm: u64, seconds: u64) -> (f64, f64, Pair) {
    let mut pair = connected(profile, profile, link, seed);
    let (bytes, mut buf) = (vec![1u8; 1 << 16], vec![0u8; 1 << 16]);
    let start = pair.now();
    let (mut at_warm, mut windows, mut samples) = (0, 0.0, 0.0);
    let mut next_sample = start + Duration::from_secs(warm);
    let end = next_sample + Duration::from_secs(seconds);
    loop {
        while pair.near.write(pair.now(), &bytes) > 0 {}
        while pair.far.read(pair.now(), &mut buf) > 0 {}
        pair.transmit();
        let at = pair.poll_timeout().expect("a greedy flow never rests");
        if at >= end {
            break;
        }
        while at >= next_sample {
            at_warm = if samples == 0.0 { pair.near.stats().acknowledged_bytes } else { at_warm };
            windows += pair.near.stats().cwnd;
            samples += 1.0;
            next_sample += Duration::from_millis(10);
        }
        pair.step(at);
    }
    let bytes = pair.near.stats().acknowledged_bytes - at_warm;
    (bytes as f64 / 1448.0 / seconds as f64, windows / samples, pair)
}

/// Plain Reno with an acknowledgement for every segment, as the law assumes.
fn plain_reno() -> Profile {
    let mut profile = Profile::linux_reno();
    profile.delayed_ack.timeout = Duration::ZERO;
    Profile { send_buffer: 4 << 20, receive_buffer: 4 << 20, ..profile }
}

#[test]
fn reno_obeys_the_inverse_square_root_law() {
    // Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (CCR 1997):
    // W = 1.22 / √p segments per round trip. With losses i.i.d. the constant holds for small p; halving by 0.7 instead
    // of 0.5 would be 60 % above, one segment per two round trips 30 % below.
    for (loss, seconds) in [(0.001, 600), (0.003, 300), (0.01, 300), (0.02, 300)] {
        let link = format!("delay=20ms,up.loss={}%", loss * 100.0);
        let (rate, _, pair) = bulk(plain_reno(), &link, 11, 10, seconds);
        let law = 1.22 / (0.040 * f64::sqrt(loss));
        let stats = pair.near.stats();
        println!(
            "p {loss}: {rate:.0} segments/s, law {law:.0}, ratio {:.3}; time-outs {} recoveries {} undone {}",
            rate / law,
            stats.timeouts,
            stats.fast_recoveries,
            stats.undone
        );
        assert!((rate / law - 1.0).abs() < 0.15, "p = {loss}: {rate} against {law}");
    }
}

fn profiles() -> [Profile; 7] {
    let nagle = Profile { no_delay: false, sack: false, timestamps: false, ..Profile::linux() };
    [
        Profile::linux(),
        Profile::linux_reno(),
        Profile::linux_2_6_cubic(),
        Profile::linux_2_6_reno(),
        Profile::linux_2_4(),
        Profile::windows_xp(),
        nagle,
    ]
}

/// Sends `bytes` both ways and closes; returns what each end heard and the figures of both.
fn exchange(
    profile: Profile,
    link: &str,
    seed: u64,
    bytes: &[u8],
) -> (Vec<u8>, Vec<u8>, Stats, Stats, Instant) {
    let mut pair = connected(profile, profile, link, seed);
    let (mut sent, mut heard) = ([0, 0], [Vec::new(), Vec::new()]);
    let mut buf = [0; 4096];
    // As for the handshake: retransmissions back off to two minutes.
    let limit = pair.now() + Duration::from_secs(3600);
    loop {
        let now = pair.now();
        for (k, end) in [&mut pair.near, &mut pair.far].into_iter().enumerate() {
            // In portions of uneven size, so that segments are too.
            let portion = bytes.len().min(sent[k] + 700 + 37 * k);
            sent[k] += end.write(now, &bytes[sent[k]..portion]);
            if sent[k] == bytes.len() {
                end.close(now);
            }
            while end.readable() > 0 {
                let n = end.read(now, &mut buf);
                heard[k].extend_from_slice(&buf[..n]);
            }
        }
        pair.transmit();
        let done = |end: &Tcp| end.is_finished() && end.peer_finished();
        if done(&pair.near) && done(&pair.far) {
            break;
        }
        let at = pair
            .poll_timeout()
            .unwrap_or_else(|| panic!("asleep: {link}, seed {seed}, {:?}", pair.near.stats()));
        assert!(at < limit, "no end in an hour: {link}, seed {seed}, {:?}", pair.near.stats());
        pair.step(at);
    }
    let [near, far] = heard;
    (near, far, pair.near.stats(), pair.far.stats(), pair.now())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Loss, reordering, duplication and damage together: every byte once and in order, both ways, with every profile.
    #[test]
    fn every_byte_arrives_once_and_in_order(
        which in 0usize..7, seed in any::<u64>(), loss in 0u32..15, reorder in 0u32..20, twice in 0u32..10,
        corrupt in 0u32..4, buffer in 600usize..20_000, len in 1usize..60_000,
    ) {
        let mut profile = Profile { receive_buffer: buffer, send_buffer: buffer / 2 + 300, ..profiles()[which] };
        profile.retries = 60;
        profile.syn_retries = 30;
        let link = format!("delay=10ms,loss={loss}%,reorder={reorder}%/8ms,duplicate={twice}%,corrupt={corrupt}%");
        let bytes: Vec<u8> = (0..len).map(|n| (n * 31 + n / 251) as u8).collect();
        let (near, far, ..) = exchange(profile, &link, seed, &bytes);
        prop_assert!(near == bytes && far == bytes);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let bytes: Vec<u8> = (0..200_000).map(|n| n as u8).collect();
    let run = |seed| exchange(Profile::linux(), "delay=10ms,loss=3%", seed, &bytes);
    let (first, second, other) = (run(5), run(5), run(6));
    assert!(first == second);
    assert!(first.4 != other.4, "another seed is another run");
    // The impairments did occur.
    assert!(first.2.retransmitted_segments > 0 && first.3.retransmitted_segments > 0);
}

/// A segment of one of two flows through a common bottleneck.
struct Tagged(usize, Segment);

impl Packet for Tagged {
    fn wire_len(&self) -> usize {
        self.1.wire_size()
    }

    fn priority(&self) -> Option<u16> {
        self.1.priority()
    }
    fn duplicate(&self) -> Self {
        Tagged(self.0, self.1.duplicate())
    }
    fn flip_bit(&mut self, bit: u64) {
        self.1.flip_bit(bit);
    }
}

/// Bytes of two greedy flows in the last 100 of 120 s through 10 Mbit/s and 50 packets of queue, 20 ms each way; the
/// second begins two seconds after the first.
fn shared_bottleneck(profile: Profile) -> [f64; 2] {
    let mut queue: Queue<Tagged> =
        Queue::new(Some("10Mbit/s".parse().expect("a rate")), QueueLimit::Packets(50), None, 1);
    let mut flows = [0, 1].map(|_| (Tcp::connect(profile), Tcp::accept(profile)));
    let mut wire: Vec<(Instant, bool, Tagged)> = Vec::new();
    let (bytes, mut buf) = (vec![0; 65_536], vec![0; 65_536]);
    let delay = Duration::from_millis(20);
    let (warm, end) = (Instant::from_millis(20_000), Instant::from_millis(120_000));
    let (mut now, mut at_warm) = (Instant::ZERO, None);
    while now < end {
        while let Some((done, tagged)) = queue.poll(now) {
            wire.push((done + delay, true, tagged));
        }
        while let Some(index) = wire.iter().position(|entry| entry.0 <= now) {
            let (_, up, Tagged(k, segment)) = wire.remove(index);
            let (near, far) = &mut flows[k];
            if up {
                far.handle_segment(now, segment)
            } else {
                near.handle_segment(now, segment)
            };
            while let Some(segment) = far.poll_transmit(now) {
                wire.push((now + delay, false, Tagged(k, segment)));
            }
        }
        for (k, (near, far)) in flows.iter_mut().enumerate() {
            if k == 1 && now < Instant::from_millis(2000) {
                continue;
            }
            near.handle_timeout(now);
            far.handle_timeout(now);
            near.write(now, &bytes);
            while far.read(now, &mut buf) > 0 {}
            while let Some(segment) = far.poll_transmit(now) {
                wire.push((now + delay, false, Tagged(k, segment)));
            }
            while let Some(segment) = near.poll_transmit(now) {
                queue.offer(now, Tagged(k, segment));
            }
        }
        let ends =
            flows.iter().flat_map(|(near, far)| near.poll_timeout().into_iter().chain(far.poll_timeout()));
        let due = ends.chain(queue.poll_timeout()).chain(wire.iter().map(|entry| entry.0)).min();
        // The second flow's start is an event, too.
        let due = due.expect("greedy").max(now + Duration::from_nanos(1));
        now = if now < Instant::from_millis(2000) {
            due.min(Instant::from_millis(2000).max(now + Duration::from_nanos(1)))
        } else {
            due
        };
        if now >= warm && at_warm.is_none() {
            at_warm = Some([0, 1].map(|k| flows[k].0.stats().acknowledged_bytes));
        }
    }
    let before = at_warm.unwrap_or_default();
    [0, 1].map(|k| (flows[k].0.stats().acknowledged_bytes - before[k]) as f64)
}

#[test]
fn two_flows_share_a_bottleneck() {
    for profile in [Profile::linux_reno(), Profile::linux()] {
        let got = shared_bottleneck(profile);
        let jain = (got[0] + got[1]).powi(2) / (2.0 * (got[0].powi(2) + got[1].powi(2)));
        // 1448 of 1500 bytes are payload.
        let used = (got[0] + got[1]) * 8.0 / 100.0 / (10e6 * 1448.0 / 1500.0);
        println!("{:?}: Jain's index {jain:.3}, use {used:.3}", profile.algorithm);
        // One flow starved would be 0.5, twice the share of the other 0.9.
        assert!(jain > 0.9, "{:?}: {got:?}", profile.algorithm);
        // A queue of the size of the path's 42 packets keeps the link busy through a halving.
        assert!((0.95..=1.0001).contains(&used), "{used}");
    }
}
