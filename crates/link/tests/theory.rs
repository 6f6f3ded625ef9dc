//! Whole links against closed forms. Every tolerance is tighter than the smallest fault it must catch.

use std::time::Duration;

use antiphon_core::{BitRate, Instant, Ratio, Rng};
use antiphon_link::{
    Alternation, Chance, Duplex, DuplexSpec, Link, LinkSpec, Loss, LossModel, PRESETS, Reorder, ReorderSpec,
};

fn spec(text: &str) -> LinkSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn link(text: &str, seed: u64) -> Link<Vec<u8>> {
    Link::new(&spec(text), seed).expect("a possible link")
}

/// A packet that holds its number.
fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![0; len];
    packet[..4].copy_from_slice(&n.to_be_bytes());
    packet
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[..4].try_into().expect("four bytes"))
}

/// All delivered packets: when, and which.
fn drain(link: &mut Link<Vec<u8>>) -> Vec<(Instant, u32)> {
    let mut out = Vec::new();
    while let Some(at) = link.poll_timeout() {
        while let Some((when, packet)) = link.poll_at(at) {
            assert_eq!(when, at, "what is polled on time leaves on time");
            out.push((when, number(&packet)));
        }
    }
    out
}

#[test]
fn a_packet_alone_takes_serialisation_and_propagation() {
    // 1500 bytes at 20 Mbit/s: 600 µs, then 10 ms.
    let mut link = link("rate=20Mbit/s,delay=10ms", 1);
    link.offer(Instant::from_millis(3), numbered(7, 1500));
    assert_eq!(drain(&mut link), [(Instant::from_micros(13_600), 7)]);
}

#[test]
fn poisson_arrivals_wait_as_pollaczek_and_khinchine_say() {
    // M/D/1 at utilisation ρ: mean wait W = S ρ/(2 (1-ρ)). 125 bytes at 1 Mbit/s: S = 1 ms.
    for (rho, tolerance) in [(0.5, 0.02), (0.8, 0.03)] {
        let mut link = link("rate=1Mbit/s,queue=30000packets", 1);
        let mut rng = Rng::fork(77, "arrivals");
        let (mut at, mut sent, mut wait) = (0.0, Vec::new(), 0.0);
        let n = 400_000u32;
        for k in 0..n {
            at += rng.exponential() * 1e6 / rho;
            let now = Instant::from_nanos(at as u64);
            while let Some((when, packet)) = link.poll_at(now) {
                wait += when.since(sent[number(&packet) as usize]).as_secs_f64() - 0.001;
            }
            sent.push(now);
            assert!(link.offer(now, numbered(k, 125)).is_none());
        }
        for (when, k) in drain(&mut link) {
            wait += when.since(sent[k as usize]).as_secs_f64() - 0.001;
        }
        let expected = 0.001 * rho / (2.0 * (1.0 - rho));
        let mean = wait / n as f64;
        // Waits are correlated over some 1/(1-ρ)² services, so the standard error is about 0.4 % (1 % at ρ = .8).
        // Exponential instead of fixed service times would double the figure.
        assert!((mean / expected - 1.0).abs() < tolerance, "ρ {rho}: {mean} s, not {expected} s");
    }
}

#[test]
fn a_full_queue_delays_by_its_limit_over_the_rate() {
    // 100 packets of 1250 bytes at 10 Mbit/s: 1 ms each. In overload a packet that gets in finds at most 100 waiting,
    // one in service; it leaves 100 to 101 ms after its arrival plus its own 1 ms.
    for queue in ["queue=100packets", "queue=125kB"] {
        let mut link = link(&format!("rate=10Mbit/s,{queue}"), 1);
        let (mut delays, mut sent) = (Vec::new(), Vec::new());
        for k in 0..20_000u32 {
            // Twice the link's rate, not in phase with it.
            let now = Instant::from_nanos(u64::from(k) * 500_300);
            sent.push(now);
            while let Some((when, packet)) = link.poll_at(now) {
                delays.push(when.since(sent[number(&packet) as usize]));
            }
            link.offer(now, numbered(k, 1250));
        }
        let settled = &delays[2_000..];
        // One packet more or less in the queue is 1 ms.
        let (least, most) = (settled.iter().min().expect("some"), settled.iter().max().expect("some"));
        assert!(
            *least > Duration::from_millis(100) && *most <= Duration::from_millis(101),
            "{least:?} {most:?}"
        );
        let counters = link.counters();
        assert!(counters.balances() && counters.overflowed.abs_diff(10_000) < 120, "{counters:?}");
    }
}

