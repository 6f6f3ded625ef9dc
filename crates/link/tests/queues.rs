//! Shaper, policer, RED and DRD as parts of a link, against closed forms.

use std::time::Duration;

use antiphon_core::{Instant, Rng};
use antiphon_link::{Link, LinkSpec};

fn link(text: &str) -> Link<Vec<u8>> {
    let spec: LinkSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Link::new(&spec, 1).expect("a possible link")
}

/// Results of a run.
struct Seen {
    /// When each delivered packet was offered, and when it left.
    out: Vec<(Instant, Instant)>,
    /// Mean number of packets waiting when a packet arrives, without the one being sent; in the settled state.
    found: f64,
    link: Link<Vec<u8>>,
}

/// Offers `n` packets of `len` bytes, `gap` nanoseconds apart on average, evenly or at random (Poisson).
fn run(text: &str, n: u32, len: usize, gap: f64, poisson: bool) -> Seen {
    let mut link = link(text);
    let mut rng = Rng::fork(5, "arrivals");
    let (mut at, mut out, mut found) = (0.0, Vec::new(), 0);
    let collect = |link: &mut Link<Vec<u8>>, now, out: &mut Vec<(Instant, Instant)>| {
        while let Some((when, packet)) = link.poll_at(now) {
            let sent = u64::from_be_bytes(packet[..8].try_into().expect("eight bytes"));
            out.push((Instant::from_nanos(sent), when));
        }
    };
    let settled = n / 10;
    for k in 0..n {
        at += if poisson { rng.exponential() * gap } else { gap };
        let now = Instant::from_nanos(at as u64);
        collect(&mut link, now, &mut out);
        found += if k >= settled { link.counters().queued.saturating_sub(1) } else { 0 };
        let mut packet = vec![0; len];
        packet[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        link.offer(now, packet);
    }
    while let Some(now) = link.poll_timeout() {
        collect(&mut link, now, &mut out);
    }
    assert!(link.counters().balances());
    Seen { out, found: found as f64 / f64::from(n - settled), link }
}

#[test]
fn a_full_shaper_delays_by_its_limit_over_the_rate() {
    // The three routers of the study of selective retransmission: limit, rate, and delay when full, as printed there.
    for (limit, kbit, printed) in [(30_000, 295, 0.81), (130_000, 295, 3.53), (70_000, 255, 2.20)] {
        // Datagrams of 1024 bytes with their headers: 1052. The sources send at twice the rate.
        let gap = 1052.0 * 8e6 / (2.0 * f64::from(kbit));
        let text = format!("rate={kbit}kbit/s/3kB,queue={limit}B");
        let Seen { out, .. } = run(&text, 2000, 1052, gap, false);
        let exact = f64::from(limit) * 8.0 / (f64::from(kbit) * 1e3);
        assert!((exact - printed).abs() < 0.006, "{exact}");
        // An accepted packet finds the queue less than one packet short of its limit; the first one lacks fewer tokens
        // than its own length: two packets of 29 to 33 ms each. A limit counted without the new packet, or a bucket
        // that lets a packet start before its tokens are there, would be off by one in the other direction.
        let packet = 1052.0 * 8.0 / (f64::from(kbit) * 1e3);
        for (sent, left) in &out[1000..] {
            let delay = left.since(*sent).as_secs_f64();
            assert!(delay <= exact && delay > exact - 2.0 * packet, "{text}: {delay} s, not {exact} s");
        }
    }
}

#[test]
fn a_shaper_lets_its_depth_through_and_then_keeps_to_its_rate() {
    // Ten packets of 1500 bytes at once, a bucket of 4500: three leave at once, the others 1.5 ms apart at 8 Mbit/s.
    let Seen { out, .. } = run("rate=8Mbit/s/4500B", 10, 1500, 0.0, false);
    for (n, (_, left)) in out.iter().enumerate() {
        assert_eq!(*left, Instant::from_micros((n as u64).saturating_sub(2) * 1500));
    }
    // Over any time no more than r t + b; here after 300 000 packets at 1.3 times the rate, in bytes at 1 byte a µs.
    let Seen { out, link, .. } = run("rate=8Mbit/s/4500B,queue=20kB", 300_000, 500, 250_000.0, true);
    let mut lowest = f64::MAX;
    for (n, (_, left)) in out.iter().enumerate() {
        let credit = left.as_nanos() as f64 * 1e-3;
        lowest = lowest.min(n as f64 * 500.0 - credit);
        let passed = (n + 1) as f64 * 500.0;
        assert!(passed - credit - lowest <= 4500.0 + 1e-3, "{passed} bytes by {left:?}");
    }
    // In overload it always sends: since the first packet all of r t + b has been used.
    let worked = out[out.len() - 1].1.since(out[0].0).as_nanos() as f64 * 1e-3;
    let passed = link.counters().delivered_bytes as f64;
    assert!((passed - worked - 4500.0).abs() < 1.0, "{passed} in {worked} µs");
}

#[test]
fn a_bucket_without_a_queue_is_a_policer() {
    let text = "rate=8Mbit/s/4500B,queue=0packets";
    let Seen { out, link, .. } = run(text, 100_000, 500, 250_300.0, false);
    assert!(out.iter().all(|(sent, left)| sent == left), "a policer delays nothing");
    // Overloaded by a factor of two it passes r t + b since the first packet, less the rest in the bucket: under a
    // packet.
    let bound = out[out.len() - 1].1.since(out[0].0).as_nanos() as f64 * 1e-3 + 4500.0;
    let passed = link.counters().delivered_bytes as f64;
    assert!(passed <= bound && passed > bound - 500.0, "{passed} of {bound}");
    // A packet longer than the bucket's depth never passes, and takes no tokens.
    let Seen { out, .. } = run(text, 10, 4501, 1e9, false);
    assert!(out.is_empty());
}

#[test]
fn an_overloaded_drd_queue_rests_where_it_drops_the_excess() {
    // Twice the rate: half is dropped, p(q) = 0.5 at q = 10 + 40 × 0.4/0.85 = 28.8 packets. Levels counted with the
    // packet being sent would give 27.8, dropping evenly from 0 % 30.0; p is linear, so fluctuations cancel. Standard error 0.05:
    // a variance of 10 over some 24 services of memory in 200 000.
    let Seen { found, link, .. } = run("rate=1Mbit/s,queue=drd/10/50", 400_000, 125, 500_000.0, true);
    let counters = link.counters();
    let share = counters.dropped_early as f64 / counters.offered as f64;
    assert!((share - 0.5).abs() < 0.002, "{share}");
    assert!((found - 28.82).abs() < 0.2, "{found}");
}

#[test]
fn a_loaded_red_queue_rests_where_it_drops_the_excess() {
    // 1.2 times the rate, evenly spaced: one packet in six is dropped, 2 p_b/(1 + p_b) = 1/6, so p_b = 1/11 and the queue
    // rests at 5 + 100 × 0.4545 = 50.45 packets. Dropping independently, p_b = 1/6, it would rest at 88; counting one
    // packet more between drops, 2 p_b = 1/6, at 46.7.
    let Seen { found, link, .. } = run("rate=1Mbit/s,queue=red/5/105/20%", 400_000, 125, 1e6 / 1.2, false);
    let counters = link.counters();
    let share = counters.overflowed as f64 / counters.offered as f64;
    assert!((share - 1.0 / 6.0).abs() < 0.001, "{share}");
    assert!((found - 50.45).abs() < 1.0, "{found}");
    assert_eq!(counters.dropped_early, counters.overflowed);
}

#[test]
fn early_drops_are_drawn_apart_from_everything_else() {
    let lost = |text: &str| run(text, 20_000, 125, 500_000.0, false).link.stages()[0].1.overflowed;
    let alone = lost("rate=1Mbit/s,queue=drd/10/50");
    assert!(alone > 9000);
    assert_eq!(lost("rate=1Mbit/s,queue=drd/10/50,loss=10%/3,duplicate=5%,jitter=1ms,reorder=2%/5ms"), alone);
}

/// Packets of 125 bytes, one each 0.5 ms, into 1 Mbit/s, where one takes 1 ms: when they leave.
fn departures(place: &str) -> Vec<u64> {
    let text = format!("rate=1Mbit/s,queue=20000packets,loss=20%{place}");
    let Seen { out, link, .. } = run(&text, 20_000, 125, 500_000.0, false);
    // 20 % within four deviations of 20 000 draws.
    assert!(link.counters().lost.abs_diff(4000) < 4 * 57, "{:?}", link.counters());
    out.into_iter().map(|(_, left)| left.as_nanos()).collect()
}

#[test]
fn a_packet_lost_before_the_queue_takes_no_time_of_the_link() {
    // The others follow each other without a pause, and it is over so much sooner.
    let left = departures("/before-queue");
    assert!(left.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    // Behind the queue a lost packet leaves a hole: about one distance in five is longer.
    let behind = departures("");
    assert_eq!(behind.len(), left.len(), "the same packets are lost");
    let holes = behind.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
    assert!((2900..3500).contains(&holes), "runs of lost packets, 4000 x 0.8: {holes}");
    assert!(behind[behind.len() - 1] > left[left.len() - 1] + 3_000_000_000);
}

#[test]
fn a_packet_lost_before_the_queue_takes_no_place_in_it() {
    // 2.5 packets come in the time that one takes, and 60 % are lost: the rest is what the link carries, so that a queue of 50 is
    // seldom full. Lost behind the queue, 60 % would find it full.
    let overflowed = |place: &str| {
        let text = format!("rate=1Mbit/s,queue=50packets,loss=60%{place}");
        run(&text, 50_000, 125, 420_000.0, false).link.counters().overflowed
    };
    assert!(overflowed("/before-queue") < 500, "{}", overflowed("/before-queue"));
    assert!(overflowed("") > 28_000, "{}", overflowed(""));
}

#[test]
fn random_loss_before_derivative_random_drop_leaves_it_the_rest() {
    // Twice the rate, a tenth lost before: 1.8 times the rate come, and the excess of 0.8/1.8 is dropped where
    // 0.10 + 0.85 (q - 10)/40 says so: q = 26.2. Lost behind the queue it would be half, at q = 28.8.
    let Seen { found, link, .. } =
        run("rate=1Mbit/s,queue=drd/10/50,loss=10%/before-queue", 400_000, 125, 5e5, true);
    let [(_, loss), (_, queue), ..] = link.stages();
    let share = queue.overflowed as f64 / queue.offered as f64;
    assert!((share - 0.8 / 1.8).abs() < 0.005, "{share}");
    assert!((loss.lost as f64 / 4e5 - 0.1).abs() < 0.002, "{loss:?}");
    let expected = 10.0 + 40.0 * (0.8 / 1.8 - 0.10) / 0.85;
    assert!((found - expected).abs() < 0.8, "{found}, not {expected}");
}

#[test]
fn granted_room_is_kept_by_queues_that_drop_early() {
    for text in
        ["rate=1Mbit/s,queue=red/5/15/100%", "rate=1Mbit/s,queue=drd/5/15", "rate=1Mbit/s/2kB,queue=drd/5/15"]
    {
        let mut link = link(text);
        let (mut taken, mut refused) = (0, 0);
        for ms in 0..4000 {
            let now = Instant::from_millis(ms);
            while link.poll(now).is_some() {}
            while link.has_room(now, 1000) {
                assert!(link.offer(now, vec![0; 1000]).is_none(), "{text}");
                taken += 1;
            }
            refused += 1;
        }
        // Full rate, with a queue of 15 and one being sent.
        assert!((500..=520).contains(&taken) && refused == 4000, "{text}: {taken}");
        assert!((15..=16).contains(&link.counters().queued), "{:?}", link.counters());
        // The result is a promise for one packet, not for later ones.
        let mut dropped = 0;
        for _ in 0..1000 {
            dropped += u32::from(link.offer(Instant::from_millis(4000), vec![0; 100]).is_some());
        }
        assert!(dropped > 100, "{text}: {dropped}");
    }
}

#[test]
fn a_caller_that_waits_is_woken_by_the_link() {
    // As in the byte-stream proxy: a packet that finds no room is tried again only when the link is due.
    for queue in ["100packets", "3kB", "64B", "0packets", "red/5/15/10%", "drd/5/15"] {
        let mut link = link(&format!("rate=1Mbit/s/2kB,queue={queue}"));
        let (mut now, mut taken) = (Instant::ZERO, 0);
        while now < Instant::from_millis(10_000) {
            while link.has_room(now, 1488) {
                assert!(link.offer(now, vec![0; 1250]).is_none(), "{queue}");
                taken += 1;
            }
            now = link.poll_timeout().expect("a caller that waits would wait for ever");
            while link.poll(now).is_some() {}
        }
        // 10 ms each; in the queue 100 at most.
        assert!((1000..1105).contains(&taken), "{queue}: {taken}");
    }
}

#[test]
fn a_shaper_with_stalls_keeps_to_both() {
    let Seen { out, link, .. } =
        run("rate=8Mbit/s/4500B,queue=20kB,stall=5ms/50ms", 100_000, 500, 400_000.0, true);
    assert!(out.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    // A stall of 5 ms on average delays waiting packets; it speeds up none.
    let waits = out.iter().filter(|(sent, left)| left.since(*sent) > Duration::from_millis(20)).count();
    assert!(waits > 100, "{waits}");
    let bound = out.last().expect("some").1.as_nanos() as f64 * 1e-3 + 4500.0;
    assert!((link.counters().delivered_bytes as f64) < bound);
}