/// Which of 20 000 packets, sent every 5 ms through the link, are lost.
fn lost(text: &str, seed: u64) -> Vec<u32> {
    let mut link = link(text, seed);
    let mut arrived = vec![false; 20_000];
    for k in 0..20_000 {
        let now = Instant::from_millis(u64::from(k) * 5);
        link.offer(now, numbered(k, 200));
        while let Some(packet) = link.poll(now) {
            arrived[number(&packet) as usize % 20_000] = true;
        }
    }
    for (_, k) in drain(&mut link) {
        arrived[k as usize % 20_000] = true;
    }
    (0..20_000).filter(|k| !arrived[*k as usize]).collect()
}

#[test]
fn elements_do_not_change_each_others_draws() {
    let alone = lost("loss=5%/3", 42);
    assert!((700..1400).contains(&alone.len()), "the losses happened: {}", alone.len());
    for more in [
        "delay=20ms,jitter=5ms/pareto",
        "rate=1Mbit/s,queue=1000packets",
        "duplicate=10%",
        "reorder=10%/8ms",
        "stall=20ms/1s,queue=1000packets",
        "rate=1Mbit/s,queue=1000packets,delay=3ms,jitter=1ms/normal,stall=20ms/1s,reorder=1%/20ms,duplicate=1%",
    ] {
        assert_eq!(lost(&format!("loss=5%/3,{more}"), 42), alone, "{more}");
    }
    assert_ne!(lost("loss=5%/3", 43), alone);
}

#[test]
fn elements_of_one_seed_are_independent() {
    // Two elements that shared their random numbers would both act on the same packets, always or never: in 10 % or 0 %
    // of all cases, not 1 %.
    let (share, n) = (Ratio(0.1), 200_000u64);
    let spec = ReorderSpec { share, hold: Duration::ZERO };
    let mut loss = Loss::new(LossModel::Independent(share), 3);
    let mut duplication = Chance::new("duplicate", share, 3);
    let mut corruption = Chance::new("corrupt", share, 3);
    let mut reorder: Reorder<Vec<u8>> = Reorder::new(Some(spec), 3);
    let struck: Vec<[bool; 4]> = (0..n)
        .map(|n| {
            let now = Instant::from_micros(n * 300);
            let corrupt = corruption.strikes_bit(now).is_some();
            [loss.strikes(now), duplication.strikes(now), corrupt, reorder.strikes(now)]
        })
        .collect();
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        let both = struck.iter().filter(|strikes| strikes[a] && strikes[b]).count() as f64;
        let sigma = (0.01 * 0.99 / n as f64).sqrt();
        assert!((both / n as f64 - 0.01).abs() < 4.0 * sigma, "{a} and {b}: {both}");
    }
}

#[test]
fn jitter_never_reorders_and_reordering_does() {
    let order = |text: &str| {
        let mut link = link(text, 9);
        let mut out = Vec::new();
        for k in 0..20_000u32 {
            let now = Instant::from_micros(u64::from(k) * 700);
            link.offer(now, numbered(k, 100));
            while let Some(packet) = link.poll(now) {
                out.push(number(&packet));
            }
        }
        out.extend(drain(&mut link).into_iter().map(|(_, k)| k));
        assert_eq!(out.len(), 20_000);
        out.windows(2).filter(|pair| pair[0] > pair[1]).count()
    };
    for shape in ["uniform", "exponential", "normal", "pareto"] {
        assert_eq!(order(&format!("delay=5ms,jitter=9ms/{shape},stall=5ms/100ms,queue=10000packets")), 0);
    }
    // 1 % of 20 000, each overtaken by some seven packets.
    assert!(order("delay=5ms,jitter=500us/uniform,reorder=1%/5ms") > 150);
}

/// One second of 1000 packets each way, as text: everything that a caller can see.
fn trace(spec: &DuplexSpec, seed: u64) -> String {
    let mut duplex: Duplex<Vec<u8>> = Duplex::new(spec, seed).expect("a possible link");
    let mut seen = String::new();
    for k in 0..1000u32 {
        let now = Instant::from_millis(u64::from(k));
        for direction in antiphon_link::Direction::ALL {
            duplex.offer(now, direction, numbered(k, 300));
        }
        while let Some((direction, packet)) = duplex.poll(now) {
            seen += &format!("{now:?} {} {packet:?}\n", direction.name());
        }
    }
    for link in [&duplex.up, &duplex.down] {
        assert!(link.counters().balances());
        seen += &format!("{:?}", link.stages());
    }
    seen
}

#[test]
fn runs_repeat_exactly_and_directions_differ() {
    let mut text =
        String::from("rate=5Mbit/s,delay=5ms,jitter=2ms/pareto,stall=5ms/100ms,loss=5%/3,reorder=2%/3ms");
    text += ",duplicate=2%,corrupt=2%";
    let both = spec(&text);
    let spec = DuplexSpec { up: both, down: both };
    assert_eq!(trace(&spec, 5), trace(&spec, 5));
    assert_ne!(trace(&spec, 5), trace(&spec, 6));
    let mut duplex: Duplex<Vec<u8>> = Duplex::new(&spec, 5).expect("possible");
    let lost = |link: &mut Link<Vec<u8>>| {
        (0..1000).for_each(|k| drop(link.offer(Instant::ZERO, numbered(k, 100))));
        drain(link).into_iter().map(|(_, k)| k).collect::<Vec<_>>()
    };
    assert_ne!(lost(&mut duplex.up), lost(&mut duplex.down));
}

#[test]
fn the_home_is_as_its_description_says() {
    // Ten minutes of 48 kHz audio in 256-frame packets, one way.
    let home = PRESETS.iter().find(|preset| preset.name == "wifi-home").expect("there is one");
    let mut link = Link::new(&home.spec().up, 3).expect("possible");
    let (mut sent, mut delays) = (Vec::new(), Vec::new());
    let n = 112_500u32;
    for k in 0..n {
        let now = Instant::from_nanos(u64::from(k) * 5_333_333);
        sent.push(now);
        link.offer(now, numbered(k, 1064));
        while let Some((when, packet)) = link.poll_at(now) {
            delays.push(when.since(sent[number(&packet) as usize]));
        }
    }
    delays.sort();
    let at = |share: f64| delays[(delays.len() as f64 * share) as usize];
    let lost = link.counters().lost as f64 / n as f64;
    // Few are lost, the median is that of a good network, the tail is heavy.
    assert!((0.002..0.008).contains(&lost), "{lost}");
    assert!(at(0.5) < Duration::from_millis(2), "{:?}", at(0.5));
    let (p99, p999) = (at(0.99), at(0.999));
    assert!((5.0..20.0).contains(&(p99.as_secs_f64() * 1e3)), "{p99:?}");
    assert!((25.0..90.0).contains(&(p999.as_secs_f64() * 1e3)), "{p999:?}");
}

#[test]
fn impossible_fields_are_refused_by_the_link_itself() {
    let zero = LinkSpec { rate: Some(BitRate(0)), ..LinkSpec::default() };
    assert!(Link::<Vec<u8>>::new(&zero, 1).is_err());
    let share = LinkSpec { duplicate: Ratio(1.01), ..LinkSpec::default() };
    assert!(Link::<Vec<u8>>::new(&share, 1).is_err());
}

/// A second of 20 ms without loss, a second of 50 ms and 20 % loss, and so on: a packet each 10 ms for 400 s.
#[test]
fn an_alternating_link_has_each_delay_and_loss_in_its_own_periods() {
    let with = Alternation {
        every: Duration::from_secs(1),
        delay: Duration::from_millis(50),
        loss: LossModel::Independent(Ratio(0.2)),
    };
    let mut link = Link::alternating(&spec("delay=20ms"), with, 7).expect("possible");
    let mut came = Vec::new();
    for n in 0..40_000u32 {
        let now = Instant::from_millis(10 * u64::from(n));
        assert!(link.offer(now, numbered(n, 100)).is_none());
        while let Some((at, packet)) = link.poll_at(now) {
            came.push((number(&packet), at));
        }
    }
    came.extend(drain(&mut link).into_iter().map(|(at, n)| (n, at)));
    let is_other = |n: u32| n / 100 % 2 == 1;
    for (n, at) in &came {
        // Four packets after each change back wait for the last one of 50 ms, which may be lost.
        let waits = !is_other(*n) && n % 100 < 3 && *n >= 100;
        let delay = at.since(Instant::from_millis(10 * u64::from(*n))).as_millis();
        assert!(
            if is_other(*n) { delay == 50 } else { delay == 20 || waits && delay < 50 },
            "{n}: {delay} ms"
        );
    }
    let lost = 20_000 - came.iter().filter(|(n, _)| is_other(*n)).count();
    assert_eq!(came.iter().filter(|(n, _)| !is_other(*n)).count(), 20_000);
    // 4000, with a standard deviation of 57; 1 % more or less would be 200.
    assert!((3_830..=4_170).contains(&lost), "{lost}");
    let refused = Link::<Vec<u8>>::alternating(
        &spec("delay=20ms"),
        Alternation { delay: Duration::from_secs(61), ..with },
        7,
    );
    assert!(refused.is_err_and(|error| error.to_string().contains("at most 60s")));
}
